//! What a client of a handed-over batch finds in its workspace: the live status, a marker for each task, and in
//! the end the report. All of it can be made again from the journal.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::act::collected_claims;
use super::{Context, TurnError};
use crate::bus::layout::BatchPaths;
use crate::bus::{self, Content, Disk, Durability, NodeKind};
use crate::decide::Now;
use crate::model::WallTime;
use crate::model::state::BatchState;
use crate::model::workspace::{Marker, WorkspacePaths};
use crate::outcome::aggregate;
use crate::outcome::handoff::places::{Places, workspace_logs};
use crate::outcome::handoff::{report_bytes, standing, status_file};
use crate::view::snapshot::Live;

/// Writes the report. A workspace that is gone or cannot be written costs the client its copy, not the batch its
/// end: `wk report` tells the same.
pub(super) fn deliver_report<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    now: Now,
) -> Result<(), TurnError> {
    deliver_copies(context, paths, state)?;
    let (Some(places), Some(handoff)) = (Places::of(state), &state.batch.handoff) else { return Ok(()) };
    let claims = collected_claims(context.disk, paths, state, context.veil)?;
    let bytes = report_bytes(state, &claims, &workspace_logs(state), handoff.dialect);
    show_status(context.disk, state, &Live::default(), now.wall);
    let path = places.paths().report();
    if !is_own_directory(context.disk, places.paths().root()) {
        log::warn!(
            "{}: not a directory any more; `wk report {}` tells the report",
            handoff.workspace,
            state.batch.id
        );
        return Ok(());
    }
    // What a watcher that was killed has left half written.
    super::sweep_temporary(context.disk, places.paths().root());
    super::sweep_temporary(context.disk, &places.paths().markers());
    if let Err(error) = context.disk.publish(&path, &bytes, Durability::Synced) {
        log::warn!("{}: {error}; `wk report {}` tells the same", path.display(), state.batch.id);
    }
    Ok(())
}

/// Writes the report also where the caller of `wk run --output` wants it, whoever ends the batch: that caller may be gone.
fn deliver_copies<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
) -> Result<(), TurnError> {
    let Ok(Content::Bytes { bytes, .. }) = context.disk.read(&paths.deliveries(), bus::NOTE_BYTES_MAX) else {
        return Ok(());
    };
    let places: Vec<PathBuf> = serde_json::from_slice(&bytes).unwrap_or_default();
    let claims = collected_claims(context.disk, paths, state, context.veil)?;
    let report = match &state.batch.handoff {
        Some(handoff) => report_bytes(state, &claims, &workspace_logs(state), handoff.dialect),
        None => aggregate::canonical_bytes(state, &claims),
    };
    for place in places {
        if let Err(error) = context.disk.publish(&place, &report, Durability::Synced) {
            log::warn!("{}: {error}; `wk report {}` tells the same", place.display(), state.batch.id);
        }
    }
    Ok(())
}

/// Writes the live status and the markers. A failure changes no decision, and the next one mends it.
pub(super) fn show_status<D: Disk>(disk: &D, state: &BatchState, live: &Live, updated_at: WallTime) {
    let Some(places) = Places::of(state) else { return };
    if !is_own_directory(disk, places.paths().root()) {
        return;
    }
    let is_prepared = state.handoff.as_ref().is_some_and(|handoff| handoff.prepared.is_some());
    if !is_prepared && is_kept_for_another(disk, state, places.paths()) {
        return;
    }
    let status = places.paths().status();
    let bytes = status_file::status_bytes(state, live, updated_at);
    if let Err(error) = disk.publish(&status, &bytes, Durability::Unsynced) {
        log::debug!("{}: {error}", status.display());
    }
    if places.has_markers() && is_own_directory(disk, &places.paths().markers()) {
        show_markers(disk, &places, state);
    }
}

/// Whether the status of an earlier batch stands there that preparation is about to put aside.
fn is_kept_for_another<D: Disk>(disk: &D, state: &BatchState, paths: &WorkspacePaths) -> bool {
    match disk.read(&paths.status(), bus::RESULT_BYTES_MAX) {
        Ok(Content::Bytes { bytes, .. }) => {
            let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            status["execution_id"] != state.batch.id.as_str()
        }
        Ok(Content::Absent) => false,
        _ => true,
    }
}

/// Agents can write here too: a link in a directory's place is not followed.
fn is_own_directory<D: Disk>(disk: &D, dir: &Path) -> bool {
    matches!(disk.look(dir), Ok(Some(look)) if look.kind == NodeKind::Directory)
}

/// One marker becomes the other by a rename, so that a reader finds exactly one at any time.
fn show_markers<D: Disk>(disk: &D, places: &Places<'_>, state: &BatchState) {
    for (task, wanted) in standing::markers(state) {
        let path_of = |marker: Marker| places.paths().marker(&task, marker);
        let kind_of = |path: &Path| disk.look(path).ok().flatten().map(|look| look.kind);
        let mut is_shown = wanted.is_none_or(|marker| kind_of(&path_of(marker)).is_some());
        for other in Marker::ALL.into_iter().filter(|marker| Some(*marker) != wanted).map(path_of) {
            let _ = match (wanted, kind_of(&other)) {
                (_, None) => continue,
                (Some(marker), Some(NodeKind::File)) if !is_shown => {
                    is_shown = true;
                    disk.rename(&other, &path_of(marker), Durability::Unsynced)
                }
                (_, Some(_)) => disk.remove_file(&other),
            };
        }
        if let (false, Some(marker)) = (is_shown, wanted) {
            let _ = disk.publish(&path_of(marker), b"", Durability::Unsynced);
        }
    }
}
