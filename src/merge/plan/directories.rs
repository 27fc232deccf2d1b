//! File and directory at one path exclude each other. Whoever decides between them decides about all that stands
//! below too: the whole of one side goes, and every change of it is told.

use std::collections::BTreeSet;

use super::{MergeError, Work};
use crate::merge::conflict::{ConflictKind, Version};
use crate::merge::fold::{Place, escalated};
use crate::merge::receipt::{Because, Fate, PERSON};
use crate::merge::settle::{RESOLVED_TO_BASE, RESOLVED_TO_DELETION};
use crate::merge::shape::{self, PARENT_MODE};
use crate::model::handoff::Choice;
use crate::model::tree::{Entry, TreePath};

/// Lines of details for one conflict.
const DETAILS_MAX: usize = 20;

/// Who stands for what.
struct Sides {
    /// Those who made the file or link, …
    file: Vec<String>,
    /// … and those, without the first, who have something below it.
    directory: Vec<String>,
}

impl Work<'_> {
    /// Looks at the tree once its paths are settled, from the outside to the inside: what is decided further
    /// out may end what is further in.
    pub(super) fn look_at_directories(&mut self) -> Result<(), MergeError> {
        if self.conflicts.is_empty() {
            self.carry_choices_down();
            for (path, below) in shape::with_something_below(&self.tree()) {
                let below: Vec<TreePath> = below.into_iter().filter(|path| self.is_there(path)).collect();
                let waits = |outer: &TreePath| path.is_below(outer);
                let is_waiting = self.conflicts.iter().any(|conflict| waits(&conflict.path));
                if !below.is_empty() && self.is_there(&path) && !is_waiting {
                    self.decide_kind(&path, &below)?;
                }
            }
        }
        self.hold_back_below();
        Ok(())
    }

    fn is_there(&self, path: &TreePath) -> bool {
        self.places.get(path).is_some_and(|place| place.entry.is_some())
    }

    fn below(&self, path: &TreePath) -> Vec<TreePath> {
        let after = self.places.range::<TreePath, _>(path..).skip(1);
        let near = after.take_while(|(other, _)| other.as_bytes().starts_with(path.as_bytes()));
        near.map(|(other, _)| other).filter(|other| other.is_below(path)).cloned().collect()
    }

    /// Where a path itself was in question and a person chose, the choice holds for what is below it as well, as
    /// long as nobody has a part in that who was not named.
    fn carry_choices_down(&mut self) {
        for (path, (choice, agents)) in self.kinds_chosen.clone() {
            let below = self.below(&path);
            let mut side: BTreeSet<String> = self.who_stands_at(&below).into_iter().collect();
            if !side.iter().all(|who| agents.contains(who)) {
                continue;
            }
            let entry = self.places.get(&path).and_then(|place| place.entry.as_ref());
            match (choice, entry) {
                (Choice::Delete, None) => {
                    self.give_way(&below, &Fate::Dropped { rule: RESOLVED_TO_DELETION });
                }
                (Choice::Take(agent), Some(Entry::Directory { .. })) => {
                    side.insert(agent);
                    self.bring_back_below(&path, &side, Because::Resolution);
                }
                _ => {}
            }
        }
    }

    fn decide_kind(&mut self, path: &TreePath, below: &[TreePath]) -> Result<(), MergeError> {
        let sides = self.sides(path, below);
        if let Some((choice, agents)) = self.kinds_chosen.get(path)
            && sides.directory.iter().all(|who| agents.contains(who))
        {
            let fate = fate_below(choice, &sides);
            self.give_way(below, &fate);
            return Ok(());
        }
        match self.terms.strategy.first_wins(&sides.file, &sides.directory) {
            Some(file_wins) => self.by_priority(path, below, &sides, file_wins),
            None => self.by_person(path, below, &sides)?,
        }
        Ok(())
    }

    fn by_priority(&mut self, path: &TreePath, below: &[TreePath], sides: &Sides, file_wins: bool) {
        let has_yielded = |place: &Place| {
            let by_priority =
                |fate: &Fate| matches!(fate, Fate::Superseded { because: Because::Priority, .. });
            let mut each = place.steps.iter().zip(&place.fates);
            each.any(|(step, fate)| by_priority(fate) && sides.directory.contains(&step.who))
        };
        // The same two may have met at the path itself: that is one clash.
        if !self.places.get(path).is_some_and(has_yielded) {
            self.settled += 1;
        }
        if file_wins {
            self.give_way(below, &superseded(sides.file.last(), Because::Priority));
        } else {
            self.make_directory(path, sides, sides.directory.last(), Because::Priority);
        }
    }

    fn by_person(&mut self, path: &TreePath, below: &[TreePath], sides: &Sides) -> Result<(), MergeError> {
        let shown = below.iter().take(DETAILS_MAX);
        let details = shown.map(|path| format!("something stands below it: {path}")).collect();
        let directory = |agent: &String| Version {
            agent: agent.clone(),
            entry: Some(Entry::Directory { mode: PARENT_MODE }),
        };
        let more = sides.directory.iter().map(directory).collect();
        if !self.conflict_at(path, ConflictKind::Type, details, more)? {
            return Ok(());
        }
        let Some((choice, _)) = self.kinds_chosen.get(path).cloned() else { return Ok(()) };
        match &choice {
            Choice::Take(agent) if sides.directory.contains(agent) => {
                self.make_directory(path, sides, Some(agent), Because::Resolution);
            }
            choice => self.give_way(below, &fate_below(choice, sides)),
        }
        Ok(())
    }

    fn sides(&self, path: &TreePath, below: &[TreePath]) -> Sides {
        let at_path = self.places.get(path).into_iter().flat_map(Place::standing_steps);
        let file: Vec<String> = at_path.map(|step| step.who.clone()).collect();
        let mut directory = self.who_stands_at(below);
        directory.retain(|who| !file.contains(who));
        Sides { file, directory }
    }

    /// Who made what stands at these places, in the order of agents.
    fn who_stands_at(&self, paths: &[TreePath]) -> Vec<String> {
        let there =
            paths.iter().filter_map(|path| self.places.get(path)).filter(|place| place.entry.is_some());
        let each = there.flat_map(Place::standing_steps).map(|step| (step.turn, step.who.clone()));
        let ordered: BTreeSet<(usize, String)> = each.collect();
        ordered.into_iter().map(|(_, who)| who).collect()
    }

    fn give_way(&mut self, paths: &[TreePath], fate: &Fate) {
        for path in paths {
            if let Some(place) = self.places.get_mut(path).filter(|place| place.entry.is_some()) {
                place.give_way(fate);
            }
        }
    }

    /// The file goes. What its makers had removed below to make room for it, and others have, is back.
    fn make_directory(&mut self, path: &TreePath, sides: &Sides, by: Option<&String>, because: Because) {
        let side: BTreeSet<String> = sides.directory.iter().cloned().collect();
        if let Some(place) = self.places.get_mut(path) {
            place.become_directory(&side, &superseded(by, because));
        }
        self.bring_back_below(path, &side, because);
    }

    fn bring_back_below(&mut self, path: &TreePath, side: &BTreeSet<String>, because: Because) {
        for below in self.below(path) {
            let holds = |path: &TreePath| self.below(path).iter().any(|inner| self.is_there(inner));
            if !self.is_there(&below) && !holds(&below) && !self.is_below_a_file(&below) {
                self.places.entry(below).and_modify(|place| place.bring_back(side, because));
            }
        }
    }

    fn is_below_a_file(&self, path: &TreePath) -> bool {
        let mut above = path.parent();
        while let Some(parent) = above {
            let entry = self.places.get(&parent).and_then(|place| place.entry.as_ref());
            if matches!(entry, Some(Entry::File { .. } | Entry::Link { .. })) {
                return true;
            }
            above = parent.parent();
        }
        false
    }

    /// Whatever stands below a path that is in question waits with it.
    fn hold_back_below(&mut self) {
        let is_directory = |version: &Version| matches!(version.entry, Some(Entry::Directory { .. }));
        let open = self.conflicts.iter().filter(|conflict| conflict.kind == ConflictKind::Type);
        let open = open.filter(|conflict| conflict.versions.iter().any(is_directory));
        let open: Vec<(TreePath, String)> =
            open.map(|conflict| (conflict.path.clone(), conflict.id.clone())).collect();
        for (path, id) in open {
            for below in self.below(&path) {
                let waits = self.places.get_mut(&below).filter(|place| place.conflict.is_none());
                for fate in waits.into_iter().flat_map(|place| &mut place.fates) {
                    *fate = escalated(fate, &id);
                }
            }
        }
    }
}

/// What becomes of things below a path at which a person wants no directory.
fn fate_below(choice: &Choice, sides: &Sides) -> Fate {
    match choice {
        Choice::Delete => Fate::Dropped { rule: RESOLVED_TO_DELETION },
        Choice::Base => Fate::Dropped { rule: RESOLVED_TO_BASE },
        Choice::Take(agent) => superseded(Some(agent), Because::Resolution),
        Choice::Ours => superseded(sides.file.last(), Because::Resolution),
        Choice::Content(_) => superseded(None, Because::Resolution),
    }
}

/// `None`: by a person's own content, or by what the merge makes itself.
fn superseded(by: Option<&String>, because: Because) -> Fate {
    Fate::Superseded { by: by.map_or(PERSON, String::as_str).to_owned(), because }
}
