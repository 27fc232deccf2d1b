//! What a runner found around a handed-over attempt: which outputs are there, what the agent changed, which
//! criteria are met.

use serde::{Deserialize, Serialize};

use super::evidence::Finding;
use super::tree::{Entry, TreePath};

/// What `inspected.json` of an attempt holds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Inspected {
    pub findings: Vec<Finding>,
    /// What the agent changed in its outputs. Contents are kept by their digest.
    pub changes: Vec<Change>,
    /// Declared outputs that are as they were before, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untouched: Vec<String>,
    /// What in the outputs cannot be kept, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// One path that an agent changed, or brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Where it belongs among everything that is merged.
    pub path: TreePath,
    /// What stood there when the agent began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Entry>,
    /// What stood there when it had ended; `None`: the agent deleted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<Entry>,
}
