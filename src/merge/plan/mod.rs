//! Plans a whole merge: what the merged tree will hold, what became of every change, what a person must
//! settle first. Writes nothing but contents that it makes, into the store it is given.
//!
//! Paths are planned here, each by itself; `whole` looks at the tree that they make.

mod directories;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::merge::aggregate::{self, Output};
use crate::merge::audit::{Audited, audit};
use crate::merge::conflict::{Conflict, ConflictKind, ConflictReport, identity};
use crate::merge::contents::ContentStore;
use crate::merge::contribution::{Contribution, ancestry};
use crate::merge::fold::{Place, Step, Terms, fold};
use crate::merge::receipt::{
    ChangeKind, Fate, Line, MADE_BY_AGGREGATION, MADE_BY_RESOLUTION, MADE_BY_UNION, Made, Receipt, totals,
};
use crate::merge::rename;
use crate::merge::strategy::Occasion;
use crate::merge::union::{self, INTEGRATED};
use crate::merge::validate::{Finding, Merged, findings};
use crate::model::handoff::{Choice, Choices, ConflictResolution, MergeKind, MergeStrategy};
use crate::model::tree::{Digest, Entry, Manifest, TreePath};

/// Bits of a mode that a merged tree keeps: no agent makes a program run as somebody else.
const PERMISSIONS: u32 = 0o777;

/// How a plan came out.
#[derive(Debug)]
pub enum Planned {
    Ready(Merge),
    /// Nothing may be published before a person settled these, or ever, as the policy says.
    Conflicted(Conflicted),
    /// The merged tree breaks a rule of `merge_strategy.validation`.
    Invalid(Invalid),
}

/// A merge that may be published: its receipt was audited.
#[derive(Debug)]
pub struct Merge {
    tree: Manifest,
    deleted: BTreeSet<TreePath>,
    audited: Audited,
    findings: Vec<Finding>,
    conflicts_resolved: usize,
}

impl Merge {
    /// Everything that the merged tree holds, directories too.
    pub fn tree(&self) -> &Manifest {
        &self.tree
    }

    /// Paths that agents deleted, and that nothing took the place of.
    pub fn deleted(&self) -> &BTreeSet<TreePath> {
        &self.deleted
    }

    pub fn receipt(&self) -> &Receipt {
        self.audited.receipt()
    }

    /// Warnings; a merge with errors is none.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Clashes that priority or a person settled.
    pub fn conflicts_resolved(&self) -> usize {
        self.conflicts_resolved
    }
}

#[derive(Debug)]
pub struct Conflicted {
    pub report: ConflictReport,
    pub receipt: Receipt,
    /// `false` under `fail_on_conflict` as long as nobody has decided anything: then nobody is asked.
    pub waits_for_person: bool,
}

#[derive(Debug)]
pub struct Invalid {
    /// Errors and warnings.
    pub findings: Vec<Finding>,
    pub receipt: Receipt,
}

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("the contributions cannot be merged: {}", .0.join("; "))]
    Contributions(Vec<String>),
    #[error("resolutions are refused: {}", .0.join("; "))]
    Resolutions(Vec<String>),
    #[error("merge {path}: {source}")]
    Contents { path: String, source: io::Error },
    /// A defect of Watchkeeper itself; nothing was published.
    #[error("the receipt does not account for the merge: {}", .0.join("; "))]
    Audit(Vec<String>),
}

