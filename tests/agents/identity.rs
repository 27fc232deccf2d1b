//! Who a runner is stands in the journal: no file that somebody puts into its place says otherwise, and every attempt ends.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;

use crate::crew::{Stage, is_alive, signal};
use crate::scene::ending;

const WAITS: &str = "echo $$ >> begun; until [ -e go ]; do sleep 0.02; done";
const QUICK: &[&str] = &["kill_grace_seconds=0.3", "scan_interval_seconds=0.1"];

/// A batch with one attempt under way whose runner the journal names.
fn under_way(stage: &Stage) -> crate::scene::Process {
    stage.agent_script("waits", WAITS);
    let run = stage.run("batch_id = 7\n 1 agent=waits max_retries=0", QUICK);
    stage.wait_lines("begun", 1);
    stage.wait_for("the journal names its runner", || {
        stage.journal("7").into_iter().find(|line| line["event"] == "begun")
    });
    run
}

#[test]
fn the_journal_names_the_runner_and_its_lock() {
    use std::os::unix::fs::MetadataExt;
    let stage = Stage::new();
    let run = under_way(&stage);
    let begun = stage.journal("7").into_iter().find(|line| line["event"] == "begun").unwrap();
    let lock = fs::metadata(stage.kept("7", "1", 1, "runner.lock")).unwrap();
    assert_eq!(begun["runner"]["process"]["pid"], stage.runner("7", "1", 1));
    assert_eq!(begun["runner"]["lock"]["inode"], lock.ino());
    assert_eq!(begun["runner"]["lock"]["nonce"].as_str().unwrap().len(), 32);
    stage.script("go", "");
    run.ends().exits(0);
    assert!(stage.call(&["why", "7/1"]).exits(0).out.contains("its runner is process"));
}

#[test]
fn another_lock_in_its_place_asks_a_person_and_kills_nobody() {
    let stage = Stage::new();
    let run = under_way(&stage);
    let runner = stage.runner("7", "1", 1);
    // It names somebody innocent as the runner, who would be killed if it were believed.
    let mut innocent =
        Innocent(std::process::Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap());
    let lock = stage.kept("7", "1", 1, "runner.lock");
    let forged = fs::read_to_string(&lock).unwrap();
    let started = started_at(innocent.0.id());
    let mut line: serde_json::Value = serde_json::from_str(forged.lines().next().unwrap()).unwrap();
    line["runner"]["pid"] = innocent.0.id().into();
    line["runner"]["started"] = started.into();
    let other = lock.with_file_name("other");
    fs::write(&other, format!("{line}\n")).unwrap();
    fs::rename(&other, &lock).unwrap();
    stage.wait_event("7", "unconfirmed_kill", "1");
    assert!(is_alive(runner) && innocent.0.try_wait().unwrap().is_none());
    run.ends().exits(6);
    stage.call(&["kill", "7/1"]).exits(0);
    let _watch = stage.watch(QUICK);
    stage.ended("7");
    stage.wait_for("its runner is gone", || (!is_alive(runner)).then_some(()));
    assert!(innocent.0.try_wait().unwrap().is_none(), "nobody is killed on its word");
    assert!(
        ending(&stage.ended("7"), "1").starts_with("failed:killed"),
        "{}",
        ending(&stage.ended("7"), "1")
    );
    stage.nobody_is_left();
}

/// Somebody who has nothing to do with it, and ends with the scene.
struct Innocent(std::process::Child);

impl Drop for Innocent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Clock ticks from boot, as the kernel tells them.
fn started_at(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap()
}

#[test]
fn a_runner_of_another_boot_is_gone_whatever_lies_there() {
    let stage = Stage::new();
    stage.agent_script("waits", "[ $WK_ATTEMPT = 1 ] || exit 0; echo $$ >> begun; exec sleep 600");
    let run = stage.run("batch_id = 7\n 1 agent=waits", QUICK);
    stage.wait_lines("begun", 1);
    stage.wait_event("7", "begun", "1");
    let runner = stage.runner("7", "1", 1);
    run.kill();
    signal(runner, Signal::KILL);
    signal(stage.lines("begun")[0].parse().unwrap(), Signal::KILL);
    // The machine was started anew, says the journal; the lock says what it likes.
    let journal = stage.path("tasks/batch-7/journal.jsonl");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    rewrite(&journal, boot.trim(), "00000000-0000-0000-0000-000000000000");
    fs::write(stage.kept("7", "1", 1, "runner.lock"), "").unwrap();
    let again = stage.start(&["watch", "--exit-when-idle"], QUICK);
    stage.ended("7");
    drop(again);
    let failed = stage.journal("7").into_iter().find(|line| line["event"] == "attempt_failed").unwrap();
    assert!(failed.to_string().contains("rebooted"), "{failed}");
}

/// Replaces a word in a journal, and makes the checksums of its lines fit.
fn rewrite(journal: &std::path::Path, from: &str, to: &str) {
    const CHECKSUM: &str = ",\"crc\":\"";
    let lines = fs::read_to_string(journal).unwrap();
    let lines = lines.lines().map(|line| {
        let body = format!("{}}}", line.rsplit_once(CHECKSUM).unwrap().0).replace(from, to);
        let checksum = crc32fast::hash(body.as_bytes());
        format!("{}{CHECKSUM}{checksum:08x}\"}}\n", body.strip_suffix('}').unwrap())
    });
    fs::write(journal, lines.collect::<String>()).unwrap();
}

#[test]
fn an_attempt_whose_lock_was_emptied_ends_with_its_runner() {
    let stage = Stage::new();
    let run = under_way(&stage);
    fs::write(stage.kept("7", "1", 1, "runner.lock"), "").unwrap();
    signal(stage_runner(&stage), Signal::KILL);
    run.ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:runner_died");
    stage.nobody_is_left();
}

fn stage_runner(stage: &Stage) -> u32 {
    let begun = stage.journal("7").into_iter().find(|line| line["event"] == "begun").unwrap();
    begun["runner"]["process"]["pid"].as_u64().unwrap() as u32
}

#[test]
fn a_kill_works_although_the_attempts_folder_is_a_file() {
    let stage = Stage::new();
    let run = under_way(&stage);
    let folder = stage.path("tasks/batch-7/attempts/1/1");
    fs::rename(&folder, stage.file("elsewhere")).unwrap();
    fs::write(&folder, "a file").unwrap();
    stage.call(&["kill", "7/1"]).exits(0);
    run.ends();
    assert!(ending(&stage.ended("7"), "1").starts_with("failed:killed"));
    stage.nobody_is_left();
}

#[test]
fn a_stopped_runner_is_ended_within_its_time() {
    let stage = Stage::new();
    let run = under_way(&stage);
    signal(stage_runner(&stage), Signal::STOP);
    stage.call(&["kill", "7/1"]).exits(0);
    run.ends();
    assert!(ending(&stage.ended("7"), "1").starts_with("failed:killed"));
    stage.nobody_is_left();
}
