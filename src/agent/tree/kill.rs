//! The order in which a tree ends: asked, given time, ended, confirmed.
//!
//! Whoever forks while it is being ended is found in the next look; nothing is called gone that was only
//! not seen. Decides neither whom to end nor how long to wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use super::cgroup::Cgroup;
use super::identity::ProcessIdentity;
use super::procfs::{Process, family, family_by_pass};
use super::reap::{is_subreaper, reap};
use super::signal::{send_to, wait_for_ends};
use super::{has_procfs, portable};
use crate::bus::platform::monotonic_ms;

/// The longest time between two calls of `tick`, and between two looks at a tree that was asked to end.
pub(super) const SLICE_MS: u64 = 50;

/// All descendants of ours. Whoever ends them must have become their subreaper before the first was started,
/// or have a cgroup: otherwise nobody can say that all are gone.
#[derive(Debug, Clone, Copy)]
pub struct Tree<'a> {
    /// The child that leads a process group of its own, as long as nobody has waited for it.
    pub leader: Option<u32>,
    pub cgroup: Option<&'a Cgroup>,
}

/// How it went.
#[derive(Debug)]
pub struct Ended {
    /// How the leader ended, if it was waited for here.
    pub leader: Option<ExitStatus>,
    pub confirmation: Confirmation,
}

/// Whether a tree is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    Gone,
    Survivors(Vec<ProcessIdentity>),
    Unknown(Doubt),
}

/// Why nobody can say that a tree is gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error("this system does not list its processes")]
    NoProcessList,
    #[error("it ran on another host or in another container")]
    Elsewhere,
    #[error("processes that left it were not ours to inherit")]
    NotSubreaper,
    #[error("there are children left that cannot be listed")]
    Unlisted,
    #[error("these processes may belong to it, and nothing tells: {}", pids(.0))]
    Unproven(Vec<ProcessIdentity>),
}

fn pids(processes: &[ProcessIdentity]) -> String {
    processes.iter().map(|process| process.pid.to_string()).collect::<Vec<_>>().join(", ")
}

/// Ends all our descendants: TERM and CONT, `grace`, then KILL until none is left, for at most `limit`.
///
/// Collects every child that ends meanwhile, the leader too. `tick` is called many times a second.
pub fn end_tree(tree: &Tree, grace: Duration, limit: Duration, tick: &mut dyn FnMut()) -> Ended {
    if !has_procfs() {
        return portable::end_group(tree.leader, grace, limit, tick);
    }
    let is_contained = tree.cgroup.is_some() || is_subreaper();
    let mut own = OwnTree { leader: tree.leader, status: None, cgroup: tree.cgroup, is_thorough: false };
    let confirmation = match end(&mut own, grace, limit, tick) {
        Confirmation::Gone if !is_contained => Confirmation::Unknown(Doubt::NotSubreaper),
        told => told,
    };
    Ended { leader: own.status, confirmation }
}

/// Ends whoever stayed in the group of a leader that has ended, where no list of processes shows them. Elsewhere they
/// are found as descendants.
pub fn end_rest_of_group(group: u32, grace: Duration, tick: &mut dyn FnMut()) {
    if !has_procfs() {
        portable::end_rest_of_group(group, grace, tick);
    }
}

/// Whom to end, and how all of them are found and struck.
pub(super) trait Quarry {
    /// The living that are known of at this moment, never ourselves.
    fn living(&mut self) -> Vec<Process>;
    /// Signals at one stroke whom that can reach; tells which process group it was.
    fn strike(&mut self, signal: Signal) -> Option<u32>;
    /// Asked when nobody is seen any more.
    fn is_gone(&mut self) -> bool;
}

pub(super) fn end(
    quarry: &mut dyn Quarry,
    grace: Duration,
    limit: Duration,
    tick: &mut dyn FnMut(),
) -> Confirmation {
    if !grace.is_zero() {
        ask(quarry);
        wait_until_quiet(quarry, grace, tick);
    }
    let deadline = monotonic_ms() + limit.as_millis() as u64;
    loop {
        let left = quarry.living();
        if left.is_empty() && quarry.is_gone() {
            return Confirmation::Gone;
        }
        if monotonic_ms() >= deadline {
            let survivors: Vec<_> = left.iter().filter_map(ProcessIdentity::from_process).collect();
            return match survivors.is_empty() {
                true => Confirmation::Unknown(Doubt::Unlisted),
                false => Confirmation::Survivors(survivors),
            };
        }
        strike_down(quarry, deadline, tick);
    }
}

