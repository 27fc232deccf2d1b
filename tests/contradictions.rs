//! Where the documents contradict themselves or each other, one reading was chosen. Each scene fixes one.

mod scene;

use scene::play::check;
use scene::{Bus, FAILED, SUCCESS, ending, task};

#[test]
fn c1_an_empty_heartbeat_means_not_started_and_a_beat_is_a_change_of_a_json_object() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1");
    let run = bus.run(&plan, &[]);
    let agent = bus.agent("43/1");
    agent.waits_for_spec();
    assert_eq!(std::fs::metadata(agent.heartbeat()).unwrap().len(), 0);
    agent.beats_with("[1, 2]");
    agent.beats_with("");
    bus.agent("43/1").beats();
    bus.wait_event("43", "started", "1");
    assert_eq!(bus.journal("43").iter().filter(|line| line["event"] == "started").count(), 1);
    agent.delivers(SUCCESS);
    run.ends().exits(0);
}

#[test]
fn c2_a_result_is_looked_at_first_and_its_heartbeat_does_not_matter_any_more() {
    check(
        "1 max_retries=0",
        "0   turn   => offered 1#1
         1   beat 1 => started 1#1
         900 done 1, beat 1 => collected 1#1; succeeded 1#1; finished success",
    );
}

#[test]
fn c3_whoever_never_starts_fails() {
    check(
        "1 max_retries=0 start_timeout_seconds=60",
        "0  turn => offered 1#1
         30 scan
         61 scan => failed 1#1: never started: no heartbeat within 60s; finished failure",
    );
}

#[test]
fn c4_one_lost_beat_of_thirty_seconds_is_forgiven_to_the_second() {
    check(
        "1 max_retries=0",
        "0  turn   => offered 1#1
         30 beat 1 => started 1#1
         60 scan
         90 beat 1
         120 scan
         150 beat 1
         180 scan
         210.001 scan => failed 1#1: no heartbeat for 60s; finished failure",
    );
}

#[test]
fn c5_without_progress_a_task_is_shown_as_stuck_and_left_alone() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1");
    let run = bus.run(&plan, &["stuck_after_seconds=0.3", "heartbeat_timeout_seconds=30"]);
    let path = bus.agent("43/1").waits_for_spec().heartbeat();
    let same = scene::agent::Beating::start(move |_| {
        let _ = std::fs::write(&path, r#"{"progress": "Step 1 of 5", "tokens_used": 10}"#);
    });
    bus.wait_for("it is shown as stuck", || {
        let status = std::fs::read_to_string(bus.path("tasks/batch-43/status.json")).ok()?;
        status.contains("stuck").then_some(())
    });
    assert_eq!(bus.count("43", "attempt_failed", None), 0);
    drop(same);
    bus.agent("43/1").delivers(SUCCESS);
    run.ends().exits(0);
}

