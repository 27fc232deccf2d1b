//! What a task made: what a machine saw where one looked, with the agent's own list beside it.

use serde::Serialize;
use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::evidence::Verdict;

/// What a task brought about.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Made {
    pub(super) created: Vec<String>,
    pub(super) modified: Vec<String>,
    pub(super) deleted: Vec<String>,
    pub(super) commits: Vec<Value>,
    /// Files beyond those that are listed.
    pub(super) more: u64,
}

/// What the agent says that it made.
#[derive(Debug, Clone, Serialize)]
pub struct Reported {
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    pub files_deleted: Vec<String>,
    pub commits: Vec<Value>,
}

impl Made {
    /// As it was observed. Journals of versions before 0.2 have the agent's word alone.
    pub(super) fn of(verdict: Option<&Verdict>, claim: Option<&Claim>) -> Made {
        match (verdict.and_then(|verdict| verdict.brought.as_ref()), claim) {
            (Some(brought), _) => Made {
                created: brought.created.clone(),
                modified: brought.modified.clone(),
                deleted: brought.deleted.clone(),
                commits: brought.commits.iter().map(|id| id.as_str().into()).collect(),
                more: brought.more,
            },
            (None, Some(claim)) => Made {
                created: claim.files_created.clone(),
                modified: claim.files_modified.clone(),
                deleted: claim.files_deleted.clone(),
                commits: claim.commits.clone(),
                more: 0,
            },
            (None, None) => Made::default(),
        }
    }
}

impl Reported {
    pub(super) fn of(claim: &Claim) -> Reported {
        Reported {
            files_created: claim.files_created.clone(),
            files_modified: claim.files_modified.clone(),
            files_deleted: claim.files_deleted.clone(),
            commits: claim.commits.clone(),
        }
    }
}
