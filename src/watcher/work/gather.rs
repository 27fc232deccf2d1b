//! What each agent brings to the merge: its changes, from the state that it began with, without what failed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use super::Fault;
use super::bases::Meetings;
use super::drift::resolved;
use super::given::{Gifts, Giver};
use super::ignore_rules::IgnoreRules;
use super::kept::Kept;
use super::merge::Merging;
use super::side_by_side::SideBySide;
use crate::merge::{self, Contribution};
use crate::model::inspected::{Change, Inspected};
use crate::model::tree::TreePath;

/// Most paths of one agent that are told.
const LEFT_LISTED_MAX: usize = 10;

impl Merging {
    /// In topological order, with what is doubtful about them, for people.
    pub(super) fn contributions(
        &self,
        inspected: &[Option<Inspected>],
        shared: &SideBySide,
        contents: &Kept<'_>,
    ) -> Result<(Vec<Contribution>, Vec<String>), Fault> {
        let parts = self.parts.iter().zip(inspected).filter(|(part, _)| part.has_succeeded);
        let mut contributions: Vec<Contribution> = parts
            .map(|(part, inspected)| Contribution {
                who: part.agent.clone(),
                // Whose work it had seen is said path by path, by the base of each change.
                depends_on: Vec::new(),
                changes: inspected.as_ref().map(|found| found.changes.clone()).unwrap_or_default(),
                untouched: BTreeSet::new(),
                lacks: BTreeSet::new(),
                side_by_side: BTreeMap::new(),
            })
            .collect();
        shared.note(&mut contributions);
        let mut warnings = self.without_failed(inspected, &mut contributions, contents)?;
        warnings.extend(self.without_inherited(inspected, &mut contributions));
        let before = self.read_before()?.manifest;
        contents.look_also_at(&before);
        self.without_ignored(&IgnoreRules::of(&before, contents), &mut contributions);
        let (parts, workspace) = (&self.parts, self.workspace.root());
        let meetings = Meetings { parts, workspace, kind: self.strategy.kind };
        meetings.forget_own_past(&mut contributions);
        let gifts = Gifts { parts, before: &before, contents };
        gifts.as_bases(&mut contributions);
        gifts.deleted(&mut contributions);
        gifts.renamed(&mut contributions);
        warnings.extend(gifts.missing(&mut contributions));
        meetings.bring_untouched(&mut contributions);
        Ok((contributions, warnings))
    }

    /// What only an attempt that failed made in an output, and the one that succeeded neither touched nor names, is in
    /// no merge. It stays where it is, and is told.
    fn without_inherited(
        &self,
        inspected: &[Option<Inspected>],
        contributions: &mut [Contribution],
    ) -> Vec<String> {
        let mut told = Vec::new();
        for (part, found) in self.parts.iter().zip(inspected) {
            let Some(own) = contributions.iter_mut().find(|one| one.who == part.agent) else { continue };
            let inherited: BTreeSet<&TreePath> = found.iter().flat_map(|found| &found.inherited).collect();
            let workspace = self.workspace.root();
            let names = |path: &TreePath| part.claimed.written.contains(&part.source(path, workspace));
            let mut left: Vec<String> = Vec::new();
            for change in own.changes.iter_mut().filter(|change| inherited.contains(&change.path)) {
                if change.base != change.theirs && !names(&change.path) {
                    change.theirs.clone_from(&change.base);
                    left.push(change.path.to_string());
                }
            }
            own.changes.retain(|change| change.base.is_some() || change.theirs.is_some());
            if !left.is_empty() {
                told.push(format!(
                    "{}: an attempt that failed left {}; that is not merged, and stays where it is",
                    part.agent,
                    crate::view::words::listed_at_most(&left, LEFT_LISTED_MAX)
                ));
            }
        }
        told
    }

    /// What the client's own rules ignore is in no merge, unless it is an output itself or its agent names it.
    fn without_ignored(&self, rules: &IgnoreRules, contributions: &mut [Contribution]) {
        let Some(workspace) = resolved(self.workspace.root()).filter(|_| !rules.is_empty()) else { return };
        for own in contributions {
            let Some(part) = self.parts.iter().find(|part| part.agent == own.who) else { continue };
            let below = |path: &Path| TreePath::of(path.strip_prefix(self.workspace.root()).ok()?);
            let is_ignored = |change: &Change| {
                let declared = part.sources.iter().find(|(place, _)| change.path.is_below(place));
                let Some((place, source)) = declared else { return false };
                let (Some(rest), Some(source)) = (change.path.rest_below(place), below(source)) else {
                    return false;
                };
                let is_directory = matches!(
                    change.theirs.as_ref().or(change.base.as_ref()),
                    Some(crate::model::tree::Entry::Directory { .. })
                );
                let declared = workspace.join(&source);
                let copied = part.given.iter().filter_map(|given| match &given.from {
                    Giver::Client(tree) => Some((tree.join(&change.path.rest_below(&given.place)?), tree)),
                    Giver::Agent(_) => None,
                });
                let mut copied = copied.into_iter();
                rules.ignore(&declared.join(&rest), &declared, is_directory)
                    || copied.any(|(original, tree)| rules.ignore(&original, tree, is_directory))
            };
            let names =
                |path: &TreePath| part.claimed.written.contains(&part.source(path, self.workspace.root()));
            own.changes.retain(|change| names(&change.path) || !is_ignored(change));
        }
    }

    /// Who failed contributes nothing, not even through an agent that began from what it left in a file of both.
    fn without_failed(
        &self,
        inspected: &[Option<Inspected>],
        contributions: &mut [Contribution],
        contents: &Kept<'_>,
    ) -> Result<Vec<String>, Fault> {
        let mut told = Vec::new();
        let failed = self.parts.iter().zip(inspected).filter(|(part, _)| !part.has_succeeded);
        for (part, found) in failed {
            let made =
                found.iter().flat_map(|found| &found.changes).filter(|change| change.base != change.theirs);
            let made: HashMap<&TreePath, &Change> = made.map(|change| (&change.path, change)).collect();
            for later in contributions.iter_mut() {
                for change in &mut later.changes {
                    let Some(failed) = made.get(&change.path).filter(|made| made.theirs == change.base)
                    else {
                        continue;
                    };
                    let taken_back = merge::take_back(failed, change, contents);
                    match taken_back.map_err(|error| format!("{}: {error}", change.path))? {
                        Some(own) => *change = own,
                        None => told.push(format!(
                            "{}: {} built upon what {} had made of it, which failed; both are in it",
                            change.path, later.who, part.agent
                        )),
                    }
                }
            }
        }
        Ok(told)
    }
}
