//! The word that an undo leaves: beside the archived batch for every face, and in the report that its client reads.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::bus::{Content, Disk, Durability, NOTE_BYTES_MAX, RESULT_BYTES_MAX, RealDisk};
use crate::model::state::{BatchState, TaskIx};
use crate::model::{Claim, WallTime};
use crate::outcome::handoff::places::{Places, workspace_logs};
use crate::outcome::handoff::undone_report_bytes;

/// When the batch was undone, if it was.
pub fn undone_at(paths: &BatchPaths) -> Option<WallTime> {
    let note: Value = match RealDisk::default().read(&paths.undone(), NOTE_BYTES_MAX) {
        Ok(Content::Bytes { bytes, .. }) => serde_json::from_slice(&bytes).ok()?,
        _ => return None,
    };
    WallTime::parse(note["undone_at"].as_str()?)
}

/// Notes that the batch was undone. The first time stands.
pub fn note_undone(paths: &BatchPaths, at: WallTime) -> Result<WallTime, BusError> {
    if let Some(noted) = undone_at(paths) {
        return Ok(noted);
    }
    let path = paths.undone();
    let bytes = format!("{:#}\n", json!({"undone_at": at.rfc3339()}));
    let noted = RealDisk::default().publish(&path, bytes.as_bytes(), Durability::Synced);
    noted.map_err(BusError::of("publish", &path))?;
    Ok(at)
}

/// Says in the workspace's report that its batch was undone. One of a later batch is left as it is.
pub fn tell_client(
    state: &BatchState,
    claims: &HashMap<TaskIx, Claim>,
    at: WallTime,
) -> Result<(), BusError> {
    let (Some(places), Some(handoff)) = (Places::of(state), &state.batch.handoff) else { return Ok(()) };
    let (disk, path) = (RealDisk::default(), places.paths().report());
    let told: Value = match disk.read(&path, RESULT_BYTES_MAX).map_err(BusError::of("read", &path))? {
        Content::Bytes { bytes, .. } => serde_json::from_slice(&bytes).unwrap_or_default(),
        _ => return Ok(()),
    };
    if told["execution_id"] != state.batch.id.as_str() {
        return Ok(());
    }
    let bytes = undone_report_bytes(state, claims, &workspace_logs(state), handoff.dialect, at);
    disk.publish(&path, &bytes, Durability::Synced).map_err(BusError::of("publish", &path))
}
