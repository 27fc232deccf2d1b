//! The shell around the heart: scan, decide, journal, act. The only place where pure and edge meet.
//!
//! Single-threaded and synchronous. Every turn looks at the disk again; nothing that decides is kept that is
//! not on the disk, bar when each heartbeat was last seen to change.

pub mod act;
mod after_archive;
pub mod afterwards;
mod beats;
mod boxes;
mod claims;
pub mod clock;
pub mod course;
mod declared;
mod deliver;
mod handed;
mod inbox;
pub mod kept;
mod launch;
mod live_results;
pub mod load;
mod look;
pub mod objections;
pub mod pass;
pub mod project;
mod published;
pub mod run;
mod runners;
mod set_aside;
mod settle;
mod turn_error;
mod wishes;
pub mod work;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::Path;

use crate::agent::runners::Runners;
use crate::agent::surroundings::LocalSurroundings;
use crate::agent::veil::Veil;
use crate::bus::disk::BusError;
use crate::bus::journal::JournalError;
use crate::bus::lease::{self, Held};
use crate::bus::version;
use crate::bus::{Disk, Layout, Look, layout};
use crate::decide::{self, Census, Now, Observed, Pulses};
use crate::format::agents::{template_warnings, type_warnings};
use crate::intake;
use crate::model::event::BatchStatus;
use crate::model::state::BatchState;
use crate::model::{BatchId, Epoch, Event, Settings, Tick};
pub use inbox::{Accepted, Refusal};
pub use kept::{Attention, Kept, Surroundings};
pub use turn_error::TurnError;

/// The heart as a value, so that the simulator can plant a bug in it and see it caught.
pub type Heart = fn(&mut BatchState, Observed, &Pulses, Now) -> Vec<Event>;

/// What every part of the watcher needs at hand.
pub struct Context<'a, D: Disk> {
    pub disk: &'a D,
    pub layout: &'a Layout,
    pub settings: &'a Settings,
    pub runners: &'a dyn Runners,
    /// What agents say is written down through it.
    pub veil: &'a Veil,
    workshop: &'a work::Workshop,
    lease: Option<&'a dyn Held>,
    pub epoch: Epoch,
    epoch_seen: &'a Cell<Option<Look>>,
    pub heart: Heart,
}

impl<D: Disk> Context<'_, D> {
    /// A watcher that slept through its own replacement must not act any more.
    fn assert_not_superseded(&self) -> Result<(), TurnError> {
        if let Some(lease) = self.lease.filter(|lease| !lease.is_in_place()) {
            return Err(TurnError::LockGone { path: lease.path().to_owned() });
        }
        let path = self.layout.epoch();
        let look = self.disk.look(&path).map_err(BusError::of("look at", &path))?;
        if look.is_some() && look == self.epoch_seen.get() {
            return Ok(());
        }
        let current = lease::current_epoch(self.disk, self.layout)?;
        if current != self.epoch {
            return Err(TurnError::Superseded { mine: self.epoch, current });
        }
        // The look came first: whatever replaces the file after it looks different.
        self.epoch_seen.set(look);
        Ok(())
    }
}

/// What the watcher should look at in this turn.
#[derive(Debug, Default)]
pub struct Focus {
    pub full: bool,
    /// Names that events named, by batch.
    pub names: HashMap<BatchId, Vec<OsString>>,
    /// Something happened in the inbox or among the batch directories.
    pub intake: bool,
}

impl Focus {
    pub fn full() -> Self {
        Focus { full: true, ..Focus::default() }
    }
}

/// What a turn of the whole bus led to.
#[derive(Debug, Default)]
pub struct TurnReport {
    pub changed: bool,
    /// There is more to do at once.
    pub again: bool,
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refusal>,
    pub finished: Vec<(BatchId, BatchStatus)>,
    /// What was decided, as lines for a log.
    pub news: Vec<String>,
    /// Batches whose turn failed, and may go on later.
    pub degraded: Vec<(BatchId, String)>,
    /// One of them failed for want of something that agents want too: the time counts for nobody.
    pub is_starved: bool,
    pub next_deadline: Option<Tick>,
    /// How attempts of outsiders moved on in batches that have ended with this turn.
    pub courses: Vec<(BatchId, course::Course)>,
}

