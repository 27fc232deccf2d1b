//! From a collected field to the value it has in a phase. What is wrong with the value alone is found here.

use std::borrow::Cow;

use serde_json::Value;

use super::open::{OpenField, Owner};
use crate::intake::draft::{Findings, Item, Phase, Slot, Spot};
use crate::intake::field::Field;
use crate::intake::{say, value};

/// What the seed's example has where gates would stand.
const GATES_PLACEHOLDER: &str = "[checkboxes]";

/// Puts a finished field into its phase.
pub(super) fn fill<'a>(phase: &mut Phase<'a>, open: OpenField<'a>, findings: &mut Findings) {
    match open.owner {
        Owner::Known(field) | Owner::Synonym(field, _) => fill_known(phase, field, open, findings),
        Owner::Extra(name) => fill_extra(phase, name, open),
    }
}

fn fill_known<'a>(phase: &mut Phase<'a>, field: Field, open: OpenField<'a>, findings: &mut Findings) {
    let spot = Spot::Line(open.line);
    match field {
        Field::Goal => phase.goal = Slot::Given(paragraph(open), spot),
        Field::Complexity => phase.complexity = Slot::Given(word(open), spot),
        Field::EstimatedHours => {
            let text = paragraph(open);
            phase.estimated_hours = match value::hours(&text) {
                Some(hours) => Slot::Given(hours, spot),
                None => {
                    say::bad_hours(findings, spot, phase.name(), &text);
                    Slot::Refused
                }
            };
        }
        Field::FilesModified => match &mut phase.files_modified {
            // "Files Created" stands beside "Files Modified".
            Slot::Given(files, _) => files.extend(file_names(open)),
            slot => *slot = Slot::Given(file_names(open), spot),
        },
        Field::FilesDeleted => phase.rare_mut().files_deleted = file_names(open),
        Field::DeclaredFiles => {
            let text = word(open);
            phase.rare_mut().declared_files = say::declared_files(findings, spot, phase.name(), &text);
        }
        Field::Dependencies => phase.dependencies = Slot::Given(names(open), spot),
        Field::Steps => phase.steps = sentences(open),
        Field::ValidationGates => {
            phase.validation_gates.extend(sentences(open));
            phase.validation_gates.retain(|gate| gate != GATES_PLACEHOLDER && !value::is_none(gate));
        }
        Field::ConflictNotes => phase.rare_mut().conflict_notes = Some(paragraph(open)),
        Field::Type => {
            let text = word(open);
            let kind = value::task_type(&text);
            phase.rare_mut().kind = kind;
            if kind.is_none() {
                say::unknown_type(findings, spot, phase.name(), &text);
            }
        }
        Field::Agent => phase.rare_mut().agent = Some(word(open)).filter(|agent| !value::is_none(agent)),
        Field::Command => phase.rare_mut().command = command(phase.name(), open, findings),
        Field::Shell => {
            let text = value::plain(&open.text);
            phase.rare_mut().shell = (!value::is_none(text)).then(|| text.to_owned());
        }
        Field::Timeout => phase.rare_mut().limits.timeout = span(phase.name(), field, open, findings),
        Field::HeartbeatTimeout => {
            phase.rare_mut().limits.heartbeat_timeout = span(phase.name(), field, open, findings);
        }
        Field::StartTimeout => {
            phase.rare_mut().limits.start_timeout = span(phase.name(), field, open, findings);
        }
        Field::StuckAfter => phase.rare_mut().limits.stuck_after = span(phase.name(), field, open, findings),
        Field::MaxRetries => {
            let text = word(open);
            let count = text.parse::<f64>().ok().filter(|count| say::is_retry_count(*count));
            phase.rare_mut().limits.max_retries = count.map(|count| count as u32);
            if count.is_none() {
                say::bad_retries(findings, spot, phase.name(), &format!("'{text}'"));
            }
        }
    }
}

fn span(name: &str, field: Field, open: OpenField<'_>, findings: &mut Findings) -> Option<f64> {
    let spot = Spot::Line(open.line);
    let text = word(open);
    let span = value::seconds(&text).filter(|seconds| say::is_span(*seconds));
    if span.is_none() {
        say::bad_span(findings, spot, name, field, &format!("'{text}'"));
    }
    span
}

/// A command is a list of arguments: a JSON array, or a list with one to an item.
fn command(name: &str, open: OpenField<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    let spot = Spot::Line(open.line);
    if !open.items.is_empty() {
        return Some(open.items.iter().map(|item| value::plain(&item.text).to_owned()).collect());
    }
    let text = value::plain(&open.text);
    if value::is_none(text) {
        return None;
    }
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(arguments) if !arguments.is_empty() => Some(arguments),
        _ => {
            say::bad_command(findings, spot, name, text);
            None
        }
    }
}

fn fill_extra<'a>(phase: &mut Phase<'a>, name: &str, open: OpenField<'a>) {
    let text = open.text.into_owned();
    let items: Vec<Value> = open.items.into_iter().map(|item| item.text.into_owned().into()).collect();
    let mut parts = match phase.rare_mut().extra.remove(name) {
        None => Vec::new(),
        Some(Value::Array(parts)) => parts,
        Some(part) => vec![part],
    };
    if !text.is_empty() || (parts.is_empty() && items.is_empty()) {
        parts.push(text.into());
    }
    let has_list = !items.is_empty();
    parts.extend(items);
    let value = if parts.len() == 1 && !has_list { parts.swap_remove(0) } else { parts.into() };
    phase.rare_mut().extra.insert(name.to_owned(), value);
}

fn paragraph(open: OpenField<'_>) -> Cow<'_, str> {
    if open.items.is_empty() {
        return open.text;
    }
    let mut lines: Vec<&str> = Vec::with_capacity(open.items.len() + 1);
    lines.extend((!open.text.is_empty()).then_some(&*open.text));
    lines.extend(open.items.iter().map(|item| &*item.text));
    lines.join("\n").into()
}

/// A single word, without emphasis or backticks around it.
fn word(open: OpenField<'_>) -> Cow<'_, str> {
    map(paragraph(open), value::plain)
}

fn sentences(open: OpenField<'_>) -> Vec<Cow<'_, str>> {
    // A text that ends in a colon introduces the list below it.
    let introduces = !open.items.is_empty() && open.text.ends_with(':');
    let text = Some(open.text).filter(|text| !introduces && !value::is_none(text));
    let items = open.items.into_iter().map(|item| item.text).filter(|item| !item.is_empty());
    text.into_iter().chain(items).collect()
}

fn names(open: OpenField<'_>) -> Vec<Item<'_>> {
    let spot = Spot::Line(open.line);
    let text = Some(Item { text: open.text, spot });
    text.into_iter().chain(open.items).filter(|item| !value::is_none(&item.text)).collect()
}

fn file_names(open: OpenField<'_>) -> Vec<Item<'_>> {
    let mut found = Vec::new();
    for Item { text, spot } in names(open) {
        match text {
            Cow::Borrowed(text) => {
                value::file_names(text, |name| found.push(Item { text: Cow::Borrowed(name), spot }));
            }
            Cow::Owned(text) => {
                value::file_names(&text, |name| found.push(Item { text: name.to_owned().into(), spot }));
            }
        }
    }
    found
}

/// Shortens a text without copying it, where it was not copied before.
fn map(text: Cow<'_, str>, shorten: fn(&str) -> &str) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(shorten(text)),
        Cow::Owned(text) => Cow::Owned(shorten(&text).to_owned()),
    }
}
