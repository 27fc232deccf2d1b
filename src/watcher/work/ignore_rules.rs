//! What the ignore rules of the client's trees leave out, as git reads them: the rules as they were before the first
//! agent, so that no agent can hide what it made.
//!
//! Knows `.gitignore` files in the trees, not those of a user or of a repository's own settings.

use crate::model::tree::{Entry, Manifest, TreePath};
use crate::work_tree::Contents;

/// Where git looks for rules.
const RULES_NAME: &[u8] = b".gitignore";
/// As git: a `*` stands for anything but a slash, and hidden names are names.
const OPTIONS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Every file of rules, with the directory that it speaks for.
#[derive(Debug, Default)]
pub(super) struct IgnoreRules {
    files: Vec<(TreePath, Vec<Rule>)>,
}

#[derive(Debug)]
struct Rule {
    pattern: glob::Pattern,
    /// Against the path below the directory of the rules; else against each name alone.
    is_anchored: bool,
    directories_only: bool,
    /// It takes back what an earlier one ignores.
    is_negated: bool,
}

impl IgnoreRules {
    /// Rules that cannot be read any more say nothing.
    pub(super) fn of(before: &Manifest, contents: &dyn Contents) -> Self {
        let found = before.iter().filter(|(path, _)| path.name() == RULES_NAME);
        let files = found.filter_map(|(path, entry)| match entry {
            Entry::File { sha256, .. } => {
                let text = contents.read(sha256).ok()?;
                Some((path.parent()?, parse(&String::from_utf8_lossy(&text))))
            }
            Entry::Link { .. } | Entry::Directory { .. } => None,
        });
        IgnoreRules { files: files.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether something below a declared place is ignored. Rules that ignore the place itself say nothing about it:
    /// the client asks for it by name.
    pub(super) fn ignore(&self, path: &TreePath, declared: &TreePath, is_directory: bool) -> bool {
        let Some(rest) = path.rest_below(declared) else { return false };
        let parts: Vec<&[u8]> = rest.as_bytes().split(|byte| *byte == b'/').collect();
        let mut outer = declared.clone();
        for (at, part) in parts.iter().enumerate() {
            let Some(name) = TreePath::parse(*part) else { return false };
            outer = outer.join(&name);
            let is_directory = is_directory || at + 1 < parts.len();
            if self.names(&outer, declared, is_directory) {
                return true;
            }
        }
        false
    }

    /// Whether the last rule that speaks of exactly this path ignores it.
    fn names(&self, path: &TreePath, declared: &TreePath, is_directory: bool) -> bool {
        let mut is_ignored = false;
        for (dir, rules) in self.files.iter().filter(|(dir, _)| path.is_below(dir)) {
            if declared.is_below(dir) && verdict(rules, dir, declared, true) == Some(true) {
                continue;
            }
            is_ignored = verdict(rules, dir, path, is_directory).unwrap_or(is_ignored);
        }
        is_ignored
    }
}

fn verdict(rules: &[Rule], dir: &TreePath, path: &TreePath, is_directory: bool) -> Option<bool> {
    let rest = path.rest_below(dir)?;
    let name = String::from_utf8_lossy(path.name()).into_owned();
    let fits = |rule: &&Rule| {
        let is_met = match rule.is_anchored {
            true => rule.pattern.matches_path_with(rest.as_path(), OPTIONS),
            false => rule.pattern.matches_with(&name, OPTIONS),
        };
        is_met && (is_directory || !rule.directories_only)
    };
    rules.iter().rev().find(fits).map(|rule| !rule.is_negated)
}

fn parse(text: &str) -> Vec<Rule> {
    text.lines().filter_map(rule).collect()
}

fn rule(line: &str) -> Option<Rule> {
    let line = line.trim_end();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (line, is_negated) = line.strip_prefix('!').map_or((line, false), |rest| (rest, true));
    let line = line.strip_prefix('\\').unwrap_or(line);
    let (line, directories_only) = line.strip_suffix('/').map_or((line, false), |rest| (rest, true));
    let is_anchored = line.contains('/');
    let pattern = glob::Pattern::new(line.strip_prefix('/').unwrap_or(line)).ok()?;
    Some(Rule { pattern, is_anchored, directories_only, is_negated })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    fn ignored(rules: &str, of: &str, declared: &str) -> bool {
        let rules = IgnoreRules { files: vec![(path("ws"), parse(rules))] };
        rules.ignore(&path(of), &path(declared), false)
    }

    #[test]
    fn names_directories_places_and_exceptions_are_read_as_git_reads_them() {
        assert!(ignored("*.pyc", "ws/out/a/b.pyc", "ws/out"));
        assert!(ignored("build/", "ws/out/build/x.o", "ws/out"));
        assert!(!ignored("build/", "ws/out/build", "ws/out"), "a file of that name is none");
        assert!(ignored("/out/tmp", "ws/out/tmp/x", "ws/out"));
        assert!(!ignored("/tmp", "ws/out/tmp/x", "ws/out"));
        assert!(ignored("out/**/cache", "ws/out/a/b/cache/x", "ws/out"));
        assert!(!ignored("*.log\n!keep.log", "ws/out/keep.log", "ws/out"));
        assert!(!ignored("# *.txt\n\n", "ws/out/a.txt", "ws/out"));
    }

    #[test]
    fn rules_that_ignore_what_is_declared_say_nothing_about_it() {
        assert!(!ignored("*", "ws/out/a.txt", "ws/out"));
        assert!(!ignored("out/\n*.txt", "ws/out/a.txt", "ws/out"));
    }
}
