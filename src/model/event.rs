//! The journal's vocabulary: everything that a watcher can decide.
//!
//! An event is at once the decision, the durable intent of its effect, and what the state is folded from.
//! Adding one means: teach `state` to apply it, `watcher::act` to perform it, `outcome::story` to tell it.

use serde::{Deserialize, Serialize};

use super::clock::{Seconds, Tick};
use super::defect::Defect;
use super::evidence::Verdict;
use super::exit::Exit;
use super::handoff::{Choices, MergeOutcome, Prepared};
use super::id::{Attempt, TaskKey};
use super::reason::Reason;
use super::runner::RunnerIdentity;
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
    /// The published spec is gone, and nobody but an agent removes it.
    SpecRemoved,
    /// We started it ourselves.
    Launch {
        agent: String,
        launcher: String,
    },
}

/// A process that may belong to an attempt, and nothing tells. Its start tells it from a later one of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    pub pid: u32,
    /// Clock ticks from boot.
    pub started: u64,
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
    /// The attempt was being ended when it came.
    Ending,
    /// A valid result of the same attempt was there before it.
    NotTheFirst,
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
        /// The hash of `batch.json`: another one in its place is not read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_sha256: Option<String>,
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
    /// How the files that the task declares were before its first attempt is in a file of this hash.
    Baselined {
        task: TaskKey,
        sha256: String,
    },
    /// An agent of ours is started for the attempt.
    Launched {
        task: TaskKey,
        attempt: Attempt,
        agent: String,
        launcher: String,
    },
    /// The runner of an attempt that we started was seen: who it is, whatever its lock says from now on.
    Begun {
        task: TaskKey,
        attempt: Attempt,
        runner: Box<RunnerIdentity>,
    },
    /// The agent of an attempt that we started has ended, and no process of it is left.
    Exited {
        exit: Box<Exit>,
    },
    /// An attempt that we started is being ended: nothing follows before it is confirmed gone.
    Ending {
        task: TaskKey,
        attempt: Attempt,
        because: Reason,
    },
    /// Whether the attempt's processes are gone cannot be told: a person is asked, and nothing is retried.
    #[serde(rename = "unconfirmed_kill")]
    Unconfirmed {
        task: TaskKey,
        attempt: Attempt,
        why: String,
        /// Who may be what is left of it, where somebody can be named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        suspects: Vec<Suspect>,
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
        /// A small result rides along, so that its file needs no sync of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inline: Option<String>,
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
    /// Nothing further begins until somebody asks for it to go on.
    PauseAsked {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    ResumeAsked {
        by: String,
    },
    /// Somebody wants another try of a task that ended without success, or whose end nobody could confirm.
    RetryAsked {
        task: TaskKey,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A handed-over batch: its workspace is made, the snapshot taken; no agent begins before that.
    Preparing,
    Prepared {
        #[serde(flatten)]
        prepared: Prepared,
    },
    /// The workspace or the snapshot could not be had: no agent begins at all.
    NotPrepared {
        why: String,
    },
    /// All tasks have ended: their outputs become one, or are accounted for.
    Merging {
        round: u32,
    },
    Merged {
        round: u32,
        outcome: Box<MergeOutcome>,
    },
    /// A person has said what becomes of the conflicts.
    ResolveAsked {
        by: String,
        choices: Choices,
    },
    /// The time of the whole ran out while the outputs were merged; no task is left that could be told so.
    OutOfTime {
        limit: Seconds,
    },
    Finished {
        status: BatchStatus,
    },
    /// An archived batch is under way again.
    Reopened {
        by: String,
    },
}

impl Event {
    /// The task that the event is about, if it is about one.
    pub fn task(&self) -> Option<&TaskKey> {
        match self {
            Event::Joined { task } => Some(&task.key),
            Event::Exited { exit } => Some(&exit.task),
            Event::SpecRefused { task, .. }
            | Event::Offered { task, .. }
            | Event::Started { task, .. }
            | Event::Baselined { task, .. }
            | Event::Launched { task, .. }
            | Event::Begun { task, .. }
            | Event::Ending { task, .. }
            | Event::Unconfirmed { task, .. }
            | Event::RetryAsked { task, .. }
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
            | Event::PauseAsked { .. }
            | Event::ResumeAsked { .. }
            | Event::Preparing
            | Event::Prepared { .. }
            | Event::NotPrepared { .. }
            | Event::Merging { .. }
            | Event::Merged { .. }
            | Event::ResolveAsked { .. }
            | Event::OutOfTime { .. }
            | Event::Reopened { .. }
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
