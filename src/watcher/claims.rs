//! Results become claims: read strictly, for the right task, and without secrets.

use std::path::Path;

use super::kept::Kept;
use super::{Context, TurnError};
use crate::agent::veil::Veil;
use crate::bus::Disk;
use crate::bus::disk::{BusError, Durability};
use crate::format::result;
use crate::model::state::TaskIx;
use crate::model::{Claim, Defect};

/// Larger results have a synced file of their own; smaller ones ride in the journal.
const INLINE_BYTES_MAX: usize = 2 << 10;

/// Reads a claim without its secrets, and refuses one that speaks for another task.
pub(super) fn read_claim(kept: &Kept, veil: &Veil, task: TaskIx, bytes: &[u8]) -> Result<Claim, Vec<Defect>> {
    read_own(kept, task, bytes).map(|claim| veil.claim(claim)).map_err(|defects| veil.defects(defects))
}

fn read_own(kept: &Kept, task: TaskIx, bytes: &[u8]) -> Result<Claim, Vec<Defect>> {
    let claim = result::read(bytes)?;
    let spec = &kept.state.tasks[task].spec;
    if spec.answers_to(&claim.task_id) {
        return Ok(claim);
    }
    let message = format!("is '{}', but this is the drop box of '{}'", claim.task_id, spec.task_id);
    Err(vec![Defect::field(
        "wrong_task",
        "task_id",
        message,
        format!("write \"task_id\": \"{}\"", spec.task_id),
    )])
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
