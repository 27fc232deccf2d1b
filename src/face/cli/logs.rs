//! `wk logs TASK [-f]`: what a task's agent printed, redacted as it was kept.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::follow::Interrupt;
use super::locate::FoundTask;
use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::layout::{self, AttemptPaths};
use crate::model::Attempt;
use crate::model::state::TaskState;
use crate::view::escape::shown_bytes;

/// Between two looks at logs that are followed.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Prints what a task's agent printed: its standard output here, its standard error on standard error.
///
/// What the commands printed that checked its criteria follows, each below its name.
/// The last attempt is shown unless another is named. Secrets were removed when the logs were written. On a
/// terminal, control characters are shown rather than obeyed; --raw leaves them as they are.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(
    after_help = "Examples:\n  wk logs 2a\n  wk logs 2a -f\n  wk logs 43/2a --attempt 1 --stderr\n  wk logs 2a --tail 20 --json"
)]
pub struct Logs {
    /// TASK, or BATCH/TASK
    task: String,
    /// Goes on until the task has ended
    #[arg(long, short)]
    follow: bool,
    /// Which attempt
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only standard output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only standard error
    #[arg(long)]
    stderr: bool,
    /// Only the last lines
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
    /// Leaves control characters as they are
    #[arg(long)]
    raw: bool,
}

impl Logs {
    pub fn run(self, desk: &Desk) -> Outcome {
        let found = locate::task(desk, &self.task)?;
        if self.follow && !desk.json {
            return self.follow_from_the_beginning(desk, found);
        }
        let attempt = self.attempt_in(&found)?;
        if desk.json {
            return self.print_json(&found, attempt);
        }
        for stream in &mut self.streams(&found, attempt) {
            stream.print_rest(self.tail, self.escapes());
        }
        self.print_checks(&found, attempt);
        Ok(Exit::Done)
    }

    fn escapes(&self) -> bool {
        !self.raw && terminal::is_terminal()
    }

    /// The attempt that is meant, if an agent of ours had it.
    fn attempt_in(&self, found: &FoundTask) -> Result<Attempt, Trouble> {
        let task = &found.state.tasks[found.task];
        let name = format!("{}/{}", found.batch.id, task.spec.key);
        let meant = match self.attempt {
            Some(number) => task.tries.iter().find(|one| one.attempt.number() == number),
            None => task.tries.last(),
        };
        let Some(meant) = meant else {
            let trouble = match (self.attempt, task.tries.len()) {
                (Some(number), count) if count > 0 => {
                    format!("{name} has no attempt {number}; it had {count}")
                }
                _ => format!("{name} has not begun"),
            };
            return Err(
                Trouble::new(Exit::BadRequest, trouble).hint(format!("`wk why {name}` tells its story"))
            );
        };
        if !task.is_ours() {
            return Err(Trouble::new(
                Exit::BadRequest,
                format!("{name} is done by an outsider, whose output is not kept"),
            )
            .hint("agents that are named in settings, or by --agent, are started and logged"));
        }
        Ok(meant.attempt)
    }

    fn streams(&self, found: &FoundTask, attempt: Attempt) -> Vec<Stream> {
        self.streams_in(&found.batch.paths.attempt(found.state.key(found.task), attempt))
    }

    fn streams_in(&self, folder: &AttemptPaths) -> Vec<Stream> {
        let mut streams = Vec::new();
        if !self.stderr {
            streams.push(Stream::new(folder.stdout(), false));
        }
        if !self.stdout {
            streams.push(Stream::new(folder.stderr(), true));
        }
        streams
    }

    fn print_json(&self, found: &FoundTask, attempt: Attempt) -> Outcome {
        let text = |stream: &mut Stream| {
            let bytes = stream.read_rest();
            String::from_utf8_lossy(last_lines(&bytes, self.tail)).into_owned()
        };
        let mut object = serde_json::json!({
            "batch": found.batch.id.to_json(),
            "task": found.state.key(found.task),
            "attempt": attempt,
        });
        for stream in &mut self.streams(found, attempt) {
            object[stream.name()] = text(stream).into();
            if stream.gone() > 0 {
                object[format!("{}_gone_bytes", stream.name())] = stream.gone().into();
            }
        }
        for (check, folder) in checks(found, attempt) {
            for stream in &mut self.streams_in(&folder) {
                let name = if stream.is_error { "stderr" } else { "stdout" };
                object["checks"][&check][name] = text(stream).into();
            }
        }
        super::print_json(&object);
        Ok(Exit::Done)
    }

