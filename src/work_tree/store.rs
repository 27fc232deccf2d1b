//! Contents by their digest, one file each: `objects/ab/cdef…`. What has a name in the store is whole and
//! synced; what is half written has none.
//!
//! Contents are added and read, never changed. Who may forget one is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Dir, FileType, Mode, OFlags};
use sha2::Digest as _;

use super::descriptors::{PART_BYTES, look, names_in, open_directory_in, open_own_file, type_of};
use super::operations::{Hand, SYNCED_TOGETHER, is_own_temporary};
use crate::bus::disk::BusError;
use crate::bus::real_disk::TEMPORARY_PREFIX;
use crate::model::tree::Digest;

/// Contents up to this size are hashed before anything is written, so that what is known costs no write.
pub(super) const WHOLE_BYTES_MAX: u64 = 4 << 20;

/// Where contents can be had by their digest.
pub trait Contents {
    /// An error of kind `NotFound` where it is not kept, of `InvalidData` where it is damaged.
    fn read(&self, digest: &Digest) -> io::Result<Vec<u8>>;

    /// Writes a content out piece by piece, for those that are too large to be held. What was written before an
    /// error is not to be used.
    fn copy_to(&self, digest: &Digest, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.read(digest)?)
    }
}

/// Several places, asked one after the other.
impl Contents for [&dyn Contents] {
    fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let mut last = not_kept(digest);
        for place in self {
            match place.read(digest) {
                Ok(bytes) => return Ok(bytes),
                // Damage is told rather than absence, if no other place has it whole.
                Err(error) if last.kind() == io::ErrorKind::NotFound => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }
}

pub(super) fn not_kept(digest: &Digest) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the content {digest} is not kept"))
}

pub(super) fn damaged(digest: &Digest) -> io::Error {
    let what = format!("the kept content {digest} is damaged: its bytes have another digest");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(super) fn digest_of_bytes(bytes: &[u8]) -> Digest {
    Digest(sha2::Sha256::digest(bytes).into())
}

/// The contents of a work tree may be anybody's secrets: they are their owner's alone, and are never written again.
const CONTENT_MODE: u32 = 0o400;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory of contents.
#[derive(Debug)]
pub struct Store<'h> {
    dir: PathBuf,
    open: OwnedFd,
    hand: Hand<'h>,
}

impl<'h> Store<'h> {
    /// Opens the directory, or makes it; its parent must be there. A link in its place is refused.
    pub fn open(dir: &Path, hand: Hand<'h>) -> Result<Self, BusError> {
        let open = open_or_make(dir, hand, DIRECTORY_MODE).map_err(BusError::of("open the store", dir))?;
        Ok(Store { dir: dir.to_owned(), open, hand })
    }

    pub fn holds(&self, digest: &Digest) -> bool {
        let (folder, name) = place_of(digest);
        let Ok(folder) = open_directory_in(self.open.as_fd(), &folder) else { return false };
        let found = look(folder.as_fd(), &name);
        found.is_ok_and(|stat| stat.is_some_and(|stat| type_of(&stat) == FileType::RegularFile))
    }

    /// Keeps the content of a file. The file must not change meanwhile: what is read is what is kept.
    pub fn put_file(&self, path: &Path) -> Result<Digest, BusError> {
        let failed = || BusError::of("keep the content of", path);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(rustix::fs::CWD, path, flags, Mode::empty());
        let mut file = File::from(file.map_err(io::Error::from).map_err(failed())?);
        let stat = rustix::fs::fstat(&file).map_err(io::Error::from).map_err(failed())?;
        if type_of(&stat) != FileType::RegularFile {
            return Err(failed()(io::Error::other("not a regular file")));
        }
        if stat.st_size as u64 <= WHOLE_BYTES_MAX {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(failed())?;
            return self.put(&bytes);
        }
        let mut staged = self.stage()?;
        staged.copy_from(&mut file).map_err(failed())?;
        let mut batch = self.batch();
        let digest = batch.add(staged)?;
        batch.finish()?;
        Ok(digest)
    }

