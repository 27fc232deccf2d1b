//! What the agent prints, for somebody who looks on: on the runner's own terminal, and in the log of it.
//!
//! A terminal that does not keep up, or was stopped by its user, misses some; the agent's own logs do not.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::log_file::LogFile;

/// Less than any terminal takes at once when it takes anything.
const PIECE_BYTES: usize = 512;

pub(super) struct Screen {
    log: LogFile,
}

impl Screen {
    pub(super) fn new(log: LogFile) -> Self {
        Screen { log }
    }

    pub(super) fn show(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.log.append(bytes);
        let mut terminal = io::stdout().lock();
        for piece in bytes.chunks(PIECE_BYTES) {
            if !is_ready(&terminal) || terminal.write_all(piece).is_err() {
                break;
            }
        }
        let _ = terminal.flush();
    }
}

fn is_ready(terminal: &impl AsFd) -> bool {
    let mut ready = [PollFd::new(terminal, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut ready, Some(&at_once)), Ok(1..)) && ready[0].revents().contains(PollFlags::OUT)
}
