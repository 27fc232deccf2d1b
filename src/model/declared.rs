//! What a task declares, and what was seen of it: the policy, and one line for each declared place.
//!
//! Values only. Looking is `verify`'s business, weighing is `decide`'s.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::containment::plain_spelling;
use super::evidence::{About, Brought, Change, Finding, Grade};
use super::task::TaskType;

/// Files that one place may list; beyond them they are counted.
pub const LISTED_MAX: usize = 50;

/// Whether the files that a task declares must be changed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredFiles {
    /// An attempt that touches none of them has failed.
    #[default]
    Must,
    /// They may be changed: a reviewer declares what it reads.
    May,
}

impl DeclaredFiles {
    pub const WORDS: [&str; 2] = ["must", "may"];

    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "must" => Some(DeclaredFiles::Must),
            "may" => Some(DeclaredFiles::May),
            _ => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            DeclaredFiles::Must => Self::WORDS[0],
            DeclaredFiles::May => Self::WORDS[1],
        }
    }

    /// Where nobody says it.
    pub fn of_type(kind: TaskType) -> Self {
        match kind {
            TaskType::Reviewer => DeclaredFiles::May,
            TaskType::Generator | TaskType::Executor | TaskType::ContextUpdater => DeclaredFiles::Must,
        }
    }

    pub fn is_must(&self) -> bool {
        *self == DeclaredFiles::Must
    }
}

/// Whether a declared path means all files that match it. Brackets are no pattern: frameworks name files so.
pub fn is_pattern(place: &str) -> bool {
    place.contains(['*', '?'])
}

/// Whether a file, or another place, lies in a declared place.
pub fn covers(place: &str, file: &str) -> bool {
    let (place, file) = (plain_spelling(place), plain_spelling(file));
    if is_pattern(&place) {
        return place == file || fitting(&place)(Path::new(file.as_ref()));
    }
    file == place || file.strip_prefix(place.as_ref()).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether two declared places may mean the same file.
pub fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (plain_spelling(one), plain_spelling(other));
    for (left, right) in one.split('/').zip(other.split('/')) {
        if left == "**" || right == "**" {
            return true;
        }
        let fits = |pattern: &str, name: &str| {
            glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_with(name, PATTERN_OPTIONS))
        };
        let is_apart = match (is_pattern(left), is_pattern(right)) {
            (false, false) => left != right,
            (true, false) => !fits(left, right),
            (false, true) => !fits(right, left),
            // Which names fit both is not asked: they may.
            (true, true) => false,
        };
        if is_apart {
            return false;
        }
    }
    // What is left of the longer one lies in the other.
    true
}

/// How patterns are read, wherever one is.
pub const PATTERN_OPTIONS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Whether a path is what the pattern means, or lies in it.
pub fn fitting(pattern: &str) -> impl Fn(&Path) -> bool {
    // As the walk that finds artifacts reads it: `./build//` is `build`.
    let plain: Vec<&str> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let pattern = glob::Pattern::new(&files_of(&plain.join("/"))).ok();
    move |path| {
        let matches =
            |outer| pattern.as_ref().is_some_and(|one| one.matches_path_with(outer, PATTERN_OPTIONS));
        path.ancestors().any(matches)
    }
}

/// The crate takes `**` at the end for directories alone; people mean what is in them.
pub fn files_of(pattern: &str) -> String {
    let files = if pattern == "**" || pattern.ends_with("/**") { "/*" } else { "" };
    format!("{pattern}{files}")
}

/// What was seen of one declared place: a file, a directory or a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredPlace {
    pub place: String,
    /// What became of it, all files of it together.
    pub change: Change,
    /// Something of it is still there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remains: bool,
    /// Nothing of it was done by the last attempt itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    /// Why it can be nobody's work: a link that leads out, a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    #[serde(default, skip_serializing_if = "Brought::is_empty")]
    pub brought: Brought,
}

impl DeclaredPlace {
    /// The finding, given which deletions were announced. What is gone without a word counts as not done.
    pub fn finding(&self, is_announced: impl Fn(&str) -> bool) -> Finding {
        if let Some(why) = &self.refused {
            let finding = Finding::new(&self.place, Grade::Observed, false, why);
            return Finding { about: About::Declared, ..finding };
        }
        let announced = is_announced(&self.place);
        let change = match self.change {
            Change::Deleted if !announced && !self.brought.deleted.iter().all(|file| is_announced(file)) => {
                let saw = "is gone, and neither plan nor result says so (files_deleted)";
                let finding = Finding::new(&self.place, Grade::Claimed, true, saw);
                return Finding { about: About::Declared, change: Some(Change::Absent), ..finding };
            }
            Change::Created | Change::Modified | Change::Rewritten | Change::Untouched if announced => {
                return self.still_there();
            }
            Change::Deleted if announced && self.remains => return self.still_there(),
            change => change,
        };
        Finding::of_change(&self.place, About::Declared, change, self.inherited)
    }

    fn still_there(&self) -> Finding {
        let saw = "is to be deleted, and still exists";
        let finding = Finding::new(&self.place, Grade::Claimed, true, saw);
        Finding { about: About::Declared, change: Some(Change::Untouched), ..finding }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(change: Change) -> DeclaredPlace {
        let deleted = if change == Change::Deleted { vec!["a".to_owned()] } else { Vec::new() };
        let brought = Brought { deleted, ..Brought::default() };
        DeclaredPlace { place: "a".into(), change, remains: false, inherited: false, refused: None, brought }
    }

    #[test]
    fn a_file_that_is_gone_is_done_only_if_that_was_announced() {
        let gone = place(Change::Deleted);
        assert_eq!(gone.finding(|_| false).change, Some(Change::Absent));
        assert_eq!(gone.finding(|_| true).grade, Grade::Observed);
        let in_part = DeclaredPlace { remains: true, ..place(Change::Deleted) };
        assert_eq!(in_part.finding(|_| true).change, Some(Change::Untouched));
        assert_eq!(place(Change::Modified).finding(|_| true).change, Some(Change::Untouched));
    }

    #[test]
    fn brackets_are_a_name_and_stars_a_pattern() {
        assert!(!is_pattern("app/[id]/page.tsx") && is_pattern("src/**/*.rs"));
    }
}
