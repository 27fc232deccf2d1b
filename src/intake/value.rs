//! Values as people write them in a plan: hours, spans, words for "none", file names with remarks.
//!
//! Each function answers with a value or `None`; what to say about a wrong one is the reader's business.

use crate::model::TaskType;
pub(super) use crate::model::fold::folded;

/// Longest span, in seconds: about thirty years. Beyond it a slip is likelier than a wish.
pub(super) const SPAN_MAX: f64 = 1e9;

/// Hours: `8`, `1.5`, `8 hours`, `~8h`, `30 minutes`, `2-3 hours` (the more cautious end).
pub(super) fn hours(text: &str) -> Option<f64> {
    let (number, unit) = number_with_unit(text)?;
    match unit {
        "" | "h" | "hr" | "hrs" | "hour" | "hours" => Some(number),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(number / 60.0),
        _ => None,
    }
}

/// Seconds: `3600`, `90s`, `30 minutes`, `2h`.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = number_with_unit(text)?;
    match unit {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => Some(number),
        _ => hours(text).map(|hours| hours * 3600.0),
    }
}

fn number_with_unit(text: &str) -> Option<(f64, &str)> {
    let text = without_remark(text).trim_start_matches(['~', '≈']).trim();
    let text = plain(text);
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E');
    let end = text.find(|c: char| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = match number.split_once('-') {
        Some((low, high)) if !low.is_empty() && !low.ends_with(['e', 'E']) => {
            low.parse::<f64>().ok()?;
            high
        }
        _ => number,
    };
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim();
    (number.is_finite() && number >= 0.0).then_some((number, unit))
}

/// The kind of agent, in the spellings that people use.
pub(super) fn task_type(text: &str) -> Option<TaskType> {
    let word = plain(text).to_ascii_lowercase().replace([' ', '_'], "-");
    TaskType::parse(&word)
}

/// The kind of agent that a title asks for. A plan that means another one says `Type`.
///
/// The first word decides: generating (or creating and writing PRPs) is a generator's work, reviewing,
/// validating and auditing a reviewer's; a title that speaks of a context update is a context updater's;
/// all else is an executor's.
pub(super) fn task_type_of(title: &str) -> TaskType {
    let mut words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let Some(first) = words.next() else {
        return TaskType::Executor;
    };
    let begins = |stem: &str| first.get(..stem.len()).is_some_and(|head| head.eq_ignore_ascii_case(stem));
    let is = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
    if begins("generat") {
        return TaskType::Generator;
    }
    if begins("review") || begins("validat") || begins("audit") {
        return TaskType::Reviewer;
    }
    let mut previous = first;
    for word in words {
        if (begins("creat") || begins("writ")) && (is(word, "prp") || is(word, "prps")) {
            return TaskType::Generator;
        }
        let pair = (previous, word);
        if (is(pair.0, "update") && is(pair.1, "context")) || (is(pair.0, "context") && is(pair.1, "update"))
        {
            return TaskType::ContextUpdater;
        }
        previous = word;
    }
    TaskType::Executor
}

/// Is this a way to say that there is nothing?
pub(super) fn is_none(raw: &str) -> bool {
    // Almost every text begins like none of these words.
    let is_candidate = |byte: &u8| !byte.is_ascii_alphanumeric() || matches!(byte, b'n' | b'N');
    if !raw.as_bytes().first().is_none_or(is_candidate) {
        return false;
    }
    let without_stop = |text| -> &str { str::strip_suffix(text, '.').unwrap_or(text) };
    let text = without_stop(plain(without_stop(without_remark(raw))));
    let known = ["-", "--", "–", "—", "[]", "n/a", "na", "nil", "null", "nothing"];
    if known.iter().any(|word| text.eq_ignore_ascii_case(word)) || raw.trim().is_empty() {
        return true;
    }
    // "None", and also "None, this one comes first".
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
    word.eq_ignore_ascii_case("none")
}

/// The text without the emphasis, backticks, quotes or brackets that enclose it.
pub(super) fn plain(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        if !text.starts_with(['*', '_', '`', '"', '\'']) {
            return text;
        }
        let inner =
            [("**", "**"), ("__", "__"), ("`", "`"), ("*", "*"), ("_", "_"), ("\"", "\""), ("'", "'")]
                .iter()
                .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
                .filter(|inner| !inner.is_empty());
        match inner {
            Some(inner) => text = inner.trim(),
            None => return text,
        }
    }
}

