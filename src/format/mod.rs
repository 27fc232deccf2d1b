//! Files to model and back: strict JSON, the shapes of every file on the bus, JSON Schemas.
//!
//! Pure: bytes in, values out. What is wrong comes back as defects, all at once.

pub mod agents;
mod check;
pub mod criteria;
pub mod ctxp;
pub mod handoff;
pub mod heartbeat;
pub mod json;
mod json_mistake;
pub mod merge_papers;
pub mod order;
mod ordered;
pub mod output;
pub mod prompt;
pub mod report;
pub mod result;
pub mod schema;
pub mod settings;
pub mod shape;
pub mod spec;
pub mod take;
pub mod transcript;
pub mod wish;

pub use check::Report;
pub(crate) use check::{is_invisible, join, shortened};
pub use shape::Shape;
