//! After the last agent: what the agents made becomes one tree, is accounted for, and the trees are looked at once
//! more, so that it can be told what nobody declared and so that `wk undo` knows what the batch left.
//!
//! Nothing of it is decided here: policy came with the request, choices with a person's wish.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::bases::Meetings;
use super::drift::Drift;
use super::given::{Gifts, Given, Giver};
use super::kept::Kept;
use super::{Fault, Report};
use crate::bus::disk::BusError;
use crate::bus::{self, Content, Disk, Durability, RealDisk};
use crate::merge::tree_disk::RealTreeDisk;
use crate::merge::{self, Conflicted, Contribution, Merge, MergeError, Occasion, Planned};
use crate::model::handoff::{
    Choices, ConflictBrief, Dialect, MergeKind, MergeOutcome, MergeStatus, MergeStrategy, Prepared,
    UndeclaredChanges,
};
use crate::model::inspected::{Change, Inspected};
use crate::model::tree::{Manifest, TreePath};
use crate::model::workspace::{CHECKPOINT_ARCHIVE, WorkspacePaths};
use crate::model::{Finding, TaskKey, WallTime};
use crate::work_tree::{Checkpoint, Hand, Scan, Scope, Store, rescan};

/// Most conflicts that are journaled; the conflict report has all of them.
const CONFLICTS_LISTED_MAX: usize = 200;
/// Most warnings that are journaled.
const WARNINGS_LISTED_MAX: usize = 100;
/// A runner's finding: a line for each file of the outputs.
const INSPECTED_BYTES_MAX: u64 = 256 << 20;
/// A receipt or a conflict report: likewise.
const PAPER_BYTES_MAX: u64 = 256 << 20;
/// Most paths whose author nobody knows that are told.
const UNATTRIBUTABLE_LISTED_MAX: usize = 20;
const GRAPH_NAME: &str = "integrated.ctxp";

/// One agent's part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) task: TaskKey,
    pub(super) agent: String,
    /// What it was given, and may have gone on with.
    pub(super) given: Vec<Given>,
    /// Its declared outputs: the place of each in the merged tree, and where it lies.
    pub(super) sources: Vec<(TreePath, PathBuf)>,
    /// What its runner found, where one did.
    pub(super) inspected: Option<PathBuf>,
    /// The hash of that, as its exit was journaled.
    pub(super) inspected_sha256: Option<String>,
    pub(super) has_succeeded: bool,
    /// When its attempts ran.
    pub(super) ran: Vec<(WallTime, WallTime)>,
}

impl Part {
    fn ran_beside(&self, other: &Part) -> bool {
        let meet = |one: &(WallTime, WallTime), two: &(WallTime, WallTime)| one.0 < two.1 && two.0 < one.1;
        self.ran.iter().any(|one| other.ran.iter().any(|two| meet(one, two)))
    }

    /// Everything that it made, or left in its outputs, without regard to others.
    fn alone(&self, inspected: &Inspected) -> Contribution {
        let mut changes = inspected.changes.clone();
        let is_declared =
            |path: &TreePath| self.sources.iter().any(|(place, _)| path == place || path.is_below(place));
        for change in changes.iter_mut().filter(|change| change.base == change.theirs) {
            // Of one that failed, nobody can say that what stood there before is its work.
            if self.has_succeeded && is_declared(&change.path) {
                change.base = None;
            }
        }
        let (who, untouched) = (self.agent.clone(), BTreeSet::new());
        Contribution { who, depends_on: Vec::new(), changes, untouched, lacks: BTreeSet::new() }
    }

    fn read(&self) -> Result<Option<Inspected>, Fault> {
        let Some(path) = &self.inspected else { return Ok(None) };
        let content = RealDisk::default().read(path, INSPECTED_BYTES_MAX);
        match content.map_err(BusError::of("read", path))? {
            Content::Bytes { bytes, .. } if !self.is_as_journaled(&bytes) => {
                Err(format!("{} was changed after its attempt had ended", path.display()).into())
            }
            Content::Bytes { bytes, .. } => {
                let read = serde_json::from_slice(&bytes).map(Some);
                Ok(read.map_err(|error| format!("{}: {error}", path.display()))?)
            }
            _ if self.has_succeeded => Err(format!("{} is gone", path.display()).into()),
            _ => Ok(None),
        }
    }

