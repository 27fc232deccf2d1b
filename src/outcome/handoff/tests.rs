//! Whole reports of small stories, compared with those under `testdata/reports/` and judged by the schemas.
//!
//! `WK_BLESS=1 cargo test --lib handoff` writes them anew; read the difference before it is committed.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::places::workspace_logs;
use super::report_bytes;
use super::status_file::status_bytes;
use crate::model::batch::Batch;
use crate::model::event::{BatchStatus, Event, Sign};
use crate::model::evidence::{About, Finding, Grade, Verdict};
use crate::model::exit::Exit;
use crate::model::handoff::{
    Check, Criterion, Dialect, MergeOutcome, MergeStatus, NamedPath, Prepared, Wanted,
};
use crate::model::id::{Attempt, BatchId};
use crate::model::reason::Reason;
use crate::model::state::BatchState;
use crate::view::scene::{Scene, conflicted, handed_over, key, merged_well, wall};
use crate::view::snapshot::{Live, LiveTask};

const WORKSPACE: &str = "/tmp/orchestration/exec-1";

/// The request of the first dialect's own example: a generator, and a reviewer of what it made.
fn requested(batch: &mut Batch) {
    handed_over(batch);
    batch.id = BatchId::parse("exec-1").unwrap();
    batch.price_per_million_tokens = Some(3.0);
    for task in &mut batch.tasks {
        let name = task.key.as_str().to_owned();
        task.phase_name = format!("{name}: does its part");
        let assignment = task.assignment.as_mut().unwrap();
        let outputs: &[&str] = if name == "code-generator" { &["code", "ctxpack"] } else { &["review"] };
        let path = |output: &&str| format!("{WORKSPACE}/outputs/{name}/{output}");
        assignment.outputs =
            outputs.iter().map(|output| NamedPath { name: (*output).into(), path: path(output) }).collect();
        let check = Check { command: vec!["measure".into()], value: None, from_request: false };
        let criterion = |name: &str, wants, check| Criterion { name: name.into(), wants, check };
        assignment.criteria = match name.as_str() {
            "code-generator" => vec![
                criterion("tests_pass", Wanted::Truth(true), Some(check.clone())),
                criterion("coverage", Wanted::Floor(80.0), Some(check)),
            ],
            _ => vec![criterion("no_critical_issues", Wanted::Truth(true), None)],
        };
    }
}

fn assigned(batch: &mut Batch) {
    requested(batch);
    batch.handoff.as_mut().unwrap().dialect = Dialect::Assignments;
    for task in &mut batch.tasks {
        let assignment = task.assignment.as_mut().unwrap();
        (assignment.agent_name, assignment.outputs) = ("code-generator".into(), Vec::new());
        assignment.required_artifacts = vec!["dist/*".into()];
    }
}

fn found(about: About, subject: &str, grade: Grade, met: bool, saw: &str) -> Finding {
    Finding { about, ..Finding::new(subject, grade, met, saw) }
}

fn output(name: &str) -> Finding {
    found(About::Output, name, Grade::Observed, true, "its content changed")
}

fn coverage(value: f64) -> Finding {
    let met = value >= 80.0;
    let saw = format!("{value}, {} at least 80 is required", if met { "and" } else { "but" });
    Finding { value: Some(value), ..found(About::Criterion, "coverage", Grade::Verified, met, &saw) }
}

fn of_generator(value: f64) -> Verdict {
    let tests = found(About::Criterion, "tests_pass", Grade::Verified, true, "`measure`: exit code 0");
    Verdict {
        findings: vec![output("code"), output("ctxpack"), tests, coverage(value)],
        ..Verdict::default()
    }
}

fn of_reviewer() -> Verdict {
    let word = found(About::Criterion, "no_critical_issues", Grade::Claimed, true, "the agent's word alone");
    Verdict { findings: vec![output("review"), word], ..Verdict::default() }
}

