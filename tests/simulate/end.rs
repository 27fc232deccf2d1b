//! What must hold when everything is over: all archived, results as a fresh fold gives them, nothing lost,
//! every refusal explained.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper::agent::veil::Veil;
use watchkeeper::bus::sha256;
use watchkeeper::model::{Attempt, BatchId, Settings, TaskKey};
use watchkeeper::outcome::aggregate;
use watchkeeper::watcher::{act, kept};

use super::oracle::Violation;
use super::world::{World, fingerprint};

fn broken(invariant: &'static str, detail: String) -> Violation {
    Violation { invariant, detail }
}

impl World {
    /// Every batch that was asked for lies in the archive.
    pub fn is_over(&self) -> bool {
        self.readings.iter().all(|reading| {
            let id = BatchId::parse(&reading.plan.id).unwrap();
            reading.finished
                && self.disk.shared.borrow().tree.find(&self.layout.archived(&id).journal()).is_some()
        })
    }

    pub fn check_end(&mut self) -> Result<(), Violation> {
        {
            let shared = &mut *self.disk.shared.borrow_mut();
            (shared.is_crashed, shared.crash_at) = (false, None);
            (shared.trouble, shared.after_effect) = (super::disk::Trouble::None, false);
        }
        for number in 0..self.readings.len() {
            self.check_result(number)?;
            self.check_accepted(number)?;
            self.check_joined(number)?;
        }
        self.check_nothing_lost()?;
        self.check_refusals()
    }

    /// The batch result is what a fresh fold of the journal and the collected results give.
    fn check_result(&self, number: usize) -> Result<(), Violation> {
        let id = BatchId::parse(&self.readings[number].plan.id).unwrap();
        let paths = self.layout.archived(&id);
        let (state, _) = kept::read_state(&self.disk, &paths)
            .map_err(|error| broken("I13", format!("the archive cannot be read: {error}")))?;
        let claims = act::collected_claims(&self.disk, &paths, &state, &Veil::new(&Settings::default()))
            .map_err(|error| broken("I13", format!("the archive cannot be read: {error}")))?;
        let again = aggregate::canonical_bytes(&state, &claims);
        let shared = self.disk.shared.borrow();
        let written = shared.tree.file(&self.layout.batch_result(&id)).map(|file| file.bytes.clone());
        if written.as_deref() != Some(again.as_slice()) {
            return Err(broken("I13", format!("batch {id}: its result is not what its journal gives")));
        }
        Ok(())
    }

    /// Accepted bytes are the archived bytes.
    fn check_accepted(&self, number: usize) -> Result<(), Violation> {
        let reading = &self.readings[number];
        let paths = self.layout.archived(&BatchId::parse(&reading.plan.id).unwrap());
        for (key, seen) in &reading.tasks {
            let Some((attempt, hash)) = &seen.collected else { continue };
            let attempt = Attempt::from_wire(u64::from(*attempt)).unwrap();
            let path = paths.attempt(&TaskKey::parse(key).unwrap(), attempt).result();
            let found = self.disk.shared.borrow().tree.file(&path).map(|file| sha256(&file.bytes));
            if found.as_ref() != Some(hash) {
                return Err(broken("I5", format!("{}: not the bytes that were accepted", path.display())));
            }
        }
        Ok(())
    }

    /// A spec that was dropped in time is a task of its batch.
    fn check_joined(&self, number: usize) -> Result<(), Violation> {
        let reading = &self.readings[number];
        if reading.is_open()
            && reading.is_undisturbed
            && !reading.cancelled
            && reading.joined() < reading.plan.tasks.len()
        {
            let detail = format!("batch {}: {} specs joined", reading.plan.id, reading.joined());
            return Err(broken("I17", detail));
        }
        Ok(())
    }

    /// Every byte sequence that somebody published whole is still somewhere.
    fn check_nothing_lost(&self) -> Result<(), Violation> {
        let shared = self.disk.shared.borrow();
        let files = shared.tree.files_below(self.layout.root());
        let prints: HashSet<u64> = files.iter().map(|(_, file)| fingerprint(&file.bytes)).collect();
        match self.kept_bytes.iter().find(|(print, _)| !prints.contains(print)) {
            Some((_, what)) => Err(broken("I17", format!("vanished: {what}"))),
            None => Ok(()),
        }
    }

    fn check_refusals(&self) -> Result<(), Violation> {
        let shared = self.disk.shared.borrow();
        let quarantine = self.layout.quarantine();
        for (name, _) in shared.tree.listing(&quarantine).unwrap_or_default() {
            let name = name.to_string_lossy().into_owned();
            if name.ends_with(".reason.json") || name.starts_with('.') {
                continue;
            }
            let reason = shared.tree.file(&quarantine.join(format!("{name}.reason.json")));
            let said: Value = reason
                .and_then(|file| serde_json::from_slice(&file.bytes).ok())
                .ok_or_else(|| broken("I18", format!("{name} is refused without a reason")))?;
            let is_said = |defect: &Value| {
                ["rule", "message", "remedy"]
                    .iter()
                    .all(|field| defect[field].as_str().is_some_and(|text| !text.is_empty()))
            };
            let defects = said["defects"].as_array().cloned().unwrap_or_default();
            if defects.is_empty() || !defects.iter().all(is_said) {
                return Err(broken("I18", format!("{name}: its reason does not say what to do: {said}")));
            }
        }
        Ok(())
    }
}
