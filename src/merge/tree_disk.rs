//! The port through which a merged tree reaches the disk: small verbs, each of which can be the last one
//! before a crash. Real here; tests stop it at every verb. What is done in which order is `publish`'s matter.

#![expect(clippy::disallowed_methods, reason = "a tree is put in place here, verb by verb")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use crate::bus::real_disk::count_operation;
use crate::bus::{Listed, NodeKind};

/// Writes a content to wherever it is to go.
pub type Fill<'f> = &'f mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// The file system as a merged tree needs it. No verb follows a link at the path it is given.
pub trait TreeDisk {
    /// `None` where there is nothing.
    fn kind(&self, path: &Path) -> io::Result<Option<NodeKind>>;
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>>;
    /// For its owner alone, until `set_mode`. An error if something is there.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// A new file with these bytes and this mode; not yet safe from a loss of power.
    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()>;
    /// The same for a content that comes in pieces.
    fn write_from(&self, path: &Path, mode: u32, fill: Fill<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        fill(&mut bytes)?;
        self.write(path, &bytes, mode)
    }
    fn link(&self, path: &Path, target: &OsStr) -> io::Result<()>;
    fn set_mode(&self, dir: &Path, mode: u32) -> io::Result<()>;
    /// Makes a file or a directory safe from a loss of power.
    fn sync(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Swaps two names at once; `false` where the system cannot.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<bool>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// An empty one.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
}

/// The file system itself.
#[derive(Debug, Default)]
pub struct RealTreeDisk;

impl TreeDisk for RealTreeDisk {
    fn kind(&self, path: &Path) -> io::Result<Option<NodeKind>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(NodeKind::of(metadata.file_type()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        let listed = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok(Listed { name: entry.file_name(), kind: NodeKind::of(entry.file_type()?) })
        };
        fs::read_dir(dir)?.map(listed).collect()
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        count_operation();
        Ok(rustix::fs::mkdir(path, Mode::RWXU)?)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.write_from(path, mode, &mut |out| out.write_all(bytes))
    }

    fn write_from(&self, path: &Path, mode: u32, fill: Fill<'_>) -> io::Result<()> {
        count_operation();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?);
        fill(&mut file)?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    }

    fn link(&self, path: &Path, target: &OsStr) -> io::Result<()> {
        count_operation();
        std::os::unix::fs::symlink(target, path)
    }

    fn set_mode(&self, dir: &Path, mode: u32) -> io::Result<()> {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        match File::open(path) {
            Ok(file) => file.sync_all(),
            // An agent's file that nobody may read: only its owner's other right reaches it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?).sync_all()
            }
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        count_operation();
        fs::rename(from, to)
    }

    #[cfg(target_os = "linux")]
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<bool> {
        use rustix::fs::RenameFlags;
        use rustix::io::Errno;

        count_operation();
        match rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn exchange(&self, _: &Path, _: &Path) -> io::Result<bool> {
        Ok(false)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        count_operation();
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        count_operation();
        fs::remove_dir(path)
    }
}
