//! Reads plans in Markdown, as people and models write them: headings of any level, fields in bold, lists.
//!
//! One walk over the lines. It decides what belongs to which phase and field; what a line is says `line`,
//! how a value goes on over several lines says `open`, what it means says `fill`. Blocks of code and
//! comments never make a phase.

mod fill;
mod line;
mod open;
mod preamble;

use std::borrow::Cow;
use std::collections::HashSet;

use crate::intake::TASKS_MAX;
use crate::intake::draft::{Draft, Findings, Phase, Slot, Spot};
use crate::intake::field::Field;
use crate::intake::{say, value};
use crate::model::Settings;
use line::{Fence, Line, PhaseHeading};
use open::{OpenField, Owner};
use preamble::Preamble;

/// Reads the text, which has passed as UTF-8 and lost its byte order mark.
pub(super) fn read<'a>(text: &'a str, settings: &Settings, findings: &mut Findings) -> Draft<'a> {
    let mut walk = Walk::new(settings.clone(), findings);
    let mut lines = text.lines().zip(1..).peekable();
    walk.preamble.skip_front_matter(&mut lines, walk.findings);
    while let Some((raw, number)) = lines.next() {
        let line = Line::new(number, raw);
        let below = lines.peek().map_or("", |(raw, _)| *raw);
        match walk.line(line, raw, below) {
            Step::Next => {}
            Step::SkipUnderline => drop(lines.next()),
            Step::Enough => break,
        }
    }
    walk.finish()
}

/// The label and title of a phase in its heading, or in a name that looks like one.
pub(super) fn label_and_title(heading: &str) -> Option<(&str, &str)> {
    line::phase_heading(heading).map(|found| (found.label, found.title))
}

/// What to do after a line.
enum Step {
    Next,
    /// The line below belongs to this one.
    SkipUnderline,
    /// There are too many phases to go on.
    Enough,
}

/// A stretch of text that is not read as Markdown, and where it began.
#[derive(Clone, Copy)]
enum Verbatim {
    Code(Fence, u32),
    Comment(u32),
}

struct Walk<'a, 'f> {
    findings: &'f mut Findings,
    preamble: Preamble,
    phases: Vec<Phase<'a>>,
    /// The level of the current phase's heading; `None` outside of phases.
    level: Option<usize>,
    /// Which fields the current phase has.
    seen: u32,
    open: Option<OpenField<'a>>,
    verbatim: Option<Verbatim>,
    /// The first phase heading that the current stretch hides.
    hidden: Option<u32>,
    unknown: HashSet<&'a str>,
    first_heading: Option<(u32, &'a str)>,
}

impl<'a, 'f> Walk<'a, 'f> {
    fn new(settings: Settings, findings: &'f mut Findings) -> Self {
        Walk {
            findings,
            preamble: Preamble::new(settings),
            phases: Vec::new(),
            level: None,
            seen: 0,
            open: None,
            verbatim: None,
            hidden: None,
            unknown: HashSet::new(),
            first_heading: None,
        }
    }

    fn line(&mut self, line: Line<'a>, raw: &'a str, below: &str) -> Step {
        if let Some(verbatim) = self.verbatim {
            self.verbatim_line(verbatim, &line, raw);
            return Step::Next;
        }
        if line.text.is_empty() {
            if let Some(open) = &mut self.open {
                open.blank();
            }
            return Step::Next;
        }
        if let Some(fence) = Fence::opened_by(&line) {
            self.verbatim = Some(Verbatim::Code(fence, line.number));
            if let Some(open) = &mut self.open {
                open.fence(&line);
            }
            return Step::Next;
        }
        if line.text.starts_with("<!--") {
            if !line.text.contains("-->") {
                self.verbatim = Some(Verbatim::Comment(line.number));
            }
            return Step::Next;
        }
        if let Some((level, title)) = line::heading(&line) {
            return self.heading(line.number, level, title);
        }
        if let Some(level) = line::underline(below)
            && line.is_outdented()
            && (level == 1 || line::phase_heading(line.text).is_some())
            && line::list_item(line.text).is_none()
        {
            return match self.heading(line.number, level, line.text) {
                Step::Next => Step::SkipUnderline,
                other => other,
            };
        }
        if line::is_rule(line.text) {
            self.close();
            return Step::Next;
        }
        match self.level {
            Some(_) => self.phase_line(line),
            None if self.phases.is_empty() => self.preamble.line(&line, self.findings),
            None => {}
        }
        Step::Next
    }

    fn verbatim_line(&mut self, verbatim: Verbatim, line: &Line<'a>, raw: &'a str) {
        let is_over = match verbatim {
            Verbatim::Code(fence, _) => fence.is_closed_by(line),
            Verbatim::Comment(_) => line.text.contains("-->"),
        };
        if is_over {
            self.verbatim = None;
            self.hidden = None;
            if let (Verbatim::Code(..), Some(open)) = (verbatim, &mut self.open) {
                open.fence(line);
            }
            return;
        }
        if matches!(verbatim, Verbatim::Code(..))
            && let Some(open) = &mut self.open
        {
            open.code(line, raw);
        }
        if self.hidden.is_none()
            && line::heading(line).is_some_and(|(_, title)| line::phase_heading(title).is_some())
        {
            self.hidden = Some(line.number);
        }
    }

