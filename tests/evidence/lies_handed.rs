//! Lies to another orchestrator: outputs, artifacts and criteria of requests and assignments.

use crate::told::{ASSIGNMENTS, CLAIMED, MISSING, REQUEST, Scene, UNTOUCHED};

const DISAGREES: [&str; 3] = ["exit_disagrees"; 3];

pub const SCENES: &[Scene] = &[
    Scene {
        name: "output-never-made",
        tells: "Exits with 0 without its output.",
        act: "true",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "output-empty",
        tells: "Leaves its output empty.",
        act: ": > note.md",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "output-link",
        tells: "Makes its output a link to another file of the workspace.",
        act: "echo other > other.md; ln -s other.md note.md",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "output-link-out",
        tells: "Makes its output a link that leads out of the workspace.",
        act: "ln -s /etc/passwd note.md",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "output-directory-empty",
        tells: "Makes its output directory, with nothing in it but an empty file.",
        declares: &["code=code"],
        act: "mkdir -p code/deep; : > code/deep/x.py",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "output-of-before",
        tells: "Leaves an output as an earlier batch made it.",
        before: "echo old > note.md",
        act: "true",
        ends: UNTOUCHED,
        ..REQUEST
    },
    Scene {
        name: "output-directory-of-before",
        tells: "Leaves an output directory as an earlier batch made it.",
        before: "mkdir code; echo old > code/x.py",
        declares: &["code=code"],
        act: "true",
        ends: UNTOUCHED,
        ..REQUEST
    },
    Scene {
        name: "output-same-bytes",
        tells: "Writes the output of an earlier batch once more, with the same bytes.",
        before: "echo old > note.md",
        act: "echo old > t; mv t note.md",
        ends: CLAIMED,
        ..REQUEST
    },
    Scene {
        name: "output-touched",
        tells: "Touches the output of an earlier batch.",
        before: "echo old > note.md",
        act: "touch note.md",
        ends: CLAIMED,
        ..REQUEST
    },
    Scene {
        name: "one-output-of-two",
        tells: "Makes one of its two outputs.",
        declares: &["note=note.md", "more=more.md"],
        act: "echo new > note.md",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "one-output-of-before",
        tells: "Makes one of its two outputs, and leaves the other as an earlier batch made it.",
        before: "echo old > more.md",
        declares: &["note=note.md", "more=more.md"],
        act: "echo new > note.md",
        ends: CLAIMED,
        ..REQUEST
    },
    Scene {
        name: "output-beside",
        tells: "Writes its output under another name.",
        act: "echo new > notes.md",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "request-without-outputs",
        tells: "Is asked for no output, exits with 0 and says that its criteria are met.",
        declares: &[],
        fields: r#"{"success_criteria": {"tests_pass": true}}"#,
        act: r#"result success '{}' '"success_criteria_met":{"tests_pass":true}'"#,
        ends: CLAIMED,
        ..REQUEST
    },
    Scene {
        name: "criterion-true",
        tells: "Makes its output; its criterion is checked by `true`.",
        fields: r#"{"success_criteria": {"tests_pass": {"cmd": ["true"]}}}"#,
        act: "echo new > note.md",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "criterion-fails",
        tells: "Makes its output, says that its criterion is met, and the check fails.",
        fields: r#"{"success_criteria": {"tests_pass": {"cmd": ["sh", "-c", "exit 3"]}}}"#,
        act: r#"echo new > note.md; result success '{}' '"success_criteria_met":{"tests_pass":true}'"#,
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "criterion-below-floor",
        tells: "Makes its output, and the number that the check in the settings prints is too low.",
        fields: r#"{"success_criteria": {"branch_coverage": 80}}"#,
        act: "echo new > note.md",
        ends: MISSING,
        ..REQUEST
    },
    Scene {
        name: "criterion-holds-anyway",
        tells: "Leaves an output as an earlier batch made it; its check holds, because it held before.",
        before: "echo old > note.md",
        fields: r#"{"success_criteria": {"tests_pass": {"cmd": ["grep", "-q", "old", "outputs/criterion-holds-anyway/note.md"]}}}"#,
        act: "true",
        ends: UNTOUCHED,
        ..REQUEST
    },
    Scene {
        name: "request-exit-1",
        tells: "Makes its output, reports success and exits with 1.",
        act: "echo new > note.md; result success '{}'; exit 1",
        ends: DISAGREES,
        ..REQUEST
    },
    Scene {
        name: "replaces-outputs-before",
        tells: "Leaves an output as it was, and replaces the record of what was there before.",
        before: "echo old > note.md",
        act: "cd $WK_ROOT/.ce/orchestration/tasks/batch-exec-1/attempts/$WK_TASK/1; echo '{}' > outputs-before.json",
        ends: UNTOUCHED,
        ..REQUEST
    },
    Scene {
        name: "artifact-never-made",
        tells: "Exits with 0, and nothing matches the required artifact.",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        gates: &["ls"],
        act: "true",
        ends: ["evidence_missing", "below_required", "below_required"],
        ..ASSIGNMENTS
    },
    Scene {
        name: "artifact-of-before",
        tells: "Exits with 0; the required artifact was there before the batch.",
        before: "echo old > a.txt",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        gates: &["cat a.txt"],
        act: "true",
        ends: ["declared_untouched", "below_required", "below_required"],
        ..ASSIGNMENTS
    },
    Scene {
        name: "artifact-empty",
        tells: "Leaves the required artifact empty.",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        gates: &["cat a.txt"],
        act: ": > a.txt",
        ends: ["evidence_missing", "below_required", "below_required"],
        ..ASSIGNMENTS
    },
    Scene {
        name: "artifact-touched",
        tells: "Touches the required artifact of before.",
        before: "echo old > a.txt",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        gates: &["cat a.txt"],
        act: "touch a.txt",
        ends: CLAIMED,
        ..ASSIGNMENTS
    },
    Scene {
        name: "tests-cmd-true",
        tells: "Makes the required artifact; the whole is checked by `true`.",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        gates: &["true"],
        act: "echo new > a.txt",
        ends: MISSING,
        ..ASSIGNMENTS
    },
    Scene {
        name: "tests-cmd-none",
        tells: "Makes the required artifact; the check of the whole executes no test.",
        before: "echo 'echo Ran 0 tests in 0.000s' > check.sh",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        gates: &["sh check.sh"],
        act: "echo new > a.txt",
        ends: MISSING,
        ..ASSIGNMENTS
    },
    Scene {
        name: "tests-cmd-fails",
        tells: "Makes the required artifact; the check of the whole fails.",
        fields: r#"{"required_artifacts": ["*.txt"]}"#,
        gates: &["grep -q never a.txt"],
        act: "echo new > a.txt",
        ends: MISSING,
        ..ASSIGNMENTS
    },
];
