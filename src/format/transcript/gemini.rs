//! `gemini --output-format stream-json`: messages in pieces, calls of tools, and a result with totals.
//!
//! Money and turns are never told, tokens at the end only, and not that an answer was cut at its limit.
//! A tool that the approval mode does not allow is simply "not found"; a run that is stopped because it
//! goes in circles ends as a success.

use serde_json::Value;

use super::heard::{Calls, Heard, count, text};

#[derive(Debug, Default)]
pub(super) struct Ear {
    calls: Calls,
    /// The next piece belongs to the message before it.
    is_speaking: bool,
}

impl Ear {
    pub(super) fn hear(&mut self, kind: &str, event: &Value, heard: &mut Heard) -> bool {
        match kind {
            "init" => heard.session(text(event, "session_id")),
            "message" => self.message(event, heard),
            "tool_use" => {
                self.is_speaking = false;
                heard.failure = None;
                let tool = text(event, "tool_name").unwrap_or("a tool");
                let input = event.get("parameters").unwrap_or(&Value::Null);
                let words = self.calls.put(event.get("tool_id"), tool, input, "");
                heard.progress(&words);
            }
            "tool_result" => self.tool_result(event, heard),
            "error" => {
                let message = text(event, "message").unwrap_or_default();
                let has_stopped = message.contains("stopping execution");
                if text(event, "severity") == Some("warning") && !has_stopped {
                    heard.warn(message);
                } else {
                    heard.fail(&plain_message(message));
                }
            }
            "result" => match text(event, "status") {
                Some(status) => result(status, event, heard),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    fn message(&mut self, event: &Value, heard: &mut Heard) {
        if text(event, "role") != Some("assistant") {
            self.is_speaking = false;
            return;
        }
        // Whatever went wrong before, the work went on.
        heard.failure = None;
        let said = text(event, "content").unwrap_or_default();
        let is_piece = event.get("delta").and_then(Value::as_bool).unwrap_or(false);
        if is_piece && self.is_speaking {
            heard.message_goes_on("", said);
        } else {
            heard.message(said);
        }
        heard.show_message();
        // A blank beginning is left out, and what follows begins anew.
        self.is_speaking = is_piece && (self.is_speaking || !said.trim().is_empty());
    }

    fn tool_result(&mut self, event: &Value, heard: &mut Heard) {
        let words = self.calls.words(event.get("tool_id")).unwrap_or("a tool");
        match event.get("error").and_then(|error| text(error, "type")) {
            Some("policy_violation") => heard.warn(&format!("permission denied: {words}")),
            // Refused by the approval mode, or made up by the model: both look the same.
            Some("tool_not_registered") => heard.warn(&format!("no such tool is allowed: {words}")),
            _ => {}
        }
    }
}

fn result(status: &str, event: &Value, heard: &mut Heard) {
    heard.has_ended = true;
    heard.tokens(event.get("stats").and_then(|stats| count(stats.get("total_tokens"))));
    if status == "success" {
        return;
    }
    let told = event.get("error").and_then(|error| text(error, "message"));
    match told {
        Some(message) => heard.fail(&plain_message(message)),
        None if heard.failure.is_none() => heard.fail("the result is an error"),
        None => {}
    }
}

/// What the API said, where it is wrapped as `[API Error: {…}]`.
fn plain_message(message: &str) -> String {
    let inner = message.strip_prefix("[API Error: ").and_then(|rest| rest.strip_suffix(']'));
    let parsed = inner.and_then(|inner| serde_json::from_str::<Value>(inner).ok());
    let plain = parsed.as_ref().and_then(|value| text(value.get("error")?, "message"));
    plain.map_or_else(|| message.to_owned(), |plain| format!("API error: {plain}"))
}
