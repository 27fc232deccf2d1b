//! Carries out the plan of an undo: everything is made ready first, then each path changes by one operation, and
//! what the plan was stays on the disk until all of it is done. Run again after any interruption, it completes.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::directories::Directories;
use super::staging::{Staging, needs_staging};
use super::{DONE, INTENT, Obstacle, Refused, Step, UndoError, UndoPlan, WhyNot, begun, forget};
use crate::bus::disk::BusError;
use crate::model::tree::{Entry, TreePath};
use crate::work_tree::Checkpoint;
use crate::work_tree::descriptors::{
    MODE_BITS, absolute, entry_at, is_gone, name_of, open_file_in, open_parent,
};
use crate::work_tree::displaced::Displaced;
use crate::work_tree::operations::Hand;
use crate::work_tree::shown;
use crate::work_tree::store::open_or_make;

/// What an undo has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undone {
    /// Put back as they were.
    pub restored: Vec<TreePath>,
    pub removed: Vec<TreePath>,
    /// Made by the batch, and not empty: something else is in them.
    pub kept_directories: Vec<TreePath>,
    /// Where everything lies that was taken away, if anything was.
    pub displaced_to: Option<PathBuf>,
}

impl Undone {
    /// What this and an earlier part have done together.
    pub fn and(mut self, earlier: Undone) -> Undone {
        self.restored.extend(earlier.restored);
        self.removed.extend(earlier.removed);
        self.kept_directories.extend(earlier.kept_directories);
        self.displaced_to = self.displaced_to.or(earlier.displaced_to);
        self
    }
}

/// Does what the plan says, or the rest of it. `dir` is that of the checkpoint.
pub fn carry_out(
    dir: &Path,
    checkpoint: &Checkpoint,
    plan: &UndoPlan,
    hand: Hand<'_>,
) -> Result<Undone, UndoError> {
    check_plan(dir, checkpoint, plan)?;
    if plan.is_nothing() {
        return Ok(Undone::default());
    }
    let todo = still_to_do(plan)?;
    let failed = || BusError::of("write", dir);
    let open = open_or_make(dir, hand, 0o700).map_err(failed())?;
    let (is_begun, kept_in) = match begun(dir)? {
        None => {
            let kept_in = free_number(dir);
            let plan = UndoPlan { kept_in, ..plan.clone() };
            let write = |out: &mut dyn io::Write| serde_json::to_writer(out, &plan).map_err(io::Error::from);
            hand.publish(open.as_fd(), OsStr::new(INTENT), write).map_err(failed())?;
            (false, kept_in)
        }
        Some(earlier) if earlier.steps == plan.steps => (true, earlier.kept_in),
        Some(_) => {
            let (place, why) = (dir.join(INTENT).display().to_string(), "another one was begun".to_owned());
            return Err(UndoError::BadPlan { place, why });
        }
    };
    let mut directories = Directories::new(hand, may_unlock(plan));
    let mut staging = Staging::new(hand, checkpoint, plan);
    if let Err(error) = staging.fill(&todo, dir, &mut directories) {
        // Without its archive it leads nowhere, and nothing was changed yet.
        if !is_begun && matches!(error, UndoError::Archive { .. }) {
            staging.remove(&mut directories)?;
            forget(dir, hand)?;
        }
        return Err(error);
    }
    let displaced = Displaced::at(dir.join(folder(kept_in)), hand);
    let taken_away = todo.iter().filter_map(|index| taken_away(&plan.steps[*index]));
    displaced.keep(taken_away).map_err(failed())?;
    let undone = Undone { displaced_to: displaced.place(), ..Undone::default() };
    let mut act = Act { plan, hand, directories, staging, undone };
    act.remove()?;
    act.put_back()?;
    act.staging.remove(&mut act.directories)?;
    act.set_modes()?;
    act.remove_empty()?;
    act.verify()?;
    act.directories.sync(changed_directories(plan)).map_err(failed())?;
    hand.rename(&open, OsStr::new(INTENT), &open, OsStr::new(DONE)).map_err(failed())?;
    hand.sync_directory(&open, OsStr::new(DONE)).map_err(failed())?;
    Ok(act.undone)
}

/// The first number under which nothing is kept yet: what an earlier undo kept stays as it is.
fn free_number(checkpoint_dir: &Path) -> u32 {
    let is_free = |number: &u32| checkpoint_dir.join(folder(*number)).symlink_metadata().is_err();
    (1..u32::MAX).find(is_free).unwrap_or(u32::MAX)
}

fn folder(number: u32) -> OsString {
    if number == 1 { "undone".into() } else { format!("undone-{number}").into() }
}

