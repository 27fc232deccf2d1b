//! Launching: who is started for a task, how many at once, with what, and what their end means.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::crew::{Stage, launchers};
use crate::scene::{Ran, ending, task};

/// What an agent that says success writes.
const DELIVERS: &str =
    r#"echo "{\"task_id\":\"$WK_TASK_ID\",\"status\":\"success\",\"output\":{}}" > "$WK_RESULT""#;

#[test]
fn a_plan_whose_phases_carry_commands_runs_to_success_without_any_outsider() {
    let stage = Stage::new();
    stage.script("work.sh", "echo $WK_TASK >> done.txt; echo did $WK_TASK; test ! -e \"$WK_RESULT\"");
    let plan = "batch_id = 7\n 1 command=[\"sh\",\"work.sh\"]\n 2 <- 1 command=[\"sh\",\"work.sh\"]";
    stage.run(plan, &[]).ends().exits(0).says("SUCCESS");
    assert_eq!(stage.lines("done.txt"), ["1", "2"]);
    let result = stage.ended("7");
    assert_eq!([ending(&result, "1"), ending(&result, "2")], ["success", "success"]);
    assert_eq!(task(&result, "2")["evidence"], "claimed");
    assert_eq!(stage.kept_text("7", "2", 1, "stdout.log"), "did 2\n");
    assert_eq!(stage.count("7", "offered", None), 0);
}

#[test]
fn a_phases_shell_text_runs_through_a_shell_and_its_command_does_not() {
    let stage = Stage::new();
    let plan = "batch_id = 7\n 1 command=[\"echo\",\"$HOME;\"]\n 2 shell=\"echo\\t$WK_TASK;echo\\tnext\"";
    stage.run(plan, &[]).ends().exits(0);
    assert_eq!(stage.kept_text("7", "1", 1, "stdout.log"), "$HOME;\n");
    assert_eq!(stage.kept_text("7", "2", 1, "stdout.log"), "2\nnext\n");
}

#[test]
fn the_plans_agent_its_type_and_the_agent_for_all_choose_who_does_a_task() {
    let stage = Stage::new();
    for agent in ["reviewer", "writer", "special", "anybody"] {
        stage.agent_script(agent, "echo $WK_TASK $WK_AGENT >> who.txt");
        if agent == "writer" {
            stage.settings("types = [\"executor\"]");
        }
    }
    let plan = "1 type=executor\n 2 type=reviewer\n 3 type=executor agent=special";
    stage.run(plan, &[]).ends().exits(0);
    let mut who = stage.lines("who.txt");
    who.sort();
    assert_eq!(who, ["1 writer", "2 reviewer", "3 special"]);

    let plan = stage.plan("1 type=executor\n 2\n 3 agent=special");
    stage.go(&["run", plan.to_str().unwrap(), "--agent", "anybody"], &[]).ends().exits(0);
    let mut who = stage.lines("who.txt").split_off(3);
    who.sort();
    assert_eq!(who, ["1 anybody", "2 anybody", "3 special"], "--agent is for tasks that name nobody");
}

#[test]
fn an_agent_that_nobody_knows_is_refused_before_anything_begins() {
    let stage = Stage::new();
    stage.agent_script("special", "echo ran >> canary");
    let plan = stage.plan("1 agent=speciall\n 2");
    let plan = plan.to_str().unwrap();
    for verb in ["check", "run", "submit"] {
        stage.call(&[verb, plan]).exits(2).complains("'speciall'").complains("special");
    }
    let fine = stage.plan("1");
    let fine = fine.to_str().unwrap();
    stage.call(&["run", fine, "--agent", "claud"]).exits(2).complains("claude");
    stage.call(&["run", fine, "--launcher", "tmuks"]).exits(2).complains("process, tmux, external");
    assert_eq!(std::fs::read_dir(stage.path("tasks")).unwrap().count(), 0);
    assert!(!stage.file("canary").exists());
}