    fn is_as_journaled(&self, bytes: &[u8]) -> bool {
        self.inspected_sha256.as_ref().is_some_and(|journaled| *journaled == bus::sha256(bytes))
    }
}

/// Everything that a round of merging needs to know.
#[derive(Debug)]
pub(super) struct Merging {
    pub(super) round: u32,
    pub(super) occasion: Occasion,
    pub(super) workspace: WorkspacePaths,
    pub(super) dialect: Dialect,
    pub(super) objects: PathBuf,
    pub(super) strategy: MergeStrategy,
    pub(super) choices: Choices,
    /// In topological order.
    pub(super) parts: Vec<Part>,
    /// Why nothing may be merged.
    pub(super) not_merged: Option<String>,
    /// What was found about the whole.
    pub(super) checks: Vec<Finding>,
    pub(super) roots: Vec<PathBuf>,
    pub(super) aside: Vec<PathBuf>,
    pub(super) drift: Drift,
    /// The trees before the first agent, and where the look at the end is kept.
    pub(super) before: PathBuf,
    pub(super) after: PathBuf,
    /// What was journaled of the checkpoint.
    pub(super) prepared: Option<Prepared>,
}

impl Merging {
    pub(super) fn carry_out(&self) -> Report {
        let mut outcome = Fault::outlasted(|| self.try_merge()).unwrap_or_else(|fault| failure(&fault.why));
        outcome.checks.clone_from(&self.checks);
        if outcome.receipt_sha256.is_none() {
            // It accounts for a tree that does not stand, or for an earlier round.
            self.remove_own(&self.workspace.receipt());
        }
        // Whatever became of the merge: without this look nothing could be undone.
        match Fault::outlasted(|| self.look_back()) {
            Ok(undeclared) => outcome.undeclared = undeclared,
            Err(Fault { why, .. }) => {
                outcome.warnings.push(format!("the trees could not be looked at in the end: {why}"));
            }
        }
        outcome.warnings.truncate(WARNINGS_LISTED_MAX);
        outcome.warnings.extend(self.checkpoint_defect());
        Report::Merged { round: self.round, outcome: Box::new(outcome) }
    }

    /// Agents can reach the checkpoint; one that is gone or shorter is told before somebody needs it. Whether every
    /// byte is as it was is proved when the batch is undone.
    fn checkpoint_defect(&self) -> Option<String> {
        let prepared = self.prepared.as_ref()?;
        let (journaled, bytes) = (prepared.manifest_sha256.as_ref()?, prepared.bytes?);
        let dir = self.workspace.checkpoint();
        let archive = dir.join(CHECKPOINT_ARCHIVE);
        let what = match archive.symlink_metadata() {
            Err(error) => Some(format!("{}: {error}", archive.display())),
            Ok(data) if !data.is_file() || data.len() != bytes => {
                Some(format!("{} is not as it was written", archive.display()))
            }
            Ok(_) => match Checkpoint::manifest_sha256(&dir) {
                Ok(found) if found.as_ref() == Some(journaled) => None,
                Ok(_) => Some(format!("the manifest in {} is gone or was changed", dir.display())),
                Err(error) => Some(error.to_string()),
            },
        };
        what.map(|what| format!("the checkpoint is damaged, so that this batch cannot be undone: {what}"))
    }

    fn try_merge(&self) -> Result<MergeOutcome, Fault> {
        let store = Store::open(&self.objects, Hand::free())?;
        let contents = Kept::of(&store, self.workspace.checkpoint());
        let inspected = self.inspected()?;
        if self.dialect == Dialect::Assignments {
            self.keep_artifacts(&inspected, &contents)?;
        }
        let mut outcome = match &self.not_merged {
            Some(why) => MergeOutcome::without_result(MergeStatus::Skipped, why),
            None => self.merge(&inspected, &contents)?,
        };
        if self.dialect == Dialect::Assignments {
            outcome.warnings.extend(self.unattributable(&inspected));
        }
        for (part, inspected) in self.parts.iter().zip(&inspected) {
            let left_out = inspected.iter().flat_map(|inspected| &inspected.left_out);
            outcome.warnings.extend(left_out.map(|told| format!("{}: {told}", part.agent)));
        }
        Ok(outcome)
    }

