//! The state of a batch: the fold of its journal.
