//! Conflicts: how they are told, settled by a person, by structure and by priority, and refused when stale.

use serde_json::Value;
use watchkeeper::merge::{ContentStore, Planned};
use watchkeeper::model::handoff::{Choice, Choices, ConflictResolution, MergeKind};

use crate::scene::{Scene, fate};

const BASE: &str = "one\ntwo\nthree\n";

fn three_versions(scene: Scene) -> Scene {
    scene
        .agent("ann", &[], &[("f", Some(BASE), Some("ANN\ntwo\nthree\n"))])
        .agent("bob", &[], &[("f", Some(BASE), Some("BOB\ntwo\nthree\n"))])
        .agent("eve", &[], &[("f", Some(BASE), Some("one\ntwo\nEVE\n"))])
}

#[test]
fn the_report_has_every_field_that_readers_expect() {
    let conflicted = three_versions(Scene::files()).conflicted();
    assert!(conflicted.waits_for_person);
    let report: Value = serde_json::from_slice(&conflicted.report.to_json()).unwrap();
    assert_eq!(report["execution_id"], "exec-7");
    assert_eq!(report["detection_timestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(report["conflicts_detected"], 1);
    let summary = serde_json::json!({"file": 1, "semantic": 0, "dependency": 0, "schema": 0});
    assert_eq!(report["conflict_summary"], summary);
    let conflict = &report["conflicts"][0];
    assert_eq!(conflict["kind"], "edit/edit");
    assert_eq!(conflict["agents"], serde_json::json!(["ann", "bob", "eve"]));
    assert_eq!((&conflict["severity"], &conflict["must_resolve"]), (&"high".into(), &true.into()));
    let preview = conflict["preview"].as_str().unwrap();
    let expected = "<<<<<<< ann\nANN\n||||||| base\none\n=======\nBOB\n>>>>>>> bob\n";
    assert!(preview.starts_with(expected), "{preview}");
    let choices =
        serde_json::json!(["ours", "theirs:ann", "theirs:bob", "theirs:eve", "base", "delete", "file"]);
    assert_eq!(conflict["choices"], choices);
    assert_eq!(report["recommended_actions"].as_array().unwrap().len(), 1);
}

#[test]
fn what_fits_merges_on_while_what_does_not_is_set_aside() {
    let scene = three_versions(Scene::files());
    let merge = scene.settled(Choice::Ours);
    scene.holds(&merge, &[("f", "ANN\ntwo\nEVE\n")]);
    assert_eq!(fate(&merge, "ann", "f"), r#"{"is":"merged","with":["eve"]}"#);
    assert_eq!(fate(&merge, "bob", "f"), r#"{"is":"superseded","by":"eve","because":"resolution"}"#);
}

#[test]
fn a_person_may_give_one_agent_the_word_or_write_an_own_version() {
    let scene = three_versions(Scene::files());
    let merge = scene.settled(Choice::Take("bob".to_owned()));
    scene.holds(&merge, &[("f", "BOB\ntwo\nEVE\n")]);
    assert_eq!(fate(&merge, "bob", "f"), r#"{"is":"merged","with":["ann","eve"]}"#);
    assert_eq!(fate(&merge, "ann", "f"), r#"{"is":"superseded","by":"bob","because":"resolution"}"#);
    let own = scene.contents.keep(b"ANN and BOB\ntwo\nEVE\n").unwrap();
    let merge = scene.settled(Choice::Content(own));
    scene.holds(&merge, &[("f", "ANN and BOB\ntwo\nEVE\n")]);
    assert_eq!(merge.receipt().made[0].by, "resolution");
    assert_eq!(merge.conflicts_resolved(), 1);
}

#[test]
fn a_conflict_keeps_its_id_and_a_stale_resolution_is_refused_by_name() {
    let scene = three_versions(Scene::files());
    let id = scene.conflicted().report.conflicts[0].id.clone();
    assert_eq!(scene.conflicted().report.conflicts[0].id, id);
    let mut changed = three_versions(Scene::files());
    changed.contributions[1].changes[0].theirs = Some(changed.entry("BOB again\ntwo\nthree\n"));
    let error = changed.plan(&Choices::from([(id.clone(), Choice::Ours)])).unwrap_err();
    assert!(error.to_string().contains(&id), "{error}");
}

#[test]
fn conflict_marks_that_a_person_left_are_found_before_publication() {
    let scene = three_versions(Scene::files());
    let id = scene.conflicted().report.conflicts[0].id.clone();
    let own = scene.contents.keep(b"<<<<<<< ann\nANN\n=======\nBOB\n>>>>>>> bob\n").unwrap();
    let planned = scene.plan(&Choices::from([(id, Choice::Content(own))])).unwrap();
    let Planned::Invalid(invalid) = planned else { panic!("{planned:?}") };
    assert_eq!(invalid.findings.len(), 2);
    assert!(
        invalid.findings.iter().all(|finding| finding.is_error && finding.rule == "semantic_consistency")
    );
}

#[test]
fn a_policy_that_fails_asks_nobody() {
    let scene = three_versions(Scene::of(MergeKind::FileMerge, ConflictResolution::FailOnConflict));
    let conflicted = scene.conflicted();
    assert!(!conflicted.waits_for_person);
    assert_eq!(conflicted.receipt.totals.escalated, 3);
}

#[test]
fn whoever_built_upon_a_version_in_question_is_in_question_too() {
    let scene = Scene::files()
        .agent("ann", &[], &[("f", None, Some("ann\n"))])
        .agent("bob", &[], &[("f", None, Some("bob\n"))])
        .agent("eve", &["ann", "bob"], &[("f", None, Some("both\n"))]);
    assert_eq!(scene.conflicts(), ["add/add f"]);
    let merge = scene.settled(Choice::Take("eve".to_owned()));
    scene.holds(&merge, &[("f", "both\n")]);
}

#[test]
fn priority_decides_only_between_agents_that_are_listed() {
    let scene = three_versions(Scene::auto().priority(&["eve", "bob", "ann"]));
    let merge = scene.gives(&[("f", "BOB\ntwo\nEVE\n")]);
    assert_eq!(fate(&merge, "ann", "f"), r#"{"is":"superseded","by":"bob","because":"priority"}"#);
    assert_eq!(merge.conflicts_resolved(), 1);
    let scene = three_versions(Scene::auto().priority(&["ann", "eve"]));
    assert_eq!(scene.conflicts(), ["edit/edit f"]);
    let mut manual = three_versions(Scene::auto().priority(&["ann", "bob", "eve"]));
    manual.strategy.conflict_resolution = ConflictResolution::ManualReview;
    assert_eq!(manual.conflicts(), ["edit/edit f"], "priority has a say in `auto` alone");
}

#[test]
fn priority_decides_whole_files_where_nothing_is_finer() {
    let scene = Scene::auto()
        .priority(&["bob", "ann"])
        .agent(
            "ann",
            &[],
            &[("logo", None, Some("\0a")), ("f", Some(BASE), Some("ann")), ("m", None, Some("m"))],
        )
        .agent("bob", &[], &[("logo", None, Some("\0b")), ("f", Some(BASE), None), ("m", None, Some("x!m"))]);
    let merge = scene.gives(&[("logo", "\0b"), ("m", "x!m")]);
    assert_eq!(fate(&merge, "ann", "f"), r#"{"is":"superseded","by":"bob","because":"priority"}"#);
}

#[test]
fn json_merges_by_key_in_auto_alone() {
    let base = "{\n  \"name\": \"app\",\n  \"version\": \"1\"\n}\n";
    let ours = "{\n  \"name\": \"app\",\n  \"version\": \"2\"\n}\n";
    let theirs = "{\n  \"name\": \"app\",\n  \"version\": \"1\",\n  \"private\": true\n}\n";
    let agents = |scene: Scene| {
        scene.agent("ann", &[], &[("package.json", Some(base), Some(ours))]).agent(
            "bob",
            &[],
            &[("package.json", Some(base), Some(theirs))],
        )
    };
    let merged = "{\n  \"name\": \"app\",\n  \"version\": \"2\",\n  \"private\": true\n}\n";
    agents(Scene::auto()).gives(&[("package.json", merged)]);
    assert_eq!(agents(Scene::files()).conflicts(), ["edit/edit package.json"]);
    Scene::auto()
        .agent("ann", &[], &[("a.json", None, Some("{\"a\": 1}"))])
        .agent("bob", &[], &[("a.json", None, Some("{\"b\": 2}"))])
        .gives(&[("a.json", "{\"b\": 2, \"a\": 1}")]);
}

#[test]
fn a_key_that_clashes_escalates_or_goes_by_priority() {
    let agents = |scene: Scene| {
        scene.agent("ann", &[], &[("a.json", Some("{\"v\": 0}"), Some("{\"v\": 1, \"a\": 1}"))]).agent(
            "bob",
            &[],
            &[("a.json", Some("{\"v\": 0}"), Some("{\"v\": 2, \"b\": 2}"))],
        )
    };
    let conflict = agents(Scene::auto()).conflicted().report.conflicts.remove(0);
    assert_eq!(conflict.details[0], "clashes at /v");
    agents(Scene::auto().priority(&["bob", "ann"])).gives(&[("a.json", "{\"v\": 2, \"b\": 2, \"a\": 1}")]);
}

#[test]
fn lines_that_merge_to_broken_json_are_not_published() {
    let base = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4\n}\n";
    let above = base.replace("  \"a\"", "  \"x\": 0,\n  \"a\"");
    let below = base.replace("  \"d\"", "  \"x\": 0,\n  \"d\"");
    let agents = |scene: Scene| {
        scene.agent("ann", &[], &[("a.json", Some(base), Some(&above))]).agent(
            "bob",
            &[],
            &[("a.json", Some(base), Some(&below))],
        )
    };
    let planned = agents(Scene::files()).plan(&Choices::new()).unwrap();
    let Planned::Invalid(invalid) = planned else { panic!("{planned:?}") };
    assert!(invalid.findings[0].message.contains("stands twice"), "{:?}", invalid.findings);
    agents(Scene::auto()).gives(&[("a.json", &above)]);
}

#[test]
fn two_versions_of_one_dependency_are_a_conflict_of_their_class() {
    let base = "[dependencies]\nserde = \"1.0\"\n";
    let scene = Scene::auto()
        .agent("ann", &[], &[("Cargo.toml", Some(base), Some("[dependencies]\nserde = \"1.1\"\n"))])
        .agent("bob", &[], &[("Cargo.toml", Some(base), Some("[dependencies]\nserde = \"2\"\n"))]);
    let report = scene.conflicted().report;
    assert_eq!(report.conflict_summary.dependency, 1);
    assert_eq!(report.conflicts[0].details[0], "serde: 1.1, 2");
}
