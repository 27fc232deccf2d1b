//! The body of one phase: which line begins a field, which goes on with one, and what belongs to a sub-heading.
//!
//! Knows one phase. Where it begins and ends, and whether it was there before, is the walk's business.

use std::collections::HashSet;

use super::fill;
use super::line::{self, Line};
use super::open::{OpenField, OpenedBy, Owner};
use crate::intake::draft::{Findings, Phase, Slot, Spot};
use crate::intake::field::{Field, Meant, holds_own_fields};
use crate::intake::{say, value};

/// Findings, and the unknown fields that were told of already.
pub(super) struct Told<'a, 'f> {
    pub(super) findings: &'f mut Findings,
    unknown: HashSet<&'a str>,
}

impl<'a, 'f> Told<'a, 'f> {
    pub(super) fn new(findings: &'f mut Findings) -> Self {
        Told { findings, unknown: HashSet::new() }
    }

    fn unknown_field(&mut self, line: u32, name: &'a str) {
        if self.unknown.insert(name) {
            say::unknown_field(self.findings, Spot::Line(line), name);
        }
    }
}

/// A heading within a phase.
struct SubHeading<'a> {
    level: usize,
    title: &'a str,
    line: u32,
    kind: SubKind,
}

#[derive(PartialEq)]
enum SubKind {
    /// `#### Goal`: the field itself.
    Field,
    /// `#### Details`: the phase's own fields follow.
    OwnFields,
    /// `#### Rollback`: whatever stands there is about something else, and kept as it is.
    Other,
}

pub(super) struct Body<'a> {
    pub(super) phase: Phase<'a>,
    /// Of its heading.
    pub(super) level: usize,
    /// Which fields it has by their own names.
    seen: u32,
    open: Option<OpenField<'a>>,
    /// Fields by other names: used at the end where the field itself is missing.
    deferred: Vec<OpenField<'a>>,
    sub: Option<SubHeading<'a>>,
}

impl<'a> Body<'a> {
    pub(super) fn new(phase: Phase<'a>, level: usize) -> Self {
        Body { phase, level, seen: 0, open: None, deferred: Vec::new(), sub: None }
    }

    /// What follows without a field's name belongs to the section that the phase stands in once more.
    pub(super) fn imply(&mut self, section: &'a str, line: u32) {
        let owner = match Field::meant(section) {
            Some(meant) => Owner::Synonym(meant.field, section),
            None => Owner::Extra(section),
        };
        self.open = Some(OpenField { opened_by: OpenedBy::Section, ..OpenField::section(owner, line) });
    }

