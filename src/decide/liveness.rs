//! The 60-second rule: who has been silent too long, and when to doubt oneself instead.
//!
//! Knows nothing of processes. An outsider that is given up may still be running; its attempt number keeps
//! whatever it sends later from counting.

use super::pulse::{Pulse, Pulses};
use super::{Now, Turn, retry};
use crate::model::claim::ClaimStatus;
use crate::model::state::{BatchState, Phase, TaskIx, TaskState};
use crate::model::{Event, Reason, Seconds, Tick};

/// One look is not a verdict.
const LOOKS_LEAST: u32 = 2;
/// How long an attempt whose heartbeat says that it has ended may take to leave its result.
const RESULT_AFTER_WORD: Seconds = Seconds(30.0);
/// With fewer silent attempts than this, silence says more about them than about us.
const SUSPICIOUS_LEAST: usize = 3;

/// The tasks that would be declared dead now: their drop boxes are looked at once more before that.
pub fn condemned(state: &BatchState, pulses: &Pulses, now: Now) -> Vec<TaskIx> {
    let is_over = super::deadlines::is_over_its_limit(state, now);
    let late = |task: &TaskIx| {
        let task_state = &state.tasks[*task];
        // The end of an agent of ours is told by its exit record, and its result is looked at beside that.
        if task_state.awaits_exit() {
            return false;
        }
        is_over
            || verdict(task_state, pulses.get(*task), now.clock).is_some()
            || broken_word(task_state, pulses.get(*task), now.clock).is_some()
            || super::deadlines::is_over_time(task_state, now.clock)
            || super::deadlines::is_stage_over(state, task_state, now.clock)
    };
    state.live.iter().copied().filter(late).collect()
}

/// How many attempts run, and how many of them are overdue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    pub running: usize,
    pub overdue: usize,
}

impl Census {
    /// So many are overdue together that the fault may be ours.
    fn is_suspicious(self) -> bool {
        self.overdue >= SUSPICIOUS_LEAST && self.overdue * 2 >= self.running
    }
}

impl std::ops::Add for Census {
    type Output = Census;

    fn add(self, other: Census) -> Census {
        Census { running: self.running + other.running, overdue: self.overdue + other.overdue }
    }
}

/// Counts a batch's running attempts.
pub fn census(state: &BatchState, pulses: &Pulses, now: Now) -> Census {
    let running = running(state);
    let overdue = running.iter().filter(|task| is_overdue(state, pulses, **task, now.clock)).count();
    Census { running: running.len(), overdue }
}

/// Declares silent attempts failed, unless so many fell silent together that the fault may be ours.
pub(super) fn judge_silence(turn: &mut Turn<'_>, pulses: &Pulses, elsewhere: Census) {
    let now = turn.now.clock;
    let silent: Vec<(TaskIx, Reason)> = turn
        .state
        .live
        .iter()
        .filter_map(|task| Some((*task, verdict(&turn.state.tasks[*task], pulses.get(*task), now)?)))
        .collect();
    if silent.is_empty() {
        return;
    }
    if let Some(doubted) = mass_silence(turn.state, pulses, turn.now, elsewhere) {
        suspect_ourselves(turn, doubted);
        return;
    }
    for (task, because) in silent {
        retry::fail_attempt(turn, task, because);
    }
}

/// Fails attempts that say in their heartbeat that they have ended, and leave no result. Not a matter of silence: nobody
/// doubts what was said.
pub(super) fn judge_words(turn: &mut Turn<'_>, pulses: &Pulses) {
    let now = turn.now.clock;
    let broken =
        |task: &TaskIx| Some((*task, broken_word(&turn.state.tasks[*task], pulses.get(*task), now)?));
    let broken: Vec<(TaskIx, Reason)> = turn.state.live.iter().filter_map(broken).collect();
    for (task, because) in broken {
        retry::fail_attempt(turn, task, because);
    }
}

/// The end of an agent of ours is told by its exit record, whatever it writes into its heartbeat.
fn broken_word(task: &TaskState, pulse: Option<&Pulse>, now: Tick) -> Option<Reason> {
    let pulse = pulse?;
    let (said, since) = pulse.said_end?;
    let is_running = matches!(task.phase, Phase::Running { .. });
    if task.is_ours() || !is_running || now.since(since) <= RESULT_AFTER_WORD.millis() {
        return None;
    }
    if let Some(defects) = &task.refusal {
        return Some(Reason::ResultRefused { defects: defects.clone() });
    }
    let limit = RESULT_AFTER_WORD;
    Some(match said {
        ClaimStatus::Success => Reason::ResultNeverCame { limit },
        ClaimStatus::Failure => {
            let told = pulse.progress.as_ref().map_or(String::new(), |progress| format!(": {progress}"));
            let error = format!("its heartbeat says 'failed'{told}; no result followed within {limit}");
            Reason::AgentReported { errors: vec![error] }
        }
    })
}