/// Plans. Contributions stand in topological order. `resolutions` is empty the first time and grows from plan
/// to plan, for what was settled may bring up more; each of them must fit to a conflict as it is now.
pub fn plan(
    contributions: &[Contribution],
    strategy: &MergeStrategy,
    resolutions: &Choices,
    occasion: &Occasion,
    contents: &dyn ContentStore,
) -> Result<Planned, MergeError> {
    let contributions = with_plain_modes(contributions);
    let ancestry = ancestry(&contributions).map_err(MergeError::Contributions)?;
    let terms = Terms { strategy, ancestry: &ancestry, contents };
    let mut work = Work {
        terms: &terms,
        resolutions,
        occasion,
        places: BTreeMap::new(),
        conflicts: Vec::new(),
        used: BTreeSet::new(),
        refused: Vec::new(),
        findings: Vec::new(),
        settled: 0,
        given_graphs: Vec::new(),
        kinds_chosen: BTreeMap::new(),
    };
    match strategy.kind {
        MergeKind::FileMerge => work.merge_files(rename::by_path(&contributions))?,
        MergeKind::CtxpackUnion => work.unite_graphs(rename::by_path(&contributions))?,
        MergeKind::ReportAggregation => work.aggregate(&contributions)?,
    }
    work.look_at_directories()?;
    work.look_at_links()?;
    work.keep_needed_directories();
    work.add_parents();
    work.aggregate_again(&contributions)?;
    work.refuse_what_does_not_fit()?;
    work.finish(&contributions)
}

fn with_plain_modes(contributions: &[Contribution]) -> Vec<Contribution> {
    let mut plain = contributions.to_vec();
    for change in plain.iter_mut().flat_map(|contribution| &mut contribution.changes) {
        for entry in [&mut change.base, &mut change.theirs].into_iter().flatten() {
            match entry {
                Entry::File { mode, .. } | Entry::Directory { mode } => *mode &= PERMISSIONS,
                Entry::Link { .. } => {}
            }
        }
    }
    plain
}

struct Work<'a> {
    terms: &'a Terms<'a>,
    resolutions: &'a Choices,
    occasion: &'a Occasion,
    places: BTreeMap<TreePath, Place>,
    conflicts: Vec<Conflict>,
    used: BTreeSet<String>,
    refused: Vec<String>,
    findings: Vec<Finding>,
    settled: usize,
    /// What a person gave to be united with the agents' graphs.
    given_graphs: Vec<Digest>,
    /// What a person said where one path would be several kinds of things, and between whom.
    kinds_chosen: BTreeMap<TreePath, (Choice, Vec<String>)>,
}

fn at(path: &TreePath) -> impl FnOnce(io::Error) -> MergeError {
    let path = path.to_string();
    move |source| MergeError::Contents { path, source }
}

