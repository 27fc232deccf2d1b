//! Which file paths a request may name: relative ones that stay inside the project and away from the
//! version control and the bus.
//!
//! Lexical only. Whether a parent is a link that leads out is for whoever opens the file to find.

/// Longest path in bytes, as Linux has it.
pub const PATH_BYTES_MAX: usize = 4096;

/// Says why a path may not be declared; the words follow the quoted path.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    check_text(path)?;
    if path.contains('\\') {
        return Err("contains a backslash; write '/' between directories");
    }
    if path.starts_with('/') || has_drive(path) {
        return Err("is absolute; write it relative to the project's root");
    }
    if path.starts_with('~') {
        return Err("starts with '~', which only a shell replaces");
    }
    if starts_with_variable(path) {
        return Err("starts with a variable, which only a shell replaces");
    }
    let parts: Vec<String> =
        path.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_ascii_lowercase).collect();
    if parts.iter().any(|part| part == "..") {
        return Err("contains '..', which may lead out of the project");
    }
    if path.ends_with('/') || path.ends_with("/.") || parts.is_empty() {
        return Err("names a directory, not a file");
    }
    // Folded, because some file systems take `.GIT` for `.git`.
    if parts.iter().any(|part| part == ".git") {
        return Err("lies inside .git, which no task may declare");
    }
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [".ce"] | [".ce", "orchestration", ..] => Err("lies inside the bus, which no task may declare"),
        _ => Ok(()),
    }
}

/// The one spelling of a path: `./a//b` is `a/b`, so that two tasks that name one file are seen to.
pub fn plain_spelling(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
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
fn starts_with_variable(path: &str) -> bool {
    matches!(path.as_bytes(), [b'$', b'{' | b'(' | b'A'..=b'Z', ..])
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
            "a b/ü.txt",
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
            ("a\0b", "control"),
            ("a\nb", "control"),
            ("src/", "directory"),
            (".", "directory"),
            ("src/.", "directory"),
            (".git/config", ".git"),
            ("sub/.GIT/hooks/x", ".git"),
            ("./.git/config", ".git"),
            (".ce/orchestration/watch.lock", "bus"),
            (".CE//Orchestration", "bus"),
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
