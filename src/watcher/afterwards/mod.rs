//! What can be done with a batch after its end: it is checked again, or the way back to before it is found.
//!
//! Nothing here belongs to the loop, and nothing is decided or journaled: what was decided then stands.

mod again;
mod authors;
mod commands;
mod undone;
mod way_back;

use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::bus::{Content, Disk, RealDisk};
use crate::model::tree::Manifest;
use crate::watcher::work::{AFTER, AFTER_BYTES_MAX};

pub use again::{Again, TaskAgain, Verification};
pub use authors::{Answers, Authors};
pub use commands::Commands;
pub(super) use commands::{mark_of, run_checks};
pub use undone::{note_undone, tell_client, undone_at};
pub use way_back::{NoWayBack, begun_way_back, checkpoint_of, way_back};

/// How the batch left its trees. `None` where it ended before that could be looked at.
fn left_by(paths: &BatchPaths) -> Result<Option<Manifest>, NoWayBack> {
    let path = paths.work(AFTER);
    match RealDisk::default().read(&path, AFTER_BYTES_MAX).map_err(BusError::of("read", &path))? {
        Content::Bytes { bytes, .. } => {
            serde_json::from_slice(&bytes).map(Some).map_err(|source| NoWayBack::Unreadable { path, source })
        }
        _ => Ok(None),
    }
}
