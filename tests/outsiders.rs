//! Agents from outside: shell scripts, hasty writers, latecomers, and many takers at once.

mod scene;

use std::collections::BTreeSet;
use std::io::Write;

use scene::process::shell_agent;
use scene::{Bus, FAILED, Process, SUCCESS, ending, rule, task};

fn with_agent(script: &str, settings: &[&str]) -> (Bus, serde_json::Value) {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let _run = bus.run(&plan, settings);
    bus.agent("7/1").waits_for_spec();
    let agent = shell_agent(script, &bus.path("tasks/batch-7"), "1");
    let result = bus.ended("7");
    drop::<Process>(agent);
    (bus, result)
}

#[test]
fn ten_lines_of_shell_are_an_agent() {
    let (_bus, result) = with_agent("succeeds.sh", &[]);
    assert_eq!(ending(&result, "1"), "success");
    assert_eq!(result["evidence"], "claimed", "its word is all there is");
}

#[test]
fn a_flaky_agent_gets_its_second_chance_and_is_called_flaky() {
    let (bus, result) = with_agent("flaky.sh", &[]);
    assert_eq!(ending(&result, "1"), "success");
    assert_eq!(task(&result, "1")["flaky"], true);
    assert_eq!(task(&result, "1")["attempts"].as_array().unwrap().len(), 2);
    for (attempt, name) in [(1, "result.json"), (1, "published.json"), (1, "last.hb"), (2, "result.json")] {
        let path = bus.path(&format!("completed-batches/batch-7/attempts/1/{attempt}/{name}"));
        assert!(path.is_file(), "{} is kept with its attempt", path.display());
    }
}

#[test]
fn a_silent_agent_is_failed_after_every_attempt_and_a_beating_one_is_not() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1 max_retries=1\n 2");
    let _run = bus.run(&plan, &["heartbeat_timeout_seconds=3"]);
    let beating = bus.agent("7/2").waits_for_spec().keeps_beating();
    for attempt in [1, 2] {
        bus.agent("7/1").waits_for_attempt(attempt);
        let _silent = shell_agent("silent.sh", &bus.path("tasks/batch-7"), "1");
        bus.wait_events("7", "attempt_failed", "1", attempt as usize);
    }
    bus.agent("7/2").delivers(SUCCESS);
    let result = bus.ended("7");
    drop(beating);
    assert_eq!(ending(&result, "1"), "failed:no_heartbeat");
    assert_eq!(ending(&result, "2"), "success");
    assert_eq!(result["status"], "partial_success");
}

#[test]
fn a_result_written_word_by_word_is_never_read_half() {
    let (bus, result) = with_agent("torn.sh", &["settle_seconds=0.1"]);
    assert_eq!(ending(&result, "1"), "success");
    assert_eq!(bus.count("7", "result_refused", None), 0, "who has it open is still writing");
}

#[test]
fn an_agent_may_delete_its_spec_and_the_archive_still_has_it() {
    let (bus, result) = with_agent("tidy.sh", &[]);
    assert_eq!(ending(&result, "1"), "success");
    let spec = bus.json("completed-batches/batch-7/attempts/1/1/spec.json");
    assert_eq!(spec["goal"], "do 1");
}

#[test]
fn a_refused_result_is_explained_to_its_agent_and_the_corrected_one_wins() {
    let (bus, result) = with_agent("stubborn.sh", &[]);
    assert_eq!(ending(&result, "1"), "success");
    assert_eq!(task(&result, "1")["attempts"].as_array().unwrap().len(), 1, "no attempt was lost");
    let (refused, reason) = bus.quarantined("task-1.result.json");
    assert!(std::fs::read_to_string(refused).unwrap().contains("\"state\""), "it lies there intact");
    let told = reason["defects"].to_string();
    assert!(told.contains("status") && told.contains("output"), "all that is missing, at once: {told}");
    let error = bus.json("completed-batches/batch-7/attempts/1/1/result.error.json");
    assert_eq!(error["defects"], reason["defects"]);
}

#[test]
fn a_refused_result_is_the_reason_if_nothing_better_comes() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1 max_retries=0");
    let _run = bus.run(&plan, &["heartbeat_timeout_seconds=6"]);
    let agent = bus.agent("7/1");
    agent.waits_for_spec().beats().delivers_text("{\"task_id\": \"1\", \"status\": \"succ");
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "failed:result_refused");
    assert!(task(&result, "1")["reason"].as_str().unwrap().contains("line 1, column"));
}

