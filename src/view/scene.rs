//! Small stories for tests: a batch from `1; 2a<-1; 2b<-1; 3<-2a,2b`, and a script of what happened to it.
//!
//! A script has one event a line, `SECONDS VERB TASK …`; the attempt is the one that is out.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::batch::{Backoff, Batch, OnFileConflict, Origin, Source};
use crate::model::claim::{Claim, ClaimStatus};
use crate::model::clock::{Seconds, Tick, WallTime};
use crate::model::defect::Defect;
use crate::model::event::{BatchStatus, Entry, Event, LateBecause, Sign};
use crate::model::evidence::{About, Brought, Change};
use crate::model::evidence::{Finding, Grade, Verdict};
use crate::model::handoff::{
    Assignment, ConflictBrief, ConflictResolution, Dialect, Handoff, MergeKind, MergeOutcome, MergeStatus,
    MergeStrategy, MergeValidation, Prepared,
};
use crate::model::id::{Attempt, BatchId, Epoch, TaskKey};
use crate::model::reason::Reason;
use crate::model::state::{BatchState, TaskIx};
use crate::model::task::{Limits, Task, TaskType};

/// 2025-11-10T14:30:00Z.
pub(crate) const BEGIN: WallTime = WallTime(1_762_785_000_000);

pub(crate) struct Scene {
    pub state: BatchState,
    pub entries: Vec<Entry>,
    pub claims: HashMap<TaskIx, Claim>,
}

pub(crate) fn wall(seconds: f64) -> WallTime {
    WallTime(BEGIN.0 + (seconds * 1000.0) as i64)
}

pub(crate) fn tick(seconds: f64) -> Tick {
    Tick((seconds * 1000.0) as u64)
}

pub(crate) fn key(text: &str) -> TaskKey {
    TaskKey::parse(text).unwrap()
}

/// A batch from its graph, each task one stage below its deepest dependency.
pub(crate) fn batch(graph: &str) -> Batch {
    let mut tasks: Vec<Task> = Vec::new();
    for node in graph.split(';').map(str::trim).filter(|node| !node.is_empty()) {
        let (name, before) = node.split_once("<-").unwrap_or((node, ""));
        let dependencies: Vec<TaskKey> = before.split(',').filter(|d| !d.is_empty()).map(key).collect();
        let above = tasks.iter().filter(|task| dependencies.contains(&task.key));
        let stage = above.map(|task| task.stage).max().unwrap_or(0) + 1;
        tasks.push(task(name, dependencies, stage));
    }
    Batch {
        version: 1,
        id: BatchId::from_number(43),
        origin: Origin::Plan,
        source: Source { name: "plan.md".into(), sha256: String::new() },
        runs_gates: false,
        accepted_at: BEGIN,
        parallel_limit: None,
        stage_timeout: None,
        batch_timeout: None,
        close_after: Seconds(10.0),
        require: Grade::Claimed,
        on_file_conflict: OnFileConflict::Serialise,
        backoff: Backoff { first: Seconds(1.0), factor: 2.0, longest: Seconds(100.0) },
        price_per_million_tokens: None,
        file_conflicts: Vec::new(),
        warnings: Vec::new(),
        handoff: None,
        tasks,
    }
}

fn task(name: &str, dependencies: Vec<TaskKey>, stage: u32) -> Task {
    let mut task = Task::refused(&key(name));
    task.task_id = format!("phase-{name}");
    task.phase_name = format!("Phase {name}: Work {name}");
    task.goal = format!("Do {name}");
    task.complexity = "low".into();
    task.dependencies = dependencies;
    task.stage = stage;
    task.kind = TaskType::Executor;
    task.limits = Limits {
        timeout: Seconds(3600.0),
        heartbeat_timeout: Seconds(60.0),
        heartbeat_interval: Seconds(30.0),
        start_timeout: Seconds(60.0),
        start_timeout_was_set: false,
        max_retries: 2,
        stuck_after: Seconds(300.0),
    };
    task
}

impl Scene {
    pub(crate) fn of(graph: &str, script: &str) -> Scene {
        Scene::with(graph, |_| {}, script)
    }

    /// A scene whose batch is changed before it begins.
    pub(crate) fn with(graph: &str, change: impl FnOnce(&mut Batch), script: &str) -> Scene {
        let mut batch = batch(graph);
        change(&mut batch);
        let count = batch.tasks.len();
        let state = BatchState::new(Arc::new(batch));
        let mut scene = Scene { state, entries: Vec::new(), claims: HashMap::new() };
        scene.happen(0.0, Event::Accepted { tasks: count, batch_sha256: None });
        scene.play(script);
        scene
    }

