//! The end of agents that are not asked for it: every process of every tree, before anything follows.

use crate::crew::{Stage, alone, is_alive, launchers, shared_script, signal};
use crate::scene::ending;

/// Every way in which an agent is started and its processes are held together.
fn ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    launchers().iter().flat_map(|launcher| ["off", "on"].map(|cgroups| (*launcher, cgroups)))
}

/// A stage with an agent that leaves a child, a session and a deaf daemon.
fn with_three_processes(launcher: &str, cgroups: &str) -> Stage {
    let stage = Stage::new().with("WK_CGROUPS", cgroups).for_launcher(launcher);
    let script = shared_script("three-processes.sh");
    stage.settings(&format!("[agents.three]\ncommand = [\"sh\", \"{}\", \".\"]", script.display()));
    stage
}

/// The pids that the tree wrote down.
fn pids(stage: &Stage) -> Vec<u32> {
    let written = |name: &&str| {
        stage.wait_for(&format!("{name} is written"), || stage.lines(name).first()?.parse::<u32>().ok())
    };
    ["child", "session", "daemon"].iter().map(written).collect()
}

#[test]
fn kill_leaves_none_of_the_three_processes() {
    for (launcher, cgroups) in ways() {
        let stage = with_three_processes(launcher, cgroups);
        let run = stage.run("batch_id = 7\n 1 agent=three", &[]);
        let pids = pids(&stage);
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        stage.wait_for("all carry the mark", || (stage.agents().len() >= 4).then_some(()));
        stage.call(&["kill", "7/1", "--why", "enough"]).exits(0).says("asked for the end of 7/1");
        run.ends().exits(1);
        let alive: Vec<&u32> = pids.iter().filter(|pid| is_alive(**pid)).collect();
        assert!(alive.is_empty(), "{launcher}, cgroups {cgroups}: {alive:?}");
        stage.nobody_is_left();
        assert_eq!(ending(&stage.ended("7"), "1"), "failed:killed", "{launcher}, cgroups {cgroups}");
        assert_eq!(stage.count("7", "launched", None), 1, "who was killed by hand is not tried again");
        stage.call(&["why", "7/1"]).exits(0).says("killed by sam").says("enough");
    }
}

#[test]
fn an_agent_that_ignores_being_asked_is_killed_with_all_its_children() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        let script = shared_script("unwilling.sh");
        stage.settings(&format!("[agents.deaf]\ncommand = [\"sh\", \"{}\"]", script.display()));
        let run = stage.run("batch_id = 7\n 1 agent=deaf", &[]);
        stage.wait_for("the tree is there", || (stage.agents().len() >= 6).then_some(()));
        stage.call(&["kill", "7/1"]).exits(0);
        run.ends().exits(1);
        stage.nobody_is_left();
    }
}

#[test]
fn kill_finds_who_cleared_its_environment_and_left_its_session() {
    let Some(_alone) = alone(kill_finds_who_cleared_its_environment_and_left_its_session) else { return };
    for (launcher, cgroups) in ways() {
        let stage = Stage::new().with("WK_CGROUPS", cgroups).for_launcher(launcher);
        let hides = "( ( env -i setsid sh -c 'trap \"\" TERM HUP; echo $$ >> pids; exec sleep 300' & ) & ); exec sleep 301";
        stage.agent_script("hides", hides);
        let run = stage.run("batch_id = 7\n 1 agent=hides", &[]);
        let hidden: u32 = stage.wait_lines("pids", 1)[0].parse().unwrap();
        assert!(is_alive(hidden));
        stage.call(&["kill", "7/1"]).exits(0);
        run.ends().exits(1);
        assert!(!is_alive(hidden), "{launcher}, cgroups {cgroups}");
        stage.nobody_is_left();
    }
}

/// Notes whoever of an earlier attempt is alive when this one begins, and then does not end.
const WATCHES_ITS_BACK: &str = "
for pid in $(cat pids 2>/dev/null); do
    grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null && echo $WK_ATTEMPT beside $pid >> overlap
