//! `wk undo BATCH`: puts the work trees back as they were before a handed-over batch.
//!
//! What nobody can tell to be the batch's is asked about, and nothing is done until the caller has said what becomes
//! of it. Whatever is taken away is kept beside the checkpoint.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::RealDisk;
use crate::bus::disk::BusError;
use crate::bus::occupancy::Occupancy;
use crate::model::Claim;
use crate::model::state::{BatchState, TaskIx};
use crate::model::tree::TreePath;
use crate::model::workspace::WorkspacePaths;
use crate::view::words::counted;
use crate::watcher::act::collected_claims;
use crate::watcher::afterwards::{self, Answers, Authors, NoWayBack};
use crate::watcher::kept;
use crate::watcher::run::wall_now;
use crate::work_tree::undo::{self, UndoError, UndoPlan, Undone, Word};
use crate::work_tree::{Hand, shown};

/// Puts the work trees back as they were before the batch.
///
/// Every file that agents declared, or say that they wrote, is put back exactly: contents, modes, links, absences.
/// Files that they made are removed. What was changed after the batch where the batch changed nothing stays. Of
/// everything else nobody can tell whether an agent or a person changed it: then nothing is done, and the list says
/// what you have to decide with --take and --leave. Whatever is taken away is kept in checkpoint/undone/ of the
/// workspace. An undo that was interrupted is completed by the same command.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk undo exec-001 --dry-run\n  wk undo exec-001\n  wk undo exec-001 --take src --leave src/notes.md\n  wk undo exec-001 --take-all --json"
)]
pub struct Undo {
    /// The batch
    batch: String,
    /// Says what would be done, and does nothing
    #[arg(long)]
    dry_run: bool,
    /// Puts this back too, whoever changed it; a directory stands for all that is in it; may be given several times
    #[arg(long, value_name = "PATH")]
    take: Vec<PathBuf>,
    /// Leaves this as it is; a directory stands for all that is in it, and the longer path counts
    #[arg(long, value_name = "PATH")]
    leave: Vec<PathBuf>,
    /// Puts back everything that would be asked about
    #[arg(long, conflicts_with = "leave_all")]
    take_all: bool,
    /// Leaves everything that would be asked about
    #[arg(long)]
    leave_all: bool,
}

impl Undo {
    pub fn run(self, desk: &Desk) -> Outcome {
        let is_json = desk.json;
        let mut asked = Vec::new();
        self.go_back(desk, &mut asked).inspect_err(|trouble| {
            // A program that reads the answer gets one in any case.
            if is_json {
                super::print_json(&json!({"done": false, "error": trouble.text, "asked": asked}));
            }
        })
    }

    fn answers(&self) -> Result<Answers, Trouble> {
        let rest = match (self.take_all, self.leave_all) {
            (true, _) => Some(Word::Take),
            (_, true) => Some(Word::Leave),
            _ => None,
        };
        if let Some(path) = self.take.iter().find(|path| self.leave.contains(path)) {
            let what = format!("{} is both taken and left", path.display());
            return Err(Trouble::new(Exit::BadRequest, what).hint("name it once"));
        }
        Ok(Answers { take: from_here(&self.take)?, leave: from_here(&self.leave)?, rest })
    }

