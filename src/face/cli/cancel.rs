//! `wk cancel BATCH|BATCH/TASK`: a wish for the end, as a file that the watcher grants.

use clap::Args;

use super::{Desk, Outcome, locate, wish};
use crate::format::wish::Verb;

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
            true => wish::task_named(desk, &self.name).map(|(found, key)| (found, Some(key)))?,
            false => (locate::batch(desk, &self.name)?, None),
        };
        let what = format!("the end of {}", self.name);
        wish::ask(desk, &found, Verb::Cancel, task, self.why, &what)
    }
}
