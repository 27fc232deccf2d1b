//! Watchers come and go: what they started goes on, and counts for whoever watches next.

use rustix::process::Signal;

use crate::crew::{Stage, alone, is_alive, launchers, signal};
use crate::scene::{ending, task};

/// Writes down that it began, waits for `go`, and says which attempt it was.
const WAITS: &str = "
echo $WK_TASK $WK_ATTEMPT $$ >> begun
until [ -e go ]; do sleep 0.02; done
echo $WK_TASK $WK_ATTEMPT >> ended
";

const TWO: &str = "batch_id = 7\n 1 agent=waits\n 2 agent=waits\n 3 <- 1 2 agent=waits";

fn with_waiting_agent(launcher: &str) -> Stage {
    let stage = Stage::new().for_launcher(launcher);
    stage.agent_script("waits", WAITS);
    stage
}

/// The agents go on to the end under another watcher, each at its first attempt.
fn goes_on(stage: &Stage) {
    // The first that takes over is killed too.
    stage.watch(&[]).kill();
    let watch = stage.watch(&[]);
    stage.script("go", "");
    let result = stage.ended("7");
    assert!(stage.count("7", "resumed", None) >= 1);
    for key in ["1", "2", "3"] {
        assert_eq!(ending(&result, key), "success");
        assert_eq!(stage.count("7", "launched", Some(key)), 1, "{key}");
    }
    assert_eq!(stage.lines("begun").len(), 3);
    watch.stop().exits(0);
}

#[test]
fn agents_outlive_a_killed_watcher_and_the_next_one_takes_their_results() {
    for launcher in launchers() {
        let stage = with_waiting_agent(launcher);
        let run = stage.run(TWO, &[]);
        stage.wait_lines("begun", 2);
        run.kill();
        assert!(stage.agents().len() >= 2, "{launcher}");
        goes_on(&stage);
    }
}

#[test]
fn results_that_came_while_nobody_watched_count() {
    let stage = with_waiting_agent("process");
    let run = stage.run("batch_id = 7\n 1 agent=waits\n 2 <- 1 agent=waits", &[]);
    stage.wait_lines("begun", 1);
    run.kill();
    stage.script("go", "");
    stage.wait_lines("ended", 1);
    let watch = stage.watch(&[]);
    let result = stage.ended("7");
    assert_eq!([ending(&result, "1"), ending(&result, "2")], ["success", "success"]);
    assert_eq!(stage.count("7", "launched", None), 2);
    watch.stop().exits(0);
}

#[test]
fn agents_outlive_watcher_and_nursery_together() {
    let stage = with_waiting_agent("process");
    let run = stage.run(TWO, &[]);
    stage.wait_lines("begun", 2);
    let nursery = stage.nursery(run.id());
    signal(nursery, Signal::KILL);
    run.kill();
    goes_on(&stage);
}

#[test]
fn a_nursery_that_is_killed_is_replaced_for_the_next_task() {
    let stage = with_waiting_agent("process");
    let run = stage.run(TWO, &[]);
    stage.wait_lines("begun", 2);
    signal(stage.nursery(run.id()), Signal::KILL);
    stage.script("go", "");
    run.ends().exits(0);
    assert_eq!(stage.count("7", "launched", None), 3);
}

/// Leaves a child, a session and a stray with nothing in its environment; succeeds at its second attempt.
const SCATTERS: &str = "
for pid in $(cat pids 2>/dev/null); do
    grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null && echo $WK_ATTEMPT beside $pid >> overlap
done
[ $WK_ATTEMPT = 1 ] || exit 0
echo $$ >> pids
sleep 300 & echo $! >> pids
setsid sleep 301 & echo $! >> pids
( ( env -i setsid sh -c 'echo $$ >> pids; exec sleep 302' & ) & )
until [ $(wc -l < pids) = 4 ]; do sleep 0.02; done
echo $WK_ATTEMPT >> begun
wait
";

fn scattered(stage: &Stage) -> Vec<u32> {
    stage.wait_lines("begun", 1);
    stage.lines("pids").iter().map(|pid| pid.parse().unwrap()).collect()
}

#[track_caller]
fn all_are_gone(stage: &Stage, pids: &[u32]) {
    let alive: Vec<&u32> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(alive.is_empty(), "alive: {alive:?}");
    assert_eq!(stage.lines("overlap"), [""; 0]);
    stage.nobody_is_left();
}

