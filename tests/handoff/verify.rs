//! What is declared is enforced, and criteria are measured rather than believed.

use serde_json::json;

use crate::client::{Client, agent_of};

#[test]
fn an_output_that_is_missing_or_empty_fails_the_agent_whatever_it_says() {
    let client = Client::new();
    client.agent("liar", ": > $WK_OUTPUT_EMPTY");
    let entry = client.entry("liar", &[("gone", "gone.md"), ("empty", "empty.md")], &[]);
    client.run(&client.request(&[entry])).exits(1);
    let report = client.report();
    assert_eq!(agent_of(&report, "liar")["status"], "failure");
    let errors = report["errors"].to_string();
    assert!(errors.contains("gone") && errors.contains("is empty"), "{report:#}");
}

#[test]
fn a_floor_is_measured_by_its_command_and_the_value_is_in_the_report() {
    let client = Client::new();
    client.agent("coder", "echo covered > $WK_OUTPUT_CODE");
    let mut entry = client.entry("coder", &[("code", "code.py")], &[]);
    entry["task"]["success_criteria"] = json!({
        "coverage": {"cmd": ["sh", "-c", "echo 'TOTAL 40 6 85%'"], "min": 80},
        "tests_pass": {"cmd": ["test", "-s", client.workspace("outputs/coder/code.py")]},
        "is_nice": true,
    });
    client.run(&client.request(&[entry])).exits(0);
    let report = client.report();
    let agent = agent_of(&report, "coder");
    assert_eq!(agent["success_criteria_met"], json!({"coverage": 85, "tests_pass": true, "is_nice": true}));
    let grade = |name: &str| agent["success_criteria_evidence"][name].as_str().unwrap().to_owned();
    assert_eq!((grade("coverage"), grade("is_nice")), ("verified".into(), "claimed".into()));
    assert!(report["warnings"].to_string().contains("is_nice"), "{report:#}");
}

#[test]
fn a_criterion_that_is_not_met_fails_the_agent() {
    let client = Client::new();
    client.agent("coder", "true");
    let mut entry = client.entry("coder", &[], &[]);
    entry["task"]["success_criteria"] = json!({"coverage": {"cmd": ["echo", "75"], "min": 80}});
    client.run(&client.request(&[entry])).exits(1);
    let report = client.report();
    assert_eq!(agent_of(&report, "coder")["success_criteria_met"]["coverage"], 75);
    assert!(report["errors"].to_string().contains("at least 80"), "{report:#}");
}

#[test]
fn what_an_agent_says_against_itself_counts() {
    let client = Client::new();
    client.agent("honest", "echo '{\"task_id\":\"honest\",\"status\":\"success\",\"output\":{},\"success_criteria_met\":{\"coverage\":70}}' > $WK_RESULT");
    let mut entry = client.entry("honest", &[], &[]);
    entry["task"]["success_criteria"] = json!({"coverage": 80});
    client.run(&client.request(&[entry])).exits(1);
}

#[test]
fn an_agents_word_that_is_no_value_does_not_meet_a_floor() {
    let client = Client::new();
    client.agent("vague", "echo '{\"task_id\":\"vague\",\"status\":\"success\",\"output\":{},\"success_criteria_met\":{\"coverage\":\"79%\",\"tests_pass\":\"no\"}}' > $WK_RESULT");
    let mut entry = client.entry("vague", &[], &[]);
    entry["task"]["success_criteria"] = json!({"coverage": 80, "tests_pass": true});
    client.run(&client.request(&[entry])).exits(1);
    let report = client.report();
    let met = &agent_of(&report, "vague")["success_criteria_met"];
    assert_eq!(*met, json!({"coverage": 79, "tests_pass": false}), "{report:#}");
}

#[test]
fn what_a_check_says_is_redacted_as_its_agents_words_are() {
    let client = Client::new();
    client.agent("coder", "true");
    let mut entry = client.entry("coder", &[], &[]);
    entry["task"]["success_criteria"] =
        json!({"secretive": {"cmd": ["sh", "-c", "echo key AKIAIOSFODNN7EXAMPLE; exit 1"]}});
    client.run(&client.request(&[entry])).exits(1);
    assert!(!client.text("execution_report.json").contains("AKIAIOSFODNN7EXAMPLE"));
}

