//! A batch as the disk has it: `batch.json`, its journal, and what the journal's last turn may still owe. Reads alone.

use std::sync::Arc;

use crate::bus::disk::BusError;
use crate::bus::journal::JournalError;
use crate::bus::layout::BatchPaths;
use crate::bus::version::{self, VersionError};
use crate::bus::{self, Content, Disk, PLAN_BYTES_MAX};
use crate::model::Batch;
use crate::model::event::{Entry, Event};
use crate::model::state::{BatchState, FoldError, Phase};

/// Why a batch cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{path}: {why}")]
    Unreadable { path: String, why: String },
    #[error("the journal does not fit the batch: {0}")]
    Fold(#[from] FoldError),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(transparent)]
    Disk(#[from] BusError),
}

impl LoadError {
    /// Whether a newer wk wrote it: then it is whole, and nothing to repair.
    pub fn is_newer(&self) -> bool {
        matches!(
            self,
            LoadError::Version(VersionError::Newer { .. }) | LoadError::Journal(JournalError::Newer { .. })
        )
    }
}

pub(super) fn fold(batch: Batch, entries: &[Entry]) -> Result<BatchState, FoldError> {
    let mut state = BatchState::new(Arc::new(batch));
    for entry in entries {
        state.apply(entry)?;
    }
    Ok(state)
}

/// What may not have been done yet: the effects of the last durable turn, and every spec that should be out,
/// because a loss of power may have taken it.
pub(super) fn owed_after(state: &BatchState, entries: &[Entry]) -> Vec<Event> {
    let Some(last) = entries.last() else { return Vec::new() };
    let begin = entries.iter().rposition(|entry| entry.turn != last.turn).map_or(0, |at| at + 1);
    let last_turn: Vec<Event> = entries[begin..].iter().map(|entry| entry.event.clone()).collect();
    if state.finished.is_some() {
        return last_turn;
    }
    let offered = state.live.iter().filter_map(|ix| {
        let (task, state_of) = (state.key(*ix).clone(), &state.tasks[*ix]);
        match (&state_of.phase, &state_of.spec.crew) {
            (Phase::Offered { attempt, .. }, _) => Some(Event::Offered { task, attempt: *attempt }),
            // Launched again, it begins only if it never did.
            (Phase::Running { attempt, .. }, Some(crew)) => Some(Event::Launched {
                task,
                attempt: *attempt,
                agent: crew.agent.clone(),
                launcher: crew.launcher.clone(),
            }),
            _ => None,
        }
    });
    let works = state.handoff.iter().flat_map(|handoff| {
        let preparing = handoff.preparing.then_some(Event::Preparing);
        preparing.into_iter().chain(handoff.merging.map(|round| Event::Merging { round }))
    });
    let mut owed: Vec<Event> = offered.chain(works).filter(|event| !last_turn.contains(event)).collect();
    owed.extend(last_turn);
    owed
}

/// Reads `batch.json`.
pub fn read_batch(disk: &impl Disk, paths: &BatchPaths) -> Result<Batch, LoadError> {
    read_hashed(disk, paths).map(|(batch, _)| batch)
}

pub(super) fn read_hashed(disk: &impl Disk, paths: &BatchPaths) -> Result<(Batch, String), LoadError> {
    let path = paths.batch();
    let unreadable = |why: String| LoadError::Unreadable { path: path.display().to_string(), why };
    match disk.read(&path, PLAN_BYTES_MAX * 4).map_err(BusError::of("read", &path))? {
        Content::Bytes { bytes, .. } => {
            version::check_batch_bytes(paths, &bytes)?;
            let batch = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
            Ok((batch, bus::sha256(&bytes)))
        }
        _ => Err(unreadable("there is no such file".to_owned())),
    }
}

/// A `batch.json` that somebody put into its place says nothing about the batch.
pub(super) fn check_named(paths: &BatchPaths, entries: &[Entry], sha256: &str) -> Result<(), LoadError> {
    match entries.first().map(|entry| &entry.event) {
        Some(Event::Accepted { batch_sha256: Some(named), .. }) if named != sha256 => {
            let why = "is another file than the one that the journal names; bring that one back";
            Err(LoadError::Unreadable { path: paths.batch().display().to_string(), why: why.to_owned() })
        }
        _ => Ok(()),
    }
}

/// A batch's state and its journal, for faces that only read.
pub fn read_state(disk: &impl Disk, paths: &BatchPaths) -> Result<(BatchState, Vec<Entry>), LoadError> {
    let (batch, sha256) = read_hashed(disk, paths)?;
    let entries = bus::journal::read(disk, &paths.journal())?;
    check_named(paths, &entries, &sha256)?;
    Ok((fold(batch, &entries)?, entries))
}
