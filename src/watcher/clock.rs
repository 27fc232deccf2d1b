//! The watchers' active time: it runs while one of them is awake and looking, and stands still otherwise.
//!
//! A watcher that was stopped, or a machine that slept, therefore costs nobody any of their limits. The
//! passes of `watch --once` are the exception that the user asked for: the time between two passes of one
//! boot counts, because looking now and then is how that watcher works.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::settle::Remembered;
use crate::bus::disk::{BusError, WireLook};
use crate::bus::{Content, Disk, Durability, Layout, NOTE_BYTES_MAX};
use crate::model::claim::ClaimStatus;
use crate::model::{Attempt, BatchId, TaskKey, Tick};

/// A heartbeat as a pass of `watch --once` saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenBeat {
    pub attempt: Attempt,
    pub since: Tick,
    pub has_beaten: bool,
    pub looks: u32,
    /// What the beats say of the end of the work, and since when.
    #[serde(default)]
    pub said_end: Option<(ClaimStatus, Tick)>,
    pub look: Option<WireLook>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbox_look: Option<WireLook>,
}

/// What is kept between two watchers: how far active time has come, and what the last pass saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockFile {
    pub active_ms: u64,
    #[serde(default)]
    pub boot_id: Option<String>,
    #[serde(default)]
    pub monotonic_ms: u64,
    /// Written by a pass of `watch --once`, so that the time until the next one counts.
    #[serde(default)]
    pub by_pass: bool,
    #[serde(default)]
    pub seen: BTreeMap<BatchId, BTreeMap<TaskKey, SeenBeat>>,
    /// Files that the last pass could not read yet.
    #[serde(default)]
    pub settling: Vec<Remembered>,
}

/// Reads the clock's file; what cannot be read is made again.
pub fn read(disk: &impl Disk, layout: &Layout) -> ClockFile {
    match disk.read(&layout.clock(), NOTE_BYTES_MAX * 1024) {
        Ok(Content::Bytes { bytes, .. }) => serde_json::from_slice(&bytes).unwrap_or_default(),
        _ => ClockFile::default(),
    }
}

pub fn write(disk: &impl Disk, layout: &Layout, file: &ClockFile) -> Result<(), BusError> {
    let bytes = serde_json::to_vec(file).expect("the clock's file has only string keys");
    let path = layout.clock();
    disk.publish(&path, &bytes, Durability::Unsynced).map_err(BusError::of("publish", &path))
}
