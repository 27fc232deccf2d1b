//! Outputs of several agents become one, or a person is asked.

use serde_json::{Value, json};

use crate::client::Client;

/// Two agents that begin with the same file and change it.
fn two_editors(client: &Client, first: &str, second: &str) -> Value {
    let base = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
    for name in ["a", "b"] {
        let dir = client.workspace("outputs").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("text.md"), base).unwrap();
    }
    client
        .agent("a", &format!("sed -i {first} $WK_OUTPUT_TEXT"))
        .agent("b", &format!("sed -i {second} $WK_OUTPUT_TEXT"));
    client.request(&[
        client.entry("a", &[("text", "text.md")], &[]),
        client.entry("b", &[("text", "text.md")], &[]),
    ])
}

#[test]
fn disjoint_edits_of_two_agents_merge_by_line() {
    let client = Client::new();
    let request = two_editors(&client, "s/one/ONE/", "s/seven/SEVEN/");
    client.run(&request).exits(0);
    assert_eq!(client.text("merged/text.md"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    let receipt = client.json("receipt.json");
    assert_eq!(receipt["lines"].as_array().map(Vec::len), Some(2), "{receipt:#}");
}

#[test]
fn a_conflict_waits_for_a_person_and_resolving_it_runs_no_agent_again() {
    let client = Client::new();
    let request = two_editors(&client, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    let report = client.report();
    assert_eq!(
        (report["status"].as_str(), report["reason"].as_str()),
        (Some("failure"), Some("merge_conflict"))
    );
    let conflicts = client.json("conflicts.json");
    assert_eq!(conflicts["conflicts_detected"], 1, "{conflicts:#}");
    assert!(!client.workspace("merged/text.md").exists());
    client.judge("conflicts.json", "conflicts");
    client.judge("receipt.json", "receipt");
    client.judge("execution_report.json", "execution-report");
    client.judge("status.json", "workspace-status");
    let id = conflicts["conflicts"][0]["id"].as_str().unwrap().to_owned();
    client.stage.call(&["resolve", "exec-001", "--take", &format!("{id}=b")]).exits(0);
    assert_eq!(client.report()["status"], "success", "{:#}", client.report());
    assert!(client.text("merged/text.md").starts_with("Uno\n"));
    let story = client.stage.call(&["why", "exec-001/a"]).exits(0);
    assert_eq!(story.out.matches("was started").count(), 1, "{}", story.out);
}

#[test]
fn fail_on_conflict_merges_nothing() {
    let client = Client::new();
    let mut request = two_editors(&client, "s/one/ONE/", "s/one/Uno/");
    request["merge_strategy"]["conflict_resolution"] = json!("fail_on_conflict");
    client.run(&request).exits(1);
    assert_eq!(client.report()["status"], "failure");
    assert!(!client.workspace("merged/text.md").exists());
}

#[test]
fn with_priority_auto_decides_and_the_receipt_says_who_was_superseded() {
    let client = Client::new();
    let mut request = two_editors(&client, "s/one/ONE/", "s/one/Uno/");
    request["merge_strategy"] =
        json!({"type": "file_merge", "conflict_resolution": "auto", "priority": ["b", "a"]});
    client.run(&request).exits(0);
    assert!(client.text("merged/text.md").starts_with("Uno\n"));
    assert!(client.text("receipt.json").contains("superseded"));
}

#[test]
fn reports_are_aggregated_with_contents_and_origin() {
    let client = Client::new();
    client
        .agent("a", "echo '# Findings of a' > $WK_OUTPUT_REPORT")
        .agent("b", "echo '# Findings of b' > $WK_OUTPUT_REPORT");
    let mut request = client.request(&[
        client.entry("a", &[("report", "report.md")], &[]),
        client.entry("b", &[("report", "report.md")], &[]),
    ]);
    request["merge_strategy"]["type"] = json!("report_aggregation");
    client.run(&request).exits(0);
    let text = client.text("merged/report.md");
    assert!(text.contains("Findings of a") && text.contains("Findings of b"), "{text}");
}

#[test]
fn what_an_earlier_attempt_made_is_merged_though_the_last_one_left_it() {
    let client = Client::new();
    client.agent(
        "stubborn",
        "if test -e $WK_OUTPUT_NOTE; then exit 0; fi; echo made > $WK_OUTPUT_NOTE; exit 1",
    );
    let mut request = client.request(&[client.entry("stubborn", &[("note", "note.md")], &[])]);
    request["execution_options"] = json!({"retry_on_failure": true, "max_retries": 1});
    client.run(&request).exits(0);
    assert_eq!(client.text("merged/note.md"), "made\n");
}

#[test]
fn a_second_run_in_the_same_workspace_merges_outputs_that_came_out_the_same() {
    let client = Client::new();
    client.agent("steady", "echo same > $WK_OUTPUT_NOTE");
    let mut request = client.request(&[client.entry("steady", &[("note", "note.md")], &[])]);
    client.run(&request).exits(0);
    request["execution_id"] = json!("exec-002");
    client.run(&request).exits(0);
    assert_eq!(client.text("merged/note.md"), "same\n");
}

#[test]
fn a_conflict_can_be_named_by_its_path_and_decided_by_a_file_of_ones_own() {
    let client = Client::new();
    let request = two_editors(&client, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    client.stage.call(&["resolve", "exec-001"]).exits(6).says("text.md");
    client
        .stage
        .call(&["resolve", "exec-001", "--take", "text.md=nobody"])
        .exits(2)
        .complains("does not offer");
    std::fs::write(client.stage.file("mine.md"), "by hand\n").unwrap();
    let own = format!("text.md={}", client.stage.file("mine.md").display());
    client.stage.call(&["resolve", "exec-001", "--file", &own]).exits(0);
    assert_eq!(client.text("merged/text.md"), "by hand\n");
    assert!(!client.workspace("conflicts.json").exists());
}

#[test]
fn a_person_may_decide_one_conflict_after_the_other_and_both_are_counted() {
    let client = Client::new();
    client.agent("a", "echo a > $WK_OUTPUT_ONE; echo a > $WK_OUTPUT_TWO");
    client.agent("b", "echo b > $WK_OUTPUT_ONE; echo b > $WK_OUTPUT_TWO");
    let outputs = [("one", "one.md"), ("two", "two.md")];
    let entries = ["a", "b"].map(|name| client.entry(name, &outputs, &[]));
    client.run(&client.request(&entries)).exits(6);
    let counts =
        |report: &Value| (report["conflicts_detected"].clone(), report["conflicts_resolved"].clone());
    assert_eq!(counts(&client.json("conflicts.json")), (json!(2), json!(0)));
    client.stage.call(&["resolve", "exec-001", "--take", "one.md=a"]).exits(6);
    for counted in [client.json("conflicts.json"), client.report()["merge_result"].clone()] {
        assert_eq!(counts(&counted), (json!(2), json!(1)), "{counted:#}");
    }
    client.judge("conflicts.json", "conflicts");
    client.stage.call(&["resolve", "exec-001", "--take", "two.md=b"]).exits(0);
    assert_eq!(counts(&client.report()["merge_result"]), (json!(2), json!(2)));
    assert_eq!((client.text("merged/one.md"), client.text("merged/two.md")), ("a\n".into(), "b\n".into()));
}

#[test]
fn the_reason_of_an_invalid_merge_names_errors_and_the_warnings_have_the_rest() {
    let client = Client::new();
    let graph = json!({
        "metadata": {"agent": "a", "timestamp": "2026-01-01T00:00:00Z", "version": "1.0"},
        "nodes": [{"id": "m", "type": "module", "name": "m"}, {"id": "alone", "type": "module", "name": "q"}],
        "edges": [{"source": "m", "target": "nowhere", "type": "calls"}],
    });
    client.agent("a", &format!("cat > $WK_OUTPUT_G <<'END'\n{graph}\nEND"));
    let mut request = client.request(&[client.entry("a", &[("g", "g.ctxp")], &[])]);
    request["merge_strategy"]["type"] = json!("ctxpack_union");
    request["merge_strategy"]["validation"] = json!({"schema_validation": true});
    client.run(&request).exits(1);
    let report = client.report();
    let reason = report["merge_result"]["reason"].as_str().unwrap();
    assert!(reason.contains("nowhere") && !reason.contains("alone"), "{reason}");
    assert!(report["warnings"].to_string().contains("alone"), "{report:#}");
}
