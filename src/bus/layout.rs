//! Every path and file name of the bus, spelled once. One writer per file:
//!
//! | file | writer |
//! |---|---|
//! | `.ce/watchkeeper.toml` | the user |
//! | `.ce/LEDGER.md` | watcher (projection) |
//! | `inbox/*` | anyone; taken by the watcher |
//! | `tasks/batch-N/batch.json`, `journal.jsonl`, `status.json` | watcher |
//! | `tasks/batch-N/task-K.json` | watcher, or dropped by anyone |
//! | `tasks/batch-N/outbox/K/A/*` | the agent of attempt A |
//! | `tasks/batch-N/task-K.hb`, `task-K.result.json` | an agent that knows no outbox |
//! | `tasks/batch-N/task-K.A.take` | whoever takes attempt A |
//! | `tasks/batch-N/task-K.A.exit` | the runner of attempt A |
//! | `tasks/batch-N/task-K.result.error.json` | watcher, for the agent |
//! | `tasks/batch-N/attempts/K/A/runner.lock`, `*.log` | the runner of attempt A |
//! | `tasks/batch-N/control/*` | faces, agents; taken by the watcher |
//! | `batches/`, `completed-batches/`, `quarantine/`, `epoch`, `version`, `watch.lock` | watcher |

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use super::names::{
    BusName, batch_of_directory, batch_of_entry, demanded_by, demanding, is_dropping, is_heartbeat,
    is_loose_spec, is_written_by_the_watcher, key_of_loose_spec, place_in_batch,
};
use crate::model::{Attempt, BatchId, TaskKey};

pub(super) const BATCH_PREFIX: &str = "batch-";
pub(super) const TASK_PREFIX: &str = "task-";
pub(super) const WORK_PREFIX: &str = "work-";
pub(super) const HEARTBEAT_ENDING: &str = ".hb";
pub(super) const RESULT_ENDING: &str = ".result.json";
pub(super) const EXIT_ENDING: &str = ".exit";
const REASON_ENDING: &str = ".reason.json";
/// The directory for wishes; a change in it is a change of its batch.
pub const CONTROL: &str = "control";
/// The directory with one place to write for each attempt.
pub const OUTBOX: &str = "outbox";
pub(super) const OUTBOX_HEARTBEAT: &str = "heartbeat.json";
pub(super) const OUTBOX_RESULT: &str = "result.json";
const HOME: &str = ".ce";
const BUS: &str = "orchestration";

/// The bus below one root directory (the one that holds `.ce`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Layout { root: root.into() }
    }

    /// The nearest directory from `start` upward that has a `.ce`, else `start` itself.
    pub fn nearest_root(start: &Path) -> PathBuf {
        let found = start.ancestors().find(|dir| dir.join(HOME).is_dir());
        found.unwrap_or(start).to_owned()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
    pub fn home(&self) -> PathBuf {
        self.root.join(HOME)
    }
    pub fn settings(&self) -> PathBuf {
        self.home().join("watchkeeper.toml")
    }
    pub fn ledger(&self) -> PathBuf {
        self.home().join("LEDGER.md")
    }
    pub fn bus(&self) -> PathBuf {
        self.home().join(BUS)
    }
    /// Keeps the bus out of git, which would sweep it away with other untracked files.
    pub fn gitignore(&self) -> PathBuf {
        self.bus().join(".gitignore")
    }
    pub fn inbox(&self) -> PathBuf {
        self.bus().join("inbox")
    }
    pub fn tasks(&self) -> PathBuf {
        self.bus().join("tasks")
    }
    pub fn results(&self) -> PathBuf {
        self.bus().join("batches")
    }
    pub fn archive(&self) -> PathBuf {
        self.bus().join("completed-batches")
    }
    pub fn quarantine(&self) -> PathBuf {
        self.bus().join("quarantine")
    }
    pub fn epoch(&self) -> PathBuf {
        self.bus().join("epoch")
    }
    /// Which format the bus is in.
    pub fn version(&self) -> PathBuf {
        self.bus().join("version")
    }
    pub fn lock(&self) -> PathBuf {
        self.bus().join("watch.lock")
    }
    /// How far the watchers' active time has come, and what the last pass of `watch --once` saw.
    pub fn clock(&self) -> PathBuf {
        self.bus().join("clock.json")
    }

    /// Every directory that must exist before a watcher can work.
    pub fn directories(&self) -> [PathBuf; 5] {
        [self.inbox(), self.tasks(), self.results(), self.archive(), self.quarantine()]
    }

    pub fn batch(&self, id: &BatchId) -> BatchPaths {
        BatchPaths { dir: self.tasks().join(format!("{BATCH_PREFIX}{id}")) }
    }
    pub fn archived(&self, id: &BatchId) -> BatchPaths {
        BatchPaths { dir: self.archive().join(format!("{BATCH_PREFIX}{id}")) }
    }
    /// Where a batch is put together before it is accepted as a whole.
    pub fn batch_in_the_making(&self, id: &BatchId) -> BatchPaths {
        let prefix = super::real_disk::TEMPORARY_PREFIX;
        BatchPaths { dir: self.tasks().join(format!("{prefix}{BATCH_PREFIX}{id}")) }
    }
    pub fn batch_result(&self, id: &BatchId) -> PathBuf {
        self.results().join(format!("{BATCH_PREFIX}{id}{RESULT_ENDING}"))
    }
}

