//! What the agent is told on its standard input: all of it, in its own time, then the end.
//!
//! Never waits: an agent that does not read holds up nobody, and one that closes its input has said enough.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

pub(super) struct Prompt<'a> {
    pipe: File,
    rest: &'a [u8],
}

impl<'a> Prompt<'a> {
    /// Begins to tell; what fits into the pipe is told at once. `None` when nothing is left to tell.
    pub(super) fn begin(pipe: OwnedFd, text: &'a str) -> io::Result<Option<Self>> {
        let flags = rustix::fs::fcntl_getfl(&pipe)?;
        // Our end alone: the agent's own reads wait as they always do.
        rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?;
        Ok(Prompt { pipe: File::from(pipe), rest: text.as_bytes() }.go_on())
    }

    /// What to poll for writing.
    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Tells what the pipe takes. `None` when all is told or nobody listens: then the pipe is closed.
    pub(super) fn go_on(mut self) -> Option<Self> {
        while !self.rest.is_empty() {
            match self.pipe.write(self.rest) {
                Ok(count) => self.rest = &self.rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(self),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        None
    }
}