impl Scene {
    /// The agent of a task's attempt is started by us, works and ends with an exit record and a result.
    fn works(&mut self, name: &str, from: f64, to: f64, exit: Exit, verdict: Option<Verdict>) {
        let launcher = if exit.session.is_some() { "tmux" } else { "process" };
        self.play(&format!("{from} launch {name} {launcher}"));
        let attempt = self.state.tasks[self.state.find(name).unwrap()].tries.last().unwrap().attempt;
        let exit = Exit { task: key(name), attempt, wall_seconds: to - from, ..exit };
        self.happen(to, Event::Exited { exit: Box::new(exit) });
        if let Some(verdict) = verdict {
            self.collects(name, to, verdict);
        }
    }

    fn collects(&mut self, name: &str, at: f64, verdict: Verdict) {
        let task = key(name);
        let attempt = self.state.tasks[self.state.find(name).unwrap()].tries.last().unwrap().attempt;
        let unmet: Vec<Finding> = verdict.unmet().cloned().collect();
        self.happen(
            at,
            Event::Collected {
                task: task.clone(),
                attempt,
                sha256: "00".into(),
                unfenced: false,
                inline: None,
                tokens_used: Some(1000),
                verdict,
            },
        );
        let ended = match unmet.is_empty() {
            true => Event::Succeeded { task, attempt },
            false => {
                let because = Reason::EvidenceMissing { unmet };
                Event::AttemptFailed { task, attempt, because, retry_at: None }
            }
        };
        self.happen(at, ended);
    }

    fn merges(&mut self, round: u32, at: f64, outcome: MergeOutcome) {
        self.play(&format!("{at} merging {round}"));
        self.happen(at + 1.0, Event::Merged { round, outcome: Box::new(outcome) });
    }

    fn finishes(&mut self, at: f64) -> BatchStatus {
        let status = self.state.status();
        self.happen(at, Event::Finished { status });
        status
    }
}

fn exit(code: Option<i32>, memory_mb: u64) -> Exit {
    Exit {
        task: key("any"),
        attempt: Attempt::FIRST,
        exit_code: code,
        signal: code.is_none().then_some(9),
        stopped: None,
        started_at: wall(0.0),
        ended_at: wall(0.0),
        wall_seconds: 0.0,
        cpu_seconds: 12.3456,
        peak_memory_kb: memory_mb * 1024 - 1,
        redacted: 0,
        cost_usd: None,
        result_by_runner: false,
        no_result: None,
        warnings: Vec::new(),
        produced: Vec::new(),
        inspected_sha256: None,
        declared: Vec::new(),
        baseline_sha256: None,
        session: None,
        mark: None,
    }
}

fn in_session(exit: Exit, name: &str) -> Exit {
    Exit { session: Some(name.into()), ..exit }
}

/// The dialect's own example, second for second.
fn success() -> Scene {
    let mut scene = Scene::with("code-generator; code-reviewer<-code-generator", requested, "0 preparing");
    let prepared = Prepared {
        files: Some(12),
        bytes: Some(3456),
        left_out: vec!["big.iso: larger than 1 GB".into()],
        ..Prepared::default()
    };
    scene.happen(1.0, Event::Prepared { prepared });
    let generator = in_session(exit(Some(0), 512), "code-generator-20251110-1430");
    let mut verdict = of_generator(85.0);
    verdict.touched_undeclared = vec!["notes.txt".into()];
    scene.works("code-generator", 5.0, 738.0, generator, Some(verdict));
    scene.works("code-reviewer", 745.0, 932.0, exit(Some(0), 100), Some(of_reviewer()));
    scene.claim("code-generator", &[], &[], 140_000);
    let metrics = json!({"lines_of_code": 1247, "test_count": 42, "peak_memory_mb": 1});
    scene.claims.get_mut(&0).unwrap().metrics = metrics.as_object().unwrap().clone();
    scene.merges(1, 932.0, merged_well());
    assert_eq!(scene.finishes(933.5), BatchStatus::Success);
    scene
}

