//! `wk report BATCH`: what came of a batch, as summary, batch result, timeline, or in the words of another
//! orchestrator.

use std::collections::HashMap;

use clap::{Args, ValueEnum};

use super::{Desk, Exit, Outcome, locate, terminal};
use crate::bus::{Disk, RealDisk};
use crate::model::Claim;
use crate::model::handoff::Dialect;
use crate::model::state::{BatchState, TaskIx};
use crate::model::workspace::LogPaths;
use crate::outcome::handoff::{self, places};
use crate::outcome::{aggregate, summary, timeline};
use crate::watcher::act::collected_claims;
use crate::watcher::afterwards;
use crate::watcher::run::wall_now;

/// Reports on a batch: summary, batch result, timeline, or in the words of another orchestrator.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk report 43\n  wk report 43 timeline\n  wk report exec-001 --as execution"
)]
pub struct Report {
    /// Which batch; without it the only one under way, else the last one
    batch: Option<String>,
    /// What to tell
    #[arg(default_value = "summary")]
    form: Form,
    /// The same as the word after the batch
    #[arg(long = "as", value_name = "FORM", conflicts_with = "form")]
    told_as: Option<Form>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The text that a run ends with
    Summary,
    /// The aggregated result, as batches/batch-N.result.json holds it
    Batch,
    /// Who ran when
    Timeline,
    /// The report on an execution request, as execution_report.json holds it
    Execution,
    /// The report on assignments, likewise
    Assignments,
}

impl Report {
    pub fn run(self, desk: &Desk) -> Outcome {
        let mut found = locate::batch_or_only(desk, self.batch.as_deref())?;
        let disk = RealDisk::default();
        let (state, _) = found.load(&disk)?;
        let claims = collected_claims(&disk, &found.paths, &state, &desk.veil(&state.batch))?;
        match self.told_as.unwrap_or(self.form) {
            Form::Timeline if desk.json => super::print_json(&timeline::timeline_json(&state)),
            Form::Timeline => {
                terminal::print(&timeline::timeline_text(&state, wall_now(), terminal::look().width));
            }
            Form::Summary if !desk.json => {
                terminal::print(&summary::summary(&state, &claims));
                found.told_undone().iter().for_each(|told| terminal::print(&format!("\n{told}\n")));
            }
            Form::Summary | Form::Batch => {
                terminal::print(&String::from_utf8_lossy(&aggregate::canonical_bytes(&state, &claims)));
            }
            Form::Execution => tell(&state, &claims, &found, Dialect::ExecutionRequest),
            Form::Assignments => tell(&state, &claims, &found, Dialect::Assignments),
        }
        Ok(Exit::Done)
    }
}

fn tell(state: &BatchState, claims: &HashMap<TaskIx, Claim>, found: &locate::Found, dialect: Dialect) {
    let logs = match &state.batch.handoff {
        Some(_) => places::workspace_logs(state),
        None => attempt_logs(state, found),
    };
    let bytes = match afterwards::undone_at(&found.paths) {
        Some(at) => handoff::undone_report_bytes(state, claims, &logs, dialect, at),
        None => handoff::report_bytes(state, claims, &logs, dialect),
    };
    terminal::print(&String::from_utf8_lossy(&bytes));
}

/// A batch without a workspace keeps what its agents printed with their attempts.
fn attempt_logs(state: &BatchState, found: &locate::Found) -> HashMap<TaskIx, LogPaths> {
    let disk = RealDisk::default();
    let mut logs = HashMap::new();
    for (ix, task) in state.tasks.iter().enumerate() {
        let Some(last) = places::last_logged(task) else { continue };
        let attempt = found.paths.attempt(&task.spec.key, last.attempt);
        if disk.look(&attempt.stdout()).ok().flatten().is_some() {
            logs.insert(ix, LogPaths { stdout: attempt.stdout(), stderr: attempt.stderr() });
        }
    }
    logs
}
