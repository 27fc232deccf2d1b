//! Walks trees and says what stands in them: every entry with its digest, what was left out and why, and what
//! the system said of each file, so that the next walk reads again only what may have changed.
//!
//! Contents pass through a `Keeper` on their way: a plain scan hashes them, a capture puts them into the
//! store, a checkpoint into its archive. Each file is read once for all of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Dir, FileType, Stat};
use serde::{Deserialize, Serialize};

use super::descriptors::{
    Seen, absolute, digest_of, file_clock_ns, is_mount_point, look, mode_of, name_of, names_in,
    open_directory_in, open_file_in, open_parent, read_link, type_of,
};
use super::operations::is_own_temporary;
use super::scope::{Scope, is_set_aside};
use super::shown;
use crate::bus::disk::BusError;
use crate::model::tree::{Digest, Entry, Manifest, TreePath};

/// How often a file that changes while it is read is read again.
const READINGS_MAX: u32 = 4;
/// Directories within directories: each level holds a descriptor while it is walked.
pub const DEPTH_MAX: u32 = 200;
/// A file that was written so shortly before a walk may be written again without showing it: some file systems
/// count time in steps of two seconds.
const SETTLING_NS: i64 = 2_000_000_000;

/// Within this time two changes may bear the same stamp: kernels count it in ticks of up to ten milliseconds.
const TICK_NS: i64 = 50_000_000;

/// What a walk found. Paths stand below `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    pub manifest: Manifest,
    /// Files that a later walk need not read again as long as they look the same.
    pub seen: BTreeMap<TreePath, Seen>,
    /// How files looked that were too young for that: whether they were touched since can be told by it, whether they
    /// were changed cannot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub young: BTreeMap<TreePath, Seen>,
    pub left_out: Vec<LeftOut>,
}

impl Scan {
    /// How a file looked.
    pub fn look_of(&self, path: &TreePath) -> Option<&Seen> {
        self.seen.get(path).or_else(|| self.young.get(path))
    }
}

/// Something in a tree that is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub path: TreePath,
    pub because: WhyLeftOut,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum WhyLeftOut {
    Pipe,
    Socket,
    Device,
    /// The system does not let us read it.
    Unreadable {
        error: String,
    },
    OtherMount,
    /// It was written each time that it was read.
    Changing,
    TooDeep,
    /// Its digest is known, its content is not kept.
    TooLarge {
        size: u64,
        limit: u64,
    },
    /// One of our own that an interrupted run has left.
    OwnTemporary,
}

impl LeftOut {
    /// Whether one of our own temporary files is still there: papers are published while trees are looked at, and the
    /// file that becomes one is soon gone. Whatever else was left out is.
    pub fn is_still_so(&self) -> bool {
        self.because != WhyLeftOut::OwnTemporary || absolute(&self.path).symlink_metadata().is_ok()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", shown::path(&self.path))?;
        match &self.because {
            WhyLeftOut::Pipe => f.write_str("a pipe has no content to keep"),
            WhyLeftOut::Socket => f.write_str("a socket has no content to keep"),
            WhyLeftOut::Device => f.write_str("devices are not kept"),
            WhyLeftOut::Unreadable { error } => write!(f, "it cannot be read: {error}"),
            WhyLeftOut::OtherMount => f.write_str("something else is mounted there; name it as a root"),
            WhyLeftOut::Changing => {
                write!(f, "it changed each of the {READINGS_MAX} times that it was read; stop who writes it")
            }
            WhyLeftOut::TooDeep => write!(f, "more than {DEPTH_MAX} directories within each other"),
            WhyLeftOut::TooLarge { size, limit } => {
                write!(f, "{size} bytes; contents of more than {limit} are not kept")
            }
            WhyLeftOut::OwnTemporary => f.write_str("left by an interrupted run of Watchkeeper"),
        }
    }
}

/// Walks all roots of a scope and reads every file.
pub fn scan(scope: &Scope) -> Result<Scan, BusError> {
    walk(scope, None, &mut Hashing::default())
}

/// Like `scan`, but a file that looks as it did in `previous` is not read again.
pub fn rescan(scope: &Scope, previous: &Scan) -> Result<Scan, BusError> {
    walk(scope, Some(previous), &mut Hashing::default())
}

/// Takes the content of each file that is read.
pub(super) trait Keeper {
    /// The digest of a file that is not to be read at all.
    fn knows(&mut self, _size: u64) -> Option<Digest> {
        None
    }

