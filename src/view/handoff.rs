//! Where a handed-over batch stands beside its tasks: what is prepared, merged, or waits for a person.
//!
//! Read off the state alone, so that projections come out the same again.

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::TaskKey;
use crate::model::handoff::{ConflictBrief, HandoffState, MergeOutcome, MergeStatus, UndeclaredChange};
use crate::model::state::BatchState;

use super::words::{counted, listed, listed_at_most};

/// Conflicts that one line names; the rest is counted.
const CONFLICTS_NAMED_MAX: usize = 3;
/// Paths that one warning names; the rest is counted.
const PATHS_NAMED_MAX: usize = 8;
/// Digits of a hash by which people tell two apart.
const HASH_SHOWN: usize = 12;

/// How far a handed-over batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The workspace is made and the snapshot taken; no agent has begun.
    Preparing,
    Running,
    Merging,
    /// Conflicts wait for a person.
    AwaitingResolution,
    Finished,
}

impl Stage {
    /// Any batch has a stage; one that was not handed over is running or finished.
    pub fn of(state: &BatchState) -> Stage {
        if state.finished.is_some() {
            return Stage::Finished;
        }
        let Some(handoff) = &state.handoff else {
            return if state.is_settled() { Stage::Finished } else { Stage::Running };
        };
        let is_ready = handoff.prepared.is_some() || handoff.not_prepared.is_some();
        match &handoff.merged {
            _ if handoff.merging.is_some() => Stage::Merging,
            Some(_) if handoff.awaits_resolution() => Stage::AwaitingResolution,
            Some(_) => Stage::Finished,
            None if !is_ready && !state.is_settled() => Stage::Preparing,
            None => Stage::Running,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Stage::Preparing => "preparing",
            Stage::Running => "running",
            Stage::Merging => "merging",
            Stage::AwaitingResolution => "awaiting_resolution",
            Stage::Finished => "finished",
        }
    }

    /// Whether nobody but the watcher and the agents has anything to do yet.
    pub fn is_under_way(self) -> bool {
        matches!(self, Stage::Preparing | Stage::Running | Stage::Merging)
    }
}

/// The one line that a table has for it; `None` where the tasks say everything.
pub fn note(state: &BatchState) -> Option<String> {
    let handoff = state.handoff.as_ref()?;
    match Stage::of(state) {
        Stage::Preparing => Some("Preparing the workspace: no agent begins before it stands".to_owned()),
        Stage::Running => handoff.not_prepared.as_ref().map(|why| format!("Not prepared: {why}")),
        Stage::Merging => Some(merging(handoff)),
        Stage::AwaitingResolution => handoff.merged.as_ref().map(|merged| waiting(state, merged)),
        Stage::Finished => match (&handoff.merged, &handoff.not_prepared) {
            (Some(merged), _) => Some(format!("Merge: {}", outcome(merged))),
            (None, Some(why)) => Some(format!("Not prepared: {why}")),
            (None, None) => None,
        },
    }
}

fn merging(handoff: &HandoffState) -> String {
    match handoff.merging {
        Some(round) if round > 1 => format!("Merging what the agents made (round {round})"),
        _ => "Merging what the agents made".to_owned(),
    }
}

/// `2 conflicts wait for you: app.py and README.md; wk resolve exec-1`.
fn waiting(state: &BatchState, merged: &MergeOutcome) -> String {
    let paths: Vec<&str> = merged.conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
    let open = open_conflicts(merged);
    let verb = if open == 1 { "waits" } else { "wait" };
    let named = match paths.is_empty() {
        true => String::new(),
        false => format!(": {}", listed_at_most(&paths, CONFLICTS_NAMED_MAX)),
    };
    format!("{} {verb} for you{named}; {}", counted(open, "conflict"), resolve_command(state))
}

/// What a person calls to say what becomes of the conflicts, while that is asked.
pub fn next_step(state: &BatchState) -> Option<String> {
    (Stage::of(state) == Stage::AwaitingResolution).then(|| resolve_command(state))
}

fn resolve_command(state: &BatchState) -> String {
    command(state, &format!("resolve {}", state.batch.id))
}

/// A command of ours. Whoever stands in the workspace finds a bus that lies around it; any other has to be
/// named.
pub fn command(state: &BatchState, words: &str) -> String {
    let handoff = state.batch.handoff.as_ref();
    let bus = handoff.and_then(|handoff| Some((handoff.bus.as_deref()?, Path::new(&handoff.workspace))));
    match bus {
        Some((bus, workspace)) if !workspace.starts_with(bus) => {
            format!("wk --root {} {words}", as_one_word(bus))
        }
        _ => format!("wk {words}"),
    }
}

