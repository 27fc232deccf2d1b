//! The rule for every path that somebody else names: relative, inside the work tree, and neither the
//! repository's own data nor the bus.
//!
//! It judges the spelling alone. That a directory on the way is not a link to elsewhere can only be seen on
//! the disk, by whoever opens the file.

/// Why the path may not be used, as the end of a sentence that begins with it; or that it may.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    let has = |wanted: u8| path.bytes().any(|byte| byte == wanted);
    if path.chars().any(char::is_control) {
        return Err("contains a control character");
    }
    if has(b'\\') {
        return Err("contains a backslash; directories are separated by '/'");
    }
    if path.starts_with('/') {
        return Err("is absolute; paths are relative to the directory that holds .ce");
    }
    if path.starts_with('~') || has(b'$') {
        return Err("contains '~' or '$', which nothing expands here");
    }
    if path.ends_with('/') {
        return Err("names a directory, not a file");
    }
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    if parts.clone().any(|part| part == "..") {
        return Err("contains '..', which may lead out of the work tree");
    }
    // Some file systems do not tell upper from lower case.
    if parts.clone().any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err("is inside .git, which belongs to the repository");
    }
    match (parts.next(), parts.next()) {
        (None, _) => Err("names a directory, not a file"),
        (Some(first), Some(second)) if first.eq_ignore_ascii_case(".ce") => {
            if second.eq_ignore_ascii_case("orchestration") {
                Err("is inside .ce/orchestration, which is the bus itself")
            } else if second.eq_ignore_ascii_case("watchkeeper.toml") {
                Err("is the settings file, which only the user changes")
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

/// One spelling for one file: without `./` and doubled slashes.
pub fn normal_spelling(path: &str) -> std::borrow::Cow<'_, str> {
    let is_normal = !path.split('/').any(|part| part.is_empty() || part == ".");
    if is_normal {
        return path.into();
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    parts.join("/").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_inside_the_work_tree_passes() {
        for path in ["a", "src/main.rs", ".claude/x.md", ".ce/config.yml", "a b/c", "./a", ".gitignore", "x~"]
        {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused_with_the_rule() {
        let refused = [
            ("", "is empty"),
            ("/etc/passwd", "is absolute"),
            ("../../etc/passwd", "contains '..'"),
            ("a/../../b", "contains '..'"),
            ("~/x", "contains '~'"),
            ("$HOME/x", "contains '~' or '$'"),
            ("a\0b", "contains a control character"),
            ("a\\b", "contains a backslash"),
            ("src/", "names a directory"),
            (".", "names a directory"),
            (".git/config", "is inside .git"),
            ("vendor/.GIT/config", "is inside .git"),
            (".ce/orchestration/epoch", "is inside .ce/orchestration"),
            ("./.ce//orchestration/epoch", "is inside .ce/orchestration"),
            (".ce/orchestration", "is inside .ce/orchestration"),
            (".ce/watchkeeper.toml", "is the settings file"),
        ];
        for (path, rule) in refused {
            assert!(check_path(path).is_err_and(|reason| reason.starts_with(rule)), "{path:?}");
        }
    }

    #[test]
    fn one_file_has_one_spelling() {
        assert_eq!(normal_spelling("./a//b/./c"), "a/b/c");
        assert_eq!(normal_spelling("a/b"), "a/b");
    }
}
