//! Ending a process group where the system lists no processes: all that can be done, and never proof.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::kill::{Confirmation, Doubt, Ended, SLICE_MS};
use super::reap::reap;
use super::signal::wait_for_ends;
use crate::bus::platform::monotonic_ms;

/// Ends the leader and whoever stayed in its group. Whoever left the group is not found, so the answer is
/// always a doubt.
pub(super) fn end_group(
    leader: Option<u32>,
    grace: Duration,
    limit: Duration,
    tick: &mut dyn FnMut(),
) -> Ended {
    let unknown = |leader| Ended { leader, confirmation: Confirmation::Unknown(Doubt::NoProcessList) };
    let Some(group) = leader.filter(|pid| *pid > 1).and_then(|pid| Pid::from_raw(pid as i32)) else {
        return unknown(None);
    };
    let signal = |signal| {
        // Before the child has made its own group, it is in ours, and there is no group of its number. Asking
        // for the number of its group is no way to tell: it is 0 where our group's leader is outside of the
        // process namespace.
        if rustix::process::kill_process_group(group, signal).is_err() {
            let _ = rustix::process::kill_process(group, signal);
        }
    };
    if !grace.is_zero() {
        signal(Signal::TERM);
        signal(Signal::CONT);
        wait_until(|| has_ended(group), grace, tick);
    }
    // The leader is waited for only afterwards: until then its number cannot become another group's.
    signal(Signal::KILL);
    wait_until(|| has_ended(group), limit, tick);
    unknown(status_of(group))
}

/// Ends a group without its leader. The leader was waited for, so an empty group's number is free; that somebody else
/// has it a moment later is as good as impossible, and then the group is not ours to signal.
pub(super) fn end_rest_of_group(group: u32, grace: Duration, tick: &mut dyn FnMut()) {
    let Some(group) = Some(group).filter(|pid| *pid > 1).and_then(|pid| Pid::from_raw(pid as i32)) else {
        return;
    };
    let is_empty = || rustix::process::test_kill_process_group(group).is_err();
    if is_empty() {
        return;
    }
    for (signal, patience) in [(Signal::TERM, grace), (Signal::KILL, grace)] {
        let _ = rustix::process::kill_process_group(group, signal);
        let _ = rustix::process::kill_process_group(group, Signal::CONT);
        wait_until(is_empty, patience, tick);
    }
}

fn wait_until(is_so: impl Fn() -> bool, at_most: Duration, tick: &mut dyn FnMut()) {
    let deadline = monotonic_ms() + at_most.as_millis() as u64;
    while !is_so() && monotonic_ms() < deadline {
        wait_for_ends(&[], SLICE_MS / 10);
        tick();
    }
}

/// Whether the child has ended, without collecting it.
fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::Pid(child), options), Ok(None))
}

fn status_of(child: Pid) -> Option<ExitStatus> {
    let pid = child.as_raw_nonzero().get() as u32;
    reap().ended.into_iter().find(|(ended, _)| *ended == pid).map(|(_, status)| status)
}
