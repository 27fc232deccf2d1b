//! Scenes of requests that say more than a file of the corpus can.

use std::fmt::Write as _;

use serde_json::{Value, json};
use watchkeeper::intake::{Context, NoSurroundings, Plan, Request, read_plan, read_request};
use watchkeeper::model::{Defect, OnFileConflict, Settings};

use crate::machine::{Machine, settings};

fn read_with(value: &Value, settings: &Settings) -> Result<Plan, Vec<Defect>> {
    let bytes = value.to_string().into_bytes();
    read_request(Request { name: "request.json", bytes: &bytes }, settings, &Machine::new())
}

fn read(value: &Value) -> Result<Plan, Vec<Defect>> {
    read_with(value, &settings())
}

fn agent(name: &str, output: &str, dependencies: &[&str]) -> Value {
    json!({
        "agent_name": name, "agent_path": "/agents/code-generator", "dependencies": dependencies,
        "task": {"description": name, "outputs": {"code": output}},
    })
}

fn request(agents: &[Value]) -> Value {
    json!({"execution_id": "exec-1", "workspace_root": "/tmp/orchestration/exec-1", "agents": agents})
}

#[test]
fn plans_are_read_as_before_and_the_name_of_the_file_says_nothing() {
    let plan = "### Phase 1: X\n**Goal**: x\n**Complexity**: low\n**Estimated Hours**: 1\n**Files Modified**: None\n**Dependencies**: None\n";
    let markdown = Request { name: "execution_request.json", bytes: plan.as_bytes() };
    assert!(read_request(markdown, &settings(), &NoSurroundings).is_ok());
    let phase = json!({"name": "X", "goal": "x", "complexity": "low", "estimated_hours": 1, "files_modified": [],
                       "dependencies": [], "agent": "scribe"});
    let batch = read(&json!({"tasks": [phase]})).unwrap().into_batch(Context::for_check());
    assert!(batch.handoff.is_none() && batch.tasks[0].assignment.is_none());
    let bytes = request(&[agent("a", "outputs/a", &[])]).to_string().into_bytes();
    let defects = read_plan(Request { name: "plan.json", bytes: &bytes }, &settings()).unwrap_err();
    assert_eq!(defects[0].rule, "other_dialect");
}

#[test]
fn a_dialect_is_known_by_its_content_even_where_it_is_broken() {
    let defects = read(&json!({"agents": 5})).unwrap_err();
    assert!(defects.iter().all(|defect| defect.rule != "no_phases"), "{defects:?}");
    let defects = read(&json!({"environment": {}})).unwrap_err();
    assert!(defects.iter().any(|defect| defect.message == "missing 'tasks' field"), "{defects:?}");
}

#[test]
fn outputs_in_one_anothers_way_follow_the_policy() {
    let value = request(&[agent("a", "outputs/x", &[]), agent("b", "outputs/x/y", &[])]);
    let policy = |on_file_conflict| read_with(&value, &Settings { on_file_conflict, ..settings() });
    let batch = policy(OnFileConflict::Serialise).unwrap().into_batch(Context::for_check());
    assert_eq!(batch.tasks[0].files_modified, ["/tmp/orchestration/exec-1/outputs/x"]);
    assert_eq!(batch.tasks[1].files_modified, batch.tasks[0].files_modified);
    let warned = policy(OnFileConflict::Warn).unwrap().into_batch(Context::for_check());
    assert!(warned.warnings[0].contains("may run at the same time"), "{:?}", warned.warnings);
    assert_eq!(policy(OnFileConflict::Refuse).unwrap_err()[0].rule, "file_conflict");
    let ordered = request(&[agent("a", "outputs/x", &[]), agent("b", "outputs/x/y", &["a"])]);
    let batch = read(&ordered).unwrap().into_batch(Context::for_check());
    assert!(batch.file_conflicts.is_empty() && batch.tasks[0].files_modified.is_empty());
}

