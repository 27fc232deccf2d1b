//! The effects of decisions. Each is idempotent: performed again after a crash, it changes nothing more.

use std::collections::HashMap;
use std::path::Path;

use super::look::identity_of;
use super::{Context, TurnError};
use crate::agent::veil::Veil;
use crate::bus::disk::{BusError, is_absent, rename_if_present};
use crate::bus::layout::{AttemptPaths, BatchPaths};
use crate::bus::{self, Content, Disk, Durability, NodeKind};
use crate::decide::Now;
use crate::format::{heartbeat, result, spec};
use crate::model::agent::PROCESS;
use crate::model::event::{Event, LateBecause};
use crate::model::state::{BatchState, TaskIx, TaskState};
use crate::model::{Attempt, Claim, Defect, Place, Reason, TaskKey, Tick, WallTime};
use crate::outcome::aggregate;
use crate::verify;
use crate::view::snapshot::{Live, Snapshot};

/// Performs what one event means. `Some` says why an agent could not be started.
pub fn perform<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    event: &Event,
    now: Now,
) -> Result<Option<String>, TurnError> {
    if let Event::Launched { task, attempt, .. } = event {
        return match state.find_key(task).map(|ix| &state.tasks[ix]) {
            Some(task) if task.live_attempt() == Some(*attempt) => {
                super::launch::launch(context, paths, state, task, *attempt, now)
            }
            _ => Ok(None),
        };
    }
    perform_on_files(context, paths, state, event, now).map(|()| None)
}

fn perform_on_files<D: Disk>(
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
            publish_offer(context, paths, state, task, *attempt, now)
        }
        Event::Ending { task, attempt, because } => {
            super::launch::ask_to_stop(context, &paths.attempt(task, *attempt), because, now)
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
        Event::Succeeded { task, attempt }
            if task_of(task).is_some_and(|task| task.is_ours() && task.refusal.is_none()) =>
        {
            super::launch::take_record(context, paths, task, *attempt)
        }
        Event::Succeeded { task, attempt } => clear_away(context, paths, task, *attempt, now),
        Event::AttemptFailed { task, attempt, .. } => {
            clear_away(context, paths, task, *attempt, now)?;
            put_unfinished_result_away(context, paths, task, *attempt, now)
        }
        Event::Late { task, sha256, because, .. } => {
            keep_late(context, paths, state, task, (sha256, because), now)
        }
        Event::Preparing => super::work::prepare(context, paths, state),
        Event::Merging { round } => super::work::merge(context, paths, state, *round, now),
        // Also while conflicts wait for a person: the client is told.
        Event::Merged { round, .. } => {
            super::work::take_in(context, paths, &super::work::merge_round(*round));
            super::deliver::deliver_report(context, paths, state, now)
        }
        Event::Prepared { .. } | Event::NotPrepared { .. } => {
            super::work::take_in(context, paths, super::work::PREPARE);
            Ok(())
        }
        Event::Finished { .. } => conclude(context, paths, state, now),
        Event::Accepted { .. }
        | Event::Launched { .. }
        | Event::Exited { .. }
        | Event::Unconfirmed { .. }
        | Event::RetryAsked { .. }
        | Event::PauseAsked { .. }
        | Event::ResumeAsked { .. }
        | Event::Reopened { .. }
        | Event::ResolveAsked { .. }
        | Event::Resumed { .. }
        | Event::Started { .. }
        | Event::Collected { .. }
        | Event::Abandoned { .. }
        | Event::SelfSuspected { .. }
        | Event::CancelAsked { .. } => Ok(()),
    }
}

