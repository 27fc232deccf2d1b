//! The critical path as it was: the chain of work and waits that determined when the batch ended.

use serde::Serialize;

use crate::model::state::{BatchState, TaskIx, Try};
use crate::model::{TaskKey, WallTime};

use super::Rehearsal;

/// Why a try began when it did, and no earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// Nothing kept it.
    Nothing,
    /// This dependency succeeded last.
    Dependency(TaskIx),
    /// This task's attempt ended, and left its slot.
    Slot(TaskIx),
    /// This task ended, and left a file that both declare.
    File(TaskIx),
    /// The delay before a retry was over.
    Delay,
}

/// One piece of the path, in seconds since the beginning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathStep {
    pub task: TaskKey,
    pub attempt: u32,
    pub from_seconds: f64,
    pub to_seconds: f64,
    /// What it had to wait for: `start`, `dependency`, `slot`, `file` or `retry_delay`.
    pub waited_for: &'static str,
    /// Why this attempt was in vain, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_because: Option<String>,
}

/// The path, from the beginning to the end.
pub(super) fn taken(rehearsal: &Rehearsal) -> Vec<PathStep> {
    let state = &rehearsal.state;
    let mut steps = Vec::new();
    let mut next =
        last_to_end(state).and_then(|task| Some((task, state.tasks[task].tries.len().checked_sub(1)?)));
    // A chain cannot have more links than there were attempts, whatever one of them says of itself.
    let longest: usize = rehearsal.because.iter().map(Vec::len).sum();
    while let Some((task, index)) = next.filter(|_| steps.len() < longest) {
        let because = rehearsal.because[task].get(index).copied().unwrap_or(Because::Nothing);
        let one = &state.tasks[task].tries[index];
        steps.push(step(state, task, one, because));
        next = match because {
            Because::Nothing => None,
            Because::Delay => index.checked_sub(1).map(|earlier| (task, earlier)),
            Because::Dependency(other) | Because::Slot(other) | Because::File(other) => {
                last_try_before(state, other, one.offered_at).map(|index| (other, index))
            }
        };
    }
    steps.reverse();
    steps
}

/// Of those that were begun, the one that ended last.
fn last_to_end(state: &BatchState) -> Option<TaskIx> {
    let begun = (0..state.tasks.len()).filter(|task| !state.tasks[*task].tries.is_empty());
    // Of several the deepest: its chain says most. What has not ended ends last of all.
    begun.max_by_key(|task| {
        let state = &state.tasks[*task];
        (state.ended_at.unwrap_or(WallTime(i64::MAX)), state.spec.stage, std::cmp::Reverse(*task))
    })
}

/// The try whose end let something else begin at this moment.
fn last_try_before(state: &BatchState, task: TaskIx, at: WallTime) -> Option<usize> {
    let is_before = |one: &Try| one.ended_at.is_some_and(|ended| ended <= at);
    state.tasks[task].tries.iter().rposition(is_before)
}

fn step(state: &BatchState, task: TaskIx, one: &Try, because: Because) -> PathStep {
    let since = |at: WallTime| at.seconds_since(state.accepted_at);
    PathStep {
        task: state.key(task).clone(),
        attempt: one.attempt.number(),
        from_seconds: since(one.offered_at),
        to_seconds: since(one.ended_at.unwrap_or(one.offered_at)),
        waited_for: match because {
            Because::Nothing => "start",
            Because::Dependency(_) => "dependency",
            Because::Slot(_) => "slot",
            Because::File(_) => "file",
            Because::Delay => "retry_delay",
        },
        failed_because: one.failed_because.as_ref().map(ToString::to_string),
    }
}
