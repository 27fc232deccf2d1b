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
//! | `ends 1` | a scan in which this heartbeat said that the work was completed |
//! | `breaks 1` | a scan in which this heartbeat said that the work had failed |
//! | `take 1` | somebody's take file |
//! | `done 1`, `failed 1`, `done 1#2` | a result, for an attempt if it says so |
//! | `wrong 1` | a settled file in the drop box that is no result |
//! | `cancel`, `cancel 1`, `kill 1`, `retry`, `retry 1`, `pause`, `resume`, `resolve` | a wish |
//! | `prepared`, `unprepared`, `merged 1`, `conflict 1`, `unmerged 1` | work for the whole batch is done: its round |
//! | `exit 1 0`, `exit 1 timeout` | the exit record of an agent of ours |
//! | `gone 1`, `reboot 1`, `orphans 1`, `unknown 1`, `unlaunched 1` | what else is found of its runner |
//! | `room 0` | how many more attempts the bus has room for |
//! | `spec 3 <- 2`, `badspec 3` | a spec dropped into an open batch |
//! | `turn` | a turn without a scan |

use std::sync::Arc;

use watchkeeper::decide::{
    Asked, Checked, Found, Glance, Now, Observed, Pulses, ResultSeen, RunnerSeen, SignSeen, SpecSeen,
    WishSeen, WorkSeen, decide,
};
use watchkeeper::format::spec;
use watchkeeper::intake;
use watchkeeper::model::agent::Crew;
use watchkeeper::model::claim::{Claim, ClaimStatus};
use watchkeeper::model::event::{LateBecause, Sign};
use watchkeeper::model::exit::{Resource, Stopped};
use watchkeeper::model::handoff::{
    ConflictResolution, Dialect, Handoff, MergeKind, MergeOutcome, MergeStatus, MergeStrategy,
    MergeValidation, Prepared,
};
use watchkeeper::model::state::{BatchState, Phase};
use watchkeeper::model::{
    Attempt, Batch, BatchId, Defect, Event, Exit, Origin, Place, Seconds, Settings, TaskKey, Tick, Verdict,
    WallTime,
};

use super::plan;

/// Plays a script on a planned batch.
#[track_caller]
pub fn check(graph: &str, script: &str) {
    Play::new(batch(graph)).perform(script);
}

/// Plays a script on a planned batch whose tasks an agent of ours does.
#[track_caller]
pub fn check_ours(graph: &str, script: &str) {
    let mut batch = batch(graph);
    for task in &mut batch.tasks {
        task.crew = Some(Crew { agent: "smoke".to_owned(), launcher: "process".to_owned() });
    }
    Play::new(batch).perform(script);
}

/// Plays a script on a handed-over batch.
#[track_caller]
pub fn check_handed_over(graph: &str, script: &str) {
    let mut batch = batch(graph);
    batch.origin = Origin::Handoff;
    batch.handoff = Some(handoff());
    for task in &mut batch.tasks {
        task.crew = Some(Crew { agent: "smoke".to_owned(), launcher: "process".to_owned() });
    }
    Play::new(batch).perform(script);
}

