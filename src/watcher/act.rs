//! The effects of decisions. Each is idempotent: performed again after a crash, it changes nothing more.

use std::collections::HashMap;
use std::path::Path;

use super::look::identity_of;
use super::{Context, TurnError};
use crate::bus::disk::{BusError, rename_if_present};
use crate::bus::layout::{AttemptPaths, BatchPaths};
use crate::bus::{self, Content, Disk, Durability};
use crate::decide::Now;
use crate::format::{result, spec};
use crate::model::event::{Event, LateBecause};
use crate::model::state::{BatchState, TaskIx, TaskState};
use crate::model::{Attempt, Claim, Defect, Place, TaskKey, Tick, WallTime};
use crate::outcome::aggregate;
use crate::verify;
use crate::view::snapshot::{Live, Snapshot};

/// Performs what one event means.
pub fn perform<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    event: &Event,
    now: Now,
) -> Result<(), TurnError> {
    let task_of = |key: &TaskKey| state.find_key(key).map(|ix| &state.tasks[ix]);
    match event {
        Event::Offered { task, attempt } => {
            let Some(task) = task_of(task) else { return Ok(()) };
            publish_offer(context, paths, state, task, *attempt)
        }
        Event::Joined { task } => keep_dropped_spec(context, paths, &task.key),
        Event::SpecRefused { task, sha256, defects } => {
            let path = paths.spec(task);
            if holds(context, &path, bus::SPEC_BYTES_MAX, sha256)? {
                bus::quarantine::refuse(context.disk, context.layout, &path, defects, now.wall)?;
            }
            Ok(())
        }
        Event::ResultRefused { task, sha256, defects, .. } => {
            tell_agent(context, paths, task, sha256, defects, now)
        }
        Event::Succeeded { task, attempt } => clear_away(context, paths, task, *attempt),
        Event::AttemptFailed { task, attempt, .. } => {
            clear_away(context, paths, task, *attempt)?;
            put_unfinished_result_away(context, paths, task, *attempt)
        }
        Event::Late { task, sha256, because, .. } => keep_late(context, paths, state, task, sha256, because),
        Event::Finished { .. } => conclude(context, paths, state),
        Event::Accepted { .. }
        | Event::Resumed { .. }
        | Event::Started { .. }
        | Event::Collected { .. }
        | Event::Abandoned { .. }
        | Event::SelfSuspected { .. }
        | Event::CancelAsked { .. } => Ok(()),
    }
}

/// Publishes an attempt's spec, with an empty heartbeat file beside it and our own copy in its folder.
///
/// The last step is one rename out of the attempt's folder: afterwards it can be told for certain whether
/// the spec was published, whatever agents, given-up ones too, have done to the published files since.
fn publish_offer<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    task: &TaskState,
    attempt: Attempt,
) -> Result<(), TurnError> {
    let disk = context.disk;
    let key = &task.spec.key;
    let folder = paths.attempt(key, attempt);
    let was_begun = exists(context, &folder.spec())?;
    let bytes = render_spec(paths, state, task, attempt);
    if !was_begun {
        disk.make_dirs(folder.dir()).map_err(BusError::of("make", folder.dir()))?;
        if let Some(previous) = task.tries.iter().rev().find(|one| one.attempt < attempt) {
            // A given-up agent may have beaten since: that is not a beat of this attempt.
            clear_away(context, paths, key, previous.attempt)?;
        }
        if !task.spec.files_modified.is_empty() && !exists(context, &folder.before())? {
            let scope = verify::record_scope(disk, context.layout.root(), &task.spec);
            publish(context, &folder.before(), &scope.to_bytes(), Durability::Unsynced)?;
        }
        publish(context, &folder.unpublished_spec(), &bytes, Durability::Unsynced)?;
        publish(context, &folder.spec(), &bytes, Durability::Unsynced)?;
    }
    if exists(context, &folder.unpublished_spec())? {
        let heartbeat = paths.heartbeat(key);
        disk.create_empty(&heartbeat).map_err(BusError::of("create", &heartbeat))?;
        return move_away(context, &folder.unpublished_spec(), &paths.spec(key));
    }
    if was_begun && !shows_work(context, paths, &folder, key, attempt)? {
        // A loss of power can take back any rename that was not synced.
        publish(context, &paths.spec(key), &bytes, Durability::Unsynced)?;
    }
    Ok(())
}

