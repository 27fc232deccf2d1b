//! `wk why TASK`: the causal story of a task, from the journal.

use clap::Args;

use super::{Desk, Exit, Outcome, locate, terminal};
use crate::model::Tick;
use crate::outcome::story;

/// Tells the causal story of a task, from the journal.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk why 2a\n  wk why 43/2a --json")]
pub struct Why {
    /// BATCH/TASK, or TASK where that is clear
    task: String,
}

impl Why {
    pub fn run(self, desk: &Desk) -> Outcome {
        let found = locate::task(desk, &self.task)?;
        let now = found.entries.last().map_or(Tick(0), |entry| entry.clock);
        let story = story::story(&found.state, &found.entries, found.task, now);
        if desk.json {
            super::print_json(&story.to_json());
        } else {
            terminal::print(&format!("{}\n", story.to_text().trim_end()));
            found.batch.told_undone().iter().for_each(|told| terminal::print(&format!("{told}\n")));
        }
        Ok(Exit::Done)
    }
}
