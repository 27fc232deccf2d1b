//! What a report tells beside success: what nobody declared, what a result leaves out, and where everything
//! is.

use serde_json::{Value, json};

use crate::client::{Client, agent_of};
use crate::crew::launchers;

/// Writes a result that names these files.
fn result_naming(files: &str) -> String {
    format!(
        "printf '{{\"task_id\":\"%s\",\"status\":\"success\",\"output\":{{\"files_created\":[{files}]}}}}' \"$WK_TASK_ID\" > $WK_RESULT"
    )
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn assigned(client: &Client, tasks: &[(&str, Value)]) -> Value {
    std::fs::create_dir_all(client.workspace("")).unwrap();
    let task = |(id, outputs): &(&str, Value)| {
        let context = client.stage.file(&format!("context-{id}.md"));
        std::fs::write(&context, format!("# Do {id}\n")).unwrap();
        let agent = client.stage.file("agents").join(id);
        let mut task = json!({"id": id, "agent": agent, "context_path": context, "dependencies": []});
        if !outputs.is_null() {
            task["outputs"] = outputs.clone();
        }
        task
    };
    json!({
        "tasks": tasks.iter().map(task).collect::<Vec<Value>>(),
        "environment": {"workspace_dir": client.workspace("")},
        "success_criteria": {},
    })
}

fn task_of<'a>(report: &'a Value, id: &str) -> &'a Value {
    report["tasks"].as_array().unwrap().iter().find(|task| task["id"] == id).unwrap()
}

#[test]
fn declared_files_that_a_result_leaves_out_are_told() {
    let client = Client::new();
    let write = "mkdir -p $WK_OUTPUT_CODE; echo 1 > $WK_OUTPUT_CODE/a.py; echo 2 > $WK_OUTPUT_CODE/b.py";
    client.agent("teller", &format!("{write}\n{}", result_naming("\"outputs/teller/code/a.py\"")));
    client.agent("whole", &format!("{write}\n{}", result_naming("\"outputs/whole/code\"")));
    client.agent("silent", write);
    let entries = ["teller", "whole", "silent"].map(|name| client.entry(name, &[("code", "code")], &[]));
    let mut request = client.request(&entries);
    request["merge_strategy"]["type"] = json!("report_aggregation");
    client.run(&request).exits(0);
    let report = client.report();
    let left_out = client.workspace("outputs/teller/code/b.py");
    assert_eq!(agent_of(&report, "teller")["unclaimed_changes"], json!([left_out]), "{report:#}");
    for name in ["whole", "silent"] {
        assert_eq!(agent_of(&report, name)["unclaimed_changes"], json!([]), "{name}: {report:#}");
    }
    assert!(report["warnings"].to_string().contains("unclaimed_changes"), "{report:#}");
}

#[test]
fn what_a_task_changes_beside_its_outputs_is_told_with_its_name() {
    let client = Client::new();
    client.agent("A", "mkdir -p outA; echo 1 > outA/x; echo 2 > stray_A.txt; echo 3 >> given.md");
    let request = assigned(&client, &[("A", json!(["outA"]))]);
    std::fs::write(client.workspace("given.md"), "as it was\n").unwrap();
    client.run(&request).exits(0);
    let report = client.report();
    assert_eq!(
        texts(&task_of(&report, "A")["undeclared_changes"]),
        ["given.md", "stray_A.txt"],
        "{report:#}"
    );
    assert!(report["warnings"].to_string().contains("changed, but not declared"), "{report:#}");
}

#[test]
fn what_fits_the_required_artifacts_is_declared_by_whoever_makes_it() {
    let client = Client::new();
    client
        .agent("A", "mkdir -p build/deep; echo 1 > build/deep/x.html; echo 2 > notes.txt; mkdir -p other/y");
    let mut request = assigned(&client, &[("A", Value::Null)]);
    request["success_criteria"] = json!({"required_artifacts": ["build/**/*.html"]});
    client.run(&request).exits(0);
    let report = client.report();
    let told = task_of(&report, "A")["undeclared_changes"].clone();
    assert_eq!(texts(&told), ["notes.txt", "other", "other/y"], "{report:#}");
}

#[test]
fn one_output_is_missing_once_and_under_one_name() {
    let client = Client::new();
    client.agent("lazy", "true");
    client.run(&client.request(&[client.entry("lazy", &[("o", "bad.txt")], &[])])).exits(1);
    let report = client.report();
    let missing = client.workspace("outputs/lazy/bad.txt");
    assert_eq!(agent_of(&report, "lazy")["missing_declared"], json!([missing]), "{report:#}");
}

#[test]
fn paths_in_a_report_on_assignments_are_relative_to_the_workspace() {
    let client = Client::new();
    client.agent("A", "mkdir -p out; echo 1 > out/x");
    client.run(&assigned(&client, &[("A", json!({"o": "out"}))])).exits(0);
    let report = client.report();
    assert_eq!(task_of(&report, "A")["outputs_produced"], json!({"o": "out"}), "{report:#}");
    client.judge("execution_report.json", "assignments-report");
}

