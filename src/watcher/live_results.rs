//! What an agent of ours leaves in its drop box while it lives.
//!
//! Its first valid result is taken into the attempt's folder as soon as it is seen, and is judged with the exit
//! record. What is refused is refused while somebody can still correct it. Whatever else comes is too late.

use std::path::Path;

use super::act::{exists, holds, make_way, move_away, publish};
use super::boxes::{DropBox, boxes_of, note_unfenced};
use super::claims::read_claim;
use super::kept::Kept;
use super::look::{identity_of, note_odd, unchecked, unreadable};
use super::{Context, TurnError};
use crate::bus::disk::{BusError, rename_if_present};
use crate::bus::layout::AttemptPaths;
use crate::bus::{self, Content, Disk, Durability, NodeKind};
use crate::decide::{LeftoverSeen, Now, Observed, ResultSeen};
use crate::format::result;
use crate::model::state::{Phase, TaskIx};
use crate::model::{Attempt, Claim, Defect};

/// Looks into a box of an agent that lives. One that is being ended has its boxes looked at with its record.
pub(super) fn look_at_live_box<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    drop_box: &DropBox,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let Phase::Running { attempt, .. } = kept.state.tasks[task].phase else { return Ok(()) };
    let key = kept.state.key(task).clone();
    let path = &drop_box.path;
    let Some((content, identity)) = read_settled(kept, context, task, drop_box, now)? else { return Ok(()) };
    let folder = kept.paths.attempt(&key, attempt);
    if is_kept(context, &folder)? {
        let attempt = content.ok().and_then(|(claim, _)| claim.attempt);
        observed.leftovers.push(LeftoverSeen { task, sha256: identity, attempt, is_behind: true });
        return Ok(());
    }
    let content = match content {
        Ok((claim, bytes)) if claim.attempt.is_none_or(|said| said == attempt) => {
            note_unfenced(context, &folder, attempt, &claim)?;
            return keep(context, path, &folder, &bytes, now);
        }
        Ok((claim, _)) => Ok(unchecked(claim)),
        Err(defects) => Err(defects),
    };
    observed.results.push(ResultSeen { task, sha256: identity, content, inline: None });
    Ok(())
}

/// A settled drop box: a claim with its bytes, or what is wrong with it.
type Settled = (Result<(Claim, Vec<u8>), Vec<Defect>>, String);

fn read_settled<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    drop_box: &DropBox,
    now: Now,
) -> Result<Option<Settled>, TurnError> {
    let path = drop_box.path.as_path();
    let (content, has_writer) =
        context.disk.read_and_ask(path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", path))?;
    let settle = context.settings.settle;
    let identity = identity_of(&content);
    let content = match content {
        Content::Absent => {
            kept.settling.forget(path);
            return Ok(None);
        }
        Content::Changing => {
            kept.settling.is_settled(path, None, None, now.clock, settle);
            return Ok(None);
        }
        // Empty means: not yet written.
        Content::Bytes { bytes, .. } if bytes.is_empty() => return Ok(None),
        Content::Unreadable { why } => {
            note_odd(kept, path.file_name().unwrap_or_default(), &why);
            return Ok(None);
        }
        Content::Bytes { bytes, look } => {
            let claim = read_claim(kept, context, (task, drop_box.attempt), &bytes);
            let is_settled = match &claim {
                Ok(_) if has_writer != Some(true) => true,
                Ok(_) => kept.settling.is_at_rest(path, look, now.clock, settle),
                Err(_) => kept.settling.is_settled(path, Some(look), has_writer, now.clock, settle),
            };
            if !is_settled {
                return Ok(None);
            }
            claim.map(|claim| (claim, bytes))
        }
        other => Err(vec![unreadable(&other, bus::RESULT_BYTES_MAX)]),
    };
    kept.settling.forget(path);
    Ok(Some((content, identity)))
}

/// Whether the attempt's first valid result lies in its folder.
fn is_kept<D: Disk>(context: &Context<'_, D>, folder: &AttemptPaths) -> Result<bool, TurnError> {
    let path = folder.result();
    let look = context.disk.look(&path).map_err(BusError::of("look at", &path))?;
    Ok(look.is_some_and(|look| look.kind == NodeKind::File && look.size > 0))
}

/// Takes a result into its attempt's folder. It becomes durable before the journal names it, with the exit record:
/// a loss of power until then takes the agent too, and its attempt begins anew.
fn keep<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    folder: &AttemptPaths,
    bytes: &[u8],
    now: Now,
) -> Result<(), TurnError> {
    let target = folder.result();
    make_way(context, &target, now)?;
    let is_moved = rename_if_present(context.disk, path, &target, Durability::Unsynced)
        .map_err(BusError::of("collect", path))?;
    if is_moved {
        if holds(context, &target, bus::RESULT_BYTES_MAX, &bus::sha256(bytes))? {
            return Ok(());
        }
        // It was rewritten in that very moment: what was moved is not what was read.
        let place = match exists(context, path)? {
            true => folder.unfinished_result(),
            false => path.to_owned(),
        };
        move_away(context, &target, &place, now)?;
    } else if !exists(context, folder.dir())? {
        // The agent has removed its folder: then the drop box is the safest place.
        return Ok(());
    }
    publish(context, &target, bytes, Durability::Unsynced)
}

/// What lies in the boxes of an agent that has ended, behind the result that counts.
pub(super) fn look_at_leftover<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    for DropBox { path, attempt } in boxes_of(kept, task) {
        kept.settling.forget(&path);
        note_leftover(context, task, (&path, attempt), true, observed)?;
    }
    Ok(())
}

/// A result that was kept for an exit record that will never come.
pub(super) fn look_at_unjudged<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let path = kept.paths.attempt(kept.state.key(task), attempt).result();
    note_leftover(context, task, (&path, None), false, observed)
}

pub(super) fn note_leftover<D: Disk>(
    context: &Context<'_, D>,
    task: TaskIx,
    (path, outbox_of): (&Path, Option<Attempt>),
    is_behind: bool,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let content = context.disk.read(path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", path))?;
    let attempt = match &content {
        Content::Absent | Content::Changing | Content::Unreadable { .. } => return Ok(()),
        Content::Bytes { bytes, .. } if bytes.is_empty() => return Ok(()),
        Content::Bytes { bytes, .. } => result::read(bytes).ok().and_then(|claim| claim.attempt),
        _ => None,
    };
    let attempt = outbox_of.or(attempt);
    let sha256 = identity_of(&content);
    observed.leftovers.push(LeftoverSeen { task, sha256, attempt, is_behind });
    Ok(())
}
