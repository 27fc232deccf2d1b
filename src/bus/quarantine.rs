//! Refused input is moved aside intact, with the reason beside it. Nothing is ever deleted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::disk::{BusError, Disk, Durability, is_absent};
use super::layout::Layout;
use crate::model::{Defect, WallTime};

/// What stands beside a refused file.
#[derive(Serialize)]
struct ReasonFile<'a> {
    version: u32,
    /// Where the file was found, relative to the bus.
    file: String,
    refused_at: WallTime,
    defects: &'a [Defect],
}

/// Moves `path` into quarantine under a number of its own and leaves the reason beside it.
/// `None` if the file is gone.
pub fn refuse(
    disk: &impl Disk,
    layout: &Layout,
    path: &Path,
    defects: &[Defect],
    at: WallTime,
) -> Result<Option<PathBuf>, BusError> {
    let dir = layout.quarantine();
    disk.make_dirs(&dir).map_err(BusError::of("make", &dir))?;
    if disk.look(path).map_err(BusError::of("look at", path))?.is_none() {
        return Ok(None);
    }
    let target = dir.join(numbered_name(disk, &dir, path)?);
    let reason = reason_bytes(layout, path, defects, at);
    // The reason first: a refused file never lies there unexplained.
    let reason_path = super::layout::reason_beside(&target);
    disk.publish(&reason_path, &reason, Durability::Synced).map_err(BusError::of("publish", &reason_path))?;
    match disk.rename(path, &target, Durability::Unsynced) {
        Ok(()) => Ok(Some(target)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(BusError::of("quarantine", path)(error)),
    }
}

/// What a refusal says: beside the file in quarantine, and where the agent looks.
pub fn reason_bytes(layout: &Layout, path: &Path, defects: &[Defect], at: WallTime) -> Vec<u8> {
    let file = path.strip_prefix(layout.bus()).unwrap_or(path).display().to_string();
    let reason = ReasonFile { version: 1, file, refused_at: at, defects };
    let mut bytes = serde_json::to_vec_pretty(&reason).expect("a reason has only string keys");
    bytes.push(b'\n');
    bytes
}

/// With its number and `.reason.json` a name must stay below the 255 bytes that file systems allow.
const NAME_BYTES_KEPT: usize = 200;

/// The end of a name that is too long: the reason file has it whole.
fn shortened(name: &OsStr) -> &OsStr {
    let bytes = name.as_bytes();
    let mut start = bytes.len().saturating_sub(NAME_BYTES_KEPT);
    // Not in the middle of a character.
    while start < bytes.len() && bytes[start] & 0xC0 == 0x80 {
        start += 1;
    }
    OsStr::from_bytes(&bytes[start..])
}

/// `7-task-1.json`: one more than the highest number there, so names never collide.
fn numbered_name(disk: &impl Disk, dir: &Path, path: &Path) -> Result<std::ffi::OsString, BusError> {
    let listed = disk.list(dir).map_err(BusError::of("list", dir))?;
    let highest = listed
        .iter()
        .filter_map(|entry| entry.name.to_str()?.split_once('-')?.0.parse::<u64>().ok())
        .max()
        .unwrap_or(0);
    let mut name = std::ffi::OsString::from(format!("{}-", highest + 1));
    name.push(shortened(path.file_name().unwrap_or_default()));
    Ok(name)
}
