//! The agent's side of the bus: finding a task that nobody works on, taking it, beating, delivering.
//!
//! Everything here is what a ten-line shell script could do by hand; it only does it atomically.

#![expect(clippy::disallowed_methods, reason = "a hard link is the last way to take a name exclusively")]

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};

use super::disk::{BusError, Content, Disk, Durability, NodeKind};
use super::layout::{self, BatchPaths, BusName, Layout};
use super::{HEARTBEAT_BYTES_MAX, SPEC_BYTES_MAX, real_disk};
use crate::format::{heartbeat, json};
use crate::model::{Attempt, BatchId, TaskKey, TaskType};

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

/// Takes one offered task for `take`'s writer, or finds none. Two takers never get the same attempt: the
/// take's name can be created only once.
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
            let path = paths.take(&key, offer.attempt);
            if !create_once(&path, take).map_err(BusError::of("take", &path))? {
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
    let path = paths.heartbeat(&offer.key);
    let content = disk.read(&path, HEARTBEAT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    if let Content::Bytes { bytes, .. } = content
        && let Ok(beat) = heartbeat::read(&bytes)
        && beat.attempt.is_none_or(|said| said == offer.attempt)
    {
        return Ok(true);
    }
    let take = paths.take(&offer.key, offer.attempt);
    Ok(disk.look(&take).map_err(BusError::of("look at", &take))?.is_some())
}

/// Creates a file whole and only once; `false` if somebody was first.
fn create_once(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut staged = tempfile::Builder::new()
        .prefix(real_disk::TEMPORARY_PREFIX)
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(dir)?;
    staged.write_all(bytes)?;
    match rustix::fs::renameat_with(CWD, staged.path(), CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => {
            // It lives on under its new name; there is nothing left to remove.
            let _ = staged.into_temp_path().keep();
            Ok(true)
        }
        Err(rustix::io::Errno::EXIST) => Ok(false),
        // Some network file systems know no such rename; a hard link is as exclusive everywhere.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            match std::fs::hard_link(staged.path(), path) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes a beat.
pub fn beat(disk: &impl Disk, paths: &BatchPaths, key: &TaskKey, bytes: &[u8]) -> Result<(), BusError> {
    let path = paths.heartbeat(key);
    disk.publish(&path, bytes, Durability::Unsynced).map_err(BusError::of("publish", &path))
}

/// Delivers a result.
pub fn deliver(
    disk: &impl Disk,
    paths: &BatchPaths,
    key: &TaskKey,
    bytes: &[u8],
) -> Result<PathBuf, BusError> {
    let path = paths.result(key);
    disk.publish(&path, bytes, Durability::Synced).map_err(BusError::of("publish", &path))?;
    Ok(path)
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
                deliver(&RealDisk::default(), &paths, &key, b"{}").unwrap();
            });
        }
    }
}
