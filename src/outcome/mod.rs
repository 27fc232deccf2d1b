//! What came of a batch, told as files and texts: the batch result, the summary, stories, the ledger.
//!
//! All pure: a state and the claims that it names go in, values and texts come out.

pub mod status;
