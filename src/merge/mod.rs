//! How the outputs of several agents become one tree.
//!
//! `plan` folds the contributions in topological order to a tree, a receipt and conflicts, without touching a
//! disk. What it calls ready, `publish` puts in place at once or not at all. Nothing here starts agents,
//! knows the bus or asks a person.

mod aggregate;
pub mod audit;
mod by_key;
pub mod conflict;
pub mod contents;
pub mod contribution;
mod dependency;
mod fold;
mod graph;
mod json;
pub mod lines;
mod markdown;
mod plan;
mod publish;
pub mod receipt;
mod rename;
mod settle;
mod shape;
pub mod strategy;
mod take_back;
mod three_way;
pub mod tree_disk;
mod union;
mod unite;
mod validate;

pub use conflict::{Conflict, ConflictReport};
pub use contents::{ContentStore, InMemory};
pub use contribution::{Beside, Contribution};
pub use graph::is_graph_name;
pub use plan::{Conflicted, Invalid, Merge, MergeError, Planned, plan};
pub use publish::{Published, publish, recover, remove};
pub use receipt::Receipt;
pub use strategy::Occasion;
pub use take_back::take_back;
pub use three_way::MERGED_BYTES_MAX;
pub use tree_disk::{RealTreeDisk, TreeDisk};
pub use validate::Finding;
