//! Projections: files that people and programs read instead of the journal. They can be deleted at any time
//! and are made again from the states; nothing is ever read back from them, and a failure to write one
//! changes no decision.

use std::collections::HashMap;

use super::Watcher;
use super::kept::{self, Kept};
use crate::agent::launcher::Session;
use crate::bus::{Content, Disk, Durability, PLAN_BYTES_MAX, layout};
use crate::decide::Now;
use crate::model::BatchId;
use crate::model::state::{Phase, TaskIx};
use crate::outcome::ledger;
use crate::view::snapshot::{Live, LiveTask, Mode, Snapshot};

/// How many ended batches the ledger tells about.
const ENDED_SHOWN: usize = ledger::ARCHIVED_MAX;
const SEAL: &str = "<!-- sealed by wk: ";

/// Adds a checksum, by which an edit by hand is noticed.
fn sealed(text: &str) -> String {
    format!("{text}\n{SEAL}{:08x} -->\n", crc32fast::hash(text.as_bytes()))
}

fn is_sealed(text: &str) -> bool {
    text.rfind(SEAL).is_some_and(|at| sealed(text[..at].strip_suffix('\n').unwrap_or_default()) == text)
}

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
        self.project_workspaces(mode, now);
    }

    /// Writes what clients of handed-over batches find in their workspaces.
    pub fn project_workspaces(&self, mode: Mode, now: Now) {
        let handed_over = |kept: &&Kept| kept.state.batch.handoff.is_some() && !kept.is_barred();
        for kept in self.batches.values().filter(handed_over) {
            super::deliver::show_status(self.disk(), &kept.state, &live_of(kept, mode, now), now.wall);
        }
    }

    /// Writes `LEDGER.md`. What somebody wrote into it by hand is kept beside it.
    pub fn project_ledger(&mut self, now: Now) {
        self.recall_ended();
        let active: Vec<_> = self.batches.values().map(|kept| &kept.state).collect();
        let ended: Vec<_> = self.ended.iter().rev().map(|(_, state)| state).collect();
        let text = sealed(&ledger::ledger(&active, &ended));
        let path = self.layout().ledger();
        if let Ok(Content::Bytes { bytes, .. }) = self.disk().read(&path, PLAN_BYTES_MAX) {
            if bytes == text.as_bytes() {
                return;
            }
            if !is_sealed(&String::from_utf8_lossy(&bytes)) {
                let kept = path.with_file_name(format!("LEDGER.edited-{}.md", now.wall.0));
                log::warn!("{} was edited by hand; the edit is kept as {}", path.display(), kept.display());
                let _ = self.disk().rename(&path, &kept, Durability::Unsynced);
            }
        }
        self.write_projection(&path, text.as_bytes());
    }

    /// Loads the newest archived batches once, and those that ended since.
    fn recall_ended(&mut self) {
        let archived = self.disk().list(&self.layout().archive()).unwrap_or_default();
        let mut ids: Vec<(u64, BatchId)> = archived
            .iter()
            .filter_map(|entry| layout::batch_of_directory(&entry.name)?.ok())
            .filter_map(|id| Some((id.number()?, id)))
            .collect();
        ids.sort();
        let newest = ids.split_off(ids.len().saturating_sub(ENDED_SHOWN));
        self.ended.retain(|number, _| newest.iter().any(|(kept, _)| kept == number));
        for (number, id) in newest {
            if !self.ended.contains_key(&number)
                && let Ok((state, _)) = kept::read_state(self.disk(), &self.layout().archived(&id))
            {
                self.ended.insert(number, state);
            }
        }
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
                session: session_of(kept, task),
                unsettled: pulse.malformed.as_ref().map(|defect| format!("its heartbeat is none: {defect}")),
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

/// Only clients of handed-over batches look for it, so nobody else pays for the look.
fn session_of(kept: &Kept, task: TaskIx) -> Option<String> {
    kept.state.batch.handoff.as_ref()?;
    let attempt = kept.state.tasks[task].tries.last()?.attempt;
    Session::of(&kept.paths.attempt(kept.state.key(task), attempt)).map(|session| session.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_by_hand_breaks_the_seal() {
        let text = sealed("# Ledger\n\nNone.\n");
        assert!(is_sealed(&text));
        assert!(!is_sealed(&text.replace("None", "Some")));
        assert!(!is_sealed(&format!("{text}mine\n")));
        assert!(!is_sealed("# Ledger\n"));
    }
}
