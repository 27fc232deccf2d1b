//! Scenes that another orchestrator hands over: agents of one execution request, and assignments, each a batch.

use std::process::Command;

use serde_json::{Map, Value, json};

use crate::crew::Stage;
use crate::told::{Outcome, Scene};

/// The directory of the one agent that does whatever its task's scene says.
fn agent(stage: &Stage) -> std::path::PathBuf {
    let dir = stage.file("actor");
    std::fs::create_dir_all(&dir).unwrap();
    stage.script("staged-run", "#!/bin/sh\nexec sh \"$WK_ROOT/acts/$WK_TASK.sh\"\n");
    // By another program: one of ours that starts another just now would keep it open for writing.
    let installed = Command::new("install")
        .args(["-m", "755"])
        .arg(stage.file("staged-run"))
        .arg(dir.join("run"))
        .status();
    assert!(installed.unwrap().success());
    dir
}

fn run(stage: &Stage, request: &Value, grade: &str) -> Value {
    let path = stage.file("request.json");
    std::fs::write(&path, request.to_string()).unwrap();
    let verb = ["run", path.to_str().unwrap(), "-q", "--require", grade];
    let ran = stage.go(&verb, &[]).ends();
    assert!(matches!(ran.code, Some(0 | 1 | 3)), "{:?}\n{}\n{}", ran.code, ran.out, ran.err);
    stage.ended("exec-1")
}

pub fn request(stage: &Stage, scenes: &[&Scene], grade: &str) -> Vec<Outcome> {
    let actor = agent(stage);
    let entry = |scene: &&Scene| {
        let place = stage.file(&scene.place());
        let named = scene.declares.iter().map(|one| one.split_once('=').expect("NAME=FILE"));
        let outputs: Map<String, Value> =
            named.map(|(name, file)| (name.to_owned(), json!(place.join(file)))).collect();
        let mut entry = json!({
            "agent_name": scene.name, "agent_path": actor, "dependencies": [], "timeout": 60,
            "task": {"description": scene.tells, "inputs": {}, "outputs": outputs, "success_criteria": {}},
        });
        for (field, value) in scene.more_fields() {
            entry["task"][field] = value;
        }
        entry
    };
    let request = json!({
        "execution_id": "exec-1",
        "request_timestamp": "2025-10-30T14:30:00Z",
        "workspace_root": stage.file("ws"),
        "agents": scenes.iter().map(entry).collect::<Vec<_>>(),
        "merge_strategy": {"type": "file_merge", "conflict_resolution": "fail_on_conflict"},
        "execution_options": {"parallel_limit": 4, "retry_on_failure": false, "checkpoint_enabled": false},
    });
    let result = run(stage, &request, grade);
    scenes.iter().map(|scene| Outcome::of_task(&result, scene.name)).collect()
}

/// One task, and the command that checks the whole.
pub fn assignments(stage: &Stage, scene: &Scene, grade: &str) -> Vec<Outcome> {
    let context = stage.file("context.md");
    std::fs::write(&context, format!("# {}\n", scene.tells)).unwrap();
    let mut criteria = scene.more_fields();
    criteria.entry("required_artifacts").or_insert_with(|| json!([]));
    if let Some(gate) = scene.gates.first() {
        criteria.insert("tests_cmd".to_owned(), json!(gate));
    }
    let task = json!({"id": scene.name, "agent": agent(stage), "context_path": context, "dependencies": []});
    let request = json!({
        "execution_id": "exec-1",
        "tasks": [task],
        "environment": {"workspace_dir": stage.file(&scene.place()), "env_vars": []},
        "success_criteria": criteria,
        "execution_mode": {"verify": true},
    });
    vec![Outcome::of_batch(&run(stage, &request, grade))]
}
