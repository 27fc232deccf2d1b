//! Every verb through the real binary: help, exit codes, JSON, and what happens when several watchers meet.

mod scene;

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use scene::{Bus, FAILED, SUCCESS, ending};

const VERBS: &[&[&str]] = &[
    &["init"],
    &["check"],
    &["run"],
    &["watch"],
    &["submit"],
    &["status"],
    &["why"],
    &["report"],
    &["rehearse"],
    &["logs"],
    &["attach"],
    &["cancel"],
    &["kill"],
    &["retry"],
    &["pause"],
    &["resume"],
    &["agent"],
    &["agent", "next"],
    &["agent", "beat"],
    &["agent", "done"],
    &["agent", "run"],
    &["doctor"],
    &["schema"],
    &["completions"],
    &["man"],
];

/// A bus on which batch 7 ended with one success, one failure and one skipped task.
fn with_history() -> Bus {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1\n 2\n 3 <- 2");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec().delivers(SUCCESS);
    bus.agent("7/2").waits_for_spec().delivers_fields(FAILED, r#", "errors": ["the build is red"]"#);
    run.ends().exits(3);
    bus
}

#[test]
fn every_verb_explains_itself_with_an_example() {
    let bus = Bus::new();
    for verb in VERBS {
        let mut args = verb.to_vec();
        args.push("--help");
        let help = bus.wk(&args).exits(0);
        assert!(help.out.contains("Example"), "{verb:?}:\n{}", help.out);
    }
    bus.wk(&["--help"]).exits(0).says("Exit codes").says("wk run plan.md");
    bus.wk(&["--version"]).exits(0).says("wk ");
}

#[test]
fn the_exit_code_tells_how_the_batch_ended() {
    let cases: &[(&str, &[&str], i32)] = &[
        ("all succeed", &[SUCCESS, SUCCESS], 0),
        ("none succeeds", &[FAILED, FAILED], 1),
        ("some succeed", &[SUCCESS, FAILED], 3),
    ];
    for (what, statuses, code) in cases {
        let bus = Bus::new();
        let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1\n 2");
        let run = bus.run(&plan, &[]);
        for (key, status) in ["1", "2"].iter().zip(*statuses) {
            bus.agent(&format!("7/{key}")).waits_for_spec().delivers(status);
        }
        let ran = run.ends();
        assert_eq!(ran.code, Some(*code), "{what}: {}", ran.err);
    }
}

#[test]
fn a_batch_over_its_time_ends_with_four_and_a_cancelled_one_with_five() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n batch_timeout_seconds = 0.5\n 1\n 2 <- 1");
    bus.run(&plan, &[]).ends().exits(4).says("TIMEOUT");
    let plan = bus.plan("batch_id = 8\n 1\n 2 <- 1");
    let run = bus.run(&plan, &[]);
    bus.agent("8/1").waits_for_spec();
    bus.wk(&["cancel", "8", "--why", "wrong branch"]).exits(0).says("asked for the end of 8");
    run.ends().exits(5).says("CANCELLED");
    assert_eq!(ending(&bus.ended("8"), "1"), "cancelled:cancelled");
    bus.wk(&["cancel", "8"]).exits(2).complains("has already ended");
}

