//! The reference batch: twelve tasks in four stages with diamonds between them, one for each way in which an
//! agent can make a watcher's life hard.

use serde_json::{Value, json};

/// What the agent of a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Beats, creates a file, says so.
    Creates,
    /// Reports a failure at first, a success at the second try.
    Flaky,
    /// Deletes its spec once it has read it.
    DeletesSpec,
    /// Beats, then says nothing more; the second try succeeds.
    Silent,
    /// Sends garbage, reads why it was refused, sends it right.
    Garbage,
    /// Writes its result in place, in pieces, with the file held open.
    Torn,
    /// Like `Silent`, but the result of the first try comes in the middle of the second.
    Late,
    /// Modifies a file that another task modifies too.
    Edits,
}

pub struct Part {
    pub key: &'static str,
    pub after: &'static [&'static str],
    pub role: Role,
}

const fn part(key: &'static str, after: &'static [&'static str], role: Role) -> Part {
    Part { key, after, role }
}

pub const PARTS: [Part; 12] = [
    part("a1", &[], Role::Creates),
    part("a2", &[], Role::Flaky),
    part("a3", &[], Role::DeletesSpec),
    part("b1", &["a1"], Role::Silent),
    part("b2", &["a1", "a2"], Role::Garbage),
    part("b3", &["a2", "a3"], Role::Torn),
    part("b4", &["a3"], Role::Late),
    part("c1", &["b1", "b2"], Role::Edits),
    part("c2", &["b2", "b3"], Role::Creates),
    part("c3", &["b3", "b4"], Role::Edits),
    part("d1", &["c1", "c2"], Role::Creates),
    part("d2", &["c2", "c3"], Role::DeletesSpec),
];

/// The file that two tasks modify.
pub const SHARED_FILE: &str = "shared.txt";
pub const MAX_RETRIES: u64 = 2;

/// Whoever is silent on purpose is given up soon; everybody else may be slow on a busy machine.
const SHORT_SILENCE_SECONDS: f64 = 0.3;

pub const SETTINGS: [&str; 6] = [
    "heartbeat_timeout_seconds=60",
    "retry_delay_seconds=0.05",
    "settle_seconds=0.2",
    "scan_interval_seconds=0.1",
    "idle_scan_seconds=0.2",
    "max_retries=2",
];

/// The plan as JSON; without an id the bus numbers it.
pub fn plan(batch_id: Option<u64>) -> Vec<u8> {
    let phases: Vec<Value> = PARTS.iter().map(phase).collect();
    let mut plan = json!({ "phases": phases });
    if let Some(id) = batch_id {
        plan["batch_id"] = json!(id);
    }
    serde_json::to_vec_pretty(&plan).expect("a plan has only string keys")
}

fn phase(part: &Part) -> Value {
    let mut phase = json!({
        "id": part.key,
        "phase_name": format!("Part {}", part.key),
        "goal": format!("Do what {} is there for", part.key),
        "complexity": "low",
        "estimated_hours": 0.1,
        "dependencies": part.after,
        "files_modified": if part.role == Role::Edits { vec![SHARED_FILE] } else { Vec::new() },
        "type": "executor",
    });
    if matches!(part.role, Role::Silent | Role::Late) {
        phase["heartbeat_timeout_seconds"] = json!(SHORT_SILENCE_SECONDS);
    }
    phase
}
