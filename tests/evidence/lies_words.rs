//! Lies in what an agent says: results, exit codes, the streams of coding CLIs, outsiders and dropped specs.

use crate::told::{CLAIMED, MISSING, OUTSIDER, PLAN, REPORTED, SPEC, Scene, UNTOUCHED};

const DISAGREES: [&str; 3] = ["exit_disagrees"; 3];
const REFUSED: [&str; 3] = ["result_refused"; 3];

/// What a CLI's stand-in prints: nonsense, and no event of its dialect.
const NONSENSE: &str = "echo 'Sure! I have updated a.rs.'; echo '{\"type\":\"nonsense\"}'; echo '{{{'";
/// Its recorded story without the last event.
const CUT_OFF: &str = "sed '$d' $WK_ROOT/transcripts/$WK_AGENT-plain.jsonl";
/// Its recorded story that ends in an error, after real work.
const ERROR: &str = "echo new > a.rs; cat $WK_ROOT/transcripts/$WK_AGENT-refusal.jsonl";

macro_rules! cli {
    ($cli:literal, $what:literal, $tells:literal, $act:expr, $ends:expr) => {
        Scene { name: concat!($cli, "-", $what), tells: $tells, cli: $cli, act: $act, ends: $ends, ..PLAN }
    };
}
macro_rules! nonsense {
    ($cli:literal) => {
        cli!(
            $cli,
            "nonsense",
            "Prints what is no event of its dialect, exits with 0 and does nothing.",
            NONSENSE,
            UNTOUCHED
        )
    };
}
macro_rules! silent {
    ($cli:literal) => {
        cli!($cli, "silent", "Prints nothing, exits with 0 and does nothing.", "true", UNTOUCHED)
    };
}
macro_rules! cut_off {
    ($cli:literal) => {
        cli!(
            $cli,
            "cut-off",
            "Its stream ends without a result; it exits with 0 and does nothing.",
            CUT_OFF,
            UNTOUCHED
        )
    };
}
macro_rules! error {
    ($cli:literal) => {
        cli!(
            $cli,
            "error",
            "Changes the file, then its stream ends in an error, and it exits with 0.",
            ERROR,
            REPORTED
        )
    };
}

