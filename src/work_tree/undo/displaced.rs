//! What an undo takes away is kept first: below `undone/` beside the checkpoint, each path as it stood, in the
//! directories that lead to it from `/`.
//!
//! A file gets a second name there, which costs nothing, and is copied where another file system begins. Nothing here
//! takes anything away.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::Step;
use super::directories::is_gone;
use super::staging::needs_staging;
use crate::model::tree::{Entry, TreePath};
use crate::work_tree::descriptors::{look, name_of, open_directory_in, open_file_in, open_parent, read_link};
use crate::work_tree::operations::{Hand, temporary_name};
use crate::work_tree::store::open_or_make;

pub(super) struct Displaced<'h> {
    root: PathBuf,
    hand: Hand<'h>,
}

impl<'h> Displaced<'h> {
    pub(super) fn new(checkpoint_dir: &Path, number: u32, hand: Hand<'h>) -> Self {
        Displaced { root: checkpoint_dir.join(folder(number)), hand }
    }

    /// The first number under which nothing is kept yet: what an earlier undo kept stays as it is.
    pub(super) fn free_number(checkpoint_dir: &Path) -> u32 {
        let is_free = |number: &u32| checkpoint_dir.join(folder(*number)).symlink_metadata().is_err();
        (1..u32::MAX).find(is_free).unwrap_or(u32::MAX)
    }

    /// Where it is, if anything was kept.
    pub(super) fn place(&self) -> Option<PathBuf> {
        self.root.symlink_metadata().is_ok().then(|| self.root.clone())
    }

    /// Keeps what the given steps are going to take away. What an interrupted try has kept is kept already.
    pub(super) fn keep<'s>(&self, steps: impl Iterator<Item = &'s Step>) -> io::Result<()> {
        let mut open: BTreeMap<TreePath, OwnedFd> = BTreeMap::new();
        for step in steps.filter(|step| takes_away(step)) {
            let Some(parent) = step.path.parent() else { continue };
            let from = match open_parent(&step.path) {
                Ok(from) => from,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(error),
            };
            if !open.contains_key(&parent) {
                self.sync(&mut open)?;
                let made = self.make(&parent)?;
                open.insert(parent.clone(), made);
            }
            self.keep_one(step, &from, &open[&parent])?;
        }
        self.sync(&mut open)
    }

    fn keep_one(&self, step: &Step, from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
        let name = name_of(&step.path);
        if look(from.as_fd(), name)?.is_none() || look(to.as_fd(), name)?.is_some() {
            return Ok(());
        }
        if matches!(step.found, Some(Entry::Link { .. })) {
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

fn folder(number: u32) -> OsString {
    if number == 1 { "undone".into() } else { format!("undone-{number}").into() }
}

/// Whether bytes or a link would be gone; a mode alone is no loss.
fn takes_away(step: &Step) -> bool {
    matches!(step.found, Some(Entry::File { .. } | Entry::Link { .. }))
        && (step.wanted.is_none()
            || needs_staging(step)
            || matches!(step.wanted, Some(Entry::Directory { .. })))
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
