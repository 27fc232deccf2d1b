//! `wk verify BATCH`: checks a batch that has ended once more, against what is there now.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::follow::Interrupt;
use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::bus::{Disk, Durability, RealDisk};
use crate::model::{Finding, Grade};
use crate::view::words::{counted, listed_at_most};
use crate::watcher::act::collected_claims;
use crate::watcher::afterwards::{Again, Commands, NoWayBack, TaskAgain, Verification};

/// Most changed paths that are listed for people.
const CHANGED_SHOWN_MAX: usize = 5;
/// Verifications of one batch that are kept.
const VERIFICATIONS_MAX: u32 = 100_000;

/// Checks a finished batch again.
///
/// Our own papers are held against the journal, the files, outputs and artifacts of every task that succeeded must be
/// there now, and the commands of its criteria and gates are run again, with the limits and logs that agents have. What
/// was decided then stands: this says whether it would still hold. Exit code 0 if it does, 1 if not.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk verify 43\n  wk verify exec-001 --json\n  wk verify 43 --no-commands     (only looks; runs nothing)"
)]
pub struct Verify {
    /// Which batch; without it the last one
    batch: Option<String>,
    /// Runs none of the batch's commands
    #[arg(long)]
    no_commands: bool,
}

impl Verify {
    pub fn run(self, desk: &Desk) -> Outcome {
        let mut found = locate::batch_or_only(desk, self.batch.as_deref())?;
        if !found.is_archived {
            let what = format!("batch {} is still under way", found.id);
            return Err(Trouble::new(Exit::BadRequest, what)
                .hint(format!("`wk status {}` shows how far it is", found.id)));
        }
        let disk = RealDisk::default();
        let (state, _) = found.load(&disk)?;
        let claims = collected_claims(&disk, &found.paths, &state, &desk.veil(&state.batch))?;
        let folder = new_folder(&disk, &found.paths)?;
        let interrupt = Interrupt::listen(None)?;
        let (runners, is_enough) = (desk.runners(), || interrupt.came());
        let commands = Commands {
            layout: &desk.layout,
            settings: &desk.settings,
            runners: &*runners,
            folder: &folder,
            is_enough: &is_enough,
        };
        let verification = Verification {
            layout: &desk.layout,
            paths: &found.paths,
            state: &state,
            claims: &claims,
            commands: (!self.no_commands).then_some(&commands),
        };
        let again = verification.carry_out(|what| terminal::tell(&format!("checking {what}")));
        let Some(again) = again.map_err(told)? else { return Ok(Exit::Interrupted) };
        let value = as_json(found.id.as_str(), &again);
        let path = folder.join("verdict.json");
        let bytes = format!("{value:#}\n").into_bytes();
        disk.publish(&path, &bytes, Durability::Unsynced).map_err(BusError::of("write", &path))?;
        match desk.json {
            true => super::print_json(&value),
            false => {
                let kept = format!("\nKept in {}\n", folder.display());
                terminal::print(&(as_text(found.id.as_str(), &again) + &kept));
                found.told_undone().iter().for_each(|told| terminal::print(&format!("{told}\n")));
            }
        }
        Ok(if again.unmet() == 0 { Exit::Done } else { Exit::Failure })
    }
}

fn told(error: NoWayBack) -> Trouble {
    match error {
        NoWayBack::Disk(error) => error.into(),
        other => Trouble::new(Exit::Disk, other.to_string()),
    }
}

/// The folder of the next verification; nobody's earlier one is touched.
fn new_folder(disk: &RealDisk, paths: &BatchPaths) -> Result<PathBuf, Trouble> {
    let is_free = |folder: &PathBuf| matches!(disk.look(folder), Ok(None));
    let folder = (1..VERIFICATIONS_MAX).map(|number| paths.verification(number)).find(is_free);
    let folder = folder.ok_or_else(|| Trouble::new(Exit::Disk, "there is no room for a verification"))?;
    disk.make_dirs(&folder).map_err(BusError::of("make", &folder))?;
    Ok(folder)
}

fn as_json(batch: &str, again: &Again) -> Value {
    let task = |task: &TaskAgain| {
        json!({
            "task": task.task.as_str(),
            "evidence_then": task.then.map(Grade::word),
            "evidence_now": task.now().map(Grade::word),
            "findings": task.findings,
        })
    };
    json!({
        "batch": batch,
        "holds": again.unmet() == 0,
        "unmet": again.unmet(),
        "records": again.records,
        "tasks": again.tasks.iter().map(task).collect::<Vec<_>>(),
        "changed_since": again.changed_since,
    })
}

fn as_text(batch: &str, again: &Again) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Records");
    list(&mut text, &again.records);
    for task in &again.tasks {
        let _ = match (task.then, task.now()) {
            (Some(then), Some(now)) if then == now => writeln!(text, "{}: {now}", task.name),
            (Some(then), Some(now)) => writeln!(text, "{}: {now} (then {then})", task.name),
            _ => writeln!(text, "{}: did not succeed, so there is nothing to hold", task.name),
        };
        list(&mut text, &task.findings);
    }
    match again.changed_since.as_deref() {
        None => {}
        Some([]) => text.push_str("Its trees are as it left them\n"),
        Some(changed) => {
            let paths = listed_at_most(changed, CHANGED_SHOWN_MAX);
            let _ = writeln!(text, "Changed since it ended: {paths}");
        }
    }
    let (unmet, all) = (again.unmet(), again.findings().count());
    let _ = match unmet {
        0 => writeln!(text, "\nBatch {batch} holds: {} looked at", counted(all, "thing")),
        _ => writeln!(text, "\nBatch {batch} does not hold: {unmet} of {} not met", counted(all, "thing")),
    };
    text
}

fn list(text: &mut String, findings: &[Finding]) {
    for finding in findings {
        let glyph = if finding.met { '✓' } else { '✗' };
        let _ = writeln!(text, "  {glyph} {finding} ({})", finding.grade);
    }
}
