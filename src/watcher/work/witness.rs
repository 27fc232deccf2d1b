//! Watches what is written in the workspace of assignments while their tasks work in it side by side: a runner sees
//! what stands there when its agent has ended, and nothing of what another one wrote over before that.
//!
//! It notes each artifact that was written anew without what stood there, and keeps that. By whom, no system tells; the
//! merge knows who ran at the time. Where there are no file events, or too many directories, nothing is noted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::likeness::keeps_half_of;
use crate::bus::platform::wall_now;
use crate::bus::wake::TreeWatch;
use crate::bus::{Content, Disk, Durability, Look, RealDisk};
use crate::model::WallTime;
use crate::model::tree::{Digest, TreePath};
use crate::verify::outputs;
use crate::work_tree::{Hand, Store};

/// The name under which it is noted.
pub(super) const OVERWRITTEN: &str = "overwritten";
/// Larger files are not looked into: they are read at every write.
const READ_BYTES_MAX: u64 = 4 << 20;
/// Most files whose last content is remembered, and most that are noted.
const FILES_MAX: usize = 1_000;
/// Larger workspaces are not watched over.
const DIRECTORIES_MAX: usize = 2_000;
/// How long a merge waits for the events of what was written before it.
pub(super) const LAG_MAX: Duration = Duration::from_secs(10);
/// How much older than its event a write can be.
const LAG_MS_MAX: i64 = 60_000;
/// What is noted: a few hundred bytes each.
const NOTED_BYTES_MAX: u64 = 4 << 20;

/// A content that stood in a file and is not in what was written there after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Overwritten {
    /// Below the workspace.
    pub(super) path: TreePath,
    pub(super) at: WallTime,
    pub(super) lost: Digest,
}

/// What to look at, and where to note what was found.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) workspace: PathBuf,
    pub(super) aside: Vec<PathBuf>,
    pub(super) patterns: Vec<String>,
    pub(super) objects: PathBuf,
    pub(super) noted: PathBuf,
}

/// Begins to watch. `None` where the system tells nothing.
pub(super) fn begin(beat: Beat) -> Option<TreeWatch> {
    let root = beat.workspace.canonicalize().ok()?;
    if !is_small(&root) {
        log::info!("{}: too many directories to watch over", root.display());
        return None;
    }
    let mut found = read(&beat.noted);
    let mut last: HashMap<TreePath, Vec<u8>> = HashMap::new();
    TreeWatch::new(&root.clone(), move |path| {
        let Some(place) = beat.artifact(path, &root) else { return };
        let read = RealDisk::default().read(path, READ_BYTES_MAX);
        let Ok(Content::Bytes { bytes, look }) = read else { return };
        // One that is written anew is empty for a moment.
        if bytes.is_empty() || (last.len() >= FILES_MAX && !last.contains_key(&place)) {
            return;
        }
        let before = last.insert(place.clone(), bytes);
        let (Some(before), Some(now)) = (before, last.get(&place)) else { return };
        if keeps_half_of(&before, now) || found.len() >= FILES_MAX {
            return;
        }
        let kept = Store::open(&beat.objects, Hand::free()).and_then(|store| store.put(&before));
        match kept {
            Ok(lost) => found.push(Overwritten { path: place, at: written_at(&look), lost }),
            Err(error) => return log::warn!("{error}; what was written over is not kept"),
        }
        let bytes = serde_json::to_vec(&found).unwrap_or_default();
        if let Err(error) = RealDisk::default().publish(&beat.noted, &bytes, Durability::Synced) {
            log::warn!("{}: {error}", beat.noted.display());
        }
    })
}

/// When the file was written: events come later than what they tell of, and its writer may have ended meanwhile. A file
/// system with a clock of its own is not believed.
fn written_at(look: &Look) -> WallTime {
    let (now, stamped) = (wall_now(), WallTime((look.changed_ns / 1_000_000) as i64));
    let is_likely = stamped <= now && now.0 - stamped.0 <= LAG_MS_MAX;
    if is_likely { stamped } else { now }
}

/// Each directory costs one of the watches that a user has, and a moment of the loop.
fn is_small(root: &Path) -> bool {
    let below = walkdir::WalkDir::new(root).into_iter().filter_map(Result::ok);
    below.filter(|entry| entry.file_type().is_dir()).take(DIRECTORIES_MAX + 1).count() <= DIRECTORIES_MAX
}

impl Beat {
    /// The place below the workspace of a file that the client asks for.
    fn artifact(&self, path: &Path, root: &Path) -> Option<TreePath> {
        let rest = path.strip_prefix(root).ok()?;
        let is_aside = self.aside.iter().any(|aside| self.workspace.join(rest).starts_with(aside));
        let is_asked_for = || self.patterns.iter().any(|pattern| outputs::fits(pattern, rest));
        (!is_aside && is_asked_for()).then(|| TreePath::of(rest)).flatten()
    }
}

/// What was noted so far.
pub(super) fn read(noted: &Path) -> Vec<Overwritten> {
    match RealDisk::default().read(noted, NOTED_BYTES_MAX) {
        Ok(Content::Bytes { bytes, .. }) => serde_json::from_slice(&bytes).unwrap_or_default(),
        _ => Vec::new(),
    }
}