    fn heading(&mut self, number: u32, level: usize, title: &'a str) -> Step {
        self.close();
        self.first_heading.get_or_insert((number, title));
        if let Some(phase) = line::phase_heading(title) {
            if self.phases.len() == TASKS_MAX {
                say::too_many_tasks(self.findings, Spot::Line(number));
                return Step::Enough;
            }
            self.begin_phase(number, level, phase);
            return Step::Next;
        }
        match self.level {
            Some(phase_level) if level > phase_level => {
                let title = value::plain(title).trim_end_matches(':');
                match Field::named(title) {
                    Some((field, _)) => self.open_known(field, number, None, None),
                    None => self.open_extra(title, number, None, None),
                }
            }
            Some(_) => self.level = None,
            None if self.phases.is_empty() => self.preamble.heading(title, number, self.findings),
            None => {}
        }
        Step::Next
    }

    fn begin_phase(&mut self, number: u32, level: usize, heading: PhaseHeading<'a>) {
        let spot = Spot::Line(number);
        let mut phase = Phase::new(spot, Cow::Borrowed(heading.label), Cow::Borrowed(heading.title));
        if let Some(hours) = heading.hours {
            phase.estimated_hours = Slot::Given(hours, spot);
        }
        self.phases.push(phase);
        self.level = Some(level);
        self.seen = 0;
    }

    /// A line within a phase: a field of its own, or more of the one above.
    fn phase_line(&mut self, line: Line<'a>) {
        let item = line::list_item(line.text);
        let text = item.unwrap_or(line.text);
        let bullet = item.map(|_| line.indent);
        if let Some((name, value)) = line::bold_field(text) {
            match Field::named(name) {
                Some((field, _)) if self.begins_field(field, bullet) => {
                    return self.open_known(field, line.number, bullet, Some(value));
                }
                None if self.begins_extra(bullet) => {
                    return self.open_extra(name, line.number, bullet, Some(value));
                }
                _ => {}
            }
        } else if let Some((field, value)) = line::plain_field(text)
            && self.seen & field.bit() == 0
            && line.indent < 2
            && (bullet.is_none() || self.begins_extra(bullet))
        {
            return self.open_known(field, line.number, bullet, Some(value));
        }
        let Some(open) = &mut self.open else {
            return;
        };
        // Tables and quotations are remarks beside a field, except where a whole section is kept.
        let is_aside = line.text.starts_with(['|', '>']) && !open.is_section;
        let is_taken = match item {
            Some(item) => open.item(&line, item),
            None => !is_aside && open.prose(&line),
        };
        if !is_taken {
            self.close();
        }
    }

    /// A list item in bold within a list is one of its items, unless it names a field and stands as far
    /// out as the fields do.
    fn begins_field(&self, field: Field, bullet: Option<usize>) -> bool {
        match (&self.open, bullet) {
            (Some(open), Some(indent)) if open.is_a_list() => match open.bullet {
                Some(outer) => indent <= outer,
                None => indent == 0 && self.seen & field.bit() == 0,
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

    fn open_known(&mut self, field: Field, number: u32, bullet: Option<usize>, value: Option<&'a str>) {
        self.close();
        if self.seen & field.bit() != 0 {
            let name = self.phases.last().map_or("", |phase| phase.name()).to_owned();
            say::given_twice(self.findings, Spot::Line(number), &name, field);
            return;
        }
        self.seen |= field.bit();
        self.open = Some(opened(Owner::Known(field), number, bullet, value));
    }

    fn open_extra(&mut self, name: &'a str, number: u32, bullet: Option<usize>, value: Option<&'a str>) {
        self.close();
        if self.unknown.insert(name) {
            say::unknown_field(self.findings, Spot::Line(number), name);
        }
        self.open = Some(opened(Owner::Extra(name), number, bullet, value));
    }

    fn close(&mut self) {
        if let (Some(open), Some(phase)) = (self.open.take(), self.phases.last_mut()) {
            fill::fill(phase, open, self.findings);
        }
    }

    fn finish(mut self) -> Draft<'a> {
        self.close();
        if let Some(verbatim) = self.verbatim {
            self.unclosed(verbatim);
        }
        if self.phases.is_empty() {
            say::no_phases(self.findings, self.first_heading);
        }
        Draft { own_id: self.preamble.own_id, settings: self.preamble.settings, phases: self.phases }
    }

    /// Without its end a stretch runs to the end of the file. That matters if it hides a phase.
    fn unclosed(&mut self, verbatim: Verbatim) {
        let (line, what, remedy) = match verbatim {
            Verbatim::Code(_, line) => {
                (line, "block of code", "close it with the same marks on a line of their own")
            }
            Verbatim::Comment(line) => (line, "comment", "close it with -->"),
        };
        match self.hidden {
            Some(hidden) => {
                let message =
                    format!("The {what} that begins here never ends, and hides the phase on line {hidden}");
                self.findings.defect(Spot::Line(line), "unclosed_block", message, remedy);
            }
            None => {
                let message = format!("line {line}: the {what} that begins here never ends");
                self.findings.warning(Spot::Line(line), message);
            }
        }
    }
}

fn opened<'a>(owner: Owner<'a>, line: u32, bullet: Option<usize>, value: Option<&'a str>) -> OpenField<'a> {
    match value {
        Some(value) => OpenField::new(owner, line, bullet, value),
        None => OpenField::section(owner, line),
    }
}
