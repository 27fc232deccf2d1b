//! `opencode run --format json`: the parts of each message, one a line, in the order in which they are
//! finished. A tool is told only when it is through.
//!
//! Tokens and cost are told for each step, so they add up; those of sub-agents are not told. A refused
//! permission and an answer cut at its limit both end the run with exit code 0.

use serde_json::Value;

use super::heard::{Heard, amount, count, sum_of, text};
use super::wording::doing;

#[derive(Debug, Default)]
pub(super) struct Ear {
    /// The message of the last text; a message may have several.
    speaking: Option<String>,
    /// Why the last step ended; `None` while one goes on.
    reason: Option<String>,
    /// The last call that was refused.
    refused: Option<String>,
    has_error: bool,
}

impl Ear {
    pub(super) fn hear(&mut self, kind: &str, event: &Value, heard: &mut Heard) -> bool {
        let part = event.get("part").unwrap_or(&Value::Null);
        match kind {
            "step_start" => {
                self.reason = None;
                let turn = heard.turns.unwrap_or(0).saturating_add(1);
                heard.progress(&format!("turn {turn}"));
            }
            "step_finish" => self.step_finish(part, heard),
            "text" => self.text(part, heard),
            "reasoning" => heard.progress("thinking"),
            "tool_use" => self.tool_use(part, heard),
            "error" => {
                let error = event.get("error").unwrap_or(&Value::Null);
                let message = error.get("data").and_then(|data| text(data, "message"));
                let plain = error.as_str().or_else(|| text(error, "message"));
                heard.fail(message.or(plain).or_else(|| text(error, "name")).unwrap_or_default());
                heard.has_ended = true;
                self.has_error = true;
            }
            _ => return false,
        }
        heard.session(text(event, "sessionID"));
        true
    }

    /// What the way in which the last step ended means for the whole.
    pub(super) fn end(&self, heard: &mut Heard) {
        if self.has_error {
            return;
        }
        match (self.reason.as_deref(), &self.refused) {
            (Some("stop"), _) => heard.has_ended = true,
            (Some("length"), _) => {
                heard.has_ended = true;
                heard.fail("the answer was cut off at its limit of tokens");
            }
            (Some("tool-calls"), Some(refused)) => {
                heard.has_ended = true;
                heard.fail(&format!("stopped, because permission was denied: {refused}"));
            }
            // Another step should have followed.
            (Some("tool-calls") | None, _) => {}
            (Some(reason), _) => {
                heard.has_ended = true;
                heard.fail(&format!("stopped: {reason}"));
            }
        }
    }

    fn step_finish(&mut self, part: &Value, heard: &mut Heard) {
        heard.one_more_turn();
        self.reason = Some(text(part, "reason").unwrap_or("stop").to_owned());
        if let Some(tokens) = part.get("tokens").and_then(tokens_in) {
            heard.tokens(Some(heard.tokens_used().saturating_add(tokens)));
        }
        if let Some(cost) = amount(part.get("cost")) {
            heard.cost(Some(heard.cost_usd() + cost));
        }
    }

    fn text(&mut self, part: &Value, heard: &mut Heard) {
        let said = text(part, "text").unwrap_or_default();
        heard.progress(said);
        let message = text(part, "messageID").map(str::to_owned);
        if message.is_some() && message == self.speaking {
            heard.message_goes_on("\n\n", said);
        } else {
            heard.message(said);
            self.speaking = message;
        }
    }

    fn tool_use(&mut self, part: &Value, heard: &mut Heard) {
        let state = part.get("state").unwrap_or(&Value::Null);
        let tool = text(part, "tool").unwrap_or("a tool");
        let mut words = doing(tool, state.get("input").unwrap_or(&Value::Null), "");
        // The title of an edit is its path as seen from the directory.
        if let (true, Some(title)) = (words.starts_with("editing "), text(state, "title")) {
            words = format!("editing {title}");
        }
        heard.progress(&words);
        let error = text(state, "error").unwrap_or_default();
        if text(state, "status") == Some("error") && is_refusal(error) {
            heard.warn(&format!("permission denied: {words}"));
            self.refused = Some(words);
        }
    }
}

/// A refusal by a person's absence, or by a rule.
fn is_refusal(error: &str) -> bool {
    error.contains("rejected permission") || error.contains("rule which prevents you")
}

/// The total of a step; earlier versions told only its parts.
fn tokens_in(tokens: &Value) -> Option<u64> {
    let parts = sum_of(tokens, &["input", "output", "reasoning"]);
    let cache = tokens.get("cache").and_then(|cache| sum_of(cache, &["read", "write"]));
    let sum = parts.map(|parts| parts.saturating_add(cache.unwrap_or(0)));
    count(tokens.get("total")).or(sum)
}