#[test]
fn files_that_nobody_declared_are_told() {
    let client = Client::new();
    std::fs::create_dir_all(client.stage.file("codebase")).unwrap();
    std::fs::write(client.stage.file("codebase/app.py"), "before\n").unwrap();
    client.agent("wanderer", "echo changed > $WK_INPUT_CODEBASE/app.py; echo x > $WK_OUTPUT_NOTE");
    let mut entry = client.entry("wanderer", &[("note", "note.md")], &[]);
    entry["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
    client.run(&client.request(&[entry])).exits(0);
    let report = client.report();
    let changed = client.stage.file("codebase/app.py").canonicalize().unwrap();
    let changed = changed.to_str().unwrap();
    assert_eq!(agent_of(&report, "wanderer")["undeclared_changes"], json!([changed]), "{report:#}");
    let warnings = report["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|warning| warning["code"] == "undeclared_changes").unwrap();
    assert_eq!(told["agent"], "wanderer", "{report:#}");
    assert!(told["message"].as_str().unwrap().contains(changed), "{report:#}");
}

#[test]
fn what_changed_while_several_ran_is_told_of_nobody() {
    let client = Client::new();
    std::fs::create_dir_all(client.stage.file("codebase")).unwrap();
    let script =
        "touch ../$NAME.begun; while [ ! -e ../one.begun ] || [ ! -e ../two.begun ]; do sleep 0.02; done
        echo $NAME >> $WK_INPUT_CODEBASE/app.py; touch ../$NAME.ended
        while [ ! -e ../one.ended ] || [ ! -e ../two.ended ]; do sleep 0.02; done";
    let entry = |name: &str| {
        client.agent(name, &script.replace("$NAME", name));
        let mut entry = client.entry(name, &[], &[]);
        entry["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
        entry
    };
    client.run(&client.request(&[entry("one"), entry("two")])).exits(0);
    let report = client.report();
    let warnings = report["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|warning| warning["code"] == "undeclared_changes").unwrap();
    assert_eq!(told["agent"], json!(null), "{report:#}");
    assert!(told["message"].as_str().unwrap().contains("codebase/app.py"), "{report:#}");
    assert_eq!(agent_of(&report, "one")["undeclared_changes"], json!([]));
}

#[test]
fn what_an_agent_does_in_anothers_outputs_is_told_of_it() {
    let client = Client::new();
    client.agent("maker", "echo made > $WK_OUTPUT_NOTE");
    client.agent(
        "meddler",
        // Longer than a tick of the kernel's clock for files, within which nobody could tell who wrote.
        "sleep 0.1; cd $WK_WORKSPACE/outputs/maker; echo mine > note.md; echo more > more.md; echo x > $WK_OUTPUT_OWN",
    );
    let maker = client.entry("maker", &[("note", "note.md")], &[]);
    let meddler = client.entry("meddler", &[("own", "own.md")], &["maker"]);
    client.run(&client.request(&[maker, meddler])).exits(0);
    let report = client.report();
    assert_eq!(agent_of(&report, "maker")["undeclared_changes"], json!([]));
    let changes = agent_of(&report, "meddler")["undeclared_changes"].to_string();
    assert!(changes.contains("maker/note.md") && changes.contains("maker/more.md"), "{report:#}");
    assert_eq!(client.text("merged/note.md"), "made\n");
}

#[test]
fn what_a_check_printed_is_in_the_workspace_and_shown_with_the_logs() {
    let client = Client::new();
    client.agent("coder", "echo coded");
    let mut entry = client.entry("coder", &[], &[]);
    let check = "echo tested; echo key AKIAIOSFODNN7EXAMPLE; echo trouble >&2; test -d .";
    entry["task"]["success_criteria"] = json!({"tests pass": {"cmd": ["sh", "-c", check]}});
    client.run(&client.request(&[entry])).exits(0);
    let printed = client.text("logs/coder/checks/tests-pass.out");
    assert!(printed.starts_with("tested\n") && !printed.contains("AKIAIOSFODNN7EXAMPLE"), "{printed}");
    assert_eq!(client.text("logs/coder/checks/tests-pass.err"), "trouble\n");
    let told = client.stage.call(&["logs", "exec-001/coder"]).exits(0).says("coded").says("tested");
    assert!(told.err.contains("check tests_pass") && told.err.contains("trouble"), "{}", told.err);
    let told = client.stage.call(&["logs", "exec-001/coder", "--json"]).exits(0).json();
    assert_eq!(told["checks"]["tests_pass"]["stderr"], "trouble\n");
}
