//! What a tree uses now: for limits, and for the peaks that a report names.

use std::time::Duration;

use super::has_procfs;
use super::procfs::{Process, family, read_to_end};

/// A moment of a tree. Peaks are the caller's to keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub processes: usize,
    /// Resident memory, added up; pages that processes share count for each of them.
    pub memory_bytes: u64,
    /// The work of the living, and of all that they and the root have waited for.
    pub cpu: Duration,
}

/// What the descendants of a process use; not the process itself. `None` where nobody can know.
pub fn usage(of: u32) -> Option<Usage> {
    if !has_procfs() {
        return None;
    }
    let root = Process::read(of)?;
    let family = family(of);
    let ticks: u64 = family.iter().map(|process| process.worked + process.waited_for).sum();
    let pages: u64 = family.iter().map(|process| process.resident_pages).sum();
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Usage {
        processes: family.iter().filter(|process| process.is_alive()).count(),
        memory_bytes: pages * rustix::param::page_size() as u64,
        cpu: Duration::from_millis((root.waited_for + ticks) * 1000 / ticks_per_second),
    })
}

/// The memory that the descendants of a process occupy together: what several of them share is divided among them, so
/// it counts once. Takes a walk through the memory of each, so it is for moments in which the sum is not enough.
pub fn shared_out_memory(of: u32) -> u64 {
    let mut buffer = vec![0; 4096];
    family(of).iter().map(|process| occupied_by(process.pid, &mut buffer)).sum()
}

/// A process's part, in bytes. One that has ended since it was listed occupies nothing: what it held then is with those
/// that it shared it with.
fn occupied_by(pid: u32, buffer: &mut Vec<u8>) -> u64 {
    let whole = || {
        let pages = Process::read(pid).map_or(0, |process| process.resident_pages);
        pages * rustix::param::page_size() as u64
    };
    share_of(pid, buffer).unwrap_or_else(whole)
}

/// A process's own memory and its share of the rest, in bytes; `None` where the kernel does not say.
fn share_of(pid: u32, buffer: &mut Vec<u8>) -> Option<u64> {
    let length = read_to_end(format!("/proc/{pid}/smaps_rollup"), buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::super::staging::until;
    use super::*;

    #[test]
    fn who_has_ended_since_it_was_listed_occupies_nothing() {
        let mut child = std::process::Command::new("sleep").arg("300").spawn().unwrap();
        let occupied = || occupied_by(child.id(), &mut Vec::new());
        let listed = |is_alive: bool| {
            let process = Process::read(child.id()).unwrap();
            process.is_alive() == is_alive && (process.resident_pages > 0) == is_alive
        };
        until("it occupies something", || listed(true) && occupied() > 0);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        until("it has ended, and is still listed", || listed(false));
        assert_eq!(occupied(), 0);
        child.wait().unwrap();
        assert_eq!(occupied_by(pid.as_raw_nonzero().get() as u32, &mut Vec::new()), 0);
    }
}
