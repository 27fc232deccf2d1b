//! What the names on the bus mean: the way back from a file's name to what it says. The names themselves are
//! spelled in `layout`.

use std::ffi::OsStr;
use std::path::Path;

use super::layout::{
    BATCH_PREFIX, CONTROL, EXIT_ENDING, HEARTBEAT_ENDING, OUTBOX, OUTBOX_HEARTBEAT, OUTBOX_RESULT,
    RESULT_ENDING, TASK_PREFIX, WORK_PREFIX,
};
use crate::model::{Attempt, BatchId, Grade, TaskKey};

/// What a name in a batch's directory means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusName {
    Spec(TaskKey),
    Heartbeat(TaskKey),
    Result(TaskKey),
    ResultError(TaskKey),
    Take(TaskKey, Attempt),
    Exit(TaskKey, Attempt),
    OutboxHeartbeat(TaskKey, Attempt),
    OutboxResult(TaskKey, Attempt),
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
    /// What a name means, relative to the batch's directory.
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
                | OUTBOX
                | "late"
                | "request"
                | "deliver-to.json"
                | "verify"
                | "undone.json"
                | "objects"
        ) {
            return BusName::Own;
        }
        if let Some(work) = name.strip_prefix(WORK_PREFIX).and_then(|rest| rest.strip_suffix(".json")) {
            return BusName::Work(work.to_owned());
        }
        if let Some(rest) = name.strip_prefix(OUTBOX).and_then(|rest| rest.strip_prefix('/')) {
            return of_outbox(rest);
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

/// `2a/1/result.json`: what lies in the outbox of attempt 1.
fn of_outbox(rest: &str) -> BusName {
    let parts: Vec<&str> = rest.split('/').collect();
    let [key, number, file] = parts[..] else { return BusName::Own };
    let key = TaskKey::parse(key).ok();
    let attempt = number.parse().ok().and_then(Attempt::from_wire);
    match (key, attempt, file) {
        (Some(key), Some(attempt), OUTBOX_RESULT) => BusName::OutboxResult(key, attempt),
        (Some(key), Some(attempt), OUTBOX_HEARTBEAT) => BusName::OutboxHeartbeat(key, attempt),
        // What else an agent writes there is its own affair.
        _ => BusName::Own,
    }
}

/// The batch's directory and the name in it that a changed file stands for, however deep it lies.
pub fn place_in_batch(path: &Path) -> Option<(&Path, std::ffi::OsString)> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    let above = |levels: usize| parent.ancestors().nth(levels);
    if parent.file_name() == Some(OsStr::new(CONTROL)) {
        return Some((above(1)?, CONTROL.into()));
    }
    if above(2).and_then(Path::file_name) == Some(OsStr::new(OUTBOX)) {
        let dir = above(3)?;
        return Some((dir, path.strip_prefix(dir).ok()?.as_os_str().to_owned()));
    }
    Some((parent, name.to_owned()))
}

/// `2a.1` of `task-2a.1.take`: the last part is always the attempt.
fn of_attempt(rest: &str, make: fn(TaskKey, Attempt) -> BusName) -> BusName {
    let parsed = rest.rsplit_once('.').and_then(|(id, number)| {
        let attempt = Attempt::from_wire(number.parse().ok()?)?;
        Some(make(TaskKey::parse(id).ok()?, attempt))
    });
    parsed.unwrap_or(BusName::Unknown)
}

/// What stands before the grade that a request's name demands.
const DEMAND: &str = "require=";

/// The name under which a request lies in the inbox, with the evidence that its caller demands:
/// `require=observed-plan.md`. So the demand and the request appear by one rename.
pub fn demanding(demanded: Option<Grade>, name: &str) -> String {
    match demanded {
        Some(grade) => format!("{DEMAND}{grade}-{name}"),
        None => name.to_owned(),
    }
}

/// The evidence that the name of a request demands.
pub fn demanded_by(name: &str) -> Option<Grade> {
    let is_start = |at: &usize| *at == 0 || name.as_bytes()[at - 1] == b'-';
    let at = name.find(DEMAND).filter(is_start)? + DEMAND.len();
    Grade::parse(name[at..].split('-').next()?)
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
    name.ends_with(HEARTBEAT_ENDING) || name == OUTBOX_HEARTBEAT
}

/// Whether only the watcher itself writes files of this name, again and again.
pub fn is_written_by_the_watcher(name: &str) -> bool {
    matches!(name, "journal.jsonl" | "status.json")
}

/// Whether a file that lies loose in `tasks/` may be a spec.
pub fn is_loose_spec(name: &str) -> bool {
    name.ends_with(".json") && !is_dropping(name)
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
        assert_eq!(meaning("outbox/2a/1/result.json"), BusName::OutboxResult(key("2a"), Attempt::FIRST));
        assert_eq!(
            meaning("outbox/2a/1/heartbeat.json"),
            BusName::OutboxHeartbeat(key("2a"), Attempt::FIRST)
        );
        assert_eq!(meaning("outbox/2a/0/result.json"), BusName::Own);
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
