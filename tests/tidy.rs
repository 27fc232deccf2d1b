//! The rules of the house that no compiler knows. Each failure names the place and the remedy.
//!
//! A rule that turns out wrong is changed here, with its reason, never worked around.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Which folder of `src` may use which: dependencies point down only.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("format", &["model"]),
    ("graph", &["model"]),
    ("intake", &["model", "format", "graph"]),
    ("decide", &["model"]),
    ("view", &["model"]),
    // The words that every face shares live in `view`.
    ("outcome", &["model", "graph", "intake", "view"]),
    ("rehearse", &["model", "decide", "graph", "intake", "outcome", "view", "format"]),
    ("bus", &["model", "format"]),
    ("verify", &["model", "bus", "work_tree"]),
    ("work_tree", &["model", "bus"]),
    // The runner looks at what its agent made; intake asks about the directories of agents.
    ("agent", &["model", "format", "bus", "intake", "verify", "work_tree"]),
    ("merge", &["model", "bus", "work_tree"]),
    ("watcher", ALL_ABOVE),
    ("relay", ALL_ABOVE),
    ("face", ALL_ABOVE),
    // Programs beside `wk`.
    ("bin", ALL_ABOVE),
];

/// Whatever stands above the entry.
const ALL_ABOVE: &[&str] = &["*"];

/// Folders of values in, values out.
const PURE: &[&str] = &["model", "format", "intake", "graph", "decide", "outcome", "view", "rehearse"];
const IMPURE_WORDS: &[&str] = &[
    "std::fs",
    "std::process",
    "std::env",
    "std::net",
    "std::thread",
    "SystemTime",
    "Instant",
    "println!",
    "print!",
];

/// Lints with exceptions, and the only files that may make one.
const MAY_EXPECT: &[(&str, &[&str])] = &[
    ("unsafe_code", &["src/bus/platform.rs"]),
    (
        "clippy::disallowed_methods",
        &[
            "src/agent/runner/start.rs",
            "src/agent/environment.rs",
            "src/agent/foreground.rs",
            "src/agent/granted.rs",
            "src/agent/launcher/process.rs",
            "src/agent/launcher/tmux.rs",
            "src/agent/nursery.rs",
            "src/bus/access.rs",
            "src/bus/archive.rs",
            "src/bus/lease.rs",
            "src/bus/occupancy.rs",
            "src/bus/real_disk.rs",
            "src/face/cli/agent.rs",
            "src/face/cli/doctor.rs",
            "src/face/cli/follow.rs",
            "src/face/cli/logs.rs",
            "src/face/cli/submit.rs",
            "src/merge/tree_disk.rs",
            "src/verify/commits.rs",
        ],
    ),
];

/// What fits in a head, and on a few screens.
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

const UNFINISHED: &[&str] = &["todo!", "dbg!", "unimplemented!", "FIXME", "XXX"];
const BANNED_FILES: &[&str] =
    &["utils.rs", "util.rs", "helpers.rs", "manager.rs", "common.rs", "types.rs", "handler.rs", "misc.rs"];

/// Endings and names that mean something on the bus.
const BUS_NAMES: &[&str] = &[
    ".hb",
    ".result.json",
    ".result.error.json",
    ".reason.json",
    ".take",
    "batch.json",
    "status.json",
    "clock.json",
    "journal.jsonl",
    "LEDGER.md",
    "watch.lock",
    "watchkeeper.toml",
    "orchestration",
    "completed-batches",
    "execution_request.json",
    "execution_report.json",
    "assignments.json",
    "conflicts.json",
    "receipt.json",
    "checkpoint.tar.gz",
];
/// Where they are spelled: those of the bus, and those of a handed-over batch's workspace.
const LAYOUT: &[&str] = &["src/bus/layout.rs", "src/bus/names.rs", "src/model/workspace.rs"];

#[test]
fn dependencies_point_down_only() {
    let mut broken = Broken::default();
    for file in sources("src") {
        let Some(folder) = file.folder() else { continue };
        let Some(place) = MAY_USE.iter().position(|(name, _)| *name == folder) else {
            broken.say(&file, 1, format!("`{folder}` has no place in the house; give it one in MAY_USE"));
            continue;
        };
        let may_use = |used: &str| match MAY_USE[place].1 {
            ALL_ABOVE => MAY_USE[..place].iter().any(|(name, _)| *name == used),
            named => named.contains(&used),
        };
        for (number, line) in file.code() {
            for rest in line.split("crate::").skip(1) {
                let used: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if used.is_empty() {
                    broken.say(&file, number, "write one `use crate::folder` for each folder");
                } else if used != folder && !may_use(&used) {
                    let remedy = "move what both need down, or the caller up";
                    broken.say(&file, number, format!("`{folder}` may not use `{used}`; {remedy}"));
                }
            }
        }
    }
    broken.none();
}

