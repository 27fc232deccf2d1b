//! What people and agents ask for: an end, another try, a pause. A wish for what is already so changes
//! nothing, so that one that is seen twice after a crash does no harm.

use super::{Asked, Found, RunnerSeen, Turn, WishSeen, deadlines, handoff};
use crate::model::state::{BatchState, TaskIx};
use crate::model::{Event, Reason};

/// Whether the task's attempt had ended by itself before anybody saw the wish: then it ended for its own reason, and
/// the wish is for what follows.
pub(super) fn comes_too_late(state: &BatchState, wish: &WishSeen, seen: &[RunnerSeen]) -> bool {
    let Some(task) = wish.task.as_ref().and_then(|key| state.find(key.as_str())) else { return false };
    let is_its_record = |seen: &RunnerSeen| seen.task == task && matches!(seen.found, Found::Exited(_));
    seen.iter().any(is_its_record)
}

pub(super) fn grant(turn: &mut Turn<'_>, wish: WishSeen) {
    let WishSeen { asked, task, by, why, choices } = wish;
    let task = match task {
        Some(key) => match turn.state.find(key.as_str()) {
            Some(task) => Some(task),
            None => return,
        },
        None => None,
    };
    match (asked, task) {
        (Asked::Cancel, Some(task)) => deadlines::end_now(turn, task, &Reason::Cancelled { by, why }),
        (Asked::Cancel, None) if turn.state.cancel.is_none() => turn.record(Event::CancelAsked { by, why }),
        (Asked::Kill, Some(task)) => deadlines::end_now(turn, task, &Reason::Killed { by, why }),
        (Asked::Retry, Some(task)) => retry(turn, task, &by, why.as_ref()),
        (Asked::Retry, None) => {
            for task in 0..turn.state.tasks.len() {
                if turn.state.tasks[task].has_failed() {
                    retry(turn, task, &by, why.as_ref());
                }
            }
        }
        (Asked::Pause, _) if turn.state.paused.is_none() => turn.record(Event::PauseAsked { by, why }),
        (Asked::Resume, _) if turn.state.paused.is_some() => turn.record(Event::ResumeAsked { by }),
        (Asked::Resolve, _) => handoff::resolve(turn, by, choices),
        (Asked::Cancel | Asked::Kill, None) | (Asked::Pause | Asked::Resume, _) => {}
    }
}

fn retry(turn: &mut Turn<'_>, task: TaskIx, by: &str, why: Option<&String>) {
    if turn.state.tasks[task].can_be_tried_again() && turn.state.cancel.is_none() {
        let task = turn.key(task);
        turn.record(Event::RetryAsked { task, by: by.to_owned(), why: why.cloned() });
    }
}

/// Ends what has not ended in a cancelled batch.
pub(super) fn carry_out_cancel(turn: &mut Turn<'_>) {
    if let Some(because) = turn.state.cancel.clone() {
        deadlines::end_everything(turn, &because);
    }
}
