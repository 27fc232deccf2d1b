//! The runner's heartbeat, on a thread of its own: never behind a sync, a log or a signal.
//!
//! An agent that beats for itself is left alone; when it falls silent its own words are repeated, because
//! nobody knows better what it was doing.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::files::{self, Glimpse};
use crate::agent::redact::redact;
use crate::bus::platform::wall_now;
use crate::bus::{HEARTBEAT_BYTES_MAX, platform};
use crate::format::heartbeat::{self, Beat};
use crate::format::order::Order;

/// A task that ends before this needs no beat, and pays for no thread.
pub(super) const FIRST_BEAT_AFTER_MS: u64 = 250;

/// No faster, whatever the order says: beats are looked at, not streamed.
const BEAT_EVERY_MS_MIN: u64 = 50;

/// Between two beats, however fast the progress moves.
const PROGRESS_EVERY_MS: u64 = 500;

/// What the agent's output tells about its progress.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Said {
    pub(super) progress: Option<String>,
    pub(super) tokens_used: Option<u64>,
}

/// The beating thread.
pub(super) struct Beats {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    said: Said,
    is_over: bool,
}

impl Shared {
    /// Waits until the next beat is due: after a while, or sooner if there is something new to tell.
    fn wait(&self, every: Duration, said: &Said) -> MutexGuard<'_, State> {
        let quiet = every.min(Duration::from_millis(PROGRESS_EVERY_MS));
        let is_going_on = |state: &mut State| !state.is_over;
        let waited = self.changed.wait_timeout_while(lock(&self.state), quiet, is_going_on);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let has_nothing_new = |state: &mut State| !state.is_over && state.said == *said;
        let waited = self.changed.wait_timeout_while(state, every.saturating_sub(quiet), has_nothing_new);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Beats {
    /// Begins to beat. Where no thread can be had there are no beats, and the lock alone shows life.
    pub(super) fn start(order: &Order, secrets: Arc<[String]>, started_ms: u64, said: Said) -> Self {
        let shared = Arc::new(Shared::default());
        let beats = Beats { shared: Arc::clone(&shared), thread: None };
        beats.tell(said);
        let mut writer = Writer {
            attempt: order.paths.attempt.clone(),
            path: order.paths.heartbeat.clone(),
            frame: Beat {
                attempt: Some(order.attempt),
                task_id: Some(order.task_id.clone()),
                status: Some("in_progress".to_owned()),
                ..Beat::default()
            },
            secrets,
            started_ms,
            last_seen: None,
            is_agents: false,
        };
        let every = Duration::from_millis(order.beat_every.millis().max(BEAT_EVERY_MS_MIN));
        let beating = move || {
            let mut state = lock(&shared.state);
            while !state.is_over {
                let said = state.said.clone();
                drop(state);
                writer.beat(&said);
                state = shared.wait(every, &said);
            }
        };
        let thread = std::thread::Builder::new().name("beats".to_owned()).spawn(beating).ok();
        Beats { thread, ..beats }
    }

    /// What the next beat will say.
    pub(super) fn tell(&self, said: Said) {
        lock(&self.shared.state).said = said;
        self.shared.changed.notify_all();
    }

    /// Ends the beating; no beat comes after this returns.
    pub(super) fn stop(mut self) {
        lock(&self.shared.state).is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A panic while the state was held cannot have left it half changed.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Writer {
    attempt: PathBuf,
    path: PathBuf,
    frame: Beat,
    secrets: Arc<[String]>,
    started_ms: u64,
    /// The file as it was after our last look or beat.
    last_seen: Option<Glimpse>,
    /// The words in the file are the agent's.
    is_agents: bool,
}

impl Writer {
    fn beat(&mut self, said: &Said) {
        let seen = files::glimpse(&self.path).filter(Glimpse::says_something);
        if seen.is_some() && seen != self.last_seen && self.is_of_this_attempt() {
            // The agent has beaten since: it need not be told what it knows, for one more span.
            self.last_seen = seen;
            self.is_agents = true;
            return;
        }
        let mut beat = self.frame.clone();
        beat.progress = said.progress.as_deref().map(|text| redact(text, &self.secrets));
        beat.tokens_used = said.tokens_used;
        if self.is_agents
            && let Some(own) = self.read()
        {
            beat.progress = own.progress.or(beat.progress);
            beat.tokens_used = own.tokens_used.or(beat.tokens_used);
        }
        let elapsed_ms = platform::monotonic_ms().saturating_sub(self.started_ms);
        beat.elapsed_seconds = Some(elapsed_ms as f64 / 1000.0);
        beat.last_update = Some(wall_now().rfc3339());
        // A beat that cannot be written is tried again at the next one.
        let _ = files::publish(&self.attempt, &self.path, &heartbeat::render(&beat));
        self.last_seen = files::glimpse(&self.path);
    }

    /// A beat that an earlier attempt left behind is nobody's.
    fn is_of_this_attempt(&self) -> bool {
        self.read().is_none_or(|beat| beat.attempt.is_none_or(|attempt| Some(attempt) == self.frame.attempt))
    }

    fn read(&self) -> Option<Beat> {
        let bytes = files::read(&self.path, HEARTBEAT_BYTES_MAX).ok()??;
        heartbeat::read(&bytes).ok()
    }
}
