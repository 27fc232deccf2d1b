//! How an attempt's runner comes to life. One small file a launcher, behind one trait of five verbs.
//!
//! The attempt's folder is the truth, a launcher only a hint: what it says never fails an attempt. A new one
//! needs its file, a line in `all`, and its name in `model::settings::LAUNCHERS`.

mod external;
mod process;
mod tmux;

use std::path::{Path, PathBuf};

use crate::agent::granted::Granted;
use crate::bus::layout::AttemptPaths;
use crate::format::order::Order;
use crate::model::Settings;

/// What a launcher can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// People can look over the agent's shoulder.
    pub can_attach: bool,
    /// There is a pipe to the runner; else what its agent is granted travels in a file.
    pub has_pipe: bool,
}

/// One attempt to be launched.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub order: &'a Order,
    pub granted: &'a Granted,
    pub paths: &'a AttemptPaths,
    pub runner: &'a RunnerProgram,
}

/// What a launcher says of an attempt. A hint: the lock in the attempt's folder decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    Running,
    Ended,
    Gone,
    Unknown,
}

/// The five verbs.
pub trait Launcher {
    fn name(&self) -> &'static str;
    fn capabilities(&self) -> Capabilities;
    /// Brings each runner to life, or says why not. Submitting twice is harmless: an attempt is begun once.
    fn submit(&self, jobs: &[Job<'_>]) -> Vec<Result<(), String>>;
    /// One question for all.
    fn poll(&self, attempts: &[AttemptPaths]) -> Vec<Hint>;
    /// Removes whatever it keeps of these attempts. Their processes are ended before.
    fn cancel(&self, attempts: &[AttemptPaths]);
    /// What it still keeps of attempts of ours, by attempt folder.
    fn reconcile(&self) -> Vec<PathBuf>;
    /// A child of the watcher has ended; it may be one that the launcher needs.
    fn child_ended(&self, _pid: u32, _runner: &RunnerProgram) {}
}

/// Every launcher there is.
pub fn all(settings: &Settings) -> Vec<Box<dyn Launcher>> {
    vec![
        Box::new(process::Process::default()),
        Box::new(tmux::Tmux::new(settings.tmux_socket.clone())),
        Box::new(external::External),
    ]
}

/// Programs that a launcher leaves running for good.
pub const SERVERS: &[&str] = &["tmux"];

/// Our own programs, wherever they are installed.
pub const PROGRAMS: &[&str] = &["wk", RUNNER_NAME];

pub use tmux::{Session, become_program, version as tmux_version};

/// The program that runs an attempt: a lean one of its own, or `wk` itself where that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerProgram {
    program: PathBuf,
    arguments: &'static [&'static str],
}

const RUNNER_NAME: &str = "wk-runner";

impl RunnerProgram {
    /// Looks beside the running program.
    pub fn find() -> std::io::Result<Self> {
        let wk = std::env::current_exe()?;
        let runner = wk.with_file_name(RUNNER_NAME);
        Ok(match runner.is_file() {
            true => RunnerProgram { program: runner, arguments: &[] },
            false => RunnerProgram { program: wk, arguments: &["agent", "run"] },
        })
    }

    /// Whether it is a program of its own, small enough to be forked for each attempt.
    pub fn is_lean(&self) -> bool {
        self.arguments.is_empty()
    }

    pub fn path(&self) -> &Path {
        &self.program
    }

    /// Program and arguments for one attempt.
    fn command(&self, attempt: &Path) -> Vec<std::ffi::OsString> {
        let mut words: Vec<std::ffi::OsString> = vec![self.program.clone().into()];
        words.extend(self.arguments.iter().map(Into::into));
        words.push(attempt.into());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_know_every_launcher_by_its_name() {
        let names: Vec<&str> = all(&Settings::default()).iter().map(|launcher| launcher.name()).collect();
        assert_eq!(names, crate::model::settings::LAUNCHERS);
    }
}
