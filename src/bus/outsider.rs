//! The agent's side of the bus: finding a task that nobody works on, taking it, beating, delivering.
//!
//! Everything here is what a ten-line shell script could do by hand; it only does it atomically.

use std::path::{Path, PathBuf};

use super::disk::{BusError, Content, Disk, Durability, NodeKind};
use super::journal;
use super::layout::{self, BatchPaths, BusName, Layout, OutboxPaths};
use super::version::{self, VersionError};
use super::{HEARTBEAT_BYTES_MAX, SPEC_BYTES_MAX};
use crate::format::{heartbeat, json};
use crate::model::{Attempt, BatchId, Event, TaskKey, TaskType};

/// A task that is offered: its spec lies on the bus.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub batch: BatchId,
    pub key: TaskKey,
    pub task_id: String,
    pub attempt: Attempt,
    pub kind: TaskType,
    pub spec_path: PathBuf,
    /// The spec's bytes: the file may be gone by the time somebody wants to read it.
    pub spec: Vec<u8>,
}

/// Which offers somebody is interested in.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub kind: Option<TaskType>,
    pub batch: Option<BatchId>,
}

/// Takes one offered task for `take`'s writer, or finds none; in a paused batch nothing begins. Two takers never get the
/// same attempt: the take's name can be created only once.
pub fn take_next(
    disk: &impl Disk,
    layout: &Layout,
    wanted: &Wanted,
    take: &[u8],
) -> Result<Option<Offer>, BusError> {
    for (batch, paths) in batches(disk, layout, wanted)? {
        for key in offered_keys(disk, &paths)? {
            let Some(offer) = read_offer(disk, &batch, &paths, &key)? else { continue };
            let fits = wanted.kind.is_none_or(|kind| kind == offer.kind);
            if !fits || is_worked_on(disk, &paths, &offer)? {
                continue;
            }
            match version::check_batch(disk, &paths) {
                Ok(()) if paused_by(disk, &paths).is_some() => break,
                Ok(()) => {}
                // The other batches are there all the same.
                Err(VersionError::Newer { .. }) => break,
                Err(VersionError::Disk(error)) => return Err(error),
            }
            let path = paths.take(&key, offer.attempt);
            if !disk.publish_once(&path, take).map_err(BusError::of("take", &path))? {
                continue;
            }
            // The offer may have been withdrawn between reading and taking: then the take means nothing.
            match read_offer(disk, &batch, &paths, &key)? {
                Some(again) if again.attempt == offer.attempt => return Ok(Some(offer)),
                _ => {
                    let _ = disk.remove_file(&path);
                }
            }
        }
    }
    Ok(None)
}

/// The batches whose tasks nobody may take now, each with who paused it.
pub fn paused(
    disk: &impl Disk,
    layout: &Layout,
    wanted: &Wanted,
) -> Result<Vec<(BatchId, String)>, BusError> {
    let all = batches(disk, layout, wanted)?.into_iter();
    Ok(all.filter_map(|(batch, paths)| Some((batch, paused_by(disk, &paths)?))).collect())
}

/// The journal is the truth; one that cannot be read is the watcher's business.
fn paused_by(disk: &impl Disk, paths: &BatchPaths) -> Option<String> {
    let entries = journal::read(disk, &paths.journal()).ok()?;
    let last = entries.into_iter().rev().find_map(|entry| match entry.event {
        Event::PauseAsked { by, .. } => Some(Some(by)),
        Event::ResumeAsked { .. } | Event::Reopened { .. } => Some(None),
        _ => None,
    });
    last.flatten()
}

fn batches(
    disk: &impl Disk,
    layout: &Layout,
    wanted: &Wanted,
) -> Result<Vec<(BatchId, BatchPaths)>, BusError> {
    let dir = layout.tasks();
    let listed = match disk.list(&dir) {
        Ok(listed) => listed,
        Err(error) if super::disk::is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(BusError::of("list", &dir)(error)),
    };
    let mut found: Vec<(BatchId, BatchPaths)> = listed
        .into_iter()
        .filter(|entry| entry.kind == NodeKind::Directory)
        .filter_map(|entry| layout::batch_of_directory(&entry.name)?.ok())
        .filter(|id| wanted.batch.as_ref().is_none_or(|only| only == id))
        .map(|id| (id.clone(), layout.batch(&id)))
        .collect();
    found.sort_by_key(|(id, _)| (id.number().unwrap_or(u64::MAX), id.clone()));
    Ok(found)
}

