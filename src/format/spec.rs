//! The task spec: what an agent is told to do, as we publish it and as anyone may drop it.
//!
//! Says nothing about policy: a spec with a `command` is well formed, whoever wrote it.

use serde_json::{Map, Value, json};

use crate::model::agent::UnknownAgent;
use crate::model::containment::plain_spelling;
use crate::model::declared::DeclaredFiles;
use crate::model::handoff::{Assignment, Criterion, NamedPath, Wanted};
use crate::model::settings::SPAN_LEAST;
use crate::model::task::RETRIES_MAX;
use crate::model::{
    Attempt, BatchId, Defect, Gate, Limits, Reason, Seconds, Settings, Task, TaskKey, TaskType, WallTime,
};

use super::json;
use super::ordered::{Ordered, number};
use super::shape::{Kind, Shape, Unknown, nullable, optional, required};

/// The words for `type`, in the order of `TaskType::ALL`.
pub const TYPES: &[&str] = &["generator", "executor", "reviewer", "context-updater"];
const SPAN: Kind = Kind::Span { least: SPAN_LEAST };

/// An earlier attempt, as its successor is told of it.
pub const PREVIOUS_ATTEMPT: Shape = Shape {
    name: "previous-attempt",
    title: "An attempt that came before",
    fields: &[
        required("attempt", Kind::Count { least: 1 }, "its number"),
        required("reason", Kind::Text, "why it failed"),
    ],
    unknown: Unknown::KeepSilently,
};

/// The spec's fields: first those of the original protocol in their order, then ours.
pub const SPEC: Shape = Shape {
    name: "task-spec",
    title: "Task spec: tasks/batch-N/task-X.json",
    fields: &[
        required("task_id", Kind::Id, "the task's name; results may use it or the X of the file's name"),
        nullable("type", Kind::OneOf(TYPES), "what kind of agent the task is for; executor where absent"),
        nullable("phase_name", Kind::Text, "how people call the task; the task_id where absent"),
        required("goal", Kind::FilledText, "what is to be reached"),
        optional("steps", Kind::Texts, "how to get there, in order"),
        nullable("complexity", Kind::FilledText, "low, medium, high, or any other word; medium where absent"),
        optional(
            "files_modified",
            Kind::Paths,
            "files that the task will create or change, relative to the root",
        ),
        optional("files_deleted", Kind::Paths, "files that the task will remove, relative to the root"),
        nullable(
            "declared_files",
            Kind::OneOf(&DeclaredFiles::WORDS),
            "whether an attempt that changes none of them has failed; may for reviewers, else must",
        ),
        nullable("estimated_hours", Kind::Number { least: 0.0 }, "how long it may take a person, for people"),
        nullable("created_at", Kind::ShownTime, "when the spec was written; shown, never used"),
        nullable("timeout_seconds", SPAN, "longest attempt"),
        nullable(
            "batch_id",
            Kind::Either(&[Kind::Count { least: 0 }, Kind::Id]),
            "the batch; what a dropped spec says here is ignored, its directory counts",
        ),
        nullable(
            "attempt",
            Kind::Count { least: 1 },
            "which try this is; results repeat it. Ignored when dropped",
        ),
        optional(
            "dependencies",
            Kind::Ids,
            "tasks of the same batch that must succeed first, by key or task_id",
        ),
        optional("validation_gates", Kind::Texts, "what must hold at the end; a command in backticks is run"),
        nullable("conflict_notes", Kind::Text, "what to mind about files that other tasks change too"),
        nullable("agent", Kind::FilledText, "the agent in settings that does it"),
        nullable("command", Kind::Command, "program and arguments, honoured where policy allows it"),
        nullable("shell", Kind::FilledText, "a line for sh -c, honoured where policy allows it"),
        nullable(
            "max_retries",
            Kind::Integer { least: 0, most: RETRIES_MAX as i64 },
            "tries after the first",
        ),
        nullable("heartbeat_timeout_seconds", SPAN, "longest silence between two beats"),
        nullable("heartbeat_interval_seconds", SPAN, "how often the agent should beat"),
        nullable("start_timeout_seconds", SPAN, "from the attempt's start to its first beat"),
        nullable("stuck_after_seconds", SPAN, "without progress for this long the task is shown as stuck"),
        nullable("outbox", Kind::Text, "this attempt's own directory to write to. Ignored when dropped"),
        nullable("heartbeat_file", Kind::Text, "where to write the heartbeat. Ignored when dropped"),
        nullable("result_file", Kind::Text, "where to write the result. Ignored when dropped"),
        optional(
            "previous_attempts",
            Kind::Objects(&PREVIOUS_ATTEMPT),
            "what failed before. Ignored when dropped",
        ),
    ],
    unknown: Unknown::KeepWithWarning,
};

