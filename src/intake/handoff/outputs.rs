//! What the tasks of a request must produce: inside the workspace, away from its books, and no two in one
//! another's way.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::draft::{Given, TaskDraft};
use super::paths::{self, Lying};
use super::workspace::really;
use super::{Reading, Words};
use crate::format::{join, shortened};
use crate::graph;
use crate::model::OnFileConflict;
use crate::model::handoff::variable_part;

/// Most outputs of one task; each is compared with all others.
const OUTPUTS_MAX: usize = 1_000;
const INSIDE: &str = "name a path below the workspace, best below outputs/";

/// Reads `{name: path}` or `[path]`.
pub(super) fn read(
    value: Option<&Value>,
    place: &str,
    workspace: Option<&Path>,
    reading: &mut Reading<'_>,
) -> Vec<Given> {
    let texts: Vec<(String, Option<&str>, &str)> = match value {
        Some(Value::Object(named)) => named
            .iter()
            .filter_map(|(name, path)| Some((join(place, name), Some(name.as_str()), path.as_str()?)))
            .collect(),
        Some(Value::Array(listed)) => listed
            .iter()
            .enumerate()
            .filter_map(|(index, path)| Some((format!("{place}[{index}]"), None, path.as_str()?)))
            .collect(),
        _ => Vec::new(),
    };
    if texts.len() > OUTPUTS_MAX {
        let message = format!("has {} outputs; at most {OUTPUTS_MAX}", texts.len());
        reading.report.refuse("too_many_outputs", place, message, "name the directories that hold them");
        return Vec::new();
    }
    let mut outputs: Vec<Given> = Vec::with_capacity(texts.len());
    for (place, name, text) in texts {
        if !name.is_none_or(|name| reading.is_fit_to_show(name, &place)) {
            continue;
        }
        let Some(path) = one(text, &place, workspace, reading) else { continue };
        if let Some(other) = outputs.iter().find(|other| paths::lying(&path, &other.path) != Lying::Apart) {
            let message = match paths::lying(&path, &other.path) {
                Lying::Same => format!("{:?} is also the output '{}'", shortened(text), other.name),
                _ => format!("{:?} and the output '{}' lie in one another", shortened(text), other.name),
            };
            reading.report.refuse("nested_outputs", &place, message, "give each output a path of its own");
            continue;
        }
        // Without a name, an output is called by its path below the workspace.
        let below = || workspace.and_then(|workspace| path.strip_prefix(workspace).ok()).unwrap_or(&path);
        let name = name.map_or_else(|| below().display().to_string(), str::to_owned);
        outputs.push(Given { place, name, path });
    }
    // A list names nothing: whoever writes one does not look for its variables.
    if matches!(value, Some(Value::Object(_))) {
        tell_apart(&outputs, "WK_OUTPUT_", reading);
    }
    outputs
}

/// Two names that are one variable: an agent could not tell which path it holds.
pub(super) fn tell_apart(given: &[Given], prefix: &str, reading: &mut Reading<'_>) {
    let mut known: HashMap<String, &str> = HashMap::new();
    for Given { place, name, .. } in given {
        let variable = variable_part(name);
        if let Some(other) = known.get(&variable) {
            let message = format!("'{name}' and '{other}' are both {prefix}{variable} for the agent");
            reading.report.refuse(
                "ambiguous_name",
                place,
                message,
                "choose names that differ in letters or digits",
            );
        } else {
            known.insert(variable, name);
        }
    }
}

fn one(text: &str, place: &str, workspace: Option<&Path>, reading: &mut Reading<'_>) -> Option<PathBuf> {
    if text.trim().is_empty() {
        // Its form was told already.
        return None;
    }
    let mut path = match paths::read(text, Some(workspace.unwrap_or(Path::new("/")))) {
        Ok(path) => path,
        Err(why) => {
            let message = format!("{:?} {why}", shortened(text));
            reading.report.refuse("bad_path", place, message, INSIDE);
            return None;
        }
    };
    let workspace = workspace?;
    if let Some(full) = paths::output_in_full(&path, workspace) {
        reading.report.warn(place, format!("{:?} is read as {}", shortened(text), full.display()));
        path = full;
    }
    let bus_home = reading.around.bus_home();
    // The workspace may be named by way of a link, and the bus by where it really is.
    let objection = paths::objection_to_output(&path, workspace, &bus_home).or_else(|| {
        let real = really(workspace, reading.around);
        paths::objection_to_output(&real.join(path.strip_prefix(workspace).ok()?), &real, &bus_home)
    });
    if let Some(why) = objection {
        let message = format!("{:?} {why}", shortened(text));
        reading.report.refuse("path_not_contained", place, message, INSIDE);
        return None;
    }
    let inner = path.ancestors().take_while(|dir| *dir != workspace);
    if let Some(link) = inner.into_iter().find(|dir| reading.around.entry(dir).is_some_and(|e| e.is_link)) {
        let message = format!("{:?} leads through the link {}", shortened(text), link.display());
        reading.report.refuse(
            "path_not_contained",
            place,
            message,
            "remove the link, or choose another path",
        );
        return None;
    }
    Some(path)
}

/// Outputs of tasks that nothing orders and that lie in one another: the outermost path, and the tasks.
pub(super) fn conflicts(
    tasks: &[TaskDraft],
    dependencies: &[Vec<usize>],
    order: &graph::Order,
    words: Words,
    reading: &mut Reading<'_>,
) -> Vec<(String, Vec<usize>)> {
    let all: HashSet<&Path> =
        tasks.iter().flat_map(|task| task.outputs.iter().map(|output| output.path.as_path())).collect();
    let outermost = |path: &Path| {
        let outer = path.ancestors().filter(|dir| all.contains(dir)).last().unwrap_or(path);
        outer.display().to_string()
    };
    let outputs = tasks.iter().enumerate();
    let declared: Vec<(usize, String)> = outputs
        .flat_map(|(index, task)| task.outputs.iter().map(move |output| (index, output.path.as_path())))
        .map(|(index, path)| (index, outermost(path)))
        .collect();
    let files = declared.iter().map(|(index, path)| (*index, path.as_str()));
    let shared = graph::file_conflicts(dependencies, order, files);
    for conflict in &shared {
        say(conflict, tasks, words, reading);
    }
    shared.into_iter().map(|shared| (shared.file.to_owned(), shared.tasks)).collect()
}

fn say(shared: &graph::SharedFile<'_>, tasks: &[TaskDraft], words: Words, reading: &mut Reading<'_>) {
    const NAMED_MAX: usize = 8;
    let named = shared.tasks.iter().take(NAMED_MAX);
    let mut names: Vec<String> = named.map(|&index| format!("'{}'", tasks[index].name)).collect();
    if shared.tasks.len() > NAMED_MAX {
        names.push(format!("{} more", shared.tasks.len() - NAMED_MAX));
    }
    let who = format!("{} {} all modify {}", words.many, names.join(", "), shared.file);
    let place = &tasks[shared.tasks[1]].outputs_place;
    match reading.settings.on_file_conflict {
        OnFileConflict::Refuse => {
            let remedy = "let one depend on the other, or set on_file_conflict to serialise";
            let message = format!("{who}, and nothing orders them");
            reading.report.refuse("file_conflict", place, message, remedy);
        }
        OnFileConflict::Serialise => {
            reading.report.warn(place, format!("{who}; they will run one after the other"));
        }
        OnFileConflict::Warn => reading.report.warn(place, format!("{who}; they may run at the same time")),
    }
}
