//! A watcher that dies at any of its file operations, and an undo that does: whoever comes next ends at the same
//! trees, the same report, or exactly where everything began.
//!
//! The ordinary run takes a sample of the operations; `WK_CRASH=all cargo test --test handoff crash` takes all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::Client;
use crate::scene::{Process, Ran};

/// How many operations the ordinary run dies at.
const SAMPLE: u64 = 12;

/// A client with two agents that edit one file, and a codebase that one of them changes.
fn scene() -> Client {
    let client = Client::new();
    std::fs::create_dir_all(client.stage.file("codebase/sub")).unwrap();
    std::fs::write(client.stage.file("codebase/app.py"), "before\n").unwrap();
    std::fs::write(client.stage.file("codebase/sub/old.py"), "old\n").unwrap();
    for name in ["a", "b"] {
        let dir = client.workspace("outputs").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("text.md"), "one\ntwo\nthree\nfour\nfive\n").unwrap();
    }
    client.agent("a", "sed -i s/one/ONE/ $WK_OUTPUT_TEXT; cd $WK_INPUT_CODEBASE; echo after > app.py; rm -r sub; echo n > new.py");
    client.agent("b", "sed -i s/five/FIVE/ $WK_OUTPUT_TEXT");
    client
}

fn request(client: &Client) -> PathBuf {
    let mut first = client.entry("a", &[("text", "text.md")], &[]);
    first["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
    let second = client.entry("b", &[("text", "text.md")], &[]);
    let mut request = client.request(&[first, second]);
    request["execution_options"]["retry_on_failure"] = json!(true);
    PathBuf::from(client.write(&request))
}

/// Runs a verb, dying before operation `at`; tells how many there were.
fn run(client: &Client, verb: &[&str], at: Option<u64>) -> (Ran, u64) {
    let counter = client.stage.file("operations");
    let (count, at) = (counter.to_str().unwrap().to_owned(), at.map(|at| at.to_string()));
    let mut variables = vec![("WK_COUNT_OPERATIONS", count.as_str())];
    variables.extend(at.as_deref().map(|at| ("WK_CRASH_AT", at)));
    let mut command = client.stage.dress(client.stage.with_settings(verb, &["kill_grace_seconds=0.5"]));
    command.envs(variables.iter().copied());
    let ran = Process::start(command).ends();
    let operations = std::fs::read_to_string(&counter).unwrap_or_default().trim().parse().unwrap_or(0);
    (ran, operations)
}

/// Runs the batch to its end, whatever happens at operation `at` of the first watcher.
fn batch(client: &Client, at: Option<u64>) -> u64 {
    carried_out(client, &request(client), "exec-001", at)
}

/// The same agents once more, in a batch in which they fail.
fn failing_batch(client: &Client, at: Option<u64>) -> u64 {
    client.agent("a", "exit 1").agent("b", "exit 1");
    let text = std::fs::read_to_string(request(client)).unwrap();
    let mut request: Value = serde_json::from_str(&text).unwrap();
    request["execution_id"] = json!("exec-002");
    request["execution_options"]["retry_on_failure"] = json!(false);
    carried_out(client, Path::new(&client.write(&request)), "exec-002", at)
}

fn carried_out(client: &Client, path: &Path, id: &str, at: Option<u64>) -> u64 {
    let verb = ["run", "--quiet", path.to_str().unwrap()];
    let (ran, operations) = run(client, &verb, at);
    if ran.code.is_some() {
        return operations;
    }
    let is_accepted = ["tasks", "completed-batches"]
        .iter()
        .any(|dir| client.stage.file(&format!(".ce/orchestration/{dir}/batch-{id}")).exists());
    match is_accepted {
        true => run(client, &["watch", "--quiet", "--exit-when-idle"], None),
        false => run(client, &verb, None),
    };
    operations
}

/// Every file below a directory with its content, links as what they lead to.
fn tree(dir: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in walkdir::WalkDir::new(dir).into_iter().filter_map(Result::ok) {
        let name = entry.path().strip_prefix(dir).unwrap().to_string_lossy().into_owned();
        let content =
            if entry.file_type().is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
        let content = String::from_utf8_lossy(&content).into_owned();
        files.insert(name, content);
    }
    files
}

fn points(operations: u64) -> Vec<u64> {
    let all = std::env::var("WK_CRASH").is_ok_and(|value| value == "all");
    let step = if all { 1 } else { (operations / SAMPLE).max(1) };
    (1..=operations).step_by(step as usize).collect()
}

#[test]
fn wherever_a_watcher_dies_the_batch_ends_with_the_same_trees_and_a_receipt() {
    let reference = scene();
    let operations = batch(&reference, None);
    let merged = tree(&reference.workspace("merged"));
    assert_eq!(merged["text.md"], "ONE\ntwo\nthree\nfour\nFIVE\n");
    assert!(operations > 50, "{operations} operations");
    for at in points(operations) {
        let client = scene();
        batch(&client, Some(at));
        let report = client.report();
        assert_eq!(report["status"], "success", "died at {at}: {report:#}");
        assert_eq!(tree(&client.workspace("merged")), merged, "died at {at}");
        assert_eq!(
            tree(&client.stage.file("codebase")),
            tree(&reference.stage.file("codebase")),
            "died at {at}"
        );
        assert_eq!(client.json("receipt.json")["lines"].as_array().unwrap().len(), 2, "died at {at}");
        let left: Vec<String> =
            tree(&client.workspace("")).into_keys().filter(|name| name.contains(".tmp-wk")).collect();
        assert!(left.is_empty(), "died at {at}: {left:?}");
    }
}

#[test]
fn wherever_an_undo_dies_the_next_one_ends_it_exactly() {
    let reference = scene();
    let before = tree(&reference.stage.file("codebase"));
    batch(&reference, None);
    let (ran, operations) = run(&reference, &["undo", "exec-001", "--take-all"], None);
    ran.exits(0);
    assert_eq!(tree(&reference.stage.file("codebase")), before);
    for at in points(operations) {
        let client = scene();
        batch(&client, None);
        run(&client, &["undo", "exec-001", "--take-all"], Some(at));
        run(&client, &["undo", "exec-001", "--take-all"], None).0.exits(0);
        assert_eq!(tree(&client.stage.file("codebase")), before, "died at {at}");
        assert_eq!(client.text("outputs/a/text.md"), "one\ntwo\nthree\nfour\nfive\n", "died at {at}");
        assert!(!client.workspace("merged").exists(), "died at {at}");
    }
}

#[test]
fn wherever_a_watcher_dies_what_an_earlier_batch_wrote_is_put_aside_whole() {
    let after_one = || {
        let client = scene();
        batch(&client, None);
        client
    };
    let reference = after_one();
    let merged = tree(&reference.workspace("merged"));
    let operations = failing_batch(&reference, None);
    for at in points(operations) {
        let client = after_one();
        let receipt = client.text("receipt.json");
        failing_batch(&client, Some(at));
        let report = client.report();
        assert_eq!(
            (&report["execution_id"], &report["status"]),
            (&json!("exec-002"), &json!("failure")),
            "died at {at}"
        );
        assert!(
            !client.workspace("merged").exists() && !client.workspace("receipt.json").exists(),
            "died at {at}"
        );
        let entries = std::fs::read_dir(client.workspace("")).unwrap().map(|entry| entry.unwrap().path());
        let aside: Vec<PathBuf> =
            entries.filter(|path| path.to_str().unwrap().contains("/checkpoint-")).collect();
        assert_eq!(aside.len(), 1, "died at {at}: {aside:?}");
        assert_eq!(tree(&aside[0].join("merged")), merged, "died at {at}");
        assert_eq!(std::fs::read_to_string(aside[0].join("receipt.json")).unwrap(), receipt, "died at {at}");
        client.stage.call(&["undo", "exec-002"]).exits(0);
        assert_eq!(tree(&client.workspace("merged")), merged, "died at {at}");
        assert_eq!(client.text("receipt.json"), receipt, "died at {at}");
    }
}
