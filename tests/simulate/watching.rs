//! The watcher's part of a world: it opens, turns, is asked by hand, and is replaced while it sleeps.

use std::collections::HashMap;

use watchkeeper::intake::NoSurroundings;
use watchkeeper::model::clock::ActiveClock;
use watchkeeper::model::{BatchId, Tick, WallTime};
use watchkeeper::watcher::clock::{self, ClockFile};
use watchkeeper::watcher::{Focus, TurnError, TurnReport, Watcher};

use super::disk::ModelDisk;
use super::fault::Fault;
use super::lease::ModelLease;
use super::oracle::{Beat, Violation};
use super::plan::Way;
use super::world::{Bug, World};

/// How often the watcher notes its clock.
const CLOCK_NOTE_MS: u64 = 5_000;

impl World {
    pub fn open_watcher(&mut self) -> Result<(), Violation> {
        self.opens_at = None;
        {
            let shared = &mut *self.disk.shared.borrow_mut();
            (shared.is_crashed, shared.crash_at, shared.tears_next_append) = (false, None, false);
        }
        if self.options.menu.has(Fault::DoubleCrash) && self.turns > 0 && self.random.chance(30) {
            let within = self.random.between(1, 60);
            self.crash_within(within);
        }
        self.disk.process += 1;
        let noted = clock::read(&self.disk, &self.layout);
        self.clock = ActiveClock::resume(Tick(noted.active_ms), self.mono_ms);
        let mut now = self.now();
        if self.options.bug == Some(Bug::EpochFromOne) {
            // Without the time of day, epochs are counted.
            now.wall = WallTime(0);
        }
        self.is_lock_gone = false;
        // In half of the worlds nothing but the epoch tells one watcher from another.
        let by_content = self.options.bug == Some(Bug::LockByContent);
        let lease = self.has_leases().then(|| ModelLease::take(&self.disk, &self.layout.lock(), by_content));
        let settings = self.story.settings.clone();
        let runners = Box::new(watchkeeper::agent::runners::NoRunners);
        let opened = Watcher::open(self.disk.clone(), self.layout.clone(), settings, runners, now)
            .map(|watcher| watcher.with_surroundings(Box::new(NoSurroundings)))
            .map(|watcher| match lease {
                Some(lease) => watcher.with_lease(lease),
                None => watcher,
            });
        if self.note_crash(Fault::DoubleCrash) {
            return self.read_journals();
        }
        match opened {
            Ok(watcher) => {
                self.clock.catch_up(watcher.latest_clock());
                self.begin_watch(watcher);
                self.read_journals()
            }
            Err(error) => {
                self.say(|| format!("cannot open: {error}"));
                self.opens_at = Some(self.mono_ms + 1_000);
                Ok(())
            }
        }
    }

    pub fn has_leases(&self) -> bool {
        self.seed.is_multiple_of(2)
    }

    fn begin_watch(&mut self, watcher: Watcher<ModelDisk>) {
        let epoch = watcher.epoch();
        self.say(|| format!("watcher of epoch {epoch} is up"));
        self.watcher = Some(match self.options.heart {
            Some(heart) => watcher.with_heart(heart),
            None => watcher,
        });
        self.disk.shared.borrow_mut().crash_at = None;
        (self.next_scan, self.next_turn, self.planned_ms) = (self.mono_ms, u64::MAX, 0);
        self.stopped_until = 0;
        self.is_degraded = false;
        let tick = self.clock.now().0;
        for reading in &mut self.readings {
            for beat in reading.beats.values_mut() {
                (beat.tick, beat.looks, beat.seen) = (tick, 0, [None; 2]);
            }
        }
    }

    pub fn crash_within(&mut self, operations: u64) {
        let shared = &mut *self.disk.shared.borrow_mut();
        shared.crash_at = Some(shared.operations + operations);
    }

    /// Whether the process died in the call that just returned.
    fn note_crash(&mut self, fault: Fault) -> bool {
        if !self.disk.shared.borrow().is_crashed {
            return false;
        }
        self.fire(fault);
        self.watcher = None;
        let after = self.random.below(3_000);
        self.opens_at = Some(self.mono_ms + after);
        true
    }

    pub fn watcher_acts(&mut self) -> Result<(), Violation> {
        match self.is_degraded {
            true => self.clock.skip_to(self.mono_ms),
            false => {
                self.clock.advance(self.mono_ms, self.planned_ms);
            }
        }
        let is_full = self.mono_ms >= self.next_scan;
        self.ask_by_hand()?;
        if self.watcher.is_none() {
            return self.read_journals();
        }
        let focus = if is_full { Focus::full() } else { self.focus() };
        let hints = std::mem::take(&mut self.hints);
        // What is seen counts only if the turn comes to its end.
        let may_fail = self.trouble_until > 0 || self.disk.shared.borrow().after_effect;
        let before: Option<Vec<_>> =
            may_fail.then(|| self.readings.iter().map(|reading| reading.beats.clone()).collect());
        if is_full {
            self.observe();
        } else {
            self.observe_first_beats(&hints);
        }
        let now = self.now();
        self.turns += 1;
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        let turned = watcher.turn(&focus, now);
        if self.note_crash(Fault::Crash) {
            return self.read_journals();
        }
        if self.is_lock_gone && !matches!(turned, Err(TurnError::LockGone { .. })) {
            let detail = "the watcher went on, although its lock had been replaced".to_owned();
            return Err(Violation { invariant: "I1", detail });
        }
        let scan = self.story.settings.scan_interval.millis();
        if is_full {
            self.next_scan = self.mono_ms + scan;
        }
        self.next_turn = u64::MAX;
        if let Some(before) = before {
            self.doubt_beats(before, &turned);
        }
        self.take_note(turned)?;
        self.planned_ms = self.next_scan.min(self.next_turn).saturating_sub(self.mono_ms);
        self.note_clock();
        self.read_journals()
    }

