//! `ctxpack_union` and `report_aggregation`: graphs united by node, reports with contents and origin.

use serde_json::{Value, json};
use watchkeeper::merge::{ContentStore, Merge, Planned};
use watchkeeper::model::handoff::{Choice, Choices, ConflictResolution, MergeKind};
use watchkeeper::model::tree::Entry;
use watchkeeper::work_tree::Contents;

use crate::scene::{Scene, State, fate, path};

fn graph(nodes: Value, edges: Value) -> String {
    let metadata = json!({"agent": "x", "timestamp": "2026-01-01T00:00:00Z", "version": "1.0"});
    json!({"metadata": metadata, "nodes": nodes, "edges": edges}).to_string()
}

fn node(id: &str, attributes: Value) -> Value {
    json!({"id": id, "type": "function", "name": id, "attributes": attributes})
}

fn calls(source: &str, target: &str) -> Value {
    json!({"source": source, "target": target, "type": "calls", "label": "calls"})
}

fn integrated(scene: &Scene, merge: &Merge) -> Value {
    let Some(Entry::File { sha256, .. }) = merge.tree().get(&path("integrated.ctxp")) else {
        panic!("no integrated.ctxp")
    };
    serde_json::from_slice(&scene.contents.read(sha256).unwrap()).unwrap()
}

fn say(status: &str) -> String {
    graph(json!([node("n", json!({"status": status})), node("m", json!({}))]), json!([calls("n", "m")]))
}

