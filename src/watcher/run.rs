//! The live loop: wait for an event or for time, take a turn, write projections. `wk watch` and `wk run`.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use super::clock;
use super::course::{Course, Stage};
use super::{Focus, Kept, TurnError, TurnReport, Watcher, pass};
use crate::agent::runners::Runners;
use crate::bus::layout::BatchPaths;
use crate::bus::lease::Lease;
use crate::bus::wake::{Hints, Wake};
use crate::bus::{Disk, Look, RealDisk, layout, platform};
use crate::decide::{Now, is_over_its_limit};
use crate::model::BatchId;
use crate::model::clock::ActiveClock;
use crate::model::state::Phase;
use crate::view::snapshot::Mode;

/// Shortest time between two full scans.
const SCAN_LEAST_MS: u64 = 20;
/// Longest, however costly a scan is.
const SCAN_MOST_MS: u64 = 30_000;
/// From so many agents of ours on, ends are gathered for so long.
const GATHER_FROM: usize = 3;
const GATHER_MS: u64 = 1;
/// A scan while tasks run may take a fiftieth of the time, an idle one a two-thousandth.
const RUNNING_SHARE: u64 = 50;
const IDLE_SHARE: u64 = 2_000;
/// Between two projections of live progress.
const PROJECTION_LEAST_MS: u64 = 1_000;
/// A workspace shows every change at once, unless that would take more than a twentieth of the time.
const WORKSPACES_SHARE: u64 = 20;
/// Between two notes of how far active time has come.
const CLOCK_NOTE_MS: u64 = 5_000;
/// Before the next try when the disk is full or read-only.
const DEGRADED_WAIT_MS: u64 = 1_000;

/// A watcher at work.
pub struct Session {
    pub watcher: Watcher<RealDisk>,
    pub wake: Wake,
    clock: ActiveClock,
    next_scan_ms: u64,
    scan_cost_us: u64,
    /// Directories that may become batches, and whose events are waited for.
    expected: BTreeSet<BatchId>,
    next_projection_ms: u64,
    next_workspaces_ms: u64,
    next_clock_note_ms: u64,
    is_dirty: bool,
    /// Something has changed that the workspaces do not show yet.
    is_news: bool,
    /// How the settings file looked when it was read.
    settings_look: Option<Look>,
    /// The last turn failed for want of something that agents want too.
    is_starved: bool,
    /// A face that draws wants a turn now and then, whatever happens.
    pub longest_wait_ms: u64,
}

pub use crate::bus::platform::wall_now;

impl Session {
    /// Opens the bus for the watcher that has taken its lock.
    pub fn open(
        lease: Lease,
        disk: RealDisk,
        layout: crate::bus::Layout,
        settings: crate::model::Settings,
        runners: Box<dyn Runners>,
    ) -> Result<Session, TurnError> {
        let (mut clock, _) = pass::resume_clock(&disk, &layout, false);
        let now = Now { clock: clock.now(), wall: wall_now() };
        let mut wake = Wake::new(settings.events);
        let settings_look = disk.look(&layout.settings()).ok().flatten();
        let watcher = Watcher::open(disk, layout, settings, runners, now)?.with_lease(lease);
        clock.catch_up(watcher.latest_clock());
        wake.watch(&watcher.layout().inbox());
        wake.watch(&watcher.layout().tasks());
        Ok(Session {
            watcher,
            wake,
            clock,
            next_scan_ms: 0,
            scan_cost_us: 0,
            expected: BTreeSet::new(),
            next_projection_ms: 0,
            next_workspaces_ms: 0,
            next_clock_note_ms: 0,
            is_dirty: true,
            is_news: true,
            settings_look,
            is_starved: false,
            longest_wait_ms: u64::MAX,
        })
    }

    pub fn now(&self) -> Now {
        Now { clock: self.clock.now(), wall: wall_now() }
    }

    pub fn mode(&self) -> Mode {
        if self.wake.mode() == "scan" { Mode::Scan } else { Mode::EventsAndScan }
    }

