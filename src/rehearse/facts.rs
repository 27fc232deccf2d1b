//! What a rehearsal showed, as values: the JSON of `wk rehearse --json`, and what its text is made of.

use serde::Serialize;
use serde_json::Value;

use crate::decide::PARALLEL_DEFAULT;
use crate::model::event::{Entry, Event};
use crate::model::state::{BatchState, Outcome, TaskState};
use crate::model::{Reason, Seconds, TaskKey, WallTime};
use crate::outcome::timeline::timeline_json;
use crate::view::waiting;
use crate::view::words::Word;

use super::path::{self, PathStep};
use super::{Rehearsal, advice};

/// Everything that a rehearsal showed. The names are a promise to programs.
#[derive(Debug, Serialize)]
pub struct Facts {
    pub plan: String,
    /// How the batch would end; absent if it would wait for ever.
    pub status: Option<&'static str>,
    pub elapsed_seconds: f64,
    pub task_count: usize,
    pub succeeded: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Time that attempts were at work, summed up; and the part of it that came to nothing.
    pub worked_seconds: f64,
    pub in_vain_seconds: f64,
    pub stages: Vec<StageSpan>,
    pub critical_path: Vec<PathStep>,
    pub retries: Vec<Retry>,
    pub lost: Vec<Loss>,
    pub slots: Slots,
    pub watcher_away: Vec<Absence>,
    pub advice: Vec<String>,
    pub decisions: usize,
    pub events: usize,
}

/// When a stage's tasks were at work. Stages are not barriers: they may overlap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageSpan {
    pub stage: u32,
    pub task_count: usize,
    pub succeeded: usize,
    /// Absent where none of its tasks began.
    pub start_seconds: Option<f64>,
    pub end_seconds: Option<f64>,
}

/// An attempt that failed and was followed by another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    pub task: TaskKey,
    pub attempt: u32,
    pub at_seconds: f64,
    pub reason: String,
    pub reason_code: &'static str,
}

/// A task that did not succeed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    pub task: TaskKey,
    /// As results spell it: `failed`, `blocked`, or for one that never ends `queued`, `in_progress`.
    pub status: &'static str,
    pub attempts: usize,
    pub reason: String,
    pub reason_code: Option<&'static str>,
}

/// How many attempts were out at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slots {
    /// Absent where nothing limits outsiders.
    pub limit: Option<usize>,
    pub peak: usize,
    /// Which share of the slots' time was used, from 0 to 1.
    pub busy: Option<f64>,
}

/// A time in which nobody watched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Absence {
    pub from_seconds: f64,
    pub to_seconds: f64,
    /// Attempts that were out when it began: they went on.
    pub running: usize,
    /// Attempts that ended meanwhile, and whose end was found afterwards.
    pub found: usize,
    /// Attempts that a limit ended at its return: there should be none.
    pub lost: usize,
}

impl Absence {
    pub(super) fn begun(wall_ms: u64, running: usize) -> Self {
        let from_seconds = Seconds::from_millis(wall_ms).0;
        Absence { from_seconds, to_seconds: from_seconds, running, found: 0, lost: 0 }
    }

    pub(super) fn end(&mut self, wall_ms: u64, found: usize) {
        self.to_seconds = Seconds::from_millis(wall_ms).0;
        self.found = found;
    }
}

impl Facts {
    pub fn of(rehearsal: &Rehearsal) -> Facts {
        let state = &rehearsal.state;
        let elapsed = rehearsal.elapsed;
        let succeeded: usize = state.stages.iter().map(|stage| stage.succeeded).sum();
        let skipped = |task: &&TaskState| matches!(task.outcome(), Some(Outcome::Skipped(_)));
        let skipped = state.tasks.iter().filter(skipped).count();
        let ended: usize = state.stages.iter().map(|stage| stage.ended).sum();
        let (worked, in_vain) = work(state, elapsed);
        let slots = slots(rehearsal, worked);
        Facts {
            plan: state.batch.source.name.clone(),
            status: state.finished.map(|(status, _)| status.word()),
            elapsed_seconds: elapsed.0,
            task_count: state.tasks.len(),
            succeeded,
            failed: ended - succeeded - skipped,
            skipped,
            worked_seconds: worked.0,
            in_vain_seconds: in_vain.0,
            stages: stages(state),
            critical_path: path::taken(rehearsal),
            retries: retries(state),
            lost: lost(rehearsal),
            slots,
            watcher_away: rehearsal.absences.iter().map(|away| judged(rehearsal, *away)).collect(),
            advice: advice::on(rehearsal, &slots),
            decisions: rehearsal.decisions,
            events: rehearsal.entries.len(),
        }
    }

    /// For programs: the facts, and beside them the timeline as `wk report` tells it.
    pub fn to_json(&self, rehearsal: &Rehearsal) -> Value {
        let mut facts = serde_json::to_value(self).unwrap_or(Value::Null);
        facts["timeline"] = timeline_json(&rehearsal.state);
        facts
    }
}