    /// Waits until an agent of ours begins the task, unless it ends before that.
    fn follow_from_the_beginning(&self, desk: &Desk, mut found: FoundTask) -> Outcome {
        let interrupt = Interrupt::listen(None)?;
        let name = format!("{}/{}", found.batch.id, found.state.key(found.task));
        while self.attempt.is_none() && task(&found).is_ours() && task(&found).tries.is_empty() {
            if task(&found).is_done() || found.batch.is_archived {
                terminal::tell(&format!("{name} has ended without having begun; `wk why {name}` tells why"));
                return Ok(Exit::Done);
            }
            if interrupt.came() {
                return Ok(Exit::Interrupted);
            }
            #[expect(clippy::disallowed_methods, reason = "a follower looks now and then")]
            std::thread::sleep(LOOK_EVERY);
            found = locate::task(desk, &name)?;
        }
        let attempt = self.attempt_in(&found)?;
        self.follow_to_the_end(desk, found, attempt, &interrupt)
    }

    /// Shows one attempt after the other, until the task has ended.
    fn follow_to_the_end(
        &self,
        desk: &Desk,
        mut found: FoundTask,
        mut attempt: Attempt,
        interrupt: &Interrupt,
    ) -> Outcome {
        let name = format!("{}/{}", found.batch.id, found.state.key(found.task));
        loop {
            let mut streams = self.streams(&found, attempt);
            let mut tail = self.tail;
            let next = loop {
                // First whether it is over, then the rest of it: nothing is printed in between.
                found = locate::task(desk, &name)?;
                let is_over = found.state.tasks[found.task].live_attempt() != Some(attempt);
                let moved = self.streams(&found, attempt);
                for (stream, now_at) in streams.iter_mut().zip(moved) {
                    stream.path = now_at.path;
                    stream.print_rest(tail, self.escapes());
                }
                tail = None;
                if interrupt.came() {
                    return Ok(Exit::Interrupted);
                }
                if is_over && let Some(next) = self.next_attempt(&found, attempt) {
                    if !has_moved(desk, &found, &name)? {
                        break next;
                    }
                    continue;
                }
                #[expect(clippy::disallowed_methods, reason = "a follower looks now and then")]
                std::thread::sleep(LOOK_EVERY);
            };
            match next {
                Next::Attempt(later) => {
                    terminal::tell(&format!("--- attempt {later} ---"));
                    attempt = later;
                }
                Next::Ended => {
                    self.print_checks(&found, attempt);
                    return Ok(Exit::Done);
                }
            }
        }
    }

    /// What the commands printed that decided the criteria, each below its name.
    fn print_checks(&self, found: &FoundTask, attempt: Attempt) {
        for (name, folder) in checks(found, attempt) {
            terminal::tell(&format!("--- check {name} ---"));
            for stream in &mut self.streams_in(&folder) {
                stream.print_rest(self.tail, self.escapes());
            }
        }
    }

    /// What follows an attempt that is over; nothing while it is not known yet.
    fn next_attempt(&self, found: &FoundTask, shown: Attempt) -> Option<Next> {
        let task = &found.state.tasks[found.task];
        match task.tries.last() {
            _ if self.attempt.is_some() => Some(Next::Ended),
            Some(last) if last.attempt > shown => Some(Next::Attempt(last.attempt)),
            _ if task.is_done() || found.batch.is_archived => Some(Next::Ended),
            _ => None,
        }
    }
}

/// Whether the batch was archived, or opened again, since we looked: then its logs may have been gone from where we
/// looked for them.
fn has_moved(desk: &Desk, found: &FoundTask, name: &str) -> Result<bool, Trouble> {
    Ok(locate::task(desk, name)?.batch.is_archived != found.batch.is_archived)
}

fn task(found: &FoundTask) -> &TaskState {
    &found.state.tasks[found.task]
}

/// The folders of the commands that decided the attempt's criteria, by the criterion's name.
fn checks(found: &FoundTask, attempt: Attempt) -> Vec<(String, AttemptPaths)> {
    let folder = found.batch.paths.attempt(found.state.key(found.task), attempt).checks();
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let named = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), AttemptPaths::at(entry.path())));
    let mut checks: Vec<(String, AttemptPaths)> = named.collect();
    checks.sort_by(|one, other| one.0.cmp(&other.0));
    checks
}

enum Next {
    Attempt(Attempt),
    Ended,
}

/// One log, and how far it was shown.
struct Stream {
    path: PathBuf,
    is_error: bool,
    /// The piece that is being read. It stays open: a log that is full is renamed, and goes on in a new file.
    piece: Option<Piece>,
}

struct Piece {
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    offset: u64,
}

impl Piece {
    fn open(path: &Path) -> Option<Piece> {
        let file = File::open(path).ok()?;
        let identity = identity_of(&file.metadata().ok()?);
        Some(Piece { file, identity, offset: 0 })
    }

    fn read_rest(&mut self, into: &mut Vec<u8>) {
        self.offset += self.file.read_to_end(into).unwrap_or(0) as u64;
    }
}

