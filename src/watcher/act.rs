//! The effects of decisions. Each is idempotent: performed again after a crash, it changes nothing more.

use std::collections::HashMap;
use std::path::Path;

use super::look::identity_of;
use super::set_aside::{close_outbox, keep_late, put_unfinished_result_away, tell_agent};
use super::{Context, TurnError};
use crate::agent::veil::Veil;
use crate::bus::disk::{BusError, is_absent, rename_if_present};
use crate::bus::layout::{AttemptPaths, BatchPaths};
use crate::bus::{self, Content, Disk, Durability, NodeKind};
use crate::decide::Now;
use crate::format::{heartbeat, result, spec};
use crate::model::agent::PROCESS;
use crate::model::event::Event;
use crate::model::state::{BatchState, TaskIx, TaskState};
use crate::model::{Attempt, Claim, Defect, Place, Reason, TaskKey, Tick, WallTime};
use crate::outcome::aggregate;
use crate::view::snapshot::{Live, Snapshot};

/// What performing an event showed.
#[derive(Debug)]
pub enum Performed {
    Done,
    /// Why an agent could not be started.
    NotStarted(String),
    /// A record of how the declared files were, named by its hash.
    Baseline(String),
}

/// Performs what one event means.
pub fn perform<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    event: &Event,
    now: Now,
) -> Result<Performed, TurnError> {
    let live = |task: &TaskKey, attempt: &Attempt| {
        let task = state.find_key(task).map(|ix| &state.tasks[ix]);
        task.filter(|task| task.live_attempt() == Some(*attempt))
    };
    match event {
        Event::Launched { task, attempt, .. } => {
            let Some(task) = live(task, attempt) else { return Ok(Performed::Done) };
            let failed = super::launch::launch(context, paths, state, task, *attempt, now)?;
            Ok(failed.map_or(Performed::Done, Performed::NotStarted))
        }
        Event::Offered { task, attempt } => {
            let Some(task) = state.find_key(task).map(|ix| &state.tasks[ix]) else {
                return Ok(Performed::Done);
            };
            let named = publish_offer(context, paths, state, task, *attempt, now)?;
            Ok(named.map_or(Performed::Done, Performed::Baseline))
        }
        event => perform_on_files(context, paths, state, event, now).map(|()| Performed::Done),
    }
}

fn perform_on_files<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    event: &Event,
    now: Now,
) -> Result<(), TurnError> {
    match event {
        Event::Ending { task, attempt, because } => {
            super::launch::ask_to_stop(context, (paths, state), (task, *attempt), because, now)
        }
        Event::Joined { task } => keep_dropped_spec(context, paths, &task.key),
        Event::SpecRefused { task, sha256, defects } => {
            super::objections::refuse_spec(context, &paths.spec(task), sha256, defects, now)
        }
        Event::ResultRefused { task, attempt, sha256, defects } => {
            tell_agent(context, paths, (task, *attempt), sha256, defects, now)
        }
        Event::Succeeded { task, attempt } | Event::AttemptFailed { task, attempt, .. } => {
            put_away(context, paths, state, (task, *attempt), event, now)
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
        | Event::Offered { .. }
        | Event::Launched { .. }
        | Event::Begun { .. }
        | Event::Exited { .. }
        | Event::Unconfirmed { .. }
        | Event::RetryAsked { .. }
        | Event::PauseAsked { .. }
        | Event::ResumeAsked { .. }
        | Event::Reopened { .. }
        | Event::ResolveAsked { .. }
        | Event::OutOfTime { .. }
        | Event::Resumed { .. }
        | Event::Started { .. }
        | Event::Baselined { .. }
        | Event::Collected { .. }
        | Event::Abandoned { .. }
        | Event::SelfSuspected { .. }
        | Event::CancelAsked { .. } => Ok(()),
    }
}

/// Puts away what an attempt that is over left among the tasks, and closes its outbox.
fn put_away<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    (task, attempt): (&TaskKey, Attempt),
    event: &Event,
    now: Now,
) -> Result<(), TurnError> {
    let has_succeeded = matches!(event, Event::Succeeded { .. });
    let is_plain = |task: &TaskState| task.is_ours() && task.refusal.is_none();
    let known = state.find_key(task).map(|ix| &state.tasks[ix]);
    if has_succeeded && known.is_some_and(is_plain) {
        super::launch::take_record(context, paths, task, attempt)?;
    } else {
        clear_away(context, paths, task, attempt, now)?;
    }
    if !has_succeeded {
        super::launch::end_unconfirmed(context, (paths, state), (task, attempt));
        put_unfinished_result_away(context, paths, task, attempt, now)?;
    }
    close_outbox(context, paths, state, (task, attempt), now)
}

/// A spec with what the watcher adds to it: its paths, and the story of earlier attempts.
const RENDERED_BYTES_MAX: u64 = bus::SPEC_BYTES_MAX * 4;

