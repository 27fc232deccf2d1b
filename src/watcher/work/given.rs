//! What agents were given of others' work, and of the client's code: from which state they began at a place where, in
//! their own output, nothing stood.
//!
//! Only what shows that it was made from what was given counts as an edit of it. A new file that merely ends in the
//! same name is somebody's own, and two of those are a conflict.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::merge::Part;
use crate::merge::{Contribution, lines};
use crate::model::inspected::Change;
use crate::model::tree::{Digest, Entry, Manifest, TreePath};
use crate::work_tree::Contents;

/// Larger files are compared by identity alone.
const COMPARED_BYTES_MAX: u64 = 8 << 20;
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
            let given: Vec<(&Given, HashMap<&TreePath, &Entry>)> =
                part.given.iter().map(|given| (given, made_by(&given.from, earlier))).collect();
            for change in contribution.changes.iter_mut().filter(|change| change.base.is_none()) {
                change.base = given.iter().find_map(|(given, made)| self.base_of(change, given, made));
            }
        }
    }

    fn base_of(&self, change: &Change, given: &Given, made: &HashMap<&TreePath, &Entry>) -> Option<Entry> {
        let theirs = change.theirs.as_ref()?;
        let rest = change.path.rest_below(&given.place);
        if rest.is_none() && change.path != given.place {
            return None;
        }
        let entry = match (&given.from, rest) {
            (Giver::Agent(_), _) => made.get(&change.path).copied()?,
            (Giver::Client(tree), Some(rest)) => self.before.get(&tree.join(&rest))?,
            (Giver::Client(tree), None) => self.before.get(tree)?,
        };
        (given.is_called_alike || self.is_made_from(entry, theirs)).then(|| entry.clone())
    }

    /// Whether at least half of what was given is still in it.
    fn is_made_from(&self, given: &Entry, theirs: &Entry) -> bool {
        match (given, theirs) {
            (Entry::File { sha256, size, .. }, Entry::File { sha256: other, size: length, .. }) => {
                sha256 == other || (size.max(length) <= &COMPARED_BYTES_MAX && self.keeps_half(sha256, other))
            }
            (Entry::Directory { .. }, Entry::Directory { .. }) => true,
            (given, theirs) => given == theirs,
        }
    }

    fn keeps_half(&self, given: &Digest, theirs: &Digest) -> bool {
        let (Ok(given), Ok(theirs)) = (self.contents.read(given), self.contents.read(theirs)) else {
            return false;
        };
        !lines::is_binary(&given)
            && !lines::is_binary(&theirs)
            && kept_bytes(&given, &theirs) * 2 >= given.len()
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

    /// Copies that lack something of what was given. Whether it was deleted or only not copied nobody can tell.
    pub(super) fn missing(&self, contributions: &[Contribution]) -> Vec<String> {
        let mut told = Vec::new();
        for part in self.parts.iter().filter(|part| part.has_succeeded) {
            let Some(own) = contributions.iter().find(|one| one.who == part.agent) else { continue };
            let gone: HashSet<&TreePath> = own
                .changes
                .iter()
                .filter(|change| change.theirs.is_none())
                .map(|change| &change.path)
                .collect();
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
                told.push(format!(
                    "{}: its copy of what it was given lacks {listed}; nobody can tell whether it was deleted, so \
                     whatever others have of it stays",
                    part.agent
                ));
            }
        }
        told
    }

    /// The files that were given, at the places that they have in the merged tree.
    fn files_of(&self, given: &Given, contributions: &[Contribution]) -> BTreeMap<TreePath, Entry> {
        let is_file = |entry: &Entry| matches!(entry, Entry::File { .. });
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

/// What the giver, where it is one of these agents, has made.
fn made_by<'c>(giver: &Giver, earlier: &'c [Contribution]) -> HashMap<&'c TreePath, &'c Entry> {
    let Giver::Agent(maker) = giver else { return HashMap::new() };
    let made = earlier.iter().filter(|one| one.who == *maker).flat_map(|one| &one.changes);
    made.filter_map(|change| Some((&change.path, change.theirs.as_ref()?))).collect()
}

/// How many bytes of the first text's lines are in the second too, each as often as it stands there.
fn kept_bytes(first: &[u8], second: &[u8]) -> usize {
    let mut left: HashMap<&[u8], usize> = HashMap::new();
    for line in second.split_inclusive(|byte| *byte == b'\n') {
        *left.entry(line).or_default() += 1;
    }
    let mut kept = 0;
    for line in first.split_inclusive(|byte| *byte == b'\n') {
        if let Some(count) = left.get_mut(line).filter(|count| **count > 0) {
            *count -= 1;
            kept += line.len();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_as_often_as_they_stand_in_both() {
        assert_eq!(kept_bytes(b"a\nb\na\n", b"a\nc\n"), 2);
        assert_eq!(kept_bytes(b"gen summary\n", b"review of it\n"), 0);
        assert_eq!(kept_bytes(b"", b"new\n"), 0);
    }
}
