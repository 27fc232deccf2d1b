//! What stands before the first phase: the batch's own id, and settings for the batch.
//!
//! Everything else there is prose and ignored: a plan may begin with pages of it.

use std::iter::Peekable;

use super::line::{self, Line};
use crate::intake::draft::{Findings, Spot};
use crate::intake::field::{holds_settings, is_batch_id, plan_setting};
use crate::intake::{say, value};
use crate::model::settings::Given;
use crate::model::{BatchId, Settings};

/// Longest front matter, in lines. A rule at the top of a page opens none.
const FRONT_MATTER_LINES_MAX: usize = 200;

#[derive(Debug)]
pub(super) struct Preamble {
    pub(super) own_id: Option<BatchId>,
    pub(super) settings: Settings,
    /// Below a section's heading, and it is not one of settings: what stands there speaks of other things.
    is_in_prose: bool,
    has_title: bool,
}

impl Preamble {
    pub(super) fn new(settings: Settings) -> Self {
        Preamble { own_id: None, settings, is_in_prose: false, has_title: false }
    }

    /// Reads `key: value` lines between two lines of `---` at the very top, if that is how the text begins.
    pub(super) fn skip_front_matter<'a, I>(&mut self, lines: &mut Peekable<I>, findings: &mut Findings)
    where
        I: Iterator<Item = (&'a str, u32)> + Clone,
    {
        let mut ahead = lines.clone();
        if ahead.next().is_none_or(|(first, _)| first.trim_end() != "---") {
            return;
        }
        let block: Vec<(&str, u32)> =
            ahead.take(FRONT_MATTER_LINES_MAX).take_while(|(raw, _)| raw.trim_end() != "---").collect();
        let is_block = block.iter().all(|(raw, _)| {
            let text = raw.trim();
            text.is_empty() || raw.starts_with([' ', '\t', '#', '-']) || text.contains(':')
        });
        let is_closed = lines.clone().nth(block.len() + 1).is_some();
        if !is_block || !is_closed || block.iter().any(|(raw, _)| raw.starts_with("##")) {
            return;
        }
        for (raw, number) in &block {
            if let Some((name, text)) = raw.split_once(':') {
                self.field(name, text, *number, findings);
            }
        }
        lines.nth(block.len() + 1);
    }

    pub(super) fn line(&mut self, line: &Line<'_>, section: Option<&str>, findings: &mut Findings) {
        let text = line::list_item(line.text).unwrap_or(line.text);
        let field = line::bold_field(text).or_else(|| text.split_once(':'));
        let Some((name, text)) = field else { return };
        if !self.is_in_prose {
            return self.field(name, text, line.number, findings);
        }
        if let Some(key) =
            plan_setting(name).filter(|key| say::is_setting(key, given(key, value::plain(text))))
        {
            let (number, section) = (line.number, say::quote(section.unwrap_or("")));
            let message = format!(
                "line {number}: '{key}' below the heading '{section}' is read as prose; settings stand above the first section"
            );
            findings.warning(Spot::Line(number), message);
        }
    }

    /// A title opens the plan; any further heading opens a section, and few sections hold settings.
    pub(super) fn heading(&mut self, level: usize, title: &str, number: u32, findings: &mut Findings) {
        let title = value::plain(title);
        let is_title = !self.has_title && (level == 1 || line::starts_with_word(title, "batch"));
        self.has_title = true;
        self.is_in_prose = !is_title && !holds_settings(title);
        if self.own_id.is_none() {
            self.batch_heading(title, number, findings);
        }
    }

    /// `# Batch 43: Title`
    fn batch_heading(&mut self, title: &str, number: u32, findings: &mut Findings) {
        if !line::starts_with_word(title, "batch") {
            return;
        }
        let label = title["batch".len()..].trim_start();
        let end = label.find(|c: char| !c.is_ascii_digit()).unwrap_or(label.len());
        let is_number = end > 0 && !label[end..].starts_with(|c: char| c.is_alphanumeric());
        if is_number {
            self.field("batch", &label[..end], number, findings);
        }
    }

    fn field(&mut self, name: &str, text: &str, number: u32, findings: &mut Findings) {
        let spot = Spot::Line(number);
        let text = value::plain(text);
        if is_batch_id(name) {
            // Prose may speak of "Batch: the first of three"; only what could be an id is one.
            if text.contains(char::is_whitespace) {
                return;
            }
            match BatchId::parse(text) {
                Ok(id) => self.own_id = Some(id),
                Err(defect) => say::bad_batch_id(findings, spot, text, &defect),
            }
        } else if let Some(key) = plan_setting(name) {
            let is_prose = text.contains(char::is_whitespace) || value::is_open(text) || value::is_none(text);
            if is_prose && !say::is_setting(key, given(key, text)) {
                let message = format!(
                    "line {number}: '{}' is no value of '{key}' and is read as prose",
                    say::quote(text)
                );
                return findings.warning(spot, message);
            }
            say::put_setting(&mut self.settings, findings, spot, key, given(key, text));
        }
    }
}

fn given(key: &str, text: &str) -> Given {
    let number = match key.ends_with("_seconds") {
        true => value::seconds(text),
        false => text.parse().ok(),
    };
    match number {
        Some(number) => Given::Number(number),
        None => Given::Text(text.to_owned()),
    }
}
