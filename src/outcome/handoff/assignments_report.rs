//! The report on assignments: `execution_report.json` in the shape of the minimal contract.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::event::BatchStatus;
use crate::model::evidence::{Finding, Grade};
use crate::model::handoff::{ConflictBrief, Dialect, MergeStatus};
use crate::model::state::{BatchState, TaskIx};
use crate::model::workspace::{LogPaths, Marker, WorkspacePaths};
use crate::view::handoff::next_step;

use super::super::aggregate::cost;
use super::super::task_result::Span;
use super::agent::{Agent, AgentError, Logs, agents};
use super::execution_report::why_not_merged;
use super::notice::{Notice, errors, warnings};
use super::{Fields, Moment, rounded, shown, whole};

/// Version of what stands behind the client's own fields.
const VERSION: u32 = 1;
/// The order in which outputs are merged: a task's after those that it depends on.
const STRATEGY: &str = "topological";

#[derive(Debug, Serialize)]
pub struct AssignmentsReport {
    summary: Summary,
    tasks: Vec<TaskReport>,
    merge: MergeReport,
    version: u32,
    execution_id: String,
    status: &'static str,
    /// Why it is no success, for programs.
    reason: Option<&'static str>,
    evidence: Option<Grade>,
    workspace_dir: Option<String>,
    start_timestamp: Moment,
    end_timestamp: Option<Moment>,
    duration_seconds: Option<Span>,
    /// What was found by the checks of the whole.
    validation: Vec<CheckReport>,
    errors: Vec<Notice>,
    warnings: Vec<Notice>,
    tokens_used: u64,
    cost_usd: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Summary {
    completed: bool,
    failed_tasks: Vec<String>,
    validation: &'static str,
    /// Ids; `merge.conflicts` tells each.
    conflicts: Vec<String>,
}

#[derive(Debug, Serialize)]
struct TaskReport {
    id: String,
    agent: String,
    status: &'static str,
    logs: Logs,
    artifacts: Vec<String>,
    /// Finer than `status`: tells a timeout and a skipped task from a failure.
    outcome: &'static str,
    error: Option<AgentError>,
    tmux_session: Option<String>,
    start_time: Option<Moment>,
    end_time: Option<Moment>,
    duration_seconds: Span,
    exit_code: Option<i32>,
    signal: Option<i32>,
    attempts: usize,
    evidence: Option<Grade>,
    outputs_produced: Fields<String>,
    success_criteria_met: Fields<Value>,
    success_criteria_evidence: Fields<Option<Grade>>,
    metrics: Fields<Value>,
    undeclared_changes: Vec<String>,
    unclaimed_changes: Vec<String>,
    missing_declared: Vec<String>,
}

#[derive(Debug, Serialize)]
struct MergeReport {
    strategy: &'static str,
    result: &'static str,
    conflicts: Vec<ConflictBrief>,
    /// Why it is no success, as a sentence.
    reason: Option<String>,
    conflicts_detected: u32,
    conflicts_resolved: u32,
    awaits_resolution: bool,
    next_step: Option<String>,
    merged_files: Vec<String>,
    receipt_sha256: Option<String>,
}

#[derive(Debug, Serialize)]
struct CheckReport {
    name: String,
    met: bool,
    value: Option<Span>,
    grade: Grade,
    saw: String,
}

/// Tells a batch; the arguments are those of `execution_report::report`. Paths below the workspace are relative
/// to it.
pub fn report(
    state: &BatchState,
    claims: &HashMap<TaskIx, Claim>,
    logs: &HashMap<TaskIx, LogPaths>,
) -> AssignmentsReport {
    let agents = agents(state, claims);
    let ended_at = whole::ended_at(state);
    let workspace = state.batch.handoff.as_ref().map(|handoff| handoff.workspace.clone());
    let base = workspace.as_deref().map(Path::new);
    AssignmentsReport {
        summary: summary(state, &agents),
        tasks: agents.iter().map(|agent| task_report(agent, logs.get(&agent.ix), base)).collect(),
        merge: merge_report(state, base),
        version: VERSION,
        execution_id: state.batch.id.as_str().to_owned(),
        status: whole::status_word(state),
        reason: whole::reason_code(state),
        evidence: state.evidence(),
        start_timestamp: Moment(state.accepted_at),
        end_timestamp: ended_at.map(Moment),
        duration_seconds: ended_at.map(|at| rounded(at.seconds_since(state.accepted_at))),
        validation: whole::merged(state).map_or(&[][..], |merged| &merged.checks).iter().map(check).collect(),
        errors: errors(state, &agents),
        warnings: warnings(state, &agents),
        tokens_used: state.tasks.iter().map(|task| task.tokens_spent).fold(0, u64::saturating_add),
        cost_usd: cost(state),
        workspace_dir: workspace,
    }
}

/// Completed is what is a success in every respect: a client that reads no more than this is not misled.
fn summary(state: &BatchState, agents: &[Agent<'_>]) -> Summary {
    let failed = agents.iter().filter(|agent| agent.standing().marker() == Some(Marker::Failed));
    let conflicts = whole::merged(state).map_or(&[][..], |merged| &merged.conflicts);
    Summary {
        completed: whole::status(state) == Some(BatchStatus::Success),
        failed_tasks: failed.map(|agent| agent.task.spec.key.as_str().to_owned()).collect(),
        validation: whole::validation_word(state),
        conflicts: conflicts.iter().map(|conflict| conflict.id.clone()).collect(),
    }
}

fn task_report(agent: &Agent<'_>, logs: Option<&LogPaths>, base: Option<&Path>) -> TaskReport {
    let exit = agent.exit();
    let told = |path: &String| base.map_or(path.clone(), |base| below(Path::new(path), base));
    let all = |paths: Vec<String>| paths.iter().map(told).collect();
    let outputs = agent.outputs_produced().0.into_iter();
    TaskReport {
        id: agent.task.spec.key.as_str().to_owned(),
        agent: agent.name().to_owned(),
        status: agent.standing().marker_word(),
        logs: Logs::of(logs, base),
        artifacts: artifacts(agent, base),
        outcome: agent.standing().word(),
        error: agent.error(),
        tmux_session: agent.session(),
        start_time: agent.start_time(),
        end_time: agent.end_time(),
        duration_seconds: agent.duration(),
        exit_code: exit.and_then(|exit| exit.exit_code),
        signal: exit.and_then(|exit| exit.signal),
        attempts: agent.attempts(),
        evidence: agent.state.evidence_of(agent.task),
        outputs_produced: Fields(outputs.map(|(name, path)| (name, told(&path))).collect()),
        success_criteria_met: agent.criteria.met.clone(),
        success_criteria_evidence: agent.criteria.evidence.clone(),
        metrics: agent.metrics(),
        undeclared_changes: all(agent.undeclared_changes()),
        unclaimed_changes: all(agent.unclaimed_changes()),
        missing_declared: all(agent.missing_declared()),
    }
}

/// Assignments have a folder for each task that began; an execution request has outputs instead, and a plan's
/// task the files that it reported and that were accepted.
fn artifacts(agent: &Agent<'_>, base: Option<&Path>) -> Vec<String> {
    let Some((handoff, base)) = agent.state.batch.handoff.as_ref().zip(base) else {
        let claim = agent.claim.filter(|_| agent.is_success());
        return claim.into_iter().flat_map(Claim::files).cloned().collect();
    };
    match handoff.dialect {
        Dialect::Assignments => {
            let folder = WorkspacePaths::new(base).artifacts(&agent.task.spec.key);
            let has_begun = agent.start_time().is_some();
            has_begun.then(|| format!("{}/", below(&folder, base))).into_iter().collect()
        }
        Dialect::ExecutionRequest => {
            let outputs = agent.outputs_produced().0;
            outputs.iter().map(|(_, path)| below(Path::new(path), base)).collect()
        }
    }
}

/// Relative to the workspace where it lies in it.
fn below(path: &Path, base: &Path) -> String {
    shown(path.strip_prefix(base).unwrap_or(path))
}

fn merge_report(state: &BatchState, base: Option<&Path>) -> MergeReport {
    let merged = whole::merged(state);
    let status = merged.map_or(MergeStatus::Skipped, |merged| merged.status);
    let next_step = next_step(state);
    let files = merged.map_or(&[][..], |merged| &merged.merged_files);
    let told = |file: &String| base.map_or(file.clone(), |base| below(Path::new(file), base));
    MergeReport {
        strategy: STRATEGY,
        result: match status {
            MergeStatus::Success => "success",
            MergeStatus::AwaitsResolution | MergeStatus::Failure => "failed",
            MergeStatus::Skipped => "skipped",
        },
        conflicts: merged.map(|merged| merged.conflicts.clone()).unwrap_or_default(),
        reason: match merged {
            Some(merged) => merged.because.clone(),
            None => Some(why_not_merged(state).to_owned()),
        },
        conflicts_detected: merged.map_or(0, |merged| merged.conflicts_detected),
        conflicts_resolved: merged.map_or(0, |merged| merged.conflicts_resolved),
        awaits_resolution: next_step.is_some(),
        next_step,
        merged_files: files.iter().map(told).collect(),
        receipt_sha256: merged.and_then(|merged| merged.receipt_sha256.clone()),
    }
}

fn check(finding: &Finding) -> CheckReport {
    CheckReport {
        name: finding.subject.clone(),
        met: finding.met,
        value: finding.value.map(Span),
        grade: finding.grade,
        saw: finding.saw.clone(),
    }
}
