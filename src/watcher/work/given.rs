//! What agents were given of others' work, and of the client's code: from which state they began at a place where, in
//! their own output, nothing stood.
//!
//! Of another agent's work, only what shows that it was made from what was given counts as an edit of it. A new file
//! that merely ends in the same name is somebody's own, and two of those are a conflict.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use std::path::Path;

use super::likeness::is_made_from;
use super::part::Part;
use crate::merge::{Contribution, MERGED_BYTES_MAX};
use crate::model::inspected::Change;
use crate::model::tree::{Digest, Entry, Manifest, TreePath};
use crate::work_tree::Contents;

/// Most missing paths that are told of one agent.
const MISSING_LISTED_MAX: usize = 5;

/// Something that an agent was given and may have gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) from: Giver,
    /// The place of the agent's own output that may hold what became of it.
    pub(super) place: TreePath,
    /// Whether the client calls the agent's output as it calls the input: then it is the same thing, whatever is in it.
    pub(super) is_called_alike: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Giver {
    /// An agent that it waited for, whose output has the same place.
    Agent(String),
    /// A tree of the client's, below `/`.
    Client(TreePath),
}

/// What all agents were given, as far as it is known.
pub(super) struct Gifts<'a> {
    pub(super) parts: &'a [Part],
    /// The trees before the first agent.
    pub(super) before: &'a Manifest,
    pub(super) contents: &'a dyn Contents,
}

impl Gifts<'_> {
    /// Gives every change that began with nothing the base that its agent was given, where it was made from that.
    pub(super) fn as_bases(&self, contributions: &mut [Contribution]) {
        for index in 0..contributions.len() {
            let (earlier, rest) = contributions.split_at_mut(index);
            let Some(contribution) = rest.first_mut() else { continue };
            let Some(part) = self.parts.iter().find(|part| part.agent == contribution.who) else { continue };
            for given in &part.given {
                self.begin_from(given, contribution, earlier);
            }
        }
    }

    /// Lets what an agent has at the place of something given begin from that.
    fn begin_from(&self, given: &Given, own: &mut Contribution, earlier: &[Contribution]) {
        let made = made_by(&given.from, earlier);
        let found = own.changes.iter().enumerate().filter(|(_, change)| change.base.is_none());
        let found = found.filter_map(|(at, change)| {
            let (entry, theirs) = (self.given_at(&change.path, given, &made)?, change.theirs.as_ref()?);
            Some((at, entry.clone(), is_made_from(entry, theirs, self.contents)))
        });
        let found: Vec<(usize, Entry, bool)> = found.collect();
        // The client's code is there to be worked upon, whatever becomes of a file in it. Of another agent's work that
        // is so where the tree shows that it is a copy: by half of its files.
        let is_worked_upon = given.is_called_alike
            || matches!(given.from, Giver::Client(_))
            || found.iter().filter(|(_, entry, shows_it)| *shows_it && is_file(entry)).count() * 2
                >= self.files_of(given, earlier).len().max(1);
        for (at, entry, shows_it) in found {
            let change = &mut own.changes[at];
            let is_of_one_kind =
                change.theirs.as_ref().is_some_and(|theirs| is_directory(theirs) == is_directory(&entry));
            // A file whose place is that of a tree has another name for its own.
            let is_in_its_place = change.path != given.place || is_of_one_kind;
            if shows_it || (is_worked_upon && is_in_its_place && self.is_at_hand(&entry)) {
                change.base = Some(entry);
            }
        }
    }

    /// What was given at a path of the merged tree.
    fn given_at<'m>(
        &'m self,
        path: &TreePath,
        given: &Given,
        made: &HashMap<&TreePath, &'m Entry>,
    ) -> Option<&'m Entry> {
        let rest = path.rest_below(&given.place);
        if rest.is_none() && *path != given.place {
            return None;
        }
        match (&given.from, rest) {
            (Giver::Agent(_), _) => made.get(path).copied(),
            (Giver::Client(tree), Some(rest)) => self.before.get(&tree.join(&rest)),
            (Giver::Client(tree), None) => self.before.get(tree),
        }
    }

    /// Whether its content can be read, to tell what changed. Of the largest files nobody asks for it.
    fn is_at_hand(&self, given: &Entry) -> bool {
        match given {
            Entry::File { sha256, size, .. } => {
                *size > MERGED_BYTES_MAX || self.contents.read(sha256).is_ok()
            }
            Entry::Link { .. } | Entry::Directory { .. } => true,
        }
    }

    /// Files that stand in a copy of what was given under another name, byte for byte, and no longer under their own,
    /// were renamed: they are gone where they were, so that what others wrote in them follows.
    pub(super) fn renamed(&self, contributions: &mut [Contribution]) {
        for index in 0..contributions.len() {
            let gone = self.gone_by_rename(&contributions[index], contributions);
            contributions[index].changes.extend(gone);
        }
    }

    fn gone_by_rename(&self, own: &Contribution, all: &[Contribution]) -> Vec<Change> {
        let mut gone: BTreeMap<TreePath, Entry> = BTreeMap::new();
        let mut given_places: HashSet<TreePath> = HashSet::new();
        for given in self.parts.iter().filter(|part| part.agent == own.who).flat_map(|part| &part.given) {
            let files = self.files_of(given, all);
            let missing = missing_in(own, &files);
            if is_copy(missing.len(), files.len()) {
                for path in missing {
                    gone.entry(path.clone()).or_insert_with(|| files[path].clone());
                }
            }
            given_places.extend(files.into_keys());
        }
        let mut come: HashMap<Digest, usize> = HashMap::new();
        let new =
            own.changes.iter().filter(|change| change.base.is_none() && !given_places.contains(&change.path));
        for digest in new.filter_map(|change| digest_in(change.theirs.as_ref()?)) {
            *come.entry(digest).or_default() += 1;
        }
        let told: HashSet<&TreePath> = own.changes.iter().map(|change| &change.path).collect();
        let is_renamed = |entry: &Entry| digest_in(entry).is_some_and(|digest| come.get(&digest) == Some(&1));
        gone.retain(|path, entry| !told.contains(path) && is_renamed(entry));
        gone.into_iter().map(|(path, base)| Change { path, base: Some(base), theirs: None }).collect()
    }

    /// What an agent says that it deleted is gone from its copy of what it was given. That the agent can say; that a
    /// file is not there says nothing.
    pub(super) fn deleted(&self, contributions: &mut [Contribution]) {
        for part in self.parts.iter().filter(|part| part.has_succeeded) {
            let Some(index) = contributions.iter().position(|one| one.who == part.agent) else { continue };
            let mut gone: BTreeMap<TreePath, Entry> = BTreeMap::new();
            for given in &part.given {
                for (path, entry) in self.files_of(given, contributions) {
                    let Some(rest) = path.rest_below(&given.place) else { continue };
                    let given_at = match &given.from {
                        Giver::Client(tree) => Some(tree.join(&rest).below(Path::new("/"))),
                        Giver::Agent(_) => None,
                    };
                    if part.says_deleted(&path, &rest, given_at.as_deref()) {
                        gone.entry(path).or_insert(entry);
                    }
                }
            }
            let own = &mut contributions[index];
            let told: HashSet<TreePath> = own.changes.iter().map(|change| change.path.clone()).collect();
            let gone = gone.into_iter().filter(|(path, _)| !told.contains(path));
            own.changes.extend(
                gone.map(|(path, base)| Change { path, base: Some(base), theirs: None }).collect::<Vec<_>>(),
            );
        }
    }

    /// Notes what copies lack of what was given, and tells it. Whether it was deleted or only not copied nobody can
    /// tell.
    pub(super) fn missing(&self, contributions: &mut [Contribution]) -> Vec<String> {
        let mut told = Vec::new();
        for part in self.parts.iter().filter(|part| part.has_succeeded) {
            let Some(index) = contributions.iter().position(|one| one.who == part.agent) else { continue };
            let own = &contributions[index];
            let gone: HashSet<&TreePath> = own
                .changes
                .iter()
                .filter(|change| change.theirs.is_none())
                .map(|change| &change.path)
                .collect();
            let mut lacks = BTreeSet::new();
            for given in &part.given {
                let given_files = self.files_of(given, contributions);
                let mut missing = missing_in(own, &given_files);
                if !is_copy(missing.len(), given_files.len()) {
                    continue;
                }
                // What was renamed is told as that.
                missing.retain(|path| !gone.contains(path));
                if missing.is_empty() {
                    continue;
                }
                let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
                let listed = crate::view::words::listed_at_most(&names, MISSING_LISTED_MAX);
                lacks.extend(missing.into_iter().cloned());
                told.push(format!(
                    "{}: its copy of what it was given lacks {listed}; nobody can tell whether it was deleted, so \
                     whatever others have of it stays; an agent that deletes something names it in files_deleted",
                    part.agent
                ));
            }
            contributions[index].lacks = lacks;
        }
        told
    }

    /// The files that were given, at the places that they have in the merged tree.
    fn files_of(&self, given: &Given, contributions: &[Contribution]) -> BTreeMap<TreePath, Entry> {
        match &given.from {
            Giver::Agent(maker) => {
                let maker = contributions.iter().filter(|one| one.who == *maker);
                let made = maker.flat_map(|maker| &maker.changes);
                let files = made.filter_map(|change| Some((&change.path, change.theirs.as_ref()?)));
                let files = files.filter(|(path, entry)| is_file(entry) && path.is_below(&given.place));
                files.map(|(path, entry)| (path.clone(), entry.clone())).collect()
            }
            Giver::Client(tree) => {
                let files = self.before.iter().filter(|(_, entry)| is_file(entry));
                let placed = files.filter_map(|(path, entry)| {
                    Some((given.place.join(&path.rest_below(tree)?), entry.clone()))
                });
                placed.collect()
            }
        }
    }
}