    /// Tasks that work in one directory at the same time are told apart by time alone: of what changed while several
    /// ran, nobody can say whose it is, and what one of them wrote over is not known.
    fn unattributable(&self, inspected: &[Option<Inspected>]) -> Vec<String> {
        let mut by_path: BTreeMap<&TreePath, Vec<&Part>> = BTreeMap::new();
        for (part, inspected) in self.parts.iter().zip(inspected) {
            let changes = inspected.iter().flat_map(|inspected| &inspected.changes);
            for change in changes.filter(|change| change.base != change.theirs) {
                by_path.entry(&change.path).or_default().push(part);
            }
        }
        let met = |parts: &[&Part]| {
            parts
                .iter()
                .enumerate()
                .any(|(at, one)| parts[at + 1..].iter().any(|other| one.ran_beside(other)))
        };
        let shared = by_path.into_iter().filter(|(_, parts)| met(parts));
        let told = shared.map(|(path, parts)| {
            let agents: Vec<&str> = parts.iter().map(|part| part.agent.as_str()).collect();
            format!("{path} changed while {} ran side by side; nobody can tell by whom", agents.join(" and "))
        });
        told.take(UNATTRIBUTABLE_LISTED_MAX).collect()
    }

    /// What each runner found, part by part.
    fn inspected(&self) -> Result<Vec<Option<Inspected>>, Fault> {
        self.parts.iter().map(Part::read).collect()
    }

    /// Copies of what each task made, whether it succeeded or not: a client may want to look at either.
    fn keep_artifacts(&self, inspected: &[Option<Inspected>], contents: &Kept<'_>) -> Result<(), Fault> {
        assert_directory(self.workspace.root())?;
        assert_directory(&self.workspace.all_artifacts())?;
        let strategy = MergeStrategy { kind: MergeKind::FileMerge, ..self.strategy.clone() };
        for (part, inspected) in self.parts.iter().zip(inspected) {
            let Some(inspected) = inspected else { continue };
            let contribution = part.alone(inspected);
            let planned = merge::plan(&[contribution], &strategy, &Choices::new(), &self.occasion, contents);
            // What cannot be laid out, such as a link that leads out, stays where the agent made it.
            if let Ok(Planned::Ready(merge)) = planned {
                let place = self.workspace.artifacts(&part.task);
                merge::publish(&merge, &place, contents, &RealTreeDisk)?;
            }
        }
        Ok(())
    }

    fn merge(&self, inspected: &[Option<Inspected>], contents: &Kept<'_>) -> Result<MergeOutcome, Fault> {
        let parts = self.parts.iter().zip(inspected).filter(|(part, _)| part.has_succeeded);
        let mut contributions: Vec<Contribution> = parts
            .map(|(part, inspected)| Contribution {
                who: part.agent.clone(),
                // Whose work it had seen is said path by path, by the base of each change.
                depends_on: Vec::new(),
                changes: inspected.as_ref().map(|found| found.changes.clone()).unwrap_or_default(),
                untouched: BTreeSet::new(),
                lacks: BTreeSet::new(),
            })
            .collect();
        let mut warnings = self.without_failed(inspected, &mut contributions, contents)?;
        let (parts, workspace) = (&self.parts, self.workspace.root());
        let meetings = Meetings { parts, workspace, kind: self.strategy.kind };
        meetings.forget_own_past(&mut contributions);
        let before = self.given_trees()?;
        contents.look_also_at(&before);
        let gifts = Gifts { parts, before: &before, contents };
        gifts.as_bases(&mut contributions);
        gifts.renamed(&mut contributions);
        warnings.extend(gifts.missing(&mut contributions));
        meetings.bring_untouched(&mut contributions);
        let (planned, refused) = self.plan(&contributions, self.choices.clone(), contents)?;
        let mut outcome = match planned {
            Planned::Ready(merge) => self.publish(&merge, contents),
            Planned::Conflicted(conflicted) => {
                let mut outcome = self.tell_conflicts(&conflicted)?;
                outcome.warnings.extend(refused.iter().map(|why| format!("a choice does not fit: {why}")));
                Ok(outcome)
            }
            Planned::Invalid(invalid) => {
                let receipt = self.write_receipt(&invalid.receipt)?;
                let (errors, beside): (Vec<_>, Vec<_>) =
                    invalid.findings.iter().partition(|finding| finding.is_error);
                warnings.extend(beside.into_iter().map(finding_told));
                let told: Vec<String> = errors.into_iter().map(finding_told).collect();
                let why = format!("the merged tree is not valid: {}", told.join("; "));
                let outcome = MergeOutcome::without_result(MergeStatus::Failure, why);
                Ok(MergeOutcome { validation_passed: Some(false), receipt_sha256: Some(receipt), ..outcome })
            }
        }?;
        outcome.warnings.extend(warnings);
        Ok(outcome)
    }

