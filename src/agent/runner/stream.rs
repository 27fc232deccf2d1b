//! One of the agent's two outputs on its way: read, made free of secrets, logged, and kept for the result.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::kept::Kept;
use super::log_file::LogFile;
use crate::agent::redact::Redactor;

/// As much as a pipe holds.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// After this long without output the rest that a secret might still have begun in is written too.
pub(super) const IDLE_MS: u64 = 2_000;

pub(super) struct Stream {
    source: Option<File>,
    log: LogFile,
    secrets: Arc<[String]>,
    /// Made at the first byte: most of what is costly about it is its making.
    redactor: Option<Redactor>,
    clean: Vec<u8>,
    pub(super) kept: Kept,
    /// When the last bytes came, while some of them may still be held back.
    waiting_since_ms: Option<u64>,
}

/// What one read brought.
pub(super) enum Got {
    /// That many raw bytes stand at the beginning of the buffer.
    Bytes(usize),
    End,
}

impl Stream {
    pub(super) fn new(source: Option<OwnedFd>, log: LogFile, secrets: Arc<[String]>) -> Self {
        let source = source.map(File::from);
        let (redactor, clean, kept) = (None, Vec::new(), Kept::default());
        Stream { source, log, secrets, redactor, clean, kept, waiting_since_ms: None }
    }

    /// What to poll for reading, while it is open.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref().map(AsFd::as_fd)
    }

    /// Reads once; to be called only when there is something to read.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Got {
        let Some(source) = &mut self.source else { return Got::End };
        match source.read(buffer) {
            Ok(count) if count > 0 => Got::Bytes(count),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Got::Bytes(0),
            _ => {
                self.source = None;
                Got::End
            }
        }
    }

    /// Passes raw bytes on. Returns what may be shown of them, and of what was held back before.
    pub(super) fn take_in(&mut self, raw: &[u8], now_ms: u64) -> &[u8] {
        self.clean.clear();
        let secrets = &self.secrets;
        let redactor = self.redactor.get_or_insert_with(|| Redactor::new(secrets.iter().cloned()));
        redactor.push(raw, &mut self.clean);
        self.waiting_since_ms = Some(now_ms);
        self.settle()
    }

    /// When to call `rest` next.
    pub(super) fn idle_at_ms(&self) -> Option<u64> {
        self.waiting_since_ms.map(|since| since + IDLE_MS)
    }

    /// Lets go of what was held back, if nothing has come for long enough.
    pub(super) fn rest(&mut self, now_ms: u64) -> &[u8] {
        self.clean.clear();
        if self.idle_at_ms().is_some_and(|at| at <= now_ms) {
            self.waiting_since_ms = None;
            if let Some(redactor) = &mut self.redactor {
                redactor.idle(&mut self.clean);
            }
        }
        self.settle()
    }

    /// Lets go of everything: nothing more will come.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.clean.clear();
        self.waiting_since_ms = None;
        if let Some(redactor) = &mut self.redactor {
            redactor.finish(&mut self.clean);
        }
        self.settle()
    }

    /// A line of our own among the agent's.
    pub(super) fn remark(&mut self, text: &str) {
        self.log.append(format!("wk: {text}\n").as_bytes());
    }

    /// Secrets that were removed so far.
    pub(super) fn found(&self) -> u64 {
        self.redactor.as_ref().map_or(0, |redactor| redactor.found().values().sum())
    }

    fn settle(&mut self) -> &[u8] {
        self.log.append(&self.clean);
        self.kept.push(&self.clean);
        &self.clean
    }
}