#[test]
fn pure_folders_know_no_disk_no_clock_and_no_process() {
    let mut broken = Broken::default();
    for file in sources("src").iter().filter(|file| file.folder().is_some_and(|name| PURE.contains(&name))) {
        for (number, line) in file.code() {
            for word in IMPURE_WORDS.iter().filter(|word| has_word(line, word)) {
                let what =
                    format!("`{word}` in a pure folder; take its value as an argument, from `watcher`");
                broken.say(file, number, what);
            }
        }
    }
    broken.none();
}

#[test]
fn every_file_says_first_what_it_is_for() {
    let mut broken = Broken::default();
    for file in sources("src").iter().chain(&sources("tests")).chain(&sources("benches")) {
        if !file.text.starts_with("//! ") {
            broken.say(file, 1, "open the file with `//!`: what it is for, and what it must not do");
        }
    }
    broken.none();
}

#[test]
fn files_and_functions_stay_short() {
    let mut broken = Broken::default();
    for file in sources("src") {
        let count = file.text.lines().count();
        if count > FILE_LINES_MAX {
            let what = format!("{count} lines, at most {FILE_LINES_MAX}; find the two things in it");
            broken.say(&file, count, what);
        }
        for (number, name, lines) in functions(&file) {
            if lines > FUNCTION_LINES_MAX {
                let what =
                    format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}; name its steps");
                broken.say(&file, number, what);
            }
        }
    }
    broken.none();
}

#[test]
fn nothing_is_left_unfinished_and_every_file_has_a_telling_name() {
    let mut broken = Broken::default();
    for file in sources("src").iter().chain(&sources("tests")).filter(|file| file.path != "tests/tidy.rs") {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if BANNED_FILES.contains(&name) {
            broken.say(file, 1, "this name says nothing; call the file after what it holds");
        }
        for (number, line) in file.text.lines().enumerate() {
            for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
                broken.say(file, number + 1, format!("`{word}`: finish it, or file it outside the code"));
            }
        }
    }
    broken.none();
}

/// Pure folders have no paths to build; the names in them are words of titles and messages.
#[test]
fn names_of_the_bus_and_of_workspaces_are_spelled_in_one_file_each() {
    let mut broken = Broken::default();
    let edges = sources("src").into_iter().filter(|file| {
        !LAYOUT.contains(&file.path.as_str()) && file.folder().is_some_and(|folder| !PURE.contains(&folder))
    });
    for file in edges {
        for (number, line) in file.code() {
            // A text with a blank in it is for people.
            for text in literals(line).filter(|text| !text.contains(' ')) {
                if let Some(name) = BUS_NAMES.iter().find(|name| text.contains(**name)) {
                    let layout = LAYOUT.join(" or ");
                    let what = format!("`{name}` is a name of the bus; ask {layout} for the path");
                    broken.say(&file, number, what);
                }
            }
        }
    }
    broken.none();
}

#[test]
fn exceptions_from_lints_are_made_only_where_they_are_listed() {
    let mut broken = Broken::default();
    for file in sources("src") {
        for (number, line) in file.code() {
            if line.contains("allow(clippy") || line.contains("allow(unsafe") {
                broken.say(&file, number, "use `expect` with a reason: it tells when it is no longer needed");
            }
        }
        let packed: String = file.text.split_whitespace().collect();
        for (lint, files) in MAY_EXPECT {
            let is_excepted = packed.contains(&format!("[expect({lint}"));
            if is_excepted && !files.contains(&file.path.as_str()) {
                let remedy = "go through `bus`, or add the file to MAY_EXPECT";
                broken.say(&file, 1, format!("an exception from `{lint}`; {remedy}"));
            }
        }
    }
    broken.none();
}

#[test]
fn every_case_in_testdata_has_its_expectation_and_every_expectation_its_case() {
    let mut broken = Broken::default();
    let files: BTreeSet<PathBuf> = walk("testdata").into_iter().collect();
    let is_expected = |path: &Path| path.extension().is_some_and(|ending| ending == "expected");
    let folders: BTreeSet<&Path> =
        files.iter().filter(|path| is_expected(path)).filter_map(|path| path.parent()).collect();
    for path in files.iter().filter(|path| path.parent().is_some_and(|folder| folders.contains(folder))) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(case) = name.strip_suffix(".expected") {
            let is_there = |ending: &str| files.contains(&path.with_file_name(format!("{case}{ending}")));
            if !["", ".json", ".md"].iter().any(|ending| is_there(ending)) {
                broken.add(path, "its case is gone; remove it, or bring the case back");
            }
        } else {
            let beside = path.with_file_name(format!("{name}.expected"));
            if !files.contains(&beside) && !files.contains(&path.with_extension("expected")) {
                broken.add(path, "no expectation; run the test with WK_BLESS=1, and read what it wrote");
            }
        }
    }
    broken.none();
}

#[test]
fn no_file_names_a_directory_of_one_machine() {
    let mut broken = Broken::default();
    let homes = ["work", "root", "home", "Users"].map(|name| format!("/{name}/"));
    for path in walk(".") {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            let is_absolute = |home: &String| {
                line.match_indices(home.as_str()).any(|(at, _)| {
                    line[..at]
                        .chars()
                        .next_back()
                        .is_none_or(|c| !c.is_alphanumeric() && !"._-/}~".contains(c))
                })
            };
            if homes.iter().any(is_absolute) {
                let what = "a path of one machine; write it relative, or from the environment";
                broken.add(&path, &format!("line {}: {what}", number + 1));
            }
        }
    }
    broken.none();
}