fn offered_keys(disk: &impl Disk, paths: &BatchPaths) -> Result<Vec<TaskKey>, BusError> {
    let listed = match disk.list(paths.dir()) {
        Ok(listed) => listed,
        Err(error) if super::disk::is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(BusError::of("list", paths.dir())(error)),
    };
    let taken: std::collections::HashSet<TaskKey> = listed
        .iter()
        .filter_map(|entry| match BusName::of(&entry.name) {
            BusName::Result(key) => Some(key),
            _ => None,
        })
        .collect();
    let mut keys: Vec<TaskKey> = listed
        .into_iter()
        .filter_map(|entry| match BusName::of(&entry.name) {
            BusName::Spec(key) if !taken.contains(&key) => Some(key),
            _ => None,
        })
        .collect();
    keys.sort_by_key(|key| (key.as_str().len(), key.clone()));
    Ok(keys)
}

/// Reads a published spec. One without an attempt was dropped by somebody and is not offered yet.
pub fn read_offer(
    disk: &impl Disk,
    batch: &BatchId,
    paths: &BatchPaths,
    key: &TaskKey,
) -> Result<Option<Offer>, BusError> {
    let spec_path = paths.spec(key);
    let content = disk.read(&spec_path, SPEC_BYTES_MAX * 4).map_err(BusError::of("read", &spec_path))?;
    let Content::Bytes { bytes, .. } = content else { return Ok(None) };
    let Ok(object) = json::parse_object(&bytes) else { return Ok(None) };
    let text = |name: &str| object.get(name).and_then(|value| value.as_str());
    let attempt = object.get("attempt").and_then(serde_json::Value::as_u64).and_then(Attempt::from_wire);
    let Some(attempt) = attempt else { return Ok(None) };
    Ok(Some(Offer {
        batch: batch.clone(),
        key: key.clone(),
        task_id: text("task_id").unwrap_or(key.as_str()).to_owned(),
        attempt,
        kind: text("type").and_then(TaskType::parse).unwrap_or(TaskType::Executor),
        spec_path,
        spec: bytes,
    }))
}

/// Somebody who does not use takes shows by beating or by a result.
fn is_worked_on(disk: &impl Disk, paths: &BatchPaths, offer: &Offer) -> Result<bool, BusError> {
    let outbox = paths.outbox(&offer.key, offer.attempt);
    for path in [outbox.heartbeat(), paths.heartbeat(&offer.key)] {
        let content = disk.read(&path, HEARTBEAT_BYTES_MAX).map_err(BusError::of("read", &path))?;
        if let Content::Bytes { bytes, .. } = content
            && let Ok(beat) = heartbeat::read(&bytes)
            && beat.attempt.is_none_or(|said| said == offer.attempt)
        {
            return Ok(true);
        }
    }
    if delivered(disk, &outbox.result())?.is_some() {
        return Ok(true);
    }
    let take = paths.take(&offer.key, offer.attempt);
    Ok(disk.look(&take).map_err(BusError::of("look at", &take))?.is_some())
}

/// What became of a result that an agent delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// It lies where the watcher looks.
    Made(PathBuf),
    /// The very same result was delivered before.
    Repeated(PathBuf),
    /// Another result of the same attempt was delivered before; that one counts.
    NotTheFirst,
    /// The attempt's outbox is closed.
    Over,
}

