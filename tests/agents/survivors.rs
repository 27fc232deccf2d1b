//! What a dead runner leaves where nobody inherits it: it is named and nothing starts beside it, and strangers are not
//! taken for it.

use std::process::Command;

use rustix::process::Signal;

use crate::crew::{Stage, alone, is_alive, launchers, signal};
use crate::scene::ending;

/// Leaves a process with a search path and nothing else in its environment, in a session of its own.
const LEAVES_ONE: &str = "
[ $WK_ATTEMPT = 1 ] || { echo $WK_ATTEMPT >> again; exit 0; }
( env -i PATH=\"$PATH\" setsid sh -c 'echo $$ >> pids; exec sleep 300' </dev/null >/dev/null 2>&1 & )
until [ -s pids ]; do sleep 0.02; done
echo $WK_ATTEMPT >> begun
exec sleep 301
";

const ONE: &str = "batch_id = 7\n 1 agent=leaves";

fn survivor(stage: &Stage) -> u32 {
    stage.wait_lines("begun", 1);
    stage.lines("pids")[0].parse().unwrap()
}

/// A person is asked about the survivor, and when it is gone the task goes on by itself.
fn is_named_and_waited_for(stage: &Stage, survivor: u32) {
    stage.wait_event("7", "unconfirmed_kill", "1");
    assert!(is_alive(survivor), "a process that may be anybody's was killed");
    let why = stage.call(&["why", "7/1"]).exits(0).says(&survivor.to_string());
    assert!(!why.out.contains("nothing of the attempt is left"), "{}", why.out);
    assert_eq!(stage.count("7", "launched", None), 1);
    assert_eq!(stage.lines("again"), [""; 0], "another ran beside it");
}

fn goes_on_without(stage: &Stage, survivor: u32) {
    signal(survivor, Signal::KILL);
    assert_eq!(ending(&stage.ended("7"), "1"), "success");
    assert_eq!(stage.lines("again"), ["2"]);
}

#[test]
fn a_survivor_of_a_runner_in_tmux_is_named_and_nothing_starts_beside_it() {
    let Some(_alone) = alone(a_survivor_of_a_runner_in_tmux_is_named_and_nothing_starts_beside_it) else {
        return;
    };
    if !launchers().contains(&"tmux") {
        return;
    }
    for is_server_ours in [true, false] {
        let stage = Stage::new().for_launcher("tmux");
        if !is_server_ours {
            user_session(&stage, "sleep 300");
        }
        stage.agent_script("leaves", LEAVES_ONE);
        let run = stage.run(ONE, &[]);
        let survivor = survivor(&stage);
        signal(stage.runner("7", "1", 1), Signal::KILL);
        run.ends().exits(6).complains("waits for a person");
        is_named_and_waited_for(&stage, survivor);
        let watch = stage.watch(&[]);
        goes_on_without(&stage, survivor);
        watch.stop().exits(0);
    }
}

#[test]
fn a_survivor_of_an_adopted_runner_is_named_and_nothing_starts_beside_it() {
    let Some(_alone) = alone(a_survivor_of_an_adopted_runner_is_named_and_nothing_starts_beside_it) else {
        return;
    };
    let stage = Stage::new();
    stage.agent_script("leaves", LEAVES_ONE);
    let run = stage.run(ONE, &[]);
    let survivor = survivor(&stage);
    run.kill();
    let watch = stage.watch(&[]);
    signal(stage.runner("7", "1", 1), Signal::KILL);
    is_named_and_waited_for(&stage, survivor);
    goes_on_without(&stage, survivor);
    watch.stop().exits(0);
}

#[test]
fn a_survivor_is_named_where_every_watcher_looks_once() {
    let Some(_alone) = alone(a_survivor_is_named_where_every_watcher_looks_once) else { return };
    let stage = Stage::new();
    stage.agent_script("leaves", LEAVES_ONE);
    let plan = stage.plan(ONE);
    stage.call(&["submit", plan.to_str().unwrap()]).exits(0);
    let look = || drop(stage.go(&["watch", "--once"], &["retry_delay_seconds=0.05"]).ends());
    stage.wait_for("a watcher has started it", || {
        look();
        (!stage.lines("begun").is_empty()).then_some(())
    });
    let survivor = survivor(&stage);
    signal(stage.runner("7", "1", 1), Signal::KILL);
    stage.wait_for("a watcher asks a person", || {
        look();
        (stage.count("7", "unconfirmed_kill", None) == 1).then_some(())
    });
    // The next ones ask nobody again, and start nothing.
    for _ in 0..2 {
        look();
    }
    is_named_and_waited_for(&stage, survivor);
    signal(survivor, Signal::KILL);
    stage.wait_for("the next attempt has run", || {
        look();
        (!stage.lines("again").is_empty()).then_some(())
    });
    stage.wait_for("the batch has ended", || {
        look();
        (stage.count("7", "finished", None) == 1).then_some(())
    });
}

#[test]
fn strangers_hold_up_no_retry_of_a_well_behaved_agent() {
    let Some(_alone) = alone(strangers_hold_up_no_retry_of_a_well_behaved_agent) else { return };
    if !launchers().contains(&"tmux") {
        return;
    }
    let stage = Stage::new().for_launcher("tmux");
    stage.agent_script("waits", "[ $WK_ATTEMPT = 1 ] || exit 0\nsetsid sleep 300 & sleep 301 & wait");
    let other = Stage::new().for_launcher("tmux");
    other.agent_script("waits", "setsid sleep 300 & until [ -e go ]; do sleep 0.02; done");
    let run = stage.run("batch_id = 7\n 1 agent=waits", &[]);
    let runner = stage.runner("7", "1", 1);
    // All of them begin after the runner, and none is told apart by its age.
    let busy = other.run("batch_id = 8\n 1 agent=waits", &[]);
    other.runner("8", "1", 1);
    let mut child = Command::new("setsid").args(["sleep", "300"]).spawn().unwrap();
    let strays = "
        (sleep 300 & echo $! >> pids)
        (WK_MARK=another setsid sleep 300 & echo $! >> pids)
        (INVOCATION_ID=5 setsid sleep 300 & echo $! >> pids)";
    Command::new("sh").args(["-c", strays]).current_dir(stage.root()).status().unwrap();
    assert_eq!(stage.wait_lines("pids", 3).len(), 3);
    signal(runner, Signal::KILL);
    let ran = run.ends();
    let spared = stage.lines("pids").iter().filter(|pid| is_alive(pid.parse().unwrap())).count();
    child.kill().unwrap();
    child.wait().unwrap();
    other.script("go", "");
    busy.ends().exits(0);
    ran.exits(0);
    assert_eq!(spared, 3, "who is none of ours is not touched");
    assert_eq!(stage.count("7", "unconfirmed_kill", None), 0);
    assert_eq!(stage.count("7", "launched", Some("1")), 2);
}

/// A session of somebody who uses the same tmux server.
fn user_session(stage: &Stage, line: &str) {
    let status = Command::new("tmux").args(["-L", &stage.name, "new-session", "-d", line]).status().unwrap();
    assert!(status.success());
}