    pub(crate) fn play(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            self.step(words[0].parse().unwrap(), words[1], &words[2..]);
        }
    }

    pub(crate) fn happen(&mut self, seconds: f64, event: Event) {
        let entry = Entry {
            seq: self.entries.len() as u64 + 1,
            turn: self.entries.len() as u64 + 1,
            epoch: Epoch(1),
            at: wall(seconds),
            clock: tick(seconds),
            event,
        };
        self.state.apply(&entry).unwrap();
        self.entries.push(entry);
    }

    pub(crate) fn claim(&mut self, name: &str, created: &[&str], modified: &[&str], tokens: u64) {
        let ix = self.state.find(name).unwrap();
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let claim = Claim {
            task_id: format!("phase-{name}"),
            status: ClaimStatus::Success,
            attempt: None,
            mark: None,
            files_created: texts(created),
            files_modified: texts(modified),
            files_deleted: Vec::new(),
            no_change_needed: None,
            commits: vec![format!("commit of {name}").into()],
            prps_generated: Vec::new(),
            errors: Vec::new(),
            tokens_used: Some(tokens),
            elapsed_seconds: None,
            metrics: serde_json::Map::new(),
            criteria: serde_json::Map::new(),
        };
        let brought = Brought {
            created: claim.files_created.clone(),
            modified: claim.files_modified.clone(),
            commits: vec![format!("commit of {name}")],
            ..Brought::default()
        };
        self.claims.insert(ix, claim);
        self.journal_claim(ix, tokens, &brought);
    }

    /// Writes what the claim tells, as if it had been seen, where the watcher would have: into the line of the
    /// collected result.
    fn journal_claim(&mut self, ix: TaskIx, tokens: u64, brought: &Brought) {
        let key = self.state.key(ix).clone();
        for entry in self.entries.iter_mut().rev() {
            if let Event::Collected { task, tokens_used, verdict, .. } = &mut entry.event
                && *task == key
            {
                *tokens_used = Some(tokens);
                verdict.brought = Some(brought.clone());
                if let Some(collected) = &mut self.state.tasks[ix].collected {
                    collected.verdict.brought = Some(brought.clone());
                }
                self.state.tasks[ix].tokens_spent = tokens;
                return;
            }
        }
    }

    fn step(&mut self, seconds: f64, verb: &str, rest: &[&str]) {
        match (verb, rest) {
            ("offer", [name]) => {
                let task = key(name);
                let attempt = self.attempt(name).map_or(Attempt::FIRST, Attempt::next);
                self.happen(seconds, Event::Offered { task, attempt });
            }
            ("start", [name]) => {
                self.about(seconds, name, |task, attempt| Event::Started { task, attempt, sign: Sign::Beat });
            }
            ("take", [name, by]) => {
                let sign = Sign::Take { by: (*by).to_owned() };
                self.about(seconds, name, |task, attempt| Event::Started { task, attempt, sign });
            }
            ("refuse", [name]) => self.about(seconds, name, |task, attempt| Event::ResultRefused {
                sha256: "0".repeat(64),
                task,
                attempt,
                defects: vec![Defect::field(
                    "missing_field",
                    "status",
                    "is missing",
                    "say success or failed",
                )],
            }),
            ("collect", [name, grade, more @ ..]) => {
                let (verdict, unfenced) = (verdict(grade), more.contains(&"unfenced"));
                self.about(seconds, name, |task, attempt| Event::Collected {
                    task,
                    attempt,
                    sha256: "00".into(),
                    unfenced,
                    inline: None,
                    tokens_used: None,
                    verdict,
                });
            }
            ("succeed", [name]) => {
                self.about(seconds, name, |task, attempt| Event::Succeeded { task, attempt });
            }
            // The whole life of a task that goes well.
            ("done", [name, grade]) => {
                self.play(&format!(
                    "{seconds} offer {name}\n{seconds} start {name}\n{} collect {name} {grade}\n{} succeed {name}",
                    seconds + 60.0,
                    seconds + 60.0
                ));
            }
            ("fail", [name, why, more @ ..]) => {
                let (because, retry_at) = (reason(why), more.contains(&"retry").then(|| tick(seconds + 3.0)));
                self.about(seconds, name, |task, attempt| Event::AttemptFailed {
                    task,
                    attempt,
                    because,
                    retry_at,
                });
            }
            ("block", [name, cause, via @ ..]) => {
                let because =
                    Reason::DependencyFailed { cause: key(cause), via: via.first().map(|via| key(via)) };
                self.happen(seconds, Event::Abandoned { task: key(name), because });
            }
            ("drop", [name]) => {
                self.happen(seconds, Event::Abandoned { task: key(name), because: reason("cancelled") });
            }
            ("late", [name, attempt]) => self.happen(
                seconds,
                Event::Late {
                    task: key(name),
                    attempt: Attempt::from_wire(attempt.parse().unwrap()),
                    sha256: "11".into(),
                    because: LateBecause::Settled,
                },
            ),
            ("cancel", []) => self.happen(seconds, Event::CancelAsked { by: "ada".into(), why: None }),
            ("suspect", names) => self.happen(
                seconds,
                Event::SelfSuspected {
                    silent: names.iter().map(|name| key(name)).collect(),
                    running: names.len(),
                    until: tick(seconds + 60.0),
                },
            ),
            ("launch", [name, launcher]) => {
                let (agent, launcher) = (format!("agent-{name}"), (*launcher).to_owned());
                let task = key(name);
                let attempt = self.attempt(name).map_or(Attempt::FIRST, Attempt::next);
                self.happen(seconds, Event::Launched { task, attempt, agent, launcher });
            }
            ("finish", [status]) => {
                let all = [
                    BatchStatus::Success,
                    BatchStatus::PartialSuccess,
                    BatchStatus::Failure,
                    BatchStatus::Timeout,
                    BatchStatus::Cancelled,
                ];
                let status = all.into_iter().find(|one| one.word() == *status).unwrap();
                self.happen(seconds, Event::Finished { status });
            }
            (verb, rest) => self.handoff_step(seconds, verb, rest),
        }
    }

    /// What happens to a handed-over batch beside its tasks.
    fn handoff_step(&mut self, seconds: f64, verb: &str, rest: &[&str]) {
        match (verb, rest) {
            ("preparing", []) => self.happen(seconds, Event::Preparing),
            ("prepared", []) => self.happen(seconds, Event::Prepared { prepared: Prepared::default() }),
            ("not_prepared", why) => self.happen(seconds, Event::NotPrepared { why: why.join(" ") }),
            ("merging", [round]) => {
                self.happen(seconds, Event::Merging { round: round.parse().unwrap() });
            }
            other => panic!("no such step: {other:?}"),
        }
    }

    fn about(&mut self, seconds: f64, name: &str, event: impl FnOnce(TaskKey, Attempt) -> Event) {
        let attempt = self.attempt(name).unwrap();
        self.happen(seconds, event(key(name), attempt));
    }

    fn attempt(&self, name: &str) -> Option<Attempt> {
        let ix = self.state.find(name).unwrap();
        self.state.tasks[ix].tries.last().map(|last| last.attempt)
    }
}

