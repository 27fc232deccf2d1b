//! The runner's one loop: it waits for output, room for input, signals and the clock, whichever comes first.
//!
//! What comes is passed on at once and in bounded pieces, so that a flood of output holds up no signal. When
//! the agent should end is for `reasons`; how, for `ending`.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use super::beats::{Beats, FIRST_BEAT_AFTER_MS, Said};
use super::log_file::LogFile;
use super::prompt::Prompt;
use super::reasons::Reasons;
use super::screen::Screen;
use super::signals::Signals;
use super::stream::{CHUNK_BYTES, Got, Stream};
use super::{Begin, Mirrored};
use crate::agent::tree;
use crate::bus::platform::monotonic_ms;
use crate::format::order::Order;
use crate::format::transcript::{Transcript, Update};
use crate::model::clock::ActiveClock;
use crate::model::exit::Stopped;
use crate::model::preset::Dialect;
use crate::model::{Seconds, Tick};

/// The longest wait, also where nothing is planned.
const WAIT_MS_MAX: u64 = 60_000;

/// Where nothing tells that the agent has ended, it is asked this often.
const WAIT_WITHOUT_HANDLE_MS: u64 = 50;

/// What is read at first.
const FIRST_CHUNK_BYTES: usize = 4 << 10;

/// How often the last line of a plain output is looked at.
const HEAR_EVERY_MS: u64 = 200;

/// How much is read after everybody has gone: what is still in the pipes, and no endless stream of a stranger
/// who was handed one.
const LAST_CHUNKS_MAX: usize = 256;

/// Everything that one agent needs to be looked after.
pub(super) struct Attendant<'a> {
    pub(super) order: &'a Order,
    signals: Signals,
    /// Can be read when the agent has ended; `None` where the system has no such thing.
    end: Option<OwnedFd>,
    /// The agent's process, until it has ended and was waited for.
    pub(super) agent: Option<u32>,
    /// The number of its process group, also after its end.
    pub(super) group: u32,
    pub(super) status: Option<ExitStatus>,
    /// Nobody is left of the agent's whole tree.
    pub(super) is_alone: bool,
    prompt: Option<Prompt<'a>>,
    pub(super) out: Stream,
    pub(super) err: Stream,
    screen: Option<Screen>,
    /// Made at the first byte, for those who do not print for people.
    transcript: Option<Transcript>,
    /// When the last line was heard of one who does.
    heard_ms: u64,
    said: Said,
    pub(super) secrets: Arc<[String]>,
    beats: Option<Beats>,
    pub(super) clock: ActiveClock,
    pub(super) started_ms: u64,
    buffer: Vec<u8>,
    /// The last read filled the buffer.
    is_full: bool,
}

impl<'a> Attendant<'a> {
    pub(super) fn new(begin: Begin<'a>, mut child: Child, started_ms: u64) -> Self {
        let Begin { order, logs, mirrors, signals, secrets } = begin;
        let log = |path| LogFile::create(path, order.limits.log_mb);
        let (mut out_log, mut err_log) = (log(logs.stdout()), log(logs.stderr()));
        if let Some(Mirrored { workspace, stdout, stderr }) = mirrors {
            out_log = out_log.mirrored(workspace, stdout);
            err_log = err_log.mirrored(workspace, stderr);
        }
        let out = Stream::new(child.stdout.take().map(OwnedFd::from), out_log, Arc::clone(&secrets));
        let err = Stream::new(child.stderr.take().map(OwnedFd::from), err_log, Arc::clone(&secrets));
        let text = order.stdin.as_deref().unwrap_or_default();
        let prompt = child.stdin.take().and_then(|pipe| Prompt::begin(pipe.into(), text).ok().flatten());
        let end = Pid::from_raw(child.id() as i32).and_then(handle_of);
        Attendant {
            order,
            signals,
            end,
            agent: Some(child.id()),
            group: child.id(),
            status: None,
            is_alone: false,
            prompt,
            out,
            err,
            screen: order.echo.then(|| Screen::new(log(logs.pane()))),
            transcript: None,
            heard_ms: 0,
            said: Said::default(),
            secrets,
            beats: None,
            clock: ActiveClock::resume(Tick(0), started_ms),
            started_ms,
            buffer: vec![0; FIRST_CHUNK_BYTES],
            is_full: false,
        }
    }

