//! Lays the changes of all agents out by the place they go to. Where one agent renamed a file that another
//! edited, the edit goes to the new name. Only renames that left every byte as it was are seen.

use std::collections::{BTreeMap, BTreeSet};

use super::contribution::{Ancestry, Contribution};
use super::fold::Step;
use crate::model::inspected::Change;
use crate::model::tree::{Digest, Entry, TreePath};

/// New name to old name, of one agent.
type Renames = BTreeMap<TreePath, TreePath>;

pub type Places = BTreeMap<TreePath, Vec<Step>>;

/// All changes, each at the path where its agent made it.
pub fn by_path(contributions: &[Contribution]) -> Places {
    let mut places = Places::new();
    for (turn, contribution) in contributions.iter().enumerate() {
        let renames = renames(contribution);
        for Change { path, base, theirs } in &contribution.changes {
            let step = Step {
                turn,
                who: contribution.who.clone(),
                path: path.clone(),
                base: base.clone(),
                theirs: theirs.clone(),
                renamed_from: renames.get(path).cloned(),
                carries_rename: false,
                is_untouched: contribution.untouched.contains(path),
                beside: contribution.side_by_side.get(path).copied(),
            };
            places.entry(path.clone()).or_default().push(step);
        }
    }
    places
}

/// A file that went and a file that came with the same bytes, if there is just one of each.
fn renames(contribution: &Contribution) -> Renames {
    let Contribution { changes, untouched, .. } = contribution;
    let mut gone: BTreeMap<Digest, Vec<&TreePath>> = BTreeMap::new();
    for change in changes {
        if let (Some(Entry::File { sha256, size, .. }), None) = (&change.base, &change.theirs)
            && *size > 0
        {
            gone.entry(*sha256).or_default().push(&change.path);
        }
    }
    if gone.is_empty() {
        return Renames::new();
    }
    let mut come: BTreeMap<Digest, Vec<&TreePath>> = BTreeMap::new();
    for change in changes {
        if let (None, Some(Entry::File { sha256, .. })) = (&change.base, &change.theirs)
            && gone.contains_key(sha256)
            && !untouched.contains(&change.path)
        {
            come.entry(*sha256).or_default().push(&change.path);
        }
    }
    let pairs = come.into_iter().filter_map(|(digest, come)| match (&come[..], &gone[&digest][..]) {
        ([new], [old]) => Some(((*new).clone(), (*old).clone())),
        _ => None,
    });
    pairs.collect()
}

/// Moves edits after the renames of others. Whatever is not plain stays where it is, and clashes there.
pub fn follow(places: &mut Places, ancestry: &Ancestry) {
    let found: BTreeSet<(TreePath, TreePath)> = places
        .iter()
        .flat_map(|(new, steps)| {
            steps.iter().filter_map(|step| Some((step.renamed_from.clone()?, new.clone())))
        })
        .filter(|(old, _)| places.get(old).is_some_and(|steps| steps.len() > 1))
        .collect();
    for (old, new) in found {
        if let Some(edits) = edits_to_move(places, ancestry, &old, &new) {
            move_edits(places, &old, &new, &edits);
        }
    }
}

/// The turns of agents whose edits follow; `None` if it is not plain where they should go.
fn edits_to_move(
    places: &Places,
    ancestry: &Ancestry,
    old: &TreePath,
    new: &TreePath,
) -> Option<BTreeSet<usize>> {
    let (at_old, at_new) = (places.get(old)?, places.get(new)?);
    let removers: Vec<&Step> = at_old.iter().filter(|step| step.theirs.is_none()).collect();
    let renamers: BTreeSet<usize> =
        at_new.iter().filter(|step| step.renamed_from.as_ref() == Some(old)).map(|step| step.turn).collect();
    let is_plain = removers.iter().all(|step| renamers.contains(&step.turn))
        && at_new.iter().all(|step| renamers.contains(&step.turn));
    if !is_plain {
        return None;
    }
    let is_apart = |step: &Step| {
        removers.iter().all(|remover| {
            !ancestry.has_seen(&step.who, &remover.who) && !ancestry.has_seen(&remover.who, &step.who)
        })
    };
    let is_edit = |step: &Step| {
        let are_files =
            matches!((&step.base, &step.theirs), (Some(Entry::File { .. }), Some(Entry::File { .. })));
        are_files && step.base != step.theirs
    };
    let edits: BTreeSet<usize> =
        at_old.iter().filter(|step| is_edit(step) && is_apart(step)).map(|step| step.turn).collect();
    (!edits.is_empty()).then_some(edits)
}

fn move_edits(places: &mut Places, old: &TreePath, new: &TreePath, edits: &BTreeSet<usize>) {
    let at_old = places.remove(old).unwrap_or_default();
    let before: BTreeMap<usize, Option<Entry>> =
        at_old.iter().map(|step| (step.turn, step.base.clone())).collect();
    let (moved, left): (Vec<Step>, Vec<Step>) =
        at_old.into_iter().partition(|step| edits.contains(&step.turn));
    places.insert(old.clone(), left);
    let at_new = places.entry(new.clone()).or_default();
    for step in at_new.iter_mut() {
        // Under its new name the file began as what it was under the old one.
        step.base = before.get(&step.turn).cloned().flatten();
        step.carries_rename = true;
    }
    at_new.extend(moved);
    at_new.sort_by_key(|step| step.turn);
}
