//! A batch: an accepted request, a graph of tasks with a policy.

use serde::{Deserialize, Serialize};

use super::clock::{Seconds, WallTime};
use super::evidence::Grade;
use super::handoff::Handoff;
use super::id::{BatchId, TaskKey};
use super::settings::Settings;
use super::task::Task;

/// Longest plan, in bytes: room for 200,000 tasks of some three hundred bytes each.
pub const PLAN_BYTES_MAX: u64 = 64 << 20;

/// Version of `batch.json` and of the journal beside it. Raised when an older wk would lose or misread something.
pub const BATCH_VERSION: u32 = 1;

/// Which dialect the request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A plan, Markdown or JSON: all tasks are known from the start.
    Plan,
    /// Specs dropped into the batch's directory: further ones may join while the batch is open.
    Specs,
    /// An execution request or assignments: another orchestrator hands over, and gets a report back.
    Handoff,
}

/// What to do about two tasks that declare the same file and could run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFileConflict {
    /// One after the other.
    Serialise,
    /// Side by side, with a warning.
    Warn,
    /// The request is refused.
    Refuse,
}

impl OnFileConflict {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "serialise" => Some(Self::Serialise),
            "warn" => Some(Self::Warn),
            "refuse" => Some(Self::Refuse),
            _ => None,
        }
    }
}

/// How long to wait before a retry: exponential, with jitter that depends on the task alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    pub first: Seconds,
    pub factor: f64,
    pub longest: Seconds,
}

/// A file that several tasks declare though nothing orders them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileConflict {
    pub file: String,
    pub tasks: Vec<TaskKey>,
}

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file's name in the inbox, or as the user gave it.
    pub name: String,
    pub sha256: String,
}

/// An accepted request in normal form: what `batch.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub version: u32,
    pub id: BatchId,
    pub origin: Origin,
    pub source: Source,
    pub accepted_at: WallTime,
    /// The limit that the request itself sets; what only outsiders can do has no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_timeout: Option<Seconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_timeout: Option<Seconds>,
    pub close_after: Seconds,
    pub require: Grade,
    pub on_file_conflict: OnFileConflict,
    /// Gates that are commands are run, because whoever runs the plan said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_gates: bool,
    pub backoff: Backoff,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_million_tokens: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_conflicts: Vec<FileConflict>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What came with a handed-over request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// In the plan's order. Empty for an open batch, whose tasks join through the journal.
    pub tasks: Vec<Task>,
}

impl Batch {
    /// Whether its own papers hold values of variables, and so are for the user alone.
    pub fn carries_values(&self) -> bool {
        self.tasks.iter().any(Task::carries_values)
    }

    /// A batch without tasks, under the policy of the settings.
    pub fn new(
        id: BatchId,
        origin: Origin,
        source: Source,
        accepted_at: WallTime,
        settings: &Settings,
    ) -> Self {
        Batch {
            version: BATCH_VERSION,
            id,
            origin,
            source,
            accepted_at,
            parallel_limit: settings.parallel_limit,
            stage_timeout: settings.stage_timeout,
            batch_timeout: settings.batch_timeout,
            close_after: settings.close_after,
            require: settings.require,
            on_file_conflict: settings.on_file_conflict,
            // Whoever demands that a check was run wants it run.
            runs_gates: settings.verify.unwrap_or(settings.require == Grade::Verified),
            backoff: settings.backoff,
            price_per_million_tokens: settings.price_per_million_tokens,
            file_conflicts: Vec::new(),
            warnings: Vec::new(),
            handoff: None,
            tasks: Vec::new(),
        }
    }

    pub fn is_open(&self) -> bool {
        self.origin == Origin::Specs
    }
}
