//! The real file system behind the `Disk` port.
//!
//! Each step that changes the disk, and each look at it, counts as one operation of the process. With
//! `WK_CRASH_AT=n` the process dies by SIGKILL just before its n-th one: the crash test walks through all of
//! them. With `WK_COUNT_OPERATIONS=FILE` a process that ends leaves in FILE how many there were.

#![expect(clippy::disallowed_methods, reason = "this is where the disk is touched")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};

use super::access::{self, Access, Trust};
use super::disk::{Content, Disk, Durability, Listed, Look, NodeKind, Readers, read_between};
use super::platform;
pub use crate::model::containment::TEMPORARY_PREFIX;

/// Operations of the whole process: a command may open several disks.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);
static ORDERS: LazyLock<Orders> = LazyLock::new(Orders::from_environment);

/// What a test asks of this process.
struct Orders {
    crash_at: Option<u64>,
    count_into: Option<PathBuf>,
}

impl Orders {
    fn from_environment() -> Self {
        let crash_at = std::env::var("WK_CRASH_AT").ok().and_then(|text| text.parse().ok());
        Orders { crash_at, count_into: std::env::var_os("WK_COUNT_OPERATIONS").map(PathBuf::from) }
    }
}

/// The file system itself.
#[derive(Debug, Default)]
pub struct RealDisk {
    /// `journal_sync = false`: for machines whose power never fails, and for benchmarks.
    never_syncs: bool,
    /// Whose files are read. Everybody's, for a command that decides nothing by them.
    trust: Option<Trust>,
}

impl RealDisk {
    pub fn new(never_syncs: bool) -> Self {
        RealDisk { never_syncs, trust: None }
    }

    /// Reads no file of a user whom nobody trusts.
    pub fn trusting(self, trust: Trust) -> Self {
        RealDisk { trust: Some(trust), ..self }
    }

    /// Whose file it is, if it is a stranger's.
    fn stranger(&self, file: &File) -> io::Result<Option<Content>> {
        let Some(trust) = &self.trust else { return Ok(None) };
        let owner = file.metadata()?.uid();
        Ok((!trust.covers(owner)).then_some(Content::Foreign { owner }))
    }

    fn begin(&self) {
        count_operation();
    }

    fn syncs(&self, durability: Durability) -> bool {
        durability == Durability::Synced && !self.never_syncs
    }
}

/// Counts one operation of the process, which may be the one before which a test wants it dead. For those who
/// change the disk beside this port, by descriptors.
pub fn count_operation() {
    let number = OPERATIONS.fetch_add(1, Ordering::Relaxed) + 1;
    if ORDERS.crash_at == Some(number) {
        let this = rustix::process::getpid();
        // Nothing is flushed and nobody is told: that is the point.
        let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
        std::process::abort();
    }
}

impl Drop for RealDisk {
    /// The last disk of the process to go has the last word.
    fn drop(&mut self) {
        if let Some(path) = &ORDERS.count_into {
            let _ = fs::write(path, format!("{}\n", OPERATIONS.load(Ordering::Relaxed)));
        }
    }
}

fn look_of(metadata: &fs::Metadata) -> Look {
    let file_type = metadata.file_type();
    Look {
        kind: NodeKind::of(file_type),
        inode: metadata.ino(),
        size: metadata.len(),
        modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        changed_ns: i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()),
        links: metadata.nlink(),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match directory_of(path) {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// The directory that a name stands in: for a bare name the one that the process works in.
fn directory_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// A file that is there and may not be read; other errors are not this file's fault.
fn refused_by_system(metadata: &fs::Metadata, error: io::Error) -> io::Result<Content> {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Err(error);
    }
    let mode = metadata.permissions().mode() & 0o777;
    let reader = rustix::process::geteuid().as_raw();
    let why = format!(
        "{error}: it belongs to user {} with mode {mode:03o}, and we are user {reader}",
        metadata.uid()
    );
    Ok(Content::Unreadable { why })
}

/// Opens for reading whatever stands there, without following a link or waiting for a writer of a pipe.
fn open_plainly(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let descriptor = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    Ok(File::from(descriptor))
}

/// Opens what stands there, or says why it is not to be read.
fn open_for_reading(path: &Path) -> io::Result<Result<File, Content>> {
    match open_plainly(path) {
        Ok(file) => Ok(Ok(file)),
        Err(error) if super::disk::leads_nowhere(&error) => Ok(Err(Content::Absent)),
        // A link (ELOOP) or a socket (ENXIO) cannot be opened this way: say what it is.
        Err(error) => match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() => refused_by_system(&metadata, error).map(Err),
            Ok(metadata) => Ok(Err(Content::NotAFile(NodeKind::of(metadata.file_type())))),
            Err(_) => Err(error),
        },
    }
}

