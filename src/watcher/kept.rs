//! One batch under watch: scan, decide, journal, act, for this batch alone.
//!
//! A restart is nothing special: folding the journal gives the state, and the effects of the last journaled
//! turn are performed again, because every effect is idempotent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::act::Performed;
use super::beats::SeenBeats;
use super::course::Course;
pub use super::load::{LoadError, read_batch, read_state};
use super::load::{check_named, fold, owed_after, read_hashed};
use super::settle::Settling;
use super::{Context, TurnError, act, boxes, handed, look, wishes, work};
use crate::bus::disk::BusError;
use crate::bus::journal::{Journal, Stamp};
use crate::bus::layout::BatchPaths;
use crate::bus::occupancy::Occupancy;
use crate::bus::{BusName, Disk, Listed, NodeKind};
use crate::decide::{self, Census, Now, Pulses};
use crate::model::event::{BatchStatus, Event};
use crate::model::state::{BatchState, TaskIx};
use crate::model::{Attempt, BatchId, Epoch, Tick, WallTime};
use crate::outcome::news;

/// Which files a turn looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attention {
    /// All of them: only then may clocks be judged.
    Full,
    /// These names in the batch's directory.
    Names(Vec<std::ffi::OsString>),
}

/// What a batch must know of the rest of its bus.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    /// How the running attempts of other batches do.
    pub elsewhere: Census,
    /// How many more attempts of ours may begin.
    pub room: usize,
}

/// A batch and everything remembered about it between two turns.
pub struct Kept {
    pub state: BatchState,
    /// The latest moment of active time that its journal knew when it was loaded.
    latest_clock: Tick,
    pub pulses: Pulses,
    pub paths: BatchPaths,
    /// The lock on the workspace of a handed-over batch, from the first turn on.
    workspace: Option<Occupancy>,
    /// Another bus held it when this one last tried.
    is_barred: bool,
    journal: Journal,
    /// Decided and durable; their effects are not known to be complete.
    owed: Vec<Event>,
    /// Which watcher wrote the last line.
    last_epoch: Option<Epoch>,
    /// How many attempts were out when the present turn began.
    live_before: usize,
    /// Who wants an ended batch to be opened again.
    reopen: Option<String>,
    /// The state in memory is ahead of the journal, because a commit failed.
    is_ahead: bool,
    pub(super) heartbeats: HashMap<TaskIx, SeenBeats>,
    /// What each heartbeat last said, as it stood there and without secrets.
    pub(super) progress: HashMap<TaskIx, (String, String)>,
    pub(super) settling: Settling,
    /// Results that wait for their task to begin.
    pub held: BTreeSet<TaskIx>,
    /// Live attempts whose folders may hold a result that was collected and never journaled.
    pub(super) unexamined: Vec<TaskIx>,
    /// Attempts that are over, into whose outbox a result came after the last look.
    pub(super) closed: Vec<(TaskIx, Attempt)>,
    /// How attempts of outsiders moved on since somebody last asked.
    pub(super) courses: Vec<Course>,
    pub(super) published: HashMap<TaskIx, super::published::Compared>,
    /// Names that nobody understands, with the reason: shown, and told once.
    pub odd_names: HashMap<String, String>,
    /// They are not what was shown last.
    has_odd_news: bool,
    /// Attempts whose agent could not be started, with the reason.
    pub(super) not_launched: BTreeMap<TaskIx, (Attempt, String)>,
    /// Baselines that were taken, and that the journal does not name yet, by their hash.
    pub(super) baselines: BTreeMap<TaskIx, String>,
    /// What exit records that this turn read call the baseline.
    pub(super) told_baselines: BTreeMap<TaskIx, String>,
    /// How many times in a row an exit record stood there whose runner had not ended yet.
    pub(super) early_records: u32,
}

/// After this long such a record is looked at again; after twice as long the next time, and so on.
const EARLY_RECORD_MS: u64 = 10;
const EARLY_RECORD_DOUBLINGS: u32 = 7;

