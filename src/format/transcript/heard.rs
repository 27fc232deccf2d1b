//! What was heard so far, in whatever dialect; keeps every bound, so that no dialect has to.

use std::collections::VecDeque;

use serde_json::Value;

use super::wording::{self, doing, one_line};
use super::{MESSAGE_BYTES_MAX, PROGRESS_CHARS_MAX, Spoken, Update};

/// Enough to see what went wrong; more of the same tells nothing.
const WARNINGS_MAX: usize = 20;

/// A failure is one line for a report.
const FAILURE_CHARS_MAX: usize = 500;

/// Ids are short; anything longer is none.
pub(super) const ID_BYTES_MAX: usize = 200;

/// The largest count that heartbeats and results can carry.
const TOKENS_MAX: u64 = i64::MAX as u64;

/// More dollars than any agent spends: a larger number is none.
const AMOUNT_MAX: f64 = 1e9;

/// Calls of tools whose answers may still come.
const CALLS_MAX: usize = 64;

/// The sum of everything heard.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// A line of the dialect was understood.
    pub(super) has_events: bool,
    /// The CLI said that it is done, well or badly.
    pub(super) has_ended: bool,
    pub(super) turns: Option<u32>,
    pub(super) failure: Option<String>,
    progress: Option<String>,
    tokens_used: Option<u64>,
    cost_usd: Option<f64>,
    session_id: Option<String>,
    message: Option<String>,
    warnings: Vec<String>,
    /// The end of what was no event.
    plain: String,
}

impl Heard {
    pub(super) fn update(&self) -> Update {
        Update { progress: self.progress.clone(), tokens_used: self.tokens_used, cost_usd: self.cost_usd }
    }

    pub(super) fn spoken(self) -> Spoken {
        // A CLI that stops before its first event says why in plain text.
        let message = match self.message {
            Some(text) if self.has_events => wording::message(&text),
            _ if self.has_events => None,
            _ => wording::end_of(&self.plain),
        };
        Spoken {
            final_message: message,
            tokens_used: self.tokens_used,
            cost_usd: self.cost_usd,
            turns: self.turns,
            session_id: self.session_id,
            failure: self.failure,
            warnings: self.warnings,
        }
    }

    /// Shows the first line of a text that has something to show.
    pub(super) fn progress(&mut self, text: &str) {
        if let Some(line) = one_line(text, PROGRESS_CHARS_MAX) {
            self.progress = Some(line);
        }
    }

    /// Raises the total; a total never falls.
    pub(super) fn tokens(&mut self, total: Option<u64>) {
        self.tokens_used = self.tokens_used.max(total.map(|total| total.min(TOKENS_MAX)));
    }

    pub(super) fn cost(&mut self, total: Option<f64>) {
        let known = self.cost_usd.unwrap_or(0.0);
        let total = total.filter(|total| total.is_finite());
        self.cost_usd = total.map(|total| total.max(known)).or(self.cost_usd);
    }

    pub(super) fn tokens_used(&self) -> u64 {
        self.tokens_used.unwrap_or(0)
    }

    pub(super) fn cost_usd(&self) -> f64 {
        self.cost_usd.unwrap_or(0.0)
    }

    pub(super) fn one_more_turn(&mut self) {
        self.turns = Some(self.turns.unwrap_or(0).saturating_add(1));
    }

    /// Keeps the first name that the session has.
    pub(super) fn session(&mut self, id: Option<&str>) {
        let is_fit = |id: &&str| {
            (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if self.session_id.is_none() {
            self.session_id = id.filter(is_fit).map(str::to_owned);
        }
    }

    /// A new message of the assistant, or its beginning. A blank one takes nothing away.
    pub(super) fn message(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.message = Some(wording::cut(text, MESSAGE_BYTES_MAX).to_owned());
        }
    }

    /// More of the message that is being spoken.
    pub(super) fn message_goes_on(&mut self, separator: &str, text: &str) {
        let message = self.message.get_or_insert_default();
        for piece in [separator, text] {
            let room = MESSAGE_BYTES_MAX.saturating_sub(message.len());
            message.push_str(wording::cut(piece, room));
        }
    }

    /// Shows how the message begins, as far as it has come.
    pub(super) fn show_message(&mut self) {
        // More than a line can hold, in any script.
        const BYTES_MAX: usize = 8 * PROGRESS_CHARS_MAX;
        let beginning = wording::cut(self.message.as_deref().unwrap_or_default(), BYTES_MAX).to_owned();
        self.progress(&beginning);
    }

    pub(super) fn fail(&mut self, text: &str) {
        let line = one_line(text, FAILURE_CHARS_MAX);
        self.failure = Some(line.unwrap_or_else(|| "failed without saying why".to_owned()));
    }

    pub(super) fn warn(&mut self, text: &str) {
        let Some(line) = one_line(text, PROGRESS_CHARS_MAX) else { return };
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }

    /// A line that is text; in plain output it is progress as well.
    pub(super) fn plain_line(&mut self, line: &[u8], is_progress: bool) {
        let line = String::from_utf8_lossy(line);
        // What a progress bar drew over is gone.
        let shown = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        if is_progress {
            self.progress(shown);
        }
        self.plain.push_str(shown);
        self.plain.push('\n');
        if self.plain.len() > 2 * MESSAGE_BYTES_MAX {
            self.plain = wording::tail(&self.plain, MESSAGE_BYTES_MAX).to_owned();
        }
    }
}

/// Calls of tools by id, in the words that were shown for them, for the answers that name only the id.
#[derive(Debug, Default)]
pub(super) struct Calls(VecDeque<(String, String)>);

impl Calls {
    /// Remembers a call and gives its words.
    pub(super) fn put(&mut self, id: Option<&Value>, tool: &str, input: &Value, directory: &str) -> String {
        let words = doing(tool, input, directory);
        if let Some(id) = id.and_then(Value::as_str) {
            if self.0.len() == CALLS_MAX {
                self.0.pop_front();
            }
            let short = wording::cut(id, ID_BYTES_MAX).to_owned();
            self.0.push_back((short, one_line(&words, PROGRESS_CHARS_MAX).unwrap_or_default()));
        }
        words
    }

    pub(super) fn words(&self, id: Option<&Value>) -> Option<&str> {
        let id = id.and_then(Value::as_str)?;
        self.0.iter().rev().find(|(known, _)| known == id).map(|(_, words)| words.as_str())
    }
}

/// A count that may have been written as a float.
pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    let whole = |number: f64| (number.is_finite() && number >= 0.0).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

/// The sum of those that are told; `None` if none is.
pub(super) fn sum_of(object: &Value, names: &[&str]) -> Option<u64> {
    let told = names.iter().filter_map(|name| count(object.get(*name)));
    told.reduce(u64::saturating_add)
}

/// An amount of money.
pub(super) fn amount(value: Option<&Value>) -> Option<f64> {
    value?.as_f64().filter(|amount| (0.0..=AMOUNT_MAX).contains(amount))
}

/// A text in an object.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}
