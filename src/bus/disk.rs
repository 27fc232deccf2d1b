//! The port to the file system: few verbs, each whole. `RealDisk` implements it for the product, the
//! simulator for its model, where any call can be the last one before a crash.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whether a change must survive a loss of power once the call returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Journal, accepted request, collected result, batch result.
    Synced,
    /// Heartbeats and projections: they can be made again.
    Unsynced,
}

/// Who may read what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// On a bus: the user, or the group that it is shared with. Elsewhere: those whom the umask lets.
    Everybody,
    /// It holds values that may be secrets.
    UserAlone,
}

impl Readers {
    /// Of a paper that holds what a request says.
    pub fn of_values(carries_values: bool) -> Self {
        if carries_values { Readers::UserAlone } else { Readers::Everybody }
    }
}

/// What kind of thing a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    File,
    Directory,
    Symlink,
    /// FIFO, socket, device.
    Special,
}

impl NodeKind {
    pub fn of(file_type: std::fs::FileType) -> Self {
        if file_type.is_file() {
            NodeKind::File
        } else if file_type.is_dir() {
            NodeKind::Directory
        } else if file_type.is_symlink() {
            NodeKind::Symlink
        } else {
            NodeKind::Special
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            NodeKind::File => "a regular file",
            NodeKind::Directory => "a directory",
            NodeKind::Symlink => "a symbolic link",
            NodeKind::Special => "a pipe, socket or device",
        }
    }
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: OsString,
    pub kind: NodeKind,
}

/// What a look at a file shows. Any difference between two looks is a change; what the times say is
/// never compared with a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub kind: NodeKind,
    pub inode: u64,
    pub size: u64,
    pub modified_ns: i128,
    pub changed_ns: i128,
    pub links: u64,
}

/// A look as JSON holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireLook {
    kind: String,
    inode: u64,
    size: u64,
    modified_ns: String,
    changed_ns: String,
}

