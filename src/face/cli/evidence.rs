//! `wk evidence TASK`: why a task has its grade, finding by finding.

use clap::Args;

use super::{Desk, Exit, Outcome, locate, terminal};
use crate::bus::RealDisk;
use crate::outcome::evidence;
use crate::watcher::act::collected_claims;

/// Shows why a task has its grade of evidence, finding by finding.
///
/// Every declared file, output, artifact, criterion and commit, with what was seen of it and what that is worth: claimed,
/// observed or verified.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk evidence 2a\n  wk evidence 43/2a --json")]
pub struct Evidence {
    /// BATCH/TASK, or TASK where that is clear
    task: String,
}

impl Evidence {
    pub fn run(self, desk: &Desk) -> Outcome {
        let found = locate::task(desk, &self.task)?;
        let disk = RealDisk::default();
        let veil = desk.veil(&found.state.batch);
        let claims = collected_claims(&disk, &found.batch.paths, &found.state, &veil)?;
        let evidence = evidence::evidence(&found.state, found.task, claims.get(&found.task));
        match desk.json {
            true => super::print_json(&serde_json::json!(evidence)),
            false => terminal::print(&evidence.to_text()),
        }
        Ok(Exit::Done)
    }
}
