//! How one event changes a batch's state. The only place where a phase is assigned.

use std::sync::Arc;

use super::{BatchState, Collected, LateResult, Outcome, Phase, TaskIx, Try, Unconfirmed};
use crate::model::clock::{Tick, WallTime};
use crate::model::defect::Defect;
use crate::model::event::{Entry, Event, LateBecause, Sign};
use crate::model::handoff::Work;
use crate::model::id::{Attempt, TaskKey};
use crate::model::reason::Reason;

/// A journal line that does not fit what came before it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FoldError {
    #[error("line {seq} speaks of task '{task}', which this batch does not have")]
    UnknownTask { seq: u64, task: TaskKey },
    #[error("line {seq} does not follow line {after}")]
    OutOfOrder { seq: u64, after: u64 },
}

impl BatchState {
    /// Folds one journal line into the state.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), FoldError> {
        self.apply_event(&entry.event, entry.clock, entry.at)
            .map_err(|task| FoldError::UnknownTask { seq: entry.seq, task })
    }

    /// Folds an event that was just decided. `Err` names a task that the batch does not have.
    pub fn apply_event(&mut self, event: &Event, now: Tick, at: WallTime) -> Result<(), TaskKey> {
        if let Some(key) = event.task() {
            let is_new = matches!(event, Event::Joined { .. } | Event::SpecRefused { .. });
            match self.find_key(key) {
                Some(task) if is_new => self.apply_corrected(task, event, now),
                Some(task) => self.apply_to_task(task, event, now, at),
                None if is_new => self.apply_new(event, now, at),
                None => return Err(key.clone()),
            }
        } else {
            self.apply_to_batch(event, now, at);
        }
        Ok(())
    }

    fn apply_to_batch(&mut self, event: &Event, now: Tick, at: WallTime) {
        match event {
            Event::Accepted { .. } => {
                self.accepted_at = at;
                self.accepted_clock = now;
                self.last_joined = now;
            }
            Event::SelfSuspected { silent, until, .. } => {
                self.suspicions += 1;
                for key in silent {
                    if let Some(task) = self.find(key.as_str()) {
                        self.tasks[task].reprieve = Some((now, *until));
                    }
                }
            }
            Event::PauseAsked { by, .. } => self.paused = Some(by.clone()),
            Event::ResumeAsked { .. } => self.paused = None,
            Event::Reopened { .. } => {
                self.finished = None;
                self.paused = None;
                self.cancel = None;
                self.timed_out = false;
                if let Some(handoff) = &mut self.handoff {
                    handoff.not_prepared = None;
                    handoff.merged = None;
                }
                self.accepted_clock = now;
                self.last_joined = now;
            }
            Event::CancelAsked { by, why } => {
                self.cancel = Some(Reason::Cancelled { by: by.clone(), why: why.clone() });
            }
            Event::OutOfTime { .. } => self.timed_out = true,
            Event::Finished { status } => self.finished = Some((*status, at)),
            _ => {
                self.apply_to_handoff(event);
                self.note_work(event, at);
            }
        }
    }

    fn apply_to_handoff(&mut self, event: &Event) {
        let Some(handoff) = &mut self.handoff else { return };
        match event {
            Event::Preparing => handoff.preparing = true,
            Event::Prepared { prepared } => {
                handoff.preparing = false;
                handoff.prepared = Some(prepared.clone());
            }
            Event::NotPrepared { why } => {
                handoff.preparing = false;
                handoff.not_prepared = Some(why.clone());
            }
            Event::ResolveAsked { choices, .. } => handoff.choices.extend(choices.clone()),
            Event::Merging { round } => {
                handoff.merging = Some(*round);
                handoff.rounds = *round;
            }
            Event::Merged { outcome, .. } => {
                handoff.merging = None;
                handoff.merged = Some((**outcome).clone());
            }
            _ => {}
        }
    }

    /// Keeps when the slow work beside the tasks was under way.
    fn note_work(&mut self, event: &Event, at: WallTime) {
        let Some(handoff) = &mut self.handoff else { return };
        let begun = |round| Work { round, began_at: at, ended_at: None };
        match event {
            Event::Preparing => handoff.works.push(begun(None)),
            Event::Merging { round } => handoff.works.push(begun(Some(*round))),
            Event::Prepared { .. } | Event::NotPrepared { .. } | Event::Merged { .. } => {
                if let Some(last) = handoff.works.last_mut() {
                    last.ended_at = Some(at);
                }
            }
            _ => {}
        }
    }

    fn apply_new(&mut self, event: &Event, now: Tick, at: WallTime) {
        self.last_joined = now;
        match event {
            Event::Joined { task } => self.add(Arc::new((**task).clone())),
            Event::SpecRefused { task, sha256, defects } => {
                self.add(Arc::new(crate::model::task::Task::refused(task)));
                let ix = self.tasks.len() - 1;
                self.tasks[ix].refused_spec = Some(sha256.clone());
                self.end(ix, Outcome::Failed(Reason::SpecRefused { defects: defects.clone() }), now, at);
            }
            _ => {}
        }
    }

    fn apply_to_task(&mut self, ix: TaskIx, event: &Event, now: Tick, at: WallTime) {
        let ends =
            matches!(event, Event::Succeeded { .. } | Event::AttemptFailed { .. } | Event::Abandoned { .. });
        if ends && self.tasks[ix].is_done() {
            // What has ended cannot end again.
            return;
        }
        match event {
            Event::Offered { attempt, .. } => self.offer(ix, *attempt, now, at),
            Event::Started { attempt, sign, .. } => {
                self.run(ix, *attempt, now);
                if let Some(last) = self.tasks[ix].tries.last_mut() {
                    last.started = Some((at, sign.clone()));
                }
            }
            Event::Launched { attempt, agent, launcher, .. } => {
                self.offer(ix, *attempt, now, at);
                self.run(ix, *attempt, now);
                if let Some(last) = self.tasks[ix].tries.last_mut() {
                    let sign = Sign::Launch { agent: agent.clone(), launcher: launcher.clone() };
                    last.started = Some((at, sign));
                }
            }
            Event::Begun { .. } | Event::Exited { .. } => self.note_of_runner(ix, event),
            Event::Baselined { sha256, .. } => self.tasks[ix].baseline = Some(sha256.clone()),
            Event::Ending { attempt, because, .. } => {
                self.rest(ix, now);
                let since = match self.tasks[ix].phase {
                    Phase::Ending { since, .. } => since,
                    _ => now,
                };
                self.tasks[ix].phase = Phase::Ending { attempt: *attempt, since, because: because.clone() };
            }
            Event::Unconfirmed { attempt, why, suspects, .. } => {
                let unconfirmed = Unconfirmed { why: why.clone(), suspects: suspects.clone() };
                self.await_person(ix, *attempt, unconfirmed, now);
            }
            Event::RetryAsked { .. } => self.try_again(ix, now, at),
            Event::ResultRefused { defects, .. } => self.tasks[ix].refusal = Some(defects.clone()),
            Event::Collected { .. } => self.collect(ix, event, now),
            Event::Succeeded { .. } => {
                self.close_try(ix, now, at, None);
                self.end(ix, Outcome::Succeeded, now, at);
            }
            Event::AttemptFailed { attempt, because, retry_at, .. } => {
                self.note_confirmed(ix, because);
                self.close_try(ix, now, at, Some(because.clone()));
                match retry_at {
                    Some(until) => self.back_off(ix, *attempt, *until, now),
                    None => self.end(ix, unsuccessful(because), now, at),
                }
            }
            Event::Abandoned { because, .. } => self.end(ix, unsuccessful(because), now, at),
            Event::Late { attempt, sha256, because, .. } => {
                self.note_misdirected(ix, *attempt, because);
                self.late.push(LateResult {
                    task: ix,
                    attempt: *attempt,
                    sha256: sha256.clone(),
                    because: because.clone(),
                    at,
                });
            }
            _ => {}
        }
    }

    /// Who the runner of the last attempt is, and how its agent ended.
    fn note_of_runner(&mut self, ix: TaskIx, event: &Event) {
        match event {
            Event::Exited { exit } => self.tasks[ix].note_exit(exit),
            Event::Begun { attempt, runner, .. } => {
                let last = self.tasks[ix].tries.last_mut().filter(|last| last.attempt == *attempt);
                if let Some(last) = last {
                    last.runner = Some(runner.clone());
                }
            }
            _ => {}
        }
    }

    /// Earlier attempts of ours are gone for certain: a result for another attempt comes from the current one, which
    /// has said nothing valid with it.
    fn note_misdirected(&mut self, ix: TaskIx, said: Option<Attempt>, because: &LateBecause) {
        let (Some(said), LateBecause::OtherAttempt { current }) = (said, because) else { return };
        let task = &mut self.tasks[ix];
        if task.is_ours() && task.live_attempt() == Some(*current) {
            task.refusal = Some(vec![Defect::field(
                "wrong_attempt",
                "attempt",
                format!("is {said}, but attempt {current} is current; the result was put into late/"),
                format!("write \"attempt\": {current}"),
            )]);
        }
    }

    fn await_person(&mut self, ix: TaskIx, attempt: Attempt, unconfirmed: Unconfirmed, now: Tick) {
        self.rest(ix, now);
        self.leave_live(ix);
        self.awaiting.insert(ix);
        if let Phase::Ending { because, .. } = self.tasks[ix].phase.clone()
            && let Some(last) = self.tasks[ix].tries.last_mut()
        {
            last.failed_because = Some(because);
        }
        self.tasks[ix].phase = Phase::Awaiting { attempt, why: unconfirmed.why.clone() };
        if let Some(last) = self.tasks[ix].tries.last_mut() {
            last.unconfirmed = Some(unconfirmed);
        }
    }

    fn collect(&mut self, ix: TaskIx, event: &Event, now: Tick) {
        let Event::Collected { attempt, sha256, unfenced, inline, tokens_used, verdict, .. } = event else {
            return;
        };
        let spent = &mut self.tasks[ix].tokens_spent;
        *spent = spent.saturating_add(tokens_used.unwrap_or(0));
        self.tasks[ix].collected = Some(Collected {
            attempt: *attempt,
            sha256: sha256.clone(),
            unfenced: *unfenced,
            inline: inline.clone(),
            verdict: verdict.clone(),
        });
        self.rest(ix, now);
        self.tasks[ix].phase = Phase::Claimed { attempt: *attempt };
    }

    fn offer(&mut self, ix: TaskIx, attempt: Attempt, now: Tick, at: WallTime) {
        self.ready.remove(&ix);
        self.startable.remove(&ix);
        self.leave_back_off(ix);
        if self.live.insert(ix) {
            self.started += usize::from(self.tasks[ix].is_ours());
        }
        for file in &self.tasks[ix].spec.files_modified {
            self.held_files.take(file, ix);
        }
        let task = &mut self.tasks[ix];
        task.phase = Phase::Offered { attempt, since: now };
        task.refusal = None;
        task.reprieve = None;
        task.collected = None;
        task.tries.push(Try {
            attempt,
            offered_at: at,
            started: None,
            ended_at: None,
            offered_tick: now,
            ended_tick: None,
            failed_because: None,
            runner: None,
            exit: None,
            unconfirmed: None,
        });
    }

    fn run(&mut self, ix: TaskIx, attempt: Attempt, now: Tick) {
        let stage = self.stage_of(ix);
        self.stages[stage].task_runs(now);
        self.tasks[ix].phase = Phase::Running { attempt, since: now };
    }

    /// Stops the stage's clock for this task, if it ran.
    fn rest(&mut self, ix: TaskIx, now: Tick) {
        if matches!(self.tasks[ix].phase, Phase::Running { .. }) {
            let stage = self.stage_of(ix);
            self.stages[stage].task_rests(now);
        }
    }

    fn back_off(&mut self, ix: TaskIx, attempt: Attempt, until: Tick, now: Tick) {
        self.rest(ix, now);
        self.leave_live(ix);
        self.awaiting.remove(&ix);
        self.backing_off.insert((until, ix));
        self.tasks[ix].phase = Phase::BackingOff { next: attempt.next(), until };
    }

    fn leave_live(&mut self, ix: TaskIx) {
        if self.live.remove(&ix) {
            self.started -= usize::from(self.tasks[ix].is_ours());
        }
    }

    pub(super) fn leave_back_off(&mut self, ix: TaskIx) {
        if let Phase::BackingOff { until, .. } = self.tasks[ix].phase {
            self.backing_off.remove(&(until, ix));
        }
    }

    /// An awaited attempt that ends for its own reason was seen to be gone; one that somebody gives up was not.
    fn note_confirmed(&mut self, ix: TaskIx, because: &Reason) {
        let Some(last) = self.tasks[ix].tries.last_mut() else { return };
        if *because == last.awaited_reason() {
            last.unconfirmed = None;
        }
    }

    fn close_try(&mut self, ix: TaskIx, now: Tick, at: WallTime, because: Option<Reason>) {
        if let Some(last) = self.tasks[ix].tries.last_mut() {
            (last.ended_at, last.ended_tick) = (Some(at), Some(now));
            last.failed_because = because;
        }
    }

    fn end(&mut self, ix: TaskIx, outcome: Outcome, now: Tick, at: WallTime) {
        self.rest(ix, now);
        self.ready.remove(&ix);
        self.startable.remove(&ix);
        self.awaiting.remove(&ix);
        self.leave_live(ix);
        self.doomed.remove(&ix);
        self.leave_back_off(ix);
        for file in &self.tasks[ix].spec.files_modified {
            self.held_files.release(file, ix);
        }
        let succeeded = outcome == Outcome::Succeeded;
        let stage = self.stage_of(ix);
        self.stages[stage].ended += 1;
        self.stages[stage].succeeded += usize::from(succeeded);
        self.timed_out |= matches!(&outcome, Outcome::TimedOut(Reason::BatchTimeout { .. }));
        self.unsettled -= 1;
        self.tasks[ix].phase = Phase::Done(outcome);
        self.tasks[ix].ended_at = Some(at);
        for dependent in self.tasks[ix].dependents.clone() {
            if succeeded {
                self.meet(dependent);
            } else if !self.tasks[dependent].is_done() {
                self.doomed.insert(dependent);
            }
        }
    }

    /// One dependency of a waiting task has succeeded.
    fn meet(&mut self, ix: TaskIx) {
        let Phase::Waiting { unmet } = &mut self.tasks[ix].phase else { return };
        *unmet -= 1;
        if *unmet == 0 {
            self.become_ready(ix);
        }
    }

    pub(super) fn become_ready(&mut self, ix: TaskIx) {
        self.tasks[ix].phase = Phase::Ready;
        let list = if self.tasks[ix].is_ours() { &mut self.startable } else { &mut self.ready };
        list.insert(ix);
    }

    pub(super) fn stage_of(&self, ix: TaskIx) -> usize {
        self.tasks[ix].spec.stage.max(1) as usize - 1
    }
}

/// The ending that a reason means.
fn unsuccessful(because: &Reason) -> Outcome {
    match because {
        Reason::DependencyFailed { .. } | Reason::DependencyMissing { .. } => {
            Outcome::Skipped(because.clone())
        }
        Reason::Cancelled { .. } => Outcome::Cancelled(because.clone()),
        timeout if timeout.is_timeout() => Outcome::TimedOut(because.clone()),
        _ => Outcome::Failed(because.clone()),
    }
}
