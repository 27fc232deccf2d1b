//! Every file in `testdata/` that somebody could put on the bus, with what must become of it beside it.
//!
//! `WK_BLESS=1 cargo test --test inputs` writes the expectations anew; read the difference before it is
//! committed. Inputs that are too big for a file are made here.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use watchkeeper::format::{heartbeat, result, spec};
use watchkeeper::model::{Defect, Settings, TaskKey};

type Told = Result<Vec<String>, Vec<Defect>>;

fn tell_spec(bytes: &[u8]) -> Told {
    let key = TaskKey::parse("1").unwrap();
    let spec::Dropped { task, warnings } = spec::read_dropped(&key, bytes, &Settings::default())?;
    let limits = &task.limits;
    let mut lines = vec![
        format!("task {} is {:?}, {}: {}", task.key, task.task_id, task.kind, task.goal),
        format!("phase_name {:?}, complexity {:?}, stage {}", task.phase_name, task.complexity, task.stage),
        format!(
            "timeout {}, silence {}, interval {}, start {}{}, stuck {}, retries {}",
            limits.timeout,
            limits.heartbeat_timeout,
            limits.heartbeat_interval,
            limits.start_timeout,
            if limits.start_timeout_was_set { " (set)" } else { "" },
            limits.stuck_after,
            limits.max_retries
        ),
    ];
    let lists = [
        ("steps", format!("{:?}", task.steps)),
        ("files_modified", format!("{:?}", task.files_modified)),
        ("dependencies", format!("{:?}", task.dependencies)),
        ("command", format!("{:?}", task.command.clone().unwrap_or_default())),
    ];
    lines.extend(lists.iter().filter(|(_, list)| list != "[]").map(|(name, list)| format!("{name} {list}")));
    for gate in &task.validation_gates {
        lines.push(format!("gate {:?} runs {:?}", gate.text, gate.command));
    }
    lines.extend(task.estimated_hours.map(|hours| format!("estimated_hours {hours}")));
    lines.extend(task.agent.map(|agent| format!("agent {agent}")));
    lines.extend(task.extra.keys().map(|name| format!("extra {name}")));
    lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    Ok(lines)
}

fn tell_heartbeat(bytes: &[u8]) -> Told {
    let beat = heartbeat::read(bytes).map_err(|defect| vec![defect])?;
    let mut lines = Vec::new();
    lines.extend(beat.attempt.map(|attempt| format!("attempt {attempt}")));
    lines.extend(beat.task_id.map(|task| format!("task_id {task}")));
    lines.extend(beat.status.map(|status| format!("status {status}")));
    lines.extend(beat.progress.map(|progress| format!("progress {progress}")));
    lines.extend(beat.tokens_used.map(|tokens| format!("tokens_used {tokens}")));
    lines.extend(beat.elapsed_seconds.map(|seconds| format!("elapsed_seconds {seconds}")));
    lines.extend(beat.last_update.map(|time| format!("last_update {time}")));
    lines.extend(beat.warnings.iter().map(|warning| format!("warning: {warning}")));
    Ok(lines)
}

fn tell_result(bytes: &[u8]) -> Told {
    let claim = result::read(bytes)?;
    let mut lines = vec![format!("{} says {:?}", claim.task_id, claim.status)];
    lines.extend(claim.attempt.map(|attempt| format!("attempt {attempt}")));
    lines.extend(claim.files_created.iter().map(|file| format!("created {file}")));
    lines.extend(claim.files_modified.iter().map(|file| format!("modified {file}")));
    lines.extend(claim.commits.iter().map(|commit| format!("commit {commit}")));
    lines.extend(claim.prps_generated.iter().map(|prp| format!("prp {prp}")));
    lines.extend(claim.errors.iter().map(|error| format!("error {error}")));
    lines.extend(claim.tokens_used.map(|tokens| format!("tokens_used {tokens}")));
    lines.extend(claim.elapsed_seconds.map(|seconds| format!("elapsed_seconds {seconds}")));
    Ok(lines)
}

/// `ok` and what was read, or every defect as `rule: place: message`.
fn expectation(told: Told) -> String {
    let mut text = String::new();
    match told {
        Ok(lines) => {
            text.push_str("ok\n");
            lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
        }
        Err(defects) => {
            for Defect { rule, place, message, remedy } in &defects {
                assert!(!remedy.is_empty(), "{rule} names no remedy");
                writeln!(text, "{rule}: {place}: {message}").unwrap();
            }
        }
    }
    text
}

fn inputs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn check(folder: &str, tell: fn(&[u8]) -> Told) {
    let bless = std::env::var_os("WK_BLESS").is_some();
    let mut wrong = String::new();
    for input in inputs(folder) {
        let found = expectation(tell(&fs::read(&input).unwrap()));
        let beside = input.with_extension("expected");
        if bless {
            fs::write(&beside, &found).unwrap();
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if found != expected {
            writeln!(wrong, "{}\n--- expected\n{expected}--- found\n{found}", input.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_spec_becomes_what_stands_beside_it() {
    check("specs", tell_spec);
}

#[test]
fn every_heartbeat_becomes_what_stands_beside_it() {
    check("heartbeats", tell_heartbeat);
}

#[test]
fn every_result_becomes_what_stands_beside_it() {
    check("results", tell_result);
}

#[test]
fn every_expectation_has_its_input() {
    for folder in ["specs", "heartbeats", "results"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            assert!(path.with_extension("json").exists(), "{} has no input", path.display());
        }
    }
}

#[test]
fn a_hundred_thousand_brackets_cost_no_stack() {
    let brackets = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!(r#"{{"task_id": "a", "goal": "b", "x": {brackets}}}"#);
    let told = expectation(tell_spec(text.as_bytes()));
    assert!(told.starts_with("too_deep: line 1, column") && told.contains("nesting > 64"), "{told}");
    assert!(expectation(tell_result(text.as_bytes())).starts_with("too_deep"));
    assert!(expectation(tell_heartbeat(text.as_bytes())).starts_with("too_deep"));
}

#[test]
fn a_million_file_entries_are_one_defect() {
    let files = vec!["\"x\""; 1_000_000].join(",");
    let text =
        format!(r#"{{"task_id": "a", "status": "success", "output": {{"files_created": [{files}]}}}}"#);
    assert_eq!(
        expectation(tell_result(text.as_bytes())),
        "too_many_items: field output.files_created: has 1000000 items; the limit is 100000\n"
    );
}

#[test]
fn a_string_beyond_its_limit_is_refused_wherever_it_stands() {
    let long = "x".repeat((1 << 20) + 1);
    let text = format!(r#"{{"task_id": "a", "goal": "b", "x": ["{long}"]}}"#);
    assert_eq!(
        expectation(tell_spec(text.as_bytes())),
        "too_long: field x[0]: is a string of 1048577 bytes; the limit is 1048576\n"
    );
    let beat = expectation(tell_heartbeat(format!(r#"{{"note": "{long}"}}"#).as_bytes()));
    assert!(beat.starts_with("ok\n"), "a beat is a beat: {beat}");
}
