//! Progress that people look at: a live dashboard on a terminal, one every half minute elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::locate::Found;
use super::terminal::{self, Canvas};
use super::{Desk, Exit, Trouble};
use crate::bus::lease::Lease;
use crate::bus::wake::Nudger;
use crate::bus::{self, Content, Disk, RealDisk, platform};
use crate::format::heartbeat;
use crate::model::Tick;
use crate::model::event::BatchStatus;
use crate::model::state::{BatchState, Phase};
use crate::outcome::handoff::progress::Told;
use crate::view::dashboard::dashboard;
use crate::view::snapshot::{Live, LiveTask, Mode, Snapshot};
use crate::watcher::run::wall_now;

/// Between two looks for those who want lines: progress is a matter of seconds.
const LINES_MS: u64 = 1_000;

/// Between two drawings on a terminal.
pub const REDRAW_MS: u64 = 250;

/// Shows how batches go, as often as the place asks for.
pub struct Progress {
    /// For programs: what is new, a line each.
    lines: Option<Told>,
    canvas: Canvas,
    is_live: bool,
    is_silent: bool,
    interval_ms: u64,
    next_ms: u64,
}

impl Progress {
    pub fn new(desk: &Desk, is_silent: bool) -> Self {
        let is_live = terminal::is_terminal();
        let interval_ms = if is_live { REDRAW_MS } else { desk.settings.dashboard_interval.millis() };
        // Elsewhere the first dashboard comes after an interval: a short run has only its summary.
        let next_ms = if is_live { 0 } else { platform::monotonic_ms() + interval_ms };
        Progress {
            lines: None,
            canvas: Canvas::default(),
            is_live,
            is_silent: is_silent || desk.json,
            interval_ms,
            next_ms,
        }
    }

    /// Lines of JSON instead of pictures.
    pub fn as_lines(desk: &Desk) -> Self {
        Progress { lines: Some(Told::default()), ..Progress::new(desk, true) }
    }

    pub fn is_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Tells what is new in a batch, to those who want lines.
    pub fn tell(&mut self, state: &BatchState, live: impl FnOnce() -> Live) {
        if let Some(told) = &mut self.lines {
            told.news(state, &live()).iter().for_each(print_line);
        }
    }

    /// How long a wait may last so that drawing goes on.
    pub fn longest_wait_ms(&self) -> u64 {
        match (&self.lines, self.is_silent) {
            (Some(_), _) => LINES_MS,
            (None, true) => u64::MAX,
            (None, false) => self.interval_ms,
        }
    }

    /// Shows the batches if it is time.
    pub fn show(&mut self, snapshots: impl FnOnce() -> Vec<Snapshot>) {
        let now = platform::monotonic_ms();
        if self.is_silent || now < self.next_ms {
            return;
        }
        self.next_ms = now + self.interval_ms;
        self.draw(&snapshots());
    }

    /// Takes the drawing away before lines are printed; the next one comes below them.
    pub fn make_room(&mut self) {
        if self.is_live && !self.is_silent {
            self.canvas.draw("");
            self.canvas.leave();
            self.next_ms = 0;
        }
    }

    /// Shows the last state before something else is printed.
    pub fn finish(&mut self, snapshots: &[Snapshot]) {
        if self.is_live && !self.is_silent {
            self.draw(snapshots);
        }
        self.canvas.leave();
    }

    fn draw(&mut self, snapshots: &[Snapshot]) {
        let look = terminal::look();
        let text: Vec<String> = snapshots.iter().map(|snapshot| dashboard(snapshot, look)).collect();
        match self.is_live {
            true => self.canvas.draw(&text.join("\n")),
            false => terminal::print(&format!("{}\n", text.join("\n"))),
        }
    }
}

/// One event a line.
pub fn print_line(event: &serde_json::Value) {
    terminal::print(&format!("{event}\n"));
}

/// Notices Ctrl-C and TERM.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on; `nudger` wakes a waiting watcher.
    pub fn listen(nudger: Option<Nudger>) -> Result<Interrupt, Trouble> {
        let interrupt = Interrupt::default();
        let flag = interrupt.0.clone();
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
            .map_err(|error| Trouble::new(Exit::Failure, format!("signals: {error}")))?;
        std::thread::spawn(move || {
            for _ in signals.forever() {
                flag.store(true, Ordering::Relaxed);
                if let Some(nudger) = &nudger {
                    nudger.nudge();
                }
            }
        });
        Ok(interrupt)
    }

    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a reader sees of a batch that another process watches.