    /// Works until `each_turn` says that it is enough.
    pub fn run(
        &mut self,
        mut each_turn: impl FnMut(&mut Session, &TurnReport) -> ControlFlow<()>,
    ) -> Result<(), TurnError> {
        let mut hints = Hints::default();
        loop {
            let report = self.turn(&hints)?;
            if each_turn(self, &report).is_break() {
                self.finish_projections();
                return Ok(());
            }
            hints = if report.again { Hints::default() } else { self.wait(&report) };
        }
    }

    /// Says that the settings are others now. The watcher goes on by those that it began with: a run that changed its
    /// rules on the way would prove nothing.
    fn notice_settings(&mut self) {
        let path = self.watcher.layout().settings();
        let look = RealDisk::default().look(&path).ok().flatten();
        if look != self.settings_look {
            self.settings_look = look;
            log::warn!("{} has changed; that holds from the next start of wk on", path.display());
        }
    }

    fn turn(&mut self, hints: &Hints) -> Result<TurnReport, TurnError> {
        let (started_ms, worked_us) = (platform::monotonic_ms(), platform::worked_us());
        let now = self.now();
        let is_over = self.watcher.batches.values().any(|kept| is_over_its_limit(&kept.state, now));
        let is_scan_due = hints.rescan || is_over || started_ms >= self.next_scan_ms;
        let focus = match is_scan_due {
            true => Focus::full(),
            false => focus_on(&self.watcher, hints),
        };
        let report = match self.watcher.turn(&focus, now) {
            Ok(report) => report,
            Err(error) if error.is_passing() => {
                log::warn!("{error}; trying again");
                self.next_scan_ms = started_ms + DEGRADED_WAIT_MS;
                self.is_starved = error.is_bus_wide();
                return Ok(TurnReport::default());
            }
            Err(error) => return Err(error),
        };
        let ended_ms = platform::monotonic_ms();
        if is_scan_due {
            self.notice_settings();
            if !report.changed {
                // A turn that decides also writes and syncs: that is not the price of looking.
                self.scan_cost_us = platform::worked_us() - worked_us;
            }
            self.next_scan_ms = ended_ms + self.scan_interval_ms();
        } else if report.changed
            && self.next_scan_ms > ended_ms + self.watcher.settings().scan_interval.millis()
        {
            // Somebody may have begun: what was planned while all was quiet is too late now.
            self.next_scan_ms = self.next_scan_ms.min(ended_ms + self.scan_interval_ms());
        }
        self.is_starved = report.is_starved;
        let is_unsettled =
            self.watcher.has_unsettled_intake() || self.watcher.batches.values().any(Kept::has_unsettled);
        if !is_scan_due && is_unsettled {
            // What an event showed may still be written: look again when it should have settled.
            let settle_ms = self.watcher.settings().settle.millis() / 2;
            self.next_scan_ms = self.next_scan_ms.min(ended_ms + settle_ms.max(SCAN_LEAST_MS));
        }
        if let Some(soon_ms) = self.watcher.batches.values().filter_map(Kept::early_record_ms).min() {
            self.next_scan_ms = self.next_scan_ms.min(ended_ms + soon_ms);
        }
        let has_new_watch = self.watch_directories(&report);
        if has_new_watch {
            // What came before the watch made no event.
            self.next_scan_ms = ended_ms;
        }
        let odd_news =
            self.watcher.batches.values_mut().filter_map(|kept| kept.take_odd_news().then_some(()));
        self.is_dirty |= odd_news.count() > 0 || report.changed || !report.finished.is_empty();
        self.is_news |= report.changed;
        self.project(ended_ms);
        Ok(report)
    }

