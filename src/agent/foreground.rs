//! Runs one command for an agent from outside, in the foreground: passes on what it prints, keeps its last lines, and
//! calls back at intervals while it runs.
//!
//! Knows nothing of tasks and writes nothing on the bus. What it has started it ends, with its process group.

#![expect(clippy::disallowed_methods, reason = "this is where a command of an outsider is started")]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::bus::platform;

/// So many of the last lines are kept, of both streams together.
const LINES_KEPT: usize = 5;
/// Of each of them, so much.
const LINE_BYTES_MAX: usize = 400;
/// What the command left in the background may hold its output open; nobody waits for that longer.
const OUTPUT_GRACE_MS: u64 = 1_000;

/// What to run, and how.
pub struct Foreground<'a> {
    pub command: &'a [OsString],
    /// Beside what we have ourselves.
    pub environment: Vec<(&'static str, OsString)>,
    /// Between two calls back.
    pub every: Duration,
    /// Between TERM and KILL.
    pub kill_grace: Duration,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub last_lines: Vec<String>,
    /// The signal that we got and passed on.
    pub interrupted: Option<i32>,
}

impl Ended {
    /// How it ended, in words; `None` if all is well.
    pub fn failure(&self) -> Option<String> {
        match (self.status.code(), self.status.signal()) {
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("exit code {code}")),
            (None, Some(signal)) => {
                let name = signal_hook::low_level::signal_name(signal);
                Some(format!("ended by signal {signal}{}", name.map_or(String::new(), |n| format!(" ({n})"))))
            }
            (None, None) => Some("ended in an unknown way".to_owned()),
        }
    }
}

enum News {
    Exited,
    OutputEnded,
    Signal(i32),
}

type Tail = Arc<Mutex<LastLines>>;

impl Foreground<'_> {
    /// Runs it to its end. `call` gets the last line that was printed, at once and at intervals; if it says `false`, the
    /// command is ended.
    pub fn run(&self, mut call: impl FnMut(Option<String>) -> bool) -> io::Result<Ended> {
        let (program, arguments) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        // Before the start: a signal that comes between would leave the command to itself.
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let mut child = Command::new(program)
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // A group of its own can be ended whole. Then it cannot read from our terminal.
            .process_group(0)
            .stdin(if io::stdin().is_terminal() { Stdio::null() } else { Stdio::inherit() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let group = Pid::from_child(&child);
        let (news, heard) = mpsc::channel();
        let tail = Tail::default();
        if let Some(out) = child.stdout.take() {
            pass_on(out, io::stdout(), tail.clone(), news.clone());
        }
        if let Some(err) = child.stderr.take() {
            pass_on(err, io::stderr(), tail.clone(), news.clone());
        }
        announce_end(group, news.clone());
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let _ = news.send(News::Signal(signal));
            }
        });

        let mut attention = Attention { next_call_ms: 0, kill_at_ms: None, interrupted: None, open: 2 };
        loop {
            let now = platform::monotonic_ms();
            if now >= attention.next_call_ms && attention.kill_at_ms.is_none() {
                attention.next_call_ms = now + self.every.as_millis() as u64;
                if !call(lock(&tail).last()) {
                    attention.ask(group, Signal::TERM, now + self.kill_grace.as_millis() as u64);
                }
            }
            if attention.kill_at_ms.is_some_and(|at| now >= at) {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                attention.kill_at_ms = Some(u64::MAX);
            }
            match heard.recv_timeout(attention.wait(now)) {
                Ok(News::Exited) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(News::OutputEnded) => attention.open -= 1,
                Ok(News::Signal(signal)) => {
                    attention.interrupted = Some(signal);
                    let named = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
                    attention.ask(group, named, now + self.kill_grace.as_millis() as u64);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let exited_ms = platform::monotonic_ms();
        while attention.open > 0 {
            let left = (exited_ms + OUTPUT_GRACE_MS).saturating_sub(platform::monotonic_ms());
            match heard.recv_timeout(Duration::from_millis(left)) {
                Ok(News::OutputEnded) => attention.open -= 1,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        if attention.kill_at_ms.is_some() {
            // Whoever asked for the end means all of it.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let status = child.wait()?;
        let last_lines = lock(&tail).all();
        Ok(Ended { status, last_lines, interrupted: attention.interrupted })
    }
}

/// What the loop waits for next.
struct Attention {
    next_call_ms: u64,
    /// Set once the end was asked for.
    kill_at_ms: Option<u64>,
    interrupted: Option<i32>,
    /// Streams that may still say something.
    open: usize,
}

impl Attention {
    fn ask(&mut self, group: Pid, signal: Signal, kill_at_ms: u64) {
        let _ = rustix::process::kill_process_group(group, signal);
        self.kill_at_ms.get_or_insert(kill_at_ms);
    }

    fn wait(&self, now: u64) -> Duration {
        const LONGEST_MS: u64 = 60_000;
        let until = self.kill_at_ms.unwrap_or(self.next_call_ms);
        Duration::from_millis(until.saturating_sub(now).min(LONGEST_MS))
    }
}

/// Tells when the command has ended, and leaves it to be waited for: until then its number is nobody else's.
fn announce_end(pid: Pid, news: Sender<News>) {
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
        let _ = news.send(News::Exited);
    });
}

fn pass_on(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    tail: Tail,
    news: Sender<News>,
) {
    std::thread::spawn(move || {
        let mut buffer = [0; 8 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    lock(&tail).push(&buffer[..count]);
                    // A reader of ours that has gone away is no reason to end the work.
                    let _ = to.write_all(&buffer[..count]).and_then(|()| to.flush());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = news.send(News::OutputEnded);
    });
}

fn lock(tail: &Tail) -> std::sync::MutexGuard<'_, LastLines> {
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last lines that are not blank.
#[derive(Default)]
struct LastLines {
    whole: VecDeque<String>,
    begun: Vec<u8>,
}

impl LastLines {
    fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n' || *byte == b'\r') {
            let room = LINE_BYTES_MAX.saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") || part.ends_with(b"\r") {
                let line = self.unfinished();
                self.begun.clear();
                self.whole.extend(line);
                let surplus = self.whole.len().saturating_sub(LINES_KEPT);
                self.whole.drain(..surplus);
            }
        }
    }

    fn unfinished(&self) -> Option<String> {
        let line = String::from_utf8_lossy(&self.begun).trim().to_owned();
        (!line.is_empty()).then_some(line)
    }

    fn last(&self) -> Option<String> {
        self.unfinished().or_else(|| self.whole.back().cloned())
    }

    fn all(&self) -> Vec<String> {
        let lines: Vec<String> = self.whole.iter().cloned().chain(self.unfinished()).collect();
        lines[lines.len().saturating_sub(LINES_KEPT)..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_blank_ones_are_not() {
        let mut lines = LastLines::default();
        lines.push(b"1\n2\n\n3\n4");
        lines.push(b"4\r\n5\n6\n   \nunfin");
        assert_eq!(lines.all(), ["3", "44", "5", "6", "unfin"]);
        assert_eq!(lines.last().as_deref(), Some("unfin"));
        lines.push(&[b'x'; 1_000]);
        assert_eq!(
            lines.last().unwrap().len(),
            LINE_BYTES_MAX,
            "a line without an end does not grow for ever"
        );
    }
}
