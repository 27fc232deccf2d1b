//! Finds what a user names: a batch (`43`, `batch-43`), a task (`43/2a`, or `2a` where that is clear), among
//! active batches first, then in the archive.

use super::{Desk, Exit, Trouble};
use crate::bus::disk::{BusError, is_absent};
use crate::bus::layout::{self, BatchPaths};
use crate::bus::{Disk, Layout, NodeKind, RealDisk, version};
use crate::model::event::Entry;
use crate::model::state::{BatchState, TaskIx};
use crate::model::{BatchId, settings};
use crate::watcher::{afterwards, kept};

/// A batch on this bus.
pub struct Found {
    pub id: BatchId,
    pub paths: BatchPaths,
    pub is_archived: bool,
    /// Where it is, or will be in the end.
    archive: BatchPaths,
}

impl Found {
    /// Reads its state. One that was archived since it was found is found there from now on.
    pub fn load(&mut self, disk: &RealDisk) -> Result<(BatchState, Vec<Entry>), Trouble> {
        let error = match kept::read_state(disk, &self.paths) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => error,
        };
        match kept::read_state(disk, &self.archive) {
            Ok(loaded) if !self.is_archived => {
                self.paths = self.archive.clone();
                self.is_archived = true;
                Ok(loaded)
            }
            _ => Err(error.into()),
        }
    }

    /// A line that says that it was undone, if it was.
    pub fn told_undone(&self) -> Option<String> {
        let at = afterwards::undone_at(&self.paths)?;
        Some(format!(
            "Batch {} was undone at {}: the trees are as they were before it",
            self.id,
            at.rfc3339_seconds()
        ))
    }
}

/// The batches under way, oldest number first.
pub fn active(desk: &Desk) -> Result<Vec<Found>, Trouble> {
    batches_in(&desk.layout, &desk.layout.tasks(), false)
}

/// The archived ones, in the order in which they ended.
pub fn archived(desk: &Desk) -> Result<Vec<Found>, Trouble> {
    let mut found = batches_in(&desk.layout, &desk.layout.archive(), true)?;
    let disk = RealDisk::default();
    // The end is the last thing that a journal tells. Batches without a number have no other order at all.
    found.sort_by_cached_key(|one| {
        let looked = disk.look(&one.paths.journal()).ok().flatten();
        looked.map_or(i128::MIN, |look| look.modified_ns)
    });
    Ok(found)
}

fn batches_in(layout: &Layout, dir: &std::path::Path, is_archived: bool) -> Result<Vec<Found>, Trouble> {
    let disk = RealDisk::default();
    let listed = match disk.list(dir) {
        Ok(listed) => listed,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        // Nothing may be said about what cannot be read, least of all that there is nothing.
        Err(error) => return Err(BusError::of("list", dir)(error).into()),
    };
    let mut found: Vec<Found> = listed
        .into_iter()
        .filter(|entry| entry.kind == NodeKind::Directory)
        .filter_map(|entry| {
            let id = layout::batch_of_directory(&entry.name)?.ok()?;
            let paths = BatchPaths::at(dir.join(&entry.name));
            let is_batch = disk.look(&paths.batch()).ok().flatten().is_some();
            let archive = layout.archived(&id);
            is_batch.then_some(Found { id, paths, is_archived, archive })
        })
        .collect();
    found.sort_by_key(|one| (one.id.number().unwrap_or(u64::MAX), one.id.clone()));
    Ok(found)
}

/// A batch that was there a moment ago; `None` if it was removed.
pub fn known_batch(desk: &Desk, id: &BatchId) -> Result<Option<Found>, Trouble> {
    // Under way first: it moves from there to the archive.
    let found = active(desk)?.into_iter().find(|one| one.id == *id);
    match found {
        Some(found) => Ok(Some(found)),
        None => Ok(archived(desk)?.into_iter().find(|one| one.id == *id)),
    }
}

/// The batch that a name means.
pub fn batch(desk: &Desk, name: &str) -> Result<Found, Trouble> {
    let id = name.strip_prefix("batch-").unwrap_or(name);
    let mut all = active(desk)?;
    all.extend(archived(desk)?);
    let known: Vec<String> = all.iter().map(|one| one.id.to_string()).collect();
    if let Some(found) = all.into_iter().find(|one| one.id.as_str() == id) {
        version::check_batch(&RealDisk::default(), &found.paths)?;
        return Ok(found);
    }
    let trouble = Trouble::new(Exit::BadRequest, format!("there is no batch '{id}' on this bus"));
    Err(match settings::nearest(id, known.iter().map(String::as_str)) {
        Some(near) => trouble.hint(format!("did you mean batch {near}?")),
        None if known.is_empty() => trouble.hint("nothing has been run here yet: `wk run PLAN.md`"),
        None => trouble.hint(format!("known batches: {}", known.join(", "))),
    })
}

