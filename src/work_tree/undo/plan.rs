//! Decides what an undo does, from three looks at the same trees: before the batch, when it ended, and now.
//! Pure: nothing here touches a disk.

use std::collections::{BTreeMap, BTreeSet};

use super::{Locked, Obstacle, Refused, Step, UndoPlan, VERSION, WhyNot};
use crate::model::tree::{Entry, Manifest, TreePath};
use crate::work_tree::Checkpoint;
use crate::work_tree::difference::{Changed, difference};
use crate::work_tree::scan::{LeftOut, Scan, WhyLeftOut};
use crate::work_tree::scope::{above, is_inside};

/// What is known, or was said, about who changed a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// An agent declared it or says that it wrote it, or we made it: it goes back unless it was changed since.
    Agents,
    /// Nobody knows whose change it is: the caller is asked.
    Unknown,
    /// The caller says that it goes back, whoever changed it.
    Take,
    /// The caller says that it stays as it is.
    Leave,
}

/// The right to write and search a directory.
const MAY_CHANGE: u32 = 0o300;

/// What to do so that everything is as `checkpoint` says. `after` is what the batch left when it ended, where that
/// was looked at, and `now` a scan of the same scope. What was changed after the batch where the batch changed
/// nothing stays.
pub fn plan(
    checkpoint: &Checkpoint,
    after: Option<&Manifest>,
    now: &Scan,
    word: &dyn Fn(&TreePath) -> Word,
) -> Result<UndoPlan, Refused> {
    let mut planning = Planning::new(checkpoint, after, now);
    let scope = checkpoint.scope();
    let changed = difference(&checkpoint.entries, &now.manifest);
    for change in changed.into_iter().filter(|change| !scope.sets_aside(&change.path)) {
        let word = word(&change.path);
        planning.consider(change, word);
    }
    planning.settle_directories();
    planning.check_places();
    planning.note_unkept();
    if !planning.obstacles.is_empty() {
        return Err(Refused(planning.obstacles));
    }
    let (remove_if_empty, locked) = (planning.made_on_the_way(), planning.locked());
    Ok(UndoPlan {
        version: VERSION,
        archive: checkpoint.archive.sha256,
        steps: planning.steps.into_values().collect(),
        remove_if_empty,
        locked,
        kept_in: 1,
        left_alone: planning.left_alone,
    })
}

struct Planning<'p> {
    checkpoint: &'p Checkpoint,
    after: Option<&'p Manifest>,
    now: &'p Scan,
    left_out_then: BTreeMap<&'p TreePath, &'p LeftOut>,
    left_out_now: BTreeMap<&'p TreePath, &'p LeftOut>,
    steps: BTreeMap<TreePath, Step>,
    left_alone: Vec<TreePath>,
    obstacles: Vec<Obstacle>,
    /// Directories that came or went, nobody knows by whom: what is in them decides.
    directories: Vec<Changed>,
}

impl<'p> Planning<'p> {
    fn new(checkpoint: &'p Checkpoint, after: Option<&'p Manifest>, now: &'p Scan) -> Self {
        let by_path = |left_out: &'p [LeftOut]| left_out.iter().map(|left| (&left.path, left)).collect();
        Planning {
            checkpoint,
            after,
            now,
            left_out_then: by_path(&checkpoint.left_out),
            left_out_now: by_path(&now.left_out),
            steps: BTreeMap::new(),
            left_alone: Vec::new(),
            obstacles: Vec::new(),
            directories: Vec::new(),
        }
    }

    /// One path that is not as it was.
    fn consider(&mut self, change: Changed, word: Word) {
        if word == Word::Leave || self.was_unknown(&change.path) || self.is_later(&change, word) {
            self.left_alone.push(change.path);
        } else if let Some(left_out) = self.stands_in_the_way(&change.path) {
            let because = WhyNot::InTheWay(left_out.clone());
            self.obstacles.push(Obstacle { path: change.path, because });
        } else if word == Word::Take || (word == Word::Agents && self.is_as_left(&change)) {
            self.take(change);
        } else if came_or_went(&change) && self.is_as_left(&change) {
            self.directories.push(change);
        } else {
            self.ask(change);
        }
    }

    fn take(&mut self, change: Changed) {
        let Changed { path, before, after: now } = change;
        if self.lacks_content(&path, before.as_ref(), now.as_ref()) {
            self.obstacles.push(Obstacle { path, because: WhyNot::NotKept });
        } else {
            self.steps.insert(path.clone(), Step { path, found: now, wanted: before });
        }
    }

    fn ask(&mut self, change: Changed) {
        let left_by_batch = self.left_by_batch(&change.path);
        let because = match self.after.is_none() || left_by_batch == change.after {
            true => WhyNot::Nobodys,
            false => WhyNot::ChangedSince { left_by_batch, now: change.after },
        };
        self.obstacles.push(Obstacle { path: change.path, because });
    }

    fn left_by_batch(&self, path: &TreePath) -> Option<Entry> {
        self.after.and_then(|after| after.get(path)).cloned()
    }

    fn is_as_left(&self, change: &Changed) -> bool {
        self.after.is_some_and(|after| after.get(&change.path) == change.after.as_ref())
    }

    /// Whether it was changed after the batch, where the batch changed nothing.
    fn is_later(&self, change: &Changed, word: Word) -> bool {
        let is_of_batch = |after: &Manifest| after.get(&change.path) != change.before.as_ref();
        word != Word::Take && self.after.is_some_and(|after| !is_of_batch(after))
    }

