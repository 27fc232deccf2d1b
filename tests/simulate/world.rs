//! One seed's world: agents, a watcher that dies and comes back, a disk that fails, and a clock that jumps
//! to the next thing that happens. The watcher's part is in `watching`, what befalls it in `mishaps`.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::path::PathBuf;

use watchkeeper::bus::Layout;
use watchkeeper::decide::Now;
use watchkeeper::model::clock::ActiveClock;
use watchkeeper::model::{BatchId, Tick, WallTime};
use watchkeeper::watcher::{Heart, Watcher};

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

/// A bug that is planted at the edge, where the heart cannot see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    LockByContent,
    SecondResultWins,
    EpochFromOne,
}

/// What a run is to be like.
#[derive(Clone)]
pub struct Options {
    pub menu: Menu,
    pub is_calm: bool,
    pub heart: Option<Heart>,
    pub swallows: Option<&'static str>,
    pub bug: Option<Bug>,
    pub traces: bool,
}

impl Options {
    pub fn swarm(seed: u64) -> Self {
        let menu = Menu::swarm(seed);
        Options { menu, is_calm: false, heart: None, swallows: None, bug: None, traces: false }
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
    pub wall_ms: i64,
    pub watcher: Option<Watcher<ModelDisk>>,
    pub rival: Option<(u64, Watcher<ModelDisk>)>,
    /// Somebody replaced the lock of the watcher, which must end at its next turn.
    pub is_lock_gone: bool,
    pub clock: ActiveClock,
    pub planned_ms: u64,
    pub is_degraded: bool,
    pub next_scan: u64,
    pub next_turn: u64,
    pub next_note: u64,
    /// The watcher does not run until then, though it lives.
    pub stopped_until: u64,
    pub opens_at: Option<u64>,
    pub trouble_until: u64,
    pub paused_until: u64,
    pub hints: BTreeSet<PathBuf>,
    pub agents: Vec<Agent>,
    pub queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    pub order: u64,
    pub known_attempts: HashSet<(usize, usize, u32)>,
    pub respawned: HashSet<(usize, usize, u32)>,
    pub readings: Vec<Reading>,
    pub have_others_come: bool,
    pub asked: Vec<bool>,
    pub dropped: Vec<HashSet<usize>>,
    pub next_fault: u64,
    pub trace: Vec<String>,
    pub turns: u64,
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
            shared.replaces = options.bug == Some(Bug::SecondResultWins);
            if options.menu.has(Fault::CoarseClock) {
                (shared.tree.grain_ms, shared.tree.reuses_numbers) = (1_000, true);
            }
            // Which of two tasks comes first to a file, and makes it, is a matter of time.
            let tasks = story.batches.iter().flat_map(|batch| &batch.tasks).filter(|_| options.is_calm);
            for file in tasks.flat_map(|task| &task.files) {
                let _ = shared.tree.replace(&layout.root().join(file), b"before".to_vec(), 0);
            }
        }
        let readings = fresh_readings(&story, &options);
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
            is_lock_gone: false,
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

/// The stories as nobody has begun them.
pub fn fresh_readings(story: &Story, options: &Options) -> Vec<Reading> {
    let is_undisturbed = options.menu.leaves_the_watcher_alone() && story.settings.batch_timeout.is_none();
    story.batches.iter().map(|plan| Reading::new(plan.clone(), &story.settings, is_undisturbed)).collect()
}

/// Stands for a byte sequence.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
