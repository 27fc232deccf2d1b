//! One task's state: a phase that carries exactly what is true in it, and the record of its tries.

use std::sync::Arc;

use super::TaskIx;
use crate::model::clock::{Tick, WallTime};
use crate::model::defect::Defect;
use crate::model::event::Sign;
use crate::model::evidence::Verdict;
use crate::model::id::Attempt;
use crate::model::reason::Reason;
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
    pub failed_because: Option<Reason>,
}

/// The result that counts, named by its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    pub attempt: Attempt,
    pub sha256: String,
    pub unfenced: bool,
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
    /// Tokens that the results of all its attempts reported.
    pub tokens_spent: u64,
    /// What was wrong with the last refused result of the current attempt.
    pub refusal: Option<Vec<Defect>>,
    /// The watcher doubted itself: when, and until when this attempt is left alone.
    pub reprieve: Option<(Tick, Tick)>,
    pub ended_at: Option<WallTime>,
}

impl TaskState {
    pub(super) fn new(spec: Arc<Task>, phase: Phase, dependents: Vec<TaskIx>) -> Self {
        TaskState {
            spec,
            phase,
            tries: Vec::new(),
            dependents,
            collected: None,
            tokens_spent: 0,
            refusal: None,
            reprieve: None,
            ended_at: None,
        }
    }

    /// The attempt that is out now.
    pub fn live_attempt(&self) -> Option<Attempt> {
        match self.phase {
            Phase::Offered { attempt, .. } | Phase::Running { attempt, .. } | Phase::Claimed { attempt } => {
                Some(attempt)
            }
            Phase::Waiting { .. } | Phase::Ready | Phase::BackingOff { .. } | Phase::Done(_) => None,
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
