//! The receipt of a merge: one line for every change of every agent, with what became of it. Says what
//! happened; whether it is true is for `audit` to find out.

use serde::Serialize;

use crate::model::handoff::MergeKind;
use crate::model::tree::{Digest, Entry, TreePath};

/// Stands for an agent's name where a person's own content took its place.
pub const PERSON: &str = "(person)";

/// What an agent did to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Edited,
    Deleted,
    /// Nothing but its permission bits.
    Mode,
    /// The same bytes under another name.
    Renamed,
    /// Brought as it was found, or told and no change.
    Unchanged,
}

impl ChangeKind {
    pub fn of(base: Option<&Entry>, theirs: Option<&Entry>) -> Self {
        match (base, theirs) {
            (None, None) => ChangeKind::Unchanged,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(base), Some(theirs)) if base == theirs => ChangeKind::Unchanged,
            (Some(Entry::File { sha256: before, .. }), Some(Entry::File { sha256: after, .. }))
                if before == after =>
            {
                ChangeKind::Mode
            }
            (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => ChangeKind::Mode,
            (Some(_), Some(_)) => ChangeKind::Edited,
        }
    }
}

/// Why another version stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// The later agent had this version before it and changed it on.
    BeganFromIt,
    /// `merge_strategy.priority` names the other agent first.
    Priority,
    /// A person chose.
    Resolution,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Fate {
    /// It stands as the agent made it.
    Kept,
    /// It stands together with the changes of others.
    Merged {
        with: Vec<String>,
    },
    Superseded {
        by: String,
        because: Because,
    },
    Dropped {
        rule: &'static str,
    },
    /// It waits for a person.
    Escalated {
        conflict: String,
    },
}

/// One change of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub agent: String,
    /// Where the agent made it.
    pub path: TreePath,
    pub change: ChangeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<TreePath>,
    pub fate: Fate,
    /// Where it stands in the merged tree.
    pub place: TreePath,
    /// What stands there now: of a file its bytes, of a link its target.
    pub digest: Option<Digest>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The rule by which nothing follows from what a copy lacks.
pub const PERHAPS_NEVER_COPIED: &str = "perhaps_never_copied";

impl Line {
    /// Something that was given, and is not in the agent's copy: it may have been deleted there.
    pub fn of_absence(agent: &str, path: TreePath, place: TreePath, digest: Option<Digest>) -> Line {
        let (agent, change) = (agent.to_owned(), ChangeKind::Deleted);
        let fate = Fate::Dropped { rule: PERHAPS_NEVER_COPIED };
        Line { agent, path, change, renamed_from: None, fate, place, digest, notes: Vec::new() }
    }
}

/// Something in the merged tree that no agent made alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Made {
    pub path: TreePath,
    pub by: &'static str,
    pub digest: Option<Digest>,
    /// A person's content that went into it, where it does not stand by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Digest>,
}

/// What made it: a directory that holds what agents wrote, …
pub const MADE_AS_PARENT: &str = "parent_directory";
/// … a person's word on a conflict, …
pub const MADE_BY_RESOLUTION: &str = "resolution";
/// … the united graph, …
pub const MADE_BY_UNION: &str = "ctxpack_union";
/// … the report.
pub const MADE_BY_AGGREGATION: &str = "report_aggregation";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub changes: usize,
    pub kept: usize,
    pub merged: usize,
    pub superseded: usize,
    pub dropped: usize,
    pub escalated: usize,
}

/// `receipt.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    pub execution_id: String,
    pub merged_at: String,
    pub strategy: MergeKind,
    pub totals: Totals,
    pub lines: Vec<Line>,
    pub made: Vec<Made>,
}

impl Receipt {
    /// Two spaces a level, and a newline at the end.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

pub fn totals(lines: &[Line]) -> Totals {
    let mut totals = Totals { changes: lines.len(), ..Totals::default() };
    for line in lines {
        let count = match line.fate {
            Fate::Kept => &mut totals.kept,
            Fate::Merged { .. } => &mut totals.merged,
            Fate::Superseded { .. } => &mut totals.superseded,
            Fate::Dropped { .. } => &mut totals.dropped,
            Fate::Escalated { .. } => &mut totals.escalated,
        };
        *count += 1;
    }
    totals
}