fn render_spec(paths: &BatchPaths, state: &BatchState, task: &TaskState, attempt: Attempt) -> Vec<u8> {
    let key = &task.spec.key;
    let previous: Vec<_> = task
        .tries
        .iter()
        .filter(|one| one.attempt < attempt)
        .filter_map(|one| Some((one.attempt, one.failed_because.clone()?)))
        .collect();
    let offered_at = task.tries.iter().find(|one| one.attempt == attempt).map(|one| one.offered_at);
    let (heartbeat, result) = (paths.heartbeat(key), paths.result(key));
    let spec_paths = spec::SpecPaths {
        heartbeat_file: &heartbeat.to_string_lossy(),
        result_file: &result.to_string_lossy(),
    };
    spec::render(&task.spec, &state.batch.id, attempt, offered_at.unwrap_or_default(), spec_paths, &previous)
}

/// Whether somebody has taken up an attempt: then its spec may have been removed on purpose.
fn shows_work<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    folder: &AttemptPaths,
    key: &TaskKey,
    attempt: Attempt,
) -> Result<bool, TurnError> {
    let heartbeat = paths.heartbeat(key);
    let look = context.disk.look(&heartbeat).map_err(BusError::of("look at", &heartbeat))?;
    Ok(look.is_some_and(|look| look.size > 0)
        || exists(context, &paths.result(key))?
        || exists(context, &folder.result())?
        || exists(context, &paths.take(key, attempt))?)
}

/// Keeps a dropped spec as it was given; the batch publishes its own when the task may begin.
fn keep_dropped_spec<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    key: &TaskKey,
) -> Result<(), TurnError> {
    let folder = paths.attempt(key, Attempt::FIRST);
    disk_make(context, folder.dir())?;
    if !exists(context, &folder.dropped_spec())? {
        move_away(context, &paths.spec(key), &folder.dropped_spec())?;
    }
    Ok(())
}

/// Moves a refused result aside and leaves the reason where the agent looks.
fn tell_agent<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    key: &TaskKey,
    sha256: &str,
    defects: &[Defect],
    now: Now,
) -> Result<(), TurnError> {
    // First away with it: an agent that reads the reason may write a corrected one at once.
    let path = paths.result(key);
    if holds(context, &path, bus::RESULT_BYTES_MAX, sha256)? {
        bus::quarantine::refuse(context.disk, context.layout, &path, defects, now.wall)?;
    }
    let bytes = bus::quarantine::reason_bytes(context.layout, &path, defects, now.wall);
    publish(context, &paths.result_error(key), &bytes, Durability::Unsynced)
}

/// Moves what an ended attempt left in the batch's directory into its folder.
fn clear_away<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Attempt,
) -> Result<(), TurnError> {
    let folder = paths.attempt(key, attempt);
    move_away(context, &paths.spec(key), &folder.withdrawn_spec())?;
    move_away(context, &paths.heartbeat(key), &folder.heartbeat())?;
    move_away(context, &paths.take(key, attempt), &folder.take())?;
    move_away(context, &paths.result_error(key), &folder.result_error())
}

/// A drop box that does not hold a result goes with its attempt; one that does is late, and decided next.
fn put_unfinished_result_away<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Attempt,
) -> Result<(), TurnError> {
    let path = paths.result(key);
    let content = context.disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let is_result = matches!(&content, Content::Bytes { bytes, .. } if result::read(bytes).is_ok());
    if is_result || matches!(content, Content::Absent) {
        return Ok(());
    }
    move_away(context, &path, &paths.attempt(key, attempt).unfinished_result())
}

