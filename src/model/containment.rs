//! Which file paths a request may name: relative ones that stay inside the project and away from the
//! version control and the bus.
//!
//! Lexical only. Whether a parent is a link that leads out is for whoever opens the file to find.

use std::borrow::Cow;

use super::fold::folded;

/// Longest path in bytes, as Linux has it.
pub const PATH_BYTES_MAX: usize = 4096;

/// What our own temporary files begin with, wherever they are; a crash may leave one, and the next start sweeps it.
pub const TEMPORARY_PREFIX: &str = ".tmp-wk-";

/// Says why a path may not be declared; the words follow the quoted path.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    check_text(path)?;
    if path.contains('\\') {
        return Err("contains a backslash; directories are separated by '/'");
    }
    if path.starts_with('/') || has_drive(path) {
        return Err("is absolute; paths are relative to the directory that holds .ce");
    }
    if path.starts_with('~') {
        return Err("starts with '~', which only a shell replaces");
    }
    if path.split('/').any(starts_with_variable) {
        return Err("contains a variable, which only a shell replaces");
    }
    if parts(path).any(|part| part == "..") {
        return Err("contains '..', which may lead out of the work tree");
    }
    // Some file systems do not tell upper from lower case.
    if parts(path).any(is_git) {
        return Err(INSIDE_GIT);
    }
    check_reserved(path)
}

/// Whether a name on the way is that of a repository's own directory.
pub fn is_git(name: &str) -> bool {
    folded(name) == ".git"
}

/// Whether a path below the root is the bus, or lies in it.
pub fn is_bus(path: &str) -> bool {
    let mut parts = parts(path).map(folded);
    parts.next().as_deref() == Some(".ce") && parts.next().as_deref() == Some("orchestration")
}

/// Why nothing is written there; the words follow the path.
pub const INSIDE_GIT: &str = "is inside .git, which belongs to the repository";

/// The bus and its settings are not a task's to change; the rest of `.ce` is.
fn check_reserved(path: &str) -> Result<(), &'static str> {
    let mut parts = parts(path);
    let first = parts.next().ok_or("names the whole work tree; name what changes in it")?;
    if folded(first) != ".ce" {
        return Ok(());
    }
    match parts.next().map(folded).as_deref() {
        None => Err("holds the bus; name what changes in it"),
        Some("orchestration") => Err("is inside .ce/orchestration, which is the bus itself"),
        Some("watchkeeper.toml") => Err("is the settings file, which only the user changes"),
        Some("ledger.md") => Err("is the ledger, which the watcher writes"),
        Some(_) => Ok(()),
    }
}

/// The one spelling of a path: `./a//b` is `a/b`, so that two tasks that name one file are seen to.
pub fn plain_spelling(path: &str) -> Cow<'_, str> {
    if path.split('/').all(|part| !matches!(part, "" | ".")) {
        return path.into();
    }
    parts(path).collect::<Vec<_>>().join("/").into()
}

/// The names on the way, without what changes nothing.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

/// The part of the rule that holds for absolute paths too, which a result may use.
pub fn check_text(path: &str) -> Result<(), &'static str> {
    if path.trim().is_empty() {
        return Err("is empty");
    }
    if path.len() > PATH_BYTES_MAX {
        return Err("is longer than 4096 bytes");
    }
    if path.chars().any(char::is_control) {
        return Err("contains a control character");
    }
    Ok(())
}

/// `C:/x` and `C:x`: relative here, absolute elsewhere.
fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// `$HOME` and `${HOME}`, but not `$id.tsx`: some frameworks name files so.
pub(crate) fn starts_with_variable(part: &str) -> bool {
    matches!(part.as_bytes(), [b'$', b'{' | b'(' | b'A'..=b'Z', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_inside_the_project_is_fine() {
        for path in [
            "a.md",
            "./src/main.rs",
            ".ce/config.yml",
            ".claude/x.md",
            "a..b",
            ".github/workflows/ci.yml",
            ".gitignore",
            "routes/$id.tsx",
            "$id.tsx",
            "Outer$Inner.class",
            "x~",
            "a b/ü.txt",
            "src/",
            "src/**/*.rs",
        ] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_path_has_one_spelling() {
        assert_eq!(plain_spelling("./a//b/./c.md"), "a/b/c.md");
        assert_eq!(plain_spelling("a b/.ce"), "a b/.ce");
    }

    #[test]
    fn whatever_may_lead_out_or_harm_the_bus_is_refused() {
        let refused = [
            ("/etc/passwd", "absolute"),
            ("C:/x", "absolute"),
            ("../../etc/passwd", "'..'"),
            ("a/../b", "'..'"),
            ("~/x", "'~'"),
            ("~", "'~'"),
            ("$HOME/x", "variable"),
            ("${HOME}/x", "variable"),
            ("out/$NAME/x", "variable"),
            ("a\0b", "control"),
            ("a\nb", "control"),
            (".", "whole work tree"),
            (".git/config", ".git"),
            ("sub/.GIT/hooks/x", ".git"),
            ("./.git/config", ".git"),
            (".ce/orchestration/watch.lock", "bus"),
            ("./.CE//Orchestration", "bus"),
            (".ce/watchkeeper.toml", "settings"),
            (".ce/watch\u{212a}eeper.toml", "settings"),
            (".ce/orche\u{17f}tration/x", "bus"),
            (".ce", "bus"),
            ("a\\b", "backslash"),
            ("", "empty"),
        ];
        for (path, word) in refused {
            let why = check_path(path).unwrap_err();
            assert!(why.contains(word), "{path:?}: {why}");
        }
        assert!(check_path(&"x".repeat(PATH_BYTES_MAX + 1)).is_err());
    }
}
