//! What a handed-over batch needs beside its tasks: it is prepared before the first of them, and its outputs
//! are merged after the last. Both are slow, so they are done elsewhere and reported back; here is decided
//! when, and what their outcome means.

use super::{Turn, WorkSeen};
use crate::model::handoff::Choices;
use crate::model::{Event, Reason};

/// Notes what was reported back since.
pub(super) fn note(turn: &mut Turn<'_>, works: Vec<WorkSeen>) {
    for work in works {
        let Some(handoff) = &turn.state.handoff else { return };
        match work {
            WorkSeen::Prepared(prepared) if handoff.preparing => {
                turn.record(Event::Prepared { prepared });
            }
            WorkSeen::NotPrepared { why } if handoff.preparing => turn.record(Event::NotPrepared { why }),
            WorkSeen::Merged { round, outcome } if handoff.merging == Some(round) => {
                turn.record(Event::Merged { round, outcome });
            }
            // Of a round that is over, or told twice.
            WorkSeen::Prepared(_) | WorkSeen::NotPrepared { .. } | WorkSeen::Merged { .. } => {}
        }
    }
}

/// Has the batch prepared, and gives up what cannot be.
pub(super) fn prepare(turn: &mut Turn<'_>) {
    let Some(handoff) = &turn.state.handoff else { return };
    if let Some(why) = handoff.not_prepared.clone() {
        return give_up(turn, &why);
    }
    let is_wanted = handoff.prepared.is_none() && !handoff.preparing && turn.state.cancel.is_none();
    if is_wanted && !turn.state.is_settled() {
        turn.record(Event::Preparing);
    }
}

fn give_up(turn: &mut Turn<'_>, why: &str) {
    let unsettled = (0..turn.state.tasks.len()).filter(|task| !turn.state.tasks[*task].is_done());
    for task in unsettled.collect::<Vec<_>>() {
        let task = turn.key(task);
        turn.record(Event::Abandoned { task, because: Reason::NotPrepared { why: why.to_owned() } });
    }
}

/// Whether the batch may end: nothing is to be merged any more. Begins the merge where it is due.
pub(super) fn is_over(turn: &mut Turn<'_>) -> bool {
    let Some(handoff) = &turn.state.handoff else { return true };
    if handoff.preparing || handoff.merging.is_some() {
        return false;
    }
    if handoff.prepared.is_none() {
        // Nothing was started, so there is nothing to merge.
        return true;
    }
    match &handoff.merged {
        None => {
            let round = handoff.rounds + 1;
            turn.record(Event::Merging { round });
            false
        }
        Some(_) => !handoff.awaits_resolution() || turn.state.cancel.is_some(),
    }
}

/// Another round, now that a person has said what becomes of the conflicts; in a batch that was opened again for this
/// too.
pub(super) fn resolve(turn: &mut Turn<'_>, by: String, choices: Choices) {
    let Some(handoff) = &turn.state.handoff else { return };
    let is_opened_again = handoff.merged.is_none() && handoff.merging.is_none() && handoff.rounds > 0;
    if turn.state.awaits_resolution() || (is_opened_again && turn.state.is_settled()) {
        let round = turn.state.handoff.as_ref().map_or(0, |handoff| handoff.rounds) + 1;
        turn.record(Event::ResolveAsked { by, choices });
        turn.record(Event::Merging { round });
    }
}