/// Keeps a late result with the reason beside it.
fn keep_late<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    key: &TaskKey,
    sha256: &str,
    because: &LateBecause,
) -> Result<(), TurnError> {
    let short: String = sha256.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    let target = paths.late_result(key, &short);
    if exists(context, &target)? {
        // Sent once more: left in the drop box it would be late again at every look.
        return match holds(context, &paths.result(key), bus::RESULT_BYTES_MAX, sha256)? {
            true => move_away(context, &paths.result(key), &target),
            false => Ok(()),
        };
    }
    disk_make(context, &paths.late())?;
    let attempts = state.find_key(key).map(|ix| state.tasks[ix].tries.as_slice()).unwrap_or_default();
    let collected = attempts.iter().map(|one| paths.attempt(key, one.attempt).result());
    for place in std::iter::once(paths.result(key)).chain(collected) {
        if holds(context, &place, bus::RESULT_BYTES_MAX, sha256)? {
            let mut reason = serde_json::to_vec_pretty(because).expect("a reason has only string keys");
            reason.push(b'\n');
            publish(context, &bus::layout::reason_beside(&target), &reason, Durability::Unsynced)?;
            return move_away(context, &place, &target);
        }
    }
    Ok(())
}

/// Writes the batch's result and archives its directory by one rename.
fn conclude<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
) -> Result<(), TurnError> {
    let id = &state.batch.id;
    let claims = collected_claims(context.disk, paths, state)?;
    let bytes = aggregate::canonical_bytes(state, &claims);
    publish(context, &context.layout.batch_result(id), &bytes, Durability::Synced)?;
    let ended_at = state.finished.map_or(WallTime::default(), |(_, at)| at);
    let last = Snapshot::of(state, &Live::default(), Tick(0), ended_at);
    publish(context, &paths.status(), &last.status_json(), Durability::Unsynced)?;
    super::sweep_temporary(context.disk, paths.dir());
    let archive = context.layout.archived(id);
    context.disk.move_tree(paths.dir(), archive.dir()).map_err(BusError::of("archive", paths.dir()))?;
    Ok(())
}

/// What the collected results say, read back from the files that the journal names by hash.
pub fn collected_claims<D: Disk>(
    disk: &D,
    paths: &BatchPaths,
    state: &BatchState,
) -> Result<HashMap<TaskIx, Claim>, TurnError> {
    let mut claims = HashMap::new();
    for (ix, task) in state.tasks.iter().enumerate() {
        let Some(collected) = &task.collected else { continue };
        let path = paths.attempt(&task.spec.key, collected.attempt).result();
        let content = disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
        let Content::Bytes { bytes, .. } = content else { continue };
        if bus::sha256(&bytes) != collected.sha256 {
            log::error!("{}: not the bytes that were collected", path.display());
            continue;
        }
        if let Ok(claim) = result::read(&bytes) {
            claims.insert(ix, claim);
        }
    }
    Ok(claims)
}

fn exists<D: Disk>(context: &Context<'_, D>, path: &Path) -> Result<bool, TurnError> {
    Ok(context.disk.look(path).map_err(BusError::of("look at", path))?.is_some())
}

/// Whether the file is still the one that was decided about.
fn holds<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    limit: u64,
    identity: &str,
) -> Result<bool, TurnError> {
    let content = context.disk.read(path, limit).map_err(BusError::of("read", path))?;
    Ok(!matches!(content, Content::Absent) && identity_of(&content) == identity)
}

fn publish<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), TurnError> {
    match context.disk.publish(path, bytes, durability) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => {
            let message = "a directory stands where a file of the bus belongs";
            let defect = Defect::new("in_the_way", Place::File, message, "leave the names of the bus to it");
            bus::quarantine::refuse(context.disk, context.layout, path, &[defect], WallTime::default())?;
            Ok(context.disk.publish(path, bytes, durability).map_err(BusError::of("publish", path))?)
        }
        Err(error) => Err(BusError::of("publish", path)(error).into()),
    }
}

fn move_away<D: Disk>(context: &Context<'_, D>, from: &Path, to: &Path) -> Result<(), TurnError> {
    rename_if_present(context.disk, from, to, Durability::Unsynced).map_err(BusError::of("move", from))?;
    Ok(())
}

fn disk_make<D: Disk>(context: &Context<'_, D>, dir: &Path) -> Result<(), TurnError> {
    Ok(context.disk.make_dirs(dir).map_err(BusError::of("make", dir))?)
}
