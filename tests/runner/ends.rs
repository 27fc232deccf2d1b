//! How a runner ends its agent, and that nobody is left.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use watchkeeper::agent::begun::{Probe, probe};
use watchkeeper::model::Seconds;
use watchkeeper::model::claim::ClaimStatus;
use watchkeeper::model::exit::Stopped;

use super::stage::{Stage, eventually, text};

#[test]
fn a_tree_that_ignores_term_is_killed_at_its_timeout_and_nobody_is_left() {
    let mut stage = Stage::script("unwilling.sh");
    stage.order.timeout = Seconds(6.0);
    let running = stage.spawn();
    eventually("the tree stands", || stage.marked().len() >= 5);
    let exit = running.exit();
    assert_eq!(exit.stopped, Some(Stopped::Timeout { limit: Seconds(6.0) }));
    assert_eq!((exit.signal, exit.result_by_runner), (Some(9), true));
    assert_eq!(stage.marked(), [0; 0]);
    let (claim, value) = stage.result();
    assert_eq!(claim.status, ClaimStatus::Failure);
    assert!(claim.errors[0].contains("6s were up"), "{:?}", claim.errors);
    assert_eq!(value["run"]["signal"], 9);
}

#[test]
fn what_an_agent_leaves_behind_ends_with_it() {
    let stage = Stage::script("leaves-children.sh");
    let exit = stage.run();
    assert!(exit.is_clean(), "{exit:?}");
    assert_eq!(stage.marked(), [0; 0]);
    assert_eq!(stage.result().0.status, ClaimStatus::Success);
}

#[test]
fn the_watchers_request_ends_an_agent() {
    let mut stage = Stage::sh("trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
    stage.order.kill_grace = Seconds(60.0);
    let running = stage.spawn();
    eventually("it runs", || text(stage.paths.stdout()).contains("ready"));
    stage.asks(r#"{"why": "cancelled by the user"}"#);
    let exit = running.exit();
    assert_eq!(exit.stopped, Some(Stopped::Asked { why: "cancelled by the user".into() }));
    assert_eq!((exit.exit_code, exit.result_by_runner), (Some(0), true));
    assert_eq!(stage.result().0.errors[0], "the agent was ended: cancelled by the user");
    assert!(stage.stdout().contains("told"), "what it says while it ends is heard: {:?}", stage.stdout());
}

#[test]
fn a_signal_hurries_the_request_along_and_stands_for_one() {
    let stage = Stage::new(&["sleep", "60"]);
    let running = stage.spawn();
    eventually("it runs", || !stage.marked().is_empty());
    running.signal(Signal::TERM);
    assert_eq!(running.exit().stopped, Some(Stopped::Asked { why: "signal 15".into() }));

    let stage = Stage::new(&["sleep", "60"]);
    let running = stage.spawn();
    eventually("it runs", || !stage.marked().is_empty());
    stage.asks(r#"{"why": "batch cancelled"}"#);
    running.signal(Signal::INT);
    assert_eq!(running.exit().stopped, Some(Stopped::Asked { why: "batch cancelled".into() }));
}

#[test]
fn an_agent_whose_successor_exists_ends() {
    let stage = Stage::new(&["sleep", "60"]);
    let running = stage.spawn();
    eventually("it runs", || !stage.marked().is_empty());
    let successor = stage.paths.sibling(stage.order.attempt.next());
    std::fs::create_dir_all(successor.dir()).unwrap();
    assert_eq!(running.exit().stopped, Some(Stopped::Superseded));
}

#[test]
fn an_agent_that_stays_after_its_result_ends_and_its_result_counts() {
    let stage =
        Stage::sh(r#"echo '{"task_id":"phase-1","status":"success","output":{}}' > "$WK_RESULT"; sleep 60"#);
    let exit = stage.run();
    assert_eq!(exit.stopped, Some(Stopped::Lingered));
    assert!(stage.order.paths.result.exists() && !exit.result_by_runner);
}

#[test]
fn a_terminal_that_is_gone_ends_everyone_without_grace() {
    let mut stage = Stage::script("unwilling.sh");
    stage.order.kill_grace = Seconds(600.0);
    let running = stage.spawn();
    eventually("the tree stands", || stage.marked().len() >= 5);
    running.signal(Signal::HUP);
    let exit = running.exit();
    assert_eq!((exit.stopped, exit.signal), (Some(Stopped::HungUp), Some(9)));
    assert_eq!(stage.marked(), [0; 0]);
}

#[test]
fn time_in_which_the_runner_was_stopped_counts_for_nobody() {
    let mut stage = Stage::sh("until [ -e go ]; do sleep 0.05; done");
    stage.order.timeout = Seconds(5.0);
    let running = stage.spawn();
    eventually("it runs", || !stage.marked().is_empty());
    let began = Instant::now();
    running.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(6_500));
    running.signal(Signal::CONT);
    assert!(began.elapsed() > Duration::from_secs_f64(stage.order.timeout.0));
    std::fs::write(stage.dir.path().join("go"), "").unwrap();
    let exit = running.exit();
    assert!(exit.is_clean(), "{exit:?}");
}

#[test]
fn a_tree_in_a_control_group_ends_with_it_and_the_group_is_gone() {
    let mut stage = Stage::script("unwilling.sh");
    stage.variables.push(("WK_CGROUPS".into(), "on".into()));
    let running = stage.spawn();
    eventually("the tree stands", || stage.marked().len() >= 5);
    let Probe::Alive(begun) = probe(&stage.paths).unwrap() else { panic!("it runs") };
    running.signal(Signal::TERM);
    assert_eq!(running.exit().signal, Some(9));
    assert_eq!(stage.marked(), [0; 0]);
    // Not every machine lets us make one.
    if let Some(group) = begun.cgroup {
        assert!(!std::path::Path::new(&group).exists());
    }
}

#[test]
fn where_processes_cannot_be_listed_the_agents_group_ends_all_the_same() {
    let mut stage = Stage::sh("trap '' TERM; sleep 60 & while :; do sleep 1; done");
    stage.variables.push(("WK_PORTABLE".into(), "1".into()));
    let running = stage.spawn();
    eventually("it runs", || stage.marked().len() >= 3);
    running.signal(Signal::TERM);
    let exit = running.exit();
    assert_eq!((exit.stopped, exit.signal), (Some(Stopped::Asked { why: "signal 15".into() }), Some(9)));
    eventually("nobody is left", || stage.marked().is_empty());

    let mut stage = Stage::new(&["true"]);
    stage.variables.push(("WK_PORTABLE".into(), "1".into()));
    assert!(stage.run().is_clean());
}

#[test]
fn where_processes_cannot_be_listed_what_an_agent_left_in_its_group_ends_with_it() {
    let mut stage = Stage::sh("trap '' TERM; sleep 60 > /dev/null 2>&1 & exit 0");
    stage.variables.push(("WK_PORTABLE".into(), "1".into()));
    assert!(stage.run().is_clean());
    eventually("nobody is left", || stage.marked().is_empty());
}
