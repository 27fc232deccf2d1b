//! A batch that has ended, checked again: what we wrote down then is as the journal says, what its tasks named is
//! there now, and the commands that decide its criteria say so once more.

use std::path::{Path, PathBuf};

use super::{Commands, NoWayBack, checkpoint_of, left_by};
use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::bus::{self, Content, Disk, Layout, RealDisk};
use crate::model::declared::covers;
use crate::model::event::BatchStatus;
use crate::model::evidence::{About, Change};
use crate::model::handoff::{Assignment, Criterion, Handoff};
use crate::model::state::{BatchState, Outcome, TaskIx, TaskState};
use crate::model::tree::Entry;
use crate::model::workspace::WorkspacePaths;
use crate::model::{Claim, Finding, Grade, TaskKey, Verdict};
use crate::verify::outputs::{self, Ground};
use crate::verify::{self, criteria, still_there};
use crate::view::words::{batch_shown, counted};
use crate::watcher::{handed, work};
use crate::work_tree::{Changed, Scan, Scope, difference, scan};

/// A runner's finding or a merge's receipt: a line for each file.
const PAPER_BYTES_MAX: u64 = 256 << 20;
/// Most changes that are told; people want to know that there are more, not all of them.
const CHANGES_LISTED_MAX: usize = 50;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Again {
    /// Papers of ours, held against the journal.
    pub records: Vec<Finding>,
    pub tasks: Vec<TaskAgain>,
    /// What in the batch's trees is not as it left them. `None` where nobody looked at its end.
    pub changed_since: Option<Vec<String>>,
}

/// What was found about one task. One that did not succeed has nothing to hold.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskAgain {
    pub task: TaskKey,
    pub name: String,
    /// What stood behind its success then.
    pub then: Option<Grade>,
    pub findings: Vec<Finding>,
    /// By which rules it was graded then.
    rules: Verdict,
}

impl TaskAgain {
    /// What stands behind it now.
    pub fn now(&self) -> Option<Grade> {
        self.then?;
        Some(Verdict { findings: self.findings.clone(), ..self.rules.clone() }.grade())
    }
}

impl Again {
    pub fn unmet(&self) -> usize {
        self.findings().filter(|finding| !finding.met).count()
    }

    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.records.iter().chain(self.tasks.iter().flat_map(|task| &task.findings))
    }
}

/// A batch, and what its tasks said.
pub struct Verification<'a> {
    pub layout: &'a Layout,
    pub paths: &'a BatchPaths,
    pub state: &'a BatchState,
    pub claims: &'a std::collections::HashMap<TaskIx, Claim>,
    /// `None`: commands are not run, and what they decide is a claim.
    pub commands: Option<&'a Commands<'a>>,
}

