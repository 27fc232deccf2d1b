//! Requests as people write them → drafts → a valid plan, or every defect at once with its line or field.
//!
//! Pure: bytes in, values out. Who reads the file, names the batch and writes it down is somewhere else.
//! `markdown` and `plan_json` know the two spellings of a plan; `settle` judges what either of them found.
//! `handoff` reads what another orchestrator hands over, and asks about the disk through `surroundings`.

mod dependencies;
mod draft;
mod field;
mod file_names;
mod handoff;
mod loosely;
mod markdown;
mod names;
mod plan_json;
mod say;
mod settle;
mod span;
mod surroundings;
mod value;

use serde_json::Value;

use crate::format::json;
use crate::model::agent::TMUX;
use crate::model::batch::{FileConflict, PLAN_BYTES_MAX, Source};
use crate::model::handoff::Handoff;
use crate::model::{Batch, BatchId, Defect, Origin, Place, Settings, Task, TaskKey, WallTime};
use draft::Findings;
pub use surroundings::{Entry, EntryKind, NoSurroundings, Surroundings};

/// Most tasks in a batch: what one watcher can scan within its interval.
pub const TASKS_MAX: usize = 200_000;
/// Most dependencies of one task.
pub const DEPENDENCIES_MAX: usize = 1_000;
/// Most files that one task may declare.
pub const FILES_MAX: usize = 10_000;

/// A file that asks for work.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its name in the inbox, or as the user gave it.
    pub name: &'a str,
    pub bytes: &'a [u8],
}

/// What a pure reader cannot know of a batch.
#[derive(Debug, Clone)]
pub struct Context {
    pub accepted_at: WallTime,
    /// The batch's id if the plan has none of its own: one more than the highest ever used.
    pub fallback_id: BatchId,
    /// The hash of the request's bytes.
    pub sha256: String,
}

impl Context {
    /// For looking at a plan that nobody accepts.
    pub fn for_check() -> Self {
        Context { accepted_at: WallTime(0), fallback_id: BatchId::from_number(0), sha256: String::new() }
    }
}

/// A valid request, whatever its dialect: nothing is missing, every dependency exists, nothing waits for itself.
#[derive(Debug)]
pub struct Plan {
    own_id: Option<BatchId>,
    /// With what the plan sets for its batch.
    settings: Settings,
    tasks: Vec<Task>,
    file_conflicts: Vec<FileConflict>,
    warnings: Vec<String>,
    source_name: String,
    /// What only a handed-over request has.
    handoff: Option<Handoff>,
    is_dry_run: bool,
    /// By task: what its agent is started with, where that is known already.
    commands: Vec<(TaskKey, Vec<String>)>,
}

impl Plan {
    /// The id that the request asks for.
    pub fn own_id(&self) -> Option<&BatchId> {
        self.own_id.as_ref()
    }

    /// The field by which the request names its batch.
    pub fn id_field(&self) -> &'static str {
        if self.handoff.is_some() { "execution_id" } else { "batch_id" }
    }

    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Whether the request asks to be checked and shown, and nothing to be started.
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// Whether it brings values of variables with it, which may be secrets.
    pub fn carries_values(&self) -> bool {
        self.tasks.iter().any(Task::carries_values)
    }

    /// By task of a handed-over request: what its agent would be started with.
    pub fn commands(&self) -> &[(TaskKey, Vec<String>)] {
        &self.commands
    }

    /// The batch in normal form.
    pub fn into_batch(self, context: Context) -> Batch {
        let origin = if self.handoff.is_some() { Origin::Handoff } else { Origin::Plan };
        let id = self.own_id.unwrap_or(context.fallback_id);
        let source = Source { name: self.source_name, sha256: context.sha256 };
        Batch {
            file_conflicts: self.file_conflicts,
            warnings: self.warnings,
            handoff: self.handoff,
            tasks: self.tasks,
            ..Batch::new(id, origin, source, context.accepted_at, &self.settings)
        }
    }
}

/// Reads a request in any dialect, or tells everything that is wrong with it.
pub fn read_request(
    request: Request<'_>,
    settings: &Settings,
    around: &dyn Surroundings,
) -> Result<Plan, Vec<Defect>> {
    let text = text_of(request)?;
    if !is_json(text) {
        return startable(read_markdown(request, text, settings)?, around);
    }
    let value = json::parse(request.bytes).map_err(|defect| vec![defect])?.value;
    if let Value::Object(top) = &value
        && let Some(dialect) = handoff::recognise(top)
    {
        let plan = handoff::read(dialect, top, settings, around)?;
        return Ok(Plan { source_name: request.name.to_owned(), ..plan });
    }
    startable(read_json(request, value, settings)?, around)
}

/// The plan, unless its agents are to be started by what is not here.
fn startable(plan: Plan, around: &dyn Surroundings) -> Result<Plan, Vec<Defect>> {
    let in_tmux = |task: &&Task| task.crew.as_ref().is_some_and(|crew| crew.launcher == TMUX);
    let Some(task) = plan.tasks.iter().find(in_tmux).filter(|_| !around.has_program(TMUX, None)) else {
        return Ok(plan);
    };
    let message =
        format!("{} is to be started in tmux, and there is no program 'tmux' in PATH", task.label());
    let remedy = "install it, or take the launcher process";
    Err(vec![Defect::new("launcher_missing", Place::File, message, remedy)])
}

/// Reads a plan, Markdown or JSON, or tells everything that is wrong with it, in the order of the text.
pub fn read_plan(request: Request<'_>, settings: &Settings) -> Result<Plan, Vec<Defect>> {
    let text = text_of(request)?;
    if !is_json(text) {
        return read_markdown(request, text, settings);
    }
    read_json(request, json::parse(request.bytes).map_err(|defect| vec![defect])?.value, settings)
}

fn text_of(request: Request<'_>) -> Result<&str, Vec<Defect>> {
    if request.bytes.len() as u64 > PLAN_BYTES_MAX {
        let message = format!("The plan has {} bytes; at most {PLAN_BYTES_MAX}", request.bytes.len());
        let remedy = "split the plan into several batches";
        return Err(vec![Defect::new("too_large", Place::File, message, remedy)]);
    }
    let text = json::text_of(request.bytes).map_err(|defect| vec![defect])?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn read_markdown(request: Request<'_>, text: &str, settings: &Settings) -> Result<Plan, Vec<Defect>> {
    let mut findings = Findings::default();
    let draft = markdown::read(text, settings, &mut findings);
    plan_of(request, draft, findings)
}

fn read_json(request: Request<'_>, value: Value, settings: &Settings) -> Result<Plan, Vec<Defect>> {
    let mut findings = Findings::default();
    let draft = plan_json::read(value, settings, &mut findings);
    plan_of(request, draft, findings)
}

fn plan_of(
    request: Request<'_>,
    draft: draft::Draft<'_>,
    mut findings: Findings,
) -> Result<Plan, Vec<Defect>> {
    match settle::settle(draft, &mut findings) {
        Some(plan) => {
            let warnings = findings.into_warnings();
            Ok(Plan { warnings, source_name: request.name.to_owned(), ..plan })
        }
        None => Err(findings.into_defects()),
    }
}

/// The content tells, whatever the file is called. `[TOC]` begins many a page in Markdown.
fn is_json(text: &str) -> bool {
    match text.trim_start().strip_prefix('[') {
        Some(rest) => rest.trim_start().starts_with(['{', '[', ']', '"']) || rest.trim().is_empty(),
        None => text.trim_start().starts_with('{'),
    }
}
