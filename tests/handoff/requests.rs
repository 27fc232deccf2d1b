//! Execution requests: what goes in, what comes back, and what is refused before anything is made.

use serde_json::{Value, json};

use crate::client::{Client, agent_of};
use crate::crew::launchers;
use crate::scene::Ran;

const GRAPH: &str = r#"{"metadata": {"agent": "NAME", "timestamp": "2025-10-30T14:30:00Z", "version": "1.0"}, "nodes": [{"id": "NAME-1", "type": "module", "name": "auth", "attributes": {}}], "edges": []}"#;

/// The seed's own example, but for paths and for what its agents do.
fn seeds_example(client: &Client) -> Value {
    std::fs::create_dir_all(client.stage.file("given/codebase")).unwrap();
    std::fs::write(client.stage.file("given/auth-spec.md"), "# Authentication\n").unwrap();
    let graph = |name: &str| GRAPH.replace("NAME", name);
    client.agent(
        "code-generator",
        &format!(
            "mkdir -p $WK_OUTPUT_CODE $WK_OUTPUT_TESTS\ncat $WK_INPUT_REQUIREMENTS > $WK_OUTPUT_CODE/auth.py\n\
             echo test > $WK_OUTPUT_TESTS/test_auth.py\necho '{}' > $WK_OUTPUT_CTXPACK\necho generated\n\
             echo '{{\"task_id\": \"code-generator\", \"status\": \"success\", \"output\": {{}}, \"metrics\": \
             {{\"lines_of_code\": 1247, \"test_count\": 42}}, \"success_criteria_met\": {{\"coverage\": 85}}}}' > $WK_RESULT",
            graph("gen")
        ),
    );
    client.agent(
        "code-reviewer",
        &format!("test -s $WK_INPUT_CODE/auth.py\necho '# fine' > $WK_OUTPUT_REVIEW\necho '{}' > $WK_OUTPUT_CTXPACK", graph("rev")),
    );
    let outputs = client.workspace("outputs");
    let mut generator = client.entry(
        "code-generator",
        &[("code", "code"), ("tests", "tests"), ("ctxpack", "output.ctxp")],
        &[],
    );
    generator["task"]["inputs"] = json!({
        "requirements": client.stage.file("given/auth-spec.md"), "codebase": client.stage.file("given/codebase"),
    });
    generator["task"]["success_criteria"] =
        json!({"tests_pass": true, "no_lint_errors": true, "coverage": 80});
    let mut reviewer = client.entry(
        "code-reviewer",
        &[("review", "review.md"), ("ctxpack", "output.ctxp")],
        &["code-generator"],
    );
    reviewer["task"]["inputs"] = json!({"code": outputs.join("code-generator/code")});
    reviewer["task"]["success_criteria"] =
        json!({"no_critical_issues": true, "security_checklist_complete": true});
    json!({
        "execution_id": "exec-20251030-1430-abc123",
        "request_timestamp": "2025-10-30T14:30:00Z",
        "workspace_root": client.workspace(""),
        "agents": [generator, reviewer],
        "merge_strategy": {
            "type": "ctxpack_union", "conflict_resolution": "manual_review",
            "validation": {"semantic_consistency": true, "schema_validation": true},
        },
        "execution_options": {
            "parallel_limit": 4, "retry_on_failure": true, "max_retries": 2, "checkpoint_enabled": true, "log_level": "info",
        },
    })
}