fn identity_of(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

impl Stream {
    fn new(path: PathBuf, is_error: bool) -> Self {
        Stream { path, is_error, piece: None }
    }

    fn name(&self) -> &'static str {
        if self.is_error { "stderr" } else { "stdout" }
    }

    fn print_rest(&mut self, tail: Option<usize>, escapes: bool) {
        let is_first = self.piece.is_none();
        let bytes = self.read_rest();
        let gone = self.gone();
        if is_first && gone > 0 && tail.is_none() {
            terminal::tell(&format!(
                "note: the first {gone} bytes of {} are gone: of a long log the newest part is kept (log_mb)",
                self.name()
            ));
        }
        let bytes = last_lines(&bytes, tail);
        if bytes.is_empty() {
            return;
        }
        let shown = if escapes { shown_bytes(bytes).into_bytes() } else { bytes.to_vec() };
        let _ = match self.is_error {
            true => std::io::stderr().lock().write_all(&shown),
            false => std::io::stdout().lock().write_all(&shown).and_then(|()| std::io::stdout().flush()),
        };
    }

    /// How much of the log's beginning is gone.
    fn gone(&self) -> u64 {
        let text = std::fs::read_to_string(layout::gone_of_log(&self.path)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// What came since the last look; the older half of a log that was cut comes first, without half a line.
    fn read_rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.piece.is_none() {
            // The newest is opened first: if it is cut meanwhile, it is the older half.
            let Some(newest) = Piece::open(&self.path) else { return bytes };
            let older = Piece::open(&layout::older_log(&self.path));
            if let Some(mut older) = older.filter(|older| older.identity != newest.identity) {
                older.read_rest(&mut bytes);
            }
            self.piece = Some(newest);
            if self.gone() > 0 {
                bytes.drain(..bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1));
            }
        }
        self.go_on(&mut bytes);
        bytes
    }

    /// Reads the present piece to its end, and whatever pieces follow it.
    fn go_on(&mut self, bytes: &mut Vec<u8>) {
        while let Some(piece) = &mut self.piece {
            piece.read_rest(bytes);
            let Ok(meta) = std::fs::metadata(&self.path) else { return };
            let (device, _) = identity_of(&meta);
            if identity_of(&meta) == piece.identity {
                return;
            }
            // Written to until it was renamed.
            piece.read_rest(bytes);
            let (identity, offset) = (piece.identity, piece.offset);
            let Some(mut next) = Piece::open(&self.path) else { return };
            if device != identity.0 {
                // The same log, moved to another device.
                next.offset = next.file.seek(SeekFrom::Start(offset)).unwrap_or(0);
            } else if let Some(mut older) = Piece::open(&layout::older_log(&self.path))
                && older.identity != identity
                && older.identity != next.identity
            {
                bytes
                    .extend_from_slice(b"\nwk: output may be missing here: the log was cut more than once\n");
                older.read_rest(bytes);
            }
            self.piece = Some(next);
        }
    }
}

fn last_lines(bytes: &[u8], count: Option<usize>) -> &[u8] {
    let Some(count) = count else { return bytes };
    let end = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let starts = end.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    match count {
        0 => &[],
        _ => &bytes[starts.clone().nth(count - 1).unwrap_or(0)..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_loses_nothing_where_a_log_is_cut_between_two_looks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        let append = |text: &str| {
            let mut file = File::options().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let cut = || std::fs::rename(&path, layout::older_log(&path)).unwrap();
        let mut stream = Stream::new(path.clone(), false);
        append("one\n");
        assert_eq!(stream.read_rest(), b"one\n");
        append("two\n");
        cut();
        append("three\n");
        assert_eq!(stream.read_rest(), b"two\nthree\n");
        // Longer than what was shown of the last one, so that its size tells nothing.
        append("four\n");
        cut();
        append(&"five ".repeat(9));
        assert_eq!(stream.read_rest(), [b"four\n".as_slice(), "five ".repeat(9).as_bytes()].concat());
        cut();
        append("six\n");
        cut();
        append("seven\n");
        let shown = String::from_utf8(stream.read_rest()).unwrap();
        assert!(shown.contains("missing") && shown.ends_with("six\nseven\n"), "{shown}");
    }

    #[test]
    fn the_last_lines_are_whole_lines() {
        assert_eq!(last_lines(b"a\nb\nc\n", Some(2)), b"b\nc\n");
        assert_eq!(last_lines(b"a\nb\nc", Some(1)), b"c");
        assert_eq!(last_lines(b"a\n", Some(5)), b"a\n");
        assert_eq!(last_lines(b"a\n", Some(0)), b"");
        assert_eq!(last_lines(b"a\nb\n", None), b"a\nb\n");
    }
}
