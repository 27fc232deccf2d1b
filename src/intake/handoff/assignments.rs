//! Reads `assignments.json`, field by field. Its form was checked by the shape; what does not have it is
//! passed over here.

use std::path::Path;

use serde_json::{Map, Value};

use super::draft::{Draft, Given, TaskDraft};
use super::{Reading, choose, criteria, dependencies, env, inputs, outputs, span, text, workspace};
use crate::format::join;
use crate::model::BatchId;
use crate::model::agent::ResourceLimits;
use crate::model::handoff::{ConflictResolution, Dialect, MergeKind, MergeStrategy, MergeValidation};

/// Longest goal that is taken from a context file, in characters.
const GOAL_MAX: usize = 200;

pub(super) fn read(top: &Map<String, Value>, reading: &mut Reading<'_>) -> Draft {
    let nothing = Map::new();
    let environment = top.get("environment").and_then(Value::as_object).unwrap_or(&nothing);
    let workspace = text(environment, "workspace_dir")
        .filter(|text| !text.trim().is_empty())
        .and_then(|text| workspace::read(text, "environment.workspace_dir", reading));
    let mut tasks = Vec::new();
    for (index, value) in top.get("tasks").and_then(Value::as_array).into_iter().flatten().enumerate() {
        if let Value::Object(fields) = value {
            tasks.push(read_task(fields, format!("tasks[{index}]"), workspace.as_deref(), reading));
        }
    }
    let (checks, required_artifacts) =
        criteria::read_success(top.get("success_criteria"), "success_criteria", reading);
    Draft {
        dialect: Dialect::Assignments,
        own_id: text(top, "execution_id").and_then(|id| BatchId::parse(id).ok()),
        workspace,
        tasks,
        // The seed: detect conflicts before the merge, and prefer a safe halt with a report.
        merge: MergeStrategy {
            kind: MergeKind::FileMerge,
            conflict_resolution: ConflictResolution::ManualReview,
            validation: MergeValidation { semantic_consistency: true, schema_validation: true },
            priority: Vec::new(),
            verify: reading.settings.merge_verify.clone(),
        },
        checkpoint: true,
        verify: mode(top, "verify", reading),
        is_dry_run: mode(top, "dry_run", reading).unwrap_or(false),
        log_level: None,
        request_timestamp: None,
        parallel_limit: None,
        overall_timeout: None,
        max_retries: None,
        asks_for_retries: false,
        checks,
        required_artifacts,
        env: env::read(environment.get("env_vars"), "environment.env_vars", &mut reading.report),
        limits: limits(environment.get("resource_limits")),
    }
}

/// A switch that may stand in `execution_mode` or at the top.
fn mode(top: &Map<String, Value>, name: &str, reading: &mut Reading<'_>) -> Option<bool> {
    let inner = top.get("execution_mode").and_then(|mode| mode.get(name)).and_then(Value::as_bool);
    let outer = top.get(name).and_then(Value::as_bool);
    if let (Some(inner), Some(outer)) = (inner, outer)
        && inner != outer
    {
        let message = format!("is {outer}, and execution_mode.{name} is {inner}");
        reading.report.refuse("contradiction", name, message, "keep one of the two");
    }
    inner.or(outer)
}

fn read_task(
    fields: &Map<String, Value>,
    place: String,
    workspace: Option<&Path>,
    reading: &mut Reading<'_>,
) -> TaskDraft {
    let name = text(fields, "id").unwrap_or_default().to_owned();
    let at = |field: &str| join(&place, field);
    let context = text(fields, "context_path")
        .and_then(|text| inputs::one(text, &at("context_path"), workspace, reading))
        .map(|path| Given { place: at("context_path"), name: "context".to_owned(), path });
    let context_path = context.as_ref().map(|context| context.path.as_path());
    let (agent_name, agent) = match text(fields, "agent").filter(|agent| !agent.trim().is_empty()) {
        Some(agent) => choose::of_assignment(agent, context_path, workspace, &at("agent"), reading),
        None => (String::new(), None),
    };
    let told = context_path.and_then(|path| reading.around.beginning(path));
    let (criteria, required_artifacts) =
        criteria::read_success(fields.get("success_criteria"), &at("success_criteria"), reading);
    TaskDraft {
        goal: told.as_deref().and_then(headline).unwrap_or_else(|| format!("Task {name} for {agent_name}")),
        inputs: Vec::new(),
        outputs: outputs::read(fields.get("outputs"), &at("outputs"), workspace, reading),
        context,
        criteria,
        required_artifacts,
        dependencies: dependencies(fields, &place),
        timeout: span(fields, "timeout"),
        outputs_place: at("outputs"),
        agent_name,
        agent,
        place,
        name,
    }
}

/// What a text is about: its first heading, else its first line with words.
fn headline(text: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
    let heading = lines().find(|line| line.starts_with('#'));
    let line = heading.or_else(|| lines().next())?;
    let line = line.trim_start_matches('#').trim();
    Some(line.chars().filter(|c| !c.is_control()).take(GOAL_MAX).collect())
}

fn limits(value: Option<&Value>) -> ResourceLimits {
    let limit = |name: &str| value.and_then(|limits| limits.get(name)).and_then(Value::as_u64);
    ResourceLimits {
        memory_mb: limit("memory_mb"),
        cpu_seconds: limit("cpu_seconds"),
        processes: limit("processes"),
        open_files: limit("open_files"),
        file_size_mb: limit("file_size_mb"),
        log_mb: limit("log_mb"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_about_its_heading_or_its_first_line() {
        assert_eq!(
            headline("---\nname: x\n---\n\n# Build the parser #\nText\n").as_deref(),
            Some("Build the parser #")
        );
        assert_eq!(headline("\n  Write it down.\nMore\n").as_deref(), Some("Write it down."));
        assert_eq!(headline("---\n{\n"), None);
        assert_eq!(headline(&"x".repeat(500)).unwrap().len(), GOAL_MAX);
    }
}