/// One falls short of its floor, what depends on it is skipped, one succeeds at its second try, one runs too long.
fn partial() -> Scene {
    let mut scene = Scene::with(
        "code-generator; code-reviewer<-code-generator; writer; tester",
        requested,
        "0 preparing\n0 prepared",
    );
    scene.works("code-generator", 1.0, 60.0, exit(Some(0), 2000), Some(of_generator(75.0)));
    scene.play("60 block code-reviewer code-generator");
    scene.works("writer", 1.0, 20.0, exit(None, 10), None);
    scene.play("20 fail writer silent retry");
    let mut verdict = of_reviewer();
    verdict.declared_untouched = vec!["README.md".into()];
    scene.works("writer", 23.0, 40.25, exit(Some(0), 10), Some(verdict));
    scene.play("1 launch tester process\n3601 fail tester timeout\n3602 late tester 1");
    let skipped = MergeOutcome::without_result(MergeStatus::Skipped, "not every agent succeeded");
    scene.merges(1, 3602.0, skipped);
    assert_eq!(scene.finishes(3604.0), BatchStatus::PartialSuccess);
    scene
}

/// Two agents changed one line, and a person is to decide.
fn conflict() -> Scene {
    let mut scene = Scene::with("code-generator; code-reviewer", requested, "0 preparing\n0 prepared");
    scene.works("code-generator", 1.0, 60.0, exit(Some(0), 10), Some(of_generator(85.0)));
    scene.works("code-reviewer", 1.0, 60.0, exit(Some(0), 10), Some(of_reviewer()));
    let mut outcome = conflicted();
    outcome.warnings = vec!["App.py and app.py differ in case alone".into()];
    scene.merges(1, 61.0, outcome);
    scene
}

fn cancelled() -> Scene {
    let mut scene = Scene::with(
        "code-generator; code-reviewer<-code-generator",
        requested,
        "0 preparing\n0 prepared\n1 launch code-generator process\n30 cancel
         31 fail code-generator cancelled\n31 drop code-reviewer",
    );
    let skipped = MergeOutcome::without_result(MergeStatus::Skipped, "the batch was cancelled");
    scene.merges(1, 31.0, skipped);
    assert_eq!(scene.finishes(32.0), BatchStatus::Cancelled);
    scene
}

fn overall_timeout() -> Scene {
    let mut scene = Scene::with(
        "code-generator; code-reviewer",
        requested,
        "0 preparing\n0 prepared\n1 launch code-reviewer process",
    );
    scene.works("code-generator", 1.0, 60.0, exit(Some(0), 10), Some(of_generator(85.0)));
    scene.play("3600 fail code-reviewer batch");
    let skipped = MergeOutcome::without_result(MergeStatus::Skipped, "the batch exceeded its time");
    scene.merges(1, 3600.0, skipped);
    assert_eq!(scene.finishes(3602.0), BatchStatus::Timeout);
    scene
}

fn not_prepared() -> Scene {
    let mut scene = Scene::with("code-generator", requested, "0 preparing\n1 not_prepared no space left");
    let because = Reason::NotPrepared { why: "no space left".into() };
    scene.happen(1.0, Event::Abandoned { task: key("code-generator"), because });
    assert_eq!(scene.finishes(1.0), BatchStatus::Failure);
    scene
}

/// Assignments that all went well: one agent for both, checks of the whole.
fn assignments() -> Scene {
    let mut scene = Scene::with("A; B<-A", assigned, "0 preparing\n0 prepared");
    let artifact = found(About::Artifact, "dist/*", Grade::Observed, true, "2 files");
    let verdict = || {
        let mut verdict = of_reviewer();
        verdict.findings[0] = artifact.clone();
        verdict
    };
    let session = in_session(exit(Some(0), 10), "code-generator-20251110-1430");
    scene.works("A", 1.0, 60.0, session, Some(verdict()));
    scene.works("B", 61.0, 90.0, exit(Some(0), 10), Some(verdict()));
    let checks =
        vec![found(About::Criterion, "tests_cmd", Grade::Verified, true, "`make test`: exit code 0")];
    scene.merges(1, 90.0, MergeOutcome { checks, ..merged_well() });
    assert_eq!(scene.finishes(92.0), BatchStatus::Success);
    scene
}

