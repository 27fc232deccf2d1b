//! The directories in which an undo works: opened without following a link, made writable where the plan says
//! so, and synced in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use crate::model::tree::TreePath;
use crate::work_tree::descriptors::{MODE_BITS, is_gone, name_of, open_directory};
use crate::work_tree::operations::Hand;
use crate::work_tree::scope::is_inside;

/// Open at the same time; steps come in the order of their paths, so few are needed.
const OPEN_MAX: usize = 64;
/// What the owner needs to change a directory.
const OWNER_BITS: u32 = 0o700;

pub(super) struct Directories<'h> {
    hand: Hand<'h>,
    open: BTreeMap<Option<TreePath>, OwnedFd>,
    /// Those that may be made writable: their mode is set in the end.
    may_unlock: BTreeSet<TreePath>,
    touched: BTreeSet<Option<TreePath>>,
}

impl<'h> Directories<'h> {
    pub(super) fn new(hand: Hand<'h>, may_unlock: BTreeSet<TreePath>) -> Self {
        Directories { hand, open: BTreeMap::new(), may_unlock, touched: BTreeSet::new() }
    }

    /// The directory that holds `path`, to change something in it.
    pub(super) fn holding(&mut self, path: &TreePath) -> io::Result<&OwnedFd> {
        self.directory(path.parent())
    }

    /// A directory to change something in it; `None` is `/`.
    fn directory(&mut self, path: Option<TreePath>) -> io::Result<&OwnedFd> {
        self.touched.insert(path.clone());
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&path) {
            self.open.clear();
        }
        match self.open.entry(path) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let open = open_directory(entry.key().as_ref())?;
                if let Some(path) = entry.key().as_ref().filter(|path| self.may_unlock.contains(path)) {
                    let mode = rustix::fs::fstat(&open)?.st_mode;
                    if mode & OWNER_BITS != OWNER_BITS {
                        self.hand.set_mode(&open, name_of(path), (mode & 0o7777) | OWNER_BITS)?;
                    }
                }
                Ok(entry.insert(open))
            }
        }
    }

    /// Forgets a directory that is going to be another one under the same name.
    pub(super) fn forget(&mut self, path: &TreePath) {
        let is_in = |open: &TreePath| open == path || is_inside(open, path);
        self.open.retain(|open, _| !open.as_ref().is_some_and(is_in));
    }

    /// Gives a directory its mode, if it has another one. Bits beyond permissions stay as they are.
    pub(super) fn set_mode(&mut self, path: &TreePath, mode: u32) -> io::Result<()> {
        let open = open_directory(Some(path))?;
        let found = rustix::fs::fstat(&open)?.st_mode & 0o7777;
        let wanted = (found & !MODE_BITS) | (mode & MODE_BITS);
        if found != wanted {
            self.hand.set_mode(&open, name_of(path), wanted)?;
        }
        Ok(())
    }

    /// Makes everything that changed durable. What is gone meanwhile was removed, and its parent tells.
    pub(super) fn sync(&mut self, further: BTreeSet<Option<TreePath>>) -> io::Result<()> {
        self.touched.extend(further);
        for path in std::mem::take(&mut self.touched) {
            match open_directory(path.as_ref()) {
                Ok(open) => {
                    let name = path.as_ref().map_or(OsStr::new("/"), name_of);
                    self.hand.sync_directory(&open, name)?;
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
