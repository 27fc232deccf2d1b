//! A command decides whether the merged tree is good, before anybody can see it.

use serde_json::{Value, json};

use crate::client::Client;

fn two_writers(client: &Client) -> Value {
    client.agent("a", "echo one > $WK_OUTPUT_A").agent("b", "echo two > $WK_OUTPUT_B");
    client.request(&[client.entry("a", &[("a", "a.txt")], &[]), client.entry("b", &[("b", "b.txt")], &[])])
}

#[test]
fn a_merged_tree_that_its_command_does_not_pass_is_not_published() {
    let client = Client::new();
    let mut request = two_writers(&client);
    request["merge_strategy"]["validation"] =
        json!({"command": "cat a.txt b.txt; touch left-behind; echo they do not fit >&2; exit 3"});
    client.run(&request).exits(1);
    let report = client.report();
    assert_eq!(
        (report["status"].as_str(), report["reason"].as_str()),
        (Some("failure"), Some("validation_failed")),
        "{report:#}"
    );
    assert!(report.to_string().contains("they do not fit"), "{report:#}");
    assert!(!client.workspace("merged").exists() && !client.workspace(".wk-merged").exists());
    request["execution_id"] = json!("exec-002");
    request["merge_strategy"]["validation"]["command"] =
        json!(["sh", "-c", "test -s a.txt -a -s b.txt; touch left-behind"]);
    client.run(&request).exits(0);
    assert!(client.workspace("merged/a.txt").exists() && !client.workspace("merged/left-behind").exists());
}

#[test]
fn settings_can_name_the_command_for_every_merge() {
    let client = Client::new();
    client.stage.settings("[merge]\nverify = { shell = \"test ! -e b.txt\" }\n");
    client.run(&two_writers(&client)).exits(1);
    assert_eq!(client.report()["reason"], "validation_failed", "{:#}", client.report());
}

#[test]
fn a_decision_whose_tree_does_not_pass_is_asked_for_again() {
    let client = Client::new();
    client.agent("a", "echo one > $WK_OUTPUT_T").agent("b", "echo two > $WK_OUTPUT_T");
    let mut request = client.request(&["a", "b"].map(|name| client.entry(name, &[("t", "t.txt")], &[])));
    request["merge_strategy"]["validation"] = json!({"command": "grep two t.txt"});
    client.run(&request).exits(6);
    client.stage.call(&["resolve", "exec-001", "--take", "t.txt=a"]).exits(6);
    assert!(!client.workspace("merged").exists());
    client.stage.call(&["resolve", "exec-001", "--take", "t.txt=b"]).exits(0);
    assert_eq!(client.text("merged/t.txt"), "two\n");
}

#[test]
fn the_time_of_the_whole_and_a_cancel_hold_while_the_merged_tree_is_checked() {
    let client = Client::new();
    let mut request = two_writers(&client);
    request["merge_strategy"]["validation"] =
        json!({"command": "touch ../check.begun && sleep 600 && test -d ."});
    let run = client.start(&request, &[]);
    let begun = client.workspace("check.begun");
    client.stage.wait_for("the check", || begun.exists().then_some(()));
    client.stage.call(&["cancel", "exec-001"]);
    run.ends().exits(5);
    assert!(!client.workspace("merged").exists() && !client.workspace(".wk-merged").exists());
    request["execution_id"] = json!("exec-002");
    request["execution_options"]["overall_timeout"] = json!(5);
    client.run(&request).exits(4);
    assert!(!client.workspace("merged").exists());
    assert_eq!(client.report()["status"], "timeout", "{:#}", client.report());
}

#[test]
fn a_plain_graph_of_nodes_and_edges_is_taken() {
    let client = Client::new();
    client.agent(
        "a",
        r#"echo '{"nodes": [{"id": "m", "type": "module"}, {"id": "f", "type": "function"}],
            "edges": [{"source": "m", "target": "f", "type": "contains"}]}' > $WK_OUTPUT_G"#,
    );
    client.agent(
        "b",
        r#"echo '{"nodes": [{"id": "m", "name": "main"}, {"id": "f"}], "edges": []}' > $WK_OUTPUT_G"#,
    );
    let mut request = client.request(&["a", "b"].map(|name| client.entry(name, &[("g", "g.ctxp")], &[])));
    request["merge_strategy"] = json!({"type": "ctxpack_union", "conflict_resolution": "manual_review"});
    client.run(&request).exits(0);
    client.judge("merged/integrated.ctxp", "ctxp");
    let graph = client.json("merged/integrated.ctxp");
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 2, "{graph:#}");
    assert_eq!(graph["metadata"]["merged_from"], json!(["a", "b"]), "{graph:#}");
}

#[test]
fn an_agent_that_is_to_write_a_graph_is_told_its_format() {
    let client = Client::new();
    client.agent("a", "cat > prompt.txt; echo '{\"nodes\": [], \"edges\": []}' > $WK_OUTPUT_G");
    let mut request = client.request(&[client.entry("a", &[("g", "g.ctxp")], &[])]);
    request["merge_strategy"]["type"] = json!("ctxpack_union");
    client.run(&request).exits(0);
    let prompt = client.text("prompt.txt");
    assert!(prompt.contains("A .ctxp file is one JSON object") && prompt.contains("depends_on"), "{prompt}");
}
