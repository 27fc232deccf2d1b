//! Every operation by which work trees, stores and checkpoints change the disk: each through the descriptor of
//! a directory, none of them follows a link in the last name.
//!
//! A `Hindrance` is asked before each of them, so that tests can stop at any one as a crash or a full disk would.
//! Reading needs no leave and lives in `descriptors`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::bus::real_disk::{TEMPORARY_PREFIX, count_operation};

/// How many syncs a disk is asked for at the same time.
const SYNCING_THREADS: usize = 8;
/// How many files are held open until they are synced together.
pub(super) const SYNCED_TOGETHER: usize = 64;

/// What is about to be done to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    MakeDirectory,
    CreateFile,
    Write,
    Truncate,
    SetMode,
    SyncFile,
    MakeLink,
    Rename,
    RemoveFile,
    RemoveDirectory,
    SyncDirectory,
}

/// What may stand in the way of an operation. `name` is the last name of what it changes.
pub trait Hindrance: Sync {
    /// An error here is the error of the operation, which is then not done.
    fn before(&self, operation: Operation, name: &OsStr) -> io::Result<()>;

    /// How much of a write of `wanted` bytes is done: a disk that fills up takes a part of it first.
    fn room(&self, wanted: usize) -> usize {
        wanted
    }

    /// Whether what is synced is really asked of the disk.
    fn syncs(&self) -> bool {
        true
    }
}

/// Nothing stands in the way; the operations count among those of the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unhindered;

impl Hindrance for Unhindered {
    fn before(&self, _: Operation, _: &OsStr) -> io::Result<()> {
        count_operation();
        Ok(())
    }
}

/// The hand that changes the disk.
#[derive(Clone, Copy)]
pub struct Hand<'h> {
    hindrance: &'h dyn Hindrance,
}

impl std::fmt::Debug for Hand<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hand")
    }
}

impl Hand<'static> {
    /// The product's hand.
    pub fn free() -> Self {
        Hand { hindrance: &Unhindered }
    }
}

impl<'h> Hand<'h> {
    pub fn hindered_by(hindrance: &'h dyn Hindrance) -> Self {
        Hand { hindrance }
    }

    fn before(self, operation: Operation, name: &OsStr) -> io::Result<()> {
        self.hindrance.before(operation, name)
    }

