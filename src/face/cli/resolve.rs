//! `wk resolve BATCH`: says what becomes of conflicts between outputs, so that the merge goes on. No agent runs
//! again. A batch that has ended is opened again for this, like for another try.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::follow::Progress;
use super::locate::Found;
use super::resolve_choices::Wanted;
use super::{Desk, Exit, Outcome, Trouble, locate, run, terminal, wish};
use crate::bus::disk::BusError;
use crate::bus::lease::{Lease, LeaseError};
use crate::bus::{Content, Disk, RealDisk};
use crate::format::wish::Verb;
use crate::model::handoff::{ConflictBrief, MergeOutcome};
use crate::model::state::BatchState;
use crate::model::workspace::WorkspacePaths;
use crate::view::escape::one_line;
use crate::view::words::counted;

/// A conflict report: a line for each agent's version of each file.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Decides conflicts between the outputs of agents, and lets the merge go on.
///
/// Without a choice it shows the conflicts that wait: what clashes, the file with conflict marks, and where every
/// version lies. A choice is for one conflict, by its id or by its path. What is taken of one agent wins where it
/// clashes; what does not clash is kept of all. Until the batch is undone every choice can be made again, also after
/// the batch has ended. Where no watcher runs on the bus, this command watches the batch to its end, like `wk run`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk resolve exec-001\n  wk resolve exec-001 --take c-1f3a=code-generator\n  wk resolve exec-001 --take src/app.py=code-reviewer --base README.md\n  wk resolve exec-001 --file src/app.py=merged-by-hand.py\n  wk resolve exec-001 --all code-generator"
)]
pub struct Resolve {
    /// The batch
    batch: String,
    /// This agent's version counts where it clashes
    #[arg(long, value_name = "CONFLICT=AGENT")]
    take: Vec<String>,
    /// What the agents that fit together made
    #[arg(long, value_name = "CONFLICT")]
    ours: Vec<String>,
    /// As it was before the agents
    #[arg(long, value_name = "CONFLICT")]
    base: Vec<String>,
    /// Nothing is to be there
    #[arg(long, value_name = "CONFLICT")]
    delete: Vec<String>,
    /// The content of this file counts
    #[arg(long, value_name = "CONFLICT=FILE")]
    file: Vec<String>,
    /// This agent's version counts in every conflict that it has a part in
    #[arg(long, value_name = "AGENT")]
    all: Option<String>,
    /// Shows no progress, only the summary
    #[arg(long, short)]
    quiet: bool,
}

impl Resolve {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        let mut found = locate::batch(desk, &self.batch)?;
        let (state, _) = found.load(&RealDisk::default())?;
        let merged = match state.handoff.as_ref().map(|handoff| (handoff.merging, &handoff.merged)) {
            Some((None, Some(merged))) if !merged.conflicts.is_empty() || !merged.settled.is_empty() => {
                merged
            }
            _ => {
                let what = format!("no conflict of batch {} waits for a person", found.id);
                return Err(Trouble::new(Exit::BadRequest, what)
                    .hint(format!("`wk status {}` says how it stands", found.id)));
            }
        };
        let known: Vec<ConflictBrief> = merged.conflicts.iter().chain(&merged.settled).cloned().collect();
        let wanted = Wanted {
            take: &self.take,
            ours: &self.ours,
            base: &self.base,
            delete: &self.delete,
            file: &self.file,
            all: self.all.as_deref(),
        };
        let choices = wanted.choices(&found, &known)?;
        if choices.is_empty() {
            list(desk, &found, &state, merged);
            return Ok(if merged.conflicts.is_empty() { Exit::Done } else { Exit::Awaiting });
        }
        wish::leave_with(desk, &found, Verb::Resolve, None, None, choices)?;
        if found.is_archived {
            let back = desk.layout.batch(&found.id);
            let moved = desk.disk().move_tree(found.paths.dir(), back.dir());
            moved.map_err(BusError::of("open again", found.paths.dir()))?;
        }
        match Lease::take(&desk.layout) {
            Ok(lease) => {
                let mut progress = Progress::new(desk, self.quiet);
                run::watch(desk, lease, found.id, &mut progress)
            }
            Err(LeaseError::Held { .. }) => {
                if !desk.json {
                    terminal::print("told the watcher; it merges again\n");
                }
                Ok(Exit::Done)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Shows what waits, and what was decided.
fn list(desk: &Desk, found: &Found, state: &BatchState, merged: &MergeOutcome) {
    let report = report_of(state);
    let told = |conflict: &ConflictBrief| -> Option<&Value> {
        report.as_ref()?["conflicts"].as_array()?.iter().find(|told| told["id"] == conflict.id.as_str())
    };
    if desk.json {
        let conflicts: Vec<Value> =
            merged.conflicts.iter().map(|one| told(one).cloned().unwrap_or_else(|| json!(one))).collect();
        let settled = &merged.settled;
        let all = json!({"batch_id": found.id.to_json(), "conflicts": conflicts, "settled": settled});
        return super::print_json(&all);
    }
    let count = merged.conflicts.len();
    let mut text = String::new();
    if count > 0 {
        let verb = if count == 1 { "waits" } else { "wait" };
        text.push_str(&format!("{} {verb} for a person:\n", counted(count, "conflict")));
    }
    for conflict in &merged.conflicts {
        show(&mut text, conflict, told(conflict));
    }
    if !merged.settled.is_empty() {
        text.push_str(&format!("{} decided:\n", counted(merged.settled.len(), "conflict")));
    }
    for conflict in &merged.settled {
        show(&mut text, conflict, None);
    }
    terminal::print(&text);
    terminal::tell(&format!("hint: wk resolve {} --take CONFLICT=AGENT", found.id));
}

/// One conflict: what clashes, where the versions are, what may be chosen.
fn show(text: &mut String, conflict: &ConflictBrief, told: Option<&Value>) {
    let ConflictBrief { id, class, path, agents, message, choices } = conflict;
    let _ = writeln!(text, "  {id}  {} ({class}; {})", one_line(path), agents.join(", "));
    let _ = writeln!(text, "      {}", one_line(message));
    let preview = told.and_then(|told| told["preview"].as_str()).unwrap_or_default();
    for line in preview.lines() {
        let _ = writeln!(text, "      | {}", one_line(line));
    }
    for (word, file) in told.and_then(|told| told["files"].as_object()).into_iter().flatten() {
        let _ = writeln!(text, "      {word}: {}", one_line(file.as_str().unwrap_or_default()));
    }
    if !choices.is_empty() {
        let _ = writeln!(text, "      choices: {}", choices.join(", "));
    }
}

/// The conflict report in the workspace, if it is this batch's. It is for people's eyes alone: agents can write there.
fn report_of(state: &BatchState) -> Option<Value> {
    let path = WorkspacePaths::new(&state.batch.handoff.as_ref()?.workspace).conflicts();
    let Ok(Content::Bytes { bytes, .. }) = RealDisk::default().read(&path, REPORT_BYTES_MAX) else {
        return None;
    };
    let report: Value = serde_json::from_slice(&bytes).ok()?;
    (report["execution_id"] == state.batch.id.as_str()).then_some(report)
}
