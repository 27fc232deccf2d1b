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
use crate::model::{Attempt, BatchId, TaskKey, Tick};

/// More time between two turns than was planned plus this much was spent asleep.
const LATENESS_ALLOWED_MS: u64 = 100;

/// Counts active time.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveClock {
    active_ms: u64,
    monotonic_ms: u64,
}

impl ActiveClock {
    pub fn resume(active: Tick, monotonic_ms: u64) -> Self {
        ActiveClock { active_ms: active.0, monotonic_ms }
    }

    pub fn now(&self) -> Tick {
        Tick(self.active_ms)
    }

    /// Moves on after a wait that was planned to last `planned_ms` at most. Returns the time that is not
    /// counted.
    pub fn advance(&mut self, monotonic_ms: u64, planned_ms: u64) -> u64 {
        let passed = monotonic_ms.saturating_sub(self.monotonic_ms);
        let counted = passed.min(planned_ms + (planned_ms / 2).max(LATENESS_ALLOWED_MS));
        self.active_ms += counted;
        self.monotonic_ms = monotonic_ms;
        passed - counted
    }

    /// Active time never goes back: the journals may know of a later moment than the clock's own file,
    /// which is not synced.
    pub fn catch_up(&mut self, latest: Tick) {
        self.active_ms = self.active_ms.max(latest.0);
    }

    /// Lets time pass for nobody: the watcher could not work.
    pub fn skip_to(&mut self, monotonic_ms: u64) {
        self.monotonic_ms = monotonic_ms;
    }
}

/// A heartbeat as a pass of `watch --once` saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenBeat {
    pub attempt: Attempt,
    pub since: Tick,
    pub has_beaten: bool,
    pub looks: u32,
    pub look: Option<WireLook>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_watcher_was_stopped_counts_for_nobody() {
        let mut clock = ActiveClock::resume(Tick(5_000), 1_000);
        assert_eq!(clock.advance(2_000, 1_000), 0);
        assert_eq!(clock.now(), Tick(6_000));
        let lost = clock.advance(3_602_000, 1_000);
        assert_eq!(clock.now(), Tick(7_500));
        assert_eq!(lost, 3_600_000 - 1_500);
        clock.skip_to(3_700_000);
        assert_eq!(clock.advance(3_700_010, 1_000), 0);
        assert_eq!(clock.now(), Tick(7_510));
    }
}
