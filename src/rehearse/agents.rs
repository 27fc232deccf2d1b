//! How scripted agents live in the world: what is put on the agenda when one begins, falls silent or is ended.
//!
//! Beats are not played one by one: those of an agent that is well are noted once, the others where a look
//! would have to see them.

use crate::decide::Glance;
use crate::decide::RUNNER_SLACK;
use crate::model::state::{Phase, TaskIx, TaskState};
use crate::model::{Attempt, Reason, Tick};

use super::fault::Fault;
use super::script::{Ends, Life, Script};
use super::world::{Concern, Happening, World};

/// So many attempts at once are very many.
const CROWD: usize = 1_000;
const CROWD_SCAN_MS: u64 = 5_000;
/// A beat that no moment of a rehearsal comes after.
const ALWAYS: u64 = u64::MAX / 2;

impl World<'_> {
    /// An agent begins: what lies before it is decided here.
    pub(super) fn live_through(&mut self, task: TaskIx, attempt: Attempt) {
        let spec = self.state.tasks[task].spec.clone();
        let is_ours = spec.crew.is_some();
        let fate = self.conditions.faults.fate(task, &spec, attempt);
        let timeout_ms = spec.limits.timeout.millis();
        let (life, midway_ms) = (Life::Beats, fate.takes_ms / 2);
        let mut script = Script { attempt, began_ms: self.wall_ms, life, judged_ms: 0 };
        let (ends, after_ms) = match fault_of(fate.fault, is_ours) {
            None | Some(Fault::Slow(_)) => (Some(Ends::Well), fate.takes_ms),
            Some(Fault::Fail) => (Some(Ends::Badly), fate.takes_ms),
            Some(Fault::Crash) => (Some(Ends::Gone), midway_ms),
            Some(Fault::NeverStart) => {
                script.life = Life::NeverBeats;
                (None, u64::MAX)
            }
            Some(Fault::Silent) => {
                let silence = Happening::FallsSilent(task, attempt);
                self.happenings.put(self.wall_ms + midway_ms, silence);
                (None, u64::MAX)
            }
        };
        match ends {
            Some(_) if is_ours && after_ms > timeout_ms => {
                let ends = Happening::Ends(task, attempt, Ends::OutOfTime);
                self.happenings.put(self.wall_ms + timeout_ms, ends);
            }
            Some(ends) => self.happenings.put(self.wall_ms + after_ms, Happening::Ends(task, attempt, ends)),
            None => {}
        }
        if after_ms > timeout_ms {
            self.judge_at(self.active_ms + timeout_ms + 1);
        }
        self.scripts.insert(task, script);
        self.watch_over(task);
    }

    /// Plans a look at everybody's limits. Among very many one look serves those of a few seconds, as it does
    /// in truth: there the watcher scans more rarely, too.
    pub(super) fn judge_at(&mut self, active_ms: u64) {
        let at = match self.state.live.len() > CROWD {
            true => active_ms.next_multiple_of(CROWD_SCAN_MS),
            false => active_ms,
        };
        self.concerns.put(at, Concern::Limits);
    }

    /// Sees to it that the task's beats are known, and its limit of silence is judged where it may matter.
    pub(super) fn watch_over(&mut self, task: TaskIx) {
        let state = &self.state.tasks[task];
        let limits = &state.spec.limits;
        let limit = match (self.scripts.get(&task).map(|script| script.life), &state.phase) {
            (Some(Life::Beats), _) if beats_in_time(state) => {
                // All its beats at once: whenever somebody looks, the last one was a moment ago.
                self.note_beat(task, ALWAYS);
                self.doubtful.remove(&task);
                return;
            }
            (Some(Life::Silent | Life::Beats), _) => limits.heartbeat_timeout,
            (Some(Life::NeverBeats), _) | (None, Phase::Offered { .. }) => limits.start_timeout,
            (None, _) => return,
        };
        self.doubtful.insert(task);
        self.judge_at(self.active_ms + limit.millis() + 1);
    }

    /// The runner is asked to end its agent.
    pub(super) fn end_agent(&mut self, task: TaskIx, attempt: Attempt, because: &Reason) {
        let ends = match self.scripts.get(&task).map(|script| script.life) {
            Some(Life::Silent) => {
                let patience = self.conditions.kill_grace.millis() + RUNNER_SLACK.millis();
                self.concerns.put(self.active_ms + patience, Concern::Force(task, attempt));
                return;
            }
            // It never began: its beginning is forbidden, and nothing of it is there.
            Some(Life::NeverBeats) | None => Ends::Gone,
            Some(Life::Beats) => Ends::Asked { why: because.to_string() },
        };
        self.happenings.put(self.wall_ms, Happening::Ends(task, attempt, ends));
    }

    /// What every look of a full scan shows by now of those that are not simply well.
    pub(super) fn look_at_heartbeats(&mut self) {
        let now = Tick(self.active_ms);
        for task in self.doubtful.clone() {
            match self.scripts.get(&task).map(|script| script.life) {
                Some(Life::Beats) => self.look_at_rare_beats(task),
                Some(Life::Silent | Life::NeverBeats) | None => {
                    self.pulses.note(task, Glance::Nothing, now, true);
                }
            }
            // A real watcher has looked many times since; two are what a verdict needs.
            self.pulses.note(task, Glance::Nothing, now, true);
        }
    }

    /// One that beats more rarely than twice a window: each gap between two beats may be one too many.
    fn look_at_rare_beats(&mut self, task: TaskIx) {
        let limits = self.state.tasks[task].spec.limits;
        let (every, limit) = (limits.heartbeat_interval.millis(), limits.heartbeat_timeout.millis());
        let Some(script) = self.scripts.get_mut(&task) else { return };
        let ago = self.wall_ms - script.last_beat_ms(every, self.wall_ms);
        let known = self.pulses.get(task).map_or(0, |pulse| pulse.since.0);
        let beat_ms = self.active_ms.saturating_sub(ago).max(known);
        let judged_ms = match beat_ms + limit + 1 {
            passed if passed <= self.active_ms => beat_ms + every + limit + 1,
            ahead => ahead,
        };
        if every > limit && judged_ms > script.judged_ms {
            script.judged_ms = judged_ms;
            self.judge_at(judged_ms);
        }
        self.note_beat(task, beat_ms);
    }

    pub(super) fn note_beat(&mut self, task: TaskIx, active_ms: u64) {
        self.pulses.note(
            task,
            Glance::Beat { progress: None, tokens: None, said_end: None },
            Tick(active_ms),
            true,
        );
    }
}

/// Whether two of its beats fit into the limit. The runner of one of ours sees to that.
fn beats_in_time(task: &TaskState) -> bool {
    let limits = &task.spec.limits;
    task.is_ours() || 2.0 * limits.heartbeat_interval.0 <= limits.heartbeat_timeout.0
}

/// Nobody holds an outsider's lock: its death is silence.
fn fault_of(fault: Option<Fault>, is_ours: bool) -> Option<Fault> {
    match fault {
        Some(Fault::Crash) if !is_ours => Some(Fault::Silent),
        other => other,
    }
}
