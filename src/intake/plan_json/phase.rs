//! Reads one phase of a JSON plan, field by field.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::format::json::kind_of;
use crate::intake::draft::{Findings, Item, Phase, Slot, Spot};
use crate::intake::field::{Field, Spelling};
use crate::intake::{markdown, say, value};

/// Where a phase's name may stand, and where its id may.
const NAME_FIELDS: [&str; 3] = ["phase_name", "name", "title"];
const ID_FIELDS: [&str; 4] = ["task_id", "id", "key", "phase"];

pub(super) struct Reader<'r> {
    pub(super) index: u32,
    pub(super) findings: &'r mut Findings,
    /// Names already warned about: once for the plan is enough.
    pub(super) unknown: &'r mut HashSet<String>,
}

impl Reader<'_> {
    pub(super) fn read(&mut self, mut fields: Map<String, Value>) -> Phase<'static> {
        let mut phase = self.named_phase(&mut fields);
        let mut seen = 0;
        let mut synonyms = Vec::new();
        for (name, value) in fields {
            match Field::named(&name) {
                None if Field::meant(&name).is_some() => synonyms.push((name, value)),
                Some((field, spelling)) => {
                    if seen & field.bit() != 0 {
                        let spot = Spot::Field(self.index, spelling);
                        say::given_twice(self.findings, spot, phase.name(), field);
                    } else {
                        self.put(&mut phase, field, spelling, value);
                    }
                    seen |= field.bit();
                }
                None => self.keep(&mut phase, name, value),
            }
        }
        // What goes by another name counts where the field itself is missing.
        for (name, value) in synonyms {
            match Field::meant(&name) {
                Some(meant) if seen & meant.field.bit() == 0 => {
                    seen |= meant.field.bit();
                    self.put(&mut phase, meant.field, Spelling::of_synonym(&name, meant.field), value);
                }
                _ => self.keep(&mut phase, name, value),
            }
        }
        phase
    }

    /// A field that nobody here knows is the agent's.
    fn keep(&mut self, phase: &mut Phase<'static>, name: String, value: Value) {
        if !self.unknown.contains(&name) {
            say::unknown_field(self.findings, Spot::Phase(self.index), &name);
            self.unknown.insert(name.clone());
        }
        phase.rare_mut().extra.insert(name, value);
    }

    /// A phase with its label: its own id, else the one in its name, else its number in the list.
    fn named_phase(&mut self, fields: &mut Map<String, Value>) -> Phase<'static> {
        let name = self.take_name(fields, &NAME_FIELDS).map(|(_, name)| name).unwrap_or_default();
        let (label_in_name, title) = match markdown::label_and_title(&name) {
            Some((label, title)) => (Some(label.to_owned()), title.to_owned()),
            None => (None, value::plain(&name).to_owned()),
        };
        let own = self.take_name(fields, &ID_FIELDS);
        let label = match &own {
            Some((_, id)) => label_of(id).to_owned(),
            None => label_in_name.unwrap_or_else(|| (self.index + 1).to_string()),
        };
        let mut phase = Phase::new(Spot::Phase(self.index), label.into(), title.into());
        if let Some((_, id)) = own.filter(|(field, _)| *field == "task_id") {
            phase.rare_mut().task_id = Some(id);
        }
        phase
    }

    fn take_name(
        &mut self,
        fields: &mut Map<String, Value>,
        names: &[&'static str],
    ) -> Option<(&'static str, String)> {
        let name = *names.iter().find(|name| fields.contains_key(**name))?;
        match fields.remove(name)? {
            Value::String(text) => Some((name, text)),
            Value::Number(number) => Some((name, number.to_string())),
            Value::Null => None,
            other => {
                self.expected(Spelling::of(name), "a string", &other);
                None
            }
        }
    }

    fn put(&mut self, phase: &mut Phase<'static>, field: Field, spelling: Spelling, value: Value) {
        let spot = Spot::Field(self.index, spelling);
        match field {
            Field::Goal => phase.goal = self.text_slot(spelling, value),
            Field::Complexity => phase.complexity = self.text_slot(spelling, value),
            Field::EstimatedHours => phase.estimated_hours = self.hours(phase.name(), spot, &value),
            Field::FilesModified => phase.files_modified = self.names(spelling, value),
            Field::FilesDeleted => {
                phase.rare_mut().files_deleted = self.names(spelling, value).given().unwrap_or_default();
            }
            Field::DeclaredFiles => {
                if let Some(text) = self.text_slot(spelling, value).given() {
                    let name = phase.name().to_owned();
                    phase.rare_mut().declared_files = say::declared_files(self.findings, spot, &name, &text);
                }
            }
            Field::Dependencies => phase.dependencies = self.names(spelling, value),
            Field::Steps => phase.steps = self.sentences(spelling, value),
            Field::ValidationGates => phase.validation_gates = self.sentences(spelling, value),
            Field::ConflictNotes => phase.rare_mut().conflict_notes = self.text_slot(spelling, value).given(),
            Field::Agent => phase.rare_mut().agent = self.text_slot(spelling, value).given(),
            Field::Type => {
                if let Some(text) = self.text_slot(spelling, value).given() {
                    let kind = value::task_type(&text);
                    phase.rare_mut().kind = kind;
                    if kind.is_none() {
                        say::unknown_type(self.findings, spot, phase.name(), &text);
                    }
                }
            }
            Field::Shell => {
                phase.rare_mut().shell = self.text_slot(spelling, value).given().map(Cow::into_owned);
            }
            Field::Command => phase.rare_mut().command = self.command(phase.name(), spot, value),
            Field::Timeout => phase.rare_mut().limits.timeout = self.span(phase.name(), field, spot, &value),
            Field::HeartbeatTimeout => {
                phase.rare_mut().limits.heartbeat_timeout = self.span(phase.name(), field, spot, &value);
            }
            Field::StartTimeout => {
                phase.rare_mut().limits.start_timeout = self.span(phase.name(), field, spot, &value);
            }
            Field::StuckAfter => {
                phase.rare_mut().limits.stuck_after = self.span(phase.name(), field, spot, &value);
            }
            Field::MaxRetries => {
                phase.rare_mut().limits.max_retries = self.retries(phase.name(), spot, &value);
            }
        }
    }

    fn text_slot(&mut self, spelling: Spelling, value: Value) -> Slot<Cow<'static, str>> {
        match value {
            Value::String(text) => Slot::Given(Cow::Owned(text), Spot::Field(self.index, spelling)),
            Value::Null => Slot::Absent,
            other => {
                self.expected(spelling, "a string", &other);
                Slot::Refused
            }
        }
    }

    fn hours(&mut self, name: &str, spot: Spot, value: &Value) -> Slot<f64> {
        match value.as_f64().filter(|hours| hours.is_finite() && *hours >= 0.0) {
            Some(hours) => Slot::Given(hours, spot),
            None if value.is_null() => Slot::Absent,
            None => {
                say::bad_hours(self.findings, spot, name, value.as_str().unwrap_or(&value.to_string()));
                Slot::Refused
            }
        }
    }

    fn span(&mut self, name: &str, field: Field, spot: Spot, value: &Value) -> Option<f64> {
        let span = value.as_f64().filter(|seconds| say::is_span(*seconds));
        if span.is_none() && !value.is_null() {
            say::bad_span(self.findings, spot, name, field, &value.to_string());
        }
        span
    }

    fn retries(&mut self, name: &str, spot: Spot, value: &Value) -> Option<u32> {
        let count = value.as_f64().filter(|count| say::is_retry_count(*count));
        if count.is_none() && !value.is_null() {
            say::bad_retries(self.findings, spot, name, &value.to_string());
        }
        count.map(|count| count as u32)
    }

    fn command(&mut self, name: &str, spot: Spot, value: Value) -> Option<Vec<String>> {
        if value.is_null() {
            return None;
        }
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match serde_json::from_value::<Vec<String>>(value) {
            Ok(arguments) if !arguments.is_empty() => Some(arguments),
            _ => {
                say::bad_command(self.findings, spot, name, &shown);
                None
            }
        }
    }

    /// Names: an array of them, or a text that `None` or commas may be in.
    fn names(&mut self, spelling: Spelling, value: Value) -> Slot<Vec<Item<'static>>> {
        let spot = Spot::Field(self.index, spelling);
        match value {
            Value::Array(values) => {
                let mut items = Vec::with_capacity(values.len());
                for (position, value) in (0..).zip(values) {
                    if let Some(text) = self.item_text(spelling, position, value) {
                        items.push(Item {
                            text: text.into(),
                            spot: Spot::Item(self.index, spelling, position),
                        });
                    }
                }
                Slot::Given(items, spot)
            }
            Value::String(text) if value::is_none(&text) => Slot::Given(Vec::new(), spot),
            Value::String(text) if spelling.word() != "files_modified" => {
                Slot::Given(vec![Item { text: text.into(), spot }], spot)
            }
            Value::Null => {
                self.null_is_empty(spelling);
                Slot::Given(Vec::new(), spot)
            }
            other => {
                self.expected(spelling, "an array of strings", &other);
                Slot::Refused
            }
        }
    }

    fn sentences(&mut self, spelling: Spelling, value: Value) -> Vec<Cow<'static, str>> {
        match value {
            Value::Array(values) => (0..)
                .zip(values)
                .filter_map(|(position, value)| self.item_text(spelling, position, value))
                .map(Cow::Owned)
                .collect(),
            Value::Null => {
                self.null_is_empty(spelling);
                Vec::new()
            }
            other => {
                self.expected(spelling, "an array of strings", &other);
                Vec::new()
            }
        }
    }

    /// A text in a list. A number will do: labels often are numbers.
    fn item_text(&mut self, spelling: Spelling, position: u32, value: Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            other => {
                let spot = Spot::Item(self.index, spelling, position);
                let message = format!("'{}' holds {}, expected a string", spelling.word(), kind_of(&other));
                self.findings.defect(spot, "wrong_kind", message, "write it as a string");
                None
            }
        }
    }

    fn null_is_empty(&mut self, spelling: Spelling) {
        let spot = Spot::Field(self.index, spelling);
        let message = format!("{}: null is taken for an empty list", self.findings.place(spot));
        self.findings.warning(spot, message);
    }

    fn expected(&mut self, spelling: Spelling, wanted: &str, found: &Value) {
        let spot = Spot::Field(self.index, spelling);
        let message = format!("'{}' must be {wanted}, found {}", spelling.word(), kind_of(found));
        self.findings.defect(spot, "wrong_kind", message, format!("write {wanted}"));
    }
}

/// The label in an id: the `2a` of `phase-2a` or `Phase 2a`.
fn label_of(id: &str) -> &str {
    let id = id.trim();
    match id.get(..5) {
        Some(head) if head.eq_ignore_ascii_case("phase") && id.len() > 6 => {
            id[5..].strip_prefix(['-', '_', ' ']).unwrap_or(id)
        }
        _ => id,
    }
}
