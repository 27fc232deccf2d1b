//! One batch under watch: scan, decide, journal, act, for this batch alone.
//!
//! A restart is nothing special: folding the journal gives the state, and the effects of the last journaled
//! turn are performed again, because every effect is idempotent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::settle::Settling;
use super::{Context, TurnError, act, handed, look, wishes, work};
use crate::bus::disk::BusError;
use crate::bus::journal::{Journal, JournalError, Stamp};
use crate::bus::layout::BatchPaths;
use crate::bus::occupancy::Occupancy;
use crate::bus::{BusName, Content, Disk, Look, NodeKind, PLAN_BYTES_MAX};
use crate::decide::{self, Census, Now, Pulses};
use crate::model::event::{BatchStatus, Entry, Event};
use crate::model::state::{BatchState, FoldError, Phase, TaskIx};
use crate::model::{Attempt, Batch, BatchId, Epoch, Tick, WallTime};

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
    pub(super) heartbeats: HashMap<TaskIx, Look>,
    /// What each heartbeat last said, as it stood there and without secrets.
    pub(super) progress: HashMap<TaskIx, (String, String)>,
    pub(super) settling: Settling,
    /// Results that wait for their task to begin.
    pub held: BTreeSet<TaskIx>,
    /// Live attempts whose folders may hold a result that was collected and never journaled.
    pub(super) unexamined: Vec<TaskIx>,
    /// Names that nobody understands, with the reason: shown, and told once.
    pub odd_names: HashMap<String, String>,
    /// Attempts whose agent could not be started, with the reason.
    pub(super) not_launched: BTreeMap<TaskIx, (Attempt, String)>,
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
}

/// Why a batch cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{path}: {why}")]
    Unreadable { path: String, why: String },
    #[error("the journal does not fit the batch: {0}")]
    Fold(#[from] FoldError),
    #[error(transparent)]
    Disk(#[from] BusError),
}

impl Kept {
    /// Folds a batch's journal and remembers what its last turn may still owe.
    pub fn load<D: Disk>(context: &Context<'_, D>, id: &BatchId, now: Now) -> Result<Kept, LoadError> {
        let paths = context.layout.batch(id);
        let batch = read_batch(context.disk, &paths)?;
        let (journal, entries) = Journal::load(context.disk, &paths.journal())?;
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
            odd_names: HashMap::new(),
            not_launched: BTreeMap::new(),
            early_records: 0,
        };
        kept.owed = owed_after(&kept.state, &entries);
        if kept.state.finished.is_some()
            && let Some(by) = wishes::retry_wish(context, &kept.paths)
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
        let accepted = Event::Accepted { tasks: self.state.tasks.len() };
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
                    super::sweep_temporary(context.disk, self.paths.attempt(task, *attempt).dir());
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
            return Ok(Turned { changed: false, finished: Some(status) });
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
                look::look_at_result(self, context, task, now, &mut observed)?;
            }
        }
        observed.has_coming_specs = self.has_coming_specs();
        self.live_before = self.state.live.len();
        let events = (context.heart)(&mut self.state, observed, &self.pulses, now);
        let changed = !events.is_empty();
        if changed {
            self.commit(context, now, &events)?;
        }
        self.unexamined.clear();
        if changed {
            for task in events.iter().filter_map(Event::task) {
                if let Some(task) = self.state.find_key(task) {
                    self.follow(task, now);
                }
            }
            self.owed = events;
            self.pay(context, now)?;
        }
        work::leave_off(context, &self.paths, &self.state);
        for wish in granted {
            // Seen again after a crash, a granted wish asks for what is already so.
            context.disk.remove_file(&wish).or_else(ignore_absent).map_err(BusError::of("remove", &wish))?;
        }
        Ok(Turned { changed, finished: self.state.finished.map(|(status, _)| status) })
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
        !self.not_launched.is_empty() || decide::has_room_to_begin(&self.state, room)
    }

    /// Files that may still be written, by task.
    pub fn unsettled(&self) -> Vec<(TaskIx, String)> {
        let task_of = |path: &std::path::Path| match BusName::of(path.file_name()?) {
            BusName::Result(key) => self.state.find_key(&key),
            _ => None,
        };
        let note = "its result is not complete yet";
        self.settling.paths().filter_map(|path| Some((task_of(path)?, note.to_owned()))).collect()
    }

    fn has_coming_specs(&self) -> bool {
        let is_spec =
            |path: &std::path::Path| matches!(path.file_name().map(BusName::of), Some(BusName::Spec(_)));
        self.settling.paths().any(is_spec)
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
            let failed = act::perform(context, &self.paths, &self.state, event, now)?;
            if let (Some(why), Event::Launched { task, attempt, .. }) = (failed, event)
                && let Some(task) = self.state.find_key(task)
            {
                self.not_launched.insert(task, (*attempt, why));
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

fn fold(batch: Batch, entries: &[Entry]) -> Result<BatchState, FoldError> {
    let mut state = BatchState::new(Arc::new(batch));
    for entry in entries {
        state.apply(entry)?;
    }
    Ok(state)
}

/// What may not have been done yet: the effects of the last durable turn, and every spec that should be out,
/// because a loss of power may have taken it.
fn owed_after(state: &BatchState, entries: &[Entry]) -> Vec<Event> {
    let Some(last) = entries.last() else { return Vec::new() };
    let begin = entries.iter().rposition(|entry| entry.turn != last.turn).map_or(0, |at| at + 1);
    let last_turn: Vec<Event> = entries[begin..].iter().map(|entry| entry.event.clone()).collect();
    if state.finished.is_some() {
        return last_turn;
    }
    let offered = state.live.iter().filter_map(|ix| {
        let (task, state_of) = (state.key(*ix).clone(), &state.tasks[*ix]);
        match (&state_of.phase, &state_of.spec.crew) {
            (Phase::Offered { attempt, .. }, _) => Some(Event::Offered { task, attempt: *attempt }),
            // Launched again, it begins only if it never did.
            (Phase::Running { attempt, .. }, Some(crew)) => Some(Event::Launched {
                task,
                attempt: *attempt,
                agent: crew.agent.clone(),
                launcher: crew.launcher.clone(),
            }),
            _ => None,
        }
    });
    let works = state.handoff.iter().flat_map(|handoff| {
        let preparing = handoff.preparing.then_some(Event::Preparing);
        preparing.into_iter().chain(handoff.merging.map(|round| Event::Merging { round }))
    });
    let mut owed: Vec<Event> = offered.chain(works).filter(|event| !last_turn.contains(event)).collect();
    owed.extend(last_turn);
    owed
}

/// Reads `batch.json`.
pub fn read_batch(disk: &impl Disk, paths: &BatchPaths) -> Result<Batch, LoadError> {
    let path = paths.batch();
    let unreadable = |why: String| LoadError::Unreadable { path: path.display().to_string(), why };
    match disk.read(&path, PLAN_BYTES_MAX * 4).map_err(BusError::of("read", &path))? {
        Content::Bytes { bytes, .. } => {
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))
        }
        _ => Err(unreadable("there is no such file".to_owned())),
    }
}

/// A batch's state and its journal, for faces that only read.
pub fn read_state(disk: &impl Disk, paths: &BatchPaths) -> Result<(BatchState, Vec<Entry>), LoadError> {
    let batch = read_batch(disk, paths)?;
    let entries = crate::bus::journal::read(disk, &paths.journal())?;
    Ok((fold(batch, &entries)?, entries))
}
