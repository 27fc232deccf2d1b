//! What an outsider does with one attempt: a list of steps, decided by seed, task and attempt alone.

use serde_json::json;

use super::fault::{Fault, Menu};
use super::plan::PlannedTask;
use super::random::Random;

/// How a result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    Whole,
    /// In place, with the file open: a part, more of it, all of it.
    Part(u8),
}

/// How an agent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// It knows the task's plain names alone.
    Plain,
    /// It writes its own files, where its spec says.
    Outbox,
    /// It uses `wk agent`.
    Verbs,
}

/// One thing that an agent does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Waits until its spec is there.
    Begin,
    Take {
        by: &'static str,
    },
    Beat {
        says_attempt: bool,
    },
    Touch,
    GarbageBeat,
    Result {
        bytes: Vec<u8>,
        stroke: Stroke,
        is_valid: bool,
        says: Option<u32>,
    },
    DeleteSpec,
    WriteFile(String),
    /// From here on it is this fault that is played.
    Plays(Fault),
}

#[derive(Debug, Clone)]
pub struct Step {
    pub after_ms: u64,
    pub act: Act,
}

/// Faults that change nothing about how an undisturbed batch ends.
pub const CALM: &[Fault] = &[
    Fault::TornWrite,
    Fault::FailedResult,
    Fault::SlowButBeating,
    Fault::TouchOnly,
    Fault::DeletesSpec,
    Fault::Take,
    Fault::MissingFile,
];

const PLAYED: &[Fault] = &[
    Fault::TornWrite,
    Fault::FailedResult,
    Fault::Silence,
    Fault::NeverStarts,
    Fault::SlowButBeating,
    Fault::TouchOnly,
    Fault::GarbageHeartbeat,
    Fault::GarbageResult,
    Fault::WrongTask,
    Fault::DoubleResult,
    Fault::LateResult,
    Fault::Zombie,
    Fault::UnfencedZombie,
    Fault::DeletesSpec,
    Fault::EarlyResult,
    Fault::BeatsAfterResult,
    Fault::Take,
    Fault::TwoTakers,
    Fault::MissingFile,
];

/// What a script depends on.
pub struct Scene<'a> {
    pub seed: u64,
    pub menu: &'a Menu,
    pub batch: usize,
    pub ix: usize,
    pub task: &'a PlannedTask,
    pub attempt: u32,
    pub limit_ms: u64,
    pub start_is_limited: bool,
    pub is_calm: bool,
}

