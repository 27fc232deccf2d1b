//! After the last agent: what the agents made becomes one tree, is accounted for, and the trees are looked at once
//! more, so that it can be told what nobody declared and so that `wk undo` knows what the batch left.
//!
//! Nothing of it is decided here: policy came with the request, choices with a person's wish.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::drift::Drift;
use super::kept::Kept;
use super::part::Part;
use super::replaced::Replaced;
use super::shop::LeftOff;
use super::side_by_side::{Ground, SideBySide};
use super::verifying::Verifying;
use super::versions::Versions;
use super::{Fault, Report, witness};
use crate::bus::disk::BusError;
use crate::bus::{self, Content, Disk, Durability, RealDisk};
use crate::merge::tree_disk::RealTreeDisk;
use crate::merge::{self, Conflicted, Contribution, Merge, MergeError, Occasion, Planned};
use crate::model::Finding;
use crate::model::handoff::{
    Choices, ConflictBrief, Dialect, MergeKind, MergeOutcome, MergeStatus, MergeStrategy, Prepared,
    UndeclaredChanges,
};
use crate::model::inspected::Inspected;
use crate::model::tree::TreePath;
use crate::model::workspace::{CHECKPOINT_ARCHIVE, WorkspacePaths};
use crate::work_tree::{Checkpoint, Hand, Scan, Scope, Store, rescan};

/// Most conflicts that are journaled; the conflict report has all of them.
const CONFLICTS_LISTED_MAX: usize = 200;
/// Most warnings that are journaled.
const WARNINGS_LISTED_MAX: usize = 100;
/// A receipt or a conflict report: likewise.
const PAPER_BYTES_MAX: u64 = 256 << 20;
const LEFT_OFF: &str =
    "the batch was cancelled or ran out of time during the merge; the outputs stay where they are";
const GRAPH_NAME: &str = "integrated.ctxp";

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
    /// What is run in the merged tree before it is published.
    pub(super) verifying: Option<Verifying>,
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
    /// Where it is noted what was written over while several agents ran.
    pub(super) overwritten: PathBuf,
    /// What was journaled of the checkpoint.
    pub(super) prepared: Option<Prepared>,
}

