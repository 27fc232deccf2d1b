//! Ending what a dead runner left behind, found by the traces that it recorded before it started anything.
//!
//! Only what a trace proves to belong is signalled. What merely could belong is reported, never touched.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::has_procfs;
use super::identity::{Existence, ProcessIdentity, Sight};
use super::kill::{Confirmation, Doubt, Quarry, end};
use super::marker::marked_among;
use super::procfs::{Process, below, everyone};
use super::suspects::{Innocent, Inquiry};
use crate::bus::platform;

/// The pauses before further looks where one has found suspects, in milliseconds. Who is being started has no
/// environment for a moment, and who loses its parent is about to end as a rule: neither is worth a question.
const SECOND_LOOKS_MS: [u64; 5] = [5, 10, 20, 40, 80];

/// More than any chain of shells and launchers; a chain that changes while it is read ends too.
const ANCESTORS_MAX: usize = 64;

/// What is known of an attempt's processes without their parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The parent of all; nobody in the tree is older. If it is alive after all, it ends too.
    pub runner: ProcessIdentity,
    /// The session that the runner was in: whoever is in another one, is in a newer one.
    pub session: u32,
    /// The runner's parent, its parent and so on, each with its start: who loses all parents in the tree
    /// becomes the child of one of them, or of init.
    pub ancestors: Vec<(u32, u64)>,
    /// `NAME=value`, in the environment of all that did not clear it, and of no other attempt's.
    pub marker: String,
    /// The child that was given a session of its own.
    pub leader: Option<ProcessIdentity>,
    /// The group that all were started in.
    pub cgroup: Option<PathBuf>,
}

impl Trace {
    /// The trace of somebody else's tree, whose runner led a session of its own. Its ancestors are taken to be
    /// ours: whoever looks for orphans is as a rule who started the runner, or was started in its place.
    pub fn of_runner(runner: ProcessIdentity, marker: String, cgroup: Option<PathBuf>) -> Trace {
        let me = Process::read(std::process::id());
        let ancestors = me.iter().flat_map(|me| std::iter::once(me.key()).chain(ancestors_of(me))).collect();
        Trace { session: runner.pid, ancestors, marker, leader: Some(runner.clone()), cgroup, runner }
    }

    /// The trace of a tree that we are about to start; its leader is known later. `None` where nobody can know.
    pub fn of_ours(marker: &str, cgroup: Option<&Cgroup>) -> Option<Trace> {
        let runner = ProcessIdentity::current()?;
        Some(Trace {
            session: runner.read()?.session,
            ancestors: ancestors_of(&runner.read()?),
            runner,
            marker: marker.to_owned(),
            leader: None,
            cgroup: cgroup.map(|cgroup| cgroup.path().to_owned()),
        })
    }
}

/// Ends all that the trace leads to, and says what is known then. `tick` is called many times a second.
pub fn end_orphans(
    trace: &Trace,
    innocent: Innocent<'_>,
    grace: Duration,
    limit: Duration,
    tick: &mut dyn FnMut(),
) -> Confirmation {
    if !has_procfs() {
        return Confirmation::Unknown(Doubt::NoProcessList);
    }
    match trace.runner.is_in_sight() {
        Sight::Here => {}
        Sight::BeforeReboot => return Confirmation::Gone,
        Sight::Elsewhere => return Confirmation::Unknown(Doubt::Elsewhere),
    }
    let cgroup = trace.cgroup.as_deref().and_then(Cgroup::open);
    let is_removed = trace.cgroup.as_deref().is_some_and(Cgroup::is_removed);
    let mut orphans = Orphans { trace, innocent, cgroup, proven: HashSet::new(), unproven: Vec::new() };
    let mut answer = end(&mut orphans, grace, limit, tick);
    for pause_ms in SECOND_LOOKS_MS {
        if answer != Confirmation::Gone || orphans.unproven.is_empty() {
            break;
        }
        tick();
        platform::pause_ms(pause_ms);
        answer = end(&mut orphans, Duration::ZERO, limit, tick);
    }
    match answer {
        // All were born in the group, and nobody is in it: then nobody else can be one of them.
        Confirmation::Gone if orphans.cgroup.is_some() || is_removed || orphans.unproven.is_empty() => {
            // Its runner would have done it. A group that stays does no harm.
            let _ = orphans.cgroup.map(Cgroup::remove);
            Confirmation::Gone
        }
        Confirmation::Gone => {
            let unproven = orphans.unproven.iter().filter_map(ProcessIdentity::from_process).collect();
            Confirmation::Unknown(Doubt::Unproven(unproven))
        }
        told => told,
    }
}

