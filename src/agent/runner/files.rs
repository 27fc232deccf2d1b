//! The few ways in which a runner touches the disk: small reads, publishing by rename, opening a log.
//!
//! Nothing is synced here: a runner that loses power loses its agent too, and the watcher sees that. No
//! link is ever followed, because agents write into the same directories. Whatever is on the bus is reached through
//! directories that were opened when the runner began: should the bus be removed and made anew, nothing of this
//! runner comes into the new one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::ground::at;
use crate::bus::access::{self, Access};
use crate::bus::real_disk::TEMPORARY_PREFIX;

/// Reads a file of at most `limit` bytes; nothing, if there is no such file.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = at(path).and_then(|place| rustix::fs::openat(&place, place.name(), flags, Mode::empty()));
    let file = match opened {
        Ok(descriptor) => File::from(descriptor),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::with_capacity(1024);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(Some(bytes)),
    }
}

/// Publishes bytes at `path` by rename, so that a reader sees all of them or nothing. They are staged in the
/// attempt's own folder: there nobody is woken by a file in the making.
pub(super) fn publish(attempt: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let staged = attempt.join(format!("{TEMPORARY_PREFIX}{name}"));
    let written = open_new(&staged).and_then(|mut file| file.write_all(bytes));
    let published = written.and_then(|()| rename(&staged, path));
    if published.is_err() {
        // Half a file would only take up the room that is missing.
        let _ = remove(&staged);
    }
    published
}

/// Writes a file that nobody reads before another one is published.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    open_new(path)?.write_all(bytes)
}

/// Makes a folder, and the one that it stands in.
pub(super) fn make_folder(dir: &Path) -> io::Result<()> {
    for dir in dir.parent().into_iter().chain([dir]) {
        let place = at(dir)?;
        let mode = Mode::from_raw_mode(Access::within(&place).directory_mode());
        match rustix::fs::mkdirat(&place, place.name(), mode) {
            // Of one that somebody else made the mode is left alone.
            Ok(()) => drop(rustix::fs::chmodat(&place, place.name(), mode, AtFlags::empty())),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Opens a file for writing from its beginning.
pub(super) fn open_new(path: &Path) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = at(path)?;
    let mode = Access::within(&place).file_mode();
    let file = File::from(rustix::fs::openat(&place, place.name(), flags, Mode::from_raw_mode(mode))?);
    access::set_file_mode(&file, mode);
    Ok(file)
}

/// Opens a new file below a root, with the folders that lead to it. No link below the root is followed, and what
/// stood in the file's place is removed.
pub(super) fn open_anew_below(root: &Path, path: &Path) -> io::Result<File> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "the path leads out of its root");
    let rest = path.strip_prefix(root).map_err(|_| refused())?;
    let mut names: Vec<&OsStr> = Vec::new();
    for part in rest.components() {
        match part {
            Component::Normal(name) => names.push(name),
            _ => return Err(refused()),
        }
    }
    let last = names.pop().ok_or_else(refused)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = rustix::fs::openat(CWD, root, flags, Mode::empty())?;
    for name in names {
        match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
    }
    match rustix::fs::unlinkat(&dir, last, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(&dir, last, flags, Mode::from_raw_mode(0o644))?))
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (at(from)?, at(to)?);
    Ok(rustix::fs::renameat(&from, from.name(), &to, to.name())?)
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match at(path).and_then(|place| rustix::fs::unlinkat(&place, place.name(), AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How a file looks from outside, to see whether somebody has changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Glimpse {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    is_file: bool,
}

impl Glimpse {
    /// There is something that its writer may have meant: a file that is just made is nothing yet.
    pub(super) fn says_something(&self) -> bool {
        !self.is_file || self.size > 0
    }

    /// A file with something in it.
    pub(super) fn is_written(&self) -> bool {
        self.is_file && self.size > 0
    }
}

/// Looks at whatever stands at `path`, without opening it.
pub(super) fn glimpse(path: &Path) -> Option<Glimpse> {
    let place = at(path).ok()?;
    let stat: Stat = rustix::fs::statat(&place, place.name(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(Glimpse {
        inode: stat.st_ino,
        size: stat.st_size as u64,
        modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        is_file: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
    })
}
