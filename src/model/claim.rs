//! What an agent says that it did. A claim is not a fact: `evidence` says what was checked of it.

use serde_json::{Map, Value};

use super::id::Attempt;

/// The two things a result can say. Every spelling that the seeds use maps to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimStatus {
    Success,
    #[default]
    Failure,
}

/// A result file's content, valid by construction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claim {
    /// The name that the result gives its task: key or task id.
    pub task_id: String,
    pub status: ClaimStatus,
    /// Which attempt it speaks for; `None` is legal, and *unfenced* from the second attempt on.
    pub attempt: Option<Attempt>,
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    pub commits: Vec<Value>,
    pub prps_generated: Vec<Value>,
    pub errors: Vec<String>,
    pub tokens_used: Option<u64>,
    pub elapsed_seconds: Option<f64>,
    /// What the agent counted: lines of code, tests and their like.
    pub metrics: Map<String, Value>,
    /// What it says of the criteria of success, by name: `true`, `false`, or a value.
    pub criteria: Map<String, Value>,
}

impl Claim {
    /// Every file that the claim says was made or changed.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.files_created.iter().chain(&self.files_modified)
    }
}
