//! What a plan says, field by field, before anybody judged it as a whole.
//!
//! Readers of a dialect fill drafts and know its syntax; `settle` judges drafts and knows none.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::field::{Field, Spelling};
use crate::model::declared::DeclaredFiles;
use crate::model::{BatchId, Defect, Place, Settings, TaskType};

/// Most defects that one refusal lists; a plan of a hundred thousand phases may have five in each.
const DEFECTS_MAX: usize = 1_000;
/// Most warnings that an accepted batch carries.
const WARNINGS_MAX: usize = 200;

/// Where something stands, small enough to keep for every item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    File,
    Line(u32),
    /// A field beside the list of phases.
    Top(Spelling),
    /// A phase of a JSON plan, by index; then a field of it; then an item of that.
    Phase(u32),
    Field(u32, Spelling),
    Item(u32, Spelling, u32),
}

/// A field that may be absent, or present with a value that was already found wrong.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Slot<T> {
    Absent,
    Refused,
    Given(T, Spot),
}

impl<T> Slot<T> {
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Slot::Absent)
    }

    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Slot::Absent)
    }

    pub(super) fn given(self) -> Option<T> {
        match self {
            Slot::Given(value, _) => Some(value),
            Slot::Absent | Slot::Refused => None,
        }
    }
}

/// A name in a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) spot: Spot,
}

/// One phase as it was written.
#[derive(Debug)]
pub(super) struct Phase<'a> {
    pub(super) spot: Spot,
    /// `2a`, or its number where the plan gives none.
    pub(super) label: Cow<'a, str>,
    /// What follows the label: `Analyzer`.
    pub(super) title: Cow<'a, str>,
    pub(super) goal: Slot<Cow<'a, str>>,
    pub(super) complexity: Slot<Cow<'a, str>>,
    pub(super) estimated_hours: Slot<f64>,
    pub(super) files_modified: Slot<Vec<Item<'a>>>,
    pub(super) dependencies: Slot<Vec<Item<'a>>>,
    pub(super) steps: Vec<Cow<'a, str>>,
    pub(super) validation_gates: Vec<Cow<'a, str>>,
    /// Present only where the plan says more than it must: most phases of a large plan do not.
    rare: Option<Box<Rare<'a>>>,
}

/// What few phases have.
#[derive(Debug, Default)]
pub(super) struct Rare<'a> {
    /// As the plan gives it, if it does.
    pub(super) task_id: Option<String>,
    pub(super) conflict_notes: Option<Cow<'a, str>>,
    pub(super) kind: Option<TaskType>,
    pub(super) files_deleted: Vec<Item<'a>>,
    pub(super) declared_files: Option<DeclaredFiles>,
    pub(super) agent: Option<Cow<'a, str>>,
    pub(super) command: Option<Vec<String>>,
    /// A line for `sh -c`.
    pub(super) shell: Option<String>,
    pub(super) limits: OwnLimits,
    pub(super) extra: Map<String, Value>,
    /// Fields of this name below a sub-heading: with the line, and the title that they belong to.
    pub(super) elsewhere: Vec<(Field, u32, &'a str)>,
}

/// The clocks and bounds that a phase sets for itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnLimits {
    pub(super) timeout: Option<f64>,
    pub(super) heartbeat_timeout: Option<f64>,
    pub(super) start_timeout: Option<f64>,
    pub(super) stuck_after: Option<f64>,
    pub(super) max_retries: Option<u32>,
}

impl OwnLimits {
    /// These, and the others where these say nothing.
    pub(super) fn or(self, others: OwnLimits) -> OwnLimits {
        OwnLimits {
            timeout: self.timeout.or(others.timeout),
            heartbeat_timeout: self.heartbeat_timeout.or(others.heartbeat_timeout),
            start_timeout: self.start_timeout.or(others.start_timeout),
            stuck_after: self.stuck_after.or(others.stuck_after),
            max_retries: self.max_retries.or(others.max_retries),
        }
    }
}

impl<'a> Phase<'a> {
    pub(super) fn new(spot: Spot, label: Cow<'a, str>, title: Cow<'a, str>) -> Self {
        Phase {
            spot,
            label,
            title,
            goal: Slot::Absent,
            complexity: Slot::Absent,
            estimated_hours: Slot::Absent,
            files_modified: Slot::Absent,
            dependencies: Slot::Absent,
            steps: Vec::new(),
            validation_gates: Vec::new(),
            rare: None,
        }
    }

