//! Refused input is moved aside intact, with the reason beside it. Nothing is ever deleted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::{BusError, Content, Disk, Durability, is_absent};
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

/// The same, read back.
#[derive(Deserialize)]
struct WrittenReason {
    file: String,
    refused_at: WallTime,
    #[serde(default)]
    defects: Vec<Defect>,
}

/// Enough for every defect of the largest plan that somebody reads through.
const REASON_BYTES_MAX: u64 = 64 << 20;

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

/// A file in quarantine, with what stands beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    pub number: u64,
    /// Where it was found, relative to the bus; its own name where no reason lies beside it.
    pub file: String,
    pub path: PathBuf,
    pub at: Option<WallTime>,
    pub defects: Vec<Defect>,
}

impl Refused {
    /// Whether it can go back: it was found on the bus, and its way there leads nowhere else.
    pub fn is_from_the_bus(&self) -> bool {
        let mut parts = Path::new(&self.file).components();
        self.at.is_some() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
    }
}

/// Everything that was refused, in the order of the numbers.
pub fn list(disk: &impl Disk, layout: &Layout) -> Result<Vec<Refused>, BusError> {
    let dir = layout.quarantine();
    let listed = match disk.list(&dir) {
        Ok(listed) => listed,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(BusError::of("list", &dir)(error)),
    };
    let mut found = Vec::new();
    for entry in listed.iter().filter(|entry| !super::layout::is_reason(&entry.name)) {
        let name = entry.name.to_string_lossy().into_owned();
        let Some(number) = name.split_once('-').and_then(|(number, _)| number.parse().ok()) else { continue };
        let path = dir.join(&entry.name);
        let reason_path = super::layout::reason_beside(&path);
        let content =
            disk.read(&reason_path, REASON_BYTES_MAX).map_err(BusError::of("read", &reason_path))?;
        let told: Option<WrittenReason> = match content {
            Content::Bytes { bytes, .. } => serde_json::from_slice(&bytes).ok(),
            _ => None,
        };
        found.push(match told {
            Some(told) => {
                Refused { number, file: told.file, path, at: Some(told.refused_at), defects: told.defects }
            }
            None => Refused { number, file: name, path, at: None, defects: Vec::new() },
        });
    }
    found.sort_by_key(|one| one.number);
    Ok(found)
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
