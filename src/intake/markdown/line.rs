//! What a single line of Markdown is: heading, list item, field, fence, rule.
//!
//! Knows nothing of the lines around it; those are the walk's business.

use crate::intake::field::Field;
use crate::intake::value;

/// A line without its ends, and how far it is indented.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) number: u32,
    pub(super) indent: usize,
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn new(number: u32, raw: &'a str) -> Self {
        let mut indent = 0;
        for byte in raw.bytes() {
            match byte {
                b' ' => indent += 1,
                b'\t' => indent = (indent / 4 + 1) * 4,
                _ => break,
            }
        }
        Line { number, indent, text: raw.trim_ascii() }
    }

    /// Four columns to the right Markdown sees code, and neither heading nor fence.
    pub(super) fn is_outdented(&self) -> bool {
        self.indent < 4
    }
}

/// `### Title ###`: its level, and the title.
pub(super) fn heading<'a>(line: &Line<'a>) -> Option<(usize, &'a str)> {
    let title = line.text.trim_start_matches('#');
    let level = line.text.len() - title.len();
    if level == 0 || level > 6 || !line.is_outdented() {
        return None;
    }
    let is_spaced = title.is_empty() || title.starts_with(char::is_whitespace);
    // `###Phase 1` is no heading to Markdown, but to everybody who writes it.
    if !is_spaced && !starts_with_word(value::plain(title), "phase") {
        return None;
    }
    let title = title.trim();
    let closed = title.trim_end_matches('#');
    let title =
        if closed.is_empty() || closed.ends_with(char::is_whitespace) { closed.trim() } else { title };
    Some((level, title))
}

/// The line below a heading: `====` is level 1, `----` level 2.
pub(super) fn underline(text: &str) -> Option<usize> {
    let first = *text.as_bytes().first()?;
    let level = match first {
        b'=' => 1,
        b'-' => 2,
        _ => return None,
    };
    let text = text.trim_ascii_end();
    (text.len() > 1 && text.bytes().all(|byte| byte == first)).then_some(level)
}

/// `---`, `* * *`, `___`: nothing but a line across the page.
pub(super) fn is_rule(text: &str) -> bool {
    let Some(first) = text.bytes().next().filter(|byte| matches!(byte, b'-' | b'*' | b'_')) else {
        return false;
    };
    text.bytes().all(|byte| byte == first || byte == b' ')
        && text.bytes().filter(|byte| *byte == first).count() >= 3
}

/// What a heading says of a phase.
#[derive(Debug, PartialEq)]
pub(super) struct PhaseHeading<'a> {
    pub(super) label: &'a str,
    pub(super) title: &'a str,
    /// `(2 hours)`
    pub(super) hours: Option<f64>,
}

/// Reads `Phase 2a: Title (2 hours)` in its many spellings.
pub(super) fn phase_heading(text: &str) -> Option<PhaseHeading<'_>> {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric() && !"*_`".contains(c));
    let text = value::plain(text).trim_start_matches(['*', '_', '`']);
    if !starts_with_word(text, "phase") {
        return None;
    }
    let rest = text["phase".len()..].trim_start();
    let end =
        rest.find(|c: char| c.is_whitespace() || matches!(c, ':' | '–' | '—' | '(')).unwrap_or(rest.len());
    let (label, rest) = rest.split_at(end);
    let bare = label.trim_end_matches(['.', '-', '*', '_']);
    let rest = rest.trim_start();
    let (rest, hours) = without_hours(rest);
    let title = rest
        .trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '-' | '–' | '—' | '.' | '*'));
    let is_separated = bare.len() < label.len() || title.len() < rest.len();
    // `Phase Overview` is a heading about phases; `Phase 1 Overview` and `Phase One: …` head one.
    let is_label =
        bare.bytes().any(|byte| byte.is_ascii_digit()) || is_separated || bare.len() == 1 || is_roman(bare);
    if bare.is_empty() || !is_label {
        return None;
    }
    Some(PhaseHeading { label: bare, title: value::plain(title), hours })
}

fn is_roman(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'I' | b'V' | b'X'))
}

/// Takes `(2 hours)` off either end.
fn without_hours(text: &str) -> (&str, Option<f64>) {
    if let Some((inner, rest)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')'))
        && let Some(hours) = hours_with_unit(inner)
    {
        return (rest.trim(), Some(hours));
    }
    if let Some((rest, inner)) =
        text.trim_end_matches('*').strip_suffix(')').and_then(|rest| rest.rsplit_once('('))
        && let Some(hours) = hours_with_unit(inner)
    {
        return (rest.trim(), Some(hours));
    }
    (text, None)
}

/// Hours in a heading need their unit: `(2)` may be anything.
fn hours_with_unit(text: &str) -> Option<f64> {
    text.ends_with(|c: char| c.is_ascii_alphabetic()).then(|| value::hours(text)).flatten()
}

/// The text begins with this word, in any case, and the word ends there.
pub(super) fn starts_with_word(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        && text[word.len()..].starts_with(char::is_whitespace)
}

