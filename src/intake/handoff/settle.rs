//! Judges a handed-over request as a whole, and makes the plan of it.
//!
//! Checks first and all of them, so that a refusal tells everything; only a sound draft becomes tasks.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Map;

use super::draft::{Chosen, Draft, Given, TaskDraft};
use super::{Reading, Words, inputs, outputs};
use crate::format::{is_invisible, join};
use crate::graph::{self, Order};
use crate::intake::say::quote;
use crate::intake::{DEPENDENCIES_MAX, Plan, value};
use crate::model::agent::{Crew, EXTERNAL, OWN_COMMAND, PROCESS};
use crate::model::batch::FileConflict;
use crate::model::declared::DeclaredFiles;
use crate::model::handoff::{Assignment, Criterion, Handoff, NamedPath};
use crate::model::{Limits, Seconds, Settings, Task, TaskKey, TaskType};

/// Most tasks of a handed-over request: each is an agent with files of its own that are looked at.
const TASKS_MAX: usize = 10_000;
/// Most warnings that an accepted batch carries.
const WARNINGS_MAX: usize = 200;
/// How many names a message lists.
const LISTED_MAX: usize = 8;
/// Longest title that follows a task's name, in characters.
const TITLE_MAX: usize = 120;

/// Makes a plan of the draft, or leaves the reasons in the report.
pub(super) fn settle(draft: Draft, reading: &mut Reading<'_>) -> Option<Plan> {
    let words = Words::of(draft.dialect);
    check_count(&draft, words, reading);
    if draft.tasks.len() > TASKS_MAX {
        return None;
    }
    let dependencies = resolve(&draft.tasks, words, reading);
    let order = graph::order(&dependencies);
    let order = order.map_err(|cycles| say_cycles(&cycles, &draft.tasks, reading)).ok();
    inputs::check(&draft.tasks, &dependencies, words, reading);
    let conflicts = match &order {
        Some(order) => outputs::conflicts(&draft.tasks, &dependencies, order, words, reading),
        None => Vec::new(),
    };
    if !reading.report.defects.is_empty() {
        return None;
    }
    plan_of(draft, &dependencies, &order?, conflicts, reading)
}

fn check_count(draft: &Draft, words: Words, reading: &mut Reading<'_>) {
    let has_list = reading.report.defects.iter().all(|defect| !is_about(&defect.place, words.list));
    if draft.tasks.is_empty() && has_list {
        let message = format!("has no {}", words.list);
        reading.report.refuse("no_tasks", words.list, message, "list what is to be done");
    }
    if draft.tasks.len() > TASKS_MAX {
        let message = format!("has {} {}; at most {TASKS_MAX}", draft.tasks.len(), words.list);
        reading.report.refuse("too_many_tasks", words.list, message, "split the request");
    }
}

/// Whether a defect of the list's form was told already.
fn is_about(place: &crate::model::Place, list: &str) -> bool {
    matches!(place, crate::model::Place::Field(path) if path.starts_with(list))
}

/// By task: the indexes of those that it waits for, each once.
fn resolve(tasks: &[TaskDraft], words: Words, reading: &mut Reading<'_>) -> Vec<Vec<usize>> {
    let mut by_name: HashMap<String, usize> = HashMap::with_capacity(tasks.len());
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| !task.name.is_empty()) {
        // Two names that differ in case alone would share files on some file systems.
        if let Some(first) = by_name.insert(value::folded(&task.name).into_owned(), index) {
            let (one, key) = (words.one.to_lowercase(), words.key);
            let both = format!("{} and {}", tasks[first].place, task.place);
            let message = format!("Duplicate {one} name '{}' ({both})", quote(&task.name));
            let remedy = format!("give each {one} an {key} of its own");
            reading.report.refuse("duplicate_task", &join(&task.place, key), message, remedy);
        }
    }
    // Backwards, so that of two tasks with one name the first is meant.
    let exact: HashMap<&str, usize> =
        tasks.iter().enumerate().rev().map(|(index, task)| (task.name.as_str(), index)).collect();
    let mut all = Vec::with_capacity(tasks.len());
    // By task: the number of the last one that was found to wait for it.
    let mut seen_by = vec![usize::MAX; tasks.len()];
    for (number, task) in tasks.iter().enumerate() {
        let mut found: Vec<usize> = Vec::with_capacity(task.dependencies.len());
        for (place, name) in &task.dependencies {
            match exact.get(name.as_str()).copied() {
                Some(index) if std::mem::replace(&mut seen_by[index], number) == number => {
                    reading.report.warn(place, format!("names '{}' more than once", quote(name)));
                }
                Some(index) => found.push(index),
                None => say_unknown(task, place, name, tasks, words, reading),
            }
        }
        if found.len() > DEPENDENCIES_MAX {
            let message = format!("has {} dependencies; at most {DEPENDENCIES_MAX}", found.len());
            let place = join(&task.place, "dependencies");
            reading.report.refuse("too_many_dependencies", &place, message, "put a task in between");
            found.clear();
        }
        all.push(found);
    }
    all
}

