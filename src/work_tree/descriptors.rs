//! Looking at trees through descriptors: no link is followed, no pipe waits for its writer, and a directory that
//! is swapped for a link on the way leads nowhere. Nothing here changes the disk.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::model::tree::{Digest, Entry, RawText, TreePath};

/// How much is read at one go.
pub(super) const PART_BYTES: usize = 128 << 10;
/// Bits that `chmod` sets and a tree keeps; those that lend somebody else's rights are not among them.
pub(super) const MODE_BITS: u32 = 0o777;

/// Searching a directory on the way needs no right to list it.
#[cfg(target_os = "linux")]
const ON_THE_WAY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const ON_THE_WAY: OFlags = OFlags::RDONLY;

/// What the system says of a file without reading it. As long as all of it stays the same, so does the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub modified_ns: i64,
    pub changed_ns: i64,
}

impl Seen {
    pub(super) fn of(stat: &Stat) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Seen {
            device: wide(stat.st_dev),
            inode: wide(stat.st_ino),
            size: wide(stat.st_size),
            modified_ns: nanoseconds(wide(stat.st_mtime), wide(stat.st_mtime_nsec)),
            changed_ns: nanoseconds(wide(stat.st_ctime), wide(stat.st_ctime_nsec)),
        }
    }
}

/// The same number in the width that is used here: systems differ in theirs.
fn wide<From: TryInto<Into>, Into: Default>(number: From) -> Into {
    number.try_into().unwrap_or_default()
}

pub(super) fn type_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(super) fn mode_of(stat: &Stat) -> u32 {
    stat.st_mode & MODE_BITS
}

/// A path of a manifest as the system knows it: manifests stand below `/`.
pub fn absolute(path: &TreePath) -> PathBuf {
    path.below("/".as_ref())
}

pub(super) fn name_of(path: &TreePath) -> &OsStr {
    OsStr::from_bytes(path.name())
}

/// Opens a directory to list or change it; `None` is `/`. Every name on the way must be a directory itself.
pub(super) fn open_directory(path: Option<&TreePath>) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let names: Vec<&[u8]> =
        path.map(|path| path.as_bytes().split(|byte| *byte == b'/').collect()).unwrap_or_default();
    let first = if names.is_empty() { OFlags::RDONLY } else { ON_THE_WAY };
    let mut open = rustix::fs::openat(rustix::fs::CWD, "/", flags | first, Mode::empty())?;
    for (index, name) in names.iter().enumerate() {
        let access = if index + 1 == names.len() { OFlags::RDONLY } else { ON_THE_WAY };
        open = rustix::fs::openat(&open, OsStr::from_bytes(name), flags | access, Mode::empty())?;
    }
    Ok(open)
}

/// The directory that holds a path.
pub(super) fn open_parent(path: &TreePath) -> io::Result<OwnedFd> {
    open_directory(path.parent().as_ref())
}

pub(super) fn open_directory_in(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Opens for reading without following a link or waiting for a pipe. What it is must be asked afterwards.
pub(super) fn open_file_in(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?))
}

/// What stands under a name, itself and not what it leads to; `None` where there is nothing.
pub(super) fn look(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn read_link(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<RawText> {
    let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
    Ok(RawText::new(target.into_bytes()))
}

/// The names in a directory, sorted, so that every walk goes the same way.
pub(super) fn names_in(directory: &mut Dir) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether another file system, or another part of this one, is mounted here.
#[cfg(target_os = "linux")]
pub(super) fn is_mount_point(directory: BorrowedFd<'_>) -> bool {
    use rustix::fs::{StatxAttributes, StatxFlags};
    let told = rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::empty());
    told.is_ok_and(|told| told.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_mount_point(_: BorrowedFd<'_>) -> bool {
    false
}

/// The time by which the kernel stamps files.
pub(super) fn file_clock_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// The digest of what a reader gives, and how much it was.
pub(super) fn digest_of(reader: &mut impl Read, part: &mut Vec<u8>) -> io::Result<(Digest, u64)> {
    part.resize(PART_BYTES, 0);
    let (mut hash, mut length) = (sha2::Sha256::new(), 0);
    loop {
        let count = match reader.read(part) {
            Ok(0) => return Ok((Digest(hash.finalize().into()), length)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&part[..count]);
        length += count as u64;
    }
}

/// What stands under a name right now, content and all; `Err` tells of pipes, sockets and devices too.
pub(super) fn entry_at(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Entry>> {
    let Some(stat) = look(parent, name)? else { return Ok(None) };
    match type_of(&stat) {
        FileType::Directory => Ok(Some(Entry::Directory { mode: mode_of(&stat) })),
        FileType::Symlink => Ok(Some(Entry::Link { target: read_link(parent, name)? })),
        FileType::RegularFile => {
            let mut file = open_file_in(parent, name)?;
            let stat = rustix::fs::fstat(&file)?;
            if type_of(&stat) != FileType::RegularFile {
                return Err(io::Error::other("it was exchanged while it was opened"));
            }
            let (sha256, size) = digest_of(&mut file, &mut Vec::new())?;
            Ok(Some(Entry::File { mode: mode_of(&stat), size, sha256 }))
        }
        _ => Err(io::Error::other("a pipe, socket or device stands there")),
    }
}

/// A file in a directory that only we should write: a plain file, or an error that says so.
pub(super) fn open_own_file(directory: impl AsFd, name: &OsStr) -> io::Result<Option<File>> {
    let file = match open_file_in(directory.as_fd(), name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let stat = rustix::fs::fstat(&file)?;
    if type_of(&stat) != FileType::RegularFile {
        return Err(io::Error::other("not a regular file; remove it"));
    }
    Ok(Some(file))
}

/// Whether an error only says that no directory stands there.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