/// The text of a list item, bulleted or numbered, without its checkbox.
pub(super) fn list_item(text: &str) -> Option<&str> {
    let rest = match text.as_bytes().first()? {
        b'-' | b'*' | b'+' => &text[1..],
        b'0'..=b'9' => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            text[digits..].strip_prefix(['.', ')']).filter(|_| digits < 10)?
        }
        _ => text.strip_prefix('•')?,
    };
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim_start();
    let checked = ["[ ]", "[x]", "[X]", "[]"].iter().find_map(|checkbox| rest.strip_prefix(checkbox));
    Some(match checked {
        Some(after) if after.is_empty() || after.starts_with(char::is_whitespace) => after.trim_start(),
        _ => rest,
    })
}

/// `**Name**: value` or `**Name:** value`, also with underscores.
pub(super) fn bold_field(text: &str) -> Option<(&str, &str)> {
    let mark = match text.as_bytes() {
        [b'*', b'*', ..] => b'*',
        [b'_', b'_', ..] => b'_',
        _ => return None,
    };
    let inner = &text[2..];
    let end = inner.as_bytes().windows(2).position(|pair| pair == [mark, mark])?;
    let (name, after) = (&inner[..end], &inner[end + 2..]);
    let (name, value) = match name.trim_end().strip_suffix(':') {
        Some(name) => (name, after),
        None => (name, after.trim_start().strip_prefix(':')?),
    };
    let name = name.trim();
    (!name.is_empty()).then_some((name, value.trim()))
}

/// `Name: value` where the name is a field's.
pub(super) fn plain_field(text: &str) -> Option<(Field, &str)> {
    let (name, value) = text.split_once(':')?;
    Some((Field::named(name)?.0, value.trim()))
}

/// The start of a block of code: its character and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    mark: u8,
    length: usize,
}

impl Fence {
    pub(super) fn opened_by(line: &Line<'_>) -> Option<Fence> {
        // A list item may begin with code: "- ```".
        let text = line.text;
        let mark = *text.as_bytes().first().filter(|byte| matches!(byte, b'`' | b'~'))?;
        let length = text.bytes().take_while(|byte| *byte == mark).count();
        let is_inline = mark == b'`' && text[length..].contains('`');
        (length >= 3 && !is_inline).then_some(Fence { mark, length })
    }

    pub(super) fn is_closed_by(&self, line: &Line<'_>) -> bool {
        line.text.len() >= self.length && line.text.bytes().all(|byte| byte == self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Option<(String, String, Option<f64>)> {
        phase_heading(text).map(|found| (found.label.to_owned(), found.title.to_owned(), found.hours))
    }

    #[test]
    fn a_phase_is_headed_in_many_ways() {
        let read = [
            ("Phase 1: Build Foundation", "1", "Build Foundation", None),
            ("Phase 2a - Analyzer", "2a", "Analyzer", None),
            ("Phase 2.1 – Analyzer", "2.1", "Analyzer", None),
            ("Phase 2-b — Tests", "2-b", "Tests", None),
            ("Phase 3. Tests", "3", "Tests", None),
            ("Phase 3", "3", "", None),
            ("Phase 3 Tests", "3", "Tests", None),
            ("Phase IV", "IV", "", None),
            ("Phase One: Start", "One", "Start", None),
            ("PHASE 1:Build", "1", "Build", None),
            ("**Phase 1: X**", "1", "X", None),
            ("**Phase 1**: X", "1", "X", None),
            ("Phase 1: X (2 hours)", "1", "X", Some(2.0)),
            ("Phase 1 (30m): X", "1", "X", Some(0.5)),
            ("Phase 1: X (optional)", "1", "X (optional)", None),
            ("✅ Phase 1: X", "1", "X", None),
        ];
        for (text, label, title, hours) in read {
            assert_eq!(head(text), Some((label.into(), title.into(), hours)), "{text}");
        }
        for text in ["Phases", "Phase Overview", "Phase", "Phase: 1", "Notes", "Phased 1: X"] {
            assert_eq!(head(text), None, "{text}");
        }
    }

    #[test]
    fn headings_lists_and_fields_are_told_apart() {
        let line = |text| Line::new(1, text);
        assert_eq!(heading(&line("### Phase 1: X ###")), Some((3, "Phase 1: X")));
        assert_eq!(heading(&line("###Phase 1: X")), Some((3, "Phase 1: X")));
        assert_eq!(heading(&line("# C#")), Some((1, "C#")));
        assert_eq!(heading(&line("    ### Phase 1")), None);
        assert_eq!(heading(&line("#hashtag")), None);
        assert_eq!(list_item("- [x] done"), Some("done"));
        assert_eq!(list_item("12) twelve"), Some("twelve"));
        assert_eq!(list_item("**bold**"), None);
        assert_eq!(list_item("1.5 hours"), None);
        assert_eq!(bold_field("**Goal:** x"), Some(("Goal", "x")));
        assert_eq!(bold_field("__Goal__ : x"), Some(("Goal", "x")));
        assert_eq!(bold_field("**Goal** is bold"), None);
        assert!(is_rule("* * *") && is_rule("---") && !is_rule("--") && !is_rule("-*-"));
    }
}
