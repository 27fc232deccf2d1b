//! The lock that a runner holds for its whole life, with the record of who began the attempt; and the
//! watcher's probe of it.
//!
//! The file can be created only once, so an attempt is begun by exactly one runner. The lock is the
//! kernel's: it is free as soon as the runner is dead, however it died. Nothing here waits or signals.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::tree::{ProcessIdentity, Trace};
use crate::bus::access::{self, OWNERS_FILE};
use crate::bus::layout::AttemptPaths;
use crate::bus::platform;
use crate::model::runner::{LockIdentity, RunnerIdentity};

/// A record is two short lines; whatever is longer was not written by a runner.
const RECORD_BYTES_MAX: u64 = 16 << 10;

/// Who began an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// `None` where the system does not tell processes apart.
    pub runner: Option<ProcessIdentity>,
    /// What the environment of every process of the attempt carries.
    pub mark: String,
    /// The control group that holds the attempt's processes, where there is one.
    pub cgroup: Option<String>,
    /// The agent's process, once it is started.
    pub agent: Option<u32>,
    /// Who started the runner's nursery, and inherits whatever loses its parent below it.
    pub heir: Option<ProcessIdentity>,
    /// What tells this record from any other; runners of earlier versions wrote none.
    pub nonce: Option<String>,
}

/// The variable that every process of an attempt carries.
pub const MARK: &str = "WK_MARK";

/// How a mark stands in an environment.
pub fn marker(mark: &str) -> String {
    format!("{MARK}={mark}")
}

impl Begun {
    /// What leads to the attempt's processes when their parent is dead. `None` where nobody can know.
    pub fn trace(&self) -> Option<Trace> {
        let runner = self.runner.clone()?;
        let cgroup = self.cgroup.as_ref().map(PathBuf::from);
        Some(Trace::of_runner(runner, marker(&self.mark), cgroup))
    }

    /// What the journal knows of it, and nothing that a file says.
    pub fn of_known(known: &RunnerIdentity, mark: &str) -> Begun {
        Begun {
            runner: Some(known.process.clone()),
            mark: mark.to_owned(),
            cgroup: known.cgroup.clone(),
            agent: None,
            heir: known.heir.clone(),
            nonce: Some(known.lock.nonce.clone()),
        }
    }

    /// Whether the attempt was forbidden before anybody began it.
    pub fn is_nobodys(&self) -> bool {
        self.runner.is_none() && self.mark.is_empty()
    }
}

/// Sees to it that nobody begins the attempt any more. `false` if somebody has.
pub fn forbid(paths: &AttemptPaths) -> io::Result<bool> {
    Ok(begin(paths, Beginner::default(), "")?.is_some())
}

/// The first line of the lock file.
#[derive(Debug, Serialize, Deserialize)]
struct BeginLine {
    runner: Option<ProcessIdentity>,
    mark: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heir: Option<ProcessIdentity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
}

/// The second one.
#[derive(Debug, Serialize, Deserialize)]
struct AgentLine {
    agent: u32,
}

/// How far an attempt's runner has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Probe {
    /// No runner has been here.
    NotBegun,
    /// A runner has created the file, but has not said yet who it is.
    Starting,
    Alive(Begun),
    /// The runner is gone. Its agent may not be.
    Dead(Begun),
    /// A runner has been here, and somebody removed its lock, or emptied it and the runner is dead.
    Lost,
}

/// The lock in the runner's hand.
#[derive(Debug)]
pub struct Held {
    file: File,
}

/// Who begins an attempt, as far as that can be told.
#[derive(Debug, Default)]
pub struct Beginner {
    pub runner: Option<ProcessIdentity>,
    pub heir: Option<ProcessIdentity>,
    pub cgroup: Option<String>,
}

/// Begins an attempt, or finds that somebody else did: then there is nothing to do.
///
/// The lock is taken before the first line is written: who reads the line and finds the lock free knows
/// that the runner is dead, and not that it has not come so far yet.
pub fn begin(paths: &AttemptPaths, who: Beginner, mark: &str) -> io::Result<Option<Held>> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
    let file =
        match rustix::fs::openat(rustix::fs::CWD, paths.lock(), flags, Mode::from_raw_mode(OWNERS_FILE)) {
            Ok(descriptor) => File::from(descriptor),
            Err(Errno::EXIST) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    // Whoever could open it could hold it.
    access::set_file_mode(&file, OWNERS_FILE);
    // Waits at most as long as a probe, which lets go at once.
    fs2::FileExt::lock_exclusive(&file)?;
    let mut held = Held { file };
    let Beginner { runner, heir, cgroup } = who;
    let nonce = Some(format!("{:016x}{:016x}", platform::random(), platform::random()));
    held.write_line(&BeginLine { runner, mark: mark.to_owned(), cgroup, heir, nonce })?;
    Ok(Some(held))
}

impl Held {
    /// Adds which process the agent is.
    pub fn started(&mut self, agent: u32) -> io::Result<()> {
        self.write_line(&AgentLine { agent })
    }

    fn write_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)
    }
}

