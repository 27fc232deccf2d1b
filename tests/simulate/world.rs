//! One seed's world: agents, a watcher that dies and comes back, a disk that fails, and a clock that jumps
//! to the next thing that happens.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::path::PathBuf;

use watchkeeper::bus::Layout;
use watchkeeper::decide::Now;
use watchkeeper::intake::NoSurroundings;
use watchkeeper::model::clock::ActiveClock;
use watchkeeper::model::{BatchId, Tick, WallTime};
use watchkeeper::watcher::clock::{self, ClockFile};
use watchkeeper::watcher::{Focus, Heart, TurnError, Watcher};

use super::disk::{ModelDisk, Trouble, attempt_in};
use super::fault::{Fault, Fired, Menu};
use super::oracle::{Moment, Reading, Violation};
use super::plan::{Story, Way};
use super::random::Random;
use super::script::{Scene, Step};

/// After this moment nothing befalls anybody any more.
const FAULTS_END_MS: u64 = 45_000;
/// By then every batch must have ended, however slow its agents were.
const LIVENESS_MS: u64 = 1_500_000;
/// When somebody else takes up what is still on offer.
const OTHERS_COME_MS: u64 = 600_000;
const CLOCK_NOTE_MS: u64 = 5_000;

/// What a run is to be like.
#[derive(Clone)]
pub struct Options {
    pub menu: Menu,
    pub is_calm: bool,
    pub heart: Option<Heart>,
    pub swallows: Option<&'static str>,
    pub traces: bool,
}

impl Options {
    pub fn swarm(seed: u64) -> Self {
        Options { menu: Menu::swarm(seed), is_calm: false, heart: None, swallows: None, traces: false }
    }
}

/// What came of a seed.
pub struct Outcome {
    pub violation: Option<Violation>,
    pub fired: Fired,
    pub trace: Vec<String>,
    pub turns: u64,
    /// Batch results by id.
    pub results: HashMap<String, Vec<u8>>,
}

/// Somebody at work on one attempt.
pub struct Agent {
    pub batch: usize,
    pub ix: usize,
    pub attempt: u32,
    pub steps: std::collections::VecDeque<Step>,
}

pub struct World {
    pub seed: u64,
    pub options: Options,
    pub story: Story,
    pub layout: Layout,
    pub disk: ModelDisk,
    pub random: Random,
    pub mono_ms: u64,
    wall_ms: i64,
    watcher: Option<Watcher<ModelDisk>>,
    rival: Option<(u64, Watcher<ModelDisk>)>,
    clock: ActiveClock,
    planned_ms: u64,
    is_degraded: bool,
    next_scan: u64,
    next_turn: u64,
    next_note: u64,
    /// The watcher does not run until then, though it lives.
    stopped_until: u64,
    opens_at: Option<u64>,
    trouble_until: u64,
    pub paused_until: u64,
    pub hints: BTreeSet<PathBuf>,
    pub agents: Vec<Agent>,
    pub queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    order: u64,
    known_attempts: HashSet<(usize, usize, u32)>,
    pub respawned: HashSet<(usize, usize, u32)>,
    pub readings: Vec<Reading>,
    have_others_come: bool,
    asked: Vec<bool>,
    dropped: Vec<HashSet<usize>>,
    next_fault: u64,
    pub trace: Vec<String>,
    turns: u64,
    /// Every byte sequence that must be found again at the end.
    pub kept_bytes: HashMap<u64, String>,
}

