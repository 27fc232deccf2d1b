//! One watcher per bus: an OS lock that the kernel frees when its holder dies, and an epoch number that
//! every journal line carries. There is no unlock command, because none is ever needed.
//!
//! A lock guards its bus only while its file stands where the next watcher looks for it, so its holder asks that
//! before it decides. An epoch is never given twice, not even by a bus that was removed and made anew.

#![expect(clippy::disallowed_methods, reason = "the lock is a file that is never replaced")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::access::{MODE_BITS, OWNERS_FILE};
use super::disk::{BusError, Content, Disk, Durability};
use super::layout::Layout;
use super::platform;
use crate::model::{Epoch, WallTime};

/// How often, and after how long, a held lock is tried again before its holder is believed.
pub(super) const TRIES_MOST: u32 = 50;
pub(super) const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// How often if those who hold it only ask: on a busy machine their moment may be long, and no watcher is among them.
const TRIES_MOST_AMONG_ASKERS: u32 = 3_000;

/// A lock that is held: whoever holds it must ask whether it still guards anything.
pub trait Held {
    /// Whether the lock still guards the bus: its file stands where another watcher would look for it. Where that
    /// cannot be looked at, nothing says that it does not.
    fn is_in_place(&self) -> bool;
    fn path(&self) -> &Path;
}

/// The lock on a bus, held until it is dropped.
#[derive(Debug)]
pub struct Lease {
    /// Dropping the file frees the lock.
    file: File,
    path: PathBuf,
}

/// Somebody else watches this bus.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error("the bus is already watched by {holder}")]
    Held { holder: String },
    #[error("the lock {path} belongs to user {owner}, who could hold it for ever")]
    Foreign { path: String, owner: u32 },
    #[error(transparent)]
    Disk(#[from] BusError),
}

impl Lease {
    /// Takes the lock, or says who holds it.
    pub fn take(layout: &Layout) -> Result<Lease, LeaseError> {
        let path = layout.lock();
        let mut tries = 0;
        loop {
            let mut file = open_own(OpenOptions::new().create(true), &path)?;
            // fs2 by its full path: std has methods of the same names with other errors.
            if let Err(error) = fs2::FileExt::try_lock_exclusive(&file) {
                if error.kind() == fs2::lock_contended_error().kind() {
                    let tries_most = match is_shared(&file) {
                        true => TRIES_MOST_AMONG_ASKERS,
                        false => TRIES_MOST,
                    };
                    if tries < tries_most {
                        tries += 1;
                        std::thread::sleep(TRY_AGAIN_AFTER);
                        continue;
                    }
                    return Err(LeaseError::Held { holder: holder_of(&mut file) });
                }
                return Err(BusError::of("lock", &path)(error).into());
            }
            if is_still_at(&file, &path) {
                write_diagnosis(&mut file).map_err(BusError::of("write", &path))?;
                return Ok(Lease { file, path });
            }
            // Somebody replaced the file between open and lock: this lock guards nothing.
        }
    }

    /// Whether a watcher holds the bus, and who it is, without taking anything.
    pub fn holder(layout: &Layout) -> Option<String> {
        let path = layout.lock();
        let mut file = match open(&mut OpenOptions::new(), &path) {
            Ok(file) => file,
            // Nobody but its owner can open it, and only a watcher makes one.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let owner = std::fs::symlink_metadata(&path).ok()?.uid();
                return Some(format!("user {owner}, or was when its lock was made"));
            }
            Err(_) => return None,
        };
        // Shared, so that two who ask do not take each other for the watcher.
        match fs2::FileExt::try_lock_shared(&file) {
            Ok(()) => {
                let _ = fs2::FileExt::unlock(&file);
                None
            }
            Err(_) => Some(holder_of(&mut file)),
        }
    }
}

