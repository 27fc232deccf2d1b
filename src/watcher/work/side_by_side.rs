//! Files that changed while several tasks of assignments worked side by side in one directory: whose they are, as far as
//! anything tells, and where several wrote one and the same.
//!
//! A runner sees what changed while its agent ran, and not by whom. What a task declares as its own output, and what its
//! agent says that it wrote, tells it. Where nothing does, and something was seen to be written over, several are taken to
//! have written it; where nothing was, nobody is believed to have written it alone.

use std::collections::BTreeMap;
use std::path::Path;

use super::part::Part;
use super::witness::Overwritten;
use crate::merge::{Beside, Contribution};
use crate::model::inspected::{Change, Inspected};
use crate::model::tree::{Digest, Entry, TreePath};
use crate::work_tree::Contents;

/// Most paths whose author nobody knows that are told.
const LISTED_MAX: usize = 20;

/// Every path that changed while several ran, with what is known of it.
#[derive(Debug, Default)]
pub(super) struct SideBySide {
    files: BTreeMap<TreePath, Shared>,
}

/// What is known besides what runners found.
pub(super) struct Ground<'a> {
    pub(super) workspace: &'a Path,
    /// What was seen to be written over.
    pub(super) overwritten: Vec<Overwritten>,
    pub(super) contents: &'a dyn Contents,
}

#[derive(Debug)]
struct Shared {
    /// Who may have written it.
    writers: Vec<String>,
    /// Who merely ran at the time, or saw it before it was whole.
    lookers: Vec<String>,
    beside: Option<Beside>,
    /// Contents that stood there meanwhile and are gone.
    lost: Vec<Digest>,
}

impl SideBySide {
    pub(super) fn of(parts: &[Part], inspected: &[Option<Inspected>], ground: Ground<'_>) -> Self {
        let mut by_path: BTreeMap<&TreePath, Vec<(&Part, &Change)>> = BTreeMap::new();
        for (part, inspected) in parts.iter().zip(inspected) {
            let changes = inspected.iter().flat_map(|inspected| &inspected.changes);
            for change in changes.filter(|change| change.base != change.theirs && !is_directory(change)) {
                by_path.entry(&change.path).or_default().push((part, change));
            }
        }
        let shared = by_path.into_iter().filter_map(|(path, seen)| {
            let met: Vec<(&Part, &Change)> = seen
                .iter()
                .filter(|(part, _)| {
                    seen.iter().any(|(other, _)| other.task != part.task && part.ran_beside(other))
                })
                .copied()
                .collect();
            (!met.is_empty()).then(|| (path.clone(), ground.judge(path, &met)))
        });
        SideBySide { files: shared.collect() }
    }

    /// Takes each file from those who merely saw it, and marks it for the others.
    pub(super) fn note(&self, contributions: &mut [Contribution]) {
        for contribution in contributions {
            let who = &contribution.who;
            let is_seen_only =
                |path: &TreePath| self.files.get(path).is_some_and(|file| file.lookers.contains(who));
            contribution.changes.retain(|change| !is_seen_only(&change.path));
            let written = self.files.iter().filter(|(_, file)| file.writers.contains(who));
            contribution.side_by_side =
                written.filter_map(|(path, file)| Some((path.clone(), file.beside?))).collect();
        }
    }

    /// Contents of a file that were written over while several ran.
    pub(super) fn lost_of(&self, path: &TreePath) -> &[Digest] {
        self.files.get(path).map(|file| file.lost.as_slice()).unwrap_or_default()
    }

    /// What nobody can tell the author of, for people.
    pub(super) fn told(&self) -> Vec<String> {
        let unknown = self.files.iter().filter(|(_, file)| file.beside == Some(Beside::Unknown));
        let told = unknown.map(|(path, file)| {
            let agents = file.writers.join(" and ");
            format!(
                "{path} changed while {agents} ran side by side; nobody can tell by whom, so give each task outputs \
                 of its own"
            )
        });
        told.take(LISTED_MAX).collect()
    }
}

impl Ground<'_> {
    fn judge(&self, path: &TreePath, met: &[(&Part, &Change)]) -> Shared {
        let names = |seen: &[(&Part, &Change)]| -> Vec<String> {
            seen.iter().map(|(part, _)| part.agent.clone()).collect()
        };
        let owns = |part: &Part| part.owns(path, self.workspace);
        let (owners, others): (Vec<_>, Vec<_>) = met.iter().copied().partition(|(part, _)| owns(part));
        if owners.is_empty() {
            let lost = self.lost(path, met);
            let (unfinished, rest): (Vec<_>, Vec<_>) =
                met.iter().copied().partition(|(_, change)| is_unfinished(change, met, self.contents));
            let beside = match (lost.is_empty(), rest.len()) {
                (false, _) => Some(Beside::Several),
                (true, 0 | 1) => None,
                (true, _) => Some(Beside::Unknown),
            };
            let lookers = if lost.is_empty() { names(&unfinished) } else { Vec::new() };
            let writers = if lost.is_empty() { names(&rest) } else { names(met) };
            return Shared { writers, lookers, beside, lost };
        }
        let met_another =
            |part: &Part| owners.iter().any(|(other, _)| part.ran_beside(other) && part.task != other.task);
        let beside = owners.iter().any(|(part, _)| met_another(part)).then_some(Beside::Several);
        let lost = beside.map(|_| self.lost(path, met)).unwrap_or_default();
        Shared { writers: names(&owners), lookers: names(&others), beside, lost }
    }

    /// Contents that were written over while at least two of these ran.
    fn lost(&self, path: &TreePath, met: &[(&Part, &Change)]) -> Vec<Digest> {
        let of_path = self.overwritten.iter().filter(|one| one.path == *path);
        let among_several =
            of_path.filter(|one| met.iter().filter(|(part, _)| part.ran_at(one.at)).count() > 1);
        among_several.map(|one| one.lost).collect()
    }
}

/// Whether all of what one saw is the beginning of what another one saw later: then nothing of it is gone.
fn is_unfinished(change: &Change, met: &[(&Part, &Change)], contents: &dyn Contents) -> bool {
    let Some(Entry::File { sha256: own, size, .. }) = &change.theirs else { return false };
    met.iter().any(|(_, other)| match &other.theirs {
        Some(Entry::File { sha256, size: length, .. }) if length > size => {
            match (contents.read(own), contents.read(sha256)) {
                (Ok(own), Ok(whole)) => whole.starts_with(&own),
                _ => false,
            }
        }
        _ => false,
    })
}

fn is_directory(change: &Change) -> bool {
    let is = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
    is(&change.theirs) || (change.theirs.is_none() && is(&change.base))
}