pub fn snapshot_of(found: &Found, state: &BatchState) -> Snapshot {
    Snapshot::of(state, &live_of(found, state), last_tick(state), wall_now())
}

/// What the agents of such a batch say of themselves.
fn live_of(found: &Found, state: &BatchState) -> Live {
    let disk = RealDisk::default();
    let warnings = if found.is_archived { Vec::new() } else { told_warnings(&disk, found) };
    let mut live = Live { mode: Mode::default(), warnings, ..Live::default() };
    for &task in &state.live {
        let paths = &found.paths;
        let key = state.key(task);
        let mut shown = LiveTask::default();
        if matches!(state.tasks[task].phase, Phase::Offered { .. }) {
            shown.spec_path = Some(paths.spec(key).to_string_lossy().into_owned());
        }
        let outbox = state.tasks[task].live_attempt().map(|attempt| paths.outbox(key, attempt).heartbeat());
        // An agent that knows no outbox beats at the task's plain name.
        let mut beats = outbox.into_iter().chain([paths.heartbeat(key)]);
        let beat_at = |path: PathBuf| match disk.read(&path, bus::HEARTBEAT_BYTES_MAX) {
            Ok(Content::Bytes { bytes, .. }) => heartbeat::read(&bytes).ok(),
            _ => None,
        };
        if let Some(beat) = beats.find_map(beat_at) {
            shown.progress = beat.progress;
            shown.tokens_used = beat.tokens_used;
        }
        live.tasks.insert(task, shown);
    }
    live
}

/// What its watcher last had to say about files that it ignores.
fn told_warnings(disk: &RealDisk, found: &Found) -> Vec<String> {
    let Ok(Content::Bytes { bytes, .. }) = disk.read(&found.paths.status(), bus::PLAN_BYTES_MAX) else {
        return Vec::new();
    };
    let status: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let told = status["live"]["warnings"].as_array().cloned().unwrap_or_default();
    told.iter().filter_map(|warning| warning.as_str().map(str::to_owned)).collect()
}

/// A reader has no active clock of its own; the journal's last word is near enough for people.
fn last_tick(state: &BatchState) -> Tick {
    state.backing_off.first().map_or(Tick(0), |(until, _)| *until)
}

/// Why following a batch ended.
pub enum Followed {
    Ended(BatchStatus),
    /// The watcher is gone, and the batch is not done.
    Unwatched,
    Interrupted,
    /// Its directory is neither under way nor in the archive.
    Removed,
}

/// Shows a batch that another process watches, until it ends.
pub fn follow(
    desk: &Desk,
    found: &Found,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<Followed, Trouble> {
    const LOOK_EVERY: Duration = Duration::from_millis(200);
    let disk = RealDisk::default();
    let mut last_size = None;
    let mut state = None;
    loop {
        if interrupt.came() {
            return Ok(Followed::Interrupted);
        }
        // Asked before the look: whatever a watcher did before it went is seen then.
        let is_watched = Lease::holder(&desk.layout).is_some();
        let Some(mut now) = super::locate::known_batch(desk, &found.id)? else {
            return Ok(Followed::Removed);
        };
        if now.is_archived {
            let (state, _) = now.load(&disk)?;
            progress.tell(&state, Live::default);
            progress.finish(&[snapshot_of(&now, &state)]);
            let status = state.finished.map_or(BatchStatus::Failure, |(status, _)| status);
            return Ok(Followed::Ended(status));
        }
        let size = disk.look(&found.paths.journal()).ok().flatten().map(|look| look.size);
        if size != last_size || state.is_none() {
            last_size = size;
            state = now.load(&disk).ok().map(|(state, _)| state).or(state);
        }
        if let Some(state) = &state {
            progress.tell(state, || live_of(found, state));
            progress.show(|| vec![snapshot_of(found, state)]);
        }
        if !is_watched {
            return Ok(Followed::Unwatched);
        }
        #[expect(clippy::disallowed_methods, reason = "a follower looks now and then; nothing waits for it")]
        std::thread::sleep(LOOK_EVERY);
    }
}