impl Merging {
    pub(super) fn carry_out(&self, left_off: &LeftOff) -> Report {
        let is_left_off = || left_off.load(Ordering::Relaxed);
        let merged = Fault::outlasted(|| {
            let merged = self.try_merge(left_off);
            merged.map_err(|fault| Fault { is_passing: fault.is_passing && !is_left_off(), ..fault })
        });
        let mut outcome = match merged {
            Err(_) if is_left_off() => MergeOutcome::without_result(MergeStatus::Skipped, LEFT_OFF),
            merged => merged.unwrap_or_else(|fault| failure(&fault.why)),
        };
        outcome.checks.extend(self.checks.iter().cloned());
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

    fn try_merge(&self, left_off: &LeftOff) -> Result<MergeOutcome, Fault> {
        let store = Store::open(&self.objects, Hand::free())?;
        let contents = Kept::of(&store, self.workspace.checkpoint(), left_off);
        let inspected = self.inspected()?;
        let replaced = self.replaced(&contents);
        if self.dialect == Dialect::Assignments {
            self.keep_artifacts(&inspected, &replaced)?;
        }
        let shared = match self.dialect {
            Dialect::Assignments => self.side_by_side(&inspected, &contents),
            Dialect::ExecutionRequest => SideBySide::default(),
        };
        let mut outcome = match &self.not_merged {
            Some(why) => MergeOutcome::without_result(MergeStatus::Skipped, why),
            None => self.merge(&inspected, &shared, &replaced)?,
        };
        outcome.warnings.extend(replaced.told());
        outcome.warnings.extend(shared.told());
        for (part, inspected) in self.parts.iter().zip(&inspected) {
            let left_out = inspected.iter().flat_map(|inspected| &inspected.left_out);
            outcome.warnings.extend(left_out.map(|told| format!("{}: {told}", part.agent)));
        }
        Ok(outcome)
    }

    fn side_by_side(&self, inspected: &[Option<Inspected>], contents: &Kept<'_>) -> SideBySide {
        let overwritten = witness::read(&self.overwritten);
        SideBySide::of(
            &self.parts,
            inspected,
            Ground { workspace: self.workspace.root(), overwritten, contents },
        )
    }

    /// What each runner found, part by part.
    fn inspected(&self) -> Result<Vec<Option<Inspected>>, Fault> {
        self.parts.iter().map(Part::read).collect()
    }

    /// Copies of what each task made, whether it succeeded or not: a client may want to look at either.
    fn keep_artifacts(&self, inspected: &[Option<Inspected>], replaced: &Replaced<'_>) -> Result<(), Fault> {
        let contents = replaced.contents;
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
                replaced.keep(&place)?;
                merge::publish(&merge, &place, contents, &RealTreeDisk)?;
            }
        }
        Ok(())
    }

    fn merge(
        &self,
        inspected: &[Option<Inspected>],
        shared: &SideBySide,
        replaced: &Replaced<'_>,
    ) -> Result<MergeOutcome, Fault> {
        let contents = replaced.contents;
        let versions = self.versions(shared, replaced);
        let (contributions, mut warnings) = self.contributions(inspected, shared, contents)?;
        let (planned, refused) = self.plan(&contributions, self.choices.clone(), contents)?;
        let mut outcome = match planned {
            Planned::Ready(merge) => {
                let checks: Vec<Finding> = self.verified(&merge, contents)?.into_iter().collect();
                match checks.iter().find(|check| !check.met) {
                    None => {
                        let settled = self.settled(&contributions, contents)?;
                        versions.remove()?;
                        MergeOutcome { settled, checks, ..self.publish(&merge, replaced)? }
                    }
                    Some(unmet) => {
                        let why = format!("the merged tree does not pass: {unmet}");
                        let again = self.to_decide_again(&contributions, &[], contents)?;
                        let outcome = self.not_good(why, again, merge.receipt(), &versions)?;
                        MergeOutcome { checks, ..outcome }
                    }
                }
            }
            Planned::Conflicted(mut conflicted) => {
                let mut outcome = self.tell_conflicts(&mut conflicted, &versions)?;
                outcome.warnings.extend(refused.iter().map(|why| format!("a choice does not fit: {why}")));
                outcome
            }
            Planned::Invalid(invalid) => {
                let beside = invalid.findings.iter().filter(|finding| !finding.is_error);
                warnings.extend(beside.map(finding_told));
                let errors = invalid.findings.iter().filter(|finding| finding.is_error).map(finding_told);
                let why = format!("the merged tree is not valid: {}", errors.collect::<Vec<_>>().join("; "));
                let again = self.to_decide_again(&contributions, &invalid.findings, contents)?;
                self.not_good(why, again, &invalid.receipt, &versions)?
            }
        };
        outcome.warnings.extend(warnings);
        Ok(outcome)
    }

    /// What the command says of the tree, where there is one. It runs in a copy, so that what it leaves there is in no
    /// merged tree, and nothing stands there that is not good.
    fn verified(&self, merge: &Merge, contents: &Kept<'_>) -> Result<Option<Finding>, Fault> {
        let Some(verifying) = &self.verifying else { return Ok(None) };
        assert_directory(self.workspace.root())?;
        let candidate = self.workspace.candidate();
        merge::publish(merge, &candidate, contents, &RealTreeDisk)?;
        let found = verifying.run(&candidate, contents.left_off());
        merge::remove(&candidate, &RealTreeDisk)?;
        found.map(Some)
    }

    /// Nothing is published. Where a person had decided, that can be decided otherwise; else the merge has failed.
    fn not_good(
        &self,
        why: String,
        again: Option<Conflicted>,
        receipt: &merge::Receipt,
        versions: &Versions<'_>,
    ) -> Result<MergeOutcome, Fault> {
        if let Some(mut again) = again {
            let outcome = self.tell_conflicts(&mut again, versions)?;
            let because = outcome.because.map(|conflicts| format!("{conflicts}; as decided, {why}"));
            return Ok(MergeOutcome { status: MergeStatus::AwaitsResolution, because, ..outcome });
        }
        let receipt_sha256 = Some(self.write_receipt(receipt)?);
        let outcome = MergeOutcome::without_result(MergeStatus::Failure, why);
        Ok(MergeOutcome { validation_passed: Some(false), receipt_sha256, ..outcome })
    }

    fn versions<'a>(&'a self, shared: &'a SideBySide, replaced: &'a Replaced<'a>) -> Versions<'a> {
        Versions { place: self.workspace.versions(), occasion: &self.occasion, replaced, shared }
    }

    fn replaced<'a>(&'a self, contents: &'a Kept<'a>) -> Replaced<'a> {
        let (folder, batch) = (self.workspace.replaced(), self.occasion.execution_id.as_str());
        Replaced { folder, batch, round: self.round, contents }
    }

    /// What a person has decided, so that it can be decided otherwise.
    fn settled(
        &self,
        contributions: &[Contribution],
        contents: &Kept<'_>,
    ) -> Result<Vec<ConflictBrief>, Fault> {
        if self.choices.is_empty() {
            return Ok(Vec::new());
        }
        let (undecided, _) = self.plan(contributions, Choices::new(), contents)?;
        let Planned::Conflicted(undecided) = undecided else { return Ok(Vec::new()) };
        let decided =
            undecided.report.conflicts.iter().filter(|conflict| self.choices.contains_key(&conflict.id));
        Ok(decided.take(CONFLICTS_LISTED_MAX).map(brief).collect())
    }

    /// The conflicts whose decision made a tree that is not valid, or all of them where that cannot be told: a slip of
    /// a person's must not cost the agents' work. `None` where nothing was decided.
    fn to_decide_again(
        &self,
        contributions: &[Contribution],
        findings: &[merge::Finding],
        contents: &Kept<'_>,
    ) -> Result<Option<Conflicted>, Fault> {
        let (undecided, _) = self.plan(contributions, Choices::new(), contents)?;
        let Planned::Conflicted(undecided) = undecided else { return Ok(None) };
        if self.choices.is_empty() {
            return Ok(None);
        }
        let is_wrong =
            |path: &TreePath| findings.iter().any(|finding| finding.is_error && finding.path == *path);
        let wrong = undecided.report.conflicts.iter().filter(|conflict| is_wrong(&conflict.path));
        let wrong: BTreeSet<&String> = wrong.map(|conflict| &conflict.id).collect();
        let mut rest = self.choices.clone();
        rest.retain(|id, _| !wrong.contains(id));
        if rest.len() == self.choices.len() {
            return Ok(Some(undecided));
        }
        let (planned, _) = self.plan(contributions, rest, contents)?;
        Ok(Some(if let Planned::Conflicted(conflicted) = planned { conflicted } else { undecided }))
    }

    pub(super) fn read_before(&self) -> Result<Scan, Fault> {
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

    fn publish(&self, merge: &Merge, replaced: &Replaced<'_>) -> Result<MergeOutcome, Fault> {
        assert_directory(self.workspace.root())?;
        // The receipt stands before the tree does: a tree without one would be nobody's.
        let receipt = self.write_receipt(merge.receipt())?;
        let place = self.workspace.merged();
        replaced.keep(&place)?;
        merge::publish(merge, &place, replaced.contents, &RealTreeDisk)?;
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
            settled: Vec::new(),
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

    fn tell_conflicts(
        &self,
        conflicted: &mut Conflicted,
        versions: &Versions<'_>,
    ) -> Result<MergeOutcome, Fault> {
        versions.lay_out(&mut conflicted.report.conflicts)?;
        self.write(&self.workspace.conflicts(), &conflicted.report.to_json())?;
        let receipt = self.write_receipt(&conflicted.receipt)?;
        let conflicts = &conflicted.report.conflicts;
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
        let mut before = self.read_before()?;
        let scope = Scope::new(&self.roots, &self.aside)?;
        before.manifest.retain(|path, _| !scope.sets_aside(path));
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
pub(super) fn assert_directory(dir: &Path) -> Result<(), Fault> {
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

fn brief(conflict: &merge::Conflict) -> ConflictBrief {
    ConflictBrief {
        id: conflict.id.clone(),
        class: word(&conflict.class),
        path: conflict.path.to_string(),
        agents: conflict.agents.clone(),
        message: message_of(conflict),
        choices: conflict.choices.clone(),
    }
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