/// What a batch's turn led to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Turned {
    pub changed: bool,
    pub finished: Option<BatchStatus>,
    pub news: Vec<String>,
}

impl Kept {
    /// Folds a batch's journal and remembers what its last turn may still owe.
    pub fn load<D: Disk>(context: &Context<'_, D>, id: &BatchId, now: Now) -> Result<Kept, LoadError> {
        let paths = context.layout.batch(id);
        let (batch, sha256) = read_hashed(context.disk, &paths)?;
        let (journal, entries) = Journal::load(context.disk, &paths.journal())?;
        check_named(&paths, &entries, &sha256)?;
        let state = fold(batch, &entries)?;
        let mut kept = Kept {
            unexamined: state.live.iter().copied().collect(),
            state,
            latest_clock: entries.iter().map(|entry| entry.clock).max().unwrap_or_default(),
            pulses: Pulses::default(),
            paths,
            workspace: None,
            is_barred: false,
            journal,
            owed: Vec::new(),
            last_epoch: entries.last().map(|entry| entry.epoch),
            live_before: 0,
            reopen: None,
            is_ahead: false,
            heartbeats: HashMap::new(),
            progress: HashMap::new(),
            settling: Settling::default(),
            held: BTreeSet::new(),
            closed: Vec::new(),
            courses: Vec::new(),
            published: HashMap::new(),
            odd_names: HashMap::new(),
            has_odd_news: false,
            not_launched: BTreeMap::new(),
            baselines: BTreeMap::new(),
            told_baselines: BTreeMap::new(),
            early_records: 0,
        };
        kept.courses = Course::under_way(&kept.state);
        kept.owed = owed_after(&kept.state, &entries);
        if kept.state.finished.is_some()
            && let Some(by) = wishes::wish_to_reopen(context, &kept.paths)
        {
            // Moved back on purpose: then its end is not what is owed.
            kept.owed.clear();
            kept.reopen = Some(by);
        }
        kept.follow_all(now);
        Ok(kept)
    }

    pub(super) fn latest_clock(&self) -> Tick {
        self.latest_clock
    }

    /// Gives every live attempt a full window from this moment on.
    pub(super) fn look_afresh(&mut self, clock: Tick) {
        self.pulses = Pulses::default();
        let now = Now { clock, wall: WallTime::default() };
        self.follow_all(now);
    }

    /// Completes what another watcher left: the effects of its last turn, or the very first line.
    pub fn resume<D: Disk>(&mut self, context: &Context<'_, D>, now: Now) -> Result<(), TurnError> {
        self.sweep_temporary(context);
        context.veil.learn(&self.state.batch);
        self.hold_workspace(context)?;
        self.pay(context, now)?;
        if let Some(by) = self.reopen.take() {
            // What is done from now on was not undone.
            let note = self.paths.undone();
            context.disk.remove_file(&note).or_else(ignore_absent).map_err(BusError::of("remove", &note))?;
            let reopened = Event::Reopened { by };
            let applied = self.state.apply_event(&reopened, now.clock, now.wall);
            debug_assert!(applied.is_ok(), "reopening names no task");
            return self.commit(context, now, std::slice::from_ref(&reopened));
        }
        if self.last_epoch.is_some() {
            return Ok(());
        }
        let batch_sha256 = read_hashed(context.disk, &self.paths).ok().map(|(_, sha256)| sha256);
        let accepted = Event::Accepted { tasks: self.state.tasks.len(), batch_sha256 };
        let applied = self.state.apply_event(&accepted, now.clock, now.wall);
        debug_assert!(applied.is_ok(), "acceptance names no task");
        self.commit(context, now, std::slice::from_ref(&accepted))
    }