/// As a shell takes it for one word.
fn as_one_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What a reader of a green line should know of the merge and of the trees besides.
pub fn warnings(state: &BatchState) -> Vec<String> {
    let Some(merged) = state.handoff.as_ref().and_then(|handoff| handoff.merged.as_ref()) else {
        return Vec::new();
    };
    let mut told: Vec<String> = merged.warnings.clone();
    let mut by_author: BTreeMap<Option<&TaskKey>, Vec<String>> = BTreeMap::new();
    for change in &merged.undeclared.listed {
        by_author.entry(change.task.as_ref()).or_default().push(undeclared(change));
    }
    told.extend(by_author.into_iter().map(|(task, paths)| match task {
        Some(task) => {
            format!("{task} changed what it does not declare: {}", listed_at_most(&paths, PATHS_NAMED_MAX))
        }
        None => format!("changed, though nobody declares it: {}", listed_at_most(&paths, PATHS_NAMED_MAX)),
    }));
    if merged.undeclared.more > 0 {
        told.push(format!("{} changed undeclared", counted(merged.undeclared.more as usize, "more path")));
    }
    told
}

/// `src/app.py`, `src/old (wiped: 12 files)`.
pub fn undeclared(change: &UndeclaredChange) -> String {
    match change.wiped {
        Some(files) => format!("{} (wiped: {})", change.path, counted(files as usize, "file")),
        None => change.path.clone(),
    }
}

/// Conflicts of which nobody has said what becomes of them.
pub fn open_conflicts(merged: &MergeOutcome) -> usize {
    let counted = merged.conflicts_detected.saturating_sub(merged.conflicts_resolved) as usize;
    counted.max(merged.conflicts.len())
}

/// What a merge came to: `success: 3 outermost paths, 2 conflicts resolved, receipt 0a1b2c3d4e5f`.
pub fn outcome(merged: &MergeOutcome) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(merged.because.clone());
    if !merged.merged_files.is_empty() {
        parts.push(counted(merged.merged_files.len(), "outermost path"));
    }
    if merged.conflicts_resolved > 0 {
        parts.push(format!("{} resolved", counted(merged.conflicts_resolved as usize, "conflict")));
    }
    if open_conflicts(merged) > 0 {
        parts.push(format!("{} open", counted(open_conflicts(merged), "conflict")));
    }
    if let Some(hash) = &merged.receipt_sha256 {
        parts.push(format!("receipt {}", hash.get(..HASH_SHOWN).unwrap_or(hash)));
    }
    let word = match merged.status {
        MergeStatus::Success => "success",
        MergeStatus::AwaitsResolution => "waits for a person",
        MergeStatus::Failure => "failure",
        MergeStatus::Skipped => "skipped",
    };
    if parts.is_empty() { word.to_owned() } else { format!("{word}: {}", parts.join(", ")) }
}

/// `app.py (code-generator and fixer): both changed line 3`.
pub fn conflict(brief: &ConflictBrief) -> String {
    format!("{} ({}): {}", brief.path, listed(&brief.agents), brief.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Event;
    use crate::view::scene::{Scene, conflicted, handed_over, merged_well};

    #[test]
    fn a_handed_over_batch_goes_through_its_stages_one_at_a_time() {
        let mut scene = Scene::with("1", handed_over, "");
        let stage = |scene: &Scene| Stage::of(&scene.state).word();
        assert_eq!(stage(&scene), "preparing");
        scene.play("0 preparing\n1 prepared");
        assert_eq!(stage(&scene), "running");
        assert_eq!(note(&scene.state), None);
        scene.play("1 done 1 observed");
        assert_eq!(stage(&scene), "running");
        scene.play("61 merging 1");
        assert_eq!(stage(&scene), "merging");
        scene.happen(62.0, Event::Merged { round: 1, outcome: Box::new(conflicted()) });
        assert_eq!(stage(&scene), "awaiting_resolution");
        assert_eq!(note(&scene.state).unwrap(), "1 conflict waits for you: code/app.py; wk resolve 43");
        scene.play("90 merging 2");
        assert_eq!(note(&scene.state).unwrap(), "Merging what the agents made (round 2)");
        scene.happen(91.0, Event::Merged { round: 2, outcome: Box::new(merged_well()) });
        scene.play("91 finish success");
        assert_eq!(stage(&scene), "finished");
        assert_eq!(
            note(&scene.state).unwrap(),
            "Merge: success: 2 outermost paths, 1 conflict resolved, receipt 0a1b2c3d4e5f"
        );
    }

    #[test]
    fn a_bus_that_lies_elsewhere_is_named() {
        let told = |bus: &'static str| {
            let handed_over = move |batch: &mut crate::model::Batch| {
                handed_over(batch);
                batch.handoff.as_mut().unwrap().bus = Some(bus.to_owned());
            };
            let mut scene =
                Scene::with("1", handed_over, "0 preparing\n1 prepared\n1 done 1 observed\n2 merging 1");
            scene.happen(3.0, Event::Merged { round: 1, outcome: Box::new(conflicted()) });
            next_step(&scene.state).unwrap()
        };
        assert_eq!(told("/tmp/orchestration"), "wk resolve 43");
        assert_eq!(told("/srv/bus"), "wk --root /srv/bus resolve 43");
        assert_eq!(told("/srv/ann's bus"), r"wk --root '/srv/ann'\''s bus' resolve 43");
    }

    #[test]
    fn what_could_not_be_prepared_says_why() {
        let scene = Scene::with("1", handed_over, "0 preparing\n1 not_prepared no space left");
        assert_eq!(note(&scene.state).unwrap(), "Not prepared: no space left");
    }
}