/// Publishes an attempt's spec, with an empty heartbeat file beside it and our own copy in its folder. Returns the
/// hash of the baseline, where one was taken.
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
) -> Result<Option<String>, TurnError> {
    let disk = context.disk;
    let key = &task.spec.key;
    let folder = paths.attempt(key, attempt);
    let mut baseline = None;
    let was_begun = exists(context, &folder.spec())?;
    let bytes = render_spec(paths, state, task, attempt);
    if !was_begun {
        disk.make_dirs(folder.dir()).map_err(BusError::of("make", folder.dir()))?;
        if let Some(previous) = task.tries.iter().rev().find(|one| one.attempt < attempt) {
            // A given-up agent may have beaten since: that is not a beat of this attempt.
            clear_away(context, paths, key, previous.attempt, now)?;
        }
        super::launch::make_folder(context, paths.outbox(key, attempt).dir(), 3, now)?;
        baseline = super::declared::take_baseline(context, &folder, task, attempt)?;
        publish(context, &folder.unpublished_spec(), &bytes, Durability::Unsynced)?;
        // Our own copy marks the beginning: nothing that an agent does for this attempt is older.
        publish(context, &folder.spec(), &bytes, Durability::Unsynced)?;
    }
    if was_begun && task.baseline.is_none() {
        // A watcher died before it could name it.
        baseline = super::declared::baseline_of(context, &folder)?;
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
        && (is_torn(context, &paths.spec(key))? || !shows_work(context, paths, &folder, key, attempt)?)
    {
        // A loss of power can undo a rename or empty a file that was not synced. A spec of 0.1.0 names no outbox.
        super::launch::make_folder(context, paths.outbox(key, attempt).dir(), 3, now)?;
        make_way(context, &paths.spec(key), now)?;
        publish(context, &paths.spec(key), &bytes, Durability::Unsynced)?;
    }
    Ok(baseline)
}

/// Whether a spec that stands there can be read by nobody. An agent that took its task may have removed the spec; a torn
/// one is what a loss of power left, and a given-up agent that beats on would hide that for good.
fn is_torn<D: Disk>(context: &Context<'_, D>, path: &Path) -> Result<bool, TurnError> {
    let content = context.disk.read(path, RENDERED_BYTES_MAX).map_err(BusError::of("read", path))?;
    Ok(matches!(content, Content::Bytes { bytes, .. } if crate::format::json::parse(&bytes).is_err()))
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
    let outbox = paths.outbox(key, attempt);
    let (heartbeat, result) = (outbox.heartbeat(), outbox.result());
    let spec_paths = spec::SpecPaths {
        outbox: &outbox.dir().to_string_lossy(),
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
    let outbox = paths.outbox(key, attempt);
    let beats_in = |path: &Path| -> Result<bool, TurnError> {
        let content =
            context.disk.read(path, bus::HEARTBEAT_BYTES_MAX).map_err(BusError::of("read", path))?;
        Ok(match &content {
            // One that was given up may beat on: that says nothing about this attempt.
            Content::Bytes { bytes, .. } => {
                heartbeat::read(bytes).is_ok_and(|beat| beat.attempt.is_none_or(|said| said == attempt))
            }
            _ => false,
        })
    };
    // An empty result is what a loss of power leaves of one: nobody can go on from it.
    let holds_bytes = |path: &Path| -> Result<bool, TurnError> {
        let look = context.disk.look(path).map_err(BusError::of("look at", path))?;
        Ok(look.is_some_and(|look| look.size > 0))
    };
    Ok(beats_in(&outbox.heartbeat())?
        || beats_in(&paths.heartbeat(key))?
        || holds_bytes(&outbox.result())?
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
    let workspace = state.batch.handoff.as_ref().map(|handoff| handoff.workspace.clone());
    let root = workspace.unwrap_or_else(|| paths.root().to_string_lossy().into_owned());
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
            claims.insert(ix, veil.claim(claim.with_plain_files(&root)));
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

/// Makes a directory of the watcher's own. What else stands there is put aside: a link would lead elsewhere.
pub(super) fn make_directory<D: Disk>(
    context: &Context<'_, D>,
    dir: &Path,
    now: Now,
) -> Result<(), TurnError> {
    use std::io::ErrorKind::{AlreadyExists, NotADirectory};
    let is_ours = match context.disk.make_dirs(dir) {
        Ok(()) => {
            let look = context.disk.look(dir).map_err(BusError::of("look at", dir))?;
            look.is_some_and(|look| look.kind == NodeKind::Directory)
        }
        Err(error) if matches!(error.kind(), AlreadyExists | NotADirectory) => false,
        Err(error) => return Err(BusError::of("make", dir)(error).into()),
    };
    if is_ours {
        return Ok(());
    }
    put_aside(context, dir, now)?;
    disk_make(context, dir)
}

fn disk_make<D: Disk>(context: &Context<'_, D>, dir: &Path) -> Result<(), TurnError> {
    Ok(context.disk.make_dirs(dir).map_err(BusError::of("make", dir))?)
}
