//! What an agent of ours leaves in its drop box while it lives: the first valid result counts, what is wrong can be
//! corrected, and whatever comes later is kept aside.

use serde_json::Value;

use crate::crew::Stage;
use crate::scene::{ending, rule};

/// Words for agents: a result with a note, and bounded waits for what the watcher does.
const WORDS: &str = r#"
deliver() { echo "{\"task_id\":\"$WK_TASK_ID\",\"status\":\"$1\",\"output\":{\"note\":\"$2\"}}" > "$WK_RESULT"; }
await() { i=0; until "$@" || [ $i -gt 4000 ]; do sleep 0.02; i=$((i+1)); done; }
is_taken() { test ! -e "$WK_RESULT"; }
error="${WK_RESULT%.json}.error.json"
"#;

/// So patient that nobody is ended for staying after a result.
const PATIENT: &[&str] = &["kill_grace_seconds=60", "settle_seconds=0.2"];

fn late_reasons(stage: &Stage, batch: &str) -> Vec<Value> {
    let dir = stage.path(&format!("completed-batches/batch-{batch}/late"));
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let reasons = names.filter(|path| path.to_string_lossy().ends_with(".reason.json"));
    reasons.map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect()
}

#[test]
fn the_first_valid_result_counts_whatever_its_agent_writes_later() {
    for later in [
        "deliver failed second; await is_taken; echo garbage > \"$WK_RESULT\"; await is_taken",
        "deliver failed second",
        "echo garbage > \"$WK_RESULT\"",
    ] {
        let stage = Stage::new();
        stage.agent_script(
            "hasty",
            &format!(
                "{WORDS} touch alive; deliver success first; await is_taken\n{later}; sleep 0.2; rm alive"
            ),
        );
        stage.agent_script("next", "test ! -e alive");
        let plan = "batch_id = 7\n 1 agent=hasty max_retries=0\n 2 <- 1 agent=next max_retries=0";
        stage.run(plan, PATIENT).ends().exits(0);
        assert!(stage.kept_text("7", "1", 1, "result.json").contains("first"), "{later}");
        let late = late_reasons(&stage, "7");
        assert_eq!(
            late.len(),
            later.matches("deliver").count() + later.matches("garbage").count(),
            "{later}"
        );
        assert!(late.iter().all(|reason| reason["late"] == "not_the_first"), "{late:?}");
        assert!(!stage.path("completed-batches/batch-7/task-1.result.json").exists());
    }
}

#[test]
fn a_result_that_its_agent_deletes_still_counts() {
    let stage = Stage::new();
    let agent = "{WORDS} deliver failed first; await is_taken; rm -f \"$WK_RESULT\"; exit 0";
    stage.agent_script("deleter", &agent.replace("{WORDS}", WORDS));
    stage.run("batch_id = 7\n 1 agent=deleter max_retries=0", PATIENT).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:agent_reported");
}

#[test]
fn a_result_that_one_watcher_kept_counts_for_the_next() {
    let stage = Stage::new();
    let agent = format!(
        "{WORDS} deliver success first; await is_taken; echo kept >> log\nuntil [ -e go ]; do sleep 0.02; done\n\
         deliver failed second"
    );
    stage.agent_script("slow", &agent);
    let run = stage.run("batch_id = 7\n 1 agent=slow max_retries=0", PATIENT);
    stage.wait_lines("log", 1);
    assert!(stage.kept_text("7", "1", 1, "result.json").contains("first"));
    run.kill();
    stage.script("go", "");
    stage.wait_for("the agent has ended", || stage.agents().is_empty().then_some(()));
    let watch = stage.watch(&[]);
    assert_eq!(ending(&stage.ended("7"), "1"), "success");
    assert_eq!(late_reasons(&stage, "7").len(), 1);
    watch.stop().exits(0);
}

#[test]
fn a_result_whose_runner_was_killed_is_kept_as_late() {
    let stage = Stage::new();
    let agent = format!("{WORDS} deliver success first; await is_taken; kill -9 $PPID; sleep 60");
    stage.agent_script("murderer", &agent);
    stage.run("batch_id = 7\n 1 agent=murderer max_retries=0", PATIENT).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:runner_died");
    assert_eq!(late_reasons(&stage, "7")[0]["late"], "settled");
}

