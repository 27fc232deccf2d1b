//! Paths of a handed-over request, judged by their spelling alone: absolute, plain, inside or outside.
//!
//! Links are for whoever can look at the disk: `workspace` and `outputs` ask there.

use std::path::{Component, Path, PathBuf};

use crate::format::is_invisible;
use crate::model::containment;
use crate::model::fold::folded;
use crate::model::workspace::WorkspacePaths;

/// What the batch itself writes into its workspace, and agents must not.
const BOOKKEEPING: &[&str] = &[
    "checkpoint",
    "merged",
    "logs",
    "tmux",
    "status",
    "status.json",
    "artifacts",
    "execution_request.json",
    "assignments.json",
    "execution_report.json",
    "conflicts.json",
    "receipt.json",
    ".wk-lock",
    ".wk-conflicts",
    ".wk-merged",
];
/// The folder of a workspace that the seed's example also writes without it.
const OUTPUTS: &str = "outputs";
const INPUTS: &str = "inputs";

/// The path as it is meant, relative ones below `base`, or why it cannot be one. The words follow the path.
pub(super) fn read(text: &str, base: Option<&Path>) -> Result<PathBuf, &'static str> {
    containment::check_text(text)?;
    if text.contains(is_invisible) {
        return Err("contains a character that hides or reorders text");
    }
    if text.contains('\\') {
        return Err("contains a backslash; directories are separated by '/'");
    }
    if text.starts_with('~') {
        return Err("starts with '~', which only a shell replaces");
    }
    if text.split('/').any(containment::starts_with_variable) {
        return Err("contains a variable, which only a shell replaces");
    }
    if text.split('/').any(|part| part == "..") {
        return Err("contains '..', which may lead out");
    }
    let path = Path::new(text);
    match (path.is_absolute(), base) {
        (true, _) => Ok(plain(path)),
        (false, Some(base)) => Ok(plain(&base.join(path))),
        (false, None) => Err("is relative, and must be absolute"),
    }
}

/// One spelling: `/a//b/./c/` is `/a/b/c`.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// The seed's example names `<parent>/outputs/x` where `<workspace>/outputs/x` is meant.
pub(super) fn output_in_full(path: &Path, workspace: &Path) -> Option<PathBuf> {
    let rest = beside(path, workspace)?;
    rest.starts_with(OUTPUTS).then(|| workspace.join(rest))
}

/// Likewise `<parent>/requirements/x` where `<workspace>/inputs/requirements/x` may be meant.
pub(super) fn input_in_full(path: &Path, workspace: &Path) -> Option<PathBuf> {
    beside(path, workspace).map(|rest| workspace.join(INPUTS).join(rest))
}

/// The part below the workspace's parent, of a path that is not below the workspace.
fn beside<'p>(path: &'p Path, workspace: &Path) -> Option<&'p Path> {
    let rest = path.strip_prefix(workspace.parent()?).ok()?;
    (!path.starts_with(workspace) && rest != Path::new("")).then_some(rest)
}

/// Why an agent may not write there. `path` is plain and absolute.
pub(super) fn objection_to_output(path: &Path, workspace: &Path, bus_home: &Path) -> Option<String> {
    let Ok(rest) = path.strip_prefix(workspace) else {
        return Some(format!("is not inside the workspace {}", workspace.display()));
    };
    let Some(first) = rest.components().next() else {
        return Some("is the workspace itself".to_owned());
    };
    let first = first.as_os_str().to_string_lossy();
    let first = folded(&first);
    if BOOKKEEPING.contains(&&*first) {
        return Some(format!("is inside {first}, which the batch itself writes"));
    }
    if WorkspacePaths::new(workspace).is_put_aside(&workspace.join(&*first)) {
        return Some(format!("is inside {first}, where things of earlier batches are kept"));
    }
    if is_inside_git(rest) {
        return Some(containment::INSIDE_GIT.to_owned());
    }
    if rest.components().any(|part| is_temporary(&part.as_os_str().to_string_lossy())) {
        // No checkpoint keeps such files, so nothing could be put back.
        let prefix = containment::TEMPORARY_PREFIX;
        return Some(format!(
            "has a name in it that begins with {prefix}, as the batch's temporary files do"
        ));
    }
    let is_the_bus = lying(&without_case(path), &without_case(bus_home)) != Lying::Apart;
    is_the_bus.then(|| format!("is inside {}, which is the bus itself", bus_home.display()))
}

fn is_temporary(part: &str) -> bool {
    folded(part).starts_with(containment::TEMPORARY_PREFIX)
}

/// Whether the path is a repository's own directory, or inside one.
pub(super) fn is_inside_git(path: &Path) -> bool {
    path.components().any(|part| containment::is_git(&part.as_os_str().to_string_lossy()))
}

/// The path as file systems see it that do not tell upper from lower case. For comparing only.
pub(super) fn without_case(path: &Path) -> PathBuf {
    let fold = |part: Component<'_>| folded(&part.as_os_str().to_string_lossy()).into_owned();
    path.components().map(fold).collect()
}

