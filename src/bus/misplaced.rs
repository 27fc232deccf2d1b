//! Names that mean nothing where they lie, and where their writers probably meant to put them.
//!
//! Pure. Nothing is moved: whoever dropped it is told the right place.

use std::ffi::OsStr;

use super::disk::{Disk, Listed, NodeKind};
use super::layout::{BATCH_PREFIX, BusName, HEARTBEAT_ENDING, Layout, RESULT_ENDING, TASK_PREFIX};
use super::names::{batch_of_directory, is_dropping, is_loose_spec};
use crate::model::{BatchId, TaskKey};

/// Why an entry of `tasks/` is ignored and where it belongs; `None` if it is not ignored.
pub fn in_tasks(name: &OsStr, kind: NodeKind) -> Option<String> {
    let shown = name.to_string_lossy();
    if is_dropping(&shown) {
        return None;
    }
    if kind == NodeKind::Directory {
        // One whose id breaks the rule is told of where batches are looked for.
        return batch_of_directory(name).is_none().then(|| directory(&shown));
    }
    if is_loose_spec(&shown) {
        return None;
    }
    Some(match lower_ending(&shown) {
        Some(renamed) => format!("a spec ends in .json, in small letters; rename it to {renamed}"),
        None if is_plan(&shown) => "this is the place for specs; move the plan into inbox/".to_owned(),
        None => "a spec ends in .json; plans and requests belong into inbox/".to_owned(),
    })
}

/// Everything that lies in `tasks/` in vain, each as a sentence.
pub fn ignored_in_tasks(disk: &impl Disk, layout: &Layout) -> Vec<String> {
    let mut listed: Vec<Listed> = disk.list(&layout.tasks()).unwrap_or_default();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let told = |entry: &Listed| Some(sentence(&entry.name, &in_tasks(&entry.name, entry.kind)?));
    listed.iter().filter_map(told).collect()
}

/// Says of an entry of `tasks/` that it is ignored, and why.
pub fn sentence(name: &OsStr, why: &str) -> String {
    format!("tasks/{} is ignored: {why}", name.to_string_lossy().escape_debug())
}

fn directory(name: &str) -> String {
    let folded = name.to_lowercase();
    let id = folded.strip_prefix("batch").map_or(name, |rest| rest.trim_start_matches(['-', '_', ' ']));
    match BatchId::parse(id) {
        Ok(id) => {
            format!("the directory of a batch is called {BATCH_PREFIX}ID; rename it to {BATCH_PREFIX}{id}")
        }
        Err(_) => format!("the directory of a batch is called {BATCH_PREFIX}ID"),
    }
}

/// Why a name in a batch's directory is ignored, and what it should be. For names that mean nothing there.
pub fn in_batch(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    if let Some(renamed) = lower_ending(&name) {
        return format!("names end in small letters; rename it to {renamed}");
    }
    if is_plan(&name) {
        return "a batch's directory takes specs; move the plan into inbox/".to_owned();
    }
    let folded = name.to_lowercase();
    let stem = folded.strip_suffix(".json").unwrap_or(&folded);
    if let Some(stem) = stem.strip_suffix(".heartbeat").or(stem.strip_suffix(HEARTBEAT_ENDING)) {
        let place = named(stem, HEARTBEAT_ENDING);
        return format!("a heartbeat is called {place}, or lies where its spec says (heartbeat_file)");
    }
    if stem.ends_with("result") {
        let place = named(stem.trim_end_matches("result"), RESULT_ENDING);
        return format!("a result is called {place}, or lies where its spec says (result_file)");
    }
    if folded.ends_with(".json") {
        return format!("a spec is called {}", named(stem, ".json"));
    }
    format!("no file of the bus; a spec is called {TASK_PREFIX}ID.json")
}

/// `task-1.json` of `phase_1`: the name that was probably meant, or how such names are made.
fn named(stem: &str, ending: &str) -> String {
    let stem = stem.trim_matches(['.', '-', '_', ' ']);
    let id = ["task", "phase", "spec"].iter().find_map(|word| stem.strip_prefix(word)).unwrap_or(stem);
    match TaskKey::parse(id.trim_start_matches(['-', '_', ' '])) {
        Ok(key) => format!("{TASK_PREFIX}{key}{ending}"),
        Err(_) => format!("{TASK_PREFIX}ID{ending}"),
    }
}

/// The name with its ending in small letters, if that would mean something.
fn lower_ending(name: &str) -> Option<String> {
    let (stem, ending) = name.rsplit_once('.')?;
    let lower = ending.to_lowercase();
    let renamed = format!("{stem}.{lower}");
    let is_meant = lower == "json" || !matches!(BusName::of(OsStr::new(&renamed)), BusName::Unknown);
    (lower != ending && is_meant).then_some(renamed)
}

fn is_plan(name: &str) -> bool {
    let folded = name.to_lowercase();
    [".md", ".markdown", ".txt"].iter().any(|ending| folded.ends_with(ending))
        || (folded.contains("plan") && folded.ends_with(".json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(name: &str, kind: NodeKind) -> Option<String> {
        in_tasks(OsStr::new(name), kind)
    }

    #[test]
    fn what_lies_in_tasks_in_vain_is_told_its_place() {
        for (name, place) in
            [("43", "batch-43"), ("Batch-43", "batch-43"), ("batch_43", "batch-43"), ("batch43", "batch-43")]
        {
            assert!(
                tasks(name, NodeKind::Directory).unwrap().ends_with(&format!("rename it to {place}")),
                "{name}"
            );
        }
        assert!(tasks("x.JSON", NodeKind::File).unwrap().ends_with("rename it to x.json"));
        assert!(tasks("plan.md", NodeKind::File).unwrap().contains("inbox/"));
        assert!(tasks("notes.doc", NodeKind::File).unwrap().contains("inbox/"));
        for (name, kind) in [
            ("batch-43", NodeKind::Directory),
            ("x.json", NodeKind::File),
            (".staged", NodeKind::File),
            ("a.json~", NodeKind::File),
        ] {
            assert_eq!(tasks(name, kind), None, "{name}");
        }
    }

    #[test]
    fn what_lies_in_a_batch_in_vain_is_told_its_name() {
        for (name, meant) in [
            ("task_1.json", "task-1.json"),
            ("Task-1.json", "task-1.json"),
            ("1.json", "task-1.json"),
            ("phase-2a.json", "task-2a.json"),
            ("task-1.JSON", "task-1.json"),
            ("result.json", "task-ID.result.json"),
            ("1.result.json", "task-1.result.json"),
            ("task_1_result.json", "task-1.result.json"),
            ("task-1.heartbeat", "task-1.hb"),
            ("1.hb", "task-1.hb"),
            ("plan.md", "inbox/"),
            ("notes", "task-ID.json"),
        ] {
            let told = in_batch(OsStr::new(name));
            assert!(told.contains(meant), "{name}: {told}");
        }
    }
}
