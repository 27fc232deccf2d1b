//! What is about to be taken away is kept first, below a directory of its own: each path as it stood, in the
//! directories that lead to it from `/`.
//!
//! A file gets a second name there, which costs nothing, and is copied where another file system begins. Nothing here
//! takes anything away.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use super::descriptors::{is_gone, look, name_of, open_directory_in, open_file_in, open_parent, read_link};
use super::operations::{Hand, temporary_name};
use super::store::open_or_make;
use crate::model::tree::{Entry, TreePath};

/// A place for what is taken away.
pub struct Displaced<'h> {
    root: PathBuf,
    hand: Hand<'h>,
}

impl<'h> Displaced<'h> {
    /// The directory is made when there is something to keep; its parent must be there.
    pub fn at(root: PathBuf, hand: Hand<'h>) -> Self {
        Displaced { root, hand }
    }

    /// Where it is, if anything was kept.
    pub fn place(&self) -> Option<PathBuf> {
        self.root.symlink_metadata().is_ok().then(|| self.root.clone())
    }

    /// Keeps files and links that are going to be taken away. What an interrupted try has kept is kept already.
    pub fn keep<'e>(&self, entries: impl Iterator<Item = (&'e TreePath, &'e Entry)>) -> io::Result<()> {
        let mut open: BTreeMap<TreePath, OwnedFd> = BTreeMap::new();
        for (path, entry) in entries {
            let Some(parent) = path.parent() else { continue };
            let from = match open_parent(path) {
                Ok(from) => from,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(error),
            };
            if !open.contains_key(&parent) {
                self.sync(&mut open)?;
                let made = self.make(&parent)?;
                open.insert(parent.clone(), made);
            }
            self.keep_one(path, entry, &from, &open[&parent])?;
        }
        self.sync(&mut open)
    }

    fn keep_one(&self, path: &TreePath, entry: &Entry, from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
        let name = name_of(path);
        if look(from.as_fd(), name)?.is_none() || look(to.as_fd(), name)?.is_some() {
            return Ok(());
        }
        if matches!(entry, Entry::Link { .. }) {
            let target = read_link(from.as_fd(), name)?;
            return self.hand.make_link(target.as_os_str(), to, name);
        }
        match self.hand.link_file(from, name, to, name) {
            Ok(()) => Ok(()),
            Err(error) if needs_a_copy(&error) => self.copy(name, from, to),
            Err(error) => Err(error),
        }
    }

    fn copy(&self, name: &OsStr, from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
        let mut source = open_file_in(from.as_fd(), name)?;
        let staged = temporary_name(name);
        let mut file = self.hand.create_anew(to.as_fd(), &staged, 0o600)?;
        io::copy(&mut source, &mut file)?;
        file.sync()?;
        self.hand.rename(to, &staged, to, name)
    }

    /// The directory that keeps what stood in `directory`.
    fn make(&self, directory: &TreePath) -> io::Result<OwnedFd> {
        let mut open = open_or_make(&self.root, self.hand, 0o700)?;
        for name in directory.as_path().components() {
            self.hand.make_directory(&open, name.as_os_str(), 0o700)?;
            open = open_directory_in(open.as_fd(), name.as_os_str())?;
        }
        Ok(open)
    }

    fn sync(&self, open: &mut BTreeMap<TreePath, OwnedFd>) -> io::Result<()> {
        let name = self.root.file_name().unwrap_or_default();
        std::mem::take(open).values().try_for_each(|dir| self.hand.sync_directory(dir, name))
    }
}

/// Another file system, one without second names, or a file of another user.
fn needs_a_copy(error: &io::Error) -> bool {
    let codes = [
        rustix::io::Errno::XDEV,
        rustix::io::Errno::PERM,
        rustix::io::Errno::MLINK,
        rustix::io::Errno::OPNOTSUPP,
    ];
    codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}
