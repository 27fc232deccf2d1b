//! Test runners that executed no test: by what they print, which is all that is known of them.
//!
//! Texts in, a sentence out. What follows from it is `criteria`'s matter.

use regex_lite::Regex;

/// How test runners say how many tests they executed: the number, or what is left over from it.
const COUNTS: &[&str] = &[
    // cargo test, and Deno's and Bun's.
    r"(?m)^test result: \w+\. (\d+) passed; (\d+) failed",
    r"(?m)^ok \| (\d+) passed.* \| (\d+) failed",
    r"(?m)^ *(\d+) pass\n *(\d+) fail",
    // cargo nextest.
    r"(?m)^\s*Summary \[[^\]]*\] +(\d+) tests? run",
    // pytest, its last line.
    r"(?m)^=+ .*?(?:(\d+) failed.*?)?(?:(\d+) passed.*)? in [\d.]+s.*=+$",
    r"(?m)^(?:=+ )?(\d+) (?:skipped|deselected|warnings?)[^=]* in [\d.]+s.*$",
    // jest and vitest.
    r"(?m)^Tests: .*?(?:(\d+) failed, )?(?:(\d+) passed, )?\d+ total",
    r"(?m)^ *Tests +(?:(\d+) failed \| )?(\d+) passed",
    r"(?m)^ *Tests +(\d+) (?:skipped|todo)[^|]*$",
    // mocha, RSpec, node --test, Maven, .NET, PHPUnit, CTest.
    r"(?m)^ *(\d+) passing\b",
    r"(?m)^(\d+) examples?, \d+ failures?",
    r"(?m)^(?:#|ℹ) tests (\d+)$",
    r"(?m)^(?:\[[A-Z]+\] )?Tests run: (\d+), Failures: \d+, Errors: \d+, Skipped: \d+ *$",
    r"(?m)^ *Total tests: (\d+)",
    r"(?m)^OK \((\d+) tests?",
    r"(?m)^\d+% tests passed, \d+ tests failed out of (\d+)",
    // minitest, ExUnit and Bats, XCTest, Karma, GoogleTest.
    r"(?m)^(\d+) runs?, \d+ assertions?, ",
    r"(?m)^(?:\d+ doctests?, )?(\d+) tests?, \d+ failures?",
    r"Executed (\d+) tests?, with \d+ failures?",
    r"Executed (\d+) of \d+",
    r"(?m)^\[  PASSED  \] (\d+) tests?",
];
/// How they say that there was none.
const NONE: &[&str] = &[
    r"(?m)^collected 0 items",
    r"(?m)^=+ no tests ran",
    r"(?m)^no tests ran in ",
    r"(?m)^NO TESTS RAN",
    r"(?m)^\?? +.*\[no test files\]$",
    r"(?m)^No tests found",
    r"(?m)^No test files found",
    r"(?m)^No tests executed!",
    r"(?m)^No tests were found!!!",
    r"No test is available in",
    // A target that is a directory, or has no commands: nothing was run.
    r"(?m)^make(?:\[\d+\])?: (?:Nothing to be done for )?[`'](?:test|tests|check)'(?: is up to date)?\.",
    r"(?m)^testing: warning: no tests to run",
    r"(?m)^1\.\.0\b",
    r"(?m)^> Task .*:test NO-SOURCE",
    r"(?m)^Result: NOTESTS",
    r"(?m)^(?:\[[A-Z]+\] )?No tests to run\.",
    r"(?m)^ok\s.*\[no tests to run\]$",
];
/// What some count among the tests, and did not execute: Maven, node --test.
const SKIPPED: &[&str] = &[
    r"(?m)^(?:\[[A-Z]+\] )?Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: (\d+) *$",
    r"(?m)^(?:#|ℹ) skipped (\d+)$",
];
/// go test, for each package that had tests to run.
const GO_PACKAGE: &str = r"(?m)^(?:ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\))(?:\s+coverage: .*)?$";
/// Python's unittest.
const UNITTEST: &str = r"(?m)^Ran (\d+) tests? in ";
const UNITTEST_SKIPPED: &str = r"(?m)^OK \([^)]*skipped=(\d+)";
/// The plan of a TAP stream, and what it leaves out.
const TAP_TEST: &str = r"(?m)^(?:not )?ok \d+(?:.*)$";

/// Why what a known test runner printed shows that it executed no test in all, if that is so.
pub fn executed_nothing(output: &str) -> Option<String> {
    let output = without_colours(output);
    let (mut said, mut executed) = (false, 0_u64);
    for pattern in COUNTS {
        for found in matching(pattern).captures_iter(&output) {
            said = true;
            executed += match pattern.contains("(?:skipped|") {
                true => 0,
                false => (1..found.len()).filter_map(|at| found.get(at)?.as_str().parse::<u64>().ok()).sum(),
            };
        }
    }
    let count = |pattern: &str| matching(pattern).captures_iter(&output).filter_map(number).sum::<u64>();
    executed = executed.saturating_sub(SKIPPED.iter().map(|pattern| count(pattern)).sum());
    if matching(UNITTEST).is_match(&output) {
        said = true;
        executed += count(UNITTEST).saturating_sub(count(UNITTEST_SKIPPED));
    }
    said |= NONE.iter().any(|pattern| matching(pattern).is_match(&output));
    executed += matching(GO_PACKAGE).find_iter(&output).count() as u64;
    let is_executed = |line: regex_lite::Match<'_>| !line.as_str().to_lowercase().contains("# skip");
    executed += matching(TAP_TEST).find_iter(&output).filter(|line| is_executed(*line)).count() as u64;
    (said && executed == 0).then(|| "no test was executed".to_owned())
}

