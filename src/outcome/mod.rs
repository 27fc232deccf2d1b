//! What is told about a batch, before it runs and after it ended: checks, the batch result, the summary,
//! stories, the ledger, what a client gets back.
//!
//! All pure: a state and the claims that it names go in, values and texts come out.

pub mod aggregate;
pub mod check;
pub mod conflict;
pub mod evidence;
pub mod handoff;
pub mod ledger;
pub mod made;
pub mod news;
pub mod next_steps;
pub mod remedy;
mod sentence;
pub mod standing;
pub mod status;
pub mod story;
pub mod summary;
pub mod task_result;
pub mod timeline;
