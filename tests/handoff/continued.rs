//! Before and after a run: `wk check` finds what `wk run` would, and the same command goes on with what was begun.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::client::Client;

fn slow(client: &Client) -> Value {
    client.agent(
        "slow",
        "touch ../begun; until test -e ../go; do sleep 0.05; done; echo done > $WK_OUTPUT_OUT",
    );
    client.request(&[client.entry("slow", &[("out", "out.txt")], &[])])
}

fn begins(client: &Client) {
    client.stage.wait_for("the agent", || client.stage.file("begun").exists().then_some(()));
}

#[test]
fn check_tells_at_once_what_run_would_find_one_after_the_other() {
    let client = Client::new();
    client.agent("fine", "echo x > $WK_OUTPUT_OUT");
    let mut request = client.request(&[client.entry("fine", &[("out", "out.txt")], &[])]);
    client.run(&request).exits(0);
    let script = client.stage.file("agents").join("lost");
    std::fs::create_dir_all(&script).unwrap();
    let run = script.join("run");
    std::fs::write(&run, "#!/usr/bin/no-such-interpreter\n").unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
    let named = client.stage.file("agents").join("named");
    std::fs::create_dir_all(&named).unwrap();
    std::fs::write(named.join("run"), "#!/usr/bin/env no-such-program\n").unwrap();
    std::fs::set_permissions(named.join("run"), std::fs::Permissions::from_mode(0o755)).unwrap();
    request["agents"] = json!([
        client.entry("lost", &[("out", "out.txt")], &[]),
        client.entry("named", &[("out", "o.txt")], &[])
    ]);
    let told = client.stage.call(&["check", &client.write(&request)]).exits(2).err;
    for part in ["was archived", "no-such-interpreter", "no-such-program"] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn the_same_run_goes_on_with_its_batch_after_its_watcher_was_killed() {
    let client = Client::new();
    let request = slow(&client);
    let run = client.start(&request, &[]);
    begins(&client);
    run.kill();
    client.stage.call(&["check", &client.write(&request)]).exits(0);
    std::fs::write(client.stage.file("go"), "").unwrap();
    client.run(&request).exits(0);
    assert_eq!(client.report()["status"], "success", "{:#}", client.report());
    let story = client.stage.call(&["why", "exec-001/slow"]).exits(0).out;
    assert_eq!(story.matches("was started").count(), 1, "{story}");
    client.run(&request).exits(2).complains("was archived");
}

#[test]
fn the_report_that_was_asked_for_is_written_by_whoever_ends_the_batch() {
    let client = Client::new();
    let request = slow(&client);
    let output = client.stage.file("wanted.json");
    let run = client.start(&request, &["--output", output.to_str().unwrap()]);
    begins(&client);
    run.signal(rustix::process::Signal::INT);
    run.ends().exits(130);
    assert!(!output.exists(), "nothing is known yet");
    let watcher = client.stage.watch(&[]);
    std::fs::write(client.stage.file("go"), "").unwrap();
    client.stage.ended("exec-001");
    drop(watcher);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&output).unwrap()).unwrap();
    assert_eq!(report["status"], "success", "{report:#}");
}

#[test]
fn a_timeout_is_final_unless_the_request_asks_for_further_tries() {
    let client = Client::new();
    client.agent("slow", "echo $WK_ATTEMPT >> ../tries; sleep 600");
    let mut entry = client.entry("slow", &[("out", "out.txt")], &[]);
    entry["timeout"] = json!(1);
    let mut request = client.request(&[entry]);
    request["execution_options"] = json!({"checkpoint_enabled": true});
    let tries = || std::fs::read_to_string(client.stage.file("tries")).unwrap().lines().count();
    client.run(&request).exits(1);
    assert_eq!(tries(), 1, "{:#}", client.report());
    request["execution_id"] = json!("exec-002");
    request["execution_options"]["max_retries"] = json!(1);
    client.run(&request).exits(1);
    assert_eq!(tries(), 3);
}
