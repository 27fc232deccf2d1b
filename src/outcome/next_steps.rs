//! What to do after a batch, computed from what came of it: first what stands in the way, then what is left.

use crate::model::evidence::Grade;
use crate::model::handoff::MergeStatus;
use crate::model::state::BatchState;
use crate::view::handoff::{Stage, next_step, open_conflicts};
use crate::view::waiting::{blocked_by, labels};
use crate::view::words::{counted, listed_at_most};

use super::aggregate::BatchResult;
use super::summary::label_of;

/// Failed tasks that get a step of their own.
const CAUSES_LISTED_MAX: usize = 5;
const FILES_LISTED_MAX: usize = 4;

/// The steps in the order in which they are best taken.
pub fn next_steps(state: &BatchState, result: &BatchResult) -> Vec<String> {
    if Stage::of(state).is_under_way() {
        return vec![format!("Wait for the batch to end: wk status {}", state.batch.id)];
    }
    let mut steps: Vec<String> = merge_step(state).into_iter().collect();
    steps.extend(unconfirmed(state));
    steps.extend(causes(state, result));
    let open: Vec<&str> = result
        .conflicts
        .iter()
        .filter(|conflict| !conflict.ordered)
        .map(|conflict| conflict.file.as_str())
        .collect();
    if !open.is_empty() {
        steps.push(format!(
            "Resolve by hand what several tasks changed: {}",
            listed_at_most(&open, FILES_LISTED_MAX)
        ));
    }
    steps.extend(review(result));
    if result.evidence == Some(Grade::Claimed) {
        steps.push("Check by hand what is only claimed, or demand more next time (require)".to_owned());
    }
    if !result.late.is_empty() {
        steps.push(format!("Look at {} that came too late", counted(result.late.len(), "result")));
    }
    if !result.skipped_tasks.is_empty() {
        let count = counted(result.skipped_tasks.len(), "blocked task");
        steps.push(format!(
            "Once the cause is mended: wk retry --failed {} (with it {count})",
            state.batch.id
        ));
    }
    if steps.is_empty() {
        steps.push(format!("Read the whole story: wk report {}", state.batch.id));
    }
    steps
}

/// What stands between the agents' work and the merged whole.
fn merge_step(state: &BatchState) -> Option<String> {
    let merged = state.handoff.as_ref()?.merged.as_ref()?;
    if let Some(command) = next_step(state) {
        let count = counted(open_conflicts(merged), "conflict");
        return Some(format!("Say what becomes of {count}: {command}"));
    }
    match merged.status {
        MergeStatus::Failure | MergeStatus::AwaitsResolution => {
            Some(format!("See why nothing was merged: wk report {} --as execution", state.batch.id))
        }
        MergeStatus::Success | MergeStatus::Skipped => None,
    }
}

/// What may still run although its task has ended.
fn unconfirmed(state: &BatchState) -> impl Iterator<Item = String> {
    state.tasks.iter().filter_map(|task| {
        let doubt = task.unconfirmed()?;
        let address = format!("{}/{}", state.batch.id, task.spec.key);
        Some(format!("See that nothing of {address} still runs: {}", doubt.why))
    })
}

/// One step for each task that failed by itself, with what it took down.
fn causes(state: &BatchState, result: &BatchResult) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for task_id in result.failed_tasks.iter().take(CAUSES_LISTED_MAX) {
        let Some(ix) = state.find(task_id) else { continue };
        let blocked = blocked_by(state, ix);
        let besides = match blocked.len() {
            0 => String::new(),
            1..=3 => format!(" (it blocks {})", labels(state, &blocked)),
            many => format!(" (it blocks {})", counted(many, "task")),
        };
        let address = format!("{}/{}", state.batch.id, state.key(ix));
        steps.push(format!("See why {} failed: wk why {address}{besides}", label_of(state, task_id)));
    }
    if result.failed_tasks.len() > CAUSES_LISTED_MAX {
        let count = counted(result.failed_tasks.len() - CAUSES_LISTED_MAX, "further failure");
        steps.push(format!("Likewise for {count}: wk status {}", state.batch.id));
    }
    steps
}

fn review(result: &BatchResult) -> Vec<String> {
    let files: Vec<&str> = result.files_created.union(&result.files_modified).map(String::as_str).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let commit = match result.commits.len() {
        0 => "Commit changes".to_owned(),
        count => {
            let verb = if count == 1 { "was" } else { "were" };
            format!(
                "Commit changes that are not committed yet ({} {verb} reported)",
                counted(count, "commit")
            )
        }
    };
    vec![format!("Review generated files: {}", listed_at_most(&files, FILES_LISTED_MAX)), commit]
}