/// Makes a batch one that was handed over, each task with an agent of its own name.
pub(crate) fn handed_over(batch: &mut Batch) {
    batch.origin = Origin::Handoff;
    batch.handoff = Some(Handoff {
        dialect: Dialect::ExecutionRequest,
        workspace: "/tmp/orchestration/exec-1".into(),
        bus: None,
        checkpoint: true,
        verify: true,
        merge: MergeStrategy {
            kind: MergeKind::CtxpackUnion,
            conflict_resolution: ConflictResolution::ManualReview,
            validation: MergeValidation::default(),
            priority: Vec::new(),
            verify: None,
        },
        checks: Vec::new(),
        required_artifacts: Vec::new(),
        log_level: None,
        request_timestamp: None,
    });
    for task in &mut batch.tasks {
        let agent_name = task.key.as_str().to_owned();
        task.assignment = Some(Box::new(Assignment { agent_name, ..Assignment::default() }));
    }
}

pub(crate) fn merged_well() -> MergeOutcome {
    MergeOutcome {
        because: None,
        merged_ctxpack: Some("/tmp/orchestration/exec-1/merged/integrated.ctxp".into()),
        merged_files: ["code", "review.md"]
            .map(|name| format!("/tmp/orchestration/exec-1/merged/{name}"))
            .into(),
        conflicts_detected: 1,
        conflicts_resolved: 1,
        validation_passed: Some(true),
        receipt_sha256: Some("0a1b2c3d4e5f6071".repeat(4)),
        ..MergeOutcome::without_result(MergeStatus::Success, "")
    }
}

pub(crate) fn conflicted() -> MergeOutcome {
    MergeOutcome {
        conflicts_detected: 1,
        conflicts: vec![ConflictBrief {
            id: "c-1".into(),
            class: "file".into(),
            path: "code/app.py".into(),
            agents: vec!["1".into(), "2".into()],
            message: "both changed line 3".into(),
            choices: Vec::new(),
        }],
        ..MergeOutcome::without_result(MergeStatus::AwaitsResolution, "1 conflict is not resolved")
    }
}

fn verdict(grade: &str) -> Verdict {
    let grade = Grade::parse(grade).unwrap();
    let change = if grade == Grade::Claimed { Change::Rewritten } else { Change::Modified };
    let mut findings = vec![Finding::of_change("src/a.rs", About::Declared, change, false)];
    if grade == Grade::Verified {
        let check = Finding::new("`make check`", Grade::Verified, true, "`make check`: exit code 0");
        findings.push(Finding { about: About::Criterion, ..check });
    }
    Verdict { findings, brought: Some(Brought::default()), ..Verdict::default() }
}

fn reason(code: &str) -> Reason {
    match code {
        "silent" => Reason::NoHeartbeat { limit: Seconds(60.0) },
        "timeout" => Reason::AttemptTimeout { limit: Seconds(3600.0) },
        "batch" => Reason::BatchTimeout { limit: Seconds(3600.0) },
        "cancelled" => Reason::Cancelled { by: "ada".into(), why: None },
        "missing" => Reason::EvidenceMissing {
            unmet: vec![Finding::new("src/a.rs", Grade::Observed, false, "does not exist")],
        },
        errors => Reason::AgentReported { errors: vec![errors.to_owned()] },
    }
}
