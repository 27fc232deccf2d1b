//! The outputs of one attempt, before and after: which are there, and what the agent changed in them. Every
//! content on either side is kept, because a later agent may write over it and a merge needs both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::files;
use crate::bus::disk::BusError;
use crate::bus::layout::AttemptPaths;
use crate::format::order::{Inspection, PlacedOutput};
use crate::model::evidence::{About, Brought};
use crate::model::handoff::NamedPath;
use crate::model::inspected::{Change, Inspected};
use crate::model::tree::{Entry, TreePath};
use crate::model::{Finding, Grade};
use crate::verify::outputs::{self, Ground, Looks};
use crate::work_tree::{Hand, Scan, Scope, Store, absolute, capture, difference};

/// Of outputs with more files than this that were there before, only what changed is handed to the merge.
const WHOLE_FILES_MAX: usize = 2_000;
/// Most that is told of what cannot be kept.
const LEFT_OUT_LISTED_MAX: usize = 20;
/// A look at the outputs: two hundred bytes a file.
const SCAN_BYTES_MAX: u64 = 1 << 30;

pub(super) struct Outputs<'a> {
    inspection: &'a Inspection,
    places: Vec<Place>,
    /// When this attempt began.
    before: Scan,
    /// When the task's first attempt began: what an earlier attempt made is the task's too.
    base: Scan,
    /// Of the record of that.
    base_sha256: String,
}

/// A declared output, and where it goes among everything that is merged.
struct Place {
    name: String,
    /// Below `/`, without a link on the way.
    source: TreePath,
    merged: TreePath,
}

impl<'a> Outputs<'a> {
    /// `first` is the folder of the task's first attempt, which may be this one.
    pub(super) fn begin(
        inspection: &'a Inspection,
        paths: &AttemptPaths,
        first: &AttemptPaths,
    ) -> Result<Self, String> {
        let places = places_of(inspection)?;
        let (before, base, base_sha256) = (Scan::default(), Scan::default(), String::new());
        let mut outputs = Outputs { inspection, places, before, base, base_sha256 };
        let scope = outputs.scope()?;
        outputs.before = outputs.look(&scope, outputs.checkpoint(&scope).as_ref())?;
        let bytes = serde_json::to_vec(&outputs.before).map_err(|error| error.to_string())?;
        files::write(&paths.outputs_before(), &bytes).map_err(|error| error.to_string())?;
        let kept =
            if first == paths { bytes } else { outputs.kept(&first.outputs_before())?.unwrap_or(bytes) };
        outputs.base = serde_json::from_slice(&kept).map_err(|error| error.to_string())?;
        outputs.base_sha256 = crate::bus::sha256(&kept);
        if let Some(before_batch) = inspection.before_batch.as_deref().and_then(read_scan) {
            outputs.base = before_batch;
        }
        Ok(outputs)
    }

    /// The look of the first attempt, which must be the one that the journal names, if it names one.
    fn kept(&self, path: &Path) -> Result<Option<Vec<u8>>, String> {
        let kept = files::read(path, SCAN_BYTES_MAX).map_err(|error| error.to_string())?;
        let Some(named) = &self.inspection.base_sha256 else { return Ok(kept) };
        match kept {
            Some(bytes) if crate::bus::sha256(&bytes) == *named => Ok(Some(bytes)),
            _ => Err(format!(
                "{}: the record of how its outputs were before is gone, or not the one of then",
                path.display()
            )),
        }
    }

    pub(super) fn base_sha256(&self) -> String {
        self.base_sha256.clone()
    }

    /// What the checkpoint knows of large outputs: their contents need not be kept a second time.
    fn checkpoint(&self, scope: &Scope) -> Option<Scan> {
        let scan = read_scan(self.inspection.checkpoint.as_ref()?)?;
        let is_file = |entry: &Entry| matches!(entry, Entry::File { .. });
        let files = scan.manifest.iter().filter(|(path, entry)| is_file(entry) && scope.holds(path)).count();
        (files > WHOLE_FILES_MAX).then_some(scan)
    }

