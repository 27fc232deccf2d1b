//! The five ways in which a loop that takes the existence of a heartbeat file for a beat goes wrong, each
//! as a scene that such a loop cannot pass.

mod scene;

use scene::{Bus, SUCCESS, ending};

#[test]
fn an_empty_heartbeat_file_is_neither_an_error_nor_a_beat() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1 max_retries=0\n 2 max_retries=0 start_timeout_seconds=4");
    let _run = bus.run(&plan, &[]);
    for key in ["1", "2"] {
        let agent = bus.agent(&format!("43/{key}"));
        agent.waits_for_spec();
        assert_eq!(std::fs::read(agent.heartbeat()).unwrap(), b"", "it is made empty, for the agent to fill");
    }
    bus.agent("43/1").delivers(SUCCESS);
    let result = bus.ended("43");
    assert_eq!(ending(&result, "1"), "success");
    assert_eq!(ending(&result, "2"), "failed:never_started", "an empty file never beat");
}

#[test]
fn a_stale_heartbeat_of_a_dead_agent_does_not_keep_it_alive() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1 max_retries=0\n 2 max_retries=0");
    let _run = bus.run(&plan, &["heartbeat_timeout_seconds=3"]);
    let (dead, living) = (bus.agent("43/1"), bus.agent("43/2"));
    dead.waits_for_spec().beats();
    let beating = living.waits_for_spec().keeps_beating();
    bus.wait_event("43", "attempt_failed", "1");
    living.delivers(SUCCESS);
    let result = bus.ended("43");
    drop(beating);
    assert_eq!(ending(&result, "1"), "failed:no_heartbeat");
    assert_eq!(ending(&result, "2"), "success");
    let last_words = std::fs::read_to_string(bus.path("completed-batches/batch-43/attempts/1/1/last.hb"));
    assert!(last_words.unwrap().contains("in_progress"), "the file was there all the time");
}

#[test]
fn a_finished_task_is_complete_although_its_heartbeat_file_still_exists() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1\n 2 <- 1");
    let run = bus.run(&plan, &[]);
    let agent = bus.agent("43/1");
    let beating = agent.waits_for_spec().keeps_beating();
    bus.wait_event("43", "started", "1");
    agent.delivers(SUCCESS);
    bus.agent("43/2").waits_for_spec();
    drop(beating);
    bus.agent("43/2").beats().delivers(SUCCESS);
    run.ends().exits(0).says("Tasks Completed: 2/2");
}

#[test]
fn an_agent_that_takes_a_task_and_never_starts_is_failed() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1 max_retries=0 start_timeout_seconds=0.5");
    let run = bus.run(&plan, &[]);
    bus.agent("43/1").waits_for_spec().takes(1, "somebody who fell asleep");
    run.ends().exits(1);
    assert_eq!(ending(&bus.ended("43"), "1"), "failed:never_started");
}

#[test]
fn a_task_that_nobody_has_taken_waits_without_limit() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1 max_retries=0");
    let _run = bus.run(&plan, &["heartbeat_timeout_seconds=0.1"]);
    let _other = bus.agent("43/1").waits_for_spec();
    // Twenty of its limits, on the watcher's own clock.
    bus.wait_for("the watcher's clock has moved on", || {
        let clock = std::fs::read_to_string(bus.path("clock.json")).ok()?;
        let clock: serde_json::Value = serde_json::from_str(&clock).ok()?;
        (clock["active_ms"].as_u64()? > 2_000).then_some(())
    });
    assert_eq!(bus.count("43", "attempt_failed", None), 0);
    bus.agent("43/1").delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("43"), "1"), "success");
}

#[test]
fn specs_heartbeats_and_results_share_one_directory_per_batch() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 43\n 1");
    let run = bus.run(&plan, &[]);
    let agent = bus.agent("43/1");
    agent.waits_for_spec();
    let dir = bus.path("tasks/batch-43");
    for name in ["task-1.json", "task-1.hb"] {
        assert!(dir.join(name).is_file(), "{name} lies beside the others");
    }
    assert!(!bus.path("tasks/43").exists(), "there is no second directory with a shorter name");
    let spec: serde_json::Value = serde_json::from_slice(&std::fs::read(agent.spec()).unwrap()).unwrap();
    let outbox = dir.join("outbox/1/1");
    assert_eq!(spec["outbox"], outbox.to_str().unwrap());
    assert_eq!(spec["heartbeat_file"], outbox.join("heartbeat.json").to_str().unwrap());
    assert_eq!(spec["result_file"], outbox.join("result.json").to_str().unwrap());
    // An agent that knows only the names of the convention uses those.
    agent.beats().delivers(SUCCESS);
    run.ends().exits(0);
}