/// The tests of the whole fail: nothing is merged.
fn invalid_assignments() -> Scene {
    let mut scene = Scene::with("A", assigned, "0 preparing\n0 prepared");
    scene.works("A", 1.0, 60.0, exit(Some(0), 10), Some(of_reviewer()));
    let checks =
        vec![found(About::Criterion, "tests_cmd", Grade::Verified, false, "`make test`: exit code 2")];
    let failed = MergeOutcome::without_result(MergeStatus::Failure, "a check of the whole is not met");
    scene.merges(1, 60.0, MergeOutcome { checks, ..failed });
    assert_eq!(scene.finishes(62.0), BatchStatus::Failure);
    scene
}

/// A plan's batch, told to whoever asks in another dialect.
fn plan() -> Scene {
    let mut scene = Scene::of(
        "1; 2<-1; 3",
        "0 done 1 claimed\n60 offer 2\n60 start 2\n120 fail 2 missing\n0 done 3 observed",
    );
    scene.claim("1", &["a.md"], &["b.md"], 500);
    assert_eq!(scene.finishes(120.5), BatchStatus::PartialSuccess);
    scene
}

/// In the middle: one waits, one runs its second attempt, one has ended.
fn running() -> (Scene, Live) {
    let mut scene = Scene::with(
        "code-generator; code-reviewer<-code-generator; writer",
        requested,
        "0 preparing\n0 prepared\n1 launch code-generator process\n60 fail code-generator silent retry
         63 launch code-generator process",
    );
    scene.works("writer", 1.0, 60.0, exit(Some(0), 10), Some(of_reviewer()));
    let mut live = Live::default();
    let progress = Some("Step 3 of 5".to_owned());
    live.tasks.insert(0, LiveTask { progress, ..LiveTask::default() });
    (scene, live)
}

fn report(scene: &Scene, dialect: Dialect) -> Vec<u8> {
    report_bytes(&scene.state, &scene.claims, &workspace_logs(&scene.state), dialect)
}