    /// Keeps the bytes.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, BusError> {
        let mut batch = self.batch();
        let digest = batch.put(bytes)?;
        batch.finish()?;
        Ok(digest)
    }

    /// Contents that become durable together.
    pub(super) fn batch(&self) -> Batch<'_, 'h> {
        Batch { store: self, staged: BTreeMap::new(), folders: BTreeSet::new() }
    }

    fn open_content(&self, digest: &Digest) -> io::Result<File> {
        let (folder, name) = place_of(digest);
        let absent = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => not_kept(digest),
            _ => error,
        };
        let folder = open_directory_in(self.open.as_fd(), &folder).map_err(absent)?;
        open_own_file(&folder, &name)?.ok_or_else(|| not_kept(digest))
    }

    /// Removes what interrupted runs have left. For the one who owns the store, while nobody else uses it.
    pub fn sweep(&self) -> Result<(), BusError> {
        let swept = || -> io::Result<()> {
            for name in names_in(&mut Dir::read_from(&self.open)?)? {
                if is_own_temporary(&name) {
                    self.hand.remove_file(&self.open, std::os::unix::ffi::OsStrExt::from_bytes(&name[..]))?;
                }
            }
            Ok(())
        };
        swept().map_err(BusError::of("sweep the store", &self.dir))
    }

    /// A content whose digest is not known yet; it is forgotten unless it is named.
    pub(super) fn stage(&self) -> Result<Staged<'_, 'h>, BusError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = OsString::from(format!("{TEMPORARY_PREFIX}{process}-{number}"));
        let file = self
            .hand
            .create_anew(self.open.as_fd(), &name, 0o600)
            .map_err(BusError::of("write into the store", &self.dir))?;
        Ok(Staged { store: self, file, name, hash: sha2::Sha256::new(), length: 0, is_named: false })
    }

    /// Gives a content its name; it must be synced.
    fn name(&self, digest: &Digest, staged: &mut Staged<'_, 'h>) -> io::Result<OsString> {
        let (folder_name, name) = place_of(digest);
        let folder = match open_directory_in(self.open.as_fd(), &folder_name) {
            Ok(folder) => folder,
            Err(_) => {
                self.hand.make_directory(&self.open, &folder_name, DIRECTORY_MODE)?;
                open_directory_in(self.open.as_fd(), &folder_name)?
            }
        };
        self.hand.rename(&self.open, &staged.name, &folder, &name)?;
        staged.is_named = true;
        Ok(folder_name)
    }
}

impl Contents for Store<'_> {
    fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let mut file = self.open_content(digest)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if digest_of_bytes(&bytes) == *digest { Ok(bytes) } else { Err(damaged(digest)) }
    }

    fn copy_to(&self, digest: &Digest, out: &mut dyn Write) -> io::Result<()> {
        let mut file = self.open_content(digest)?;
        let (mut hash, mut part) = (sha2::Sha256::new(), vec![0; PART_BYTES]);
        loop {
            let count = file.read(&mut part)?;
            if count == 0 {
                break;
            }
            hash.update(&part[..count]);
            out.write_all(&part[..count])?;
        }
        if Digest(hash.finalize().into()) == *digest { Ok(()) } else { Err(damaged(digest)) }
    }
}

/// Contents on their way into the store: synced together, then named, and durable once it is finished.
pub(super) struct Batch<'s, 'h> {
    store: &'s Store<'h>,
    staged: BTreeMap<Digest, Staged<'s, 'h>>,
    /// Folders with names that are not durable yet.
    folders: BTreeSet<OsString>,
}