/// Whether a result of this attempt lies where the watcher looks, or was taken in.
pub fn has_delivered(disk: &impl Disk, layout: &Layout, offer: &Offer) -> Result<bool, BusError> {
    let (active, archived) = (layout.batch(&offer.batch), layout.archived(&offer.batch));
    let taken_in = [&active, &archived].map(|paths| paths.attempt(&offer.key, offer.attempt).result());
    let offered = [active.result(&offer.key), active.outbox(&offer.key, offer.attempt).result()];
    for path in offered.into_iter().chain(taken_in) {
        if disk.look(&path).map_err(BusError::of("look at", &path))?.is_some_and(|look| look.size > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where an attempt writes: its outbox, or the task's plain names where nobody said which attempt it is.
fn outbox_of(
    disk: &impl Disk,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Option<Attempt>,
) -> Result<Option<OutboxPaths>, BusError> {
    let Some(attempt) = attempt else { return Ok(None) };
    let outbox = paths.outbox(key, attempt);
    let is_there = |dir: &Path| -> Result<bool, BusError> {
        let look = disk.look(dir).map_err(BusError::of("look at", dir))?;
        Ok(look.is_some_and(|look| look.kind == NodeKind::Directory))
    };
    // An attempt that 0.1.0 began has none.
    let has_one = is_there(outbox.dir())? || is_there(paths.attempt(key, attempt).outbox().dir())?;
    Ok(has_one.then_some(outbox))
}

/// Writes a beat; `false` if the attempt is over.
pub fn beat(
    disk: &impl Disk,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Option<Attempt>,
    bytes: &[u8],
) -> Result<bool, BusError> {
    let outbox = outbox_of(disk, paths, key, attempt)?;
    let path = outbox.map_or_else(|| paths.heartbeat(key), |outbox| outbox.heartbeat());
    match disk.publish(&path, bytes, Durability::Unsynced) {
        Ok(()) => Ok(true),
        Err(error) if super::disk::is_absent(&error) => Ok(false),
        Err(error) => Err(BusError::of("publish", &path)(error)),
    }
}

/// Delivers a result. It never takes the place of another one.
pub fn deliver(
    disk: &impl Disk,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Option<Attempt>,
    bytes: &[u8],
) -> Result<Delivery, BusError> {
    let taken = attempt.map(|attempt| paths.attempt(key, attempt).result());
    if let Some(taken) = &taken
        && let Some(before) = delivered(disk, taken)?
    {
        return Ok(if before == bytes { Delivery::Repeated(taken.clone()) } else { Delivery::NotTheFirst });
    }
    let outbox = outbox_of(disk, paths, key, attempt)?;
    let path = outbox.map_or_else(|| paths.result(key), |outbox| outbox.result());
    match place(disk, &path, bytes)? {
        Delivery::Made(_) => {}
        other => return Ok(other),
    }
    // The watcher may have taken another one out of the box since we looked: then this one comes second.
    if let Some(taken) = &taken
        && delivered(disk, taken)?.is_some_and(|before| before != bytes)
    {
        let _ = disk.remove_file(&path);
        return Ok(Delivery::NotTheFirst);
    }
    Ok(Delivery::Made(path))
}

/// How often a box that is neither free nor holds anything is tried again: the watcher may have emptied it just now.
const TRIES_MOST: u32 = 5;

/// Puts a result into a box, unless there is one.
fn place(disk: &impl Disk, path: &Path, bytes: &[u8]) -> Result<Delivery, BusError> {
    for _ in 0..TRIES_MOST {
        match disk.publish_once(path, bytes) {
            Ok(true) => return Ok(Delivery::Made(path.to_owned())),
            Ok(false) => {}
            Err(error) if super::disk::is_absent(&error) => return Ok(Delivery::Over),
            Err(error) => return Err(BusError::of("publish", path)(error)),
        }
        match disk.read(path, super::RESULT_BYTES_MAX).map_err(BusError::of("read", path))? {
            Content::Absent => {}
            // Not yet written, or what a loss of power left: nobody's result is lost.
            Content::Bytes { bytes: before, .. } if before.is_empty() => {
                disk.publish(path, bytes, Durability::Synced).map_err(BusError::of("publish", path))?;
                return Ok(Delivery::Made(path.to_owned()));
            }
            Content::Bytes { bytes: before, .. } if before == bytes => {
                return Ok(Delivery::Repeated(path.to_owned()));
            }
            _ => return Ok(Delivery::NotTheFirst),
        }
    }
    Ok(Delivery::NotTheFirst)
}

/// The bytes of a result that lies there; an empty one is not yet written.
fn delivered(disk: &impl Disk, path: &Path) -> Result<Option<Vec<u8>>, BusError> {
    let content = disk.read(path, super::RESULT_BYTES_MAX).map_err(BusError::of("read", path))?;
    Ok(match content {
        Content::Bytes { bytes, .. } if !bytes.is_empty() => Some(bytes),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::RealDisk;
    use super::*;

    #[test]
    fn of_many_takers_each_attempt_goes_to_exactly_one() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let batch = BatchId::parse("7").unwrap();
        let paths = layout.batch(&batch);
        std::fs::create_dir_all(paths.dir()).unwrap();
        for number in 0..40 {
            let key = TaskKey::parse(&format!("t{number}")).unwrap();
            let spec = format!(r#"{{"task_id":"t{number}","type":"executor","goal":"g","attempt":1}}"#);
            std::fs::write(paths.spec(&key), spec).unwrap();
        }
        let takers: Vec<_> = (0..10)
            .map(|number| {
                let layout = layout.clone();
                std::thread::spawn(move || {
                    let disk = RealDisk::default();
                    let mut mine = Vec::new();
                    let me = format!("taker {number}");
                    while let Some(offer) =
                        take_next(&disk, &layout, &Wanted::default(), me.as_bytes()).unwrap()
                    {
                        mine.push(offer.key);
                    }
                    mine
                })
            })
            .collect();
        let mut all: Vec<TaskKey> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!((all.len(), count), (40, 40));
    }

    #[test]
    fn a_result_is_delivered_although_its_batch_is_archived_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let (tasks, archive) = (dir.path().join("tasks"), dir.path().join(format!("archive-{round}")));
            std::fs::create_dir(&tasks).unwrap();
            let (paths, key) = (BatchPaths::at(&tasks), TaskKey::parse("1").unwrap());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !paths.result(&key).exists() {
                        std::thread::yield_now();
                    }
                    std::fs::rename(&tasks, &archive).unwrap();
                });
                deliver(&RealDisk::default(), &paths, &key, None, b"{}").unwrap();
            });
        }
    }
}
