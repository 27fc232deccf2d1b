//! How an agent that we started ended, as its runner saw it: the exit record.
//!
//! A record says that no process of the attempt is left. Without one an attempt has not ended, whatever
//! its agent says.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::clock::{Seconds, WallTime};
use super::declared::DeclaredPlace;
use super::id::{Attempt, TaskKey};

/// The exit code by which an agent says that another try would not help.
pub const DO_NOT_RETRY: i32 = 125;

/// What a runner writes when its agent's whole tree is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub task: TaskKey,
    pub attempt: Attempt,
    /// `None` where a signal ended it, or where it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why the runner ended it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    pub started_at: WallTime,
    pub ended_at: WallTime,
    pub wall_seconds: f64,
    /// User and system time of the whole tree.
    pub cpu_seconds: f64,
    pub peak_memory_kb: u64,
    /// Secrets that were removed from the logs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redacted: u64,
    /// US dollars, where the agent's output tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The agent wrote no result, so the runner did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result_by_runner: bool,
    /// Why the runner could not leave one either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_result: Option<String>,
    /// What its output made look doubtful: permissions refused, an output that ends too early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Declared outputs that were there in the end, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produced: Vec<String>,
    /// What the runner found about its outputs is in a file of this hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspected_sha256: Option<String>,
    /// What became of the files that the task declares, where they are few; else it is with what was inspected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<DeclaredPlace>,
    /// How those files were before the task's first attempt is in a file of this hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_sha256: Option<String>,
    /// The terminal session that it lived in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The attempt's mark: tells a record from one that a runner of another bus of this name left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// Why a runner ended its agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Stopped {
    /// The attempt's time was up.
    Timeout { limit: Seconds },
    /// One of its resource limits was reached.
    Limit { what: Resource, limit: u64 },
    /// The watcher asked for it.
    Asked { why: String },
    /// A later attempt exists, so this one must not go on.
    Superseded,
    /// Its result was there, but its processes did not end by themselves.
    Lingered,
    /// The terminal that the runner lived in is gone.
    HungUp,
    /// The command could not be started at all.
    NotStarted { why: String },
}

/// What an agent may use only so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    MemoryMb,
    CpuSeconds,
    Processes,
    OpenFiles,
    FileSizeMb,
}

impl Resource {
    pub fn word(self) -> &'static str {
        match self {
            Resource::MemoryMb => "memory_mb",
            Resource::CpuSeconds => "cpu_seconds",
            Resource::Processes => "processes",
            Resource::OpenFiles => "open_files",
            Resource::FileSizeMb => "file_size_mb",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Exit {
    /// Whether the agent ended by itself and says that all is well.
    pub fn is_clean(&self) -> bool {
        self.stopped.is_none() && self.exit_code == Some(0)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