fn say_unknown(
    task: &TaskDraft,
    place: &str,
    name: &str,
    tasks: &[TaskDraft],
    words: Words,
    reading: &mut Reading<'_>,
) {
    let near = reading.nearest_task(name, tasks);
    let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    let (one, owner) = (words.one, quote(&task.name));
    let message = format!("{one} '{owner}': unknown dependency '{}'{hint}", quote(name));
    let mut names: Vec<&str> = tasks.iter().take(LISTED_MAX).map(|task| task.name.as_str()).collect();
    if tasks.len() > LISTED_MAX {
        names.push("…");
    }
    let remedy = format!("the {} are {}", words.list, names.join(", "));
    reading.report.refuse("unknown_dependency", place, message, remedy);
}

fn say_cycles(cycles: &[Vec<usize>], tasks: &[TaskDraft], reading: &mut Reading<'_>) {
    for cycle in cycles {
        let names = cycle.iter().chain(cycle.first()).map(|&index| tasks[index].name.as_str());
        let message = format!("Circular dependency: {}", names.collect::<Vec<_>>().join(" → "));
        let place = join(&tasks[cycle[0]].place, "dependencies");
        let remedy = "each waits for the next; take one of these dependencies out";
        reading.report.refuse("circular_dependency", &place, message, remedy);
    }
}

fn plan_of(
    draft: Draft,
    dependencies: &[Vec<usize>],
    order: &Order,
    conflicts: Vec<(String, Vec<usize>)>,
    reading: &mut Reading<'_>,
) -> Option<Plan> {
    let settings = settings_of(&draft, reading.settings);
    let verify = reading.settings.verify.or(draft.verify).unwrap_or(true);
    let keys: Option<Vec<TaskKey>> = draft.tasks.iter().map(|task| TaskKey::parse(&task.name).ok()).collect();
    let keys = keys?;
    let workspace = draft.workspace.as_deref().map(spelled)?;
    let mut modified: HashMap<usize, Vec<String>> = HashMap::new();
    for (file, tasks) in &conflicts {
        tasks.iter().for_each(|&task| modified.entry(task).or_default().push(file.clone()));
    }
    let of_keys = |indexes: &[usize]| indexes.iter().map(|&index| keys[index].clone()).collect();
    let file_conflicts =
        conflicts.into_iter().map(|(file, tasks)| FileConflict { file, tasks: of_keys(&tasks) }).collect();
    let (mut tasks, mut commands) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    let timeout_is_final = !draft.asks_for_retries;
    let shared =
        Assignment { env: draft.env, limits: draft.limits, timeout_is_final, ..Assignment::default() };
    for (index, mut draft) in draft.tasks.into_iter().enumerate() {
        let chosen = draft.agent.take()?;
        let place = Position {
            key: keys[index].clone(),
            dependencies: of_keys(&dependencies[index]),
            stage: order.stages[index],
            files_modified: modified.remove(&index).unwrap_or_default(),
        };
        tasks.push(task_of(draft, place, &chosen, &shared, &settings));
        commands.push((keys[index].clone(), chosen.settings.command));
    }
    // Without verification no command runs; whether artifacts are there is looked at all the same.
    let checks = if verify { draft.checks.as_slice() } else { &[] };
    tasks.extend(validation(checks, &draft.required_artifacts, &tasks, &shared, &settings));
    let handoff = Handoff {
        dialect: draft.dialect,
        workspace,
        bus: None,
        checkpoint: draft.checkpoint,
        verify,
        merge: draft.merge,
        checks: draft.checks,
        required_artifacts: draft.required_artifacts,
        log_level: draft.log_level,
        request_timestamp: draft.request_timestamp,
    };
    Some(Plan {
        own_id: draft.own_id,
        settings,
        tasks,
        file_conflicts,
        warnings: bounded(std::mem::take(&mut reading.report.warnings)),
        source_name: String::new(),
        handoff: Some(handoff),
        is_dry_run: draft.is_dry_run,
        commands,
    })
}

/// One more task for what must hold of the whole: it depends on all others, and its own command does nothing.
fn validation(
    checks: &[Criterion],
    artifacts: &[String],
    tasks: &[Task],
    shared: &Assignment,
    settings: &Settings,
) -> Option<Task> {
    if checks.is_empty() && artifacts.is_empty() {
        return None;
    }
    let is_free = |name: &String| !tasks.iter().any(|task| task.task_id.eq_ignore_ascii_case(name));
    let mut names = std::iter::once("validation".to_owned()).chain((2..).map(|n| format!("validation-{n}")));
    let key = TaskKey::parse(&names.find(is_free)?).ok()?;
    let assignment = Assignment {
        agent_name: key.as_str().to_owned(),
        required_artifacts: artifacts.to_vec(),
        criteria: checks.to_vec(),
        is_validation: true,
        ..shared.clone()
    };
    Some(Task {
        task_id: key.as_str().to_owned(),
        phase_name: format!("{key}: the whole"),
        goal: "Check that the whole is as it must be".to_owned(),
        complexity: "low".to_owned(),
        dependencies: tasks.iter().map(|task| task.key.clone()).collect(),
        stage: tasks.iter().map(|task| task.stage).max().unwrap_or(0) + 1,
        command: Some(vec!["true".to_owned()]),
        crew: Some(Crew { agent: OWN_COMMAND.to_owned(), launcher: PROCESS.to_owned() }),
        limits: Limits { max_retries: 0, ..limits_of(None, settings) },
        assignment: Some(Box::new(assignment)),
        ..Task::refused(&key)
    })
}

fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    if warnings.len() > WARNINGS_MAX {
        let more = warnings.len() - WARNINGS_MAX;
        warnings.truncate(WARNINGS_MAX);
        warnings.push(format!("{more} more warnings are not listed"));
    }
    warnings
}

/// The settings with what the request sets for its batch.
fn settings_of(draft: &Draft, settings: &Settings) -> Settings {
    Settings {
        parallel_limit: draft.parallel_limit.or(settings.parallel_limit),
        batch_timeout: draft.overall_timeout.or(settings.batch_timeout),
        max_retries: draft.max_retries.unwrap_or(settings.max_retries),
        ..settings.clone()
    }
}

fn limits_of(timeout: Option<Seconds>, settings: &Settings) -> Limits {
    Limits {
        timeout: timeout.unwrap_or(settings.timeout),
        heartbeat_timeout: settings.heartbeat_timeout,
        heartbeat_interval: settings.heartbeat_interval,
        start_timeout: settings.start_timeout_or_default(),
        start_timeout_was_set: settings.start_timeout.is_some(),
        max_retries: settings.max_retries,
        stuck_after: settings.stuck_after,
    }
}

/// Who is started, and how. `None` where somebody else starts the agent.
fn crew_of(chosen: &Chosen, agent_name: &str, settings: &Settings) -> Option<Crew> {
    let own = chosen.settings.launcher.as_deref();
    let launcher = own.or(settings.agents.launcher.as_deref()).unwrap_or(PROCESS);
    let crew = Crew { agent: agent_name.to_owned(), launcher: launcher.to_owned() };
    (launcher != EXTERNAL).then_some(crew)
}

/// What a task is among the others.
struct Position {
    key: TaskKey,
    dependencies: Vec<TaskKey>,
    stage: u32,
    files_modified: Vec<String>,
}

fn task_of(
    draft: TaskDraft,
    position: Position,
    chosen: &Chosen,
    shared: &Assignment,
    settings: &Settings,
) -> Task {
    let first = draft.goal.lines().next().unwrap_or_default().replace(is_invisible, " ");
    let title: String = first.chars().take(TITLE_MAX).collect();
    let kind = kind_of(&draft.agent_name);
    Task {
        task_id: draft.name.clone(),
        kind,
        declared_files: settings.declared_files.unwrap_or_else(|| DeclaredFiles::of_type(kind)),
        files_deleted: Vec::new(),
        // The part before the colon is the label.
        phase_name: format!("{}: {}", draft.name, title.trim()),
        goal: draft.goal.clone(),
        steps: Vec::new(),
        complexity: "medium".to_owned(),
        files_modified: position.files_modified,
        estimated_hours: None,
        dependencies: position.dependencies,
        stage: position.stage,
        validation_gates: Vec::new(),
        conflict_notes: None,
        agent: chosen.dir.is_none().then(|| chosen.settings.name.clone()),
        command: None,
        shell: None,
        crew: crew_of(chosen, &draft.agent_name, settings),
        limits: limits_of(draft.timeout, settings),
        extra: Map::new(),
        key: position.key,
        assignment: Some(Box::new(assignment_of(draft, chosen.dir.as_deref(), shared))),
    }
}

/// The kind that an agent's name says: as a whole, by its first word, or by its last.
fn kind_of(agent_name: &str) -> TaskType {
    let last = agent_name.rsplit(['-', '_', '.']).next().unwrap_or(agent_name);
    let by_title = |title: &str| Some(value::task_type_of(title)).filter(|kind| *kind != TaskType::Executor);
    let by_name = value::task_type(agent_name).or_else(|| by_title(agent_name));
    by_name.or_else(|| by_title(last)).unwrap_or(TaskType::Executor)
}

fn assignment_of(task: TaskDraft, agent_dir: Option<&Path>, shared: &Assignment) -> Assignment {
    let named = |given: Vec<Given>| {
        given.into_iter().map(|one| NamedPath { name: one.name, path: spelled(&one.path) }).collect()
    };
    Assignment {
        agent_name: task.agent_name,
        agent_dir: agent_dir.map(spelled),
        inputs: named(task.inputs),
        outputs: named(task.outputs),
        context_path: task.context.map(|context| spelled(&context.path)),
        required_artifacts: task.required_artifacts,
        criteria: task.criteria,
        ..shared.clone()
    }
}

/// As JSON has it; every path came as text.
fn spelled(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_name_says_its_kind() {
        let kinds = [
            ("code-generator", TaskType::Generator),
            ("code-reviewer", TaskType::Reviewer),
            ("reviewer", TaskType::Reviewer),
            ("context-updater", TaskType::ContextUpdater),
            ("validate_all", TaskType::Reviewer),
            ("builder", TaskType::Executor),
        ];
        for (name, kind) in kinds {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