#[test]
fn the_callers_word_about_verification_counts_more_than_the_requests() {
    let value = json!({"verify": false, "environment": {"workspace_dir": "/ws"},
                       "tasks": [{"id": "A", "agent": "scribe", "context_path": "tasks/a.md"}]});
    let verifies = |verify| {
        let plan = read_with(&value, &Settings { verify, ..settings() }).unwrap();
        plan.into_batch(Context::for_check()).handoff.unwrap().verify
    };
    assert!(!verifies(None) && verifies(Some(true)));
}

#[test]
fn an_agent_that_somebody_else_starts_has_no_crew() {
    let value = request(&[agent("a", "outputs/a", &[])]);
    let mut outside = settings();
    outside.agents.launcher = Some("external".to_owned());
    let batch = read_with(&value, &outside).unwrap().into_batch(Context::for_check());
    assert_eq!(batch.tasks[0].crew, None);
}

#[test]
fn a_cycle_of_a_thousand_is_told_as_its_full_path() {
    let agents: Vec<Value> = (0..1_000)
        .map(|n| agent(&format!("a{n}"), &format!("outputs/{n}"), &[&format!("a{}", (n + 1) % 1_000)]))
        .collect();
    let defects = read(&request(&agents)).unwrap_err();
    assert_eq!(defects.len(), 1, "{:?}", &defects[..2]);
    assert_eq!(defects[0].message.matches(" → ").count(), 1_000);
}

#[test]
fn requests_beyond_the_limits_are_refused_and_the_refusal_is_bounded() {
    let many: Vec<Value> = (0..10_001).map(|n| agent(&format!("a{n}"), "outputs/x", &[])).collect();
    let defects = read(&request(&many)).unwrap_err();
    assert!(defects.iter().any(|defect| defect.rule == "too_many_tasks"), "{:?}", defects.last());
    let lost: Vec<Value> = (0..2_000).map(|n| agent(&format!("a{n}"), "/etc/x", &["nobody"])).collect();
    let defects = read(&request(&lost)).unwrap_err();
    assert_eq!(defects.len(), 1_001);
    assert_eq!(defects.last().unwrap().rule, "more_defects");
    let short: Vec<Value> =
        (0..300).map(|n| agent(&format!("a{n}"), &format!("/tmp/orchestration/outputs/{n}"), &[])).collect();
    let batch = read(&request(&short)).unwrap().into_batch(Context::for_check());
    assert_eq!(batch.warnings.len(), 201);
    assert_eq!(batch.warnings[200], "100 more warnings are not listed");
}

#[test]
fn everybody_reading_what_everybody_writes_is_settled_or_refused_but_never_endless() {
    let agents: Vec<Value> = (0..3_000)
        .map(|n| {
            let mut one = agent(&format!("a{n}"), &format!("outputs/{n}"), &[]);
            one["task"]["inputs"] = json!({"all": "/tmp/orchestration/codebase", "others": "outputs"});
            one
        })
        .collect();
    let defects = read(&request(&agents)).unwrap_err();
    let rules: Vec<&str> = defects.iter().map(|defect| defect.rule.as_str()).collect();
    assert!(rules.contains(&"missing_dependency"), "{:?}", &rules[..3]);
}

/// Words that must not stand in what a reader says: a request's text is shown in terminals.
#[test]
fn control_characters_of_a_request_do_not_reach_a_message() {
    let mut value = request(&[agent("a", "outputs/\u{1b}[31m", &["\u{1b}[2J\u{202e}"])]);
    value["agents"][0]["task"]["inputs"] = json!({"x": "/a\nb"});
    let mut told = String::new();
    for defect in read(&value).unwrap_err() {
        let _ = write!(told, "{}{}", defect.message, defect.remedy);
    }
    assert!(!told.contains(['\u{1b}', '\n', '\u{202e}']), "{told:?}");
}
