//! Exit records that somebody else than the runner wrote: none of them makes a task what it is not.

use crate::crew::{Stage, alone};
use crate::scene::ending;

/// Leaves a result and a record that say success, and knows the folder of its attempt.
const FORGES: &str = r#"tasks=$WK_ROOT/.ce/orchestration/tasks/batch-$WK_BATCH; folder=$(dirname "$WK_SPEC")
times='"started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:00:00Z","wall_seconds":0'
forge() {
    echo "{\"task_id\":\"$1\",\"status\":\"success\",\"output\":{}}" > "$tasks/task-$1.result.json"
    echo "{\"task\":\"$1\",\"attempt\":1,\"exit_code\":0,$times,\"cpu_seconds\":0,\"peak_memory_kb\":0}" \
        > "$tasks/task-$1.1.exit"
}
"#;

/// A forger is never ended for staying after its result.
const PATIENT: &[&str] = &["kill_grace_seconds=60", "scan_interval_seconds=0.1"];

#[test]
fn a_record_beside_an_emptied_lock_is_not_believed_while_its_agent_lives() {
    let stage = Stage::new();
    let rest = "forge \"$WK_TASK\"; : > \"$folder/runner.lock\"; sleep 1; exit 1";
    stage.agent_script("forger", &format!("{FORGES}{rest}"));
    stage.run("batch_id = 7\n 1 agent=forger max_retries=0", PATIENT).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:exit_disagrees");
}

#[test]
fn a_record_whose_forger_killed_its_runner_is_not_believed_and_the_forger_is_ended() {
    let Some(_hidden) =
        alone(a_record_whose_forger_killed_its_runner_is_not_believed_and_the_forger_is_ended)
    else {
        return;
    };
    let stage = Stage::new();
    stage.agent_script("forger", &format!("{FORGES}forge \"$WK_TASK\"; kill -9 $PPID; sleep 600"));
    stage.agent_script("next", "touch began");
    let plan = "batch_id = 7\n 1 agent=forger max_retries=0\n 2 <- 1 agent=next";
    stage.run(plan, PATIENT).ends().exits(1);
    assert!(ending(&stage.ended("7"), "1").starts_with("failed:"));
    assert!(!stage.file("began").exists(), "a dependent of it began");
    stage.nobody_is_left();
}

#[test]
fn a_record_that_was_there_before_its_task_began_is_not_believed() {
    let stage = Stage::new();
    stage.agent_script("forger", &format!("{FORGES}forge 2"));
    stage.agent_script("honest", "sleep 0.5; exit 1");
    let plan = "batch_id = 7\n 1 agent=forger\n 2 <- 1 agent=honest max_retries=0";
    stage.run(plan, PATIENT).ends().exits(3);
    assert_eq!(ending(&stage.ended("7"), "2"), "failed:exit_disagrees");
}