    /// Reads the file from its beginning to its end. What was read counts once it is settled.
    fn read(&mut self, path: &TreePath, file: &mut File, size: u64) -> Result<Kept, KeepError>;

    /// Whether the file stayed the same while it was read; if not, what was read is to be forgotten.
    fn settle(&mut self, _is_stable: bool) -> Result<(), BusError> {
        Ok(())
    }
}

/// What a keeper has read.
pub(super) struct Kept {
    pub(super) digest: Digest,
    pub(super) length: u64,
    /// Why the content is not kept, if it is not.
    pub(super) left_out: Option<WhyLeftOut>,
}

/// Whose fault it is that a file could not be kept.
pub(super) enum KeepError {
    /// The file's: it is left out, and the walk goes on.
    Reading(io::Error),
    /// That of the place where contents are kept: the walk ends.
    Keeping(BusError),
}

/// Keeps nothing but the digest.
#[derive(Default)]
struct Hashing {
    part: Vec<u8>,
}

impl Keeper for Hashing {
    fn read(&mut self, _: &TreePath, file: &mut File, _: u64) -> Result<Kept, KeepError> {
        let (digest, length) = digest_of(file, &mut self.part).map_err(KeepError::Reading)?;
        Ok(Kept { digest, length, left_out: None })
    }
}

pub(super) fn walk(
    scope: &Scope,
    previous: Option<&Scan>,
    keeper: &mut dyn Keeper,
) -> Result<Scan, BusError> {
    let settled_before_ns = file_clock_ns() - SETTLING_NS;
    let (entries, seen, young, left_out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut walk = Walk { scope, previous, keeper, settled_before_ns, entries, seen, young, left_out };
    for root in scope.roots().iter().filter(|root| scope.holds(root)) {
        let parent = match open_parent(root) {
            Ok(parent) => parent,
            // The root is not there, or somebody put something else where it would be.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(BusError::of("open the directory that holds", &absolute(root))(error)),
        };
        let place =
            Place { parent: borrow(&parent), name: name_of(root), path: root, depth: 0, device: None };
        walk.node(&place)?;
    }
    // Made into maps at one go, which costs less than one by one.
    let Walk { entries, seen, young, mut left_out, .. } = walk;
    left_out.retain(LeftOut::is_still_so);
    let (seen, young) = (seen.into_iter().collect(), young.into_iter().collect());
    Ok(Scan { manifest: entries.into_iter().collect(), seen, young, left_out })
}

fn borrow(descriptor: &OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(descriptor)
}

/// Where a walk stands.
struct Place<'p> {
    parent: BorrowedFd<'p>,
    name: &'p OsStr,
    path: &'p TreePath,
    /// Directories between it and its root.
    depth: u32,
    /// Of the directory that holds it; none for a root.
    device: Option<u64>,
}

struct Walk<'w> {
    scope: &'w Scope,
    previous: Option<&'w Scan>,
    keeper: &'w mut dyn Keeper,
    settled_before_ns: i64,
    entries: Vec<(TreePath, Entry)>,
    seen: Vec<(TreePath, Seen)>,
    young: Vec<(TreePath, Seen)>,
    left_out: Vec<LeftOut>,
}

