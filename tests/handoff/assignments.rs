//! Assignments: tasks that share a workspace, markers and artifacts by task, one command that validates the whole.

use serde_json::{Value, json};

use crate::client::Client;

fn assignments(client: &Client, tasks: &[Value]) -> Value {
    std::fs::create_dir_all(client.workspace("")).unwrap();
    json!({
        "tasks": tasks,
        "environment": {"workspace_dir": client.workspace(""), "env_vars": ["GREETING=hello"]},
        "success_criteria": {"required_artifacts": ["*.txt"], "tests_cmd": "cat a.txt b.txt"},
        "execution_mode": {"verify": true},
    })
}

fn task(client: &Client, id: &str, dependencies: &[&str]) -> Value {
    let context = client.stage.file(&format!("context-{id}.md"));
    std::fs::write(&context, format!("# Write {id}.txt\n")).unwrap();
    json!({"id": id, "agent": client.stage.file("agents").join("writer"), "context_path": context, "dependencies": dependencies})
}

fn with_writer(script: &str) -> Client {
    let client = Client::new();
    client.agent("writer", script);
    client
}

#[test]
fn tasks_run_in_order_and_the_report_has_the_seeds_shape() {
    let client = with_writer("echo \"$GREETING $WK_TASK\" > $WK_TASK.txt; cat $WK_CONTEXT");
    let request = assignments(&client, &[task(&client, "a", &[]), task(&client, "b", &["a"])]);
    client.run(&request).exits(0);
    let report = client.report();
    assert_eq!(
        report["summary"],
        json!({"completed": true, "failed_tasks": [], "validation": "passed", "conflicts": []}),
        "{report:#}"
    );
    assert_eq!(report["merge"]["result"], "success");
    client.judge("execution_report.json", "assignments-report");
    let first = &report["tasks"][0];
    assert_eq!((first["id"].as_str(), first["status"].as_str()), (Some("a"), Some("success")));
    assert_eq!(report["tasks"].as_array().unwrap().len(), 2, "{report:#}");
    assert_eq!(first["artifacts"], json!(["artifacts/a/"]));
    assert!(client.text(first["logs"]["stdout"].as_str().unwrap()).contains("Write a.txt"));
    assert_eq!(client.text("artifacts/a/a.txt"), "hello a\n");
    assert_eq!(client.text("artifacts/b/b.txt"), "hello b\n");
    for name in ["a", "b"] {
        assert!(client.workspace(&format!("status/{name}.success")).exists());
        assert!(!client.workspace(&format!("status/{name}.running")).exists());
    }
}

#[test]
fn a_failed_task_stops_its_dependents_and_nothing_is_merged() {
    let client = with_writer("test $WK_TASK != a");
    let request = assignments(&client, &[task(&client, "a", &[]), task(&client, "b", &["a"])]);
    client.run(&request).exits(1);
    let report = client.report();
    assert_eq!(report["summary"]["completed"], false);
    assert_eq!(report["merge"]["result"], "skipped", "{report:#}");
    assert!(client.workspace("status/a.failed").exists() && client.workspace("status/b.failed").exists());
    assert!(!client.workspace("merged").exists());
}

#[test]
fn a_command_that_validates_the_whole_decides() {
    let client = with_writer("echo x > $WK_TASK.txt");
    let mut request = assignments(&client, &[task(&client, "a", &[])]);
    request["success_criteria"]["tests_cmd"] = json!(["sh", "-c", "echo not good enough; exit 1"]);
    client.run(&request).exits(1);
    let report = client.report();
    assert_eq!(
        (report["summary"]["validation"].as_str(), report["summary"]["completed"].as_bool()),
        (Some("failed"), Some(false))
    );
    assert!(!client.workspace("merged").exists());
    let logs = std::fs::read_dir(client.workspace("logs")).unwrap().map(|entry| entry.unwrap().path());
    let of_validation = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("validation-") && name.ends_with(".out")
    };
    let printed: Vec<String> =
        logs.filter(of_validation).map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert_eq!(printed, ["not good enough\n"]);
}

#[test]
fn an_artifact_that_nobody_made_fails_the_validation() {
    let client = with_writer("echo x > $WK_TASK.txt");
    let mut request = assignments(&client, &[task(&client, "a", &[])]);
    request["success_criteria"] = json!({"required_artifacts": ["*.txt", "dist/**/*.whl"]});
    client.run(&request).exits(1);
    assert_eq!(client.report()["summary"]["validation"], "failed");
    assert!(client.text("execution_report.json").contains("dist/**/*.whl"));
}

