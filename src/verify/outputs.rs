//! Declared outputs and required artifacts: whether something is there, inside the workspace and not empty, and what
//! became of it since the task began.

use std::path::{Path, PathBuf};

use super::tally::{Tally, is_customarily_empty};
use crate::model::declared::{PATTERN_OPTIONS, files_of, fitting};
use crate::model::evidence::{About, Brought, Change};
use crate::model::inspected::Change as ChangedPath;
use crate::model::placement::source_of;
use crate::model::tree::{Entry, Manifest, TreePath};
use crate::model::{Claim, Finding, Grade};
use crate::work_tree::Scan;

/// Most files that one pattern may match: above it the pattern means a tree, and should be an output.
const MATCHES_MAX: usize = 20_000;
/// Most files that are told one by one: the verdict is journaled.
const UNCLAIMED_LISTED_MAX: usize = 100;
/// Where patterns look.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Absolute.
    pub workspace: &'a Path,
    /// What of it is nobody's output.
    pub aside: &'a [PathBuf],
}

/// Looks at the files of an attempt, from before its task's first attempt to its end.
#[derive(Debug, Clone, Copy)]
pub struct Looks<'a> {
    /// Before the task's first attempt.
    pub base: &'a Scan,
    /// Before this attempt.
    pub before: &'a Scan,
    pub after: &'a Scan,
    /// Below which paths are told.
    pub workspace: &'a TreePath,
}

/// An output, and what its content became since the task began: only that is evidence of work.
pub fn output(name: &str, source: &TreePath, looks: Looks<'_>) -> (Finding, Brought) {
    let there = presence(name, source, &looks.after.manifest);
    if !there.met {
        return (there, Brought::default());
    }
    let tally = became(|path| path == source || path.is_below(source), looks);
    (Finding::of_change(name, About::Output, tally.change(), tally.is_inherited()), tally.brought)
}

/// An output is there when something is: a file that is not empty, or a directory with one in it.
pub fn presence(name: &str, source: &TreePath, now: &Manifest) -> Finding {
    let is_full = |path: &TreePath, entry: &Entry| match entry {
        Entry::File { size, .. } => *size > 0 || is_customarily_empty(path.as_path()),
        Entry::Link { .. } | Entry::Directory { .. } => false,
    };
    let unmet = match now.get(source) {
        None => Some("does not exist"),
        Some(Entry::Link { .. }) => Some("is a symbolic link"),
        Some(entry @ Entry::File { .. }) => (!is_full(source, entry)).then_some("is empty"),
        Some(Entry::Directory { .. }) => {
            let mut inside = now.iter().filter(|(path, _)| path.is_below(source));
            let none = "is a directory without a file that is not empty";
            (!inside.any(|(path, entry)| is_full(path, entry))).then_some(none)
        }
    };
    let finding = Finding::new(name, Grade::Observed, unmet.is_none(), unmet.unwrap_or("exists"));
    Finding { about: About::Output, ..finding }
}

/// Whether every pattern matches something that is not empty, and what became of that. The error is a sentence for
/// people.
pub fn artifacts(
    ground: Ground<'_>,
    patterns: &[String],
    looks: Option<Looks<'_>>,
) -> Result<Vec<(Finding, Brought)>, String> {
    let mut findings = Vec::new();
    for pattern in patterns {
        let matches = matches(ground, pattern)?;
        let filled = matches.iter().filter(|path| is_filled(path)).count();
        let about = |met, saw: &str| Finding {
            about: About::Artifact,
            ..Finding::new(pattern, Grade::Observed, met, saw)
        };
        findings.push(match (matches.len(), filled, looks) {
            (0, _, _) => (about(false, "nothing matches it"), Brought::default()),
            (_, 0, _) => (about(false, "all that matches it is empty"), Brought::default()),
            (_, count, None) => (about(true, &format!("{count} found")), Brought::default()),
            (_, _, Some(looks)) => {
                let fits = fitting(pattern);
                let is_meant = |path: &TreePath| {
                    path.rest_below(looks.workspace).is_some_and(|rest| fits(rest.as_path()))
                };
                let tally = became(is_meant, looks);
                (
                    Finding::of_change(pattern, About::Artifact, tally.change(), tally.is_inherited()),
                    tally.brought,
                )
            }
        });
    }
    Ok(findings)
}

/// What became of the files that are meant.
fn became(is_meant: impl Fn(&TreePath) -> bool, looks: Looks<'_>) -> Tally {
    let Looks { base, before, after, workspace } = looks;
    let mut tally = Tally::default();
    let told = |path: &TreePath| path.rest_below(workspace).unwrap_or_else(|| path.clone()).to_string();
    let is_file = |entry: &Entry| !matches!(entry, Entry::Directory { .. });
    for (path, entry) in after.manifest.iter().filter(|(path, entry)| is_meant(path) && is_file(entry)) {
        let change = change_of(path, entry, base, after);
        let is_older = change_of(path, entry, before, after) == Change::Untouched;
        tally.note(&told(path), change, is_older);
    }
    let gone = |path: &TreePath| !after.manifest.get(path).is_some_and(is_file);
    for (path, _) in base.manifest.iter().filter(|(path, entry)| is_meant(path) && is_file(entry)) {
        if gone(path) {
            tally.had_files = true;
            tally.note(&told(path), Change::Deleted, !before.manifest.contains_key(path));
        }
    }
    tally
}

