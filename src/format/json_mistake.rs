//! What people, shells and models get wrong in JSON: each mistake with its own words and its own remedy.
//!
//! Repairs nothing. What is not recognised stays with what the parser said.

use crate::model::{Defect, Place};

/// What can be told before a parser looks: it would trip over something else first.
pub(super) fn before_parsing(text: &str) -> Option<Defect> {
    if let Some(offset) = text.find('\0') {
        let count = text.bytes().filter(|byte| *byte == 0).count();
        let is_utf16 = text.len() > 3 && text.bytes().skip(1).step_by(2).take(32).all(|byte| byte == 0);
        let (message, remedy) = match is_utf16 {
            true => ("every other byte is NUL (looks like UTF-16)".to_owned(), "save the file as UTF-8"),
            false => (
                format!("{} in the file, the first at offset {offset}", nul_bytes(count)),
                "its writer or the machine was stopped while it was written; write the file anew",
            ),
        };
        return Some(syntax(text, offset, message, remedy));
    }
    let from = text.len() - text.trim_start().len();
    text[from..].starts_with("```").then(|| {
        let remedy = "write the JSON alone, without the lines that begin with ```";
        syntax(text, from, "a Markdown code fence, not JSON".to_owned(), remedy)
    })
}

fn nul_bytes(count: usize) -> String {
    if count == 1 { "1 NUL byte".to_owned() } else { format!("{count} NUL bytes") }
}

/// What stands where the parser stopped, if it is one of the usual mistakes.
pub(super) fn at(text: &str, line: usize, column: usize, message: &str) -> Option<Defect> {
    let offset = offset_of(text, line, column)?;
    let found = |message: &str, remedy: &str| Some(syntax(text, offset, message.to_owned(), remedy));
    let rest = &text[offset..];
    if message.starts_with("trailing comma") {
        return found("a comma after the last entry", "remove the comma before the } or ]");
    }
    if rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with('#') {
        return found("a comment; JSON has none", "remove the comment, or make it a field such as \"note\"");
    }
    if rest.starts_with('\'') {
        return found("single quotes", "put names and texts between double quotes, as in \"name\"");
    }
    if message.starts_with("trailing characters") && rest.starts_with(['{', '[']) {
        let remedy = "write one object to a file, and replace the file instead of appending to it";
        return found("a second JSON value begins here", remedy);
    }
    None
}

fn syntax(text: &str, offset: usize, message: String, remedy: &str) -> Defect {
    let before = &text.as_bytes()[..offset];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = offset - before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) + 1;
    Defect::new("json_syntax", Place::LineColumn(line, column), message, remedy)
}

/// Where a parser's line and column are in the text; columns count bytes, from 1.
fn offset_of(text: &str, line: usize, column: usize) -> Option<usize> {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(breaks) => text.match_indices('\n').nth(breaks)?.0 + 1,
    };
    let offset = start + column.saturating_sub(1);
    (offset < text.len() && text.is_char_boundary(offset)).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::super::json::parse_object;

    fn told(text: &str) -> String {
        let defect = parse_object(text.as_bytes()).unwrap_err();
        assert_eq!(defect.rule, "json_syntax", "{text:?}");
        format!("{defect}; {}", defect.remedy)
    }

    #[test]
    fn each_usual_mistake_has_its_own_words() {
        let cases = [
            ("{\"a\": 1,}", "line 1, column 9: a comma after the last entry; remove the comma"),
            ("{\"a\": [1,\n 2,\n]}", "line 3, column 1: a comma after"),
            ("{\n  // why\n \"a\": 1}", "line 2, column 3: a comment; JSON has none"),
            ("{\"a\": 1 /* why */}", "line 1, column 9: a comment"),
            ("# why\n{\"a\": 1}", "line 1, column 1: a comment"),
            ("{'a': 1}", "line 1, column 2: single quotes; put names and texts between double quotes"),
            ("{\"a\": 'x'}", "line 1, column 7: single quotes"),
            (
                "{\"a\": 1}\n{\"a\": 2}\n",
                "line 2, column 1: a second JSON value begins here; write one object",
            ),
            ("{\"a\": \"x\0\0\"}", "line 1, column 9: 2 NUL bytes in the file, the first at offset 8"),
            ("\0\0\0\0", "line 1, column 1: "),
            (
                "{\0\"\0a\0\"\0:\0",
                "line 1, column 2: every other byte is NUL (looks like UTF-16); save the file",
            ),
            ("```json\n{\"a\": 1}\n```", "line 1, column 1: a Markdown code fence"),
        ];
        for (text, expected) in cases {
            let told = told(text);
            assert!(told.starts_with(expected), "{text:?}: {told}");
        }
    }

    #[test]
    fn what_is_no_usual_mistake_stays_with_the_parsers_words() {
        assert!(told("{\"a\": 1} trailing").ends_with("correct the JSON there"));
        assert!(told("{\"a\": NaN}").ends_with("correct the JSON there"));
        assert!(parse_object(b"{\"it's\": \"a // b # c\"}").is_ok(), "inside a text all of it is text");
    }
}