#[test]
fn the_seeds_own_example_runs_and_its_report_says_everything_that_the_seed_lists() {
    let client = Client::new();
    let request = seeds_example(&client);
    client.run(&request).exits(0);
    let report = client.report();
    assert_eq!(report["status"], "success", "{report:#}");
    client.judge("execution_report.json", "execution-report");
    client.judge("receipt.json", "receipt");
    client.judge("status.json", "workspace-status");
    assert_eq!(report["execution_id"], "exec-20251030-1430-abc123");
    let generator = agent_of(&report, "code-generator");
    assert_eq!(generator["success_criteria_met"]["coverage"], 85);
    assert_eq!(generator["metrics"]["lines_of_code"], 1247);
    assert!(generator["metrics"]["peak_memory_mb"].is_u64() && generator["tmux_session"].is_null());
    assert_eq!(generator["exit_code"], 0);
    assert_eq!(client.text("logs/code-generator/stdout.log"), "generated\n");
    let merge = &report["merge_result"];
    assert_eq!(
        (merge["status"].as_str(), merge["validation_passed"].as_bool()),
        (Some("success"), Some(true))
    );
    let merged = |name: &str| json!(client.workspace("merged").join(name));
    assert_eq!(merge["merged_ctxpack"], merged("integrated.ctxp"));
    assert_eq!(merge["merged_files"], json!([merged("code"), merged("review.md"), merged("tests")]));
    let united = client.json("merged/integrated.ctxp");
    assert_eq!(united["nodes"].as_array().unwrap().len(), 2, "{united:#}");
    for place in [
        "inputs",
        "outputs",
        "logs",
        "tmux",
        "merged",
        "checkpoint/checkpoint.tar.gz",
        "status.json",
        "execution_request.json",
    ] {
        assert!(client.workspace(place).exists(), "{place}");
    }
    assert!(!client.workspace("conflicts.json").exists());
    assert_eq!(client.json("status.json")["status"], "success");
}

#[test]
fn dependents_of_a_failure_are_skipped_and_independent_agents_go_on() {
    let client = Client::new();
    client
        .agent("bad", "echo broken >&2; exit 3")
        .agent("after", "true")
        .agent("other", "echo x > $WK_OUTPUT_NOTE");
    let agents = [
        client.entry("bad", &[], &[]),
        client.entry("after", &[], &["bad"]),
        client.entry("other", &[("note", "note.md")], &[]),
    ];
    client.run(&client.request(&agents)).exits(3);
    let report = client.report();
    let status = |name: &str| agent_of(&report, name)["status"].as_str().unwrap().to_owned();
    assert_eq!(
        (status("bad"), status("after"), status("other")),
        ("failure".into(), "skipped".into(), "success".into())
    );
    assert_eq!(report["status"], "partial_success");
    assert_eq!(agent_of(&report, "bad")["exit_code"], 3);
    assert!(report["errors"].to_string().contains("broken"), "{report:#}");
}

#[test]
fn an_agent_that_exceeds_its_timeout_is_a_timeout_and_its_partial_output_stays() {
    let client = Client::new();
    client.agent("slow", "echo half > $WK_OUTPUT_NOTE; sleep 60");
    let mut slow = client.entry("slow", &[("note", "note.md")], &[]);
    slow["timeout"] = json!(8);
    client.run(&client.request(&[slow])).exits(1);
    let report = client.report();
    let slow = agent_of(&report, "slow");
    assert_eq!(slow["status"], "timeout", "{report:#}");
    assert_eq!(
        slow["outputs_produced"]["note"],
        json!(client.workspace("outputs/slow/note.md")),
        "{report:#}"
    );
    assert_eq!(client.text("outputs/slow/note.md"), "half\n");
}

#[test]
fn the_overall_timeout_ends_everybody_and_saves_what_is_there() {
    let client = Client::new();
    client.agent("slow", "echo half > $WK_OUTPUT_NOTE; sleep 60");
    let mut request = client.request(&[client.entry("slow", &[("note", "note.md")], &[])]);
    request["execution_options"]["overall_timeout"] = json!(10);
    client.run(&request).exits(4);
    assert_eq!(client.report()["status"], "timeout");
    assert_eq!(client.text("outputs/slow/note.md"), "half\n");
}

#[test]
fn an_agent_that_never_began_before_the_time_was_up_is_skipped() {
    let client = Client::new();
    client.agent("slow", "sleep 60").agent("next", "true");
    let entries = [client.entry("slow", &[], &[]), client.entry("next", &[], &["slow"])];
    let mut request = client.request(&entries);
    request["execution_options"]["overall_timeout"] = json!(10);
    client.run(&request).exits(4);
    let report = client.report();
    assert_eq!(agent_of(&report, "slow")["status"], "timeout");
    let next = agent_of(&report, "next");
    assert_eq!((&next["status"], &next["attempts"]), (&json!("skipped"), &json!(0)), "{report:#}");
    let errors = report["errors"].as_array().unwrap();
    let told = errors.iter().find(|error| error["agent"] == "next").unwrap();
    assert_eq!(told["code"], "batch_timeout", "{report:#}");
}

