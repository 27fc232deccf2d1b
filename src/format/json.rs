//! The strict front door for JSON that somebody else wrote: UTF-8, one object on top, no duplicate
//! keys anywhere, bounded depth, nothing behind it. Only what passed here is looked at field by field.
//!
//! serde alone is too kind: it takes an array for a struct, the last of two equal keys, and a hundred
//! thousand brackets inside a field that nobody reads.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::model::{Defect, Place};

/// Deepest nesting of objects and arrays.
pub const DEPTH_MAX: usize = 64;

/// A parsed object, and whether a byte order mark had to be skipped.
#[derive(Debug)]
pub struct Parsed {
    pub value: Value,
    pub had_bom: bool,
}

/// Parses bytes whose top must be an object.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, Defect> {
    parse_marked_object(bytes).map(|(object, _)| object)
}

/// The same, and whether a byte order mark was skipped, for those who warn of it.
pub fn parse_marked_object(bytes: &[u8]) -> Result<(Map<String, Value>, bool), Defect> {
    let parsed = parse(bytes)?;
    match parsed.value {
        Value::Object(object) => Ok((object, parsed.had_bom)),
        other => Err(Defect::new(
            "expected_object",
            Place::LineColumn(1, 1),
            format!("expected an object, found {}", kind_of(&other)),
            "put the fields between { and }",
        )),
    }
}

/// Parses bytes of any one JSON value by the same rules.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Defect> {
    let text = text_of(bytes)?;
    let (text, had_bom) = match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    if text.trim().is_empty() {
        return Err(Defect::new("empty", Place::File, "file is empty", "write one JSON object into it"));
    }
    if let Some(defect) = super::json_mistake::before_parsing(text) {
        return Err(defect);
    }
    let told = |error: serde_json::Error| defect_of(error, text);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // Our own limit, checked below, is the lower one; both keep the stack bounded.
    let value = Level(0).deserialize(&mut deserializer).map_err(told)?;
    deserializer.end().map_err(told)?;
    Ok(Parsed { value, had_bom })
}

/// What kind of JSON value this is, for messages.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The bytes as text, or where they stop being UTF-8.
pub fn text_of(bytes: &[u8]) -> Result<&str, Defect> {
    std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        let looks_like_utf16 = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
            || (bytes.len() > 3 && bytes.iter().take(64).skip(1).step_by(2).all(|byte| *byte == 0));
        let guess = if looks_like_utf16 { " (looks like UTF-16)" } else { "" };
        let line = bytes[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = offset - bytes[..offset].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1) + 1;
        Defect::new(
            "not_utf8",
            Place::LineColumn(line, column),
            format!("not UTF-8{guess}: first bad byte at offset {offset}"),
            "save the file as UTF-8",
        )
    })
}

fn defect_of(error: serde_json::Error, text: &str) -> Defect {
    let told = error.to_string();
    let message = match told.rfind(" at line ") {
        Some(cut) => told[..cut].to_owned(),
        None => told,
    };
    let rule = if message.starts_with("duplicate key") {
        "duplicate_key"
    } else if message.starts_with("nesting") || message.starts_with("recursion limit") {
        "too_deep"
    } else if error.is_eof() {
        "cut_off"
    } else {
        "json_syntax"
    };
    if rule == "json_syntax"
        && let Some(mistake) = super::json_mistake::at(text, error.line(), error.column(), &message)
    {
        return mistake;
    }
    let remedy = match rule {
        "duplicate_key" => "keep one of the two",
        "too_deep" => "flatten the value",
        "cut_off" => "write the file completely, best beside its place and then renamed",
        _ => "correct the JSON there",
    };
    Defect::new(rule, Place::LineColumn(error.line(), error.column()), message, remedy)
}

/// Builds a value at this depth.
struct Level(usize);

impl Level {
    fn below<E: serde::de::Error>(&self) -> Result<Level, E> {
        if self.0 >= DEPTH_MAX {
            return Err(E::custom(format!("nesting > {DEPTH_MAX}")));
        }
        Ok(Level(self.0 + 1))
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let below = self.below()?.0;
        while let Some(item) = seq.next_element_seed(Level(below))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let below = self.below()?.0;
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            let value = entries.next_value_seed(Level(below))?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let defect = parse_object(text.as_bytes()).unwrap_err();
        format!("{}: {defect}", defect.rule)
    }

    #[test]
    fn what_serde_would_let_pass_is_refused_with_its_place() {
        assert_eq!(
            refused(r#"["phase-1"]"#),
            "expected_object: line 1, column 1: expected an object, found an array"
        );
        assert_eq!(refused("{\"a\":1,\n\"a\":2}"), "duplicate_key: line 2, column 3: duplicate key \"a\"");
        assert!(refused(r#"{"x":{"y":1,"y":1}}"#).starts_with("duplicate_key"));
        assert!(refused(r#"{"a":1} trailing"#).starts_with("json_syntax: line 1, column 9"));
        assert!(refused(r#"{"a": "#).starts_with("cut_off"));
        assert!(refused(r#"{"a": "\ud800"}"#).starts_with("json_syntax: line 1"));
        assert!(refused("  \n").starts_with("empty"));
    }

    #[test]
    fn depth_is_bounded_and_the_stack_with_it() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(parse_object(nested(64).as_bytes()).is_ok());
        assert!(refused(&nested(65)).starts_with("too_deep"));
        assert!(refused(&nested(100_000)).starts_with("too_deep"));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_named_by_offset() {
        let defect = parse_object(b"{\"a\":\"\xff\"}").unwrap_err();
        assert_eq!(defect.message, "not UTF-8: first bad byte at offset 6");
        let utf16: Vec<u8> = "{\"a\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let with_mark = [&[0xff, 0xfe][..], &utf16].concat();
        assert!(parse_object(&with_mark).unwrap_err().message.contains("looks like UTF-16"));
    }

    #[test]
    fn a_byte_order_mark_is_skipped_and_noticed() {
        let parsed = parse("\u{feff}{\"a\":1}".as_bytes()).unwrap();
        assert!(parsed.had_bom);
    }
}
