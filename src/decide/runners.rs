//! Attempts that we started: what their exit records, or the lack of one, mean.
//!
//! An attempt of ours ends only when its processes are known to be gone; until then nothing follows it.

use super::{BegunSeen, Found, RunnerSeen, Turn, retry};
use crate::model::exit::{Exit, Stopped};
use crate::model::state::{Phase, TaskIx, Try};
use crate::model::{Event, Reason};

/// Journals who a runner is before anything is decided by what its files say.
pub(super) fn note_begun(turn: &mut Turn<'_>, seen: Vec<BegunSeen>) {
    for BegunSeen { task, attempt, runner } in seen {
        let state = &turn.state.tasks[task];
        if state.live_attempt() == Some(attempt) && state.runner(attempt).is_none() {
            let task = turn.key(task);
            turn.record(Event::Begun { task, attempt, runner });
        }
    }
}

/// Journals exit records first: results are judged beside them. Returns whose they were.
pub(super) fn note_exits(turn: &mut Turn<'_>, seen: &[RunnerSeen]) -> Vec<TaskIx> {
    let mut ended = Vec::new();
    for RunnerSeen { task, attempt, found } in seen {
        let Found::Exited(exit) = found else { continue };
        let state = &turn.state.tasks[*task];
        if state.live_attempt() == Some(*attempt) && state.exit().is_none() {
            turn.record(Event::Exited { exit: exit.clone() });
        }
        ended.push(*task);
    }
    ended
}

/// Draws the consequence for every attempt that is over and whose result did not do so.
pub(super) fn conclude(turn: &mut Turn<'_>, ended: &[TaskIx], seen: Vec<RunnerSeen>) {
    for task in ended {
        if let Some(exit) = turn.state.tasks[*task].exit().cloned() {
            let because = why_it_ended(turn, *task, &exit);
            retry::end_attempt(turn, *task, because);
        }
    }
    for RunnerSeen { task, attempt, found } in seen {
        let state = &turn.state.tasks[task];
        if state.live_attempt() != Some(attempt) {
            continue;
        }
        let is_awaited = matches!(state.phase, Phase::Awaiting { .. });
        match found {
            // A person was asked already: only an end that is certain changes that.
            Found::Orphans | Found::Unknown { .. } if is_awaited => {}
            Found::Exited(_) => {}
            Found::Gone { rebooted } => {
                let state = &turn.state.tasks[task];
                let awaited = state.tries.last().map(Try::awaited_reason);
                let because = match (&state.phase, rebooted) {
                    (Phase::Ending { because, .. }, _) => because.clone(),
                    (Phase::Awaiting { .. }, _) => awaited.unwrap_or(Reason::RunnerDied),
                    (_, true) => Reason::Rebooted,
                    (_, false) => Reason::RunnerDied,
                };
                retry::end_attempt(turn, task, because);
            }
            Found::Orphans => retry::fail_attempt(turn, task, Reason::RunnerDied),
            Found::Unknown { why, suspects } => {
                let task = turn.key(task);
                turn.record(Event::Unconfirmed { task, attempt, why, suspects });
            }
            Found::NotLaunched { why } => {
                let because = match &turn.state.tasks[task].phase {
                    Phase::Ending { because, .. } => because.clone(),
                    _ => Reason::LaunchFailed { why },
                };
                retry::end_attempt(turn, task, because);
            }
        }
    }
}

/// Why an attempt with an exit record, and without a result that counts, did not succeed.
pub(super) fn why_it_ended(turn: &Turn<'_>, task: TaskIx, exit: &Exit) -> Reason {
    let state = &turn.state.tasks[task];
    match (&state.phase, state.tries.last().and_then(|last| last.failed_because.as_ref())) {
        (Phase::Ending { because, .. }, _) | (Phase::Awaiting { .. }, Some(because)) => {
            return because.clone();
        }
        _ => {}
    }
    let exited = Reason::AgentExited { code: exit.exit_code, signal: exit.signal, said: None };
    match &exit.stopped {
        Some(Stopped::Timeout { limit }) => match &state.refusal {
            Some(defects) => Reason::ResultRefused { defects: defects.clone() },
            None => Reason::AttemptTimeout { limit: *limit },
        },
        Some(Stopped::Limit { what, limit }) => Reason::LimitExceeded { what: *what, limit: *limit },
        // Not we asked, or it would be ending: a logout, a service that stops. That is no verdict on the task.
        Some(Stopped::Asked { .. } | Stopped::Superseded) => Reason::RunnerDied,
        Some(Stopped::HungUp) => Reason::TerminalLost,
        Some(Stopped::NotStarted { why }) => Reason::LaunchFailed { why: why.clone() },
        Some(Stopped::Lingered) | None => match &state.refusal {
            Some(defects) => Reason::ResultRefused { defects: defects.clone() },
            None if exit.is_clean() => Reason::NoResult {
                why: exit
                    .no_result
                    .clone()
                    .unwrap_or_else(|| "what was left of it cannot be read".to_owned()),
            },
            None => exited,
        },
    }
}
