//! The report on an execution request: `execution_report.json` as its client reads it.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::evidence::Grade;
use crate::model::handoff::{ConflictBrief, MergeOutcome, MergeStatus};
use crate::model::state::{BatchState, TaskIx};
use crate::model::workspace::LogPaths;
use crate::view::handoff::{Stage, next_step};

use super::super::aggregate::cost;
use super::super::task_result::Span;
use super::agent::{Agent, AgentError, Logs, agents};
use super::notice::{Notice, errors, warnings};
use super::places::Places;
use super::{Fields, Moment, rounded, shown, whole};

/// Version of what stands behind the client's own fields.
const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
pub struct ExecutionReport {
    execution_id: String,
    status: &'static str,
    start_timestamp: Moment,
    end_timestamp: Option<Moment>,
    duration_seconds: Option<Span>,
    agents: Vec<AgentReport>,
    merge_result: MergeReport,
    errors: Vec<Notice>,
    warnings: Vec<Notice>,
    version: u32,
    /// Why it is no success, for programs.
    reason: Option<&'static str>,
    evidence: Option<Grade>,
    workspace_root: Option<String>,
    tokens_used: u64,
    cost_usd: Option<f64>,
    log_level: Option<String>,
    request_timestamp: Option<String>,
}

#[derive(Debug, Serialize)]
struct AgentReport {
    agent_name: String,
    status: &'static str,
    tmux_session: Option<String>,
    start_time: Option<Moment>,
    end_time: Option<Moment>,
    duration_seconds: Span,
    exit_code: Option<i32>,
    outputs_produced: Fields<String>,
    success_criteria_met: Fields<Value>,
    logs: Logs,
    metrics: Fields<Value>,
    task: String,
    success_criteria_evidence: Fields<Option<Grade>>,
    evidence: Option<Grade>,
    attempts: usize,
    signal: Option<i32>,
    error: Option<AgentError>,
    undeclared_changes: Vec<String>,
    unclaimed_changes: Vec<String>,
    missing_declared: Vec<String>,
}

#[derive(Debug, Serialize)]
struct MergeReport {
    status: &'static str,
    merged_ctxpack: Option<String>,
    conflicts_detected: u32,
    conflicts_resolved: u32,
    validation_passed: Option<bool>,
    merged_files: Vec<String>,
    /// Why it is no success, as a sentence.
    reason: Option<String>,
    awaits_resolution: bool,
    next_step: Option<String>,
    conflicts: Vec<ConflictBrief>,
    conflict_report: Option<String>,
    receipt: Option<String>,
    receipt_sha256: Option<String>,
}

/// Tells a batch. `claims` are the collected results that the state names, `logs` where what each task's agent
/// printed lies (`places::workspace_logs`, or the attempts' own where there is no workspace).
pub fn report(
    state: &BatchState,
    claims: &HashMap<TaskIx, Claim>,
    logs: &HashMap<TaskIx, LogPaths>,
) -> ExecutionReport {
    let agents = agents(state, claims);
    let ended_at = whole::ended_at(state);
    let handoff = state.batch.handoff.as_ref();
    ExecutionReport {
        execution_id: state.batch.id.as_str().to_owned(),
        status: whole::status_word(state),
        start_timestamp: Moment(state.accepted_at),
        end_timestamp: ended_at.map(Moment),
        duration_seconds: ended_at.map(|at| rounded(at.seconds_since(state.accepted_at))),
        agents: agents.iter().map(|agent| agent_report(agent, logs.get(&agent.ix))).collect(),
        merge_result: merge_report(state),
        errors: errors(state, &agents),
        warnings: warnings(state, &agents),
        version: VERSION,
        reason: whole::reason_code(state),
        evidence: state.evidence(),
        workspace_root: handoff.map(|handoff| handoff.workspace.clone()),
        tokens_used: state.tasks.iter().map(|task| task.tokens_spent).fold(0, u64::saturating_add),
        cost_usd: cost(state),
        log_level: handoff.and_then(|handoff| handoff.log_level.clone()),
        request_timestamp: handoff.and_then(|handoff| handoff.request_timestamp.clone()),
    }
}

fn agent_report(agent: &Agent<'_>, logs: Option<&LogPaths>) -> AgentReport {
    let exit = agent.exit();
    AgentReport {
        agent_name: agent.name().to_owned(),
        status: agent.standing().word(),
        tmux_session: agent.session(),
        start_time: agent.start_time(),
        end_time: agent.end_time(),
        duration_seconds: agent.duration(),
        exit_code: exit.and_then(|exit| exit.exit_code),
        outputs_produced: agent.outputs_produced(),
        success_criteria_met: agent.criteria.met.clone(),
        logs: Logs::of(logs, None),
        metrics: agent.metrics(),
        task: agent.task.spec.key.as_str().to_owned(),
        success_criteria_evidence: agent.criteria.evidence.clone(),
        evidence: agent.state.evidence_of(agent.task),
        attempts: agent.attempts(),
        signal: exit.and_then(|exit| exit.signal),
        error: agent.error(),
        undeclared_changes: agent.undeclared_changes(),
        unclaimed_changes: agent.unclaimed_changes(),
        missing_declared: agent.missing_declared(),
    }
}

fn merge_report(state: &BatchState) -> MergeReport {
    let not_merged;
    let merged = match whole::merged(state) {
        Some(merged) => merged,
        None => {
            not_merged = MergeOutcome::without_result(MergeStatus::Skipped, why_not_merged(state));
            &not_merged
        }
    };
    let next_step = next_step(state);
    let places = Places::of(state);
    let paths = places.as_ref().map(Places::paths);
    let has_conflicts = !merged.conflicts.is_empty();
    MergeReport {
        status: match merged.status {
            MergeStatus::Success => "success",
            MergeStatus::AwaitsResolution | MergeStatus::Failure => "failure",
            MergeStatus::Skipped => "skipped",
        },
        merged_ctxpack: merged.merged_ctxpack.clone(),
        conflicts_detected: merged.conflicts_detected,
        conflicts_resolved: merged.conflicts_resolved,
        validation_passed: whole::validated(merged),
        merged_files: merged.merged_files.clone(),
        reason: merged.because.clone(),
        awaits_resolution: next_step.is_some(),
        next_step,
        conflicts: merged.conflicts.clone(),
        conflict_report: paths.filter(|_| has_conflicts).map(|paths| shown(&paths.conflicts())),
        receipt: paths.filter(|_| merged.receipt_sha256.is_some()).map(|paths| shown(&paths.receipt())),
        receipt_sha256: merged.receipt_sha256.clone(),
    }
}

/// Why there is nothing merged, where no merge was ever reported.
pub(super) fn why_not_merged(state: &BatchState) -> &'static str {
    match (&state.handoff, Stage::of(state)) {
        (None, _) => "the batch was not handed over: its agents work in one tree, and nothing is merged",
        (Some(_), Stage::Preparing | Stage::Running | Stage::Merging) => {
            "the batch has not come to its merge"
        }
        (Some(handoff), _) if handoff.not_prepared.is_some() => "no agent was started",
        (Some(_), Stage::AwaitingResolution | Stage::Finished) => "the batch ended before its merge",
    }
}
