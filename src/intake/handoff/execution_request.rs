//! Reads `execution_request.json`, field by field. Its form was checked by the shape; what does not have it
//! is passed over here.

use serde_json::{Map, Value};

use super::draft::{Draft, TaskDraft};
use super::{Reading, choose, criteria, dependencies, inputs, outputs, span, text, workspace};
use crate::format::{join, shortened};
use crate::model::handoff::{Check, ConflictResolution, Dialect, MergeKind, MergeStrategy, MergeValidation};
use crate::model::{BatchId, agent::ResourceLimits};

pub(super) fn read(top: &Map<String, Value>, reading: &mut Reading<'_>) -> Draft {
    let workspace = text(top, "workspace_root")
        .filter(|text| !text.trim().is_empty())
        .and_then(|text| workspace::read(text, "workspace_root", reading));
    let no_options = Map::new();
    let options = top.get("execution_options").and_then(Value::as_object).unwrap_or(&no_options);
    let count = |name: &str| options.get(name).and_then(Value::as_f64).map(|number| number as u32);
    let switch = |name: &str| options.get(name).and_then(Value::as_bool);
    let mut tasks = Vec::new();
    for (index, value) in top.get("agents").and_then(Value::as_array).into_iter().flatten().enumerate() {
        if let Value::Object(fields) = value {
            let place = format!("agents[{index}]");
            tasks.push(read_agent(fields, place, workspace.as_deref(), reading));
        }
    }
    let merge = read_merge(top.get("merge_strategy"), &tasks, reading);
    let max_retries = count("max_retries");
    if switch("retry_on_failure") == Some(false) && max_retries.is_some_and(|count| count > 0) {
        let message = "does not count, because retry_on_failure is false";
        reading.report.warn("execution_options.max_retries", message);
    }
    Draft {
        dialect: Dialect::ExecutionRequest,
        own_id: text(top, "execution_id").and_then(|id| BatchId::parse(id).ok()),
        workspace,
        tasks,
        merge,
        checkpoint: switch("checkpoint_enabled").unwrap_or(true),
        verify: None,
        is_dry_run: false,
        log_level: text(options, "log_level").map(str::to_owned),
        request_timestamp: text(top, "request_timestamp").map(str::to_owned),
        parallel_limit: count("parallel_limit"),
        overall_timeout: span(options, "overall_timeout"),
        asks_for_retries: switch("retry_on_failure") == Some(true) || max_retries.is_some(),
        max_retries: if switch("retry_on_failure") == Some(false) { Some(0) } else { max_retries },
        checks: Vec::new(),
        required_artifacts: Vec::new(),
        env: Vec::new(),
        limits: ResourceLimits::default(),
    }
}

fn read_agent(
    fields: &Map<String, Value>,
    place: String,
    workspace: Option<&std::path::Path>,
    reading: &mut Reading<'_>,
) -> TaskDraft {
    let name = text(fields, "agent_name").unwrap_or_default().to_owned();
    let path = text(fields, "agent_path").filter(|path| !path.trim().is_empty());
    let agent = path.and_then(|path| choose::of_directory(&name, path, &join(&place, "agent_path"), reading));
    let no_task = Map::new();
    let task = fields.get("task").and_then(Value::as_object).unwrap_or(&no_task);
    let at = |field: &str| join(&join(&place, "task"), field);
    let goal = text(task, "description").unwrap_or_default().trim().to_owned();
    if goal.contains('\0') {
        let message = "contains a NUL character, which no program can be given";
        reading.report.refuse("bad_text", &at("description"), message, "remove it");
    }
    TaskDraft {
        goal,
        agent_name: name.clone(),
        agent,
        inputs: inputs::read(task.get("inputs"), &at("inputs"), workspace, reading),
        outputs: outputs::read(task.get("outputs"), &at("outputs"), workspace, reading),
        context: None,
        criteria: criteria::read(task.get("success_criteria"), &at("success_criteria"), reading),
        required_artifacts: Vec::new(),
        dependencies: dependencies(fields, &place),
        timeout: span(fields, "timeout"),
        outputs_place: at("outputs"),
        place,
        name,
    }
}

fn read_merge(value: Option<&Value>, tasks: &[TaskDraft], reading: &mut Reading<'_>) -> MergeStrategy {
    let nothing = Map::new();
    let fields = value.and_then(Value::as_object).unwrap_or(&nothing);
    let word = |name: &str| text(fields, name);
    let is_wanted = |name: &str| {
        let validation = fields.get("validation").and_then(|validation| validation.get(name));
        validation.and_then(Value::as_bool).unwrap_or(true)
    };
    let kind = MergeKind::ALL.into_iter().find(|kind| Some(kind.word()) == word("type"));
    let resolution = ConflictResolution::ALL
        .into_iter()
        .find(|resolution| Some(resolution.word()) == word("conflict_resolution"));
    MergeStrategy {
        kind: kind.unwrap_or(MergeKind::CtxpackUnion),
        conflict_resolution: resolution.unwrap_or(ConflictResolution::ManualReview),
        validation: MergeValidation {
            semantic_consistency: is_wanted("semantic_consistency"),
            schema_validation: is_wanted("schema_validation"),
        },
        priority: read_priority(fields.get("priority"), tasks, reading),
        verify: read_verify(fields.get("validation"), reading),
    }
}

/// The command of the request, or else that of the settings.
fn read_verify(validation: Option<&Value>, reading: &mut Reading<'_>) -> Option<Check> {
    let own = validation.and_then(|validation| validation.get("command"));
    let place = "merge_strategy.validation.command";
    match own.and_then(|own| criteria::command_of(own, place, reading)) {
        Some(command) => Some(Check { command, value: None, from_request: true }),
        None => reading.settings.merge_verify.clone(),
    }
}

fn read_priority(value: Option<&Value>, tasks: &[TaskDraft], reading: &mut Reading<'_>) -> Vec<String> {
    let mut priority: Vec<String> = Vec::new();
    for (index, item) in value.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(name) = item.as_str() else { continue };
        let place = format!("merge_strategy.priority[{index}]");
        if !tasks.iter().any(|task| task.name == name) {
            let message = format!("{:?} is no agent of this request", shortened(name));
            let remedy = reading.nearest_task(name, tasks).map_or_else(
                || "name agents of the request".to_owned(),
                |near| format!("did you mean '{near}'?"),
            );
            reading.report.refuse("unknown_agent", &place, message, remedy);
        } else if priority.iter().any(|known| known == name) {
            let message = format!("{:?} is listed twice", shortened(name));
            reading.report.refuse("duplicate_name", &place, message, "keep the first");
        } else {
            priority.push(name.to_owned());
        }
    }
    priority
}