/// The one process that decides for a bus.
pub struct Watcher<D: Disk> {
    disk: D,
    layout: Layout,
    settings: Settings,
    runners: Box<dyn Runners>,
    veil: Veil,
    workshop: work::Workshop,
    around: Box<dyn intake::Surroundings>,
    /// The lock on the bus; none where nobody else can come.
    lease: Option<Box<dyn Held>>,
    epoch: Epoch,
    /// How the epoch's file looked when it last held our own number.
    epoch_seen: Cell<Option<Look>>,
    heart: Heart,
    pub batches: BTreeMap<BatchId, Kept>,
    /// Batches that cannot be kept, with the reason: one damaged journal stops its batch alone.
    pub broken: BTreeMap<BatchId, String>,
    /// Directories that have no spec yet: they become batches with the first.
    pub expected: BTreeSet<BatchId>,
    intake: inbox::Intake,
    told: HashSet<String>,
    /// The newest ended batches by number, for the ledger.
    ended: BTreeMap<u64, BatchState>,
}

impl<D: Disk> Watcher<D> {
    /// Raises the epoch and takes over whatever is under way. The caller holds the bus's lock.
    pub fn open(
        disk: D,
        layout: Layout,
        settings: Settings,
        runners: Box<dyn Runners>,
        now: Now,
    ) -> Result<Self, TurnError> {
        for dir in layout.directories() {
            disk.make_dirs(&dir).map_err(BusError::of("make", &dir))?;
        }
        version::mark_bus(&disk, &layout)?;
        let epoch = lease::raise_epoch(&disk, &layout, now.wall)?;
        let veil = Veil::new(&settings);
        let templates = settings.agents.named.values().flat_map(template_warnings);
        for warning in templates.chain(type_warnings(&settings.agents)) {
            log::warn!("{warning}");
        }
        let mut watcher = Watcher {
            around: Box::new(LocalSurroundings::of(&layout)),
            disk,
            layout,
            settings,
            runners,
            veil,
            workshop: work::Workshop::default(),
            lease: None,
            epoch,
            epoch_seen: Cell::new(None),
            heart: decide::decide,
            batches: BTreeMap::new(),
            broken: BTreeMap::new(),
            expected: BTreeSet::new(),
            intake: inbox::Intake::default(),
            told: HashSet::new(),
            ended: BTreeMap::new(),
        };
        let layout = &watcher.layout;
        for dir in [layout.home(), layout.bus(), layout.results(), layout.quarantine()] {
            sweep_temporary(&watcher.disk, &dir);
        }
        watcher.find_batches(now)?;
        let latest = watcher.latest_clock().max(now.clock);
        for kept in watcher.batches.values_mut() {
            kept.look_afresh(latest);
        }
        Ok(watcher)
    }

    /// Ends with the lock, should somebody remove or replace its file; and holds it.
    pub fn with_lease(mut self, lease: impl Held + 'static) -> Self {
        self.lease = Some(Box::new(lease));
        self
    }

    /// Lets another watcher have the bus. Nothing may be decided after that.
    pub fn release(&mut self) {
        self.lease = None;
    }

    /// Plants another heart. For the simulator, which must be able to fail.
    pub fn with_heart(mut self, heart: Heart) -> Self {
        self.heart = heart;
        self
    }

    /// Shows requests another machine than this one. For the simulator, whose disk is not real either.
    pub fn with_surroundings(mut self, around: Box<dyn intake::Surroundings>) -> Self {
        self.around = around;
        self
    }

    pub fn disk(&self) -> &D {
        &self.disk
    }
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The latest moment of active time that a journal of this bus knows.
    pub fn latest_clock(&self) -> Tick {
        self.batches.values().map(Kept::latest_clock).max().unwrap_or_default()
    }

