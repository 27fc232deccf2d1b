//! Files to model and back: strict JSON, the shapes of every file on the bus, JSON Schemas.
//!
//! Pure: bytes in, values out. What is wrong comes back as defects, all at once.

pub mod json;
