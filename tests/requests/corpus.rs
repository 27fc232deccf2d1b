//! Every request in `testdata/requests`, good or bad, beside what intake must make of it.
//!
//! `{agents}` stands for a directory of agents. After a change that is meant, run with `WK_BLESS=1` and read
//! the difference before committing it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use watchkeeper::format::schema;
use watchkeeper::intake::{Context, Request, read_request};
use watchkeeper::model::{Batch, Defect, TaskKey};

use crate::machine::{Machine, settings};

#[test]
fn every_good_request_is_read_as_written_beside_it() {
    assert!(judge("good", "ok") >= 12);
}

#[test]
fn every_bad_request_is_refused_with_all_that_is_wrong() {
    assert!(judge("bad", "refused") >= 40);
}

/// Compares each file of a folder with its expectation; how many there were.
fn judge(folder: &str, begins: &str) -> usize {
    let bless = std::env::var_os("WK_BLESS").is_some();
    let mut wrong = Vec::new();
    let requests = requests_in(folder);
    for (path, bytes) in &requests {
        let name = path.file_name().unwrap().to_str().unwrap();
        let outcome = outcome_of(name, bytes);
        let beside = path.with_extension("expected");
        if bless {
            fs::write(&beside, &outcome).unwrap();
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if outcome != expected || !outcome.starts_with(begins) {
            wrong.push(format!("{name}\n--- expected\n{expected}--- found\n{outcome}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n\n{}", wrong.len(), requests.len(), wrong.join("\n"));
    requests.len()
}

fn requests_in(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/requests").join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap().replace("{agents}", "/agents");
        (path, text.into_bytes())
    };
    paths.into_iter().map(read).collect()
}

fn outcome_of(name: &str, bytes: &[u8]) -> String {
    match read_request(Request { name, bytes }, &settings(), &Machine::new()) {
        Ok(plan) => {
            let (id, is_dry_run) = (plan.own_id().cloned(), plan.is_dry_run());
            let commands: Vec<String> = plan
                .commands()
                .iter()
                .map(|(task, command)| format!("started {task}: {command:?}\n"))
                .collect();
            let batch = plan.into_batch(Context::for_check());
            let id = id.map(|id| format!(" (batch {id})")).unwrap_or_default();
            let dry = if is_dry_run { " dry run" } else { "" };
            format!("ok{id}{dry}\n{}{}", told(&batch), commands.concat())
        }
        Err(defects) => format!("refused\n{}", listed(&defects)),
    }
}

pub fn listed(defects: &[Defect]) -> String {
    defects.iter().fold(String::new(), |mut text, defect| {
        let _ =
            writeln!(text, "{}: {} [{}]\n    {}", defect.place, defect.message, defect.rule, defect.remedy);
        text
    })
}

fn told(batch: &Batch) -> String {
    let mut text = String::new();
    let json = |value: Value| serde_json::to_string_pretty(&value).unwrap().replace('\n', "\n  ");
    for task in &batch.tasks {
        let needs: Vec<&str> = task.dependencies.iter().map(TaskKey::as_str).collect();
        let (key, label, kind, stage) = (&task.key, task.label(), task.kind, task.stage);
        let _ =
            writeln!(text, "task {key} {} {label:?}: {kind}, stage {stage}, needs {needs:?}", task.task_id);
        let _ = writeln!(text, "  named {:?}", task.phase_name);
        let _ = writeln!(text, "  goal {:?}", task.goal);
        let crew = task.crew.as_ref().map(|crew| format!("{} by {}", crew.agent, crew.launcher));
        let brings = task.brings_a_command();
        let _ = writeln!(text, "  agent {:?}, crew {crew:?}, brings a command: {brings}", task.agent);
        let _ = writeln!(text, "  timeout {}, {} retries", task.limits.timeout, task.limits.max_retries);
        if !task.files_modified.is_empty() {
            let _ = writeln!(text, "  modifies {:?}", task.files_modified);
        }
        let assignment = serde_json::to_value(task.assignment.as_ref().unwrap()).unwrap();
        let _ = writeln!(text, "  {}", json(assignment));
    }
    let _ =
        writeln!(text, "handoff {}", json(serde_json::to_value(batch.handoff.as_ref().unwrap()).unwrap()));
    let _ = writeln!(text, "origin {:?}", batch.origin);
    let _ =
        writeln!(text, "parallel limit {:?}, batch timeout {:?}", batch.parallel_limit, batch.batch_timeout);
    for conflict in &batch.file_conflicts {
        let _ = writeln!(text, "conflict: {} {:?}", conflict.file, conflict.tasks);
    }
    for warning in &batch.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// Validators of both dialects; the name of a case begins with its own.
fn schema_of(path: &Path) -> jsonschema::Validator {
    let case = path.file_name().unwrap().to_str().unwrap();
    let name = if case.starts_with("assignments") { "assignments" } else { "execution-request" };
    let (_, schema) = schema::all().into_iter().find(|(known, _)| *known == name).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

#[test]
fn what_the_reader_takes_the_schema_takes() {
    for (path, bytes) in requests_in("good") {
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let errors: Vec<String> =
            schema_of(&path).iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new(), "{}", path.display());
    }
}

#[test]
fn what_the_reader_refuses_for_its_form_the_schema_refuses_too() {
    let of_form =
        ["missing_field", "wrong_type", "out_of_range", "unknown_word", "unknown_field", "empty_field"];
    let mut count = 0;
    for (path, bytes) in requests_in("bad") {
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { continue };
        if of_form.iter().any(|rule| expected.contains(&format!("[{rule}]"))) {
            assert!(!schema_of(&path).is_valid(&value), "{} passes the schema", path.display());
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} cases of form");
}