#[test]
fn an_agent_that_runs_a_tasks_own_line_does_not_succeed_without_one() {
    let stage = Stage::new();
    stage.settings("[agents.lines]\npreset = \"shell\"");
    let plan = stage.plan("1 agent=lines shell=\"echo\"\n 2 agent=lines");
    let plan = plan.to_str().unwrap();
    for verb in ["check", "run", "submit"] {
        stage
            .call(&[verb, plan])
            .exits(2)
            .complains("'lines'")
            .complains("shell line")
            .complains("add 'shell'");
    }
    let fine = stage.plan("1");
    stage.call(&["run", fine.to_str().unwrap(), "--agent", "shell"]).exits(2).complains("shell line");
    assert_eq!(std::fs::read_dir(stage.path("tasks")).unwrap().count(), 0);
    stage.run("1 agent=lines shell=\"echo\"\n 2 agent=lines command=[\"true\"]", &[]).ends().exits(0);
}

#[test]
fn an_agent_that_came_to_run_lines_under_way_does_not_succeed_without_one() {
    let stage = Stage::new();
    stage.agent_script("first", "until [ -e go ]; do sleep 0.02; done");
    stage.agent_script("second", "echo ran >> ran");
    let run = stage.run("batch_id = 7\n max_retries = 0\n 1 agent=first\n 2 <- 1 agent=second", &[]);
    stage.wait_for("the first has begun", || stage.kept("7", "1", 1, "runner.lock").exists().then_some(()));
    run.kill();
    let path = stage.file(".ce/watchkeeper.toml");
    let settings = std::fs::read_to_string(&path).unwrap();
    let (before, _) = settings.split_once("[agents.second]").unwrap();
    std::fs::write(&path, format!("{before}[agents.second]\npreset = \"shell\"\n")).unwrap();
    stage.script("go", "");
    let watch = stage.watch(&[]);
    let result = stage.ended("7");
    watch.stop().exits(0);
    assert_eq!(ending(&result, "2"), "failed:launch_failed");
    stage.call(&["why", "7/2"]).says("`shell` line");
    assert!(!stage.file("ran").exists());
}

/// An agent that logs `+` and `-`. The first ones wait for each other, until as many run as may; then they stay
/// for a while, in which one too many would be seen beside them.
fn one_of(limit: usize) -> String {
    let meets = format!("until [ $(grep -c + log) -ge {limit} ]; do sleep 0.02; done");
    format!("echo + >> log; {meets}; sleep 0.25; echo - >> log")
}

