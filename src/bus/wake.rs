//! Wakes the watcher when a file changes. An event only means "look sooner": losing one costs a moment,
//! never a result, because full scans keep their own interval.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::real_disk::TEMPORARY_PREFIX;
use super::{Disk, RealDisk, platform};
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};
use notify::{Config, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Most events that may wait to be looked at; beyond that a full scan is cheaper anyway.
const WAITING_MAX: usize = 8192;

/// Most outboxes that are watched; what comes into the others is found by the scans.
const OUTBOXES_MAX: usize = 4096;

/// What woke the watcher.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Look at these first.
    pub paths: Vec<PathBuf>,
    /// Events were lost: look at everything.
    pub rescan: bool,
}

enum Nudge {
    Path(PathBuf),
    Now,
}

/// Lets other threads of this process wake the watcher.
#[derive(Clone)]
pub struct Nudger(SyncSender<Nudge>);

impl Nudger {
    pub fn nudge(&self) {
        let _ = self.0.try_send(Nudge::Now);
    }
}

/// Heartbeats that nobody has seen change yet: the first one of an attempt is news.
type FirstBeats = Arc<Mutex<HashSet<PathBuf>>>;

/// Waits for file events, or for time to pass where the system has none.
pub struct Wake {
    source: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    outboxes: HashSet<PathBuf>,
    first_beats: FirstBeats,
    sender: SyncSender<Nudge>,
    receiver: Receiver<Nudge>,
    overflowed: Arc<AtomicBool>,
}

impl Wake {
    /// With `events` off, or where the system refuses them, only time wakes the watcher.
    pub fn new(events: bool) -> Self {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let overflowed = Arc::new(AtomicBool::new(false));
        let first_beats = FirstBeats::default();
        let source = match events {
            true => source(sender.clone(), overflowed.clone(), first_beats.clone()),
            false => None,
        };
        let (watched, outboxes) = (HashSet::new(), HashSet::new());
        Wake { source, watched, outboxes, first_beats, sender, receiver, overflowed }
    }

    pub fn nudger(&self) -> Nudger {
        Nudger(self.sender.clone())
    }

    /// `events+scan`, or `scan` where there are no events.
    pub fn mode(&self) -> &'static str {
        if self.source.is_some() { "events+scan" } else { "scan" }
    }

    /// Watches one directory, not what lies below it. Returns whether it was new: then scan it once,
    /// because what came before the watch made no event.
    pub fn watch(&mut self, dir: &Path) -> bool {
        let Some(source) = &mut self.source else { return false };
        if self.watched.contains(dir) {
            return false;
        }
        match source.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => self.watched.insert(dir.to_owned()),
            Err(error) => {
                if !matches!(error.kind, notify::ErrorKind::PathNotFound) {
                    log::warn!("no file events ({error}); scanning instead");
                    self.source = None;
                }
                false
            }
        }
    }

    /// Watches the outbox of one attempt. Where the system allows no more watches, the scans find what comes there.
    pub fn watch_outbox(&mut self, dir: &Path) {
        let Some(source) = &mut self.source else { return };
        if self.outboxes.len() < OUTBOXES_MAX
            && !self.outboxes.contains(dir)
            && source.watch(dir, RecursiveMode::NonRecursive).is_ok()
        {
            self.outboxes.insert(dir.to_owned());
        }
    }

    /// Forgets the outbox of an attempt that is over.
    pub fn unwatch_outbox(&mut self, dir: &Path) {
        if self.outboxes.remove(dir)
            && let Some(source) = &mut self.source
        {
            let _ = source.unwatch(dir);
        }
    }

    /// Lets a change of this heartbeat wake the watcher, until it is expected no more.
    pub fn expect_beat(&self, heartbeat: PathBuf, is_expected: bool) {
        let mut expected = self.first_beats.lock().unwrap_or_else(PoisonError::into_inner);
        match is_expected {
            true => expected.insert(heartbeat),
            false => expected.remove(&heartbeat),
        };
    }

    /// Has a path looked at that may have changed before it was watched.
    pub fn hint(&self, path: PathBuf) {
        let _ = self.sender.try_send(Nudge::Path(path));
    }

    /// Forgets a directory that was archived.
    pub fn unwatch(&mut self, dir: &Path) {
        if self.watched.remove(dir)
            && let Some(source) = &mut self.source
        {
            let _ = source.unwatch(dir);
        }
    }

    /// Waits for the first event, at most `longest`, and takes whatever else has come by then.
    ///
    /// Once something came, `gather_ms` more are waited for others: many small ends are decided in one turn.
    pub fn wait(&self, longest: Duration, gather_ms: u64) -> Hints {
        let mut hints = Hints::default();
        let mut next = self.receiver.recv_timeout(longest).ok();
        if next.is_some() && gather_ms > 0 {
            platform::pause_ms(gather_ms);
        }
        while let Some(nudge) = next {
            match nudge {
                Nudge::Path(path) => {
                    if hints.paths.last() != Some(&path) {
                        hints.paths.push(path);
                    }
                }
                // It only ends the wait.
                Nudge::Now => {}
            }
            next = self.receiver.try_recv().ok();
        }
        hints.rescan = self.overflowed.swap(false, Ordering::Relaxed);
        hints
    }
}

/// Tells of every file that is written below a directory, as soon as the system tells of it, until it is dropped.
#[derive(Debug)]
pub struct TreeWatch {
    _source: RecommendedWatcher,
    /// A file in the watched directory whose event tells that all earlier ones were told.
    marker: PathBuf,
    reached: Receiver<()>,
}