#[test]
fn a_killed_runner_fails_its_attempt_within_two_seconds_and_its_orphans_end_first() {
    let Some(_alone) = alone(a_killed_runner_fails_its_attempt_within_two_seconds_and_its_orphans_end_first)
    else {
        return;
    };
    let stage = Stage::new();
    stage.agent_script("scatters", SCATTERS);
    // The watcher's own rhythm while somebody runs, not a scene's: the requirement is on the defaults.
    let settings = ["scan_interval_seconds=1", "idle_scan_seconds=60", "heartbeat_timeout_seconds=60"];
    let run = stage.run("batch_id = 7\n 1 agent=scatters", &settings);
    let pids = scattered(&stage);
    let killed_at = jiff::Timestamp::now();
    signal(stage.runner("7", "1", 1), Signal::KILL);
    run.ends().exits(0);
    let journal = stage.journal("7");
    let failed = journal.iter().find(|line| line["event"] == "attempt_failed").unwrap();
    let failed_at: jiff::Timestamp = failed["at"].as_str().unwrap().parse().unwrap();
    let took = failed_at.duration_since(killed_at);
    // Two seconds are promised where nothing else holds the watcher up. Nothing but the scan of each second
    // could notice it before a minute has passed: whatever is far below that shows that the scan did.
    println!("a killed runner was noticed after {took:#}");
    assert!(took.as_millis() <= 15_000, "it took {took}");
    assert_eq!(failed["because"]["reason"], "runner_died");
    all_are_gone(&stage, &pids);
    assert_eq!(stage.count("7", "launched", Some("1")), 2);
}

#[test]
fn a_killed_runner_in_tmux_is_noticed_and_its_orphans_end_first() {
    let Some(_alone) = alone(a_killed_runner_in_tmux_is_noticed_and_its_orphans_end_first) else { return };
    let Some(launcher) = launchers().iter().find(|launcher| **launcher == "tmux") else { return };
    let stage = Stage::new().for_launcher(launcher);
    // Without the stray whose environment is empty: it is no child of ours there.
    stage.agent_script("scatters", &SCATTERS.replace("env -i ", ""));
    let run = stage.run("batch_id = 7\n 1 agent=scatters", &[]);
    let pids = scattered(&stage);
    signal(stage.runner("7", "1", 1), Signal::KILL);
    run.ends().exits(0);
    all_are_gone(&stage, &pids);
    assert_eq!(stage.count("7", "launched", Some("1")), 2);
}

#[test]
fn a_stranger_that_tells_nothing_of_itself_holds_no_retry_up() {
    let Some(_alone) = alone(a_stranger_that_tells_nothing_of_itself_holds_no_retry_up) else { return };
    let stage = Stage::new();
    stage.agent_script("scatters", SCATTERS);
    let run = stage.run("batch_id = 7\n 1 agent=scatters", &[]);
    let pids = scattered(&stage);
    // As another user's process is to one who may not read it: started meanwhile, and nobody's child.
    let stray = "(env -i setsid sh -c 'echo $$ > stranger; exec sleep 60' &)";
    std::process::Command::new("sh").args(["-c", stray]).current_dir(stage.root()).status().unwrap();
    let stranger: u32 = stage.wait_lines("stranger", 1)[0].parse().unwrap();
    signal(stage.runner("7", "1", 1), Signal::KILL);
    let ran = run.ends();
    let was_spared = is_alive(stranger);
    signal(stranger, Signal::KILL);
    ran.exits(0);
    assert!(was_spared, "who is none of ours is not touched");
    all_are_gone(&stage, &pids);
    assert_eq!(stage.count("7", "launched", Some("1")), 2);
}

#[test]
fn an_interrupt_at_the_terminal_reaches_the_watcher_and_no_agent() {
    let stage = with_waiting_agent("process");
    let run = stage.run_as_group_leader(TWO);
    stage.wait_lines("begun", 2);
    let group = rustix::process::Pid::from_raw(run.id() as i32).unwrap();
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    run.ends().exits(130).complains("batch 7 is kept as it is").complains("wk watch");
    assert!(stage.agents().len() >= 2);
    goes_on(&stage);
}

