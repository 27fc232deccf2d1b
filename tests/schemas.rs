//! The published JSON Schemas: in step with the code, valid, and of one mind with the readers, as judged
//! by somebody else's validator.
//!
//! `WK_BLESS=1 cargo test --test schemas` writes `spec/schemas/` anew.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use watchkeeper::format::{output, schema, spec, take, wish};
use watchkeeper::model::event::{Entry, Sign};
use watchkeeper::model::{
    Attempt, BatchId, Defect, Epoch, Event, Place, Reason, Seconds, Settings, TaskKey, Tick, WallTime,
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn validator(name: &str) -> jsonschema::Validator {
    let (_, schema) = schema::all().into_iter().find(|(known, _)| *known == name).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

fn complaints(validator: &jsonschema::Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_stored_schemas_are_those_of_the_code() {
    let folder = root().join("spec/schemas");
    let bless = std::env::var_os("WK_BLESS").is_some();
    let mut expected: Vec<PathBuf> = Vec::new();
    for (name, schema) in schema::all() {
        let path = folder.join(format!("{name}.schema.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if bless {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{name} is stale: run WK_BLESS=1 cargo test --test schemas");
        expected.push(path);
    }
    expected.sort();
    let mut found: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert_eq!(found, expected, "remove the schemas that no shape describes any more");
}

#[test]
fn every_schema_is_a_valid_one() {
    for (name, schema) in schema::all() {
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
    }
}

/// Inputs of a folder that are JSON at all, with what the reader makes of them.
fn judged(folder: &str) -> Vec<(String, Value, String)> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(root().join("testdata").join(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        if let Ok(value) = serde_json::from_slice(bytes) {
            inputs.push((path.display().to_string(), value, expected));
        }
    }
    inputs
}

#[test]
fn what_a_reader_takes_the_schema_takes() {
    for (folder, name) in [("specs", "task-spec"), ("heartbeats", "heartbeat"), ("results", "result")] {
        let validator = validator(name);
        let mut good = 0;
        for (file, value, expected) in judged(folder) {
            // A field that is ignored was read by nobody: there the schema may say more.
            let ignores = expected.lines().any(|line| line.ends_with("; ignored"));
            if expected.starts_with("ok\n") && !ignores {
                assert_eq!(complaints(&validator, &value), Vec::<String>::new(), "{file}");
                good += 1;
            }
        }
        assert!(good >= 5, "{folder} has only {good} good files");
    }
}

#[test]
fn what_a_reader_refuses_for_its_form_the_schema_refuses_too() {
    let of_form =
        ["missing_field", "wrong_type", "out_of_range", "unknown_word", "empty_field", "expected_object"];
    for (folder, name) in [("specs", "task-spec"), ("results", "result")] {
        let validator = validator(name);
        for (file, value, expected) in judged(folder) {
            let rule = expected.split(':').next().unwrap_or_default();
            if of_form.contains(&rule) {
                assert!(!validator.is_valid(&value), "{file} passes the schema");
            }
        }
    }
}

#[test]
fn what_we_write_passes_its_own_schema() {
    let key = TaskKey::parse("1").unwrap();
    let dropped = br#"{"task_id": "phase-1", "goal": "Write the parser", "ours": 1}"#;
    let task = spec::read_dropped(&key, dropped, &Settings::default()).unwrap().task;
    let paths = spec::SpecPaths {
        outbox: "outbox/1/1",
        heartbeat_file: "outbox/1/1/heartbeat.json",
        result_file: "outbox/1/1/result.json",
    };
    let previous = [(Attempt::FIRST, Reason::NoHeartbeat { limit: Seconds(60.0) })];
    let attempt = Attempt::FIRST.next();
    let written = spec::render(&task, &BatchId::from_number(43), attempt, WallTime(0), paths, &previous);
    assert_passes("task-spec", &written);

    let wish = wish::Wish {
        verb: wish::Verb::Cancel,
        task: Some(key),
        by: "ann".into(),
        why: None,
        choices: watchkeeper::model::handoff::Choices::new(),
    };
    assert_passes("wish", &wish::render(&wish));
    let take = take::Take { by: "me".into(), host: None, pid: Some(7), at: None };
    assert_passes("take", &take::render(&take));
}

#[test]
fn a_journal_line_and_a_refusal_pass_theirs() {
    let task = TaskKey::parse("2a").unwrap();
    let defect = Defect::new("cut_off", Place::LineColumn(1, 7), "EOF", "write it completely");
    let because = Reason::ResultRefused { defects: vec![defect.clone()] };
    let events = [
        Event::Accepted { tasks: 3, batch_sha256: Some("00ff".to_owned()) },
        Event::Started { task: task.clone(), attempt: Attempt::FIRST, sign: Sign::Take { by: "me".into() } },
        Event::AttemptFailed { task, attempt: Attempt::FIRST, because, retry_at: Some(Tick(5)) },
        Event::CancelAsked { by: "ann".into(), why: None },
        Event::OutOfTime { limit: Seconds(60.0) },
    ];
    for event in events {
        let (at, clock) = (WallTime(0), Tick(1));
        let entry = Entry { seq: 1, turn: 1, epoch: Epoch(1), at, clock, event };
        assert_passes("journal-entry", &serde_json::to_vec(&entry).unwrap());
    }
    let places = [Place::File, Place::Line(3), Place::Field("goal".into())];
    let defects: Vec<Defect> = places.map(|place| Defect { place, ..defect.clone() }).into();
    let reason = json!({"file": "inbox/plan.md", "refused_at": WallTime(0), "defects": defects});
    assert_passes("reason", reason.to_string().as_bytes());
}

#[test]
fn a_batch_result_of_one_task_passes_and_one_with_a_hole_does_not() {
    let task = json!({
        "task_id": "phase-1", "key": "1", "phase_name": "Phase 1: Parser", "type": "executor", "stage": 1,
        "status": "success", "evidence": "observed", "flaky": false, "unfenced": false,
        "attempts": [{"attempt": 1, "offered_at": "2025-11-10T14:30:00.000Z", "started_at": WallTime(0), "ended_at": WallTime(9), "outcome": "success"}],
        "files_created": ["src/parser.rs"], "files_modified": [], "commits": [], "prps_generated": [],
        "errors": [], "tokens_used": null, "elapsed_seconds": 0.5, "validation_gates": [],
        "started_at": WallTime(0), "finished_at": WallTime(9), "drift": null,
        "findings": [{"subject": "src/parser.rs", "grade": "observed", "met": true, "saw": "it is new"}],
    });
    let mut batch = json!({
        "batch_id": 43, "status": "success", "evidence": "observed", "stage": 1, "stages_completed": 1,
        "stages_total": 1, "completed_tasks": ["phase-1"], "failed_tasks": [], "skipped_tasks": [],
        "cancelled_tasks": [], "total_files_created": 1, "total_files_modified": 0, "total_tokens_used": 0,
        "total_elapsed_seconds": 0.5, "files_created": ["src/parser.rs"], "files_modified": [],
        "commits": [], "prps_generated": [], "conflicts": [{"ordered": false, "file": "a", "tasks": ["phase-1", "phase-2"]}],
        "late": [{"task_id": "phase-1", "reason": "the task had already ended"}], "warnings": [],
        "started_at": WallTime(0), "finished_at": WallTime(9), "results": [task],
    });
    assert_passes("batch-result", batch.to_string().as_bytes());
    assert_eq!(output::BATCH_RESULT.check(batch.as_object().unwrap(), "").defects, []);
    batch["results"][0]["evidence"] = "hoped".into();
    assert!(!validator("batch-result").is_valid(&batch));
    assert_eq!(output::BATCH_RESULT.check(batch.as_object().unwrap(), "").defects.len(), 1);
}

fn assert_passes(name: &str, bytes: &[u8]) {
    let value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(complaints(&validator(name), &value), Vec::<String>::new(), "{name}");
}

#[test]
fn the_settings_schema_takes_what_the_settings_take() {
    let validator = validator("settings");
    for good in [json!({}), json!({"timeout_seconds": 0.5, "batch_timeout_seconds": "off", "events": false})]
    {
        assert_eq!(complaints(&validator, &good), Vec::<String>::new());
    }
    for bad in [json!({"timeout": 5}), json!({"max_retries": 11}), json!({"require": "hope"})] {
        assert!(!validator.is_valid(&bad), "{bad}");
    }
}
