//! Wishes for an end: of one task, or of the whole batch.

use super::{Turn, WishSeen, deadlines};
use crate::model::{Event, Reason};

/// Grants a wish; one that asks for what is already so changes nothing.
pub(super) fn grant(turn: &mut Turn<'_>, wish: WishSeen) {
    let WishSeen { task, by, why } = wish;
    match task {
        Some(key) => {
            if let Some(task) = turn.state.find(key.as_str()) {
                deadlines::end_now(turn, task, &Reason::Cancelled { by, why });
            }
        }
        None if turn.state.cancel.is_none() => turn.record(Event::CancelAsked { by, why }),
        None => {}
    }
}

/// Ends what has not ended in a cancelled batch.
pub(super) fn carry_out(turn: &mut Turn<'_>) {
    if let Some(because) = turn.state.cancel.clone() {
        deadlines::end_everything(turn, &because);
    }
}