/// What a step takes away: bytes or a link that would be gone. A mode alone is no loss.
fn taken_away(step: &Step) -> Option<(&TreePath, &Entry)> {
    let found = step.found.as_ref().filter(|found| !matches!(found, Entry::Directory { .. }))?;
    let stays = match &step.wanted {
        None | Some(Entry::Directory { .. }) => false,
        Some(_) => !needs_staging(step),
    };
    (!stays).then_some((&step.path, found))
}

/// A plan that was read from a disk says nothing that the checkpoint does not say too.
fn check_plan(dir: &Path, checkpoint: &Checkpoint, plan: &UndoPlan) -> Result<(), UndoError> {
    let bad = |why: String| {
        let place = dir.join(INTENT).display().to_string();
        Err(UndoError::BadPlan { place, why })
    };
    if plan.archive != checkpoint.archive.sha256 {
        return bad("it leads back to another checkpoint".to_owned());
    }
    let scope = checkpoint.scope();
    for step in &plan.steps {
        if !scope.holds(&step.path) {
            return bad(format!("{} lies outside of its roots", shown::path(&step.path)));
        }
        if step.wanted.as_ref() != checkpoint.entries.get(&step.path) {
            return bad(format!("{} was something else before", shown::path(&step.path)));
        }
    }
    let is_absent = |path: &TreePath| checkpoint.absent.contains(path);
    if let Some(path) = plan.remove_if_empty.iter().find(|path| !is_absent(path)) {
        return bad(format!("{} was there before", shown::path(path)));
    }
    match plan.locked.iter().find(|locked| !scope.holds(&locked.path)) {
        Some(locked) => bad(format!("{} lies outside of its roots", shown::path(&locked.path))),
        None => Ok(()),
    }
}

fn may_unlock(plan: &UndoPlan) -> BTreeSet<TreePath> {
    let is_directory = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
    let steps = plan.steps.iter().filter(|step| is_directory(&step.found) || is_directory(&step.wanted));
    steps.map(|step| &step.path).chain(plan.locked.iter().map(|locked| &locked.path)).cloned().collect()
}

/// All that a plan changes something in, whichever try changed it; `None` is `/`.
fn changed_directories(plan: &UndoPlan) -> BTreeSet<Option<TreePath>> {
    let parents = plan.steps.iter().map(|step| step.path.parent());
    parents.chain(may_unlock(plan).into_iter().map(Some)).collect()
}

/// How far a step has come.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Done,
    ToDo {
        current: Option<Entry>,
    },
    /// Somebody else was there.
    Foreign {
        current: Option<Entry>,
    },
}

/// The steps that are not done yet; refuses if somebody changed one of their paths meanwhile.
fn still_to_do(plan: &UndoPlan) -> Result<BTreeSet<usize>, UndoError> {
    let (mut todo, mut obstacles) = (BTreeSet::new(), Vec::new());
    for (index, step) in plan.steps.iter().enumerate() {
        match standing(step).map_err(BusError::of("look at", &absolute(&step.path)))? {
            Standing::Done => {}
            Standing::ToDo { .. } => {
                todo.insert(index);
            }
            Standing::Foreign { current } => obstacles.push(foreign(step, current)),
        }
    }
    if obstacles.is_empty() { Ok(todo) } else { Err(Refused(obstacles).into()) }
}

fn foreign(step: &Step, current: Option<Entry>) -> Obstacle {
    let because = WhyNot::ChangedSince { left_by_batch: step.found.clone(), now: current };
    Obstacle { path: step.path.clone(), because }
}

