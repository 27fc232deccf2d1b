//! One task's part of the batch result: how it ended, by which tries, on what evidence, with what to show.

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::clock::WallTime;
use crate::model::event::Sign;
use crate::model::evidence::{Finding, Grade, Verdict};
use crate::model::exit::{Exit, Stopped};
use crate::model::reason::Reason;
use crate::model::state::{BatchState, Outcome, TaskIx, TaskState, Try};
use crate::view::words::Word;

use super::made::{Made, Reported};
use super::standing::standing;

/// Measured seconds; whole ones are written as whole numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span(pub f64);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0 >= 0.0 {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct TaskResult {
    pub task_id: String,
    pub status: &'static str,
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    pub commits: Vec<Value>,
    pub prps_generated: Vec<Value>,
    pub errors: Vec<String>,
    /// `None` if the agent did not say.
    pub tokens_used: Option<u64>,
    /// From the first sign of life to the end.
    pub elapsed_seconds: Option<Span>,
    pub key: String,
    pub phase_name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub stage: u32,
    pub evidence: Option<Grade>,
    /// Files and criteria apart, in words.
    pub standing: Option<String>,
    pub files_deleted: Vec<String>,
    /// Files that it made or changed beyond those that are listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_files: u64,
    /// The agent's own list.
    pub reported: Option<Reported>,
    /// Why the agent says that nothing had to be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_change_needed: Option<String>,
    pub attempts: Vec<AttemptResult>,
    pub reason: Option<String>,
    pub reason_code: Option<&'static str>,
    /// For a blocked task: the task whose failure began it.
    pub caused_by: Option<String>,
    /// It succeeded, but not at the first try.
    pub flaky: bool,
    /// Its result does not say which attempt it speaks for, and there were several.
    pub unfenced: bool,
    pub started_at: Option<WallTime>,
    pub finished_at: Option<WallTime>,
    pub validation_gates: Vec<GateResult>,
    pub findings: Vec<Finding>,
    pub drift: Drift,
}

#[derive(Debug, Clone, Serialize)]
pub struct AttemptResult {
    pub attempt: u32,
    pub offered_at: WallTime,
    pub started_at: Option<WallTime>,
    pub ended_at: Option<WallTime>,
    pub outcome: &'static str,
    pub reason: Option<String>,
    pub reason_code: Option<&'static str>,
    /// Who was started for it; absent for outsiders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// How that agent ended, and what its whole tree used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitResult>,
}

/// How an agent that we started ended, as its runner measured it.
#[derive(Debug, Clone, Serialize)]
pub struct ExitResult {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Why the runner ended it, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    pub peak_memory_mb: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Secrets that were removed from its logs.
    pub redacted: u64,
}