fn change_of(path: &TreePath, now: &Entry, then: &Scan, after: &Scan) -> Change {
    let digest_then = match then.manifest.get(path) {
        Some(Entry::File { sha256, .. }) => Some(*sha256),
        Some(entry @ Entry::Link { .. }) if entry == now => return Change::Untouched,
        Some(Entry::Link { .. } | Entry::Directory { .. }) | None => None,
    };
    let Entry::File { sha256, size, .. } = now else { return Change::Linked };
    let is_empty = *size == 0 && !is_customarily_empty(path.as_path());
    match digest_then {
        Some(digest) if digest == *sha256 => match (then.look_of(path), after.look_of(path)) {
            // Of a file that nobody looked at then, only the content is known.
            (Some(then), Some(now)) if then != now => Change::Rewritten,
            (_, _) => Change::Untouched,
        },
        _ if is_empty => Change::Emptied,
        Some(_) => Change::Modified,
        None => Change::Created,
    }
}

/// What a pattern matches below the workspace. Links are not followed out of it, and what is aside is not
/// looked at.
pub fn matches(ground: Ground<'_>, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let escaped = glob::Pattern::escape(&ground.workspace.to_string_lossy());
    let found = glob::glob_with(&format!("{escaped}/{}", files_of(pattern)), PATTERN_OPTIONS)
        .map_err(|error| format!("pattern '{pattern}': {error}"))?;
    let mut matches = Vec::new();
    for path in found.filter_map(Result::ok) {
        let is_aside = ground.aside.iter().any(|aside| path.starts_with(aside));
        if is_aside || !leads_inside(ground.workspace, &path) {
            continue;
        }
        matches.push(path);
        if matches.len() > MATCHES_MAX {
            return Err(format!(
                "pattern '{pattern}' matches more than {MATCHES_MAX} files; declare an output"
            ));
        }
    }
    Ok(matches)
}

/// Declared outputs that changed though the agent's result does not name them, nor a directory that holds
/// them. A result that names no file at all says nothing about any.
pub fn unclaimed(
    changes: &[ChangedPath],
    sources: &[(TreePath, PathBuf)],
    root: &Path,
    claim: &Claim,
) -> Vec<String> {
    let claimed: Vec<PathBuf> = claim.files().filter_map(|file| super::inside(root, file)).collect();
    if claimed.is_empty() {
        return Vec::new();
    }
    let is_there = |change: &&ChangedPath| {
        let is_file = matches!(change.theirs, Some(Entry::File { .. } | Entry::Link { .. }));
        is_file && change.base != change.theirs
    };
    let changed = changes.iter().filter(is_there).filter_map(|change| source_of(sources, &change.path));
    let unclaimed = changed.filter(|file| !claimed.iter().any(|claimed| file.starts_with(claimed)));
    unclaimed.take(UNCLAIMED_LISTED_MAX).map(|file| file.to_string_lossy().into_owned()).collect()
}

/// Whether a path below the workspace is what the pattern means, or lies in it.
pub fn fits(pattern: &str, path: &Path) -> bool {
    fitting(pattern)(path)
}

/// Whether what a path leads to is still below the root, links followed.
fn leads_inside(root: &Path, path: &Path) -> bool {
    let (Ok(root), Ok(path)) = (root.canonicalize(), path.canonicalize()) else { return false };
    path.starts_with(root)
}

fn is_filled(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(data) if data.is_file() => data.len() > 0,
        Ok(data) if data.is_dir() => {
            let below = walkdir::WalkDir::new(path).into_iter().filter_map(Result::ok);
            below.filter_map(|entry| entry.metadata().ok()).any(|data| data.is_file() && data.len() > 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str], pattern: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let ground = Ground { workspace: dir.path(), aside: &[] };
        let found = matches(ground, pattern).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
        found.iter().filter(|path| path.is_file()).map(name).collect()
    }

    #[test]
    fn a_pattern_means_the_case_that_it_is_written_in() {
        assert!(found(&["README.md"], "readme.md").is_empty());
        assert!(found(&["a.HTML"], "*.html").is_empty());
        assert_eq!(found(&["a.html"], "*.html"), ["a.html"]);
    }

    #[test]
    fn a_pattern_is_the_same_however_it_is_spelled() {
        for pattern in ["build", "build/", "./build/ok.html", "build//ok.html", "./**/*.html"] {
            assert!(fits(pattern, Path::new("build/ok.html")), "{pattern}");
        }
        assert!(!fits("build/", Path::new("builder/ok.html")));
    }

    #[test]
    fn two_stars_at_the_end_match_every_file_below() {
        assert_eq!(found(&["out/top", "out/d/in", "else"], "out/**"), ["out/d/in", "out/top"]);
        assert_eq!(found(&["top", "d/in"], "**"), ["d/in", "top"]);
        assert_eq!(found(&["out/a.html", "out/d/b.html"], "out/**/*.html"), ["out/a.html", "out/d/b.html"]);
    }
}
