//! Judges a JSON object by a shape: every defect at once, each with its path, rule and remedy.
//!
//! Judges form alone. It changes nothing and reads nothing out; that is the file's own module.

use serde_json::{Map, Number, Value};

use crate::model::containment;
use crate::model::settings::nearest;
use crate::model::{Defect, TaskKey, WallTime};

use super::json::kind_of;
use super::shape::{
    Field, ITEMS_MAX, Kind, Need, SPAN_MOST, STRING_BYTES_MAX, Shape, Unknown, own_words, understood,
};

/// Most defects that one list reports item by item; the rest is a number.
const ITEM_DEFECTS_MAX: usize = 20;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// What a check found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub defects: Vec<Defect>,
    /// What was let pass, as sentences that begin with the field.
    pub warnings: Vec<String>,
}

impl Shape {
    /// Checks an object that stands at `path` in its file; the top has the empty path.
    pub fn check(&self, object: &Map<String, Value>, path: &str) -> Report {
        let mut report = Report::default();
        for (name, value) in object {
            report.limits(value, &join(path, name));
        }
        report.object(self, object, path);
        report
    }
}

impl Report {
    /// Adds a defect of one field.
    pub fn refuse(&mut self, rule: &str, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.defects.push(Defect::field(rule, path, message, remedy));
    }

    /// Adds what is let pass.
    pub fn warn(&mut self, path: &str, message: impl AsRef<str>) {
        self.warnings.push(format!("field {path}: {}", message.as_ref()));
    }