    /// What became of them.
    pub(super) fn end(&self) -> Result<Inspected, String> {
        // An agent may have put a link where something of it leads.
        places_of(self.inspection)?;
        let scope = self.scope()?;
        let after = self.look(&scope, Some(&self.before))?;
        let mut inspected = Inspected::default();
        let workspace = resolved(&self.inspection.workspace)?;
        let looks = Looks { base: &self.base, before: &self.before, after: &after, workspace: &workspace };
        let of_outputs = self.places.iter().map(|place| outputs::output(&place.name, &place.source, looks));
        let mut found: Vec<_> = of_outputs.collect();
        found.extend(outputs::artifacts(self.ground(), &self.inspection.required_artifacts, Some(looks))?);
        found.extend(self.part_in_the_whole(looks)?);
        for (finding, brought) in found {
            inspected.findings.push(finding);
            inspected.brought.extend(brought);
        }
        let left_out = after.left_out.iter().take(LEFT_OUT_LISTED_MAX);
        inspected.left_out = left_out.map(ToString::to_string).collect();
        inspected.changes = self.changes(&after)?;
        inspected.inherited = self.inherited(&after)?;
        Ok(inspected)
    }

    /// What the task changed of what the whole must have. What it left alone is not asked of it.
    fn part_in_the_whole(&self, looks: Looks<'_>) -> Result<Vec<(Finding, Brought)>, String> {
        let Inspection { artifacts, required_artifacts, .. } = self.inspection;
        let of_whole = artifacts.iter().filter(|one| !required_artifacts.contains(one)).cloned();
        let mut found = outputs::artifacts(self.ground(), &of_whole.collect::<Vec<_>>(), Some(looks))?;
        found.retain(|(finding, _)| {
            finding.change.is_some_and(|change| change.is_done() && change.grade() > Grade::Claimed)
        });
        Ok(found)
    }

    /// What only an earlier attempt changed. A declared output is the task's, whichever attempt made it.
    fn inherited(&self, after: &Scan) -> Result<Vec<TreePath>, String> {
        let workspace = resolved(&self.inspection.workspace)?;
        let earlier = difference(&self.base.manifest, &self.before.manifest).into_iter();
        let is_left = |path: &TreePath| {
            let is_same = self.before.manifest.get(path) == after.manifest.get(path);
            let then = self.before.seen.get(path);
            is_same && (then.is_none() || then == after.seen.get(path))
        };
        let is_output = |path: &TreePath| self.places.iter().any(|place| place.source == *path);
        let left = earlier.filter(|change| is_left(&change.path) && !is_output(&change.path));
        Ok(left.filter_map(|change| self.merged_place(&change.path, &workspace)).collect())
    }

    /// What the task has made of its outputs, over all its attempts. Where they are no large tree, what it left as it
    /// was belongs to them too; so do artifacts that came out the same.
    fn changes(&self, after: &Scan) -> Result<Vec<Change>, String> {
        let workspace = resolved(&self.inspection.workspace)?;
        let mut changes = Vec::new();
        let mut put = |path: &TreePath, base: Option<Entry>, theirs: Option<Entry>| {
            if let Some(path) = self.merged_place(path, &workspace) {
                changes.push(Change { path, base, theirs });
            }
        };
        for change in difference(&self.base.manifest, &after.manifest) {
            put(&change.path, change.before, change.after);
        }
        let is_declared =
            |path: &TreePath| self.places.iter().any(|place| is_at_or_below(path, &place.source));
        let is_same = |path: &&TreePath| self.base.manifest.get(*path) == after.manifest.get(*path);
        let is_brought = |path: &TreePath| is_declared(path) || self.may_be_written_anew(path, after);
        let untouched: Vec<&TreePath> =
            after.manifest.keys().filter(|path| is_same(path) && is_brought(path)).collect();
        if untouched.len() <= WHOLE_FILES_MAX {
            for path in untouched {
                let entry = after.manifest.get(path).cloned();
                put(path, entry.clone(), entry);
            }
        }
        Ok(changes)
    }

