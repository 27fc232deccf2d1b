//! Results become claims: read strictly, for the right task, and without secrets.

use std::path::Path;

use super::kept::Kept;
use super::launch::mark_of;
use super::{Context, TurnError};
use crate::bus::Disk;
use crate::bus::disk::{BusError, Durability};
use crate::format::result;
use crate::model::state::TaskIx;
use crate::model::{Attempt, Claim, Defect};

/// Larger results have a synced file of their own; smaller ones ride in the journal.
const INLINE_BYTES_MAX: usize = 2 << 10;

/// Reads a claim without its secrets, and refuses one that speaks for another task, or for another attempt than the
/// one in whose outbox it lies.
pub(super) fn read_claim<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    of: (TaskIx, Option<Attempt>),
    bytes: &[u8],
) -> Result<Claim, Vec<Defect>> {
    let (root, veil) = (context.layout.root(), context.veil);
    read_own(kept, root, of, bytes).map(|claim| veil.claim(claim)).map_err(|defects| veil.defects(defects))
}

fn read_own(
    kept: &Kept,
    root: &Path,
    (task, outbox_of): (TaskIx, Option<Attempt>),
    bytes: &[u8],
) -> Result<Claim, Vec<Defect>> {
    let claim = result::read(bytes)?;
    refuse_foreign(kept, root, task, &claim)?;
    let spec = &kept.state.tasks[task].spec;
    if spec.answers_to(&claim.task_id) {
        return match (claim.attempt, outbox_of) {
            (Some(said), Some(own)) if said != own => {
                let message = format!("is {said}, but this is the outbox of attempt {own}");
                let remedy =
                    format!("write \"attempt\": {own}, or write into the outbox of your own attempt");
                Err(vec![Defect::field("wrong_attempt", "attempt", message, remedy)])
            }
            // Whose outbox it is says whose result it is.
            (said, own) => Ok(Claim { attempt: said.or(own), ..claim }),
        };
    }
    let message = format!("is '{}', but this is the drop box of '{}'", claim.task_id, spec.task_id);
    Err(vec![Defect::field(
        "wrong_task",
        "task_id",
        message,
        format!("write \"task_id\": \"{}\"", spec.task_id),
    )])
}

/// A result that names a mark must name one of this batch: an agent that was started on a bus which has been removed
/// and made anew may still live, and know a task of the same name.
fn refuse_foreign(kept: &Kept, root: &Path, task: TaskIx, claim: &Claim) -> Result<(), Vec<Defect>> {
    let Some(mark) = &claim.mark else { return Ok(()) };
    let state = &kept.state.tasks[task];
    let attempts = state.tries.iter().map(|one| one.attempt).chain(state.live_attempt());
    if attempts.into_iter().any(|attempt| mark_of(root, &kept.state, state, attempt) == *mark) {
        return Ok(());
    }
    let message = "is not the mark of any attempt of this task: the agent was started on another bus";
    let remedy = "leave it out, or repeat the WK_MARK of the attempt that you speak for";
    Err(vec![Defect::field("foreign_mark", "wk_mark", message, remedy)])
}

/// A runner leaves its result unsynced: a small one goes into the journal, a large one, and one with secrets that
/// only its agent may write down, is made durable here.
pub(super) fn inline_of<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    path: &Path,
    bytes: &[u8],
) -> Result<Option<String>, TurnError> {
    if !kept.state.tasks[task].is_ours() {
        return Ok(None);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= INLINE_BYTES_MAX && context.veil.text(text) == text => {
            Ok(Some(text.to_owned()))
        }
        _ => {
            context.disk.publish(path, bytes, Durability::Synced).map_err(BusError::of("publish", path))?;
            Ok(None)
        }
    }
}
