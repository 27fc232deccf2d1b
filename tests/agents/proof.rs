//! What stands behind a green beyond files: commits, checks that their agents changed, demands that travel, and the
//! verbs that tell of it. The lies and the honest work are in `tests/evidence`.

use std::process::Command;

use serde_json::json;

use crate::crew::Stage;
use crate::scene::{ending, task};

/// A plan whose one task has a real check, done by `work.sh`.
const CHECKED: &str = "batch_id = 7\n 1 command=[\"sh\",\"work.sh\"] max_retries=0 files_modified=[\"a.txt\"] validation_gates=[\"`sh\\tcheck.sh`\"]";

fn in_repository() -> Stage {
    let stage = Stage::new();
    git(&stage, &["init", "-q"]);
    std::fs::write(stage.file("old.txt"), "old").unwrap();
    git(&stage, &["add", "old.txt"]);
    git(&stage, &["commit", "-q", "-m", "old"]);
    stage
}

fn git(stage: &Stage, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(stage.file("")).env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Says success and names a commit, as a shell would.
fn delivers(commit: &str) -> String {
    format!(
        "printf '{{\"task_id\":\"%s\",\"status\":\"success\",\"output\":{{\"commits\":[\"%s\"]}}}}' \"$WK_TASK_ID\" {commit} > \"$WK_RESULT\""
    )
}

#[test]
fn a_check_that_its_agent_changed_is_only_observed_and_the_file_is_named() {
    let stage = Stage::new();
    stage.script("check.sh", "grep -q done a.txt");
    stage.script("work.sh", "echo broken > a.txt; echo 'test 1 = 1' > check.sh");
    let plan = stage.plan(CHECKED);
    stage.go(&["run", plan.to_str().unwrap(), "--verify", "--require", "observed"], &[]).ends().exits(0);
    assert_eq!(task(&stage.ended("7"), "1")["evidence"], "observed");
    stage.call(&["evidence", "7/1"]).exits(0).says("check.sh, of which it consists, changed undeclared");

    let stage = Stage::new();
    stage.script("check.sh", "grep -q done a.txt");
    stage.script("work.sh", "echo broken > a.txt; echo 'test 1 = 1' > check.sh");
    let plan = stage.plan(CHECKED);
    stage.go(&["run", plan.to_str().unwrap(), "--require", "verified"], &[]).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:below_required");
}

#[test]
fn a_check_whose_script_is_declared_may_be_written_by_its_agent() {
    let stage = Stage::new();
    stage.script("check.sh", "false");
    stage.script("work.sh", "echo done > a.txt; echo 'grep -q done a.txt' > check.sh");
    let plan = stage.plan(&CHECKED.replace("[\"a.txt\"]", "[\"a.txt\",\"check.sh\"]"));
    stage.go(&["run", plan.to_str().unwrap(), "--require", "verified"], &[]).ends().exits(0);
    assert_eq!(task(&stage.ended("7"), "1")["evidence"], "verified");
}

#[test]
fn a_new_commit_counts_and_an_old_or_invented_one_fails() {
    let stage = in_repository();
    let old = git(&stage, &["rev-parse", "HEAD"]);
    let commits = "git -c user.name=A -c user.email=a@example.com";
    stage.script(
        "new.sh",
        &format!(
            "{{ git checkout -q -b side && echo new > a.txt && git add a.txt && {commits} commit -q -m new; }} >&2\nid=$(git rev-parse HEAD)\ngit checkout -q - >&2\n{}",
            delivers("$id")
        ),
    );
    stage.script("old.sh", &delivers(&old));
    stage.script("invented.sh", &delivers("0123456789abcdef0123456789abcdef01234567"));
    let plan = "batch_id = 7\n max_retries = 0\n 1 command=[\"sh\",\"new.sh\"] files_modified=[\"a.txt\"]\n 2 <- 1 command=[\"sh\",\"old.sh\"] files_modified=[\"b.txt\"]\n 3 <- 1 command=[\"sh\",\"invented.sh\"] files_modified=[\"c.txt\"]";
    stage.run(plan, &[]).ends().exits(3);
    let result = stage.ended("7");
    assert_eq!(ending(&result, "1"), "success", "{result:#}");
    assert!(!stage.file("a.txt").exists(), "it is in the commit alone");
    assert_eq!(task(&result, "1")["evidence"], "observed");
    assert_eq!(task(&result, "1")["files_modified"], json!(["a.txt"]));
    assert_eq!(task(&result, "1")["commits"].as_array().unwrap().len(), 1);
    for key in ["2", "3"] {
        assert_eq!(ending(&result, key), "failed:evidence_missing", "{result:#}");
        assert_eq!(task(&result, key)["commits"], json!([]));
        assert_eq!(task(&result, key)["reported"]["commits"].as_array().unwrap().len(), 1);
    }
    assert!(task(&result, "2")["reason"].as_str().unwrap().contains("was there before"), "{result:#}");
}

#[test]
fn a_commit_is_a_claim_where_there_is_no_repository() {
    let stage = Stage::new();
    stage.script("work.sh", &format!("echo x > a.txt; {}", delivers("0123456")));
    stage
        .run("batch_id = 7\n 1 command=[\"sh\",\"work.sh\"] files_modified=[\"a.txt\"]", &[])
        .ends()
        .exits(0);
    assert_eq!(task(&stage.ended("7"), "1")["evidence"], "observed", "the file was seen");
}

#[test]
fn a_check_says_which_tasks_cannot_reach_what_is_demanded() {
    let stage = Stage::new();
    let plan = stage.plan("batch_id = 7\n 1 command=[\"true\"]\n 2 command=[\"true\"] files_modified=[\"a\"]\n 3 command=[\"true\"] files_modified=[\"b\"] validation_gates=[\"`make\\ttest`\"]");
    let plan = plan.to_str().unwrap();
    stage.call(&["check", plan]).exits(0);
    let observed = stage.call(&["check", plan, "--require", "observed"]).exits(1);
    assert!(observed.out.contains("Phase 1: it declares no files"), "{}", observed.out);
    assert!(!observed.out.contains("Phase 2: "), "{}", observed.out);
    let verified = stage.call(&["check", plan, "--require", "verified", "--json"]).exits(1);
    let facts: serde_json::Value = serde_json::from_str(&verified.out).unwrap();
    let named: Vec<_> = facts["out_of_reach"].as_array().unwrap().iter().map(|one| &one["task_id"]).collect();
    assert_eq!(named, ["phase-1", "phase-2"]);
}

#[test]
fn a_demand_that_comes_after_the_acceptance_is_refused_whoever_watches() {
    let stage = Stage::new();
    stage.settings("request_commands = \"always\"");
    let watch = stage.watch(&[]);
    stage.script("waits.sh", "while ! test -e go; do sleep 0.05; done");
    let plan = stage.plan("batch_id = 7\n 1 command=[\"sh\",\"waits.sh\"]");
    let plan = plan.to_str().unwrap();
    stage.call(&["submit", plan]).exits(0);
    let refused = stage.call(&["run", plan, "--require", "observed"]).exits(2);
    assert!(refused.err.contains("was accepted with require = claimed"), "{}", refused.err);
    std::fs::write(stage.file("go"), "").unwrap();
    stage.ended("7");
    watch.stop().exits(0);
}

#[test]
fn a_demand_travels_to_the_watcher_that_runs() {
    for verb in ["submit", "run"] {
        let stage = Stage::new();
        stage.settings("request_commands = \"always\"");
        let watch = stage.watch(&[]);
        let plan = stage.plan("batch_id = 7\n 1 command=[\"true\"] max_retries=0");
        stage.call(&[verb, plan.to_str().unwrap(), "--require", "observed"]);
        let result = stage.ended("7");
        assert_eq!(ending(&result, "1"), "failed:below_required", "{verb}: {result:#}");
        watch.stop().exits(0);
    }
}

#[test]
fn the_evidence_of_a_task_is_told_finding_by_finding() {
    let stage = Stage::new();
    std::fs::write(stage.file("same.txt"), "same").unwrap();
    stage.script("work.sh", "echo x > made.txt; touch same.txt");
    let files = "files_modified=[\"made.txt\",\"same.txt\",\"never.txt\"]";
    stage
        .run(&format!("batch_id = 7\n 1 command=[\"sh\",\"work.sh\"] {files}"), &[])
        .ends()
        .exits(0)
        .says("never.txt");
    let told = stage.call(&["evidence", "1"]).exits(0);
    for line in [
        "Phase 1: claimed (files claimed · no gates)",
        "✓ made.txt: created → observed",
        "· same.txt: written again with the same bytes → claimed",
        "✗ never.txt: does not exist → not done",
    ] {
        assert!(told.out.contains(line), "no {line:?} in\n{}", told.out);
    }
    let json: serde_json::Value =
        serde_json::from_str(&stage.call(&["evidence", "7/1", "--json"]).exits(0).out).unwrap();
    assert_eq!(json["files_created"], json!(["made.txt"]));
}

#[test]
fn settings_that_change_during_a_run_are_told() {
    let stage = Stage::new();
    let watch = stage.watch(&[]);
    stage.settings("max_retries = 9");
    stage.wait_for("the change is told", || {
        watch.stderr().contains("watchkeeper.toml has changed").then_some(())
    });
    watch.stop().exits(0);
}
