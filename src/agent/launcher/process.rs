//! The default launcher: runners are born by a nursery of the watcher's, and outlive both. Needs nothing.

#![expect(clippy::disallowed_methods, reason = "launchers start processes")]

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Capabilities, Hint, Job, Launcher, RunnerProgram};
use crate::agent::begun::{self, Probe};
use crate::agent::granted::Granted;
use crate::agent::nursery::Nursery;
use crate::bus::layout::AttemptPaths;
use crate::model::agent::PROCESS;

/// How many attempts are remembered that may not have begun.
const UNSEEN_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Process {
    nursery: RefCell<Option<Nursery>>,
    /// Given to the nursery, and not yet seen to begin: another one must have them if this one dies.
    unseen: RefCell<Vec<(AttemptPaths, Granted)>>,
}

impl Launcher for Process {
    fn name(&self) -> &'static str {
        PROCESS
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { can_attach: false, has_pipe: true }
    }

    fn submit(&self, jobs: &[Job<'_>]) -> Vec<Result<(), String>> {
        jobs.iter().map(|job| self.start(job)).collect()
    }

    fn poll(&self, attempts: &[AttemptPaths]) -> Vec<Hint> {
        let hint = |paths: &AttemptPaths| match begun::probe(paths) {
            Ok(Probe::Alive(_)) => Hint::Running,
            Ok(Probe::Dead(_)) => Hint::Ended,
            Ok(Probe::NotBegun | Probe::Starting | Probe::Lost) | Err(_) => Hint::Unknown,
        };
        attempts.iter().map(hint).collect()
    }

    fn cancel(&self, _: &[AttemptPaths]) {}

    fn reconcile(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn child_ended(&self, pid: u32, program: &RunnerProgram) {
        if self.nursery.borrow().as_ref().is_none_or(|nursery| nursery.pid() != pid) {
            return;
        }
        *self.nursery.borrow_mut() = None;
        let unseen = std::mem::take(&mut *self.unseen.borrow_mut());
        for (paths, granted) in unseen.into_iter().filter(|(paths, _)| !begun::was_begun(paths)) {
            if let Err(error) = self.bear(&paths, &granted, program) {
                log::warn!("{}: {error}", paths.dir().display());
            }
        }
    }
}

impl Process {
    fn start(&self, job: &Job<'_>) -> Result<(), String> {
        let told = |error: std::io::Error| format!("the runner {}: {error}", job.runner.program.display());
        match job.runner.is_lean() {
            true => self.bear(job.paths, job.granted, job.runner).map_err(told),
            false => start_alone(job).map_err(told),
        }
    }

    /// Gives the attempt to the nursery; one that is gone is replaced once.
    fn bear(&self, paths: &AttemptPaths, granted: &Granted, program: &RunnerProgram) -> std::io::Result<()> {
        let mut nursery = self.nursery.borrow_mut();
        let is_borne = nursery.as_mut().is_some_and(|nursery| nursery.bear(paths.dir(), granted).is_ok());
        if !is_borne {
            let mut anew = Nursery::start(&program.program)?;
            anew.bear(paths.dir(), granted)?;
            *nursery = Some(anew);
        }
        let mut unseen = self.unseen.borrow_mut();
        if unseen.len() >= UNSEEN_MAX {
            unseen.retain(|(paths, _)| !begun::was_begun(paths));
        }
        unseen.push((paths.clone(), granted.clone()));
        Ok(())
    }
}

/// The runner makes a session of its own, so that no key pressed at the watcher reaches it. Who waits for it
/// is whoever reaps all children of the watcher.
fn start_alone(job: &Job<'_>) -> std::io::Result<()> {
    let words = job.runner.command(job.paths.dir());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}
