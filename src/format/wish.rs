//! A wish: a file in `control/` by which a person or an agent asks the watcher for something.
//!
//! Strict, unlike what agents report: a mistyped `task` must not turn one task's end into the batch's.

use serde_json::Value;

use crate::model::handoff::Choices;
use crate::model::{Defect, TaskKey};

use super::json;
use super::ordered::Ordered;
use super::shape::{Kind, Shape, Unknown, optional, required};

/// Every verb of the protocol. Those beyond `SUPPORTED` are recognised, and refused with that word.
const VERBS: &[&str] =
    &["cancel", "kill", "retry", "pause", "resume", "resolve", "answer", "approve", "reject", "accept-late"];
const SUPPORTED: &[&str] = &["cancel", "kill", "retry", "pause", "resume", "resolve"];

pub const WISH: Shape = Shape {
    name: "wish",
    title: "Wish: control/NAME.json",
    fields: &[
        required(
            "wish",
            Kind::OneOf(VERBS),
            "what is asked for; this version knows cancel, kill, retry, pause, resume and resolve",
        ),
        optional(
            "task",
            Kind::Id,
            "the task's key or task_id; without it the wish is for the whole batch (retry: all that failed)",
        ),
        optional("by", Kind::FilledText, "who asks; someone where absent"),
        optional("why", Kind::Text, "the reason, for the story and the report"),
        optional(
            "choices",
            Kind::Map,
            "of resolve: by conflict id {\"take\": AGENT}, \"base\", \"delete\" or {\"content\": SHA256}",
        ),
    ],
    unknown: Unknown::Refuse,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Cancel,
    Kill,
    Retry,
    Pause,
    Resume,
    Resolve,
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Verb::Cancel => "cancel",
            Verb::Kill => "kill",
            Verb::Retry => "retry",
            Verb::Pause => "pause",
            Verb::Resume => "resume",
            Verb::Resolve => "resolve",
        }
    }

    fn parse(word: &str) -> Option<Verb> {
        let all = [Verb::Cancel, Verb::Kill, Verb::Retry, Verb::Pause, Verb::Resume, Verb::Resolve];
        all.into_iter().find(|verb| verb.word() == word)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub verb: Verb,
    /// `None` is the whole batch.
    pub task: Option<TaskKey>,
    pub by: String,
    pub why: Option<String>,
    /// Of `resolve`: what becomes of the conflicts.
    pub choices: Choices,
}

pub fn read(bytes: &[u8]) -> Result<Wish, Vec<Defect>> {
    let object = json::parse_object(bytes).map_err(|defect| vec![defect])?;
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    // First of all, because a verb to come may have fields that we do not know.
    if let Some(verb) = text("wish").filter(|verb| VERBS.contains(verb) && !SUPPORTED.contains(verb)) {
        let message = format!("'{verb}' is not supported yet");
        return Err(vec![Defect::field("not_supported", "wish", message, "use a newer version of wk")]);
    }
    let report = WISH.check(&object, "");
    if !report.defects.is_empty() {
        return Err(report.defects);
    }
    let verb = text("wish").and_then(Verb::parse).unwrap_or(Verb::Cancel);
    if verb == Verb::Kill && text("task").is_none() {
        let message = "is missing: kill is for one task";
        return Err(vec![Defect::field("missing_field", "task", message, "name the task, or use cancel")]);
    }
    if matches!(verb, Verb::Pause | Verb::Resume | Verb::Resolve) && text("task").is_some() {
        let message = format!("cannot stand here: {} is for a whole batch", verb.word());
        return Err(vec![Defect::field("not_for_a_task", "task", message, "leave it out")]);
    }
    let choices = choices_of(verb, object.get("choices"))?;
    Ok(Wish {
        verb,
        task: text("task").and_then(|task| TaskKey::parse(task).ok()),
        by: text("by").unwrap_or("someone").to_owned(),
        why: text("why").map(str::to_owned),
        choices,
    })
}

fn choices_of(verb: Verb, given: Option<&Value>) -> Result<Choices, Vec<Defect>> {
    let Some(given) = given else { return Ok(Choices::new()) };
    if verb != Verb::Resolve {
        let message = format!("cannot stand here: {} decides no conflicts", verb.word());
        return Err(vec![Defect::field("not_for_this_wish", "choices", message, "leave it out")]);
    }
    serde_json::from_value(given.clone()).map_err(|error| {
        let remedy = "give each conflict {\"take\": AGENT}, \"base\", \"delete\" or {\"content\": SHA256}";
        vec![Defect::field("bad_choice", "choices", error.to_string(), remedy)]
    })
}

pub fn render(wish: &Wish) -> Vec<u8> {
    let mut object = Ordered::default();
    object.put("wish", wish.verb.word());
    object.put_some("task", wish.task.as_ref().map(TaskKey::as_str));
    object.put("by", wish.by.as_str());
    object.put_some("why", wish.why.as_deref());
    if !wish.choices.is_empty() {
        object.put("choices", serde_json::to_value(&wish.choices).unwrap_or_default());
    }
    object.pretty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_rendered_wish_reads_back() {
        let task = TaskKey::parse("2a").ok();
        let wish = Wish {
            verb: Verb::Cancel,
            task,
            by: "ann".into(),
            why: Some("wrong plan".into()),
            choices: Choices::new(),
        };
        assert_eq!(read(&render(&wish)), Ok(wish));
        assert_eq!(read(b"{\"wish\": \"cancel\"}").unwrap().by, "someone");
    }

    #[test]
    fn a_mistyped_task_never_becomes_the_whole_batch() {
        assert!(refused(r#"{"wish": "cancel", "taks": "2a"}"#).contains("did you mean 'task'"));
        assert!(refused(r#"{"wish": "cancel", "task": null}"#).contains("must be an id, found null"));
        assert!(refused(r#"{"wish": "cancel", "task": "a/b"}"#).contains("only letters"));
    }

    #[test]
    fn verbs_to_come_are_known_and_nonsense_is_not() {
        assert_eq!(
            refused(r#"{"wish": "answer", "text": "yes"}"#),
            "field wish: 'answer' is not supported yet"
        );
        assert!(refused(r#"{"wish": "explode"}"#).contains("is none of cancel, kill"));
    }
}