#[test]
fn a_kill_that_a_watcher_did_not_live_to_see_is_carried_out_by_the_next() {
    let stage = Stage::new();
    stage.agent_script("deaf", "trap '' TERM; echo $$ >> begun; while :; do sleep 0.1; done");
    let run = stage.run("batch_id = 7\n 1 agent=deaf", &["kill_grace_seconds=1"]);
    stage.wait_lines("begun", 1);
    stage.call(&["kill", "7/1"]).exits(0);
    stage.wait_event("7", "ending", "1");
    run.kill();
    let watch = stage.watch(&["kill_grace_seconds=1"]);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:killed");
    stage.nobody_is_left();
    assert_eq!(stage.lines("begun").len(), 1);
    watch.stop().exits(0);
}

#[test]
fn a_watcher_that_comes_after_the_death_of_runner_and_watcher_ends_the_orphans_first() {
    let Some(_alone) =
        alone(a_watcher_that_comes_after_the_death_of_runner_and_watcher_ends_the_orphans_first)
    else {
        return;
    };
    let stage = Stage::new();
    // Without the stray whose environment is empty: nobody is left who could know it.
    stage.agent_script("scatters", &SCATTERS.replace("env -i ", ""));
    let run = stage.run("batch_id = 7\n 1 agent=scatters", &[]);
    let pids = scattered(&stage);
    signal(run.id(), Signal::STOP);
    signal(stage.runner("7", "1", 1), Signal::KILL);
    run.kill();
    assert!(pids[1..].iter().any(|pid| is_alive(*pid)));
    let watch = stage.watch(&[]);
    assert_eq!(ending(&stage.ended("7"), "1"), "success");
    all_are_gone(&stage, &pids);
    assert_eq!(stage.count("7", "launched", Some("1")), 2);
    watch.stop().exits(0);
}

#[test]
fn where_processes_cannot_be_listed_a_dead_runner_waits_for_a_person() {
    let stage = Stage::new().with("WK_PORTABLE", "1");
    stage.agent_script("waits", WAITS);
    let run = stage.run("batch_id = 7\n 1 agent=waits\n 2 <- 1 agent=waits", &[]);
    let begun = stage.wait_lines("begun", 1);
    let agent: u32 = begun[0].rsplit(' ').next().unwrap().parse().unwrap();
    let runner = parent_of(agent);
    signal(runner, Signal::KILL);
    run.ends().exits(6).complains("waits for a person").complains("wk retry");
    assert_eq!(stage.count("7", "unconfirmed_kill", Some("1")), 1);
    assert_eq!(stage.count("7", "launched", None), 1);
    stage.call(&["status", "7"]).says("AWAITING");
    // Another watcher does not take it for settled either.
    let watch = stage.watch(&["request_commands=always"]);
    let other = stage.plan("batch_id = 8\n 1 command=[\"true\"]");
    std::fs::copy(other, stage.path("inbox/other.json")).unwrap();
    stage.ended("8");
    assert_eq!(stage.count("7", "launched", None), 1);
    signal(agent, Signal::KILL);
    stage.script("go", "");
    stage.call(&["retry", "7/1", "--why", "I looked"]).exits(0);
    let result = stage.ended("7");
    assert_eq!([ending(&result, "1"), ending(&result, "2")], ["success", "success"]);
    assert_eq!(stage.count("7", "launched", Some("1")), 2);
    watch.stop().exits(0);
}

#[test]
fn a_survivor_that_nobody_can_prove_is_named_and_nothing_starts_beside_it_by_mistake() {
    let Some(_alone) =
        alone(a_survivor_that_nobody_can_prove_is_named_and_nothing_starts_beside_it_by_mistake)
    else {
        return;
    };
    let stage = Stage::new();
    stage.agent_script("scatters", SCATTERS);
    let run = stage.run("batch_id = 7\n 1 agent=scatters max_retries=0", &[]);
    let pids = scattered(&stage);
    let survivor = pids[3].to_string();
    signal(run.id(), Signal::STOP);
    signal(stage.runner("7", "1", 1), Signal::KILL);
    run.kill();
    let watch = stage.watch(&[]);
    stage.wait_event("7", "unconfirmed_kill", "1");

    stage.call(&["retry", "--failed", "7"]).exits(2).complains("7/1 is left alone").complains(&survivor);
    stage.call(&["retry", "7/1"]).exits(2).complains(&survivor).complains("--force");
    stage.call(&["kill", "7/1"]).exits(0).complains(&survivor);
    let result = stage.ended("7");
    assert!(is_alive(pids[3]), "a process that may be anybody's was killed");
    assert!(task(&result, "1")["reason"].as_str().unwrap().contains(&survivor), "{result:#}");
    stage.call(&["report", "7"]).says("nothing of 7/1 still runs");
    stage.call(&["retry", "--failed", "7"]).exits(2).complains("7/1 is left alone");
    stage.call(&["retry", "7/1"]).exits(2).complains(&survivor);
    signal(pids[3], Signal::KILL);
    stage.wait_for("it is gone", || (!is_alive(pids[3])).then_some(()));
    stage.call(&["retry", "7/1"]).exits(0);
    stage.wait_event("7", "succeeded", "1");
    assert_eq!(stage.lines("overlap"), [""; 0]);
    watch.stop().exits(0);
}

