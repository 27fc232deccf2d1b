//! Who is in a batch: agents of ours beside outsiders, and settings that change under way.

use crate::crew::Stage;
use crate::scene::{SUCCESS, ending};

#[test]
fn a_batch_may_have_agents_of_ours_and_outsiders() {
    let stage = Stage::new();
    stage.agent_script("ours", "echo $WK_TASK >> ran");
    let run = stage.run("batch_id = 7\n 1 agent=ours\n 2 <- 1\n 3 <- 2 agent=ours", &[]);
    stage.agent("7/2").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(0).complains("1 of them for outsiders");
    assert_eq!(stage.lines("ran"), ["1", "3"]);
    assert_eq!(stage.count("7", "offered", None), 1);
    let specs = std::fs::read_dir(stage.path("completed-batches/batch-7")).unwrap();
    let names: Vec<String> =
        specs.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name == "task-1.json"), "nobody is invited to what is ours: {names:?}");
}

#[test]
fn the_external_launcher_leaves_every_task_to_outsiders() {
    let stage = Stage::new().for_launcher("external");
    stage.agent_script("ours", "echo $WK_TASK >> ran");
    let run = stage.run("batch_id = 7\n 1 agent=ours", &[]);
    stage.agent("7/1").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(0);
    assert!(!stage.file("ran").exists());
}

#[test]
fn an_agent_that_left_the_settings_under_way_is_told_by_name() {
    let stage = Stage::new();
    stage.agent_script("brief", "echo $WK_TASK >> ran; until [ -e go ]; do sleep 0.02; done");
    let run = stage.run("batch_id = 7\n max_retries = 0\n 1 agent=brief\n 2 <- 1 agent=brief", &[]);
    stage.wait_lines("ran", 1);
    run.kill();
    std::fs::write(stage.file(".ce/watchkeeper.toml"), "").unwrap();
    let watch = stage.watch(&[]);
    stage.script("go", "");
    let result = stage.ended("7");
    assert_eq!([ending(&result, "1"), ending(&result, "2")], ["success", "failed:launch_failed"]);
    stage.call(&["why", "7/2"]).exits(0).says("agent 'brief' is not in settings any more");
    watch.stop().exits(0);
}

#[test]
fn an_edit_of_the_settings_changes_nobody_who_is_under_way() {
    let stage = Stage::new();
    stage.agent_script("first", "echo $WK_TASK $WK_AGENT >> ran; until [ -e go ]; do sleep 0.02; done");
    stage.settings("types = [\"executor\"]");
    let run = stage.run("batch_id = 7\n 1\n 2 <- 1", &[]);
    stage.wait_lines("ran", 1);
    run.kill();
    // Another one would serve the type now, were it asked again.
    stage.agent_script("another", "echo $WK_TASK $WK_AGENT >> ran");
    stage.settings("types = [\"executor\"]");
    let watch = stage.watch(&[]);
    stage.script("go", "");
    assert_eq!(ending(&stage.ended("7"), "2"), "success");
    assert_eq!(stage.lines("ran"), ["1 first", "2 first"]);
    watch.stop().exits(0);
}

#[test]
fn an_agents_own_directory_and_limits_hold() {
    let stage = Stage::new();
    std::fs::create_dir(stage.file("inside")).unwrap();
    stage.settings("[agents.small]\ncommand = [\"sh\", \"-c\", \"pwd > where; ulimit -n > open\"]\ncwd = \"inside\"\nlimits = { open_files = 77 }");
    stage.settings("[agents.floods]\ncommand = [\"sh\", \"-c\", \"yes a line that nobody needs | head -c 5000000\"]\nlimits = { log_mb = 1 }");
    stage.settings("[agents.forks]\ncommand = [\"sh\", \"-c\", \"for i in 1 2 3 4 5 6 7 8 9; do sleep 30 & done; wait\"]\nlimits = { processes = 5 }");
    let plan = "batch_id = 7\n max_retries = 0\n 1 agent=small\n 2 agent=floods\n 3 agent=forks";
    stage.run(plan, &[]).ends().exits(3);
    let result = stage.ended("7");
    assert_eq!([ending(&result, "1"), ending(&result, "2")], ["success", "success"]);
    assert_eq!(ending(&result, "3"), "failed:limit_exceeded");
    assert_eq!(stage.lines("inside/open"), ["77"]);
    assert!(stage.lines("inside/where")[0].ends_with("/inside"));
    let size = std::fs::metadata(stage.kept("7", "2", 1, "stdout.log")).unwrap().len();
    assert!(size <= 1 << 20, "{size}");
    stage.nobody_is_left();
}
