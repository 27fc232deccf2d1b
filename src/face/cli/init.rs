//! `wk init`: sets up `.ce/` in this project. Run again, it adds what is missing and changes nothing.

use clap::Args;

use super::{Desk, Exit, Outcome, terminal};
use crate::bus::disk::BusError;
use crate::bus::{Disk, Durability};
use crate::format;

/// Sets up .ce/ in this project.
///
/// Makes the bus (.ce/orchestration/) and a settings file in which every default is shown, commented out.
/// What is there already is left alone.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk init\n  wk init --root ../other-project")]
pub struct Init {}

impl Init {
    pub fn run(self, desk: &Desk) -> Outcome {
        desk.check_root()?;
        let disk = desk.disk();
        for dir in desk.layout.directories() {
            disk.make_dirs(&dir).map_err(BusError::of("make", &dir))?;
        }
        let mut made = Vec::new();
        let ignore = desk.layout.bus().join(".gitignore");
        let texts = [
            (desk.layout.settings(), format::settings::default_toml()),
            // The bus is traffic, not source.
            (ignore, "*\n".to_owned()),
        ];
        for (path, text) in texts {
            if disk.look(&path).map_err(BusError::of("look at", &path))?.is_none() {
                disk.publish(&path, text.as_bytes(), Durability::Synced)
                    .map_err(BusError::of("publish", &path))?;
                made.push(path.display().to_string());
            }
        }
        if desk.json {
            super::print_json(&serde_json::json!({ "root": desk.layout.root(), "made": made }));
        } else {
            terminal::print(&format!("The bus is ready in {}\n", desk.layout.bus().display()));
            terminal::print("Next: `wk check PLAN.md`, then `wk run PLAN.md`\n");
        }
        Ok(Exit::Done)
    }
}
