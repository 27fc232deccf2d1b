//! What the trees were before a batch began: `manifest.json` says it, `checkpoint.tar.gz` has the contents.
//!
//! The manifest is published last and names the archive by its digest, so a checkpoint is complete or it is
//! none. How to go back to one is `undo`'s matter.

mod archive;
mod extract;
mod keep;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use archive::BLOCK_BYTES;
pub use extract::{Archive, ArchiveError, extract};
pub use keep::{Progress, Sum};

use super::descriptors::{MODE_BITS, open_own_file};
use super::operations::{Hand, temporary_name};
use super::scan::{LeftOut, Scan, walk};
use super::scope::Scope;
use super::shown;
use super::store::{open_or_make, open_own};
use crate::bus::{self, disk::BusError};
use crate::model::WallTime;
use crate::model::tree::{Digest, Entry, Manifest, TreePath};
use crate::model::workspace::{CHECKPOINT_ARCHIVE as ARCHIVE, CHECKPOINT_MANIFEST as MANIFEST};

const VERSION: u32 = 1;
/// Largest manifest that is read: five million files.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 30;
/// Contents of larger files are not kept unless somebody says otherwise.
pub const FILE_BYTES_MAX: u64 = 4 << 30;

/// Trees as they were, and where their contents are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    version: u32,
    pub created_at: WallTime,
    pub roots: Vec<TreePath>,
    /// Not looked into, and never touched on the way back.
    pub excluded: Vec<TreePath>,
    /// Roots, and directories on the way to them, that were not there.
    pub absent: Vec<TreePath>,
    pub left_out: Vec<LeftOut>,
    pub archive: ArchiveNote,
    pub entries: Manifest,
}

/// What the archive is known by, and where in it to find what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveNote {
    pub sha256: Digest,
    pub size: u64,
    /// How much of the tar each block holds; the last one holds the rest.
    pub block_bytes: u64,
    /// Where each block begins.
    pub blocks: Vec<u64>,
    /// The contents in their order.
    pub objects: Vec<Digest>,
}

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(transparent)]
    Disk(#[from] BusError),
    #[error("{place} is there already; a checkpoint is written once")]
    AlreadyThere { place: String },
    #[error("{place} is no manifest of a checkpoint: {why}")]
    BadManifest { place: String, why: String },
}

/// What a checkpoint is made of.
#[derive(Debug)]
pub struct Wish<'w> {
    pub scope: &'w Scope,
    pub created_at: WallTime,
    /// Contents of larger files are not kept, which is told.
    pub file_bytes_max: u64,
}

/// Reads all trees and writes the checkpoint into `dir`, which is made if it is not there. What it read is a
/// scan like any other, to start the next one from.
pub fn write(
    dir: &Path,
    wish: &Wish<'_>,
    hand: Hand<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Checkpoint, Scan), CheckpointError> {
    let open = open_or_make(dir, hand, 0o700).map_err(BusError::of("open the checkpoint", dir))?;
    let place = dir.join(MANIFEST);
    let failed = || BusError::of("write", &place);
    if open_own_file(&open, OsStr::new(MANIFEST)).map_err(failed())?.is_some() {
        return Err(CheckpointError::AlreadyThere { place: place.display().to_string() });
    }
    let (archive, scan) = match write_archive(dir, &open, wish, hand, progress) {
        Ok(written) => written,
        Err(error) => {
            // So that a full disk is not kept full; what cannot be removed now is replaced by the next try.
            let _ = hand.remove_file_if_present(open.as_fd(), &temporary_name(OsStr::new(ARCHIVE)));
            return Err(error.into());
        }
    };
    let checkpoint = Checkpoint {
        version: VERSION,
        created_at: wish.created_at,
        roots: wish.scope.roots().to_vec(),
        excluded: wish.scope.excluded().iter().cloned().collect(),
        absent: wish.scope.absent().iter().cloned().collect(),
        left_out: scan.left_out.clone(),
        archive,
        entries: scan.manifest.clone(),
    };
    hand.publish(open.as_fd(), OsStr::new(MANIFEST), |out| {
        serde_json::to_writer(out, &checkpoint).map_err(io::Error::from)
    })
    .map_err(failed())?;
    Ok((checkpoint, scan))
}

fn write_archive(
    dir: &Path,
    open: &OwnedFd,
    wish: &Wish<'_>,
    hand: Hand<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ArchiveNote, Scan), BusError> {
    let place = dir.join(ARCHIVE);
    let failed = || BusError::of("write", &place);
    let staged = temporary_name(OsStr::new(ARCHIVE));
    let out = hand.create_anew(open.as_fd(), &staged, 0o600).map_err(failed())?;
    let mut keeper = keep::Archiving::new(out, &place, wish, keep::sum_of(wish.scope)?, progress);
    let scan = walk(wish.scope, None, &mut keeper)?;
    let (finished, objects) = keeper.finish()?;
    hand.rename(open, &staged, open, OsStr::new(ARCHIVE)).map_err(failed())?;
    hand.sync_directory(open, OsStr::new(ARCHIVE)).map_err(failed())?;
    let note = ArchiveNote {
        sha256: finished.sha256,
        size: finished.size,
        block_bytes: BLOCK_BYTES as u64,
        blocks: finished.blocks,
        objects,
    };
    Ok((note, scan))
}

