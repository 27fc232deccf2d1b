//! Agents as processes: how they are launched, the runner that is the parent of each of them, the trees that
//! they grow into, and the secrets in what they print.
//!
//! Nothing here decides about a task. What happened is told in files and values, and the watcher judges.

pub mod begun;
pub mod directory;
mod environment;
pub mod foreground;
pub mod granted;
pub mod launcher;
pub mod local;
pub mod nursery;
pub mod redact;
pub mod runner;
pub mod runners;
pub mod surroundings;
pub mod tree;
pub mod veil;
