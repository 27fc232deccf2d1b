//! Values that come with a request: whatever holds one is for the user alone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::Client;

const VALUE: &str = "hunter2-correct-horse-battery";

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let below = entries.flat_map(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => files_below(&entry.path()),
        kind if kind.is_file() => vec![entry.path()],
        _ => Vec::new(),
    });
    below.collect()
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn holds_the_value(path: &Path) -> bool {
    fs::read(path).unwrap().windows(VALUE.len()).any(|part| part == VALUE.as_bytes())
}

fn assignments(client: &Client, env_vars: &Value) -> Value {
    client.agent("writer", "echo made > $WK_TASK.txt; echo \"$TOKEN\"");
    let context = client.stage.file("context.md");
    fs::write(&context, "# Write it\n").unwrap();
    // There already, and open to everybody: what the batch puts there must not rely on it.
    fs::create_dir_all(client.workspace("")).unwrap();
    json!({
        "execution_id": "exec-001",
        "tasks": [{"id": "a", "agent": client.stage.file("agents/writer"), "context_path": context}],
        "environment": {"workspace_dir": client.workspace(""), "env_vars": env_vars},
        "success_criteria": {"tests_cmd": "test -s a.txt"},
    })
}

#[test]
fn whatever_holds_a_value_of_the_request_is_for_the_user_alone() {
    let client = Client::new();
    client.run(&assignments(&client, &json!({"TOKEN": VALUE}))).exits(0);
    client.stage.call(&["verify", "exec-001"]).exits(0);
    let request = client.stage.file("request.json");
    let holders: Vec<PathBuf> = files_below(client.stage.root())
        .into_iter()
        .filter(|path| *path != request && holds_the_value(path))
        .collect();
    let open: Vec<&PathBuf> = holders.iter().filter(|path| mode_of(path) != 0o600).collect();
    assert!(open.is_empty(), "{open:#?}");
    for name in ["assignments.json", "batch.json", "launch.json", "request"] {
        let is_it = |path: &PathBuf| path.file_name().is_some_and(|found| found == name);
        assert!(holders.iter().any(is_it), "{name} in {holders:#?}");
    }
}

#[test]
fn papers_without_values_stay_readable_in_the_workspace_and_the_bus_is_closed_anyway() {
    let client = Client::new();
    client.run(&assignments(&client, &json!(["TOKEN"]))).exits(0);
    // As far as the umask lets any file be read here.
    let readable = 0o644 & mode_of(&client.stage.file("request.json"));
    for path in files_below(client.stage.root()) {
        if path.ends_with("assignments.json") {
            assert_eq!(mode_of(&path), readable, "{}", path.display());
        }
        if path.ends_with("batch.json") {
            assert_eq!(mode_of(&path), 0o600, "{}", path.display());
        }
    }
}

#[test]
fn a_request_with_values_waits_in_the_inbox_for_the_user_alone() {
    let client = Client::new();
    let path = client.write(&assignments(&client, &json!([{"name": "TOKEN", "value": VALUE}])));
    client.stage.call(&["submit", &path, "--no-wait"]).exits(0);
    let waiting = files_below(&client.stage.file(".ce/orchestration/inbox"));
    assert_eq!(waiting.iter().map(|path| mode_of(path)).collect::<Vec<_>>(), [0o600], "{waiting:?}");
}

#[test]
fn a_value_that_an_agents_directory_asks_for_stays_in_the_agents_own_files() {
    let client = Client { stage: crate::crew::Stage::new().with("OF_DIRECTORY", VALUE) };
    let says = r#"echo "{\"task_id\":\"$WK_TASK_ID\",\"status\":\"failed\",\"output\":{},\"errors\":[\"refused $OF_DIRECTORY\"]}" > "$WK_RESULT""#;
    client.agent("writer", says);
    fs::write(client.stage.file("agents/writer/agent.toml"), "env = [\"OF_DIRECTORY\"]\n").unwrap();
    let ran = client.run(&client.request(&[client.entry("writer", &[("a", "a.txt")], &[])])).exits(1);
    assert!(!ran.out.contains(VALUE) && !ran.err.contains(VALUE), "{}", ran.out);
    let is_agents = |path: &PathBuf| path.ends_with("result.json");
    let holders: Vec<PathBuf> =
        files_below(client.stage.root()).into_iter().filter(|path| holds_the_value(path)).collect();
    let told: Vec<&PathBuf> = holders.iter().filter(|path| !is_agents(path)).collect();
    assert!(told.is_empty(), "{told:#?}");
    client.stage.call(&["why", "exec-001/writer"]).says("refused [redacted:known]");
}