/// What of the given files an agent does not have.
fn missing_in<'g>(own: &Contribution, given: &'g BTreeMap<TreePath, Entry>) -> Vec<&'g TreePath> {
    let there = own.changes.iter().filter(|change| change.theirs.is_some());
    let there: HashSet<&TreePath> = there.map(|change| &change.path).collect();
    given.keys().filter(|path| !there.contains(*path)).collect()
}

/// One that holds less than half of what was given is no copy but a work of its own.
fn is_copy(missing: usize, given: usize) -> bool {
    missing > 0 && missing * 2 <= given
}

/// Of a file with something in it: empty ones are all alike.
fn digest_in(entry: &Entry) -> Option<Digest> {
    match entry {
        Entry::File { sha256, size, .. } if *size > 0 => Some(*sha256),
        _ => None,
    }
}

fn is_directory(entry: &Entry) -> bool {
    matches!(entry, Entry::Directory { .. })
}

fn is_file(entry: &Entry) -> bool {
    matches!(entry, Entry::File { .. })
}

/// What the giver, where it is one of these agents, has made.
fn made_by<'c>(giver: &Giver, earlier: &'c [Contribution]) -> HashMap<&'c TreePath, &'c Entry> {
    let Giver::Agent(maker) = giver else { return HashMap::new() };
    let made = earlier.iter().filter(|one| one.who == *maker).flat_map(|one| &one.changes);
    made.filter_map(|change| Some((&change.path, change.theirs.as_ref()?))).collect()
}
