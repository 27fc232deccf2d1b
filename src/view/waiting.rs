//! What a task that does not run is waiting for, who holds it back, and what ended it: in sentences.
//!
//! The short ones go into tables, the long ones into the story; both are read off the state alone.

use crate::model::clock::{Seconds, Tick};
use crate::model::declared::overlap;
use crate::model::id::TaskKey;
use crate::model::reason::Reason;
use crate::model::state::{BatchState, Outcome, Phase, TaskIx, TaskState};

use super::words::{attempt_of, attempts_max, duration, listed, listed_at_most};

/// Names beyond which a list of dependencies is only counted.
const NAMES_SHORT: usize = 2;
const NAMES_LONG: usize = 8;

/// The name that people know a task by: `Phase 2a`, or the key where the batch has no such task.
pub fn label<'a>(state: &'a BatchState, key: &'a TaskKey) -> &'a str {
    match state.find(key.as_str()) {
        Some(ix) => state.tasks[ix].spec.label(),
        None => key.as_str(),
    }
}

/// For a table: why a task that has not begun has not. `None` if it has, or has ended.
pub fn waiting_short(state: &BatchState, ix: TaskIx) -> Option<String> {
    match &state.tasks[ix].phase {
        Phase::Waiting { .. } => {
            let names: Vec<&str> =
                state.unmet_dependencies(ix).into_iter().map(|key| label(state, key)).collect();
            Some(format!("Waiting for {}", listed_at_most(&names, NAMES_SHORT)))
        }
        Phase::Ready => Some(match holder(state, ix) {
            Some((holder, file)) => format!("Waiting for {}, which holds {file}", holder.spec.label()),
            None if state.paused.is_some() => "Paused".to_owned(),
            None if !state.may_begin() => "Waiting for the workspace".to_owned(),
            None => "Waiting for a free slot".to_owned(),
        }),
        _ => None,
    }
}

/// The task that keeps this one from starting because both declare a file, and that file.
pub fn holder(state: &BatchState, ix: TaskIx) -> Option<(&TaskState, &str)> {
    let holder = &state.tasks[state.held_back_by(ix)?];
    let is_held = |file: &&String| holder.spec.files_modified.iter().any(|held| overlap(held, file));
    let shared = state.tasks[ix].spec.files_modified.iter().find(is_held)?;
    Some((holder, shared))
}

/// Where a task is now, as a sentence that names what it waits for and what happens next.
pub fn situation(state: &BatchState, ix: TaskIx, now: Tick) -> String {
    let task = &state.tasks[ix];
    match &task.phase {
        Phase::Waiting { .. } => format!("waiting for {}", unmet_in_full(state, ix, now)),
        Phase::Ready => match holder(state, ix) {
            Some((holder, file)) => format!(
                "ready, but {} holds {file} ({}): they run one after the other",
                holder.spec.label(),
                standing(holder, now)
            ),
            None => match &state.paused {
                Some(by) => format!("ready, but {by} paused the batch; `wk resume` lets it go on"),
                None if !state.may_begin() => "ready, but the workspace is being prepared first".to_owned(),
                None => "ready, waiting for a free slot".to_owned(),
            },
        },
        Phase::Offered { .. } => format!("{}: its spec is published, nobody has begun", standing(task, now)),
        Phase::Running { .. } | Phase::Claimed { .. } => standing(task, now),
        Phase::Ending { because, .. } => format!("{} ({because})", standing(task, now)),
        Phase::Awaiting { why, .. } => format!("{}: {why}", standing(task, now)),
        Phase::BackingOff { next, .. } if state.paused.is_some() => {
            let by = state.paused.as_deref().unwrap_or_default();
            let attempt = attempt_of(next.number(), attempts_max(task));
            format!("{attempt} waits: {by} paused the batch; `wk resume` lets it go on")
        }
        Phase::BackingOff { .. } => match task.tries.last().and_then(|last| last.failed_because.as_ref()) {
            Some(because) => format!("{} (the last one: {because})", standing(task, now)),
            None => standing(task, now),
        },
        Phase::Done(Outcome::Succeeded) => standing(task, now),
        Phase::Done(outcome) => ending(state, ix, outcome),
    }
}

