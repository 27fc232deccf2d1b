//! What is told about a batch: before it runs and after it ended. Pure: values in, text and JSON out.

pub mod check;