    fn context(&self) -> Context<'_, D> {
        Context {
            disk: &self.disk,
            layout: &self.layout,
            settings: &self.settings,
            runners: &*self.runners,
            veil: &self.veil,
            workshop: &self.workshop,
            lease: self.lease.as_deref(),
            epoch: self.epoch,
            epoch_seen: &self.epoch_seen,
            heart: self.heart,
        }
    }

    /// One turn of the bus. An error here is one that no single batch is to blame for.
    pub fn turn(&mut self, focus: &Focus, now: Now) -> Result<TurnReport, TurnError> {
        let mut report = TurnReport::default();
        self.context().assert_not_superseded()?;
        self.runners.reap();
        if focus.full || focus.intake {
            self.take_in(now, &mut report)?;
            self.find_batches(now)?;
        }
        let ids: Vec<BatchId> = if focus.full {
            self.batches.keys().cloned().collect()
        } else {
            let room = self.room();
            let more = self.batches.iter().filter(|(_, kept)| kept.has_more(room)).map(|(id, _)| id);
            let due =
                self.batches.iter().filter(|(_, kept)| decide::is_due(&kept.state, now)).map(|(id, _)| id);
            let mut ids: Vec<BatchId> = focus.names.keys().chain(more).chain(due).cloned().collect();
            ids.sort();
            ids.dedup();
            ids
        };
        let census: HashMap<BatchId, Census> = match focus.full {
            true => self.batches.iter().map(|(id, kept)| (id.clone(), kept.census(now))).collect(),
            false => HashMap::new(),
        };
        for id in ids {
            let others = census.iter().filter(|(other, _)| **other != id).map(|(_, census)| *census);
            let elsewhere = others.fold(Census::default(), |sum, census| sum + census);
            self.turn_batch(&id, focus, elsewhere, now, &mut report)?;
        }
        let deadlines = self.batches.values().filter_map(|kept| decide::next_deadline(&kept.state, now));
        report.next_deadline = deadlines.min();
        let room = self.room();
        // A batch whose turn just failed waits like everybody else.
        let is_degraded = |id: &BatchId| report.degraded.iter().any(|(degraded, _)| degraded == id);
        let has_more = self.batches.iter().any(|(id, kept)| !is_degraded(id) && kept.has_more(room));
        report.again |= has_more;
        Ok(report)
    }

    /// Whether nothing is under way, and nothing in the inbox waits until it is settled.
    pub fn is_idle(&self) -> bool {
        self.batches.is_empty() && !self.has_unsettled_intake()
    }

    /// Whether nothing more happens before a person has said something, about every batch that is left.
    pub fn awaits_people(&self) -> bool {
        let mut batches = self.batches.values();
        !self.batches.is_empty()
            && batches.all(|kept| kept.state.awaits_a_person())
            && !self.has_unsettled_intake()
    }

    /// How many more attempts of ours the bus has room for.
    fn room(&self) -> usize {
        let started: usize = self.batches.values().map(|kept| kept.state.started).sum();
        (self.settings.max_running as usize).saturating_sub(started)
    }

    fn turn_batch(
        &mut self,
        id: &BatchId,
        focus: &Focus,
        elsewhere: Census,
        now: Now,
        report: &mut TurnReport,
    ) -> Result<(), TurnError> {
        let room = self.room();
        let Some(mut kept) = self.batches.remove(id) else { return Ok(()) };
        let surroundings = Surroundings { elsewhere, room };
        let attention = match focus.full {
            true => Attention::Full,
            false => Attention::Names(focus.names.get(id).cloned().unwrap_or_default()),
        };
        match kept.turn(&self.context(), &attention, surroundings, now) {
            Ok(turned) => {
                report.changed |= turned.changed;
                report.news.extend(turned.news);
                report.again |= turned.changed && !kept.unexamined.is_empty();
                match turned.finished {
                    Some(status) => {
                        report.finished.push((id.clone(), status));
                        report.courses.extend(kept.courses.drain(..).map(|course| (id.clone(), course)));
                    }
                    None => {
                        self.batches.insert(id.clone(), kept);
                    }
                }
            }
            Err(error) if error.ends_the_watch() => return Err(error),
            // Whatever stands in this batch's way, the others go on.
            Err(error) if error.is_passing() => {
                self.tell_once(format!("batch {id}: {error}; trying again"));
                report.is_starved |= error.is_bus_wide();
                report.degraded.push((id.clone(), error.to_string()));
                kept.forgive_silence(now);
                if error.is_blocked()
                    && let Err(error) =
                        launch::make_live_folders(&self.context(), &kept.paths, &kept.state, now)
                {
                    log::warn!("batch {id}: {error}");
                }
                self.batches.insert(id.clone(), kept);
            }
            // The journal could not be synced: what the disk holds is no longer known.
            Err(error @ TurnError::Commit(_)) => return Err(error),
            Err(error) => self.give_up(id, error.to_string()),
        }
        Ok(())
    }

    fn give_up(&mut self, id: &BatchId, why: String) {
        self.tell_once(format!("batch {id} is stopped: {why}; `wk doctor` says what to do"));
        self.broken.insert(id.clone(), why);
    }

    /// A batch of a newer wk is whole: nothing is to be done about it, and the others go on.
    fn leave_alone(&mut self, id: &BatchId, why: String) {
        self.tell_once(format!("batch {id} is left alone: {why}; the wk that wrote it goes on with it"));
        self.broken.insert(id.clone(), why);
    }

    fn tell_once(&mut self, text: String) {
        if self.told.insert(text.clone()) {
            log::warn!("{text}");
        }
    }

    /// Takes over batch directories that are not known yet.
    fn find_batches(&mut self, now: Now) -> Result<(), TurnError> {
        let dir = self.layout.tasks();
        let listed = self.disk.list(&dir).map_err(BusError::of("list", &dir))?;
        self.expected.clear();
        for entry in listed {
            let id = match layout::batch_of_directory(&entry.name) {
                None => continue,
                Some(Ok(id)) => id,
                Some(Err((id, defect))) => {
                    self.tell_once(format!("tasks/batch-{id} is ignored: the batch's id {defect}"));
                    continue;
                }
            };
            if self.batches.contains_key(&id) || self.broken.contains_key(&id) {
                continue;
            }
            if entry.kind != crate::bus::NodeKind::Directory {
                self.tell_once(format!("tasks/batch-{id} is {} and is not followed", entry.kind.word()));
                continue;
            }
            match self.adopt(&id, now) {
                Err(error) if error.ends_the_watch() => return Err(error),
                Err(error) => self.tell_once(format!("tasks/batch-{id} is not taken up: {error}")),
                Ok(()) if !self.batches.contains_key(&id) && !self.broken.contains_key(&id) => {
                    self.expected.insert(id);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn adopt(&mut self, id: &BatchId, now: Now) -> Result<(), TurnError> {
        if !self.is_accepted(id)? && !self.accept_open_batch(id, now)? {
            return Ok(());
        }
        self.complete_acceptance(id)?;
        match Kept::load(&self.context(), id, now) {
            Ok(mut kept) => {
                match kept.resume(&self.context(), now) {
                    Ok(()) => {}
                    Err(error) if error.ends_the_watch() => return Err(error),
                    Err(error) => self.tell_once(format!("batch {id}: {error}; trying again")),
                }
                self.batches.insert(id.clone(), kept);
            }
            // The disk's trouble is not the batch's: it is looked for again at the next scan.
            Err(error @ (kept::LoadError::Disk(_) | kept::LoadError::Journal(JournalError::Disk(_)))) => {
                self.tell_once(format!("batch {id}: {error}; trying again"));
            }
            Err(error) if error.is_newer() => self.leave_alone(id, error.to_string()),
            Err(error) => self.give_up(id, error.to_string()),
        }
        Ok(())
    }
}

/// Removes temporary files that a killed watcher left. Only for directories where nobody else writes:
/// `wk submit` and `wk agent` make files of the same kind.
fn sweep_temporary(disk: &impl Disk, dir: &Path) {
    let Ok(listed) = disk.list(dir) else { return };
    for entry in listed {
        let is_ours = entry.name.to_string_lossy().starts_with(crate::bus::real_disk::TEMPORARY_PREFIX);
        if is_ours && entry.kind == crate::bus::NodeKind::File {
            let _ = disk.remove_file(&dir.join(&entry.name));
        }
    }
}
