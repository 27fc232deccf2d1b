//! Honest work besides files: reviewers, research, checks that check, reports, CLIs, outsiders and handed-over work.

use crate::told::{ASSIGNMENTS, CLAIMED, Dialect, OBSERVED, OUTSIDER, PLAN, REQUEST, SPEC, Scene, VERIFIED};

const HONEST: Scene = Scene { act: "echo new > a.rs", ends: OBSERVED, ..PLAN };
const CHECKED: Scene = Scene { ends: VERIFIED, ..HONEST };

macro_rules! works {
    ($name:literal, $cli:literal) => {
        Scene {
            name: $name,
            tells: "Changes the declared file, and its stream tells of it to the end.",
            cli: $cli,
            act: "echo new > a.rs; cat $WK_ROOT/transcripts/$WK_AGENT-plain.jsonl",
            ..HONEST
        }
    };
}

pub const SCENES: &[Scene] = &[
    Scene {
        name: "reviewer",
        tells: "A reviewer reads the declared file and changes nothing.",
        fields: r#"{"type": "reviewer"}"#,
        act: "cat a.rs",
        ends: CLAIMED,
        ..HONEST
    },
    Scene {
        name: "may-and-does-not",
        tells: "The phase says `declared_files: may`, and nothing had to be changed.",
        fields: r#"{"declared_files": "may"}"#,
        act: "cat a.rs",
        ends: CLAIMED,
        ..HONEST
    },
    Scene {
        name: "may-and-does",
        tells: "The phase says `declared_files: may`, and the file is changed.",
        fields: r#"{"declared_files": "may"}"#,
        ..HONEST
    },
    Scene {
        name: "research",
        tells: "Finds something out and prints it; no file is asked for.",
        declares: &[],
        act: "echo 'the answer is 42'",
        ends: CLAIMED,
        ..HONEST
    },
    Scene {
        name: "nothing-to-do",
        tells: "Says that nothing had to be changed, and why.",
        act: r#"result success '{}' '"no_change_needed":"the header is there already"'"#,
        ends: CLAIMED,
        ..HONEST
    },
    Scene {
        name: "lists-its-work",
        tells: "Lists the declared file and one more that it made.",
        act: r#"echo new > a.rs; echo new > c.rs; result success '{"files_modified":["@/a.rs"],"files_created":["./@/c.rs"]}'"#,
        ..HONEST
    },
    Scene {
        name: "lists-work-undeclared",
        tells: "No file is asked for; it makes one and lists it.",
        declares: &[],
        act: r#"echo new > c.rs; result success '{"files_created":["@/c.rs"]}'"#,
        ends: CLAIMED,
        ..HONEST
    },
    Scene {
        name: "gate-holds",
        tells: "Its check looks at the work and holds.",
        gates: &["`grep -q new @/a.rs`"],
        ..CHECKED
    },
    Scene {
        name: "gates-hold",
        tells: "Both of its checks hold.",
        gates: &["`grep -q new @/a.rs`", "`test -s @/a.rs`"],
        ..CHECKED
    },
    Scene {
        name: "gate-and-prose",
        tells: "Its check holds; beside it stands a gate in words.",
        gates: &["`grep -q new @/a.rs`", "The text reads well"],
        ..CHECKED
    },
    Scene {
        name: "gate-of-tests",
        tells: "Its check is a test runner that executes three tests in one of two crates.",
        before: "echo old > a.rs; cat > check.sh <<'END'\necho 'test result: ok. 0 passed; 0 failed; 0 ignored'\n\
                 echo 'test result: ok. 3 passed; 0 failed; 0 ignored'; grep -q new @/a.rs\nEND",
        gates: &["`sh @/check.sh`"],
        ..CHECKED
    },
    Scene {
        name: "prose-alone",
        tells: "Its gate is a sentence, which nobody can run.",
        gates: &["All endpoints answer in time"],
        ..HONEST
    },
    Scene {
        name: "gate-left-alone",
        tells: "Its gate is a command, which is run where `verified` is demanded.",
        dialect: Dialect::PlanWithoutGates,
        gates: &["`grep -q new @/a.rs`"],
        ends: ["observed", "observed", "verified"],
        ..HONEST
    },
    Scene {
        name: "commits-its-work",
        tells: "Changes the declared file, commits it and names the commit.",
        act: r#"echo new > a.rs
git add a.rs && git -c user.name=a -c user.email=a commit -q -m work -- a.rs
result success '{"commits":["'$(git rev-parse HEAD)'"]}'"#,
        ..HONEST
    },
    works!("claude-works", "claude"),
    works!("codex-works", "codex"),
    works!("opencode-works", "opencode"),
    works!("gemini-works", "gemini"),
    Scene {
        name: "outsider-works",
        tells: "Changes the declared file and writes the shortest result.",
        act: "echo new > a.rs; result success '{}'",
        ends: OBSERVED,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-lists",
        tells: "Creates a file in a declared directory and lists it.",
        declares: &["@/src/"],
        act: r#"mkdir src; echo new > src/x.rs; result success '{"files_created":["@/src/x.rs"]}'"#,
        ends: OBSERVED,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-deletes",
        tells: "Deletes the declared file and says so.",
        act: r#"rm a.rs; result success '{"files_deleted":["@/a.rs"]}'"#,
        ends: OBSERVED,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-retries",
        tells: "Does its work at the first attempt, which it reports as failed; the second finds it done.",
        fields: r#"{"max_retries": 1}"#,
        act: "test $WK_ATTEMPT = 2 || { echo new > a.rs; result failed '{}'; exit; }; result success '{}'",
        ends: OBSERVED,
        attempts: 2,
        ..OUTSIDER
    },
    Scene {
        name: "spec-creates",
        tells: "Creates the file of its spec.",
        declares: &["@/new.rs"],
        act: "echo new > new.rs",
        ends: OBSERVED,
        ..SPEC
    },
    Scene {
        name: "spec-deletes",
        tells: "Deletes what its spec wants deleted.",
        fields: r#"{"files_deleted": ["@/a.rs"]}"#,
        act: "rm a.rs",
        ends: OBSERVED,
        ..SPEC
    },
    Scene {
        name: "spec-reviews",
        tells: "A reviewer by its spec changes nothing.",
        fields: r#"{"type": "reviewer"}"#,
        act: "cat a.rs",
        ends: CLAIMED,
        ..SPEC
    },
    Scene {
        name: "output",
        tells: "Makes its output.",
        act: "echo new > $WK_OUTPUT_NOTE",
        ends: OBSERVED,
        ..REQUEST
    },
    Scene {
        name: "output-directories",
        tells: "Makes a directory of code, one of tests and a file, as a generator does.",
        declares: &["code=code", "tests=tests", "summary=summary.json"],
        fields: r#"{"success_criteria": {"tests_pass": true, "coverage": 80}}"#,
        act: r#"mkdir code tests; echo 'x = 1' > code/x.py; : > code/__init__.py; echo 'assert 1' > tests/test_x.py
echo '{}' > summary.json
result success '{}' '"metrics":{"lines_of_code":1},"success_criteria_met":{"coverage":85}'"#,
        ends: OBSERVED,
        ..REQUEST
    },
    Scene {
        name: "output-overwritten",
        tells: "Writes something new over the output of an earlier batch.",
        before: "echo old > note.md",
        act: "echo new > note.md",
        ends: OBSERVED,
        ..REQUEST
    },
    Scene {
        name: "output-package",
        tells: "Its output directory has nothing in it but an empty `__init__.py`.",
        declares: &["code=pkg"],
        act: "mkdir pkg; : > pkg/__init__.py",
        ends: OBSERVED,
        ..REQUEST
    },
    Scene {
        name: "output-checked",
        tells: "Makes its output, and the command of its criterion says that it is good.",
        fields: r#"{"success_criteria": {"tests_pass": {"cmd": ["grep", "-q", "new", "outputs/output-checked/note.md"]}}}"#,
        act: "echo new > note.md",
        ends: VERIFIED,
        ..REQUEST
    },
    Scene {
        name: "artifact",
        tells: "Makes the required artifact; nothing checks the whole.",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        act: "echo new > a.txt",
        ends: OBSERVED,
        ..ASSIGNMENTS
    },
    Scene {
        name: "artifact-checked",
        tells: "Makes the required artifact, and the command that checks the whole holds.",
        fields: r#"{"required_artifacts": ["*.txt", "dist/**"]}"#,
        gates: &["grep -q new a.txt"],
        act: "echo new > a.txt; mkdir dist; echo x > dist/x.whl",
        ends: VERIFIED,
        ..ASSIGNMENTS
    },
];