/// The files of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPaths {
    dir: PathBuf,
}

impl BatchPaths {
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        BatchPaths { dir: dir.into() }
    }
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// The directory that holds the bus of this batch: below it are `.ce`, `orchestration` and one more.
    pub fn root(&self) -> &Path {
        self.dir.ancestors().nth(4).unwrap_or(&self.dir)
    }
    pub fn batch(&self) -> PathBuf {
        self.dir.join("batch.json")
    }
    pub fn journal(&self) -> PathBuf {
        self.dir.join("journal.jsonl")
    }
    pub fn status(&self) -> PathBuf {
        self.dir.join("status.json")
    }
    /// The request as it was given.
    pub fn request(&self) -> PathBuf {
        self.dir.join("request")
    }
    /// Where the caller wants the report besides, a path each.
    pub fn deliveries(&self) -> PathBuf {
        self.dir.join("deliver-to.json")
    }
    pub fn control(&self) -> PathBuf {
        self.dir.join(CONTROL)
    }
    pub fn late(&self) -> PathBuf {
        self.dir.join("late")
    }
    /// A result that came too late, named by the beginning of its hash.
    pub fn late_result(&self, key: &TaskKey, hash: &str) -> PathBuf {
        self.late().join(format!("{TASK_PREFIX}{key}.{hash}{RESULT_ENDING}"))
    }
    pub fn spec(&self, key: &TaskKey) -> PathBuf {
        self.dir.join(format!("{TASK_PREFIX}{key}.json"))
    }
    pub fn heartbeat(&self, key: &TaskKey) -> PathBuf {
        self.dir.join(format!("{TASK_PREFIX}{key}{HEARTBEAT_ENDING}"))
    }
    pub fn result(&self, key: &TaskKey) -> PathBuf {
        self.dir.join(format!("{TASK_PREFIX}{key}{RESULT_ENDING}"))
    }
    pub fn result_error(&self, key: &TaskKey) -> PathBuf {
        self.dir.join(format!("{TASK_PREFIX}{key}.result.error.json"))
    }
    pub fn take(&self, key: &TaskKey, attempt: Attempt) -> PathBuf {
        self.dir.join(format!("{TASK_PREFIX}{key}.{attempt}.take"))
    }
    /// Where attempt A writes, while it is under way.
    pub fn outbox(&self, key: &TaskKey, attempt: Attempt) -> OutboxPaths {
        OutboxPaths { dir: self.dir.join(OUTBOX).join(key.as_str()).join(attempt.to_string()) }
    }
    /// The runner's exit record, until it is taken into the attempt's folder.
    pub fn exit(&self, key: &TaskKey, attempt: Attempt) -> PathBuf {
        self.dir.join(format!("{TASK_PREFIX}{key}.{attempt}{EXIT_ENDING}"))
    }
    /// Contents of outputs, by digest: what agents began with and what they made.
    pub fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }
    /// What slow work for the whole batch reports back.
    pub fn work(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{WORK_PREFIX}{name}.json"))
    }
    /// What the n-th look after the batch's end found.
    pub fn verification(&self, number: u32) -> PathBuf {
        self.dir.join("verify").join(number.to_string())
    }
    /// That the batch was undone after its end, and when.
    pub fn undone(&self) -> PathBuf {
        self.dir.join("undone.json")
    }
    pub fn attempt(&self, key: &TaskKey, attempt: Attempt) -> AttemptPaths {
        AttemptPaths { dir: self.dir.join("attempts").join(key.as_str()).join(attempt.to_string()) }
    }
}

/// The place to write of one attempt alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxPaths {
    dir: PathBuf,
}

impl OutboxPaths {
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    pub fn heartbeat(&self) -> PathBuf {
        self.dir.join(OUTBOX_HEARTBEAT)
    }
    pub fn result(&self) -> PathBuf {
        self.dir.join(OUTBOX_RESULT)
    }
    /// Why the result was refused; written by the watcher.
    pub fn result_error(&self) -> PathBuf {
        self.dir.join("result.error.json")
    }
}

/// The files of one attempt: what belongs to it alone, for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptPaths {
    dir: PathBuf,
}

