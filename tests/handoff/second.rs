//! A second batch in the workspace of an earlier one: it is merged and told as if it were the first.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::Client;

/// Runs a request once more, as another batch.
fn again(client: &Client, request: &mut Value, code: i32) {
    request["execution_id"] = json!("exec-002");
    client.run(request).exits(code);
}

/// The lines of the receipt as `agent path change fate`.
fn accounted(client: &Client) -> Vec<String> {
    let receipt = client.json("receipt.json");
    let lines = receipt["lines"].as_array().unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let told = |line: &Value| {
        format!(
            "{} {} {} {}",
            word(&line["agent"]),
            word(&line["path"]),
            word(&line["change"]),
            word(&line["fate"]["is"])
        )
    };
    lines.iter().map(told).collect()
}

/// A graph with a node of its own and one that others have too.
fn graph(own: &str, said: &str) -> String {
    let node = |id: &str, said: &str| json!({"id": id, "type": "function", "name": id, "attributes": {"said": said}});
    json!({
        "metadata": {"agent": "x", "timestamp": "2026-01-01T00:00:00Z", "version": "1.0"},
        "nodes": [node("shared", said), node(own, "note")],
        "edges": [{"source": own, "target": "shared", "type": "calls", "label": "calls"}],
    })
    .to_string()
}

/// Two agents that bring a graph each.
fn two_graphs(client: &Client, first: &str, second: &str) -> Value {
    std::fs::write(client.stage.file("first.json"), first).unwrap();
    std::fs::write(client.stage.file("second.json"), second).unwrap();
    client
        .agent("generator", "cp $WK_WORKSPACE/../first.json $WK_OUTPUT_CTXPACK")
        .agent("reviewer", "cp $WK_WORKSPACE/../second.json $WK_OUTPUT_CTXPACK");
    let mut request = client.request(&[
        client.entry("generator", &[("ctxpack", "output.ctxp")], &[]),
        client.entry("reviewer", &[("ctxpack", "output.ctxp")], &["generator"]),
    ]);
    request["merge_strategy"]["type"] = json!("ctxpack_union");
    request
}

