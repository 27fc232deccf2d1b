//! The heartbeat: a small JSON object that an agent rewrites while it lives.
//!
//! Any object is a beat. What it says inside is shown to people and never decides about life, so a wrongly typed field
//! costs that field, not the agent. One word counts: a status that says that the work has ended.

use serde_json::{Map, Value};

use crate::model::claim::ClaimStatus;
use crate::model::{Attempt, Defect, WallTime};

use super::json;
use super::ordered::{Ordered, number};
use super::shape::{Kind, Shape, Unknown, nullable};

pub const HEARTBEAT: Shape = Shape {
    name: "heartbeat",
    title: "Heartbeat: task-X.hb",
    fields: &[
        nullable("task_id", Kind::Text, "whose heartbeat it is, by key or task_id"),
        nullable(
            "status",
            Kind::Text,
            "in_progress, or any other word; one for an end must be followed by a result",
        ),
        nullable(
            "progress",
            Kind::Either(&[Kind::Text, Kind::Number { least: 0.0 }]),
            "what is going on, in words or as a number",
        ),
        nullable("tokens_used", Kind::Integer { least: 0, most: i64::MAX }, "so far"),
        nullable("elapsed_seconds", Kind::Number { least: 0.0 }, "so far"),
        nullable("last_update", Kind::ShownTime, "when it was written; shown, never used"),
        nullable("attempt", Kind::Integer { least: 1, most: u32::MAX as i64 }, "as in the spec"),
    ],
    unknown: Unknown::KeepSilently,
};

/// What a heartbeat says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beat {
    pub attempt: Option<Attempt>,
    pub task_id: Option<String>,
    pub status: Option<String>,
    pub progress: Option<String>,
    pub tokens_used: Option<u64>,
    pub elapsed_seconds: Option<f64>,
    pub last_update: Option<String>,
    /// What was ignored, and why.
    pub warnings: Vec<String>,
}

/// Words for an end. `ok` is none of them: it means that all goes well.
const WORDS_FOR_COMPLETED: &[&str] =
    &["completed", "complete", "done", "finished", "success", "succeeded", "successful"];
const WORDS_FOR_FAILED: &[&str] = &["failed", "failure", "fail", "error", "errored", "aborted"];

impl Beat {
    /// What it says of the end of the work: a report of failure, or the promise of a result.
    pub fn said_end(&self) -> Option<ClaimStatus> {
        let word = self.status.as_deref()?.trim().to_lowercase();
        if WORDS_FOR_FAILED.contains(&word.as_str()) {
            Some(ClaimStatus::Failure)
        } else if WORDS_FOR_COMPLETED.contains(&word.as_str()) {
            Some(ClaimStatus::Success)
        } else {
            None
        }
    }
}

/// Reads a heartbeat. Only what is no JSON object at all is refused.
pub fn read(bytes: &[u8]) -> Result<Beat, Defect> {
    let object = json::parse_object(bytes)?;
    let report = HEARTBEAT.check(&object, "");
    let ignored = report.defects.iter().map(|defect| format!("{defect}; ignored"));
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Beat {
        attempt: whole(&object, "attempt").and_then(Attempt::from_wire),
        task_id: text("task_id"),
        status: text("status"),
        progress: object.get("progress").and_then(progress_of),
        tokens_used: whole(&object, "tokens_used"),
        elapsed_seconds: object.get("elapsed_seconds").and_then(Value::as_f64).filter(|span| *span >= 0.0),
        last_update: text("last_update").filter(|time| WallTime::parse(time).is_some()),
        warnings: ignored.chain(report.warnings.iter().cloned()).collect(),
    })
}

/// A heartbeat for `wk agent beat`: what is known, and nothing else.
pub fn render(beat: &Beat) -> Vec<u8> {
    let mut object = Ordered::default();
    object.put_some("task_id", beat.task_id.as_deref());
    object.put_some("status", beat.status.as_deref());
    object.put_some("progress", beat.progress.as_deref());
    object.put_some("tokens_used", beat.tokens_used);
    object.put_some("elapsed_seconds", beat.elapsed_seconds.map(number));
    object.put_some("last_update", beat.last_update.as_deref());
    object.put_some("attempt", beat.attempt.map(Attempt::number));
    object.pretty()
}

fn progress_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A whole number that is not negative, also where it was written as a float.
fn whole(object: &Map<String, Value>, name: &str) -> Option<u64> {
    let value = object.get(name)?;
    let exact_float = |number: &f64| number.fract() == 0.0 && (0.0..9.0e15).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(exact_float).map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_and_the_empty_object_are_beats() {
        let beat =
            read(br#"{"status": "in_progress", "progress": "Step 2 of 6", "tokens_used": 25000}"#).unwrap();
        assert_eq!(beat.tokens_used, Some(25_000));
        assert_eq!(beat.progress.as_deref(), Some("Step 2 of 6"));
        assert!(beat.warnings.is_empty());
        assert_eq!(read(b"{}").unwrap(), Beat::default());
        assert!(read(b"alive").is_err() && read(b"[]").is_err() && read(b"").is_err());
    }

    #[test]
    fn only_a_word_for_an_end_says_that_the_work_has_ended() {
        let said = |status: &str| Beat { status: Some(status.to_owned()), ..Beat::default() }.said_end();
        for word in ["completed", "Done", "SUCCESS"] {
            assert_eq!(said(word), Some(ClaimStatus::Success), "{word}");
        }
        for word in ["failed", "Error"] {
            assert_eq!(said(word), Some(ClaimStatus::Failure), "{word}");
        }
        for word in ["in_progress", "ok", "running", "completed step 2", "blocked", ""] {
            assert_eq!(said(word), None, "{word}");
        }
        assert_eq!(Beat::default().said_end(), None);
    }

    #[test]
    fn a_wrongly_typed_field_costs_only_itself() {
        let text = r#"{"task_id": 1, "progress": 40, "tokens_used": -3, "elapsed_seconds": "7", "attempt": 2.0,
                       "last_update": "soon"}"#;
        let beat = read(text.as_bytes()).unwrap();
        assert_eq!(beat.attempt, Some(Attempt::FIRST.next()));
        assert_eq!(beat.progress.as_deref(), Some("40"));
        assert_eq!((beat.task_id, beat.tokens_used, beat.elapsed_seconds), (None, None, None));
        assert_eq!(beat.warnings.len(), 5, "{:?}", beat.warnings);
    }

    #[test]
    fn a_rendered_beat_reads_back() {
        let beat = Beat {
            attempt: Some(Attempt::FIRST),
            progress: Some("half".into()),
            elapsed_seconds: Some(1.5),
            ..Beat::default()
        };
        assert_eq!(read(&render(&beat)).unwrap(), beat);
    }
}