#[test]
fn what_a_task_must_bring_is_asked_beside_what_the_whole_must_have() {
    let client = with_writer("echo x > $WK_TASK.txt; echo y > $WK_TASK.own");
    let mut own = task(&client, "a", &[]);
    own["success_criteria"] = json!({"required_artifacts": ["a.own"]});
    let mut request = assignments(&client, &[own.clone()]);
    request["success_criteria"] = json!({"required_artifacts": ["*.txt"]});
    client.run(&request).exits(0);
    assert_eq!(
        (client.text("artifacts/a/a.own"), client.text("artifacts/a/a.txt")),
        ("y\n".into(), "x\n".into())
    );
}

#[test]
fn without_verification_no_command_of_the_request_runs() {
    let client = with_writer("echo x > $WK_TASK.txt");
    let mut request = assignments(&client, &[task(&client, "a", &[])]);
    request["success_criteria"] = json!({"required_artifacts": [], "tests_cmd": "touch tested; false"});
    request["execution_mode"] = json!({"verify": false});
    client.run(&request).exits(0);
    assert!(!client.workspace("tested").exists());
    assert_eq!(client.report()["summary"]["validation"], "skipped");
}

#[test]
fn artifacts_are_looked_for_without_verification_too() {
    let client = with_writer("echo x >> $WK_TASK.txt");
    let request = |id: &str, artifacts: &[&str]| {
        let mut request = assignments(&client, &[task(&client, "a", &[])]);
        request["execution_id"] = json!(id);
        request["success_criteria"] = json!({"required_artifacts": artifacts, "tests_cmd": "touch tested"});
        request["execution_mode"] = json!({"verify": false});
        request
    };
    client.run(&request("lacks", &["dist/*.js"])).exits(1);
    assert_eq!(client.report()["summary"]["completed"], false, "{:#}", client.report());
    assert_eq!(client.report()["summary"]["validation"], "failed");
    client.run(&request("has", &["./a.txt"])).exits(0);
    assert_eq!(client.report()["summary"]["validation"], "skipped", "nobody asked for it");
    assert_eq!(
        client.report()["warnings"],
        json!([]),
        "what fits a pattern is declared, however that is spelled"
    );
    assert!(!client.workspace("tested").exists());
}

/// Both begin before either has ended.
const TOGETHER: &str = "touch $WK_TASK.here; until test -e a.here -a -e b.here; do sleep 0.05; done";

fn says_that_it_wrote(file: &str) -> String {
    format!(
        "echo \"{{\\\"task_id\\\":\\\"$WK_TASK_ID\\\",\\\"status\\\":\\\"success\\\",\
         \\\"output\\\":{{\\\"files_created\\\":[\\\"{file}\\\"]}}}}\" > $WK_RESULT"
    )
}

#[test]
fn two_tasks_that_wrote_one_file_side_by_side_are_a_conflict_and_nothing_is_completed() {
    let claim = says_that_it_wrote("./shared.txt");
    let client = with_writer(&format!("echo $WK_TASK > shared.txt; {TOGETHER}; {claim}"));
    let mut request = assignments(&client, &[task(&client, "a", &[]), task(&client, "b", &[])]);
    request["execution_id"] = json!("exec-001");
    request["success_criteria"] = json!({"required_artifacts": ["shared.txt"]});
    client.run(&request).exits(6);
    let report = client.report();
    assert_eq!(report["summary"]["completed"], false, "{report:#}");
    let conflict = client.json("conflicts.json")["conflicts"][0].clone();
    assert_eq!((&conflict["kind"], &conflict["path"]), (&json!("side_by_side"), &json!("shared.txt")));
    assert_eq!(conflict["agents"], json!(["a", "b"]));
    assert_eq!(client.json("receipt.json")["totals"]["escalated"], 2);
    assert!(!client.workspace("merged").exists());
    client.stage.call(&["resolve", "exec-001", "--ours", "shared.txt"]).exits(0);
    assert_eq!(client.report()["summary"]["completed"], true);
    let receipt = client.json("receipt.json");
    assert_eq!(receipt["totals"]["kept"], 0, "whose content it is nobody knows: {receipt:#}");
}