impl Verification<'_> {
    /// Everything, task by task. `None` if it was to leave off.
    pub fn carry_out(&self, mut tell: impl FnMut(&str)) -> Result<Option<Again>, NoWayBack> {
        tell("records");
        let mut records = vec![self.ending()];
        records.extend(self.records()?);
        let mut tasks = Vec::new();
        for (ix, task) in self.state.tasks.iter().enumerate() {
            tell(task.spec.label());
            match self.task(ix, task)? {
                Some(found) => tasks.push(found),
                None => return Ok(None),
            }
        }
        let changed = self.changed_since()?;
        records.extend(self.left_of_it(changed.as_deref()));
        let listed = |changed: Vec<Changed>| changed.iter().take(CHANGES_LISTED_MAX).map(shown).collect();
        Ok(Some(Again { records, tasks, changed_since: changed.map(listed) }))
    }

    /// Whether another task of the batch was to remove what stood there.
    fn is_deleted_by_another(&self, ix: TaskIx, seen: &Finding) -> bool {
        let others =
            self.state.tasks.iter().enumerate().filter(|(other, task)| *other != ix && has_succeeded(task));
        others.flat_map(|(_, task)| &task.spec.files_deleted).any(|place| covers(place, &seen.subject))
    }

    /// A batch that did not succeed holds nothing.
    fn ending(&self) -> Finding {
        let status = self.state.status();
        let saw = format!("ended with {}", batch_shown(status));
        Finding::new("the batch", Grade::Observed, status == BatchStatus::Success, saw)
    }

    /// Whether outputs and what was merged are as the batch left them. What came to lie beside them breaks nothing.
    fn left_of_it(&self, changed: Option<&[Changed]>) -> Option<Finding> {
        let handoff = self.state.batch.handoff.as_ref()?;
        let assignments = self.state.tasks.iter().filter_map(|task| task.spec.assignment.as_ref());
        let outputs = assignments.flat_map(|assignment| &assignment.outputs);
        let mut places: Vec<PathBuf> = outputs.map(|output| PathBuf::from(&output.path)).collect();
        places.extend(WorkspacePaths::new(&handoff.workspace).of_merge());
        let is_its = |path: &String| places.iter().any(|place| Path::new(path).starts_with(place));
        let touched = changed?.iter().filter(|change| !is_added(change)).map(shown).filter(is_its);
        let touched = touched.collect::<Vec<_>>();
        let saw = match touched.as_slice() {
            [] => "are as the batch left them".to_owned(),
            [only] => format!("{only} is gone or changed"),
            [first, rest @ ..] => format!("{first} and {} are gone or changed", counted(rest.len(), "other")),
        };
        let what = "outputs and what was merged";
        Some(Finding::new(what, Grade::Observed, touched.is_empty(), saw))
    }

    /// Whether the papers that the journal names by hash are those.
    fn records(&self) -> Result<Vec<Finding>, BusError> {
        let mut findings = Vec::new();
        for (ix, task) in self.state.tasks.iter().enumerate().filter(|(_, task)| has_succeeded(task)) {
            let name = task.spec.label();
            if task.collected.is_some() {
                let is_it = self.claims.contains_key(&ix);
                findings.push(record(&format!("the result of {name}"), is_it));
            }
            let last = task.tries.last();
            let inspected =
                last.and_then(|last| Some((last, last.exit.as_ref()?.inspected_sha256.as_ref()?)));
            if let Some((last, sha256)) = inspected {
                let path = self.paths.attempt(&task.spec.key, last.attempt).inspected();
                findings.push(record(&format!("what the runner of {name} found"), is_it(&path, sha256)?));
            }
        }
        findings.extend(self.checkpoint());
        let merged = self.state.handoff.as_ref().and_then(|handoff| handoff.merged.as_ref());
        let receipt = merged.and_then(|merged| merged.receipt_sha256.as_ref());
        if let (Some(sha256), Some(handoff)) = (receipt, &self.state.batch.handoff) {
            let is_it = is_receipt(&WorkspacePaths::new(&handoff.workspace), sha256)?;
            findings.push(record("the receipt of the merge", is_it));
        }
        Ok(findings)
    }

    /// Whether there is still a way back.
    fn checkpoint(&self) -> Option<Finding> {
        let prepared = self.state.handoff.as_ref()?.prepared.as_ref()?;
        prepared.manifest_sha256.as_ref()?;
        let found = checkpoint_of(&self.state.batch, self.state.batch.handoff.as_ref()?, Some(prepared));
        let whole = found.ok().filter(|(dir, checkpoint)| checkpoint.has_its_archive(dir));
        Some(record("the checkpoint", whole.is_some()))
    }

    fn task(&self, ix: TaskIx, task: &TaskState) -> Result<Option<TaskAgain>, NoWayBack> {
        let then = task.collected.as_ref().filter(|_| has_succeeded(task));
        let mut found = TaskAgain {
            task: task.spec.key.clone(),
            name: task.spec.label().to_owned(),
            then: then.map(|collected| collected.verdict.grade()),
            findings: Vec::new(),
            rules: then
                .map(|then| Verdict { findings: Vec::new(), ..then.verdict.clone() })
                .unwrap_or_default(),
        };
        if then.is_none() {
            return Ok(Some(found));
        }
        let unread = Claim::default();
        let claim = self.claims.get(&ix).unwrap_or(&unread);
        let handed_over = self.state.batch.handoff.as_ref().zip(task.spec.assignment.as_deref());
        let root = handed_over.map_or(self.layout.root(), |(handoff, _)| Path::new(&handoff.workspace));
        found.findings = still_there(&RealDisk::default(), root, claim);
        let seen = then.iter().flat_map(|then| then.verdict.about(About::Declared));
        found
            .findings
            .extend(seen.map(|seen| declared_now(root, seen, self.is_deleted_by_another(ix, seen))));
        let criteria = match handed_over {
            Some((handoff, assignment)) => {
                found.findings.extend(self.outputs(handoff, assignment)?);
                assignment.criteria.clone()
            }
            None => task.spec.gates_with_commands().collect(),
        };
        let Some(decided) = self.decided(task, &criteria)? else { return Ok(None) };
        found.findings.extend(decided);
        found.findings.extend(criteria::by_word(&criteria, &found.findings, claim));
        let words = task.spec.validation_gates.iter().filter(|gate| gate.command.is_none());
        found
            .findings
            .extend(words.map(|gate| Finding::new(&gate.text, Grade::Claimed, true, "the agent's word")));
        Ok(Some(found))
    }

    /// What commands say now.
    fn decided(&self, task: &TaskState, criteria: &[Criterion]) -> Result<Option<Vec<Finding>>, BusError> {
        let checked: Vec<Criterion> = criteria.iter().filter(|one| one.check.is_some()).cloned().collect();
        match self.commands {
            Some(commands) if !checked.is_empty() => commands.run(self.paths, self.state, task, &checked),
            _ => Ok(Some(Vec::new())),
        }
    }

    fn outputs(&self, handoff: &Handoff, assignment: &Assignment) -> Result<Vec<Finding>, BusError> {
        let mut findings = Vec::new();
        for output in &assignment.outputs {
            let scope = Scope::new(&[PathBuf::from(&output.path)], &[])?;
            let now = scan(&scope)?;
            let place = scope.roots().first();
            findings.extend(place.map(|place| outputs::presence(&output.name, place, &now.manifest)));
        }
        let workspace = WorkspacePaths::new(&handoff.workspace);
        let aside = handed::aside(&workspace);
        let ground = Ground { workspace: workspace.root(), aside: &aside };
        match outputs::artifacts(ground, &assignment.required_artifacts, None) {
            Ok(artifacts) => findings.extend(artifacts.into_iter().map(|(finding, _)| finding)),
            Err(why) => findings.push(Finding::new("artifacts", Grade::Observed, false, why)),
        }
        Ok(findings)
    }

    fn changed_since(&self) -> Result<Option<Vec<Changed>>, NoWayBack> {
        let Some(handoff) = &self.state.batch.handoff else { return Ok(None) };
        let Some(left) = left_by(self.paths)? else { return Ok(None) };
        let scope = work::trees(self.layout, handoff, self.state)?;
        let now: Scan = scan(&scope)?;
        Ok(Some(difference(&left, &now.manifest)))
    }
}