/// Looks at an attempt's lock: one open, one try that never waits, one small read.
pub fn probe(paths: &AttemptPaths) -> io::Result<Probe> {
    let mut opened = open_lock(&paths.lock())?;
    if opened.is_none() {
        if !has_log(paths) {
            return Ok(Probe::NotBegun);
        }
        // The log is made after the lock: if a runner has begun meanwhile, its lock is there by now.
        opened = open_lock(&paths.lock())?;
    }
    let Some(mut file) = opened else { return Ok(Probe::Lost) };
    // Shared, so that two who look at once do not take each other for the runner.
    let is_free = match fs2::FileExt::try_lock_shared(&file) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    (&mut file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(match begun_of(&bytes) {
        // The log is made after the record: nobody is about to write that any more.
        None if is_free && has_log(paths) => Probe::Lost,
        None => Probe::Starting,
        Some(begun) if is_free => Probe::Dead(begun),
        Some(begun) => Probe::Alive(begun),
    })
}

/// The lock in an attempt's folder, held against the one that the journal names.
#[derive(Debug, Clone, PartialEq)]
pub enum Compared {
    /// The same file, whatever it says by now.
    Same {
        is_free: bool,
        /// The agent's process, where the record is still the runner's.
        agent: Option<u32>,
    },
    Other,
    Missing,
}

/// Compares the lock with what is known of it.
pub fn compare(paths: &AttemptPaths, known: &LockIdentity) -> io::Result<Compared> {
    let mut file = match open_lock(&paths.lock()) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(Compared::Missing),
        // A link in its place is not followed.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return Ok(Compared::Other),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    let is_born_then = born_of(&found).zip(known.born_ns.as_ref()).is_none_or(|(born, then)| born == *then);
    if !found.is_file() || (found.dev(), found.ino()) != (known.device, known.inode) || !is_born_then {
        return Ok(Compared::Other);
    }
    let mut bytes = Vec::new();
    (&mut file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    let begun = begun_of(&bytes).filter(|begun| begun.nonce.clone().unwrap_or_default() == known.nonce);
    let is_free = match fs2::FileExt::try_lock_shared(&file) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        Err(error) => return Err(error),
    };
    Ok(Compared::Same { is_free, agent: begun.and_then(|begun| begun.agent) })
}

/// Who holds the attempt's lock, as its record says and the kernel does not deny.
pub fn identity(paths: &AttemptPaths) -> Option<RunnerIdentity> {
    let mut file = open_lock(&paths.lock()).ok()??;
    let found = file.metadata().ok()?;
    let mut bytes = Vec::new();
    (&mut file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let begun = begun_of(&bytes)?;
    let (process, nonce) = (begun.runner?, begun.nonce.unwrap_or_default());
    if platform::lock_holders(found.ino()).is_some_and(|pids| !pids.contains(&process.pid)) {
        return None;
    }
    let lock = LockIdentity { device: found.dev(), inode: found.ino(), born_ns: born_of(&found), nonce };
    Some(RunnerIdentity { process, lock, cgroup: begun.cgroup, heir: begun.heir })
}

fn born_of(found: &std::fs::Metadata) -> Option<String> {
    let since = found.created().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since.as_nanos().to_string())
}

/// Whether some runner has begun the attempt: its lock is there, or, where somebody removed that, its log.
pub fn was_begun(paths: &AttemptPaths) -> bool {
    exists(&paths.lock()) || has_log(paths)
}

/// Whether the agent was started: its log is made with it.
pub fn has_log(paths: &AttemptPaths) -> bool {
    exists(&paths.stdout())
}

/// Whether the order still lies where the watcher left it for the runner.
pub fn has_order(paths: &AttemptPaths) -> bool {
    exists(&paths.order())
}

fn exists(path: &Path) -> bool {
    rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn open_lock(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(rustix::fs::CWD, path, flags, Mode::empty()) {
        Ok(descriptor) => Ok(Some(File::from(descriptor))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn begun_of(bytes: &[u8]) -> Option<Begun> {
    // What has no end of line is still being written.
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let first: BeginLine = serde_json::from_slice(lines.next()?).ok()?;
    let second = lines.next().and_then(|line| serde_json::from_slice::<AgentLine>(line).ok());
    let agent = second.map(|line| line.agent);
    let BeginLine { runner, mark, cgroup, heir, nonce } = first;
    Some(Begun { runner, mark, cgroup, agent, heir, nonce })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_begins_while_it_is_looked_for_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..500 {
            let paths = AttemptPaths::at(dir.path().join(number.to_string()));
            std::fs::create_dir(paths.dir()).unwrap();
            std::thread::scope(|scope| {
                let runner = scope.spawn(|| begin(&paths, Beginner::default(), "mark").unwrap());
                loop {
                    match probe(&paths).unwrap() {
                        Probe::NotBegun | Probe::Starting => {}
                        Probe::Alive(_) | Probe::Dead(_) => break,
                        Probe::Lost => panic!("attempt {number}: nobody removed its lock"),
                    }
                }
                runner.join().unwrap();
            });
        }
    }
}
