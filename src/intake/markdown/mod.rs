//! Reads plans in Markdown, as people and models write them: headings of any level, fields in bold, lists.
//!
//! One walk over the lines. It decides what belongs to which phase; what belongs to which field of it says
//! `body`, what a line is says `line`, how a value goes on over several lines says `open`, what it means says
//! `fill`. Blocks of code and comments never make a phase.

mod body;
mod fill;
mod line;
mod open;
mod preamble;
mod restated;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::intake::TASKS_MAX;
use crate::intake::draft::{Draft, Findings, Phase, Slot, Spot};
use crate::intake::field::Field;
use crate::intake::{say, value};
use crate::model::Settings;
use body::{Body, Told};
use line::{Fence, Line, PhaseHeading};
use preamble::Preamble;

/// Reads the text, which has passed as UTF-8 and lost its byte order mark.
pub(super) fn read<'a>(text: &'a str, settings: &Settings, findings: &mut Findings) -> Draft<'a> {
    let mut walk = Walk::new(settings.clone(), findings);
    let mut lines = text.lines().zip(1..).peekable();
    walk.preamble.skip_front_matter(&mut lines, walk.told.findings);
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

/// Bold lines that head a phase stand below every heading.
const BOLD_LEVEL: usize = 7;

struct Walk<'a, 'f> {
    told: Told<'a, 'f>,
    preamble: Preamble,
    phases: Vec<Phase<'a>>,
    /// By label: the first phase of it, and which section it stands in.
    by_label: HashMap<Cow<'a, str>, (usize, Section)>,
    /// The numbers of phases such as 2a and 2b.
    groups: HashSet<String>,
    has_headed_phase: bool,
    body: Option<Body<'a>>,
    /// Counts the headings that are no phase's.
    section: u32,
    section_title: Option<&'a str>,
    verbatim: Option<Verbatim>,
    /// The first phase heading that the current stretch hides.
    hidden: Option<u32>,
    unheaded: say::Unheaded<'a>,
}

/// Where a phase stands: below which heading, and whether it is headed by a bold line.
type Section = (u32, bool);

impl<'a, 'f> Walk<'a, 'f> {
    fn new(settings: Settings, findings: &'f mut Findings) -> Self {
        Walk {
            told: Told::new(findings),
            preamble: Preamble::new(settings),
            phases: Vec::new(),
            by_label: HashMap::new(),
            groups: HashSet::new(),
            has_headed_phase: false,
            body: None,
            section: 0,
            section_title: None,
            verbatim: None,
            hidden: None,
            unheaded: say::Unheaded::default(),
        }
    }

