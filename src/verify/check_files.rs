//! The files that a check consists of: the script that it runs, the build file that it reads, the tests that it names.
//! An agent that changes one of them without declaring it may have changed what the check says.
//!
//! Looks and reads; what follows from it is the runner's matter.

use std::collections::BTreeMap;
use std::path::Path;

use super::baseline::{digest, find, spelled};
use crate::bus::Disk;
use crate::model::declared::covers;

/// Programs, and the files that they read unasked.
const READ_UNASKED: &[(&str, &[&str])] = &[
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("gmake", &["Makefile", "makefile", "GNUmakefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("rake", &["Rakefile"]),
    ("tox", &["tox.ini"]),
    ("pytest", &["conftest.py", "pytest.ini", "tox.ini", "setup.cfg"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
];
/// Files that change what tests do merely by being there.
const ALWAYS_READ: [&str; 1] = ["conftest.py"];

/// The places that a command consists of, as it spells them, below the directory in which it runs.
pub fn places_of(command: &[String]) -> Vec<String> {
    let text = without_targets(&command.join("\n"));
    let is_end = |char: char| char.is_whitespace() || "'\"`;&|()<>=,".contains(char);
    let words = || text.split(is_end).filter(|word| !word.is_empty() && !word.starts_with('-'));
    let mut places: Vec<String> = Vec::new();
    for word in words() {
        // `tests/test_a.py::test_b` is a test in a file.
        let path = word.split("::").next().unwrap_or_default();
        let program = path.rsplit('/').next().unwrap_or_default();
        let unasked = READ_UNASKED.iter().filter(|(name, _)| *name == program).flat_map(|(_, files)| *files);
        places.extend(unasked.map(|file| (*file).to_owned()));
        // `python3 -m unittest tests.test_a.Case` names a module.
        if text.contains("unittest") && path.contains('.') && !path.contains('/') {
            let parts = path.match_indices('.').map(|(at, _)| &path[..at]).chain([path]);
            places.extend(parts.map(|module| format!("{}.py", module.replace('.', "/"))));
        }
        let is_below = !path.starts_with('/') && !path.contains("..") && !path.contains(['*', '?', '$', '~']);
        if is_below && !path.is_empty() {
            places.push(spelled(path));
        }
    }
    places.sort();
    places.dedup();
    places.retain(|place| !place.is_empty() && place != ".");
    places
}

/// The text without the files that it writes to: a check does not consist of what it makes.
fn without_targets(text: &str) -> String {
    let mut parts = text.split('>');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let part = part.trim_start_matches([' ', '&', '|']);
        let end =
            part.find(|char: char| char.is_whitespace() || ";&|()".contains(char)).unwrap_or(part.len());
        kept.push(' ');
        kept.push_str(&part[end..]);
    }
    kept
}

/// Which of the places' files are not as they were. What stands there for the first time counts where it was named.
pub fn changed(
    disk: &impl Disk,
    root: &Path,
    places: &[String],
    before: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut changed = Vec::new();
    for place in places {
        let now = find(disk, root, place).files;
        for (file, look) in &now {
            let is_changed = match before.get(file) {
                Some(then) => digest(disk, &root.join(file), look).is_some_and(|now| now != *then),
                None => counts_when_new(place, file),
            };
            if is_changed {
                changed.push(file.clone());
            }
        }
        let gone = before.keys().filter(|file| covers(place, file) && !now.contains_key(*file));
        changed.extend(gone.cloned());
    }
    changed.sort();
    changed.dedup();
    changed
}

/// A plain word of a command may happen to be a file's name.
fn counts_when_new(place: &str, file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    let is_read_unasked = READ_UNASKED.iter().any(|(_, files)| files.contains(&place));
    (file == place && (place.contains(['/', '.']) || is_read_unasked)) || ALWAYS_READ.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{RealDisk, sha256};

    fn places(line: &str) -> Vec<String> {
        places_of(&["sh".to_owned(), "-c".to_owned(), line.to_owned()])
    }

    #[test]
    fn scripts_build_files_and_named_tests_belong_to_a_check() {
        let has = |line: &str, place: &str| places(line).iter().any(|found| found == place);
        assert!(has("./scripts/check.sh --fast", "scripts/check.sh"));
        assert!(has("cd src && make test", "Makefile"));
        assert!(has("python -m pytest tests/test_a.py::test_b", "tests/test_a.py"));
        assert!(has("python -m pytest", "conftest.py"));
        assert!(has("CI=1 npm test", "package.json"));
        assert!(has("python3 -m unittest tests.test_a.Case", "tests/test_a.py"));
        assert!(has("sh check.sh > check.log 2>&1; cat more.sh", "more.sh"));
        assert!(!has("sh check.sh > check.log 2>&1", "check.log"), "what it makes");
        assert!(!has("/bin/sh /etc/x", "etc/x"));
        assert!(!has("pytest ../other", "../other"));
    }

    #[test]
    fn a_changed_a_removed_and_a_planted_file_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        std::fs::create_dir(dir.path().join("tests")).unwrap();
        write("check.sh", "exit 0");
        write("tests/new_test.py", "assert True");
        write("tests/conftest.py", "");
        write("GNUmakefile", "test:");
        let before = [("check.sh", "exit 1"), ("tests/old_test.py", "assert False")];
        let before = before.map(|(file, text)| (file.to_owned(), sha256(text.as_bytes()))).into();
        let found = changed(
            &RealDisk::default(),
            dir.path(),
            &places("pytest tests && ./check.sh && ./more.sh && make test"),
            &before,
        );
        assert_eq!(found, ["GNUmakefile", "check.sh", "tests/conftest.py", "tests/old_test.py"]);
        write("more.sh", "");
        let found = changed(&RealDisk::default(), dir.path(), &["more.sh".to_owned()], &BTreeMap::new());
        assert_eq!(found, ["more.sh"]);
    }
}
