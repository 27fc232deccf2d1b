//! What goes wrong in a rehearsal: faults that somebody wrote down, and chaos from a seed.
//!
//! Chaos depends on seed, task and attempt alone, so the same seed tells the same story whatever else changes.

use std::collections::HashMap;

use crate::model::settings::nearest;
use crate::model::state::TaskIx;
use crate::model::{Attempt, Batch, Seconds, Task};

use super::{Away, UNESTIMATED};

/// One kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Works to the end and reports failure.
    Fail,
    /// Stops beating midway, and never delivers.
    Silent,
    /// Its runner dies midway; an outsider that dies is one that falls silent.
    Crash,
    /// Its agent never shows a sign of life; for outsiders: nobody takes it.
    NeverStart,
    /// Takes so many times as long.
    Slow(f64),
}

/// A name that no task of the plan answers to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan has no task '{name}'{}", nearest.as_ref().map(|near| format!("; did you mean '{near}'?")).unwrap_or_default())]
pub struct UnknownTask {
    pub name: String,
    pub nearest: Option<String>,
}

/// Everything that goes wrong with tasks.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    by_task: HashMap<TaskIx, Vec<Rule>>,
    chaos: Option<Chaos>,
}

/// `None` counts for all tries.
#[derive(Debug, Clone, Copy)]
struct Rule {
    fault: Fault,
    first_tries: Option<u32>,
}

/// What one attempt has before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fate {
    pub fault: Option<Fault>,
    pub takes_ms: u64,
}

impl Faults {
    /// Lets the first so many tries of a task go wrong, or all. Of several faults the first added counts.
    pub fn add(
        &mut self,
        batch: &Batch,
        name: &str,
        fault: Fault,
        tries: Option<u32>,
    ) -> Result<(), UnknownTask> {
        let Some(task) = batch.tasks.iter().position(|task| task.answers_to(name)) else {
            let known = batch.tasks.iter().flat_map(|task| [task.key.as_str(), task.task_id.as_str()]);
            let nearest = nearest(name, known).map(str::to_owned);
            return Err(UnknownTask { name: name.to_owned(), nearest });
        };
        self.by_task.entry(task).or_default().push(Rule { fault, first_tries: tries });
        Ok(())
    }

    pub fn set_chaos(&mut self, chaos: Chaos) {
        self.chaos = Some(chaos);
    }

    /// What becomes of one attempt.
    pub(super) fn fate(&self, task: TaskIx, spec: &Task, attempt: Attempt) -> Fate {
        let rules = self.by_task.get(&task).map(Vec::as_slice).unwrap_or_default();
        let applies = |rule: &&Rule| rule.first_tries.is_none_or(|tries| attempt.number() <= tries);
        let mut slowness = 1.0;
        let mut fault = None;
        for rule in rules.iter().filter(applies) {
            match rule.fault {
                Fault::Slow(factor) => slowness *= factor,
                other => fault = fault.or(Some(other)),
            }
        }
        if rules.is_empty()
            && let Some(chaos) = self.chaos
        {
            match chaos.strikes(spec, attempt) {
                Some(Fault::Slow(factor)) => slowness = factor,
                other => fault = other,
            }
        }
        let estimate = estimate(spec).0 * slowness;
        Fate { fault, takes_ms: Seconds(estimate).millis().max(1) }
    }
}

/// How long the task takes when nothing goes wrong.
pub(super) fn estimate(task: &Task) -> Seconds {
    let hours = task.estimated_hours.filter(|hours| hours.is_finite() && *hours > 0.0);
    hours.map_or(UNESTIMATED, |hours| Seconds(hours * 3600.0))
}

/// A seeded mix of faults over all tasks for which nobody wrote one down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chaos {
    pub seed: u64,
    /// The share of attempts that are struck, from 0 to 1.
    pub rate: f64,
}

impl Chaos {
    fn strikes(self, task: &Task, attempt: Attempt) -> Option<Fault> {
        let named = u64::from(crc32fast::hash(task.key.as_str().as_bytes()));
        let mut dice = Dice(Dice(self.seed).roll() ^ named << 20 ^ u64::from(attempt.number()));
        if dice.share() >= self.rate {
            return None;
        }
        let can_be_missed = task.crew.is_some() || task.limits.start_timeout_was_set;
        Some(match dice.below(5) {
            0 => Fault::Fail,
            1 => Fault::Silent,
            2 => Fault::Crash,
            // An outsider that never comes, and whom nobody misses, would end the story here.
            3 if can_be_missed => Fault::NeverStart,
            3 => Fault::Silent,
            _ => Fault::Slow(1.25 + 2.75 * dice.share()),
        })
    }

    /// At the same rate the watcher itself is away once, within the first hours.
    pub fn absence(self) -> Option<Away> {
        let mut dice = Dice(!self.seed);
        (dice.share() < self.rate).then(|| Away {
            from: Seconds::from_millis(dice.below(4 * 3_600_000)),
            lasting: Seconds::from_millis(60_000 + dice.below(3_600_000)),
        })
    }
}

/// SplitMix64: small, fast, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// From 0 to just below 1.
    fn share(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_fall_evenly_and_the_same_way_each_time() {
        let throws = |seed| (0..1000).map(|_| 0).scan(Dice(seed), |dice, _: i32| Some(dice.share()));
        let mean = throws(7).sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        assert!(throws(7).eq(throws(7)) && !throws(7).eq(throws(8)));
        assert!(throws(3).all(|share| (0.0..1.0).contains(&share)));
    }
}
