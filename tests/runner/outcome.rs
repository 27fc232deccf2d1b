//! What is recorded of an agent's end, and the result that is written in its place.

use serde_json::json;
use watchkeeper::model::claim::ClaimStatus;
use watchkeeper::model::exit::Stopped;
use watchkeeper::model::preset::Dialect;

use super::stage::Stage;

#[test]
fn a_clean_end_is_recorded_and_becomes_a_success() {
    let stage = Stage::new(&["true"]);
    let exit = stage.run();
    assert!(exit.is_clean(), "{exit:?}");
    assert!(exit.result_by_runner && exit.peak_memory_kb > 0 && exit.wall_seconds < 20.0);
    let (claim, value) = stage.result();
    assert_eq!((claim.status, claim.attempt), (ClaimStatus::Success, Some(stage.order.attempt)));
    assert_eq!((claim.task_id.as_str(), claim.errors.len()), ("phase-1", 0));
    assert!(value["elapsed_seconds"].is_number());
    let told = &value["run"];
    assert_eq!((&told["exit_code"], &told["wall_seconds"]), (&json!(0), &json!(exit.wall_seconds)));
    assert_eq!(
        (&told["cpu_seconds"], &told["peak_memory_kb"]),
        (&json!(exit.cpu_seconds), &json!(exit.peak_memory_kb))
    );
    assert_eq!((stage.stdout(), stage.stderr()), (String::new(), String::new()));
}

#[test]
fn an_exit_code_is_recorded_and_fails_the_task_with_the_last_words() {
    let stage = Stage::sh("for n in 1 2 3 4 5 6 7; do echo line $n >&2; done; exit 3");
    let exit = stage.run();
    assert_eq!((exit.exit_code, exit.signal, exit.stopped), (Some(3), None, None));
    let (claim, _) = stage.result();
    assert_eq!(claim.status, ClaimStatus::Failure);
    assert_eq!(claim.errors[0], "the agent ended with exit code 3");
    assert_eq!(claim.errors[1..], ["line 3", "line 4", "line 5", "line 6", "line 7"]);
}

#[test]
fn a_signal_is_recorded_by_its_number_and_told_by_its_name() {
    let stage = Stage::sh("kill -SEGV $$");
    let exit = stage.run();
    assert_eq!((exit.exit_code, exit.signal, exit.stopped), (None, Some(11), None));
    let (claim, value) = stage.result();
    assert_eq!(claim.errors, ["the agent was ended by signal 11 (SIGSEGV)"]);
    assert!(value["run"]["signal"] == 11 && value["run"]["exit_code"].is_null());
}