    /// Removes what a killed watcher left half written where its last turn was at work. The batch's own
    /// directory has its turn at the end: agents write there too.
    fn sweep_temporary<D: Disk>(&self, context: &Context<'_, D>) {
        for event in &self.owed {
            match event {
                Event::Offered { task, attempt } => {
                    let folder = self.paths.attempt(task, *attempt);
                    super::sweep_temporary(context.disk, folder.dir());
                    // The baseline stands above it; where a runner takes that, it may be at it now.
                    let is_ours = self.state.find_key(task).is_some_and(|ix| self.state.tasks[ix].is_ours());
                    if let Some(above) = folder.dir().parent().filter(|_| !is_ours) {
                        super::sweep_temporary(context.disk, above);
                    }
                }
                Event::Late { .. } => super::sweep_temporary(context.disk, &self.paths.late()),
                _ => {}
            }
        }
    }

    /// One turn.
    pub fn turn<D: Disk>(
        &mut self,
        context: &Context<'_, D>,
        attention: &Attention,
        bus: Surroundings,
        now: Now,
    ) -> Result<Turned, TurnError> {
        self.assert_in_place(context, attention)?;
        if self.is_ahead {
            self.fall_back(context, now)?;
        }
        context.veil.learn(&self.state.batch);
        self.hold_workspace(context)?;
        self.pay(context, now)?;
        if let Some((status, _)) = self.state.finished {
            return Ok(Turned { finished: Some(status), ..Turned::default() });
        }
        let early_before = self.early_records;
        let (mut observed, granted) = look::look(self, context, attention, now)?;
        if observed.full_scan && self.early_records == early_before {
            self.early_records = 0;
        }
        observed.elsewhere = bus.elsewhere;
        observed.room = bus.room;
        if observed.full_scan {
            // Result beats death: whoever is about to be given up has its drop box looked at once more.
            for task in decide::condemned(&self.state, &self.pulses, now) {
                boxes::look_at_result(self, context, task, now, &mut observed)?;
            }
        }
        observed.has_coming_specs = self.has_coming_specs();
        self.live_before = self.state.live.len();
        work::watch_over(context, &self.paths, &self.state);
        let events = (context.heart)(&mut self.state, observed, &self.pulses, now);
        let (changed, news) = (!events.is_empty(), news::lines(&self.state, &events, now.clock));
        if changed {
            self.commit(context, now, &events)?;
        }
        self.baselines.clear();
        self.told_baselines.clear();
        self.unexamined.clear();
        self.closed.clear();
        if changed {
            for task in events.iter().filter_map(Event::task) {
                if let Some(task) = self.state.find_key(task) {
                    self.follow(task, now);
                }
            }
            self.courses.extend(Course::of_all(&events, &self.state));
            self.owed = events;
        }
        // Before anything is archived: a wish that goes there with the batch would be granted again when the batch is
        // opened again. Seen again after a crash, a granted wish asks for what is already so.
        for wish in granted {
            context.disk.remove_file(&wish).or_else(ignore_absent).map_err(BusError::of("remove", &wish))?;
        }
        if changed {
            self.pay(context, now)?;
        }
        work::leave_off(context, &self.paths, &self.state);
        Ok(Turned { changed, finished: self.state.finished.map(|(status, _)| status), news })
    }

    fn hold_workspace<D: Disk>(&mut self, context: &Context<'_, D>) -> Result<(), TurnError> {
        if self.state.finished.is_some() {
            return Ok(());
        }
        let held = handed::hold_workspace(context, &self.state, &mut self.workspace);
        self.is_barred = held.is_err();
        held
    }

    /// Whether another bus works in the workspace: then nothing is written there.
    pub(super) fn is_barred(&self) -> bool {
        self.is_barred
    }

    /// How this batch's running attempts do.
    pub fn census(&self, now: Now) -> Census {
        decide::census(&self.state, &self.pulses, now)
    }

    /// After a time in which this batch could not be looked at, every attempt has a full window again.
    pub fn forgive_silence(&mut self, now: Now) {
        self.pulses.begin_again(now.clock);
    }

