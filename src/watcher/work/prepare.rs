//! Before the first agent: the workspace is made, and the trees that agents may write are kept as they are.
//!
//! Nothing of a client's is overwritten: what stands in the workspace already stays, but for what earlier
//! batches wrote.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::Mode;

use super::super::handed;
use super::earlier::Earlier;
use super::shop::LeftOff;
use super::{Fault, Report};
use crate::bus::disk::BusError;
use crate::bus::{Disk, Durability, Readers, RealDisk};
use crate::model::handoff::{Dialect, Prepared};
use crate::model::workspace::WorkspacePaths;
use crate::model::{BatchId, WallTime};
use crate::work_tree::checkpoint::{self, CheckpointError, FILE_BYTES_MAX};
use crate::work_tree::{Checkpoint, Hand, LeftOut, Scan, Scope, scan};

/// Most of what was left out that is journaled; the manifest has all of it.
const LEFT_OUT_LISTED_MAX: usize = 50;

/// Everything that a preparation needs to know.
#[derive(Debug)]
pub(super) struct Preparation {
    pub(super) workspace: WorkspacePaths,
    pub(super) batch: BatchId,
    pub(super) dialect: Dialect,
    /// The request as it came.
    pub(super) request: Vec<u8>,
    /// Of its copy in the workspace.
    pub(super) readers: Readers,
    /// Where agents are to write; what leads there is made for them.
    pub(super) outputs: Vec<PathBuf>,
    /// The trees that agents may write.
    pub(super) roots: Vec<PathBuf>,
    pub(super) aside: Vec<PathBuf>,
    pub(super) takes_checkpoint: bool,
    pub(super) accepted_at: WallTime,
    /// Where the look at the trees is kept for the comparison at the end.
    pub(super) before: PathBuf,
}

impl Preparation {
    pub(super) fn carry_out(&self, left_off: &LeftOff) -> Report {
        let is_left_off = || left_off.load(Ordering::Relaxed);
        let prepared = Fault::outlasted(|| {
            self.try_carry_out(left_off).map_err(|fault| match is_left_off() {
                true => Fault::from("the batch ended before its workspace was prepared".to_owned()),
                false => fault,
            })
        });
        match prepared {
            Ok(prepared) => Report::Prepared { prepared },
            Err(Fault { why, .. }) => Report::NotPrepared { why },
        }
    }

    fn try_carry_out(&self, left_off: &LeftOff) -> Result<Prepared, Fault> {
        let root = self.workspace.root();
        make_private(root).map_err(BusError::of("make the workspace", root))?;
        let own = self.own_checkpoint().map_err(fault_of)?;
        self.earlier().put_papers_aside()?;
        // Looked for only now: the checkpoint of an earlier batch may just have become one of them.
        let mut aside = handed::papers(&self.workspace);
        aside.extend(self.aside.iter().cloned());
        let scope = Scope::new(&self.roots, &aside)?.until(left_off);
        let (scan, prepared) = match self.takes_checkpoint {
            true => self.take_checkpoint(own, &scope).map_err(fault_of)?,
            false => (scan(&scope)?, Prepared::default()),
        };
        let bytes = serde_json::to_vec(&scan).unwrap_or_default();
        let kept = RealDisk::default().publish(&self.before, &bytes, Durability::Synced);
        kept.map_err(BusError::of("publish", &self.before))?;
        self.earlier().put_work_aside()?;
        // After the snapshot: what is made here is the batch's, and goes with it when it is undone.
        self.make_folders()?;
        let mut left_out = scan.left_out;
        left_out.retain(LeftOut::is_still_so);
        Ok(Prepared { left_out: listed(&left_out), ..prepared })
    }

    fn earlier(&self) -> Earlier<'_> {
        Earlier { workspace: &self.workspace, batch: &self.batch, accepted_at: self.accepted_at }
    }

    fn make_folders(&self) -> Result<(), BusError> {
        let disk = RealDisk::default();
        let folders = match self.dialect {
            Dialect::ExecutionRequest => vec![
                self.workspace.inputs(),
                self.workspace.outputs(),
                self.workspace.logs(),
                self.workspace.sessions(),
            ],
            Dialect::Assignments => {
                vec![self.workspace.logs(), self.workspace.markers(), self.workspace.all_artifacts()]
            }
        };
        let leading = self.outputs.iter().filter_map(|output| output.parent().map(Path::to_owned));
        for dir in folders.into_iter().chain(leading) {
            disk.make_dirs(&dir).map_err(BusError::of("make", &dir))?;
        }
        let request = self.workspace.request(self.dialect);
        if std::fs::read(&request).ok().as_deref() != Some(&self.request) {
            disk.publish_for(self.readers, &request, &self.request, Durability::Synced)
                .map_err(BusError::of("publish", &request))?;
        }
        Ok(())
    }

    /// The checkpoint that an interrupted preparation of this batch has completed. One of an earlier batch makes way.
    fn own_checkpoint(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        let dir = self.workspace.checkpoint();
        match Checkpoint::read(&dir)? {
            Some(found) if found.created_at == self.accepted_at => Ok(Some(found)),
            Some(other) => {
                self.earlier().put_checkpoint_aside(other.created_at)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn take_checkpoint(
        &self,
        own: Option<Checkpoint>,
        scope: &Scope,
    ) -> Result<(Scan, Prepared), CheckpointError> {
        let dir = self.workspace.checkpoint();
        let (checkpoint, scan) = match own {
            Some(found) => {
                let manifest = found.entries.clone();
                // Nobody has worked yet, so the trees are as they were; only the next look costs more.
                let scan = Scan { manifest, left_out: found.left_out.clone(), ..Scan::default() };
                (found, scan)
            }
            None => {
                let wish =
                    checkpoint::Wish { scope, created_at: self.accepted_at, file_bytes_max: FILE_BYTES_MAX };
                checkpoint::write(&dir, &wish, Hand::free(), &mut |_| {})?
            }
        };
        let prepared = Prepared {
            files: Some(checkpoint.entries.len() as u64),
            bytes: Some(checkpoint.archive.size),
            manifest_sha256: Checkpoint::manifest_sha256(&dir)?,
            left_out: Vec::new(),
        };
        Ok((scan, prepared))
    }
}

fn fault_of(error: CheckpointError) -> Fault {
    match error {
        CheckpointError::Disk(error) => error.into(),
        other => other.to_string().into(),
    }
}

/// Makes a directory that only its owner may enter, unless it is there. One that belongs to somebody else, or is
/// a link, is refused.
pub(in crate::watcher) fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    if let Some(parent) = dir.parent() {
        RealDisk::default().make_dirs(parent)?;
    }
    match rustix::fs::mkdir(dir, Mode::from_raw_mode(0o700)) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let data = dir.symlink_metadata()?;
    let us = rustix::process::geteuid().as_raw();
    if !data.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a link or a file; name a directory"));
    }
    if data.uid() != us && us != 0 {
        let why = format!("it belongs to user {}; choose another place", data.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

fn listed(left_out: &[LeftOut]) -> Vec<String> {
    let mut listed: Vec<String> =
        left_out.iter().take(LEFT_OUT_LISTED_MAX).map(ToString::to_string).collect();
    if left_out.len() > listed.len() {
        listed.push(format!("{} more are left out", left_out.len() - listed.len()));
    }
    listed
}