    /// What the beats say until the agent says something itself.
    pub(super) fn announce(&mut self, progress: &str) {
        self.said.progress = Some(progress.to_owned());
    }

    /// Looks after the agent until it ends, or until there is a reason to end it.
    pub(super) fn attend(&mut self, reasons: &mut Reasons) -> Option<Stopped> {
        let timeout = Tick(0).after(self.order.timeout);
        loop {
            let now_ms = monotonic_ms();
            let beat_at = self.started_ms + FIRST_BEAT_AFTER_MS;
            let own = [self.out.idle_at_ms(), self.err.idle_at_ms(), self.beats.is_none().then_some(beat_at)];
            let next_ms = own.into_iter().flatten().fold(reasons.next_ms(), u64::min);
            let until_timeout = timeout.since(self.clock.now());
            let most_ms = if self.end.is_some() { WAIT_MS_MAX } else { WAIT_WITHOUT_HANDLE_MS };
            let wait_ms = next_ms.saturating_sub(now_ms).min(until_timeout).min(most_ms);
            let may_have_ended = self.pass_on(wait_ms);
            let now_ms = monotonic_ms();
            self.clock.advance(now_ms, wait_ms);
            // Orphans that were left to us come to no wait; they are collected now and then.
            if may_have_ended || self.end.is_none() || now_ms >= reasons.next_ms() {
                self.reap();
            }
            // It has ended by itself, which is no reason to stop it.
            self.agent?;
            if let Some(call) = self.signals.take() {
                return Some(reasons.called(call));
            }
            if self.clock.now() >= timeout {
                return Some(Stopped::Timeout { limit: self.order.timeout });
            }
            if let Some(stopped) = reasons.look(now_ms, self.clock.now()) {
                return Some(stopped);
            }
            if self.beats.is_none() && now_ms >= beat_at {
                let said = self.said.clone();
                self.beats = Some(Beats::start(self.order, Arc::clone(&self.secrets), self.started_ms, said));
            }
        }
    }

    /// Waits at most this long for something to come, and passes it on. Tells whether the agent may have ended;
    /// it is still to be waited for.
    pub(super) fn pass_on(&mut self, wait_ms: u64) -> bool {
        // Before the look, so that nothing can have come unseen by then: we may be held up after it.
        let now_ms = monotonic_ms();
        let Ready { end, prompt, streams: [out, err] } = self.wait(wait_ms);
        if prompt && let Some(prompt) = self.prompt.take() {
            self.prompt = prompt.go_on();
        }
        if out {
            self.pass_on_output();
        }
        if err {
            self.pass_on_errors();
        }
        let screen = &mut self.screen;
        let is_idle = |stream: &Stream| stream.idle_at_ms().is_some_and(|at| at <= now_ms);
        let has_rested = is_idle(&self.out);
        for stream in [&mut self.out, &mut self.err] {
            if is_idle(stream) {
                show(screen, stream.rest(now_ms));
            }
        }
        if has_rested {
            // A question that waits for its answer has no end of line.
            self.hear_line(self.out.kept.last_lines(1).pop(), now_ms);
        }
        end
    }

    fn wait(&self, wait_ms: u64) -> Ready {
        let mut polled = Vec::with_capacity(4);
        let mut add = |source: Option<_>, flags| match source {
            Some(source) => {
                polled.push(PollFd::from_borrowed_fd(source, flags));
                polled.len() - 1
            }
            None => usize::MAX,
        };
        let end = add(self.end.as_ref().map(OwnedFd::as_fd), PollFlags::IN);
        let prompt = add(self.prompt.as_ref().map(Prompt::pipe), PollFlags::OUT);
        let out = add(self.out.source(), PollFlags::IN);
        let err = add(self.err.source(), PollFlags::IN);
        let timeout = Timespec { tv_sec: (wait_ms / 1000) as _, tv_nsec: (wait_ms % 1000 * 1_000_000) as _ };
        if poll(&mut polled, Some(&timeout)).is_err() {
            // A signal ended the wait; it may have been about the end of a child.
            return Ready { end: true, ..Ready::default() };
        }
        let is_ready = |at: usize| polled.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ready { end: is_ready(end), prompt: is_ready(prompt), streams: [is_ready(out), is_ready(err)] }
    }