    /// Whether something may go on at once, without waiting for an event.
    pub fn has_more(&self, room: usize) -> bool {
        !self.not_launched.is_empty()
            || !self.closed.is_empty()
            || decide::has_room_to_begin(&self.state, room)
    }

    /// Files that may still be written, by task.
    pub fn unsettled(&self) -> Vec<(TaskIx, String)> {
        let task_of = |path: &std::path::Path| match self.meaning(path)? {
            BusName::Result(key) | BusName::OutboxResult(key, _) => self.state.find_key(&key),
            _ => None,
        };
        let note = "its result is not complete yet";
        self.settling.paths().filter_map(|path| Some((task_of(path)?, note.to_owned()))).collect()
    }

    /// What was renamed or removed is told no longer.
    pub(super) fn forget_odd_names_but(&mut self, listed: &[Listed]) {
        if !self.odd_names.is_empty() {
            let there: HashSet<String> =
                listed.iter().map(|entry| super::published::shown(&entry.name)).collect();
            let gone: Vec<String> =
                self.odd_names.keys().filter(|name| !there.contains(*name)).cloned().collect();
            gone.iter().for_each(|name| self.forget_odd_name(name));
        }
    }

    pub(super) fn forget_odd_name(&mut self, name: &str) {
        self.has_odd_news |= self.odd_names.remove(name).is_some();
    }

    /// Notes a name that is ignored. `false` if it was noted before.
    pub(super) fn add_odd_name(&mut self, name: String, why: &str) -> bool {
        let is_new = self.odd_names.insert(name, why.to_owned()).as_deref() != Some(why);
        self.has_odd_news |= is_new;
        is_new
    }

    /// Whether the ignored names changed since somebody last asked.
    pub fn take_odd_news(&mut self) -> bool {
        std::mem::take(&mut self.has_odd_news)
    }

    fn has_coming_specs(&self) -> bool {
        let is_spec = |path: &std::path::Path| matches!(self.meaning(path), Some(BusName::Spec(_)));
        self.settling.paths().any(is_spec)
    }

    fn meaning(&self, path: &std::path::Path) -> Option<BusName> {
        Some(BusName::of(path.strip_prefix(self.paths.dir()).ok()?.as_os_str()))
    }

    pub fn has_unsettled(&self) -> bool {
        !self.settling.is_empty()
    }

    /// In how many milliseconds an exit record is looked at again that was there before its runner's end: soon,
    /// because a runner that wrote one ends at once, and ever later where somebody else did.
    pub(super) fn early_record_ms(&self) -> Option<u64> {
        let doublings = self.early_records.checked_sub(1)?.min(EARLY_RECORD_DOUBLINGS);
        Some(EARLY_RECORD_MS << doublings)
    }

    /// A directory that was moved away or replaced is not worked in: nothing is decided until it is back.
    fn assert_in_place<D: Disk>(
        &self,
        context: &Context<'_, D>,
        attention: &Attention,
    ) -> Result<(), TurnError> {
        if self.state.finished.is_some() {
            return Ok(());
        }
        let dir = self.paths.dir();
        let found = context.disk.look(dir).map_err(BusError::of("look at", dir))?;
        let trouble = match found.map(|look| look.kind) {
            // A link is never followed, not even for one name; the rest can wait for a scan.
            Some(NodeKind::Directory) if *attention != Attention::Full => return Ok(()),
            Some(NodeKind::Directory) => {
                let journal = self.paths.journal();
                match context.disk.look(&journal).map_err(BusError::of("look at", &journal))? {
                    Some(_) => return Ok(()),
                    None if self.last_epoch.is_none() => return Ok(()),
                    None => "its journal is gone; put the directory back as it was".to_owned(),
                }
            }
            Some(kind) => format!("is {}, and is not followed; put the directory back", kind.word()),
            None => "is gone; put the directory back".to_owned(),
        };
        let gone = std::io::Error::new(std::io::ErrorKind::NotFound, trouble);
        Err(BusError::of("work in", dir)(gone).into())
    }