    fn wait(&mut self, report: &TurnReport) -> Hints {
        let before_ms = platform::monotonic_ms();
        let until_scan = self.next_scan_ms.saturating_sub(before_ms);
        let until_deadline =
            report.next_deadline.map_or(u64::MAX, |at| at.since(self.clock.now()).saturating_add(1));
        let until_projection = match self.is_dirty {
            true => self.next_projection_ms.saturating_sub(before_ms).max(1),
            false => u64::MAX,
        };
        let until_workspaces = match self.is_news {
            true => self.next_workspaces_ms.saturating_sub(before_ms).max(1),
            false => u64::MAX,
        };
        let until_projection = until_projection.min(until_workspaces);
        let planned = until_scan.min(until_deadline).min(until_projection).min(self.longest_wait_ms);
        let hints = match planned {
            0 => Hints::default(),
            _ => self.wake.wait(Duration::from_millis(planned), self.gather_ms()),
        };
        if self.is_starved {
            // Nothing could be decided, so the time counts for nobody.
            self.clock.skip_to(platform::monotonic_ms());
            return hints;
        }
        let lost = self.clock.advance(platform::monotonic_ms(), planned);
        if lost > DEGRADED_WAIT_MS {
            log::warn!("this watcher was stopped for {:.1} s; that counts for nobody", lost as f64 / 1000.0);
            self.next_scan_ms = 0;
        }
        hints
    }

    /// Where several agents of ours run at once, their ends come in crowds: one sync then serves several. Where
    /// one waits for the other, nothing is gained by waiting.
    fn gather_ms(&self) -> u64 {
        let started: usize = self.watcher.batches.values().map(|kept| kept.state.started).sum();
        if started >= GATHER_FROM { GATHER_MS } else { 0 }
    }

    /// How long until the next look at everything: short while tasks run, longer when idle or costly.
    fn scan_interval_ms(&self) -> u64 {
        let settings = self.watcher.settings();
        let mut is_running = false;
        let mut shortest = u64::MAX;
        for kept in self.watcher.batches.values() {
            for &task in &kept.state.live {
                let task = &kept.state.tasks[task];
                let limits = &task.spec.limits;
                let is_at_work = matches!(
                    task.phase,
                    Phase::Running { .. } | Phase::Claimed { .. } | Phase::Ending { .. }
                );
                is_running |= is_at_work;
                if is_at_work || limits.start_timeout_was_set {
                    let limit = limits.heartbeat_timeout.0.min(limits.start_timeout.0).min(limits.timeout.0);
                    shortest = shortest.min((limit * 250.0) as u64);
                }
            }
            if kept.has_unsettled() {
                shortest = shortest.min(settings.settle.millis() / 2);
                is_running = true;
            }
        }
        if self.watcher.has_unsettled_intake() {
            shortest = shortest.min(settings.settle.millis() / 2);
            is_running = true;
        }
        let (base, share) = match is_running {
            true => (settings.scan_interval.millis(), RUNNING_SHARE),
            false => (settings.idle_scan.millis(), IDLE_SHARE),
        };
        base.min(shortest).max(self.scan_cost_us * share / 1000).clamp(SCAN_LEAST_MS, SCAN_MOST_MS.max(base))
    }

    /// Watches new batch directories and forgets archived ones. `true` if one was new.
    fn watch_directories(&mut self, report: &TurnReport) -> bool {
        for (id, _) in &report.finished {
            let paths = self.watcher.layout().batch(id);
            self.wake.unwatch(paths.dir());
            self.wake.unwatch(&paths.control());
        }
        self.watch_outboxes(report);
        let mut is_new = false;
        for kept in self.watcher.batches.values() {
            is_new |= self.wake.watch(kept.paths.dir());
            is_new |= self.wake.watch(&kept.paths.control());
        }
        // `mkdir batch-9`, and a moment later its first spec.
        for id in self.expected.difference(&self.watcher.expected) {
            if !self.watcher.batches.contains_key(id) {
                self.wake.unwatch(self.watcher.layout().batch(id).dir());
            }
        }
        for id in &self.watcher.expected {
            is_new |= self.wake.watch(self.watcher.layout().batch(id).dir());
        }
        self.expected.clone_from(&self.watcher.expected);
        is_new
    }