impl Walk<'_> {
    /// One name, whatever it stands for. What is exchanged between the look and the opening is looked at again.
    fn node(&mut self, place: &Place<'_>) -> Result<(), BusError> {
        if self.scope.is_left_off() {
            let told = io::Error::other("nobody wants to know any more");
            return Err(BusError::of("look at", &absolute(place.path))(told));
        }
        for _ in 0..READINGS_MAX {
            let stat = match look(place.parent, place.name) {
                Ok(Some(stat)) => stat,
                Ok(None) => return Ok(()),
                Err(error) => return self.unreadable(place, &error),
            };
            let tried = match type_of(&stat) {
                FileType::RegularFile => self.file(place, &stat),
                FileType::Directory => self.directory(place),
                FileType::Symlink => read_link(place.parent, place.name)
                    .map(|target| self.enter(place, Entry::Link { target }))
                    .map_err(KeepError::Reading),
                FileType::Fifo => return self.leave_out(place, WhyLeftOut::Pipe),
                FileType::Socket => return self.leave_out(place, WhyLeftOut::Socket),
                _ => return self.leave_out(place, WhyLeftOut::Device),
            };
            match tried {
                Ok(()) => return Ok(()),
                Err(KeepError::Keeping(error)) => return Err(error),
                Err(KeepError::Reading(error)) if was_exchanged(&error) => {}
                Err(KeepError::Reading(error)) => return self.unreadable(place, &error),
            }
        }
        self.leave_out(place, WhyLeftOut::Changing)
    }

    fn file(&mut self, place: &Place<'_>, stat: &Stat) -> Result<(), KeepError> {
        let seen = Seen::of(stat);
        let known = self.known_digest(place.path, &seen).or_else(|| self.keeper.knows(seen.size));
        if let Some(sha256) = known {
            self.seen.push((place.path.clone(), seen));
            self.enter(place, Entry::File { mode: mode_of(stat), size: seen.size, sha256 });
            return Ok(());
        }
        for _ in 0..READINGS_MAX {
            // Opened each time: whoever publishes by rename leaves the old file as it was.
            let mut file = open_file_in(place.parent, place.name).map_err(KeepError::Reading)?;
            let before = Seen::of(&self.stat_of_file(&file)?);
            let begun_ns = file_clock_ns();
            let kept = self.keeper.read(place.path, &mut file, before.size)?;
            let is_fresh = before.changed_ns > begun_ns - TICK_NS;
            let reads_the_same =
                !is_fresh || digest_again(&mut file).map_err(KeepError::Reading)? == kept.digest;
            let after = self.stat_of_file(&file)?;
            let seen = Seen::of(&after);
            let is_stable = before == seen && kept.length == seen.size && reads_the_same;
            self.keeper.settle(is_stable).map_err(KeepError::Keeping)?;
            if is_stable {
                let is_settled = seen.changed_ns < self.settled_before_ns;
                let looks = if is_settled { &mut self.seen } else { &mut self.young };
                looks.push((place.path.clone(), seen));
                if let Some(because) = kept.left_out {
                    self.left_out.push(LeftOut { path: place.path.clone(), because });
                }
                let entry = Entry::File { mode: mode_of(&after), size: kept.length, sha256: kept.digest };
                self.enter(place, entry);
                return Ok(());
            }
        }
        self.left_out.push(LeftOut { path: place.path.clone(), because: WhyLeftOut::Changing });
        Ok(())
    }

    fn stat_of_file(&self, file: &File) -> Result<Stat, KeepError> {
        let stat = rustix::fs::fstat(file).map_err(|error| KeepError::Reading(error.into()))?;
        match type_of(&stat) {
            FileType::RegularFile => Ok(stat),
            _ => Err(KeepError::Reading(rustix::io::Errno::LOOP.into())),
        }
    }

    /// The digest of a file that looks as it did when it was read last.
    fn known_digest(&self, path: &TreePath, seen: &Seen) -> Option<Digest> {
        let previous = self.previous?;
        if previous.seen.get(path)? != seen {
            return None;
        }
        match previous.manifest.get(path)? {
            Entry::File { sha256, .. } => Some(*sha256),
            Entry::Link { .. } | Entry::Directory { .. } => None,
        }
    }

    fn directory(&mut self, place: &Place<'_>) -> Result<(), KeepError> {
        let open = open_directory_in(place.parent, place.name).map_err(KeepError::Reading)?;
        let stat = rustix::fs::fstat(&open).map_err(|error| KeepError::Reading(error.into()))?;
        let device = Seen::of(&stat).device;
        let is_elsewhere = |outer: u64| outer != device || is_mount_point(borrow(&open));
        if place.device.is_some_and(is_elsewhere) {
            return self.leave_out(place, WhyLeftOut::OtherMount).map_err(KeepError::Keeping);
        }
        if place.depth >= DEPTH_MAX {
            return self.leave_out(place, WhyLeftOut::TooDeep).map_err(KeepError::Keeping);
        }
        let mut open = Dir::new(open).map_err(|error| KeepError::Reading(error.into()))?;
        let names = names_in(&mut open).map_err(KeepError::Reading)?;
        self.enter(place, Entry::Directory { mode: mode_of(&stat) });
        let parent = open.fd().map_err(|error| KeepError::Reading(error.into()))?;
        for name in names {
            let Some(last) = TreePath::parse(&name[..]) else { continue };
            let path = place.path.join(&last);
            if self.scope.excluded().contains(&path) || is_set_aside(&name) {
                continue;
            }
            let name = OsStr::from_bytes(&name);
            let inner = Place { parent, name, path: &path, depth: place.depth + 1, device: Some(device) };
            if is_own_temporary(path.name()) {
                self.leave_out(&inner, WhyLeftOut::OwnTemporary).map_err(KeepError::Keeping)?;
            } else {
                self.node(&inner).map_err(KeepError::Keeping)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, place: &Place<'_>, entry: Entry) {
        self.entries.push((place.path.clone(), entry));
    }

    fn unreadable(&mut self, place: &Place<'_>, error: &io::Error) -> Result<(), BusError> {
        if is_of_the_process(error) {
            let error = io::Error::new(error.kind(), error.to_string());
            return Err(BusError::of("look at", &absolute(place.path))(error));
        }
        self.leave_out(place, WhyLeftOut::Unreadable { error: error.to_string() })
    }

    fn leave_out(&mut self, place: &Place<'_>, because: WhyLeftOut) -> Result<(), BusError> {
        self.left_out.push(LeftOut { path: place.path.clone(), because });
        Ok(())
    }
}

/// The digest of a file that was read a moment ago.
fn digest_again(file: &mut File) -> io::Result<Digest> {
    io::Seek::rewind(file)?;
    Ok(digest_of(file, &mut Vec::new())?.0)
}

/// Whether an error says only that something else stands there than a moment ago.
fn was_exchanged(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::INVAL | Errno::NXIO))
}

