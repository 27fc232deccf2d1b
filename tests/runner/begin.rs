//! Who begins an attempt, and what a watcher can see of it.

use rustix::process::Signal;
use watchkeeper::agent::begun::{Probe, probe};
use watchkeeper::model::exit::Stopped;

use super::stage::{Stage, eventually};

#[test]
fn a_second_runner_on_the_same_attempt_does_nothing() {
    let stage = Stage::sh("echo once >> ran; until [ -e go ]; do sleep 0.05; done");
    let first = stage.spawn();
    eventually("the first has begun", || stage.dir.path().join("ran").exists());
    assert!(stage.command().status().unwrap().success());
    assert!(!stage.order.paths.exit.exists(), "the second left before the first");
    std::fs::write(stage.dir.path().join("go"), "").unwrap();
    assert!(first.exit().is_clean());
    assert!(stage.command().status().unwrap().success());
    assert_eq!(std::fs::read_to_string(stage.dir.path().join("ran")).unwrap(), "once\n");
}

#[test]
fn a_probe_tells_how_far_a_runner_has_come() {
    let stage = Stage::new(&["sleep", "60"]);
    assert_eq!(probe(&stage.paths).unwrap(), Probe::NotBegun);
    let mut running = stage.spawn();
    let mut begun = None;
    eventually("it has said who it is", || {
        if let Probe::Alive(told) = probe(&stage.paths).unwrap() {
            begun = told.agent.is_some().then_some(told);
        }
        begun.is_some()
    });
    let begun = begun.unwrap();
    assert_eq!(begun.mark, stage.order.mark);
    assert_eq!(begun.runner.as_ref().unwrap().pid, running.runner.id());
    let agent = begun.agent.unwrap();
    assert_eq!(stage.marked(), [agent]);

    // However it dies, the lock is free at once; the agent lives on, and the record says where.
    running.signal(Signal::KILL);
    running.runner.wait().unwrap();
    assert_eq!(probe(&stage.paths).unwrap(), Probe::Dead(begun));
    assert_eq!(stage.marked(), [agent]);
    assert!(!stage.order.paths.exit.exists());
    let agent = rustix::process::Pid::from_raw(agent as i32).unwrap();
    rustix::process::kill_process(agent, Signal::KILL).unwrap();
    assert!(!running.is_running());
}

#[test]
fn a_lock_without_a_whole_first_line_is_a_start_under_way() {
    let stage = Stage::new(&["true"]);
    std::fs::write(stage.paths.lock(), "").unwrap();
    assert_eq!(probe(&stage.paths).unwrap(), Probe::Starting);
    std::fs::write(stage.paths.lock(), r#"{"runner": null, "mark": "m"}"#).unwrap();
    assert_eq!(probe(&stage.paths).unwrap(), Probe::Starting, "the line has no end yet");
    std::fs::write(stage.paths.lock(), "{\"runner\": null, \"mark\": \"m\"}\n").unwrap();
    assert!(matches!(probe(&stage.paths).unwrap(), Probe::Dead(_)));
}

#[test]
fn the_agent_leads_its_own_group_outside_of_the_watchers_session_and_holds_no_descriptor_of_the_runner() {
    // The session of the tests is read there too: its number is 0 where its leader is outside of the process
    // namespace, as in a container.
    let tests = std::process::id();
    let stage = Stage::sh(&format!("cat /proc/$$/stat /proc/{tests}/stat; ls -l /proc/$$/fd"));
    assert!(stage.run().is_clean());
    let told = stage.stdout();
    let mut lines = told.lines();
    // Process, group and session; the name before them may have spaces.
    let mut ids = || -> [i32; 3] {
        let (head, rest) = lines.next().unwrap().rsplit_once(')').unwrap();
        let mut fields = rest.split_whitespace().skip(2).map(|id| id.parse().unwrap());
        let process = head.split_whitespace().next().unwrap().parse().unwrap();
        [process, fields.next().unwrap(), fields.next().unwrap()]
    };
    let (agents, ours) = (ids(), ids());
    assert!(agents[0] == agents[1] && agents[2] != ours[2], "{agents:?} {ours:?}");
    let opened: Vec<&str> = lines.filter_map(|line| line.split(" -> ").nth(1)).collect();
    assert_eq!(opened.len(), 3, "{opened:?}");
    assert!(!told.contains("runner.lock") && opened[0] == "/dev/null", "{told}");
}

#[test]
fn a_runner_that_comes_too_late_starts_nothing() {
    let stage = Stage::sh("touch ran");
    std::fs::create_dir_all(stage.paths.sibling(stage.order.attempt.next()).dir()).unwrap();
    assert_eq!(stage.run().stopped, Some(Stopped::Superseded));
    assert!(!stage.dir.path().join("ran").exists());

    let stage = Stage::sh("touch ran");
    std::fs::write(stage.paths.stop(), r#"{"why": "cancelled"}"#).unwrap();
    std::fs::write(stage.paths.environment(), r#"{"TOKEN": "hush-hush"}"#).unwrap();
    assert_eq!(stage.run().stopped, Some(Stopped::Asked { why: "cancelled".into() }));
    assert!(!stage.dir.path().join("ran").exists());
    assert!(!stage.paths.environment().exists(), "nor do the values of its environment stay");
}

#[test]
fn values_that_cannot_be_read_do_not_stay_on_the_disk() {
    let stage = Stage::new(&["true"]);
    std::fs::write(stage.paths.environment(), r#"{"TOKEN": "hush-hu"#).unwrap();
    assert!(matches!(stage.run().stopped, Some(Stopped::NotStarted { .. })));
    assert!(!stage.paths.environment().exists());
}

#[test]
fn an_exit_record_that_cannot_be_written_is_tried_until_it_can() {
    let stage = Stage::new(&["true"]);
    std::fs::create_dir_all(&stage.order.paths.exit).unwrap();
    let mut running = stage.spawn();
    eventually("the result is there", || stage.paths.result().exists());
    assert!(running.is_running() && matches!(probe(&stage.paths).unwrap(), Probe::Alive(_)));
    std::fs::remove_dir(&stage.order.paths.exit).unwrap();
    assert!(running.exit().is_clean());
}

#[test]
fn a_folder_without_an_order_is_refused() {
    let stage = Stage::new(&["true"]);
    let output = stage.command().stderr(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("launch.json"));
    assert!(!stage.paths.lock().exists());
}

#[test]
fn help_is_told_to_those_who_ask() {
    for flag in ["--help", "-h"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_wk-runner")).arg(flag).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: wk-runner ATTEMPT_DIR"));
    }
}