/// What only the watcher says; it comes back when somebody drops a published spec again.
const SAID_BY_THE_WATCHER: &[&str] =
    &["batch_id", "attempt", "outbox", "heartbeat_file", "result_file", "previous_attempts"];

/// Where the agent writes, as the spec tells it.
#[derive(Debug, Clone, Copy)]
pub struct SpecPaths<'a> {
    pub outbox: &'a str,
    pub heartbeat_file: &'a str,
    pub result_file: &'a str,
}

/// A dropped spec in normal form. Its stage is 1 until the graph of its batch is known.
#[derive(Debug, PartialEq)]
pub struct Dropped {
    pub task: Task,
    pub warnings: Vec<String>,
}

/// The spec of one attempt, as it is published.
pub fn render(
    task: &Task,
    batch: &BatchId,
    attempt: Attempt,
    created_at: WallTime,
    paths: SpecPaths<'_>,
    previous: &[(Attempt, Reason)],
) -> Vec<u8> {
    let mut spec = Ordered::default();
    spec.put("task_id", task.task_id.as_str());
    spec.put("type", task.kind.word());
    spec.put("phase_name", task.phase_name.as_str());
    spec.put("goal", task.goal.as_str());
    spec.put("steps", task.steps.as_slice());
    spec.put("complexity", task.complexity.as_str());
    spec.put("files_modified", task.files_modified.as_slice());
    if !task.files_deleted.is_empty() {
        spec.put("files_deleted", task.files_deleted.as_slice());
    }
    spec.put("declared_files", task.declared_files.word());
    spec.put("estimated_hours", task.estimated_hours.map(number));
    spec.put("created_at", created_at.rfc3339());
    spec.put("timeout_seconds", number(task.limits.timeout.0));
    spec.put("batch_id", batch.to_json());
    spec.put("attempt", attempt.number());
    put_ours(&mut spec, task);
    spec.put("outbox", paths.outbox);
    spec.put("heartbeat_file", paths.heartbeat_file);
    spec.put("result_file", paths.result_file);
    let told =
        |(attempt, reason): &(Attempt, Reason)| json!({"attempt": attempt, "reason": reason.to_string()});
    spec.put("previous_attempts", previous.iter().map(told).collect::<Vec<Value>>());
    if let Some(assignment) = &task.assignment {
        put_assignment(&mut spec, assignment);
    }
    for (name, value) in task.extra.iter().filter(|(name, _)| !SPEC.knows(name)) {
        spec.put(name, value.clone());
    }
    spec.pretty()
}

/// What another orchestrator handed over with the task, in its own words.
fn put_assignment(spec: &mut Ordered, assignment: &Assignment) {
    let named = |paths: &[NamedPath]| -> Value {
        paths
            .iter()
            .map(|named| (named.name.clone(), Value::from(named.path.as_str())))
            .collect::<Map<_, _>>()
            .into()
    };
    let wanted = |criterion: &Criterion| match criterion.wants {
        Wanted::Truth(truth) => (criterion.name.clone(), Value::from(truth)),
        Wanted::Floor(floor) => (criterion.name.clone(), number(floor)),
    };
    spec.put("inputs", named(&assignment.inputs));
    spec.put("outputs", named(&assignment.outputs));
    spec.put("success_criteria", Value::Object(assignment.criteria.iter().map(wanted).collect()));
    spec.put_some("context_path", assignment.context_path.as_deref());
}