#[test]
fn a_cancelled_request_is_reported_as_that() {
    let client = Client::new();
    client.agent("slow", "sleep 60");
    let run = client.start(&client.request(&[client.entry("slow", &[], &[])]), &[]);
    client.stage.wait_for("it runs", || client.workspace("logs/slow/stdout.log").exists().then_some(()));
    client.stage.call(&["cancel", "exec-001"]).exits(0);
    run.ends().exits(5);
    assert_eq!(client.report()["status"], "cancelled");
}

#[test]
fn the_status_file_is_live_and_shows_one_state_at_a_time() {
    let client = Client::new();
    client.agent("slow", "until test -e go; do sleep 0.05; done");
    let run = client.start(&client.request(&[client.entry("slow", &[], &[])]), &[]);
    let shown = || {
        let text = std::fs::read_to_string(client.workspace("status.json")).ok()?;
        let status: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (status["agents"][0]["status"] == "running").then_some(())
    };
    client.stage.wait_for("the agent is shown as running", shown);
    std::fs::write(client.workspace("go"), "").unwrap();
    run.ends().exits(0);
    assert_eq!(client.json("status.json")["agents"][0]["status"], "success");
}

#[test]
fn every_defect_of_a_request_is_told_at_once_and_nothing_is_made() {
    let client = Client::new();
    client.agent("a", "true");
    let mut request = client.request(&[client.entry("a", &[], &["nobody"]), client.entry("a", &[], &[])]);
    request["merge_strategy"]["type"] = json!("magic");
    request["merge_strategy"]["conflict_resolution"] = json!("hope");
    request["execution_options"]["parallel_limit"] = json!(0);
    request["agents"][0]["agent_path"] = json!("/nonexistent/agent");
    request["surprise"] = json!(1);
    let refused = client.run(&request).exits(2);
    for part in ["magic", "hope", "parallel_limit", "/nonexistent/agent", "surprise", "nobody", "agent_name"]
    {
        assert!(refused.err.contains(part), "no {part} in\n{}", refused.err);
    }
    assert!(!client.workspace("").exists());
}

#[test]
fn a_workspace_that_would_endanger_others_is_refused() {
    for root in ["/", "/tmp", "relative/ws"] {
        let client = Client::new();
        client.agent("a", "true");
        let mut request = client.request(&[client.entry("a", &[], &[])]);
        request["workspace_root"] = json!(root);
        client.run(&request).exits(2).complains("workspace_root");
    }
}

#[test]
fn a_codebase_that_is_a_system_of_its_own_is_refused() {
    let client = Client::new();
    client.agent("a", "true");
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    for codebase in ["/", "/proc", "/proc/self", "/sys", "/dev", "/root", "/usr", &home] {
        let mut entry = client.entry("a", &[], &[]);
        entry["task"]["inputs"] = json!({"codebase": codebase});
        client.run(&client.request(&[entry])).exits(2).complains("agents may write in a codebase");
    }
    assert!(!client.workspace("").exists());
}

#[test]
fn an_output_outside_of_the_workspace_is_refused() {
    let client = Client::new();
    client.agent("a", "true");
    let mut entry = client.entry("a", &[], &[]);
    entry["task"]["outputs"] = json!({"x": "/etc/passwd", "y": client.workspace("../elsewhere"), "z": client.workspace("checkpoint/x")});
    let refused = client.run(&client.request(&[entry])).exits(2);
    for field in ["outputs.x", "outputs.y", "outputs.z"] {
        assert!(refused.err.contains(field), "no {field} in\n{}", refused.err);
    }
}

#[test]
fn a_dry_run_says_what_would_happen_and_makes_nothing() {
    let client = Client::new();
    client.agent("a", "touch $WK_WORKSPACE/ran");
    let request = client.request(&[client.entry("a", &[], &[])]);
    client.start(&request, &["--dry-run"]).ends().exits(0);
    assert!(!client.workspace("").exists());
    assert!(!client.stage.file(".ce/orchestration/tasks/batch-exec-001").exists());
}

