//! `wk pause` and `wk resume`: whether anything further begins in a batch. What runs goes on.

use clap::Args;

use super::{Desk, Outcome, locate, wish};
use crate::format::wish::Verb;

/// Lets nothing further begin in a batch; what runs goes on.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk pause\n  wk pause 43 --why \"reviewing the first results\"")]
pub struct Pause {
    /// The batch; the only one under way where absent
    batch: Option<String>,
    /// The reason, for the story and the report
    #[arg(long)]
    why: Option<String>,
}

/// Lets a paused batch go on.
#[derive(Args)]
#[command(after_help = "Example:\n  wk resume 43")]
pub struct Resume {
    /// The batch; the only one under way where absent
    batch: Option<String>,
}

impl Pause {
    pub fn run(self, desk: &Desk) -> Outcome {
        let found = locate::batch_or_only(desk, self.batch.as_deref())?;
        let what = format!("a pause of batch {}", found.id);
        wish::ask(desk, &found, Verb::Pause, None, self.why, &what)
    }
}

impl Resume {
    pub fn run(self, desk: &Desk) -> Outcome {
        let found = locate::batch_or_only(desk, self.batch.as_deref())?;
        let what = format!("batch {} to go on", found.id);
        wish::ask(desk, &found, Verb::Resume, None, None, &what)
    }
}