impl TreeWatch {
    /// `None` where the system has no events, or not enough of them for this tree: then nothing is told.
    pub fn new(root: &Path, mut written: impl FnMut(&Path) + Send + 'static) -> Option<TreeWatch> {
        let marker = root.join(format!("{TEMPORARY_PREFIX}told"));
        let (reach, reached) = sync_channel(1);
        let is_marker = marker.clone();
        let handler = move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if says_something(event.kind) || matches!(event.kind, EventKind::Modify(ModifyKind::Data(_))) {
                for path in &event.paths {
                    if *path == is_marker {
                        let _ = reach.try_send(());
                    } else {
                        written(path);
                    }
                }
            }
        };
        let kinds = kinds_asked_for() | EventKindMask::MODIFY_DATA;
        let mut source = RecommendedWatcher::new(handler, Config::default().with_event_kinds(kinds)).ok()?;
        source.watch(root, RecursiveMode::Recursive).ok()?;
        Some(TreeWatch { _source: source, marker, reached })
    }

    /// Waits until everything that was written before this call was told, at most so long. Events keep their order.
    pub fn catch_up(&self, at_most: Duration) {
        let disk = RealDisk::default();
        if disk.create_empty(&self.marker).is_ok() {
            let _ = self.reached.recv_timeout(at_most);
        }
        let _ = disk.remove_file(&self.marker);
    }
}

fn source(
    sender: SyncSender<Nudge>,
    overflowed: Arc<AtomicBool>,
    first_beats: FirstBeats,
) -> Option<RecommendedWatcher> {
    let handler = move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else {
            overflowed.store(true, Ordering::Relaxed);
            let _ = sender.try_send(Nudge::Now);
            return;
        };
        // A rescan event names no path, so it is looked at before the paths are.
        if event.need_rescan() {
            overflowed.store(true, Ordering::Relaxed);
            let _ = sender.try_send(Nudge::Now);
        }
        if !says_something(event.kind) {
            return;
        }
        for path in event.paths {
            if is_no_message(&path, &first_beats) {
                continue;
            }
            if sender.try_send(Nudge::Path(path)).is_err() {
                overflowed.store(true, Ordering::Relaxed);
            }
        }
    };
    match RecommendedWatcher::new(handler, Config::default().with_event_kinds(kinds_asked_for())) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            log::warn!("no file events ({error}); scanning instead");
            None
        }
    }
}

/// What the system is asked to tell at all: each event that we cause ourselves would cost a wake-up.
fn kinds_asked_for() -> EventKindMask {
    let kinds = EventKindMask::CREATE | EventKindMask::MODIFY_NAME | EventKindMask::ACCESS_CLOSE;
    if cfg!(target_os = "linux") { kinds } else { kinds | EventKindMask::MODIFY_DATA }
}

/// Completed writes, renames and new names. Opening and reading say nothing, and our own reads would wake
/// us; nor does what went away, which is mostly what we took, and whose new name makes its own event.
fn says_something(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Remove(_) => false,
        EventKind::Modify(ModifyKind::Name(RenameMode::From | RenameMode::Both)) => false,
        EventKind::Modify(ModifyKind::Name(_)) | EventKind::Create(_) => true,
        // A plain write is followed by its close; a writer that never closes is found by the scans.
        EventKind::Modify(_) => cfg!(not(target_os = "linux")),
        EventKind::Any | EventKind::Other => true,
    }
}

/// Beats are counted by the scans: a thousand agents must not wake the watcher a thousand times a second. Only the
/// first one of an attempt tells something new. Neither must its own writing wake it, nor the files that agents
/// prepare beside their place: their rename does.
fn is_no_message(path: &Path, first_beats: &FirstBeats) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_first = || first_beats.lock().unwrap_or_else(PoisonError::into_inner).contains(path);
    (super::layout::is_heartbeat(name) && !is_first())
        || super::layout::is_dropping(name)
        || super::layout::is_written_by_the_watcher(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_file_wakes_and_a_beat_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut wake = Wake::new(true);
        assert!(wake.watch(dir.path()));
        std::fs::write(dir.path().join("task-1.hb"), "{}").unwrap();
        std::fs::write(dir.path().join("x"), "{}").unwrap();
        std::fs::rename(dir.path().join("x"), dir.path().join("task-1.result.json")).unwrap();
        let mut seen = Vec::new();
        for _ in 0..100 {
            seen.extend(wake.wait(Duration::from_millis(100), 0).paths);
            if seen.iter().any(|path| path.ends_with("task-1.result.json")) {
                break;
            }
        }
        assert!(seen.iter().any(|path| path.ends_with("task-1.result.json")), "{seen:?}");
        assert!(!seen.iter().any(|path| path.ends_with("task-1.hb")), "{seen:?}");
    }

    #[test]
    fn the_first_beat_of_an_attempt_wakes_and_the_next_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut wake = Wake::new(true);
        wake.watch_outbox(dir.path());
        let (first, other) = (dir.path().join("task-1.hb"), dir.path().join("heartbeat.json"));
        wake.expect_beat(first.clone(), true);
        std::fs::write(&other, "{}").unwrap();
        std::fs::write(&first, "{}").unwrap();
        let mut seen = Vec::new();
        for _ in 0..100 {
            seen.extend(wake.wait(Duration::from_millis(100), 0).paths);
            if seen.contains(&first) {
                break;
            }
        }
        assert!(seen.contains(&first) && !seen.contains(&other), "{seen:?}");
    }

    #[test]
    fn without_events_time_alone_wakes() {
        let mut wake = Wake::new(false);
        assert_eq!(wake.mode(), "scan");
        assert!(!wake.watch(Path::new("/")));
        assert_eq!(wake.wait(Duration::from_millis(1), 0), Hints::default());
    }
}
