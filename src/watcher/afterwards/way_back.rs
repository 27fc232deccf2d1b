//! The way back to before a handed-over batch: its checkpoint, and what has to be done as far as it is known whose
//! changes those are, or the caller has said so.

use std::path::{Path, PathBuf};

use super::authors::Authors;
use super::left_by;
use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::model::handoff::{Handoff, Prepared};
use crate::model::tree::TreePath;
use crate::model::workspace::WorkspacePaths;
use crate::model::{Batch, BatchId};
use crate::work_tree::checkpoint::CheckpointError;
use crate::work_tree::undo::{self, UndoError, UndoPlan, Word};
use crate::work_tree::{Checkpoint, absolute, scan};

/// Why nothing can be put back.
#[derive(Debug, thiserror::Error)]
pub enum NoWayBack {
    #[error("batch {0} was run with checkpoint_enabled = false")]
    NothingWasKept(BatchId),
    #[error("there is no checkpoint of batch {batch} in {workspace}")]
    NoCheckpoint { batch: BatchId, workspace: String },
    #[error("the checkpoint in {} is not the one that was taken: somebody changed its manifest", .0.display())]
    Changed(PathBuf),
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: serde_json::Error },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Undo(#[from] UndoError),
    #[error(transparent)]
    Disk(#[from] BusError),
}

/// The batch's own checkpoint, wherever later batches in the same workspace have put it. One that is not as the journal
/// names it is none; a journal that cannot be read names none, and then the manifest is believed.
pub fn checkpoint_of(
    batch: &Batch,
    handoff: &Handoff,
    prepared: Option<&Prepared>,
) -> Result<(PathBuf, Checkpoint), NoWayBack> {
    let journaled = prepared.and_then(|prepared| prepared.manifest_sha256.as_ref());
    let workspace = WorkspacePaths::new(&handoff.workspace);
    for dir in [workspace.checkpoint(), workspace.older_checkpoint(batch.accepted_at)] {
        let read = Checkpoint::read(&dir)?;
        if let Some(checkpoint) = read.filter(|found| found.created_at == batch.accepted_at) {
            if journaled.is_some() && Checkpoint::manifest_sha256(&dir)?.as_ref() != journaled {
                return Err(NoWayBack::Changed(dir));
            }
            return Ok((dir, checkpoint));
        }
    }
    Err(match handoff.checkpoint {
        false => NoWayBack::NothingWasKept(batch.id.clone()),
        true => NoWayBack::NoCheckpoint { batch: batch.id.clone(), workspace: handoff.workspace.clone() },
    })
}

/// The rest of an undo that was begun and interrupted. A plan that does not say what the batch left is none: somebody
/// else wrote it, or the batch has gone on since.
pub fn begun_way_back(
    dir: &Path,
    paths: &BatchPaths,
    authors: &Authors,
) -> Result<Option<UndoPlan>, NoWayBack> {
    let Some(begun) = undo::begun(dir)? else { return Ok(None) };
    let after = left_by(paths)?.unwrap_or_default();
    let is_taken = |path: &TreePath| authors.word(path) == Word::Take;
    Ok((!begun.is_nothing() && begun.fits(&after, &is_taken)).then_some(begun))
}

/// What has to be done.
pub fn way_back(
    paths: &BatchPaths,
    handoff: &Handoff,
    checkpoint: &Checkpoint,
    authors: &Authors,
) -> Result<UndoPlan, NoWayBack> {
    let root = Path::new(&handoff.workspace);
    // Scanned paths have no links in them.
    let workspace = WorkspacePaths::new(root.canonicalize().unwrap_or_else(|_| root.to_owned()));
    let mut now = scan(&checkpoint.scope())?;
    // What later batches put aside is nobody's change.
    let is_put_aside =
        |path: &TreePath| absolute(path).ancestors().any(|outer| workspace.is_put_aside(outer));
    now.manifest.retain(|path, _| !is_put_aside(path));
    // A batch that ended before its end could be looked at has left nothing for certain: everything is asked about.
    let after = left_by(paths)?;
    let word = |path: &TreePath| authors.word(path);
    Ok(undo::plan(checkpoint, after.as_ref(), &now, &word).map_err(UndoError::from)?)
}