#[test]
fn bad_requests_and_usage_end_with_two_and_a_hint() {
    let bus = Bus::new();
    bus.wk(&["run", "nowhere.md"]).exits(2).complains("Plan file not found: nowhere.md");
    bus.wk(&["run"]).exits(2);
    bus.wk(&["fly"]).exits(2);
    bus.wk(&["status", "99"]).exits(2).complains("there is no batch '99'").complains("hint:");
    bus.wk(&["why", "nobody"]).exits(2).complains("has a task 'nobody'");
    bus.wk(&["--set", "max_retrys=1", "status"]).exits(2).complains("did you mean 'max_retries'?");
    bus.wk(&["--root", "/nowhere/at/all", "status"]).exits(2);
    bus.wk(&["agent", "next", "--type", "poet"]).exits(2).complains("generator, executor, reviewer");
    std::fs::write(bus.file("cycle.json"), scene::plan::json("1 <- 2\n 2 <- 1")).unwrap();
    for verb in ["check", "run", "submit"] {
        bus.wk(&[verb, "cycle.json"]).exits(2).complains("Circular dependency");
    }
    assert_eq!(std::fs::read_dir(bus.path("tasks")).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn a_disk_error_ends_with_seventy_four() {
    let bus = Bus::new();
    std::fs::remove_dir_all(bus.path("tasks")).unwrap();
    std::fs::write(bus.path("tasks"), "not a directory").unwrap();
    bus.pass(&[]).exits(74).complains("error:");
}

#[test]
fn what_prints_facts_prints_them_as_json() {
    let bus = with_history();
    let plan = bus.plan("1\n 2 <- 1");
    let plan = plan.to_str().unwrap();
    for args in [
        &["check", plan] as &[&str],
        &["status"],
        &["status", "7"],
        &["why", "7/2"],
        &["report", "7"],
        &["report", "7", "batch"],
        &["report", "7", "timeline"],
        &["doctor"],
        &["init"],
        &["schema", "result"],
        &["submit", plan, "--no-wait"],
    ] {
        let mut args = args.to_vec();
        args.push("--json");
        bus.wk(&args).json();
    }
    bus.pass(&["scan_interval_seconds=1"]);
    let spec = bus.wk(&["agent", "next", "--json"]).exits(0).json();
    assert_eq!(spec["attempt"], 1);
    let name = format!("{}/1#1", spec["batch_id"]);
    assert_eq!(bus.wk(&["agent", "done", &name, "--json"]).exits(0).json()["attempt"], 1);
    bus.wk(&["cancel", &spec["batch_id"].to_string(), "--json"]).exits(0).json();
}

#[test]
fn a_second_watcher_learns_who_holds_the_bus() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    let named = format!("process {}", watch.id());
    bus.wk(&["watch"]).exits(75).complains(&named).complains("wk submit");
    bus.wk(&["watch", "--once"]).exits(75).complains(&named);
    watch.stop().exits(0);
    bus.pass(&[]).exits(0);
}

#[test]
fn asking_who_watches_never_keeps_a_watcher_out() {
    let bus = Bus::new();
    bus.pass(&[]).exits(0);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| (0..15).for_each(|_| drop(bus.wk(&["status", "--json"])))))
            .collect();
        while !asking.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            bus.pass(&[]).exits(0);
        }
    });
}

#[test]
fn a_run_on_a_watched_bus_hands_over_and_follows() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    let plan = bus.plan("batch_id = 7\n 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec().delivers(SUCCESS);
    let ran = run.ends().exits(0).says("Tasks Completed: 1/1");
    assert!(ran.err.contains("run by the watcher of this bus"), "{}", ran.err);
}

#[test]
fn a_run_takes_over_when_the_watcher_it_followed_dies() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    let plan = bus.plan("batch_id = 7\n 1\n 2 <- 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec().beats();
    bus.wait_event("7", "started", "1");
    let epoch = || std::fs::read_to_string(bus.path("epoch")).ok();
    let before = epoch();
    watch.kill();
    bus.wait_for("the run has taken over", || (epoch()? != *before.as_ref()?).then_some(()));
    bus.agent("7/1").delivers(SUCCESS);
    bus.agent("7/2").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(0);
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
    assert_eq!(bus.count("7", "resumed", None), 1, "told once, with the first decision");
}

#[test]
fn a_killed_watchers_batch_is_adopted_with_its_attempts() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    bus.drop_plan("batch_id = 7\n 1\n 2 <- 1");
    bus.agent("7/1").waits_for_spec().beats();
    bus.wait_event("7", "started", "1");
    watch.kill();
    bus.agent("7/1").delivers(SUCCESS);
    let _watch = bus.watch(&[]);
    bus.agent("7/2").waits_for_spec().delivers(SUCCESS);
    let result = bus.ended("7");
    assert_eq!(result["status"], "success");
    assert_eq!(bus.count("7", "offered", Some("1")), 1, "it kept its attempt");
}

#[test]
fn a_stopped_watcher_kills_nobody_when_it_wakes() {
    let bus = Bus::new();
    let watch = bus.watch(&["heartbeat_timeout_seconds=6"]);
    bus.drop_plan("batch_id = 7\n max_retries = 0\n 1\n 2");
    let beating = [bus.agent("7/1").waits_for_spec().keeps_beating(), bus.agent("7/2").keeps_beating()];
    bus.wait_event("7", "started", "1");
    bus.wait_event("7", "started", "2");
    watch.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(7_500));
    watch.signal(Signal::CONT);
    bus.wait_for("it says that it was stopped", || watch.stderr().contains("was stopped for").then_some(()));
    bus.agent("7/1").delivers(SUCCESS);
    bus.agent("7/2").delivers(SUCCESS);
    let result = bus.ended("7");
    drop(beating);
    assert_eq!(result["status"], "success");
}