impl<'s, 'h> Batch<'s, 'h> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<Digest, BusError> {
        let digest = digest_of_bytes(bytes);
        if self.has(&digest) {
            return Ok(digest);
        }
        let mut staged = self.store.stage()?;
        staged.write(bytes).map_err(self.failed())?;
        self.add(staged)
    }

    pub(super) fn add(&mut self, staged: Staged<'s, 'h>) -> Result<Digest, BusError> {
        let digest = staged.digest();
        if !self.has(&digest) {
            staged.file.set_mode(CONTENT_MODE).map_err(self.failed())?;
            self.staged.insert(digest, staged);
        }
        if self.staged.len() >= SYNCED_TOGETHER {
            self.name_all().map_err(self.failed())?;
        }
        Ok(digest)
    }

    /// Until it returned, nobody may be told of what is in the batch.
    pub(super) fn finish(mut self) -> Result<(), BusError> {
        self.name_all().and_then(|()| self.sync_names()).map_err(self.failed())
    }

    fn has(&self, digest: &Digest) -> bool {
        self.staged.contains_key(digest) || self.store.holds(digest)
    }

    fn name_all(&mut self) -> io::Result<()> {
        self.store.hand.sync_files(self.staged.values().map(|staged| &staged.file))?;
        for (digest, mut staged) in std::mem::take(&mut self.staged) {
            self.folders.insert(self.store.name(&digest, &mut staged)?);
        }
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let Store { open, hand, dir } = self.store;
        for name in &self.folders {
            hand.sync_directory(open_directory_in(open.as_fd(), name)?, name)?;
        }
        match self.folders.is_empty() {
            true => Ok(()),
            // Folders may be new themselves.
            false => hand.sync_directory(open, dir.file_name().unwrap_or_default()),
        }
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> BusError + use<'s, 'h> {
        BusError::of("write into the store", &self.store.dir)
    }
}

/// A content on its way into the store.
pub(super) struct Staged<'s, 'h> {
    store: &'s Store<'h>,
    file: super::operations::Written<'h>,
    name: OsString,
    hash: sha2::Sha256,
    pub(super) length: u64,
    is_named: bool,
}

impl Staged<'_, '_> {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn copy_from(&mut self, file: &mut File) -> io::Result<()> {
        let mut part = vec![0; PART_BYTES];
        loop {
            match file.read(&mut part)? {
                0 => return Ok(()),
                count => self.write(&part[..count])?,
            }
        }
    }

    pub(super) fn digest(&self) -> Digest {
        Digest(self.hash.clone().finalize().into())
    }
}

impl Drop for Staged<'_, '_> {
    fn drop(&mut self) {
        if !self.is_named {
            // What cannot be removed now is swept later.
            let _ = self.store.hand.remove_file(&self.store.open, &self.name);
        }
    }
}

/// Folder and file of a content.
fn place_of(digest: &Digest) -> (OsString, OsString) {
    let hex = digest.to_string();
    (OsString::from(&hex[..2]), OsString::from(&hex[2..]))
}

/// Opens a directory of our own without following a link in its last name, or makes it.
pub(super) fn open_or_make(dir: &Path, hand: Hand<'_>, mode: u32) -> io::Result<OwnedFd> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a directory below another one is expected"));
    };
    let parent = File::open(parent)?;
    match open_directory_in(parent.as_fd(), name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            hand.make_directory(&parent, name, mode)?;
            hand.sync_directory(&parent, name)?;
        }
        Err(error) => return Err(error),
        Ok(open) => return owned_by_us(open),
    }
    owned_by_us(open_directory_in(parent.as_fd(), name)?)
}

/// Like `open_or_make`, but what is not there stays so.
pub(super) fn open_own(dir: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(rustix::fs::CWD, dir, flags, Mode::empty()) {
        Ok(open) => owned_by_us(open).map(Some),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// In a directory that everybody may write to, somebody else may have made ours before us.
fn owned_by_us(open: OwnedFd) -> io::Result<OwnedFd> {
    let owner = rustix::fs::fstat(&open)?.st_uid;
    let we = rustix::process::geteuid().as_raw();
    if owner == we || we == 0 {
        return Ok(open);
    }
    let what = format!("it belongs to user {owner}, and we are user {we}; remove it or choose another place");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}
