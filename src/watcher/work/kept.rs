//! Where a merge finds the contents that agents brought and began from, and puts those that it makes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::shop::LeftOff;
use crate::bus::{Content, Disk, RealDisk};
use crate::merge;
use crate::model::tree::{Digest, Entry, Manifest, TreePath};
use crate::work_tree::checkpoint::Archive;
use crate::work_tree::{Checkpoint, Contents, Store};

/// The store as a merge knows it, and the checkpoint, which has what large trees held before.
pub(super) struct Kept<'s> {
    store: &'s Store<'s>,
    checkpoint: PathBuf,
    left_off: &'s LeftOff,
    /// Opened when something is wanted of it: its manifest is large where the trees are.
    archive: OnceCell<Option<Archive>>,
    /// Where the client's own files are, which may still be as agents were given them.
    originals: OnceCell<HashMap<Digest, TreePath>>,
}

impl<'s> Kept<'s> {
    pub(super) fn of(store: &'s Store<'s>, checkpoint: PathBuf, left_off: &'s LeftOff) -> Self {
        Kept { store, checkpoint, left_off, archive: OnceCell::new(), originals: OnceCell::new() }
    }

    pub(super) fn left_off(&self) -> &LeftOff {
        self.left_off
    }

    /// A merge that nobody waits for any more ends at the next content that it wants.
    fn check_that_it_is_wanted(&self) -> io::Result<()> {
        match self.left_off.load(Ordering::Relaxed) {
            true => Err(io::Error::other("nobody waits for this merge any more")),
            false => Ok(()),
        }
    }

    /// Where there is no checkpoint, what agents were given may still stand where it stood.
    pub(super) fn look_also_at(&self, before: &Manifest) {
        let files = before.iter().filter_map(|(path, entry)| match entry {
            Entry::File { sha256, .. } => Some((*sha256, path.clone())),
            Entry::Link { .. } | Entry::Directory { .. } => None,
        });
        self.originals.get_or_init(|| files.collect());
    }

    fn original(&self, digest: &Digest) -> Option<Vec<u8>> {
        let path = self.originals.get()?.get(digest)?.below(Path::new("/"));
        match RealDisk::default().read(&path, merge::MERGED_BYTES_MAX) {
            Ok(Content::Bytes { bytes, .. }) => {
                (merge::contents::digest_of(&bytes) == *digest).then_some(bytes)
            }
            _ => None,
        }
    }

    /// Whether the content can be had again.
    pub(super) fn knows(&self, digest: &Digest) -> io::Result<bool> {
        if self.store.holds(digest) {
            return Ok(true);
        }
        match self.read(digest) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn archive(&self) -> Option<&Archive> {
        let open = || Checkpoint::read(&self.checkpoint).ok()??.contents(&self.checkpoint).ok();
        self.archive.get_or_init(open).as_ref()
    }
}

impl Contents for Kept<'_> {
    fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        self.check_that_it_is_wanted()?;
        let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match self.store.read(digest) {
            Err(error) if is_absent(&error) => {
                match self.archive().map_or(Err(error), |archive| archive.read(digest)) {
                    Err(error) if is_absent(&error) => self.original(digest).ok_or(error),
                    read => read,
                }
            }
            read => read,
        }
    }

    fn copy_to(&self, digest: &Digest, out: &mut dyn io::Write) -> io::Result<()> {
        self.check_that_it_is_wanted()?;
        match self.store.holds(digest) {
            true => self.store.copy_to(digest, out),
            false => out.write_all(&self.read(digest)?),
        }
    }
}

impl merge::ContentStore for Kept<'_> {
    fn keep(&self, bytes: &[u8]) -> io::Result<Digest> {
        self.store.put(bytes).map_err(|error| error.source)
    }
}