impl World {
    pub fn new(seed: u64, options: Options) -> Self {
        let story = Story::of(seed, &options.menu, options.is_calm);
        let disk = ModelDisk::new(Random::stream(seed, "disk", 0));
        let layout = Layout::new("/sim");
        {
            let shared = &mut *disk.shared.borrow_mut();
            shared.tree.make_dirs(&layout.bus()).unwrap();
            shared.half_renames = options.menu.has(Fault::HalfRename);
            shared.after_effect = options.menu.has(Fault::ErrorAfterEffect);
            shared.swallows = options.swallows;
            if options.menu.has(Fault::CoarseClock) {
                (shared.tree.grain_ms, shared.tree.reuses_numbers) = (1_000, true);
            }
        }
        let is_undisturbed = options.menu.leaves_the_watcher_alone();
        let reading = |plan: &super::plan::PlannedBatch| {
            Reading::new(
                plan.clone(),
                &story.settings,
                is_undisturbed && story.settings.batch_timeout.is_none(),
            )
        };
        let readings = story.batches.iter().map(reading).collect();
        let count = story.batches.len();
        World {
            seed,
            layout,
            disk,
            random: Random::stream(seed, "world", 0),
            mono_ms: 1_000,
            wall_ms: 1_762_785_000_000,
            watcher: None,
            rival: None,
            clock: ActiveClock::resume(Tick(0), 1_000),
            planned_ms: 0,
            is_degraded: false,
            next_scan: 0,
            next_turn: 0,
            next_note: 0,
            stopped_until: 0,
            opens_at: Some(1_000),
            trouble_until: 0,
            paused_until: 0,
            hints: BTreeSet::new(),
            agents: Vec::new(),
            queue: BinaryHeap::new(),
            order: 0,
            known_attempts: HashSet::new(),
            respawned: HashSet::new(),
            readings,
            have_others_come: false,
            asked: vec![false; count],
            dropped: vec![HashSet::new(); count],
            next_fault: 1_500,
            trace: Vec::new(),
            turns: 0,
            kept_bytes: HashMap::new(),
            options,
            story,
        }
    }

    pub fn run(mut self) -> Outcome {
        let violation = self.live().err();
        let mut results = HashMap::new();
        for batch in &self.story.batches {
            let id = BatchId::parse(&batch.id).unwrap();
            if let Some(file) = self.disk.shared.borrow().tree.file(&self.layout.batch_result(&id)) {
                results.insert(batch.id.clone(), file.bytes.clone());
            }
        }
        let mut fired = self.disk.shared.borrow().fired.clone();
        for _ in 0..self.disk.shared.borrow().tree.same_times {
            fired.count(Fault::CoarseClock);
        }
        Outcome { violation, fired, trace: self.trace, turns: self.turns, results }
    }

    fn live(&mut self) -> Result<(), Violation> {
        loop {
            if self.is_over() {
                return self.check_end();
            }
            if self.clock.now().0 > LIVENESS_MS {
                return Err(self.stuck());
            }
            if self.clock.now().0 > OTHERS_COME_MS && !std::mem::replace(&mut self.have_others_come, true) {
                // An offer whose agent's files a given-up one overwrote waits, visibly, for somebody else.
                self.replace_agents(false);
            }
            self.step()?;
            if let Some(violation) = self.disk.shared.borrow_mut().violation.take() {
                return Err(violation);
            }
        }
    }

    fn stuck(&self) -> Violation {
        let mut states = Vec::new();
        for reading in &self.readings {
            for (key, seen) in &reading.tasks {
                if seen.ended.is_none() {
                    states.push(format!("{}/{key}#{}", reading.plan.id, seen.attempt));
                }
            }
        }
        let broken = self.watcher.as_ref().map(|watcher| format!("{:?}", watcher.broken)).unwrap_or_default();
        let shared = self.disk.shared.borrow();
        let files = shared.tree.files_below(&self.layout.tasks());
        let names: Vec<String> = files
            .iter()
            .filter(|_| self.options.traces)
            .map(|(path, file)| format!("{} ({} bytes)", path.display(), file.bytes.len()))
            .collect();
        let detail = format!("no end: {} {broken}\n{}", states.join(" "), names.join("\n"));
        Violation { invariant: "I25", detail }
    }

    pub fn say(&mut self, text: impl FnOnce() -> String) {
        if self.options.traces {
            let line = format!("{:>9} {}", self.mono_ms, text());
            self.trace.push(line);
        }
    }