#[test]
fn the_inbox_takes_no_request_that_brings_commands() {
    let client = Client::new();
    client.agent("a", "true");
    let path = client.write(&client.request(&[client.entry("a", &[], &[])]));
    std::fs::copy(path, client.stage.file(".ce/orchestration/inbox/request.json")).unwrap();
    client.stage.go(&["watch", "--exit-when-idle"], &[]).ends().exits(0);
    assert!(!client.workspace("").exists());
    let quarantined = std::fs::read_dir(client.stage.file(".ce/orchestration/quarantine")).unwrap();
    let texts: Vec<String> =
        quarantined.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(texts.iter().any(|text| text.contains("command_not_allowed")), "{texts:?}");
}

#[test]
fn progress_comes_as_lines_of_json_and_the_report_also_where_it_is_asked_for() {
    let client = Client::new();
    client.agent("a", "true");
    let output = client.stage.file("elsewhere/report.json");
    std::fs::create_dir_all(output.parent().unwrap()).unwrap();
    let request = client.request(&[client.entry("a", &[], &[])]);
    let run = client.start(&request, &["--progress", "json", "--output", output.to_str().unwrap()]);
    let ran = run.ends().exits(0);
    let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["event"], "accepted");
    assert_eq!(events.last().unwrap()["event"], "finished");
    assert!(
        events.iter().any(|event| event["event"] == "task" && event["status"] == "success"),
        "{events:?}"
    );
    assert_eq!(
        std::fs::read(&output).unwrap(),
        std::fs::read(client.workspace("execution_report.json")).unwrap()
    );
}

#[test]
fn with_tmux_each_agent_has_a_session_whose_log_is_handed_on() {
    if !launchers().contains(&"tmux") {
        return;
    }
    let client = Client::with_tmux();
    client.agent("painter", "echo seen on screen");
    let run = client.start(&client.request(&[client.entry("painter", &[], &[])]), &["--launcher", "tmux"]);
    run.ends().exits(0);
    let report = client.report();
    let session = agent_of(&report, "painter")["tmux_session"].as_str().unwrap().to_owned();
    assert!(session.starts_with("painter-"), "{session}");
    assert!(client.text(&format!("tmux/{session}.log")).contains("seen on screen"));
}

#[test]
fn a_report_of_an_earlier_batch_is_not_taken_for_one_of_this() {
    let client = Client::new();
    client.agent("quick", "true").agent("slow", "until test -e go; do sleep 0.05; done");
    let mut request = client.request(&[client.entry("quick", &[], &[])]);
    client.run(&request).exits(0);
    request["agents"] = json!([client.entry("slow", &[], &[])]);
    request["execution_id"] = json!("exec-002");
    let run = client.start(&request, &[]);
    client.stage.wait_for("it runs", || client.workspace("logs/slow/stdout.log").exists().then_some(()));
    assert!(!client.workspace("execution_report.json").exists());
    std::fs::write(client.workspace("go"), "").unwrap();
    run.ends().exits(0);
    assert_eq!(client.report()["execution_id"], "exec-002");
}

#[test]
fn gates_of_a_plan_are_run_when_somebody_asks_for_it() {
    let client = Client::new();
    let plan = "1 command=[\"true\"] max_retries=0 validation_gates=[\"`test\\t-e\\tthere`\"]";
    let file = client.stage.plan(plan);
    let run = |more: &[&str]| {
        let verb: Vec<&str> =
            ["run", file.to_str().unwrap()].into_iter().chain(more.iter().copied()).collect();
        client.stage.go(&verb, &[]).ends()
    };
    run(&[]).exits(0).says("claimed");
    run(&["--verify"]).exits(1).says("test");
    std::fs::write(client.stage.file("there"), "").unwrap();
    run(&["--verify"]).exits(0).says("verified");
}

#[test]
fn a_report_is_asked_for_by_a_bare_name_in_the_callers_directory() {
    let client = Client::new();
    client.agent("a", "true");
    let path = client.write(&client.request(&[client.entry("a", &[], &[])]));
    let here = client.stage.file("here");
    std::fs::create_dir_all(&here).unwrap();
    let mut command = client.stage.dress(client.stage.command(&["run", &path, "--output", "report.json"]));
    command.current_dir(&here);
    Ran::of(&mut command).exits(0);
    let told = std::fs::read(here.join("report.json")).unwrap();
    assert_eq!(told, std::fs::read(client.workspace("execution_report.json")).unwrap());
}