#[test]
fn passes_of_cron_keep_the_silence_rule_between_them() {
    let bus = Bus::new();
    let settings = ["heartbeat_timeout_seconds=0.4"];
    bus.drop_plan("batch_id = 7\n max_retries = 0\n 1\n 2");
    bus.pass(&settings).exits(0);
    bus.agent("7/1").beats();
    bus.agent("7/2").beats();
    bus.pass(&settings).exits(0);
    assert_eq!(bus.count("7", "started", None), 2);
    std::thread::sleep(Duration::from_millis(500));
    bus.agent("7/2").beats();
    bus.pass(&settings).exits(0);
    assert_eq!(bus.count("7", "attempt_failed", Some("1")), 1, "unchanged over two passes: silent");
    assert_eq!(bus.count("7", "attempt_failed", Some("2")), 0, "changed: alive");
    bus.agent("7/2").delivers(SUCCESS);
    bus.pass(&settings).exits(0);
    assert_eq!(bus.ended("7")["status"], "partial_success");
}

#[test]
fn the_time_after_a_live_watchers_end_counts_for_nobody() {
    let bus = Bus::new();
    let settings = ["timeout_seconds=8", "heartbeat_timeout_seconds=30"];
    let watch = bus.watch(&settings);
    bus.drop_plan("batch_id = 7\n max_retries = 0\n 1");
    bus.agent("7/1").waits_for_spec().beats();
    bus.wait_event("7", "started", "1");
    watch.stop().exits(0);
    std::thread::sleep(Duration::from_millis(8_500));
    bus.pass(&settings).exits(0);
    assert_eq!(bus.count("7", "attempt_failed", None), 0, "nobody watched: no time passed");
}

#[test]
fn a_pass_says_what_it_did() {
    let bus = Bus::new();
    bus.drop_plan("batch_id = 7\n 1");
    bus.write("inbox/prose.md", "no plan");
    bus.pass(&["settle_seconds=0.05"]).exits(0).complains("batch 7: accepted from plan.json");
    std::thread::sleep(Duration::from_millis(100));
    bus.pass(&["settle_seconds=0.05"]).exits(0);
    bus.agent("7/1").delivers(SUCCESS);
    bus.pass(&[]).exits(0).complains("batch 7: success");
}

#[test]
fn init_twice_changes_nothing_the_second_time() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::new();
    let root = dir.path().to_str().unwrap();
    bus.wk(&["init", "--root", root]).exits(0).says("The bus is ready");
    let settings = dir.path().join(".ce/watchkeeper.toml");
    std::fs::write(&settings, "max_retries = 1\n").unwrap();
    let again = bus.wk(&["init", "--root", root, "--json"]).exits(0);
    assert_eq!(again.json()["made"].as_array().unwrap().len(), 0);
    assert_eq!(std::fs::read_to_string(settings).unwrap(), "max_retries = 1\n");
}

#[test]
fn the_default_settings_file_is_valid_and_changes_nothing() {
    let bus = Bus::new();
    bus.wk(&["init"]).exits(0);
    bus.wk(&["status"]).exits(0);
    let text = std::fs::read_to_string(bus.file(".ce/watchkeeper.toml")).unwrap();
    for line in text.lines().filter(|line| line.contains("heartbeat_timeout_seconds")) {
        assert!(line.contains("60"), "{line}");
    }
}

#[test]
fn an_unknown_setting_is_told_with_its_line_and_the_nearest_name() {
    let bus = Bus::new();
    std::fs::write(
        bus.file(".ce/watchkeeper.toml"),
        "# mine\nmax_retries = 1\nheartbeat_timout_seconds = 5\n",
    )
    .unwrap();
    bus.wk(&["status"]).exits(2).complains("line 3").complains("did you mean 'heartbeat_timeout_seconds'?");
}