    pub(super) fn open(&mut self) -> Option<&mut OpenField<'a>> {
        self.open.as_mut()
    }

    pub(super) fn sub_heading(&mut self, line: u32, level: usize, title: &'a str, told: &mut Told<'a, '_>) {
        let title = value::plain(title).trim_end_matches(':');
        if let Some(sub) = &self.sub
            && level > sub.level
            && sub.kind != SubKind::OwnFields
        {
            if let Some(open) = &mut self.open {
                open.nested_heading(line, title);
            }
            return;
        }
        self.close(told);
        let bare = title.trim_start_matches(|c: char| !c.is_alphanumeric());
        let kind = match Field::meant(bare) {
            Some(meant) => {
                self.begin(meant, bare, line, None, None, told);
                SubKind::Field
            }
            None if holds_own_fields(bare) => SubKind::OwnFields,
            None => {
                self.open = Some(OpenField::section(Owner::Extra(title), line));
                SubKind::Other
            }
        };
        self.sub = Some(SubHeading { level, title, line, kind });
    }

    /// A line within the phase: a field of its own, or more of the one above.
    pub(super) fn line(&mut self, line: Line<'a>, told: &mut Told<'a, '_>) {
        if let Some(SubHeading { kind: SubKind::Other, title, line: heading, .. }) = self.sub {
            return self.keep(&line, title, heading, told);
        }
        if let Some((name, value)) = line::two_cells(line.text)
            && let Some(meant) = Field::meant(name)
            && !self.has(meant.field)
        {
            self.begin(meant, name, line.number, None, Some(value), told);
            return self.close(told);
        }
        let item = line::list_item(line.text);
        let text = item.unwrap_or(line.text);
        if self.field_line(&line, text, item.map(|_| line.indent), told) {
            return;
        }
        let Some(open) = &mut self.open else {
            return self.misspelt(&line, text);
        };
        // Tables and quotations are remarks beside a field, except where a whole section is kept.
        let is_aside = line.text.starts_with(['|', '>']) && !open.is_section();
        let is_taken = match item {
            Some(item) => open.item(&line, item),
            None => !is_aside && open.prose(&line),
        };
        if !is_taken {
            self.close(told);
            self.misspelt(&line, text);
        }
    }

    /// Keeps a line that names no field but nearly one, so that the phase can be told what it seems to have.
    fn misspelt(&mut self, line: &Line<'a>, text: &'a str) {
        if let Some((name, value)) = text.split_once(':').filter(|(name, _)| Field::is_nearly_one(name)) {
            self.open = Some(OpenField::new(Owner::Extra(name.trim()), line.number, None, value.trim()));
        }
    }

    /// Begins a field, or several that share the line. False if the line begins none.
    fn field_line(
        &mut self,
        line: &Line<'a>,
        text: &'a str,
        bullet: Option<usize>,
        told: &mut Told<'a, '_>,
    ) -> bool {
        let rest = if let Some((name, value)) = line::bold_field(text) {
            match Field::meant(name) {
                Some(meant) if self.begins_field(meant.field, bullet) => {
                    let (value, rest) = line::up_to_next_field(value);
                    self.begin(meant, name, line.number, bullet, Some(value), told);
                    rest
                }
                None if self.begins_extra(bullet) && !self.is_in_sentences() => {
                    self.close(told);
                    self.open = Some(OpenField::new(Owner::Extra(name), line.number, bullet, value));
                    None
                }
                _ => return false,
            }
        } else if let Some((meant, name, value)) = line::plain_field(text)
            && !self.has(meant.field)
            && (line.indent < 2 || self.stands_beside(line.indent))
            && (bullet.is_none() || self.begins_extra(bullet))
        {
            let (value, rest) = line::up_to_next_field(value);
            self.begin(meant, name, line.number, bullet, Some(value), told);
            rest
        } else {
            return false;
        };
        if let Some(rest) = rest {
            self.close(told);
            self.field_line(line, rest, bullet, told);
        }
        true
    }

    /// No field is open that a line this far in could be part of.
    fn stands_beside(&self, indent: usize) -> bool {
        self.open.as_ref().is_none_or(|open| open.bullet == Some(indent))
    }

    /// A sub-heading names a field that is told in sentences, and they go on.
    fn is_in_sentences(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_section() && open.is_told_in_sentences())
    }

    /// A list item in bold within a list is one of its items, unless it names a field and stands as far
    /// out as the fields do. Below a sub-heading a field that the phase has already is a part of the text.
    fn begins_field(&self, field: Field, bullet: Option<usize>) -> bool {
        if self.has(field) && self.is_in_sentences() {
            return false;
        }
        match (&self.open, bullet) {
            (Some(open), Some(indent)) if open.is_a_list() => match open.bullet {
                Some(outer) => indent <= outer,
                None => indent == 0 && !self.has(field),
            },
            _ => true,
        }
    }

    fn begins_extra(&self, bullet: Option<usize>) -> bool {
        match (&self.open, bullet) {
            (Some(open), Some(indent)) if open.is_a_list() => {
                open.bullet.is_some_and(|outer| indent <= outer)
            }
            _ => true,
        }
    }

    fn has(&self, field: Field) -> bool {
        self.seen & field.bit() != 0
    }

    fn begin(
        &mut self,
        meant: Meant,
        name: &'a str,
        line: u32,
        bullet: Option<usize>,
        value: Option<&'a str>,
        told: &mut Told<'a, '_>,
    ) {
        self.close(told);
        let field = meant.field;
        let owner = if meant.is_synonym { Owner::Synonym(field, name) } else { Owner::Known(field) };
        if !meant.is_synonym {
            if self.has(field) {
                return say::given_twice(told.findings, Spot::Line(line), self.phase.name(), field);
            }
            self.seen |= field.bit();
        }
        self.open = Some(match value {
            Some(value) => OpenField::new(owner, line, bullet, value),
            None => OpenField::section(owner, line),
        });
    }

    /// A line below a sub-heading that is no field: kept with it, whatever it looks like.
    fn keep(&mut self, line: &Line<'a>, title: &'a str, heading: u32, told: &mut Told<'a, '_>) {
        let item = line::list_item(line.text);
        let text = item.unwrap_or(line.text);
        let named = line::bold_field(text).and_then(|(name, _)| Field::meant(name));
        if let Some(Meant { field, .. }) = named.filter(|meant| Field::REQUIRED.contains(&meant.field)) {
            self.phase.rare_mut().elsewhere.push((field, line.number, title));
        }
        let take = |open: &mut OpenField<'a>| match item {
            Some(item) => open.item(line, item),
            None => open.prose(line),
        };
        if self.open.as_mut().is_some_and(take) {
            return;
        }
        self.close(told);
        take(self.open.insert(OpenField::section(Owner::Extra(title), heading)));
    }

    pub(super) fn close(&mut self, told: &mut Told<'a, '_>) {
        match self.open.take() {
            Some(open) if open.opened_by == OpenedBy::Section && open.is_empty() => {}
            Some(open @ OpenField { owner: Owner::Synonym(..), .. }) => self.deferred.push(open),
            Some(open) => self.fill(open, told),
            None => {}
        }
    }

    fn fill(&mut self, open: OpenField<'a>, told: &mut Told<'a, '_>) {
        if let Owner::Extra(name) = open.owner {
            told.unknown_field(open.line, name);
        }
        fill::fill(&mut self.phase, open, told.findings);
    }

    /// The phase, with what stands under other names where its own are missing.
    pub(super) fn end(mut self, told: &mut Told<'a, '_>) -> Phase<'a> {
        self.close(told);
        for open in std::mem::take(&mut self.deferred) {
            let Owner::Synonym(field, name) = open.owner else { continue };
            let adds_up = matches!(field, Field::FilesModified | Field::ValidationGates);
            let has_hours =
                field == Field::EstimatedHours && matches!(self.phase.estimated_hours, Slot::Given(..));
            let owner = match (self.has(field) || has_hours) && !adds_up {
                true => Owner::Extra(name),
                false => Owner::Known(field),
            };
            self.seen |= field.bit();
            self.fill(OpenField { owner, ..open }, told);
        }
        self.phase
    }
}
