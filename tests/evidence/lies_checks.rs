//! Checks that check nothing, checks that fail, and checks that hold without any work.

use crate::told::{CLAIMED, Dialect, MISSING, PLAN, Scene};

/// Real work, so that only the check can be at fault.
const CHECKED: Scene = Scene { act: "echo new > a.rs", ends: MISSING, ..PLAN };

macro_rules! vacuous {
    ($name:literal, $gate:literal) => {
        Scene {
            name: $name,
            tells: concat!("Its work is checked by `", $gate, "`, which cannot fail."),
            gates: &[concat!("`", $gate, "`")],
            ..CHECKED
        }
    };
}

/// A runner that prints this, exits with 0 and has executed nothing.
macro_rules! executes_none {
    ($name:literal, $runner:literal, $prints:literal) => {
        Scene {
            name: $name,
            tells: concat!("Its check is a run of ", $runner, " that executes no test and exits with 0."),
            before: concat!(
                "echo old > a.rs; cat > check.sh <<'END'\ncat <<'TOLD'\n",
                $prints,
                "\nTOLD\nEND"
            ),
            gates: &["`sh @/check.sh`"],
            ..CHECKED
        }
    };
}

pub const SCENES: &[Scene] = &[
    vacuous!("gate-true", "true"),
    vacuous!("gate-colon", ":"),
    vacuous!("gate-exit-0", "exit 0"),
    vacuous!("gate-bin-true", "/bin/true"),
    vacuous!("gate-or-true", "make test || true"),
    vacuous!("gate-then-echo", "make test; echo done"),
    vacuous!("gate-echo", "echo all tests pass"),
    vacuous!("gate-log-or-true", "make test > check.log 2>&1 || true"),
    vacuous!("gate-tee", "make test 2>&1 | tee check.log"),
    vacuous!("gate-background", "make test &"),
    vacuous!("gate-subshell", "(make test; true)"),
    vacuous!("gate-braces", "{ make test; } || :"),
    vacuous!("gate-sh-c-true", "sh -c 'make test || true'"),
    vacuous!("gate-variable-or-true", "$PYTHON -m pytest || true"),
    vacuous!("gate-constant", "test 1 = 1"),
    vacuous!("gate-not-false", "! false"),
    executes_none!(
        "gate-cargo-none",
        "cargo test",
        "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"
    ),
    executes_none!(
        "gate-pytest-none",
        "pytest",
        "collected 0 items\n\n============ no tests ran in 0.01s ============"
    ),
    executes_none!("gate-unittest-none", "unittest", "Ran 0 tests in 0.000s\n\nOK"),
    executes_none!("gate-go-none", "go test", "?   \texample.com/a\t[no test files]"),
    executes_none!("gate-jest-none", "jest", "No tests found, exiting with code 0"),
    executes_none!("gate-node-none", "node --test", "# tests 0\n# suites 0\n# pass 0\n# fail 0"),
    executes_none!("gate-mocha-none", "mocha", "\n\n  0 passing (1ms)\n"),
    executes_none!("gate-pytest-skipped", "pytest -q, with every test skipped,", "s\n2 skipped in 0.01s"),
    executes_none!(
        "gate-vitest-skipped",
        "vitest, with every test skipped,",
        " Test Files  1 skipped (1)\n      Tests  3 skipped (3)"
    ),
    executes_none!(
        "gate-make-nothing",
        "make test, where `test` is a directory,",
        "make: 'test' is up to date."
    ),
    executes_none!(
        "gate-gtest-none",
        "GoogleTest",
        "[==========] Running 0 tests from 0 test suites.\n[  PASSED  ] 0 tests."
    ),
    executes_none!("gate-minitest-none", "minitest", "0 runs, 0 assertions, 0 failures, 0 errors, 0 skips"),
    executes_none!("gate-mix-none", "mix test", "0 tests, 0 failures"),
    executes_none!(
        "gate-swift-none",
        "swift test",
        "Executed 0 tests, with 0 failures (0 unexpected) in 0.000 (0.000) seconds"
    ),
    Scene {
        name: "gate-pytest-5",
        tells: "Its check is a run of pytest that finds no test and exits with 5.",
        before: "echo old > a.rs; printf 'echo no tests ran in 0.01s; exit 5' > check.sh",
        gates: &["`sh @/check.sh`"],
        ..CHECKED
    },
    Scene { name: "gate-fails", tells: "Its check fails.", gates: &["`grep -q never @/a.rs`"], ..CHECKED },
    Scene {
        name: "gate-without-program",
        tells: "Its check is a program that is not there.",
        gates: &["`no-such-program-anywhere`"],
        ..CHECKED
    },
    Scene {
        name: "gate-real-and-true",
        tells: "One of its checks is real and holds, the other is `true`.",
        gates: &["`grep -q new @/a.rs`", "`true`"],
        ..CHECKED
    },
    Scene {
        name: "gate-holds-anyway",
        tells: "Does nothing; its check holds, because it held before.",
        gates: &["`grep -q old @/a.rs`"],
        act: "true",
        ..PLAN
    },
    Scene {
        name: "gate-holds-after-touch",
        tells: "Touches the declared file; its check holds, because it held before.",
        gates: &["`grep -q old @/a.rs`"],
        act: "touch a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "gate-without-files",
        tells: "Is asked for no file and does nothing; its check holds.",
        declares: &[],
        gates: &["`grep -q old @/a.rs`"],
        act: "true",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "gate-in-prose",
        tells: "Touches the declared file; its gate is a sentence.",
        gates: &["All endpoints answer in time"],
        act: "touch a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "gate-not-run",
        tells: "Touches the declared file; its gate, which is run where `verified` is demanded, holds.",
        dialect: Dialect::PlanWithoutGates,
        gates: &["`grep -q old @/a.rs`"],
        act: "touch a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "says-that-gates-hold",
        tells: "Touches the declared file and reports that its gate holds, which it does not.",
        dialect: Dialect::PlanWithoutGates,
        gates: &["`grep -q never @/a.rs`"],
        act: r#"touch a.rs; result success '{}' '"success_criteria_met":{"tests_pass":true}'"#,
        ends: ["claimed", "below_required", "evidence_missing"],
        ..PLAN
    },
];
