//! From which state a file counts as changed where files of several agents meet at one place of the merged
//! tree.
//!
//! What an earlier batch left in an agent's own file says nothing about another's. Where two such files meet,
//! they are merged as they would be in a workspace that nobody has worked in; nothing that an agent brings
//! goes unaccounted.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::part::Part;
use crate::merge::{Contribution, is_graph_name};
use crate::model::handoff::MergeKind;
use crate::model::inspected::Change;
use crate::model::tree::{Entry, TreePath};

/// What decides which files meet.
pub(super) struct Meetings<'a> {
    pub(super) parts: &'a [Part],
    pub(super) workspace: &'a Path,
    pub(super) kind: MergeKind,
}

/// One agent's version of something, as the others at its place see it.
struct Brought {
    /// The contribution's number.
    by: usize,
    /// The file that it was made in.
    source: PathBuf,
    base: Option<Entry>,
    theirs: Option<Entry>,
}

impl Brought {
    fn is_changed(&self) -> bool {
        self.base != self.theirs
    }
}

/// Everything that is brought, by the place where it meets others.
type ByPlace = HashMap<TreePath, Vec<Brought>>;

impl Meetings<'_> {
    /// Notes what agents left as it was, and forgets each base that nobody else at the place had before it or
    /// made: it is the past of a file of the agent's own. What the agent was given may become the base
    /// instead.
    pub(super) fn forget_own_past(&self, contributions: &mut [Contribution]) {
        let met = self.by_place(contributions);
        for (by, contribution) in contributions.iter_mut().enumerate() {
            let untouched = contribution.changes.iter().filter(|change| is_untouched(change));
            let untouched: BTreeSet<TreePath> = untouched.map(|change| change.path.clone()).collect();
            for change in &mut contribution.changes {
                // A file that went, went from the state that it had.
                if change.base.is_some() && change.theirs.is_some() {
                    let others = Others { all: &met[&self.place(&change.path)], by };
                    let source = self.source(&contribution.who, &change.path);
                    if others.meet_it_from_elsewhere(&source) && !others.know(change.base.as_ref(), &source) {
                        change.base = None;
                    }
                }
            }
            contribution.untouched = untouched;
        }
    }

    /// What an agent left as it was, or copied as it was given, belongs to its outputs. Where another one
    /// changed that very file, that one's word counts; where another one began from it, it is no change
    /// beside that.
    pub(super) fn bring_untouched(&self, contributions: &mut [Contribution]) {
        let met = self.by_place(contributions);
        for (by, contribution) in contributions.iter_mut().enumerate() {
            let who = contribution.who.clone();
            // A copy of what was given is brought as it was found, too.
            let untouched = &mut contribution.untouched;
            contribution.changes.retain_mut(|change| {
                if !is_untouched(change) {
                    return true;
                }
                untouched.insert(change.path.clone());
                let others = Others { all: &met[&self.place(&change.path)], by };
                if others.changed(&self.source(&who, &change.path)) {
                    return false;
                }
                if self.kind == MergeKind::ReportAggregation || !others.went_on_from(change.theirs.as_ref()) {
                    // Nobody had a part in it: it is brought, not edited.
                    change.base = None;
                }
                true
            });
        }
    }

    fn by_place(&self, contributions: &[Contribution]) -> ByPlace {
        let mut met = ByPlace::new();
        for (by, contribution) in contributions.iter().enumerate() {
            for Change { path, base, theirs } in &contribution.changes {
                let source = self.source(&contribution.who, path);
                let brought = Brought { by, source, base: base.clone(), theirs: theirs.clone() };
                met.entry(self.place(path)).or_default().push(brought);
            }
        }
        met
    }

    /// Graphs that are united meet each other, whatever they are called.
    fn place(&self, path: &TreePath) -> TreePath {
        match self.kind == MergeKind::CtxpackUnion && is_graph_name(path.name()) {
            true => super::merge::graph_place(),
            false => path.clone(),
        }
    }

    /// The file in which an agent made what goes to this place.
    fn source(&self, who: &str, path: &TreePath) -> PathBuf {
        let part = self.parts.iter().find(|part| part.agent == who);
        part.map_or_else(|| path.below(self.workspace), |part| part.source(path, self.workspace))
    }
}

/// What others bring to the same place.
struct Others<'a> {
    all: &'a [Brought],
    by: usize,
}

impl Others<'_> {
    fn each(&self) -> impl Iterator<Item = &Brought> {
        self.all.iter().filter(|one| one.by != self.by)
    }

    fn meet_it_from_elsewhere(&self, source: &Path) -> bool {
        self.each().any(|other| other.source != source)
    }

    /// Whether somebody works in the same file, or had or made the same.
    fn know(&self, state: Option<&Entry>, source: &Path) -> bool {
        let has_it = |other: &Brought| other.base.as_ref() == state || other.theirs.as_ref() == state;
        self.each().any(|other| other.source == source || has_it(other))
    }

    fn changed(&self, source: &Path) -> bool {
        self.each().any(|other| other.source == source && other.is_changed())
    }

    fn went_on_from(&self, state: Option<&Entry>) -> bool {
        self.each().any(|other| other.is_changed() && other.base.as_ref() == state)
    }
}

fn is_untouched(change: &Change) -> bool {
    change.base.is_some() && change.base == change.theirs
}