#[test]
fn submit_without_a_watcher_leaves_the_request_and_says_so() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let plan = plan.to_str().unwrap();
    bus.wk(&["submit", plan]).exits(0).says("is in the inbox").complains("no watcher runs on this bus");
    assert_eq!(std::fs::read_dir(bus.path("inbox")).unwrap().count(), 1);
    let _watch = bus.watch(&[]);
    bus.agent("7/1").waits_for_spec();
    bus.wait_for("the inbox is empty", || {
        (std::fs::read_dir(bus.path("inbox")).unwrap().count() == 0).then_some(())
    });
}

#[test]
fn submit_to_a_watcher_tells_the_batch_or_the_refusal() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    let plan = bus.plan("batch_id = 7\n 1");
    let plan = plan.to_str().unwrap();
    bus.wk(&["submit", plan]).exits(0).says("Batch 7 accepted");
    bus.wk(&["submit", plan]).exits(2).complains("batch 7 is already on this bus");
    bus.wk(&["submit", bus.plan("1").to_str().unwrap(), "--json"]).exits(0).says("8");
}

#[test]
fn status_follows_a_batch_to_its_end_and_ends_like_it() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    bus.drop_plan("batch_id = 7\n max_retries = 0\n 1\n 2");
    bus.agent("7/1").waits_for_spec();
    bus.agent("7/2").waits_for_spec();
    let follow = bus.start(&["status", "7", "--follow"], &["dashboard_interval_seconds=0.1"]);
    bus.wait_for("the dashboard is printed", || follow.stdout().contains("Batch 7").then_some(()));
    bus.agent("7/1").beats_with(r#"{"progress": "Step 3 of 5"}"#);
    bus.wait_for("progress is shown", || follow.stdout().contains("Step 3 of 5").then_some(()));
    bus.agent("7/1").delivers(SUCCESS);
    bus.agent("7/2").delivers(FAILED);
    follow.ends().exits(3);
}

#[test]
fn why_tells_the_story_of_a_task_in_every_state() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    bus.drop_plan("batch_id = 7\n max_retries = 0\n 1\n 2 <- 1\n 3\n 4 <- 3");
    bus.agent("7/1").waits_for_spec().beats();
    bus.wait_event("7", "started", "1");
    bus.wk(&["why", "7/1"]).exits(0).says("IN_PROGRESS").says("attempt 1 of 1");
    bus.wk(&["why", "7/2"]).exits(0).says("QUEUED").says("Phase 1");
    bus.agent("7/3").delivers_fields(FAILED, r#", "errors": ["the build is red"]"#);
    bus.wait_event("7", "abandoned", "4");
    bus.wk(&["why", "7/3"]).exits(0).says("FAILED").says("the build is red");
    bus.wk(&["why", "7/4"]).exits(0).says("BLOCKED").says("Phase 3 failed, blocking Phase 4");
    bus.wk(&["why", "phase-4"]).exits(0).says("BLOCKED");
    bus.agent("7/1").delivers(SUCCESS);
    bus.agent("7/2").waits_for_spec().delivers(SUCCESS);
    bus.ended("7");
    bus.wk(&["why", "2"]).exits(0).says("COMPLETED");
}

#[test]
fn a_report_has_three_forms_and_reads_the_archive() {
    let bus = with_history();
    bus.wk(&["report"]).exits(0).says("Tasks Completed: 1/3").says("the build is red");
    let batch = bus.wk(&["report", "7", "batch"]).exits(0);
    let written = std::fs::read_to_string(bus.path("batches/batch-7.result.json")).unwrap();
    assert_eq!(batch.out, written, "made again, byte for byte");
    bus.wk(&["report", "7", "timeline"]).exits(0).says("1");
    bus.wk(&["status"]).exits(0).says("COMPLETED").says("BLOCKED");
}

#[test]
fn one_task_can_be_cancelled_and_only_its_dependents_go_with_it() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1\n 2 <- 1\n 3");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    bus.wk(&["cancel", "7/1"]).exits(0);
    bus.agent("7/3").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(3);
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "cancelled:cancelled");
    assert_eq!(ending(&result, "2"), "blocked:dependency_failed");
    assert_eq!(ending(&result, "3"), "success");
}

#[test]
fn a_wish_without_a_watcher_is_granted_by_the_next() {
    let bus = Bus::new();
    bus.drop_plan("batch_id = 7\n 1");
    bus.pass(&[]).exits(0);
    bus.wk(&["cancel", "7"]).exits(0).says("the next watcher grants it");
    bus.pass(&[]).exits(0).complains("batch 7: cancelled");
    assert_eq!(bus.ended("7")["status"], "cancelled");
}

