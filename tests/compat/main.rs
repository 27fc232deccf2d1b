//! What released versions wrote (testdata/compat), opened with today's binary, finished and archived.
//!
//! Asserted is what a user needs: every task's end, every result, the work, the story. Not the bytes of our own papers,
//! which a later version may write otherwise; only that a journal is never rewritten.

mod frozen;
mod handed_over;
mod newer;
mod planned;
#[path = "../scene/mod.rs"]
mod scene;

use std::collections::BTreeSet;

use frozen::{STATES, archives};

#[test]
fn every_frozen_state_is_played_and_no_release_is_without_one() {
    let versions: BTreeSet<String> = archives().into_iter().map(|(version, _)| version).collect();
    assert!(versions.contains("0.1.0"), "the first release is gone: {versions:?}");
    for (version, name) in archives() {
        assert!(STATES.contains(&name.as_str()), "{version}/{name}: no scene plays it; write one");
    }
    for name in STATES {
        let is_there = archives().iter().any(|(version, state)| version == "0.1.0" && state == name);
        assert!(is_there, "0.1.0/{name}: what was frozen is never removed");
    }
}