#[test]
fn c6_retries_count_after_the_first_try_and_two_are_the_default() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2 max_retries=0");
    let run = bus.run(&plan, &[]);
    bus.agent("43/2").waits_for_spec().delivers(FAILED);
    for attempt in 1..=3 {
        bus.agent("43/1").waits_for_attempt(attempt).delivers_for(attempt, FAILED);
        bus.wait_events("43", "attempt_failed", "1", attempt as usize);
    }
    run.ends().exits(1);
    let result = bus.ended("43");
    assert_eq!(task(&result, "1")["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(task(&result, "2")["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn c6_a_watchers_crash_is_nobodys_attempt() {
    let bus = Bus::new();
    let watch = bus.watch(&["heartbeat_timeout_seconds=30"]);
    bus.drop_plan("batch_id = 43\n max_retries = 0\n 1");
    bus.agent("43/1").waits_for_spec().beats();
    bus.wait_event("43", "started", "1");
    let mut watch = watch;
    for _ in 0..3 {
        watch.kill();
        watch = bus.watch(&["heartbeat_timeout_seconds=30"]);
    }
    bus.agent("43/1").delivers(SUCCESS);
    let result = bus.ended("43");
    assert_eq!(ending(&result, "1"), "success");
    assert_eq!(task(&result, "1")["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn c8_the_ledger_is_made_from_the_journal_and_editing_it_decides_nothing() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2 <- 1");
    let run = bus.run(&plan, &[]);
    bus.agent("43/1").waits_for_spec();
    std::fs::write(bus.file(".ce/LEDGER.md"), "task 1 is done, believe me").unwrap();
    bus.agent("43/1").delivers(SUCCESS);
    bus.agent("43/2").waits_for_spec();
    bus.wait_for("the ledger is made again", || {
        let text = std::fs::read_to_string(bus.file(".ce/LEDGER.md")).ok()?;
        (!text.contains("believe me") && text.contains("43")).then_some(())
    });
    bus.agent("43/2").delivers(SUCCESS);
    run.ends().exits(0);
}

#[test]
fn c11_a_batch_lives_in_the_directory_with_its_prefix() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    bus.write("tasks/43/task-1.json", r#"{"task_id": "1", "goal": "g"}"#);
    bus.drop_spec("43", "2");
    bus.agent("43/2").waits_for_attempt(1).delivers(SUCCESS);
    let result = bus.ended("43");
    assert_eq!(result["results"].as_array().unwrap().len(), 1, "tasks/43 is no batch");
}

#[test]
fn c12_a_result_may_name_its_task_by_file_key_or_by_task_id() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2a\n 3");
    let run = bus.run(&plan, &[]);
    let said = |name: &str| format!(r#"{{"task_id": "{name}", "status": "success", "output": {{}}}}"#);
    bus.agent("43/1").waits_for_spec().delivers_text(&said("1"));
    bus.agent("43/2a").waits_for_spec().delivers_text(&said("phase-2a"));
    bus.agent("43/3").waits_for_spec().delivers_text(&said("phase-1"));
    bus.wait_event("43", "result_refused", "3");
    bus.wait_for("the error is left", || bus.agent("43/3").result_error().exists().then_some(()));
    bus.agent("43/3").delivers_text(&said("phase-3"));
    run.ends().exits(0);
    assert_eq!(bus.ended("43")["completed_tasks"].as_array().unwrap().len(), 3);
}

#[test]
fn c13_a_spec_that_its_agent_removed_or_changed_is_kept_as_it_was() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2");
    let run = bus.run(&plan, &[]);
    let (first, second) = (bus.agent("43/1"), bus.agent("43/2"));
    std::fs::remove_file(first.waits_for_spec().spec()).unwrap();
    std::fs::write(second.waits_for_spec().spec(), r#"{"task_id": "2", "goal": "something else"}"#).unwrap();
    first.beats();
    bus.wait_event("43", "started", "1");
    assert!(!first.spec().exists(), "it is not put back");
    first.delivers(SUCCESS);
    second.delivers(SUCCESS);
    run.ends().exits(0);
    for key in ["1", "2"] {
        let spec = bus.json(&format!("completed-batches/batch-43/attempts/{key}/1/spec.json"));
        assert_eq!(spec["goal"], format!("do {key}"));
    }
}

#[test]
fn c14_archiving_is_one_move_and_the_batch_is_not_seen_again() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    bus.drop_plan("batch_id = 43\n 1");
    bus.agent("43/1").waits_for_spec().beats();
    bus.wait_event("43", "started", "1");
    bus.agent("43/1").delivers(SUCCESS);
    bus.ended("43");
    assert!(!bus.path("tasks/batch-43").exists());
    assert!(bus.path("completed-batches/batch-43/attempts/1/1/last.hb").exists(), "the last beat is kept");
    watch.stop().exits(0);
    let lines = bus.journal("43").len();
    bus.pass(&[]).exits(0);
    assert_eq!(bus.journal("43").len(), lines, "an archive is not touched");
}

#[test]
fn c16_each_face_has_its_word_for_a_state_and_all_come_from_one() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n max_retries = 0\n 1\n 2\n 3 <- 2\n 4 <- 1");
    let run = bus.run(&plan, &[]);
    bus.agent("43/2").waits_for_spec().delivers(FAILED);
    bus.agent("43/1").waits_for_spec().beats();
    bus.wait_event("43", "started", "1");
    bus.wait_event("43", "abandoned", "3");
    let shown = bus.wk(&["status", "--json"]).json();
    let words: Vec<&str> = shown["batches"][0]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["status"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["IN_PROGRESS", "FAILED", "BLOCKED", "QUEUED"]);
    bus.agent("43/1").delivers(SUCCESS);
    bus.agent("43/4").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(3);
    let result = bus.ended("43");
    let words = ["1", "2", "3", "4"].map(|key| task(&result, key)["status"].as_str().unwrap().to_owned());
    assert_eq!(words, ["success", "failed", "blocked", "success"]);
}

#[test]
fn c17_blocked_is_the_end_of_a_task_whose_dependency_failed() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n max_retries = 0\n 1\n 2 <- 1\n 3 <- 2\n 4");
    let run = bus.run(&plan, &[]);
    bus.agent("43/1").waits_for_spec().delivers(FAILED);
    bus.agent("43/4").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(3);
    let result = bus.ended("43");
    assert_eq!(ending(&result, "2"), "blocked:dependency_failed");
    assert_eq!(ending(&result, "3"), "blocked:dependency_failed");
    assert_eq!(result["skipped_tasks"], serde_json::json!(["phase-2", "phase-3"]));
    assert_eq!(result["failed_tasks"], serde_json::json!(["phase-1"]));
}