impl Scene<'_> {
    fn random(&self) -> Random {
        let number = (self.batch as u64 * 1_000 + self.ix as u64) * 100 + u64::from(self.attempt);
        Random::stream(self.seed, "agent", number)
    }

    pub fn habit(&self) -> Habit {
        let mut random = self.random();
        random.next();
        *Random::stream(random.next(), "habit", 0).pick(&[Habit::Plain, Habit::Outbox, Habit::Verbs])
    }

    /// Whether this agent writes what its task declares, or only says that it did its work.
    fn is_honest(&self) -> bool {
        Random::stream(self.random().next(), "honest", 0).chance(75)
    }

    /// The part that this agent plays; `None` is a plain success.
    pub fn part(&self) -> Option<Fault> {
        let mut random = self.random();
        if random.chance(if self.is_calm { 60 } else { 45 }) {
            return None;
        }
        let can = |fault: &&Fault| {
            self.menu.has(**fault)
                && (self.start_is_limited || !matches!(fault, Fault::NeverStarts | Fault::GarbageHeartbeat))
                && (**fault != Fault::EarlyResult || self.attempt == 1)
                && (!self.is_calm || CALM.contains(fault))
        };
        let possible: Vec<&Fault> = PLAYED.iter().filter(can).collect();
        if possible.is_empty() { None } else { Some(**random.pick(&possible)) }
    }

    pub fn result(&self, nonce: u32, status: &str, says: Option<u32>) -> Vec<u8> {
        let mut result = json!({
            "task_id": if nonce.is_multiple_of(2) { &self.task.key } else { &self.task.task_id },
            "status": status, "output": {"files_created": []},
            "tokens_used": 100 + self.ix, "note": format!("{}/{}/{}/{nonce}", self.batch, self.ix, self.attempt),
        });
        if let Some(attempt) = says {
            result["attempt"] = attempt.into();
        }
        serde_json::to_vec(&result).unwrap()
    }

    fn whole(&self, nonce: u32, status: &str, says: Option<u32>) -> Act {
        Act::Result { bytes: self.result(nonce, status, says), stroke: Stroke::Whole, is_valid: true, says }
    }

    /// Everything that this agent does, in order.
    pub fn steps(&self) -> Vec<Step> {
        let mut random = self.random();
        random.next();
        let part = self.part();
        let interval = self.limit_ms / 4;
        let says = if random.chance(70) { Some(self.attempt) } else { None };
        let mut script = Script { steps: Vec::new() };
        script.add(random.between(50, 2_000).min(self.limit_ms / 2), Act::Begin);
        if let Some(fault) = part {
            script.add(0, Act::Plays(fault));
        }
        let beats = random.between(0, 5);
        let beat = Act::Beat { says_attempt: random.chance(50) };
        match part {
            Some(Fault::NeverStarts) => return script.steps,
            Some(Fault::GarbageHeartbeat) => {
                for _ in 0..4 {
                    script.add(interval, Act::GarbageBeat);
                }
                return script.steps;
            }
            Some(Fault::Take) => script.add(10, Act::Take { by: "ann" }),
            Some(Fault::TwoTakers) => {
                script.add(10, Act::Take { by: "ann" });
                script.add(random.below(500), Act::Take { by: "bob" });
            }
            _ => {}
        }
        if beats > 0 || part.is_some() {
            script.add(random.below(interval), beat.clone());
        }
        if part == Some(Fault::DeletesSpec) {
            script.add(20, Act::DeleteSpec);
        }
        for _ in 0..beats + if part == Some(Fault::SlowButBeating) { 12 } else { 0 } {
            let act = if part == Some(Fault::TouchOnly) { Act::Touch } else { beat.clone() };
            script.add(random.between(interval / 2, interval), act);
        }
        for file in self.task.files.iter().filter(|_| self.is_honest()) {
            script.add(10, Act::WriteFile(file.clone()));
        }
        self.end(&mut script, &mut random, part, says);
        script.steps
    }

    fn end(&self, script: &mut Script, random: &mut Random, part: Option<Fault>, says: Option<u32>) {
        let pause = random.between(10, self.limit_ms.min(8_000) / 2);
        let beyond = self.limit_ms * random.between(10, 35) / 10;
        let success = self.whole(0, "success", says);
        match part {
            Some(Fault::Silence) => {}
            Some(Fault::FailedResult) => script.add(pause, self.whole(0, "failed", says)),
            Some(Fault::TornWrite) => {
                let bytes = self.result(0, "success", says);
                for part in 1..=3 {
                    let stroke = Stroke::Part(part);
                    let after = if part == 1 { pause } else { random.between(20, 2_500) };
                    script.add(after, Act::Result { bytes: bytes.clone(), stroke, is_valid: true, says });
                }
            }
            Some(Fault::GarbageResult) => {
                let bytes = format!("not json {}/{}/{}", self.batch, self.ix, self.attempt).into_bytes();
                script.add(pause, Act::Result { bytes, stroke: Stroke::Whole, is_valid: false, says: None });
                if random.chance(50) {
                    script.add(random.between(10, 4_000), success);
                }
            }
            Some(Fault::WrongTask) => {
                let text = self.result(1, "success", says);
                let text = String::from_utf8(text).unwrap().replace(&self.task.task_id, "somebody-else");
                let bytes = text.into_bytes();
                script.add(pause, Act::Result { bytes, stroke: Stroke::Whole, is_valid: false, says: None });
                if random.chance(50) {
                    script.add(random.between(10, 4_000), success);
                }
            }
            Some(Fault::DoubleResult) => {
                script.add(pause, success.clone());
                let second = if random.chance(50) { success } else { self.whole(2, "success", says) };
                script.add(random.between(1, 3_000), second);
            }
            Some(Fault::LateResult) => script.add(beyond, success),
            Some(Fault::Zombie | Fault::UnfencedZombie) => {
                let says = (part == Some(Fault::Zombie)).then_some(self.attempt);
                script.add(beyond, Act::Beat { says_attempt: says.is_some() });
                for _ in 0..random.between(1, 4) {
                    script.add(random.below(1_500), Act::Beat { says_attempt: says.is_some() });
                }
                script.add(random.below(2_000), self.whole(0, "success", says));
            }
            Some(Fault::MissingFile) => {
                let bytes = self.result(0, "success", says);
                let text = String::from_utf8(bytes).unwrap();
                let (name, makes_it) = (format!("made-{}-{}", self.ix, self.attempt), random.chance(50));
                let text = text.replace("\"files_created\":[]", &format!("\"files_created\":[\"{name}\"]"));
                if makes_it {
                    script.add(pause, Act::WriteFile(name));
                }
                let (bytes, stroke) = (text.into_bytes(), Stroke::Whole);
                script.add(10, Act::Result { bytes, stroke, is_valid: true, says });
            }
            Some(Fault::BeatsAfterResult) => {
                script.add(pause, success);
                for _ in 0..3 {
                    script.add(random.between(100, 1_500), Act::Beat { says_attempt: true });
                }
            }
            _ => script.add(pause, success),
        }
    }
}

struct Script {
    steps: Vec<Step>,
}

impl Script {
    fn add(&mut self, after_ms: u64, act: Act) {
        self.steps.push(Step { after_ms, act });
    }
}
