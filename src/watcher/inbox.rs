//! What comes in: requests in the inbox, specs dropped into `tasks/`, batch directories made by hand.
//!
//! A request is accepted as a whole or refused with all its defects. A batch's directory appears by one
//! rename, complete with its journal; only then is the request moved out of the inbox, into it.

use std::path::{Path, PathBuf};

use super::look::unreadable;
use super::settle::Settling;
use super::{TurnError, TurnReport, Watcher, kept};
use crate::bus::disk::{BusError, rename_if_present};
use crate::bus::journal::{Journal, Stamp};
use crate::bus::{self, Content, Disk, Durability, NodeKind, Readers, layout, misplaced, quarantine};
use crate::decide::Now;
use crate::format::{json, spec};
use crate::intake;
use crate::model::batch::{Batch, Origin, Source};
use crate::model::{BatchId, Defect, Event, Grade, Place, TaskKey};

/// What is remembered of files that are still being written.
#[derive(Default)]
pub(super) struct Intake {
    pub(super) settling: Settling,
    /// Highest numbered batch that was ever seen; found once, then kept.
    highest: Option<u64>,
}

/// A request became a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The request's name in the inbox.
    pub name: String,
    pub batch: BatchId,
}

/// A request was refused, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub name: String,
    pub defects: Vec<Defect>,
    /// Where it lies now.
    pub quarantined: Option<PathBuf>,
}

