//! The merged tree as a whole, once its paths are settled: links that lead out, directories that are still
//! needed, parents, names that some file systems take for one.

use std::collections::BTreeSet;

use super::{MergeError, Work};
use crate::merge::conflict::{Clashing, Class, Conflict, ConflictKind, Version};
use crate::merge::fold::{Place, versions};
use crate::merge::receipt::{Fate, MADE_AS_PARENT};
use crate::merge::shape;
use crate::merge::validate::Finding;
use crate::model::tree::{Entry, TreePath};

/// A rule: others have something in the directory that an agent deleted.
const DIRECTORY_STILL_NEEDED: &str = "directory_still_needed";

impl Work<'_> {
    /// First links that lead out by themselves, then those that do through others, one after the other: to
    /// settle one may settle the next.
    pub(super) fn look_at_links(&mut self) -> Result<(), MergeError> {
        let is_link = |place: &Place| matches!(place.entry, Some(Entry::Link { .. }));
        if !self.places.values().any(is_link) {
            return Ok(());
        }
        while self.conflicts.is_empty() && self.refused.is_empty() {
            let found = shape::links_that_lead_out(&self.tree());
            let alone: Vec<&TreePath> =
                found.iter().filter(|link| link.alone).map(|link| &link.path).collect();
            let asked = if alone.is_empty() {
                found.first().map(|link| &link.path).into_iter().collect()
            } else {
                alone
            };
            if asked.is_empty() {
                break;
            }
            for path in asked {
                self.conflict_at(path, ConflictKind::LinkLeadsOut, Vec::new(), Vec::new())?;
            }
        }
        Ok(())
    }

    /// A deleted directory that somebody has something in stays.
    pub(super) fn keep_needed_directories(&mut self) {
        let needed: BTreeSet<TreePath> = shape::missing_parents(&self.tree()).into_keys().collect();
        for place in self.places.values_mut().filter(|place| needed.contains(&place.path)) {
            for (step, fate) in place.steps.iter().zip(&mut place.fates) {
                let was_directory = matches!(step.base, Some(Entry::Directory { .. }));
                if was_directory && step.theirs.is_none() && *fate == Fate::Kept {
                    *fate = Fate::Dropped { rule: DIRECTORY_STILL_NEEDED };
                }
            }
        }
    }

    /// Whether a person settled it. `more` are versions that do not stand at the path itself.
    pub(super) fn conflict_at(
        &mut self,
        path: &TreePath,
        kind: ConflictKind,
        details: Vec<String>,
        more: Vec<Version>,
    ) -> Result<bool, MergeError> {
        let Some(mut place) = self.places.remove(path) else { return Ok(false) };
        let mut is_settled = false;
        if place.conflict.is_none() {
            let mut versions = versions(place.standing_steps());
            versions.extend(more);
            let agents = versions.iter().map(|version| version.agent.clone()).collect();
            place.in_conflict(Conflict::of(Clashing {
                class: Class::File,
                kind,
                path: path.clone(),
                agents,
                base: None,
                ours: place.entry.clone(),
                theirs: None,
                versions,
                graph: None,
                preview: None,
                marked: None,
                details,
            }));
            let settled_before = place.settled;
            is_settled = self.ask_person(&mut place)?;
            self.settled += place.settled - settled_before;
        }
        self.places.insert(path.clone(), place);
        Ok(is_settled)
    }

    pub(super) fn add_parents(&mut self) {
        for (path, entry) in shape::missing_parents(&self.tree()) {
            let place = self.places.entry(path.clone()).or_insert_with(|| Place::empty(path));
            place.entry = Some(entry);
            place.made_by = Some(MADE_AS_PARENT);
        }
        for paths in shape::twins(&self.tree()) {
            let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
            let message = format!("some file systems take these for one: {}", names.join(", "));
            self.findings.push(Finding { is_error: false, path: paths[0].clone(), rule: "twins", message });
        }
    }
}
