//! Agents that break the rules, on purpose or not: what they do harms nobody but themselves.

use crate::crew::{Stage, alone};
use crate::scene::ending;

const DELIVERS: &str =
    r#"echo "{\"task_id\":\"$WK_TASK_ID\",\"status\":\"success\",\"output\":{}}" > "$WK_RESULT""#;

#[test]
fn a_shell_line_in_a_dropped_spec_or_in_the_inbox_is_not_run() {
    let stage = Stage::new();
    let watcher = stage.watch(&["settle_seconds=0.2", "close_after_seconds=0.2"]);
    let spec = r#"{"task_id":"a","goal":"g","shell":"touch canary"}"#;
    std::fs::create_dir_all(stage.path("tasks/batch-9")).unwrap();
    std::fs::write(stage.path("tasks/batch-9/task-a.json"), spec).unwrap();
    let plan = stage.plan("batch_id = 8\n 1 shell=\"touch\\tcanary\"");
    std::fs::copy(plan, stage.path("inbox/plan.json")).unwrap();
    stage.wait_for("both are refused", || {
        let names = std::fs::read_dir(stage.path("quarantine")).into_iter().flatten().flatten();
        let reasons = names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".reason.json"));
        (reasons.count() == 2).then_some(())
    });
    assert!(!stage.file("canary").exists());
    drop(watcher);
}

#[test]
fn a_result_does_not_count_while_its_agent_lives_even_if_its_time_is_up() {
    let stage = Stage::new();
    stage.agent_script(
        "early",
        &format!("trap '' TERM\n{DELIVERS}\nwhile :; do echo alive > alive; sleep 0.05; done"),
    );
    stage.agent_script("next", "rm -f alive; sleep 0.3; test ! -e alive");
    let plan =
        "batch_id = 7\n 1 agent=early max_retries=0 timeout_seconds=0.6\n 2 <- 1 agent=next max_retries=0";
    stage.run(plan, &["kill_grace_seconds=1.5"]).ends();
    let result = stage.ended("7");
    assert!(!ending(&result, "2").starts_with("failed"), "it ran beside the first: {result:#}");
    stage.nobody_is_left();
}

#[test]
fn an_exit_record_that_the_agent_forges_is_not_believed() {
    let stage = Stage::new();
    let forged = r#"{"task":"1","attempt":1,"exit_code":0,"started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:00:00Z","wall_seconds":0,"cpu_seconds":0,"peak_memory_kb":0}"#;
    stage.agent_script(
        "forger",
        &format!(
            "{DELIVERS}\necho '{forged}' > \"$WK_ROOT/.ce/orchestration/tasks/batch-$WK_BATCH/task-1.1.exit\"\nsleep 1; exit 1"
        ),
    );
    // So patient that it is not ended for staying after its result, however long its second takes.
    let settings = ["kill_grace_seconds=60"];
    stage.run("batch_id = 7\n 1 agent=forger max_retries=0", &settings).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:exit_disagrees");
}

#[test]
fn a_dead_runner_costs_nobody_else_of_the_watchers_children_their_life() {
    let Some(_hidden) = alone(a_dead_runner_costs_nobody_else_of_the_watchers_children_their_life) else {
        return;
    };
    let stage = Stage::new();
    stage.agent_script("suicidal", "test $WK_ATTEMPT -gt 1 || { kill -9 $PPID; sleep 5; }");
    let plan = stage.plan("batch_id = 7\n 1 agent=suicidal");
    let wk = env!("CARGO_BIN_EXE_wk");
    let line = format!(
        "sleep 600 & echo $! | tee -a pids > bystander; exec {wk} run -q '{}' --set retry_delay_seconds=0.05",
        plan.display()
    );
    let status =
        std::process::Command::new("sh").arg("-c").arg(line).current_dir(stage.file("")).status().unwrap();
    assert!(status.success(), "{status}");
    let bystander: u32 = stage.lines("bystander")[0].parse().unwrap();
    assert!(crate::crew::is_alive(bystander), "somebody else's child was killed");
    crate::crew::signal(bystander, rustix::process::Signal::KILL);
}

#[test]
fn an_agent_that_removes_its_folder_or_blocks_anothers_holds_up_nobody() {
    let stage = Stage::new();
    // Once its runner has made what it makes there: nothing may come into the folder while it is removed.
    let removes = "folder=$(dirname \"$WK_SPEC\"); until [ -e \"$folder/stderr.log\" ]; do sleep 0.02; done\n\
        while [ -e \"$folder\" ]; do rm -rf \"$folder\"; done; sleep 0.2";
    stage.agent_script("remover", removes);
    stage.agent_script("blocker", "touch \"$(dirname \"$WK_SPEC\")/../../3\"");
    let plan =
        "batch_id = 7\n 1 agent=remover max_retries=0\n 2 agent=blocker\n 3 <- 2 agent=fine\n 4 agent=fine";
    stage.agent_script("fine", "true");
    stage.run(plan, &["kill_grace_seconds=0.3"]).ends();
    let result = stage.ended("7");
    assert_eq!([ending(&result, "3"), ending(&result, "4")], ["success", "success"], "{result:#}");
    assert_eq!(ending(&result, "1"), "failed:no_result", "{result:#}");
    stage.call(&["why", "7/1"]).says("its attempt's folder was removed while it ran");
}

#[test]
fn an_agent_that_removes_its_lock_is_never_started_beside_itself() {
    let stage = Stage::new();
    let stubborn = "exec 9>alive; flock -n 9 || echo OVERLAP >> log; trap '' TERM\n\
        rm \"$(dirname \"$WK_SPEC\")/runner.lock\"\n\
        i=0; while [ $i -lt 60 ]; do sleep 0.05; i=$((i+1)); done";
    stage.agent_script("unlocker", stubborn);
    let settings = ["timeout_seconds=0.7", "kill_grace_seconds=2", "retry_delay_seconds=0.05"];
    stage.run("batch_id = 7\n 1 agent=unlocker max_retries=2", &settings).ends();
    // A person was asked; meanwhile its runner, which needs no watcher, ends it.
    stage.wait_for("the runner's own end of it", || stage.agents().is_empty().then_some(()));
    assert!(!stage.file("log").exists(), "two of it were alive at once");
}