fn number(found: regex_lite::Captures<'_>) -> Option<u64> {
    found.get(1)?.as_str().parse().ok()
}

fn matching(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of ours")
}

/// Runners colour what they say even into files.
fn without_colours(output: &str) -> String {
    matching("\u{1b}\\[[0-9;]*[A-Za-z]").replace_all(output, "").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_executed_no_test_in_all_checked_nothing() {
        for (runner, none, some) in [
            (
                "cargo",
                "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 3 ignored; 0 measured",
                "running 0 tests\ntest result: ok. 0 passed; 0 failed; 0 ignored\n\nrunning 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored",
            ),
            (
                "pytest",
                "collected 0 items\n\n===== no tests ran in 0.01s =====",
                "===== 3 passed, 1 skipped in 0.12s =====",
            ),
            (
                "pytest, all skipped",
                "===== 3 skipped in 0.02s =====",
                "===== 1 failed, 2 skipped in 0.02s =====",
            ),
            ("unittest", "Ran 0 tests in 0.000s\n\nOK", "Ran 2 tests in 0.001s\n\nOK (skipped=1)"),
            (
                "unittest, all skipped",
                "Ran 2 tests in 0.001s\n\nOK (skipped=2)",
                "Ran 2 tests in 0.001s\n\nOK",
            ),
            (
                "go",
                "?   \texample.com/a\t[no test files]",
                "?   \texample.com/a\t[no test files]\nok  \texample.com/b\t0.003s",
            ),
            (
                "go, none to run",
                "testing: warning: no tests to run\nPASS\nok  \ta\t0.002s [no tests to run]",
                "ok  \ta\t(cached)",
            ),
            ("go, alone", "ok  \ta\t0.002s [no tests to run]", "ok  \ta\t0.002s"),
            ("prove", "Files=0, Tests=0\nResult: NOTESTS", "ok 1 - adds\nResult: PASS"),
            ("node, all skipped", "# tests 1\n# pass 0\n# skipped 1", "# tests 2\n# pass 1\n# skipped 1"),
            (
                "Maven, all skipped",
                "[WARNING] Tests run: 3, Failures: 0, Errors: 0, Skipped: 3",
                "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 2",
            ),
            ("Maven, none", "[INFO] No tests to run.", "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0"),
            ("jest", "No tests found, exiting with code 0", "Tests:       1 failed, 2 passed, 3 total"),
            (
                "jest, all skipped",
                "Tests:       3 skipped, 3 total",
                "Tests:       1 skipped, 2 passed, 3 total",
            ),
            ("vitest", "No test files found, exiting with code 0", "      Tests  2 passed (2)"),
            ("mocha", "\u{1b}[92m \u{1b}[0m\u{1b}[32m 0 passing\u{1b}[0m (1ms)", "  4 passing (6ms)"),
            ("node", "ℹ tests 0\nℹ suites 0", "# tests 2\n# pass 2"),
            ("rspec", "0 examples, 0 failures", "1 example, 0 failures"),
            ("ctest", "No tests were found!!!", "100% tests passed, 0 tests failed out of 4"),
            ("pytest -q, all skipped", "s\n2 skipped in 0.01s", "2 passed, 1 skipped in 0.01s"),
            ("vitest, all skipped", "      Tests  3 skipped (3)", "      Tests  1 passed | 3 skipped (4)"),
            ("make", "make: 'test' is up to date.", "make: 'test' is up to date.\n1 example, 0 failures"),
            ("make, nothing", "make: Nothing to be done for 'test'.", "make: Nothing to be done for 'all'."),
            ("minitest", "0 runs, 0 assertions, 0 failures", "2 runs, 3 assertions, 0 failures"),
            ("ExUnit", "0 tests, 0 failures", "1 doctest, 2 tests, 0 failures"),
            ("XCTest", "Executed 0 tests, with 0 failures", "Executed 2 tests, with 0 failures"),
            ("GoogleTest", "[  PASSED  ] 0 tests.", "[  PASSED  ] 2 tests."),
            ("TAP", "1..0", "1..1\nok 1 - adds"),
            ("TAP, all skipped", "1..0 # SKIP nothing here\nok 1 # SKIP no", "1..1\nnot ok 1"),
        ] {
            assert!(executed_nothing(none).is_some(), "{runner}: {none:?}");
            assert!(executed_nothing(some).is_none(), "{runner}: {some:?}");
        }
        assert!(executed_nothing("All checks passed!").is_none(), "no runner that is known");
    }
}
