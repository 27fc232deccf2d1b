//! The take: a file by which an outsider takes a ready task for itself.
//!
//! Its existence is the message. Ours holds a little JSON; a shell script's `echo me > file` counts as much.

use serde_json::Value;

use super::json;
use super::ordered::Ordered;
use super::shape::{Kind, Shape, Unknown, nullable};

/// Longest name of a taker that is shown, in characters.
const BY_CHARACTERS_MAX: usize = 100;

pub const TAKE: Shape = Shape {
    name: "take",
    title: "Take: task-X.ATTEMPT.take",
    fields: &[
        nullable("by", Kind::Text, "who takes the task"),
        nullable("host", Kind::Text, "on which machine"),
        nullable("pid", Kind::Count { least: 1 }, "the process that works on it"),
        nullable("at", Kind::ShownTime, "when; shown, never used"),
    ],
    unknown: Unknown::KeepSilently,
};

/// Who took a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    pub by: String,
    pub host: Option<String>,
    pub pid: Option<u32>,
    pub at: Option<String>,
}

/// Reads a take. Every file is one, an empty one too.
pub fn read(bytes: &[u8]) -> Take {
    let Ok(object) = json::parse_object(bytes) else {
        let text = String::from_utf8_lossy(bytes);
        let by = name_of(text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default());
        return Take { by, host: None, pid: None, at: None };
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    Take {
        by: name_of(text("by").unwrap_or_default()),
        host: text("host").map(str::to_owned),
        pid: object.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok()),
        at: text("at").map(str::to_owned),
    }
}

pub fn render(take: &Take) -> Vec<u8> {
    let mut object = Ordered::default();
    object.put("by", take.by.as_str());
    object.put_some("host", take.host.as_deref());
    object.put_some("pid", take.pid);
    object.put_some("at", take.at.as_deref());
    object.pretty()
}

/// A name fit to be shown: one line, no control characters, not endless, never empty.
fn name_of(text: &str) -> String {
    let shown: String = text.trim().chars().filter(|c| !c.is_control()).take(BY_CHARACTERS_MAX).collect();
    if shown.is_empty() { "someone".to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_is_a_take() {
        let by = |bytes: &[u8]| read(bytes).by;
        assert_eq!(by(b""), "someone");
        assert_eq!(by(b"me\nand more"), "me");
        assert_eq!(by(b"{\"by\": \"worker-3\"}"), "worker-3");
        assert_eq!(by(b"{\"by\": 3}"), "someone");
        assert_eq!(by(b"{\"by\": \"cut"), "{\"by\": \"cut");
        assert_eq!(by(b"\x1b[31mred\xff"), "[31mred\u{fffd}");
        assert_eq!(by("x".repeat(5000).as_bytes()).len(), BY_CHARACTERS_MAX);
    }

    #[test]
    fn a_rendered_take_reads_back() {
        let take = Take { by: "me".into(), host: Some("here".into()), pid: Some(7), at: None };
        assert_eq!(read(&render(&take)), take);
    }
}
