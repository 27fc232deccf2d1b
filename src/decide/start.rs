//! Beginning attempts: a task begins when its dependencies have succeeded, a slot is free and nobody holds a
//! file that it declares. What an agent of ours serves is launched, the rest is offered to outsiders.

use super::{SignSeen, Turn};
use crate::model::state::{BatchState, Phase, TaskIx};
use crate::model::{Attempt, Event};

/// Most beginnings in one turn: each makes several files, and results must not wait for a whole batch of them.
const BEGINNINGS_A_TURN_MAX: usize = 256;
/// How many attempts of ours run at once in a batch that does not say.
pub const PARALLEL_DEFAULT: usize = 4;

/// A sign of life on an offered attempt means that somebody works on it.
pub(super) fn recognise(turn: &mut Turn<'_>, seen: &SignSeen) {
    let Phase::Offered { attempt, .. } = turn.state.tasks[seen.task].phase else { return };
    if attempt == seen.attempt {
        let task = turn.key(seen.task);
        turn.record(Event::Started { task, attempt, sign: seen.sign.clone() });
    }
}

/// Begins what may begin: retries that are due first, then ready tasks in the plan's order.
pub(super) fn begin(turn: &mut Turn<'_>) {
    if turn.state.cancel.is_some() || turn.state.paused.is_some() || !turn.state.may_begin() {
        return;
    }
    let mut slots = Slots::of(turn.state, turn.room);
    begin_retries(turn, &mut slots);
    while slots.ours > 0 && slots.turn > 0 {
        let free = |task: &TaskIx| turn.state.held_back_by(*task).is_none();
        let Some(task) = turn.state.startable.iter().copied().find(free) else { break };
        begin_attempt(turn, task, Attempt::FIRST, &mut slots);
    }
    while slots.outsiders > 0 && slots.turn > 0 {
        let free = |task: &TaskIx| turn.state.held_back_by(*task).is_none();
        let Some(task) = turn.state.ready.iter().copied().find(free) else { break };
        begin_attempt(turn, task, Attempt::FIRST, &mut slots);
    }
}

fn begin_retries(turn: &mut Turn<'_>, slots: &mut Slots) {
    let now = turn.now.clock;
    let due: Vec<TaskIx> =
        turn.state.backing_off.iter().take_while(|(until, _)| *until <= now).map(|(_, task)| *task).collect();
    for task in due {
        let Phase::BackingOff { next, .. } = turn.state.tasks[task].phase else { continue };
        // One that is tried again after its end has let go of its files; somebody else may hold them now.
        let is_free = turn.state.held_back_by(task).is_none();
        if is_free && slots.turn > 0 && slots.has_one_for(turn.state, task) {
            begin_attempt(turn, task, next, slots);
        }
    }
}

fn begin_attempt(turn: &mut Turn<'_>, task: TaskIx, attempt: Attempt, slots: &mut Slots) {
    slots.take(turn.state, task);
    let crew = turn.state.tasks[task].spec.crew.clone();
    let task = turn.key(task);
    turn.record(match crew {
        Some(crew) => Event::Launched { task, attempt, agent: crew.agent, launcher: crew.launcher },
        None => Event::Offered { task, attempt },
    });
}

/// Whether something could begin at once if a turn came.
pub fn has_room_to_begin(state: &BatchState, room: usize) -> bool {
    let slots = Slots::of(state, room);
    let free = |task: &TaskIx| state.held_back_by(*task).is_none();
    state.finished.is_none()
        && state.cancel.is_none()
        && state.paused.is_none()
        && state.may_begin()
        && ((slots.ours > 0 && state.startable.iter().any(free))
            || (slots.outsiders > 0 && state.ready.iter().any(free)))
}

/// How many attempts may still begin.
struct Slots {
    turn: usize,
    ours: usize,
    outsiders: usize,
}

impl Slots {
    /// What only outsiders can do is offered without a limit, unless the request sets one.
    fn of(state: &BatchState, room: usize) -> Slots {
        let limit = state.batch.parallel_limit.map(|limit| limit as usize);
        let left = limit.map(|limit| limit.saturating_sub(state.live.len()));
        let ours = left.unwrap_or_else(|| PARALLEL_DEFAULT.saturating_sub(state.started));
        Slots { turn: BEGINNINGS_A_TURN_MAX, ours: ours.min(room), outsiders: left.unwrap_or(usize::MAX) }
    }

    fn has_one_for(&self, state: &BatchState, task: TaskIx) -> bool {
        if state.tasks[task].is_ours() { self.ours > 0 } else { self.outsiders > 0 }
    }

    fn take(&mut self, state: &BatchState, task: TaskIx) {
        self.turn -= 1;
        if state.tasks[task].is_ours() {
            self.ours -= 1;
        }
        if state.batch.parallel_limit.is_some() {
            self.outsiders = self.outsiders.saturating_sub(1);
            if !state.tasks[task].is_ours() {
                self.ours = self.ours.saturating_sub(1);
            }
        }
    }
}
