//! What each agent brings to a merge: its changes, and whose work it had seen when it made them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::inspected::Change;
use crate::model::tree::TreePath;

/// Everything that one agent changed. A merge takes contributions in topological order: an agent stands
/// after all it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contribution {
    pub who: String,
    pub depends_on: Vec<String>,
    pub changes: Vec<Change>,
    /// Paths of those that it brings as it found them: a base that is missing there says nothing about who
    /// made it.
    pub untouched: BTreeSet<TreePath>,
    /// What its copy of something given lacks, though nobody can tell whether it was deleted or never copied.
    pub lacks: BTreeSet<TreePath>,
    /// Files that changed while it and another agent worked side by side in one directory.
    pub side_by_side: BTreeMap<TreePath, Beside>,
}

/// What is known of a file that changed while several agents could have written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing tells which of them wrote it, or that more than one did.
    Unknown,
    /// Several of them wrote it, so what one of them wrote may be gone.
    Several,
}

/// Whose work each agent had seen: all it depends on, directly or not.
#[derive(Debug, Default)]
pub struct Ancestry {
    seen_by: BTreeMap<String, BTreeSet<String>>,
}

impl Ancestry {
    pub fn has_seen(&self, agent: &str, earlier: &str) -> bool {
        self.seen_by.get(agent).is_some_and(|seen| seen.contains(earlier))
    }
}

/// Checks what a merge takes for granted, and tells every defect.
pub fn ancestry(contributions: &[Contribution]) -> Result<Ancestry, Vec<String>> {
    let mut ancestry = Ancestry::default();
    let mut defects = Vec::new();
    for contribution in contributions {
        let who = &contribution.who;
        let mut seen = BTreeSet::new();
        for needed in &contribution.depends_on {
            match ancestry.seen_by.get(needed) {
                Some(earlier) => {
                    seen.extend(earlier.iter().cloned());
                    seen.insert(needed.clone());
                }
                None => defects.push(format!(
                    "agent {who:?} depends on {needed:?}, which does not stand before it; give the agents in topological order"
                )),
            }
        }
        if ancestry.seen_by.insert(who.clone(), seen).is_some() {
            defects.push(format!("agent {who:?} contributes twice; join its changes"));
        }
        if TreePath::parse(who.as_str()).is_none_or(|name| name.parent().is_some()) {
            defects.push(format!("agent {who:?} has a name that cannot be a directory; rename it"));
        }
        let mut paths = BTreeSet::new();
        for change in contribution.changes.iter().filter(|change| !paths.insert(&change.path)) {
            defects.push(format!("agent {who:?} changes {} twice; give its last state", change.path));
        }
    }
    if defects.is_empty() { Ok(ancestry) } else { Err(defects) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(who: &str, depends_on: &[&str]) -> Contribution {
        let depends_on = depends_on.iter().map(|name| (*name).to_owned()).collect();
        Contribution {
            who: who.to_owned(),
            depends_on,
            changes: Vec::new(),
            untouched: BTreeSet::new(),
            lacks: BTreeSet::new(),
            side_by_side: BTreeMap::new(),
        }
    }

    #[test]
    fn what_was_seen_reaches_through_dependencies() {
        let found = ancestry(&[agent("a", &[]), agent("b", &["a"]), agent("c", &["b"])]).unwrap();
        assert!(found.has_seen("c", "a") && !found.has_seen("a", "c"));
    }

    #[test]
    fn all_defects_of_an_order_are_told_at_once() {
        let defects = ancestry(&[agent("a", &["b"]), agent("b", &[]), agent("b", &[]), agent("x/y", &[])]);
        assert_eq!(defects.unwrap_err().len(), 3);
    }
}
