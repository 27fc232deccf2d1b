//! Who might have been left by a dead runner although nothing proves it: a process that cleared its environment,
//! made a session of its own and lost its parent.
//!
//! Only judges. Whoever is suspected is told to a person and never touched, so a stranger who is suspected costs
//! a question, and a survivor who is not may cost a second agent beside it.

use super::orphans::Trace;
use super::procfs::{Process, name_of, owner_of, program_of};

/// Who takes in the processes of a user or a service, beside the first process of all.
const REAPERS: &[&str] = &["systemd"];

/// Programs that no agent leaves behind, by name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Innocent<'a> {
    /// Our own: they end by themselves, and inherit orphans.
    pub own: &'a [&'a str],
    /// Those that launchers leave running for good.
    pub servers: &'a [&'a str],
}

/// One look at every process, held against what is known of a dead runner.
pub(super) struct Inquiry<'a> {
    pub(super) trace: &'a Trace,
    pub(super) innocent: Innocent<'a>,
    pub(super) everyone: &'a [Process],
}

impl Inquiry<'_> {
    /// Whether a process that tells nothing of itself cannot be one of the tree.
    pub(super) fn is_elsewhere(&self, process: &Process) -> bool {
        if self.is_of_older_session(process) {
            return true;
        }
        // Up to the first that was there before the runner: orphans of ours come to known ones only.
        let parents = std::iter::successors(self.find(process.parent), |child| self.find(child.parent));
        let elder = parents.take(self.everyone.len()).find(|parent| self.is_old(parent));
        elder.is_some_and(|elder| elder.pid != 1 && !self.trace.ancestors.contains(&elder.key()))
    }

    /// Whether a process with an ordinary environment, but without any mark, may be one of the tree. It was started
    /// without the runner's environment on purpose, so it is enough that all else fits.
    pub(super) fn may_be_left(&self, process: &Process) -> bool {
        self.has_lost_its_parent(process)
            && !self.is_of_older_session(process)
            && owner_of(process.pid) == Some(rustix::process::geteuid().as_raw())
            && !runs_one_of(self.innocent.own, process.pid)
            && !runs_one_of(self.innocent.servers, process.pid)
    }

    /// Whoever has a parent of its own was started by that one, and that one is in the tree or is not.
    fn has_lost_its_parent(&self, process: &Process) -> bool {
        let parent = process.parent;
        // What came to ourselves is dealt with as our child.
        parent != std::process::id() && (parent == 1 || self.takes_in_orphans(parent))
    }

    fn takes_in_orphans(&self, parent: u32) -> bool {
        let is_named = |names: &[&str]| name_of(parent).is_some_and(|name| names.contains(&name.as_str()));
        // We may be an agent's child ourselves: its runner, and its watcher, take in what is left of ours.
        let is_above = self.trace.ancestors.iter().any(|(pid, _)| *pid == parent);
        is_named(REAPERS) || (is_above && runs_one_of(self.innocent.own, parent))
    }

    /// Sessions are left only for new ones, so whoever is in one that was there before the runner was never in the
    /// tree. The session without a number is that of the first process, or of somebody outside of our namespace.
    fn is_of_older_session(&self, process: &Process) -> bool {
        let session = process.session;
        let is_older_member = |other: &Process| other.session == session && self.is_old(other);
        session != self.trace.session && (session == 0 || self.everyone.iter().any(is_older_member))
    }

    fn is_old(&self, process: &Process) -> bool {
        process.started < self.trace.runner.started
    }

    fn find(&self, pid: u32) -> Option<&Process> {
        self.everyone.iter().find(|other| other.pid == pid)
    }
}

fn runs_one_of(names: &[&str], pid: u32) -> bool {
    let program = program_of(pid);
    let name = program.as_deref().and_then(|program| program.file_name()?.to_str());
    name.is_some_and(|name| names.contains(&name))
}