    /// A turn that failed may or may not have seen the beats that were there: what was known before it holds.
    fn doubt_beats(&mut self, before: Vec<HashMap<String, Beat>>, turned: &Result<TurnReport, TurnError>) {
        let is_lost = |id: &str| match turned {
            Ok(report) => report.degraded.iter().any(|(other, _)| other.as_str() == id),
            Err(_) => true,
        };
        for (reading, beats) in self.readings.iter_mut().zip(before) {
            if !is_lost(&reading.plan.id) {
                continue;
            }
            // Nobody knows how far the turn came: the watcher may or may not have seen these beats.
            for (key, old) in beats {
                if let Some(beat) = reading.beats.get_mut(&key).filter(|beat| beat.attempt == old.attempt) {
                    (beat.tick, beat.looks) = (old.tick, old.looks.max(beat.looks));
                }
            }
        }
    }

    /// Plans the next turn by what this one says, or the watcher's end.
    fn take_note(&mut self, turned: Result<TurnReport, TurnError>) -> Result<(), Violation> {
        match turned {
            Ok(report) => {
                self.is_degraded = !report.degraded.is_empty();
                if let Some(deadline) = report.next_deadline {
                    self.next_turn = self.mono_ms + deadline.since(self.clock.now()) + 1;
                }
                if report.again {
                    self.next_turn = self.mono_ms + 1;
                }
            }
            Err(error) if error.is_passing() => {
                self.say(|| format!("degraded: {error}"));
                self.is_degraded = true;
            }
            Err(error) => {
                self.say(|| format!("the watcher ends: {error}"));
                if matches!(error, TurnError::Superseded { .. }) {
                    return Err(Violation {
                        invariant: "I1",
                        detail: format!("the newest watcher: {error}"),
                    });
                }
                self.watcher = None;
                self.opens_at = Some(self.mono_ms + 500);
            }
        }
        Ok(())
    }

    fn note_clock(&mut self) {
        if self.mono_ms < self.next_note || self.watcher.is_none() {
            return;
        }
        self.next_note = self.mono_ms + CLOCK_NOTE_MS;
        let file = ClockFile { active_ms: self.clock.now().0, ..ClockFile::default() };
        let _ = clock::write(&self.disk, &self.layout, &file);
    }

    fn ask_by_hand(&mut self) -> Result<(), Violation> {
        for number in 0..self.story.batches.len() {
            let batch = &self.story.batches[number];
            if batch.way != Way::ByHand || self.asked[number] || batch.asked_at + 1_000 > self.mono_ms {
                continue;
            }
            let (request, id) = (batch.request(), BatchId::parse(&batch.id).unwrap());
            let now = self.now();
            let Some(watcher) = &mut self.watcher else { return Ok(()) };
            let accepted = watcher.accept(&format!("plan-{number}.json"), &request, now);
            let exists = self.disk.shared.borrow().tree.find(self.layout.batch(&id).dir()).is_some();
            // Whoever asked sees an error and asks again, unless the batch is there.
            self.asked[number] = exists;
            if self.note_crash(Fault::Crash) {
                return Ok(());
            }
            match accepted {
                Ok(Ok(_)) => {}
                Ok(Err(defects)) if !exists => {
                    let detail = format!("a good plan is refused: {defects:?}");
                    return Err(Violation { invariant: "I18", detail });
                }
                Ok(Err(_)) => {}
                Err(error) => self.say(|| format!("not accepted: {error}")),
            }
        }
        Ok(())
    }

    fn focus(&self) -> Focus {
        let mut focus = Focus::default();
        for path in &self.hints {
            let Some(parent) = path.parent() else { continue };
            if parent == self.layout.inbox() || parent == self.layout.tasks() {
                focus.intake = true;
                continue;
            }
            let Some((dir, name)) = watchkeeper::bus::layout::place_in_batch(path) else { continue };
            let id = dir.file_name().and_then(watchkeeper::bus::layout::batch_of_directory);
            if let Some(Ok(id)) = id {
                focus.names.entry(id).or_default().push(name);
            }
        }
        focus
    }

    /// A paused watcher goes on, not knowing that it was replaced.
    pub fn rival_wakes(&mut self) -> Result<(), Violation> {
        let Some((_, mut rival)) = self.rival.take() else { return Ok(()) };
        let now = self.now();
        match rival.turn(&Focus::full(), now) {
            Err(TurnError::Superseded { .. } | TurnError::LockGone { .. }) => Ok(()),
            _ if self.disk.shared.borrow().is_crashed || self.trouble_until > 0 => Ok(()),
            Err(error) => Err(Violation { invariant: "I1", detail: format!("the old watcher: {error}") }),
            Ok(report) => {
                let detail = format!("the old watcher did not notice that it was replaced: {report:?}");
                Err(Violation { invariant: "I1", detail })
            }
        }
    }
}
