//! `wk undo BATCH`: puts the work trees back as they were before a handed-over batch.
//!
//! Nothing is overwritten that somebody changed since: then nothing is done at all, and the list says what.

use clap::Args;
use serde_json::json;

use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::RealDisk;
use crate::bus::occupancy::Occupancy;
use crate::model::state::BatchState;
use crate::model::tree::TreePath;
use crate::model::workspace::WorkspacePaths;
use crate::view::words::counted;
use crate::watcher::act::collected_claims;
use crate::watcher::afterwards::{self, NoWayBack};
use crate::watcher::kept;
use crate::watcher::run::wall_now;
use crate::work_tree::undo::{self, UndoError, UndoPlan, Undone};
use crate::work_tree::{Hand, shown};

/// Puts the work trees back as they were before the batch.
///
/// Every file is put back exactly: contents, modes, links, absences. Files that the batch made are removed. Where
/// something was changed after the batch had ended nothing is done, and the list says what stands in the way. An
/// undo that was interrupted is completed by the same command.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk undo exec-001 --dry-run\n  wk undo exec-001\n  wk undo exec-001 --json"
)]
pub struct Undo {
    /// The batch
    batch: String,
    /// Says what would be done, and does nothing
    #[arg(long)]
    dry_run: bool,
}

impl Undo {
    pub fn run(self, desk: &Desk) -> Outcome {
        let is_json = desk.json;
        self.go_back(desk).inspect_err(|trouble| {
            // A program that reads the answer gets one in any case.
            if is_json {
                super::print_json(&json!({"done": false, "error": trouble.text}));
            }
        })
    }

    fn go_back(self, desk: &Desk) -> Outcome {
        let mut found = locate::batch(desk, &self.batch)?;
        let batch = kept::read_batch(&RealDisk::default(), &found.paths)?;
        let Some(handoff) = &batch.handoff else {
            let what = format!("batch {} was not handed over, so nothing was kept before it began", found.id);
            return Err(Trouble::new(Exit::BadRequest, what).hint("git knows what its files were"));
        };
        if !found.is_archived {
            let what = format!("batch {} is still under way", found.id);
            return Err(Trouble::new(Exit::BadRequest, what).hint("`wk cancel` ends it first"));
        }
        if let Some(holder) = Occupancy::holder(&WorkspacePaths::new(&handoff.workspace).lock()) {
            let what = format!("{holder} works in {}", handoff.workspace);
            return Err(Trouble::new(Exit::BadRequest, what).hint("wait for its end, or cancel it first"));
        }
        // A damaged journal stands in nobody's way back.
        let state = found.load(&RealDisk::default()).ok().map(|(state, _)| state);
        let prepared = state.as_ref().and_then(|state| state.handoff.as_ref()?.prepared.as_ref());
        let (dir, checkpoint) = afterwards::checkpoint_of(&batch, handoff, prepared).map_err(none)?;
        let begun = afterwards::begun_way_back(&dir, &found.paths, &checkpoint).map_err(none)?;
        if self.dry_run {
            let plan = match begun {
                Some(begun) => begun,
                None => afterwards::way_back(&found.paths, handoff, &checkpoint).map_err(none)?,
            };
            say_plan(desk, &plan);
            return Ok(Exit::Done);
        }
        let carry_out =
            |plan: &UndoPlan| undo::carry_out(&dir, &checkpoint, plan, Hand::free()).map_err(told);
        let mut undone = match begun {
            Some(begun) => carry_out(&begun)?,
            None => undo::forget(&dir, Hand::free()).map(|()| Undone::default()).map_err(told)?,
        };
        // Also after the rest of an earlier undo: what that was to put back may not have been all.
        let plan = afterwards::way_back(&found.paths, handoff, &checkpoint).map_err(none)?;
        if !plan.is_nothing() {
            undone = carry_out(&plan)?.and(undone);
        }
        // Whoever did it may have been killed before the word was left.
        if undo::is_done(&dir) {
            leave_word(desk, &found, state.as_ref())?;
        }
        match undone == Undone::default() {
            true => say_plan(desk, &plan),
            false => say_done(desk, &undone, &plan.left_alone),
        }
        Ok(Exit::Done)
    }
}

