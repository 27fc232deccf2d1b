//! Files that several tasks say they made or changed.
//!
//! Tasks that ran one after the other because the plan orders them build on each other; only where
//! nothing orders them may one have overwritten the other. Both are listed, and told apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::model::claim::Claim;
use crate::model::state::{BatchState, TaskIx};

/// One file and the tasks that claim it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    pub file: String,
    pub tasks: Vec<String>,
    /// Each of the tasks depends, directly or not, on the one before: nothing needs to be resolved.
    pub ordered: bool,
}

/// All of them, by file.
pub fn conflicts(state: &BatchState, claims: &HashMap<TaskIx, Claim>) -> Vec<Conflict> {
    let mut claimants: BTreeMap<&str, BTreeSet<TaskIx>> = BTreeMap::new();
    for (ix, claim) in claims {
        for file in claim.files() {
            claimants.entry(file.as_str()).or_default().insert(*ix);
        }
    }
    let shared = claimants.into_iter().filter(|(_, tasks)| tasks.len() > 1);
    shared
        .map(|(file, tasks)| Conflict {
            file: file.to_owned(),
            tasks: tasks.iter().map(|ix| state.tasks[*ix].spec.task_id.clone()).collect(),
            ordered: are_ordered(state, &tasks),
        })
        .collect()
}

/// Whether the tasks form one chain of dependencies.
fn are_ordered(state: &BatchState, tasks: &BTreeSet<TaskIx>) -> bool {
    let mut chain: Vec<TaskIx> = tasks.iter().copied().collect();
    chain.sort_by_key(|ix| state.tasks[*ix].spec.stage);
    chain.windows(2).all(|pair| depends_on(state, pair[1], pair[0]))
}

fn depends_on(state: &BatchState, later: TaskIx, earlier: TaskIx) -> bool {
    let mut seen: BTreeSet<TaskIx> = BTreeSet::new();
    let mut to_visit = vec![later];
    while let Some(ix) = to_visit.pop() {
        if ix == earlier {
            return true;
        }
        let above = state.tasks[ix].spec.dependencies.iter().filter_map(|key| state.find(key.as_str()));
        to_visit.extend(above.filter(|found| seen.insert(*found)));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scene::Scene;

    #[test]
    fn two_tasks_side_by_side_conflict_and_two_in_a_row_are_ordered() {
        let mut scene = Scene::of("1; 2a<-1; 2b<-1", "");
        scene.claim("1", &["src/a.rs"], &[], 0);
        scene.claim("2a", &[], &["src/a.rs", ".ce/config.yml"], 0);
        scene.claim("2b", &[], &[".ce/config.yml", ".ce/config.yml"], 0);
        let found = conflicts(&scene.state, &scene.claims);
        let expected = [
            Conflict {
                file: ".ce/config.yml".into(),
                tasks: vec!["phase-2a".into(), "phase-2b".into()],
                ordered: false,
            },
            Conflict {
                file: "src/a.rs".into(),
                tasks: vec!["phase-1".into(), "phase-2a".into()],
                ordered: true,
            },
        ];
        assert_eq!(found, expected);
    }
}