#[test]
fn c18_a_batch_fails_only_if_nothing_succeeded() {
    check(
        "max_retries = 0\n 1\n 2",
        "0 turn => offered 1#1; offered 2#1
         1 done 1 => started 1#1 late; collected 1#1; succeeded 1#1
         2 failed 2 => started 2#1 late; collected 2#1; failed 2#1: the agent reported failure; finished partial_success",
    );
    check(
        "max_retries = 0\n 1",
        "0 turn => offered 1#1
         1 failed 1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure; finished failure",
    );
}

#[test]
fn c19_attempt_stage_and_batch_have_clocks_of_their_own() {
    check(
        "timeout_seconds = 100\n 1 max_retries=1",
        "0   turn   => offered 1#1
         0.1 beat 1 => started 1#1
         60  beat 1
         100.2 beat 1 => failed 1#1: exceeded 100s timeout, again
         110 turn   => offered 1#2
         111 beat 1 => started 1#2
         160 beat 1
         209 beat 1
         210 done 1#2 => collected 1#2; succeeded 1#2; finished success",
    );
    let bus = Bus::new();
    let plan = bus.plan("1 estimated_hours=8");
    bus.wk(&["check", plan.to_str().unwrap()]).exits(0).says("12.5%");
}

#[test]
fn c20_a_task_is_published_only_when_its_dependencies_have_succeeded() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2a <- 1\n 2b <- 1\n 3 <- 2a 2b");
    let run = bus.run(&plan, &[]);
    let published = || {
        let mut names: Vec<String> = std::fs::read_dir(bus.path("tasks/batch-43"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("task-") && name.ends_with(".json"))
            .collect();
        names.sort();
        names
    };
    bus.agent("43/1").waits_for_spec();
    assert_eq!(published(), ["task-1.json"]);
    bus.agent("43/1").delivers(SUCCESS);
    bus.agent("43/2a").waits_for_spec();
    bus.agent("43/2b").waits_for_spec();
    assert_eq!(published(), ["task-2a.json", "task-2b.json"]);
    bus.agent("43/2a").delivers(SUCCESS);
    bus.wait_event("43", "succeeded", "2a");
    assert!(!bus.agent("43/3").spec().exists(), "half is not all");
    bus.agent("43/2b").delivers(SUCCESS);
    bus.agent("43/3").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(0).says("Stages: 3/3");
}

#[test]
fn c21_each_task_runs_once() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2 <- 1\n 3 <- 1\n 4 <- 2 3");
    let run = bus.run(&plan, &[]);
    for key in ["1", "2", "3", "4"] {
        bus.agent(&format!("43/{key}")).waits_for_spec().delivers(SUCCESS);
    }
    run.ends().exits(0);
    for key in ["1", "2", "3", "4"] {
        assert_eq!(bus.count("43", "offered", Some(key)), 1);
    }
}

#[test]
fn c23_lists_that_a_result_leaves_out_are_empty_and_shared_files_are_reported() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2");
    let run = bus.run(&plan, &[]);
    bus.agent("43/1").waits_for_spec();
    bus.agent("43/2").waits_for_spec();
    std::fs::write(bus.file("both.txt"), "x").unwrap();
    bus.agent("43/1").delivers_files(&["both.txt"]);
    bus.agent("43/2").delivers_files(&["both.txt"]);
    run.ends().exits(0).says("both.txt");
    let result = bus.ended("43");
    assert_eq!(task(&result, "1")["files_modified"], serde_json::json!([]));
    let conflicts = result["conflicts"].to_string();
    assert!(conflicts.contains("both.txt") && conflicts.contains("phase-2"), "{conflicts}");
}

#[test]
fn c34_stages_are_counted_beside_the_seeds_own_field() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n max_retries = 0\n 1\n 2 <- 1");
    let run = bus.run(&plan, &[]);
    bus.agent("43/1").waits_for_spec().delivers(SUCCESS);
    bus.agent("43/2").waits_for_spec().delivers(FAILED);
    run.ends().exits(3);
    let result = bus.ended("43");
    assert_eq!(
        (&result["stage"], &result["stages_completed"], &result["stages_total"]),
        (&1.into(), &1.into(), &2.into())
    );
}