/// Reads a file of at most `limit` bytes that does not change meanwhile.
/// The bare error: a temporary name in it would make the same trouble look like another one each time.
fn without_path(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|told| told.source()?.downcast_ref::<io::Error>());
    match inner.and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error,
    }
}

fn read_opened(file: &File, limit: u64) -> io::Result<Content> {
    let before = look_of(&file.metadata()?);
    if before.kind != NodeKind::File {
        return Ok(Content::NotAFile(before.kind));
    }
    if before.links > 1 {
        return Ok(Content::SharedLink);
    }
    if before.size > limit {
        return Ok(Content::TooLarge { size: before.size });
    }
    // No more than its size: a file that grew meanwhile shows it in the look that follows.
    let mut bytes = Vec::with_capacity(before.size as usize);
    if let Err(error) = file.take(before.size).read_to_end(&mut bytes) {
        return Ok(Content::Unreadable { why: error.to_string() });
    }
    let after = look_of(&file.metadata()?);
    let same = before.size == after.size
        && before.modified_ns == after.modified_ns
        && bytes.len() as u64 == after.size;
    Ok(if same { Content::Bytes { bytes, look: after } } else { Content::Changing })
}

/// How much of a file is read at a time.
const PART_BYTES: u64 = 128 << 10;

/// Reads a file of any size, one with several names too: a work tree may hold such.
fn digest_opened(file: &File) -> io::Result<Option<String>> {
    let before = look_of(&file.metadata()?);
    if before.kind != NodeKind::File {
        return Ok(None);
    }
    let mut hasher = super::Hasher::default();
    let mut part = vec![0; before.size.clamp(1, PART_BYTES) as usize];
    let mut reader = file;
    let mut length = 0;
    loop {
        let count = reader.read(&mut part)?;
        if count == 0 {
            break;
        }
        hasher.update(&part[..count]);
        length += count as u64;
    }
    let after = look_of(&file.metadata()?);
    let is_stable = before == after && length == after.size;
    Ok(is_stable.then(|| hasher.finish()))
}

/// The mode of a new file, and whether it holds whatever the umask says.
fn mode_for(readers: Readers, path: &Path) -> (u32, bool) {
    match (readers, directory_of(path).and_then(Access::below)) {
        (Readers::UserAlone, _) => (access::OWNERS_FILE, true),
        (Readers::Everybody, Some(access)) => (access.file_mode(), true),
        (Readers::Everybody, None) => (0o644, false),
    }
}

/// Opens a file that may be new; a new one gets the mode of its place.
fn open_or_create(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let (mode, holds) = mode_for(Readers::Everybody, path);
    let file = options.mode(mode).open(path)?;
    if holds && file.metadata()?.len() == 0 {
        access::set_file_mode(&file, mode);
    }
    Ok(file)
}

