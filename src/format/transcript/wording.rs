//! An agent's words made fit to show, and tool calls in words for people.
//!
//! Sequences that steer a terminal go as a whole: without their first character the rest would stay
//! behind as noise.

use serde_json::Value;

use super::MESSAGE_BYTES_MAX;

const ELLIPSIS: char = '…';

/// The first line with something to see in it, in at most so many characters.
pub(super) fn one_line(text: &str, chars_max: usize) -> Option<String> {
    text.lines().find_map(|line| {
        let line = harmless(line);
        let mut words = String::new();
        let mut length = 0;
        for character in line.split_whitespace().flat_map(|word| std::iter::once(' ').chain(word.chars())) {
            if length == 0 && character == ' ' {
                continue;
            }
            if length == chars_max {
                words.pop();
                words.push(ELLIPSIS);
                break;
            }
            words.push(character);
            length += 1;
        }
        (length > 0).then_some(words)
    })
}

/// A message without what steers a terminal, its beginning if it is too long.
pub(super) fn message(text: &str) -> Option<String> {
    let clean = harmless(text);
    let clean = cut(clean.trim(), MESSAGE_BYTES_MAX).trim_end();
    (!clean.is_empty()).then(|| clean.to_owned())
}

/// The same of an output: its end counts.
pub(super) fn end_of(text: &str) -> Option<String> {
    let clean = harmless(text);
    let clean = tail(clean.trim(), MESSAGE_BYTES_MAX).trim_start();
    (!clean.is_empty()).then(|| clean.to_owned())
}

/// The beginning, at most so many bytes, of whole characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The end, at most so many bytes, of whole characters.
pub(super) fn tail(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Text without escape sequences, control characters and marks of direction; breaks and tabs stay.
fn harmless(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut characters),
            '\n' | '\t' => clean.push(character),
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            '\u{2028}' | '\u{2029}' => clean.push('\n'),
            _ if character.is_control() => {}
            _ => clean.push(character),
        }
    }
    clean
}

/// Skips what belongs to an escape character: `[…letter`, `]…` up to a bell or `ESC \`, or one character.
fn skip_sequence(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.peek() {
        Some('[') => {
            characters.next();
            // A break is no part of a sequence: a broken one must not swallow what follows.
            while characters.next_if(|next| (' '..='?').contains(next)).is_some() {}
            characters.next_if(|next| ('@'..='~').contains(next));
        }
        Some(']') => {
            while characters.next_if(|next| !matches!(next, '\u{7}' | '\u{1b}' | '\n')).is_some() {}
            if characters.next_if_eq(&'\u{1b}').is_some() {
                characters.next_if_eq(&'\\');
            }
        }
        Some(_) => {
            characters.next_if(|next| !next.is_control());
        }
        None => {}
    }
}

/// What a call of a tool does, in words for people. The CLIs call the same tools by many names.
pub(super) fn doing(tool: &str, input: &Value, directory: &str) -> String {
    let field = |names: &[&str]| {
        let found = names.iter().find_map(|name| input.get(*name)?.as_str());
        found.filter(|text| !text.trim().is_empty()).map(str::to_owned)
    };
    let path = || {
        field(&["file_path", "filePath", "notebook_path", "absolute_path", "dir_path", "path"])
            .map(|path| below(&path, directory).to_owned())
    };
    let pattern = || field(&["pattern", "query", "glob"]);
    let words = match tool.to_ascii_lowercase().as_str() {
        "write" | "edit" | "multiedit" | "notebookedit" | "patch" | "write_file" | "replace" => {
            path().map(|path| format!("editing {path}"))
        }
        "read" | "read_file" | "read_many_files" => path().map(|path| format!("reading {path}")),
        "bash" | "shell" | "run_shell_command" => {
            field(&["command"]).map(|command| format!("running: {command}"))
        }
        "grep" | "glob" | "grep_search" | "search_file_content" | "codesearch" => {
            pattern().map(|pattern| format!("searching: {pattern}"))
        }
        "list" | "ls" | "list_directory" => path().map(|path| format!("listing {path}")),
        "webfetch" | "web_fetch" => field(&["url", "prompt"]).map(|url| format!("fetching {url}")),
        "websearch" | "google_web_search" => pattern().map(|query| format!("searching the web: {query}")),
        "task" | "agent" | "invoke_agent" => {
            field(&["description", "agent_name"]).map(|what| format!("delegating: {what}"))
        }
        "todowrite" | "write_todos" => input.get("todos").and_then(current_todo),
        _ => None,
    };
    words.unwrap_or_else(|| format!("using {tool}"))
}

/// The entry of a to-do list that is being worked on.
fn current_todo(todos: &Value) -> Option<String> {
    let current = todos.as_array()?.iter().find(|todo| {
        todo.get("status").and_then(Value::as_str).is_some_and(|status| status == "in_progress")
    })?;
    let words = ["activeForm", "content", "description"].iter().find_map(|name| current.get(*name)?.as_str());
    words.map(str::to_owned)
}

/// A path as seen from the agent's directory.
pub(super) fn below<'a>(path: &'a str, directory: &str) -> &'a str {
    let inside = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
    inside.filter(|rest| !directory.is_empty() && !rest.is_empty()).unwrap_or(path)
}
