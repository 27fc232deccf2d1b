//! One task's state: a phase that carries exactly what is true in it, and the record of its tries.

use std::sync::Arc;

use super::TaskIx;
use crate::model::clock::{Tick, WallTime};
use crate::model::defect::Defect;
use crate::model::event::{Sign, Suspect};
use crate::model::evidence::Verdict;
use crate::model::exit::Exit;
use crate::model::id::Attempt;
use crate::model::reason::Reason;
use crate::model::runner::RunnerIdentity;
use crate::model::task::Task;

/// How a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Succeeded,
    Failed(Reason),
    TimedOut(Reason),
    Skipped(Reason),
    Cancelled(Reason),
}

impl Outcome {
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Outcome::Succeeded => None,
            Outcome::Failed(reason)
            | Outcome::TimedOut(reason)
            | Outcome::Skipped(reason)
            | Outcome::Cancelled(reason) => Some(reason),
        }
    }
}

/// Where a task is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// So many dependencies have not succeeded yet.
    Waiting {
        unmet: usize,
    },
    Ready,
    /// Its spec is published; nobody has been seen working on it.
    Offered {
        attempt: Attempt,
        since: Tick,
    },
    Running {
        attempt: Attempt,
        since: Tick,
    },
    /// Its result is collected, and not yet judged.
    Claimed {
        attempt: Attempt,
    },
    /// Ours, and being ended: it goes on until its processes are confirmed gone.
    Ending {
        attempt: Attempt,
        since: Tick,
        because: Reason,
    },
    /// Nobody can tell whether its processes are gone: a person decides.
    Awaiting {
        attempt: Attempt,
        why: String,
    },
    BackingOff {
        next: Attempt,
        until: Tick,
    },
    Done(Outcome),
}

/// One attempt, for the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Try {
    pub attempt: Attempt,
    pub offered_at: WallTime,
    pub started: Option<(WallTime, Sign)>,
    pub ended_at: Option<WallTime>,
    /// The same by the active clock, which never steps back.
    pub offered_tick: Tick,
    pub ended_tick: Option<Tick>,
    pub failed_because: Option<Reason>,
    /// Who its runner is, once it was seen.
    pub runner: Option<Box<RunnerIdentity>>,
    /// How its agent ended, where we started it.
    pub exit: Option<Exit>,
    /// Nobody could confirm that it is gone, and nothing has since.
    pub unconfirmed: Option<Unconfirmed>,
}

impl Try {
    /// Why it failed, where a person is asked whether it is gone.
    pub fn awaited_reason(&self) -> Reason {
        self.failed_because.clone().unwrap_or(Reason::RunnerDied)
    }
}

/// What is not known of an attempt's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmed {
    pub why: String,
    pub suspects: Vec<Suspect>,
}

/// The result that counts, named by its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    pub attempt: Attempt,
    pub sha256: String,
    pub unfenced: bool,
    /// The result itself, where it is small.
    pub inline: Option<String>,
    pub verdict: Verdict,
}

/// Everything decided about one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskState {
    pub spec: Arc<Task>,
    pub phase: Phase,
    pub tries: Vec<Try>,
    pub dependents: Vec<TaskIx>,
    pub collected: Option<Collected>,
    /// The hash of how its declared files were before its first attempt.
    pub baseline: Option<String>,
    /// Tokens that the results of all its attempts reported.
    pub tokens_spent: u64,
    /// What was wrong with the last refused result of the current attempt.
    pub refusal: Option<Vec<Defect>>,
    /// The spec that was refused, by its hash.
    pub refused_spec: Option<String>,
    /// The watcher doubted itself: when, and until when this attempt is left alone.
    pub reprieve: Option<(Tick, Tick)>,
    pub ended_at: Option<WallTime>,
    /// The last try before somebody asked for another: the tries since then count anew.
    pub tries_before: usize,
}

