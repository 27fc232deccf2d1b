//! `codex exec --json`: a thread, its turns, and the items in them.
//!
//! Tokens are told at the end of a turn only, as the total of the thread; money never. Commands that
//! its sandbox refuses leave no trace here.

use serde_json::Value;

use super::heard::{Heard, sum_of, text};

/// Cached input is part of the input, reasoning part of the output.
const USAGE: [&str; 2] = ["input_tokens", "output_tokens"];

#[derive(Debug, Default)]
pub(super) struct Ear {
    /// The last error. A lost connection is told as one, too, and taken up again.
    error: Option<String>,
}

impl Ear {
    pub(super) fn hear(&mut self, kind: &str, event: &Value, heard: &mut Heard) -> bool {
        match kind {
            "thread.started" => heard.session(text(event, "thread_id")),
            "turn.started" => {
                heard.has_ended = false;
                heard.progress("thinking");
            }
            "turn.completed" => {
                heard.tokens(event.get("usage").and_then(|usage| sum_of(usage, &USAGE)));
                heard.has_ended = true;
                heard.failure = None;
                self.error = None;
            }
            "turn.failed" => {
                heard.has_ended = true;
                let why = event.get("error").and_then(|error| text(error, "message"));
                heard.fail(why.or(self.error.as_deref()).unwrap_or_default());
            }
            "error" => {
                let message = text(event, "message").unwrap_or_default();
                heard.progress(message);
                self.error = Some(message.to_owned());
            }
            "item.started" | "item.updated" | "item.completed" => {
                if let Some(item) = event.get("item") {
                    hear_item(item, heard);
                }
            }
            _ => return false,
        }
        true
    }

    /// An error after which no turn was completed was the end.
    pub(super) fn end(&self, heard: &mut Heard) {
        if let (None, Some(error)) = (&heard.failure, &self.error) {
            heard.fail(error);
        }
    }
}

fn hear_item(item: &Value, heard: &mut Heard) {
    // Earlier versions called the kind of an item `item_type`.
    let kind = text(item, "type").or_else(|| text(item, "item_type")).unwrap_or_default();
    let is_declined = text(item, "status") == Some("declined");
    let words = match kind {
        "agent_message" | "assistant_message" => {
            let said = text(item, "text").unwrap_or_default();
            heard.message(said);
            said.to_owned()
        }
        // Reasoning opens with a title in bold.
        "reasoning" => text(item, "text").unwrap_or("thinking").replace("**", ""),
        "command_execution" => {
            format!("running: {}", without_shell(text(item, "command").unwrap_or_default()))
        }
        "file_change" => changes_in(item),
        "mcp_tool_call" => {
            let name = |name| text(item, name).unwrap_or_default();
            format!("using {} of {}", name("tool"), name("server"))
        }
        "web_search" => format!("searching the web: {}", text(item, "query").unwrap_or_default()),
        "todo_list" => todo_in(item).unwrap_or_default(),
        // Not the end of the turn: codex says so of what it can work without.
        "error" => return heard.warn(text(item, "message").unwrap_or_default()),
        _ => return,
    };
    heard.progress(&words);
    if is_declined {
        heard.warn(&format!("permission denied: {words}"));
    }
}

fn changes_in(item: &Value) -> String {
    let changes = item.get("changes").and_then(Value::as_array);
    let mut paths = changes.into_iter().flatten().filter_map(|change| text(change, "path"));
    let first = paths.next().unwrap_or("files");
    match paths.count() {
        0 => format!("editing {first}"),
        others => format!("editing {first} and {others} more"),
    }
}

/// How much of the plan is done, and what comes next.
fn todo_in(item: &Value) -> Option<String> {
    let todos = item.get("items")?.as_array()?;
    let is_done = |todo: &&Value| todo.get("completed").and_then(Value::as_bool).unwrap_or(false);
    let done = todos.iter().filter(is_done).count();
    let next = todos.iter().find(|todo| !is_done(todo)).and_then(|todo| text(todo, "text"));
    let next = next.map(|next| format!(": {next}")).unwrap_or_default();
    Some(format!("{done} of {} steps done{next}", todos.len()))
}

/// The command itself: codex shows the shell that it runs every command through.
fn without_shell(command: &str) -> &str {
    let inner = ["bash -lc ", "sh -lc ", "zsh -lc ", "bash -c ", "sh -c "]
        .iter()
        .find_map(|shell| command.split_once(shell))
        .filter(|(before, _)| !before.contains(char::is_whitespace))
        .map(|(_, inner)| inner);
    let Some(inner) = inner else { return command };
    let quoted = ['\'', '"'].iter().find_map(|quote| inner.strip_prefix(*quote)?.strip_suffix(*quote));
    quoted.unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_around_a_command_is_not_shown() {
        assert_eq!(without_shell("/bin/bash -lc 'cat hello.txt'"), "cat hello.txt");
        assert_eq!(without_shell("bash -lc ls"), "ls");
        assert_eq!(without_shell("git grep 'bash -lc x'"), "git grep 'bash -lc x'");
        assert_eq!(without_shell("/bin/bash -lc '"), "'");
    }
}
