//! `wk check FILE`: what would happen, and everything that is wrong with a request. Starts nothing.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::follow::print_line;
use super::run::under_way;
use super::{Desk, Exit, Outcome, Trouble, terminal};
use crate::agent::surroundings::LocalSurroundings;
use crate::bus::disk::BusError;
use crate::bus::occupancy::Occupancy;
use crate::bus::{self, Content, Disk, RealDisk};
use crate::intake::{self, Context, Plan};
use crate::model::workspace::WorkspacePaths;
use crate::model::{Batch, BatchId, Defect, Place, TaskKey};
use crate::outcome::check;
use crate::outcome::handoff::progress;
use crate::watcher::objections::id_in_use;

/// Validates a request; shows stages, critical path and file conflicts.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk check plan.md\n  wk check execution_request.json\n  wk check plan.md --json\n  wk check plan.md --dot | dot -Tsvg > plan.svg\n  wk check plan.md --mermaid\n  wk check plan.md --require verified     (says which tasks cannot reach it)"
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
        let Some(plan) = request.runnable_plan(desk)? else { return Ok(Exit::BadRequest) };
        if self.dot {
            terminal::print(&check::dot(&plan.into_batch(Context::for_check())));
        } else if self.mermaid {
            terminal::print(&check::mermaid(&plan.into_batch(Context::for_check())));
        } else if show(desk, plan) > 0 {
            return Ok(Exit::Failure);
        }
        Ok(Exit::Done)
    }
}

/// Prints what a request would come to. Returns how many tasks cannot reach the evidence that is demanded.
pub fn show(desk: &Desk, plan: Plan) -> usize {
    let outline = Outline::of(plan);
    if desk.json {
        super::print_json(&outline.facts());
    } else {
        terminal::print(&outline.text());
    }
    check::out_of_reach(&outline.batch).len()
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

    /// What it says, with everything that `wk run` would find: what is wrong with it, and what the bus has to say.
    fn runnable_plan(&self, desk: &Desk) -> Result<Option<Plan>, Trouble> {
        let plan = self.read_plan(desk, &desk.surroundings());
        let more = if under_way(desk, self).is_some() {
            Vec::new()
        } else {
            self.objections(desk, plan.as_ref().ok())?
        };
        self.told(
            desk,
            match (plan, more.is_empty()) {
                (Ok(plan), true) => Ok(plan),
                (Ok(_), false) => Err(more),
                (Err(defects), _) => Err(defects.into_iter().chain(more).collect()),
            },
        )
    }

    /// What the bus has to say against it, also where it cannot be read whole.
    fn objections(&self, desk: &Desk, plan: Option<&Plan>) -> Result<Vec<Defect>, Trouble> {
        let raw: Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
        let named = ["execution_id", "batch_id"].into_iter().find_map(|field| {
            let id =
                raw[field].as_str().map(str::to_owned).or(raw[field].as_u64().map(|id| id.to_string()))?;
            Some((BatchId::parse(&id).ok()?, field))
        });
        let own = plan.map(|plan| plan.own_id().map(|id| (id.clone(), plan.id_field())));
        let mut more = Vec::new();
        if let Some((id, field)) = own.unwrap_or(named) {
            more.extend(id_in_use(&RealDisk::default(), &desk.layout, &id, field)?);
        }
        let workspace = raw["workspace_root"].as_str().or(raw["environment"]["workspace_dir"].as_str());
        let lock = workspace.map(|workspace| WorkspacePaths::new(workspace).lock());
        if let Some(holder) = lock.and_then(|lock| Occupancy::holder(&lock)) {
            let message = format!("{holder} works in {}", workspace.unwrap_or_default());
            let remedy = "choose another workspace, or wait for its end";
            more.push(Defect::new("workspace_in_use", Place::File, message, remedy));
        }
        Ok(more)
    }

    /// What it says, for verbs that accept nothing. `None` where its defects were printed.
    pub fn plan(&self, desk: &Desk, around: &LocalSurroundings) -> Result<Option<Plan>, Trouble> {
        self.told(desk, self.read_plan(desk, around))
    }

    fn told(&self, desk: &Desk, read: Result<Plan, Vec<Defect>>) -> Result<Option<Plan>, Trouble> {
        match read {
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
            Content::Foreign { owner } => format!("belongs to user {owner}"),
            Content::Unreadable { why } => format!("cannot be read: {why}"),
            Content::NotAFile(kind) => format!("is {}, not a regular file", kind.word()),
            Content::TooLarge { size } => {
                format!("has {size} bytes, and at most {} are read", bus::PLAN_BYTES_MAX)
            }
        };
        Err(Trouble::new(Exit::BadRequest, format!("{shown} {why}")))
    }
}