pub const SCENES: &[Scene] = &[
    Scene {
        name: "lists-absent",
        tells: "Changes the declared file, and lists another that does not exist.",
        act: r#"echo new > a.rs; result success '{"files_created":["@/ghost.rs"]}'"#,
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "lists-unchanged",
        tells: "Changes the declared file, and lists another that it did not change.",
        act: r#"echo new > a.rs; result success '{"files_modified":["@/b.rs"]}'"#,
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "lists-declared-unchanged",
        tells: "Lists the declared file as changed, which it is not.",
        act: r#"result success '{"files_modified":["@/a.rs"]}'"#,
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "lists-touched",
        tells: "Touches the declared file and lists it as changed.",
        act: r#"touch a.rs; result success '{"files_modified":["@/a.rs"]}'"#,
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "lists-outside",
        tells: "Lists a file outside of the tree.",
        act: r#"echo new > a.rs; result success '{"files_created":["/etc/passwd"]}'"#,
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "lists-another-unchanged-match",
        tells: "Declares a directory, changes one file of it and lists another one.",
        declares: &["@/"],
        act: r#"echo new > a.rs; result success '{"files_modified":["@/b.rs"]}'"#,
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "claims-deletion",
        tells: "Says that it deleted the declared file, which is still there.",
        act: r#"result success '{"files_deleted":["@/a.rs"]}'"#,
        ..PLAN
    },
    Scene {
        name: "claims-deletion-of-nothing",
        tells: "Says that it deleted the declared file, which never existed.",
        declares: &["@/never.rs"],
        act: r#"result success '{"files_deleted":["@/never.rs"]}'"#,
        ..PLAN
    },
    Scene {
        name: "plan-deletes-and-nobody-does",
        tells: "The plan wants the file deleted; the agent rewrites it and exits with 0.",
        fields: r#"{"files_deleted": ["@/a.rs"]}"#,
        act: "echo new > a.rs",
        ..PLAN
    },
    Scene {
        name: "commit-that-is-not-there",
        tells: "Changes the declared file, and names a commit that does not exist.",
        act: r#"echo new > a.rs; result success '{"commits":["0123456789abcdef0123456789abcdef01234567"]}'"#,
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "success-with-exit-1",
        tells: "Changes the file, reports success and exits with 1.",
        act: "echo new > a.rs; result success '{}'; exit 1",
        ends: DISAGREES,
        ..PLAN
    },
    Scene {
        name: "success-then-killed",
        tells: "Changes the file, reports success and dies of a signal.",
        act: "echo new > a.rs; result success '{}'; kill -9 $$",
        ends: DISAGREES,
        ..PLAN
    },
    Scene {
        name: "declares-nothing",
        tells: "Is asked for no file, exits with 0 and says that all is done.",
        declares: &[],
        act: "echo done",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "no-change-needed",
        tells: "Changes nothing and says that nothing had to be changed.",
        act: r#"result success '{}' '"no_change_needed":"it was so already"'"#,
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "no-change-without-reason",
        tells: "Changes nothing and says that nothing had to be changed, but not why.",
        act: r#"result success '{}' '"no_change_needed":""'"#,
        ends: REFUSED,
        ..PLAN
    },
    Scene {
        name: "speaks-for-another",
        tells: "Writes a result with the name of another task.",
        act: r#"echo '{"task_id":"touches","status":"success","output":{}}' > $WK_RESULT"#,
        ends: REFUSED,
        ..PLAN
    },
    Scene {
        name: "result-is-prose",
        tells: "Writes a sentence instead of a result.",
        act: "echo 'I am done.' > $WK_RESULT",
        ends: REFUSED,
        ..PLAN
    },
    nonsense!("claude"),
    nonsense!("codex"),
    nonsense!("opencode"),
    nonsense!("gemini"),
    silent!("claude"),
    silent!("codex"),
    silent!("opencode"),
    silent!("gemini"),
    cut_off!("claude"),
    cut_off!("codex"),
    cut_off!("opencode"),
    cut_off!("gemini"),
    error!("claude"),
    error!("codex"),
    error!("opencode"),
    error!("gemini"),
    Scene {
        name: "claude-success-without-work",
        tells: "Its stream tells of success to its last event, and the declared file is as it was.",
        cli: "claude",
        act: "cat $WK_ROOT/transcripts/claude-plain.jsonl",
        ..PLAN
    },
    Scene {
        name: "outsider-only-reports",
        tells: "Writes a result of success and does nothing.",
        act: "result success '{}'",
        ..OUTSIDER
    },
    Scene {
        name: "outsider-touches",
        tells: "Touches the declared file and reports success.",
        act: "touch a.rs; result success '{}'",
        ends: CLAIMED,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-lists-absent",
        tells: "Lists a file that does not exist.",
        act: r#"result success '{"files_created":["@/ghost.rs"]}'"#,
        ends: MISSING,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-link-out",
        tells: "Makes the declared file a link that leads out, and reports success.",
        declares: &["@/new.rs"],
        act: "ln -s /etc/passwd new.rs; result success '{}'",
        ends: MISSING,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-needs-no-change",
        tells: "Reports that nothing had to be changed.",
        act: r#"result success '{"no_change_needed":"it was so already"}'"#,
        ends: CLAIMED,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-declares-nothing",
        tells: "Is asked for no file and reports success.",
        declares: &[],
        act: "result success '{}'",
        ends: CLAIMED,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-replaces-the-baseline",
        tells: "Replaces the record of how its files were before, and reports success.",
        act: "echo '{\"version\":1,\"files\":{}}' > $WK_ROOT/.ce/orchestration/tasks/batch-7/attempts/$WK_TASK/baseline.json
result success '{}'",
        ends: MISSING,
        ..OUTSIDER
    },
    Scene {
        name: "outsider-removes-the-baseline",
        tells: "Removes the record of how its files were before, and reports success.",
        act: "rm $WK_ROOT/.ce/orchestration/tasks/batch-7/attempts/$WK_TASK/baseline.json; result success '{}'",
        ends: MISSING,
        ..OUTSIDER
    },
    Scene {
        name: "late-twin",
        tells: "A success of attempt 1 comes while attempt 2 is out, which then fails.",
        fields: r#"{"max_retries": 1}"#,
        act: r#"if test $WK_ATTEMPT = 1; then result failed '{}'; exit; fi
echo new > a.rs
result success '{}' '"attempt":1'
n=0; while test -e $WK_RESULT && test $n -lt 600; do sleep 0.1; n=$((n + 1)); done
result failed '{}' '"attempt":2'"#,
        ends: REPORTED,
        ..OUTSIDER
    },
    Scene {
        name: "spec-does-nothing",
        tells: "Exits with 0 and leaves the file of its spec as it was.",
        act: "true",
        ..SPEC
    },
    Scene {
        name: "spec-touches",
        tells: "Touches the file of its spec.",
        act: "touch a.rs",
        ends: CLAIMED,
        ..SPEC
    },
    Scene {
        name: "spec-deletes-silently",
        tells: "Deletes the file of its spec and does not say so.",
        act: "rm a.rs",
        ..SPEC
    },
    Scene {
        name: "spec-without-files",
        tells: "Its spec names no file; it exits with 0.",
        declares: &[],
        act: "true",
        ends: CLAIMED,
        ..SPEC
    },
];