    fn line(&mut self, line: Line<'a>, raw: &'a str, below: &str) -> Step {
        if let Some(verbatim) = self.verbatim {
            self.verbatim_line(verbatim, &line, raw);
            return Step::Next;
        }
        if line.text.is_empty() {
            if let Some(open) = self.open() {
                open.blank();
            }
            return Step::Next;
        }
        if let Some(fence) = Fence::opened_by(&line) {
            self.verbatim = Some(Verbatim::Code(fence, line.number));
            if let Some(open) = self.open() {
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
        if self.may_be_headed_in_bold()
            && let Some(title) = line::bold_heading(line.text)
        {
            return self.heading(line.number, BOLD_LEVEL, title);
        }
        if line::is_rule(line.text) {
            self.close();
            return Step::Next;
        }
        match &mut self.body {
            Some(body) => body.line(line, &mut self.told),
            None if self.phases.is_empty() => self.before_phases(&line),
            None => {}
        }
        Step::Next
    }

    fn open(&mut self) -> Option<&mut open::OpenField<'a>> {
        self.body.as_mut()?.open()
    }

    fn close(&mut self) {
        if let Some(body) = &mut self.body {
            body.close(&mut self.told);
        }
    }

    fn before_phases(&mut self, line: &Line<'a>) {
        if self.unheaded.table.is_none() && line::heads_a_table_of_phases(line.text) {
            self.unheaded.table = Some(line.number);
        }
        self.preamble.line(line, self.section_title, self.told.findings);
    }

    /// Bold lines head phases where no heading does: not beside phases that have one.
    fn may_be_headed_in_bold(&self) -> bool {
        match &self.body {
            Some(body) => body.level == BOLD_LEVEL,
            None => !self.has_headed_phase,
        }
    }

    fn verbatim_line(&mut self, verbatim: Verbatim, line: &Line<'a>, raw: &'a str) {
        let is_over = match verbatim {
            Verbatim::Code(fence, _) => fence.is_closed_by(line),
            Verbatim::Comment(_) => line.text.contains("-->"),
        };
        if is_over {
            self.verbatim = None;
            self.hidden = None;
            if let (Verbatim::Code(..), Some(open)) = (verbatim, self.open()) {
                open.fence(line);
            }
            return;
        }
        if matches!(verbatim, Verbatim::Code(..))
            && let Some(open) = self.open()
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
        self.unheaded.heading(number, title, line::counted_heading(title));
        if let Some(phase) = line::phase_heading(title) {
            self.end_phase();
            if self.phases.len() == TASKS_MAX {
                say::too_many_tasks(self.told.findings, Spot::Line(number));
                return Step::Enough;
            }
            self.begin_phase(number, level, phase);
            return Step::Next;
        }
        match &mut self.body {
            Some(body) if level > body.level => body.sub_heading(number, level, title, &mut self.told),
            // A phase that a bold line heads may have fields with headings of any level.
            Some(body) if body.level == BOLD_LEVEL && Field::meant(value::plain(title)).is_some() => {
                body.sub_heading(number, BOLD_LEVEL + 1, title, &mut self.told);
            }
            _ => {
                self.end_phase();
                self.section += 1;
                self.section_title = Some(value::plain(title).trim_end_matches(':'));
                if self.phases.is_empty() {
                    self.preamble.heading(level, title, number, self.told.findings);
                }
            }
        }
        Step::Next
    }

    fn begin_phase(&mut self, number: u32, level: usize, heading: PhaseHeading<'a>) {
        let spot = Spot::Line(number);
        let mut phase = Phase::new(spot, Cow::Borrowed(heading.label), Cow::Borrowed(heading.title));
        if let Some(hours) = heading.hours {
            phase.estimated_hours = Slot::Given(hours, spot);
        }
        let mut body = Body::new(phase, level);
        if let Some(title) = self.section_title
            && self.stands_elsewhere(&body)
        {
            body.imply(title, number);
        }
        self.body = Some(body);
    }

    /// The section that a body stands in.
    fn section_of(&self, body: &Body<'a>) -> Section {
        (self.section, body.level == BOLD_LEVEL)
    }

    /// Phases were read before, in another section than this one's.
    fn stands_elsewhere(&self, body: &Body<'a>) -> bool {
        let here = self.section_of(body);
        match self.by_label.get(&value::folded(&body.phase.label)) {
            Some((_, section)) => *section != here,
            None => self.section > 0 && self.groups.contains(&*body.phase.label),
        }
    }

    fn end_phase(&mut self) {
        let Some(body) = self.body.take() else { return };
        let (section, is_elsewhere) = (self.section_of(&body), self.stands_elsewhere(&body));
        let phase = body.end(&mut self.told);
        let label = match &phase.label {
            Cow::Borrowed(label) => value::folded(label),
            Cow::Owned(label) => value::folded(label).into_owned().into(),
        };
        match self.by_label.get(&label) {
            Some((first, _)) if is_elsewhere && restated::is_restated(&self.phases[*first], &phase) => {
                return restated::absorb(&mut self.phases[*first], phase);
            }
            None if is_elsewhere && restated::has_no_field(&phase) => {
                let spot = phase.spot;
                let (place, label) = (self.told.findings.place(spot), say::quote(&phase.label));
                let message =
                    format!("{place}: 'Phase {label}' has no field of a phase and is read as prose");
                return self.told.findings.warning(spot, message);
            }
            _ => {}
        }
        let number = phase.label.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        if !number.is_empty() && number.len() < phase.label.len() && !self.groups.contains(number) {
            self.groups.insert(number.to_owned());
        }
        self.has_headed_phase |= !section.1;
        self.by_label.entry(label).or_insert((self.phases.len(), section));
        self.phases.push(phase);
    }

    fn finish(mut self) -> Draft<'a> {
        self.end_phase();
        if let Some(verbatim) = self.verbatim {
            self.unclosed(verbatim);
        }
        if self.phases.is_empty() {
            say::no_phases(self.told.findings, &self.unheaded);
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
                self.told.findings.defect(Spot::Line(line), "unclosed_block", message, remedy);
            }
            None => {
                let message = format!("line {line}: the {what} that begins here never ends");
                self.told.findings.warning(Spot::Line(line), message);
            }
        }
    }
}