    /// Bounds hold everywhere, in unknown fields too.
    fn limits(&mut self, value: &Value, path: &str) {
        match value {
            Value::String(text) if text.len() > STRING_BYTES_MAX => {
                let message = format!("is a string of {} bytes; the limit is {STRING_BYTES_MAX}", text.len());
                self.refuse("too_long", path, message, "put the text into a file and name the file");
            }
            Value::Array(items) if items.len() > ITEMS_MAX => {
                let message = format!("has {} items; the limit is {ITEMS_MAX}", items.len());
                self.refuse(
                    "too_many_items",
                    path,
                    message,
                    "split the work, or list directories' contents in a file",
                );
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    // Most items are small scalars: their path is not worth spelling.
                    if matches!(item, Value::Array(_) | Value::Object(_) | Value::String(_)) {
                        self.limits_of_item(item, path, index);
                    }
                }
            }
            Value::Object(object) => {
                for (name, value) in object {
                    self.limits(value, &join(path, name));
                }
            }
            _ => {}
        }
    }

    fn limits_of_item(&mut self, item: &Value, path: &str, index: usize) {
        match item {
            Value::String(text) if text.len() <= STRING_BYTES_MAX => {}
            _ => self.limits(item, &format!("{path}[{index}]")),
        }
    }

    fn object(&mut self, shape: &Shape, object: &Map<String, Value>, path: &str) {
        for field in shape.fields {
            self.field(field, object.get(field.name), &join(path, field.name));
        }
        if shape.unknown == Unknown::KeepSilently {
            return;
        }
        for name in object.keys().filter(|name| !shape.knows(name)) {
            let place = join(path, name);
            let likely = nearest(name, shape.fields.iter().map(|field| field.name));
            let hint = likely.map(|known| format!("; did you mean '{known}'?")).unwrap_or_default();
            let name = shortened(name);
            match shape.unknown {
                Unknown::Refuse => self.refuse(
                    "unknown_field",
                    &place,
                    format!("unknown field {name:?}{hint}"),
                    likely.map_or("remove it".to_owned(), |known| format!("write '{known}', or remove it")),
                ),
                _ => self.warn(&place, format!("unknown field {name:?} is kept{hint}")),
            }
        }
    }

    fn field(&mut self, field: &Field, value: Option<&Value>, path: &str) {
        match (value, field.need) {
            (None, Need::Required) => {
                let name = field.name;
                let remedy = format!("add \"{name}\": {}", field.kind.expected());
                self.refuse("missing_field", path, format!("missing '{name}' field"), remedy);
            }
            (Some(Value::Null), Need::Optional | Need::Nullable) if field.kind.is_list() => {
                self.warn(path, "null is read as an empty list");
            }
            (None, _) | (Some(Value::Null), Need::Nullable) => {}
            (Some(value), _) => self.value(field.kind, value, path),
        }
    }

    fn value(&mut self, kind: Kind, value: &Value, path: &str) {
        match (kind, value) {
            (Kind::Any, _)
            | (Kind::Text, Value::String(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Map, Value::Object(_))
            | (Kind::List, Value::Array(_)) => {}
            (Kind::FilledText, Value::String(text)) => self.filled(text, path),
            (Kind::Id, Value::String(text)) => self.id(text, path),
            (Kind::Time, Value::String(text)) => {
                if WallTime::parse(text).is_none() {
                    let message = format!("{:?} is not a time in RFC 3339", shortened(text));
                    self.refuse("bad_time", path, message, "write it like 2025-11-10T14:30:00Z");
                }
            }
            (Kind::ShownTime, value) => {
                if value.as_str().and_then(WallTime::parse).is_none() {
                    self.warn(path, "not a time in RFC 3339; ignored");
                }
            }
            (Kind::OneOf(words), Value::String(text)) => self.word(words, text, path),
            (Kind::Loosely(words), Value::String(text)) => {
                if understood(words, text).is_none() {
                    self.word(&own_words(words), text, path);
                }
            }
            (
                Kind::Integer { .. } | Kind::Count { .. } | Kind::Number { .. } | Kind::Span { .. },
                Value::Number(number),
            ) => self.number(kind, number, path),
            (Kind::Object(shape), Value::Object(object)) => self.object(shape, object, path),
            (Kind::Each(kind), Value::Object(object)) => self.each(*kind, object, path),
            (_, Value::Array(items)) if has_items(kind) => self.items(kind, items, path),
            (Kind::Either(kinds), value) => match kinds.iter().find(|kind| kind.takes(value)) {
                Some(kind) => self.value(*kind, value, path),
                None => self.wrong_type(kind, value, path),
            },
            (kind, value) => self.wrong_type(kind, value, path),
        }
    }

    fn wrong_type(&mut self, kind: Kind, value: &Value, path: &str) {
        let expected = kind.expected();
        let is_numeric = matches!(
            kind,
            Kind::Integer { .. } | Kind::Count { .. } | Kind::Number { .. } | Kind::Span { .. }
        );
        match value {
            Value::String(text) if is_numeric && text.trim().parse::<f64>().is_ok() => self.refuse(
                "wrong_type",
                path,
                format!("must be {expected}, found the string {:?}", shortened(text)),
                format!("drop the quotes: {}", shortened(text.trim())),
            ),
            _ => {
                let message = format!("must be {expected}, found {}", kind_of(value));
                self.refuse("wrong_type", path, message, format!("write {expected}"));
            }
        }
    }

    fn filled(&mut self, text: &str, path: &str) {
        if text.trim().is_empty() {
            self.refuse("empty_field", path, "is empty", "write there what is meant");
        }
    }

    fn id(&mut self, text: &str, path: &str) {
        if let Err(why) = TaskKey::parse(text) {
            let message = format!("{:?} {why}", shortened(text));
            self.refuse("bad_id", path, message, "use letters, digits, '.', '_' and '-', at most 64 of them");
        }
    }

    fn path_text(&mut self, text: &str, path: &str, rule: fn(&str) -> Result<(), &'static str>) {
        if let Err(why) = rule(text) {
            let message = format!("{:?} {why}", shortened(text));
            self.refuse("bad_path", path, message, "name a file inside the project, relative to its root");
        }
    }

    fn word(&mut self, words: &[&str], text: &str, path: &str) {
        if !words.contains(&text) {
            let message = format!("{:?} is none of {}", shortened(text), words.join(", "));
            let remedy = match nearest(text, words.iter().copied()) {
                Some(word) => format!("did you mean '{word}'?"),
                None => "choose one of them".to_owned(),
            };
            self.refuse("unknown_word", path, message, remedy);
        }
    }

    fn number(&mut self, kind: Kind, number: &Number, path: &str) {
        let value = number.as_f64().unwrap_or(f64::NAN);
        let is_whole = value.fract() == 0.0;
        let fits = match kind {
            Kind::Integer { least, most } => match number.as_i64() {
                Some(exact) => (least..=most).contains(&exact),
                // As a float, `i64::MAX` is already one too many.
                None => {
                    number.is_f64()
                        && is_whole
                        && value >= least as f64
                        && value <= most as f64
                        && value < TWO_TO_63
                }
            },
            Kind::Count { least } => number.as_i64().is_some_and(|exact| exact >= least),
            Kind::Number { least } => value >= least,
            Kind::Span { least } => (least..=SPAN_MOST).contains(&value),
            _ => true,
        };
        if !fits {
            let message = format!("must be {}, found {number}", kind.expected());
            return self.refuse("out_of_range", path, message, "choose a number that fits");
        }
        if number.is_f64() && is_whole && matches!(kind, Kind::Integer { .. } | Kind::Span { .. }) {
            self.warn(path, format!("{number} is read as {value}"));
        }
    }

    fn items(&mut self, kind: Kind, items: &[Value], path: &str) {
        if items.len() > ITEMS_MAX {
            return;
        }
        if let Kind::Command = kind
            && items.first().and_then(Value::as_str).is_none_or(|program| program.trim().is_empty())
        {
            return self.refuse(
                "empty_command",
                path,
                "names no program",
                "write [\"program\", \"argument\"]",
            );
        }
        let before = self.defects.len();
        for (index, item) in items.iter().enumerate() {
            if self.defects.len() - before >= ITEM_DEFECTS_MAX {
                let message = format!("items from [{index}] on were not looked at any more");
                return self.refuse("more_defects", path, message, "correct the others first");
            }
            self.item(kind, item, &format!("{path}[{index}]"));
        }
    }

    fn each(&mut self, kind: Kind, object: &Map<String, Value>, path: &str) {
        let before = self.defects.len();
        for (name, value) in object {
            if self.defects.len() - before >= ITEM_DEFECTS_MAX {
                let message = format!("fields from {:?} on were not looked at any more", shortened(name));
                return self.refuse("more_defects", path, message, "correct the others first");
            }
            self.value(kind, value, &join(path, name));
        }
    }

    fn item(&mut self, kind: Kind, item: &Value, path: &str) {
        match (kind, item) {
            (Kind::Items(kind), item) => self.value(*kind, item, path),
            (Kind::Texts, Value::String(_)) => {}
            (Kind::Command, Value::String(text)) if text.contains('\0') => {
                self.refuse("bad_argument", path, "contains a NUL character", "remove it");
            }
            (Kind::Command, Value::String(_)) => {}
            (Kind::Ids, Value::String(text)) => self.id(text, path),
            (Kind::Paths, Value::String(text)) => self.path_text(text, path, containment::check_path),
            (Kind::Files, Value::String(text)) => self.path_text(text, path, containment::check_text),
            (Kind::Messages, Value::String(_)) => {}
            (Kind::Messages, Value::Object(object)) => {
                if !object.get("message").is_some_and(Value::is_string) {
                    self.refuse(
                        "missing_field",
                        &join(path, "message"),
                        "missing 'message' field",
                        "say what went wrong",
                    );
                }
            }
            (Kind::Objects(shape), Value::Object(object)) => self.object(shape, object, path),
            (kind, item) => {
                let message = format!("must be {}, found {}", one_of(kind), kind_of(item));
                self.refuse("wrong_type", path, message, format!("write {}", one_of(kind)));
            }
        }
    }
}