#[test]
fn a_wish_by_echo_is_as_good_as_the_command_and_a_bad_one_is_refused() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    bus.write("tasks/batch-7/control/w1.json", r#"{"wish": "cancel", "tsak": "1"}"#);
    bus.quarantined("w1.json");
    bus.write("tasks/batch-7/control/w2.json", r#"{"wish": "cancel", "by": "echo"}"#);
    run.ends().exits(5);
    let result = bus.ended("7");
    assert!(scene::task(&result, "1")["reason"].as_str().unwrap().contains("by echo"));
}

#[test]
fn doctor_measures_and_names_what_it_found() {
    let bus = Bus::new();
    let doctor = bus.wk(&["doctor"]).exits(0);
    for what in ["file system", "locks", "file events", "open writers", "watcher"] {
        assert!(doctor.out.contains(what), "no {what} in\n{}", doctor.out);
    }
    let left: Vec<_> = std::fs::read_dir(bus.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "no probe is left behind: {left:?}");
}

#[test]
fn schemas_completions_and_the_manual_are_generated() {
    let bus = Bus::new();
    let names = bus.wk(&["schema"]).exits(0).says("result");
    for name in names.out.lines().filter_map(|line| line.split_whitespace().next()) {
        assert!(bus.wk(&["schema", name]).exits(0).json().is_object());
    }
    bus.wk(&["schema", "reslt"]).exits(2).complains("did you mean 'result'?");
    bus.wk(&["completions", "bash"]).exits(0).says("complete");
    bus.wk(&["man"]).exits(0).says(".TH");
}

#[test]
fn a_reader_that_goes_away_is_no_reason_to_panic() {
    let bus = with_history();
    for args in [&["report", "7", "batch"] as &[&str], &["status"], &["--help"], &["completions", "bash"]] {
        let mut child = bus.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert!(!told.contains("panicked"), "{args:?}: {told}");
        assert_ne!(child.wait().unwrap().code(), Some(101));
    }
}

#[test]
fn the_nearest_bus_upward_is_the_one_that_is_meant() {
    let bus = with_history();
    let deep = bus.file("src/deep/down");
    std::fs::create_dir_all(&deep).unwrap();
    let mut command = bus.command(&["status"]);
    command.current_dir(&deep);
    scene::Ran::of(&mut command).exits(0).says("Batch 7");
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = bus.command(&["--root", bus.root().to_str().unwrap(), "status"]);
    command.current_dir(elsewhere.path());
    scene::Ran::of(&mut command).exits(0).says("Batch 7");
}

#[test]
fn an_agent_that_finds_no_task_is_told_so_and_one_that_waits_gets_the_next() {
    let bus = Bus::new();
    bus.wk(&["agent", "next"]).exits(1).complains("no task is ready");
    let waiting = bus.start(&["agent", "next", "--wait", "60", "--path"], &[]);
    let _watch = bus.watch(&[]);
    bus.drop_spec("7", "1");
    let path = waiting.ends().exits(0).out;
    assert_eq!(path.trim(), bus.agent("7/1").spec().to_str().unwrap());
    bus.wk(&["agent", "beat", "7/1#1", "--progress", "half way", "--tokens", "5"]).exits(0);
    bus.wait_for("the beat is shown", || bus.wk(&["status"]).out.contains("half way").then_some(()));
    bus.wk(&["agent", "done", "7/1#1", "--status", "failed", "--error", "no"]).exits(0);
    bus.wait_event("7", "attempt_failed", "1");
}

#[test]
fn an_interrupted_run_leaves_the_batch_to_the_next_watcher() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    run.stop().exits(130).complains("batch 7 is kept as it is");
    let _watch = bus.watch(&[]);
    bus.agent("7/1").delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
}

#[test]
fn a_watcher_asked_to_end_when_idle_ends_after_the_last_batch() {
    let bus = Bus::new();
    bus.drop_plan("batch_id = 7\n 1");
    let watch = bus.start(&["watch", "--exit-when-idle"], &[]);
    bus.agent("7/1").waits_for_spec().delivers(SUCCESS);
    watch.ends().exits(0);
    assert_eq!(bus.ended("7")["status"], "success");
}