/// Whether an error is no matter of the one file: no descriptors, no memory.
fn is_of_the_process(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::path::PathBuf;

    /// Writes to the file just after it was read, a number of times.
    struct Meddling {
        path: PathBuf,
        texts: Vec<&'static str>,
        settled: Vec<bool>,
    }

    impl Keeper for Meddling {
        fn read(&mut self, _: &TreePath, file: &mut File, _: u64) -> Result<Kept, KeepError> {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(KeepError::Reading)?;
            if let Some(text) = self.texts.pop() {
                std::fs::write(&self.path, text).unwrap();
            }
            let digest = super::super::store::digest_of_bytes(&bytes);
            Ok(Kept { digest, length: bytes.len() as u64, left_out: None })
        }

        fn settle(&mut self, is_stable: bool) -> Result<(), BusError> {
            self.settled.push(is_stable);
            Ok(())
        }
    }

    fn meddle(texts: Vec<&'static str>) -> (Scan, Vec<bool>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "first").unwrap();
        let scope = Scope::new(std::slice::from_ref(&path), &[]).unwrap();
        let mut meddling = Meddling { path, texts, settled: Vec::new() };
        let found = walk(&scope, None, &mut meddling).unwrap();
        (found, meddling.settled)
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again() {
        // Of the same size, and within the same tick of the clock.
        let (found, settled) = meddle(vec!["third", "other"]);
        assert_eq!(settled, [false, false, true]);
        let digest = super::super::store::digest_of_bytes(b"third");
        let entries: Vec<&Entry> = found.manifest.values().collect();
        assert!(
            matches!(entries[..], [Entry::File { size: 5, sha256, .. }] if *sha256 == digest),
            "{entries:?}"
        );
    }

    /// Publishes a paper while a file is read.
    struct Publishing(PathBuf);

    impl Keeper for Publishing {
        fn read(&mut self, _: &TreePath, _: &mut File, length: u64) -> Result<Kept, KeepError> {
            std::fs::rename(self.0.join(".tmp-wk-status.json"), self.0.join("status.json")).unwrap();
            let digest = super::super::store::digest_of_bytes(b"file");
            Ok(Kept { digest, length, left_out: None })
        }
    }

    #[test]
    fn a_file_that_is_just_being_published_is_no_leftover() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".tmp-wk-status.json", ".tmp-wk-left", "file"] {
            std::fs::write(dir.path().join(name), "file").unwrap();
        }
        let scope = Scope::new(&[dir.path().to_owned()], &[]).unwrap();
        let found = walk(&scope, None, &mut Publishing(dir.path().to_owned())).unwrap();
        let told: Vec<&[u8]> = found.left_out.iter().map(|left| left.path.name()).collect();
        assert_eq!(told, [b".tmp-wk-left"]);
    }

    #[test]
    fn a_file_that_changes_each_time_is_told_in_the_end() {
        let (found, settled) = meddle(vec!["5", "44", "333", "2222"]);
        assert_eq!(settled, [false; READINGS_MAX as usize]);
        assert_eq!(found.manifest.len(), 0);
        assert_eq!(found.left_out[0].because, WhyLeftOut::Changing);
    }
}
