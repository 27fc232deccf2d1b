//! `wk watch --once`: one pass, for cron. What it saw is kept for the next pass, so that the 60-second rule
//! holds across passes of one boot.

use super::beats::SeenBeats;
use super::clock::{self, ClockFile, SeenBeat};
use super::{Focus, TurnError, TurnReport, Watcher};
use crate::bus::disk::WireLook;
use crate::bus::{Disk, Layout, platform};
use crate::decide::{Now, Pulse};
use crate::model::clock::ActiveClock;
use crate::model::{Tick, WallTime};

/// Most turns of one pass: each one does all it can, so only a flood of new files needs many.
const TURNS_MAX: usize = 10_000;

/// The active time at which a watcher goes on: a pass counts the time since the last one of the same boot.
pub fn resume_clock(
    disk: &impl Disk,
    layout: &Layout,
    counts_time_between: bool,
) -> (ActiveClock, ClockFile) {
    let file = clock::read(disk, layout);
    let monotonic_ms = platform::monotonic_ms();
    let is_same_boot = file.boot_id.is_some() && file.boot_id == platform::boot_id();
    let between = match counts_time_between && is_same_boot && file.by_pass {
        true => monotonic_ms.saturating_sub(file.monotonic_ms),
        false => 0,
    };
    (ActiveClock::resume(Tick(file.active_ms + between), monotonic_ms), file)
}

impl<D: Disk> Watcher<D> {
    /// Remembers what the last pass saw, where that still applies.
    pub fn recall(&mut self, file: &ClockFile) {
        if file.boot_id.is_none() || file.boot_id != platform::boot_id() {
            return;
        }
        for remembered in &file.settling {
            let within = |kept: &&mut super::Kept| remembered.0.starts_with(kept.paths.dir());
            match self.batches.values_mut().find(within) {
                Some(kept) => kept.settling.recall(remembered),
                None => self.intake.settling.recall(remembered),
            }
        }
        for (id, kept) in &mut self.batches {
            let Some(seen) = file.seen.get(id) else { continue };
            for task in kept.state.live.clone() {
                let state = &kept.state.tasks[task];
                let Some(seen) = seen.get(&state.spec.key) else { continue };
                if state.live_attempt() != Some(seen.attempt) {
                    continue;
                }
                kept.pulses.restore(task, pulse_of(seen));
                let look_of = |look: &Option<WireLook>| look.as_ref().and_then(WireLook::to_look);
                let looks = SeenBeats { outbox: look_of(&seen.outbox_look), plain: look_of(&seen.look) };
                kept.heartbeats.insert(task, looks);
            }
        }
    }

    /// What the next pass needs to know.
    pub fn remember(&self, now: Tick) -> ClockFile {
        let mut file = ClockFile {
            active_ms: now.0,
            boot_id: platform::boot_id(),
            monotonic_ms: platform::monotonic_ms(),
            by_pass: true,
            ..ClockFile::default()
        };
        file.settling.extend(self.intake.settling.remember());
        for (id, kept) in &self.batches {
            file.settling.extend(kept.settling.remember());
            let seen = kept.pulses.iter().map(|(task, pulse)| {
                (kept.state.key(task).clone(), seen_of(pulse, kept.heartbeats.get(&task)))
            });
            file.seen.insert(id.clone(), seen.collect());
        }
        file
    }

    /// Looks at everything, and again until nothing more follows.
    pub fn pass(&mut self, clock: &ActiveClock, wall: WallTime) -> Result<TurnReport, TurnError> {
        let now = Now { clock: clock.now(), wall };
        let mut total = self.turn(&Focus::full(), now)?;
        for _ in 0..TURNS_MAX {
            if !total.again && !total.changed {
                break;
            }
            let next = self.turn(&Focus { intake: true, ..Focus::default() }, now)?;
            total.accepted.extend(next.accepted);
            total.refused.extend(next.refused);
            total.finished.extend(next.finished);
            total.news.extend(next.news);
            total.degraded.extend(next.degraded);
            (total.changed, total.again) = (next.changed, next.again);
        }
        Ok(total)
    }
}

fn pulse_of(seen: &SeenBeat) -> Pulse {
    Pulse {
        attempt: seen.attempt,
        since: seen.since,
        has_beaten: seen.has_beaten,
        looks: seen.looks,
        malformed: None,
        progress: None,
        tokens: None,
        progress_since: seen.since,
        said_end: seen.said_end,
    }
}

fn seen_of(pulse: &Pulse, looks: Option<&SeenBeats>) -> SeenBeat {
    SeenBeat {
        attempt: pulse.attempt,
        since: pulse.since,
        has_beaten: pulse.has_beaten,
        looks: pulse.looks,
        said_end: pulse.said_end,
        look: looks.and_then(|looks| looks.plain.as_ref()).map(WireLook::of),
        outbox_look: looks.and_then(|looks| looks.outbox.as_ref()).map(WireLook::of),
    }
}
