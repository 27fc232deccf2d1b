//! What people wrote into a tree that a merge made is kept before that tree is replaced or removed: below
//! `.wk-replaced/` in the workspace, by batch and round.
//!
//! A content that is kept nowhere else is a person's; everything that a merge makes is in the store. Whether a tree is
//! to be replaced is decided elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use super::Fault;
use super::kept::Kept;
use crate::bus::disk::BusError;
use crate::bus::{Disk, RealDisk};
use crate::model::tree::{Entry, Manifest};
use crate::work_tree::{Displaced, Hand, Scope, scan};

/// Where it goes in this round, and what is kept already.
pub(super) struct Replaced<'a> {
    /// The folder of all rounds, in the workspace.
    pub(super) folder: PathBuf,
    pub(super) batch: &'a str,
    pub(super) round: u32,
    pub(super) contents: &'a Kept<'a>,
}

impl Replaced<'_> {
    /// Keeps what only `tree` has.
    pub(super) fn keep(&self, tree: &Path) -> Result<(), Fault> {
        if tree.symlink_metadata().is_err() {
            return Ok(());
        }
        let failed = || BusError::of("keep what was edited in", tree);
        let mut only_here = Manifest::new();
        for (path, entry) in scan(&Scope::new(&[tree.to_owned()], &[])?)?.manifest {
            if !self.is_known(&entry).map_err(failed())? {
                only_here.insert(path, entry);
            }
        }
        if only_here.is_empty() {
            return Ok(());
        }
        RealDisk::default().make_dirs(&self.folder).map_err(failed())?;
        super::merge::assert_directory(&self.folder)?;
        let place = Displaced::at(self.place(), Hand::free());
        Ok(place.keep(only_here.iter()).map_err(failed())?)
    }

    /// Says so, where this round or a try at it that was interrupted has kept anything.
    pub(super) fn told(&self) -> Option<String> {
        let place = self.place();
        place.symlink_metadata().ok()?;
        Some(format!("edits that this merge would have written over are kept in {}", place.display()))
    }

    fn place(&self) -> PathBuf {
        self.folder.join(format!("{}-{}", self.batch, self.round))
    }

    fn is_known(&self, entry: &Entry) -> io::Result<bool> {
        match entry {
            Entry::File { sha256, .. } => self.contents.knows(sha256),
            // A link has nothing to lose but its name.
            Entry::Link { .. } | Entry::Directory { .. } => Ok(true),
        }
    }
}
