//! Watchkeeper: batches of work by agents, with the file system as the message bus.

pub mod bus;
pub mod decide;
pub mod face;
pub mod format;
pub mod graph;
pub mod intake;
pub mod model;
pub mod outcome;
pub mod verify;
pub mod view;
pub mod watcher;
