//! The clocks of attempts, stages and the batch, all on the watcher's active time.

use super::{Now, Turn, retry};
use crate::model::handoff::HandoffState;
use crate::model::state::{BatchState, Phase, TaskIx, TaskState};
use crate::model::{Event, Reason, Tick};

/// Whether a running attempt has used up its time.
pub(super) fn is_over_time(task: &TaskState, now: Tick) -> bool {
    match task.phase {
        Phase::Running { since, .. } => now.since(since) > task.spec.longest_attempt().millis(),
        _ => false,
    }
}

pub(super) fn judge_attempts(turn: &mut Turn<'_>) {
    let now = turn.now.clock;
    let over: Vec<TaskIx> =
        turn.state.live.iter().copied().filter(|task| is_over_time(&turn.state.tasks[*task], now)).collect();
    for task in over {
        let state = &turn.state.tasks[task];
        let because = match &state.refusal {
            Some(defects) => Reason::ResultRefused { defects: defects.clone() },
            None => Reason::AttemptTimeout { limit: state.spec.limits.timeout },
        };
        retry::fail_attempt(turn, task, because);
    }
}

/// A stage over its limit ends all its tasks that are under way, without retry.
pub(super) fn judge_stages(turn: &mut Turn<'_>) {
    let now = turn.now.clock;
    for index in 0..turn.state.stages.len() {
        let clock = turn.state.stages[index];
        let limit = turn.state.stage_limit(index);
        if !clock.is_running() || clock.spent_ms(now) <= limit.millis() {
            continue;
        }
        let stage = index as u32 + 1;
        let because = Reason::StageTimeout { stage, limit };
        let tasks: Vec<TaskIx> = (0..turn.state.tasks.len())
            .filter(|task| turn.state.tasks[*task].spec.stage == stage && is_under_way(turn.state, *task))
            .collect();
        for task in tasks {
            end_now(turn, task, &because);
        }
    }
}

/// A batch over its limit ends whatever has not ended.
pub(super) fn judge_batch(turn: &mut Turn<'_>) {
    let Some(limit) = turn.state.batch.batch_timeout else { return };
    if !is_over_its_limit(turn.state, turn.now) {
        return;
    }
    if turn.state.is_settled() {
        return turn.record(Event::OutOfTime { limit });
    }
    end_everything(turn, &Reason::BatchTimeout { limit });
}

/// Whether the batch has used up its time. Only a full scan may draw the consequence.
pub fn is_over_its_limit(state: &BatchState, now: Now) -> bool {
    let Some(limit) = state.batch.batch_timeout else { return false };
    let is_under_way = !state.is_settled() || is_merging(state);
    now.clock.since(state.accepted_clock) > limit.millis() && is_under_way
}

/// Whether outputs are merged in the batch's own time: that in which a person decided is nobody's.
fn is_merging(state: &BatchState) -> bool {
    let in_time = |handoff: &HandoffState| handoff.merging.is_some() && handoff.choices.is_empty();
    state.handoff.as_ref().is_some_and(in_time) && !state.timed_out && state.cancel.is_none()
}

/// Whether a task's stage has used up its time.
pub(super) fn is_stage_over(state: &BatchState, task: &TaskState, now: Tick) -> bool {
    let index = task.spec.stage.max(1) as usize - 1;
    let clock = &state.stages[index];
    clock.is_running() && clock.spent_ms(now) > state.stage_limit(index).millis()
}

/// Ends every task that has not ended, for one reason.
pub(super) fn end_everything(turn: &mut Turn<'_>, because: &Reason) {
    for task in 0..turn.state.tasks.len() {
        end_now(turn, task, because);
    }
}

/// Ends a task wherever it is in its life, without retry.
pub(super) fn end_now(turn: &mut Turn<'_>, task: TaskIx, because: &Reason) {
    let state = &turn.state.tasks[task];
    if state.is_done() {
        return;
    }
    if state.live_attempt().is_some() {
        retry::fail_attempt(turn, task, because.clone());
    } else {
        let task = turn.key(task);
        turn.record(Event::Abandoned { task, because: because.clone() });
    }
}

fn is_under_way(state: &BatchState, task: TaskIx) -> bool {
    let task = &state.tasks[task];
    task.live_attempt().is_some() || matches!(task.phase, Phase::BackingOff { .. })
}

/// The moments at which time alone changes something that no scan interval would catch: a retry that falls
/// due, an open batch that closes, the batch's own limit.
fn deadlines(state: &BatchState) -> impl Iterator<Item = Tick> {
    let retry = state.backing_off.first().map(|(until, _)| *until);
    let close = (state.batch.is_open() && state.live.is_empty())
        .then(|| Tick(state.last_joined.0 + state.batch.close_after.millis()));
    let limit = state.batch.batch_timeout.map(|limit| Tick(state.accepted_clock.0 + limit.millis() + 1));
    [retry, close, limit].into_iter().flatten()
}

/// The next such moment.
pub fn next_deadline(state: &BatchState, now: Now) -> Option<Tick> {
    deadlines(state).filter(|at| *at > now.clock).min()
}

/// Whether one of them has come.
pub fn is_due(state: &BatchState, now: Now) -> bool {
    deadlines(state).any(|at| at <= now.clock)
}