fn handoff() -> Handoff {
    Handoff {
        dialect: Dialect::ExecutionRequest,
        workspace: "/w".to_owned(),
        bus: None,
        checkpoint: true,
        verify: true,
        merge: MergeStrategy {
            kind: MergeKind::FileMerge,
            conflict_resolution: ConflictResolution::ManualReview,
            validation: MergeValidation::default(),
            priority: Vec::new(),
            verify: None,
        },
        checks: Vec::new(),
        required_artifacts: Vec::new(),
        log_level: None,
        request_timestamp: None,
    }
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
        let mut observed = Observed { room: 64, ..Observed::default() };
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
            "scan" | "beat" | "garble" | "ends" | "breaks" => self.look(verb, &names, now, observed),
            "take" => {
                let sign = Sign::Take { by: "kim".to_owned() };
                observed.signs.extend(names.iter().map(|name| self.sign(name, sign.clone())));
            }
            "done" | "failed" | "wrong" => observed.results.push(self.result(verb, names[0])),
            "cancel" | "kill" | "retry" | "pause" | "resume" | "resolve" => observed.wishes.push(WishSeen {
                asked: match verb {
                    "kill" => Asked::Kill,
                    "retry" => Asked::Retry,
                    "pause" => Asked::Pause,
                    "resume" => Asked::Resume,
                    "resolve" => Asked::Resolve,
                    _ => Asked::Cancel,
                },
                task: names.first().map(|name| TaskKey::parse(name).unwrap()),
                by: "sam".to_owned(),
                why: None,
                choices: watchkeeper::model::handoff::Choices::new(),
            }),
            "exit" | "gone" | "reboot" | "orphans" | "unknown" | "unlaunched" => {
                observed.runners.push(self.runner(verb, &names));
            }
            "prepared" | "unprepared" | "merged" | "conflict" | "unmerged" => {
                observed.works.push(work_of(verb, &names));
            }
            "room" => observed.room = names[0].parse().unwrap(),
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
                true => {
                    let said_end = match verb {
                        "ends" => Some(ClaimStatus::Success),
                        "breaks" => Some(ClaimStatus::Failure),
                        _ => None,
                    };
                    Glance::Beat { progress: None, tokens: None, said_end }
                }
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
            ..Claim::default()
        };
        let content = match verb {
            "wrong" => Err(vec![defect("not_json")]),
            _ => Ok(Checked {
                claim,
                verdict: Verdict::default(),
                declared: Vec::new(),
                committed: Vec::new(),
            }),
        };
        let task = self.state.find(name).expect("a known task");
        ResultSeen { task, sha256: format!("{:064}", self.results), content, inline: None }
    }

    /// `exit NAME 0`, `exit NAME signal`, `exit NAME timeout|asked|lingered|hangup`, or how else a runner is found.
    fn runner(&self, verb: &str, names: &[&str]) -> RunnerSeen {
        let task = self.state.find(names[0]).expect("a known task");
        let attempt = self.state.tasks[task].live_attempt().expect("an attempt that is out");
        let found = match verb {
            "exit" => Found::Exited(Box::new(self.exit(task, attempt, names[1]))),
            "gone" => Found::Gone { rebooted: false },
            "reboot" => Found::Gone { rebooted: true },
            "orphans" => Found::Orphans,
            "unknown" => Found::Unknown { why: "no /proc".to_owned(), suspects: Vec::new() },
            _ => Found::NotLaunched { why: "no such program".to_owned() },
        };
        RunnerSeen { task, attempt, found }
    }

    fn exit(&self, task: usize, attempt: Attempt, how: &str) -> Exit {
        let stopped = match how {
            "timeout" => Some(Stopped::Timeout { limit: Seconds(5.0) }),
            "memory" => Some(Stopped::Limit { what: Resource::MemoryMb, limit: 64 }),
            "asked" => Some(Stopped::Asked { why: "no heartbeat".to_owned() }),
            "lingered" => Some(Stopped::Lingered),
            "hangup" => Some(Stopped::HungUp),
            _ => None,
        };
        Exit {
            task: self.state.key(task).clone(),
            attempt,
            exit_code: how.parse().ok(),
            signal: (how == "signal").then_some(9),
            stopped,
            started_at: WallTime(0),
            ended_at: WallTime(0),
            wall_seconds: 0.0,
            cpu_seconds: 0.0,
            peak_memory_kb: 0,
            redacted: 0,
            cost_usd: None,
            result_by_runner: false,
            no_result: None,
            warnings: Vec::new(),
            produced: Vec::new(),
            inspected_sha256: None,
            session: None,
            mark: None,
            declared: Vec::new(),
            baseline_sha256: None,
        }
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

fn work_of(verb: &str, names: &[&str]) -> WorkSeen {
    let round = || names[0].parse().expect("the round");
    let merged = |status| {
        let outcome = Box::new(MergeOutcome::without_result(status, "told"));
        WorkSeen::Merged { round: round(), outcome }
    };
    match verb {
        "prepared" => WorkSeen::Prepared(Prepared::default()),
        "unprepared" => WorkSeen::NotPrepared { why: "the disk is full".to_owned() },
        "merged" => merged(MergeStatus::Success),
        "conflict" => merged(MergeStatus::AwaitsResolution),
        _ => merged(MergeStatus::Failure),
    }
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
        Event::Baselined { task, .. } => format!("baselined {task}"),
        Event::Offered { task, attempt } => format!("offered {task}#{attempt}"),
        Event::Started { task, attempt, sign } => match sign {
            Sign::Take { by } => format!("started {task}#{attempt} by {by}"),
            Sign::Beat => format!("started {task}#{attempt}"),
            Sign::Result => format!("started {task}#{attempt} late"),
            Sign::SpecRemoved => format!("started {task}#{attempt} unseen"),
            Sign::Launch { agent, .. } => format!("started {task}#{attempt} as {agent}"),
        },
        Event::Launched { task, attempt, agent, .. } => format!("launched {task}#{attempt} as {agent}"),
        Event::Begun { task, attempt, .. } => format!("begun {task}#{attempt}"),
        Event::Exited { exit } => format!("exited {}#{}", exit.task, exit.attempt),
        Event::Ending { task, attempt, because } => format!("ending {task}#{attempt}: {because}"),
        Event::Unconfirmed { task, attempt, why, .. } => format!("unconfirmed {task}#{attempt}: {why}"),
        Event::RetryAsked { task, by, .. } => format!("retry of {task} asked by {by}"),
        Event::PauseAsked { by, .. } => format!("pause asked by {by}"),
        Event::ResumeAsked { by } => format!("resume asked by {by}"),
        Event::Reopened { by } => format!("reopened by {by}"),
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
            LateBecause::Ending => format!("late {task}: ending"),
            LateBecause::NotTheFirst => format!("late {task}: not the first"),
        },
        Event::SelfSuspected { silent, until, .. } => {
            let silent: Vec<&str> = silent.iter().map(TaskKey::as_str).collect();
            format!("doubts {} until {}", silent.join(" "), until.0 as f64 / 1000.0)
        }
        Event::OutOfTime { limit } => format!("out of time: {limit}"),
        Event::CancelAsked { by, .. } => format!("cancel asked by {by}"),
        Event::Preparing => "preparing".to_owned(),
        Event::Prepared { .. } => "prepared".to_owned(),
        Event::NotPrepared { why } => format!("not prepared: {why}"),
        Event::Merging { round } => format!("merging in round {round}"),
        Event::Merged { round, outcome } => format!("round {round} ended: {:?}", outcome.status),
        Event::ResolveAsked { by, .. } => format!("resolve asked by {by}"),
        Event::Finished { status } => format!("finished {}", status.word()),
    }
}