/// Says, where people look for the batch and where its client does, that it was undone.
fn leave_word(desk: &Desk, found: &locate::Found, state: Option<&BatchState>) -> Result<(), Trouble> {
    let at = afterwards::note_undone(&found.paths, wall_now())?;
    if let Some(state) = state {
        let claims = collected_claims(&RealDisk::default(), &found.paths, state, &desk.veil(&state.batch))?;
        afterwards::tell_client(state, &claims, at)?;
    }
    Ok(())
}

fn none(error: NoWayBack) -> Trouble {
    let text = error.to_string();
    match error {
        NoWayBack::NothingWasKept(_) => {
            Trouble::new(Exit::BadRequest, text).hint("there is nothing to go back to")
        }
        NoWayBack::NoCheckpoint { .. } => Trouble::new(Exit::BadRequest, text)
            .hint("it was removed, or the batch ended before it was taken"),
        NoWayBack::Changed(_) => Trouble::new(Exit::Failure, text)
            .hint("nothing was touched; what is in its checkpoint.tar.gz can be read with tar"),
        NoWayBack::Checkpoint(_) | NoWayBack::Unreadable { .. } => Trouble::new(Exit::Disk, text),
        NoWayBack::Undo(error) => told(error),
        NoWayBack::Disk(error) => error.into(),
    }
}

fn told(error: UndoError) -> Trouble {
    match error {
        UndoError::Refused(_) => Trouble::new(Exit::Failure, error.to_string())
            .hint("nothing was touched; `wk undo BATCH --dry-run` looks again"),
        UndoError::Disk(error) => {
            Trouble::from(error).hint("run the same command again: it goes on where it was")
        }
        UndoError::Archive { .. } | UndoError::BadPlan { .. } => {
            Trouble::new(Exit::Failure, error.to_string())
        }
        UndoError::NotAsBefore(_) => Trouble::new(Exit::Failure, error.to_string()),
    }
}

/// For programs.
fn spelled(paths: &[&TreePath]) -> Vec<String> {
    paths.iter().map(|path| format!("/{path}")).collect()
}

/// For people, whose terminals must not obey a file's name.
fn lines(what: &str, paths: &[&TreePath]) -> String {
    let line = |text: String, path: &&TreePath| text + what + &shown::path(path) + "\n";
    paths.iter().fold(String::new(), line)
}

fn say_plan(desk: &Desk, plan: &UndoPlan) {
    let restored: Vec<&TreePath> =
        plan.steps.iter().filter(|step| step.wanted.is_some()).map(|step| &step.path).collect();
    let removed: Vec<&TreePath> = plan.removals().collect();
    if desk.json {
        let value =
            json!({"done": false, "would_restore": spelled(&restored), "would_remove": spelled(&removed)});
        return super::print_json(&value);
    }
    match plan.is_nothing() {
        true => terminal::print(&format!("{}\n", as_before(&plan.left_alone))),
        false => {
            let text = lines("would put back ", &restored) + &lines("would remove   ", &removed);
            terminal::print(&text);
        }
    }
    say_left_alone(&plan.left_alone);
}

fn say_done(desk: &Desk, undone: &Undone, left_alone: &[TreePath]) {
    let all = |paths: &[TreePath]| spelled(&paths.iter().collect::<Vec<_>>());
    if desk.json {
        let value = json!({
            "done": true,
            "restored": all(&undone.restored),
            "removed": all(&undone.removed),
            "kept_directories": all(&undone.kept_directories),
            "left_alone": all(left_alone),
        });
        return super::print_json(&value);
    }
    let (restored, removed) = (undone.restored.len(), undone.removed.len());
    let (restored, word) = (counted(restored, "path"), as_before(left_alone));
    terminal::print(&format!("{restored} put back, {removed} removed: {word}\n"));
    for directory in &undone.kept_directories {
        terminal::tell(&format!("{} stays: something else is in it", shown::path(directory)));
    }
    say_left_alone(left_alone);
}

fn as_before(left_alone: &[TreePath]) -> &'static str {
    match left_alone {
        [] => "everything is as it was before the batch",
        [_, ..] => "everything that a checkpoint keeps is as it was before the batch",
    }
}

fn say_left_alone(left_alone: &[TreePath]) {
    for path in left_alone {
        terminal::tell(&format!("{} stays: no checkpoint keeps what it is", shown::path(path)));
    }
}
