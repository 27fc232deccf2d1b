//! What both dialects say of a batch as a whole: how it ended, why, on what evidence, and what validation came to.

use crate::model::clock::WallTime;
use crate::model::event::BatchStatus;
use crate::model::evidence::{About, Finding, Grade, Verdict};
use crate::model::handoff::{MergeOutcome, MergeStatus};
use crate::model::reason::Reason;
use crate::model::state::{BatchState, Outcome, TaskIx};
use crate::view::handoff::{Stage, open_conflicts};

/// How the batch ended; `None` while it goes on. What waits for a person is a failure until that person
/// has spoken: the client asked for an answer, not for a wait.
pub(super) fn status(state: &BatchState) -> Option<BatchStatus> {
    match (state.finished, Stage::of(state)) {
        (Some((status, _)), _) => Some(status),
        (None, Stage::AwaitingResolution | Stage::Finished) => Some(state.status()),
        (None, Stage::Preparing | Stage::Running | Stage::Merging) => None,
    }
}

pub(super) fn status_word(state: &BatchState) -> &'static str {
    status(state).map_or("running", BatchStatus::word)
}

/// When the batch came to what the report tells.
pub(super) fn ended_at(state: &BatchState) -> Option<WallTime> {
    status(state)?;
    let merged_at = || state.handoff.as_ref()?.works.last()?.ended_at;
    let last_task = || state.tasks.iter().filter_map(|task| task.ended_at).max();
    state.finished.map(|(_, at)| at).or_else(merged_at).or_else(last_task)
}

pub(super) fn merged(state: &BatchState) -> Option<&MergeOutcome> {
    state.handoff.as_ref()?.merged.as_ref()
}

/// Why it is no success, by a stable name for programs.
pub(super) fn reason_code(state: &BatchState) -> Option<&'static str> {
    match status(state)? {
        BatchStatus::Success => None,
        BatchStatus::Cancelled => Some("cancelled"),
        BatchStatus::Timeout => Some("batch_timeout"),
        BatchStatus::Failure | BatchStatus::PartialSuccess => {
            let handoff = state.handoff.as_ref();
            if handoff.is_some_and(|handoff| handoff.not_prepared.is_some()) {
                return Some("not_prepared");
            }
            let by_whole = failed_validation(state).map(|_| "validation_failed");
            Some(merged(state).and_then(merge_code).or(by_whole).unwrap_or("agents_failed"))
        }
    }
}

/// Why the whole is not as it must be, though everybody did their part.
pub(super) fn failed_validation(state: &BatchState) -> Option<(TaskIx, &Reason)> {
    let mut validations = state.tasks.iter().enumerate().filter(|(_, task)| task.spec.is_validation());
    validations.find_map(|(ix, task)| match task.outcome()? {
        Outcome::Failed(reason) | Outcome::TimedOut(reason) => Some((ix, reason)),
        Outcome::Succeeded | Outcome::Skipped(_) | Outcome::Cancelled(_) => None,
    })
}

/// Why a merge failed, if it did.
pub(super) fn merge_code(merged: &MergeOutcome) -> Option<&'static str> {
    match merged.status {
        MergeStatus::Success | MergeStatus::Skipped => None,
        MergeStatus::AwaitsResolution => Some("merge_conflict"),
        MergeStatus::Failure if open_conflicts(merged) > 0 => Some("merge_conflict"),
        MergeStatus::Failure if validated(merged) == Some(false) => Some("validation_failed"),
        MergeStatus::Failure => Some("merge_failed"),
    }
}

/// Whether the merged whole passed what it had to; `None` where nothing was asked or nothing reached.
pub(super) fn validated(merged: &MergeOutcome) -> Option<bool> {
    let by_checks = (!merged.checks.is_empty()).then(|| merged.checks.iter().all(|check| check.met));
    match (merged.validation_passed, by_checks) {
        (Some(tree), Some(checks)) => Some(tree && checks),
        (tree, checks) => tree.or(checks),
    }
}

/// `passed` only where everything succeeded and a machine looked at something; `failed` where one look found
/// otherwise; else nothing was validated.
pub(super) fn validation_word(state: &BatchState) -> &'static str {
    let is_required = |finding: &&Finding| finding.about != About::Claim;
    let verdicts = state.tasks.iter().filter_map(|task| task.collected.as_ref());
    let verdicts: Vec<&Verdict> = verdicts.map(|collected| &collected.verdict).collect();
    let of_tasks = || verdicts.iter().flat_map(|verdict| &verdict.findings).filter(is_required);
    let of_whole = merged(state).and_then(validated);
    let is_something = |merged: &MergeOutcome| {
        !merged.checks.is_empty() || !merged.merged_files.is_empty() || merged.merged_ctxpack.is_some()
    };
    // A tree with nothing in it passes every rule, and nobody has looked at anything.
    let was_whole_looked_at = of_whole.is_some() && merged(state).is_some_and(is_something);
    let was_looked_at = was_whole_looked_at || of_tasks().any(|finding| finding.grade > Grade::Claimed);
    let is_asked_for = state.batch.handoff.as_ref().is_none_or(|handoff| handoff.verify);
    if of_whole == Some(false) || of_tasks().any(|finding| !finding.met) {
        "failed"
    } else if was_looked_at && is_asked_for && status(state) == Some(BatchStatus::Success) {
        "passed"
    } else {
        "skipped"
    }
}
