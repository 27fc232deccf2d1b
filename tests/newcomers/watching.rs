//! What a watcher and those who ask it tell: logs, pauses, ends, and what cannot be read.

use crate::scene::{Bus, FAILED, SUCCESS};

#[test]
fn a_watcher_logs_what_happens_and_its_own_end() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    let logs = |text: &str| {
        bus.wait_for(&format!("the log has {text:?}"), || watch.stderr().contains(text).then_some(()));
    };
    bus.drop_plan("batch_id = 7\n max_retries = 0\n 1\n 2\n 3 <- 2");
    logs("batch 7: accepted from plan.json");
    bus.agent("7/1").waits_for_spec().beats();
    logs("7/1: started: its first heartbeat was seen (attempt 1 of 1)");
    bus.agent("7/1").delivers(SUCCESS);
    logs("7/1: succeeded");
    bus.agent("7/2").waits_for_spec().delivers(FAILED);
    logs("7/2: attempt 1 of 1 failed: ");
    logs("7/3: will not run: ");
    logs(&format!(
        "batch 7: partial_success, archived to {}",
        bus.path("completed-batches/batch-7").display()
    ));
    bus.write("inbox/wrong.json", r#"{"phases": 7}"#);
    logs("wrong.json: refused, and moved to ");
    bus.drop_spec("9", "1");
    logs("batch 9: taken up");
    logs("9/1: its spec joined the batch");
    let ended = watch.stop().exits(0);
    assert!(
        ended.err.contains("stopped watching: it was asked to end; 1 batch is kept as it is"),
        "{}",
        ended.err
    );
    bus.watch(&[]).kill();
    let idle = bus.start(&["watch", "--exit-when-idle"], &[]);
    bus.agent("9/1").waits_for_spec().delivers(SUCCESS);
    idle.ends().exits(0).complains("batch 9: taken up").complains("stopped watching: no batch");
}

#[test]
fn a_run_whose_batch_is_removed_ends_and_says_so() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    // At once: whoever removes file by file meets a watcher that writes another one.
    std::fs::rename(bus.path("tasks/batch-7"), bus.file("removed-7")).unwrap();
    run.ends().exits(74).complains("batch 7 was removed while it ran").complains("run it again");

    let _watch = bus.watch(&[]);
    let plan = bus.plan("batch_id = 8\n 1");
    let follower = bus.run(&plan, &[]);
    bus.agent("8/1").waits_for_spec();
    bus.wait_for("it follows", || follower.stderr().contains("following it").then_some(()));
    std::fs::rename(bus.path("tasks/batch-8"), bus.file("removed-8")).unwrap();
    follower.ends().exits(74).complains("batch 8 was removed while it ran");
}

#[test]
fn a_bus_that_cannot_be_read_is_an_error_and_not_an_empty_one() {
    let bus = Bus::new();
    for name in ["completed-batches", "tasks"] {
        std::fs::remove_dir(bus.path(name)).unwrap();
        std::fs::write(bus.path(name), "no directory").unwrap();
        for verb in [&["status"][..], &["status", "7"], &["report"], &["why", "1"], &["retry", "--failed"]] {
            let told = bus.wk(verb).exits(74);
            assert!(told.err.contains(name) && told.err.contains("list"), "{verb:?}: {}", told.err);
            assert!(!told.out.contains("Nothing has been run"), "{verb:?}: {}", told.out);
        }
    }
    bus.wk(&["doctor"]).exits(1).says("Not a directory");
}

#[test]
fn a_pause_is_shown_and_holds_for_agents_that_ask_for_work() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1\n 2 <- 1\n 3");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    bus.agent("7/3").waits_for_spec();
    let first = bus.wk(&["agent", "next"]).exits(0).out;
    assert_eq!(first.trim(), "7/1#1");
    bus.wk(&["pause", "7", "--why", "lunch"]).exits(0);
    bus.wait_for("the pause is shown", || bus.wk(&["status"]).out.contains("Batch 7 Paused").then_some(()));
    let status = bus.wk(&["status"]).exits(0).says("sam paused it").says("`wk resume 7`");
    assert!(!status.out.contains("no agent yet"), "{}", status.out);
    let json: serde_json::Value = serde_json::from_str(&bus.wk(&["status", "--json"]).out).unwrap();
    assert_eq!(json["batches"][0]["paused_by"], "sam");
    bus.wk(&["agent", "next"]).exits(1).complains("sam paused batch 7; `wk resume 7` lets it go on");
    // What runs goes on.
    bus.wk(&["agent", "done", first.trim()]).exits(0);
    bus.wait_event("7", "succeeded", "1");
    bus.wk(&["agent", "next"]).exits(1);
    bus.wk(&["resume", "7"]).exits(0);
    for _ in 0..2 {
        let next = bus.wk(&["agent", "next", "--wait", "60"]).exits(0).out;
        bus.wk(&["agent", "done", next.trim()]).exits(0);
    }
    run.ends().exits(0);
}

#[test]
fn the_last_batch_is_the_one_that_ended_last() {
    let bus = Bus::new();
    for id in ["zeta", "12", "9"] {
        let plan = bus.plan(&format!("batch_id = \"{id}\"\n 1"));
        let run = bus.run(&plan, &[]);
        bus.agent(&format!("{id}/1")).waits_for_spec().delivers(SUCCESS);
        run.ends().exits(0);
    }
    bus.wk(&["status"]).exits(0).says("Batch 9 ");
    bus.wk(&["why", "1"]).exits(0).says("9");
    assert_eq!(bus.wk(&["report", "--json"]).exits(0).json()["batch_id"], 9);
}

#[test]
fn a_stage_over_its_time_ends_with_the_exit_code_for_timeouts() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n stage_timeout_seconds = 1\n 1\n 2");
    let run = bus.run(&plan, &[]);
    bus.agent("7/2").waits_for_spec().delivers(SUCCESS);
    let beating = bus.agent("7/1").waits_for_spec().keeps_beating();
    run.ends().exits(4);
    drop(beating);
    let result = bus.ended("7");
    assert_eq!(
        (&result["status"], crate::scene::ending(&result, "1").as_str()),
        (&"timeout".into(), "failed:stage_timeout")
    );
}

#[test]
fn init_makes_a_bus_here_although_a_directory_above_has_one() {
    let bus = Bus::new();
    let inner = bus.file("service");
    std::fs::create_dir(&inner).unwrap();
    let ran = crate::scene::Ran::of(bus.command(&["init"]).current_dir(&inner)).exits(0);
    assert!(inner.join(".ce/orchestration/tasks").is_dir(), "{}", ran.out);
    assert!(ran.err.contains("has a bus too"), "{}", ran.err);
    assert!(!bus.file(".ce/watchkeeper.toml").exists(), "the one above is left alone");
}

#[test]
fn the_first_beat_is_seen_without_waiting_for_a_scan() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1\n 2");
    let _run = bus.run(&plan, &["idle_scan_seconds=3600", "scan_interval_seconds=3600"]);
    for key in ["1", "2"] {
        bus.agent(&format!("7/{key}")).waits_for_spec();
    }
    bus.agent("7/1").beats();
    bus.wait_event("7", "started", "1");
    bus.wk(&["agent", "beat", "7/2#1"]).exits(0);
    bus.wait_event("7", "started", "2");
}
