//! `wk check FILE`: what would happen, and everything that is wrong with a request. Starts nothing.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Desk, Exit, Outcome, Trouble, terminal};
use crate::bus::disk::BusError;
use crate::bus::{self, Content, Disk, RealDisk};
use crate::intake;
use crate::outcome::check;

/// Validates a request; shows stages, critical path and file conflicts.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk check plan.md\n  wk check plan.md --json\n  wk check plan.md --dot | dot -Tsvg > plan.svg\n  wk check plan.md --mermaid"
)]
pub struct Check {
    /// A plan: Markdown with phases, or JSON
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
        let read = intake::Request { name: &request.name, bytes: &request.bytes };
        let plan = match intake::read_plan(read, &desk.settings) {
            Ok(plan) => plan,
            Err(defects) if desk.json => {
                super::print_json(&serde_json::json!({ "valid": false, "defects": defects }));
                return Ok(Exit::BadRequest);
            }
            Err(defects) => return Err(Trouble::refused(&request.name, &defects)),
        };
        let batch = plan.into_batch(intake::Context::for_check());
        if self.dot {
            terminal::print(&check::dot(&batch));
        } else if self.mermaid {
            terminal::print(&check::mermaid(&batch));
        } else if desk.json {
            super::print_json(&check::json(&batch));
        } else {
            terminal::print(&check::text(&batch));
        }
        Ok(Exit::Done)
    }
}

/// A request as the user named it.
pub struct Request {
    /// As messages and the batch call it.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Request {
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
