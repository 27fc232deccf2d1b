//! Reads plans in JSON: `{"batch_id": 43, "phases": [...]}`, or the list of phases alone.
//!
//! A value of the wrong kind is refused with its path and never guessed at; unknown fields are kept.

mod phase;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::draft::{Draft, Findings, Spot};
use super::field::{Spelling, plan_setting};
use super::{TASKS_MAX, handoff, say};
use crate::format::json::kind_of;
use crate::model::handoff::Dialect;
use crate::model::settings::Given;
use crate::model::{BatchId, Settings};

/// Reads a plan that is JSON; all defects are collected.
pub(super) fn read(value: Value, settings: &Settings, findings: &mut Findings) -> Draft<'static> {
    let mut draft = Draft { own_id: None, settings: settings.clone(), phases: Vec::new() };
    let phases = match value {
        Value::Array(phases) => phases,
        Value::Object(top) => match read_top(top, &mut draft, findings) {
            Some(phases) => phases,
            None => return draft,
        },
        _ => unreachable!("a text that begins with a bracket or a brace"),
    };
    if phases.is_empty() {
        say::no_phases_in_json(findings);
    }
    if phases.len() > TASKS_MAX {
        say::too_many_tasks(findings, Spot::Phase(TASKS_MAX as u32));
        return draft;
    }
    let mut unknown = HashSet::new();
    draft.phases.reserve_exact(phases.len());
    for (index, value) in (0..).zip(phases) {
        match value {
            Value::Object(fields) => {
                let mut reader = phase::Reader { index, findings, unknown: &mut unknown };
                draft.phases.push(reader.read(fields));
            }
            other => {
                let message = format!("expected a phase, found {}", kind_of(&other));
                findings.defect(
                    Spot::Phase(index),
                    "expected_object",
                    message,
                    "put its fields between { and }",
                );
            }
        }
    }
    draft
}

/// Takes the batch's own fields, and gives back the list of phases.
fn read_top(
    mut top: Map<String, Value>,
    draft: &mut Draft<'_>,
    findings: &mut Findings,
) -> Option<Vec<Value>> {
    if let Some((what, remedy)) = other_dialect(&top) {
        findings.defect(
            Spot::File,
            "other_dialect",
            format!("This looks like {what}, not like a plan"),
            remedy,
        );
        return None;
    }
    let list = if top.contains_key("phases") { "phases" } else { "tasks" };
    findings.list = list;
    let phases = top.remove(list);
    for (name, value) in top {
        read_top_field(&name, value, draft, findings);
    }
    match phases {
        Some(Value::Array(phases)) => Some(phases),
        None => {
            say::no_phases_in_json(findings);
            None
        }
        Some(other) => {
            let message = format!("'{list}' must be an array of phases, found {}", kind_of(&other));
            findings.defect(
                Spot::Top(Spelling::of(list)),
                "expected_array",
                message,
                "put the phases between [ and ]",
            );
            None
        }
    }
}

/// Requests of other kinds share some names with plans. Whoever sent one wants to hear which it is.
fn other_dialect(top: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    const REMEDY: &str = "a plan has a list of 'phases'";
    match handoff::recognise(top) {
        Some(Dialect::ExecutionRequest) => return Some(("an execution request", REMEDY)),
        Some(Dialect::Assignments) => return Some(("assignments", REMEDY)),
        None if top.contains_key("phases") => return None,
        None => {}
    }
    if top.contains_key("task_id") && top.contains_key("goal") {
        return Some((
            "a single task spec",
            "drop it into .ce/orchestration/tasks/, or put it into a list of 'phases'",
        ));
    }
    None
}

fn read_top_field(name: &str, value: Value, draft: &mut Draft<'_>, findings: &mut Findings) {
    if name == "batch_id" {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null => return,
            other => {
                let message = format!("'batch_id' must be a number or a string, found {}", kind_of(other));
                return findings.defect(
                    Spot::Top(Spelling::of("batch_id")),
                    "bad_batch_id",
                    message,
                    "choose a number or a short name",
                );
            }
        };
        match BatchId::parse(&text) {
            Ok(id) => draft.own_id = Some(id),
            Err(defect) => say::bad_batch_id(findings, Spot::Top(Spelling::of("batch_id")), &text, &defect),
        }
    } else if let Some(key) = plan_setting(name) {
        let given = match value {
            Value::Number(number) => Given::Number(number.as_f64().unwrap_or(f64::NAN)),
            Value::Bool(switch) => Given::Switch(switch),
            Value::String(text) => Given::Text(text),
            Value::Null => return,
            other => Given::Text(other.to_string()),
        };
        say::put_setting(&mut draft.settings, findings, Spot::Top(Spelling::of(key)), key, given);
    } else if !matches!(name, "name" | "title" | "description" | "version" | "$schema" | "created_at") {
        findings
            .warning(Spot::File, format!("field {}: unknown field of the plan is ignored", say::quote(name)));
    }
}
