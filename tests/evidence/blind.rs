//! Agents that change what was declared, and wrongly: only a check can see it.

use crate::told::{MISSING, OBSERVED, PLAN, REQUEST, Scene};

pub const SCENES: &[Scene] = &[
    Scene {
        name: "rubbish",
        tells: "Writes rubbish into the declared file; there is no check.",
        act: "echo rubbish > a.rs",
        ends: OBSERVED,
        ..PLAN
    },
    Scene {
        name: "rubbish-checked",
        tells: "Writes rubbish into the declared file; there is a check.",
        gates: &["`grep -q 'fn main' @/a.rs`"],
        act: "echo rubbish > a.rs",
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "copy-of-another",
        tells: "Copies another file of the tree over the declared one.",
        act: "cp b.rs a.rs",
        ends: OBSERVED,
        ..PLAN
    },
    Scene {
        name: "one-blank",
        tells: "Adds one blank to the declared file.",
        act: "printf ' ' >> a.rs",
        ends: OBSERVED,
        ..PLAN
    },
    Scene {
        name: "output-of-rubbish",
        tells: "Its output is rubbish, and it says that its criterion is met, which no command checks.",
        fields: r#"{"success_criteria": {"tests_pass": true}}"#,
        act: r#"echo rubbish > note.md; result success '{}' '"success_criteria_met":{"tests_pass":true}'"#,
        ends: OBSERVED,
        ..REQUEST
    },
];
