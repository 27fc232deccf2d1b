//! The result: what an agent says that it did, read into a claim, and written for `wk agent done`.
//!
//! Judges form alone. Whether the files are there, and inside the root, is for verification.

use serde_json::{Map, Value};

use crate::model::claim::ClaimStatus;
use crate::model::{Attempt, Claim, Defect};

use super::json;
use super::ordered::number;
use super::shape::{Kind, Shape, Synonyms, Unknown, nullable, optional, required, understood};

/// Every word for a status, and what agents write instead. The first means success, all others failure.
pub const STATUSES: &[Synonyms] = &[
    (
        "success",
        &["succeeded", "successful", "ok", "okay", "done", "complete", "completed", "passed", "pass"],
    ),
    ("failed", &["fail", "error", "errored", "aborted"]),
    ("failure", &[]),
    ("timeout", &["timed_out", "timedout"]),
    ("blocked", &[]),
    ("cancelled", &["canceled"]),
];

/// What an agent produced. `errors` may stand here or on top: the protocol shows both.
pub const OUTPUT: Shape = Shape {
    name: "output",
    title: "What the task produced",
    fields: &[
        optional("files_created", Kind::Files, "relative to the root"),
        optional("files_modified", Kind::Files, "relative to the root"),
        optional("files_deleted", Kind::Files, "what was removed on purpose, relative to the root"),
        nullable(
            "no_change_needed",
            Kind::FilledText,
            "why nothing that the task declares had to be changed",
        ),
        optional("commits", Kind::List, "hashes, or objects that describe them"),
        optional("prps_generated", Kind::List, "names, or objects that describe them"),
        optional("errors", Kind::Messages, "what went wrong"),
    ],
    unknown: Unknown::KeepSilently,
};

pub const RESULT: Shape = Shape {
    name: "result",
    title: "Result: task-X.result.json",
    fields: &[
        required("task_id", Kind::FilledText, "whose result it is, by key or task_id"),
        required("status", Kind::Loosely(STATUSES), "success, or one of the words for failure"),
        required("output", Kind::Object(&OUTPUT), "what the task produced"),
        optional("errors", Kind::Messages, "what went wrong"),
        nullable("tokens_used", Kind::Count { least: 0 }, "absent where nobody counted"),
        nullable("elapsed_seconds", Kind::Number { least: 0.0 }, "how long the attempt took"),
        nullable(
            "attempt",
            Kind::Count { least: 1 },
            "as in the spec; fences off what an earlier attempt writes",
        ),
        nullable(
            "wk_mark",
            Kind::Text,
            "WK_MARK, where wk started the agent; fences off what came from another bus",
        ),
        optional("metrics", Kind::Map, "what the agent counted: lines_of_code, test_count and their like"),
        nullable(
            "no_change_needed",
            Kind::FilledText,
            "why nothing that the task declares had to be changed",
        ),
        optional("success_criteria_met", Kind::Map, "what it says of each criterion: true, false or a value"),
    ],
    unknown: Unknown::KeepSilently,
};

/// Lists that belong into `output`.
const PRODUCTS: &[&str] = &["files_created", "files_modified", "files_deleted", "commits", "prps_generated"];

/// Reads a result into a claim.
pub fn read(bytes: &[u8]) -> Result<Claim, Vec<Defect>> {
    let object = json::parse_object(bytes).map_err(|defect| vec![defect])?;
    let mut defects = RESULT.check(&object, "").defects;
    let attempt = object.get("attempt").and_then(Value::as_u64);
    if attempt.is_some_and(|number| number > u64::from(u32::MAX)) {
        let message = format!("must be at most {}", u32::MAX);
        defects.push(Defect::field("out_of_range", "attempt", message, "repeat the spec's attempt"));
    }
    if defects.is_empty() { Ok(claim_of(&object)) } else { Err(defects) }
}

