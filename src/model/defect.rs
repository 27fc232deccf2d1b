//! Something wrong with what somebody gave us: which file, where in it, which rule, and what to do.
//!
//! Defects are values and come in lists: a request is refused with all of them at once.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where in the input a defect sits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The whole file.
    File,
    Line(usize),
    LineColumn(usize, usize),
    /// A path into JSON: `phases[2].goal`.
    Field(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File => write!(f, "file"),
            Place::Line(line) => write!(f, "line {line}"),
            Place::LineColumn(line, column) => write!(f, "line {line}, column {column}"),
            Place::Field(path) => write!(f, "field {path}"),
        }
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// Stable name of the rule, for programs: `missing_field`.
    pub rule: String,
    pub place: Place,
    /// What is wrong, in the seed's words where it gives them.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Defect {
    pub fn new(rule: &str, place: Place, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), place, message: message.into(), remedy: remedy.into() }
    }

    /// A rule broken by a JSON field.
    pub fn field(rule: &str, path: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(rule, Place::Field(path.to_owned()), message, remedy)
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File => write!(f, "{}", self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}
