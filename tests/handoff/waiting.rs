//! A batch that waits for a person: who is told so, and by which command that person answers.

use serde_json::{Value, json};

use crate::client::Client;
use crate::crew::Stage;

/// Two agents that make the same file, each in its own way.
fn contradicting(client: &Client) -> Value {
    let entry = |name: &str| {
        client.agent(name, &format!("echo {name} > $WK_OUTPUT_TEXT"));
        client.entry(name, &[("text", "text.md")], &[])
    };
    client.request(&[entry("a"), entry("b")])
}

#[test]
fn a_watcher_that_leaves_when_idle_leaves_what_waits_for_a_person() {
    let client = Client::new();
    client.run(&contradicting(&client)).exits(6);
    let watch = client.stage.go(&["watch", "--exit-when-idle"], &[]);
    watch.ends().exits(6).complains("batch exec-001 waits for a person");
}

#[test]
fn the_next_step_can_be_followed_where_the_bus_is_not_the_clients() {
    let client = Client::new();
    let elsewhere = Stage::new();
    let path = client.write(&contradicting(&client));
    elsewhere.go(&["run", &path], &[]).ends().exits(6);
    let report = client.report();
    let step = report["merge_result"]["next_step"].as_str().unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(step, format!("wk --root {} resolve exec-001", elsewhere.root().display()));
    assert!(report["errors"].to_string().contains(step), "{report:#}");
    let mut words: Vec<&str> = step.split(' ').skip(1).collect();
    words.extend(["--all", "b"]);
    client.stage.call(&words).exits(0);
    assert_eq!(client.text("merged/text.md"), "b\n");
}

#[test]
fn the_list_of_conflicts_shows_the_choices_and_a_directory_is_none() {
    let client = Client::new();
    client.run(&contradicting(&client)).exits(6);
    let listed = client.stage.call(&["resolve", "exec-001"]).exits(6).says("1 conflict waits for a person");
    assert!(listed.out.contains("choices: ") && listed.out.contains("theirs:b"), "{}", listed.out);
    let folder = client.stage.root().to_str().unwrap().to_owned();
    let told = client.stage.call(&["resolve", "exec-001", "--file", &format!("text.md={folder}")]);
    told.exits(2).complains("not a file");
}

#[test]
fn contradictions_between_graphs_are_told_apart_and_only_a_value_settles_one() {
    let client = Client::new();
    let graph = |status: &str, tested: &str| {
        format!(
            "cat > $WK_OUTPUT_CTXPACK <<'GRAPH'\n{{\"metadata\": {{\"agent\": \"x\", \"timestamp\": \
             \"2026-01-01T00:00:00Z\", \"version\": \"1.0\"}}, \"nodes\": [{{\"id\": \"f1\", \"type\": \"function\", \
             \"name\": \"f\", \"attributes\": {{\"status\": \"{status}\", \"tested\": {tested}}}}}], \"edges\": []}}\nGRAPH"
        )
    };
    client.agent("a", &graph("done", "true")).agent("b", &graph("open", "false"));
    let entry = |name| client.entry(name, &[("ctxpack", "output.ctxp")], &[]);
    let mut request = client.request(&[entry("a"), entry("b")]);
    request["merge_strategy"]["type"] = json!("ctxpack_union");
    client.run(&request).exits(6);
    let listed = client.stage.call(&["resolve", "exec-001"]).exits(6);
    for told in ["status of f1: a says \"done\", b says \"open\"", "tested of f1: a says true, b says false"]
    {
        assert!(listed.out.contains(told), "{}", listed.out);
    }
    let conflicts =
        client.stage.call(&["resolve", "exec-001", "--json"]).exits(6).json()["conflicts"].clone();
    let id_of = |number: usize| conflicts[number]["id"].as_str().unwrap().to_owned();
    let own = client.stage.file("own");
    std::fs::write(&own, "finished").unwrap();
    let given = format!("{}={}", id_of(0), own.display());
    client.stage.call(&["resolve", "exec-001", "--file", &given]).exits(2).complains("not JSON");
    std::fs::write(&own, "\"finished\"").unwrap();
    let taken = format!("{}=b", id_of(1));
    client.stage.call(&["resolve", "exec-001", "--file", &given, "--take", &taken]).exits(0);
    assert!(client.text("merged/integrated.ctxp").contains("finished"));
}