/// The most that ran at once, by a log of `+` and `-`.
fn most_at_once(log: &[String]) -> usize {
    let mut now = 0usize;
    let mut most = 0;
    for line in log {
        now = if line == "+" { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    assert_eq!(now, 0, "{log:?}");
    most
}

#[test]
fn no_more_run_at_once_than_the_limits_allow() {
    for (preamble, settings, limit) in [
        ("", &[] as &[&str], 4),
        ("parallel_limit = 2", &[], 2),
        ("", &["parallel_limit=8", "max_running=3"], 3),
    ] {
        let stage = Stage::new();
        stage.agent_script("smoke", &one_of(limit));
        let mut plan = format!("{preamble}\n");
        (1..=9).for_each(|number| plan.push_str(&format!("{number} agent=smoke\n")));
        stage.run(&plan, settings).ends().exits(0);
        assert_eq!(most_at_once(&stage.lines("log")), limit, "{preamble} {settings:?}");
    }
}

#[test]
fn the_limit_of_the_bus_holds_across_batches() {
    let stage = Stage::new();
    stage.agent_script("smoke", &one_of(3));
    let watch = stage.watch(&["max_running=3"]);
    for batch in ["7", "8"] {
        let plan = stage.plan(&format!("batch_id = {batch}\n 1 agent=smoke\n 2 agent=smoke\n 3 agent=smoke"));
        stage.call(&["submit", plan.to_str().unwrap()]).exits(0);
    }
    stage.ended("7");
    stage.ended("8");
    assert_eq!(most_at_once(&stage.lines("log")), 3);
    watch.stop().exits(0);
}

#[test]
fn the_environment_is_the_allow_list_and_nothing_else() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        let stage = stage.with("LANG", "C.UTF-8").with("TERM", "dumb").with("HOME", "/nowhere");
        // What a watcher's own environment could make of an agent.
        let stage = stage.with("BASH_ENV", "/x").with("NODE_OPTIONS", "--require /x").with("GIT_DIR", "/x");
        let stage = stage.with("GIT_SSH_COMMAND", "/x").with("LD_PRELOAD", "").with("PYTHONSTARTUP", "/x");
        let stage = stage.with("LET_THROUGH", "yes").with("WK_ATTEMPT", "99").with("API_KEY", "hush");
        stage.settings(
            "[agents.told]\ncommand = [\"env\", \"-0\"]\nenv = [\"LET_THROUGH\", \"GIVEN=by us\", \"ABSENT\", \"WK_TASK=9\"]",
        );
        stage.run("batch_id = 7\n 1 agent=told", &[]).ends().exits(0);
        let text = stage.kept_text("7", "1", 1, "stdout.log");
        let mut names: Vec<&str> =
            text.split('\0').filter_map(|one| one.split_once('=')).map(|(name, _)| name).collect();
        names.sort_unstable();
        let expected = [
            "GIVEN",
            "HOME",
            "LANG",
            "LET_THROUGH",
            "PATH",
            "TERM",
            "WK_AGENT",
            "WK_ATTEMPT",
            "WK_BATCH",
            "WK_HEARTBEAT",
            "WK_MARK",
            "WK_RESULT",
            "WK_ROOT",
            "WK_SPEC",
            "WK_TASK",
            "WK_TASK_ID",
        ];
        assert_eq!(names, expected, "{launcher}");
        for pair in ["LET_THROUGH=yes", "WK_ATTEMPT=1", "WK_TASK=1", "HOME=/nowhere", "GIVEN=by us"] {
            assert!(text.split('\0').any(|one| one == pair), "{launcher}: no {pair} in {text:?}");
        }
    }
}

#[test]
fn commands_from_the_inbox_are_refused_unless_the_settings_trust_it() {
    let stage = Stage::new();
    stage.script("work.sh", "echo ran >> canary");
    let plan = stage.plan("1 command=[\"sh\",\"work.sh\"]");
    let plan = plan.to_str().unwrap();
    let watch = stage.watch(&[]);
    stage.call(&["submit", plan]).exits(2).complains("command");
    std::fs::copy(plan, stage.path("inbox/sneaked.json")).unwrap();
    stage.quarantined("sneaked.json");
    watch.stop().exits(0);
    assert!(!stage.file("canary").exists());

    let watch = stage.watch(&["request_commands=always"]);
    std::fs::copy(plan, stage.path("inbox/trusted.json")).unwrap();
    stage.wait_lines("canary", 1);
    stage.ended("1");
    watch.stop().exits(0);
}

#[test]
fn an_exit_of_zero_is_the_agents_word_alone() {
    let stage = Stage::new();
    stage.script("work.sh", "true");
    let plan = stage.plan("batch_id = 7\n 1 command=[\"sh\",\"work.sh\"] max_retries=0");
    stage.go(&["run", plan.to_str().unwrap(), "--require", "observed"], &[]).ends().exits(1);
    assert_eq!(task(&stage.ended("7"), "1")["reason_code"], "below_required");
}

#[test]
fn exit_code_125_is_not_retried_and_any_other_is() {
    let stage = Stage::new();
    stage.script("fatal.sh", "exit 125").script("unlucky.sh", "[ $WK_ATTEMPT = 3 ]");
    let plan = "batch_id = 7\n 1 command=[\"sh\",\"fatal.sh\"]\n 2 command=[\"sh\",\"unlucky.sh\"]";
    stage.run(plan, &[]).ends().exits(3);
    let result = stage.ended("7");
    assert_eq!(stage.count("7", "launched", Some("1")), 1);
    assert_eq!(stage.count("7", "launched", Some("2")), 3);
    assert_eq!(ending(&result, "2"), "success");
}

