//! The places where a task's results lie: the outbox of the attempt that is out, and the task's plain name for agents
//! that know no other. A result that lies in an outbox speaks for the attempt whose outbox it is.

use std::path::{Path, PathBuf};

use super::act::{exists, publish};
use super::claims::read_claim;
use super::kept::Kept;
use super::live_results::{look_at_live_box, note_leftover};
use super::look::{check, identity_of, note_odd, unchecked, unreadable};
use super::{Context, TurnError};
use crate::bus::disk::{BusError, Durability};
use crate::bus::layout::AttemptPaths;
use crate::bus::{self, Content, Disk};
use crate::decide::{Checked, Now, Observed, ResultSeen};
use crate::model::state::{Phase, TaskIx};
use crate::model::{Attempt, Claim, Seconds};

/// One place where a result may lie.
#[derive(Debug)]
pub(super) struct DropBox {
    pub(super) path: PathBuf,
    /// Whose outbox it is.
    pub(super) attempt: Option<Attempt>,
}

/// Every place where a result of the task may lie now, its own outbox first.
pub(super) fn boxes_of(kept: &Kept, task: TaskIx) -> Vec<DropBox> {
    let key = kept.state.key(task);
    let own = kept.state.tasks[task].live_attempt();
    let own =
        own.map(|attempt| DropBox { path: kept.paths.outbox(key, attempt).result(), attempt: Some(attempt) });
    own.into_iter().chain([DropBox { path: kept.paths.result(key), attempt: None }]).collect()
}

/// Looks into the box that an event or a listing named.
pub(super) fn look_at_box_of<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Option<Attempt>,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let named = boxes_of(kept, task).into_iter().find(|drop_box| drop_box.attempt == attempt);
    let Some(drop_box) = named else { return Ok(()) };
    // With an attempt of ours, its exit record says when its result is judged.
    match kept.state.tasks[task].awaits_exit() {
        true => look_at_live_box(kept, context, task, &drop_box, now, observed),
        false => look_at_box(kept, context, task, &drop_box, now, observed),
    }
}

/// Looks into the outbox of every attempt that is out.
pub(super) fn look_at_outboxes<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    for task in kept.state.live.iter().copied().collect::<Vec<TaskIx>>() {
        let Some(attempt) = kept.state.tasks[task].live_attempt() else { continue };
        let path = kept.paths.outbox(kept.state.key(task), attempt).result();
        if exists(context, &path)? {
            look_at_box_of(kept, context, task, Some(attempt), now, observed)?;
        }
    }
    Ok(())
}

/// Looks at what came into an outbox between the last look and the end of its attempt: it is late.
pub(super) fn look_at_closed<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    for (task, attempt) in kept.closed.clone() {
        let path = kept.paths.attempt(kept.state.key(task), attempt).outbox().result();
        note_leftover(context, task, (&path, Some(attempt)), false, observed)?;
    }
    Ok(())
}

/// Looks into every box of a task whose agent may write no more, or from which nothing more is awaited.
pub(super) fn look_at_result<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    for drop_box in boxes_of(kept, task) {
        look_at_box(kept, context, task, &drop_box, now, observed)?;
    }
    Ok(())
}

fn look_at_box<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    drop_box: &DropBox,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    if observed.results.iter().any(|seen| seen.task == task) {
        return Ok(());
    }
    let DropBox { path, attempt } = drop_box;
    let (content, has_writer) =
        context.disk.read_and_ask(path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", path))?;
    if matches!(content, Content::Absent) {
        kept.settling.forget(path);
        if attempt.is_none() {
            kept.held.remove(&task);
        }
        return Ok(());
    }
    if matches!(kept.state.tasks[task].phase, Phase::Waiting { .. } | Phase::Ready) {
        kept.held.insert(task);
        return Ok(());
    }
    // Where we know that no process of the agent is left, nobody is writing any more.
    let (has_writer, settle) = match kept.state.tasks[task].is_ours() {
        true => (None, Seconds(0.0)),
        false => (has_writer, context.settings.settle),
    };
    let identity = identity_of(&content);
    let content = match content {
        Content::Absent => return Ok(()),
        Content::Changing => {
            kept.settling.is_settled(path, None, None, now.clock, settle);
            return Ok(());
        }
        // Empty means: not yet written.
        Content::Bytes { bytes, .. } if bytes.is_empty() => return Ok(()),
        Content::Unreadable { why } => {
            note_odd(kept, path.file_name().unwrap_or_default(), &why);
            return Ok(());
        }
        Content::Bytes { bytes, look } => {
            let claim = read_claim(kept, context, (task, *attempt), &bytes);
            let is_settled = match &claim {
                Ok(_) if has_writer != Some(true) => true,
                Ok(_) => kept.settling.is_at_rest(path, look, now.clock, settle),
                Err(_) => kept.settling.is_settled(path, Some(look), has_writer, now.clock, settle),
            };
            if !is_settled {
                return Ok(());
            }
            claim
        }
        other => Err(vec![unreadable(&other, bus::RESULT_BYTES_MAX)]),
    };
    kept.settling.forget(path);
    let content = match content {
        Err(defects) => Err(defects),
        Ok(claim) => {
            kept.unexamined.push(task);
            let Some(checked) = collect(kept, context, task, claim, path)? else { return Ok(()) };
            Ok(checked)
        }
    };
    observed.results.push(ResultSeen { task, sha256: identity, content, inline: None });
    Ok(())
}

/// Takes the current attempt's result into its folder and looks at what it claims. A result for another
/// attempt stays where it is; `None` means that it vanished meanwhile.
fn collect<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    claim: Claim,
    from: &Path,
) -> Result<Option<Checked>, TurnError> {
    let state = &kept.state.tasks[task];
    let current = match state.phase {
        Phase::Offered { attempt, .. }
        | Phase::Running { attempt, .. }
        | Phase::Ending { attempt, .. }
        | Phase::Awaiting { attempt, .. }
            if claim.attempt.is_none_or(|said| said == attempt) =>
        {
            attempt
        }
        _ => return Ok(Some(unchecked(claim))),
    };
    let folder = kept.paths.attempt(&state.spec.key, current);
    let to = folder.result();
    note_unfenced(context, &folder, current, &claim)?;
    if !bus::disk::rename_if_present(context.disk, from, &to, Durability::Synced)
        .map_err(BusError::of("collect", from))?
    {
        return Ok(None);
    }
    Ok(Some(check(kept, context, task, current, claim)))
}

/// Says beside a result that its claim names no attempt: once it has left its box, nothing else tells that.
pub(super) fn note_unfenced<D: Disk>(
    context: &Context<'_, D>,
    folder: &AttemptPaths,
    attempt: Attempt,
    claim: &Claim,
) -> Result<(), TurnError> {
    if claim.attempt.is_some() || attempt == Attempt::FIRST {
        return Ok(());
    }
    publish(context, &folder.unfenced(), b"", Durability::Unsynced)
}
