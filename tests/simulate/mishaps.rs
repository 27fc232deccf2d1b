//! What befalls a world: crashes, power cuts, a disk in trouble, clocks that jump, a second watcher.

use std::collections::HashSet;

use super::disk::Trouble;
use super::fault::Fault;
use super::oracle::Violation;
use super::world::{World, fresh_readings};

impl World {
    pub fn something_happens(&mut self) -> Result<(), Violation> {
        self.next_fault = self.mono_ms + self.random.between(300, 6_000);
        let fault = *self.random.pick(Fault::ALL);
        if !self.options.menu.has(fault) {
            return Ok(());
        }
        match fault {
            Fault::Crash => {
                let within = self.random.between(1, 80);
                self.crash_within(within);
            }
            Fault::TornJournal => self.disk.shared.borrow_mut().tears_next_append = self.watcher.is_some(),
            Fault::PowerLoss => return self.lose_power(),
            Fault::WatcherStopped => {
                let span = if self.random.chance(20) { 3_600_000 } else { 20_000 };
                let until = self.mono_ms + self.random.below(span);
                if self.watcher.is_some() {
                    self.fire(fault);
                    self.stopped_until = until;
                }
            }
            Fault::Suspended => {
                self.fire(fault);
                self.wall_ms += self.random.below(3_600_000) as i64;
            }
            Fault::WallStep => {
                self.fire(fault);
                self.wall_ms += self.random.below(172_800_000) as i64 - 86_400_000;
            }
            Fault::SecondWatcher => self.second_watcher()?,
            Fault::ReplacedLock => self.replace_lock(),
            Fault::RemadeBus => self.remake_bus()?,
            Fault::DiskFull => self.trouble(fault, Trouble::Full),
            Fault::DiskError => self.trouble(fault, Trouble::Errors),
            Fault::TooManyOpen => self.trouble(fault, Trouble::TooManyOpen),
            Fault::ReadOnly => self.trouble(fault, Trouble::ReadOnly),
            Fault::JournalSyncError => {
                self.disk.shared.borrow_mut().trouble = Trouble::JournalSync;
                self.trouble_until = self.mono_ms + 1_500;
            }
            Fault::MassSilence => {
                self.fire(fault);
                let limit = self.story.settings.heartbeat_timeout.millis().min(20_000);
                self.paused_until = self.mono_ms + limit * self.random.between(5, 20) / 10;
            }
            Fault::Junk => self.junk(),
            Fault::CancelWish => self.cancel_wish(),
            Fault::DamagedFile => self.damage(),
            _ => {}
        }
        Ok(())
    }

    fn trouble(&mut self, fault: Fault, trouble: Trouble) {
        self.fire(fault);
        self.disk.shared.borrow_mut().trouble = trouble;
        self.trouble_until = self.mono_ms + self.random.between(500, 15_000);
    }

    fn second_watcher(&mut self) -> Result<(), Violation> {
        if self.rival.is_some() || self.trouble_until > 0 || self.disk.shared.borrow().crash_at.is_some() {
            return Ok(());
        }
        let Some(old) = self.watcher.take() else { return Ok(()) };
        self.fire(Fault::SecondWatcher);
        let wakes = self.mono_ms + self.random.between(10, 10_000);
        self.rival = Some((wakes, old));
        self.open_watcher()
    }

    /// Somebody writes the lock anew, with the very same words.
    fn replace_lock(&mut self) {
        if !self.has_leases() || self.watcher.is_none() {
            return;
        }
        self.fire(Fault::ReplacedLock);
        let path = self.layout.lock();
        let tree = &mut self.disk.shared.borrow_mut().tree;
        let bytes = tree.file(&path).map(|file| file.bytes.clone()).unwrap_or_default();
        self.is_lock_gone = tree.remove(&path).and_then(|()| tree.replace(&path, bytes, 0)).is_ok();
    }

    /// The bus is removed and made anew while its watcher is paused. Everything is asked for once more.
    fn remake_bus(&mut self) -> Result<(), Violation> {
        if self.rival.is_some() || self.trouble_until > 0 || self.disk.shared.borrow().crash_at.is_some() {
            return Ok(());
        }
        let Some(old) = self.watcher.take() else { return Ok(()) };
        self.fire(Fault::RemadeBus);
        {
            let shared = &mut *self.disk.shared.borrow_mut();
            let bus = self.layout.bus();
            shared.tree.remove(&bus).expect("the bus is there");
            shared.tree.make_dirs(&bus).expect("there is room");
            shared.tree.sync_names(bus.parent().unwrap_or(&bus));
            shared.offers.clear();
        }
        let mut readings = fresh_readings(&self.story, &self.options);
        for (fresh, old) in readings.iter_mut().zip(&mut self.readings) {
            // What agents wrote elsewhere stays, and a loss of power may still change it.
            fresh.written = std::mem::take(&mut old.written);
        }
        self.readings = readings;
        self.asked.fill(false);
        self.dropped.iter_mut().for_each(HashSet::clear);
        self.kept_bytes.clear();
        self.known_attempts.clear();
        self.respawned.clear();
        self.hints.clear();
        if self.random.chance(50) {
            // The others live on, and know tasks of the same names.
            self.queue.clear();
        }
        let wakes = self.mono_ms + self.random.between(10, 10_000);
        self.rival = Some((wakes, old));
        self.open_watcher()
    }

    fn lose_power(&mut self) -> Result<(), Violation> {
        self.fire(Fault::PowerLoss);
        (self.watcher, self.rival) = (None, None);
        let torn = {
            let shared = &mut *self.disk.shared.borrow_mut();
            // What was being appended when it went dark.
            let torn = shared.tree.lose_power(&mut shared.random);
            (shared.trouble, shared.is_crashed, shared.crash_at) = (Trouble::None, false, None);
            torn
        };
        for _ in 0..torn {
            self.fire(Fault::TornJournal);
        }
        self.trouble_until = 0;
        for reading in &mut self.readings {
            reading.is_doubtful = true;
        }
        self.forget_what_power_took();
        self.opens_at = Some(self.mono_ms + self.random.below(5_000));
        // Half of the time the agents were on the same machine.
        let are_gone = self.random.chance(50);
        self.replace_agents(are_gone);
        Ok(())
    }
}
