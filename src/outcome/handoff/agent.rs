//! One task with its agent, as both reports tell it: times, exit, outputs, criteria, metrics, drift, error.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::evidence::{About, Verdict};
use crate::model::exit::Exit;
use crate::model::state::{BatchState, Outcome, TaskIx, TaskState};
use crate::model::workspace::LogPaths;
use crate::view::waiting;

use super::super::aggregate::cost_of;
use super::super::remedy::remedy;
use super::super::task_result::Span;
use super::criteria::Criteria;
use super::places::agent_name;
use super::standing::Standing;
use super::whole::merged;
use super::{Fields, Moment, rounded, shown};

/// Everything that the state and its claim say about one task.
pub(super) struct Agent<'a> {
    pub state: &'a BatchState,
    pub ix: TaskIx,
    pub task: &'a TaskState,
    pub claim: Option<&'a Claim>,
    pub criteria: Criteria,
}

/// Why an agent did not succeed.
#[derive(Debug, Clone, Serialize)]
pub struct AgentError {
    pub message: String,
    /// The same, for programs.
    pub code: &'static str,
    pub remedy: Option<String>,
}

/// Where what it printed lies; `null` where nothing was started here.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Logs {
    pub stdout: Option<String>,
    pub stderr: Option<String>,
}

/// The tasks that a report lists, in the request's order.
pub(super) fn agents<'a>(state: &'a BatchState, claims: &'a HashMap<TaskIx, Claim>) -> Vec<Agent<'a>> {
    let agent = |(ix, task): (TaskIx, &'a TaskState)| {
        let claim = claims.get(&ix);
        Agent { state, ix, task, claim, criteria: Criteria::of(task, claim) }
    };
    let listed = state.tasks.iter().enumerate().filter(|(_, task)| !task.spec.is_validation());
    listed.map(agent).collect()
}

