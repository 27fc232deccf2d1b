//! One workspace, two buses: they follow each other, and never meet.

use serde_json::{Value, json};

use crate::client::Client;
use crate::crew::Stage;

/// An agent that works until it is let go, and says that it has begun. Its output appears at once: that of a batch whose
/// watcher was killed may come while the next one's is looked at, and must not be found half written.
fn waiting(client: &Client) {
    client.agent(
        "slow",
        "touch ../slow.begun; while [ ! -e ../slow.go ]; do sleep 0.02; done
        echo slow > ../slow.$$; mv ../slow.$$ $WK_OUTPUT_OUT",
    );
}

fn begins(client: &Client) {
    let begun = client.stage.file("slow.begun");
    client.stage.wait_for("the agent has begun", || begun.exists().then_some(()));
}

fn let_go(client: &Client) {
    std::fs::write(client.stage.file("slow.go"), "").unwrap();
}

#[test]
fn a_workspace_that_another_bus_works_in_is_refused_with_its_name() {
    let client = Client::new();
    waiting(&client);
    let mut request = client.request(&[client.entry("slow", &[("out", "out.txt")], &[])]);
    let run = client.start(&request, &[]);
    begins(&client);
    let other = Stage::new();
    request["execution_id"] = json!("exec-002");
    let path = client.write(&request);
    let told = other.go(&["run", &path], &[]).ends().exits(2);
    assert!(told.err.contains(client.stage.root().to_str().unwrap()), "{}", told.err);
    assert!(told.err.contains("workspace"), "{}", told.err);
    let_go(&client);
    run.ends().exits(0);
    other.go(&["run", &path], &[]).ends().exits(0);
    assert_eq!(client.report()["execution_id"], "exec-002");
    assert!(!client.workspace(".wk-lock").exists());
}

#[test]
fn the_watcher_that_follows_a_killed_one_holds_its_workspaces_again() {
    let client = Client::new();
    waiting(&client);
    let mut request = client.request(&[client.entry("slow", &[("out", "out.txt")], &[])]);
    let run = client.start(&request, &[]);
    begins(&client);
    run.kill();
    assert!(client.workspace(".wk-lock").exists());
    let next = client.stage.watch(&[]);
    let other = Stage::new();
    request["execution_id"] = json!("exec-002");
    let path = client.write(&request);
    other.go(&["run", &path], &[]).ends().exits(2).complains("works in");
    let_go(&client);
    client.stage.ended("exec-001");
    assert_eq!(client.report()["status"], "success");
    drop(next);
}

#[test]
fn a_batch_whose_workspace_another_bus_has_taken_meanwhile_waits_for_it() {
    let client = Client::new();
    waiting(&client);
    let mut request = client.request(&[client.entry("slow", &[("out", "out.txt")], &[])]);
    let run = client.start(&request, &[]);
    begins(&client);
    run.kill();
    let other = Stage::new();
    request["execution_id"] = json!("exec-002");
    let path = client.write(&request);
    let taken = other.go(&["run", &path], &[]);
    let shown = || {
        // Its agent and not only its batch: what the batch shows before it is prepared is put aside by that.
        let text = std::fs::read_to_string(client.workspace("status.json")).ok()?;
        let status: Value = serde_json::from_str(&text).ok()?;
        let is_at_work = status["agents"][0]["status"] == "running";
        (status["execution_id"] == "exec-002" && is_at_work).then_some(())
    };
    client.stage.wait_for("the other bus works there", shown);
    let next = client.stage.watch(&[]);
    client.stage.wait_for("it is told", || next.stderr().contains("works there").then_some(()));
    assert_eq!(client.json("status.json")["execution_id"], "exec-002");
    let_go(&client);
    taken.ends().exits(0);
    client.stage.ended("exec-001");
    drop(next);
}
