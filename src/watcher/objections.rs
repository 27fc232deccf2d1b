//! What the bus has to say against a request that is well-formed: its id was used, somebody works in its workspace, it
//! brings commands by a way that must not bring any.

use std::path::Path;

use super::act::holds;
use super::{Context, TurnError, Watcher, kept};
use crate::bus::disk::{BusError, is_absent};
use crate::bus::occupancy::Occupancy;
use crate::bus::{self, BusName, Disk, Layout, layout, quarantine};
use crate::decide::Now;
use crate::model::batch::Batch;
use crate::model::workspace::WorkspacePaths;
use crate::model::{BatchId, Defect, Place, Task};

/// Puts a dropped spec into quarantine, unless another one has taken its place meanwhile.
pub(super) fn refuse_spec<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    sha256: &str,
    defects: &[Defect],
    now: Now,
) -> Result<(), TurnError> {
    if holds(context, path, bus::SPEC_BYTES_MAX, sha256)? {
        quarantine::refuse(context.disk, context.layout, path, defects, now.wall)?;
    }
    Ok(())
}

impl<D: Disk> Watcher<D> {
    /// Two batches in one workspace would write over each other's papers.
    pub(super) fn objection_to_workspace(&self, batch: &Batch) -> Option<Defect> {
        let workspace = &batch.handoff.as_ref()?.workspace;
        let is_in_it = |kept: &&kept::Kept| {
            let other = kept.state.batch.handoff.as_ref();
            other.is_some_and(|other| other.workspace == *workspace)
        };
        let message = match self.batches.values().find(is_in_it) {
            Some(other) => format!("batch {} is still under way in {workspace}", other.state.batch.id),
            None => {
                let holder = Occupancy::holder(&WorkspacePaths::new(workspace).lock())?;
                format!("{holder} works in {workspace}")
            }
        };
        let remedy = "choose another workspace, or wait for its end";
        Some(Defect::new("workspace_in_use", Place::File, message, remedy))
    }

    /// Whoever can write into the inbox may ask for work, not for commands.
    pub(super) fn without_commands(&self, batch: Batch) -> Result<Batch, Vec<Defect>> {
        if self.settings.request_commands_always {
            return Ok(batch);
        }
        let batch = Batch { runs_gates: false, ..batch };
        let bring = batch.tasks.iter().filter(|task| task.brings_a_command());
        let tasks = bring.map(Task::label);
        let whole = batch.handoff.as_ref().filter(|handoff| handoff.brings_a_command());
        let defects: Vec<Defect> = tasks
            .chain(whole.map(|_| "success_criteria"))
            .map(|who| {
                let message = format!("{who} brings a command, and the inbox takes none");
                let remedy = "run it with `wk run` where no watcher holds the bus, name an agent, or set request_commands = \"always\"";
                Defect::new("command_not_allowed", Place::File, message, remedy)
            })
            .collect();
        if defects.is_empty() { Ok(batch) } else { Err(defects) }
    }

    /// What speaks against a batch of this id.
    pub(super) fn objection_to_id(&self, id: &BatchId, field: &str) -> Result<Option<Defect>, TurnError> {
        id_in_use(&self.disk, &self.layout, id, field)
    }
}

/// What speaks against a batch of this id on a bus.
pub fn id_in_use<D: Disk>(
    disk: &D,
    layout: &Layout,
    id: &BatchId,
    field: &str,
) -> Result<Option<Defect>, TurnError> {
    let exists = |path: &Path| -> Result<bool, TurnError> {
        Ok(disk.look(path).map_err(BusError::of("look at", path))?.is_some())
    };
    let paths = layout.batch(id);
    let message = if exists(layout.archived(id).dir())? || exists(&layout.batch_result(id))? {
        format!("batch {id} was archived")
    } else if exists(&paths.batch())? || has_specs(disk, &paths)? {
        format!("batch {id} is already on this bus")
    } else {
        return Ok(None);
    };
    // An execution request has to have one.
    let remedy = if field == "batch_id" { "choose another id, or leave it out" } else { "choose another id" };
    Ok(Some(Defect::field("batch_exists", field, message, remedy)))
}

/// Whether somebody has begun to drop specs there.
fn has_specs<D: Disk>(disk: &D, paths: &layout::BatchPaths) -> Result<bool, TurnError> {
    match disk.list(paths.dir()) {
        Ok(listed) => Ok(listed.iter().any(|entry| matches!(BusName::of(&entry.name), BusName::Spec(_)))),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(BusError::of("list", paths.dir())(error).into()),
    }
}