struct Orphans<'a> {
    trace: &'a Trace,
    innocent: Innocent<'a>,
    cgroup: Option<Cgroup>,
    /// Everybody seen so far: the proof may have been a parent that has ended since.
    proven: HashSet<(u32, u64)>,
    /// Those of the last look that could belong to it, without proof.
    unproven: Vec<Process>,
}

impl Quarry for Orphans<'_> {
    fn living(&mut self) -> Vec<Process> {
        let me = std::process::id();
        let everyone = everyone();
        let since = self.trace.runner.started;
        let found = marked_among(&everyone, &self.trace.marker, since);
        let (of_session, is_proven) = self.session(&everyone, &found.marked);

        let mut roots: Vec<Process> = found.marked;
        roots.extend(self.cgroup.as_ref().map(Cgroup::members).unwrap_or_default());
        if self.trace.runner.state() == Existence::Alive {
            roots.extend(self.trace.runner.read());
        }
        roots.extend(everyone.iter().filter(|process| self.proven.contains(&process.key())).cloned());
        let inquiry = Inquiry { trace: self.trace, innocent: self.innocent, everyone: &everyone };
        let mut unproven = found.unreadable;
        if is_proven { &mut roots } else { &mut unproven }.extend(of_session);

        let pids: Vec<u32> = roots.iter().map(|process| process.pid).collect();
        roots.extend(below(&everyone, &pids));
        let mut seen = HashSet::new();
        roots.retain(|process| process.is_alive() && process.pid != me && seen.insert(process.key()));
        self.proven.extend(&seen);
        unproven.retain(|process| !inquiry.is_elsewhere(process));
        unproven.extend(found.unmarked.into_iter().filter(|process| inquiry.may_be_left(process)));
        unproven.retain(|process| seen.insert(process.key()));
        self.unproven = unproven;
        roots
    }

    fn strike(&mut self, signal: Signal) -> Option<u32> {
        if signal == Signal::KILL
            && let Some(cgroup) = &self.cgroup
        {
            // Without it, the members are found one by one.
            let _ = cgroup.kill();
        }
        None
    }

    /// One look can miss somebody who is being born; two in a row do not.
    fn is_gone(&mut self) -> bool {
        !self.cgroup.as_ref().is_some_and(Cgroup::is_populated) && self.living().is_empty()
    }
}

impl Orphans<'_> {
    /// The living of the recorded session, and whether it is still that one: its number is free for others
    /// once its last member has ended.
    fn session(&self, everyone: &[Process], marked: &[Process]) -> (Vec<Process>, bool) {
        let own = Process::read(std::process::id()).map(|process| process.session);
        let Some(leader) = self.trace.leader.as_ref().filter(|leader| Some(leader.pid) != own) else {
            return (Vec::new(), true);
        };
        let holder = everyone.iter().find(|process| process.pid == leader.pid);
        if holder.is_some_and(|process| process.started != leader.started) {
            return (Vec::new(), true);
        }
        let is_member = |process: &&Process| {
            process.session == leader.pid && process.started >= leader.started && process.is_alive()
        };
        let is_proven = holder.is_some() || marked.iter().any(|process| process.session == leader.pid);
        (everyone.iter().filter(is_member).cloned().collect(), is_proven)
    }
}

fn ancestors_of(process: &Process) -> Vec<(u32, u64)> {
    let parents = std::iter::successors(Process::read(process.parent), |child| Process::read(child.parent));
    parents.take(ANCESTORS_MAX).map(|parent| parent.key()).collect()
}
