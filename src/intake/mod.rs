//! Requests as people write them → drafts → a valid plan, or every defect at once with its line or field.
//!
//! Pure: bytes in, values out. Who reads the file, names the batch and writes it down is somewhere else.
//! `markdown` and `plan_json` know the two spellings of a plan; `settle` judges what either of them found.

mod dependencies;
mod draft;
mod field;
mod markdown;
mod names;
mod plan_json;
mod say;
mod settle;
mod value;

use crate::format::json;
use crate::model::batch::{FileConflict, PLAN_BYTES_MAX, Source};
use crate::model::{Batch, BatchId, Defect, Origin, Place, Settings, Task, WallTime};
use draft::Findings;

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

/// A valid plan: nothing is missing, every dependency exists, nothing waits for itself.
#[derive(Debug)]
pub struct Plan {
    own_id: Option<BatchId>,
    /// With what the plan sets for its batch.
    settings: Settings,
    tasks: Vec<Task>,
    file_conflicts: Vec<FileConflict>,
    warnings: Vec<String>,
    source_name: String,
}

impl Plan {
    /// The id that the plan asks for.
    pub fn own_id(&self) -> Option<&BatchId> {
        self.own_id.as_ref()
    }

    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The batch in normal form.
    pub fn into_batch(self, context: Context) -> Batch {
        let id = self.own_id.unwrap_or(context.fallback_id);
        let source = Source { name: self.source_name, sha256: context.sha256 };
        Batch {
            file_conflicts: self.file_conflicts,
            warnings: self.warnings,
            tasks: self.tasks,
            ..Batch::new(id, Origin::Plan, source, context.accepted_at, &self.settings)
        }
    }
}

/// Reads a plan, Markdown or JSON, or tells everything that is wrong with it, in the order of the text.
pub fn read_plan(request: Request<'_>, settings: &Settings) -> Result<Plan, Vec<Defect>> {
    if request.bytes.len() as u64 > PLAN_BYTES_MAX {
        let message = format!("The plan has {} bytes; at most {PLAN_BYTES_MAX}", request.bytes.len());
        return Err(vec![Defect::new(
            "too_large",
            Place::File,
            message,
            "split the plan into several batches",
        )]);
    }
    let text = json::text_of(request.bytes).map_err(|defect| vec![defect])?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut findings = Findings::default();
    let draft = match is_json(text) {
        true => plan_json::read(request.bytes, settings, &mut findings).map_err(|defect| vec![defect])?,
        false => markdown::read(text, settings, &mut findings),
    };
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