#[test]
fn a_graph_that_came_out_the_same_is_united_with_one_that_did_not() {
    let client = Client::new();
    let mut request = two_graphs(&client, &graph("g", "code"), &graph("r", "code"));
    client.run(&request).exits(0);
    let changed = graph("r", "code").replace("note", "remark");
    std::fs::write(client.stage.file("second.json"), changed).unwrap();
    again(&client, &mut request, 0);
    let united = client.json("merged/integrated.ctxp");
    let mut ids: Vec<&str> =
        united["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["g", "r", "shared"], "{united:#}");
    assert_eq!(accounted(&client).len(), 2, "{:?}", accounted(&client));
}

#[test]
fn graphs_that_contradict_each_other_do_so_whichever_of_them_changed() {
    for names in [["output.ctxp", "output.ctxp"], ["code.ctxp", "review.ctxp"]] {
        let client = Client::new();
        let mut request = two_graphs(&client, &graph("g", "code"), &graph("r", "text"));
        for (agent, name) in names.iter().enumerate() {
            let path = format!("outputs/{}/{name}", ["generator", "reviewer"][agent]);
            request["agents"][agent]["task"]["outputs"]["ctxpack"] = json!(client.workspace(&path));
        }
        request["merge_strategy"]["conflict_resolution"] = json!("fail_on_conflict");
        client.run(&request).exits(1);
        let changed = graph("r", "text").replace("note", "remark");
        std::fs::write(client.stage.file("second.json"), changed).unwrap();
        again(&client, &mut request, 1);
        let report = client.report();
        assert_eq!(report["merge_result"]["conflicts_detected"], 1, "{names:?}: {report:#}");
    }
}

/// `a` succeeds in both batches, `b` only in the second.
fn two_writers(client: &Client, policy: &str) -> Value {
    client.agent("a", "mkdir -p $WK_OUTPUT_CODE; printf 'of a\\nshared\\n' > $WK_OUTPUT_CODE/same.py").agent(
        "b",
        "test -e ../good || exit 1; mkdir -p $WK_OUTPUT_CODE; printf 'of b\\nshared\\n' > $WK_OUTPUT_CODE/same.py",
    );
    let entries = ["a", "b"].map(|name| client.entry(name, &[("code", "code")], &[]));
    let mut request = client.request(&entries);
    request["merge_strategy"]["conflict_resolution"] = json!(policy);
    client.run(&request).exits(3);
    std::fs::write(client.stage.file("good"), "").unwrap();
    request
}

#[test]
fn a_file_that_an_agent_wrote_as_before_clashes_with_anothers_as_in_a_fresh_workspace() {
    for (policy, code) in [("manual_review", 6), ("fail_on_conflict", 1)] {
        let client = Client::new();
        let mut request = two_writers(&client, policy);
        again(&client, &mut request, code);
        let report = client.report();
        assert_eq!(report["merge_result"]["conflicts_detected"], 1, "{policy}: {report:#}");
        let lines = accounted(&client);
        for line in ["a code/same.py unchanged escalated", "b code/same.py added escalated"] {
            assert!(lines.iter().any(|told| told == line), "{policy}: no '{line}' in {lines:?}");
        }
    }
}

#[test]
fn what_an_agent_rewrote_in_its_own_file_hides_no_contradiction() {
    let client = Client::new();
    client.agent("a", "printf 'one\\ntwo\\nthree\\n' > $WK_OUTPUT_TEXT");
    client.agent("b", "printf 'uno\\ntwo\\n' > $WK_OUTPUT_TEXT; cat ../tail >> $WK_OUTPUT_TEXT");
    let entries = ["a", "b"].map(|name| client.entry(name, &[("text", "text.md")], &[]));
    let mut request = client.request(&entries);
    request["merge_strategy"]["conflict_resolution"] = json!("fail_on_conflict");
    std::fs::write(client.stage.file("tail"), "drei\n").unwrap();
    client.run(&request).exits(1);
    std::fs::write(client.stage.file("tail"), "three\n").unwrap();
    again(&client, &mut request, 1);
    assert_eq!(client.report()["merge_result"]["conflicts_detected"], 1, "{:#}", client.report());
}

#[test]
fn agents_that_build_upon_one_another_do_so_again() {
    for second in ["1\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n"] {
        let client = Client::new();
        std::fs::write(client.stage.file("source"), "1\n2\n3\n4\n5\n").unwrap();
        client.agent("gen", "cp ../source $WK_OUTPUT_CODE");
        client.agent("fix", "sed s/2/two/ $WK_INPUT_OLD > $WK_OUTPUT_NEW");
        let first = client.entry("gen", &[("code", "code.py")], &[]);
        let mut then = client.entry("fix", &[("new", "code.py")], &["gen"]);
        then["task"]["inputs"]["old"] = json!(client.workspace("outputs/gen/code.py"));
        let mut request = client.request(&[first, then]);
        request["merge_strategy"]["conflict_resolution"] = json!("fail_on_conflict");
        client.run(&request).exits(0);
        std::fs::write(client.stage.file("source"), second).unwrap();
        again(&client, &mut request, 0);
        assert_eq!(client.text("merged/code.py"), second.replace('2', "two"));
        assert_eq!(accounted(&client).len(), 2, "{:?}", accounted(&client));
    }
}

#[test]
fn an_aggregated_report_holds_what_came_out_the_same() {
    let client = Client::new();
    client.agent("a", "echo '# Findings of a' > $WK_OUTPUT_REPORT");
    client.agent("b", "cat ../finding > $WK_OUTPUT_REPORT");
    let mut request = client.request(&["a", "b"].map(|name| client.entry(name, &[("report", "r.md")], &[])));
    request["merge_strategy"]["type"] = json!("report_aggregation");
    for (id, finding) in [("exec-001", "# Findings of a\n"), ("exec-002", "# Findings of b\n")] {
        std::fs::write(client.stage.file("finding"), finding).unwrap();
        request["execution_id"] = json!(id);
        client.run(&request).exits(0);
    }
    assert_eq!(client.text("merged/a/r.md"), "# Findings of a\n");
    assert_eq!(client.text("merged/b/r.md"), "# Findings of b\n");
    assert!(client.text("merged/report.md").contains("Findings of a"));
}

#[test]
fn artifacts_of_assignments_that_came_out_the_same_are_merged_again() {
    let client = Client::new();
    client.agent("writer", "mkdir -p docs; echo same > docs/a.md; echo same > a.txt");
    let context = client.stage.file("context.md");
    std::fs::write(&context, "# Write both\n").unwrap();
    std::fs::create_dir_all(client.workspace("")).unwrap();
    let request = json!({
        "tasks": [{"id": "a", "agent": client.stage.file("agents/writer"), "context_path": context,
            "dependencies": [], "outputs": ["docs"]}],
        "environment": {"workspace_dir": client.workspace("")},
        "success_criteria": {"required_artifacts": ["*.txt"]},
    });
    for _ in 0..2 {
        client.run(&request).exits(0);
        for file in ["merged/docs/a.md", "merged/a.txt", "artifacts/a/docs/a.md"] {
            assert_eq!(client.text(file), "same\n", "{file}");
        }
    }
}

/// One agent that succeeds in the first batch and fails in the second.
fn fails_the_second_time(client: &Client, dialect_has_tasks: bool) -> Value {
    client.agent("once", "test ! -e ../failing || exit 1; echo fine > $WK_OUTPUT_OK; echo fine > a.txt");
    if !dialect_has_tasks {
        return client.request(&[client.entry("once", &[("ok", "ok.txt")], &[])]);
    }
    let context = client.stage.file("context.md");
    std::fs::write(&context, "# Write it\n").unwrap();
    std::fs::create_dir_all(client.workspace("")).unwrap();
    json!({
        "execution_id": "exec-001",
        "tasks": [{"id": "a", "agent": client.stage.file("agents/once"), "context_path": context,
            "dependencies": [], "outputs": {"ok": "ok.txt"}}],
        "environment": {"workspace_dir": client.workspace("")},
        "success_criteria": {"required_artifacts": ["a.txt"], "tests_cmd": "test -d ."},
    })
}

/// The folder in which the second batch put what the first one wrote.
fn put_aside(client: &Client) -> PathBuf {
    let entries = std::fs::read_dir(client.workspace("")).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut aside = entries.filter(|path| name(path).starts_with("checkpoint-"));
    let found = aside.next().expect("something was put aside");
    assert_eq!(aside.next(), None);
    found
}

#[test]
fn nothing_that_an_earlier_batch_wrote_stands_under_a_later_one_that_failed() {
    for (has_tasks, has_checkpoint) in [(false, true), (false, false), (true, true)] {
        let client = Client::new();
        let mut request = fails_the_second_time(&client, has_tasks);
        if !has_tasks {
            request["execution_options"]["checkpoint_enabled"] = json!(has_checkpoint);
        }
        client.run(&request).exits(0);
        let receipt = client.text("receipt.json");
        std::fs::create_dir_all(client.workspace("artifacts/mine")).unwrap();
        std::fs::write(client.workspace("artifacts/mine/kept"), "of the client\n").unwrap();
        std::fs::write(client.stage.file("failing"), "").unwrap();
        again(&client, &mut request, 1);
        assert_eq!(client.report()["execution_id"], "exec-002");
        for gone in ["merged", "receipt.json", "artifacts/a/ok.txt", "status/a.success"] {
            assert!(!client.workspace(gone).exists(), "{gone}, {has_tasks}, {has_checkpoint}");
        }
        assert_eq!(client.text("artifacts/mine/kept"), "of the client\n");
        let aside = put_aside(&client);
        let kept = |name: &str| std::fs::read_to_string(aside.join(name)).unwrap_or_default();
        assert_eq!((kept("merged/ok.txt"), kept("receipt.json")), ("fine\n".into(), receipt));
        assert!(kept("execution_report.json").contains("exec-001"));
        if has_tasks {
            assert_eq!(kept("artifacts/a/ok.txt"), "fine\n");
            assert!(aside.join("status/a.success").exists());
            assert!(client.workspace("status/a.failed").exists());
        }
        client.stage.call(&["verify", "exec-001"]).exits(1).says("gone or changed");
    }
}

#[test]
fn markers_of_an_earlier_batch_are_gone_before_the_first_agent_begins() {
    let client = Client::new();
    let mut request = fails_the_second_time(&client, true);
    client.run(&request).exits(0);
    client.agent("once", "ls status > ../seen; echo fine > $WK_OUTPUT_OK; echo fine > a.txt");
    again(&client, &mut request, 0);
    let seen = client.stage.lines("seen");
    assert!(!seen.iter().any(|name| name.ends_with(".success")), "{seen:?}");
    assert!(client.workspace("status/a.success").exists());
}

#[test]
fn an_undo_of_the_later_batch_puts_back_what_the_earlier_one_had_merged() {
    let client = Client::new();
    let mut request = fails_the_second_time(&client, true);
    client.run(&request).exits(0);
    let receipt = client.text("receipt.json");
    std::fs::write(client.stage.file("failing"), "").unwrap();
    again(&client, &mut request, 1);
    client.stage.call(&["undo", "exec-002"]).exits(0);
    assert_eq!(
        (client.text("merged/ok.txt"), client.text("artifacts/a/ok.txt")),
        ("fine\n".into(), "fine\n".into())
    );
    assert_eq!(client.text("receipt.json"), receipt);
    client.stage.call(&["verify", "exec-001"]).exits(0);
    client.stage.call(&["undo", "exec-001"]).exits(0);
    for gone in ["merged", "ok.txt", "receipt.json", "artifacts/a"] {
        assert!(!client.workspace(gone).exists(), "{gone}");
    }
}