impl AttemptPaths {
    /// The attempt's folder, as a runner is told it.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        AttemptPaths { dir: dir.into() }
    }
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Another attempt of the same task.
    pub fn sibling(&self, attempt: Attempt) -> AttemptPaths {
        AttemptPaths { dir: self.dir.with_file_name(attempt.to_string()) }
    }
    /// Our own copy of the spec: the agent may delete the published one.
    pub fn spec(&self) -> PathBuf {
        self.dir.join("spec.json")
    }
    /// The same, on its way to where agents look.
    pub fn unpublished_spec(&self) -> PathBuf {
        self.dir.join("unpublished.json")
    }
    /// How the files that the task declares were before its first attempt: one file for all its attempts.
    pub fn baseline(&self) -> PathBuf {
        self.dir.with_file_name("baseline.json")
    }
    pub fn result(&self) -> PathBuf {
        self.dir.join("result.json")
    }
    /// The attempt's outbox after its end: whatever is written there now is written to nobody.
    pub fn outbox(&self) -> OutboxPaths {
        OutboxPaths { dir: self.dir.join(OUTBOX) }
    }
    pub fn heartbeat(&self) -> PathBuf {
        self.dir.join("last.hb")
    }
    pub fn take(&self) -> PathBuf {
        self.dir.join("take")
    }
    /// The published spec, when it is withdrawn.
    pub fn withdrawn_spec(&self) -> PathBuf {
        self.dir.join("published.json")
    }
    /// A spec as somebody dropped it, before it was put into normal form.
    pub fn dropped_spec(&self) -> PathBuf {
        self.dir.join("dropped.json")
    }
    pub fn result_error(&self) -> PathBuf {
        self.dir.join("result.error.json")
    }
    /// What the runner is to do.
    pub fn order(&self) -> PathBuf {
        self.dir.join("launch.json")
    }
    /// Held by the runner for its whole life; its first line says who that is.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("runner.lock")
    }
    /// The values of an agent's environment, for a launcher that cannot hand them on; read once and removed.
    pub fn environment(&self) -> PathBuf {
        self.dir.join("environment")
    }
    /// The watcher's request that the attempt end.
    pub fn stop(&self) -> PathBuf {
        self.dir.join("stop.json")
    }
    pub fn stdout(&self) -> PathBuf {
        self.dir.join("stdout.log")
    }
    pub fn stderr(&self) -> PathBuf {
        self.dir.join("stderr.log")
    }
    /// The name of the attempt's terminal session, where it has one.
    pub fn session(&self) -> PathBuf {
        self.dir.join("session")
    }
    /// What a terminal session of the attempt showed.
    pub fn pane(&self) -> PathBuf {
        self.dir.join("tmux.log")
    }
    /// The runner's exit record, once it is taken in.
    pub fn exit(&self) -> PathBuf {
        self.dir.join("exit.json")
    }
    /// The logs of the command that decides one criterion.
    pub fn check(&self, criterion: &str) -> PathBuf {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name: String = criterion.chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
        self.checks().join(name)
    }
    /// The folder of all of them.
    pub fn checks(&self) -> PathBuf {
        self.dir.join("checks")
    }
    /// How the outputs of a handed-over attempt looked when it began.
    pub fn outputs_before(&self) -> PathBuf {
        self.dir.join("outputs-before.json")
    }
    /// What was found about a handed-over attempt when it had ended.
    pub fn inspected(&self) -> PathBuf {
        self.dir.join("inspected.json")
    }
    /// Stands beside a kept result that lay in no outbox and names no attempt.
    pub fn unfenced(&self) -> PathBuf {
        self.dir.join("unfenced")
    }
    /// A drop box that never became a result.
    pub fn unfinished_result(&self) -> PathBuf {
        self.dir.join("unfinished.result.json")
    }
}

/// Whether a path is a bus, or leads into one.
pub fn is_on_bus(path: &Path) -> bool {
    path.ancestors().any(|dir| dir.ends_with(Path::new(HOME).join(BUS)))
}

/// The reason's place beside a file in quarantine.
pub fn reason_beside(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(REASON_ENDING);
    target.with_file_name(name)
}

/// The older half of a log that has reached its limit.
pub fn older_log(log: &Path) -> PathBuf {
    let mut name = log.file_name().unwrap_or_default().to_owned();
    name.push(".1");
    log.with_file_name(name)
}

/// Beside a log of which the beginning is gone: how many bytes that are.
pub fn gone_of_log(log: &Path) -> PathBuf {
    let mut name = log.file_name().unwrap_or_default().to_owned();
    name.push(".gone");
    log.with_file_name(name)
}

/// Whether a file in quarantine is the reason of another one.
pub fn is_reason(name: &OsStr) -> bool {
    name.to_string_lossy().ends_with(REASON_ENDING)
}