    /// A directory goes with what is in it, and comes back for it; one of which nothing else is to be decided is
    /// asked about. The innermost first: a directory that goes takes the empty one around it along.
    fn settle_directories(&mut self) {
        let open: BTreeSet<TreePath> =
            self.left_alone.iter().chain(self.obstacles.iter().map(|one| &one.path)).cloned().collect();
        for change in std::mem::take(&mut self.directories).into_iter().rev() {
            let from = change.path.clone()..;
            if any_inside(self.steps.range(from.clone()).map(|(path, _)| path), &change.path) {
                self.take(change);
            } else if !any_inside(open.range(from), &change.path) {
                self.ask(change);
            }
        }
    }

    /// What no checkpoint keeps, such as a pipe, and was not there: it stays, and is told.
    fn note_unkept(&mut self) {
        let is_kept =
            |because: &WhyLeftOut| matches!(because, WhyLeftOut::OwnTemporary | WhyLeftOut::TooLarge { .. });
        let is_new =
            |left: &&LeftOut| !self.left_out_then.contains_key(&left.path) && !is_kept(&left.because);
        let unkept: Vec<TreePath> =
            self.now.left_out.iter().filter(is_new).map(|left| left.path.clone()).collect();
        self.left_alone.extend(unkept);
    }

    /// What could not be looked at then may be anything: it is not the batch's because it shows only now.
    fn was_unknown(&self, path: &TreePath) -> bool {
        let is_unknown = |path: &TreePath| {
            let left_out = self.left_out_then.get(path);
            left_out.is_some_and(|left| !matches!(left.because, WhyLeftOut::TooLarge { .. }))
        };
        is_unknown(path) || above(path).any(|outer| is_unknown(&outer))
    }

    fn stands_in_the_way(&self, path: &TreePath) -> Option<&'p LeftOut> {
        let here = self.left_out_now.get(path).copied();
        here.or_else(|| above(path).find_map(|outer| self.left_out_now.get(&outer).copied()))
    }

    fn lacks_content(&self, path: &TreePath, wanted: Option<&Entry>, found: Option<&Entry>) -> bool {
        let digest = |entry: Option<&Entry>| match entry {
            Some(Entry::File { sha256, .. }) => Some(*sha256),
            _ => None,
        };
        self.left_out_then.contains_key(path) && digest(wanted).is_some() && digest(wanted) != digest(found)
    }

    /// Whether each step finds the place that it needs: a directory to stand in, and nothing else in it that
    /// would have to go.
    fn check_places(&mut self) {
        let mut obstacles = Vec::new();
        for step in self.steps.values().filter(|step| step.wanted.is_some()) {
            let becomes_directory = matches!(step.wanted, Some(Entry::Directory { .. }));
            let is_directory = matches!(step.found, Some(Entry::Directory { .. }));
            if is_directory && !becomes_directory && self.holds_other(&step.path) {
                obstacles.push(Obstacle { path: step.path.clone(), because: WhyNot::HoldsOther });
            }
            let parent = step.path.parent().filter(|parent| self.checkpoint.entries.contains_key(parent));
            if let Some(parent) = parent.filter(|parent| !self.will_be_directory(parent)) {
                let left_by_batch = self.left_by_batch(&parent);
                let now = self.now.manifest.get(&parent).cloned();
                let because = WhyNot::ChangedSince { left_by_batch, now };
                obstacles.push(Obstacle { path: parent, because });
            }
        }
        obstacles.dedup();
        self.obstacles.extend(obstacles);
    }

    fn will_be_directory(&self, path: &TreePath) -> bool {
        let entry = match self.steps.get(path) {
            Some(step) => step.wanted.as_ref(),
            None => self.now.manifest.get(path),
        };
        matches!(entry, Some(Entry::Directory { .. }))
    }

    fn holds_other(&self, directory: &TreePath) -> bool {
        let mut inside = self.now.manifest.keys().filter(|path| is_inside(path, directory));
        inside.any(|path| !self.steps.contains_key(path))
            || self.left_out_now.keys().any(|path| is_inside(path, directory))
            || self.checkpoint.excluded.iter().any(|path| is_inside(path, directory))
    }

    /// Directories that lead to roots and were not there, the innermost first.
    fn made_on_the_way(&self) -> Vec<TreePath> {
        let scope = self.checkpoint.scope();
        let absent = self.checkpoint.absent.iter().filter(|path| !scope.holds(path));
        // Looked at before they are removed: here it only matters that something inside of them goes.
        let is_used = |path: &&TreePath| self.steps.keys().any(|step| is_inside(step, path));
        absent.filter(is_used).rev().cloned().collect()
    }

    fn locked(&self) -> Vec<Locked> {
        let parents = self.steps.keys().filter_map(TreePath::parent);
        let with_roots: BTreeSet<TreePath> = parents.chain(self.checkpoint.roots.iter().cloned()).collect();
        let locked = |path: TreePath| match self.now.manifest.get(&path) {
            Some(Entry::Directory { mode }) if mode & MAY_CHANGE != MAY_CHANGE => {
                (!self.steps.contains_key(&path)).then_some(Locked { path, mode: *mode })
            }
            _ => None,
        };
        if self.steps.is_empty() { Vec::new() } else { with_roots.into_iter().filter_map(locked).collect() }
    }
}

/// Whether one of the paths, which come in order from the directory on, lies in it.
fn any_inside<'a>(mut paths: impl Iterator<Item = &'a TreePath>, directory: &TreePath) -> bool {
    // Names such as `a-b` stand between `a` and `a/b`.
    let may_follow = |path: &&TreePath| path.as_bytes().starts_with(directory.as_bytes());
    paths.by_ref().take_while(may_follow).any(|path| is_inside(path, directory))
}

/// Whether a directory was made or removed, with nothing else in its place.
fn came_or_went(change: &Changed) -> bool {
    matches!(
        (&change.before, &change.after),
        (None, Some(Entry::Directory { .. })) | (Some(Entry::Directory { .. }), None)
    )
}
