//! Every path and file name of the bus, spelled once. One writer per file:
//!
//! | file | writer |
//! |---|---|
//! | `.ce/watchkeeper.toml` | the user |
//! | `.ce/LEDGER.md` | watcher (projection) |
//! | `inbox/*` | anyone; taken by the watcher |
//! | `tasks/batch-N/batch.json`, `journal.jsonl`, `status.json` | watcher |
//! | `tasks/batch-N/task-K.json` | watcher, or dropped by anyone |
//! | `tasks/batch-N/task-K.hb`, `task-K.result.json` | the agent |
//! | `tasks/batch-N/task-K.A.take` | whoever takes attempt A |
//! | `tasks/batch-N/task-K.A.exit` | the runner of attempt A |
//! | `tasks/batch-N/task-K.result.error.json` | watcher, for the agent |
//! | `tasks/batch-N/attempts/K/A/runner.lock`, `*.log` | the runner of attempt A |
//! | `tasks/batch-N/control/*` | faces, agents; taken by the watcher |
//! | `batches/`, `completed-batches/`, `quarantine/`, `epoch`, `watch.lock` | watcher |

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::model::{Attempt, BatchId, TaskKey};

const BATCH_PREFIX: &str = "batch-";
const TASK_PREFIX: &str = "task-";
const WORK_PREFIX: &str = "work-";
const HEARTBEAT_ENDING: &str = ".hb";
const RESULT_ENDING: &str = ".result.json";
const EXIT_ENDING: &str = ".exit";
const REASON_ENDING: &str = ".reason.json";
/// The directory for wishes; a change in it is a change of its batch.
pub const CONTROL: &str = "control";

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
        let found = start.ancestors().find(|dir| dir.join(".ce").is_dir());
        found.unwrap_or(start).to_owned()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
    pub fn home(&self) -> PathBuf {
        self.root.join(".ce")
    }
    pub fn settings(&self) -> PathBuf {
        self.home().join("watchkeeper.toml")
    }
    pub fn ledger(&self) -> PathBuf {
        self.home().join("LEDGER.md")
    }
    pub fn bus(&self) -> PathBuf {
        self.home().join("orchestration")
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
    /// How the declared files looked when the attempt began.
    pub fn before(&self) -> PathBuf {
        self.dir.join("before.json")
    }
    pub fn result(&self) -> PathBuf {
        self.dir.join("result.json")
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
    /// A drop box that never became a result.
    pub fn unfinished_result(&self) -> PathBuf {
        self.dir.join("unfinished.result.json")
    }
}

/// What a name in a batch's directory means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusName {
    Spec(TaskKey),
    Heartbeat(TaskKey),
    Result(TaskKey),
    ResultError(TaskKey),
    Take(TaskKey, Attempt),
    Exit(TaskKey, Attempt),
    /// What slow work for the whole batch reports back.
    Work(String),
    /// Our own files.
    Own,
    /// What editors and systems leave behind.
    Dropping,
    /// Looks like a task's file, but its id breaks the rule.
    BadId {
        id: String,
        defect: crate::model::id::IdDefect,
    },
    Unknown,
}

impl BusName {
    pub fn of(name: &OsStr) -> BusName {
        let Some(name) = name.to_str() else {
            let shown = name.to_string_lossy();
            let is_tasks = shown.starts_with(TASK_PREFIX) && !is_dropping(&shown);
            let defect = crate::model::id::IdDefect::BadCharacter(char::REPLACEMENT_CHARACTER);
            return if is_tasks {
                BusName::BadId { id: shown.into_owned(), defect }
            } else {
                BusName::Unknown
            };
        };
        if is_dropping(name) {
            return BusName::Dropping;
        }
        if matches!(
            name,
            "batch.json"
                | "journal.jsonl"
                | "status.json"
                | "attempts"
                | CONTROL
                | "late"
                | "request"
                | "objects"
        ) {
            return BusName::Own;
        }
        if let Some(work) = name.strip_prefix(WORK_PREFIX).and_then(|rest| rest.strip_suffix(".json")) {
            return BusName::Work(work.to_owned());
        }
        let Some(rest) = name.strip_prefix(TASK_PREFIX) else { return BusName::Unknown };
        if let Some(rest) = rest.strip_suffix(".take") {
            return of_attempt(rest, BusName::Take);
        }
        if let Some(rest) = rest.strip_suffix(EXIT_ENDING) {
            return of_attempt(rest, BusName::Exit);
        }
        let with_key = |id: &str, make: fn(TaskKey) -> BusName| match TaskKey::parse(id) {
            Ok(key) => make(key),
            Err(defect) => BusName::BadId { id: id.to_owned(), defect },
        };
        if let Some(id) = rest.strip_suffix(".result.error.json") {
            with_key(id, BusName::ResultError)
        } else if let Some(id) = rest.strip_suffix(RESULT_ENDING) {
            with_key(id, BusName::Result)
        } else if let Some(id) = rest.strip_suffix(HEARTBEAT_ENDING) {
            with_key(id, BusName::Heartbeat)
        } else if let Some(id) = rest.strip_suffix(".json") {
            with_key(id, BusName::Spec)
        } else {
            BusName::Unknown
        }
    }
}