    pub fn fire(&mut self, fault: Fault) {
        self.disk.shared.borrow_mut().fired.count(fault);
        self.say(|| format!("FAULT {}", fault.words()));
    }

    /// Jumps to the next thing that happens, and lets it happen.
    fn step(&mut self) -> Result<(), Violation> {
        let agent = self.queue.peek().map_or(u64::MAX, |Reverse((at, _, _))| *at);
        let arrival = self.next_arrival();
        let watcher = match (&self.watcher, self.opens_at) {
            (Some(_), _) => self.next_scan.min(self.next_turn).max(self.stopped_until),
            (None, Some(at)) => at,
            (None, None) => u64::MAX,
        };
        let rival = self.rival.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let fault = if self.mono_ms < FAULTS_END_MS { self.next_fault } else { u64::MAX };
        let next = agent.min(arrival).min(watcher).min(rival).min(fault).max(self.mono_ms);
        self.wall_ms += (next - self.mono_ms) as i64;
        self.mono_ms = next;
        self.disk.shared.borrow_mut().tree.now_ms = next;
        if self.trouble_until > 0 && (next >= self.trouble_until || next >= FAULTS_END_MS) {
            self.disk.shared.borrow_mut().trouble = Trouble::None;
            self.trouble_until = 0;
        }
        if next >= FAULTS_END_MS {
            let shared = &mut *self.disk.shared.borrow_mut();
            (shared.after_effect, shared.half_renames) = (false, false);
        }
        if arrival <= next {
            self.arrive();
        } else if agent <= next {
            self.agent_acts();
        } else if rival <= next {
            self.rival_wakes()?;
        } else if fault <= next {
            self.something_happens()?;
        } else if self.watcher.is_none() {
            self.open_watcher()?;
        } else {
            self.watcher_acts()?;
        }
        Ok(())
    }

    pub fn now(&self) -> Now {
        Now { clock: self.clock.now(), wall: WallTime(self.wall_ms) }
    }

    fn next_arrival(&self) -> u64 {
        let mut next = u64::MAX;
        for (number, batch) in self.story.batches.iter().enumerate() {
            match batch.way {
                Way::ByHand => {}
                Way::Inbox if !self.asked[number] => next = next.min(batch.asked_at + 1_000),
                Way::Inbox => {}
                Way::Specs | Way::Loose => {
                    for (ix, task) in batch.tasks.iter().enumerate() {
                        if !self.dropped[number].contains(&ix) {
                            next = next.min(task.dropped_at + 1_000);
                        }
                    }
                }
            }
        }
        next
    }

    /// Requests and specs that come by themselves.
    fn arrive(&mut self) {
        for number in 0..self.story.batches.len() {
            let batch = self.story.batches[number].clone();
            let id = BatchId::parse(&batch.id).unwrap();
            if batch.way == Way::Inbox && !self.asked[number] && batch.asked_at + 1_000 <= self.mono_ms {
                self.asked[number] = true;
                let path = self.layout.inbox().join(format!("plan-{number}.json"));
                self.drop_file(path, batch.request());
            }
            for ix in 0..batch.tasks.len() {
                let is_due = batch.tasks[ix].dropped_at + 1_000 <= self.mono_ms;
                if !matches!(batch.way, Way::Specs | Way::Loose)
                    || !is_due
                    || !self.dropped[number].insert(ix)
                {
                    continue;
                }
                let name = format!("task-{}.json", batch.tasks[ix].key);
                let path = match batch.way {
                    Way::Loose => self.layout.tasks().join(name),
                    _ => self.layout.batch(&id).dir().join(name),
                };
                self.drop_file(path, batch.spec(ix));
            }
        }
    }

