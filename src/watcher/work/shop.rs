//! Where slow work is done: a thread for each job, at most one at a time for each report.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Report;
use super::witness::{self, Beat};
use crate::bus::platform::pause_ms;
use crate::bus::wake::TreeWatch;
use crate::bus::{Disk, Durability, RealDisk};

/// How long to wait before a report that could not be written is tried again.
const RETRY_MS: u64 = 1_000;

/// By this a job learns that nobody waits for its outcome any more.
pub(super) type LeftOff = Arc<AtomicBool>;

/// The jobs that were begun here, by the place of their report.
#[derive(Debug, Default, Clone)]
pub(in crate::watcher) struct Workshop {
    begun: Arc<Mutex<HashMap<PathBuf, LeftOff>>>,
    /// Who watches over workspaces, by the place where it is noted.
    witnesses: Arc<Mutex<HashMap<PathBuf, Option<TreeWatch>>>>,
}

impl Workshop {
    /// Begins a job unless it was begun here. A report that lies there already is not believed: whoever can write
    /// there may have left it, and a job that was done before a crash is done again at little cost. `failed` makes a
    /// report of the reason why there is none.
    pub(in crate::watcher) fn begin(
        &self,
        report: PathBuf,
        job: impl FnOnce(&LeftOff) -> Report + Send + 'static,
        failed: impl Fn(String) -> Report + Send + 'static,
    ) -> std::io::Result<()> {
        let Some(left_off) = self.enter(&report) else { return Ok(()) };
        let place = report.clone();
        if let Err(error) = RealDisk::default().remove_file(&report)
            && !crate::bus::disk::is_absent(&error)
        {
            self.forget(&report);
            return Err(error);
        }
        let work = move || {
            let done = catch_unwind(AssertUnwindSafe(|| job(&left_off)))
                .unwrap_or_else(|_| failed("an error of wk's own; its standard error tells more".to_owned()));
            leave(&place, &done);
        };
        let begun = std::thread::Builder::new().name("work".to_owned()).spawn(work);
        if begun.is_err() {
            self.forget(&report);
        }
        begun.map(|_| ())
    }

    /// Its report was taken in: should the same be wanted again, it is done again.
    pub(in crate::watcher) fn forget(&self, report: &Path) {
        self.jobs().remove(report);
    }

    /// Nobody waits for this job any more. It reports all the same, and soon.
    pub(in crate::watcher) fn leave_off(&self, report: &Path) {
        if let Some(job) = self.jobs().get(report) {
            job.store(true, Ordering::Relaxed);
        }
    }

    /// Has a workspace watched over, unless it is already.
    pub(super) fn watch_over(&self, beat: Beat) {
        let mut witnesses = self.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(place) = witnesses.entry(beat.noted.clone()) {
            place.insert(witness::begin(beat));
        }
    }

    /// Has it watched over no more. Who watched may still have something to tell.
    pub(super) fn watch_no_more(&self, noted: &Path) -> Option<TreeWatch> {
        self.witnesses.lock().unwrap_or_else(PoisonError::into_inner).remove(noted).flatten()
    }

    /// `None` if it is under way.
    fn enter(&self, report: &Path) -> Option<LeftOff> {
        match self.jobs().entry(report.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => Some(place.insert(LeftOff::default()).clone()),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<PathBuf, LeftOff>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the report as soon as the disk lets it. Gives up only where the batch itself is gone.
fn leave(place: &Path, report: &Report) {
    let mut bytes = serde_json::to_vec_pretty(report).unwrap_or_default();
    bytes.push(b'\n');
    while let Err(error) = RealDisk::default().publish(place, &bytes, Durability::Synced) {
        if crate::bus::disk::is_absent(&error) {
            return;
        }
        log::warn!("{}: {error}; trying again", place.display());
        pause_ms(RETRY_MS);
    }
}