    /// Watches the outboxes of outsiders' attempts from their offer to their end, and waits for their first beats.
    fn watch_outboxes(&mut self, report: &TurnReport) {
        let layout = self.watcher.layout().clone();
        let mut changes: Vec<(BatchPaths, Course)> =
            report.courses.iter().map(|(id, course)| (layout.batch(id), course.clone())).collect();
        for kept in self.watcher.batches.values_mut() {
            let paths = kept.paths.clone();
            changes.extend(kept.courses.drain(..).map(|course| (paths.clone(), course)));
        }
        for (paths, Course { key, attempt, stage }) in changes {
            let outbox = paths.outbox(&key, attempt);
            for heartbeat in [paths.heartbeat(&key), outbox.heartbeat()] {
                self.wake.expect_beat(heartbeat, stage == Stage::Offered);
            }
            if stage == Stage::Over {
                self.wake.unwatch_outbox(outbox.dir());
                continue;
            }
            self.wake.watch_outbox(outbox.dir());
            // What came before the watch made no event.
            let came = [outbox.result(), outbox.heartbeat()].into_iter();
            let disk = self.watcher.disk();
            for path in came.filter(|path| matches!(disk.look(path), Ok(Some(_)))) {
                self.wake.hint(path);
            }
        }
    }

    fn project(&mut self, now_ms: u64) {
        if self.is_news && now_ms >= self.next_workspaces_ms {
            self.watcher.project_workspaces(self.mode(), self.now());
            self.is_news = false;
            let ended_ms = platform::monotonic_ms();
            self.next_workspaces_ms = ended_ms + (ended_ms - now_ms) * WORKSPACES_SHARE;
        }
        if now_ms >= self.next_projection_ms && (self.is_dirty || self.has_beats()) {
            self.watcher.project_status(self.mode(), self.now());
            if self.is_dirty {
                let now = self.now();
                self.watcher.project_ledger(now);
            }
            self.is_dirty = false;
            let cost = platform::monotonic_ms() - now_ms;
            self.next_projection_ms = now_ms + (cost * 100).max(PROJECTION_LEAST_MS);
        }
        let has_running = self.watcher.batches.values().any(|kept| !kept.state.live.is_empty());
        if now_ms >= self.next_clock_note_ms && has_running {
            self.note_clock();
            self.next_clock_note_ms = now_ms + CLOCK_NOTE_MS;
        }
    }

    /// Whether some progress moves by itself.
    fn has_beats(&self) -> bool {
        self.watcher
            .batches
            .values()
            .any(|kept| kept.pulses.iter().any(|(_, pulse)| pulse.has_beaten || pulse.malformed.is_some()))
    }

    fn finish_projections(&mut self) {
        let now = self.now();
        self.watcher.project_status(self.mode(), now);
        self.watcher.project_ledger(now);
        self.note_clock();
    }

    /// Without a boot: the time after a live watcher's end counts for nobody, even if a pass comes next.
    fn note_clock(&self) {
        let file = clock::ClockFile { active_ms: self.clock.now().0, ..clock::ClockFile::default() };
        if let Err(error) = clock::write(self.watcher.disk(), self.watcher.layout(), &file) {
            log::debug!("{error}");
        }
    }
}

/// What the hinted paths mean.
fn focus_on<D: Disk>(watcher: &Watcher<D>, hints: &Hints) -> Focus {
    let mut focus = Focus::default();
    let tasks = watcher.layout().tasks();
    let inbox = watcher.layout().inbox();
    let mut seen: HashSet<&Path> = HashSet::new();
    for path in &hints.paths {
        if !seen.insert(path) {
            continue;
        }
        let Some(parent) = path.parent() else { continue };
        if parent == tasks || parent == inbox {
            focus.intake = true;
            continue;
        }
        let Some((dir, name)) = layout::place_in_batch(path) else { continue };
        let id = dir.file_name().and_then(layout::batch_of_directory);
        match id {
            Some(Ok(id)) if watcher.batches.contains_key(&id) => {
                focus.names.entry(id).or_default().push(name);
            }
            _ => focus.intake = true,
        }
    }
    focus
}
