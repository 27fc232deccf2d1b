//! Beginning attempts: a task is offered when its dependencies have succeeded, a slot is free and nobody
//! holds a file that it declares.

use super::{SignSeen, Turn};
use crate::model::state::{Phase, TaskIx};
use crate::model::{Attempt, Event};

/// Most offers in one turn: each makes several files, and results must not wait for a whole batch of them.
const OFFERS_A_TURN_MAX: usize = 256;

/// A sign of life on an offered attempt means that somebody works on it.
pub(super) fn recognise(turn: &mut Turn<'_>, seen: &SignSeen) {
    let Phase::Offered { attempt, .. } = turn.state.tasks[seen.task].phase else { return };
    if attempt == seen.attempt {
        let task = turn.key(seen.task);
        turn.record(Event::Started { task, attempt, sign: seen.sign.clone() });
    }
}

/// Offers what may begin: retries that are due first, then ready tasks in the plan's order.
pub(super) fn offer(turn: &mut Turn<'_>) {
    if turn.state.cancel.is_some() {
        return;
    }
    let mut left = free_slots(turn).min(OFFERS_A_TURN_MAX);
    let now = turn.now.clock;
    while left > 0 {
        let Some((until, task)) = turn.state.backing_off.first().copied() else { break };
        if until > now {
            break;
        }
        let Phase::BackingOff { next, .. } = turn.state.tasks[task].phase else { break };
        begin(turn, task, next);
        left -= 1;
    }
    while left > 0 {
        let free = |task: &TaskIx| turn.state.held_back_by(*task).is_none();
        let Some(task) = turn.state.ready.iter().copied().find(free) else { break };
        begin(turn, task, Attempt::FIRST);
        left -= 1;
    }
}

fn begin(turn: &mut Turn<'_>, task: TaskIx, attempt: Attempt) {
    let task = turn.key(task);
    turn.record(Event::Offered { task, attempt });
}

/// What only outsiders can do is offered without a limit, unless the request sets one.
fn free_slots(turn: &Turn<'_>) -> usize {
    match turn.state.batch.parallel_limit {
        Some(limit) => (limit as usize).saturating_sub(turn.state.live.len()),
        None => usize::MAX,
    }
}
