//! Projections: files that people and programs read instead of the journal. They can be deleted at any time
//! and are made again from the states; nothing is ever read back from them, and a failure to write one
//! changes no decision.

use std::collections::HashMap;

use super::Watcher;
use super::kept::Kept;
use crate::bus::{Disk, Durability};
use crate::decide::Now;
use crate::model::BatchId;
use crate::model::state::Phase;
use crate::outcome::ledger;
use crate::view::snapshot::{Live, LiveTask, Mode, Snapshot};

impl<D: Disk> Watcher<D> {
    /// What every face shows of a batch.
    pub fn snapshot(&self, id: &BatchId, mode: Mode, now: Now) -> Option<Snapshot> {
        let kept = self.batches.get(id)?;
        Some(Snapshot::of(&kept.state, &live_of(kept, mode, now), now.clock, now.wall))
    }

    /// Writes every batch's `status.json`.
    pub fn project_status(&self, mode: Mode, now: Now) {
        for (id, kept) in &self.batches {
            if let Some(snapshot) = self.snapshot(id, mode, now) {
                self.write_projection(&kept.paths.status(), &snapshot.status_json());
            }
        }
    }

    /// Writes `LEDGER.md`.
    pub fn project_ledger(&self) {
        let active: Vec<_> = self.batches.values().map(|kept| &kept.state).collect();
        let text = ledger::ledger(&active, &[]);
        self.write_projection(&self.layout().ledger(), text.as_bytes());
    }

    fn write_projection(&self, path: &std::path::Path, bytes: &[u8]) {
        if let Err(error) = self.disk().publish(path, bytes, Durability::Unsynced) {
            log::debug!("{}: {error}", path.display());
        }
    }
}

/// What the journal does not know: progress, ages, held and unsettled files.
pub fn live_of(kept: &Kept, mode: Mode, now: Now) -> Live {
    let mut tasks: HashMap<usize, LiveTask> = HashMap::new();
    for (task, pulse) in kept.pulses.iter() {
        let is_offered = matches!(kept.state.tasks[task].phase, Phase::Offered { .. });
        let age = |since: crate::model::Tick| Some(now.clock.since(since));
        tasks.insert(
            task,
            LiveTask {
                progress: pulse.progress.clone(),
                tokens_used: pulse.tokens,
                beat_age_ms: if pulse.has_beaten { age(pulse.since) } else { None },
                progress_age_ms: if pulse.has_beaten { age(pulse.progress_since) } else { None },
                spec_path: is_offered
                    .then(|| kept.paths.spec(kept.state.key(task)).to_string_lossy().into_owned()),
                ..LiveTask::default()
            },
        );
    }
    for &task in &kept.held {
        tasks.entry(task).or_default().has_held_result = true;
    }
    for (task, note) in kept.unsettled() {
        tasks.entry(task).or_default().unsettled = Some(note);
    }
    let warnings = kept.odd_names.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    Live { mode, tasks, warnings }
}