    /// Whether what a pattern matches was written since the task began, though with the same bytes. Of what
    /// is too young to be told apart by its times that is taken for granted.
    fn may_be_written_anew(&self, path: &TreePath, after: &Scan) -> bool {
        let is_file = matches!(after.manifest.get(path), Some(Entry::File { .. }));
        let then = self.base.seen.get(path);
        is_file && (then.is_none() || then != after.seen.get(path))
    }

    /// When nobody could look: then no output is known to be there.
    pub(super) fn unseen(&self, why: &str) -> Inspected {
        let unseen = |place: &Place| Finding {
            about: About::Output,
            ..Finding::new(&place.name, Grade::Observed, false, format!("could not be looked at: {why}"))
        };
        let mut findings: Vec<Finding> = self.places.iter().map(unseen).collect();
        if findings.is_empty() {
            findings.push(Finding::new(
                "outputs",
                Grade::Observed,
                false,
                format!("could not be looked at: {why}"),
            ));
        }
        Inspected { findings, ..Inspected::default() }
    }

    /// Everything that the attempt may have made: declared outputs, and what its patterns match now or matched.
    fn scope(&self) -> Result<Scope, String> {
        let declared = self.places.iter().map(|place| absolute(&place.source));
        let mut roots: BTreeSet<PathBuf> = declared.collect();
        for pattern in &self.inspection.artifacts {
            roots.extend(outputs::matches(self.ground(), pattern)?);
        }
        let of_before = self.before.manifest.keys().map(absolute);
        roots.extend(
            of_before
                .filter(|path| !self.places.iter().any(|place| path.starts_with(absolute(&place.source)))),
        );
        let roots: Vec<PathBuf> = roots.into_iter().collect();
        Scope::new(&roots, &self.inspection.aside).map_err(told)
    }

    fn look(&self, scope: &Scope, previous: Option<&Scan>) -> Result<Scan, String> {
        let store = Store::open(&self.inspection.objects, Hand::free()).map_err(told)?;
        capture(scope, previous, &store).map(|captured| captured.scan).map_err(told)
    }

    fn ground(&self) -> Ground<'a> {
        Ground { workspace: &self.inspection.workspace, aside: &self.inspection.aside }
    }

    fn merged_place(&self, path: &TreePath, workspace: &TreePath) -> Option<TreePath> {
        let declared = self.places.iter().find(|place| is_at_or_below(path, &place.source));
        match declared {
            Some(place) => match path.rest_below(&place.source) {
                Some(rest) => Some(place.merged.join(&rest)),
                None => Some(place.merged.clone()),
            },
            None => path.rest_below(workspace),
        }
    }
}

fn places_of(inspection: &Inspection) -> Result<Vec<Place>, String> {
    let mut places: Vec<Place> = Vec::new();
    let workspace = resolved(&inspection.workspace)?;
    for PlacedOutput { output: NamedPath { name, path }, place } in &inspection.outputs {
        let source = resolved(Path::new(path))?;
        if !source.is_below(&workspace) {
            let remedy = "remove the link";
            return Err(format!("output {name}: {path} leads out of the workspace through a link; {remedy}"));
        }
        places.push(Place { name: name.clone(), source, merged: place.clone() });
    }
    Ok(places)
}

fn resolved(path: &Path) -> Result<TreePath, String> {
    let scope = Scope::new(&[path.to_owned()], &[]).map_err(told)?;
    scope.roots().first().cloned().ok_or_else(|| format!("{}: not a place in a work tree", path.display()))
}

fn read_scan(path: &Path) -> Option<Scan> {
    serde_json::from_slice(&files::read(path, SCAN_BYTES_MAX).ok()??).ok()
}

fn told(error: BusError) -> String {
    error.to_string()
}

fn is_at_or_below(path: &TreePath, root: &TreePath) -> bool {
    path == root || path.is_below(root)
}
