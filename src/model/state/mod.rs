//! The state of a batch: the fold of its journal, and nothing else.
//!
//! `decide` and a restarted watcher both reach it through `apply`, so they cannot disagree. The indexes
//! beside the tasks (ready, live, doomed …) keep a turn's cost independent of the batch's size.

mod apply;
mod evidence;
mod held;
mod revive;
mod stage;
mod task;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::batch::{Batch, OnFileConflict};
use super::clock::{Tick, WallTime};
use super::event::{BatchStatus, LateBecause};
use super::handoff::{HandoffState, MergeStatus};
use super::id::{Attempt, TaskKey};
use super::reason::Reason;
use super::task::Task;

use held::HeldPlaces;

pub use apply::FoldError;
pub use stage::StageClock;
pub use task::{Collected, Outcome, Phase, TaskState, Try, Unconfirmed};

/// A task's place in its batch.
pub type TaskIx = usize;

/// A result that was put aside.
#[derive(Debug, Clone, PartialEq)]
pub struct LateResult {
    pub task: TaskIx,
    pub attempt: Option<Attempt>,
    pub sha256: String,
    pub because: LateBecause,
    pub at: WallTime,
}

/// Everything that is decided about one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchState {
    pub batch: Arc<Batch>,
    pub tasks: Vec<TaskState>,
    by_key: HashMap<TaskKey, TaskIx>,
    by_name: HashMap<String, TaskIx>,
    /// Dependencies met, not yet offered to outsiders.
    pub ready: BTreeSet<TaskIx>,
    /// Dependencies met, not yet started by us.
    pub startable: BTreeSet<TaskIx>,
    /// Offered, running, claimed or ending.
    pub live: BTreeSet<TaskIx>,
    /// How many of the live ones we started.
    pub started: usize,
    /// Nobody can tell whether they are gone: a person decides.
    pub awaiting: BTreeSet<TaskIx>,
    pub backing_off: BTreeSet<(Tick, TaskIx)>,
    /// Not yet ended, though something that it depends on ended without success.
    pub doomed: BTreeSet<TaskIx>,
    /// Which task holds a file that conflicts, from its first offer to its end.
    held_files: HeldPlaces,
    /// In an open batch: who waits for a spec that has not come yet.
    awaited: HashMap<String, Vec<TaskIx>>,
    pub stages: Vec<StageClock>,
    pub unsettled: usize,
    pub accepted_at: WallTime,
    pub accepted_clock: Tick,
    /// When the last spec joined an open batch.
    pub last_joined: Tick,
    pub cancel: Option<Reason>,
    /// Who asked that nothing further begin.
    pub paused: Option<String>,
    pub timed_out: bool,
    pub finished: Option<(BatchStatus, WallTime)>,
    /// Where the batch was handed over: how its preparation and its merge stand.
    pub handoff: Option<HandoffState>,
    pub late: Vec<LateResult>,
    pub suspicions: usize,
}

impl BatchState {
    pub fn new(batch: Arc<Batch>) -> Self {
        let mut state = BatchState {
            accepted_at: batch.accepted_at,
            tasks: Vec::with_capacity(batch.tasks.len()),
            by_key: HashMap::with_capacity(batch.tasks.len()),
            by_name: HashMap::with_capacity(batch.tasks.len() * 2),
            ready: BTreeSet::new(),
            startable: BTreeSet::new(),
            live: BTreeSet::new(),
            started: 0,
            awaiting: BTreeSet::new(),
            backing_off: BTreeSet::new(),
            doomed: BTreeSet::new(),
            held_files: HeldPlaces::default(),
            awaited: HashMap::new(),
            stages: Vec::new(),
            unsettled: 0,
            accepted_clock: Tick(0),
            last_joined: Tick(0),
            cancel: None,
            paused: None,
            timed_out: false,
            finished: None,
            handoff: batch.handoff.as_ref().map(|_| HandoffState::default()),
            late: Vec::new(),
            suspicions: 0,
            batch,
        };
        for task in &state.batch.clone().tasks {
            state.add(Arc::new(task.clone()));
        }
        state
    }

    /// Finds a task by key or task id.
    pub fn find(&self, name: &str) -> Option<TaskIx> {
        self.by_name.get(name).copied()
    }

    /// Finds a task by its key alone: what files and journal lines name it by.
    pub fn find_key(&self, key: &TaskKey) -> Option<TaskIx> {
        self.by_key.get(key).copied()
    }

    pub fn key(&self, task: TaskIx) -> &TaskKey {
        &self.tasks[task].spec.key
    }

    /// Whether nothing more can happen in this batch but its end.
    pub fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Whether nothing more happens before a person has said something.
    pub fn awaits_a_person(&self) -> bool {
        let is_asked = !self.awaiting.is_empty() || self.awaits_resolution();
        is_asked
            && self.live.is_empty()
            && self.ready.is_empty()
            && self.startable.is_empty()
            && self.backing_off.is_empty()
    }

    /// Whether conflicts between outputs wait for a person.
    pub fn awaits_resolution(&self) -> bool {
        self.handoff.as_ref().is_some_and(HandoffState::awaits_resolution)
    }

    /// Whether agents may begin: a handed-over batch has to be prepared first.
    pub fn may_begin(&self) -> bool {
        self.handoff.as_ref().is_none_or(|handoff| handoff.prepared.is_some())
    }

