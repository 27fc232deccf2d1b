//! What a single line of Markdown is: heading, list item, field, fence, rule.
//!
//! Knows nothing of the lines around it; those are the walk's business.

use crate::intake::field::{Field, Meant};
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
        Line { number, indent, text: without_break(raw.trim_ascii()) }
    }

    /// Four columns to the right Markdown sees code, and neither heading nor fence.
    pub(super) fn is_outdented(&self) -> bool {
        self.indent < 4
    }
}

/// The line without the mark that breaks it.
fn without_break(text: &str) -> &str {
    let shorter = ["<br>", "<br/>", "<br />"].iter().find_map(|mark| text.strip_suffix(mark));
    shorter.unwrap_or(text).trim_ascii_end()
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
    let text = heading_text(text);
    let (_, rest) =
        text.split_at_checked("phase".len()).filter(|(head, _)| head.eq_ignore_ascii_case("phase"))?;
    // `Phase-1` and `Phase1` are phases; `Phased` is not.
    let joined = rest.strip_prefix(['-', '_', '#']).unwrap_or(rest);
    if !rest.starts_with(char::is_whitespace) && !joined.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = joined.trim_start().trim_start_matches('#');
    let end = rest
        .find(|c: char| c.is_whitespace() || matches!(c, ':' | '：' | '–' | '—' | '(' | '['))
        .unwrap_or(rest.len());
    let (label, rest) = rest.split_at(end);
    let bare = label.trim_end_matches(['.', '-', '*', '_', ')']);
    let rest = without_total(rest.trim_start());
    let (rest, hours) = without_hours(rest);
    let title = rest.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, ':' | '：' | '-' | '–' | '—' | '.' | '*' | '→' | '|')
    });
    let is_separated = bare.len() < label.len() || title.len() < rest.len();
    // `Phase Overview` is a heading about phases; `Phase 1 Overview` and `Phase One: …` head one.
    let is_label =
        bare.bytes().any(|byte| byte.is_ascii_digit()) || is_separated || bare.len() == 1 || is_roman(bare);
    if bare.is_empty() || !is_label {
        return None;
    }
    Some(PhaseHeading { label: bare, title: value::plain(title), hours })
}

/// The heading without what stands before its words: emoji, emphasis, anchors, a number.
fn heading_text(text: &str) -> &str {
    let mut text = text;
    while let Some(rest) = text.trim_start().strip_prefix('<').and_then(|tag| tag.split_once('>')) {
        text = rest.1;
    }
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric() && !"*_`".contains(c));
    let text = value::plain(text).trim_start_matches(['*', '_', '`']);
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let numbered = text[digits..].trim_start_matches([')', ':', '.', '-']).trim_start();
    let is_numbered = digits > 0 && numbered.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("phase"));
    if is_numbered { numbered } else { text }
}

/// Takes the `of 3` off `of 3: Title`.
fn without_total(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("of ").map(str::trim_start) else { return text };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 { rest[digits..].trim_start() } else { text }
}

/// A heading that counts something else than phases: `Step 1: …`, `Task 2`, `3. …`. The word that it uses.
pub(super) fn counted_heading(text: &str) -> Option<&str> {
    const COUNTED: &[&str] = &[
        "step",
        "task",
        "stage",
        "milestone",
        "part",
        "sprint",
        "iteration",
        "wave",
        "story",
        "epic",
        "ticket",
        "week",
    ];
    let text = heading_text(text);
    let word = text.split(|c: char| !c.is_alphabetic()).next()?;
    let after = text[word.len()..].trim_start_matches([' ', '#', '-']);
    let is_counted = COUNTED.iter().any(|known| word.eq_ignore_ascii_case(known));
    let starts_with_number = after.starts_with(|c: char| c.is_ascii_digit());
    ((is_counted || word.is_empty()) && starts_with_number).then_some(word)
}

/// A line that is bold as a whole and names a phase: to those who write it a heading.
pub(super) fn bold_heading(text: &str) -> Option<&str> {
    let text = list_item(text).unwrap_or(text);
    let inner = text.strip_prefix("**").or_else(|| text.strip_prefix("__"))?;
    let mark = &text[..2];
    let (inner, after) = inner.split_once(mark)?;
    // `**Phase 1**: Title` and `**Phase 1: Title** (2 hours)`, but not a sentence that begins so.
    let after = after.trim();
    let is_heading = after.is_empty() || after == ":" || without_hours(after).1.is_some();
    (is_heading && phase_heading(inner).is_some()).then_some(text.trim_end_matches(':'))
}

fn is_roman(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'I' | b'V' | b'X'))
}

