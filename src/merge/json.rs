//! JSON that keeps the order of its keys, the spelling of its numbers and the look of its lines, so that a
//! merged file differs from its sides only where it must. Strict: a key that stands twice is no JSON here.

use serde_json::Value;

/// A JSON value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// A string, number or word, in its spelling.
    Scalar(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses one whole text. The error says what is wrong with it, for people.
    pub fn parse(text: &[u8]) -> Result<Json, String> {
        let text = std::str::from_utf8(text).map_err(|error| format!("not UTF-8: {error}"))?;
        // The library judges the syntax and the depth; what follows reads only what it let pass.
        serde_json::from_str::<Value>(text).map_err(|error| format!("not JSON: {error}"))?;
        Scanner { rest: text }.value()
    }

    pub fn text(text: &str) -> Json {
        Json::Scalar(Value::from(text).to_string())
    }

    pub fn number(number: usize) -> Json {
        Json::Scalar(number.to_string())
    }

    /// The text of a string.
    pub fn as_text(&self) -> Option<String> {
        match self {
            Json::Scalar(spelled) if spelled.starts_with('"') => serde_json::from_str(spelled).ok(),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Object(fields) => Some(fields),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        self.as_object()?.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The same for those who need no order.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.compact()).unwrap_or_default()
    }

    /// On one line.
    pub fn compact(&self) -> String {
        let mut text = String::new();
        Style { indent: None, newline: "", is_spaced: false, ends_with_newline: false }
            .put(&mut text, self, 0);
        text
    }
}

/// How a JSON file is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    /// One level; `None`: all on one line.
    indent: Option<String>,
    newline: &'static str,
    is_spaced: bool,
    ends_with_newline: bool,
}

impl Style {
    /// Two spaces a level, and a newline at the end.
    pub fn ours() -> Self {
        Style { indent: Some("  ".to_owned()), newline: "\n", is_spaced: true, ends_with_newline: true }
    }

    /// The layout of a text that is JSON.
    pub fn of(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let blank = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        let indented = text.lines().find(|line| blank(line) > 0 && !line.trim().is_empty());
        let is_many_lines = text.trim_end().contains('\n');
        let indent = is_many_lines.then(|| indented.map_or("", |line| &line[..blank(line)]).to_owned());
        let is_spaced = indent.is_some() || text.contains("\": ");
        Style { indent, newline, is_spaced, ends_with_newline: text.ends_with('\n') }
    }

    pub fn write(&self, json: &Json) -> Vec<u8> {
        let mut text = String::new();
        self.put(&mut text, json, 0);
        if self.ends_with_newline {
            text.push_str(self.newline);
        }
        text.into_bytes()
    }

    fn put(&self, text: &mut String, json: &Json, depth: usize) {
        match json {
            Json::Scalar(spelled) => text.push_str(spelled),
            Json::Array(items) => self.put_items(text, ['[', ']'], depth, items, |text, item| {
                self.put(text, item, depth + 1);
            }),
            Json::Object(fields) => self.put_items(text, ['{', '}'], depth, fields, |text, (key, value)| {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push_str(if self.is_spaced { ": " } else { ":" });
                self.put(text, value, depth + 1);
            }),
        }
    }

    fn put_items<T>(
        &self,
        text: &mut String,
        [open, close]: [char; 2],
        depth: usize,
        items: &[T],
        put_one: impl Fn(&mut String, &T),
    ) {
        text.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            match &self.indent {
                Some(_) => self.new_line(text, depth + 1),
                None if index > 0 && self.is_spaced => text.push(' '),
                None => {}
            }
            put_one(text, item);
        }
        if !items.is_empty() && self.indent.is_some() {
            self.new_line(text, depth);
        }
        text.push(close);
    }

    fn new_line(&self, text: &mut String, depth: usize) {
        text.push_str(self.newline);
        text.push_str(&self.indent.as_deref().unwrap_or_default().repeat(depth));
    }
}

/// Reads what is known to be JSON.
struct Scanner<'a> {
    rest: &'a str,
}

impl Scanner<'_> {
    fn value(&mut self) -> Result<Json, String> {
        self.skip_blanks();
        match self.rest.as_bytes().first() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            _ => Ok(Json::Scalar(self.scalar())),
        }
    }

    fn object(&mut self) -> Result<Json, String> {
        let mut fields: Vec<(String, Json)> = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        self.step();
        while !self.takes('}') {
            self.takes(',');
            self.skip_blanks();
            let spelled = self.scalar();
            let name: String = serde_json::from_str(&spelled).map_err(|error| error.to_string())?;
            if !names.insert(name.clone()) {
                return Err(format!("the key {spelled} stands twice in one object"));
            }
            self.takes(':');
            fields.push((name, self.value()?));
        }
        Ok(Json::Object(fields))
    }

    fn array(&mut self) -> Result<Json, String> {
        let mut items = Vec::new();
        self.step();
        while !self.takes(']') {
            self.takes(',');
            items.push(self.value()?);
        }
        Ok(Json::Array(items))
    }

    fn scalar(&mut self) -> String {
        let length = if self.rest.starts_with('"') {
            let mut is_escaped = false;
            let end = self.rest.bytes().skip(1).position(|byte| {
                let is_end = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                is_end
            });
            end.map_or(self.rest.len(), |at| at + 2)
        } else {
            let ends = |c: char| ",]}: \t\r\n".contains(c);
            self.rest.find(ends).unwrap_or(self.rest.len())
        };
        let (spelled, rest) = self.rest.split_at(length);
        self.rest = rest;
        spelled.to_owned()
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn step(&mut self) {
        self.rest = &self.rest[1..];
    }

    fn takes(&mut self, expected: char) -> bool {
        self.skip_blanks();
        let after = self.rest.strip_prefix(expected);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_spelling_and_layout_come_back_as_they_were() {
        for text in [
            "{\n  \"z\": 1.10,\n  \"a\": [\n    1e3,\n    \"\\u00e9 \\\" ]\"\n  ],\n  \"n\": {},\n  \"l\": []\n}\n",
            "{\r\n\t\"z\": null,\r\n\t\"a\": true\r\n}",
            "{\"z\":[1,2,{\"a\":\"}\"}]}\n",
            "{\"z\": [1, 2], \"b\": -0.0}",
            " \"lone\"",
        ] {
            let json = Json::parse(text.as_bytes()).unwrap();
            let written = String::from_utf8(Style::of(text.as_bytes()).write(&json)).unwrap();
            assert_eq!(written, text.trim_start(), "{text}");
        }
    }

    #[test]
    fn what_readers_understand_differently_is_no_json() {
        assert!(Json::parse(b"{\"a\": 1, \"\\u0061\": 2}").unwrap_err().contains("twice"));
        for text in [&b"{\"a\": 1,}"[..], b"", b"{} {}", b"// x\n{}", b"[NaN]", b"\"\xff\""] {
            assert!(Json::parse(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }
}
