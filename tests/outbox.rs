//! Each attempt has a place of its own to write to: a second result never takes the place of the first, and a
//! given-up attempt is told that it is over.

mod scene;

use scene::{Bus, SUCCESS, ending};

#[test]
fn a_second_result_is_refused_and_the_first_one_counts_although_no_watcher_runs() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    run.kill();
    bus.wk(&["agent", "done", "7/1#1"]).exits(0);
    bus.wk(&["agent", "done", "7/1#1"]).exits(0);
    let second = ["agent", "done", "7/1#1", "--status", "failed", "--error", "no"];
    bus.wk(&second).exits(1).complains("has a result already");
    let _watcher = bus.watch(&[]);
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
    bus.wk(&second).exits(1);
}

#[test]
fn a_given_up_attempt_is_told_that_it_is_over_although_no_watcher_runs() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1 max_retries=1");
    let run = bus.run(&plan, &["heartbeat_timeout_seconds=2"]);
    bus.agent("7/1").waits_for_spec();
    bus.wk(&["agent", "beat", "7/1#1"]).exits(0);
    bus.agent("7/1").waits_for_attempt(2);
    run.kill();
    bus.wk(&["agent", "beat", "7/1#1"]).exits(1).complains("attempt 1 of 7/1 is over");
    bus.wk(&["agent", "done", "7/1#1"]).exits(1).complains("attempt 2 is out now");
    bus.wk(&["agent", "done", "7/1#2"]).exits(0);
    let _watcher = bus.watch(&[]);
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
}

#[test]
fn a_result_in_the_outbox_is_seen_at_once_and_need_not_say_its_attempt() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1 max_retries=1");
    // No scan comes to the rescue: only events can tell in time.
    let _run = bus.run(&plan, &["idle_scan_seconds=3600", "scan_interval_seconds=3600"]);
    bus.agent("7/1").waits_for_spec();
    bus.write(
        "tasks/batch-7/outbox/1/1/result.json",
        r#"{"task_id": "1", "status": "success", "output": {}}"#,
    );
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
    assert!(!bus.path("completed-batches/batch-7/outbox/1/1").exists(), "its outbox was closed");
}

#[test]
fn an_offer_whose_spec_was_removed_by_somebody_who_never_beats_is_tried_again() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1 max_retries=1");
    let _run = bus.run(&plan, &["heartbeat_timeout_seconds=2"]);
    let agent = bus.agent("7/1");
    agent.waits_for_spec();
    std::fs::remove_file(agent.spec()).unwrap();
    agent.waits_for_attempt(2);
    bus.wk(&["agent", "done", "7/1#2"]).exits(0);
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
}

#[test]
fn a_corrected_spec_is_taken_after_its_refusal_and_so_is_who_waited_for_it() {
    let bus = Bus::new();
    let _watch = bus.watch(&["close_after_seconds=3"]);
    bus.drop_spec("7", "1");
    bus.agent("7/1").waits_for_attempt(1);
    bus.drop_spec_text("7", "3", r#"{"task_id": "3", "goal": "g", "dependencies": ["2"]}"#);
    for wrong in [r#"{"task_id": "2"}"#, r#"{"task_id": "2", "goal": 5}"#, r#"{"task_id": "2", "goal": 5}"#] {
        let before = bus.quarantine().len();
        bus.drop_spec_text("7", "2", wrong);
        bus.wait_for("it is refused", || (bus.quarantine().len() > before).then_some(()));
        bus.wait_event("7", "abandoned", "3");
    }
    bus.drop_spec("7", "2");
    for task in ["1", "2", "3"] {
        bus.agent(&format!("7/{task}")).waits_for_attempt(1).delivers(SUCCESS);
    }
    let result = bus.ended("7");
    for task in ["1", "2", "3"] {
        assert_eq!(ending(&result, task), "success");
    }
}

#[test]
fn a_result_that_is_written_after_the_archive_is_kept_there_as_late() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    bus.drop_plan("batch_id = 7\n 1");
    bus.agent("7/1").waits_for_spec().delivers(SUCCESS);
    bus.ended("7");
    let late = r#"{"task_id": "1", "status": "failed", "output": {}}"#;
    for name in ["task-1.result.json", "outbox/1/1/result.json"] {
        let path = bus.write(&format!("tasks/batch-7/{name}"), late);
        bus.wait_for("it is taken away", || (!path.exists()).then_some(()));
        let kept = std::fs::read_dir(bus.path("completed-batches/batch-7/late")).unwrap().flatten();
        let kept: Vec<_> = kept.map(|entry| entry.path()).collect();
        let is_late = |path: &&std::path::PathBuf| std::fs::read_to_string(path).unwrap() == late;
        let found = kept.iter().find(is_late).expect("it lies in the archive");
        std::fs::remove_file(found).unwrap();
    }
    assert_eq!(ending(&bus.json("batches/batch-7.result.json"), "1"), "success");
}

#[test]
fn a_loose_spec_whose_id_was_used_gets_a_batch_with_a_number() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    for batch in ["loose-fix", "loose-fix-2", "loose-fix-3"] {
        let staged = bus.write("tasks/.staged", r#"{"task_id": "fix", "goal": "g"}"#);
        std::fs::rename(staged, bus.path("tasks/fix.json")).unwrap();
        bus.agent(&format!("{batch}/fix")).waits_for_attempt(1).delivers(SUCCESS);
        assert_eq!(ending(&bus.ended(batch), "fix"), "success");
    }
    assert!(bus.quarantine().is_empty(), "{:?}", bus.quarantine());
}