done
echo $$ >> pids
sleep 300 & echo $! >> pids
setsid sh -c 'trap \"\" TERM HUP; echo $$ >> pids; while :; do sleep 1; done' &
echo $WK_ATTEMPT >> begun
trap '' TERM
while :; do sleep 1; done
";

#[test]
fn a_timeout_kills_the_whole_tree_and_the_retry_never_runs_beside_a_survivor() {
    let play = |launcher: &str, cgroups: &str| {
        let stage = Stage::new().with("WK_CGROUPS", cgroups).for_launcher(launcher);
        stage.agent_script("slow", WATCHES_ITS_BACK);
        let settings = ["timeout_seconds=6", "kill_grace_seconds=0.2", "max_retries=1"];
        stage.run("batch_id = 7\n 1 agent=slow", &settings).ends().exits(1);
        stage.nobody_is_left();
        assert_eq!(stage.count("7", "launched", None), 2);
        assert_eq!(stage.lines("begun"), ["1", "2"]);
        assert_eq!(stage.lines("overlap"), [""; 0], "{launcher}, cgroups {cgroups}");
        assert_eq!(ending(&stage.ended("7"), "1"), "failed:attempt_timeout");
        let told = stage.kept_text("7", "1", 1, "result.json");
        // The runner may notice it itself, or be told by the watcher.
        let is_told = told.contains("\"failed\"") && told.contains("the agent was ended: ");
        assert!(is_told && told.contains("6s"), "{told}");
        assert_eq!(stage.count("7", "late", None), 0, "it is no result of the agent's");
    };
    // All at once, because each of them waits for two timeouts.
    std::thread::scope(|scope| {
        for (launcher, cgroups) in ways() {
            scope.spawn(move || play(launcher, cgroups));
        }
    });
}

#[test]
fn a_cancelled_batch_ends_only_after_all_its_agents() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        stage.agent_script("slow", WATCHES_ITS_BACK);
        let run = stage.run("batch_id = 7\n 1 agent=slow\n 2 agent=slow\n 3 agent=slow\n 4 <- 3", &[]);
        stage.wait_lines("begun", 3);
        stage.call(&["cancel", "7"]).exits(0);
        run.ends().exits(5);
        stage.nobody_is_left();
        let result = stage.ended("7");
        for key in ["1", "2", "3", "4"] {
            assert_eq!(ending(&result, key), "cancelled:cancelled", "{key}");
        }
    }
}

#[test]
fn an_agent_that_ends_well_takes_what_it_left_running_with_it() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        let script = shared_script("leaves-children.sh");
        stage.settings(&format!("[agents.untidy]\ncommand = [\"sh\", \"{}\"]", script.display()));
        stage.script("looks.sh", "ls /proc/*/environ > /dev/null; echo > looked");
        stage
            .run("batch_id = 7\n 1 agent=untidy\n 2 <- 1 command=[\"sh\",\"looks.sh\"]", &[])
            .ends()
            .exits(0);
        stage.nobody_is_left();
    }
}

#[test]
fn the_control_group_of_a_dead_runner_is_removed() {
    let Some(_alone) = alone(the_control_group_of_a_dead_runner_is_removed) else { return };
    let stage = Stage::new().with("WK_CGROUPS", "on");
    let leaves = "[ $WK_ATTEMPT = 1 ] || exit 0
        ( env -i setsid sh -c 'echo $$ >> pids; exec sleep 300' & ); exec sleep 301";
    stage.agent_script("leaves", leaves);
    let run = stage.run("batch_id = 7\n 1 agent=leaves", &[]);
    let survivor: u32 = stage.wait_lines("pids", 1)[0].parse().unwrap();
    let runner = stage.runner("7", "1", 1);
    let lock = stage.kept_text("7", "1", 1, "runner.lock");
    let begun: serde_json::Value = serde_json::from_str(lock.lines().next().unwrap()).unwrap();
    signal(runner, rustix::process::Signal::KILL);
    run.ends().exits(0);
    assert!(!is_alive(survivor));
    match begun["cgroup"].as_str() {
        Some(group) => assert!(!std::path::Path::new(group).exists(), "{group}"),
        None => println!("skipped: no cgroup can be made here"),
    }
}