/// The batch that is meant when none is named: the only active one, else the last archived.
pub fn batch_or_only(desk: &Desk, name: Option<&str>) -> Result<Found, Trouble> {
    if let Some(name) = name {
        return batch(desk, name);
    }
    let mut running = active(desk)?;
    match running.len() {
        1 => Ok(running.remove(0)),
        0 => archived(desk)?.pop().ok_or_else(|| {
            Trouble::new(Exit::BadRequest, "there is no batch on this bus")
                .hint("`wk run PLAN.md` runs one; --root DIR names another bus")
        }),
        _ => {
            let ids: Vec<String> = running.iter().map(|one| one.id.to_string()).collect();
            Err(Trouble::new(Exit::BadRequest, "several batches are under way; name one")
                .hint(format!("they are {}", ids.join(", "))))
        }
    }
}

/// A task with its batch's state and journal.
pub struct FoundTask {
    pub batch: Found,
    pub state: BatchState,
    pub entries: Vec<Entry>,
    pub task: TaskIx,
}

/// The task that a name means: `BATCH/TASK`, or `TASK` where that is clear.
pub fn task(desk: &Desk, name: &str) -> Result<FoundTask, Trouble> {
    let disk = RealDisk::default();
    if let Some((batch_name, task_name)) = name.split_once('/') {
        let mut found = batch(desk, batch_name)?;
        let (state, entries) = found.load(&disk)?;
        return match state.find(task_name) {
            Some(task) => Ok(FoundTask { batch: found, state, entries, task }),
            None => Err(no_task(&state, &found, task_name)),
        };
    }
    let mut matches: Vec<FoundTask> = Vec::new();
    let mut unread: Option<Trouble> = None;
    for group in [active(desk)?, archived(desk)?] {
        for mut found in group {
            let (state, entries) = match found.load(&disk) {
                Ok(loaded) => loaded,
                Err(trouble) => {
                    unread.get_or_insert(trouble);
                    continue;
                }
            };
            if let Some(task) = state.find(name) {
                matches.push(FoundTask { batch: found, state, entries, task });
            }
        }
        // An archive is asked only where no active batch knows the task.
        if !matches.is_empty() {
            break;
        }
    }
    // Of archived batches the newest is meant; of active ones it must be clear.
    let is_clear = matches.len() == 1 || matches.iter().all(|one| one.batch.is_archived);
    match matches.pop() {
        Some(found) if is_clear => Ok(found),
        Some(last) => {
            let mut names: Vec<String> =
                matches.iter().map(|one| format!("{}/{name}", one.batch.id)).collect();
            names.push(format!("{}/{name}", last.batch.id));
            Err(Trouble::new(Exit::BadRequest, format!("several batches have a task '{name}'"))
                .hint(format!("name one: {}", names.join(", "))))
        }
        None => {
            let trouble = Trouble::new(Exit::BadRequest, format!("no batch on this bus has a task '{name}'"))
                .hint("`wk status` lists batches and tasks; a task is named BATCH/TASK");
            Err(match unread {
                Some(unread) => trouble.hint(format!("one could not be looked into: {}", unread.text)),
                None => trouble,
            })
        }
    }
}

fn no_task(state: &BatchState, found: &Found, name: &str) -> Trouble {
    let keys = || state.tasks.iter().map(|task| task.spec.key.as_str());
    let trouble = Trouble::new(Exit::BadRequest, format!("batch {} has no task '{name}'", found.id));
    match settings::nearest(name, keys()) {
        Some(near) => trouble.hint(format!("did you mean {}/{near}?", found.id)),
        None => trouble.hint(format!("`wk status {}` lists them", found.id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scene;

    #[test]
    fn a_batch_that_is_archived_after_it_was_found_is_read_where_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let (layout, batch) = (Layout::new(dir.path()), scene::batch("1"));
        let under_way = layout.batch(&batch.id);
        std::fs::create_dir_all(under_way.dir()).unwrap();
        std::fs::create_dir_all(layout.archive()).unwrap();
        std::fs::write(under_way.batch(), serde_json::to_vec(&batch).unwrap()).unwrap();
        let mut found = batches_in(&layout, &layout.tasks(), false).unwrap().pop().unwrap();
        assert!(found.load(&RealDisk::default()).is_ok() && !found.is_archived);
        std::fs::rename(under_way.dir(), layout.archived(&batch.id).dir()).unwrap();
        assert!(found.load(&RealDisk::default()).is_ok() && found.is_archived);
        assert_eq!(found.paths.dir(), layout.archived(&batch.id).dir());
    }
}
