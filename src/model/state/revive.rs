//! Another try of what had ended: the task itself, and whoever was skipped because of it; and a spec that was corrected.

use std::sync::Arc;

use super::{BatchState, Outcome, Phase, TaskIx, TaskState};
use crate::model::clock::{Tick, WallTime};
use crate::model::defect::Defect;
use crate::model::event::Event;
use crate::model::id::Attempt;
use crate::model::reason::Reason;
use crate::model::task::Task;

impl BatchState {
    /// Takes a task up again, with a fresh count of retries.
    pub(super) fn try_again(&mut self, ix: TaskIx, now: Tick, at: WallTime) {
        match &self.tasks[ix].phase {
            Phase::Done(Outcome::Succeeded) => return,
            Phase::Done(_) => self.unsettle(ix),
            Phase::Awaiting { .. } => {
                self.awaiting.remove(&ix);
                self.close_awaited_try(ix, now, at);
            }
            Phase::BackingOff { .. } => self.leave_back_off(ix),
            Phase::Waiting { .. }
            | Phase::Ready
            | Phase::Offered { .. }
            | Phase::Running { .. }
            | Phase::Claimed { .. }
            | Phase::Ending { .. } => return,
        }
        self.tasks[ix].tries_before = self.tasks[ix].tries.len();
        self.tasks[ix].collected = None;
        let stage = self.stage_of(ix);
        self.stages[stage].restart(now);
        self.begin_anew(ix, now);
        self.judge_hope(ix);
        for dependent in self.tasks[ix].dependents.clone() {
            self.revive_skipped(dependent);
            self.judge_hope(dependent);
        }
    }

    /// Somebody dropped a spec again that had been refused.
    pub(super) fn apply_corrected(&mut self, ix: TaskIx, event: &Event, now: Tick) {
        match event {
            Event::Joined { task } => self.join_corrected(ix, Arc::new((**task).clone()), now),
            Event::SpecRefused { sha256, defects, .. } => self.refuse_again(ix, sha256, defects, now),
            _ => {}
        }
    }

    /// A corrected spec takes the place of one that was refused. The refused one stays counted as an end of its stage.
    fn join_corrected(&mut self, ix: TaskIx, spec: Arc<Task>, now: Tick) {
        if !self.tasks[ix].is_refused() {
            return;
        }
        self.last_joined = now;
        self.unsettled += 1;
        self.admit_to_stage(&spec);
        self.by_name.entry(spec.task_id.clone()).or_insert(ix);
        let mut dependents = std::mem::take(&mut self.tasks[ix].dependents);
        dependents.extend(self.awaited.remove(spec.task_id.as_str()).unwrap_or_default());
        let unmet = self.await_dependencies(ix, &spec);
        self.tasks[ix] = TaskState::new(spec, Phase::Waiting { unmet }, dependents.clone());
        if unmet == 0 {
            self.become_ready(ix);
        }
        self.judge_hope(ix);
        for dependent in dependents {
            self.revive_skipped(dependent);
            self.judge_hope(dependent);
        }
    }

    /// The corrected spec is wrong as well.
    fn refuse_again(&mut self, ix: TaskIx, sha256: &str, defects: &[Defect], now: Tick) {
        if self.tasks[ix].is_refused() {
            self.last_joined = now;
            self.tasks[ix].phase =
                Phase::Done(Outcome::Failed(Reason::SpecRefused { defects: defects.to_vec() }));
            self.tasks[ix].refused_spec = Some(sha256.to_owned());
        }
    }

    /// Notes whether something that a task depends on has ended without success.
    fn judge_hope(&mut self, ix: TaskIx) {
        if !self.tasks[ix].is_done() && self.has_failed_dependency(ix) {
            self.doomed.insert(ix);
        } else {
            self.doomed.remove(&ix);
        }
    }

    /// A person says that what nobody could confirm is gone.
    fn close_awaited_try(&mut self, ix: TaskIx, now: Tick, at: WallTime) {
        if let Some(last) = self.tasks[ix].tries.last_mut() {
            (last.ended_at, last.ended_tick) = (Some(at), Some(now));
            last.failed_because.get_or_insert(Reason::ToldGone);
        }
    }

    /// What was skipped waits again, and whoever was skipped with it.
    fn revive_skipped(&mut self, ix: TaskIx) {
        if !matches!(&self.tasks[ix].phase, Phase::Done(Outcome::Skipped(_))) {
            return;
        }
        if self.has_failed_dependency(ix) {
            return;
        }
        self.unsettle(ix);
        self.tasks[ix].phase = Phase::Waiting { unmet: self.unmet_dependencies(ix).len() };
        for dependent in self.tasks[ix].dependents.clone() {
            self.revive_skipped(dependent);
        }
    }

    /// Takes back that the task has ended.
    fn unsettle(&mut self, ix: TaskIx) {
        let stage = self.stage_of(ix);
        self.stages[stage].ended -= 1;
        self.unsettled += 1;
        self.tasks[ix].ended_at = None;
    }

    /// The next attempt at once, or the dependencies first where they have not succeeded.
    fn begin_anew(&mut self, ix: TaskIx, now: Tick) {
        let unmet = self.unmet_dependencies(ix).len();
        let last = self.tasks[ix].tries.last().map(|last| last.attempt);
        match (unmet, last) {
            (0, None) => self.become_ready(ix),
            (0, Some(last)) => {
                self.backing_off.insert((now, ix));
                self.tasks[ix].phase = Phase::BackingOff { next: Attempt::next(last), until: now };
            }
            _ => self.tasks[ix].phase = Phase::Waiting { unmet },
        }
    }
}
