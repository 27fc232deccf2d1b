//! What a runner found around a handed-over attempt: which outputs are there, what the agent changed, which
//! criteria are met.

use serde::{Deserialize, Serialize};

use super::declared::DeclaredPlace;
use super::evidence::{Brought, Finding};
use super::tree::{Entry, TreePath};

/// What `inspected.json` of an attempt holds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Inspected {
    pub findings: Vec<Finding>,
    /// What became of the files that the task declares, where they are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<DeclaredPlace>,
    /// What the task was seen to make of its outputs, for people.
    #[serde(default, skip_serializing_if = "Brought::is_empty")]
    pub brought: Brought,
    /// What the agent changed in its outputs. Contents are kept by their digest.
    pub changes: Vec<Change>,
    /// What an earlier attempt made in a directory among the outputs, and this one left as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherited: Vec<TreePath>,
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