/// What speaks against an attempt, if its limit has passed.
fn verdict(task: &TaskState, pulse: Option<&Pulse>, now: Tick) -> Option<Reason> {
    let pulse = pulse?;
    if pulse.looks < LOOKS_LEAST || task.reprieve.is_some_and(|(_, until)| now <= until) {
        return None;
    }
    let (limit, since, reason) = window(task, pulse)?;
    if now.since(since) <= limit.millis() {
        return None;
    }
    if let Some(defects) = &task.refusal {
        return Some(Reason::ResultRefused { defects: defects.clone() });
    }
    Some(match &pulse.malformed {
        Some(defect) => Reason::HeartbeatMalformed { limit, defect: defect.clone() },
        None => reason,
    })
}

/// The window that applies: from the last beat, or from the start where there was none.
fn window(task: &TaskState, pulse: &Pulse) -> Option<(Seconds, Tick, Reason)> {
    let limits = &task.spec.limits;
    match task.phase {
        Phase::Running { since, .. } if pulse.has_beaten => {
            let limit = limits.heartbeat_timeout;
            Some((limit, pulse.since.max(since), Reason::NoHeartbeat { limit }))
        }
        Phase::Running { since, .. } => {
            let limit = limits.start_timeout;
            Some((limit, pulse.since.max(since), Reason::NeverStarted { limit }))
        }
        // An outsider may not have come yet: only a limit that somebody set on purpose counts.
        Phase::Offered { since, .. } if limits.start_timeout_was_set => {
            let limit = limits.start_timeout;
            Some((limit, pulse.since.max(since), Reason::NeverStarted { limit }))
        }
        _ => None,
    }
}

/// The overdue attempts, if in this batch or on the whole bus they are at least three and at least half of
/// those that run.
fn mass_silence(state: &BatchState, pulses: &Pulses, now: Now, elsewhere: Census) -> Option<Vec<TaskIx>> {
    let own = census(state, pulses, now);
    let is_mass = own.is_suspicious() || (own + elsewhere).is_suspicious();
    let is_doubted = |task: &TaskIx| {
        is_overdue(state, pulses, *task, now.clock) && !had_its_reprieve(state, pulses, *task)
    };
    let doubted: Vec<TaskIx> = running(state).into_iter().filter(is_doubted).collect();
    (is_mass && !doubted.is_empty()).then_some(doubted)
}

fn running(state: &BatchState) -> Vec<TaskIx> {
    let runs = |task: &TaskIx| matches!(state.tasks[*task].phase, Phase::Running { .. });
    state.live.iter().copied().filter(runs).collect()
}

/// Half a window without a beat is overdue: agents that stopped at the same moment were at different places
/// in their interval, so they cross the full limit one by one.
fn is_overdue(state: &BatchState, pulses: &Pulses, task: TaskIx, now: Tick) -> bool {
    let silent_for = pulses.get(task).map_or(0, |pulse| now.since(pulse.since));
    silent_for > state.tasks[task].spec.limits.heartbeat_timeout.millis() / 2
}

/// Each silence is doubted once; a beat since then makes the next one a new silence.
fn had_its_reprieve(state: &BatchState, pulses: &Pulses, task: TaskIx) -> bool {
    match (state.tasks[task].reprieve, pulses.get(task)) {
        (Some((suspected_at, _)), Some(pulse)) => pulse.since <= suspected_at,
        _ => false,
    }
}

fn suspect_ourselves(turn: &mut Turn<'_>, doubted: Vec<TaskIx>) {
    let longest = doubted
        .iter()
        .map(|task| turn.state.tasks[*task].spec.limits.heartbeat_timeout.millis())
        .max()
        .unwrap_or(0);
    let running = turn.state.live.len();
    let silent = doubted.iter().map(|task| turn.key(*task)).collect();
    let until = Tick(turn.now.clock.0 + longest);
    turn.record(Event::SelfSuspected { silent, running, until });
}