fn put_ours(spec: &mut Ordered, task: &Task) {
    let dependencies: Vec<&str> = task.dependencies.iter().map(TaskKey::as_str).collect();
    let gates: Vec<&str> = task.validation_gates.iter().map(|gate| gate.text.as_str()).collect();
    spec.put("dependencies", dependencies);
    spec.put("validation_gates", gates);
    spec.put_some("conflict_notes", task.conflict_notes.as_deref());
    spec.put_some("agent", task.agent.as_deref());
    spec.put_some("command", task.command.as_deref());
    spec.put_some("shell", task.shell.as_deref());
    let limits = &task.limits;
    spec.put("max_retries", limits.max_retries);
    spec.put("heartbeat_timeout_seconds", number(limits.heartbeat_timeout.0));
    spec.put("heartbeat_interval_seconds", number(limits.heartbeat_interval.0));
    // Only where somebody set it: dropped again, its presence alone would start an outsider's clock.
    let start_timeout = limits.start_timeout_was_set.then(|| number(limits.start_timeout.0));
    spec.put_some("start_timeout_seconds", start_timeout);
    spec.put("stuck_after_seconds", number(limits.stuck_after.0));
}

/// Reads a spec that somebody dropped as `task-KEY.json`.
pub fn read_dropped(key: &TaskKey, bytes: &[u8], settings: &Settings) -> Result<Dropped, Vec<Defect>> {
    let (mut object, had_bom) = json::parse_marked_object(bytes).map_err(|defect| vec![defect])?;
    object.retain(|name, _| !SAID_BY_THE_WATCHER.contains(&name.as_str()));
    let report = SPEC.check(&object, "");
    if !report.defects.is_empty() {
        return Err(report.defects);
    }
    let mut warnings = report.warnings;
    if had_bom {
        warnings.insert(0, "the file begins with a byte order mark, which was skipped".to_owned());
    }
    let mut task = task_of(key, &object, settings);
    task.crew = settings.agents.crew_of(&task).map_err(|unknown| vec![unknown_agent(&unknown)])?;
    if let Some(agent) = settings.agents.without_line(&task) {
        let message = format!("agent '{}' runs a task's own shell line, and this one has none", agent.name);
        return Err(vec![Defect::field("no_shell_line", "agent", message, NO_LINE_REMEDY)]);
    }
    if task.command.is_some() && task.shell.is_some() {
        let message = "stands beside 'command'";
        return Err(vec![Defect::field("bad_command", "shell", message, "keep one of them")]);
    }
    warnings.extend(short_spans(&object, &task.limits));
    Ok(Dropped { task, warnings })
}

/// What helps where an agent has no line to run.
pub const NO_LINE_REMEDY: &str = "add 'shell', or choose an agent that works by its prompt";

fn unknown_agent(unknown: &UnknownAgent) -> Defect {
    let remedy = match &unknown.nearest {
        Some(near) => format!("did you mean '{near}'?"),
        None => "name it in settings as [agents.NAME], or take a preset".to_owned(),
    };
    Defect::field("unknown_agent", "agent", unknown.to_string(), remedy)
}

