//! Watchkeeper: batches of work by agents, with the file system as the message bus.

pub mod format;
pub mod model;
pub mod outcome;
pub mod view;
