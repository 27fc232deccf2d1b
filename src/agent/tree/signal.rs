//! Signals to exactly the process that is meant: never to a later one with its pid, to init or to ourselves.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::identity::{ProcessIdentity, Sight};
use super::procfs::Process;
use crate::bus::platform::monotonic_ms;

/// Far below the usual limit of 1024 open files.
const HANDLES_MAX: usize = 128;

/// Why a signal was not sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    #[error("process {0} is not there any more")]
    Gone(u32),
    #[error("process {0} runs where no signal of ours reaches")]
    Elsewhere(u32),
    #[error("process {0} is never signalled from here")]
    Forbidden(u32),
    #[error("signal process {pid}: {source}")]
    Refused { pid: u32, source: Errno },
}

/// Signals this process and no other.
pub fn send(to: &ProcessIdentity, signal: Signal) -> Result<(), SignalError> {
    match to.is_in_sight() {
        Sight::Here => send_to(to.pid, to.started, signal),
        Sight::BeforeReboot => Err(SignalError::Gone(to.pid)),
        Sight::Elsewhere => Err(SignalError::Elsewhere(to.pid)),
    }
}

/// As `send`, for a process that was seen here a moment ago.
pub(super) fn send_to(pid: u32, started: u64, signal: Signal) -> Result<(), SignalError> {
    if pid <= 1 || pid == std::process::id() {
        return Err(SignalError::Forbidden(pid));
    }
    let raw = Pid::from_raw(pid as i32).ok_or(SignalError::Forbidden(pid))?;
    let is_same =
        || Process::read(pid).is_some_and(|process| process.started == started && process.is_alive());
    let answer = match handle::open(raw) {
        // In this order: the handle pins whoever has the pid now, and only then is asked who that is.
        Ok(handle) if is_same() => handle::send(handle, signal),
        Ok(_) | Err(Errno::SRCH) => Err(Errno::SRCH),
        // A kernel or a sandbox without handles: the moment between look and signal remains.
        Err(_) if is_same() => rustix::process::kill_process(raw, signal),
        Err(_) => Err(Errno::SRCH),
    };
    answer.map_err(|source| match source {
        Errno::SRCH => SignalError::Gone(pid),
        source => SignalError::Refused { pid, source },
    })
}

/// Waits until all of these have ended or the time is over, whichever comes first. Where processes have no
/// handles, and for nobody, it just waits.
pub(super) fn wait_for_ends(processes: &[Process], at_most_ms: u64) {
    let mut handles = Vec::new();
    let mut is_blind = processes.is_empty();
    for process in processes.iter().take(HANDLES_MAX) {
        match Pid::from_raw(process.pid as i32).map(handle::open) {
            Some(Ok(handle)) => handles.push(handle),
            Some(Err(Errno::SRCH)) | None => {}
            Some(Err(_)) => is_blind = true,
        }
    }
    let deadline = monotonic_ms() + at_most_ms;
    loop {
        let left_ms = deadline.saturating_sub(monotonic_ms());
        if left_ms == 0 || (handles.is_empty() && !is_blind) {
            return;
        }
        let timeout = Timespec { tv_sec: (left_ms / 1000) as _, tv_nsec: (left_ms % 1000 * 1_000_000) as _ };
        let mut waiting: Vec<PollFd> = handles.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        // A signal may end the wait early; the deadline is looked at again.
        let _ = poll(&mut waiting, Some(&timeout));
        let has_ended: Vec<bool> = waiting.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = has_ended.into_iter();
        handles.retain(|_| !ended.next().unwrap_or(false));
    }
}

/// A descriptor that means one process, whatever becomes of its pid.
#[cfg(target_os = "linux")]
mod handle {
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, Signal};

    pub(super) fn open(pid: Pid) -> rustix::io::Result<OwnedFd> {
        rustix::process::pidfd_open(pid, PidfdFlags::empty())
    }

    pub(super) fn send(handle: OwnedFd, signal: Signal) -> rustix::io::Result<()> {
        rustix::process::pidfd_send_signal(handle, signal)
    }
}

#[cfg(not(target_os = "linux"))]
mod handle {
    use std::os::fd::OwnedFd;

    use rustix::io::Errno;
    use rustix::process::{Pid, Signal};

    pub(super) fn open(_: Pid) -> rustix::io::Result<OwnedFd> {
        Err(Errno::NOSYS)
    }

    pub(super) fn send(_: OwnedFd, _: Signal) -> rustix::io::Result<()> {
        Err(Errno::NOSYS)
    }
}