/// A spec with what the watcher adds to it: its paths, and the story of earlier attempts.
const RENDERED_BYTES_MAX: u64 = bus::SPEC_BYTES_MAX * 4;

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
    now: Now,
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
            clear_away(context, paths, key, previous.attempt, now)?;
        }
        if !task.spec.files_modified.is_empty() && !exists(context, &folder.before())? {
            let scope = verify::record_scope(disk, context.layout.root(), &task.spec);
            publish(context, &folder.before(), &scope.to_bytes(), Durability::Unsynced)?;
        }
        publish(context, &folder.unpublished_spec(), &bytes, Durability::Unsynced)?;
        // Our own copy marks the beginning: nothing that an agent does for this attempt is older.
        publish(context, &folder.spec(), &bytes, Durability::Unsynced)?;
    }
    // A loss of power may have emptied it: then it is published anew below.
    if holds(context, &folder.unpublished_spec(), RENDERED_BYTES_MAX, &bus::sha256(&bytes))? {
        let heartbeat = paths.heartbeat(key);
        make_way(context, &heartbeat, now)?;
        make_way(context, &paths.spec(key), now)?;
        disk.create_empty(&heartbeat).map_err(BusError::of("create", &heartbeat))?;
        move_away(context, &folder.unpublished_spec(), &paths.spec(key), now)?;
    }
    if was_begun
        && !holds(context, &paths.spec(key), RENDERED_BYTES_MAX, &bus::sha256(&bytes))?
        && !shows_work(context, paths, &folder, key, attempt)?
    {
        // A loss of power can undo a rename or empty a file that was not synced.
        make_way(context, &paths.spec(key), now)?;
        publish(context, &paths.spec(key), &bytes, Durability::Unsynced)?;
    }
    Ok(())
}

/// How the attempts before this one ended.
pub(super) fn previous_reasons(task: &TaskState, attempt: Attempt) -> Vec<(Attempt, Reason)> {
    let earlier = task.tries.iter().filter(|one| one.attempt < attempt);
    earlier.filter_map(|one| Some((one.attempt, one.failed_because.clone()?))).collect()
}

pub(super) fn render_spec(
    paths: &BatchPaths,
    state: &BatchState,
    task: &TaskState,
    attempt: Attempt,
) -> Vec<u8> {
    let key = &task.spec.key;
    let previous = previous_reasons(task, attempt);
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
    let content =
        context.disk.read(&heartbeat, bus::HEARTBEAT_BYTES_MAX).map_err(BusError::of("read", &heartbeat))?;
    let beats = match &content {
        // One that was given up may beat on: that says nothing about this attempt.
        Content::Bytes { bytes, .. } => {
            heartbeat::read(bytes).is_ok_and(|beat| beat.attempt.is_none_or(|said| said == attempt))
        }
        _ => false,
    };
    // An empty result is what a loss of power leaves of one: nobody can go on from it.
    let holds_bytes = |path: &Path| -> Result<bool, TurnError> {
        let look = context.disk.look(path).map_err(BusError::of("look at", path))?;
        Ok(look.is_some_and(|look| look.size > 0))
    };
    Ok(beats
        || holds_bytes(&paths.result(key))?
        || holds_bytes(&folder.result())?
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
        let from = paths.spec(key);
        rename_if_present(context.disk, &from, &folder.dropped_spec(), Durability::Synced)
            .map_err(BusError::of("move", &from))?;
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
    let path = paths.result(key);
    // First away with it: an agent that reads the error writes its next result at once, maybe in place.
    if holds(context, &path, bus::RESULT_BYTES_MAX, sha256)?
        && let Some(target) = bus::quarantine::refuse(context.disk, context.layout, &path, defects, now.wall)?
        && !holds(context, &target, bus::RESULT_BYTES_MAX, sha256)?
        && !exists(context, &path)?
    {
        // It was rewritten in that very moment: what lies there now was never refused.
        move_away(context, &target, &path, now)?;
        let reason = bus::layout::reason_beside(&target);
        return Ok(context.disk.remove_file(&reason).map_err(BusError::of("remove", &reason))?);
    }
    let bytes = bus::quarantine::reason_bytes(context.layout, &path, defects, now.wall);
    make_way(context, &paths.result_error(key), now)?;
    publish(context, &paths.result_error(key), &bytes, Durability::Unsynced)
}

/// Moves what an ended attempt left in the batch's directory into its folder.
pub(super) fn clear_away<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Attempt,
    now: Now,
) -> Result<(), TurnError> {
    let folder = paths.attempt(key, attempt);
    move_away(context, &paths.spec(key), &folder.withdrawn_spec(), now)?;
    move_away(context, &paths.heartbeat(key), &folder.heartbeat(), now)?;
    move_away(context, &paths.take(key, attempt), &folder.take(), now)?;
    move_away(context, &paths.exit(key, attempt), &folder.exit(), now)?;
    move_away(context, &paths.result_error(key), &folder.result_error(), now)
}

