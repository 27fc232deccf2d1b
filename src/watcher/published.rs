//! Published specs that are no longer what the watcher published. They are messages to agents: editing one changes nothing
//! that the watcher goes by, so whoever edits it is told.

use std::ffi::OsStr;

use super::kept::Kept;
use super::look::note_odd;
use super::{Context, TurnError};
use crate::bus::disk::BusError;
use crate::bus::{Content, Disk, Look, NodeKind, SPEC_BYTES_MAX};
use crate::model::Attempt;
use crate::model::state::TaskIx;

/// The look of a published spec that was compared, so that it is not compared again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Compared {
    attempt: Attempt,
    look: Look,
}

/// Compares the published spec of every attempt of an outsider that is out.
pub(super) fn look_at_published_specs<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
) -> Result<(), TurnError> {
    let live: Vec<(TaskIx, Attempt)> = kept
        .state
        .live
        .iter()
        .filter(|task| !kept.state.tasks[**task].is_ours())
        .filter_map(|task| Some((*task, kept.state.tasks[*task].live_attempt()?)))
        .collect();
    for (task, attempt) in live {
        let path = kept.paths.spec(kept.state.key(task));
        let look = context.disk.look(&path).map_err(BusError::of("look at", &path))?;
        // Gone: an agent may remove its spec.
        let Some(look) = look else { continue };
        let compared = Compared { attempt, look };
        if kept.published.get(&task) == Some(&compared) {
            continue;
        }
        let is_edited = is_edited(kept, context, task, attempt, look)?;
        kept.published.insert(task, compared);
        let Some(name) = path.file_name() else { continue };
        if is_edited {
            let own = format!("attempts/{}/{attempt}", kept.state.key(task));
            let why = format!(
                "edited after it was published; the watcher goes by what it published, which is kept in {own}. To change \
                 a task, cancel it and drop a corrected spec"
            );
            note_odd(kept, name, &why);
        } else {
            kept.forget_odd_name(&shown(name));
        }
    }
    Ok(())
}

fn is_edited<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
    look: Look,
) -> Result<bool, TurnError> {
    let path = kept.paths.spec(kept.state.key(task));
    let own = kept.paths.attempt(kept.state.key(task), attempt).spec();
    let Some(written) = context.disk.look(&own).map_err(BusError::of("look at", &own))? else {
        return Ok(false);
    };
    // Our own copy was written last: what is as long and no younger is what was published.
    if look.kind == NodeKind::File && look.size == written.size && look.modified_ns <= written.modified_ns {
        return Ok(false);
    }
    let read = |path| context.disk.read(path, SPEC_BYTES_MAX * 4).map_err(BusError::of("read", path));
    Ok(match (read(&path)?, read(&own)?) {
        (Content::Bytes { bytes, .. }, Content::Bytes { bytes: published, .. }) => bytes != published,
        // It went away, or is being written: the next scan sees what becomes of it.
        (Content::Absent | Content::Changing, _) | (_, Content::Absent | Content::Changing) => false,
        _ => true,
    })
}

/// As the names of odd files are shown.
pub(super) fn shown(name: &OsStr) -> String {
    name.to_string_lossy().escape_debug().to_string()
}