impl<'a> Agent<'a> {
    pub(super) fn name(&self) -> &'a str {
        agent_name(self.task)
    }

    pub(super) fn standing(&self) -> Standing {
        Standing::of(self.task)
    }

    pub(super) fn is_success(&self) -> bool {
        self.standing() == Standing::Success
    }

    pub(super) fn start_time(&self) -> Option<Moment> {
        self.task.started_at().map(Moment)
    }

    /// What never began has no end either.
    pub(super) fn end_time(&self) -> Option<Moment> {
        self.task.started_at().and(self.task.ended_at).map(Moment)
    }

    /// Over all its attempts.
    pub(super) fn duration(&self) -> Span {
        let times = self.task.started_at().zip(self.task.ended_at);
        rounded(times.map_or(0.0, |(began, ended)| ended.seconds_since(began)))
    }

    /// How the agent of the last attempt ended, where we started it.
    pub(super) fn exit(&self) -> Option<&'a Exit> {
        self.task.tries.last()?.exit.as_ref()
    }

    pub(super) fn session(&self) -> Option<String> {
        self.task.tries.iter().rev().find_map(|one| one.exit.as_ref()?.session.clone())
    }

    pub(super) fn attempts(&self) -> usize {
        self.task.tries.len()
    }

    fn verdict(&self) -> Option<&'a Verdict> {
        self.task.collected.as_ref().map(|collected| &collected.verdict)
    }

    /// The declared outputs that were seen, whether or not the agent succeeded.
    pub(super) fn outputs_produced(&self) -> Fields<String> {
        let is_seen = |name: &str| {
            let mut outputs = self.verdict().into_iter().flat_map(|verdict| verdict.about(About::Output));
            let in_verdict = outputs.any(|finding| finding.met && finding.subject == name);
            // One that was ended left no result, and what it made is there all the same.
            in_verdict
                || self.exit().is_some_and(|exit| exit.produced.iter().any(|produced| produced == name))
        };
        let declared = self.task.spec.assignment.iter().flat_map(|assignment| &assignment.outputs);
        let seen = declared.filter(|output| is_seen(&output.name));
        Fields(seen.map(|output| (output.name.clone(), output.path.clone())).collect())
    }

    /// What the agent counted, and what was measured. Its word never stands for what was measured.
    pub(super) fn metrics(&self) -> Fields<Value> {
        let measured = self.measured();
        let is_measured = |name: &str| measured.iter().any(|(known, _)| *known == name);
        let counted = self.claim.into_iter().flat_map(|claim| &claim.metrics);
        let counted = counted.filter(|(name, _)| !is_measured(name));
        let mut fields: Vec<(String, Value)> =
            counted.map(|(name, value)| (name.clone(), value.clone())).collect();
        fields.extend(measured.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Fields(fields)
    }

    /// Time and memory of the last attempt; tokens and cost of all of them.
    fn measured(&self) -> Vec<(&'static str, Value)> {
        let span = |value: f64| serde_json::to_value(rounded(value)).unwrap_or(Value::Null);
        let mut fields: Vec<(&'static str, Value)> = Vec::new();
        if let Some(exit) = self.exit() {
            fields.push(("peak_memory_mb", self.peak_memory_mb().into()));
            fields.push(("cpu_seconds", span(exit.cpu_seconds)));
            fields.push(("wall_seconds", span(exit.wall_seconds)));
        }
        if self.task.tokens_spent > 0 {
            fields.push(("tokens_used", self.task.tokens_spent.into()));
        }
        // By a price alone what used no token cost nothing, which tells nothing.
        let cost = cost_of(self.state, self.task).filter(|cost| *cost > 0.0);
        fields.extend(cost.map(|cost| ("cost_usd", cost.into())));
        fields
    }

    /// Rounded up; zero where nobody measured.
    pub(super) fn peak_memory_mb(&self) -> u64 {
        self.exit().map_or(0, |exit| exit.peak_memory_kb.div_ceil(1024))
    }

    pub(super) fn error(&self) -> Option<AgentError> {
        let outcome = self.task.outcome()?;
        let reason = outcome.reason()?;
        Some(AgentError {
            message: waiting::ending(self.state, self.ix, outcome),
            code: reason.code(),
            remedy: remedy(self.state, Some(self.ix), reason),
        })
    }

    /// Changed, though nothing that it declares covers it.
    pub(super) fn undeclared_changes(&self) -> Vec<String> {
        let touched = self.verdict().into_iter().flat_map(|verdict| &verdict.touched_undeclared);
        let drifted = merged(self.state).into_iter().flat_map(|merged| &merged.undeclared.listed);
        let own = drifted.filter(|change| change.task.as_ref() == Some(&self.task.spec.key));
        touched.chain(own.map(|change| &change.path)).cloned().collect()
    }

    /// Within what it declares, changed, and not in its result.
    pub(super) fn unclaimed_changes(&self) -> Vec<String> {
        self.verdict().map(|verdict| verdict.touched_unclaimed.clone()).unwrap_or_default()
    }

    /// Declared, and not there or not changed.
    pub(super) fn missing_declared(&self) -> Vec<String> {
        let Some(verdict) = self.verdict() else { return Vec::new() };
        let required = [About::Output, About::Artifact].into_iter().flat_map(|about| verdict.about(about));
        let missing =
            required.filter(|finding| !finding.met).map(|finding| self.declared_path(&finding.subject));
        let untouched = verdict.declared_untouched.iter().map(|name| self.declared_path(name));
        let mut told: Vec<String> = Vec::new();
        for path in missing.chain(untouched) {
            if !told.contains(&path) {
                told.push(path);
            }
        }
        told
    }

    fn declared_path(&self, name: &str) -> String {
        let mut outputs = self.task.spec.assignment.iter().flat_map(|assignment| &assignment.outputs);
        outputs.find(|output| output.name == name).map_or(name, |output| &output.path).to_owned()
    }

    pub(super) fn was_cancelled(&self) -> bool {
        matches!(self.task.outcome(), Some(Outcome::Cancelled(_)))
    }
}

impl Logs {
    /// Relative to `base` where they lie below it.
    pub(super) fn of(paths: Option<&LogPaths>, base: Option<&Path>) -> Logs {
        let told = |path: &Path| shown(base.and_then(|base| path.strip_prefix(base).ok()).unwrap_or(path));
        Logs {
            stdout: paths.map(|paths| told(&paths.stdout)),
            stderr: paths.map(|paths| told(&paths.stderr)),
        }
    }
}