fn since_start(state: &BatchState, at: WallTime) -> f64 {
    at.seconds_since(state.accepted_at)
}

/// Whether the absence cost anybody an attempt, by what the journal says about its end.
fn judged(rehearsal: &Rehearsal, away: Absence) -> Absence {
    let is_over_a_limit = |because: &Reason| {
        because.is_timeout() || matches!(because, Reason::NoHeartbeat { .. } | Reason::NeverStarted { .. })
    };
    let is_lost = |entry: &&Entry| match &entry.event {
        // What its runner itself ended in time says nothing about the watcher.
        Event::AttemptFailed { because, .. } | Event::Ending { because, .. } => {
            let is_ended_by_runner = entry.event.task().is_some_and(|key| {
                let task = rehearsal.state.find_key(key).map(|ix| &rehearsal.state.tasks[ix]);
                task.is_some_and(TaskState::is_ours) && matches!(entry.event, Event::AttemptFailed { .. })
            });
            is_over_a_limit(because) && !is_ended_by_runner
        }
        _ => false,
    };
    let returned = Seconds(away.to_seconds).millis() as i64;
    let first = rehearsal.entries.partition_point(|entry| entry.at.0 < returned);
    let at_return = rehearsal.entries[first..].iter().take_while(|entry| entry.at.0 == returned);
    Absence { lost: at_return.filter(is_lost).count(), ..away }
}

/// How long attempts were out in all, and how long in vain.
fn work(state: &BatchState, elapsed: Seconds) -> (Seconds, Seconds) {
    let (mut worked, mut in_vain) = (0.0, 0.0);
    for one in state.tasks.iter().flat_map(|task| &task.tries) {
        // Nobody works on what is only offered.
        let Some((began, _)) = &one.started else { continue };
        let ended = one.ended_at.map_or(elapsed.0, |at| since_start(state, at));
        let span = (ended - since_start(state, *began)).max(0.0);
        worked += span;
        if one.failed_because.is_some() {
            in_vain += span;
        }
    }
    (Seconds(worked), Seconds(in_vain))
}

fn stages(state: &BatchState) -> Vec<StageSpan> {
    let mut stages: Vec<StageSpan> = state
        .stages
        .iter()
        .zip(1..)
        .map(|(clock, stage)| StageSpan {
            stage,
            task_count: clock.tasks,
            succeeded: clock.succeeded,
            start_seconds: None,
            end_seconds: None,
        })
        .collect();
    for task in &state.tasks {
        let span = &mut stages[task.spec.stage.max(1) as usize - 1];
        for one in &task.tries {
            let start = since_start(state, one.offered_at);
            span.start_seconds = Some(span.start_seconds.map_or(start, |known| known.min(start)));
            if let Some(end) = one.ended_at.map(|at| since_start(state, at)) {
                span.end_seconds = Some(span.end_seconds.map_or(end, |known| known.max(end)));
            }
        }
    }
    stages
}

fn retries(state: &BatchState) -> Vec<Retry> {
    let mut retries = Vec::new();
    for task in &state.tasks {
        for pair in task.tries.windows(2) {
            let Some(reason) = &pair[0].failed_because else { continue };
            retries.push(Retry {
                task: task.spec.key.clone(),
                attempt: pair[0].attempt.number(),
                at_seconds: since_start(state, pair[0].ended_at.unwrap_or(pair[1].offered_at)),
                reason: reason.to_string(),
                reason_code: reason.code(),
            });
        }
    }
    retries
}

fn lost(rehearsal: &Rehearsal) -> Vec<Loss> {
    let state = &rehearsal.state;
    let now = rehearsal.entries.last().map_or_else(Default::default, |last| last.clock);
    let mut lost = Vec::new();
    for (index, task) in state.tasks.iter().enumerate() {
        let reason = match task.outcome() {
            Some(Outcome::Succeeded) => continue,
            Some(outcome) => outcome.reason(),
            None => None,
        };
        lost.push(Loss {
            task: task.spec.key.clone(),
            status: Word::of(&task.phase).written(),
            attempts: task.tries.len(),
            reason: reason.map_or_else(|| waiting::situation(state, index, now), ToString::to_string),
            reason_code: reason.map(Reason::code),
        });
    }
    lost
}

fn slots(rehearsal: &Rehearsal, worked: Seconds) -> Slots {
    let state = &rehearsal.state;
    let is_all_ours = state.tasks.iter().all(TaskState::is_ours);
    let set = state.batch.parallel_limit.map(|limit| limit as usize);
    let limit = match is_all_ours {
        true => Some(set.unwrap_or(PARALLEL_DEFAULT).min(rehearsal.max_running)),
        false => set,
    };
    let offered = limit.map(|limit| limit as f64 * rehearsal.elapsed.0).filter(|time| *time > 0.0);
    let busy = offered.map(|time| ((worked.0 / time).min(1.0) * 1000.0).round() / 1000.0);
    Slots { limit, peak: rehearsal.peak, busy }
}
