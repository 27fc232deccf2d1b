//! A process that bears runners: it is started once, and then forks one for each attempt that it is told.
//!
//! Starting a program costs many times what a fork of a small process does, and every task needs a runner. The
//! runners are as free as if they had been started one by one: each has a session of its own, and neither the
//! nursery's end nor the watcher's touches them. It must never have a second thread: a fork copies only one.

#![expect(clippy::disallowed_methods, reason = "the watcher starts its nursery here")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::WaitOptions;

use super::granted::Granted;
use super::runner;
use super::tree::ProcessIdentity;
use crate::bus::platform::{self, Forked};

/// What the runner's program is told to become one.
pub const NURSERY: &str = "--nursery";
/// Neither a path nor a variable can hold it, so it ends one.
const END: u8 = 0;
/// Longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4096;

/// The watcher's end.
#[derive(Debug)]
pub struct Nursery {
    child: Child,
    orders: Option<ChildStdin>,
    /// What it was told of already.
    told: Granted,
}

impl Drop for Nursery {
    /// Its end is waited for: whoever measures the watcher then measures the runners too.
    fn drop(&mut self) {
        self.orders.take();
        let _ = self.child.wait();
    }
}

impl Nursery {
    pub fn start(program: &Path) -> io::Result<Nursery> {
        let mut command = Command::new(program);
        command.arg(NURSERY).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        Ok(Nursery { child, orders, told: Granted::default() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks for a runner. An error means that there is no nursery any more.
    pub fn bear(&mut self, attempt: &Path, granted: &Granted) -> io::Result<()> {
        let mut order = granted.entries_beyond(&self.told);
        self.told.extend(granted.clone());
        order.extend([b"P", attempt.as_os_str().as_bytes(), &[END]].concat());
        self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(&order)
    }
}

/// What the runner's program does when it is to be a nursery: it serves until the watcher is gone. In each
/// process that it bears it goes on as a runner.
pub fn serve() -> Result<(), runner::RunnerError> {
    super::tree::look_around();
    let heir = rustix::process::getppid().and_then(|parent| ProcessIdentity::of(parent.as_raw_pid() as u32));
    let Some(orders) = take_stdin() else { return Ok(()) };
    match next_attempt(orders) {
        Some((attempt, granted)) => runner::run(&attempt, heir, granted),
        None => Ok(()),
    }
}

/// The pipe that orders come through, away from where a runner, and its agent, would inherit it.
fn take_stdin() -> Option<File> {
    let orders = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).ok()?;
    let nothing = File::open("/dev/null").ok()?;
    rustix::stdio::dup2_stdin(nothing).ok()?;
    Some(File::from(orders))
}

/// Forks for each attempt. In the forked process it returns that attempt, and the pipe is closed; in the
/// nursery it returns when there is nobody left to give orders.
fn next_attempt(mut orders: File) -> Option<(PathBuf, Granted)> {
    let mut granted = Granted::default();
    let mut pending: Vec<u8> = Vec::new();
    let mut buffer = [0; 4 * PATH_BYTES_MAX];
    loop {
        while let Some(end) = pending.iter().position(|byte| *byte == END) {
            let rest = pending.split_off(end + 1);
            let mut entry = std::mem::replace(&mut pending, rest);
            entry.truncate(end);
            let Some((b'P', path)) = entry.split_first() else {
                granted.take_entry(&entry);
                continue;
            };
            match platform::fork() {
                Ok(Forked::Child) => {
                    return Some((PathBuf::from(OsString::from_vec(path.to_vec())), granted));
                }
                // Without room for another process: the watcher notices that the attempt does not begin.
                Ok(Forked::Parent) | Err(_) => {}
            }
        }
        // Waited for here, so that what they used is told to whoever waits for us.
        reap();
        match orders.read(&mut buffer) {
            Ok(0) => {
                await_the_last();
                return None;
            }
            Ok(count) => pending.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Collects runners that have ended. `false` if none is left.
fn reap() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Lets runners that have just left their record end: they are not worth being left to others.
fn await_the_last() {
    const ROUNDS: u32 = 20;
    for _ in 0..ROUNDS {
        if !reap() {
            return;
        }
        platform::pause_ms(5);
    }
}