#[test]
fn a_success_in_the_result_file_beside_exit_three_is_a_failure() {
    let stage = Stage::new();
    stage.script("liar.sh", &format!("{DELIVERS}; exit 3"));
    stage.run("batch_id = 7\n max_retries = 0\n 1 command=[\"sh\",\"liar.sh\"]", &[]).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:exit_disagrees");
}

#[test]
fn a_result_is_collected_only_after_its_agent_has_ended() {
    let stage = Stage::new();
    stage.script("slow.sh", &format!("{DELIVERS}; echo > delivered; until [ -e go ]; do sleep 0.02; done"));
    stage.script("other.sh", "until [ -e delivered ]; do sleep 0.02; done");
    let plan = "batch_id = 7
        1 command=[\"sh\",\"slow.sh\"]
        2 <- 1 command=[\"true\"]
        3 command=[\"sh\",\"other.sh\"]
        4 <- 3 command=[\"true\"]";
    // So patient that it is not ended for staying after its result, however long the others take.
    let run = stage.run(plan, &["kill_grace_seconds=600"]);
    // Turns are taken while the result lies there.
    stage.wait_event("7", "succeeded", "4");
    assert_eq!(stage.count("7", "collected", Some("1")), 0);
    assert_eq!(stage.count("7", "launched", Some("2")), 0, "nothing begins beside an agent that goes on");
    stage.script("go", "");
    run.ends().exits(0);
    assert_eq!(ending(&stage.ended("7"), "2"), "success");
}

#[test]
fn an_agent_that_stays_after_its_result_is_ended_and_the_result_counts() {
    let stage = Stage::new();
    stage.script("lingers.sh", &format!("{DELIVERS}; sleep 300 & sleep 301"));
    stage.run("batch_id = 7\n 1 command=[\"sh\",\"lingers.sh\"]", &[]).ends().exits(0);
    stage.nobody_is_left();
    assert_eq!(stage.count("7", "launched", None), 1);
}

#[test]
fn a_program_that_is_not_there_is_told_with_its_remedy_and_its_dependents_are_skipped() {
    let stage = Stage::new();
    let plan = "batch_id = 7\n max_retries = 0\n 1 command=[\"no-such-program\"]\n 2 <- 1 command=[\"true\"]";
    stage.run(plan, &[]).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:launch_failed");
    stage.call(&["why", "7/1"]).exits(0).says("no-such-program").says("install it");
}

#[test]
fn a_root_that_no_order_can_name_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(OsStr::from_bytes(b"b\xff"));
    std::fs::create_dir(&root).unwrap();
    let plan = dir.path().join("plan.json");
    std::fs::write(&plan, crate::scene::plan::json("1 command=[\"true\"]")).unwrap();
    let plan = plan.to_str().unwrap();
    for verb in [&["init"] as &[&str], &["run", plan], &["watch", "--once"], &["submit", plan]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wk"));
        let ran = Ran::of(command.current_dir(&root).args(verb)).exits(2);
        ran.complains("error: the root").complains("not UTF-8").complains("hint: rename the directory");
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0, "{verb:?}");
    }
}

#[test]
fn a_command_with_a_nul_is_a_defect_of_the_plan() {
    let stage = Stage::new();
    let plan = stage.plan("batch_id = 7\n 1 command=[\"echo\",\"a\\u0000b\"]");
    let plan = plan.to_str().unwrap();
    stage.call(&["check", plan]).exits(2).complains("NUL");
    stage.call(&["run", plan]).exits(2).complains("NUL");
}

#[test]
fn agents_that_serve_the_same_type_are_warned_about() {
    let stage = Stage::new();
    for agent in ["one", "other"] {
        stage.agent_script(agent, "true").settings("types = [\"executor\"]");
    }
    let warning = "agents one, other all serve 'executor'; one is taken";
    stage.call(&["doctor"]).says(warning);
    stage.run("batch_id = 7\n 1", &[]).ends().exits(0).complains(warning);
}