    /// Whether what the agents made could not be merged.
    fn has_failed_merge(&self) -> bool {
        let merged = self.handoff.as_ref().and_then(|handoff| handoff.merged.as_ref());
        merged.is_some_and(|merged| {
            matches!(merged.status, MergeStatus::Failure | MergeStatus::AwaitsResolution)
        })
    }

    /// Whether everybody did their part and the whole is not as it must be.
    fn has_failed_validation(&self) -> bool {
        let mut validations = self.tasks.iter().filter(|task| task.spec.is_validation());
        validations.any(|task| matches!(task.phase, Phase::Done(Outcome::Failed(_) | Outcome::TimedOut(_))))
    }

    /// How the batch ends, once all its tasks have: the first rule that fits. A batch that nobody gave a
    /// task achieved nothing, and is a failure. What the journal says of its end stands, whatever rules came later.
    pub fn status(&self) -> BatchStatus {
        if let Some((status, _)) = self.finished {
            return status;
        }
        let succeeded: usize = self.stages.iter().map(|stage| stage.succeeded).sum();
        if self.cancel.is_some() {
            BatchStatus::Cancelled
        } else if self.timed_out || self.has_stage_timeout() {
            BatchStatus::Timeout
        } else if succeeded == 0 || self.has_failed_merge() || self.has_failed_validation() {
            BatchStatus::Failure
        } else if succeeded == self.tasks.len() {
            BatchStatus::Success
        } else {
            BatchStatus::PartialSuccess
        }
    }

    /// Whether a stage used up its time, and its tasks were not taken up again.
    fn has_stage_timeout(&self) -> bool {
        let is_so = |task: &TaskState| {
            matches!(task.phase, Phase::Done(Outcome::TimedOut(Reason::StageTimeout { .. })))
        };
        self.tasks.iter().any(is_so)
    }

    /// The task that keeps this one from starting because both declare a file.
    pub fn held_back_by(&self, task: TaskIx) -> Option<TaskIx> {
        if self.batch.on_file_conflict != OnFileConflict::Serialise {
            return None;
        }
        let files = &self.tasks[task].spec.files_modified;
        files.iter().filter_map(|file| self.held_files.holder(file)).find(|holder| *holder != task)
    }

    /// Adds a task and links it with what it waits for and who waits for it.
    fn add(&mut self, spec: Arc<Task>) {
        let ix = self.tasks.len();
        let unmet = self.await_dependencies(ix, &spec);
        if unmet == 0 {
            let list = if spec.crew.is_some() { &mut self.startable } else { &mut self.ready };
            list.insert(ix);
        }
        self.admit_to_stage(&spec);
        self.unsettled += 1;
        self.by_key.insert(spec.key.clone(), ix);
        for name in [spec.key.as_str(), spec.task_id.as_str()] {
            self.by_name.entry(name.to_owned()).or_insert(ix);
        }
        let mut waiting = self.awaited.remove(spec.key.as_str()).unwrap_or_default();
        if spec.task_id != spec.key.as_str() {
            waiting.extend(self.awaited.remove(spec.task_id.as_str()).unwrap_or_default());
        }
        let phase = if unmet == 0 { Phase::Ready } else { Phase::Waiting { unmet } };
        self.tasks.push(TaskState::new(spec, phase, waiting));
    }

    /// Has what a task depends on tell it when it succeeds. Returns how many of them have not, and notes whether one
    /// never will.
    fn await_dependencies(&mut self, ix: TaskIx, spec: &Task) -> usize {
        let mut unmet = 0;
        for dependency in &spec.dependencies {
            match self.by_name.get(dependency.as_str()).copied() {
                Some(known) => match &self.tasks[known].phase {
                    Phase::Done(Outcome::Succeeded) => {}
                    phase => {
                        if matches!(phase, Phase::Done(_)) {
                            self.doomed.insert(ix);
                        }
                        unmet += 1;
                        self.tasks[known].dependents.push(ix);
                    }
                },
                None => {
                    unmet += 1;
                    self.awaited.entry(dependency.as_str().to_owned()).or_default().push(ix);
                }
            }
        }
        unmet
    }

    fn admit_to_stage(&mut self, spec: &Task) {
        let stage = spec.stage.max(1) as usize;
        if self.stages.len() < stage {
            self.stages.resize(stage, StageClock::default());
        }
        self.stages[stage - 1].admit(spec);
    }

    /// The dependencies of a task that have not succeeded, by name.
    pub fn unmet_dependencies(&self, task: TaskIx) -> Vec<&TaskKey> {
        let is_met = |name: &TaskKey| {
            self.find(name.as_str())
                .is_some_and(|ix| matches!(self.tasks[ix].phase, Phase::Done(Outcome::Succeeded)))
        };
        self.tasks[task].spec.dependencies.iter().filter(|name| !is_met(name)).collect()
    }

    /// Whether something that a task depends on has ended without success.
    pub fn has_failed_dependency(&self, task: TaskIx) -> bool {
        let ended = |name: &&TaskKey| self.find(name.as_str()).is_some_and(|ix| self.tasks[ix].is_done());
        self.unmet_dependencies(task).iter().any(ended)
    }

    /// A dependency whose spec has not come.
    pub fn missing_dependency(&self, task: TaskIx) -> Option<&TaskKey> {
        self.tasks[task].spec.dependencies.iter().find(|name| self.find(name.as_str()).is_none())
    }

    /// The stage's limit: as set, or what its tasks may need with all their retries, one after the other.
    pub fn stage_limit(&self, stage: usize) -> super::clock::Seconds {
        self.batch.stage_timeout.unwrap_or(self.stages[stage].whole_need)
    }
}
