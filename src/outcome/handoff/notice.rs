//! Errors and warnings of a report: what went wrong, and what a reader of a green line should know besides.

use serde::Serialize;

use crate::model::evidence::Grade;
use crate::model::handoff::{MergeOutcome, UndeclaredChanges};
use crate::model::reason::Reason;
use crate::model::state::BatchState;
use crate::view::handoff::{self, command, next_step};
use crate::view::words::{attempt_of, attempts_max, counted, listed, listed_at_most};

use super::super::aggregate::late_reason;
use super::super::remedy::remedy;
use super::agent::Agent;
use super::standing::Standing;
use super::whole::{failed_validation, merge_code, merged};

/// Memory in MB from which a peak is worth a word, with the word's severity; the largest that fits counts.
const HIGH_MEMORY_MB: [(u64, &str); 3] = [(4096, HIGH), (1024, MEDIUM), (512, LOW)];
/// Names that one message lists; the rest is counted.
const NAMES_MAX: usize = 8;

const HIGH: &str = "high";
const MEDIUM: &str = "medium";
const LOW: &str = "low";

/// One error or warning.
#[derive(Debug, Clone, Serialize)]
pub struct Notice {
    /// Whom it is about; `null` for the batch as a whole.
    pub agent: Option<String>,
    pub message: String,
    pub severity: &'static str,
    /// A stable name, for programs.
    pub code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Notice {
    fn of_batch(code: &'static str, severity: &'static str, message: impl Into<String>) -> Notice {
        Notice { agent: None, message: message.into(), severity, code, remedy: None }
    }

    fn of(agent: &Agent<'_>, code: &'static str, severity: &'static str, message: String) -> Notice {
        Notice { agent: Some(agent.name().to_owned()), ..Notice::of_batch(code, severity, message) }
    }

    fn with(self, remedy: impl Into<Option<String>>) -> Notice {
        Notice { remedy: remedy.into(), ..self }
    }
}

/// Everything that keeps the batch from being a success: of the whole first, then agent by agent.
pub(super) fn errors(state: &BatchState, agents: &[Agent<'_>]) -> Vec<Notice> {
    let mut errors: Vec<Notice> = Vec::new();
    if let Some(reason @ Reason::Cancelled { .. }) = &state.cancel {
        errors.push(Notice::of_batch("cancelled", MEDIUM, reason.to_string()));
    }
    let was_ended = state.cancel.is_some() || state.timed_out;
    if let Some(why) = state.handoff.as_ref().and_then(|handoff| handoff.not_prepared.as_ref())
        // Whoever ended the batch ended its preparation.
        && !was_ended
    {
        let reason = Reason::NotPrepared { why: why.clone() };
        let advice = remedy(state, None, &reason);
        errors.push(Notice::of_batch(reason.code(), HIGH, reason.to_string()).with(advice));
    }
    if let Some((ix, reason)) = failed_validation(state) {
        let told = format!("the whole is not as it must be: {reason}");
        let advice = remedy(state, Some(ix), reason).map(|advice| and_back(state, advice));
        errors.push(Notice::of_batch("validation_failed", HIGH, told).with(advice));
    }
    errors.extend(merged(state).and_then(|merged| merge_error(state, merged)));
    errors.extend(agents.iter().filter_map(agent_error));
    errors
}

/// What the whole already said is not said again for each agent.
fn agent_error(agent: &Agent<'_>) -> Option<Notice> {
    let error = agent.error()?;
    let is_told = agent.was_cancelled() && agent.state.cancel.is_some();
    let severity = match agent.standing() {
        Standing::Failure | Standing::Timeout => HIGH,
        Standing::Skipped | Standing::Success | Standing::Running | Standing::Waiting => MEDIUM,
    };
    let was_prepared = error.code != "not_prepared";
    (!is_told && was_prepared)
        .then(|| Notice::of(agent, error.code, severity, error.message).with(error.remedy))
}

fn merge_error(state: &BatchState, merged: &MergeOutcome) -> Option<Notice> {
    let code = merge_code(merged)?;
    let because = merged.because.clone().unwrap_or_else(|| "nothing was merged".to_owned());
    let mut told: Vec<String> = vec![because];
    told.extend(merged.checks.iter().filter(|check| !check.met).map(ToString::to_string));
    let advice = next_step(state)
        .map(|command| format!("say what becomes of each conflict: {command}"))
        .or_else(|| remedy_of_merge(state, code).map(|advice| and_back(state, advice)));
    Some(Notice::of_batch(code, HIGH, told.join("; ")).with(advice))
}

/// The way back from what agents have changed already, where something was kept before them.
fn and_back(state: &BatchState, advice: String) -> String {
    let is_kept = state.batch.handoff.as_ref().is_some_and(|handoff| handoff.checkpoint);
    let undo = command(state, &format!("undo {}", state.batch.id));
    if is_kept { format!("{advice}; {undo} puts every file back as it was before") } else { advice }
}

/// What to do about a merge of which nobody is asked anything.
fn remedy_of_merge(state: &BatchState, code: &str) -> Option<String> {
    match code {
        "merge_conflict" => {
            let resolve = command(state, &format!("resolve {}", state.batch.id));
            Some(format!(
                "conflicts.json says where every version lies; {resolve} decides and merges again, or hand it over \
                 again with agents that keep to their own files"
            ))
        }
        "validation_failed" => Some("correct what it names, and hand the request over again".to_owned()),
        _ => None,
    }
}

/// Everything else that should be known, agent by agent, then of the whole.
pub(super) fn warnings(state: &BatchState, agents: &[Agent<'_>]) -> Vec<Notice> {
    let mut warnings: Vec<Notice> = agents.iter().flat_map(of_agent).collect();
    for late in &state.late {
        let attempt = late.attempt.map_or(String::new(), |attempt| format!(" of attempt {attempt}"));
        let message = format!("a result{attempt} was put aside: {}", late_reason(&late.because));
        let agent = agents.iter().find(|agent| agent.ix == late.task);
        warnings.extend(agent.map(|agent| Notice::of(agent, "late_result", LOW, message)));
    }
    let prepared = state.handoff.as_ref().and_then(|handoff| handoff.prepared.as_ref());
    if let Some(left_out) = prepared.map(|prepared| &prepared.left_out).filter(|list| !list.is_empty()) {
        let message = format!("not in the checkpoint: {}", listed_at_most(left_out, NAMES_MAX));
        warnings.push(Notice::of_batch("checkpoint_left_out", MEDIUM, message));
    }
    warnings.extend(merged(state).and_then(|merged| undeclared(&merged.undeclared)));
    let merge_warnings = merged(state).into_iter().flat_map(|merged| &merged.warnings);
    warnings.extend(merge_warnings.map(|warning| Notice::of_batch("merge", MEDIUM, warning)));
    warnings.extend(state.batch.warnings.iter().map(|warning| of_request(warning, agents)));
    if state.suspicions > 0 {
        let times = counted(state.suspicions, "time");
        let message = format!("many agents fell silent together {times}, and were given longer");
        warnings.push(Notice::of_batch("mass_silence", LOW, message));
    }
    warnings
}

/// A warning about the request names the place in it, and by that the agent: `field
/// agents[1].task.inputs.code: …`.
fn of_request(warning: &str, agents: &[Agent<'_>]) -> Notice {
    let place = ["field agents[", "field tasks["].into_iter().find_map(|list| warning.strip_prefix(list));
    let number = place.and_then(|place| place.split_once(']')?.0.parse::<usize>().ok());
    let agent = number.and_then(|number| agents.get(number));
    let agent = agent.map(|agent| agent.name().to_owned());
    Notice { agent, ..Notice::of_batch("request", LOW, warning) }
}

/// What changed undeclared, and nobody can tell by whom.
fn undeclared(changes: &UndeclaredChanges) -> Option<Notice> {
    let anybodys = changes.listed.iter().filter(|change| change.task.is_none());
    let anybodys: Vec<String> = anybodys.map(handoff::undeclared).collect();
    let mut told = Vec::new();
    if !anybodys.is_empty() {
        told.push(format!("changed, though nobody declares it: {}", listed_at_most(&anybodys, NAMES_MAX)));
    }
    if changes.more > 0 {
        let more = counted(changes.more as usize, "more path");
        told.push(format!("{more} changed undeclared"));
    }
    (!told.is_empty()).then(|| Notice::of_batch("undeclared_changes", MEDIUM, told.join("; ")))
}

fn of_agent(agent: &Agent<'_>) -> Vec<Notice> {
    let mut warnings: Vec<Notice> = Vec::new();
    let mut warn = |code, severity, message| warnings.push(Notice::of(agent, code, severity, message));
    let peak = agent.peak_memory_mb();
    if let Some((_, severity)) = HIGH_MEMORY_MB.into_iter().find(|(least, _)| peak >= *least) {
        warn("high_memory", severity, format!("High memory usage detected ({peak}MB peak)"));
    }
    if agent.is_success() {
        if let Some(message) = claimed_only(agent) {
            warn("claimed_only", MEDIUM, message);
        }
        if let Some(message) = retried(agent) {
            warn("retried", LOW, message);
        }
        let untouched = agent.missing_declared();
        if !untouched.is_empty() {
            let files = listed_at_most(&untouched, NAMES_MAX);
            warn("declared_untouched", LOW, format!("declared, but not changed: {files}"));
        }
    }
    let undeclared = agent.undeclared_changes();
    if !undeclared.is_empty() {
        let files = listed_at_most(&undeclared, NAMES_MAX);
        warn("undeclared_changes", MEDIUM, format!("changed, but not declared: {files}"));
    }
    let unclaimed = agent.unclaimed_changes();
    if !unclaimed.is_empty() {
        let files = listed_at_most(&unclaimed, NAMES_MAX);
        warn("unclaimed_changes", LOW, format!("changed, but not in its result: {files}"));
    }
    if agent.task.collected.as_ref().is_some_and(|collected| collected.unfenced) {
        warn("unfenced_result", LOW, "its result does not say which attempt it speaks for".to_owned());
    }
    warnings
}

/// Criteria that nobody checked; where there are none at all, that nothing was.
fn claimed_only(agent: &Agent<'_>) -> Option<String> {
    let claimed = agent.criteria.claimed();
    if !claimed.is_empty() {
        return Some(format!("the agent's word alone stands behind {}", listed(&claimed)));
    }
    let is_claimed = agent.state.evidence_of(agent.task) == Some(Grade::Claimed);
    is_claimed.then(|| "the agent's word alone stands behind its success".to_owned())
}

/// `succeeded on attempt 2 of 3; attempt 1: no heartbeat for 60s`.
fn retried(agent: &Agent<'_>) -> Option<String> {
    let number = agent.task.tries.last()?.attempt.number();
    let failed = agent.task.tries.iter().filter_map(|one| {
        let because = one.failed_because.as_ref()?;
        Some(format!("attempt {}: {because}", one.attempt))
    });
    let mut told = vec![format!("succeeded on {}", attempt_of(number, attempts_max(agent.task)))];
    told.extend(failed);
    (number > 1).then(|| told.join("; "))
}