fn parent_of(pid: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_watcher_that_was_stopped_longer_than_every_limit_fails_nobody() {
    let stage = with_waiting_agent("process");
    let limits = ["heartbeat_timeout_seconds=4", "start_timeout_seconds=4", "timeout_seconds=60"];
    let run = stage.run("batch_id = 7\n 1 agent=waits\n 2 agent=waits", &limits);
    stage.wait_lines("begun", 2);
    run.signal(Signal::STOP);
    let began = std::time::Instant::now();
    stage.wait_for("more than the limits pass", || (began.elapsed().as_millis() > 6_000).then_some(()));
    run.signal(Signal::CONT);
    // Long enough for a verdict, if there were one.
    let began = std::time::Instant::now();
    stage.wait_for("it looks again", || (began.elapsed().as_millis() > 1_200).then_some(()));
    stage.script("go", "");
    run.ends().exits(0);
    assert_eq!(stage.count("7", "ending", None), 0);
    assert_eq!(stage.count("7", "launched", None), 2);
}

/// Who falls silent is noticed soon, and nobody has to begin in a hurry.
const SHORT_SILENCE: &[&str] = &["heartbeat_timeout_seconds=3", "kill_grace_seconds=0.2"];

/// Waits until a beat of the task is there.
fn has_beaten(stage: &Stage, key: &str) {
    let path = stage.path(&format!("tasks/batch-7/outbox/{key}/1/heartbeat.json"));
    stage.wait_for(&format!("a beat of {key}"), || {
        std::fs::metadata(&path).is_ok_and(|about| about.len() > 0).then_some(())
    });
}

#[test]
fn when_all_fall_silent_at_once_the_watcher_doubts_itself_first_and_ends_them_then() {
    let stage = Stage::new();
    stage.agent_script("waits", &format!("[ $WK_ATTEMPT = 1 ] || exit 0\n{WAITS}"));
    let run = stage.run("batch_id = 7\n 1 agent=waits\n 2 agent=waits\n 3 agent=waits", SHORT_SILENCE);
    stage.wait_lines("begun", 3);
    ["1", "2", "3"].into_iter().for_each(|key| has_beaten(&stage, key));
    // All are known before the first is stopped: nothing is waited for in between.
    let runners = ["1", "2", "3"].map(|key| stage.runner("7", key, 1));
    runners.into_iter().for_each(|runner| signal(runner, Signal::STOP));
    run.ends().exits(0);
    stage.nobody_is_left();
    let journal = stage.journal("7");
    let position = |event: &str| journal.iter().position(|line| line["event"] == event);
    assert!(position("self_suspected").unwrap() < position("ending").unwrap());
    assert_eq!(stage.count("7", "launched", None), 6);
    assert_eq!(stage.lines("ended"), [""; 0], "who was ended does not go on");
}

#[test]
fn a_runner_that_is_stopped_longer_than_the_limit_is_ended_and_never_runs_beside_the_next() {
    let Some(_alone) =
        alone(a_runner_that_is_stopped_longer_than_the_limit_is_ended_and_never_runs_beside_the_next)
    else {
        return;
    };
    let stage = Stage::new();
    stage.agent_script("scatters", SCATTERS);
    let run = stage.run("batch_id = 7\n 1 agent=scatters", SHORT_SILENCE);
    let pids = scattered(&stage);
    has_beaten(&stage, "1");
    signal(stage.runner("7", "1", 1), Signal::STOP);
    run.ends().exits(0);
    all_are_gone(&stage, &pids);
    assert_eq!(stage.count("7", "launched", Some("1")), 2);
    let journal = stage.journal("7");
    let failed = journal.iter().find(|line| line["event"] == "attempt_failed").unwrap();
    assert_eq!(failed["because"]["reason"], "no_heartbeat");
}
