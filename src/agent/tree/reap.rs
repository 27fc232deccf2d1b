//! Children that have ended: collecting them, and being the one who inherits them.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::WaitOptions;

use crate::bus::platform::pause_ms;

/// The children that had ended, and whether any child is left.
#[derive(Debug, Default)]
pub struct Reaped {
    pub ended: Vec<(u32, ExitStatus)>,
    /// For a subreaper this is proof: whoever descends from it, descends from a child of it.
    pub is_childless: bool,
}

/// Collects every child that has ended. A `std::process::Child` among them cannot be waited for afterwards.
pub fn reap() -> Reaped {
    let mut reaped = Reaped::default();
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let status = ExitStatus::from_raw(status.as_raw());
                reaped.ended.push((pid.as_raw_nonzero().get() as u32, status));
            }
            Ok(None) => return reaped,
            Err(Errno::INTR) => {}
            Err(error) => {
                reaped.is_childless = error == Errno::CHILD;
                return reaped;
            }
        }
    }
}

/// Longer than a tick of any kernel.
const TICK_MS_MAX: u32 = 20;

/// When we last did not inherit for a while, in clock ticks from boot; 0 if never.
static LAPSED: AtomicU64 = AtomicU64::new(0);

/// Whether everything that lost its parent below us since that moment (clock ticks from boot) came to us.
pub fn has_inherited_since(started: u64) -> bool {
    started > LAPSED.load(Ordering::Relaxed)
}

/// Runs `start` while orphans pass us by: a server that it leaves running becomes the child of init, or of whoever
/// else inherits above us, and so does all that is ever orphaned below that server. `start` must wait until whoever
/// it starts has left the server alone.
pub fn without_inheriting<T>(start: impl FnOnce() -> T) -> T {
    let _lapse = is_subreaper().then(Lapse::begin);
    start()
}

/// Ends when it is dropped, whatever happens meanwhile.
struct Lapse;

impl Lapse {
    fn begin() -> Lapse {
        set_subreaper(false);
        Lapse
    }
}

impl Drop for Lapse {
    fn drop(&mut self) {
        set_subreaper(true);
        let lapsed = ticks_from_boot();
        LAPSED.store(lapsed, Ordering::Relaxed);
        // Whoever starts within the same tick could not be told from who was there before.
        for _ in 0..TICK_MS_MAX {
            if ticks_from_boot() != lapsed {
                break;
            }
            pause_ms(1);
        }
    }
}

/// From now on, descendants whose parents end become our children. Holds for the whole process, until it ends or
/// does `without_inheriting`.
#[cfg(target_os = "linux")]
pub fn become_subreaper() -> std::io::Result<()> {
    if !super::has_procfs() {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    // Any pid says yes; no pid says no.
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(target_os = "linux")]
fn set_subreaper(is_one: bool) {
    // The kernel refuses it to nobody.
    let _ = rustix::process::set_child_subreaper(is_one.then(rustix::process::getpid));
}

/// Now, in the unit in which the kernel tells when a process began.
#[cfg(target_os = "linux")]
fn ticks_from_boot() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    time.tv_sec as u64 * per_second + time.tv_nsec as u64 * per_second / 1_000_000_000
}

#[cfg(target_os = "linux")]
pub(super) fn is_subreaper() -> bool {
    matches!(rustix::process::child_subreaper(), Ok(Some(_)))
}

#[cfg(not(target_os = "linux"))]
pub fn become_subreaper() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_subreaper() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn set_subreaper(_: bool) {}

#[cfg(not(target_os = "linux"))]
fn ticks_from_boot() -> u64 {
    u64::MAX
}