impl Disk for RealDisk {
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        self.begin();
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let kind = match entry.file_type() {
                Ok(file_type) => NodeKind::of(file_type),
                Err(error) if super::disk::is_absent(&error) => continue,
                Err(error) => return Err(error),
            };
            entries.push(Listed { name: entry.file_name(), kind });
        }
        Ok(entries)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Look>> {
        self.begin();
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(look_of(&metadata))),
            Err(error) if super::disk::leads_nowhere(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Content> {
        self.begin();
        match open_for_reading(path)? {
            Ok(file) => match self.stranger(&file)? {
                Some(foreign) => Ok(foreign),
                None => read_opened(&file, limit),
            },
            Err(content) => Ok(content),
        }
    }

    fn digest(&self, path: &Path) -> io::Result<Option<String>> {
        self.begin();
        match open_for_reading(path)? {
            Ok(file) => digest_opened(&file),
            Err(_) => Ok(None),
        }
    }

    fn read_and_ask(&self, path: &Path, limit: u64) -> io::Result<(Content, Option<bool>)> {
        self.begin();
        let file = match open_for_reading(path)? {
            Ok(file) => file,
            Err(content) => return Ok((content, None)),
        };
        if let Some(foreign) = self.stranger(&file)? {
            return Ok((foreign, None));
        }
        read_between(|| platform::has_writer(&file), || read_opened(&file, limit))
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.begin();
        fs::canonicalize(path)
    }

    fn has_writer(&self, path: &Path) -> Option<bool> {
        self.begin();
        platform::has_writer(&open_plainly(path).ok()?)
    }

    fn make_dirs(&self, dir: &Path) -> io::Result<()> {
        self.begin();
        access::make_directories(dir)
    }

    fn publish(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        self.publish_for(Readers::Everybody, path, bytes, durability)
    }

    fn publish_for(
        &self,
        readers: Readers,
        path: &Path,
        bytes: &[u8],
        durability: Durability,
    ) -> io::Result<()> {
        self.begin();
        let dir = directory_of(path).ok_or(io::ErrorKind::InvalidInput)?;
        let (mode, holds) = mode_for(readers, path);
        let mut staged = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(dir)
            .map_err(without_path)?;
        if holds {
            access::set_file_mode(staged.as_file(), mode);
        }
        staged.write_all(bytes)?;
        if self.syncs(durability) {
            staged.as_file().sync_data()?;
        }
        // Opened before the file is there: who reads it may move the whole directory away at once.
        let folder = if self.syncs(durability) { Some(File::open(dir)?) } else { None };
        self.begin();
        staged.persist(path).map_err(|failed| without_path(failed.error))?;
        folder.map_or(Ok(()), |folder| folder.sync_all())
    }

    fn prepare(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.prepare_for(Readers::Everybody, path, bytes)
    }

    fn prepare_for(&self, readers: Readers, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.begin();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (mode, holds) = mode_for(readers, path);
        let mut file = File::from(rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(mode))?);
        if holds {
            // One that an interrupted attempt left keeps its mode otherwise.
            access::set_file_mode(&file, mode);
        }
        file.write_all(bytes)
    }

    fn publish_once(&self, path: &Path, bytes: &[u8]) -> io::Result<bool> {
        self.begin();
        let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let (mode, _) = mode_for(Readers::Everybody, path);
        let mut staged = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(dir)?;
        access::set_file_mode(staged.as_file(), mode);
        staged.write_all(bytes)?;
        staged.as_file().sync_data()?;
        match rustix::fs::renameat_with(CWD, staged.path(), CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => {
                // It lives on under its new name; there is nothing left to remove.
                let _ = staged.into_temp_path().keep();
                Ok(true)
            }
            Err(rustix::io::Errno::EXIST) => Ok(false),
            // Some network file systems know no such rename; a hard link is as exclusive everywhere.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                match fs::hard_link(staged.path(), path) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn create_empty(&self, path: &Path) -> io::Result<()> {
        self.begin();
        match open_or_create(OpenOptions::new().write(true).create_new(true), path) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn append(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        self.begin();
        let mut file = open_or_create(OpenOptions::new().append(true).create(true), path)?;
        let is_new = file.metadata()?.len() == 0;
        file.write_all(bytes)?;
        if self.syncs(durability) {
            self.begin();
            file.sync_data()?;
            if is_new {
                // The content is safe, but its name may not be.
                sync_parent(path)?;
            }
        }
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.begin();
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path, durability: Durability) -> io::Result<()> {
        self.begin();
        if self.syncs(durability) {
            open_plainly(from)?.sync_data()?;
        }
        fs::rename(from, to)?;
        if self.syncs(durability) {
            sync_parent(to)?;
        }
        Ok(())
    }

    fn move_tree(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.begin();
        match fs::rename(from, to) {
            Ok(()) => sync_parent(to).and_then(|()| sync_parent(from)),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                super::archive::copy_across(from, to)
            }
            Err(error) => Err(error),
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.begin();
        fs::remove_file(path)
    }
}
