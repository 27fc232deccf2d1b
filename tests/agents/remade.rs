//! A bus that is swept away and made anew under those who work on it (`git clean -fd`, `git stash -u`, `rm -rf .ce`):
//! what belonged to the old one leaves the new one alone.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::crew::{Stage, is_alive};
use crate::scene::ending;

/// Nothing of its output, and it ends when it is let go.
const WAITS: &str = "echo $$ >> pids; until [ -e go ]; do sleep 0.05; done";
const PLAN: &str = "batch_id = 7\n 1 agent=waits max_retries=0";

fn settings(stage: &Stage) {
    let text = "[agents.waits]\ncommand = [\"sh\", \"waits.sh\"]\n[agents.fails]\ncommand = [\"false\"]\n";
    fs::create_dir_all(stage.file(".ce")).unwrap();
    stage.settings(text);
}

#[test]
fn a_watcher_whose_bus_was_removed_and_made_anew_ends_and_says_so() {
    let stage = Stage::new();
    let first = stage.watch(&[]);
    // Stopped, it sees none of what follows before it is over.
    first.signal(Signal::STOP);
    fs::remove_dir_all(stage.file(".ce")).unwrap();
    let second = stage.watch(&[]);
    stage.drop_plan("batch_id = 7\n 1");
    stage.wait_file("tasks/batch-7/task-1.json");
    first.signal(Signal::CONT);
    let ran = first.ends().exits(75);
    assert!(ran.err.contains("watch.lock was removed or replaced"), "{}", ran.err);
    stage.agent("7/1").beats().delivers(crate::scene::SUCCESS);
    assert_eq!(ending(&stage.ended("7"), "1"), "success");
    drop(second);
}

#[test]
fn a_watcher_whose_lock_file_alone_was_removed_ends_before_it_decides_again() {
    let stage = Stage::new();
    let first = stage.watch(&[]);
    fs::remove_file(stage.path("watch.lock")).unwrap();
    first.ends().exits(75).complains("watch.lock was removed or replaced");
}

#[test]
fn a_runner_of_a_removed_bus_writes_nothing_into_the_new_one() {
    let stage = Stage::new();
    settings(&stage);
    stage.script("waits.sh", WAITS);
    let first = stage.run(PLAN, &[]);
    let runner = stage.runner("7", "1", 1);
    first.signal(Signal::KILL);
    first.ends();
    fs::remove_dir_all(stage.file(".ce")).unwrap();
    fs::create_dir_all(stage.path("tasks")).unwrap();
    for name in ["inbox", "batches", "completed-batches", "quarantine"] {
        fs::create_dir_all(stage.path(name)).unwrap();
    }
    settings(&stage);
    // The same batch, task and attempt, by an agent that fails only later.
    stage.script("waits.sh", "echo second >> began; until [ -e fail ]; do sleep 0.05; done; exit 1");
    let second = stage.run(PLAN, &[]);
    stage.wait_lines("began", 1);
    fs::write(stage.file("go"), "").unwrap();
    stage.wait_for("the old runner has ended", || (!is_alive(runner)).then_some(()));
    assert!(!second.has_ended(), "{}", second.stderr());
    fs::write(stage.file("fail"), "").unwrap();
    second.ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:agent_exited");
    assert!(stage.quarantine().is_empty(), "{:?}", stage.quarantine());
}

#[test]
fn a_result_with_the_mark_of_another_bus_is_refused() {
    let stage = Stage::new();
    settings(&stage);
    let foreign = r#"echo "{\"task_id\":\"1\",\"status\":\"success\",\"output\":{},\"wk_mark\":\"0123\"}" > "$WK_RESULT""#;
    stage.script("waits.sh", foreign);
    stage.run(PLAN, &["settle_seconds=0.1"]).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:result_refused");
    stage.call(&["why", "7/1"]).says("started on another bus");
    // Its own is fine, and `wk agent done` puts it there.
    stage.script("waits.sh", &format!("'{}' agent done", env!("CARGO_BIN_EXE_wk")));
    stage.run("batch_id = 8\n 1 agent=waits max_retries=0", &[]).ends().exits(0);
    let result = stage.kept_text("8", "1", 1, "result.json");
    assert!(result.contains("wk_mark"), "{result}");
}

#[test]
fn a_bus_in_the_wrong_place_or_without_gitignore_is_said_to_be_so() {
    let stage = Stage::new();
    let git = |args: &[&str]| {
        let status = Command::new("git").args(args).current_dir(stage.root()).output().unwrap().status;
        assert!(status.success(), "git {args:?}");
    };
    git(&["init", "-q"]);
    fs::remove_dir_all(stage.file(".ce")).unwrap();
    let ran = stage.call(&["watch", "--once"]).exits(0);
    assert!(ran.err.contains("there was no bus in") && ran.err.contains("--root DIR"), "{}", ran.err);
    assert!(!ran.err.contains("git does not ignore"), "it was made with its .gitignore: {}", ran.err);
    git(&["clean", "-fdq"]);
    assert!(stage.path("epoch").exists(), "git has swept the bus away");
    assert!(stage.call(&["watch", "--once"]).exits(0).err.is_empty());
    fs::write(stage.path(".gitignore"), "# nothing\n").unwrap();
    stage.call(&["watch", "--once"]).exits(0).complains("git does not ignore");
    stage.call(&["init"]).exits(0).complains("git clean -fd");
    fs::write(stage.file(".gitignore"), "/.ce/orchestration/\n").unwrap();
    assert!(!stage.call(&["init"]).exits(0).err.contains("git does not ignore"));
}

#[test]
fn an_agent_that_puts_something_in_its_folders_place_ends_all_the_same() {
    let stage = Stage::new();
    settings(&stage);
    let replaces = "folder=$(dirname \"$WK_SPEC\"); until [ -e \"$folder/stderr.log\" ]; do sleep 0.02; done\n\
        while [ -d \"$folder\" ]; do rm -rf \"$folder\"; done; echo planted > \"$folder\"";
    stage.script("waits.sh", replaces);
    stage.run(PLAN, &[]).ends().exits(1);
    assert!(ending(&stage.ended("7"), "1").starts_with("failed:"));
}