impl WireLook {
    pub fn of(look: &Look) -> Self {
        WireLook {
            kind: look.kind.word().to_owned(),
            inode: look.inode,
            size: look.size,
            // As text: JSON numbers do not hold nanoseconds since 1970 exactly everywhere.
            modified_ns: look.modified_ns.to_string(),
            changed_ns: look.changed_ns.to_string(),
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn inode(&self) -> u64 {
        self.inode
    }

    pub fn to_look(&self) -> Option<Look> {
        let kinds = [NodeKind::File, NodeKind::Directory, NodeKind::Symlink, NodeKind::Special];
        Some(Look {
            kind: kinds.into_iter().find(|kind| kind.word() == self.kind)?,
            inode: self.inode,
            size: self.size,
            modified_ns: self.modified_ns.parse().ok()?,
            changed_ns: self.changed_ns.parse().ok()?,
            links: 1,
        })
    }
}

/// What reading a file gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Absent,
    /// Not a plain file with one name: never read.
    NotAFile(NodeKind),
    /// More than one hard link: somebody else's file under our name.
    SharedLink,
    TooLarge {
        size: u64,
    },
    /// It changed while it was read.
    Changing,
    /// It belongs to another user, whom nobody trusts: never read.
    Foreign {
        owner: u32,
    },
    /// The system does not let us read this one file: a matter of that file alone.
    Unreadable {
        why: String,
    },
    Bytes {
        bytes: Vec<u8>,
        look: Look,
    },
}

/// Reads between two questions whether somebody has the file open for writing, and says so if either was answered
/// so. A writer that ends its work while we read has closed the file by the second one, although what was read is
/// half of it; one that opens it meanwhile was not there at the first.
pub(super) fn read_between(
    has_writer: impl Fn() -> Option<bool>,
    read: impl FnOnce() -> io::Result<Content>,
) -> io::Result<(Content, Option<bool>)> {
    let before = has_writer();
    let content = read()?;
    let is_read = matches!(content, Content::Bytes { .. });
    let after = if is_read && before != Some(true) { has_writer() } else { before };
    Ok((content, after.filter(|_| is_read)))
}

/// The file system as the bus needs it. Paths are absolute. Errors carry no path: callers add it.
pub trait Disk {
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>>;
    /// Without following a link. `None` where there is nothing.
    fn look(&self, path: &Path) -> io::Result<Option<Look>>;
    /// Through one descriptor, without following a link, without blocking, never more than `limit` bytes.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Content>;
    /// Reads, and says of what was read whether somebody has it open for writing: one opening for both.
    fn read_and_ask(&self, path: &Path, limit: u64) -> io::Result<(Content, Option<bool>)> {
        read_between(|| self.has_writer(path), || self.read(path, limit))
    }
    /// The SHA-256 of a whole file, however large, in hexadecimal; nothing where it cannot be read or changes
    /// meanwhile.
    fn digest(&self, path: &Path) -> io::Result<Option<String>> {
        match self.read(path, u64::MAX)? {
            Content::Bytes { bytes, .. } => Ok(Some(super::sha256(&bytes))),
            _ => Ok(None),
        }
    }
    /// The path with every link in it followed; an error if it leads nowhere.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
    /// Whether somebody has the file open for writing; `None` where that cannot be known.
    fn has_writer(&self, path: &Path) -> Option<bool>;
    /// With all parents; fine if it is there.
    fn make_dirs(&self, dir: &Path) -> io::Result<()>;
    /// Writes beside the place, then renames: readers see all of it or nothing.
    fn publish(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()>;
    /// The same, and durable, unless something is there already: `false` then, and nothing is changed.
    fn publish_once(&self, path: &Path, bytes: &[u8]) -> io::Result<bool>;
    /// Writes a file in a folder that nobody looks into yet: what comes later says that it is complete.
    fn prepare(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.publish(path, bytes, Durability::Unsynced)
    }
    /// Publishes what not everybody may read.
    fn publish_for(&self, _: Readers, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        self.publish(path, bytes, durability)
    }
    /// Prepares what not everybody may read.
    fn prepare_for(&self, _: Readers, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.prepare(path, bytes)
    }
    /// Makes an empty file unless something is there already.
    fn create_empty(&self, path: &Path) -> io::Result<()>;
    fn append(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()>;
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path, durability: Durability) -> io::Result<()>;
    /// Moves a whole directory: one rename, or a verified copy where that crosses devices. Durable.
    fn move_tree(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// A number that nobody else draws. Here, because a simulated world must be the same each time it is played.
    fn random(&self) -> u64 {
        super::platform::random()
    }
}

/// Whether an error only says that the thing is gone, which is normal on a bus.
pub fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The same for a look or a read, where a file on the way says no more than that there is nothing.
pub fn leads_nowhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Renames unless the source is gone. `true` if it was there.
pub fn rename_if_present(
    disk: &impl Disk,
    from: &Path,
    to: &Path,
    durability: Durability,
) -> io::Result<bool> {
    match disk.rename(from, to, durability) {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// An I/O error with what was done to which path.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {source}")]
pub struct BusError {
    pub doing: &'static str,
    pub path: String,
    pub source: io::Error,
}

impl BusError {
    pub fn of(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BusError {
        move |source| BusError { doing, path: path.display().to_string(), source }
    }

    /// Whether nothing on this bus can work while it lasts: no room, no descriptors, read-only.
    pub fn is_bus_wide(&self) -> bool {
        use io::ErrorKind::{OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let kind = self.source.kind();
        self.is_out_of_descriptors()
            || matches!(kind, StorageFull | QuotaExceeded | ReadOnlyFilesystem | OutOfMemory)
    }

    fn is_out_of_descriptors(&self) -> bool {
        self.source.raw_os_error().is_some_and(|code| {
            let code = rustix::io::Errno::from_raw_os_error(code);
            code == rustix::io::Errno::MFILE || code == rustix::io::Errno::NFILE
        })
    }

    /// Whether the cause may pass by itself: then nothing is decided, and the watcher tries again.
    pub fn is_passing(&self) -> bool {
        use io::ErrorKind::{Interrupted, NotFound, PermissionDenied};
        self.is_bus_wide() || matches!(self.source.kind(), Interrupted | PermissionDenied | NotFound)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How a file is read whose writer is there or not, at first and after it was read.
    fn read(had_writer: bool, has_writer: bool) -> Option<bool> {
        let is_read = Cell::new(false);
        let look = Look { kind: NodeKind::File, inode: 1, size: 1, modified_ns: 0, changed_ns: 0, links: 1 };
        let read = || {
            is_read.set(true);
            Ok(Content::Bytes { bytes: b"{".to_vec(), look })
        };
        read_between(|| Some(if is_read.get() { has_writer } else { had_writer }), read).unwrap().1
    }

    #[test]
    fn a_writer_that_comes_or_goes_while_a_file_is_read_was_there() {
        assert_eq!(read(false, false), Some(false));
        assert_eq!(
            read(true, false),
            Some(true),
            "it wrote the rest and closed the file: what we have is half"
        );
        assert_eq!(read(false, true), Some(true));
        assert_eq!(read(true, true), Some(true));
    }

    #[test]
    fn of_what_was_not_read_no_writer_is_told() {
        assert_eq!(read_between(|| Some(true), || Ok(Content::Absent)).unwrap(), (Content::Absent, None));
    }
}