#[test]
fn ten_takers_never_get_the_same_task() {
    let bus = Bus::new();
    let tasks: Vec<String> = (1..=30).map(|number| format!("t{number}")).collect();
    let plan = bus.plan(&format!("batch_id = 7\n{}", tasks.join("\n")));
    let run = bus.run(&plan, &[]);
    // The journal tells of them before they are published.
    for key in &tasks {
        bus.agent(&format!("7/{key}")).waits_for_spec();
    }
    let taken: Vec<Vec<String>> = std::thread::scope(|scope| {
        let worker = |_| {
            scope.spawn(|| {
                let mut mine = Vec::new();
                loop {
                    let next = bus.wk(&["agent", "next"]);
                    if next.code != Some(0) {
                        return mine;
                    }
                    let name = next.out.trim().to_owned();
                    bus.wk(&["agent", "done", &name]).exits(0);
                    mine.push(name);
                }
            })
        };
        let workers: Vec<_> = (0..10).map(worker).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let all: Vec<&String> = taken.iter().flatten().collect();
    let different: BTreeSet<&String> = all.iter().copied().collect();
    assert_eq!((all.len(), different.len()), (30, 30));
    run.ends().exits(0);
    assert_eq!(bus.ended("7")["late"].as_array().unwrap().len(), 0);
}

/// Waits until so many late results are put away.
fn late_files(bus: &Bus, count: usize) {
    bus.wait_for(&format!("{count} late results are kept"), || {
        let entries = std::fs::read_dir(bus.path("tasks/batch-7/late")).ok()?;
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        (names.filter(|name| name.ends_with(".result.json")).count() == count).then_some(())
    });
}

#[test]
fn a_late_result_is_kept_with_its_reason_and_reported() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1\n 2");
    let run = bus.run(&plan, &[]);
    let agent = bus.agent("7/1");
    agent.waits_for_spec().delivers_for(1, FAILED);
    agent.waits_for_attempt(2).delivers_for(1, SUCCESS);
    late_files(&bus, 1);
    agent.delivers_for(2, SUCCESS);
    bus.wait_event("7", "succeeded", "1");
    agent.delivers_for(2, FAILED);
    late_files(&bus, 2);
    bus.agent("7/2").delivers(SUCCESS);
    run.ends().exits(0);
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "success", "nothing that came late changed it");
    assert_eq!(result["late"].as_array().unwrap().len(), 2);
    let late: Vec<String> = std::fs::read_dir(bus.path("completed-batches/batch-7/late"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let reasons = late.iter().filter(|name| name.ends_with(".reason.json")).count();
    assert_eq!((late.len(), reasons), (4, 2), "{late:?}");
    bus.wk(&["report", "7"]).exits(0).says("late");
}

#[test]
fn an_unfenced_result_of_a_second_attempt_is_taken_and_marked() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let run = bus.run(&plan, &[]);
    let agent = bus.agent("7/1");
    agent.waits_for_spec().delivers(FAILED);
    agent.waits_for_attempt(2).delivers(SUCCESS);
    run.ends().exits(0);
    assert_eq!(task(&bus.ended("7"), "1")["unfenced"], true);
}

#[test]
fn a_result_that_comes_before_its_task_begins_is_held_and_then_counts() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1\n 2 <- 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    bus.agent("7/2").delivers(SUCCESS);
    bus.wait_for("the held result is shown", || {
        let status = std::fs::read_to_string(bus.path("tasks/batch-7/status.json")).ok()?;
        status.contains("held").then_some(())
    });
    assert_eq!(bus.count("7", "collected", None), 0);
    bus.agent("7/1").delivers(SUCCESS);
    run.ends().exits(0);
    assert_eq!(ending(&bus.ended("7"), "2"), "success");
}

#[test]
fn garbage_in_the_heartbeat_for_the_whole_window_is_named_as_the_reason() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1 max_retries=0");
    let _run = bus.run(&plan, &["heartbeat_timeout_seconds=6"]);
    let agent = bus.agent("7/1");
    agent.waits_for_spec().beats();
    bus.wait_event("7", "started", "1");
    agent.beats_with("still working on it");
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "failed:heartbeat_malformed");
    assert!(task(&result, "1")["reason"].as_str().unwrap().contains("line 1"), "{result:#}");
}

#[test]
fn claimed_files_must_exist_and_must_have_changed() {
    let bus = Bus::new();
    std::fs::write(bus.file("old.txt"), "old").unwrap();
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1\n 2\n 3\n 4 files_modified=[\"old.txt\"]");
    let run = bus.run(&plan, &[]);
    bus.agent("7/4").waits_for_spec();
    bus.agent("7/1").waits_for_spec().delivers_files(&["never-made.txt"]);
    bus.agent("7/2").waits_for_spec().delivers_files(&["old.txt"]);
    std::fs::write(bus.file("new.txt"), "new").unwrap();
    bus.agent("7/3").waits_for_spec().delivers_files(&["new.txt"]);
    bus.agent("7/4").delivers_files(&["old.txt"]);
    run.ends().exits(3);
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "failed:evidence_missing");
    assert_eq!(ending(&result, "2"), "failed:evidence_missing");
    assert_eq!(ending(&result, "3"), "success");
    assert_eq!(task(&result, "3")["evidence"], "claimed", "nobody declared it");
    assert_eq!(
        task(&result, "3")["files_created"],
        serde_json::json!(["new.txt"]),
        "it was seen all the same"
    );
    assert_eq!(ending(&result, "4"), "failed:evidence_missing", "declared, claimed and untouched");
    assert!(task(&result, "2")["reason"].as_str().unwrap().contains("did not change"));
}

