//! The made-up world around the heart: its two clocks, what happens in it, and what the watcher sees of that.
//!
//! Agents live on wall time; the watcher's limits run on its own active time, which stands still while it is
//! away. Beats are not played one by one: see `agents`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::decide::{
    Now, Observed, Pulses, SignSeen, decide, has_room_to_begin, is_due, is_over_its_limit, next_deadline,
};
use crate::model::event::{Entry, Sign};
use crate::model::state::{BatchState, TaskIx};
use crate::model::{Attempt, Batch, Epoch, Event, OnFileConflict, Seconds, Tick, WallTime};

use super::agenda::Agenda;
use super::fault::Fault;
use super::script::{self, Ends, Life, Script};
use super::{Absence, Because, Conditions, Rehearsal};

/// Who takes what is offered to outsiders.
const TAKER: &str = "rehearsal";

/// What happens on wall time, whether somebody watches or not.
#[derive(Debug)]
pub(super) enum Happening {
    Takes(TaskIx, Attempt),
    FallsSilent(TaskIx, Attempt),
    Ends(TaskIx, Attempt, Ends),
    WatcherLeaves { lasting_ms: u64 },
    WatcherReturns,
}

/// What the watcher has to see to on its active time.
#[derive(Debug)]
pub(super) enum Concern {
    /// Somebody's limit may have passed.
    Limits,
    StageLimit(usize),
    /// A runner did not end when it was asked to.
    Force(TaskIx, Attempt),
}

pub(super) struct World<'c> {
    pub(super) conditions: &'c Conditions,
    pub(super) state: BatchState,
    pub(super) pulses: Pulses,
    entries: Vec<Entry>,
    pub(super) wall_ms: u64,
    pub(super) active_ms: u64,
    epoch: Epoch,
    is_away: bool,
    pub(super) happenings: Agenda<Happening>,
    pub(super) concerns: Agenda<Concern>,
    /// What lies there for the watcher's next turn.
    unseen: Observed,
    pub(super) scripts: HashMap<TaskIx, Script>,
    /// Whose heartbeats a look must see, because not all is well with them.
    pub(super) doubtful: BTreeSet<TaskIx>,
    /// Whose attempts ended at this moment, and which files that left free.
    freed: Vec<TaskIx>,
    freed_files: HashMap<String, TaskIx>,
    retry_due: HashMap<TaskIx, Tick>,
    because: Vec<Vec<Because>>,
    absences: Vec<Absence>,
    results: u64,
    turns: u64,
    decisions: usize,
    peak: usize,
}

impl<'c> World<'c> {
    pub(super) fn new(batch: Batch, conditions: &'c Conditions) -> Self {
        let tasks = batch.tasks.len();
        World {
            conditions,
            state: BatchState::new(Arc::new(batch)),
            pulses: Pulses::default(),
            entries: Vec::new(),
            wall_ms: 0,
            active_ms: 0,
            epoch: Epoch(1),
            is_away: false,
            happenings: Agenda::default(),
            concerns: Agenda::default(),
            unseen: Observed::default(),
            scripts: HashMap::new(),
            doubtful: BTreeSet::new(),
            freed: Vec::new(),
            freed_files: HashMap::new(),
            retry_due: HashMap::new(),
            because: vec![Vec::new(); tasks],
            absences: Vec::new(),
            results: 0,
            turns: 0,
            decisions: 0,
            peak: 0,
        }
    }

    pub(super) fn play(mut self) -> Rehearsal {
        for away in &self.conditions.away {
            let leaves = Happening::WatcherLeaves { lasting_ms: away.lasting.millis() };
            self.happenings.put(away.from.millis(), leaves);
        }
        let tasks = self.state.tasks.len();
        self.write_own(Event::Accepted { tasks, batch_sha256: None });
        self.turn(true);
        while self.state.finished.is_none() && self.step() {}
        Rehearsal {
            elapsed: Seconds::from_millis(self.entries.last().map_or(0, |last| last.at.0 as u64)),
            state: self.state,
            entries: self.entries,
            decisions: self.decisions,
            peak: self.peak,
            absences: self.absences,
            max_running: self.conditions.max_running,
            because: self.because,
        }
    }

    fn now(&self) -> Now {
        Now { clock: Tick(self.active_ms), wall: WallTime(self.wall_ms as i64) }
    }