/// As a whole: serde_json is slower on readers than on bytes.
fn read_manifest(dir: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    let place = dir.join(MANIFEST);
    let failed = || BusError::of("read", &place);
    let Some(open) = open_own(dir).map_err(failed())? else { return Ok(None) };
    let Some(mut file) = open_own_file(&open, OsStr::new(MANIFEST)).map_err(failed())? else {
        return Ok(None);
    };
    if file.metadata().map_err(failed())?.len() > MANIFEST_BYTES_MAX {
        let why = format!("more than {MANIFEST_BYTES_MAX} bytes");
        return Err(CheckpointError::BadManifest { place: place.display().to_string(), why });
    }
    let mut text = Vec::new();
    (&mut file).take(MANIFEST_BYTES_MAX).read_to_end(&mut text).map_err(failed())?;
    Ok(Some(text))
}

impl Checkpoint {
    /// Reads the checkpoint in `dir`; `None` if none was completed there.
    pub fn read(dir: &Path) -> Result<Option<Self>, CheckpointError> {
        let Some(text) = read_manifest(dir)? else { return Ok(None) };
        let place = dir.join(MANIFEST).display().to_string();
        let bad = |why: String| CheckpointError::BadManifest { place: place.clone(), why };
        let checkpoint: Checkpoint = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        checkpoint.check().map_err(bad)?;
        Ok(Some(checkpoint))
    }

    /// The hash of its manifest, which names everything else in it by hash.
    pub fn manifest_sha256(dir: &Path) -> Result<Option<String>, CheckpointError> {
        Ok(read_manifest(dir)?.map(|text| bus::sha256(&text)))
    }

    /// The same trees, to be looked at again.
    pub fn scope(&self) -> Scope {
        Scope::of_parts(self.roots.clone(), self.excluded.clone())
    }

    /// Opens the archive to read single contents from it.
    pub fn contents(&self, dir: &Path) -> Result<Archive, BusError> {
        Ok(Archive::new(self.open_archive(dir)?, &self.archive, &self.sizes()))
    }

    /// Opens the archive after it has proved to be the one that was written.
    pub(super) fn open_proven_archive(&self, dir: &Path) -> Result<Result<File, ArchiveError>, BusError> {
        let mut file = self.open_archive(dir)?;
        Ok(extract::check_identity(&mut file, &self.archive).map(|()| file))
    }

    /// Whether the archive beside its manifest is the one that was written.
    pub fn has_its_archive(&self, dir: &Path) -> bool {
        matches!(self.open_proven_archive(dir), Ok(Ok(_)))
    }

    /// Every content of the archive with its size.
    pub(super) fn sizes(&self) -> BTreeMap<Digest, u64> {
        let kept: BTreeSet<&Digest> = self.archive.objects.iter().collect();
        let files = self.entries.values().filter_map(|entry| match entry {
            Entry::File { size, sha256, .. } if kept.contains(sha256) => Some((*sha256, *size)),
            _ => None,
        });
        files.collect()
    }

    fn open_archive(&self, dir: &Path) -> Result<File, BusError> {
        let opened = || -> io::Result<File> {
            let open = open_own(dir)?.ok_or(io::ErrorKind::NotFound)?;
            Ok(open_own_file(&open, OsStr::new(ARCHIVE))?.ok_or(io::ErrorKind::NotFound)?)
        };
        opened().map_err(BusError::of("open", &dir.join(ARCHIVE)))
    }

    /// What a manifest must be besides well-formed: nothing in it may lead out of its roots.
    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("its version is {}, and {VERSION} is understood", self.version));
        }
        let scope = self.scope();
        for (path, entry) in &self.entries {
            if let Entry::File { mode, .. } | Entry::Directory { mode } = entry
                && mode & !MODE_BITS != 0
            {
                return Err(format!("the mode of {} is more than permissions", shown::path(path)));
            }
            if !scope.holds(path) {
                return Err(format!("{} lies outside of its roots", shown::path(path)));
            }
            let parent = path.parent().filter(|parent| scope.holds(parent));
            if parent.is_some_and(|parent| !self.is_directory(&parent)) {
                return Err(format!("{} lies in what is no directory", shown::path(path)));
            }
        }
        let is_ascending = self.archive.blocks.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_ascending || self.archive.block_bytes == 0 {
            return Err("its blocks are out of order".to_owned());
        }
        Ok(())
    }

    fn is_directory(&self, path: &TreePath) -> bool {
        matches!(self.entries.get(path), Some(Entry::Directory { .. }))
    }
}