impl Kind {
    /// Whether the JSON type alone fits, which is what tells the kinds of an `Either` apart.
    fn takes(self, value: &Value) -> bool {
        match self {
            Kind::Text | Kind::FilledText | Kind::Id | Kind::Time | Kind::OneOf(_) | Kind::Loosely(_) => {
                value.is_string()
            }
            Kind::Integer { .. } | Kind::Count { .. } | Kind::Number { .. } | Kind::Span { .. } => {
                value.is_number()
            }
            Kind::Boolean => value.is_boolean(),
            Kind::Object(_) | Kind::Each(_) | Kind::Map => value.is_object(),
            Kind::Any | Kind::ShownTime => true,
            Kind::Either(kinds) => kinds.iter().any(|kind| kind.takes(value)),
            _ => value.is_array(),
        }
    }
}

fn has_items(kind: Kind) -> bool {
    kind.is_list() || matches!(kind, Kind::Command)
}

/// What one item of a list must be.
fn one_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Ids => "an id",
        Kind::Paths | Kind::Files => "a file path",
        Kind::Messages => "a string or an object with a 'message'",
        Kind::Objects(_) => "an object",
        _ => "a string",
    }
}

/// A field's path below another, on one line.
pub(crate) fn join(path: &str, name: &str) -> String {
    let name = shortened(name).replace(is_invisible, "\u{fffd}");
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// Control characters, and those that reorder or hide the text around them.
pub(crate) fn is_invisible(c: char) -> bool {
    let hides = |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || hides(c) || matches!(c, '\u{202a}'..='\u{202e}')
}

/// Enough of a text to recognise it by, in one message.
pub(crate) fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::format::shape::{nullable, optional, required};

    const INNER: Shape = Shape {
        name: "inner",
        title: "Inner",
        fields: &[required("name", Kind::FilledText, "")],
        unknown: Unknown::Refuse,
    };
    const OUTER: Shape = Shape {
        name: "outer",
        title: "Outer",
        fields: &[
            required("id", Kind::Id, ""),
            optional("count", Kind::Integer { least: 0, most: 10 }, ""),
            optional("strict", Kind::Count { least: 0 }, ""),
            nullable("span", Kind::Span { least: 0.05 }, ""),
            optional("word", Kind::OneOf(&["warn", "refuse"]), ""),
            optional("lines", Kind::Texts, ""),
            optional("at", Kind::Time, ""),
            optional("inner", Kind::Object(&INNER), ""),
            optional("inners", Kind::Objects(&INNER), ""),
            optional("either", Kind::Either(&[Kind::Text, Kind::Count { least: 1 }]), ""),
            optional("argv", Kind::Command, ""),
        ],
        unknown: Unknown::KeepWithWarning,
    };

    fn check(value: Value) -> Vec<String> {
        let report = OUTER.check(value.as_object().unwrap(), "");
        let defects = report.defects.iter().map(|defect| format!("{}: {defect}", defect.rule));
        defects.chain(report.warnings.iter().map(|warning| format!("warning: {warning}"))).collect()
    }

    #[test]
    fn every_defect_is_told_at_once_with_its_path() {
        let told = check(json!({
            "count": 11, "lines": "one", "inner": {"nam": "x"}, "inners": [{"name": "a"}, {"name": " "}, 3],
            "word": "wurn", "at": "yesterday", "argv": [], "either": 0,
        }));
        assert_eq!(
            told,
            [
                "missing_field: field id: missing 'id' field",
                "out_of_range: field count: must be a whole number from 0 to 10, found 11",
                "unknown_word: field word: \"wurn\" is none of warn, refuse",
                "wrong_type: field lines: must be an array of strings, found a string",
                "bad_time: field at: \"yesterday\" is not a time in RFC 3339",
                "missing_field: field inner.name: missing 'name' field",
                "unknown_field: field inner.nam: unknown field \"nam\"; did you mean 'name'?",
                "empty_field: field inners[1].name: is empty",
                "wrong_type: field inners[2]: must be an object, found a number",
                "out_of_range: field either: must be a whole number, at least 1, found 0",
                "empty_command: field argv: names no program",
            ]
        );
    }

    #[test]
    fn kindness_is_told_too() {
        assert_eq!(
            check(json!({"id": "a", "count": 2.0, "span": null, "lines": null, "inners": null, "wrod": 1})),
            [
                "warning: field count: 2.0 is read as 2",
                "warning: field lines: null is read as an empty list",
                "warning: field inners: null is read as an empty list",
                "warning: field wrod: unknown field \"wrod\" is kept; did you mean 'word'?",
            ]
        );
    }

    #[test]
    fn a_number_is_a_number_in_its_range_and_not_a_string() {
        let count = |value: Value| check(json!({"id": "a", "count": value})).join("");
        assert_eq!(count(json!(10)), "");
        assert!(count(json!(10.0)).starts_with("warning"));
        assert!(count(json!(11.0)).starts_with("out_of_range"));
        assert!(count(json!(2.5)).contains("whole number"));
        assert!(count(json!(null)).contains("found null"));
        assert!(count(json!(18_446_744_073_709_551_615_u64)).starts_with("out_of_range"));
        let object = json!({"id": "a", "count": "2"});
        let report = OUTER.check(object.as_object().unwrap(), "");
        assert_eq!(report.defects[0].remedy, "drop the quotes: 2");
        assert!(check(json!({"id": "a", "strict": 2.0})).join("").starts_with("out_of_range"));
    }

    #[test]
    fn limits_hold_in_unknown_fields_and_are_told_once() {
        let told = check(json!({"id": "a", "x": vec![0; ITEMS_MAX + 1], "lines": vec![0; ITEMS_MAX + 1]}));
        assert_eq!(told.iter().filter(|line| line.starts_with("too_many_items")).count(), 2);
        assert_eq!(told.len(), 3);
        let told = check(json!({"id": "a", "x": {"y": ["z".repeat(STRING_BYTES_MAX + 1)]}}));
        assert!(told[0].starts_with("too_long: field x.y[0]"), "{told:?}");
        let told = check(json!({"id": "a", "lines": vec![1; 1000]}));
        assert_eq!(told.len(), ITEM_DEFECTS_MAX + 1);
    }
}
