//! What the binary really writes, judged by the published schemas: specs, status, journal, results, reasons.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use watchkeeper::format::schema;

const PLAN: &str = "\
### Phase 1: Build

**Goal**: Build it
**Estimated Hours**: 0.5
**Complexity**: low
**Files Modified**: made.txt
**Dependencies**: None
**Validation Gates**:
- [ ] It builds

### Phase 2: Break

**Goal**: Fail, and block the next
**Estimated Hours**: 0.5
**Complexity**: low
**Files Modified**: None
**Dependencies**: Phase 1
**Max Retries**: 1

### Phase 3: Never

**Goal**: Wait in vain
**Estimated Hours**: 0.5
**Complexity**: low
**Files Modified**: None
**Dependencies**: Phase 2
";

fn wk(root: &Path, portable: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wk"));
    command.env("WK_PORTABLE", portable);
    command.arg("--root").arg(root).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn judge(name: &str, value: &Value) {
    let (_, schema) = schema::all().into_iter().find(|(known, _)| *known == name).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let complaints: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(complaints.is_empty(), "{name}: {complaints:#?}\n{value:#}");
}

fn deliver(batch: &Path, key: &str, text: &str) {
    let staged = batch.join(format!(".staged-{key}"));
    std::fs::write(&staged, text).unwrap();
    std::fs::rename(staged, batch.join(format!("task-{key}.result.json"))).unwrap();
}

#[test]
fn every_file_that_is_written_fits_its_published_schema() {
    play_a_batch("0");
}

#[test]
fn a_system_that_tells_neither_writers_nor_boots_comes_to_the_same_files() {
    play_a_batch("1");
}

/// `portable` is `1` to do without what only Linux can tell.
fn play_a_batch(portable: &str) {
    let root = tempfile::tempdir().unwrap();
    let plan = root.path().join("plan.md");
    std::fs::write(&plan, PLAN).unwrap();
    let settings = [
        "--set",
        "settle_seconds=0.1",
        "--set",
        "price_per_million_tokens=3",
        "--set",
        "scan_interval_seconds=0.1",
        "--set",
        "retry_delay_seconds=0.05",
    ];
    let run = [&["run", plan.to_str().unwrap()][..], &settings].concat();
    let mut run = wk(root.path(), portable, &run);
    let bus = root.path().join(".ce/orchestration");
    let batch = bus.join("tasks/batch-1");

    judge("task-spec", &wait_for("the first spec", || read(&batch.join("task-1.json"))));
    deliver(&batch, "1", r#"{"task_id": "phase-1", "status": "wonderful"}"#);
    judge("reason", &wait_for("the refusal", || read(&batch.join("task-1.result.error.json"))));
    judge("status", &wait_for("the status", || read(&batch.join("status.json"))));
    std::fs::write(root.path().join("made.txt"), "made").unwrap();
    deliver(
        &batch,
        "1",
        r#"{"task_id": "phase-1", "status": "success", "tokens_used": 5, "output": {"files_created": ["made.txt"]}}"#,
    );
    for attempt in 1..=2 {
        wait_for("the second task's spec", || {
            read(&batch.join("task-2.json")).filter(|spec| spec["attempt"] == attempt)
        });
        let failed =
            r#"{"task_id": "2", "status": "failed", "output": {}, "errors": ["no"], "tokens_used": 7}"#;
        deliver(&batch, "2", failed);
    }
    assert_eq!(run.wait().unwrap().code(), Some(3));

    let result = read(&bus.join("batches/batch-1.result.json")).unwrap();
    judge("batch-result", &result);
    assert_eq!(result["total_tokens_used"], 5 + 7 + 7, "attempts that failed were paid for as well");
    for (form, schema) in [("execution", "execution-report"), ("assignments", "assignments-report")] {
        let told = Command::new(env!("CARGO_BIN_EXE_wk"))
            .arg("--root")
            .arg(root.path())
            .args(["report", "1", "--as", form])
            .output()
            .unwrap();
        judge(schema, &serde_json::from_slice(&told.stdout).unwrap());
    }
    let archive = bus.join("completed-batches/batch-1");
    let status = read(&archive.join("status.json")).unwrap();
    judge("status", &status);
    assert_eq!(status["status"], "partial_success");
    for line in std::fs::read_to_string(archive.join("journal.jsonl")).unwrap().lines() {
        judge("journal-entry", &serde_json::from_str(line).unwrap());
    }
    let refused = std::fs::read_dir(bus.join("quarantine")).unwrap().map(|entry| entry.unwrap().path());
    let reasons: Vec<_> = refused.filter(|path| path.to_string_lossy().ends_with(".reason.json")).collect();
    assert_eq!(reasons.len(), 1);
    judge("reason", &read(&reasons[0]).unwrap());
}