/// Each gets TERM once: many programs take a second one as leave to drop everything. Whoever is born later
/// gets none, because it may be somebody's orderly end.
fn ask(quarry: &mut dyn Quarry) {
    let living = quarry.living();
    let group = quarry.strike(Signal::TERM);
    for process in living.iter().filter(|process| Some(process.group) != group) {
        let _ = send_to(process.pid, process.started, Signal::TERM);
    }
    // A stopped process would take the TERM only when somebody continues it.
    for process in &living {
        let _ = send_to(process.pid, process.started, Signal::CONT);
    }
}

fn wait_until_quiet(quarry: &mut dyn Quarry, grace: Duration, tick: &mut dyn FnMut()) {
    let deadline = monotonic_ms() + grace.as_millis() as u64;
    loop {
        let living = quarry.living();
        let left_ms = deadline.saturating_sub(monotonic_ms());
        if living.is_empty() || left_ms == 0 {
            return;
        }
        wait_for_ends(&living, left_ms.min(SLICE_MS));
        tick();
    }
}

/// Stops everybody before it ends anybody, so that no parent answers the end of a child with a new one.
/// New ones are looked for until a look finds none.
fn strike_down(quarry: &mut dyn Quarry, deadline: u64, tick: &mut dyn FnMut()) {
    quarry.strike(Signal::KILL);
    let mut stopped: HashMap<(u32, u64), Process> = HashMap::new();
    loop {
        let mut is_anyone_new = false;
        for process in quarry.living() {
            if let Entry::Vacant(place) = stopped.entry(process.key()) {
                let _ = send_to(process.pid, process.started, Signal::STOP);
                place.insert(process);
                is_anyone_new = true;
            }
        }
        tick();
        if !is_anyone_new || monotonic_ms() >= deadline {
            break;
        }
    }
    for process in stopped.values() {
        let _ = send_to(process.pid, process.started, Signal::KILL);
    }
    let stopped: Vec<Process> = stopped.into_values().collect();
    // Nobody seen and not gone: somebody is faster than a look, so the next one comes at once.
    wait_for_ends(&stopped, if stopped.is_empty() { 1 } else { SLICE_MS });
}

/// Our own descendants.
struct OwnTree<'a> {
    leader: Option<u32>,
    status: Option<ExitStatus>,
    cgroup: Option<&'a Cgroup>,
    /// The quick walk found nobody although there is somebody.
    is_thorough: bool,
}

impl Quarry for OwnTree<'_> {
    fn living(&mut self) -> Vec<Process> {
        let me = std::process::id();
        let family = if self.is_thorough { family_by_pass(me) } else { family(me) };
        let (mut living, ended): (Vec<_>, Vec<_>) = family.into_iter().partition(Process::is_alive);
        for zombie in ended.iter().filter(|zombie| zombie.parent == me && Some(zombie.pid) != self.leader) {
            // The leader stays: as long as it does, its number cannot become another group's.
            let _ = rustix::process::waitpid(Pid::from_raw(zombie.pid as i32), WaitOptions::NOHANG);
        }
        for member in self.cgroup.map(Cgroup::members).unwrap_or_default() {
            if member.pid != me && !living.iter().any(|process| process.key() == member.key()) {
                living.push(member);
            }
        }
        living
    }

    fn strike(&mut self, signal: Signal) -> Option<u32> {
        if signal == Signal::KILL
            && let Some(cgroup) = self.cgroup
        {
            // Without it, the members are found one by one.
            let _ = cgroup.kill();
        }
        let leader = Process::read(self.leader?)?;
        // Before the child has made its own group, it is in ours; and a stranger's group is nobody's to strike.
        let is_ours = leader.parent == std::process::id() && leader.group == leader.pid && leader.pid > 1;
        let group = Pid::from_raw(leader.pid as i32).filter(|_| is_ours)?;
        rustix::process::kill_process_group(group, signal).is_ok().then_some(leader.pid)
    }

    fn is_gone(&mut self) -> bool {
        let reaped = reap();
        let leader = reaped.ended.iter().find(|(pid, _)| Some(*pid) == self.leader);
        if let Some((_, status)) = leader {
            self.status = Some(*status);
            self.leader = None;
        }
        self.is_thorough = true;
        reaped.is_childless && !self.cgroup.is_some_and(Cgroup::is_populated)
    }
}
