//! Who may reach what is on the bus: its owner alone, or a group where the settings say so, whatever the umask.
//!
//! A new entry follows its directory, so that every process does the same without asking the settings. Work trees are
//! none of its business. Where a file system has no modes, nothing here fails: `wk doctor` tells.

#![expect(clippy::disallowed_methods, reason = "this is where the modes of the bus are set")]

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::layout;
use crate::model::settings::Sharing;

/// Of files that only their owner opens, in every case: locks and values.
pub const OWNERS_FILE: u32 = 0o600;
const OWNERS_DIRECTORY: u32 = 0o700;
const GROUPS_FILE: u32 = 0o660;
/// The group's number goes on to whatever is made below.
const GROUPS_DIRECTORY: u32 = 0o2770;
pub(super) const MODE_BITS: u32 = 0o7777;

/// What new entries of a directory of the bus get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(Sharing);

impl Access {
    /// `None` for a directory that is not on a bus: there the umask counts.
    pub fn below(dir: &Path) -> Option<Access> {
        layout::is_on_bus(dir).then(|| Access(sharing_of(fs::metadata(dir).map_or(0, |found| found.mode()))))
    }

    /// The same by a directory that is open, and known to be on the bus.
    pub fn within(dir: impl AsFd) -> Access {
        Access(sharing_of(rustix::fs::fstat(dir).map_or(0, |found| found.st_mode)))
    }

    pub fn file_mode(self) -> u32 {
        match self.0 {
            Sharing::Private => OWNERS_FILE,
            Sharing::Group => GROUPS_FILE,
        }
    }

    pub fn directory_mode(self) -> u32 {
        match self.0 {
            Sharing::Private => OWNERS_DIRECTORY,
            Sharing::Group => GROUPS_DIRECTORY,
        }
    }
}

fn sharing_of(mode: u32) -> Sharing {
    if mode & GROUPS_DIRECTORY == GROUPS_DIRECTORY { Sharing::Group } else { Sharing::Private }
}

/// Gives a file that we just made its mode, which the umask may have narrowed.
pub fn set_file_mode(file: &File, mode: u32) {
    let _ = file.set_permissions(Permissions::from_mode(mode));
}

/// Makes a directory of the bus with all that leads to it; fine if it is there.
pub fn make_directories(dir: &Path) -> io::Result<()> {
    let Some(parent) = dir.parent().filter(|_| layout::is_on_bus(dir)) else {
        return fs::create_dir_all(dir);
    };
    let made = match make_directory(dir, parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directories(parent)?;
            make_directory(dir, parent)
        }
        made => made,
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        made => made,
    }
}

fn make_directory(dir: &Path, parent: &Path) -> io::Result<()> {
    // Closed from its first moment on: it is opened afterwards, where it is to be.
    fs::DirBuilder::new().mode(OWNERS_DIRECTORY).create(dir)?;
    let mode = Access::below(parent).unwrap_or(Access(Sharing::Private)).directory_mode();
    let _ = fs::set_permissions(dir, Permissions::from_mode(mode));
    Ok(())
}

/// Opens or closes a directory of the bus as the settings say. One that belongs to somebody else is left alone.
pub fn share(dir: &Path, sharing: Sharing) -> io::Result<()> {
    let found = fs::symlink_metadata(dir)?;
    let mode = Access(sharing).directory_mode();
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && found.mode() & MODE_BITS != mode {
        let _ = fs::set_permissions(dir, Permissions::from_mode(mode));
    }
    Ok(())
}

/// Whether a file's mode can be had here: some file systems show one mode for everything.
pub fn keeps_modes(probe: &Path) -> io::Result<bool> {
    let made = File::create(probe)?;
    set_file_mode(&made, OWNERS_FILE);
    let found = fs::metadata(probe)?.mode() & MODE_BITS;
    fs::remove_file(probe)?;
    Ok(is_kept(found))
}

fn is_kept(found: u32) -> bool {
    found == OWNERS_FILE
}

/// Whose files are taken for messages: ours, root's, those of the bus's owner, and those of whom the settings trust.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    users: Vec<u32>,
}

impl Trust {
    pub fn on(bus: &Path, trusted: &[u32]) -> Trust {
        let mut users = vec![0, rustix::process::geteuid().as_raw()];
        // Who owns the directory can replace everything in it anyway.
        users.extend(fs::metadata(bus).ok().map(|found| found.uid()));
        users.extend_from_slice(trusted);
        Trust { users }
    }

    pub fn covers(&self, user: u32) -> bool {
        self.users.contains(&user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & MODE_BITS
    }

    #[test]
    fn what_is_made_on_the_bus_follows_its_directory_and_what_is_made_elsewhere_the_umask() {
        let dir = tempfile::tempdir().unwrap();
        let bus = layout::Layout::new(dir.path()).bus();
        make_directories(&bus.join("tasks/batch-1")).unwrap();
        assert_eq!((mode(&bus), mode(&bus.join("tasks/batch-1"))), (0o700, 0o700));
        share(&bus.join("tasks"), Sharing::Group).unwrap();
        make_directories(&bus.join("tasks/batch-2/control")).unwrap();
        assert_eq!(mode(&bus.join("tasks/batch-2/control")), 0o2770);
        assert_eq!(Access::below(&bus.join("tasks/batch-2")).unwrap().file_mode(), 0o660);
        assert_eq!(Access::below(&bus.join("tasks/batch-1")).unwrap().file_mode(), 0o600);
        assert_eq!(Access::below(dir.path()), None);
        share(&bus.join("tasks"), Sharing::Private).unwrap();
        assert_eq!(mode(&bus.join("tasks")), 0o700);
    }

    #[test]
    fn a_mode_that_is_not_the_one_that_was_set_shows_a_file_system_without_modes() {
        assert!(is_kept(0o600) && !is_kept(0o755) && !is_kept(0o777));
    }
}