#[test]
fn every_decision_is_listed() {
    let mut broken = Broken::default();
    let list = root().join("spec/decisions/README.md");
    let Ok(list) = fs::read_to_string(list) else { return };
    for path in walk("spec/decisions") {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name != "README.md" && name.ends_with(".md") && !list.contains(name) {
            broken.add(&path, "add it to spec/decisions/README.md");
        }
    }
    broken.none();
}

#[test]
fn the_readme_says_how_to_build_and_how_to_test() {
    let Ok(readme) = fs::read_to_string(root().join("README.md")) else { return };
    let builds = ["cargo build", "cargo install"].iter().any(|command| readme.contains(command));
    assert!(
        builds,
        "README.md: say how to build it, with `cargo build --release` or `cargo install --path .`"
    );
    assert!(readme.contains("scripts/test"), "README.md: say that `scripts/test` runs every check");
}

/// One source file, by its path from the root.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The folder below `src`; `None` for lib.rs and main.rs.
    fn folder(&self) -> Option<&str> {
        let (folder, _) = self.path.strip_prefix("src/")?.split_once('/')?;
        Some(folder)
    }

    /// Lines with their numbers, without comments and without the tests at the end.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let code = lines.take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
        code.map(|(number, line)| (number, without_comment(line)))
    }
}

/// Every Rust file below a folder but those that only tests compile.
fn sources(below: &str) -> Vec<Source> {
    let all: Vec<Source> = walk(below)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| Source {
            text: fs::read_to_string(root().join(&path)).unwrap(),
            path: path.to_str().unwrap().to_owned(),
        })
        .collect();
    let for_tests: BTreeSet<String> = all.iter().flat_map(modules_for_tests).collect();
    all.into_iter().filter(|file| !for_tests.contains(&file.path)).collect()
}

/// The files behind `#[cfg(test)] mod name;`.
fn modules_for_tests(file: &Source) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let lines: Vec<&str> = file.text.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(test)]"));
    let names = pairs.filter_map(|pair| pair[1].strip_suffix(';')?.rsplit_once("mod "));
    names.map(|(_, name)| format!("{folder}/{name}.rs")).collect()
}

/// Name and length of each function, by rustfmt's promise that it ends at its own indent.
fn functions(file: &Source) -> Vec<(usize, String, usize)> {
    let lines: Vec<(usize, &str)> = file.code().collect();
    let mut found = Vec::new();
    for (index, (number, line)) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indent = &line[..line.len() - body.len()];
        let Some((before, after)) = body.split_once("fn ") else { continue };
        let is_head = before
            .split_whitespace()
            .all(|word| word.starts_with("pub") || ["const", "unsafe"].contains(&word));
        if !is_head || body.ends_with(';') {
            continue;
        }
        let end = format!("{indent}}}");
        let length = lines[index..].iter().position(|(_, line)| *line == end).map_or(1, |at| at + 1);
        let name = after.split(['(', '<']).next().unwrap_or_default();
        found.push((*number, name.to_owned(), length));
    }
    found
}

fn without_comment(line: &str) -> &str {
    let at = line
        .match_indices("//")
        .map(|(at, _)| at)
        .find(|at| line[..*at].matches('"').count().is_multiple_of(2));
    &line[..at.unwrap_or(line.len())]
}

/// The texts between quotes.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_part(before) && (word.ends_with('!') || !is_part(after))
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder, in order, without what is made and what is hidden.
fn walk(below: &str) -> Vec<PathBuf> {
    let is_ours = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_str().unwrap_or_default();
        let is_hidden =
            name.starts_with('.') && entry.depth() > 0 && ![".ci", ".clippy.toml"].contains(&name);
        !is_hidden && !["target", "__pycache__", "node_modules"].contains(&name)
    };
    let start = root().join(below);
    let entries = walkdir::WalkDir::new(start).sort_by_file_name().into_iter().filter_entry(is_ours);
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let path = entry.into_path();
            path.strip_prefix(root()).map_or(path.clone(), Path::to_owned)
        })
        .map(|path| path.strip_prefix(".").map_or(path.clone(), Path::to_owned))
        .collect()
}

/// The places where a rule is broken, told all at once.
#[derive(Default)]
struct Broken {
    text: String,
    count: usize,
}

impl Broken {
    fn say(&mut self, file: &Source, line: usize, what: impl AsRef<str>) {
        let _ = writeln!(self.text, "{}:{line}: {}", file.path, what.as_ref());
        self.count += 1;
    }

    fn add(&mut self, path: &Path, what: &str) {
        let _ = writeln!(self.text, "{}: {what}", path.display());
        self.count += 1;
    }

    #[track_caller]
    fn none(self) {
        assert!(self.count == 0, "{} places break a rule of the house:\n{}", self.count, self.text);
    }
}
