//! Dependencies that are told in words: "all other phases", "after Phase 1", "Phase 1 must be complete".
//!
//! What is understood loosely is told as a warning, so that a person can see it.

/// Phases that are meant without being named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Everything {
    /// Every phase but the one that says it.
    Others,
    /// Every phase before it.
    Previous,
    /// The one before it.
    Last,
}

/// Words that turn a mention around, or leave it open.
const TURNING: &[&str] = &[
    "not",
    "except",
    "excluding",
    "but",
    "without",
    "unless",
    "optional",
    "optionally",
    "or",
    "no",
    "before",
    "blocks",
    "unblocks",
    "enables",
    "through",
    "thru",
    "parallel",
    "alongside",
    "independent",
];
/// Those of several words.
const TURNING_PHRASES: &[&str] =
    &["required by", "needed by", "used by", "depends on this", "waits for this"];
/// Words beside "phases" that mean all of them.
const BEFORE: &[&str] = &["previous", "prior", "preceding", "earlier", "above", "foregoing"];

/// Understands "all other phases", "all previous phases", "the previous phase".
pub(super) fn everything(text: &str) -> Option<Everything> {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> = words(&text).collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let filler = [
        "all",
        "every",
        "everything",
        "other",
        "others",
        "phase",
        "phases",
        "the",
        "of",
        "tasks",
        "must",
        "be",
    ];
    let done = ["complete", "completed", "done", "finished", "else", "after"];
    let is_plain =
        words.iter().all(|word| filler.contains(word) || BEFORE.contains(word) || done.contains(word));
    if words.is_empty() || !is_plain {
        return None;
    }
    let is_all = has(&["all", "every", "everything", "others"]) || (has(BEFORE) && has(&["phases"]));
    match (is_all, has(BEFORE)) {
        (true, true) => Some(Everything::Previous),
        (true, false) => Some(Everything::Others),
        (false, true) if has(&["phase"]) => Some(Everything::Last),
        _ => None,
    }
}

/// The phases that a sentence mentions by label, where nothing in it turns the meaning around.
pub(super) fn mentioned(text: &str, find: impl Fn(&str) -> Option<usize>) -> Vec<usize> {
    let lower = text.to_ascii_lowercase();
    let is_turned = TURNING_PHRASES.iter().any(|phrase| lower.contains(phrase));
    if is_turned || words(&lower).any(|word| TURNING.contains(&word)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut is_after_phase = false;
    for word in words(&lower) {
        let is_phase = matches!(word, "phase" | "phases");
        // In "Phases 1a and 1b" the second has no word before it.
        let is_list = !found.is_empty() && word.starts_with(|c: char| c.is_ascii_digit());
        if (is_after_phase || is_list) && !is_phase {
            match find(&format!("phase {word}")) {
                Some(index) => found.push(index),
                None if is_after_phase => return Vec::new(),
                None => {}
            }
        }
        is_after_phase = is_phase;
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "()[]*`_\",;:#!".contains(c))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_phases_have_many_names() {
        for text in ["all other phases", "All phases", "All others", "every other phase"] {
            assert_eq!(everything(text), Some(Everything::Others), "{text}");
        }
        for text in ["all previous phases", "All preceding phases must be complete", "previous phases"] {
            assert_eq!(everything(text), Some(Everything::Previous), "{text}");
        }
        assert_eq!(everything("previous phase"), Some(Everything::Last));
        for text in ["all phases except 3", "Phase 1", "the design", "other", ""] {
            assert_eq!(everything(text), None, "{text}");
        }
    }

    #[test]
    fn a_phase_is_found_in_a_sentence_that_means_it() {
        let find = |name: &str| ["phase 1", "phase 2a"].iter().position(|known| *known == name);
        assert_eq!(mentioned("Phase 1 must be complete", find), [0]);
        assert_eq!(mentioned("after Phases 1 and 2a", find), [0, 1]);
        assert_eq!(mentioned("[Phase 1](#p1)", find), [0]);
        assert_eq!(mentioned("Phase 1 or Phase 2a", find), [0; 0]);
        assert_eq!(mentioned("Phase 9 must be complete", find), [0; 0]);
        assert_eq!(mentioned("the phase plan", find), [0; 0]);
    }
}