/// `2a.1` of `task-2a.1.take`: the last part is always the attempt.
fn of_attempt(rest: &str, make: fn(TaskKey, Attempt) -> BusName) -> BusName {
    let parsed = rest.rsplit_once('.').and_then(|(id, number)| {
        let attempt = Attempt::from_wire(number.parse().ok()?)?;
        Some(make(TaskKey::parse(id).ok()?, attempt))
    });
    parsed.unwrap_or(BusName::Unknown)
}

/// Files that editors and systems leave behind, which nobody meant to send.
pub fn is_dropping(name: &str) -> bool {
    name.starts_with('.')
        || name.ends_with('~')
        || name.ends_with(".tmp")
        || name.ends_with(".partial")
        || name.ends_with(".swp")
        || name.ends_with(".bak")
        || name == "4913"
        || (name.starts_with('#') && name.ends_with('#'))
}

/// The batch that a directory below `tasks/` stands for.
pub fn batch_of_directory(name: &OsStr) -> Option<Result<BatchId, (String, crate::model::id::IdDefect)>> {
    let id = name.to_str()?.strip_prefix(BATCH_PREFIX)?;
    Some(BatchId::parse(id).map_err(|defect| (id.to_owned(), defect)))
}

/// The batch that an entry below `tasks/`, `batches/` or `completed-batches/` stands for.
pub fn batch_of_entry(name: &OsStr) -> Option<BatchId> {
    let name = name.to_str()?;
    let stem = name.strip_suffix(RESULT_ENDING).unwrap_or(name);
    batch_of_directory(OsStr::new(stem))?.ok()
}

/// Whether a change of this file is no more than a sign of life.
pub fn is_heartbeat(name: &str) -> bool {
    name.ends_with(HEARTBEAT_ENDING)
}

/// Whether only the watcher itself writes files of this name, again and again.
pub fn is_written_by_the_watcher(name: &str) -> bool {
    matches!(name, "journal.jsonl" | "status.json")
}

/// Whether a file that lies loose in `tasks/` may be a spec.
pub fn is_loose_spec(name: &str) -> bool {
    name.ends_with(".json") && !is_dropping(name)
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

/// The task that a loose spec's file name stands for, if it names one.
pub fn key_of_loose_spec(name: &OsStr) -> Option<TaskKey> {
    let stem = name.to_str()?.strip_suffix(".json")?;
    TaskKey::parse(stem.strip_prefix(TASK_PREFIX).unwrap_or(stem)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(name: &str) -> BusName {
        BusName::of(OsStr::new(name))
    }

    #[test]
    fn a_name_means_one_thing() {
        let key = |text: &str| TaskKey::parse(text).unwrap();
        assert_eq!(meaning("task-2a.json"), BusName::Spec(key("2a")));
        assert_eq!(meaning("task-2a.hb"), BusName::Heartbeat(key("2a")));
        assert_eq!(meaning("task-2a.result.json"), BusName::Result(key("2a")));
        assert_eq!(meaning("task-2a.result.error.json"), BusName::ResultError(key("2a")));
        assert_eq!(meaning("task-2.1.3.take"), BusName::Take(key("2.1"), Attempt::from_wire(3).unwrap()));
        assert_eq!(meaning("task-x.take"), BusName::Unknown);
        assert_eq!(meaning("journal.jsonl"), BusName::Own);
        assert_eq!(meaning("notes.txt"), BusName::Unknown);
        assert!(matches!(meaning("task--rf.json"), BusName::BadId { .. }));
    }

    #[test]
    fn droppings_of_editors_and_systems_are_nobodys_message() {
        for name in
            ["task-1.json~", ".task-1.json.swp", "4913", "task-1.json.tmp", ".DS_Store", ".nfs0001", ".tmp-x"]
        {
            assert_eq!(meaning(name), BusName::Dropping, "{name}");
        }
    }
}