    fn go_back(self, desk: &Desk, asked: &mut Vec<String>) -> Outcome {
        let answers = self.answers()?;
        let found = locate::batch(desk, &self.batch)?;
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
        let state = match kept::read_state(&RealDisk::default(), &found.paths) {
            Ok((state, _)) => Some(state),
            Err(newer) if newer.is_newer() => return Err(newer.into()),
            Err(_) => None,
        };
        let prepared = state.as_ref().and_then(|state| state.handoff.as_ref()?.prepared.as_ref());
        let (dir, checkpoint) = afterwards::checkpoint_of(&batch, handoff, prepared).map_err(none)?;
        let claims = match &state {
            Some(state) => {
                collected_claims(&RealDisk::default(), &found.paths, state, &desk.veil(&state.batch))?
            }
            None => HashMap::new(),
        };
        let authors = Authors::new(&batch, handoff, claims.values(), &answers);
        let begun = afterwards::begun_way_back(&dir, &found.paths, &authors).map_err(none)?;
        let mut way_back = || {
            let planned = afterwards::way_back(&found.paths, handoff, &checkpoint, &authors);
            planned.map_err(|error| {
                if let NoWayBack::Undo(UndoError::Refused(refused)) = &error {
                    *asked = spelled(&refused.asked().collect::<Vec<_>>());
                }
                none(error)
            })
        };
        if self.dry_run {
            let plan = match begun {
                Some(begun) => begun,
                None => way_back()?,
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
        let plan = way_back()?;
        if !plan.is_nothing() {
            undone = carry_out(&plan)?.and(undone);
        }
        // Whoever did it may have been killed before the word was left.
        if undo::is_done(&dir) {
            leave_word(&found, state.as_ref(), &claims)?;
        }
        match undone == Undone::default() {
            true => say_plan(desk, &plan),
            false => say_done(desk, &undone, &plan.left_alone),
        }
        Ok(Exit::Done)
    }
}

/// Says, where people look for the batch and where its client does, that it was undone.
fn leave_word(
    found: &locate::Found,
    state: Option<&BatchState>,
    claims: &HashMap<TaskIx, Claim>,
) -> Result<(), Trouble> {
    let at = afterwards::note_undone(&found.paths, wall_now())?;
    if let Some(state) = state {
        afterwards::tell_client(state, claims, at)?;
    }
    Ok(())
}

/// Paths as the caller means them, who stands somewhere.
fn from_here(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Trouble> {
    let from_here = |path: &PathBuf| {
        let whole = std::path::absolute(path).map_err(BusError::of("find", path))?;
        // `..` is followed as the system would; a link at the end is meant itself.
        let resolved = match (whole.parent(), whole.file_name()) {
            (Some(parent), Some(name)) => parent.canonicalize().map(|parent| parent.join(name)),
            _ => whole.canonicalize(),
        };
        Ok(resolved.unwrap_or(whole))
    };
    paths.iter().map(from_here).collect()
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
        UndoError::Refused(refused) => {
            let is_asked = refused.asked().next().is_some();
            let hint = match is_asked {
                true => {
                    "nothing was touched; `--take PATH` puts a path back and keeps what stands there now in \
                     checkpoint/undone, `--leave PATH` leaves it as it is; a directory stands for all that is in it \
                     (`--take-all`, `--leave-all`: for all of them)"
                }
                false => "nothing was touched; `wk undo BATCH --dry-run` looks again",
            };
            Trouble::new(Exit::Failure, refused.to_string()).hint(hint)
        }
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
            "displaced_to": undone.displaced_to,
            "left_alone": all(left_alone),
        });
        return super::print_json(&value);
    }
    let (restored, removed) = (undone.restored.len(), undone.removed.len());
    let (restored, word) = (counted(restored, "path"), as_before(left_alone));
    terminal::print(&format!("{restored} put back, {removed} removed: {word}\n"));
    if let Some(place) = &undone.displaced_to {
        terminal::print(&format!("What was taken away is kept in {}\n", place.display()));
    }
    for directory in &undone.kept_directories {
        terminal::tell(&format!("{} stays: something else is in it", shown::path(directory)));
    }
    say_left_alone(left_alone);
}

fn as_before(left_alone: &[TreePath]) -> &'static str {
    match left_alone {
        [] => "everything is as it was before the batch",
        [_, ..] => "everything else is as it was before the batch",
    }
}

fn say_left_alone(left_alone: &[TreePath]) {
    for path in left_alone {
        terminal::tell(&format!("{} stays as it is", shown::path(path)));
    }
}
