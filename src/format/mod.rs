//! Files to model and back: strict JSON, the shapes of every file on the bus, JSON Schemas.
//!
//! Pure: bytes in, values out. What is wrong comes back as defects, all at once.

mod check;
pub mod heartbeat;
pub mod json;
mod ordered;
pub mod output;
pub mod result;
pub mod schema;
pub mod settings;
pub mod shape;
pub mod spec;
pub mod take;
pub mod wish;

pub use check::Report;
pub use shape::Shape;
