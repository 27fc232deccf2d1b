//! `claude -p --output-format stream-json --verbose`: one event a line, the last one is the result.
//!
//! A message is told once for every block in it, each time with the same usage; what it wrote is not
//! counted there yet, so the totals of the result are the truth and those before it a lower bound.

use std::collections::VecDeque;

use serde_json::Value;

use super::heard::{Calls, Heard, ID_BYTES_MAX, amount, count, sum_of, text};
use super::wording::doing;

/// Messages whose usage is remembered; those of sub-agents come in between.
const MESSAGES_MAX: usize = 64;

const USAGE: [&str; 4] =
    ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
const MODEL_USAGE: [&str; 4] =
    ["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens"];

#[derive(Debug, Default)]
pub(super) struct Ear {
    directory: String,
    counted: VecDeque<(String, u64)>,
    calls: Calls,
}

impl Ear {
    /// Hears one event; whether it is one of this dialect.
    pub(super) fn hear(&mut self, kind: &str, event: &Value, heard: &mut Heard) -> bool {
        match kind {
            "system" => self.system(event, heard),
            "assistant" => self.assistant(event, heard),
            "result" => match text(event, "subtype") {
                Some(subtype) => self.result(subtype, event, heard),
                None => return false,
            },
            "user" | "stream_event" => {}
            _ => return false,
        }
        heard.session(text(event, "session_id"));
        true
    }

    fn system(&mut self, event: &Value, heard: &mut Heard) {
        match text(event, "subtype") {
            Some("init") => {
                text(event, "cwd").unwrap_or_default().clone_into(&mut self.directory);
                let servers = event.get("mcp_servers").and_then(Value::as_array);
                for server in servers.into_iter().flatten() {
                    if text(server, "status") == Some("failed") {
                        let name = text(server, "name").unwrap_or_default();
                        heard.warn(&format!("MCP server {name} did not start"));
                    }
                }
            }
            Some("api_retry") => {
                let number = |name| count(event.get(name)).unwrap_or(0);
                let (attempt, most) = (number("attempt"), number("max_retries"));
                heard.progress(&format!("waiting for the API: retry {attempt} of {most}"));
            }
            Some("permission_denied") => {
                let tool = text(event, "tool_name").unwrap_or("a tool");
                let what = self.calls.words(event.get("tool_use_id")).unwrap_or(tool);
                heard.warn(&format!("permission denied: {what}"));
            }
            _ => {}
        }
    }

    fn assistant(&mut self, event: &Value, heard: &mut Heard) {
        let Some(message) = event.get("message") else { return };
        let is_sub_agent = event.get("parent_tool_use_id").is_some_and(Value::is_string);
        // The CLI speaks in the model's place when the API refuses.
        let is_api_error = event.get("is_api_error_message").and_then(Value::as_bool).unwrap_or(false);
        let is_synthetic = is_api_error || text(message, "model") == Some("<synthetic>");
        if !is_synthetic {
            self.count_usage(message, is_sub_agent, heard);
        }
        let blocks = message.get("content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            match text(block, "type") {
                Some("text") => {
                    let words = text(block, "text").unwrap_or_default();
                    heard.progress(words);
                    if is_api_error {
                        heard.fail(words);
                    } else if !is_sub_agent && !is_synthetic {
                        heard.message(words);
                    }
                }
                Some("tool_use") => {
                    let tool = text(block, "name").unwrap_or("a tool");
                    let input = block.get("input").unwrap_or(&Value::Null);
                    let words = self.calls.put(block.get("id"), tool, input, &self.directory);
                    heard.progress(&words);
                }
                Some("thinking" | "redacted_thinking") => heard.progress("thinking"),
                _ => {}
            }
        }
    }

    /// Adds a message's usage once, or what came to it since it was told last.
    fn count_usage(&mut self, message: &Value, is_sub_agent: bool, heard: &mut Heard) {
        let Some(id) = text(message, "id").filter(|id| id.len() <= ID_BYTES_MAX) else { return };
        let Some(tokens) = message.get("usage").and_then(|usage| sum_of(usage, &USAGE)) else { return };
        let more = match self.counted.iter_mut().rev().find(|(known, _)| known == id) {
            Some((_, counted)) => {
                let more = tokens.saturating_sub(*counted);
                *counted += more;
                more
            }
            None => {
                if self.counted.len() == MESSAGES_MAX {
                    self.counted.pop_front();
                }
                self.counted.push_back((id.to_owned(), tokens));
                if !is_sub_agent {
                    heard.one_more_turn();
                }
                tokens
            }
        };
        heard.tokens(Some(heard.tokens_used().saturating_add(more)));
    }

    fn result(&mut self, subtype: &str, event: &Value, heard: &mut Heard) {
        heard.has_ended = true;
        // By model is the fuller account: it has the sub-agents, and the last turn of a run cut short.
        let models = event.get("modelUsage").and_then(Value::as_object);
        let by_model = models.into_iter().flat_map(|models| models.values());
        let by_model = by_model.filter_map(|usage| sum_of(usage, &MODEL_USAGE)).reduce(u64::saturating_add);
        heard.tokens(by_model.or_else(|| event.get("usage").and_then(|usage| sum_of(usage, &USAGE))));
        heard.cost(amount(event.get("total_cost_usd")));
        if let Some(turns) = count(event.get("num_turns")).and_then(|turns| u32::try_from(turns).ok()) {
            heard.turns = Some(turns);
        }

        let said = text(event, "result").unwrap_or_default();
        match failure_in(subtype, event) {
            Some(failure) => heard.fail(&failure),
            None => {
                heard.failure = None;
                heard.message(said);
            }
        }
        let denials = event.get("permission_denials").and_then(Value::as_array);
        for denial in denials.into_iter().flatten() {
            let tool = text(denial, "tool_name").unwrap_or("a tool");
            let input = denial.get("tool_input").unwrap_or(&Value::Null);
            let words = doing(tool, input, &self.directory);
            heard.warn(&format!("permission denied: {words}"));
        }
    }
}

/// Why the result is none. `subtype` alone does not tell: a refused request ends as a "success" with
/// `is_error`, and older versions end at their turn limit without it.
fn failure_in(subtype: &str, result: &Value) -> Option<String> {
    let is_error = result.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let is_refused = text(result, "stop_reason") == Some("refusal");
    if !is_error && subtype == "success" && !is_refused {
        return None;
    }
    let errors = result.get("errors").and_then(Value::as_array).into_iter().flatten();
    let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
    let said = text(result, "result").filter(|said| !said.trim().is_empty());
    let told = if errors.is_empty() { said.map(str::to_owned) } else { Some(errors.join("; ")) };
    let by_kind = if is_refused { "the model refused".to_owned() } else { subtype.replace('_', " ") };
    Some(told.unwrap_or(by_kind))
}
