//! A stage's clock: it runs only while one of the stage's tasks runs.

use crate::model::clock::{Seconds, Tick};
use crate::model::task::Task;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageClock {
    pub tasks: usize,
    pub succeeded: usize,
    pub ended: usize,
    running: usize,
    spent_ms: u64,
    since: Tick,
    /// The sum of `(1 + max_retries) × timeout` over the stage's tasks, and what it takes to end them: no
    /// healthy stage needs more, however few agents work on it.
    pub whole_need: Seconds,
}

/// From the moment that an attempt's time is up until it is noticed and ended. Without it the last attempt of a
/// stage would be ended by the stage's limit and not by its own.
const ENDING_SECONDS: f64 = 30.0;

impl Default for StageClock {
    fn default() -> Self {
        StageClock {
            tasks: 0,
            succeeded: 0,
            ended: 0,
            running: 0,
            spent_ms: 0,
            since: Tick(0),
            whole_need: Seconds(0.0),
        }
    }
}

impl StageClock {
    pub(super) fn admit(&mut self, task: &Task) {
        self.tasks += 1;
        let need = (task.longest_attempt().0 + ENDING_SECONDS) * f64::from(1 + task.limits.max_retries);
        self.whole_need = Seconds(self.whole_need.0 + need);
    }

    pub(super) fn task_runs(&mut self, now: Tick) {
        if self.running == 0 {
            self.since = now;
        }
        self.running += 1;
    }

    pub(super) fn task_rests(&mut self, now: Tick) {
        self.running = self.running.saturating_sub(1);
        if self.running == 0 {
            self.spent_ms += now.since(self.since);
        }
    }

    /// Somebody asked for another try: it has the stage's whole time again.
    pub(super) fn restart(&mut self, now: Tick) {
        self.spent_ms = 0;
        self.since = now;
    }

    pub fn spent_ms(&self, now: Tick) -> u64 {
        let current = if self.running > 0 { now.since(self.since) } else { 0 };
        self.spent_ms + current
    }

    pub fn is_running(&self) -> bool {
        self.running > 0
    }
}
