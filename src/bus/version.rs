//! Which format a bus and each of its batches are in, and the refusal of what a newer wk wrote.
//!
//! The bus says it in a file of its own, a batch in `batch.json`. Nothing else of a newer one is read, and nothing of it
//! is written: this program does not know what it would break.

use serde::Deserialize;

use super::disk::{BusError, Content, Disk, Durability};
use super::layout::{BatchPaths, Layout};
use super::{NOTE_BYTES_MAX, PLAN_BYTES_MAX};
use crate::model::batch::BATCH_VERSION;

/// The format of a bus: its places, locks and notes. Raised when an older wk would lose or misread something.
pub const BUS_FORMAT: u32 = 1;

/// Why something is not touched.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    #[error("{what} was written by a newer wk (format {found}; this one knows {known})")]
    Newer { what: String, found: u64, known: u32 },
    #[error(transparent)]
    Disk(#[from] BusError),
}

/// Whether this wk may work on the bus. One that does not say its format is of the first.
pub fn check_bus(disk: &impl Disk, layout: &Layout) -> Result<(), VersionError> {
    match bus_format(disk, layout)? {
        Some(found) if found > u64::from(BUS_FORMAT) => {
            let what = format!("the bus {}", layout.bus().display());
            Err(VersionError::Newer { what, found, known: BUS_FORMAT })
        }
        _ => Ok(()),
    }
}

/// Says on the bus which format it is in from now on, so that an older wk leaves it alone. The caller holds the bus's
/// lock, or has just made it.
pub fn mark_bus(disk: &impl Disk, layout: &Layout) -> Result<(), VersionError> {
    check_bus(disk, layout)?;
    if bus_format(disk, layout)? != Some(u64::from(BUS_FORMAT)) {
        let path = layout.version();
        disk.publish(&path, format!("{BUS_FORMAT}\n").as_bytes(), Durability::Synced)
            .map_err(BusError::of("publish", &path))?;
    }
    Ok(())
}

fn bus_format(disk: &impl Disk, layout: &Layout) -> Result<Option<u64>, BusError> {
    let path = layout.version();
    let wrong = |why: &str| BusError::of("read", &path)(std::io::Error::other(why.to_owned()));
    match disk.read(&path, NOTE_BYTES_MAX).map_err(BusError::of("read", &path))? {
        Content::Absent => Ok(None),
        Content::Bytes { bytes, .. } => {
            // Only the first line is promised.
            let text = String::from_utf8_lossy(&bytes);
            let first = text.lines().next().unwrap_or_default().trim();
            first.parse().map(Some).map_err(|_| wrong("its first line does not hold the number of a format"))
        }
        _ => Err(wrong("not a plain file that can be read")),
    }
}

/// Whether this wk may work on the batch. What is no batch yet, or cannot be read at all, others tell.
pub fn check_batch(disk: &impl Disk, paths: &BatchPaths) -> Result<(), VersionError> {
    let path = paths.batch();
    match disk.read(&path, PLAN_BYTES_MAX * 4).map_err(BusError::of("read", &path))? {
        Content::Bytes { bytes, .. } => check_batch_bytes(paths, &bytes),
        _ => Ok(()),
    }
}

/// The same for a `batch.json` that was read. Its version is looked at first: the rest of a newer one may be of any
/// shape.
pub fn check_batch_bytes(paths: &BatchPaths, bytes: &[u8]) -> Result<(), VersionError> {
    #[derive(Deserialize)]
    struct Head {
        version: u64,
    }
    match serde_json::from_slice::<Head>(bytes) {
        Ok(Head { version }) if version > u64::from(BATCH_VERSION) => {
            let what = paths.batch().display().to_string();
            Err(VersionError::Newer { what, found: version, known: BATCH_VERSION })
        }
        _ => Ok(()),
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
    fn a_bus_that_says_nothing_is_of_the_first_format_and_is_marked_once() {
        let (_dir, layout) = bus();
        let disk = RealDisk::default();
        check_bus(&disk, &layout).unwrap();
        assert!(!layout.version().exists(), "looking writes nothing");
        mark_bus(&disk, &layout).unwrap();
        let written = disk.look(&layout.version()).unwrap();
        mark_bus(&disk, &layout).unwrap();
        assert_eq!(disk.look(&layout.version()).unwrap(), written, "it is not written again");
    }

    #[test]
    fn a_newer_bus_is_not_marked_down_and_garbage_is_no_format() {
        let (_dir, layout) = bus();
        let disk = RealDisk::default();
        for (text, told) in
            [("2\n", "format 2"), ("7\nand more\n", "format 7"), ("", "number"), ("x\n", "number")]
        {
            std::fs::write(layout.version(), text).unwrap();
            let error = mark_bus(&disk, &layout).unwrap_err().to_string();
            assert!(error.contains(told), "{text:?}: {error}");
            assert_eq!(std::fs::read_to_string(layout.version()).unwrap(), text);
        }
    }
}