    /// Collects whoever has ended, orphans that were left to us too.
    fn reap(&mut self) {
        let reaped = tree::reap();
        for (pid, status) in reaped.ended {
            self.note_end(pid, status);
        }
        self.is_alone = reaped.is_childless;
        if self.is_alone {
            // Whoever waited for it, it is gone.
            self.agent = None;
        }
    }

    pub(super) fn note_end(&mut self, pid: u32, status: ExitStatus) {
        if self.agent == Some(pid) {
            self.agent = None;
            self.end = None;
            self.status = Some(status);
        }
    }

    fn pass_on_output(&mut self) {
        self.make_room();
        let Got::Bytes(count) = self.out.read(&mut self.buffer) else { return };
        self.is_full = count == self.buffer.len();
        let raw = &self.buffer[..count];
        let now_ms = monotonic_ms();
        let dialect = self.order.dialect;
        if dialect == Dialect::Plain {
            show(&mut self.screen, self.out.take_in(raw, now_ms));
            if now_ms >= self.heard_ms + HEAR_EVERY_MS {
                self.hear_line(self.out.kept.last_whole_line(), now_ms);
            }
            return;
        }
        let update = self.transcript.get_or_insert_with(|| Transcript::new(dialect)).push(raw);
        show(&mut self.screen, self.out.take_in(raw, now_ms));
        if let Some(update) = update {
            self.hear(update);
        }
    }

    /// The progress of an agent that prints for people is its last line. To look at every line of a flood
    /// would cost more than all the rest.
    fn hear_line(&mut self, line: Option<String>, now_ms: u64) {
        if self.order.dialect != Dialect::Plain {
            return;
        }
        self.heard_ms = now_ms;
        let Some(mut line) = line else { return };
        line.push('\n');
        if let Some(update) = Transcript::new(Dialect::Plain).push(line.as_bytes()) {
            self.hear(update);
        }
    }

    fn hear(&mut self, update: Update) {
        self.said.progress = update.progress.or(self.said.progress.take());
        self.said.tokens_used = update.tokens_used.or(self.said.tokens_used);
        if let Some(beats) = &self.beats {
            beats.tell(self.said.clone());
        }
    }

    /// Most agents say little, and memory that is touched costs time: the buffer grows when somebody fills it.
    fn make_room(&mut self) {
        if self.is_full && self.buffer.len() < CHUNK_BYTES {
            self.buffer.resize(CHUNK_BYTES, 0);
        }
    }

    fn pass_on_errors(&mut self) {
        self.make_room();
        let Got::Bytes(count) = self.err.read(&mut self.buffer) else { return };
        self.is_full = count == self.buffer.len();
        show(&mut self.screen, self.err.take_in(&self.buffer[..count], monotonic_ms()));
    }

    /// Reads what is left in the pipes, writes what was held back, and stops beating.
    pub(super) fn finish(&mut self) -> Option<Transcript> {
        for _ in 0..LAST_CHUNKS_MAX {
            if self.out.source().is_none() && self.err.source().is_none() {
                break;
            }
            let [out, err] = self.wait(0).streams;
            if out {
                self.pass_on_output();
            }
            if err {
                self.pass_on_errors();
            }
            if !out && !err {
                break;
            }
        }
        for stream in [&mut self.out, &mut self.err] {
            show(&mut self.screen, stream.finish());
        }
        if let Some(beats) = self.beats.take() {
            beats.stop();
        }
        self.transcript.take()
    }

    pub(super) fn elapsed(&self) -> Seconds {
        Seconds::from_millis(monotonic_ms().saturating_sub(self.started_ms))
    }
}

/// What a wait has found.
#[derive(Default)]
struct Ready {
    end: bool,
    prompt: bool,
    /// Output and errors.
    streams: [bool; 2],
}

#[cfg(target_os = "linux")]
fn handle_of(agent: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(agent, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn handle_of(_: Pid) -> Option<OwnedFd> {
    None
}

fn show(screen: &mut Option<Screen>, clean: &[u8]) {
    if let Some(screen) = screen {
        screen.show(clean);
    }
}
