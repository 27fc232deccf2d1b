//! What agents say in heartbeats and results, without secrets: everything that is written down about it comes through
//! here. The files that they wrote themselves stay as they are.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::directory;
use super::granted::inherited;
use super::redact::Redactor;
use crate::model::agent::{AgentSettings, EnvRule};
use crate::model::preset::PRESETS;
use crate::model::{Batch, BatchId, Claim, Defect, Settings};

/// The secrets of all agents that settings name, of presets, those that came with requests, and the built-in rules.
pub struct Veil {
    redactor: RefCell<Redactor>,
    known: RefCell<BTreeSet<String>>,
    /// Batches whose secrets are among the known.
    learned: RefCell<BTreeSet<BatchId>>,
}

impl fmt::Debug for Veil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Veil")
    }
}

impl Veil {
    pub fn new(settings: &Settings) -> Veil {
        let known = secrets_of(settings);
        Veil {
            redactor: RefCell::new(Redactor::new(known.iter().cloned())),
            known: RefCell::new(known),
            learned: RefCell::default(),
        }
    }

    /// The same for what is told of one batch.
    pub fn for_batch(settings: &Settings, batch: &Batch) -> Veil {
        let veil = Veil::new(settings);
        veil.learn(batch);
        veil
    }

    /// Learns what came with a handed-over request, and what its agents' own directories ask for.
    pub fn learn(&self, batch: &Batch) {
        if batch.handoff.is_none() || !self.learned.borrow_mut().insert(batch.id.clone()) {
            return;
        }
        let assignments = || batch.tasks.iter().filter_map(|task| task.assignment.as_ref());
        let directories: BTreeSet<&str> =
            assignments().filter_map(|assignment| assignment.agent_dir.as_deref()).collect();
        // One that cannot be read is not started either, or says so then.
        let read = |dir: &str| directory::read(dir, Path::new(dir)).ok().flatten();
        let agents: Vec<AgentSettings> = directories.into_iter().filter_map(read).collect();
        let rules = assignments().flat_map(|assignment| &assignment.env);
        let mut known = self.known.borrow_mut();
        let before = known.len();
        known.extend(values_of(rules.chain(agents.iter().flat_map(|agent| &agent.env))));
        if known.len() > before {
            self.redactor.replace(Redactor::new(known.iter().cloned()));
        }
    }

    pub fn text(&self, text: &str) -> String {
        let mut redactor = self.redactor.borrow_mut();
        let mut out = Vec::with_capacity(text.len());
        redactor.push(text.as_bytes(), &mut out);
        redactor.finish(&mut out);
        String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Its files stay as they are named: they are looked for.
    pub fn claim(&self, mut claim: Claim) -> Claim {
        for error in &mut claim.errors {
            *error = self.text(error);
        }
        let maps = claim.metrics.values_mut().chain(claim.criteria.values_mut());
        for value in claim.commits.iter_mut().chain(&mut claim.prps_generated).chain(maps) {
            self.value(value);
        }
        claim
    }

    /// A defect may quote what it is about.
    pub fn defects(&self, mut defects: Vec<Defect>) -> Vec<Defect> {
        for defect in &mut defects {
            defect.message = self.text(&defect.message);
        }
        defects
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The secrets of every agent that settings or presets name.
pub(super) fn secrets_of(settings: &Settings) -> BTreeSet<String> {
    // A preset needs no table of its own to be named by a plan or on the command line.
    let presets: Vec<AgentSettings> =
        PRESETS.iter().map(|preset| AgentSettings::of_preset(preset.name, preset)).collect();
    let agents = settings.agents.named.values().chain(&presets);
    values_of(agents.flat_map(|agent| &agent.env)).collect()
}

/// Inherited values are those of this process, as agents that it starts have them.
pub(super) fn values_of<'a>(rules: impl Iterator<Item = &'a EnvRule>) -> impl Iterator<Item = String> {
    let secret = rules.filter(|rule| !rule.plain);
    secret.filter_map(|rule| rule.value.clone().or_else(|| inherited(&rule.name)?.into_string().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_veil_serves_many_texts() {
        let veil = Veil::new(&Settings::default());
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        for _ in 0..3 {
            assert_eq!(veil.text("Step 3 of 5"), "Step 3 of 5");
            assert!(!veil.text(&format!("pushed with {secret}")).contains(secret));
            // The beginning of one, at the end of a text, does not wait for the next text.
            assert_eq!(veil.text("ghp_0123"), "ghp_0123");
        }
    }
}
