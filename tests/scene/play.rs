//! The heart on a virtual clock, told line by line: `TIME action, action => event; event`.
//!
//! Every event of a turn must be told, and nothing else. After each turn a second state is folded from the
//! events alone: it must equal the one that the heart moved.
//!
//! | action | meaning |
//! |---|---|
//! | `scan` | every file was looked at; nobody beat |
//! | `beat 1 2` | a scan in which these beat, and nobody else |
//! | `garble 1` | a scan in which this heartbeat was no JSON |
//! | `take 1` | somebody's take file |
//! | `done 1`, `failed 1`, `done 1#2` | a result, for an attempt if it says so |
//! | `wrong 1` | a settled file in the drop box that is no result |
//! | `cancel`, `cancel 1` | a wish |
//! | `spec 3 <- 2`, `badspec 3` | a spec dropped into an open batch |
//! | `turn` | a turn without a scan |

use std::sync::Arc;

use watchkeeper::decide::{
    Checked, Glance, Now, Observed, Pulses, ResultSeen, SignSeen, SpecSeen, WishSeen, decide,
};
use watchkeeper::format::spec;
use watchkeeper::intake;
use watchkeeper::model::claim::{Claim, ClaimStatus};
use watchkeeper::model::event::{LateBecause, Sign};
use watchkeeper::model::state::{BatchState, Phase};
use watchkeeper::model::{
    Attempt, Batch, BatchId, Defect, Event, Origin, Place, Settings, TaskKey, Tick, Verdict, WallTime,
};

use super::plan;

/// Plays a script on a planned batch.
#[track_caller]
pub fn check(graph: &str, script: &str) {
    Play::new(batch(graph)).perform(script);
}

/// Plays a script on an open batch: its tasks come as specs.
#[track_caller]
pub fn check_open(script: &str) {
    let mut batch = batch("1");
    batch.origin = Origin::Specs;
    batch.tasks.clear();
    Play::new(batch).perform(script);
}

fn batch(graph: &str) -> Batch {
    let text = plan::json(graph);
    let request = intake::Request { name: "plan.json", bytes: text.as_bytes() };
    let plan =
        intake::read_plan(request, &Settings::default()).unwrap_or_else(|defects| panic!("{defects:?}"));
    plan.into_batch(intake::Context {
        accepted_at: WallTime(0),
        fallback_id: BatchId::from_number(1),
        sha256: String::new(),
    })
}

struct Play {
    state: BatchState,
    folded: BatchState,
    pulses: Pulses,
    /// Distinguishes results: no two have the same hash.
    results: u32,
}

impl Play {
    fn new(batch: Batch) -> Play {
        let batch = Arc::new(batch);
        Play {
            state: BatchState::new(batch.clone()),
            folded: BatchState::new(batch),
            pulses: Pulses::default(),
            results: 0,
        }
    }

    #[track_caller]
    fn perform(mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (before, expected) = line.split_once("=>").unwrap_or((line, ""));
            let (time, actions) = before.trim().split_once(' ').expect("TIME action => events");
            let seconds: f64 = time.parse().expect("a time in seconds");
            let now = Now {
                clock: Tick((seconds * 1000.0).round() as u64),
                wall: WallTime((seconds * 1000.0) as i64),
            };
            let told = self.turn(actions, now).join("; ");
            assert_eq!(told, expected.trim(), "at {line:?}");
        }
    }

    fn turn(&mut self, actions: &str, now: Now) -> Vec<String> {
        let mut observed = Observed::default();
        for action in actions.split(',') {
            self.act(action.trim(), now, &mut observed);
        }
        let events = decide(&mut self.state, observed, &self.pulses, now);
        for event in &events {
            self.folded.apply_event(event, now.clock, now.wall).expect("events name known tasks");
        }
        assert_eq!(self.state, self.folded, "a fold of the journal gives the same state");
        self.follow(now);
        events.iter().map(tell).collect()
    }

    fn act(&mut self, action: &str, now: Now, observed: &mut Observed) {
        let (verb, rest) = action.split_once(' ').unwrap_or((action, ""));
        let names: Vec<&str> = rest.split_whitespace().collect();
        match verb {
            "turn" => {}
            "scan" | "beat" | "garble" => self.look(verb, &names, now, observed),
            "take" => {
                let sign = Sign::Take { by: "kim".to_owned() };
                observed.signs.extend(names.iter().map(|name| self.sign(name, sign.clone())));
            }
            "done" | "failed" | "wrong" => observed.results.push(self.result(verb, names[0])),
            "cancel" => observed.wishes.push(WishSeen {
                task: names.first().map(|name| TaskKey::parse(name).unwrap()),
                by: "sam".to_owned(),
                why: None,
            }),
            "spec" | "badspec" => observed.specs.push(spec_of(verb, &names)),
            other => panic!("nobody knows how to {other}"),
        }
    }

    fn look(&mut self, verb: &str, names: &[&str], now: Now, observed: &mut Observed) {
        observed.full_scan = true;
        for task in self.state.live.clone() {
            let key = self.state.key(task).as_str().to_owned();
            let glance = match names.contains(&key.as_str()) {
                false => Glance::Nothing,
                true if verb == "garble" => Glance::Malformed(defect("not_json")),
                true => Glance::Beat { progress: None, tokens: None },
            };
            let is_offered = matches!(self.state.tasks[task].phase, Phase::Offered { .. });
            if is_offered && matches!(glance, Glance::Beat { .. }) {
                observed.signs.push(self.sign(&key, Sign::Beat));
            }
            self.pulses.note(task, glance, now.clock, true);
        }
    }

    fn sign(&self, name: &str, sign: Sign) -> SignSeen {
        let task = self.state.find(name).expect("a known task");
        let attempt = self.state.tasks[task].live_attempt().expect("an attempt that is out");
        SignSeen { task, attempt, sign }
    }

    fn result(&mut self, verb: &str, name: &str) -> ResultSeen {
        self.results += 1;
        let (name, attempt) = match name.split_once('#') {
            Some((name, number)) => (name, Attempt::from_wire(number.parse().unwrap())),
            None => (name, None),
        };
        let claim = Claim {
            task_id: name.to_owned(),
            status: if verb == "done" { ClaimStatus::Success } else { ClaimStatus::Failure },
            attempt,
            files_created: Vec::new(),
            files_modified: Vec::new(),
            commits: Vec::new(),
            prps_generated: Vec::new(),
            errors: Vec::new(),
            tokens_used: None,
            elapsed_seconds: None,
        };
        let content = match verb {
            "wrong" => Err(vec![defect("not_json")]),
            _ => Ok(Checked { claim, verdict: Verdict::default() }),
        };
        let task = self.state.find(name).expect("a known task");
        ResultSeen { task, sha256: format!("{:064}", self.results), content }
    }

    /// As the watcher does after each turn.
    fn follow(&mut self, now: Now) {
        for &task in &self.state.live {
            if let Some(attempt) = self.state.tasks[task].live_attempt() {
                self.pulses.follow(task, attempt, now.clock);
            }
        }
        let gone: Vec<_> = self.pulses.iter().map(|(task, _)| task).collect();
        for task in gone.into_iter().filter(|task| !self.state.live.contains(task)) {
            self.pulses.forget(task);
        }
    }
}

