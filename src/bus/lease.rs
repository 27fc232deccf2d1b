//! One watcher per bus: an OS lock that the kernel frees when its holder dies, and an epoch number that
//! every journal line carries. There is no unlock command, because none is ever needed.

#![expect(clippy::disallowed_methods, reason = "the lock is a file that is never replaced")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::disk::{BusError, Content, Disk, Durability};
use super::layout::Layout;
use crate::model::Epoch;

/// How often, and after how long, a held lock is tried again before its holder is believed.
pub(super) const TRIES_MOST: u32 = 50;
pub(super) const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// How often if those who hold it only ask: on a busy machine their moment may be long, and no watcher is among them.
const TRIES_MOST_AMONG_ASKERS: u32 = 3_000;

/// The lock on a bus, held until it is dropped.
#[derive(Debug)]
pub struct Lease {
    /// Dropping the file frees the lock.
    _file: File,
}

/// Somebody else watches this bus.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error("the bus is already watched by {holder}")]
    Held { holder: String },
    #[error(transparent)]
    Disk(#[from] BusError),
}

impl Lease {
    /// Takes the lock, or says who holds it.
    pub fn take(layout: &Layout) -> Result<Lease, LeaseError> {
        let path = layout.lock();
        let mut tries = 0;
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(BusError::of("open", &path))?;
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
                return Ok(Lease { _file: file });
            }
            // Somebody replaced the file between open and lock: this lock guards nothing.
        }
    }

    /// Whether a watcher holds the bus, and who it is, without taking anything.
    pub fn holder(layout: &Layout) -> Option<String> {
        let mut file = OpenOptions::new().read(true).write(true).open(layout.lock()).ok()?;
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
    let host = super::platform::host_name();
    writeln!(file, "process {} on {host}, wk {}", std::process::id(), env!("CARGO_PKG_VERSION"))
}

/// Raises the epoch: whoever wrote with an older one has been superseded.
pub fn raise_epoch(disk: &impl Disk, layout: &Layout) -> Result<Epoch, BusError> {
    let path = layout.epoch();
    let next = Epoch(current_epoch(disk, layout)?.0 + 1);
    disk.publish(&path, format!("{next}\n").as_bytes(), Durability::Synced)
        .map_err(BusError::of("publish", &path))?;
    Ok(next)
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
    fn each_watcher_raises_the_epoch() {
        let (_dir, layout) = bus();
        let disk = RealDisk::default();
        assert_eq!(raise_epoch(&disk, &layout).unwrap(), Epoch(1));
        assert_eq!(raise_epoch(&disk, &layout).unwrap(), Epoch(2));
    }
}