    pub(super) fn rare(&self) -> Option<&Rare<'a>> {
        self.rare.as_deref()
    }

    pub(super) fn rare_mut(&mut self) -> &mut Rare<'a> {
        self.rare.get_or_insert_default()
    }

    pub(super) fn take_rare(&mut self) -> Rare<'a> {
        self.rare.take().map(|rare| *rare).unwrap_or_default()
    }

    pub(super) fn task_id(&self) -> Option<&str> {
        self.rare()?.task_id.as_deref()
    }

    /// How messages name it: by its title, as the seed does.
    pub(super) fn name(&self) -> &str {
        if self.title.is_empty() { &self.label } else { &self.title }
    }
}

/// A whole plan as it was written.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) own_id: Option<BatchId>,
    /// The settings with what the plan sets for its batch.
    pub(super) settings: Settings,
    pub(super) phases: Vec<Phase<'a>>,
}

/// Everything that was found wrong or odd, in the order of the text when it is taken out.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What the list of phases is called, for places in JSON.
    pub(super) list: &'static str,
    defects: Vec<(u32, Defect)>,
    defects_left_out: usize,
    warnings: Vec<(u32, String)>,
    warnings_left_out: usize,
}

impl Findings {
    pub(super) fn defect(&mut self, spot: Spot, rule: &str, message: String, remedy: impl Into<String>) {
        if self.defects.len() == DEFECTS_MAX {
            self.defects_left_out += 1;
            return;
        }
        let defect = Defect::new(rule, self.place(spot), message, remedy);
        self.defects.push((rank(spot), defect));
    }

    pub(super) fn warning(&mut self, spot: Spot, message: impl Into<String>) {
        if self.warnings.len() == WARNINGS_MAX {
            self.warnings_left_out += 1;
            return;
        }
        self.warnings.push((rank(spot), message.into()));
    }

    pub(super) fn is_sound(&self) -> bool {
        self.defects.is_empty()
    }

    pub(super) fn into_defects(mut self) -> Vec<Defect> {
        self.defects.sort_by_key(|(rank, _)| *rank);
        let mut defects: Vec<Defect> = self.defects.into_iter().map(|(_, defect)| defect).collect();
        if self.defects_left_out > 0 {
            let message = format!("{} more defects are not listed", self.defects_left_out);
            defects.push(Defect::new("more_defects", Place::File, message, "correct these first"));
        }
        defects
    }

    pub(super) fn into_warnings(mut self) -> Vec<String> {
        self.warnings.sort_by_key(|(rank, _)| *rank);
        let mut warnings: Vec<String> = self.warnings.into_iter().map(|(_, warning)| warning).collect();
        if self.warnings_left_out > 0 {
            warnings.push(format!("{} more warnings are not listed", self.warnings_left_out));
        }
        warnings
    }

    pub(super) fn place(&self, spot: Spot) -> Place {
        let list = self.list;
        match spot {
            Spot::File => Place::File,
            Spot::Line(line) => Place::Line(line as usize),
            Spot::Top(field) => Place::Field(field.word().to_owned()),
            Spot::Phase(phase) => Place::Field(format!("{list}[{phase}]")),
            Spot::Field(phase, field) => Place::Field(format!("{list}[{phase}].{}", field.word())),
            Spot::Item(phase, field, item) => {
                Place::Field(format!("{list}[{phase}].{}[{item}]", field.word()))
            }
        }
    }

    /// Two spots in one phrase: `lines 3 and 20`.
    pub(super) fn both(&self, first: Spot, second: Spot) -> String {
        match (self.place(first), self.place(second)) {
            (Place::Line(first), Place::Line(second)) => format!("lines {first} and {second}"),
            (Place::Field(first), Place::Field(second)) => format!("{first} and {second}"),
            (first, second) => format!("{first} and {second}"),
        }
    }
}

/// What comes first in the text comes first in a list of findings.
fn rank(spot: Spot) -> u32 {
    match spot {
        Spot::File | Spot::Top(_) => 0,
        Spot::Line(line) => line,
        Spot::Phase(phase) | Spot::Field(phase, _) | Spot::Item(phase, _, _) => phase + 1,
    }
}
