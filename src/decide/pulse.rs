//! When each attempt was last seen to beat, on the watcher's own clock.
//!
//! A beat is an observed change of a heartbeat file that holds a JSON object. What the file, its times or
//! the agent say about *when* is never asked. This memory is not journaled: after a restart every attempt
//! has a full window again.

use std::collections::HashMap;

use crate::model::claim::ClaimStatus;
use crate::model::state::TaskIx;
use crate::model::{Attempt, Defect, Tick};

/// What one look at a heartbeat file showed.
#[derive(Debug, Clone, PartialEq)]
pub enum Glance {
    /// Absent, empty, or as it was.
    Nothing,
    /// It changed, and holds a JSON object that does not speak for another attempt.
    Beat {
        progress: Option<String>,
        tokens: Option<u64>,
        /// What it says of the end of the work, if it says that it has ended.
        said_end: Option<ClaimStatus>,
    },
    /// It changed into something that is no heartbeat.
    Malformed(Defect),
}

/// The memory of one attempt's beats.
#[derive(Debug, Clone, PartialEq)]
pub struct Pulse {
    pub attempt: Attempt,
    /// The last beat, or when we began to look.
    pub since: Tick,
    pub has_beaten: bool,
    /// Full scans since then: one look is not a verdict.
    pub looks: u32,
    pub malformed: Option<Defect>,
    pub progress: Option<String>,
    pub tokens: Option<u64>,
    pub progress_since: Tick,
    /// What its beats say of the end of the work, and since when.
    pub said_end: Option<(ClaimStatus, Tick)>,
}

/// The pulses of a batch's live attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pulses(HashMap<TaskIx, Pulse>);

impl Pulses {
    /// Makes sure that this attempt is looked after, from now on if it was not.
    pub fn follow(&mut self, task: TaskIx, attempt: Attempt, now: Tick) {
        let fresh = || Pulse {
            attempt,
            since: now,
            has_beaten: false,
            looks: 0,
            malformed: None,
            progress: None,
            tokens: None,
            progress_since: now,
            said_end: None,
        };
        let pulse = self.0.entry(task).or_insert_with(fresh);
        if pulse.attempt != attempt {
            *pulse = fresh();
        }
    }

    /// Puts back what an earlier pass of the same boot remembered.
    pub fn restore(&mut self, task: TaskIx, pulse: Pulse) {
        self.0.insert(task, pulse);
    }

    /// Gives every attempt a full window from now on.
    pub fn begin_again(&mut self, now: Tick) {
        for pulse in self.0.values_mut() {
            pulse.since = now;
            pulse.looks = 0;
            pulse.said_end = pulse.said_end.map(|(status, _)| (status, now));
        }
    }

    pub fn forget(&mut self, task: TaskIx) {
        self.0.remove(&task);
    }

    pub fn get(&self, task: TaskIx) -> Option<&Pulse> {
        self.0.get(&task)
    }

    pub fn iter(&self) -> impl Iterator<Item = (TaskIx, &Pulse)> {
        self.0.iter().map(|(task, pulse)| (*task, pulse))
    }

    /// Notes what a look showed; `in_full_scan` looks count towards a verdict.
    pub fn note(&mut self, task: TaskIx, glance: Glance, now: Tick, in_full_scan: bool) {
        let Some(pulse) = self.0.get_mut(&task) else { return };
        match glance {
            Glance::Nothing => pulse.looks += u32::from(in_full_scan),
            Glance::Malformed(defect) => {
                pulse.looks += u32::from(in_full_scan);
                pulse.malformed = Some(defect);
            }
            Glance::Beat { progress, tokens, said_end } => {
                pulse.said_end = said_end.map(|said| match pulse.said_end {
                    Some((before, since)) if before == said => (said, since),
                    _ => (said, now),
                });
                if pulse.progress != progress || pulse.tokens != tokens {
                    pulse.progress_since = now;
                }
                pulse.progress = progress;
                pulse.tokens = tokens;
                pulse.since = now;
                pulse.has_beaten = true;
                // The look that saw the beat is the first of the two that a verdict needs.
                pulse.looks = u32::from(in_full_scan);
                pulse.malformed = None;
            }
        }
    }
}
