//! Heartbeats that are none, and heartbeats that say that the work has ended.

use std::process::Command;

use crate::scene::{Bus, ending, task};

#[test]
fn a_heartbeat_that_is_no_file_or_of_another_attempt_is_named_as_the_cause() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n dir\n pipe\n link\n other");
    let run = bus.run(&plan, &["heartbeat_timeout_seconds=5"]);
    for key in ["dir", "pipe", "link", "other"] {
        bus.agent(&format!("7/{key}")).waits_for_spec().beats();
        bus.wait_event("7", "started", key);
    }
    let replace = |key: &str, with: &dyn Fn(&std::path::Path)| {
        let path = bus.agent(&format!("7/{key}")).heartbeat();
        std::fs::remove_file(&path).unwrap();
        with(&path);
    };
    replace("dir", &|path| std::fs::create_dir(path).unwrap());
    replace("pipe", &|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()));
    std::fs::write(bus.file("real.hb"), "{}").unwrap();
    replace("link", &|path| std::os::unix::fs::symlink(bus.file("real.hb"), path).unwrap());
    bus.agent("7/other").beats_with(r#"{"status": "in_progress", "attempt": 3}"#);
    run.ends().exits(1);
    let result = bus.ended("7");
    let causes = [
        ("dir", "a directory"),
        ("link", "a symbolic link"),
        ("other", "speaks for attempt 3, and attempt 1"),
    ];
    for (key, cause) in causes.into_iter().chain([("pipe", "not a regular file")]) {
        assert_eq!(ending(&result, key), "failed:heartbeat_malformed", "{key}");
        let reason = task(&result, key)["reason"].as_str().unwrap();
        assert!(reason.contains(cause), "{key}: {reason}");
    }
}

#[test]
fn a_heartbeat_that_is_none_is_shown_before_anything_fails() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1");
    let _run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    std::fs::remove_file(bus.agent("7/1").heartbeat()).unwrap();
    std::fs::create_dir(bus.agent("7/1").heartbeat()).unwrap();
    bus.wait_for("it is shown", || {
        let status = std::fs::read_to_string(bus.path("tasks/batch-7/status.json")).ok()?;
        status.contains("its heartbeat is none: is a directory").then_some(())
    });
}

#[test]
fn a_heartbeat_that_says_that_the_work_has_ended_must_be_followed_by_a_result() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1\n 2\n 3");
    let run = bus.run(&plan, &["heartbeat_timeout_seconds=600"]);
    let words = [("1", "failed", "tests are red"), ("2", "completed", "all done"), ("3", "Done", "all done")];
    for (key, word, progress) in words {
        let beat = format!(r#"{{"status": "{word}", "progress": "{progress}"}}"#);
        bus.agent(&format!("7/{key}")).waits_for_spec().beats_with(&beat);
        bus.wait_event("7", "started", key);
    }
    bus.agent("7/3").delivers(crate::scene::SUCCESS);
    run.ends().exits(3);
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "failed:agent_reported");
    assert!(task(&result, "1")["reason"].as_str().unwrap().contains("'failed': tests are red"), "{result:#}");
    assert_eq!(ending(&result, "2"), "failed:result_never_came");
    assert_eq!(ending(&result, "3"), "success");
}
