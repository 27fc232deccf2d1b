//! The journal's vocabulary: everything that a watcher can decide.
//!
//! An event is at once the decision, the durable intent of its effect, and what the state is folded from.
//! Adding one means: teach `state` to apply it, `watcher::act` to perform it, `outcome::story` to tell it.

use serde::{Deserialize, Serialize};

use super::clock::Tick;
use super::defect::Defect;
use super::evidence::Verdict;
use super::id::{Attempt, TaskKey};
use super::reason::Reason;
use super::task::Task;

/// By what an attempt first showed that somebody works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sign", rename_all = "snake_case")]
pub enum Sign {
    /// A take file, by `wk agent next` or by hand.
    Take {
        by: String,
    },
    Beat,
    Result,
}

/// Why a result was put aside instead of being used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "late", rename_all = "snake_case")]
pub enum LateBecause {
    /// The task had already ended.
    Settled,
    /// It speaks for another attempt than the current one.
    OtherAttempt { current: Attempt },
    /// The attempt that wrote it had already been given up; the next is not out yet.
    BetweenAttempts,
}

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchStatus {
    Success,
    PartialSuccess,
    Failure,
    Timeout,
    Cancelled,
}

impl BatchStatus {
    pub fn word(self) -> &'static str {
        match self {
            BatchStatus::Success => "success",
            BatchStatus::PartialSuccess => "partial_success",
            BatchStatus::Failure => "failure",
            BatchStatus::Timeout => "timeout",
            BatchStatus::Cancelled => "cancelled",
        }
    }
}

/// One line of a batch's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The request was accepted; `batch.json` has its normal form.
    Accepted {
        tasks: usize,
    },
    /// A watcher took over a batch that was already under way.
    Resumed {
        running: usize,
    },
    /// A dropped spec became a task of an open batch.
    Joined {
        task: Box<Task>,
    },
    /// A dropped spec was refused: that task's end.
    SpecRefused {
        task: TaskKey,
        sha256: String,
        defects: Vec<Defect>,
    },
    /// The attempt may begin: its spec is published.
    Offered {
        task: TaskKey,
        attempt: Attempt,
    },
    /// Somebody works on it.
    Started {
        task: TaskKey,
        attempt: Attempt,
        #[serde(flatten)]
        sign: Sign,
    },
    /// A file in the drop box was not a result; the agent is told, the attempt goes on.
    ResultRefused {
        task: TaskKey,
        attempt: Attempt,
        sha256: String,
        defects: Vec<Defect>,
    },
    /// The first valid result of the current attempt, named by its hash.
    Collected {
        task: TaskKey,
        attempt: Attempt,
        sha256: String,
        /// From attempt 2 on: the result does not say which attempt it speaks for.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unfenced: bool,
        /// What the attempt cost, where its agent says so; failed attempts cost too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens_used: Option<u64>,
        verdict: Verdict,
    },
    Succeeded {
        task: TaskKey,
        attempt: Attempt,
    },
    /// The attempt is over without success. With `retry_at` another follows, else the task has ended.
    AttemptFailed {
        task: TaskKey,
        attempt: Attempt,
        because: Reason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Tick>,
    },
    /// A task that never began will not: its dependency failed, or somebody cancelled it.
    Abandoned {
        task: TaskKey,
        because: Reason,
    },
    /// A result that came after its verdict: kept, never used.
    Late {
        task: TaskKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        sha256: String,
        because: LateBecause,
    },
    /// Many attempts fell silent together: the watcher doubts itself and gives each one further window.
    SelfSuspected {
        silent: Vec<TaskKey>,
        running: usize,
        until: Tick,
    },
    /// Somebody asked for the end of the batch.
    CancelAsked {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    Finished {
        status: BatchStatus,
    },
}

impl Event {
    /// The task that the event is about, if it is about one.
    pub fn task(&self) -> Option<&TaskKey> {
        match self {
            Event::Joined { task } => Some(&task.key),
            Event::SpecRefused { task, .. }
            | Event::Offered { task, .. }
            | Event::Started { task, .. }
            | Event::ResultRefused { task, .. }
            | Event::Collected { task, .. }
            | Event::Succeeded { task, .. }
            | Event::AttemptFailed { task, .. }
            | Event::Abandoned { task, .. }
            | Event::Late { task, .. } => Some(task),
            Event::Accepted { .. }
            | Event::Resumed { .. }
            | Event::SelfSuspected { .. }
            | Event::CancelAsked { .. }
            | Event::Finished { .. } => None,
        }
    }
}

/// An event with its place in the journal: what a line holds, less its checksum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub seq: u64,
    /// The watcher's turn: events of one turn become durable together, and their effects follow.
    pub turn: u64,
    pub epoch: super::id::Epoch,
    pub at: super::clock::WallTime,
    pub clock: Tick,
    #[serde(flatten)]
    pub event: Event,
}
