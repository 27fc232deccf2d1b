//! `wk check FILE`: what would happen, and everything that is wrong with a request. Starts nothing.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::follow::print_line;
use super::{Desk, Exit, Outcome, Trouble, terminal};
use crate::agent::surroundings::LocalSurroundings;
use crate::bus::disk::BusError;
use crate::bus::{self, Content, Disk, RealDisk};
use crate::intake::{self, Context, Plan};
use crate::model::{Batch, BatchId, Defect, TaskKey};
use crate::outcome::check;
use crate::outcome::handoff::progress;

/// Validates a request; shows stages, critical path and file conflicts.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk check plan.md\n  wk check execution_request.json\n  wk check plan.md --json\n  wk check plan.md --dot | dot -Tsvg > plan.svg\n  wk check plan.md --mermaid"
)]
pub struct Check {
    /// A plan (Markdown with phases, or JSON), an execution request, or assignments
    file: PathBuf,
    /// Prints the graph for Graphviz
    #[arg(long, conflicts_with = "mermaid")]
    dot: bool,
    /// Prints the graph for Mermaid
    #[arg(long)]
    mermaid: bool,
    /// The least evidence with which a task may succeed: claimed, observed or verified
    #[arg(long, value_name = "GRADE")]
    require: Option<String>,
}

impl Check {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        desk.require(self.require.as_deref())?;
        let request = Request::read(&self.file)?;
        let Some(plan) = request.plan(desk, &desk.surroundings())? else { return Ok(Exit::BadRequest) };
        if self.dot {
            terminal::print(&check::dot(&plan.into_batch(Context::for_check())));
        } else if self.mermaid {
            terminal::print(&check::mermaid(&plan.into_batch(Context::for_check())));
        } else {
            show(desk, plan);
        }
        Ok(Exit::Done)
    }
}

/// Prints what a request would come to.
pub fn show(desk: &Desk, plan: Plan) {
    let outline = Outline::of(plan);
    if desk.json {
        super::print_json(&outline.facts());
    } else {
        terminal::print(&outline.text());
    }
}

/// Prints the same as a line of progress.
pub fn show_as_line(plan: Plan) {
    let outline = Outline::of(plan);
    let id = outline.own_id.as_ref();
    print_line(&progress::only_checked(&outline.batch, id, &outline.facts(), &outline.text()));
}

/// What a request would come to.
struct Outline {
    own_id: Option<BatchId>,
    batch: Batch,
    commands: Vec<(TaskKey, Vec<String>)>,
    is_dry_run: bool,
}

impl Outline {
    fn of(plan: Plan) -> Self {
        let (own_id, commands) = (plan.own_id().cloned(), plan.commands().to_vec());
        let is_dry_run = plan.is_dry_run();
        Outline { own_id, commands, is_dry_run, batch: plan.into_batch(Context::for_check()) }
    }

    fn facts(&self) -> Value {
        let mut facts = check::json(&self.batch);
        if let Some(handoff) = check::handoff_json(&self.batch, &self.commands, self.is_dry_run) {
            facts["handoff"] = handoff;
        }
        facts
    }

    fn text(&self) -> String {
        check::text(&self.batch) + &check::handoff_text(&self.batch, &self.commands)
    }
}

/// A request as the user named it.
pub struct Request {
    /// As messages and the batch call it.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Request {
    /// What it says, or everything that is wrong with it.
    pub fn read_plan(&self, desk: &Desk, around: &LocalSurroundings) -> Result<Plan, Vec<Defect>> {
        let read = intake::Request { name: &self.name, bytes: &self.bytes };
        intake::read_request(read, &desk.settings, around)
    }

    /// What it says, for verbs that accept nothing. `None` where its defects were printed.
    pub fn plan(&self, desk: &Desk, around: &LocalSurroundings) -> Result<Option<Plan>, Trouble> {
        match self.read_plan(desk, around) {
            Ok(plan) => Ok(Some(plan)),
            Err(defects) if desk.json => {
                super::print_json(&serde_json::json!({ "valid": false, "defects": defects }));
                Ok(None)
            }
            Err(defects) => Err(Trouble::refused(&self.name, &defects)),
        }
    }

    /// Reads the file, whatever it is, without blocking on a pipe and without reading more than the limit.
    pub fn read(path: &Path) -> Result<Request, Trouble> {
        let shown = path.display();
        let resolved = std::fs::canonicalize(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Trouble::new(Exit::BadRequest, format!("Plan file not found: {shown}"))
            }
            _ => Trouble::new(Exit::BadRequest, format!("{shown}: {error}")),
        })?;
        let content = RealDisk::default().read(&resolved, bus::PLAN_BYTES_MAX);
        let content = content.map_err(BusError::of("read", &resolved))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let why = match content {
            Content::Bytes { bytes, .. } => return Ok(Request { name, bytes }),
            // A hard link is fine where the user names the file; only the bus must not be fooled by one.
            Content::SharedLink => {
                let bytes = std::fs::read(&resolved).map_err(BusError::of("read", &resolved))?;
                return Ok(Request { name, bytes });
            }
            Content::Absent => "is gone".to_owned(),
            Content::Changing => "is being written; try again".to_owned(),
            Content::Unreadable { why } => format!("cannot be read: {why}"),
            Content::NotAFile(kind) => format!("is {}, not a regular file", kind.word()),
            Content::TooLarge { size } => {
                format!("has {size} bytes, and at most {} are read", bus::PLAN_BYTES_MAX)
            }
        };
        Err(Trouble::new(Exit::BadRequest, format!("{shown} {why}")))
    }
}
