//! `wk verify`: a batch that has ended is held against what is there now.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::client::Client;

fn with_criterion(client: &Client, command: &[&str]) -> serde_json::Value {
    client.agent("coder", "echo code > $WK_OUTPUT_CODE");
    let mut entry = client.entry("coder", &[("code", "code.py")], &[]);
    entry["task"]["success_criteria"] = json!({"tests_pass": {"cmd": command}, "is_nice": true});
    client.request(&[entry])
}

#[test]
fn a_batch_holds_as_long_as_what_it_named_is_there_and_its_commands_say_so() {
    let client = Client::new();
    client.run(&with_criterion(&client, &["test", "-s", "outputs/coder/code.py"])).exits(0);
    let verified = client.stage.call(&["verify", "exec-001", "--json"]).exits(0).json();
    assert_eq!((&verified["holds"], &verified["changed_since"]), (&json!(true), &json!([])), "{verified:#}");
    assert_eq!(verified["tasks"][0]["evidence_now"], "observed", "is_nice is the agent's word: {verified:#}");
    let findings = verified["tasks"][0]["findings"].to_string();
    assert!(findings.contains(r#""grade":"verified""#), "its command was run: {findings}");

    fs::remove_file(client.workspace("outputs/coder/code.py")).unwrap();
    let again = client.stage.call(&["verify", "exec-001"]).exits(1);
    for text in ["output code: does not exist", "✗ tests_pass", "Changed since", "does not hold: 3 of"] {
        assert!(again.out.contains(text), "no '{text}' in\n{}", again.out);
    }
    client.stage.nobody_is_left();
}

#[test]
fn work_that_somebody_did_since_beside_the_outputs_is_told_and_breaks_nothing() {
    let client = Client::new();
    client.run(&with_criterion(&client, &["test", "-d", "."])).exits(0);
    fs::write(client.workspace("notes.md"), "mine\n").unwrap();
    client.stage.call(&["verify", "exec-001"]).exits(0).says("notes.md");
}

#[test]
fn a_batch_whose_outputs_or_merged_files_changed_does_not_hold() {
    for path in ["outputs/coder/code.py", "merged/code.py"] {
        let client = Client::new();
        client.run(&with_criterion(&client, &["test", "-d", "."])).exits(0);
        let changed = client.workspace(path);
        assert!(changed.exists(), "{path}");
        fs::write(changed, "better code\n").unwrap();
        client.stage.call(&["verify", "exec-001"]).exits(1).says(path);
    }
}

#[test]
fn a_batch_that_did_not_succeed_or_whose_declared_files_are_gone_does_not_hold() {
    let client = Client::new();
    let stage = &client.stage;
    stage.agent_script("works", "echo x > a.txt").agent_script("fails", "exit 1");
    stage.run("batch_id = 7\n 1 agent=works files_modified=[\"a.txt\"]", &[]).ends().exits(0);
    stage.call(&["verify", "7"]).exits(0).says("a.txt: exists");
    fs::remove_file(stage.file("a.txt")).unwrap();
    stage.call(&["verify", "7"]).exits(1).says("a.txt: does not exist any more");
    stage.agent_script("removes", "rm b.txt").agent_script("makes", "echo x > b.txt");
    let plan = "batch_id = 9\n 1 agent=makes files_modified=[\"b.txt\"]\n 2 <- 1 agent=removes files_deleted=[\"b.txt\"]";
    stage.run(plan, &[]).ends().exits(0);
    stage.call(&["verify", "9"]).exits(0).says("another task was to delete it");
    stage.run("batch_id = 8\n 1 agent=fails max_retries=0", &[]).ends().exits(1);
    stage.call(&["verify", "8"]).exits(1).says("the batch: ended with FAILURE");
}

#[test]
fn papers_that_are_not_what_the_journal_says_are_told() {
    let client = Client::new();
    client.run(&with_criterion(&client, &["test", "-d", "."])).exits(0);
    let receipt = client.text("receipt.json");
    fs::write(client.workspace("receipt.json"), receipt.replacen("kept", "lost", 1)).unwrap();
    client.stage.call(&["verify", "exec-001"]).exits(1).says("✗ the receipt of the merge");
}

#[test]
fn the_gates_of_a_plan_are_run_unless_nothing_is_to_be_run() {
    let client = Client::new();
    let stage = &client.stage;
    stage.agent_script("smoke", "true");
    let plan = stage.plan("batch_id = 7\n 1 agent=smoke validation_gates=[\"`test\\t-e\\tgood`\"]");
    stage.go(&["run", plan.to_str().unwrap()], &[]).ends().exits(0);
    stage.call(&["verify", "7"]).exits(1).says("✗");
    stage.call(&["verify", "7", "--no-commands"]).exits(0).says("nobody checked it");
    fs::write(stage.file("good"), "").unwrap();
    stage.call(&["verify", "7"]).exits(0).says("(verified)");
    let kept = stage.path("completed-batches/batch-7/verify");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 3, "every verification is kept");
}

#[test]
fn a_verification_that_is_interrupted_leaves_nobody_behind() {
    let client = Client::new();
    client
        .run(&with_criterion(
            &client,
            &["sh", "-c", "test -e first || { touch first; exit; }; touch begun; sleep 600; test -e begun"],
        ))
        .exits(0);
    let verifying = client.stage.go(&["verify", "exec-001"], &[]);
    client.stage.wait_for("its command runs", || client.workspace("begun").exists().then_some(()));
    verifying.signal(Signal::INT);
    verifying.ends().exits(130);
    client.stage.nobody_is_left();
}

#[test]
fn a_batch_under_way_and_one_that_nobody_knows_are_refused() {
    let client = Client::new();
    let stage = &client.stage;
    stage.agent_script("slow", "sleep 600");
    let plan = stage.plan("batch_id = 7\n 1 agent=slow");
    let running = stage.go(&["run", plan.to_str().unwrap()], &[]);
    stage.wait_event("7", "launched", "1");
    stage.call(&["verify", "7"]).exits(2).complains("still under way");
    stage.call(&["verify", "8"]).exits(2).complains("no batch '8'");
    stage.call(&["cancel", "7"]).exits(0);
    running.ends().exits(5);
}