/// The text up to a remark in parentheses at its end.
pub(super) fn without_remark(text: &str) -> &str {
    let text = text.trim();
    if !text.ends_with(')') {
        return text;
    }
    match text.rfind(" (") {
        Some(open) => text[..open].trim_end(),
        None => text,
    }
}

/// The file names in a text: separated by commas, in backticks or not, with or without a remark.
pub(super) fn file_names<'a>(text: &'a str, mut found: impl FnMut(&'a str)) {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if is_none(text) {
        return;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = first_file_name(rest);
        if !name.is_empty() {
            found(name);
        }
        rest = after.trim_start();
    }
}

/// The first name, and what follows its comma. Within a remark a comma separates nothing.
fn first_file_name(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let bare = text.trim_start_matches("**");
    if let Some(quoted) = bare.strip_prefix('`')
        && let Some(end) = quoted.find('`')
    {
        let after = quoted[end + 1..].trim_start_matches("**").trim_start();
        let after = match after.strip_prefix('(').and_then(|remark| remark.split_once(')')) {
            Some((_, after)) => after.trim_start(),
            None => after,
        };
        // Whatever else follows is a remark on this file, commas and all.
        return (&quoted[..end], after.strip_prefix(',').unwrap_or(""));
    }
    let mut depth = 0_usize;
    let end = text.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b',' && depth == 0
    });
    let (name, after) = match end {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    };
    let name = without_remark(name);
    let remark =
        name.contains(' ').then(|| [" - ", " – ", " — "].iter().find_map(|dash| name.split_once(dash)));
    let (name, is_remarked) = match remark.flatten() {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    (plain(name), if is_remarked { "" } else { after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_read_as_people_write_them() {
        let read = [
            ("8", 8.0),
            ("1.5", 1.5),
            ("8 hours", 8.0),
            ("8h", 8.0),
            ("~8", 8.0),
            ("30 minutes", 0.5),
            ("30m", 0.5),
            ("2-3 hours", 3.0),
            ("4 hours (estimate)", 4.0),
            ("0", 0.0),
        ];
        for (text, hours_) in read {
            assert_eq!(hours(text), Some(hours_), "{text}");
        }
        for text in ["eight", "-1", "NaN", "1e400", "inf", "", "8 bananas", "1-", "--2"] {
            assert_eq!(hours(text), None, "{text}");
        }
        assert_eq!(seconds("90s"), Some(90.0));
        assert_eq!(seconds("2 hours"), Some(7200.0));
    }

    #[test]
    fn the_first_word_of_a_title_names_the_agent() {
        use TaskType::*;
        let read = [
            ("Generate PRPs", Generator),
            ("Create PRP for the parser", Generator),
            ("Create the parser", Executor),
            ("Review everything", Reviewer),
            ("Validate the schema", Reviewer),
            ("Update context", ContextUpdater),
            ("Final context update", ContextUpdater),
            ("Build Foundation", Executor),
            ("", Executor),
            ("Überprüfen", Executor),
        ];
        for (title, kind) in read {
            assert_eq!(task_type_of(title), kind, "{title}");
        }
        assert_eq!(task_type("Context Updater"), Some(ContextUpdater));
        assert_eq!(task_type("context_updater"), Some(ContextUpdater));
    }

    #[test]
    fn nothing_has_many_names() {
        for text in ["None", "none", "—", "-", "N/A", "", "[]", "`none`", "None (foundation)", "_None_."] {
            assert!(is_none(text), "{text:?}");
        }
        assert!(is_none("None, can start at once"));
        assert!(!is_none("Nonesuch") && !is_none("..") && !is_none("."));
    }

    #[test]
    fn file_names_come_with_backticks_and_remarks() {
        let names = |text| {
            let mut names = Vec::new();
            file_names(text, |name| names.push(name));
            names
        };
        assert_eq!(names("a.rs, b.rs"), ["a.rs", "b.rs"]);
        assert_eq!(names("`a.rs`, `b.rs`"), ["a.rs", "b.rs"]);
        assert_eq!(names("`a.rs` (new), b.rs (changed, twice), c.rs"), ["a.rs", "b.rs", "c.rs"]);
        assert_eq!(names("`a.rs` - adds this, that and more"), ["a.rs"]);
        assert_eq!(names("a.rs — adds this, that and more"), ["a.rs"]);
        assert_eq!(names("**`a.rs`** (new)"), ["a.rs"]);
        assert_eq!(names("[\"a.rs\", 'b.rs']"), ["a.rs", "b.rs"]);
        assert_eq!(names("None"), [""; 0]);
        assert_eq!(names("my notes.txt,"), ["my notes.txt"]);
    }
}