    /// Makes a turn's events durable. The first ones of a watcher say that it took over from another.
    fn commit<D: Disk>(
        &mut self,
        context: &Context<'_, D>,
        now: Now,
        events: &[Event],
    ) -> Result<(), TurnError> {
        self.is_ahead = true;
        context.assert_not_superseded()?;
        let stamp = Stamp { epoch: context.epoch, at: now.wall, clock: now.clock };
        if self.last_epoch.is_some_and(|epoch| epoch != context.epoch) {
            let resumed = Event::Resumed { running: self.live_before };
            let all: Vec<Event> = std::iter::once(resumed).chain(events.iter().cloned()).collect();
            self.journal.commit(context.disk, stamp, &all).map_err(TurnError::Commit)?;
        } else {
            self.journal.commit(context.disk, stamp, events).map_err(TurnError::Commit)?;
        }
        self.last_epoch = Some(context.epoch);
        self.is_ahead = false;
        Ok(())
    }

    /// Goes back to what the journal says, after a commit that failed.
    fn fall_back<D: Disk>(&mut self, context: &Context<'_, D>, now: Now) -> Result<(), TurnError> {
        let path = self.paths.journal();
        let (journal, entries) = Journal::load(context.disk, &path)?;
        self.state = fold((*self.state.batch).clone(), &entries).map_err(TurnError::Fold)?;
        self.owed = owed_after(&self.state, &entries);
        self.unexamined = self.state.live.iter().copied().collect();
        self.journal = journal;
        self.is_ahead = false;
        self.follow_all(now);
        Ok(())
    }

    /// Performs what was decided. What fails for now is owed until the next turn.
    fn pay<D: Disk>(&mut self, context: &Context<'_, D>, now: Now) -> Result<(), TurnError> {
        if self.owed.is_empty() {
            return Ok(());
        }
        for event in &self.owed {
            let performed = act::perform(context, &self.paths, &self.state, event, now)?;
            if let Event::Succeeded { task, attempt } | Event::AttemptFailed { task, attempt, .. } = event
                && let Some(ix) = self.state.find_key(task)
                && act::exists(context, &self.paths.attempt(task, *attempt).outbox().result())?
            {
                self.closed.push((ix, *attempt));
            }
            let Some(task) = event.task().and_then(|task| self.state.find_key(task)) else { continue };
            match (performed, event) {
                (Performed::NotStarted(why), Event::Launched { attempt, .. }) => {
                    self.not_launched.insert(task, (*attempt, why));
                }
                (Performed::Baseline(sha256), _) => {
                    self.baselines.insert(task, sha256);
                }
                _ => {}
            }
        }
        for event in std::mem::take(&mut self.owed) {
            if let Event::Offered { task, .. } = event
                && let Some(task) = self.state.find_key(&task)
                && self.held.remove(&task)
            {
                self.unexamined.push(task);
            }
        }
        Ok(())
    }

    fn follow_all(&mut self, now: Now) {
        for task in 0..self.state.tasks.len() {
            self.follow(task, now);
        }
    }

    /// Follows the pulse of the task's live attempt, or forgets it where there is none.
    fn follow(&mut self, task: TaskIx, now: Now) {
        let attempt = self.state.tasks[task].live_attempt();
        if self.pulses.get(task).map(|pulse| pulse.attempt) != attempt {
            self.heartbeats.remove(&task);
            self.progress.remove(&task);
        }
        match attempt {
            Some(attempt) => self.pulses.follow(task, attempt, now.clock),
            None => self.pulses.forget(task),
        }
        if self.not_launched.get(&task).is_some_and(|(out, _)| Some(*out) != attempt) {
            self.not_launched.remove(&task);
        }
    }
}

fn ignore_absent(error: std::io::Error) -> std::io::Result<()> {
    if crate::bus::disk::is_absent(&error) { Ok(()) } else { Err(error) }
}