    /// Jumps to the next moment at which something happens. `false` if nothing ever will.
    fn step(&mut self) -> bool {
        let Some(at) = self.next_moment() else { return false };
        let passed = at - self.wall_ms;
        self.wall_ms = at;
        if !self.is_away {
            self.active_ms += passed;
        }
        if passed > 0 {
            self.freed.clear();
            self.freed_files.clear();
        }
        while let Some(happening) = self.happenings.take_due(self.wall_ms) {
            self.happen(happening);
        }
        if self.is_away {
            return true;
        }
        let now = self.now();
        let mut judges = is_over_its_limit(&self.state, now);
        while let Some(concern) = self.concerns.take_due(self.active_ms) {
            judges |= self.see_to(concern);
        }
        let is_called = !self.unseen.results.is_empty()
            || !self.unseen.signs.is_empty()
            || !self.unseen.runners.is_empty();
        if judges || is_called || is_due(&self.state, now) {
            self.turn(judges);
        }
        true
    }

    /// On wall time.
    fn next_moment(&self) -> Option<u64> {
        let happening = self.happenings.next_at();
        if self.is_away {
            return happening;
        }
        let now = self.now();
        let from = (Tick(self.active_ms + 1), 0);
        let retry = self.state.backing_off.range(from..).next().map(|(until, _)| until.0);
        let deadline = next_deadline(&self.state, now).map(|at| at.0);
        let active = [self.concerns.next_at(), retry, deadline].into_iter().flatten().min();
        let active = active.map(|at| self.wall_ms + at.saturating_sub(self.active_ms));
        happening.into_iter().chain(active).min()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Takes(task, attempt) => {
                let sign = Sign::Take { by: TAKER.to_owned() };
                self.unseen.signs.push(SignSeen { task, attempt, sign });
            }
            Happening::FallsSilent(task, attempt) => {
                let Some(script) = self.scripts.get_mut(&task).filter(|script| script.attempt == attempt)
                else {
                    return;
                };
                script.life = Life::Silent;
                if !self.is_away {
                    self.note_beat(task, self.active_ms);
                    self.watch_over(task);
                }
            }
            Happening::Ends(task, attempt, ends) => {
                let Some(script) = self.scripts.get(&task).filter(|script| script.attempt == attempt) else {
                    return;
                };
                self.results += 1;
                let moment = (self.wall_ms, self.results);
                script::leave(&mut self.unseen, &self.state, task, *script, ends, moment);
            }
            Happening::WatcherLeaves { lasting_ms } => {
                if !self.is_away {
                    self.is_away = true;
                    self.happenings.put(self.wall_ms + lasting_ms, Happening::WatcherReturns);
                    self.absences.push(Absence::begun(self.wall_ms, self.state.live.len()));
                }
            }
            Happening::WatcherReturns => self.come_back(),
        }
    }

    /// Another watcher takes over: it remembers nobody's beats, so everybody has a full window again.
    fn come_back(&mut self) {
        self.is_away = false;
        self.epoch = Epoch(self.epoch.0 + 1);
        let running = self.state.live.len();
        self.write_own(Event::Resumed { running });
        self.pulses = Pulses::default();
        let live: Vec<TaskIx> = self.state.live.iter().copied().collect();
        for task in live {
            if let Some(attempt) = self.state.tasks[task].live_attempt() {
                self.pulses.follow(task, attempt, Tick(self.active_ms));
            }
            // A heartbeat file that lies there is new to it, whoever wrote it when.
            if self.scripts.get(&task).is_some_and(|script| script.life != Life::NeverBeats) {
                self.note_beat(task, self.active_ms);
            }
            self.watch_over(task);
        }
        let by_outsiders = self.unseen.results.iter().filter(|seen| !self.state.tasks[seen.task].is_ours());
        let found = self.unseen.runners.len() + by_outsiders.count();
        if let Some(absence) = self.absences.last_mut() {
            absence.end(self.wall_ms, found);
        }
    }

    /// Whether limits are to be judged because of it.
    fn see_to(&mut self, concern: Concern) -> bool {
        match concern {
            Concern::Limits => true,
            Concern::StageLimit(stage) => {
                let clock = &self.state.stages[stage];
                let limit = self.state.stage_limit(stage).millis();
                clock.is_running() && clock.spent_ms(Tick(self.active_ms)) > limit
            }
            Concern::Force(task, attempt) => {
                self.happen(Happening::Ends(task, attempt, Ends::Gone));
                false
            }
        }
    }

    fn room(&self) -> usize {
        self.conditions.max_running.saturating_sub(self.state.started)
    }

    fn turn(&mut self, judges: bool) {
        if judges {
            self.look_at_heartbeats();
        }
        let now = self.now();
        let mut observed = std::mem::take(&mut self.unseen);
        observed.full_scan = judges;
        loop {
            observed.room = self.room();
            let events = decide(&mut self.state, observed, &self.pulses, now);
            self.decisions += 1;
            if events.is_empty() {
                return;
            }
            self.turns += 1;
            for event in events {
                self.follow(&event);
                self.write(event);
            }
            self.peak = self.peak.max(self.state.live.len());
            if !has_room_to_begin(&self.state, self.room()) {
                return;
            }
            observed = Observed::default();
        }
    }

    /// Writes a line that no decision made.
    fn write_own(&mut self, event: Event) {
        let now = self.now();
        let applied = self.state.apply_event(&event, now.clock, now.wall);
        debug_assert!(applied.is_ok(), "it names no task");
        self.turns += 1;
        self.write(event);
    }

    fn write(&mut self, event: Event) {
        let Now { clock, wall } = self.now();
        let seq = self.entries.len() as u64 + 1;
        self.entries.push(Entry { seq, turn: self.turns, epoch: self.epoch, at: wall, clock, event });
    }

    /// What a decision means for the agents.
    fn follow(&mut self, event: &Event) {
        let Some(task) = event.task().and_then(|key| self.state.find_key(key)) else {
            if let Event::SelfSuspected { until, .. } = event {
                self.judge_at(until.0 + 1);
            }
            return;
        };
        match event {
            Event::Offered { attempt, .. } => {
                self.begin(task, *attempt);
                let spec = self.state.tasks[task].spec.clone();
                if self.conditions.faults.fate(task, &spec, *attempt).fault == Some(Fault::NeverStart) {
                    let limit = spec.limits.start_timeout.millis();
                    self.judge_at(self.active_ms + limit + 1);
                } else {
                    self.happenings.put(self.wall_ms, Happening::Takes(task, *attempt));
                }
            }
            Event::Launched { attempt, .. } => {
                self.begin(task, *attempt);
                self.live_through(task, *attempt);
            }
            Event::Started { attempt, .. } => self.live_through(task, *attempt),
            Event::Ending { attempt, because, .. } => self.end_agent(task, *attempt, because),
            Event::Succeeded { .. } | Event::AttemptFailed { .. } => {
                if let Event::AttemptFailed { retry_at: Some(due), .. } = event {
                    self.retry_due.insert(task, *due);
                }
                self.pulses.forget(task);
                self.scripts.remove(&task);
                self.doubtful.remove(&task);
                self.free(task);
            }
            _ => {}
        }
        self.expect_stage_limit(task);
    }

    /// A stage's clock runs or rests with its tasks.
    fn expect_stage_limit(&mut self, task: TaskIx) {
        let stage = self.state.tasks[task].spec.stage.max(1) as usize - 1;
        let clock = &self.state.stages[stage];
        if self.state.batch.stage_timeout.is_some() && clock.is_running() {
            let spent = clock.spent_ms(Tick(self.active_ms));
            let left = self.state.stage_limit(stage).millis().saturating_sub(spent);
            self.concerns.put(self.active_ms + left + 1, Concern::StageLimit(stage));
        }
    }

    /// Notes why an attempt begins now.
    fn begin(&mut self, task: TaskIx, attempt: Attempt) {
        self.pulses.follow(task, attempt, Tick(self.active_ms));
        self.doubtful.insert(task);
        let because = match self.retry_due.remove(&task) {
            Some(due) if due.0 == self.active_ms => Because::Delay,
            Some(_) => self.freed.first().map_or(Because::Delay, |other| Because::Slot(*other)),
            None => self.why_now(task),
        };
        self.because[task].push(because);
    }

    fn why_now(&self, task: TaskIx) -> Because {
        let spec = &self.state.tasks[task].spec;
        let ended = |name| {
            let task = self.state.find(name)?;
            Some((self.state.tasks[task].ended_at?, task))
        };
        let last = spec.dependencies.iter().filter_map(|key| ended(key.as_str())).max();
        let holder = spec.files_modified.iter().find_map(|file| self.freed_files.get(file));
        match (last, holder, self.freed.first()) {
            (Some((at, dependency)), _, _) if at.0 as u64 == self.wall_ms => Because::Dependency(dependency),
            (_, Some(holder), _) => Because::File(*holder),
            (_, None, Some(freed)) => Because::Slot(*freed),
            (Some((_, dependency)), None, None) => Because::Dependency(dependency),
            (None, None, None) => Because::Nothing,
        }
    }

    fn free(&mut self, task: TaskIx) {
        self.freed.push(task);
        if self.state.batch.on_file_conflict == OnFileConflict::Serialise && self.state.tasks[task].is_done()
        {
            for file in &self.state.tasks[task].spec.files_modified {
                self.freed_files.insert(file.clone(), task);
            }
        }
    }
}