/// Builds the task from an object that has passed the check.
fn task_of(key: &TaskKey, object: &Map<String, Value>, settings: &Settings) -> Task {
    let task_id = text(object, "task_id").unwrap_or_else(|| key.as_str().to_owned());
    let kind = text(object, "type").and_then(|word| TaskType::parse(&word)).unwrap_or(TaskType::Executor);
    let phase_name = text(object, "phase_name").filter(|name| !name.trim().is_empty());
    let dependencies =
        texts(object, "dependencies").iter().filter_map(|id| TaskKey::parse(id).ok()).collect();
    let extra = object.iter().filter(|(name, _)| !SPEC.knows(name));
    Task {
        key: key.clone(),
        kind,
        files_deleted: paths(object, "files_deleted"),
        declared_files: text(object, "declared_files")
            .and_then(|word| DeclaredFiles::parse(&word))
            .or(settings.declared_files)
            .unwrap_or_else(|| DeclaredFiles::of_type(kind)),
        phase_name: phase_name.unwrap_or_else(|| task_id.clone()),
        task_id,
        goal: text(object, "goal").unwrap_or_default(),
        steps: texts(object, "steps"),
        complexity: text(object, "complexity").unwrap_or_else(|| "medium".to_owned()),
        files_modified: paths(object, "files_modified"),
        estimated_hours: object.get("estimated_hours").and_then(Value::as_f64),
        dependencies,
        stage: 1,
        validation_gates: texts(object, "validation_gates").into_iter().map(Gate::of).collect(),
        conflict_notes: text(object, "conflict_notes"),
        agent: text(object, "agent"),
        shell: object.get("shell").and_then(Value::as_str).map(str::to_owned),
        crew: None,
        command: object.get("command").filter(|value| value.is_array()).map(|_| texts(object, "command")),
        limits: limits_of(object, settings),
        assignment: None,
        extra: extra.map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}

fn limits_of(object: &Map<String, Value>, settings: &Settings) -> Limits {
    let span = |name: &str| object.get(name).and_then(Value::as_f64).map(Seconds);
    let start_timeout = span("start_timeout_seconds").or(settings.start_timeout);
    let max_retries = object.get("max_retries").and_then(Value::as_f64).map(|number| number as u32);
    Limits {
        timeout: span("timeout_seconds").unwrap_or(settings.timeout),
        heartbeat_timeout: span("heartbeat_timeout_seconds").unwrap_or(settings.heartbeat_timeout),
        heartbeat_interval: span("heartbeat_interval_seconds").unwrap_or(settings.heartbeat_interval),
        start_timeout: start_timeout.unwrap_or_else(|| settings.start_timeout_or_default()),
        start_timeout_was_set: start_timeout.is_some(),
        max_retries: max_retries.unwrap_or(settings.max_retries),
        stuck_after: span("stuck_after_seconds").unwrap_or(settings.stuck_after),
    }
}

/// A limit below two beats is legal, and one late beat then looks like an end.
fn short_spans(object: &Map<String, Value>, limits: &Limits) -> Vec<String> {
    let set_here = |name: &str| object.get(name).is_some_and(Value::is_number);
    let spans = [
        ("heartbeat_timeout_seconds", limits.heartbeat_timeout),
        ("stuck_after_seconds", limits.stuck_after),
    ];
    let two_beats = 2.0 * limits.heartbeat_interval.0;
    spans
        .into_iter()
        .filter(|(name, span)| set_here(name) && span.0 < two_beats)
        .map(|(name, span)| {
            format!("field {name}: {span} is less than two beats of {}", limits.heartbeat_interval)
        })
        .collect()
}

fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn paths(object: &Map<String, Value>, name: &str) -> Vec<String> {
    texts(object, name).iter().map(|path| plain_spelling(path).into_owned()).collect()
}

fn texts(object: &Map<String, Value>, name: &str) -> Vec<String> {
    let items = object.get(name).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TaskKey {
        TaskKey::parse("1").unwrap()
    }

    fn dropped(spec: &Value) -> Dropped {
        read_dropped(&key(), spec.to_string().as_bytes(), &Settings::default()).unwrap()
    }

    fn published(task: &Task, previous: &[(Attempt, Reason)]) -> String {
        let batch = BatchId::from_number(43);
        let paths = SpecPaths {
            outbox: "t/outbox/1/2",
            heartbeat_file: "t/outbox/1/2/heartbeat.json",
            result_file: "t/outbox/1/2/result.json",
        };
        let attempt = Attempt::FIRST.next();
        let created_at = WallTime(1_762_785_000_000);
        String::from_utf8(render(task, &batch, attempt, created_at, paths, previous)).unwrap()
    }

    #[test]
    fn the_words_for_types_are_those_of_the_model() {
        assert_eq!(TYPES, TaskType::ALL.map(TaskType::word));
    }

    #[test]
    fn a_spec_needs_only_an_id_and_a_goal() {
        let Dropped { task, warnings } = dropped(&json!({"task_id": "phase-1", "goal": "Build"}));
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!((task.key.as_str(), task.task_id.as_str()), ("1", "phase-1"));
        assert_eq!((task.kind, task.complexity.as_str()), (TaskType::Executor, "medium"));
        assert_eq!(task.phase_name, "phase-1");
        assert_eq!(task.limits.timeout, Seconds(3600.0));
        assert_eq!(task.limits.start_timeout, Seconds(60.0));
        assert!(!task.limits.start_timeout_was_set);
    }

    #[test]
    fn a_published_spec_has_the_protocols_fields_first_and_comes_back_as_the_same_task() {
        let spec = json!({
            "task_id": "phase-1", "goal": "Build", "steps": ["a"], "files_modified": ["x.md"], "files_deleted": ["x.md"],
            "dependencies": ["0", "phase-0"], "validation_gates": ["`cargo test`", "it is nice"],
            "conflict_notes": "mind y", "agent": "shell", "command": ["true"], "max_retries": 3.0,
            "start_timeout_seconds": 7, "timeout_seconds": 0.5, "ours": {"kept": true},
        });
        let task = dropped(&spec).task;
        assert_eq!(task.validation_gates[0].command.as_deref(), Some("cargo test"));
        assert_eq!(task.validation_gates[1].command, None);
        let previous = [(Attempt::FIRST, Reason::NoHeartbeat { limit: Seconds(60.0) })];
        let text = published(&task, &previous);
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("  \"")?.split('"').next()).collect();
        // A task has a command or a shell line, never both.
        let known: Vec<&str> =
            SPEC.fields.iter().map(|field| field.name).filter(|name| *name != "shell").collect();
        assert_eq!(names, [&known[..], &["ours"]].concat());
        assert!(text.contains("\"reason\": \"no heartbeat for 60s\""), "{text}");
        assert!(text.ends_with("}\n"));

        let again = read_dropped(&key(), text.as_bytes(), &Settings::default()).unwrap();
        assert_eq!(again.task, task);
        assert_eq!(again.warnings, ["field ours: unknown field \"ours\" is kept"]);
    }

    #[test]
    fn every_defect_of_a_spec_comes_at_once() {
        let bytes =
            br#"{"task_id":"a/b","type":"deployer","steps":"one","timeout_seconds":0,"max_retries":"2"}"#;
        let defects = read_dropped(&key(), bytes, &Settings::default()).unwrap_err();
        let places: Vec<String> = defects.iter().map(|defect| defect.place.to_string()).collect();
        let fields = ["task_id", "type", "goal", "steps", "timeout_seconds", "max_retries"];
        assert_eq!(places, fields.map(|name| format!("field {name}")));
    }

    #[test]
    fn what_only_the_watcher_says_is_ignored_even_when_it_is_nonsense() {
        let spec = json!({"task_id": "a", "goal": "b", "attempt": -1, "batch_id": [], "result_file": 7});
        let Dropped { task, warnings } = dropped(&spec);
        assert!(warnings.is_empty() && task.extra.is_empty());
    }

    #[test]
    fn limits_below_two_beats_are_legal_and_told() {
        let Dropped { task, warnings } =
            dropped(&json!({"task_id": "a", "goal": "b", "stuck_after_seconds": 30}));
        assert_eq!(task.limits.stuck_after, Seconds(30.0));
        assert_eq!(warnings, ["field stuck_after_seconds: 30s is less than two beats of 30s"]);
    }
}