#[test]
fn files_that_tasks_made_each_for_itself_side_by_side_are_no_conflict() {
    let claim = says_that_it_wrote("$WK_TASK.txt");
    let client = with_writer(&format!("echo $WK_TASK > $WK_TASK.txt; {TOGETHER}; {claim}"));
    let request = assignments(&client, &[task(&client, "a", &[]), task(&client, "b", &[])]);
    client.run(&request).exits(0);
    let warnings = client.report()["warnings"].to_string();
    assert!(!warnings.contains("nobody can tell"), "each of them says what it wrote: {warnings}");
    let receipt = client.json("receipt.json");
    let lines = receipt["lines"].as_array().unwrap();
    let told: Vec<(&str, &str)> =
        lines.iter().map(|line| (line["agent"].as_str().unwrap(), line["path"].as_str().unwrap())).collect();
    assert_eq!(told, [("a", "a.txt"), ("b", "b.txt")], "{receipt:#}");
}

#[test]
fn a_file_that_was_written_over_side_by_side_is_a_conflict_though_no_agent_says_a_word() {
    let client = with_writer(&format!(
        "test $WK_TASK = a || until test -s shared.txt; do sleep 0.05; done; test $WK_TASK = a || sleep 1
        echo $WK_TASK > shared.txt; {TOGETHER}"
    ));
    let mut request = assignments(&client, &[task(&client, "a", &[]), task(&client, "b", &[])]);
    request["success_criteria"] = json!({"required_artifacts": ["*.txt"]});
    client.run(&request).exits(6);
    let report = client.report();
    assert_eq!(report["summary"]["completed"], false, "{report:#}");
    assert_eq!(client.json("conflicts.json")["conflicts"][0]["kind"], "side_by_side");
}

#[test]
fn files_that_grew_side_by_side_are_told_and_are_no_conflict() {
    let client = with_writer(&format!(
        "echo one > $WK_TASK.txt; echo two >> $WK_TASK.txt; {TOGETHER}; echo three >> $WK_TASK.txt"
    ));
    let request = assignments(&client, &[task(&client, "a", &[]), task(&client, "b", &[])]);
    client.run(&request).exits(0);
    assert_eq!(client.text("merged/a.txt"), "one\ntwo\nthree\n");
    let receipt = client.json("receipt.json");
    for line in receipt["lines"].as_array().unwrap() {
        let is_alone = receipt["lines"]
            .as_array()
            .unwrap()
            .iter()
            .all(|other| other["path"] != line["path"] || other["agent"] == line["agent"]);
        assert!(is_alone || line["fate"]["is"] != "kept", "whose it is nobody knows: {receipt:#}");
    }
}

#[test]
fn a_secret_of_the_request_is_told_to_nobody_who_did_not_have_it() {
    let client = with_writer(
        "echo \"{\\\"task_id\\\":\\\"$WK_TASK_ID\\\",\\\"status\\\":\\\"failed\\\",\\\"output\\\":{},\\\"errors\\\":[\\\"401 for $ACCESS\\\"]}\" > $WK_RESULT",
    );
    let mut request = assignments(&client, &[task(&client, "a", &[])]);
    request["environment"]["env_vars"] = json!({"ACCESS": "correct horse battery"});
    let told = client.run(&request).exits(1);
    let report = client.text("execution_report.json");
    assert!(report.contains("401 for"), "{report}");
    for text in [&report, &told.out, &told.err] {
        assert!(!text.contains("correct horse battery"), "{text}");
    }
}

#[test]
fn where_nothing_was_looked_at_nothing_is_validated() {
    let client = with_writer("true");
    let mut request = assignments(&client, &[task(&client, "a", &[])]);
    request.as_object_mut().unwrap().remove("success_criteria");
    client.run(&request).exits(0);
    assert_eq!(client.report()["summary"]["validation"], "skipped", "{:#}", client.report());
}

#[test]
fn each_task_has_one_marker_at_a_time_and_shows_that_it_runs() {
    let client =
        with_writer("until [ -e ../seen-$WK_TASK ]; do sleep 0.02; done; echo \"$WK_TASK\" > $WK_TASK.txt");
    let request = assignments(&client, &[task(&client, "a", &[]), task(&client, "b", &["a"])]);
    let run = client.start(&request, &[]);
    let markers = |task: &str| -> Vec<String> {
        let names = std::fs::read_dir(client.workspace("status")).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&format!("{task}."))).collect()
    };
    client.stage.wait_for("the end", || {
        for task in ["a", "b"] {
            let shown = markers(task);
            // A listing is no moment: a name that turned into another while it was read may be in it twice.
            assert!(shown.len() < 2 || markers(task).len() < 2, "{shown:?}");
            if shown == [format!("{task}.running")] {
                std::fs::write(client.stage.file(&format!("seen-{task}")), "").unwrap();
            }
        }
        run.has_ended().then_some(())
    });
    run.ends().exits(0);
    assert_eq!([markers("a"), markers("b")], [["a.success"], ["b.success"]]);
}