impl Work<'_> {
    fn merge_files(&mut self, mut places: rename::Places) -> Result<(), MergeError> {
        rename::follow(&mut places, self.terms.ancestry);
        for (path, steps) in places {
            let mut place = fold(path.clone(), steps, self.terms).map_err(at(&path))?;
            self.ask_person(&mut place)?;
            self.settled += place.settled;
            self.places.insert(path, place);
        }
        Ok(())
    }

    /// Settles a place's conflict if a person said how; else the conflict is told.
    fn ask_person(&mut self, place: &mut Place) -> Result<bool, MergeError> {
        let Some(conflict) = &place.conflict else { return Ok(false) };
        let Some(resolution) = self.resolutions.get(&conflict.id) else {
            self.conflicts.push(conflict.clone());
            return Ok(false);
        };
        self.used.insert(conflict.id.clone());
        if !conflict.offers(resolution) {
            let (word, choices) = (resolution.word(), conflict.choices.join(", "));
            self.refused.push(format!("{}: {word:?} is not offered; choose of {choices}", conflict.id));
            return Ok(false);
        }
        if conflict.kind == ConflictKind::Type {
            let chosen = (resolution.clone(), conflict.agents.clone());
            self.kinds_chosen.insert(place.path.clone(), chosen);
        }
        place.resolve(resolution, self.terms).map_err(at(&place.path))?;
        Ok(true)
    }

    fn unite_graphs(&mut self, mut places: rename::Places) -> Result<(), MergeError> {
        let path = plain_path(INTEGRATED);
        let steps = union::take_graphs(&mut places);
        let union = union::of(steps, self.terms, self.resolutions, self.occasion).map_err(at(&path))?;
        self.merge_files(places)?;
        self.conflicts.extend(union.conflicts);
        self.used.extend(union.used);
        self.refused.extend(union.refused);
        self.settled += union.settled;
        self.given_graphs = union.given.into_values().collect();
        for message in union.notes {
            let rule = MergeKind::CtxpackUnion.word();
            self.findings.push(Finding { is_error: false, path: path.clone(), rule, message });
        }
        if let Some(entry) = union.entry {
            self.places.insert(path.clone(), Place::made(path.clone(), entry, MADE_BY_UNION));
        }
        for ended in union.ended {
            let place = if ended.is_united { &path } else { &ended.step.path };
            let place = self.places.entry(place.clone()).or_insert_with(|| Place::empty(place.clone()));
            place.steps.push(ended.step);
            place.fates.push(ended.fate);
            place.notes.push(ended.notes);
        }
        Ok(())
    }

    fn aggregate(&mut self, contributions: &[Contribution]) -> Result<(), MergeError> {
        for step in rename::by_path(contributions).into_values().flatten() {
            let place = plain_path(&step.who).join(&step.path);
            self.places.insert(place.clone(), Place::own(place, step));
        }
        let path = plain_path(aggregate::REPORT);
        let report = self.aggregated(contributions).map_err(at(&path))?;
        self.places.insert(path.clone(), Place::made(path, report, MADE_BY_AGGREGATION));
        Ok(())
    }

    /// The report on what stands at the agents' places now.
    fn aggregated(&self, contributions: &[Contribution]) -> io::Result<Entry> {
        let mut outputs = Vec::new();
        for contribution in contributions {
            let agent = plain_path(&contribution.who);
            for change in contribution.changes.iter().filter(|change| change.base != change.theirs) {
                let place = agent.join(&change.path);
                let Some(found) = self.places.get(&place) else { continue };
                let Some(fate) = found.fates.first() else { continue };
                let (entry, theirs) = (found.entry.as_ref(), change.theirs.as_ref());
                let (agent, path) = (contribution.who.as_str(), &change.path);
                outputs.push(Output { agent, path, place, theirs, fate, entry });
            }
        }
        let title = format!("Report of {}", self.occasion.execution_id);
        let text = aggregate::report(&title, &outputs, self.terms.contents)?;
        let sha256 = self.terms.contents.keep(&text)?;
        Ok(Entry::File { mode: aggregate::REPORT_MODE, size: text.len() as u64, sha256 })
    }

    /// What was settled after the report had been laid out is told in it.
    fn aggregate_again(&mut self, contributions: &[Contribution]) -> Result<(), MergeError> {
        let path = plain_path(aggregate::REPORT);
        let is_ours = |place: &Place| place.made_by == Some(MADE_BY_AGGREGATION);
        if self.places.get(&path).is_some_and(is_ours) && (self.settled > 0 || !self.conflicts.is_empty()) {
            let report = self.aggregated(contributions).map_err(at(&path))?;
            self.places.entry(path).and_modify(|place| place.entry = Some(report));
        }
        Ok(())
    }

    fn tree(&self) -> Manifest {
        let standing =
            self.places.iter().filter_map(|(path, place)| Some((path.clone(), place.entry.clone()?)));
        standing.collect()
    }

    fn refuse_what_does_not_fit(&mut self) -> Result<(), MergeError> {
        let stale = self.resolutions.keys().filter(|id| !self.used.contains(*id));
        self.refused.extend(stale.map(|id| {
            format!("{id}: there is no such conflict now; what it was about has changed, look again")
        }));
        if self.refused.is_empty() { Ok(()) } else { Err(MergeError::Resolutions(self.refused.clone())) }
    }

    fn receipt(&self, tree: &Manifest, contributions: &[Contribution]) -> Receipt {
        let digest_at = |path: &TreePath| tree.get(path).and_then(identity);
        let mut lines: Vec<(usize, Line)> = Vec::new();
        for (turn, contribution) in contributions.iter().enumerate() {
            for path in &contribution.lacks {
                let place = self.place_of(&contribution.who, path);
                let digest = digest_at(&place);
                lines.push((turn, Line::of_absence(&contribution.who, path.clone(), place, digest)));
            }
        }
        for place in self.places.values() {
            let each = place.steps.iter().zip(&place.fates).zip(&place.notes);
            lines.extend(each.map(|((step, fate), notes)| {
                (step.turn, line(place, step, fate, notes, digest_at(&place.path)))
            }));
        }
        lines.sort_by(|(turn, line), (other_turn, other)| (turn, &line.path).cmp(&(other_turn, &other.path)));
        let lines: Vec<Line> = lines.into_iter().map(|(_, line)| line).collect();
        let mut made = Vec::new();
        for place in self.places.values() {
            let Some(by) = place.made_by else { continue };
            let (path, digest) = (place.path.clone(), digest_at(&place.path));
            made.push(Made { path: path.clone(), by, digest, given: None });
            let given = self.given_graphs.iter().filter(|_| by == MADE_BY_UNION);
            made.extend(given.map(|given| Made {
                path: path.clone(),
                by: MADE_BY_RESOLUTION,
                digest,
                given: Some(*given),
            }));
        }
        Receipt {
            execution_id: self.occasion.execution_id.clone(),
            merged_at: self.occasion.at.clone(),
            strategy: self.terms.strategy.kind,
            totals: totals(&lines),
            made,
            lines,
        }
    }

    /// Where in the merged tree an agent's path is.
    fn place_of(&self, who: &str, path: &TreePath) -> TreePath {
        match self.terms.strategy.kind {
            MergeKind::ReportAggregation => plain_path(who).join(path),
            MergeKind::FileMerge | MergeKind::CtxpackUnion => path.clone(),
        }
    }

    fn finish(mut self, contributions: &[Contribution]) -> Result<Planned, MergeError> {
        let tree = self.tree();
        let receipt = self.receipt(&tree, contributions);
        if !self.conflicts.is_empty() {
            self.conflicts.sort_by(|a, b| (&a.path, &a.id).cmp(&(&b.path, &b.id)));
            let report = ConflictReport::of(self.conflicts, self.settled, self.occasion);
            let policy = self.terms.strategy.conflict_resolution;
            // Once a person has begun to decide, the rest is asked too.
            let waits_for_person =
                policy != ConflictResolution::FailOnConflict || !self.resolutions.is_empty();
            return Ok(Planned::Conflicted(Conflicted { report, receipt, waits_for_person }));
        }
        let files: Vec<Merged> = tree
            .iter()
            .map(|(path, entry)| Merged { path, entry, versions: self.places[path].brought() })
            .collect();
        let found = findings(&files, self.terms.strategy.validation, self.terms.contents)
            .map_err(|source| MergeError::Contents { path: "the merged tree".to_owned(), source })?;
        self.findings.extend(found);
        if self.findings.iter().any(|finding| finding.is_error) {
            return Ok(Planned::Invalid(Invalid { findings: self.findings, receipt }));
        }
        let audited = audit(contributions, &tree, receipt).map_err(MergeError::Audit)?;
        let is_deleted = |place: &&Place| {
            let mut each = place.steps.iter().zip(&place.fates);
            place.entry.is_none() && each.any(|(step, fate)| step.theirs.is_none() && *fate == Fate::Kept)
        };
        let deleted = self.places.values().filter(is_deleted).map(|place| place.path.clone()).collect();
        let (findings, conflicts_resolved) = (self.findings, self.settled);
        Ok(Planned::Ready(Merge { tree, deleted, audited, findings, conflicts_resolved }))
    }
}

fn plain_path(name: &str) -> TreePath {
    TreePath::parse(name).expect("names of agents and of our own files were checked to be paths")
}

fn line(place: &Place, step: &Step, fate: &Fate, notes: &[String], digest: Option<Digest>) -> Line {
    let kind = if step.renamed_from.is_some() {
        ChangeKind::Renamed
    } else if step.is_untouched {
        ChangeKind::Unchanged
    } else {
        ChangeKind::of(step.base.as_ref(), step.theirs.as_ref())
    };
    Line {
        agent: step.who.clone(),
        path: step.path.clone(),
        change: kind,
        renamed_from: step.renamed_from.clone(),
        fate: fate.clone(),
        place: place.path.clone(),
        digest,
        notes: notes.to_vec(),
    }
}
