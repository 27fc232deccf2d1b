//! What people see of a batch: one vocabulary, one snapshot for every face, the dashboard.
//!
//! Everything here is a function of values; the time and the width of the terminal are arguments.
//! Only `model` is below it: `outcome` tells its reports in these words too.

pub mod dashboard;
pub mod defects;
pub mod escape;
pub mod handoff;
pub mod snapshot;
pub mod status_file;
pub mod waiting;
pub mod words;

#[cfg(test)]
pub(crate) mod scene;

pub use dashboard::{Look, dashboard};
pub use snapshot::{Counts, Live, LiveTask, Mode, Snapshot, TaskView};
pub use words::Word;