/// Takes `(2 hours)` or `[2h]` off either end.
fn without_hours(text: &str) -> (&str, Option<f64>) {
    for (open, close) in [('(', ')'), ('[', ']')] {
        if let Some((inner, rest)) = text.strip_prefix(open).and_then(|rest| rest.split_once(close))
            && let Some(hours) = hours_with_unit(inner)
        {
            return (rest.trim(), Some(hours));
        }
        if let Some((rest, inner)) =
            text.trim_end_matches('*').strip_suffix(close).and_then(|rest| rest.rsplit_once(open))
            && let Some(hours) = hours_with_unit(inner)
        {
            return (rest.trim().trim_end_matches('*'), Some(hours));
        }
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

/// `**Name**: value` or `**Name:** value`, also with underscores, and in italics.
pub(super) fn bold_field(text: &str) -> Option<(&str, &str)> {
    // "🎯 **Goal**: x"
    let text = text
        .trim_start_matches(|c: char| !c.is_alphanumeric() && !c.is_ascii() || c == ' ' || c == '\u{fe0f}');
    let mark = ["**", "__", "*", "_"].into_iter().find(|mark| text.starts_with(mark))?;
    let (name, after) = text[mark.len()..].split_once(mark)?;
    let (name, value) = match name.trim_end().strip_suffix([':', '：']) {
        Some(name) => (name, after),
        None => (name, after.trim_start().strip_prefix([':', '：'])?),
    };
    let name = name.trim_start_matches(|c: char| !c.is_alphanumeric()).trim();
    (!name.is_empty()).then_some((name, value.trim()))
}

/// `Name: value` or `Name — value` where the name is a field's.
pub(super) fn plain_field(text: &str) -> Option<(Meant, &str, &str)> {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric() && !c.is_ascii() || c == ' ');
    let (name, value) = text
        .split_once([':', '：'])
        .filter(|(name, _)| Field::meant(name).is_some())
        .or_else(|| [" — ", " – ", " - "].iter().find_map(|dash| text.split_once(dash)))?;
    Some((Field::meant(name)?, name.trim(), value.trim()))
}

/// Where several fields share a line, the value of the first and the rest: `low | **Effort**: 2h`.
pub(super) fn up_to_next_field(value: &str) -> (&str, Option<&str>) {
    let separators =
        |c: char| c.is_whitespace() || matches!(c, '|' | '·' | '•' | ',' | ';' | '—' | '–' | '-');
    for (at, _) in value.match_indices("**") {
        let is_field = bold_field(&value[at..]).is_some_and(|(name, _)| Field::meant(name).is_some());
        if is_field && value[..at].ends_with(separators) {
            return (value[..at].trim_end_matches(separators), Some(&value[at..]));
        }
    }
    for mark in [" | ", " · ", " • "] {
        if let Some((value, rest)) = value.split_once(mark)
            && plain_field(rest).is_some()
        {
            return (value.trim_end(), Some(rest.trim_start()));
        }
    }
    (value, None)
}

/// A row of a table with two cells: `| Goal | Parse the input |`.
pub(super) fn two_cells(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.strip_prefix('|')?.trim_end().strip_suffix('|')?.split_once('|')?;
    let is_two = !value.replace("\\|", "").contains('|');
    is_two.then(|| (value::plain(name).trim_end_matches(':'), value.trim()))
}

/// A row of a table whose cells name what a phase has: someone has written the phases as rows.
pub(super) fn heads_a_table_of_phases(text: &str) -> bool {
    text.starts_with('|')
        && text.split('|').filter(|cell| Field::meant(value::plain(cell)).is_some()).count() >= 2
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
            ("1. Phase 1: X", "1", "X", None),
            ("2.1 Phase 2a - X", "2a", "X", None),
            ("Phase 1 of 3: X", "1", "X", None),
            ("Phase-1: X", "1", "X", None),
            ("Phase1: X", "1", "X", None),
            ("Phase #2 — X", "2", "X", None),
            ("Phase 1: X [2h]", "1", "X", Some(2.0)),
            ("<a id=\"p1\"></a>Phase 1: X", "1", "X", None),
            ("Phase 1 : Données", "1", "Données", None),
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
        assert_eq!(bold_field("*Goal*: x"), Some(("Goal", "x")));
        assert_eq!(bold_field("🎯 **Goal**: x"), Some(("Goal", "x")));
        assert_eq!(bold_heading("**Phase 1: X**"), Some("**Phase 1: X**"));
        assert_eq!(bold_heading("**Phase 1** is the first"), None);
        assert_eq!(up_to_next_field("low | **Effort**: 2h"), ("low", Some("**Effort**: 2h")));
        assert_eq!(up_to_next_field("low | Effort: 2h"), ("low", Some("Effort: 2h")));
        assert_eq!(up_to_next_field("the **Effort** of many"), ("the **Effort** of many", None));
        assert_eq!(two_cells("| **Goal** | x |"), Some(("Goal", "x")));
        assert_eq!(two_cells("| a | b | c |"), None);
        assert_eq!(counted_heading("Step 1: X"), Some("Step"));
        assert_eq!(counted_heading("1. X"), Some(""));
        assert_eq!(counted_heading("Overview"), None);
        assert!(is_rule("* * *") && is_rule("---") && !is_rule("--") && !is_rule("-*-"));
    }
}