    fn drop_file(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.say(|| format!("dropped {}", path.display()));
        {
            let tree = &mut self.disk.shared.borrow_mut().tree;
            let dir = path.parent().unwrap().to_owned();
            tree.make_dirs(&dir).unwrap();
            tree.replace(&path, bytes.clone(), 0).unwrap();
            // People's requests are on the disk before anybody pulls the plug: else there is nothing to keep.
            tree.sync_file(&path);
            tree.sync_names(&dir);
        }
        self.keep(&bytes, format!("dropped {}", path.display()));
        self.hint(path);
    }

    pub fn keep(&mut self, bytes: &[u8], what: String) {
        self.kept_bytes.insert(fingerprint(bytes), what);
    }

    /// An event says that this path changed; it may be lost, or come twice.
    pub fn hint(&mut self, path: PathBuf) {
        if !self.story.settings.events {
            return;
        }
        if self.options.menu.has(Fault::LostEvent) && self.random.chance(20) {
            return self.fire(Fault::LostEvent);
        }
        if self.options.menu.has(Fault::EventOverflow) && self.random.chance(2) {
            self.fire(Fault::EventOverflow);
            self.next_scan = self.next_scan.min(self.mono_ms + 1);
            return;
        }
        if self.options.menu.has(Fault::DuplicatedEvent) && self.random.chance(10) {
            self.fire(Fault::DuplicatedEvent);
            self.next_turn = self.next_turn.min(self.mono_ms);
        }
        self.hints.insert(path);
        self.next_turn = self.next_turn.min(self.mono_ms + 1);
    }