impl<D: Disk> Watcher<D> {
    /// Looks at the inbox and at specs that lie loose in `tasks/`.
    pub(super) fn take_in(&mut self, now: Now, report: &mut TurnReport) -> Result<(), TurnError> {
        let disk = &self.disk;
        self.intake.settling.keep_only(|path| !matches!(disk.look(path), Ok(None)));
        for (dir, is_inbox) in [(self.layout.inbox(), true), (self.layout.tasks(), false)] {
            let mut listed = self.disk.list(&dir).map_err(BusError::of("list", &dir))?;
            listed.sort_by(|a, b| a.name.cmp(&b.name));
            for entry in listed {
                let name = entry.name.to_string_lossy().into_owned();
                let is_message = match is_inbox {
                    true => !layout::is_dropping(&name),
                    false => entry.kind != NodeKind::Directory && layout::is_loose_spec(&name),
                };
                if !is_message {
                    let why = misplaced::in_tasks(&entry.name, entry.kind).filter(|_| !is_inbox);
                    if let Some(why) = why {
                        self.tell_once(misplaced::sentence(&entry.name, &why));
                    }
                    continue;
                }
                let path = dir.join(&entry.name);
                let taken = match (entry.name.to_str(), is_inbox) {
                    (None, _) => self.turn_away(&path, name, vec![bad_name()], now, report),
                    (_, true) => self.take_request(&path, name, now, report),
                    (_, false) => self.take_loose_spec(&path, name, now, report),
                };
                match taken {
                    Err(error @ TurnError::Superseded { .. }) => return Err(error),
                    // One file that cannot be taken keeps no other waiting.
                    Err(error) => self.tell_once(format!("{}: {error}", path.display())),
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }

    fn take_request(
        &mut self,
        path: &Path,
        name: String,
        now: Now,
        report: &mut TurnReport,
    ) -> Result<(), TurnError> {
        let (content, has_writer) =
            self.disk.read_and_ask(path, bus::PLAN_BYTES_MAX).map_err(BusError::of("read", path))?;
        let drafted = match &content {
            Content::Absent => return Ok(()),
            Content::Changing => Err(vec![unreadable(&content, bus::PLAN_BYTES_MAX)]),
            Content::Bytes { bytes, .. } => {
                if self.was_accepted_already(&name, bytes)? {
                    return Ok(());
                }
                self.draft(&name, bytes, now)?.and_then(|batch| self.without_commands(batch))
            }
            other => Err(vec![unreadable(other, bus::PLAN_BYTES_MAX)]),
        };
        match drafted {
            // Half a Markdown plan reads like a whole one: it must be at rest, or nobody can be writing it.
            Ok(batch) if has_writer != Some(false) && !self.is_at_rest(path, &content, now) => {
                log::debug!("{}: still being written, would be batch {}", path.display(), batch.id);
            }
            Ok(batch) => {
                let id = batch.id.clone();
                self.establish(batch, None, now)?;
                self.complete_acceptance(&id)?;
                self.intake.settling.forget(path);
                report.accepted.push(Accepted { name, batch: id });
            }
            Err(defects) if self.is_settled(path, (&content, has_writer), now) => {
                self.turn_away(path, name, defects, now, report)?;
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// A spec without a batch gets one of its own.
    fn take_loose_spec(
        &mut self,
        path: &Path,
        name: String,
        now: Now,
        report: &mut TurnReport,
    ) -> Result<(), TurnError> {
        let (content, has_writer) =
            self.disk.read_and_ask(path, bus::SPEC_BYTES_MAX).map_err(BusError::of("read", path))?;
        let read = match &content {
            Content::Absent => return Ok(()),
            Content::Bytes { bytes, .. } => self.place_of_loose_spec(&name, bytes)?,
            other => Err(vec![unreadable(other, bus::SPEC_BYTES_MAX)]),
        };
        match read {
            Ok((batch, key)) => {
                let paths = self.layout.batch(&batch);
                self.disk.make_dirs(paths.dir()).map_err(BusError::of("make", paths.dir()))?;
                rename_if_present(&self.disk, path, &paths.spec(&key), Durability::Synced)
                    .map_err(BusError::of("move", path))?;
                self.intake.settling.forget(path);
                report.accepted.push(Accepted { name, batch });
            }
            Err(defects) if self.is_settled(path, (&content, has_writer), now) => {
                self.turn_away(path, name, defects, now, report)?;
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn place_of_loose_spec(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<Result<(BatchId, TaskKey), Vec<Defect>>, TurnError> {
        let named = layout::key_of_loose_spec(std::ffi::OsStr::new(name));
        let key = named.unwrap_or_else(|| TaskKey::parse("loose").expect("a plain word is an id"));
        if let Some(defect) = request_among_specs(bytes) {
            return Ok(Err(vec![defect]));
        }
        let task = match spec::read_dropped(&key, bytes, &self.settings) {
            Ok(dropped) => dropped.task,
            Err(defects) => return Ok(Err(defects)),
        };
        let key = TaskKey::parse(&task.task_id).unwrap_or(key);
        // An id may be used again: the next batch of its name has a number.
        for number in 1.. {
            let name = match number {
                1 => format!("loose-{}", task.task_id),
                number => format!("loose-{}-{number}", task.task_id),
            };
            let batch = match BatchId::parse(&name) {
                Ok(batch) => batch,
                Err(defect) => {
                    let message = format!("the batch's id {name} {defect}");
                    let remedy = "choose a shorter task_id";
                    return Ok(Err(vec![Defect::field("bad_id", "task_id", message, remedy)]));
                }
            };
            if self.is_half_placed(&batch, &key)? || self.objection_to_id(&batch, "batch_id")?.is_none() {
                return Ok(Ok((batch, key)));
            }
        }
        unreachable!("a number that nobody has used comes before the name is too long")
    }

    /// Whether a crash came between a loose spec's directory and the spec's move into it.
    fn is_half_placed(&self, batch: &BatchId, key: &TaskKey) -> Result<bool, TurnError> {
        let paths = self.layout.batch(batch);
        let exists = |path: &Path| -> Result<bool, TurnError> {
            Ok(self.disk.look(path).map_err(BusError::of("look at", path))?.is_some())
        };
        Ok(exists(paths.dir())?
            && !exists(&paths.batch())?
            && !exists(&paths.spec(key))?
            && !exists(self.layout.archived(batch).dir())?)
    }

    /// Accepts a request that the caller holds in hand, without the inbox.
    pub fn accept(
        &mut self,
        name: &str,
        bytes: &[u8],
        now: Now,
    ) -> Result<Result<BatchId, Vec<Defect>>, TurnError> {
        let batch = match self.draft(name, bytes, now)? {
            Ok(batch) => batch,
            Err(defects) => return Ok(Err(defects)),
        };
        let id = batch.id.clone();
        self.establish(batch, Some(bytes), now)?;
        self.adopt(&id, now)?;
        Ok(Ok(id))
    }

    /// Reads a request and gives it its id.
    fn draft(&mut self, name: &str, bytes: &[u8], now: Now) -> Result<Result<Batch, Vec<Defect>>, TurnError> {
        let request = intake::Request { name, bytes };
        let mut settings = self.settings.clone();
        settings.require = settings.require.max(layout::demanded_by(name).unwrap_or(Grade::Claimed));
        let plan = match intake::read_request(request, &settings, &*self.around) {
            // Whoever runs `wk` sees what a dry run shows; here there is nobody to show it to.
            Ok(plan) if plan.is_dry_run() => return Ok(Err(vec![dry_run()])),
            Ok(plan) => plan,
            Err(defects) => return Ok(Err(defects)),
        };
        let fallback_id = match plan.own_id() {
            Some(id) => {
                let id = id.clone();
                if let Some(defect) = self.objection_to_id(&id, plan.id_field())? {
                    return Ok(Err(vec![defect]));
                }
                id
            }
            None => BatchId::from_number(self.highest_number()? + 1),
        };
        let context = intake::Context { accepted_at: now.wall, fallback_id, sha256: bus::sha256(bytes) };
        let mut batch = plan.into_batch(context);
        if let Some(handoff) = &mut batch.handoff {
            handoff.bus = Some(self.layout.root().to_string_lossy().into_owned());
        }
        Ok(match self.objection_to_workspace(&batch) {
            Some(defect) => Err(vec![defect]),
            None => Ok(batch),
        })
    }

    /// The highest number that a batch of this bus ever had.
    fn highest_number(&mut self) -> Result<u64, TurnError> {
        let mut highest = self.intake.highest.unwrap_or(0);
        for dir in [self.layout.tasks(), self.layout.archive(), self.layout.results()] {
            for entry in self.disk.list(&dir).map_err(BusError::of("list", &dir))? {
                if let Some(id) = layout::batch_of_entry(&entry.name) {
                    highest = highest.max(id.number().unwrap_or(0));
                }
            }
        }
        self.intake.highest = Some(highest);
        Ok(highest)
    }

    /// Makes a batch's directory appear, complete.
    fn establish(&mut self, batch: Batch, request: Option<&[u8]>, now: Now) -> Result<(), TurnError> {
        let making = self.layout.batch_in_the_making(&batch.id);
        let readers = Readers::of_values(batch.carries_values());
        let (dir, control) = (making.dir().to_owned(), making.control());
        self.disk.make_dirs(&control).map_err(BusError::of("make", &control))?;
        for path in [making.request(), making.journal()] {
            // Left by an acceptance that was interrupted: it never was a batch.
            if self.disk.look(&path).map_err(BusError::of("look at", &path))?.is_some() {
                self.disk.remove_file(&path).map_err(BusError::of("remove", &path))?;
            }
        }
        if let Some(request) = request {
            let path = making.request();
            let published = self.disk.publish_for(readers, &path, request, Durability::Synced);
            published.map_err(BusError::of("publish", &path))?;
        }
        let stamp = Stamp { epoch: self.epoch, at: now.wall, clock: now.clock };
        let bytes = serde_json::to_vec_pretty(&batch).expect("a batch has only string keys");
        let batch_sha256 = Some(bus::sha256(&bytes));
        let accepted = [Event::Accepted { tasks: batch.tasks.len(), batch_sha256 }];
        Journal::fresh(making.journal()).commit(&self.disk, stamp, &accepted)?;
        let path = making.batch();
        let published = self.disk.publish_for(readers, &path, &bytes, Durability::Synced);
        published.map_err(BusError::of("publish", &path))?;
        let target = self.layout.batch(&batch.id);
        self.disk.move_tree(&dir, target.dir()).map_err(BusError::of("publish", target.dir()))?;
        Ok(())
    }

    /// Whether a request in the inbox is one whose batch exists already, because a crash came between.
    fn was_accepted_already(&mut self, name: &str, bytes: &[u8]) -> Result<bool, TurnError> {
        let waiting: Vec<BatchId> = self.batches_without_request()?;
        for id in waiting {
            let Ok(batch) = kept::read_batch(&self.disk, &self.layout.batch(&id)) else { continue };
            if batch.source.name == name && batch.source.sha256 == bus::sha256(bytes) {
                self.complete_acceptance(&id)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn batches_without_request(&self) -> Result<Vec<BatchId>, TurnError> {
        let dir = self.layout.tasks();
        let mut found = Vec::new();
        for entry in self.disk.list(&dir).map_err(BusError::of("list", &dir))? {
            let Some(Ok(id)) = layout::batch_of_directory(&entry.name) else { continue };
            let request = self.layout.batch(&id).request();
            if self.disk.look(&request).map_err(BusError::of("look at", &request))?.is_none() {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Moves an accepted request out of the inbox, into its batch.
    pub(super) fn complete_acceptance(&mut self, id: &BatchId) -> Result<(), TurnError> {
        let paths = self.layout.batch(id);
        let request = paths.request();
        if self.disk.look(&request).map_err(BusError::of("look at", &request))?.is_some() {
            return Ok(());
        }
        let Ok(batch) = kept::read_batch(&self.disk, &paths) else { return Ok(()) };
        let from = self.layout.inbox().join(&batch.source.name);
        let content = self.disk.read(&from, bus::PLAN_BYTES_MAX).map_err(BusError::of("read", &from))?;
        if matches!(&content, Content::Bytes { bytes, .. } if bus::sha256(bytes) == batch.source.sha256) {
            // Synced: a request that came back with the power would be done twice.
            rename_if_present(&self.disk, &from, &request, Durability::Synced)
                .map_err(BusError::of("move", &from))?;
        }
        Ok(())
    }

    pub(super) fn is_accepted(&self, id: &BatchId) -> Result<bool, TurnError> {
        let path = self.layout.batch(id).batch();
        Ok(self.disk.look(&path).map_err(BusError::of("look at", &path))?.is_some())
    }

    /// A directory that somebody made and dropped specs into becomes an open batch.
    pub(super) fn accept_open_batch(&mut self, id: &BatchId, now: Now) -> Result<bool, TurnError> {
        let paths = self.layout.batch(id);
        let listed = self.disk.list(paths.dir()).map_err(BusError::of("list", paths.dir()))?;
        let archived = self.layout.archived(id);
        let is_archived =
            self.disk.look(archived.dir()).map_err(BusError::of("look at", archived.dir()))?.is_some();
        if is_archived {
            self.put_with_archive(id, &listed, now)?;
        }
        let specs: Vec<_> = listed
            .iter()
            .filter(|entry| matches!(bus::BusName::of(&entry.name), bus::BusName::Spec(_)))
            .map(|entry| paths.dir().join(&entry.name))
            .collect();
        if specs.is_empty() {
            let unknown =
                listed.iter().filter(|entry| bus::BusName::of(&entry.name) == bus::BusName::Unknown);
            for entry in unknown {
                let (name, why) = (entry.name.to_string_lossy(), misplaced::in_batch(&entry.name));
                self.tell_once(format!("tasks/batch-{id}/{} is ignored: {why}", name.escape_debug()));
            }
            return Ok(false);
        }
        if is_archived {
            let message = format!("batch {id} was archived, and takes no further specs");
            let defect = Defect::new("batch_archived", Place::File, message, "choose another batch id");
            for spec in specs {
                quarantine::refuse(&self.disk, &self.layout, &spec, std::slice::from_ref(&defect), now.wall)?;
            }
            return Ok(false);
        }
        let batch = self.open_batch(id, now);
        let control = paths.control();
        self.disk.make_dirs(&control).map_err(BusError::of("make", &control))?;
        let bytes = serde_json::to_vec_pretty(&batch).expect("a batch has only string keys");
        let path = paths.batch();
        self.disk.publish(&path, &bytes, Durability::Synced).map_err(BusError::of("publish", &path))?;
        Ok(true)
    }

    fn open_batch(&self, id: &BatchId, now: Now) -> Batch {
        let source = Source { name: format!("batch-{id}"), sha256: String::new() };
        Batch::new(id.clone(), Origin::Specs, source, now.wall, &self.settings)
    }

    fn turn_away(
        &mut self,
        path: &Path,
        name: String,
        defects: Vec<Defect>,
        now: Now,
        report: &mut TurnReport,
    ) -> Result<(), TurnError> {
        self.intake.settling.forget(path);
        let quarantined = quarantine::refuse(&self.disk, &self.layout, path, &defects, now.wall)?;
        for defect in &defects {
            log::warn!("{name}: {defect}; {}", defect.remedy);
        }
        report.refused.push(Refusal { name, defects, quarantined });
        Ok(())
    }

    pub(super) fn is_settled(
        &mut self,
        path: &Path,
        (content, has_writer): (&Content, Option<bool>),
        now: Now,
    ) -> bool {
        let look = match content {
            Content::Bytes { look, .. } => Some(*look),
            Content::Changing => None,
            // What is no plain file at all never becomes one by waiting.
            _ => return true,
        };
        self.intake.settling.is_settled(path, look, has_writer, now.clock, self.settings.settle)
    }

    fn is_at_rest(&mut self, path: &Path, content: &Content, now: Now) -> bool {
        match content {
            Content::Bytes { look, .. } => {
                self.intake.settling.is_at_rest(path, *look, now.clock, self.settings.settle)
            }
            _ => false,
        }
    }

    pub(super) fn forget_unsettled(&mut self, path: &Path) {
        self.intake.settling.forget(path);
    }

    /// Whether something in the inbox is still being written.
    pub(super) fn has_unsettled_intake(&self) -> bool {
        !self.intake.settling.is_empty()
    }
}

fn dry_run() -> Defect {
    let message = "asks for a dry run, which starts nothing";
    Defect::new("dry_run", Place::File, message, "`wk check` shows what it would do; or take dry_run out")
}

/// A plan or a handed-over request that was dropped where specs belong.
fn request_among_specs(bytes: &[u8]) -> Option<Defect> {
    let object = json::parse_object(bytes).ok()?;
    let what = ["phases", "agents", "assignments"].into_iter().find(|name| object.contains_key(*name))?;
    let message = format!("this has '{what}', so it is a plan or a request, and no spec of a task");
    let remedy = "drop it into inbox/, or give it to `wk run`";
    (!object.contains_key("goal")).then(|| Defect::new("request_among_specs", Place::File, message, remedy))
}

fn bad_name() -> Defect {
    Defect::new("name_not_text", Place::File, "the file's name is not UTF-8", "give the file another name")
}
