//! `wk cancel BATCH|BATCH/TASK`: a wish for the end, as a file that the watcher grants.

use clap::Args;

use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::disk::BusError;
use crate::bus::lease::Lease;
use crate::bus::{Disk, Durability};
use crate::format::wish::{self, Verb, Wish};
use crate::watcher::run::wall_now;

/// Asks for the end of a batch or of one task.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk cancel 43\n  wk cancel 43/2a --why \"wrong branch\"")]
pub struct Cancel {
    /// BATCH, or BATCH/TASK
    name: String,
    /// The reason, for the story and the report
    #[arg(long)]
    why: Option<String>,
}

impl Cancel {
    pub fn run(self, desk: &Desk) -> Outcome {
        let (found, task) = match self.name.contains('/') {
            true => {
                let found = locate::task(desk, &self.name)?;
                let key = found.state.key(found.task).clone();
                (found.batch, Some(key))
            }
            false => (locate::batch(desk, &self.name)?, None),
        };
        if found.is_archived {
            return Err(Trouble::new(Exit::BadRequest, format!("batch {} has already ended", found.id)));
        }
        let by = std::env::var("USER").unwrap_or_else(|_| "the user".to_owned());
        let bytes = wish::render(&Wish { verb: Verb::Cancel, task, by, why: self.why });
        let disk = desk.disk();
        let dir = found.paths.control();
        disk.make_dirs(&dir).map_err(BusError::of("make", &dir))?;
        let path = dir.join(format!("cancel-{}-{}.json", wall_now().0, std::process::id()));
        disk.publish(&path, &bytes, Durability::Synced).map_err(BusError::of("publish", &path))?;
        let is_watched = Lease::holder(&desk.layout).is_some();
        if desk.json {
            super::print_json(&serde_json::json!({ "wish": path, "watched": is_watched }));
        } else if is_watched {
            terminal::print(&format!("asked for the end of {}\n", self.name));
        } else {
            terminal::print(&format!("asked for the end of {}; the next watcher grants it\n", self.name));
            terminal::tell("hint: no watcher runs on this bus; `wk watch --once` grants it now");
        }
        Ok(Exit::Done)
    }
}
