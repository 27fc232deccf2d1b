//! Trees that agents work in: reading them, keeping their contents, the checkpoint before a batch, and the way
//! back to it.
//!
//! Paths of every manifest here stand below `/`, and links are never followed. What may be written, and when,
//! is decided elsewhere. Whatever changes the disk does so through `operations`.

pub mod capture;
pub mod checkpoint;
mod descriptors;
pub mod difference;
mod displaced;
pub mod operations;
pub mod scan;
pub mod scope;
pub mod shown;
pub mod store;
pub mod undo;

pub use capture::{Captured, capture};
pub use checkpoint::Checkpoint;
pub use descriptors::{Seen, absolute};
pub use difference::{Changed, difference};
pub use displaced::Displaced;
pub use operations::{Hand, Hindrance, Operation};
pub use scan::{LeftOut, Scan, WhyLeftOut, rescan, scan};
pub use scope::Scope;
pub use store::{Contents, Store};
