//! `wk report BATCH`: what came of a batch, as summary, batch result or timeline.

use clap::{Args, ValueEnum};

use super::{Desk, Exit, Outcome, locate, terminal};
use crate::bus::RealDisk;
use crate::outcome::{aggregate, summary, timeline};
use crate::watcher::act::collected_claims;
use crate::watcher::run::wall_now;

/// Reports on a batch: summary, batch result or timeline.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk report 43\n  wk report 43 batch\n  wk report 43 timeline")]
pub struct Report {
    /// Which batch; without it the only one under way, else the last one
    batch: Option<String>,
    /// What to tell
    #[arg(default_value = "summary")]
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The text that a run ends with
    Summary,
    /// The aggregated result, as batches/batch-N.result.json holds it
    Batch,
    /// Who ran when
    Timeline,
}

impl Report {
    pub fn run(self, desk: &Desk) -> Outcome {
        let found = locate::batch_or_only(desk, self.batch.as_deref())?;
        let disk = RealDisk::default();
        let (state, _) = found.load(&disk)?;
        let claims = collected_claims(&disk, &found.paths, &state)?;
        match self.form {
            Form::Timeline if desk.json => super::print_json(&timeline::timeline_json(&state)),
            Form::Timeline => {
                terminal::print(&timeline::timeline_text(&state, wall_now(), terminal::look().width));
            }
            Form::Summary if !desk.json => terminal::print(&summary::summary(&state, &claims)),
            Form::Summary | Form::Batch => {
                terminal::print(&String::from_utf8_lossy(&aggregate::canonical_bytes(&state, &claims)));
            }
        }
        Ok(Exit::Done)
    }
}