#[test]
fn what_a_client_has_under_our_names_is_refused_and_stays() {
    let client = Client::new();
    client.agent("a", "echo a > $WK_OUTPUT_A");
    let request = client.request(&[client.entry("a", &[("a", "a.txt")], &[])]);
    std::fs::create_dir_all(client.workspace("merged")).unwrap();
    let own = ["merged/mine.txt", "status.json", "execution_report.json", "conflicts.json", "receipt.json"];
    for name in own {
        std::fs::write(client.workspace(name), "mine\n").unwrap();
    }
    let told = client.run(&request).exits(2);
    for name in ["merged", "status.json", "execution_report.json", "conflicts.json", "receipt.json"] {
        let path = client.workspace(name);
        assert!(told.err.contains(&format!("{} stands", path.display())), "{name}: {}", told.err);
    }
    assert!(told.err.contains("move it away"), "{}", told.err);
    for name in own {
        assert_eq!(client.text(name), "mine\n");
    }
    assert!(!client.workspace("logs").exists());
}

#[test]
fn what_an_earlier_batch_left_makes_way_and_an_empty_folder_is_no_hindrance() {
    let client = Client::new();
    client.agent("a", "echo a > $WK_OUTPUT_A");
    std::fs::create_dir_all(client.workspace("merged")).unwrap();
    for (id, keeps) in [("exec-1", false), ("exec-2", false), ("exec-3", true), ("exec-4", true)] {
        let mut request = client.request(&[client.entry("a", &[("a", "a.txt")], &[])]);
        request["execution_id"] = json!(id);
        request["execution_options"]["checkpoint_enabled"] = json!(keeps);
        client.run(&request).exits(0);
        assert_eq!(client.report()["execution_id"], id);
    }
    assert_eq!(client.text("merged/a.txt"), "a\n");
}

#[test]
fn while_an_agent_runs_nobody_says_that_its_outputs_are_still_looked_at() {
    let client = Client::new();
    client.agent("a", "echo x > $WK_OUTPUT_NOTE; touch $WK_WORKSPACE/begun; while ! test -e $WK_WORKSPACE/go; do sleep 0.05; done");
    let run = client.start(&client.request(&[client.entry("a", &[("note", "note.md")], &[])]), &[]);
    let heartbeat = client.stage.path("tasks/batch-exec-001/outbox/a/1/heartbeat.json");
    let said = client.stage.wait_for("the runner beats for the agent", || {
        client.workspace("begun").exists().then_some(())?;
        std::fs::read_to_string(&heartbeat).ok().filter(|text| !text.is_empty())
    });
    assert!(!said.contains("looking at the outputs"), "{said}");
    std::fs::write(client.workspace("go"), "").unwrap();
    run.ends().exits(0);
}

#[test]
fn an_input_that_nobody_can_read_to_its_end_is_refused() {
    let client = Client::new();
    client.agent("a", "true");
    let pipe = client.stage.file("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let mut entry = client.entry("a", &[], &[]);
    entry["task"]["inputs"] = json!({"pipe": pipe, "zeros": "/dev/zero"});
    let told =
        client.run(&client.request(&[entry])).exits(2).complains("/dev/zero is a pipe, a socket or a device");
    assert!(told.err.contains("field agents[0].task.inputs.pipe"), "{}", told.err);
}

#[test]
fn names_that_are_one_variable_are_refused() {
    let client = Client::new();
    client.agent("a", "true");
    let entry = client.entry("a", &[("a b", "one.md"), ("a-b", "two.md")], &[]);
    client.run(&client.request(&[entry])).exits(2).complains("are both WK_OUTPUT_A_B");
}

#[test]
fn an_id_that_was_used_is_told_by_the_field_that_names_it() {
    let client = Client::new();
    client.agent("a", "true");
    let request = client.request(&[client.entry("a", &[], &[])]);
    client.run(&request).exits(0);
    let told = client.run(&request).exits(2).complains("field execution_id");
    assert!(!told.err.contains("leave it out"), "{}", told.err);
}
