//! Batches of other orchestrators, as released versions left them: reports, merges, and the way back.

use serde_json::Value;

use crate::frozen::{Frozen, each};
use crate::scene::task;

const BASE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
const BATCH: &str = "exec-001";

fn text(frozen: &Frozen, name: &str) -> String {
    let path = frozen.file("ws").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn report(frozen: &Frozen) -> Value {
    serde_json::from_str(&text(frozen, "execution_report.json")).unwrap()
}

/// Both agents' files are again as they were before the batch.
fn is_undone(frozen: &Frozen) {
    frozen.wk(&["undo", BATCH, "--dry-run"]).exits(0).says("text.md");
    frozen.wk(&["undo", BATCH]).exits(0);
    for name in ["a", "b"] {
        assert_eq!(text(frozen, &format!("outputs/{name}/text.md")), BASE, "{}", frozen.name);
    }
    frozen.wk(&["status", BATCH]).exits(0).says("undone");
}

#[test]
fn an_archived_execution_request_is_reported_verified_and_undone() {
    each("execution", |frozen| {
        let told = frozen.wk(&["report", BATCH, "--as", "execution"]).exits(0).json();
        assert_eq!(told["status"], "success", "{told:#}");
        assert_eq!(told["agents"].as_array().map(Vec::len), Some(3), "{told:#}");
        assert_eq!(text(frozen, "merged/text.md"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
        frozen.wk(&["verify", BATCH]).exits(0);
        is_undone(frozen);
    });
}

#[test]
fn an_interrupted_execution_request_goes_on_and_is_merged() {
    each("interrupted", |frozen| {
        frozen.shows(BATCH, &[("a", "COMPLETED"), ("b", "IN_PROGRESS")]);
        let watcher = frozen.watched();
        let result = frozen.ends_though_agents_were_killed(BATCH, &["b"]);
        watcher.stop();
        assert_eq!(result["status"], "success", "{result:#}");
        assert_eq!(task(&result, "a")["attempts"].as_array().unwrap().len(), 1);
        assert_eq!(text(frozen, "merged/text.md"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
        assert_eq!(report(frozen)["status"], "success");
        frozen.wk(&["verify", BATCH]).exits(0);
        is_undone(frozen);
    });
}

#[test]
fn a_conflict_that_waits_for_a_person_is_resolved() {
    each("conflict", |frozen| {
        let told = frozen.wk(&["resolve", BATCH, "--json"]).exits(6).json();
        let conflict = told["conflicts"][0]["id"].as_str().unwrap().to_owned();
        frozen.wk(&["resolve", BATCH, "--take", &format!("{conflict}=b")]).exits(0);
        assert!(text(frozen, "merged/text.md").starts_with("Uno\n"));
        assert_eq!(report(frozen)["status"], "success");
        assert_eq!(frozen.ended(BATCH)["status"], "success");
        is_undone(frozen);
    });
}

#[test]
fn archived_assignments_are_reported_verified_and_undone() {
    each("assignments", |frozen| {
        let told = frozen.wk(&["report", "1", "--as", "assignments"]).exits(0).json();
        assert_eq!(told["summary"]["completed"], true, "{told:#}");
        assert_eq!(text(frozen, "artifacts/b/b.txt"), "hello b\n");
        frozen.wk(&["verify", "1"]).exits(0);
        frozen.wk(&["undo", "1", "--dry-run"]).exits(0).says("a.txt");
        frozen.wk(&["undo", "1"]).exits(0);
        assert!(!frozen.file("ws/a.txt").exists() && !frozen.file("ws/b.txt").exists());
    });
}
