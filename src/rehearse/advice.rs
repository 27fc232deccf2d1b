//! What is odd about a plan, as its rehearsal showed it: each with what to change.

use crate::model::Seconds;
use crate::model::state::{BatchState, Phase, TaskState};
use crate::view::words::{counted, duration, listed_at_most};

use super::fault::estimate;
use super::{Rehearsal, Slots};

/// More names than this nobody reads.
const NAMES_MAX: usize = 5;

pub(super) fn on(rehearsal: &Rehearsal, slots: &Slots) -> Vec<String> {
    let state = &rehearsal.state;
    let mut advice = Vec::new();
    advice.extend(estimates_over_their_timeout(state));
    advice.extend(too_few_beats(state));
    advice.extend(nobody_comes(state));
    advice.extend(idle_slots(slots));
    advice
}

/// Tasks that are alike in this respect, told together.
fn told(state: &BatchState, is_meant: impl Fn(&TaskState) -> bool) -> Option<(String, &TaskState)> {
    let meant: Vec<&TaskState> = state.tasks.iter().filter(|task| is_meant(task)).collect();
    let names: Vec<&str> = meant.iter().map(|task| task.spec.label()).collect();
    Some((listed_at_most(&names, NAMES_MAX), *meant.first()?))
}

fn estimates_over_their_timeout(state: &BatchState) -> Option<String> {
    let is_over = |task: &TaskState| estimate(&task.spec).millis() > task.spec.limits.timeout.millis();
    let (names, first) = told(state, is_over)?;
    let limit = duration(first.spec.limits.timeout);
    let need = duration(estimate(&first.spec));
    Some(format!(
        "{names}: would be ended after {limit}, and the estimate is {need}; raise timeout_seconds, or split it"
    ))
}

fn too_few_beats(state: &BatchState) -> Option<String> {
    let is_short = |task: &TaskState| {
        let limits = &task.spec.limits;
        !task.is_ours() && limits.heartbeat_timeout.0 < 2.0 * limits.heartbeat_interval.0
    };
    let (names, first) = told(state, is_short)?;
    let limits = &first.spec.limits;
    let interval = duration(limits.heartbeat_interval);
    Some(format!(
        "{names}: heartbeat_timeout_seconds ({}) is less than two beats of {interval}; one late beat decides",
        duration(limits.heartbeat_timeout)
    ))
}

fn nobody_comes(state: &BatchState) -> Option<String> {
    if state.finished.is_some() {
        return None;
    }
    let (names, _) = told(state, |task| matches!(task.phase, Phase::Offered { .. }))?;
    Some(format!(
        "{names}: would wait for an agent for ever; name one in settings, or set start_timeout_seconds"
    ))
}

fn idle_slots(slots: &Slots) -> Option<String> {
    let limit = slots.limit.filter(|limit| *limit > slots.peak && slots.peak > 0)?;
    let idle = counted(limit - slots.peak, "slot");
    Some(format!("{idle} of {limit} would never be used: a parallel_limit of {} does as well", slots.peak))
}

/// As a heading says a span.
pub(super) fn span(seconds: f64) -> String {
    duration(Seconds(seconds))
}
