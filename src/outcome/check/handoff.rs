//! What `wk check` shows of a handed-over request beside its graph: where it works, how its outputs become
//! one, and every command that would be run for it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::model::handoff::{Check, Criterion, Handoff, Wanted};
use crate::model::{Batch, Task, TaskKey};

/// What each task's agent is started with.
pub type Commands<'c> = &'c [(TaskKey, Vec<String>)];

/// The facts for programs; nothing for a plan.
pub fn handoff_json(batch: &Batch, commands: Commands<'_>, is_dry_run: bool) -> Option<Value> {
    let handoff = batch.handoff.as_ref()?;
    let agents: Vec<Value> = of_client(batch)
        .filter_map(|task| {
            let assignment = task.assignment.as_ref()?;
            Some(json!({
                "task": task.key,
                "agent_name": assignment.agent_name,
                "agent_dir": assignment.agent_dir,
                "command": command_of(&task.key, commands),
                "launcher": task.crew.as_ref().map(|crew| crew.launcher.as_str()),
                "inputs": assignment.inputs,
                "outputs": assignment.outputs,
                "context_path": assignment.context_path,
            }))
        })
        .collect();
    let checks: Vec<Value> = checks(batch)
        .map(|(task, criterion)| {
            json!({
                "task": task,
                "name": criterion.name,
                "wants": wanted_words(criterion.wants),
                "command": criterion.check.as_ref().map(|check| &check.command),
                "value": criterion.check.as_ref().and_then(|check| check.value.as_ref()),
                "from_request": criterion.brings_a_command(),
            })
        })
        .collect();
    Some(json!({
        "dialect": handoff.dialect,
        "batch_id": batch.id.to_json(),
        "workspace": handoff.workspace,
        "dry_run": is_dry_run,
        "verify": handoff.verify,
        "checkpoint": handoff.checkpoint,
        "merge_strategy": handoff.merge,
        "agents": agents,
        "checks": checks,
        "required_artifacts": handoff.required_artifacts,
        "parallel_limit": batch.parallel_limit,
        "overall_timeout": batch.batch_timeout,
        "log_level": handoff.log_level,
    }))
}

/// The same for people; empty for a plan.
pub fn handoff_text(batch: &Batch, commands: Commands<'_>) -> String {
    let mut out = String::new();
    if let Some(handoff) = &batch.handoff {
        // Writing into a string cannot fail.
        let _ = head(&mut out, handoff);
        let _ = agents(&mut out, batch, commands);
        let _ = criteria(&mut out, batch, handoff);
    }
    out
}

fn head(out: &mut String, handoff: &Handoff) -> std::fmt::Result {
    let snapshot = if handoff.checkpoint { "with a checkpoint" } else { "without a checkpoint" };
    writeln!(out, "\nWorkspace: {}, {snapshot}", handoff.workspace)?;
    let merge = &handoff.merge;
    write!(out, "Merge: {}, conflicts: {}", merge.kind.word(), merge.conflict_resolution.word())?;
    if !merge.priority.is_empty() {
        write!(out, ", priority: {}", merge.priority.join(", "))?;
    }
    writeln!(out)?;
    match &merge.verify {
        Some(check) if handoff.verify => writeln!(out, "Merged tree checked by {}", how_words(check)),
        _ => Ok(()),
    }
}

fn agents(out: &mut String, batch: &Batch, commands: Commands<'_>) -> std::fmt::Result {
    writeln!(out, "\nStarted with")?;
    for task in of_client(batch) {
        let Some(assignment) = &task.assignment else { continue };
        let command = shown(command_of(&task.key, commands));
        let command = if task.crew.is_none() { "somebody else starts it".to_owned() } else { command };
        let from = assignment.agent_dir.as_ref().map_or(String::new(), |dir| format!("  (by {dir})"));
        writeln!(out, "  {}: {command}{from}", task.key)?;
    }
    Ok(())
}

fn criteria(out: &mut String, batch: &Batch, handoff: &Handoff) -> std::fmt::Result {
    let all: Vec<_> = checks(batch).collect();
    if !all.is_empty() {
        let what =
            if handoff.verify { "Criteria" } else { "Criteria (not verified: the agents' word counts)" };
        writeln!(out, "\n{what}")?;
    }
    for (task, criterion) in all {
        let whose = task.map_or("the whole", TaskKey::as_str);
        let how = match &criterion.check {
            Some(check) => format!("by {}", how_words(check)),
            None => "by the agent's word".to_owned(),
        };
        writeln!(out, "  {whose}: {} {}, {how}", criterion.name, wanted_words(criterion.wants))?;
    }
    if !handoff.required_artifacts.is_empty() {
        writeln!(out, "\nRequired artifacts: {}", handoff.required_artifacts.join(", "))?;
    }
    Ok(())
}

fn how_words(check: &Check) -> String {
    let origin = if check.from_request { " (from the request)" } else { " (from settings)" };
    let value = check.value.as_ref().map_or(String::new(), |value| format!(", value /{value}/"));
    format!("`{}`{value}{origin}", shown(&check.command))
}

/// The tasks that the client asked for. The one that checks the whole has no agent, and its criteria are the whole's.
fn of_client(batch: &Batch) -> impl Iterator<Item = &Task> {
    batch.tasks.iter().filter(|task| !task.is_validation())
}

/// Every criterion, of tasks and of the whole.
fn checks(batch: &Batch) -> impl Iterator<Item = (Option<&TaskKey>, &Criterion)> {
    let of_tasks = of_client(batch).filter_map(|task| Some((&task.key, task.assignment.as_ref()?)));
    let of_tasks = of_tasks.flat_map(|(key, assignment)| {
        assignment.criteria.iter().map(move |criterion| (Some(key), criterion))
    });
    let of_all = batch.handoff.iter().flat_map(|handoff| &handoff.checks);
    of_tasks.chain(of_all.map(|criterion| (None, criterion)))
}

fn wanted_words(wanted: Wanted) -> String {
    match wanted {
        Wanted::Truth(true) => "holds".to_owned(),
        Wanted::Truth(false) => "does not hold".to_owned(),
        Wanted::Floor(floor) => format!("is at least {floor}"),
    }
}

fn command_of<'c>(key: &TaskKey, commands: Commands<'c>) -> &'c [String] {
    let found = commands.iter().find(|(task, _)| task == key);
    found.map(|(_, command)| command.as_slice()).unwrap_or_default()
}

/// A command on one line, with quotes where an argument has blanks.
fn shown(command: &[String]) -> String {
    let quoted = command.iter().map(|word| {
        let is_plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control());
        if is_plain { word.clone() } else { format!("{word:?}") }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
