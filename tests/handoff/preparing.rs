//! While a workspace is prepared, a batch can be watched, cancelled, and run out of time.

use serde_json::{Value, json};

use crate::client::{Client, agent_of};

/// A request whose codebase takes minutes to be kept: large files without content, which cost no room. Nobody
/// waits for that, because what is asked for meanwhile is granted meanwhile.
fn with_large_codebase(client: &Client) -> Value {
    let codebase = client.stage.file("codebase");
    std::fs::create_dir_all(&codebase).unwrap();
    for number in 0..600 {
        let file = std::fs::File::create(codebase.join(format!("{number}.bin"))).unwrap();
        file.set_len(64 << 20).unwrap();
    }
    client.agent("eager", "touch $WK_OUTPUT_NOTE");
    let mut entry = client.entry("eager", &[("note", "note.md")], &[]);
    entry["task"]["inputs"] = json!({"codebase": codebase});
    client.request(&[entry])
}

fn nothing_was_begun(client: &Client, agents_status: &str) {
    let report = client.report();
    assert_eq!(agent_of(&report, "eager")["status"], agents_status, "{report:#}");
    assert_eq!(client.json("status.json")["stage"], "finished");
    assert!(!client.workspace("checkpoint/manifest.json").exists());
    assert!(!client.workspace("outputs/eager").exists());
}

#[test]
fn a_batch_that_is_being_prepared_says_so_and_can_be_cancelled() {
    let client = Client::new();
    let run = client.start(&with_large_codebase(&client), &[]);
    let stage = || {
        let text = std::fs::read_to_string(client.workspace("status.json")).ok()?;
        let status: Value = serde_json::from_str(&text).unwrap();
        (status["stage"] == "preparing").then_some(())
    };
    client.stage.wait_for("it is shown as being prepared", stage);
    client.stage.call(&["cancel", "exec-001"]).exits(0);
    run.ends().exits(5);
    assert_eq!(client.report()["status"], "cancelled");
    nothing_was_begun(&client, "skipped");
}

#[test]
fn the_overall_time_runs_while_the_workspace_is_prepared() {
    let client = Client::new();
    let mut request = with_large_codebase(&client);
    request["execution_options"]["overall_timeout"] = json!(1);
    client.run(&request).exits(4);
    assert_eq!(client.report()["reason"], "batch_timeout");
    nothing_was_begun(&client, "skipped");
}