#[test]
fn graphs_unite_and_all_else_merges_as_files() {
    let first =
        graph(json!([node("a", json!({"path": "a.py"})), node("b", json!({}))]), json!([calls("a", "b")]));
    let second = graph(
        json!([node("b", json!({"tested": true})), node("c", json!({}))]),
        json!([calls("a", "b"), calls("b", "c")]),
    );
    let scene = Scene::union(ConflictResolution::ManualReview)
        .agent("ann", &[], &[("one.ctxp", None, Some(&first)), ("code/a.py", None, Some("a"))])
        .agent("bob", &[], &[("two.ctxpack", None, Some(&second)), ("review.md", None, Some("# R"))]);
    let merge = scene.ready();
    let united = integrated(&scene, &merge);
    let ids: Vec<&str> =
        united["nodes"].as_array().unwrap().iter().map(|n| n["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(united["nodes"][1]["attributes"], json!({"tested": true}));
    assert_eq!(united["edges"].as_array().unwrap().len(), 2);
    let metadata = &united["metadata"];
    assert_eq!(metadata["merged_from"], json!(["ann", "bob"]));
    assert_eq!((&metadata["format"], &metadata["version"]), (&json!("ctxp-graph/1"), &json!("1.0")));
    assert_eq!((&metadata["conflicts_detected"], &metadata["conflicts_resolved"]), (&json!(0), &json!(0)));
    let paths: Vec<String> = merge.tree().keys().map(ToString::to_string).collect();
    assert_eq!(paths, ["code", "code/a.py", "integrated.ctxp", "review.md"]);
    assert_eq!(fate(&merge, "ann", "one.ctxp"), r#"{"is":"merged","with":["bob"]}"#);
}

#[test]
fn no_author_is_lost_when_a_third_value_arrives() {
    let scene = Scene::union(ConflictResolution::ManualReview)
        .agent("ann", &[], &[("a.ctxp", None, Some(&say("draft")))])
        .agent("bob", &[], &[("b.ctxp", None, Some(&say("done")))])
        .agent("eve", &[], &[("c.ctxp", None, Some(&say("broken")))]);
    let conflict = scene.conflicted().report.conflicts.remove(0);
    let told = serde_json::to_value(&conflict).unwrap();
    assert_eq!((&told["class"], &told["kind"]), (&json!("semantic"), &json!("attribute_conflict")));
    let record = &told["graph"];
    assert_eq!((&record["node_id"], &record["attribute"]), (&json!("n"), &json!("status")));
    assert_eq!((&record["source1"], &record["value1"]), (&json!("ann"), &json!("draft")));
    assert_eq!((&record["source2"], &record["value2"]), (&json!("bob"), &json!("done")));
    assert_eq!(record["values"][2], json!({"source": "eve", "value": "broken"}));
    let merge = scene.settled(Choice::Take("eve".to_owned()));
    let united = integrated(&scene, &merge);
    assert_eq!(united["nodes"][0]["attributes"]["status"], "broken");
    assert_eq!(united["metadata"]["conflicts_resolved"], 1);
    let line = merge.receipt().lines.iter().find(|line| line.agent == "ann").unwrap();
    assert_eq!(line.notes, ["status of n: superseded by eve (manual)"]);
    let own = scene.contents.keep(b"\"reviewed\"").unwrap();
    let merge = scene.settled(Choice::Content(own));
    assert_eq!(integrated(&scene, &merge)["nodes"][0]["attributes"]["status"], "reviewed");
}

#[test]
fn priority_settles_attributes_between_listed_agents() {
    let agents = |scene: Scene| {
        scene.agent("ann", &[], &[("a.ctxp", None, Some(&say("draft")))]).agent(
            "bob",
            &[],
            &[("b.ctxp", None, Some(&say("done")))],
        )
    };
    let scene = agents(Scene::union(ConflictResolution::Auto).priority(&["bob", "ann"]));
    let united = integrated(&scene, &scene.ready());
    assert_eq!(united["nodes"][0]["attributes"]["status"], "done");
    assert_eq!(united["metadata"]["conflicts_detected"], 1);
    let scene = agents(Scene::union(ConflictResolution::Auto).priority(&["bob"]));
    assert_eq!(scene.conflicts(), ["attribute_conflict integrated.ctxp"]);
}

#[test]
fn an_agent_that_changed_a_graph_it_saw_does_not_clash_with_it() {
    let without_m = graph(json!([node("n", json!({"status": "done"}))]), json!([]));
    for base in [State::None, Some(say("draft").leak() as &str)] {
        let scene = Scene::union(ConflictResolution::ManualReview)
            .agent("ann", &[], &[("g.ctxp", None, Some(&say("draft")))])
            .agent("bob", &["ann"], &[("g.ctxp", base, Some(&without_m))]);
        let united = integrated(&scene, &scene.ready());
        assert_eq!(united["nodes"], json!([node("n", json!({"status": "done"}))]));
        assert_eq!(united["edges"], json!([]));
    }
}

#[test]
fn a_node_removed_here_and_changed_there_is_a_conflict() {
    let base = say("draft");
    let removed = graph(json!([node("m", json!({}))]), json!([]));
    let scene = Scene::union(ConflictResolution::ManualReview)
        .agent("ann", &[], &[("g.ctxp", Some(&base), Some(&removed))])
        .agent("bob", &[], &[("g.ctxp", Some(&base), Some(&say("done")))]);
    assert_eq!(scene.conflicts(), ["node_removed integrated.ctxp"]);
    let merge = scene.settled(Choice::Take("ann".to_owned()));
    let united = integrated(&scene, &merge);
    assert_eq!(united["nodes"].as_array().unwrap().len(), 1);
}

#[test]
fn fields_declared_with_two_types_are_a_conflict_of_schema() {
    let declaring = |kind: &str| {
        json!({"metadata": {"schema": {"lines": {"type": kind}}}, "nodes": [], "edges": []}).to_string()
    };
    let scene = Scene::union(ConflictResolution::ManualReview)
        .agent("ann", &[], &[("a.ctxp", None, Some(&declaring("string")))])
        .agent("bob", &[], &[("b.ctxp", None, Some(&declaring("number")))]);
    let report = scene.conflicted().report;
    assert_eq!(
        (report.conflict_summary.schema, report.conflicts[0].kind.word().as_str()),
        (1, "schema_mismatch")
    );
}

#[test]
fn a_file_that_is_no_graph_waits_for_a_person() {
    let scene = Scene::union(ConflictResolution::Auto)
        .agent("ann", &[], &[("a.ctxp", None, Some("{\"nodes\": 1}"))])
        .agent("bob", &[], &[("b.ctxp", None, Some(&say("done")))]);
    assert_eq!(scene.conflicts(), ["not_a_graph a.ctxp"]);
    let merge = scene.settled(Choice::Delete);
    assert_eq!(fate(&merge, "ann", "a.ctxp"), r#"{"is":"dropped","rule":"resolved_to_deletion"}"#);
    assert_eq!(integrated(&scene, &merge)["metadata"]["merged_from"], json!(["bob"]));
}

#[test]
fn a_graph_that_a_person_gave_is_told_as_the_persons() {
    let scene = Scene::union(ConflictResolution::ManualReview)
        .agent("ann", &[], &[("a.ctxp", None, Some("{not json"))])
        .agent("bob", &[], &[("b.ctxp", None, Some(&say("done")))]);
    let own = scene.contents.keep(say("done").as_bytes()).unwrap();
    let merge = scene.settled(Choice::Content(own));
    let superseded = r#"{"is":"superseded","by":"(person)","because":"resolution"}"#;
    assert_eq!(fate(&merge, "ann", "a.ctxp"), superseded);
    assert_eq!(fate(&merge, "bob", "b.ctxp"), r#"{"is":"merged","with":["(person)"]}"#);
    let made = &merge.receipt().made;
    assert!(made.iter().any(|made| made.by == "resolution" && made.given == Some(own)), "{made:?}");
    let metadata = &integrated(&scene, &merge)["metadata"];
    assert_eq!(metadata["merged_from"], json!(["ann", "bob"]));
    let counts = (&metadata["conflicts_detected"], &metadata["conflicts_resolved"]);
    assert_eq!(counts, (&json!(1), &json!(1)));
    assert_eq!(merge.conflicts_resolved(), 1);
}

#[test]
fn an_edge_to_nowhere_is_not_published() {
    let dangling = graph(json!([node("n", json!({"parent": "gone"}))]), json!([calls("n", "nowhere")]));
    let scene = Scene::union(ConflictResolution::ManualReview).agent(
        "ann",
        &[],
        &[("a.ctxp", None, Some(&dangling))],
    );
    let planned = scene.plan(&Choices::new()).unwrap();
    let Planned::Invalid(invalid) = planned else { panic!("{planned:?}") };
    let errors: Vec<_> = invalid.findings.iter().filter(|finding| finding.is_error).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].message.contains("nowhere"));
    assert!(invalid.findings.iter().any(|finding| !finding.is_error && finding.message.contains("gone")));
}

#[test]
fn a_reference_that_the_merge_broke_is_an_error() {
    let base = graph(json!([node("n", json!({})), node("t", json!({}))]), json!([]));
    let refers = graph(json!([node("n", json!({"tested_by": ["t"]})), node("t", json!({}))]), json!([]));
    let removes = graph(json!([node("n", json!({}))]), json!([]));
    let scene = Scene::union(ConflictResolution::ManualReview)
        .agent("ann", &[], &[("g.ctxp", Some(&base), Some(&refers))])
        .agent("bob", &[], &[("g.ctxp", Some(&base), Some(&removes))]);
    let planned = scene.plan(&Choices::new()).unwrap();
    let Planned::Invalid(invalid) = planned else { panic!("{planned:?}") };
    assert!(invalid.findings.iter().any(|finding| finding.is_error && finding.message.contains("tested_by")));
}

#[test]
fn a_graph_that_its_reader_deleted_is_gone() {
    let scene = Scene::union(ConflictResolution::ManualReview)
        .agent("ann", &[], &[("a.ctxp", None, Some(&say("draft")))])
        .agent("bob", &["ann"], &[("a.ctxp", Some(&say("draft")), None)]);
    let merge = scene.gives(&[]);
    assert_eq!(fate(&merge, "ann", "a.ctxp"), r#"{"is":"superseded","by":"bob","because":"began_from_it"}"#);
}

#[test]
fn a_graph_merges_by_node_in_auto_as_a_plain_file_too() {
    let base = graph(json!([node("n", json!({"a": 0, "b": 0}))]), json!([]));
    let ours = graph(json!([node("n", json!({"a": 1, "b": 0}))]), json!([]));
    let theirs = graph(json!([node("n", json!({"a": 0, "b": 2}))]), json!([]));
    let scene = Scene::auto().agent("ann", &[], &[("g.ctxp", Some(&base), Some(&ours))]).agent(
        "bob",
        &[],
        &[("g.ctxp", Some(&base), Some(&theirs))],
    );
    let merge = scene.ready();
    let text = scene.tree(&merge).remove("g.ctxp").unwrap();
    let merged: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(merged["nodes"][0]["attributes"], json!({"a": 1, "b": 2}));
    assert_eq!(merged["metadata"]["agent"], "x", "one file keeps its provenance");
}

#[test]
fn a_report_has_contents_origin_and_a_sound_outline() {
    let scene = Scene::of(MergeKind::ReportAggregation, ConflictResolution::FailOnConflict)
        .agent(
            "ann",
            &[],
            &[("review.md", None, Some("# Review\n\n```\n# code\n")), ("logo.png", None, Some("\0PNG"))],
        )
        .agent(
            "bob",
            &["ann"],
            &[("review.md", None, Some("Verdict\n===\nFine.\n")), ("run.py", None, Some("# x\n"))],
        )
        .agent("eve", &[], &[("gone.md", Some("old"), None)]);
    let merge = scene.ready();
    let tree = scene.tree(&merge);
    let paths: Vec<&String> = tree.keys().collect();
    assert_eq!(paths, ["ann/logo.png", "ann/review.md", "bob/review.md", "bob/run.py", "report.md"]);
    let report = &tree["report.md"];
    let headings: Vec<&str> = {
        let mut is_code = false;
        report
            .lines()
            .filter(|line| {
                is_code ^= line.starts_with("```");
                !is_code && line.starts_with('#')
            })
            .collect()
    };
    let expected = [
        "# Report of exec-7",
        "## Contents",
        "## ann",
        "### review.md",
        "#### Review",
        "### logo.png",
        "## bob",
        "### review.md",
        "#### Verdict",
        "### run.py",
        "## eve",
        "### gone.md",
    ];
    assert_eq!(headings, expected, "{report}");
    assert!(report.contains("  - [review.md](#wk-1-1)"));
    assert!(report.contains("From bob, kept as `bob/run.py`: 4 bytes, SHA-256 `"));
    assert!(report.contains("From eve: deleted."));
    assert!(!report.contains("PNG"));
    assert_eq!(fate(&merge, "bob", "review.md"), r#"{"is":"kept"}"#);
}

#[test]
fn a_report_tells_what_was_left_out_and_what_a_person_wrote() {
    let scene = Scene::of(MergeKind::ReportAggregation, ConflictResolution::ManualReview).agent(
        "ann",
        &[],
        &[("esc.md", None, Some("-> /etc/passwd")), ("r.md", None, Some("fine\n"))],
    );
    let report = |choice: Choice| scene.tree(&scene.settled(choice)).remove("report.md").unwrap();
    let without = report(Choice::Delete);
    assert!(without.contains("From ann: left out, as a person decided."), "{without}");
    assert!(without.contains("  - [esc.md](#wk-1-1) (left out)\n"), "{without}");
    assert!(!without.contains("/etc/passwd"), "{without}");
    assert!(without.contains("From ann, kept as `ann/r.md`: 5 bytes"), "{without}");
    let own = scene.contents.keep(b"nothing secret\n").unwrap();
    let with = report(Choice::Content(own));
    assert!(with.contains("From ann; a person's version is kept as `ann/esc.md`: 15 bytes"), "{with}");
    assert!(with.contains("  - [esc.md](#wk-1-1)\n") && with.contains("\nnothing secret\n"), "{with}");
}
