//! The consequences of endings: dependents that cannot begin any more, and the end of the batch.

use super::{Turn, handoff};
use crate::model::state::{BatchState, Outcome, Phase, TaskIx};
use crate::model::{Event, Reason};

/// Skips exactly the transitive dependents of what ended without success, each naming its cause.
pub(super) fn abandon_dependents(turn: &mut Turn<'_>) {
    while let Some(task) = turn.state.doomed.first().copied() {
        let because = cause_of(turn.state, task);
        let task = turn.key(task);
        turn.record(Event::Abandoned { task, because });
    }
}

/// The failure that began it: a dependency that was itself skipped passes its own cause on.
fn cause_of(state: &BatchState, task: TaskIx) -> Reason {
    let ended = |name: &crate::model::TaskKey| {
        let ix = state.find(name.as_str())?;
        match &state.tasks[ix].phase {
            Phase::Done(Outcome::Succeeded) => None,
            Phase::Done(outcome) => Some((state.key(ix).clone(), outcome.clone())),
            _ => None,
        }
    };
    let found = state.tasks[task].spec.dependencies.iter().find_map(ended);
    match found {
        Some((via, Outcome::Skipped(Reason::DependencyFailed { cause, .. }))) => {
            Reason::DependencyFailed { cause, via: Some(via) }
        }
        Some((cause, _)) => Reason::DependencyFailed { cause, via: None },
        None => Reason::DependencyMissing { missing: state.key(task).clone() },
    }
}

/// Ends the batch. An open one ends only after a look at everything: a spec may lie there unseen.
pub(super) fn finish(turn: &mut Turn<'_>, full_scan: bool) {
    if turn.state.batch.is_open() && !full_scan {
        return;
    }
    close_open_batch(turn);
    if turn.state.is_settled() && is_closed(turn) && handoff::is_over(turn) {
        let status = turn.state.status();
        turn.record(Event::Finished { status });
    }
}

/// An open batch closes when no spec has come for a while; what still waits for one waits in vain.
fn close_open_batch(turn: &mut Turn<'_>) {
    let state = &turn.state;
    let is_at_rest = state.live.is_empty()
        && state.ready.is_empty()
        && state.startable.is_empty()
        && state.backing_off.is_empty()
        && state.awaiting.is_empty();
    if !state.batch.is_open() || !is_at_rest || !is_closed(turn) {
        return;
    }
    let in_vain: Vec<_> = (0..state.tasks.len())
        .filter_map(|task| Some((task, state.missing_dependency(task)?.clone())))
        .filter(|(task, _)| !state.tasks[*task].is_done())
        .collect();
    for (task, missing) in in_vain {
        let task = turn.key(task);
        turn.record(Event::Abandoned { task, because: Reason::DependencyMissing { missing } });
    }
    abandon_dependents(turn);
}

fn is_closed(turn: &Turn<'_>) -> bool {
    let state = &turn.state;
    if !state.batch.is_open() || state.cancel.is_some() || state.timed_out {
        return true;
    }
    !turn.has_coming_specs && turn.now.clock.since(state.last_joined) >= state.batch.close_after.millis()
}