/// A drop box that does not hold a result goes with its attempt; one that does is late, and decided next.
fn put_unfinished_result_away<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Attempt,
    now: Now,
) -> Result<(), TurnError> {
    let path = paths.result(key);
    let content = context.disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let is_result = matches!(&content, Content::Bytes { bytes, .. } if result::read(bytes).is_ok());
    if is_result || matches!(content, Content::Absent) {
        return Ok(());
    }
    move_away(context, &path, &paths.attempt(key, attempt).unfinished_result(), now)
}

/// Keeps a late result with the reason beside it.
fn keep_late<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    key: &TaskKey,
    (sha256, because): (&str, &LateBecause),
    now: Now,
) -> Result<(), TurnError> {
    let short: String = sha256.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    let target = paths.late_result(key, &short);
    disk_make(context, &paths.late())?;
    let task = state.find_key(key).map(|ix| &state.tasks[ix]);
    let attempts = task.map(|task| task.tries.as_slice()).unwrap_or_default();
    // The same bytes may also be the result that counts: that one stays where it is.
    let counts = task.and_then(|task| task.collected.as_ref()).map(|collected| collected.attempt);
    let taken = attempts.iter().map(|one| one.attempt).filter(|attempt| Some(*attempt) != counts);
    // And that one may not be judged yet, where its agent lives.
    let taken = taken.filter(|_| *because != LateBecause::NotTheFirst);
    let taken = taken.map(|attempt| paths.attempt(key, attempt).result());
    for place in std::iter::once(paths.result(key)).chain(taken) {
        if holds(context, &place, bus::RESULT_BYTES_MAX, sha256)? {
            let mut reason = serde_json::to_vec_pretty(because).expect("a reason has only string keys");
            reason.push(b'\n');
            publish(context, &bus::layout::reason_beside(&target), &reason, Durability::Unsynced)?;
            return move_away(context, &place, &target, now);
        }
    }
    Ok(())
}

/// Writes the batch's result and archives its directory by one rename.
fn conclude<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    now: Now,
) -> Result<(), TurnError> {
    let id = &state.batch.id;
    let archive = context.layout.archived(id);
    if exists(context, &archive.journal())? && !exists(context, &paths.journal())? {
        // The move took effect although it said that it failed: there is nothing left here to read.
        return Ok(());
    }
    let claims = collected_claims(context.disk, paths, state, context.veil)?;
    let bytes = aggregate::canonical_bytes(state, &claims);
    let result = context.layout.batch_result(id);
    make_way(context, &result, now)?;
    publish(context, &result, &bytes, Durability::Synced)?;
    super::deliver::deliver_report(context, paths, state, now)?;
    let ended_at = state.finished.map_or(WallTime::default(), |(_, at)| at);
    let last = Snapshot::of(state, &Live::default(), Tick(0), ended_at);
    make_way(context, &paths.status(), now)?;
    publish(context, &paths.status(), &last.status_json(), Durability::Unsynced)?;
    clear_launched(context, paths, state)?;
    super::sweep_temporary(context.disk, paths.dir());
    context.disk.move_tree(paths.dir(), archive.dir()).map_err(BusError::of("archive", paths.dir()))?;
    Ok(())
}

/// The attempts of which a launcher may still keep something, by launcher.
fn launched_attempts<'a>(paths: &BatchPaths, state: &'a BatchState) -> HashMap<&'a str, Vec<AttemptPaths>> {
    let mut attempts: HashMap<&str, Vec<AttemptPaths>> = HashMap::new();
    for task in &state.tasks {
        let Some(crew) = task.spec.crew.as_ref().filter(|crew| crew.launcher != PROCESS) else { continue };
        let folders = task.tries.iter().map(|one| paths.attempt(&task.spec.key, one.attempt));
        attempts.entry(&crew.launcher).or_default().extend(folders);
    }
    attempts
}

