//! Watchkeeper: batches of work by agents, with the file system as the message bus.

pub mod bus;
pub mod decide;
pub mod format;
pub mod model;
pub mod verify;