#[test]
fn a_result_that_the_agent_delivered_is_left_as_it_is() {
    let stage =
        Stage::sh(r#"printf '%s' '{"task_id":"phase-1","status":"success","output":{}}' > "$WK_RESULT""#);
    let exit = stage.run();
    assert!(exit.is_clean() && !exit.result_by_runner);
    assert!(!stage.paths.result().exists());
    let delivered = std::fs::read_to_string(&stage.order.paths.result).unwrap();
    assert_eq!(delivered, r#"{"task_id":"phase-1","status":"success","output":{}}"#);
}

#[test]
fn an_empty_drop_box_is_no_result() {
    let stage = Stage::sh(r#": > "$WK_RESULT""#);
    assert!(stage.run().result_by_runner);
    assert_eq!(stage.result().0.status, ClaimStatus::Success);
}

#[test]
fn one_object_on_standard_output_is_what_the_task_produced() {
    let stage = Stage::sh(r#"echo '  {"files_created": ["a.md"], "answer": 42}'"#);
    stage.run();
    let (claim, value) = stage.result();
    assert_eq!(claim.files_created, ["a.md"]);
    assert_eq!(value["output"]["answer"], json!(42));
}

#[test]
fn an_object_that_is_a_result_of_this_task_is_its_result() {
    let stage = Stage::sh(
        r#"echo '{"task_id":"phase-1","status":"success","output":{"files_created":["b.md"]},"tokens_used":7}'"#,
    );
    stage.run();
    let (claim, _) = stage.result();
    assert_eq!((claim.tokens_used, claim.attempt), (Some(7), Some(stage.order.attempt)));
    assert_eq!((claim.status, claim.files_created), (ClaimStatus::Success, vec!["b.md".to_owned()]));

    let stage = Stage::sh(r#"echo '{"task_id":"phase-1","status":"success","output":{}}'; exit 4"#);
    stage.run();
    assert_eq!(stage.result().0.status, ClaimStatus::Failure, "a bad end outweighs good words");

    let stage = Stage::sh(r#"echo '{"task_id":"phase-2","status":"failed","output":{}}'"#);
    stage.run();
    assert_eq!(stage.result().0.status, ClaimStatus::Success, "another task's result is only output");
}

#[test]
fn a_last_line_that_is_one_object_is_what_the_task_produced() {
    let stage = Stage::sh(r#"echo working; printf '{"files_created": ["a.md"], "answer": 42}'"#);
    stage.run();
    let (claim, value) = stage.result();
    assert_eq!((claim.files_created, &value["output"]["answer"]), (vec!["a.md".to_owned()], &json!(42)));

    let stage = Stage::sh(
        r#"echo working; echo '{"task_id":"phase-1","status":"failed","output":{},"errors":["no luck"]}'; echo"#,
    );
    stage.run();
    let (claim, _) = stage.result();
    assert_eq!((claim.status, claim.errors), (ClaimStatus::Failure, vec!["no luck".to_owned()]));

    let stage = Stage::sh(r#"echo '{"level":"info","files_created":["x"]}'; echo '{"level":"warn"}'"#);
    stage.run();
    let (claim, value) = stage.result();
    assert!(
        claim.files_created.is_empty() && value["output"]["level"].is_null(),
        "entries of a log: {value}"
    );
}

#[test]
fn an_object_that_cannot_be_an_output_is_told_as_text() {
    let stage = Stage::sh(r#"echo '{"files_created": "not a list"}'"#);
    assert!(stage.run().result_by_runner);
    let (claim, value) = stage.result();
    assert_eq!(claim.status, ClaimStatus::Success);
    assert!(value["output"].to_string().contains("not a list"), "{value}");
}

#[test]
fn of_long_output_the_last_lines_are_told() {
    let stage = Stage::sh("seq 1 100");
    stage.run();
    let (_, value) = stage.result();
    let told = value["output"].to_string();
    assert!(told.contains("100") && told.contains("81") && !told.contains("\\n80\\n"), "{told}");
}

#[test]
fn a_command_that_cannot_be_started_says_why_and_what_to_do() {
    let why = |stage: &Stage| match stage.run().stopped {
        Some(Stopped::NotStarted { why }) => why,
        other => panic!("{other:?}"),
    };
    let stage = Stage::new(&["no-such-agent-anywhere", "--flag"]);
    let told = why(&stage);
    assert!(
        told.contains("'no-such-agent-anywhere'") && told.contains("PATH") && told.contains("install it"),
        "{told}"
    );
    assert!(stage.stderr().contains(&told) && stage.paths.stdout().exists());
    assert!(!stage.paths.result().exists());

    let stage = Stage::new(&["./agent.sh"]);
    std::fs::write(stage.dir.path().join("agent.sh"), "#!/bin/sh\n").unwrap();
    let told = why(&stage);
    assert!(told.contains("denied") && told.contains("chmod +x"), "{told}");
    let stage = Stage::new(&["./"]);
    let told = why(&stage);
    assert!(told.contains("it is a directory; name a program") && !told.contains("chmod"), "{told}");

    let mut stage = Stage::new(&["true"]);
    stage.order.cwd = stage.dir.path().join("gone");
    let told = why(&stage);
    assert!(told.contains("working directory") && told.contains("gone"), "{told}");
}

#[test]
fn a_hundred_agents_that_do_nothing_end_side_by_side() {
    let stages: Vec<Stage> = (0..100).map(|_| Stage::new(&["true"])).collect();
    let running: Vec<_> = stages.iter().map(Stage::spawn).collect();
    for runner in running {
        assert!(runner.exit().is_clean());
    }
}

#[test]
fn counts_beyond_every_measure_still_make_a_result() {
    let usage =
        r#"{"type":"turn.completed","usage":{"input_tokens":18446744073709551615,"output_tokens":9}}"#;
    let mut stage = Stage::sh(&format!("echo '{{\"type\":\"turn.started\"}}'; echo '{usage}'"));
    stage.order.dialect = Dialect::Codex;
    assert!(stage.run().result_by_runner);
    let (claim, _) = stage.result();
    assert_eq!((claim.status, claim.tokens_used), (ClaimStatus::Success, Some(i64::MAX as u64)));
}
