//! The sentences of intake: each rule that several readers share, with its words and its remedy.
//!
//! The seed's words are kept where it gives them.

use super::draft::{Findings, Phase, Spot};
use super::field::Field;
use super::value::SPAN_MAX;
use crate::format::is_invisible;
use crate::model::declared::DeclaredFiles;
use crate::model::id::IdDefect;
use crate::model::settings::{Given, SPAN_LEAST, nearest};
use crate::model::task::RETRIES_MAX;
use crate::model::{Settings, TaskType};

/// Longest piece of the input that a message repeats, in characters.
const QUOTE_MAX: usize = 60;

/// A piece of the input for a message: short, and on one line.
pub(super) fn quote(text: &str) -> String {
    let mut quoted: String =
        text.chars().take(QUOTE_MAX).map(|c| if is_invisible(c) { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(QUOTE_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}

/// What a text without phases has instead of them.
#[derive(Debug, Default)]
pub(super) struct Unheaded<'a> {
    first: Option<(u32, &'a str)>,
    /// `Step 1: …`, with the word that it counts by; none for `1. …`.
    counted: Option<(u32, &'a str, &'a str)>,
    /// The head of a table whose columns are fields.
    pub(super) table: Option<u32>,
}

impl<'a> Unheaded<'a> {
    pub(super) fn heading(&mut self, line: u32, title: &'a str, counts_by: Option<&'a str>) {
        self.first.get_or_insert((line, title));
        if let Some(word) = counts_by {
            self.counted.get_or_insert((line, title, word));
        }
    }
}

pub(super) fn no_phases(findings: &mut Findings, instead: &Unheaded<'_>) {
    let example = "head each phase like this: ### Phase 1: Build Foundation";
    let (spot, remedy) = match (instead.counted, instead.table, instead.first) {
        (Some((line, title, "")), ..) => {
            (Spot::Line(line), format!("'{}' looks like one; {example}", quote(title)))
        }
        (Some((line, title, word)), ..) => {
            let title = quote(title);
            let remedy =
                format!("'{title}' looks like one: write Phase for {word}, there and under Dependencies");
            (Spot::Line(line), remedy)
        }
        (None, Some(line), _) => {
            let remedy = format!("this table seems to list them; {example}, with its fields below it");
            (Spot::Line(line), remedy)
        }
        (None, None, Some((line, title))) => {
            (Spot::Line(line), format!("the first heading is '{}'; {example}", quote(title)))
        }
        (None, None, None) => (Spot::File, format!("there is no heading; {example}")),
    };
    findings.defect(spot, "no_phases", "No phases found in plan".to_owned(), remedy);
}

pub(super) fn no_phases_in_json(findings: &mut Findings) {
    let remedy = "give a list of them: {\"phases\": [{\"name\": \"Phase 1: Build Foundation\", …}]}";
    findings.defect(Spot::File, "no_phases", "No phases found in plan".to_owned(), remedy);
}

pub(super) fn too_many_tasks(findings: &mut Findings, spot: Spot) {
    let message = format!("The plan has more than {} tasks", super::TASKS_MAX);
    findings.defect(spot, "too_many_tasks", message, "split the plan into several batches");
}

pub(super) fn missing_field(findings: &mut Findings, phase: &Phase<'_>, field: Field) {
    let message = format!("Phase '{}' missing '{}' field", quote(phase.name()), field.word());
    if let Some(remedy) = instead_of(phase, field) {
        return findings.defect(phase.spot, "missing_field", message, remedy);
    }
    let example = match field {
        Field::Goal => "say what the phase is to achieve",
        Field::Complexity => "add it, for example: low, medium or high",
        Field::EstimatedHours => "add it, for example: 1.5",
        _ => "add it; None is a valid value",
    };
    findings.defect(phase.spot, "missing_field", message, example);
}

/// What the phase has that may be meant for a field: one below a sub-heading, or one with a name like it.
fn instead_of(phase: &Phase<'_>, field: Field) -> Option<String> {
    let rare = phase.rare()?;
    if let Some((_, line, title)) = rare.elsewhere.iter().find(|(found, ..)| *found == field) {
        let title = quote(title);
        return Some(format!(
            "the one on line {line} belongs to the heading '{title}'; move it above that heading"
        ));
    }
    let folded = |name: &String| name.to_lowercase().replace([' ', '-'], "_");
    let names: Vec<(String, &String)> = rare.extra.keys().map(|name| (folded(name), name)).collect();
    let near = nearest(field.word(), names.iter().map(|(folded, _)| folded.as_str()))?;
    let (_, name) = names.iter().find(|(folded, _)| folded == near)?;
    Some(format!("'{}' looks like it; write {}", quote(name), field.word()))
}

pub(super) fn given_twice(findings: &mut Findings, spot: Spot, name: &str, field: Field) {
    let message = format!("Phase '{}' has a second '{}' field", quote(name), field.word());
    findings.defect(spot, "duplicate_field", message, "keep one of the two");
}

pub(super) fn bad_hours(findings: &mut Findings, spot: Spot, name: &str, value: &str) {
    let message = format!(
        "Phase '{}': estimated_hours is '{}', not a number of hours from 0",
        quote(name),
        quote(value)
    );
    findings.defect(spot, "bad_estimated_hours", message, "write a number, for example 8 or 0.5");
}

/// The policy on declared files that a phase names; nothing where there is none of that name.
pub(super) fn declared_files(
    findings: &mut Findings,
    spot: Spot,
    name: &str,
    value: &str,
) -> Option<DeclaredFiles> {
    let policy = DeclaredFiles::parse(value.trim());
    if policy.is_none() {
        let message = format!("Phase '{}': declared_files '{}' is not known", quote(name), quote(value));
        let remedy = "write must (they have to be changed) or may";
        findings.defect(spot, "unknown_declared_files", message, remedy);
    }
    policy
}

pub(super) fn unknown_type(findings: &mut Findings, spot: Spot, name: &str, value: &str) {
    let words: Vec<&str> = TaskType::ALL.iter().map(|kind| kind.word()).collect();
    let message = format!("Phase '{}': unknown type '{}'", quote(name), quote(value));
    findings.defect(spot, "unknown_type", message, format!("use one of {}", words.join(", ")));
}

pub(super) fn is_span(seconds: f64) -> bool {
    (SPAN_LEAST..=SPAN_MAX).contains(&seconds)
}

pub(super) fn bad_span(findings: &mut Findings, spot: Spot, name: &str, field: Field, value: &str) {
    let (name, value) = (quote(name), quote(value));
    let message = format!(
        "Phase '{name}': {} is {value}, not a number of seconds from {SPAN_LEAST} to {SPAN_MAX}",
        field.word()
    );
    let remedy = if value.starts_with('"') {
        "write the number without quotes"
    } else {
        "write seconds, for example 3600"
    };
    findings.defect(spot, "bad_span", message, remedy);
}

pub(super) fn is_retry_count(count: f64) -> bool {
    count.fract() == 0.0 && (0.0..=f64::from(RETRIES_MAX)).contains(&count)
}

pub(super) fn bad_retries(findings: &mut Findings, spot: Spot, name: &str, value: &str) {
    let (name, value) = (quote(name), quote(value));
    let message =
        format!("Phase '{name}': max_retries is {value}, not a whole number from 0 to {RETRIES_MAX}");
    let remedy = if value.starts_with('"') {
        "write the number without quotes"
    } else {
        "choose a number of tries after the first"
    };
    findings.defect(spot, "bad_max_retries", message, remedy);
}

pub(super) fn bad_command(findings: &mut Findings, spot: Spot, name: &str, value: &str) {
    let message = format!("Phase '{}': command is '{}', not a list of arguments", quote(name), quote(value));
    findings.defect(spot, "bad_command", message, "write an array, for example [\"make\", \"test\"]");
}

pub(super) fn bad_batch_id(findings: &mut Findings, spot: Spot, value: &str, defect: &IdDefect) {
    let message = format!("batch_id '{}' {defect}", quote(value));
    findings.defect(spot, "bad_batch_id", message, "choose a number, or a short name such as exec-001");
}

pub(super) fn unknown_field(findings: &mut Findings, spot: Spot, name: &str) {
    let message = format!("{}: unknown field '{}' is kept for the agent", findings.place(spot), quote(name));
    findings.warning(spot, message);
}

/// Whether a value is one that this setting can have.
pub(super) fn is_setting(key: &'static str, given: Given) -> bool {
    Settings::default().put(key, given).is_ok()
}

/// Applies a setting that the plan gives for its batch. Evidence can be demanded by a plan, not waived.
pub(super) fn put_setting(
    settings: &mut Settings,
    findings: &mut Findings,
    spot: Spot,
    key: &'static str,
    given: Given,
) {
    let demanded = settings.require;
    if matches!(given, Given::Number(number) if key.ends_with("_seconds") && number > SPAN_MAX) {
        let message = format!("'{key}' must be at most {SPAN_MAX}");
        return findings.defect(spot, "bad_setting", message, "write seconds, for example 3600");
    }
    if let Err(defect) = settings.put(key, given) {
        findings.defect(
            spot,
            "bad_setting",
            defect.to_string(),
            "correct the value, or leave the setting out",
        );
    }
    settings.require = settings.require.max(demanded);
}
