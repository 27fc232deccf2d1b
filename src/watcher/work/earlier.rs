//! What earlier batches wrote in a workspace makes way for the next one, and lies beside their checkpoint
//! from then on.
//!
//! Papers go first; the merged tree and the artifacts go once the new checkpoint has them, so that an undo of
//! the new batch puts them back. There are renames alone: after a crash the next preparation goes on with
//! what is left. Nothing is written over, and what no batch wrote is not touched.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::handed;
use crate::bus::disk::BusError;
use crate::bus::{Content, Disk, Durability, RealDisk};
use crate::model::workspace::{Marker, WorkspacePaths};
use crate::model::{BatchId, TaskKey, WallTime};

/// A receipt or a report: a line for each file or task.
const PAPER_BYTES_MAX: u64 = 256 << 20;

/// The workspace, and the batch that others make way for.
pub(super) struct Earlier<'a> {
    pub(super) workspace: &'a WorkspacePaths,
    pub(super) batch: &'a BatchId,
    pub(super) accepted_at: WallTime,
}

impl Earlier<'_> {
    /// The checkpoint of the batch before this.
    pub(super) fn put_checkpoint_aside(&self, created_at: WallTime) -> Result<(), BusError> {
        let (dir, place) = (self.workspace.checkpoint(), self.workspace.older_checkpoint(created_at));
        RealDisk::default().rename(&dir, &place, Durability::Synced).map_err(BusError::of("put aside", &dir))
    }

    /// What tells of one batch alone must not be taken for a word about this one. The status goes last: while
    /// an earlier one stands, the watcher shows nothing of this batch, markers among it.
    pub(super) fn put_papers_aside(&self) -> Result<(), BusError> {
        self.put_paper_aside(&self.workspace.report())?;
        let markers = self.workspace.markers();
        if !self.is_first() {
            for name in names_in(&markers).iter().filter(|name| is_marker(name)) {
                self.put_aside(&markers.join(name))?;
            }
        }
        self.put_paper_aside(&self.workspace.status())
    }

    /// What it made for its client, once that is in the checkpoint.
    pub(super) fn put_work_aside(&self) -> Result<(), BusError> {
        if self.is_first() {
            return Ok(());
        }
        for task in self.tasks() {
            self.put_aside(&self.workspace.artifacts(&task))?;
        }
        if !names_in(&self.workspace.merged()).is_empty() {
            self.put_aside(&self.workspace.merged())?;
        }
        // The receipt goes last: by it the merged tree is known for a batch's.
        for paper in [self.workspace.conflicts(), self.workspace.receipt()] {
            self.put_paper_aside(&paper)?;
        }
        Ok(())
    }

    /// Whether nothing says that a batch was here before.
    fn is_first(&self) -> bool {
        let papers = [self.workspace.status(), self.workspace.receipt()];
        handed::put_aside(self.workspace).is_empty() && papers.iter().all(|paper| !self.is_anothers(paper))
    }

    /// Whether a paper is not this batch's. The watcher may show this one's own status at any moment.
    fn is_anothers(&self, paper: &Path) -> bool {
        match read(paper) {
            Paper::Absent => false,
            Paper::Told(told) => told["execution_id"] != self.batch.as_str(),
            Paper::Unreadable => true,
        }
    }

    fn put_paper_aside(&self, paper: &Path) -> Result<(), BusError> {
        if self.is_anothers(paper) { self.put_aside(paper) } else { Ok(()) }
    }

    /// Moves something to the same name in the place for what was here before.
    fn put_aside(&self, from: &Path) -> Result<(), BusError> {
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let Ok(name) = from.strip_prefix(self.workspace.root()) else { return Ok(()) };
        if !is_there(from) {
            return Ok(());
        }
        let mut to = self.place().join(name);
        if is_there(&to) {
            to = self.workspace.earlier(self.accepted_at).join(name);
        }
        let disk = RealDisk::default();
        if let Some(folder) = to.parent() {
            disk.make_dirs(folder).map_err(BusError::of("make", folder))?;
        }
        disk.rename(from, &to, Durability::Synced).map_err(BusError::of("put aside", from))
    }

    /// Beside the last checkpoint before this batch. Where the batch before this one had none, or the name is
    /// taken there, in a folder of its own.
    fn place(&self) -> PathBuf {
        let own = self.workspace.earlier(self.accepted_at);
        let put_aside = handed::put_aside(self.workspace);
        if put_aside.contains(&own) {
            return own;
        }
        let taken_at = |path: &PathBuf| self.workspace.taken_at(path);
        let before =
            put_aside.into_iter().filter(|path| taken_at(path).is_some_and(|at| at < self.accepted_at));
        before.max_by_key(taken_at).unwrap_or(own)
    }

    /// The tasks of the earlier batch that have artifacts, as its report says.
    fn tasks(&self) -> Vec<TaskKey> {
        let place = WorkspacePaths::new(self.place());
        let Paper::Told(report) = read(&place.report()) else { return Vec::new() };
        let tasks = report["tasks"].as_array().into_iter().flatten();
        tasks.filter_map(|task| TaskKey::parse(task["id"].as_str()?).ok()).collect()
    }
}

enum Paper {
    Absent,
    Told(Value),
    Unreadable,
}

fn read(paper: &Path) -> Paper {
    match RealDisk::default().read(paper, PAPER_BYTES_MAX) {
        Ok(Content::Absent) => Paper::Absent,
        Ok(Content::Bytes { bytes, .. }) => {
            serde_json::from_slice(&bytes).map_or(Paper::Unreadable, Paper::Told)
        }
        _ => Paper::Unreadable,
    }
}

/// What a directory holds; nothing where it is none. A link in its place is not followed.
fn names_in(dir: &Path) -> Vec<String> {
    if !dir.symlink_metadata().is_ok_and(|data| data.is_dir()) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_marker(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    Marker::ALL.iter().any(|marker| ending == Some(marker.word()))
}
