//! Values as people write them in a plan: words for "none", kinds of agents, emphasis and remarks.
//!
//! Each function answers with a value or `None`; what to say about a wrong one is the reader's business.

pub(super) use super::file_names::file_names;
pub(super) use super::span::{hours, seconds};
use crate::model::TaskType;
pub(super) use crate::model::fold::folded;

/// Longest span, in seconds: about thirty years. Beyond it a slip is likelier than a wish.
pub(super) const SPAN_MAX: f64 = 1e9;

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

/// How people say that a phase waits for none of those that they name.
const BESIDE: &[&str] = &[
    "independent of ",
    "in parallel with ",
    "parallel with ",
    "parallel to ",
    "can run in parallel",
    "can run alongside",
];
/// What takes back a "None" before it: `None other than Phase 1`.
const EXCEPTIONS: &[&str] =
    &["other than", "except", "besides", "apart from", "require", "needs", "depends on"];

/// Is this a way to say that there is nothing?
pub(super) fn is_none(raw: &str) -> bool {
    // Almost every text begins like none of these words.
    let is_candidate = |byte: &u8| !byte.is_ascii_alphanumeric() || b"nNiIcCpP".contains(byte);
    if !raw.as_bytes().first().is_none_or(is_candidate) {
        return false;
    }
    let without_stop = |text| -> &str { str::strip_suffix(text, '.').unwrap_or(text) };
    let text = without_stop(plain(without_stop(without_remark(raw))));
    let known = [
        "-",
        "--",
        "–",
        "—",
        "[]",
        "n/a",
        "na",
        "nil",
        "null",
        "nothing",
        "not applicable",
        "independent",
        "can start immediately",
        "can start at once",
    ];
    if known.iter().any(|word| text.eq_ignore_ascii_case(word)) || raw.trim().is_empty() {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    if BESIDE.iter().any(|words| lower.starts_with(words)) {
        return true;
    }
    if EXCEPTIONS.iter().any(|words| lower.contains(words)) && lower.contains("phase") {
        return false;
    }
    // "None", and also "None, this one comes first".
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    match (words.next(), words.next()) {
        (Some(word), _) if word.eq_ignore_ascii_case("none") => true,
        (Some(word), Some(what)) if word.eq_ignore_ascii_case("no") => {
            ABSENT.iter().any(|known| what.eq_ignore_ascii_case(known))
        }
        (Some(word), _) if word.eq_ignore_ascii_case("nothing") => true,
        // "N/A - documentation only"
        (Some(n), Some(a)) => {
            n.eq_ignore_ascii_case("n") && a.eq_ignore_ascii_case("a") && text[1..].starts_with('/')
        }
        _ => false,
    }
}

/// What there is none of: "No dependencies".
const ABSENT: &[&str] = &[
    "dependencies",
    "dependency",
    "deps",
    "prerequisites",
    "prerequisite",
    "blockers",
    "requirements",
    "files",
    "file",
    "code",
    "changes",
    "modifications",
    "other",
    "previous",
    "prior",
    "phases",
    "phase",
    "hard",
];

/// Is this a way to say that it is not known yet?
pub(super) fn is_open(text: &str) -> bool {
    let text = plain(without_remark(text)).trim_end_matches(['.', '?']);
    let known = [
        "tbd",
        "tba",
        "todo",
        "to be determined",
        "to be decided",
        "unknown",
        "unclear",
        "etc",
        "various",
        "multiple",
        "several",
        "everything",
        "…",
    ];
    known.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Words that people write about files, and that no file is called by.
const ABOUT_FILES: &[&str] = &[
    "various",
    "all",
    "any",
    "every",
    "several",
    "multiple",
    "many",
    "some",
    "other",
    "relevant",
    "related",
    "affected",
    "needed",
    "necessary",
    "required",
    "throughout",
    "across",
    "file",
    "files",
    "everything",
];

/// Does it describe files instead of naming one: `various files under src/`?
pub(super) fn is_about_files(text: &str) -> bool {
    let is_such = |word: &str| {
        let word = word.trim_end_matches(['.', ',', ':', ';']);
        ABOUT_FILES.iter().any(|known| word.eq_ignore_ascii_case(known))
    };
    // One word alone may well be the name of a directory.
    text.contains(char::is_whitespace) && text.split_whitespace().any(is_such)
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for text in
            ["No dependencies", "None — this is independent", "no files", "N/A - a review", "Independent"]
        {
            assert!(is_none(text), "{text:?}");
        }
        assert!(!is_none("no-op.rs") && !is_none("Notes") && !is_none("N") && !is_none("Integration tests"));
        assert!(is_none("None, can start at once"));
        assert!(!is_none("Nonesuch") && !is_none("..") && !is_none("."));
    }
}
