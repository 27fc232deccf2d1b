//! Where a merge finds the contents that agents brought and began from, and puts those that it makes.

use std::cell::OnceCell;
use std::path::PathBuf;

use crate::merge;
use crate::model::tree::Digest;
use crate::work_tree::checkpoint::Archive;
use crate::work_tree::{Checkpoint, Contents, Store};

/// The store as a merge knows it, and the checkpoint, which has what large trees held before.
pub(super) struct Kept<'s> {
    store: &'s Store<'s>,
    checkpoint: PathBuf,
    /// Opened when something is wanted of it: its manifest is large where the trees are.
    archive: OnceCell<Option<Archive>>,
}

impl<'s> Kept<'s> {
    pub(super) fn of(store: &'s Store<'s>, checkpoint: PathBuf) -> Self {
        Kept { store, checkpoint, archive: OnceCell::new() }
    }

    fn archive(&self) -> Option<&Archive> {
        let open = || Checkpoint::read(&self.checkpoint).ok()??.contents(&self.checkpoint).ok();
        self.archive.get_or_init(open).as_ref()
    }
}

impl Contents for Kept<'_> {
    fn read(&self, digest: &Digest) -> std::io::Result<Vec<u8>> {
        match self.store.read(digest) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.archive().map_or(Err(error), |archive| archive.read(digest))
            }
            read => read,
        }
    }

    fn copy_to(&self, digest: &Digest, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        match self.store.holds(digest) {
            true => self.store.copy_to(digest, out),
            false => out.write_all(&self.read(digest)?),
        }
    }
}

impl merge::ContentStore for Kept<'_> {
    fn keep(&self, bytes: &[u8]) -> std::io::Result<Digest> {
        self.store.put(bytes).map_err(|error| error.source)
    }
}
