//! What becomes of results that do not count: refused ones, late ones, and what an attempt that is over left in its
//! outbox. Nothing is deleted.

use super::act::{exists, holds, make_directory, make_way, move_away, publish};
use super::{Context, TurnError};
use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::bus::{self, Content, Disk, Durability};
use crate::decide::Now;
use crate::format::result;
use crate::model::event::LateBecause;
use crate::model::state::BatchState;
use crate::model::{Attempt, Defect, TaskKey};

/// Moves a refused result aside and leaves the reason where the agent looks.
pub(super) fn tell_agent<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    (key, attempt): (&TaskKey, Attempt),
    sha256: &str,
    defects: &[Defect],
    now: Now,
) -> Result<(), TurnError> {
    let outbox = paths.outbox(key, attempt);
    let is_own = holds(context, &outbox.result(), bus::RESULT_BYTES_MAX, sha256)?;
    let path = if is_own { outbox.result() } else { paths.result(key) };
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
    let own = exists(context, outbox.dir())?.then(|| outbox.result_error());
    for error in [paths.result_error(key)].into_iter().chain(own) {
        make_way(context, &error, now)?;
        publish(context, &error, &bytes, Durability::Unsynced)?;
    }
    Ok(())
}

/// A drop box that does not hold a result goes with its attempt; one that does is late, and decided next.
pub(super) fn put_unfinished_result_away<D: Disk>(
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

/// Closes the outbox of an attempt that is over: whoever still writes there is told so by an error, and can no longer
/// be mistaken for a later attempt. What came in before is kept in the attempt's folder.
pub(super) fn close_outbox<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    (key, attempt): (&TaskKey, Attempt),
    now: Now,
) -> Result<(), TurnError> {
    let closed = paths.attempt(key, attempt).outbox();
    move_away(context, paths.outbox(key, attempt).dir(), closed.dir(), now)?;
    if state.finished.is_none() {
        // A result that came after the last look is found and told in the next turn.
        return Ok(());
    }
    let path = closed.result();
    let content = context.disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    match content {
        Content::Bytes { bytes, .. } if !bytes.is_empty() => {
            keep_late(context, paths, state, key, (&bus::sha256(&bytes), &LateBecause::Settled), now)
        }
        _ => Ok(()),
    }
}

/// Keeps a late result with the reason beside it.
pub(super) fn keep_late<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    key: &TaskKey,
    (sha256, because): (&str, &LateBecause),
    now: Now,
) -> Result<(), TurnError> {
    let short: String = sha256.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    let target = paths.late_result(key, &short);
    make_directory(context, &paths.late(), now)?;
    let task = state.find_key(key).map(|ix| &state.tasks[ix]);
    let attempts = task.map(|task| task.tries.as_slice()).unwrap_or_default();
    // The same bytes may also be the result that counts: that one stays where it is.
    let counts = task.and_then(|task| task.collected.as_ref()).map(|collected| collected.attempt);
    let taken = attempts.iter().map(|one| one.attempt).filter(|attempt| Some(*attempt) != counts);
    // And that one may not be judged yet, where its agent lives.
    let taken = taken.filter(|_| *because != LateBecause::NotTheFirst);
    let taken = taken.map(|attempt| paths.attempt(key, attempt).result());
    let outboxes = attempts.iter().rev().flat_map(|one| {
        let closed = paths.attempt(key, one.attempt).outbox().result();
        [paths.outbox(key, one.attempt).result(), closed]
    });
    for place in std::iter::once(paths.result(key)).chain(outboxes).chain(taken) {
        if holds(context, &place, bus::RESULT_BYTES_MAX, sha256)? {
            let mut reason = serde_json::to_vec_pretty(because).expect("a reason has only string keys");
            reason.push(b'\n');
            publish(context, &bus::layout::reason_beside(&target), &reason, Durability::Unsynced)?;
            return move_away(context, &place, &target, now);
        }
    }
    Ok(())
}