/// Builds the claim from an object that has passed the check.
fn claim_of(object: &Map<String, Value>) -> Claim {
    let output = object.get("output");
    let list = |name: &str| -> Vec<Value> {
        output.and_then(|output| output.get(name)?.as_array()).cloned().unwrap_or_default()
    };
    let texts = |name: &str| -> Vec<String> {
        list(name).iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let map = |name: &str| -> Map<String, Value> {
        let found = object.get(name).or_else(|| output?.get(name));
        found.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let no_change = object.get("no_change_needed").or_else(|| output?.get("no_change_needed"));
    let mut errors = messages(object.get("errors"));
    for error in messages(output.and_then(|output| output.get("errors"))) {
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    let status = object.get("status").and_then(Value::as_str);
    let is_success = status.and_then(|word| understood(STATUSES, word)) == Some(STATUSES[0].0);
    Claim {
        task_id: object.get("task_id").and_then(Value::as_str).unwrap_or_default().to_owned(),
        status: if is_success { ClaimStatus::Success } else { ClaimStatus::Failure },
        attempt: object.get("attempt").and_then(Value::as_u64).and_then(Attempt::from_wire),
        mark: object.get("wk_mark").and_then(Value::as_str).map(str::to_owned),
        files_created: texts("files_created"),
        files_modified: texts("files_modified"),
        files_deleted: texts("files_deleted"),
        no_change_needed: no_change.and_then(Value::as_str).map(str::to_owned),
        commits: list("commits"),
        prps_generated: list("prps_generated"),
        errors,
        tokens_used: object.get("tokens_used").and_then(Value::as_u64),
        elapsed_seconds: object.get("elapsed_seconds").and_then(Value::as_f64),
        metrics: map("metrics"),
        criteria: map("success_criteria_met"),
    }
}

fn messages(list: Option<&Value>) -> Vec<String> {
    let text = |item: &Value| item.as_str().or_else(|| item.get("message")?.as_str()).map(str::to_owned);
    list.and_then(Value::as_array).into_iter().flatten().filter_map(text).collect()
}

/// What the caller of `wk agent done` knows, by flags and by the attempt that it runs in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    pub task_id: String,
    pub attempt: Option<Attempt>,
    /// Which attempt of which bus it was started for, where wk started it.
    pub mark: Option<String>,
    /// Success, where neither this nor the partial result says otherwise.
    pub status: Option<String>,
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    pub files_deleted: Vec<String>,
    pub no_change_needed: Option<String>,
    pub commits: Vec<String>,
    pub prps_generated: Vec<String>,
    pub errors: Vec<String>,
    pub tokens_used: Option<u64>,
    pub elapsed_seconds: Option<f64>,
}

/// Completes a partial result (an empty map is one) to a valid one. Flags win over what it says; lists
/// are joined; products that stand on top are moved into `output`.
pub fn render(done: &Done, partial: Map<String, Value>) -> Result<Vec<u8>, Vec<Defect>> {
    let mut object = partial;
    object.entry("output").or_insert_with(|| Value::Object(Map::new()));
    for name in PRODUCTS {
        let on_top = object.remove(*name);
        if let (Some(list), Some(output)) = (on_top, object.get_mut("output").and_then(Value::as_object_mut))
        {
            output.entry(*name).or_insert(list);
        }
    }
    if let Some(output) = object.get_mut("output").and_then(Value::as_object_mut) {
        let flags = [
            &done.files_created,
            &done.files_modified,
            &done.files_deleted,
            &done.commits,
            &done.prps_generated,
        ];
        for (name, given) in PRODUCTS.iter().zip(flags) {
            // Old readers of results know the other lists; this one is written where there is something to say.
            if *name != "files_deleted" || !given.is_empty() {
                extend(output, name, given);
            }
        }
    }
    extend(&mut object, "errors", &done.errors);
    object.insert("task_id".to_owned(), done.task_id.as_str().into());
    if let Some(status) = &done.status {
        object.insert("status".to_owned(), status.as_str().into());
    }
    object.entry("status").or_insert_with(|| STATUSES[0].0.into());
    let known = [
        ("attempt", done.attempt.map(|attempt| attempt.number().into())),
        ("wk_mark", done.mark.as_deref().map(Value::from)),
        ("tokens_used", done.tokens_used.map(Value::from)),
        ("elapsed_seconds", done.elapsed_seconds.map(number)),
        ("no_change_needed", done.no_change_needed.as_deref().map(Value::from)),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    }
    let mut bytes = serde_json::to_vec_pretty(&in_order(object)).unwrap_or_default();
    bytes.push(b'\n');
    read(&bytes).map(|_| bytes)
}

/// Adds texts to a list, which is made where there is none. Anything else there is left for the check.
fn extend(object: &mut Map<String, Value>, name: &str, texts: &[String]) {
    let list = object.entry(name).or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    if let Some(items) = list.as_array_mut() {
        let new = texts.iter().map(|text| Value::from(text.as_str())).filter(|text| !items.contains(text));
        let new: Vec<Value> = new.collect();
        items.extend(new);
    }
}

/// The protocol's order first, then whatever else there is.
fn in_order(mut object: Map<String, Value>) -> super::ordered::Ordered {
    let mut ordered = super::ordered::Ordered::default();
    for field in RESULT.fields {
        ordered.put_some(field.name, object.remove(field.name));
    }
    for (name, value) in object {
        ordered.put(&name, value);
    }
    ordered
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(value: Value) -> Vec<String> {
        read(value.to_string().as_bytes()).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_that_is_missing_is_told_at_once() {
        assert_eq!(
            refused(json!({})),
            [
                "field task_id: missing 'task_id' field",
                "field status: missing 'status' field",
                "field output: missing 'output' field"
            ]
        );
    }

    #[test]
    fn absent_lists_are_empty_and_errors_may_stand_in_either_place() {
        let result = json!({
            "task_id": "phase-1", "status": "failed", "errors": ["a", {"message": "b", "line": 3}],
            "output": {"files_created": ["x.md"], "files_modified": null, "errors": ["b", "c"]},
        });
        let claim = read(result.to_string().as_bytes()).unwrap();
        assert_eq!(claim.status, ClaimStatus::Failure);
        assert_eq!(claim.errors, ["a", "b", "c"]);
        assert_eq!((claim.files_created, claim.files_deleted.len()), (vec!["x.md".to_owned()], 0));
        assert_eq!((claim.files_modified.len(), claim.tokens_used, claim.attempt), (0, None, None));
    }

    #[test]
    fn words_that_agents_use_for_an_end_are_understood_and_others_are_refused() {
        let status = |word: &str| {
            read(json!({"task_id": "a", "status": word, "output": {}}).to_string().as_bytes())
                .map(|claim| claim.status)
        };
        for word in ["success", "Success", "ok", "OK", "done", "completed", " Succeeded "] {
            assert_eq!(status(word), Ok(ClaimStatus::Success), "{word}");
        }
        for word in ["failed", "Failed", "error", "FAILURE", "canceled", "timed_out"] {
            assert_eq!(status(word), Ok(ClaimStatus::Failure), "{word}");
        }
        for word in ["in_progress", "partial", "", "not ok"] {
            assert!(status(word).is_err(), "{word}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_one_is_refused_and_an_absent_one_is_not_zero() {
        for wrong in ["-1", "1.5", "2.0", "18446744073709551616", "\"7\""] {
            let text = format!(r#"{{"task_id":"a","status":"success","output":{{}},"tokens_used":{wrong}}}"#);
            let defects = read(text.as_bytes()).unwrap_err();
            assert_eq!(defects[0].place.to_string(), "field tokens_used", "{wrong}");
        }
        assert!(refused(json!({"task_id": "a", "status": "success", "output": {}, "attempt": 0})).len() == 1);
        let huge = json!({"task_id": "a", "status": "success", "output": {}, "attempt": 5_000_000_000_u64});
        assert_eq!(refused(huge), ["field attempt: must be at most 4294967295"]);
    }

    #[test]
    fn flags_alone_make_a_valid_result_in_the_protocols_order() {
        let done = Done {
            task_id: "phase-1".into(),
            attempt: Some(Attempt::FIRST),
            files_created: vec!["x.md".into()],
            elapsed_seconds: Some(2.0),
            ..Done::default()
        };
        let bytes = render(&done, Map::new()).unwrap();
        let claim = read(&bytes).unwrap();
        assert_eq!((claim.status, claim.files_created), (ClaimStatus::Success, vec!["x.md".to_owned()]));
        let text = String::from_utf8(bytes).unwrap();
        let at = |name: &str| text.find(&format!("\n  \"{name}\"")).unwrap();
        assert!(at("task_id") < at("status") && at("status") < at("output") && at("output") < at("errors"));
    }

    #[test]
    fn a_partial_result_is_completed_and_a_wrong_one_refused() {
        let done = Done { task_id: "1".into(), files_created: vec!["b".into()], ..Done::default() };
        let partial = json!({"status": "failed", "files_created": ["a", "b"], "note": "kept"});
        let bytes = render(&done, partial.as_object().unwrap().clone()).unwrap();
        let claim = read(&bytes).unwrap();
        assert_eq!((claim.status, claim.files_created.len()), (ClaimStatus::Failure, 2));
        assert!(String::from_utf8(bytes).unwrap().contains("\"note\": \"kept\""));

        let wrong = json!({"output": "all fine"});
        let defects = render(&done, wrong.as_object().unwrap().clone()).unwrap_err();
        assert_eq!(defects[0].to_string(), "field output: must be an object, found a string");
    }
}
