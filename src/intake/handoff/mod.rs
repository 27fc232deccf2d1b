//! Requests that another orchestrator hands over: `execution_request.json` and `assignments.json` become a
//! batch with a workspace.
//!
//! Pure: what has to be known of the disk is asked through `Surroundings`. Form is checked by the shapes in
//! `format::handoff`; the readers here pass over what does not have it, so that one refusal tells everything.

mod assignments;
mod choose;
mod criteria;
mod draft;
mod env;
mod execution_request;
mod ground;
mod inputs;
mod occupied;
mod outputs;
mod paths;
mod settle;
mod workspace;

use std::path::Path;

use serde_json::{Map, Value};

use super::{Plan, Surroundings};
use crate::format::{self, Report, is_invisible};
use crate::model::handoff::Dialect;
use crate::model::settings::nearest;
use crate::model::{Defect, Place, Seconds, Settings};
use draft::TaskDraft;

/// Most defects that one refusal lists.
const DEFECTS_MAX: usize = 1_000;
/// Most names that get a suggestion.
const SUGGESTIONS_MAX: usize = 20;

/// In which dialect a request was handed over, if it was. The content tells, whatever the file is called.
pub(super) fn recognise(top: &Map<String, Value>) -> Option<Dialect> {
    if top.contains_key("phases") {
        return None;
    }
    let has = |names: &[&str]| names.iter().any(|name| top.contains_key(*name));
    let tasks = top.get("tasks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // A phase of a plan may name an agent too; it also says what it is to achieve.
    let is_assigned = |task: &Value| {
        let has = |name: &str| task.get(name).is_some();
        has("context_path") || (has("agent") && !has("goal") && !has("files_modified"))
    };
    if has(&["environment", "execution_mode", "assignments"]) || tasks.iter().any(is_assigned) {
        return Some(Dialect::Assignments);
    }
    let marks = ["agents", "workspace_root", "merge_strategy", "execution_options"];
    let is_request = has(&marks) || (has(&["execution_id"]) && !has(&["tasks"]));
    is_request.then_some(Dialect::ExecutionRequest)
}

/// Reads a request, or tells everything that is wrong with it.
pub(super) fn read(
    dialect: Dialect,
    top: &Map<String, Value>,
    settings: &Settings,
    around: &dyn Surroundings,
) -> Result<Plan, Vec<Defect>> {
    let mut reading = Reading::new(settings, around);
    let draft = match dialect {
        Dialect::ExecutionRequest => {
            reading.report = format::handoff::EXECUTION_REQUEST.check(top, "");
            execution_request::read(top, &mut reading)
        }
        Dialect::Assignments => {
            reading.report = format::handoff::ASSIGNMENTS.check(top, "");
            assignments::read(top, &mut reading)
        }
    };
    settle::settle(draft, &mut reading).ok_or_else(|| bounded(reading.report.defects))
}

fn bounded(mut defects: Vec<Defect>) -> Vec<Defect> {
    if defects.len() > DEFECTS_MAX {
        let message = format!("{} more defects are not listed", defects.len() - DEFECTS_MAX);
        defects.truncate(DEFECTS_MAX);
        defects.push(Defect::new("more_defects", Place::File, message, "correct these first"));
    }
    defects
}

/// What every part of the reading needs at hand.
struct Reading<'r> {
    settings: &'r Settings,
    around: &'r dyn Surroundings,
    report: Report,
    /// How many wrong names still get a suggestion; each means a look at every name there is.
    suggestions_left: usize,
}

impl<'r> Reading<'r> {
    fn new(settings: &'r Settings, around: &'r dyn Surroundings) -> Self {
        Reading { settings, around, report: Report::default(), suggestions_left: SUGGESTIONS_MAX }
    }

    /// Whether something can be read at a path.
    fn exists(&self, path: &Path) -> bool {
        self.around.entry(path).is_some_and(|entry| !entry.leads_nowhere())
    }

    /// Whether a name of the request's own choice can be shown to people.
    fn is_fit_to_show(&mut self, name: &str, place: &str) -> bool {
        let why = match name {
            name if name.trim().is_empty() => "has no name",
            name if name.contains(is_invisible) => "has a name with characters that cannot be seen",
            _ => return true,
        };
        self.report.refuse("bad_name", place, why, "give it a name that people can read");
        false
    }

    /// The name of a task that a wrong one most likely meant.
    fn nearest_task<'t>(&mut self, name: &str, tasks: &'t [TaskDraft]) -> Option<&'t str> {
        self.suggestions_left = self.suggestions_left.checked_sub(1)?;
        nearest(name, tasks.iter().map(|task| task.name.as_str()).filter(|known| !known.is_empty()))
    }
}

/// How messages of a dialect call a task.
#[derive(Debug, Clone, Copy)]
struct Words {
    one: &'static str,
    many: &'static str,
    /// The field that lists them, and the field that names one.
    list: &'static str,
    key: &'static str,
}

impl Words {
    fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::ExecutionRequest => {
                Words { one: "Agent", many: "Agents", list: "agents", key: "agent_name" }
            }
            Dialect::Assignments => Words { one: "Task", many: "Tasks", list: "tasks", key: "id" },
        }
    }
}

fn text<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    fields.get(name).and_then(Value::as_str)
}

fn span(fields: &Map<String, Value>, name: &str) -> Option<Seconds> {
    fields.get(name).and_then(Value::as_f64).map(Seconds)
}

/// The names under `dependencies`, each with its place.
fn dependencies(fields: &Map<String, Value>, place: &str) -> Vec<(String, String)> {
    let listed = fields.get("dependencies").and_then(Value::as_array).into_iter().flatten().enumerate();
    listed
        .filter_map(|(index, name)| {
            Some((format!("{place}.dependencies[{index}]"), name.as_str()?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_content_tells_the_dialect() {
        let dialect = |value: Value| recognise(value.as_object().unwrap());
        let request = Some(Dialect::ExecutionRequest);
        let assigned = Some(Dialect::Assignments);
        assert_eq!(dialect(json!({"agents": [], "execution_id": "x"})), request);
        assert_eq!(dialect(json!({"workspace_root": "/x"})), request);
        assert_eq!(dialect(json!({"execution_id": "x"})), request);
        assert_eq!(dialect(json!({"tasks": [], "environment": {}})), assigned);
        assert_eq!(dialect(json!({"tasks": [{"id": "A", "agent": "x"}]})), assigned);
        assert_eq!(dialect(json!({"tasks": [{"id": "A", "context_path": "x"}]})), assigned);
        assert_eq!(dialect(json!({"execution_id": "x", "tasks": [{"id": "A", "agent": "x"}]})), assigned);
        assert_eq!(dialect(json!({"phases": [], "agents": []})), None);
        assert_eq!(dialect(json!({"tasks": [{"name": "A", "goal": "x", "agent": "claude"}]})), None);
        assert_eq!(dialect(json!({"task_id": "x", "goal": "y"})), None);
    }
}