#[test]
fn claimed_files_must_lie_inside_the_root() {
    let bus = Bus::new();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), bus.file("way-out")).unwrap();
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1\n 2");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    bus.agent("7/2").waits_for_spec();
    std::fs::write(outside.path().join("x"), "x").unwrap();
    bus.agent("7/1").delivers_files(&["../x"]);
    bus.agent("7/2").delivers_files(&["way-out/x"]);
    run.ends().exits(1);
    let result = bus.ended("7");
    for key in ["1", "2"] {
        assert_ne!(ending(&result, key), "success");
        let reason = task(&result, key)["reason"].as_str().unwrap();
        assert!(reason.contains("outside"), "{reason}");
    }
}

#[test]
fn what_is_only_claimed_fails_where_more_is_required() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1\n 2 files_modified=[\"seen.txt\"]");
    let run = bus.start(&["run", plan.to_str().unwrap(), "--require", "observed"], &[]);
    bus.agent("7/1").waits_for_spec().delivers(SUCCESS);
    bus.agent("7/2").waits_for_spec();
    std::fs::write(bus.file("seen.txt"), "seen").unwrap();
    bus.agent("7/2").delivers_files(&["seen.txt"]);
    run.ends().exits(3);
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "failed:below_required");
    assert_eq!(ending(&result, "2"), "success");
}

#[test]
fn a_torn_spec_is_waited_for_while_its_writer_has_it_open() {
    let bus = Bus::new();
    let _watch = bus.watch(&["settle_seconds=0.1", "close_after_seconds=0.2"]);
    std::fs::create_dir_all(bus.path("tasks/batch-9")).unwrap();
    let mut writer = std::fs::File::create(bus.path("tasks/batch-9/task-slow.json")).unwrap();
    writer.write_all(br#"{"task_id": "slow", "#).unwrap();
    // A neighbour that takes its whole course meanwhile shows that many windows have passed.
    for batch in ["7", "8"] {
        bus.drop_spec(batch, "quick");
        bus.agent(&format!("{batch}/quick")).waits_for_attempt(1).delivers(SUCCESS);
        bus.ended(batch);
    }
    assert_eq!(bus.quarantine().len(), 0);
    assert!(
        !bus.path("completed-batches/batch-9").exists(),
        "a batch does not close on a spec that is coming"
    );
    writer.write_all(br#""goal": "take your time"}"#).unwrap();
    drop(writer);
    bus.agent("9/slow").waits_for_attempt(1).delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("9"), "slow"), "success");
}

#[test]
fn a_torn_spec_whose_writer_is_gone_is_refused_with_line_and_column() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    // The batch comes whole, so that it cannot close before its second spec is there.
    std::fs::create_dir(bus.file("staged")).unwrap();
    std::fs::write(bus.file("staged/task-1.json"), "{\"task_id\": \"1\",\n \"goal").unwrap();
    std::fs::write(bus.file("staged/task-2.json"), r#"{"task_id": "2", "goal": "g"}"#).unwrap();
    std::fs::rename(bus.file("staged"), bus.path("tasks/batch-9")).unwrap();
    bus.agent("9/2").waits_for_attempt(1).delivers(SUCCESS);
    let (_, reason) = bus.quarantined("task-1.json");
    rule(&reason);
    assert_eq!(reason["defects"][0]["place"]["line_column"][0], 2, "{reason:#}");
    let result = bus.ended("9");
    assert_eq!(ending(&result, "1"), "failed:spec_refused");
    assert_eq!(ending(&result, "2"), "success");
}

#[test]
fn what_another_task_says_to_have_written_is_credited_to_neither() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1 files_modified=[\"a.txt\"]\n 2 files_modified=[\"b.txt\"]");
    let _run = bus.run(&plan, &[]);
    let (idle, busy) = (bus.agent("7/1"), bus.agent("7/2"));
    idle.waits_for_spec().takes(1, "idle").beats();
    busy.waits_for_spec().takes(1, "busy").beats();
    bus.wait_event("7", "started", "1");
    for file in ["a.txt", "b.txt"] {
        std::fs::write(bus.file(file), "work of the busy one\n").unwrap();
    }
    busy.delivers_files(&["a.txt", "b.txt"]);
    bus.wait_event("7", "succeeded", "2");
    idle.delivers(SUCCESS);
    let result = bus.ended("7");
    assert_eq!(task(&result, "2")["evidence"], "observed");
    assert_eq!(task(&result, "1")["evidence"], "claimed", "{result:#}");
    assert_eq!(task(&result, "1")["files_created"], serde_json::json!([]), "{result:#}");
}