fn defect(rule: &str) -> Defect {
    Defect::new(rule, Place::LineColumn(1, 1), "is not JSON", "write JSON")
}

fn spec_of(verb: &str, names: &[&str]) -> SpecSeen {
    let key = TaskKey::parse(names[0]).unwrap();
    let dependencies: Vec<&&str> = names[1..].iter().filter(|name| **name != "<-").collect();
    let text = serde_json::json!({ "task_id": names[0], "goal": "g", "dependencies": dependencies });
    let content = match verb {
        "badspec" => Err(vec![defect("not_json")]),
        _ => spec::read_dropped(&key, text.to_string().as_bytes(), &Settings::default())
            .map(|dropped| Box::new(dropped.task)),
    };
    SpecSeen { key, sha256: names[0].to_owned(), content }
}

fn tell(event: &Event) -> String {
    match event {
        Event::Accepted { .. } => "accepted".to_owned(),
        Event::Resumed { .. } => "resumed".to_owned(),
        Event::Joined { task } => format!("joined {} in stage {}", task.key, task.stage),
        Event::SpecRefused { task, defects, .. } => format!("spec {task} refused: {}", defects[0]),
        Event::Offered { task, attempt } => format!("offered {task}#{attempt}"),
        Event::Started { task, attempt, sign } => match sign {
            Sign::Take { by } => format!("started {task}#{attempt} by {by}"),
            Sign::Beat => format!("started {task}#{attempt}"),
            Sign::Result => format!("started {task}#{attempt} late"),
        },
        Event::ResultRefused { task, attempt, .. } => format!("refused {task}#{attempt}"),
        Event::Collected { task, attempt, unfenced: false, .. } => format!("collected {task}#{attempt}"),
        Event::Collected { task, attempt, unfenced: true, .. } => format!("unfenced {task}#{attempt}"),
        Event::Succeeded { task, attempt } => format!("succeeded {task}#{attempt}"),
        Event::AttemptFailed { task, attempt, because, retry_at } => {
            let again = if retry_at.is_some() { ", again" } else { "" };
            format!("failed {task}#{attempt}: {because}{again}")
        }
        Event::Abandoned { task, because } => format!("dropped {task}: {because}"),
        Event::Late { task, because, .. } => match because {
            LateBecause::Settled => format!("late {task}: settled"),
            LateBecause::OtherAttempt { current } => format!("late {task}: {current} is out"),
            LateBecause::BetweenAttempts => format!("late {task}: between attempts"),
        },
        Event::SelfSuspected { silent, until, .. } => {
            let silent: Vec<&str> = silent.iter().map(TaskKey::as_str).collect();
            format!("doubts {} until {}", silent.join(" "), until.0 as f64 / 1000.0)
        }
        Event::CancelAsked { by, .. } => format!("cancel asked by {by}"),
        Event::Finished { status } => format!("finished {}", status.word()),
    }
}