    /// Fine if a directory is there already.
    pub(super) fn make_directory(self, parent: impl AsFd, name: &OsStr, mode: u32) -> io::Result<()> {
        self.before(Operation::MakeDirectory, name)?;
        match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)) {
            Err(rustix::io::Errno::EXIST) => Ok(()),
            other => Ok(other?),
        }
    }

    /// A file that was not there before, or an error.
    pub(super) fn create(self, parent: impl AsFd, name: &OsStr, mode: u32) -> io::Result<Written<'h>> {
        self.before(Operation::CreateFile, name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(mode))?;
        Ok(Written { file: File::from(file), hand: self, name: name.to_owned() })
    }

    /// Like `create`, in place of what an interrupted try has left under our own temporary name.
    pub(super) fn create_anew(
        self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        mode: u32,
    ) -> io::Result<Written<'h>> {
        debug_assert!(is_own_temporary(name.as_bytes()), "only what is ours may be replaced unseen");
        self.remove_file_if_present(parent, name)?;
        self.create(parent, name, mode)
    }

    pub(super) fn make_link(self, target: &OsStr, parent: impl AsFd, name: &OsStr) -> io::Result<()> {
        self.before(Operation::MakeLink, name)?;
        Ok(rustix::fs::symlinkat(target, parent, name)?)
    }

    /// A second name for a file, on the same file system.
    pub(super) fn link_file(
        self,
        from: impl AsFd,
        name: &OsStr,
        to: impl AsFd,
        new_name: &OsStr,
    ) -> io::Result<()> {
        self.before(Operation::MakeLink, new_name)?;
        Ok(rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?)
    }

    pub(super) fn rename(
        self,
        from: impl AsFd,
        old_name: &OsStr,
        to: impl AsFd,
        new_name: &OsStr,
    ) -> io::Result<()> {
        self.before(Operation::Rename, new_name)?;
        Ok(rustix::fs::renameat(from, old_name, to, new_name)?)
    }

    pub(super) fn remove_file(self, parent: impl AsFd, name: &OsStr) -> io::Result<()> {
        self.before(Operation::RemoveFile, name)?;
        Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?)
    }

    pub(super) fn remove_file_if_present(self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        // Asked first, so that the usual case is no operation at all.
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            _ => self.remove_file(parent, name),
        }
    }

    /// Only an empty one.
    pub(super) fn remove_directory(self, parent: impl AsFd, name: &OsStr) -> io::Result<()> {
        self.before(Operation::RemoveDirectory, name)?;
        Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Of what is open; `name` is for those who hinder.
    pub(super) fn set_mode(self, open: impl AsFd, name: &OsStr, mode: u32) -> io::Result<()> {
        self.before(Operation::SetMode, name)?;
        Ok(rustix::fs::fchmod(open, Mode::from_raw_mode(mode))?)
    }

    pub(super) fn sync_file(self, open: impl AsFd, name: &OsStr) -> io::Result<()> {
        self.before(Operation::SyncFile, name)?;
        self.sync(open)
    }

    pub(super) fn sync_directory(self, open: impl AsFd, name: &OsStr) -> io::Result<()> {
        self.before(Operation::SyncDirectory, name)?;
        self.sync(open)
    }

    /// Syncs files together: a disk writes them down in a few goes instead of one each.
    pub(super) fn sync_files<'f>(self, files: impl Iterator<Item = &'f Written<'f>>) -> io::Result<()> {
        let files: Vec<&Written<'_>> = files.collect();
        for file in &files {
            self.before(Operation::SyncFile, &file.name)?;
        }
        let share = files.len().div_ceil(SYNCING_THREADS).max(1);
        std::thread::scope(|threads| {
            let threads: Vec<_> = files
                .chunks(share)
                .map(|files| threads.spawn(move || files.iter().try_for_each(|file| self.sync(&file.file))))
                .collect();
            let stopped = |_| Err(io::Error::other("the thread that syncs has stopped"));
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(stopped))
        })
    }

    fn sync(self, open: impl AsFd) -> io::Result<()> {
        if self.hindrance.syncs() { Ok(rustix::fs::fsync(open)?) } else { Ok(()) }
    }

    /// Writes beside the place, syncs, renames, syncs the directory: readers see all of it or nothing.
    pub(super) fn publish(
        self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let staged = temporary_name(name);
        let mut file = self.create_anew(directory, &staged, 0o600)?;
        let written = write_through_buffer(&mut file, write).and_then(|()| file.sync());
        if let Err(error) = written {
            // The error that counts is the first one; what cannot be removed now is replaced by the next try.
            let _ = self.remove_file(directory, &staged);
            return Err(error);
        }
        self.rename(directory, &staged, directory, name)?;
        self.sync_directory(directory, name)
    }
}

fn write_through_buffer(
    file: &mut Written<'_>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffered = io::BufWriter::with_capacity(1 << 17, file);
    write(&mut buffered)?;
    buffered.flush()
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Written<'h> {
    file: File,
    hand: Hand<'h>,
    name: std::ffi::OsString,
}

impl Written<'_> {
    pub(super) fn sync(&self) -> io::Result<()> {
        self.hand.sync_file(&self.file, &self.name)
    }

    pub(super) fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.hand.set_mode(&self.file, &self.name, mode)
    }

    /// Forgets everything from `length` on; what is written next stands there.
    pub(super) fn cut_back_to(&mut self, length: u64) -> io::Result<()> {
        self.hand.before(Operation::Truncate, &self.name)?;
        self.file.set_len(length)?;
        io::Seek::seek(&mut self.file, io::SeekFrom::Start(length))?;
        Ok(())
    }
}

impl Write for Written<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hand.before(Operation::Write, &self.name)?;
        let taken = self.hand.hindrance.room(bytes.len());
        self.file.write(&bytes[..taken])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The name under which something is staged before it gets its own.
pub(super) fn temporary_name(name: &OsStr) -> std::ffi::OsString {
    let mut staged = std::ffi::OsString::from(TEMPORARY_PREFIX);
    staged.push(name);
    staged
}

/// Whether a name says that it is ours and temporary: no part of anybody's tree.
pub(super) fn is_own_temporary(name: &[u8]) -> bool {
    name.starts_with(TEMPORARY_PREFIX.as_bytes())
}
