//! Watchkeeper: batches of work by agents, with the file system as the message bus.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::unwrap_used,
        reason = "the rules of the house; what each forbids, and what to do instead, stands in .clippy.toml"
    )
)]

pub mod agent;
pub mod bus;
pub mod decide;
pub mod face;
pub mod format;
pub mod graph;
pub mod intake;
pub mod merge;
pub mod model;
pub mod outcome;
pub mod rehearse;
pub mod verify;
pub mod view;
pub mod watcher;
pub mod work_tree;
