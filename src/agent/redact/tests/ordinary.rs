//! What must stay: ordinary words, hashes, build logs.

use super::{redact, stays};

/// Output of cargo, npm, pip, git, gcc and pytest, as it came.
const BUILD_LOG: &str = include_str!("../../../../testdata/redaction/build.log");

/// Lines that look a little like secrets.
const NEAR_MISSES: &str = include_str!("../../../../testdata/redaction/near-misses.txt");

#[test]
fn near_misses_stay_alone_and_together() {
    for line in NEAR_MISSES.lines() {
        stays(line);
        stays(&format!("{line}\n"));
    }
    assert_eq!(redact(NEAR_MISSES, &[]), NEAR_MISSES);
}

#[test]
fn ten_thousand_lines_of_build_logs_have_at_most_one_false_alarm() {
    let lines = BUILD_LOG.lines().count();
    assert!(lines >= 10_000, "{lines} lines");
    let redacted = redact(BUILD_LOG, &[]);
    let changed: Vec<_> =
        BUILD_LOG.lines().zip(redacted.lines()).filter(|(before, after)| before != after).collect();
    assert!(changed.len() <= lines / 10_000, "{changed:#?}");
}