impl TaskState {
    /// An attempt of ours is over. The runner of the first one took the baseline itself; what was read from the disk
    /// before its end, an agent may have written.
    pub(super) fn note_exit(&mut self, exit: &Exit) {
        let (named, told) = (self.baseline.take(), exit.baseline_sha256.clone());
        self.baseline = if exit.attempt == Attempt::FIRST { told.or(named) } else { named.or(told) };
        if let Some(last) = self.tries.last_mut() {
            last.exit = Some(exit.clone());
            last.unconfirmed = None;
        }
    }

    pub(super) fn new(spec: Arc<Task>, phase: Phase, dependents: Vec<TaskIx>) -> Self {
        TaskState {
            spec,
            phase,
            tries: Vec::new(),
            dependents,
            collected: None,
            baseline: None,
            tokens_spent: 0,
            refusal: None,
            refused_spec: None,
            reprieve: None,
            ended_at: None,
            tries_before: 0,
        }
    }

    /// Whether we start its agents ourselves.
    pub fn is_ours(&self) -> bool {
        self.spec.crew.is_some()
    }

    /// Whether its live attempt is ours, and its agent is not known to have ended.
    pub fn awaits_exit(&self) -> bool {
        self.is_ours() && self.live_attempt().is_some() && self.exit().is_none()
    }

    /// How the agent of the live attempt ended, if it has.
    pub fn exit(&self) -> Option<&Exit> {
        let live = self.live_attempt()?;
        self.tries.last().filter(|last| last.attempt == live)?.exit.as_ref()
    }

    /// The runner of an attempt, as the journal names it.
    pub fn runner(&self, attempt: Attempt) -> Option<&RunnerIdentity> {
        self.tries.iter().rev().find(|one| one.attempt == attempt)?.runner.as_deref()
    }

    /// The attempt that is out now.
    pub fn live_attempt(&self) -> Option<Attempt> {
        match self.phase {
            Phase::Offered { attempt, .. }
            | Phase::Running { attempt, .. }
            | Phase::Claimed { attempt }
            | Phase::Ending { attempt, .. }
            | Phase::Awaiting { attempt, .. } => Some(attempt),
            Phase::Waiting { .. } | Phase::Ready | Phase::BackingOff { .. } | Phase::Done(_) => None,
        }
    }

    /// Whether its spec was refused, so that a corrected one may take its place.
    pub fn is_refused(&self) -> bool {
        matches!(self.phase, Phase::Done(Outcome::Failed(Reason::SpecRefused { .. })))
    }

    /// What was wrong with its spec.
    pub fn spec_defects(&self) -> &[Defect] {
        match &self.phase {
            Phase::Done(Outcome::Failed(Reason::SpecRefused { defects })) => defects,
            _ => &[],
        }
    }

    /// Whether another try of it can be asked for.
    pub fn can_be_tried_again(&self) -> bool {
        match &self.phase {
            Phase::Done(Outcome::Succeeded | Outcome::Skipped(_)) => false,
            // A spec that was refused has nothing to run.
            Phase::Done(Outcome::Failed(Reason::SpecRefused { .. })) => false,
            Phase::Done(_) | Phase::Awaiting { .. } | Phase::BackingOff { .. } => true,
            Phase::Waiting { .. }
            | Phase::Ready
            | Phase::Offered { .. }
            | Phase::Running { .. }
            | Phase::Claimed { .. }
            | Phase::Ending { .. } => false,
        }
    }

    /// Whether it ended without success by itself or by somebody's wish, not because another did, and is known to
    /// be gone.
    pub fn has_failed(&self) -> bool {
        self.can_be_tried_again()
            && !matches!(self.phase, Phase::BackingOff { .. })
            && self.unconfirmed().is_none()
    }

    /// What nobody could confirm of its last attempt: another try of it needs a person's word.
    pub fn unconfirmed(&self) -> Option<&Unconfirmed> {
        match self.phase {
            Phase::Awaiting { .. } | Phase::Done(_) => self.tries.last()?.unconfirmed.as_ref(),
            _ => None,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// When work on the task began: the first try's first sign of life.
    pub fn started_at(&self) -> Option<WallTime> {
        self.tries.iter().find_map(|one| one.started.as_ref().map(|(at, _)| *at))
    }
}