impl ExitResult {
    fn of(exit: &Exit) -> Self {
        ExitResult {
            exit_code: exit.exit_code,
            signal: exit.signal,
            stopped: exit.stopped.clone(),
            wall_seconds: exit.wall_seconds,
            cpu_seconds: exit.cpu_seconds,
            peak_memory_mb: (exit.peak_memory_kb as f64 / 1024.0 * 10.0).round() / 10.0,
            cost_usd: exit.cost_usd,
            redacted: exit.redacted,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct GateResult {
    pub gate: String,
    /// `None` where no result was ever judged.
    pub grade: Option<Grade>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Drift {
    pub touched_unclaimed: Vec<String>,
    pub declared_untouched: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touched_undeclared: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TaskResult {
    pub fn is_success(&self) -> bool {
        self.status == Word::Completed.written()
    }
}

/// Tells one task, with the claim that was collected from it, if one was.
pub fn task_result(state: &BatchState, ix: TaskIx, claim: Option<&Claim>) -> TaskResult {
    let task = &state.tasks[ix];
    let verdict = task.collected.as_ref().map(|collected| &collected.verdict);
    // Versions before 0.2 did not look at what is declared.
    let seen = verdict.filter(|verdict| verdict.brought.is_some());
    let made = Made::of(verdict, claim);
    let is_success = task.outcome() == Some(&Outcome::Succeeded);
    let reason = task.outcome().and_then(Outcome::reason);
    let finished_at = task.ended_at;
    let elapsed = task.started_at().zip(finished_at).map(|(began, ended)| ended.seconds_since(began));
    TaskResult {
        task_id: task.spec.task_id.clone(),
        status: Word::of(&task.phase).written(),
        files_created: made.created,
        files_modified: made.modified,
        files_deleted: made.deleted,
        more_files: made.more,
        commits: made.commits,
        reported: claim.map(Reported::of),
        standing: seen.filter(|_| is_success).map(standing),
        no_change_needed: seen.and_then(|verdict| verdict.no_change_needed.clone()),
        prps_generated: claim.map(|claim| claim.prps_generated.clone()).unwrap_or_default(),
        errors: claim.map(|claim| claim.errors.clone()).unwrap_or_default(),
        tokens_used: claim.and_then(|claim| claim.tokens_used),
        elapsed_seconds: elapsed.map(Span),
        key: task.spec.key.as_str().to_owned(),
        phase_name: task.spec.phase_name.clone(),
        kind: task.spec.kind.word(),
        stage: task.spec.stage,
        evidence: state.evidence_of(task),
        attempts: task.tries.iter().map(|one| attempt_result(task, one)).collect(),
        reason: reason.map(ToString::to_string),
        reason_code: reason.map(Reason::code),
        caused_by: reason.and_then(|reason| caused_by(state, reason)),
        flaky: is_success && task.tries.last().is_some_and(|last| last.attempt.number() > 1),
        unfenced: task.collected.as_ref().is_some_and(|collected| collected.unfenced),
        started_at: task.started_at(),
        finished_at,
        validation_gates: gates(task, verdict),
        findings: verdict.map(|verdict| verdict.findings.clone()).unwrap_or_default(),
        drift: verdict.map(drift).unwrap_or_default(),
    }
}

fn caused_by(state: &BatchState, reason: &Reason) -> Option<String> {
    match reason {
        Reason::DependencyFailed { cause, .. } | Reason::DependencyMissing { missing: cause } => {
            let known = state.find(cause.as_str()).map(|ix| state.tasks[ix].spec.task_id.clone());
            Some(known.unwrap_or_else(|| cause.as_str().to_owned()))
        }
        _ => None,
    }
}

pub(super) fn attempt_result(task: &TaskState, one: &Try) -> AttemptResult {
    let is_last = task.tries.last().is_some_and(|last| last.attempt == one.attempt);
    // A task can end by itself while its try is still out (cancelled before anybody began): then the
    // task's end is the try's too.
    let ending = task.outcome().filter(|_| is_last && one.ended_at.is_none());
    let reason = one.failed_because.as_ref().or(ending.and_then(Outcome::reason));
    let outcome = match (reason, one.ended_at) {
        (Some(Reason::Cancelled { .. }), _) => "cancelled",
        (Some(_), _) => "failed",
        (None, Some(_)) => "success",
        (None, None) if one.started.is_some() => "in_progress",
        (None, None) => "queued",
    };
    let (agent, launcher) = match &one.started {
        Some((_, Sign::Launch { agent, launcher })) => (Some(agent.clone()), Some(launcher.clone())),
        _ => (None, None),
    };
    AttemptResult {
        agent,
        launcher,
        exit: one.exit.as_ref().map(ExitResult::of),
        attempt: one.attempt.number(),
        offered_at: one.offered_at,
        started_at: one.started.as_ref().map(|(at, _)| *at),
        ended_at: one.ended_at.or(ending.and(task.ended_at)),
        outcome,
        reason: reason.map(ToString::to_string),
        reason_code: reason.map(Reason::code),
    }
}

/// A gate that nothing was found about stands on the agent's word.
fn gates(task: &TaskState, verdict: Option<&Verdict>) -> Vec<GateResult> {
    let grade_of = |gate: &crate::model::task::Gate| {
        let findings = &verdict?.findings;
        let is_about = |finding: &&Finding| {
            finding.subject == gate.text || gate.command.as_deref() == Some(finding.subject.as_str())
        };
        Some(findings.iter().find(is_about).map_or(Grade::Claimed, |finding| finding.grade))
    };
    let gates = task.spec.validation_gates.iter();
    gates.map(|gate| GateResult { gate: gate.text.clone(), grade: grade_of(gate) }).collect()
}

fn drift(verdict: &Verdict) -> Drift {
    Drift {
        touched_unclaimed: verdict.touched_unclaimed.clone(),
        declared_untouched: verdict.declared_untouched.clone(),
        touched_undeclared: verdict.touched_undeclared.clone(),
    }
}