fn standing(step: &Step) -> io::Result<Standing> {
    let current = match open_parent(&step.path) {
        Ok(parent) => entry_at(parent.as_fd(), name_of(&step.path))?,
        Err(error) if is_gone(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(judge(step, current))
}

/// Where one kind of thing becomes another there is a moment with nothing in between, and the mode of a directory
/// comes last.
fn judge(step: &Step, current: Option<Entry>) -> Standing {
    let is_directory = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
    let (from_directory, to_directory) = (is_directory(&step.found), is_directory(&step.wanted));
    if current == step.wanted {
        return Standing::Done;
    }
    let is_on_the_way = match &current {
        None => from_directory != to_directory,
        Some(Entry::Directory { .. }) => from_directory || to_directory,
        Some(_) => false,
    };
    if current == step.found || is_on_the_way {
        Standing::ToDo { current }
    } else {
        Standing::Foreign { current }
    }
}

struct Act<'a> {
    plan: &'a UndoPlan,
    hand: Hand<'a>,
    directories: Directories<'a>,
    staging: Staging<'a>,
    undone: Undone,
}

impl Act<'_> {
    /// Removes what the batch made and what must make place, the innermost first.
    fn remove(&mut self) -> Result<(), UndoError> {
        let plan = self.plan;
        for step in plan.steps.iter().rev() {
            let becomes_directory = matches!(step.wanted, Some(Entry::Directory { .. }));
            let is_directory = matches!(step.found, Some(Entry::Directory { .. }));
            if step.wanted.is_some() && is_directory == becomes_directory {
                continue;
            }
            let Some(current) = self.current(step)? else { continue };
            let name = name_of(&step.path);
            let done = match current {
                Entry::Directory { .. } if !becomes_directory => self.remove_directory(step),
                Entry::File { .. } | Entry::Link { .. } if step.wanted.is_none() || becomes_directory => self
                    .directories
                    .holding(&step.path)
                    .and_then(|parent| self.hand.remove_file(parent, name)),
                _ => continue,
            };
            done.map_err(BusError::of("remove", &absolute(&step.path)))?;
            if step.wanted.is_none() && !self.undone.kept_directories.contains(&step.path) {
                self.undone.removed.push(step.path.clone());
            }
        }
        Ok(())
    }

    fn remove_directory(&mut self, step: &Step) -> io::Result<()> {
        self.directories.forget(&step.path);
        let parent = self.directories.holding(&step.path)?;
        match self.hand.remove_directory(parent, name_of(&step.path)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && step.wanted.is_none() => {
                self.undone.kept_directories.push(step.path.clone());
                Ok(())
            }
            other => other,
        }
    }

    /// Puts directories, files and links in their places, the outermost first.
    fn put_back(&mut self) -> Result<(), UndoError> {
        let plan = self.plan;
        for (index, step) in plan.steps.iter().enumerate() {
            let Some(wanted) = &step.wanted else { continue };
            let current = self.current(step)?;
            if current.as_ref() != Some(wanted) {
                let put = self.put(index, step, wanted, current.as_ref());
                put.map_err(BusError::of("put back", &absolute(&step.path)))?;
            }
            self.undone.restored.push(step.path.clone());
        }
        Ok(())
    }

    fn put(&mut self, index: usize, step: &Step, wanted: &Entry, current: Option<&Entry>) -> io::Result<()> {
        let parent = self.directories.holding(&step.path)?;
        let name = name_of(&step.path);
        match wanted {
            // Its mode comes last: until then things must be put into it.
            Entry::Directory { .. } if matches!(current, Some(Entry::Directory { .. })) => Ok(()),
            Entry::Directory { .. } => self.hand.make_directory(parent, name, 0o700),
            Entry::File { mode, .. } if !needs_staging(step) => {
                let file = open_file_in(parent.as_fd(), name)?;
                self.hand.set_mode(&file, name, mode & MODE_BITS)?;
                self.hand.sync_file(&file, name)
            }
            Entry::File { .. } | Entry::Link { .. } => self.staging.publish(index, parent),
        }
    }

    /// Gives directories the modes that they had, the innermost first.
    fn set_modes(&mut self) -> Result<(), UndoError> {
        let steps = self.plan.steps.iter().filter_map(|step| match step.wanted {
            Some(Entry::Directory { mode }) => Some((&step.path, mode)),
            _ => None,
        });
        let locked = self.plan.locked.iter().map(|locked| (&locked.path, locked.mode));
        let mut modes: Vec<(&TreePath, u32)> = steps.chain(locked).collect();
        modes.sort_unstable();
        for (path, mode) in modes.into_iter().rev() {
            let set = self.directories.set_mode(path, mode);
            set.map_err(BusError::of("set the mode of", &absolute(path)))?;
        }
        Ok(())
    }

    fn remove_empty(&mut self) -> Result<(), UndoError> {
        for path in &self.plan.remove_if_empty {
            let removed = match self.directories.holding(path) {
                Ok(parent) => self.hand.remove_directory(parent, name_of(path)),
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => self.undone.removed.push(path.clone()),
                Err(error) if is_gone(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    self.undone.kept_directories.push(path.clone());
                }
                Err(error) => return Err(BusError::of("remove", &absolute(path))(error).into()),
            }
        }
        Ok(())
    }

    /// What was put back is read once more from where it is now.
    fn verify(&self) -> Result<(), UndoError> {
        for step in &self.plan.steps {
            let found = standing(step).map_err(BusError::of("look at", &absolute(&step.path)))?;
            if found != Standing::Done && !self.undone.kept_directories.contains(&step.path) {
                return Err(UndoError::NotAsBefore(step.path.clone()));
            }
        }
        Ok(())
    }

    /// What stands there right now, unless somebody else put it there.
    fn current(&self, step: &Step) -> Result<Option<Entry>, UndoError> {
        match standing(step).map_err(BusError::of("look at", &absolute(&step.path)))? {
            Standing::Done => Ok(step.wanted.clone()),
            Standing::ToDo { current } => Ok(current),
            Standing::Foreign { current } => Err(Refused(vec![foreign(step, current)]).into()),
        }
    }
}