fn unmet_in_full(state: &BatchState, ix: TaskIx, now: Tick) -> String {
    let unmet = state.unmet_dependencies(ix);
    let told: Vec<String> = unmet
        .iter()
        .map(|key| match state.find(key.as_str()) {
            Some(dependency) => {
                let task = &state.tasks[dependency];
                format!("{} ({})", task.spec.label(), standing(task, now))
            }
            None => format!("{key} (its spec has not come)"),
        })
        .collect();
    listed_at_most(&told, NAMES_LONG)
}

/// Where a task is, in a few words that fit between brackets.
pub fn standing(task: &TaskState, now: Tick) -> String {
    let max = attempts_max(task);
    match &task.phase {
        Phase::Waiting { .. } => "waiting itself".to_owned(),
        Phase::Ready => "ready".to_owned(),
        Phase::Offered { attempt, .. } => format!("no agent yet, {}", attempt_of(attempt.number(), max)),
        Phase::Running { attempt, .. } => format!("running, {}", attempt_of(attempt.number(), max)),
        Phase::Claimed { attempt } => {
            format!("its result is being checked, {}", attempt_of(attempt.number(), max))
        }
        Phase::Ending { attempt, .. } => {
            format!("being ended, {}", attempt_of(attempt.number(), max))
        }
        Phase::Awaiting { attempt, .. } => {
            format!("a person must say whether {} is gone", attempt_of(attempt.number(), max))
        }
        Phase::BackingOff { next, until } => {
            let left = duration(Seconds::from_millis(until.since(now)));
            format!("backing off {left} more, then {}", attempt_of(next.number(), max))
        }
        Phase::Done(Outcome::Succeeded) => "succeeded".to_owned(),
        Phase::Done(Outcome::Failed(_)) => "failed".to_owned(),
        Phase::Done(Outcome::TimedOut(_)) => "timed out".to_owned(),
        Phase::Done(Outcome::Skipped(_)) => "blocked".to_owned(),
        Phase::Done(Outcome::Cancelled(_)) => "cancelled".to_owned(),
    }
}

/// What ended a task that did not succeed: for a blocked one in the form `Phase 2a failed, blocking Phase 3a`.
pub fn ending(state: &BatchState, ix: TaskIx, outcome: &Outcome) -> String {
    match outcome.reason() {
        Some(Reason::DependencyFailed { cause, .. }) => {
            let fate = match state.find(cause.as_str()).and_then(|found| state.tasks[found].outcome()) {
                Some(Outcome::Cancelled(_)) => "was cancelled",
                Some(Outcome::TimedOut(_)) => "timed out",
                _ => "failed",
            };
            format!("{} {fate}, blocking {}", label(state, cause), state.tasks[ix].spec.label())
        }
        Some(Reason::DependencyMissing { missing }) => {
            format!("{missing} was never dropped, blocking {}", state.tasks[ix].spec.label())
        }
        Some(reason) => reason.to_string(),
        None => "succeeded".to_owned(),
    }
}

/// The tasks that were blocked because this one did not succeed, in plan order.
pub fn blocked_by(state: &BatchState, cause: TaskIx) -> Vec<TaskIx> {
    let key = state.key(cause);
    let is_caused = |task: &TaskState| {
        matches!(task.outcome().and_then(Outcome::reason),
            Some(Reason::DependencyFailed { cause, .. }) if cause == key)
    };
    (0..state.tasks.len()).filter(|ix| is_caused(&state.tasks[*ix])).collect()
}

/// The labels of some tasks as a list.
pub fn labels(state: &BatchState, tasks: &[TaskIx]) -> String {
    let names: Vec<&str> = tasks.iter().map(|ix| state.tasks[*ix].spec.label()).collect();
    if names.len() > NAMES_LONG { listed_at_most(&names, NAMES_LONG) } else { listed(&names) }
}
