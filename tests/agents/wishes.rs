//! Verbs that ask for something: pause and resume, another try, under way and in the archive.

use crate::crew::Stage;
use crate::scene::ending;

/// Succeeds once `fixed` is there; tells that it ran.
const NEEDS_FIX: &str = "echo $WK_TASK $WK_ATTEMPT >> ran; [ -e fixed ]";
const WAITS: &str = "echo $WK_TASK $WK_ATTEMPT >> ran; until [ -e go ]; do sleep 0.02; done";

/// 1 fails, 2 and 3 hang on it, 4 is fine.
const CHAIN: &str =
    "batch_id = 7\n max_retries = 0\n 1 agent=needs\n 2 <- 1 agent=fine\n 3 <- 2 agent=fine\n 4 agent=fine";

fn stage() -> Stage {
    let stage = Stage::new();
    stage.agent_script("needs", NEEDS_FIX);
    stage.agent_script("fine", "echo $WK_TASK $WK_ATTEMPT >> ran");
    stage.agent_script("waits", WAITS);
    stage
}

fn all_succeeded(stage: &Stage) {
    let result = stage.json("batches/batch-7.result.json");
    for key in ["1", "2", "3", "4"] {
        assert_eq!(ending(&result, key), "success", "{key}");
    }
    let mut ran = stage.lines("ran");
    ran.sort();
    assert_eq!(ran, ["1 1", "1 2", "2 1", "3 1", "4 1"]);
}

#[test]
fn a_paused_batch_begins_nothing_until_it_is_resumed() {
    let stage = stage();
    let run = stage.run("batch_id = 7\n 1 agent=waits\n 2 <- 1 agent=fine", &[]);
    stage.wait_lines("ran", 1);
    stage.call(&["pause", "7", "--why", "a look"]).exits(0).says("a pause of batch 7");
    stage.wait_for("the pause is granted", || (stage.count("7", "pause_asked", None) == 1).then_some(()));
    stage.script("go", "");
    stage.wait_event("7", "succeeded", "1");
    stage.call(&["status", "7"]).exits(0).says("Paused");
    assert_eq!(stage.lines("ran"), ["1 1"]);
    stage.call(&["resume", "7"]).exits(0);
    run.ends().exits(0);
    assert_eq!(stage.lines("ran"), ["1 1", "2 1"]);
}

#[test]
fn a_failed_task_of_a_batch_under_way_is_tried_again_with_its_dependents() {
    let stage = stage();
    let run = stage.run(&CHAIN.replace("4 agent=fine", "4 agent=waits"), &[]);
    stage.wait_event("7", "attempt_failed", "1");
    stage.wait_lines("ran", 2);
    stage.call(&["kill", "7/1"]).exits(2).complains("FAILED").complains("nothing to end");
    stage.script("fixed", "");
    stage.call(&["retry", "7/1", "--why", "it is fixed"]).exits(0).says("another try in batch 7");
    stage.wait_event("7", "succeeded", "3");
    stage.script("go", "");
    run.ends().exits(0);
    all_succeeded(&stage);
    stage.call(&["why", "7/1"]).exits(0).says("it is fixed");
}

#[test]
fn an_archived_batch_is_opened_again_by_its_watcher() {
    let stage = stage();
    stage.run(CHAIN, &[]).ends().exits(3);
    let watch = stage.watch(&[]);
    stage.script("fixed", "");
    stage.call(&["retry", "7/1"]).exits(0);
    stage.wait_event("7", "succeeded", "3");
    stage.ended("7");
    stage.wait_for("the result is written anew", || {
        (stage.json("batches/batch-7.result.json")["status"] == "success").then_some(())
    });
    all_succeeded(&stage);
    assert_eq!(stage.count("7", "reopened", None), 1);
    watch.stop().exits(0);
}

#[test]
fn without_a_watcher_retry_watches_the_batch_itself_and_ends_with_its_code() {
    let stage = stage();
    stage.run(CHAIN, &[]).ends().exits(3);
    stage.go(&["retry", "7/1"], &[]).ends().exits(3);
    assert_eq!(stage.lines("ran").len(), 3, "it failed again");
    stage.script("fixed", "");
    stage.go(&["retry", "--failed"], &[]).ends().exits(0).says("SUCCESS");
    let result = stage.ended("7");
    for key in ["1", "2", "3", "4"] {
        assert_eq!(ending(&result, key), "success", "{key}");
    }
    assert_eq!(stage.count("7", "launched", Some("1")), 3);
    assert_eq!(stage.count("7", "launched", Some("4")), 1, "what succeeded is not done again");
}

#[test]
fn retry_refuses_what_would_not_help_and_says_what_would() {
    let stage = stage();
    stage.run(CHAIN, &[]).ends().exits(3);
    stage.call(&["retry", "7/4"]).exits(2).complains("COMPLETED").complains("nothing to try again");
    stage
        .call(&["retry", "7/2"])
        .exits(2)
        .complains("BLOCKED")
        .complains("retry the task that it was skipped for");
    stage.call(&["retry", "7/9"]).exits(2).complains("hint:");
    stage.call(&["retry"]).exits(2).complains("which task?").complains("--failed");
    stage.call(&["kill", "7/1"]).exits(2).complains("already ended").complains("wk retry");
    stage.call(&["pause", "7"]).exits(2).complains("already ended");
    stage.script("fixed", "");
    stage.go(&["retry", "--failed", "7"], &[]).ends().exits(0);
    stage.call(&["retry", "--failed", "7"]).exits(2).complains("has failed");
}

#[test]
fn a_try_by_hand_has_its_whole_time_however_much_was_used_before() {
    let stage = stage();
    stage.script("slow.sh", "sleep 4; [ -e fixed ]");
    // Two tries take longer than the stage may, and either of them much less.
    let limits = "timeout_seconds = 7.5\n stage_timeout_seconds = 7.5";
    let plan = &format!("batch_id = 7\n max_retries = 0\n {limits}\n 1 command=[\"sh\",\"slow.sh\"]");
    stage.run(plan, &[]).ends().exits(1);
    stage.script("fixed", "");
    stage.go(&["retry", "7/1"], &[]).ends().exits(0);
}

#[test]
fn a_wish_without_a_watcher_waits_for_one() {
    let stage = stage();
    let run = stage.run("batch_id = 7\n 1 agent=waits", &[]);
    stage.wait_lines("ran", 1);
    run.kill();
    stage.call(&["kill", "7/1"]).exits(0).says("the next watcher grants it").complains("hint:");
    assert!(!stage.agents().is_empty());
    let watch = stage.watch(&[]);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:killed");
    stage.nobody_is_left();
    watch.stop().exits(0);
}

#[test]
fn one_pass_starts_agents_and_the_next_ones_take_what_they_did() {
    let stage = stage();
    let watch = stage.watch(&["request_commands=always"]);
    let plan = stage.plan("batch_id = 7\n 1 agent=waits\n 2 <- 1 agent=fine");
    stage.call(&["submit", plan.to_str().unwrap()]).exits(0);
    stage.wait_lines("ran", 1);
    watch.stop();
    stage.go(&["watch", "--once"], &[]).ends();
    assert!(!stage.agents().is_empty(), "a pass ends nobody");
    stage.script("go", "");
    stage.wait_for("its passes finish the batch", || {
        stage.go(&["watch", "--once"], &[]).ends();
        stage.path("completed-batches/batch-7").exists().then_some(())
    });
    assert_eq!(ending(&stage.ended("7"), "2"), "success");
    assert_eq!(stage.count("7", "launched", None), 2);
}