#[test]
fn a_report_has_what_the_request_said_of_itself_and_whom_each_warning_is_about() {
    let client = Client::new();
    client.agent("a", "echo 1 > $WK_OUTPUT_NOTE").agent("b", "exit 1").agent("c", "true");
    let mut second = client.entry("b", &[], &[]);
    std::fs::create_dir_all(client.workspace("inputs")).unwrap();
    std::fs::write(client.workspace("inputs/spec.md"), "spec\n").unwrap();
    second["task"]["inputs"] = json!({"spec": client.stage.file("spec.md")});
    let entries = [client.entry("a", &[("note", "n.md")], &[]), second, client.entry("c", &[], &["b"])];
    let mut request = client.request(&entries);
    request["execution_options"]["log_level"] = json!("debug");
    client.run(&request).exits(3);
    let report = client.report();
    assert_eq!(
        (&report["log_level"], &report["request_timestamp"]),
        (&json!("debug"), &json!("2025-10-30T14:30:00Z")),
        "{report:#}"
    );
    let warnings = report["warnings"].as_array().unwrap();
    let of_request = warnings.iter().find(|warning| warning["code"] == "request").expect("a warning");
    assert_eq!(of_request["agent"], "b", "{of_request:#}");
    let remedy = |name: &str| agent_of(&report, name)["error"]["remedy"].as_str().unwrap().to_owned();
    assert_eq!(remedy("b"), "read what it printed: wk logs exec-001/b");
    assert!(remedy("c").ends_with("wk why exec-001/b"), "{}", remedy("c"));
    client.judge("execution_report.json", "execution-report");
}

#[test]
fn criteria_have_logs_of_their_own_and_a_check_that_did_not_start_verifies_nothing() {
    let client = Client::new();
    client.agent("a", "true");
    let mut entry = client.entry("a", &[], &[]);
    entry["task"]["success_criteria"] = json!({
        "a-b": {"shell": "test -d . && echo first"}, "a/b": {"shell": "test -d . && echo second"},
        "gone": {"cmd": ["/no/such/program"]},
    });
    client.run(&client.request(&[entry])).exits(1);
    let logs = ["a-b", "a-b-2"].map(|name| client.text(&format!("logs/a/checks/{name}.out")));
    assert_eq!(logs, ["first\n", "second\n"]);
    let report = client.report();
    let agent = agent_of(&report, "a");
    assert_eq!(agent["success_criteria_evidence"]["a-b"], "verified", "{agent:#}");
    assert_eq!(agent["success_criteria_evidence"]["gone"], "claimed", "{agent:#}");
    assert_eq!(agent["success_criteria_met"]["gone"], false, "{agent:#}");
}

#[test]
fn a_merge_that_could_not_be_published_leaves_no_receipt() {
    let client = Client::new();
    client.agent("a", "echo 1 > $WK_OUTPUT_NOTE; echo in the way > $WK_WORKSPACE/merged");
    client.run(&client.request(&[client.entry("a", &[("note", "n.md")], &[])])).exits(1);
    assert_eq!(client.report()["merge_result"]["receipt"], Value::Null);
    assert!(!client.workspace("receipt.json").exists());
}

#[test]
fn the_receipt_of_a_conflict_is_named_by_the_report() {
    let client = Client::new();
    client.agent("a", "echo 1 > $WK_OUTPUT_NOTE").agent("b", "echo 2 > $WK_OUTPUT_NOTE");
    let entries = ["a", "b"].map(|name| client.entry(name, &[("note", "n.md")], &[]));
    client.run(&client.request(&entries)).exits(6);
    let receipt = client.report()["merge_result"]["receipt"].clone();
    assert_eq!(receipt, json!(client.workspace("receipt.json")));
    assert!(client.workspace("receipt.json").exists());
}

#[test]
fn the_live_status_names_the_session_that_can_be_watched() {
    if !launchers().contains(&"tmux") {
        return;
    }
    let client = Client::with_tmux();
    client.agent("painter", "until test -e go; do sleep 0.05; done");
    let run = client.start(&client.request(&[client.entry("painter", &[], &[])]), &["--launcher", "tmux"]);
    let named = || {
        let text = std::fs::read_to_string(client.workspace("status.json")).ok()?;
        let status: Value = serde_json::from_str(&text).ok()?;
        status["agents"][0]["tmux_session"].as_str().map(str::to_owned)
    };
    let session = client.stage.wait_for("a session is named", named);
    client.judge("status.json", "workspace-status");
    std::fs::write(client.workspace("go"), "").unwrap();
    run.ends().exits(0);
    assert_eq!(agent_of(&client.report(), "painter")["tmux_session"], json!(session));
    assert_eq!(client.json("status.json")["agents"][0]["tmux_session"], json!(session));
}