/// Lets sessions go. Values that no runner has taken are secrets, which have no place in the archive.
fn clear_launched<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
) -> Result<(), TurnError> {
    for (launcher, attempts) in launched_attempts(paths, state) {
        for path in attempts.iter().map(AttemptPaths::environment) {
            match context.disk.remove_file(&path) {
                Err(error) if !is_absent(&error) => return Err(BusError::of("remove", &path)(error).into()),
                _ => {}
            }
        }
        if !context.settings.keep_sessions {
            context.runners.let_go(launcher, &attempts);
        }
    }
    Ok(())
}

/// What the collected results say, read back from the files that the journal names by hash.
pub fn collected_claims<D: Disk>(
    disk: &D,
    paths: &BatchPaths,
    state: &BatchState,
    veil: &Veil,
) -> Result<HashMap<TaskIx, Claim>, TurnError> {
    let mut claims = HashMap::new();
    for (ix, task) in state.tasks.iter().enumerate() {
        let Some(collected) = &task.collected else { continue };
        let path = paths.attempt(&task.spec.key, collected.attempt).result();
        // A small result rides in the journal itself: its file is for people, and may be lost with the power.
        let bytes = match &collected.inline {
            Some(inline) => inline.clone().into_bytes(),
            None => match disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))? {
                Content::Bytes { bytes, .. } => bytes,
                _ => continue,
            },
        };
        if bus::sha256(&bytes) != collected.sha256 {
            log::error!("{}: not the bytes that were collected", path.display());
            continue;
        }
        if let Ok(claim) = result::read(&bytes) {
            claims.insert(ix, veil.claim(claim));
        }
    }
    Ok(claims)
}

pub(super) fn exists<D: Disk>(context: &Context<'_, D>, path: &Path) -> Result<bool, TurnError> {
    Ok(context.disk.look(path).map_err(BusError::of("look at", path))?.is_some())
}

/// Whether the file is still the one that was decided about.
pub(super) fn holds<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    limit: u64,
    identity: &str,
) -> Result<bool, TurnError> {
    let content = context.disk.read(path, limit).map_err(BusError::of("read", path))?;
    Ok(!matches!(content, Content::Absent) && identity_of(&content) == identity)
}

pub(super) fn publish<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), TurnError> {
    Ok(context.disk.publish(path, bytes, durability).map_err(BusError::of("publish", path))?)
}

/// Moves a file into its attempt's folder; what does not fit there is refused.
pub(super) fn move_away<D: Disk>(
    context: &Context<'_, D>,
    from: &Path,
    to: &Path,
    now: Now,
) -> Result<(), TurnError> {
    use std::io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory};
    match rename_if_present(context.disk, from, to, Durability::Unsynced) {
        Ok(_) => Ok(()),
        Err(error)
            if matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | IsADirectory | NotADirectory) =>
        {
            put_aside(context, from, now)
        }
        Err(error) => Err(BusError::of("move", from)(error).into()),
    }
}

/// Clears a place that the watcher is about to write: only a plain file may stand there.
pub(super) fn make_way<D: Disk>(context: &Context<'_, D>, path: &Path, now: Now) -> Result<(), TurnError> {
    let look = context.disk.look(path).map_err(BusError::of("look at", path))?;
    match look {
        Some(look) if look.kind != NodeKind::File => put_aside(context, path, now),
        _ => Ok(()),
    }
}

pub(super) fn put_aside<D: Disk>(context: &Context<'_, D>, path: &Path, now: Now) -> Result<(), TurnError> {
    let message = "stands where the watcher keeps a file";
    let defect = Defect::new("in_the_way", Place::File, message, "write regular files only");
    bus::quarantine::refuse(context.disk, context.layout, path, &[defect], now.wall)?;
    Ok(())
}

fn disk_make<D: Disk>(context: &Context<'_, D>, dir: &Path) -> Result<(), TurnError> {
    Ok(context.disk.make_dirs(dir).map_err(BusError::of("make", dir))?)
}
