//! Another try of what had ended: the task itself, and whoever was skipped because of it.

use super::{BatchState, Outcome, Phase, TaskIx};
use crate::model::clock::{Tick, WallTime};
use crate::model::id::Attempt;
use crate::model::reason::Reason;

impl BatchState {
    /// Takes a task up again, with a fresh count of retries.
    pub(super) fn try_again(&mut self, ix: TaskIx, now: Tick, at: WallTime) {
        match &self.tasks[ix].phase {
            Phase::Done(Outcome::Succeeded) => return,
            Phase::Done(_) => self.unsettle(ix),
            Phase::Awaiting { .. } => {
                self.awaiting.remove(&ix);
                self.close_awaited_try(ix, at);
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

    /// Notes whether something that a task depends on has ended without success.
    fn judge_hope(&mut self, ix: TaskIx) {
        if !self.tasks[ix].is_done() && self.has_failed_dependency(ix) {
            self.doomed.insert(ix);
        } else {
            self.doomed.remove(&ix);
        }
    }

    /// A person says that what nobody could confirm is gone.
    fn close_awaited_try(&mut self, ix: TaskIx, at: WallTime) {
        if let Some(last) = self.tasks[ix].tries.last_mut() {
            last.ended_at = Some(at);
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
