//! Names for processes that outlive them: a pid alone means somebody else a moment later.
//!
//! Only compares; whoever wants to signal a process goes through `signal`.

use std::sync::OnceLock;

use super::has_procfs;
use super::procfs::{Process, everyone};
use crate::bus::platform;
pub use crate::model::runner::ProcessIdentity;

/// What is known about a process that once ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existence {
    Alive,
    /// Gone, or a zombie; its pid may be somebody else's by now.
    Dead,
    /// It ran where we cannot look.
    Unknown,
}

impl ProcessIdentity {
    /// `None` if there is no such process, or nobody can know here.
    pub fn of(pid: u32) -> Option<Self> {
        if !has_procfs() {
            return None;
        }
        Self::from_process(&Process::read(pid)?)
    }

    pub fn current() -> Option<Self> {
        Self::of(std::process::id())
    }

    pub(super) fn from_process(process: &Process) -> Option<Self> {
        let here = Here::get()?;
        Some(ProcessIdentity {
            pid: process.pid,
            started: process.started,
            boot_id: here.boot_id.clone(),
            pid_namespace: here.pid_namespace,
            host: here.host.clone(),
        })
    }

    pub fn state(&self) -> Existence {
        match self.is_in_sight() {
            Sight::Here => {}
            Sight::BeforeReboot => return Existence::Dead,
            Sight::Elsewhere => return Existence::Unknown,
        }
        match self.read() {
            Some(process) if process.is_alive() => Existence::Alive,
            Some(_) => Existence::Dead,
            None if self.is_hidden() => Existence::Unknown,
            None => Existence::Dead,
        }
    }

    /// Whether anybody is in the process group that this process has started, as far as that can be told from here. The
    /// group's number may have become another's since, in a session that this process has never known.
    pub fn has_left(&self, group: u32) -> bool {
        let Some(number) = rustix::process::Pid::from_raw(group as i32) else { return false };
        if self.is_in_sight() != Sight::Here
            || rustix::process::test_kill_process_group(number) == Err(rustix::io::Errno::SRCH)
        {
            return false;
        }
        let knew = |session: u32| {
            session == self.pid || Process::read(session).is_none_or(|leader| leader.started <= self.started)
        };
        everyone().iter().any(|process| process.group == group && knew(process.session))
    }

    /// Whether the machine was started anew since.
    pub fn was_before_reboot(&self) -> bool {
        self.is_in_sight() == Sight::BeforeReboot
    }

    /// The process itself, if it is still there, zombie or not; never another with its pid.
    pub(super) fn read(&self) -> Option<Process> {
        Process::read(self.pid).filter(|process| process.started == self.started)
    }

    pub(super) fn is_in_sight(&self) -> Sight {
        let Some(here) = Here::get() else { return Sight::Elsewhere };
        if self.host != here.host {
            Sight::Elsewhere
        } else if self.boot_id != here.boot_id {
            Sight::BeforeReboot
        } else if self.pid_namespace != here.pid_namespace {
            Sight::Elsewhere
        } else {
            Sight::Here
        }
    }

    /// `/proc` can be mounted so that other users' processes are not in it; the kernel still knows their pids.
    fn is_hidden(&self) -> bool {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid as i32) else { return false };
        let is_known = rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
        is_known && Process::read(self.pid).is_none()
    }
}

/// Whether a recorded pid means anything to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    Here,
    BeforeReboot,
    Elsewhere,
}

/// Where we are. None of it changes while we run.
#[derive(Debug)]
struct Here {
    boot_id: String,
    pid_namespace: u64,
    host: String,
}

impl Here {
    fn get() -> Option<&'static Here> {
        static HERE: OnceLock<Option<Here>> = OnceLock::new();
        let look = || {
            if !has_procfs() {
                return None;
            }
            Some(Here {
                boot_id: platform::boot_id()?,
                pid_namespace: rustix::fs::stat("/proc/self/ns/pid").ok()?.st_ino,
                host: platform::host_name(),
            })
        };
        HERE.get_or_init(look).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::super::staging::until;
    use super::*;

    #[test]
    fn a_group_is_left_unless_its_number_has_become_anothers() {
        let Some(runner) = ProcessIdentity::current() else { return };
        let mut agent = Command::new("sleep").arg("300").process_group(0).spawn().unwrap();
        assert!(runner.has_left(agent.id()));
        // Whoever begins in the same tick of the kernel's clock cannot be told from who was there before.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let mut stranger = Command::new("setsid").args(["sleep", "300"]).spawn().unwrap();
        until("it leads a session", || Process::read(stranger.id()).unwrap().session == stranger.id());
        assert!(!runner.has_left(stranger.id()));
        for child in [&mut agent, &mut stranger] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!runner.has_left(agent.id()));
    }
}