    /// The client's trees as agents were given them, where one was.
    fn given_trees(&self) -> Result<Manifest, Fault> {
        let mut given = self.parts.iter().flat_map(|part| &part.given);
        match given.any(|given| matches!(given.from, Giver::Client(_))) {
            true => Ok(self.read_before()?.manifest),
            false => Ok(Manifest::default()),
        }
    }

    fn read_before(&self) -> Result<Scan, Fault> {
        let before = RealDisk::default().read(&self.before, super::AFTER_BYTES_MAX);
        match before.map_err(BusError::of("read", &self.before))? {
            Content::Bytes { bytes, .. } => {
                let read = serde_json::from_slice(&bytes);
                Ok(read.map_err(|error| format!("{}: {error}", self.before.display()))?)
            }
            _ => Err(format!("{} is gone", self.before.display()).into()),
        }
    }

    /// Plans. A choice that does not fit is told and left out, so that its conflict waits on: a slip of a person's
    /// must not cost the agents' work.
    fn plan(
        &self,
        contributions: &[Contribution],
        mut resolutions: Choices,
        contents: &Kept<'_>,
    ) -> Result<(Planned, Vec<String>), Fault> {
        let mut told = Vec::new();
        loop {
            match merge::plan(contributions, &self.strategy, &resolutions, &self.occasion, contents) {
                Ok(planned) => return Ok((planned, told)),
                Err(MergeError::Resolutions(refused)) if !resolutions.is_empty() => {
                    let before = resolutions.len();
                    resolutions.retain(|id, _| !refused.iter().any(|why| why.contains(id.as_str())));
                    if resolutions.len() == before {
                        resolutions.clear();
                    }
                    told.extend(refused);
                }
                Err(error) => return Err(error.to_string().into()),
            }
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

    fn publish(&self, merge: &Merge, contents: &Kept<'_>) -> Result<MergeOutcome, Fault> {
        assert_directory(self.workspace.root())?;
        // The receipt stands before the tree does: a tree without one would be nobody's.
        let receipt = self.write_receipt(merge.receipt())?;
        let place = self.workspace.merged();
        merge::publish(merge, &place, contents, &RealTreeDisk)?;
        self.remove_own(&self.workspace.conflicts());
        let top = merge.tree().keys().filter(|path| path.parent().is_none());
        let (graphs, files): (Vec<_>, Vec<_>) = top.partition(|path| path.name() == GRAPH_NAME.as_bytes());
        let shown = |path: &TreePath| path.below(&place).to_string_lossy().into_owned();
        let is_validated =
            self.strategy.validation.schema_validation || self.strategy.validation.semantic_consistency;
        let resolved = merge.conflicts_resolved() as u32;
        Ok(MergeOutcome {
            status: MergeStatus::Success,
            because: None,
            merged_ctxpack: graphs.first().map(|path| shown(path)),
            merged_files: files.into_iter().map(shown).collect(),
            conflicts_detected: resolved,
            conflicts_resolved: resolved,
            validation_passed: is_validated.then_some(true),
            conflicts: Vec::new(),
            checks: Vec::new(),
            warnings: merge.findings().iter().map(finding_told).collect(),
            undeclared: UndeclaredChanges::default(),
            receipt_sha256: Some(receipt),
        })
    }

    /// Removes a paper that does not hold any more, if this batch wrote it: a file of the client's of that
    /// name stays.
    fn remove_own(&self, path: &Path) {
        let content = RealDisk::default().read(path, PAPER_BYTES_MAX);
        let Ok(Content::Bytes { bytes, .. }) = content else { return };
        let told: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
        let is_own = told.is_some_and(|told| told["execution_id"] == self.occasion.execution_id.as_str());
        if is_own && RealDisk::default().remove_file(path).is_err() {
            log::warn!("{}: does not hold any more, and could not be removed", path.display());
        }
    }

    fn tell_conflicts(&self, conflicted: &Conflicted) -> Result<MergeOutcome, Fault> {
        self.write(&self.workspace.conflicts(), &conflicted.report.to_json())?;
        let receipt = self.write_receipt(&conflicted.receipt)?;
        let conflicts = &conflicted.report.conflicts;
        let brief = |conflict: &merge::Conflict| ConflictBrief {
            id: conflict.id.clone(),
            class: word(&conflict.class),
            path: conflict.path.to_string(),
            agents: conflict.agents.clone(),
            message: message_of(conflict),
            choices: conflict.choices.clone(),
        };
        let status = match conflicted.waits_for_person {
            true => MergeStatus::AwaitsResolution,
            false => MergeStatus::Failure,
        };
        let why = match conflicts.len() {
            1 => "1 conflict between the outputs".to_owned(),
            count => format!("{count} conflicts between the outputs"),
        };
        Ok(MergeOutcome {
            conflicts_detected: conflicted.report.conflicts_detected as u32,
            conflicts_resolved: conflicted.report.conflicts_resolved as u32,
            conflicts: conflicts.iter().take(CONFLICTS_LISTED_MAX).map(brief).collect(),
            receipt_sha256: Some(receipt),
            ..MergeOutcome::without_result(status, why)
        })
    }

    /// Looks at the trees as the batch leaves them. Tells what was changed though nobody declares it.
    fn look_back(&self) -> Result<UndeclaredChanges, Fault> {
        let before = self.read_before()?;
        let scope = Scope::new(&self.roots, &self.aside)?;
        let after = rescan(&scope, &before)?;
        let bytes = serde_json::to_vec(&after.manifest).unwrap_or_default();
        self.write(&self.after, &bytes)?;
        Ok(self.drift.undeclared(&before.manifest, &after))
    }

    /// Returns the hash by which it is known from now on.
    fn write_receipt(&self, receipt: &merge::Receipt) -> Result<String, Fault> {
        let bytes = receipt.to_json();
        self.write(&self.workspace.receipt(), &bytes)?;
        Ok(bus::sha256(&bytes))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Fault> {
        let written = RealDisk::default().publish(path, bytes, Durability::Synced);
        Ok(written.map_err(BusError::of("publish", path))?)
    }
}

/// Where the united graph stands.
pub(super) fn graph_place() -> TreePath {
    TreePath::parse(GRAPH_NAME).expect("a plain name is a path")
}

/// Agents can write here too: a link in a directory's place is not followed.
fn assert_directory(dir: &Path) -> Result<(), Fault> {
    match dir.symlink_metadata() {
        Ok(data) if data.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is no directory any more; put it back", dir.display()).into()),
        Err(error) => Err(format!("{}: {error}", dir.display()).into()),
    }
}

fn failure(why: &str) -> MergeOutcome {
    MergeOutcome::without_result(MergeStatus::Failure, format!("the merge could not be done: {why}"))
}

fn finding_told(finding: &merge::Finding) -> String {
    format!("{}: {} ({})", finding.path, finding.message, finding.rule)
}

fn message_of(conflict: &merge::Conflict) -> String {
    let agents = conflict.agents.join(" and ");
    let what = match (&conflict.graph, conflict.details.first()) {
        (Some(graph), _) => format!(": {}", graph.told()),
        (None, Some(detail)) => format!(": {detail}"),
        (None, None) => String::new(),
    };
    format!("{} between {agents}{what}", conflict.kind.word())
}

/// A word as JSON spells it.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