    pub fn schedule(&mut self, agent: usize, at: u64) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order, agent)));
    }

    // --- the watcher ---

    fn open_watcher(&mut self) -> Result<(), Violation> {
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
        let now = self.now();
        let settings = self.story.settings.clone();
        let runners = Box::new(watchkeeper::agent::runners::NoRunners);
        let opened = Watcher::open(self.disk.clone(), self.layout.clone(), settings, runners, now)
            .map(|watcher| watcher.with_surroundings(Box::new(NoSurroundings)));
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
                (beat.tick, beat.looks, beat.look) = (tick, 0, None);
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

    fn watcher_acts(&mut self) -> Result<(), Violation> {
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
        self.hints.clear();
        // What is seen counts only if the turn comes to its end.
        let may_fail = self.trouble_until > 0 || self.disk.shared.borrow().after_effect;
        let before: Option<Vec<_>> =
            may_fail.then(|| self.readings.iter().map(|reading| reading.beats.clone()).collect());
        if is_full {
            self.observe();
        }
        let now = self.now();
        self.turns += 1;
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        let turned = watcher.turn(&focus, now);
        if self.note_crash(Fault::Crash) {
            return self.read_journals();
        }
        let scan = self.story.settings.scan_interval.millis();
        if is_full {
            self.next_scan = self.mono_ms + scan;
        }
        self.next_turn = u64::MAX;
        if let Some(before) = before {
            let is_lost = |id: &str| match &turned {
                Ok(report) => report.degraded.iter().any(|(other, _)| other.as_str() == id),
                Err(_) => true,
            };
            for (reading, beats) in self.readings.iter_mut().zip(before) {
                if !is_lost(&reading.plan.id) {
                    continue;
                }
                // Nobody knows how far the turn came: the watcher may or may not have seen these beats.
                for (key, old) in beats {
                    if let Some(beat) = reading.beats.get_mut(&key).filter(|beat| beat.attempt == old.attempt)
                    {
                        (beat.tick, beat.looks) = (old.tick, old.looks.max(beat.looks));
                    }
                }
            }
        }
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
        self.planned_ms = self.next_scan.min(self.next_turn).saturating_sub(self.mono_ms);
        self.note_clock();
        self.read_journals()
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
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if parent == self.layout.inbox() || parent == self.layout.tasks() {
                focus.intake = true;
                continue;
            }
            let (dir, name) = match parent.file_name() {
                Some(control) if control == "control" => (parent.parent(), control.to_owned()),
                _ => (Some(parent), name.to_owned()),
            };
            let id =
                dir.and_then(|dir| dir.file_name()).and_then(watchkeeper::bus::layout::batch_of_directory);
            if let Some(Ok(id)) = id {
                focus.names.entry(id).or_default().push(name);
            }
        }
        focus
    }

    /// A paused watcher goes on, not knowing that it was replaced.
    fn rival_wakes(&mut self) -> Result<(), Violation> {
        let Some((_, mut rival)) = self.rival.take() else { return Ok(()) };
        let now = self.now();
        match rival.turn(&Focus::full(), now) {
            Err(TurnError::Superseded { .. }) => Ok(()),
            _ if self.disk.shared.borrow().is_crashed || self.trouble_until > 0 => Ok(()),
            Err(error) => Err(Violation { invariant: "I1", detail: format!("the old watcher: {error}") }),
            Ok(report) => {
                let detail = format!("the old watcher did not notice that it was replaced: {report:?}");
                Err(Violation { invariant: "I1", detail })
            }
        }
    }

    // --- what happens to it ---

    fn something_happens(&mut self) -> Result<(), Violation> {
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
        self.forget_what_power_took();
        self.opens_at = Some(self.mono_ms + self.random.below(5_000));
        // Half of the time the agents were on the same machine.
        let are_gone = self.random.chance(50);
        self.replace_agents(are_gone);
        Ok(())
    }

    // --- reading along ---

    pub fn read_journals(&mut self) -> Result<(), Violation> {
        let moment = Moment { mono_ms: self.mono_ms };
        let mut told = Vec::new();
        for reading in &mut self.readings {
            let id = BatchId::parse(&reading.plan.id).unwrap();
            let shared = self.disk.shared.borrow();
            let places = [self.layout.batch(&id).journal(), self.layout.archived(&id).journal()];
            let Some(file) = places.iter().find_map(|path| shared.tree.file(path)) else { continue };
            reading.read(&file.bytes, moment, &mut told)?;
        }
        for line in told {
            self.say(|| line);
        }
        self.spawn_agents();
        Ok(())
    }

    /// Every published spec finds somebody who plays its part.
    fn spawn_agents(&mut self) {
        let offers = std::mem::take(&mut self.disk.shared.borrow_mut().offers);
        for (path, bytes) in offers {
            let dir = path.parent().and_then(|dir| dir.file_name()).unwrap_or_default();
            let id = dir.to_string_lossy().trim_start_matches("batch-").to_owned();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let key = name.trim_start_matches("task-").trim_end_matches(".json").to_owned();
            let attempt = attempt_in(&bytes);
            let Some(batch) = self.story.batches.iter().position(|batch| batch.id == id) else { continue };
            let Some(ix) = self.story.batches[batch].task(&key) else { continue };
            self.spawn(batch, ix, attempt);
        }
    }

    pub fn spawn(&mut self, batch: usize, ix: usize, attempt: u32) {
        if !self.known_attempts.insert((batch, ix, attempt)) {
            return;
        }
        let steps = self.scene(batch, ix, attempt).steps();
        self.agents.push(Agent { batch, ix, attempt, steps: steps.into() });
        let first = self.agents.last().and_then(|agent| agent.steps.front()).map_or(0, |step| step.after_ms);
        self.schedule(self.agents.len() - 1, self.mono_ms + first);
    }

    pub fn spawn_again(&mut self, batch: usize, ix: usize, attempt: u32) {
        self.known_attempts.remove(&(batch, ix, attempt));
        self.spawn(batch, ix, attempt);
    }

    pub fn scene(&self, batch: usize, ix: usize, attempt: u32) -> Scene<'_> {
        Scene {
            seed: self.seed,
            menu: &self.options.menu,
            batch,
            ix,
            task: &self.story.batches[batch].tasks[ix],
            attempt,
            limit_ms: self.story.settings.heartbeat_timeout.millis().min(8_000),
            start_is_limited: self.story.settings.start_timeout.is_some(),
            is_calm: self.options.is_calm,
        }
    }
}

/// Stands for a byte sequence.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