#[test]
fn a_living_agent_is_told_what_is_wrong_with_its_result_and_corrects_it() {
    let wrong_task = r#"{"task_id":"another","status":"success","output":{}}"#;
    for (wrong, expected) in [("garbage", "json_syntax"), (wrong_task, "wrong_task")] {
        let stage = Stage::new();
        let agent = format!(
            "{WORDS} echo '{wrong}' > \"$WK_RESULT\"; await test -e \"$error\"; cp \"$error\" told\n\
             sleep 2.5; deliver success corrected"
        );
        stage.agent_script("learner", &agent);
        // The patience with an agent that has delivered is much shorter than it takes to correct it.
        let settings = ["settle_seconds=0.2", "kill_grace_seconds=0.3"];
        stage.run("batch_id = 7\n 1 agent=learner max_retries=0", &settings).ends().exits(0);
        let told: Value = serde_json::from_str(&stage.lines("told").join("\n")).unwrap();
        assert_eq!(rule(&told), expected, "{told}");
        assert!(stage.kept_text("7", "1", 1, "result.json").contains("corrected"));
        assert_eq!(stage.count("7", "result_refused", Some("1")), 1);
        assert!(!stage.path("completed-batches/batch-7/task-1.result.error.json").exists());
    }
}

#[test]
fn a_result_may_be_written_slowly_in_place() {
    let stage = Stage::new();
    let agent = "exec 3> \"$WK_RESULT\"; printf '{\"task_id\":\"%s\",' \"$WK_TASK_ID\" >&3; sleep 3\n\
        printf '\"status\":\"success\",\"output\":{\"note\":\"slow\"}}' >&3; exec 3>&-; sleep 60";
    stage.agent_script("slow", agent);
    let settings = ["settle_seconds=0.2", "kill_grace_seconds=0.3"];
    stage.run("batch_id = 7\n 1 agent=slow max_retries=0", &settings).ends().exits(0);
    assert!(stage.kept_text("7", "1", 1, "result.json").contains("slow"));
    assert_eq!(stage.count("7", "result_refused", None), 0);
}

#[test]
fn an_agent_that_never_corrects_its_result_fails_by_it() {
    // Whether the refusal comes while it lives or with its end.
    for (wait, settings) in [("await test -e \"$error\"", PATIENT), (":", &[])] {
        let stage = Stage::new();
        stage.agent_script("mumbler", &format!("{WORDS} echo garbage > \"$WK_RESULT\"; {wait}; exit 0"));
        stage.run("batch_id = 7\n 1 agent=mumbler max_retries=0", settings).ends().exits(1);
        assert_eq!(ending(&stage.ended("7"), "1"), "failed:result_refused");
    }
}

#[test]
fn a_result_for_another_attempt_is_the_reason_why_its_agent_failed() {
    for wait in ["await is_taken", ":"] {
        let stage = Stage::new();
        let other = r#"{\"task_id\":\"$WK_TASK_ID\",\"attempt\":5,\"status\":\"success\",\"output\":{}}"#;
        stage.agent_script("confused", &format!("{WORDS} echo \"{other}\" > \"$WK_RESULT\"; {wait}; exit 0"));
        stage.run("batch_id = 7\n 1 agent=confused max_retries=0", PATIENT).ends().exits(1);
        assert_eq!(ending(&stage.ended("7"), "1"), "failed:result_refused", "{wait}");
        stage.call(&["why", "7/1"]).says("is 5, but this is the outbox of attempt 1");
    }
}

#[test]
fn an_agent_of_ours_that_reports_twice_is_refused_and_its_first_result_counts() {
    let stage = Stage::new();
    let wk = env!("CARGO_BIN_EXE_wk");
    let agent = format!(
        "{wk} agent done; echo $? >> codes; {wk} agent done; echo $? >> codes\n\
         {wk} agent done --status failed --error no 2> told; echo $? >> codes"
    );
    stage.agent_script("twice", &agent);
    stage.run("batch_id = 7\n 1 agent=twice max_retries=0", PATIENT).ends().exits(0);
    assert_eq!(stage.lines("codes"), ["0", "0", "1"]);
    assert!(stage.lines("told").join("").contains("has a result already"), "{:?}", stage.lines("told"));
    assert_eq!(ending(&stage.ended("7"), "1"), "success");
}