fn shown(change: &Changed) -> String {
    format!("/{}", change.path)
}

/// Whether nothing was there that could be missed.
fn is_added(change: &Changed) -> bool {
    let is_directory = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
    change.before.is_none() || is_directory(&change.before) && is_directory(&change.after)
}

/// A declared place now: what was made there must be there, and what was deleted must not.
fn declared_now(root: &Path, seen: &Finding, is_deleted_later: bool) -> Finding {
    let is_there = verify::declared::stands(&RealDisk::default(), root, &seen.subject);
    let (met, saw) = match (seen.change, is_there) {
        (Some(Change::Deleted), false) => (true, "is gone, as it was to be"),
        (Some(Change::Deleted), true) => (false, "was deleted, and exists again"),
        (_, true) => (true, "exists"),
        // Nobody claimed more of it then.
        (Some(change), false) if !change.is_done() => (true, "was not made then either"),
        (_, false) if is_deleted_later => (true, "is gone, as another task was to delete it"),
        (_, false) => (false, "does not exist any more"),
    };
    Finding { met, saw: saw.to_owned(), ..seen.clone() }
}

fn has_succeeded(task: &TaskState) -> bool {
    task.outcome() == Some(&Outcome::Succeeded)
}

fn record(what: &str, is_it: bool) -> Finding {
    let saw = if is_it { "is as the journal says" } else { "is gone, or not what the journal says" };
    Finding::new(what, Grade::Observed, is_it, saw)
}

/// Whether the receipt is there, or where a later batch put it aside.
fn is_receipt(workspace: &WorkspacePaths, sha256: &str) -> Result<bool, BusError> {
    let put_aside = handed::put_aside(workspace).into_iter().map(|dir| WorkspacePaths::new(dir).receipt());
    for path in std::iter::once(workspace.receipt()).chain(put_aside) {
        if is_it(&path, sha256)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_it(path: &Path, sha256: &str) -> Result<bool, BusError> {
    let content = RealDisk::default().read(path, PAPER_BYTES_MAX).map_err(BusError::of("read", path))?;
    Ok(matches!(content, Content::Bytes { bytes, .. } if bus::sha256(&bytes) == sha256))
}