/// How two paths lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lying {
    Same,
    /// The first is below the second.
    Inside,
    /// The second is below the first.
    Around,
    Apart,
}

pub(super) fn lying(first: &Path, second: &Path) -> Lying {
    match (first.starts_with(second), second.starts_with(first)) {
        (true, true) => Lying::Same,
        (true, false) => Lying::Inside,
        (false, true) => Lying::Around,
        (false, false) => Lying::Apart,
    }
}

/// Why a pattern cannot say which artifacts are required. The words follow the pattern.
pub(super) fn objection_to_pattern(pattern: &str) -> Option<String> {
    if let Err(why) = read(pattern, Some(Path::new("/"))) {
        return Some(why.to_owned());
    }
    if pattern.starts_with('/') {
        return Some("is absolute; patterns are relative to the workspace".to_owned());
    }
    let error = glob::Pattern::new(pattern).err()?;
    Some(format!("is no pattern: {} at position {}", error.msg, error.pos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_meaning_or_none() {
        let base = Some(Path::new("/ws"));
        assert_eq!(read("/a//b/./c/", None), Ok(PathBuf::from("/a/b/c")));
        assert_eq!(read("./a/b", base), Ok(PathBuf::from("/ws/a/b")));
        for (text, word) in [
            ("a", "relative"),
            ("", "empty"),
            (" ", "empty"),
            ("~/x", "'~'"),
            ("/a/$HOME/x", "variable"),
            ("/a/${X}", "variable"),
            ("/a/../b", "'..'"),
            ("/a\0b", "control"),
            ("/a\nb", "control"),
            ("/a\\b", "backslash"),
            ("/a\u{202e}b", "hides or reorders"),
        ] {
            let why = read(text, None).unwrap_err();
            assert!(why.contains(word), "{text:?}: {why}");
        }
        assert!(read("/a/$id.tsx", None).is_ok());
    }

    #[test]
    fn the_shorthand_of_the_example_is_written_in_full() {
        let workspace = Path::new("/t/orchestration/exec-1");
        let full = |path: &str| output_in_full(Path::new(path), workspace);
        assert_eq!(
            full("/t/orchestration/outputs/a/code"),
            Some(PathBuf::from("/t/orchestration/exec-1/outputs/a/code"))
        );
        assert_eq!(full("/t/orchestration/exec-1/outputs/a"), None, "it is in full already");
        assert_eq!(full("/t/orchestration/other/a"), None);
        assert_eq!(full("/t/orchestration/outputs-2/a"), None);
        assert_eq!(full("/t/outputs/a"), None);
        assert_eq!(full("/t/orchestration"), None);
        assert_eq!(
            input_in_full(Path::new("/t/orchestration/codebase"), workspace),
            Some(PathBuf::from("/t/orchestration/exec-1/inputs/codebase"))
        );
    }

    #[test]
    fn an_agent_writes_inside_the_workspace_and_not_into_its_books() {
        let (workspace, bus) = (Path::new("/ws"), Path::new("/ws/.ce"));
        let why = |path: &str| objection_to_output(Path::new(path), workspace, bus).unwrap_or_default();
        for path in ["/ws/outputs/a", "/ws/src/status", "/ws/.github/x", "/ws/logs-2/x", "/ws/.cell"] {
            assert_eq!(why(path), "", "{path}");
        }
        for (path, word) in [
            ("/etc/passwd", "not inside the workspace /ws"),
            ("/ws2/a", "not inside"),
            ("/ws", "the workspace itself"),
            ("/ws/logs/a", "inside logs"),
            ("/ws/LOGS/a", "inside logs"),
            ("/ws/Status.json", "inside status.json"),
            ("/ws/merged", "inside merged"),
            ("/ws/.git/hooks/x", ".git"),
            ("/ws/sub/.GIT/config", ".git"),
            ("/ws/.ce/orchestration/watch.lock", "the bus itself"),
            ("/ws/.CE/x", "the bus itself"),
            ("/ws/.Ce", "the bus itself"),
            ("/ws/log\u{17f}/x", "inside logs"),
            ("/ws/\u{17f}tatus/x", "inside status"),
            ("/ws/conflict\u{17f}.json", "inside conflicts.json"),
            ("/ws/.wk-loc\u{212a}", "inside .wk-lock"),
            ("/ws/outputs/.TMP-wk-x/a", "begins with .tmp-wk-"),
        ] {
            assert!(why(path).contains(word), "{path}: {}", why(path));
        }
    }

    #[test]
    fn a_pattern_stays_below_the_workspace() {
        assert_eq!(objection_to_pattern("build/**/*.html"), None);
        for (pattern, word) in [
            ("/etc/*", "absolute"),
            ("../x/*", "'..'"),
            ("a/***", "no pattern"),
            ("a/[x", "no pattern"),
            ("", "empty"),
            ("~/x", "'~'"),
        ] {
            let why = objection_to_pattern(pattern).unwrap_or_default();
            assert!(why.contains(word), "{pattern:?}: {why}");
        }
    }
}
