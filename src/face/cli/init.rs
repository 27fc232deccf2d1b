//! `wk init`: sets up `.ce/` in this project. Run again, it adds what is missing and changes nothing.

use clap::Args;

use super::{Desk, Exit, Outcome, ground, terminal};
use crate::bus::disk::BusError;
use crate::bus::{Disk, Durability, Layout, version};
use crate::format;

/// Sets up .ce/ in this project.
///
/// Makes the bus (.ce/orchestration/) and a settings file in which every default is shown, commented out.
/// What is there already is left alone. A bus of a directory above is another one.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk init\n  wk init --root ../other-project")]
pub struct Init {}

impl Init {
    pub fn run(self, desk: &Desk) -> Outcome {
        let is_new = ground::prepare(desk)?;
        let disk = desk.disk();
        version::mark_bus(&disk, &desk.layout)?;
        let mut made = Vec::new();
        let settings = desk.layout.settings();
        if disk.look(&settings).map_err(BusError::of("look at", &settings))?.is_none() {
            let text = format::settings::default_toml();
            disk.publish(&settings, text.as_bytes(), Durability::Synced)
                .map_err(BusError::of("publish", &settings))?;
            made.push(settings.display().to_string());
        }
        // The bus is traffic, not source.
        if ground::hide_from_git(desk)? || is_new {
            made.push(desk.layout.gitignore().display().to_string());
        }
        if let Some(exposure) = ground::exposure(desk) {
            terminal::tell(&format!("warning: {exposure}"));
        }
        let above = desk.layout.root().parent().map(Layout::nearest_root).map(Layout::new);
        let outer =
            above.filter(|above| above.bus().is_dir()).map(|above| above.root().display().to_string());
        if let Some(outer) = outer.filter(|_| is_new) {
            terminal::tell(&format!("note: {outer} has a bus too; below this directory the new one is used"));
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