fn judge(schema: &str, name: &str, bytes: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(bytes).unwrap();
    let path = root().join(format!("spec/schemas/{schema}.schema.json"));
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let complaints: Vec<String> =
        validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(complaints.is_empty(), "{name}: {complaints:#?}");
    value
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compare(name: &str, bytes: &[u8]) {
    let path: PathBuf = root().join("testdata/reports").join(name);
    if std::env::var_os("WK_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let expected = String::from_utf8(std::fs::read(&path).unwrap_or_default()).unwrap();
    let found = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(found == expected, "{name} differs; WK_BLESS=1 writes it anew:\n{found}");
}

#[test]
fn every_story_has_its_report_in_the_words_of_its_dialect() {
    let execution = [
        ("success", success()),
        ("partial", partial()),
        ("conflict", conflict()),
        ("cancelled", cancelled()),
        ("overall-timeout", overall_timeout()),
        ("not-prepared", not_prepared()),
        ("plan", plan()),
    ];
    for (name, scene) in execution {
        let bytes = report(&scene, Dialect::ExecutionRequest);
        compare(&format!("{name}.execution.json"), &bytes);
        judge("execution-report", name, &bytes);
    }
    let assignments = [
        ("success", assignments()),
        ("invalid", invalid_assignments()),
        ("partial", partial()),
        ("plan", plan()),
    ];
    for (name, scene) in assignments {
        let bytes = report(&scene, Dialect::Assignments);
        compare(&format!("{name}.assignments.json"), &bytes);
        judge("assignments-report", name, &bytes);
    }
}

#[test]
fn every_story_can_be_told_in_every_dialect_at_every_moment() {
    for scene in
        [success(), partial(), conflict(), cancelled(), not_prepared(), assignments(), plan(), running().0]
    {
        let mut state = BatchState::new(scene.state.batch.clone());
        for entry in &scene.entries {
            state.apply(entry).unwrap();
            let told = |dialect| report_bytes(&state, &scene.claims, &workspace_logs(&state), dialect);
            judge("execution-report", "at some moment", &told(Dialect::ExecutionRequest));
            judge("assignments-report", "at some moment", &told(Dialect::Assignments));
            judge("workspace-status", "at some moment", &status_bytes(&state, &Live::default(), entry.at));
        }
    }
}

#[test]
fn the_live_status_tells_each_agent_in_one_state() {
    let (scene, live) = running();
    let bytes = status_bytes(&scene.state, &live, wall(64.9));
    compare("running.status.json", &bytes);
    let status = judge("workspace-status", "running", &bytes);
    let words: Vec<&str> =
        status["agents"].as_array().unwrap().iter().map(|agent| agent["status"].as_str().unwrap()).collect();
    assert_eq!(words, ["running", "waiting", "success"]);
    let bytes = status_bytes(&conflict().state, &Live::default(), wall(62.0));
    compare("conflict.status.json", &bytes);
}

#[test]
fn the_clients_own_fields_come_first_and_in_its_order() {
    let names = |value: &[u8], indent: usize| -> Vec<String> {
        let pad = format!("{}\"", " ".repeat(indent));
        let lines = std::str::from_utf8(value).unwrap().lines();
        let keys = lines.filter_map(|line| Some(line.strip_prefix(&pad)?.split_once('"')?.0.to_owned()));
        keys.collect()
    };
    let execution = report(&success(), Dialect::ExecutionRequest);
    let seeds = "execution_id status start_timestamp end_timestamp duration_seconds agents merge_result errors warnings";
    let top = names(&execution, 2);
    assert_eq!(top[..9].join(" "), seeds);
    let agent = "agent_name status tmux_session start_time end_time duration_seconds exit_code outputs_produced success_criteria_met logs metrics";
    assert_eq!(names(&execution, 6)[..11].join(" "), agent);
    let assignments = report(&assignments(), Dialect::Assignments);
    assert_eq!(names(&assignments, 2)[..3].join(" "), "summary tasks merge");
    assert_eq!(names(&assignments, 6)[..5].join(" "), "id agent status logs artifacts");
}

#[test]
fn the_same_story_folded_twice_gives_the_same_bytes() {
    let scene = partial();
    let mut again = BatchState::new(scene.state.batch.clone());
    scene.entries.iter().for_each(|entry| again.apply(entry).unwrap());
    for dialect in [Dialect::ExecutionRequest, Dialect::Assignments] {
        let bytes = report(&scene, dialect);
        assert!(bytes.ends_with(b"}\n"));
        assert_eq!(report_bytes(&again, &scene.claims, &workspace_logs(&again), dialect), bytes);
    }
}

#[test]
fn conflicts_of_a_batch_that_was_cancelled_wait_for_nobody() {
    let mut scene = conflict();
    scene.play("70 cancel");
    assert_eq!(scene.finishes(71.0), BatchStatus::Cancelled);
    let told: Value = serde_json::from_slice(&report(&scene, Dialect::ExecutionRequest)).unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("cancelled"), &json!("cancelled")));
    let merge = &told["merge_result"];
    assert_eq!((&merge["status"], &merge["awaits_resolution"]), (&json!("failure"), &json!(false)));
    assert_eq!(merge["next_step"], Value::Null);
}

#[test]
fn an_outsider_leaves_no_log_and_no_exit() {
    let mut scene = Scene::with("code-reviewer", requested, "0 preparing\n0 prepared\n1 offer code-reviewer");
    let sign = Sign::Take { by: "ada".into() };
    scene.happen(2.0, Event::Started { task: key("code-reviewer"), attempt: Attempt::FIRST, sign });
    scene.collects("code-reviewer", 9.0, of_reviewer());
    let told: Value = serde_json::from_slice(&report(&scene, Dialect::ExecutionRequest)).unwrap();
    let agent = &told["agents"][0];
    assert_eq!(agent["logs"], json!({"stdout": null, "stderr": null}));
    assert_eq!((&agent["exit_code"], &agent["tmux_session"]), (&Value::Null, &Value::Null));
    assert_eq!((&agent["status"], &told["status"]), (&json!("success"), &json!("running")));
    assert_eq!(agent["metrics"], json!({"tokens_used": 1000, "cost_usd": 0.003}));
}