impl Held for Lease {
    fn is_in_place(&self) -> bool {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match std::fs::symlink_metadata(&self.path) {
            Ok(_) => is_still_at(&self.file, &self.path),
            Err(error) => !matches!(error.kind(), NotFound | NotADirectory),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

fn open(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    options.read(true).write(true).custom_flags(no_link).mode(OWNERS_FILE).open(path)
}

/// Opens the lock, or makes it. Whoever could open it could hold it, so that must be nobody but its owner.
fn open_own(options: &mut OpenOptions, path: &Path) -> Result<File, LeaseError> {
    let foreign = |owner: u32| LeaseError::Foreign { path: path.display().to_string(), owner };
    let own = rustix::process::geteuid().as_raw();
    let file = open(options, path).map_err(|error| {
        let owner = std::fs::symlink_metadata(path).map_or(own, |found| found.uid());
        match error.kind() == std::io::ErrorKind::PermissionDenied && owner != own {
            true => foreign(owner),
            false => BusError::of("open", path)(error).into(),
        }
    })?;
    let found = file.metadata().map_err(BusError::of("look at", path))?;
    let directory = path.parent().and_then(|dir| std::fs::metadata(dir).ok());
    if found.uid() != own && directory.is_some_and(|dir| dir.uid() != found.uid()) {
        return Err(foreign(found.uid()));
    }
    if found.mode() & MODE_BITS != OWNERS_FILE {
        super::access::set_file_mode(&file, OWNERS_FILE);
    }
    Ok(file)
}

/// Whether only those hold the lock who ask who watches: they share it.
fn is_shared(file: &File) -> bool {
    fs2::FileExt::try_lock_shared(file).and_then(|()| fs2::FileExt::unlock(file)).is_ok()
}

pub(super) fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}

pub(super) fn holder_of(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.seek(SeekFrom::Start(0));
    match file.take(1024).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}

/// Its content is for people alone; the lock is what counts.
fn write_diagnosis(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    let host = platform::host_name();
    writeln!(file, "process {} on {host}, wk {}", std::process::id(), env!("CARGO_PKG_VERSION"))
}

/// How many epochs may begin in one millisecond.
const EPOCHS_A_MS: u64 = 1000;

/// Raises the epoch: whoever wrote with an older one has been superseded. The number is taken from the time of day and
/// from chance, so that a bus that was removed and made anew does not give one that a watcher of the old one still has.
pub fn raise_epoch(disk: &impl Disk, layout: &Layout, now: WallTime) -> Result<Epoch, BusError> {
    let path = layout.epoch();
    let next = epoch_after(current_epoch(disk, layout)?, now, disk.random());
    disk.publish(&path, format!("{next}\n").as_bytes(), Durability::Synced)
        .map_err(BusError::of("publish", &path))?;
    Ok(next)
}

/// Higher than the last one in any case: clocks go back, and epochs do not.
fn epoch_after(last: Epoch, now: WallTime, chance: u64) -> Epoch {
    let millis = u64::try_from(now.0).unwrap_or_default();
    let drawn = millis.saturating_mul(EPOCHS_A_MS) + chance % EPOCHS_A_MS;
    Epoch(drawn.max(last.0 + 1))
}

/// The epoch of the newest watcher; zero before the first.
pub fn current_epoch(disk: &impl Disk, layout: &Layout) -> Result<Epoch, BusError> {
    let path = layout.epoch();
    match disk.read(&path, super::NOTE_BYTES_MAX).map_err(BusError::of("read", &path))? {
        Content::Bytes { bytes, .. } => {
            let text = String::from_utf8_lossy(&bytes);
            text.trim().parse().map(Epoch).map_err(|_| {
                BusError::of("read", &path)(std::io::Error::other("the epoch file does not hold a number"))
            })
        }
        _ => Ok(Epoch(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::RealDisk;
    use super::*;

    fn bus() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        std::fs::create_dir_all(layout.bus()).unwrap();
        (dir, layout)
    }

    #[test]
    fn a_second_watcher_learns_who_holds_the_bus_and_a_freed_one_can_be_taken() {
        let (_dir, layout) = bus();
        assert_eq!(Lease::holder(&layout), None);
        let lease = Lease::take(&layout).unwrap();
        let refusal = Lease::take(&layout).unwrap_err().to_string();
        assert!(refusal.contains(&format!("process {}", std::process::id())), "{refusal}");
        assert!(Lease::holder(&layout).is_some());
        drop(lease);
        assert!(Lease::take(&layout).is_ok());
    }

    #[test]
    fn somebody_who_takes_long_to_ask_keeps_no_watcher_out() {
        let (_dir, layout) = bus();
        drop(Lease::take(&layout).unwrap());
        let asking = File::open(layout.lock()).unwrap();
        fs2::FileExt::lock_shared(&asking).unwrap();
        let taking = std::thread::spawn(move || Lease::take(&layout).map(drop));
        // Longer than a watcher that holds the lock is doubted.
        std::thread::sleep(TRY_AGAIN_AFTER * (TRIES_MOST + 30));
        drop(asking);
        taking.join().unwrap().unwrap();
    }

    #[test]
    fn a_lock_whose_file_was_removed_or_replaced_guards_nothing() {
        let (_dir, layout) = bus();
        let lease = Lease::take(&layout).unwrap();
        assert!(lease.is_in_place());
        std::fs::remove_dir_all(layout.home()).unwrap();
        assert!(!lease.is_in_place());
        std::fs::create_dir_all(layout.bus()).unwrap();
        let second = Lease::take(&layout).unwrap();
        assert!(!lease.is_in_place() && second.is_in_place());
    }

    #[test]
    fn each_watcher_raises_the_epoch_and_a_remade_bus_repeats_none() {
        let (_dir, layout) = bus();
        let disk = RealDisk::default();
        let now = WallTime(1_700_000_000_000);
        let first = raise_epoch(&disk, &layout, now).unwrap();
        let back = raise_epoch(&disk, &layout, WallTime(0)).unwrap();
        assert!(back > first, "although the clock was put back");
        assert!(epoch_after(Epoch(0), now, 1) != epoch_after(Epoch(0), now, 2));
        assert!(epoch_after(Epoch(0), WallTime(now.0 + 1), 0) > epoch_after(Epoch(0), now, u64::MAX));
        assert_eq!(epoch_after(Epoch(7), WallTime(-1), 0), Epoch(8));
    }
}
