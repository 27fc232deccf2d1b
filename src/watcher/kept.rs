//! One batch under watch: scan, decide, journal, act, for this batch alone.
//!
//! A restart is nothing special: folding the journal gives the state, and the effects of the last journaled
//! turn are performed again, because every effect is idempotent.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::settle::Settling;
use super::{Context, TurnError, act, look};
use crate::bus::disk::BusError;
use crate::bus::journal::{Journal, JournalError, Stamp};
use crate::bus::layout::BatchPaths;
use crate::bus::{BusName, Content, Disk, Look, PLAN_BYTES_MAX};
use crate::decide::{self, Now, Pulses};
use crate::model::event::{BatchStatus, Entry, Event};
use crate::model::state::{BatchState, FoldError, TaskIx};
use crate::model::{Batch, BatchId, Epoch};

/// Which files a turn looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attention {
    /// All of them: only then may clocks be judged.
    Full,
    /// These names in the batch's directory.
    Names(Vec<std::ffi::OsString>),
}

/// A batch and everything remembered about it between two turns.
pub struct Kept {
    pub state: BatchState,
    pub pulses: Pulses,
    pub paths: BatchPaths,
    journal: Journal,
    /// Decided and durable; their effects are not known to be complete.
    owed: Vec<Event>,
    /// Which watcher wrote the last line.
    last_epoch: Option<Epoch>,
    /// The state in memory is ahead of the journal, because a commit failed.
    is_ahead: bool,
    pub(super) heartbeats: HashMap<TaskIx, Look>,
    pub(super) settling: Settling,
    /// Results that wait for their task to begin.
    pub held: BTreeSet<TaskIx>,
    /// Live attempts whose folders may hold a result that was collected and never journaled.
    pub(super) unexamined: Vec<TaskIx>,
    /// Names that nobody understands, with the reason: shown, and told once.
    pub odd_names: HashMap<String, String>,
}

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
            pulses: Pulses::default(),
            paths,
            journal,
            owed: last_turn(&entries),
            last_epoch: entries.last().map(|entry| entry.epoch),
            is_ahead: false,
            heartbeats: HashMap::new(),
            settling: Settling::default(),
            held: BTreeSet::new(),
            odd_names: HashMap::new(),
        };
        for task in kept.unexamined.clone() {
            kept.follow(task, now);
        }
        Ok(kept)
    }

    /// Says in the journal that this watcher goes on with what another one began.
    pub fn resume<D: Disk>(&mut self, context: &Context<'_, D>, now: Now) -> Result<(), TurnError> {
        self.pay(context, now)?;
        if self.state.finished.is_some() {
            return Ok(());
        }
        let event = match self.last_epoch {
            Some(epoch) if epoch == context.epoch => return Ok(()),
            Some(_) => Event::Resumed { running: self.state.live.len() },
            None => Event::Accepted { tasks: self.state.tasks.len() },
        };
        let applied = self.state.apply_event(&event, now.clock, now.wall);
        debug_assert!(applied.is_ok(), "these events name no task");
        self.commit(context, now, std::slice::from_ref(&event))
    }

    /// One turn.
    pub fn turn<D: Disk>(
        &mut self,
        context: &Context<'_, D>,
        attention: &Attention,
        now: Now,
    ) -> Result<Turned, TurnError> {
        if self.is_ahead {
            self.fall_back(context, now)?;
        }
        self.pay(context, now)?;
        if let Some((status, _)) = self.state.finished {
            return Ok(Turned { changed: false, finished: Some(status) });
        }
        let (mut observed, granted) = look::look(self, context, attention, now)?;
        if observed.full_scan {
            // Result beats death: whoever is about to be given up has its drop box looked at once more.
            for task in decide::condemned(&self.state, &self.pulses, now) {
                look::look_at_result(self, context, task, now, &mut observed)?;
            }
        }
        let events = (context.heart)(&mut self.state, observed, &self.pulses, now);
        let changed = !events.is_empty();
        if changed {
            self.commit(context, now, &events)?;
            for task in events.iter().filter_map(Event::task) {
                if let Some(task) = self.state.find(task.as_str()) {
                    self.follow(task, now);
                }
            }
            self.owed = events;
            self.pay(context, now)?;
        }
        for wish in granted {
            // Seen again after a crash, a granted wish asks for what is already so.
            context.disk.remove_file(&wish).or_else(ignore_absent).map_err(BusError::of("remove", &wish))?;
        }
        Ok(Turned { changed, finished: self.state.finished.map(|(status, _)| status) })
    }

    /// Whether something may go on at once, without waiting for an event.
    pub fn has_more(&self) -> bool {
        !self.state.ready.is_empty()
            && self.state.batch.parallel_limit.is_none()
            && self.state.ready.iter().any(|task| self.state.held_back_by(*task).is_none())
    }

    /// Files that may still be written, by task.
    pub fn unsettled(&self) -> Vec<(TaskIx, String)> {
        let task_of = |path: &std::path::Path| match BusName::of(path.file_name()?) {
            BusName::Result(key) => self.state.find(key.as_str()),
            _ => None,
        };
        let note = "its result is not complete yet";
        self.settling.paths().filter_map(|path| Some((task_of(path)?, note.to_owned()))).collect()
    }

    pub fn has_unsettled(&self) -> bool {
        !self.settling.is_empty()
    }

    fn commit<D: Disk>(
        &mut self,
        context: &Context<'_, D>,
        now: Now,
        events: &[Event],
    ) -> Result<(), TurnError> {
        self.is_ahead = true;
        context.assert_not_superseded()?;
        let stamp = Stamp { epoch: context.epoch, at: now.wall, clock: now.clock };
        self.journal.commit(context.disk, stamp, events)?;
        self.is_ahead = false;
        Ok(())
    }

    /// Goes back to what the journal says, after a commit that failed.
    fn fall_back<D: Disk>(&mut self, context: &Context<'_, D>, now: Now) -> Result<(), TurnError> {
        let path = self.paths.journal();
        let (journal, entries) = Journal::load(context.disk, &path)?;
        self.state = fold((*self.state.batch).clone(), &entries).map_err(TurnError::Fold)?;
        self.owed = last_turn(&entries);
        self.unexamined = self.state.live.iter().copied().collect();
        self.journal = journal;
        self.is_ahead = false;
        for task in 0..self.state.tasks.len() {
            self.follow(task, now);
        }
        Ok(())
    }

    /// Performs what was decided. What fails for now is owed until the next turn.
    fn pay<D: Disk>(&mut self, context: &Context<'_, D>, now: Now) -> Result<(), TurnError> {
        if self.owed.is_empty() {
            return Ok(());
        }
        for event in &self.owed {
            act::perform(context, &self.paths, &self.state, event, now)?;
        }
        for event in std::mem::take(&mut self.owed) {
            if let Event::Offered { task, .. } = event
                && let Some(task) = self.state.find(task.as_str())
                && self.held.remove(&task)
            {
                self.unexamined.push(task);
            }
        }
        Ok(())
    }

    /// Follows the pulse of the task's live attempt, or forgets it where there is none.
    fn follow(&mut self, task: TaskIx, now: Now) {
        let attempt = self.state.tasks[task].live_attempt();
        if self.pulses.get(task).map(|pulse| pulse.attempt) != attempt {
            self.heartbeats.remove(&task);
        }
        match attempt {
            Some(attempt) => self.pulses.follow(task, attempt, now.clock),
            None => self.pulses.forget(task),
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

/// The events of the last durable turn: the only ones whose effects may be incomplete.
fn last_turn(entries: &[Entry]) -> Vec<Event> {
    let Some(last) = entries.last() else { return Vec::new() };
    entries.iter().filter(|entry| entry.turn == last.turn).map(|entry| entry.event.clone()).collect()
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
