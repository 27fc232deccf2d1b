//! Declared outputs and required artifacts: whether something is there, inside the workspace and not empty.

use std::path::{Path, PathBuf};

use crate::model::evidence::About;
use crate::model::inspected::Change;
use crate::model::placement::source_of;
use crate::model::tree::{Entry, Manifest, TreePath};
use crate::model::{Claim, Finding, Grade};

/// Most files that one pattern may match: above it the pattern means a tree, and should be an output.
const MATCHES_MAX: usize = 20_000;
/// Most files that are told one by one: the verdict is journaled.
const UNCLAIMED_LISTED_MAX: usize = 100;
/// How patterns are read, wherever one is.
const OPTIONS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Where patterns look.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Absolute.
    pub workspace: &'a Path,
    /// What of it is nobody's output.
    pub aside: &'a [PathBuf],
}

/// An output is there when something is: a file that is not empty, or a directory with one in it.
pub fn output(name: &str, source: &TreePath, now: &Manifest) -> Finding {
    let is_full = |entry: &Entry| matches!(entry, Entry::File { size, .. } if *size > 0);
    let (met, saw) = match now.get(source) {
        None => (false, "does not exist".to_owned()),
        Some(Entry::Link { .. }) => (false, "is a symbolic link".to_owned()),
        Some(entry @ Entry::File { .. }) if is_full(entry) => (true, "exists".to_owned()),
        Some(Entry::File { .. }) => (false, "is empty".to_owned()),
        Some(Entry::Directory { .. }) => {
            let inside = now.iter().filter(|(path, _)| path.is_below(source));
            match inside.filter(|(_, entry)| is_full(entry)).count() {
                0 => (false, "is a directory without a file that is not empty".to_owned()),
                count => (true, format!("exists, with {count} files")),
            }
        }
    };
    Finding { about: About::Output, ..Finding::new(name, Grade::Observed, met, saw) }
}

/// Whether every pattern matches something that is not empty. The error is a sentence for people.
pub fn artifacts(ground: Ground<'_>, patterns: &[String]) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for pattern in patterns {
        let matches = matches(ground, pattern)?;
        let filled = matches.iter().filter(|path| is_filled(path)).count();
        let (met, saw) = match (matches.len(), filled) {
            (0, _) => (false, "nothing matches it".to_owned()),
            (_, 0) => (false, "all that matches it is empty".to_owned()),
            (_, count) => (true, format!("{count} found")),
        };
        findings.push(Finding { about: About::Artifact, ..Finding::new(pattern, Grade::Observed, met, saw) });
    }
    Ok(findings)
}

/// What a pattern matches below the workspace. Links are not followed out of it, and what is aside is not
/// looked at.
pub fn matches(ground: Ground<'_>, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let escaped = glob::Pattern::escape(&ground.workspace.to_string_lossy());
    let found = glob::glob_with(&format!("{escaped}/{}", files_of(pattern)), OPTIONS)
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
    changes: &[Change],
    sources: &[(TreePath, PathBuf)],
    root: &Path,
    claim: &Claim,
) -> Vec<String> {
    let claimed: Vec<PathBuf> = claim.files().filter_map(|file| super::inside(root, file)).collect();
    if claimed.is_empty() {
        return Vec::new();
    }
    let is_there = |change: &&Change| {
        let is_file = matches!(change.theirs, Some(Entry::File { .. } | Entry::Link { .. }));
        is_file && change.base != change.theirs
    };
    let changed = changes.iter().filter(is_there).filter_map(|change| source_of(sources, &change.path));
    let unclaimed = changed.filter(|file| !claimed.iter().any(|claimed| file.starts_with(claimed)));
    unclaimed.take(UNCLAIMED_LISTED_MAX).map(|file| file.to_string_lossy().into_owned()).collect()
}

/// Whether a path below the workspace is what the pattern means, or lies in it.
pub fn fits(pattern: &str, path: &Path) -> bool {
    // As the walk that finds artifacts reads it: `./build//` is `build`.
    let plain: Vec<&str> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let Ok(pattern) = glob::Pattern::new(&files_of(&plain.join("/"))) else { return false };
    path.ancestors().any(|outer| pattern.matches_path_with(outer, OPTIONS))
}

/// The crate takes `**` at the end for directories alone; people mean what is in them.
fn files_of(pattern: &str) -> String {
    let files = if pattern == "**" || pattern.ends_with("/**") { "/*" } else { "" };
    format!("{pattern}{files}")
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
