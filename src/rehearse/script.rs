//! A scripted agent: how it lives through one attempt, and what it leaves when it ends.

use crate::decide::{Checked, Found, Observed, ResultSeen, RunnerSeen};
use crate::model::claim::{Claim, ClaimStatus};
use crate::model::declared::DeclaredPlace;
use crate::model::evidence::{About, Brought, Change};
use crate::model::exit::Stopped;
use crate::model::handoff::Criterion;
use crate::model::state::{BatchState, TaskIx};
use crate::model::{Attempt, Exit, Finding, Grade, Verdict, WallTime};

/// How an attempt ends by itself, or by its runner.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ends {
    Well,
    Badly,
    /// Its runner ends it when its time is up.
    OutOfTime,
    /// Its runner is gone, and everything with it.
    Gone,
    /// It was asked to end, and did.
    Asked {
        why: String,
    },
}

/// What an agent does about its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Beats,
    /// It beat, and does so no more.
    Silent,
    NeverBeats,
}

/// The agent of one live attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script {
    pub attempt: Attempt,
    pub began_ms: u64,
    pub life: Life,
    /// Until when a gap between its beats is already seen to, on active time.
    pub judged_ms: u64,
}

impl Script {
    /// When it last beat, if it beats on: at its beginning, and every so often since.
    pub(super) fn last_beat_ms(&self, every_ms: u64, now_ms: u64) -> u64 {
        let lived = now_ms - self.began_ms;
        self.began_ms + lived - lived % every_ms.max(1)
    }
}

/// What an end leaves for the watcher to find. `serial` tells results apart.
pub(super) fn leave(
    observed: &mut Observed,
    state: &BatchState,
    task: TaskIx,
    script: Script,
    ends: Ends,
    (now_ms, serial): (u64, u64),
) {
    let attempt = script.attempt;
    if ends == Ends::Gone {
        observed.runners.push(RunnerSeen { task, attempt, found: Found::Gone { rebooted: false } });
        return;
    }
    let status = match ends {
        Ends::Well => Some(ClaimStatus::Success),
        Ends::Badly => Some(ClaimStatus::Failure),
        Ends::OutOfTime | Ends::Gone | Ends::Asked { .. } => None,
    };
    if let Some(status) = status {
        observed.results.push(result(state, task, attempt, status, serial));
    }
    if state.tasks[task].is_ours() {
        let found = Found::Exited(Box::new(exit(state, task, script, ends, now_ms)));
        observed.runners.push(RunnerSeen { task, attempt, found });
    }
}

fn result(
    state: &BatchState,
    task: TaskIx,
    attempt: Attempt,
    status: ClaimStatus,
    serial: u64,
) -> ResultSeen {
    let claim = Claim {
        task_id: state.tasks[task].spec.task_id.clone(),
        status,
        attempt: Some(attempt),
        ..Claim::default()
    };
    // A scripted agent changes all that it declares and meets every gate that is run.
    let spec = &state.tasks[task].spec;
    let met = |gate: Criterion| Finding {
        about: About::Criterion,
        ..Finding::new(gate.name, Grade::Verified, true, "as required")
    };
    let findings = spec.checked_gates(&state.batch).map(met).collect();
    let changed = |place: String| DeclaredPlace {
        place,
        change: Change::Modified,
        remains: true,
        inherited: false,
        refused: None,
        brought: Brought::default(),
    };
    let declared = spec.declared_places().into_iter().map(changed).collect();
    let verdict = Verdict { findings, brought: Some(Brought::default()), ..Verdict::default() };
    let sha256 = format!("{serial:064x}");
    ResultSeen {
        task,
        sha256,
        content: Ok(Checked { claim, verdict, declared, committed: Vec::new() }),
        inline: None,
    }
}

fn exit(state: &BatchState, task: TaskIx, script: Script, ends: Ends, now_ms: u64) -> Exit {
    let spec = &state.tasks[task].spec;
    let exit_code = match ends {
        Ends::Well => Some(0),
        Ends::Badly => Some(1),
        Ends::OutOfTime | Ends::Gone | Ends::Asked { .. } => None,
    };
    Exit {
        task: spec.key.clone(),
        attempt: script.attempt,
        exit_code,
        signal: exit_code.is_none().then_some(15),
        stopped: match ends {
            Ends::OutOfTime => Some(Stopped::Timeout { limit: spec.limits.timeout }),
            Ends::Asked { why } => Some(Stopped::Asked { why }),
            Ends::Well | Ends::Badly | Ends::Gone => None,
        },
        started_at: WallTime(script.began_ms as i64),
        ended_at: WallTime(now_ms as i64),
        wall_seconds: (now_ms - script.began_ms) as f64 / 1000.0,
        cpu_seconds: 0.0,
        peak_memory_kb: 0,
        redacted: 0,
        cost_usd: None,
        result_by_runner: exit_code.is_some(),
        no_result: None,
        warnings: Vec::new(),
        produced: Vec::new(),
        inspected_sha256: None,
        declared: Vec::new(),
        baseline_sha256: None,
        session: None,
        mark: None,
    }
}
