//! What readers of requests ask about the machine, answered by the real disk. Changes nothing.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::directory;
use crate::bus::Layout;
use crate::intake::{Entry, EntryKind, Surroundings};
use crate::model::Defect;
use crate::model::agent::AgentSettings;

/// How much of a file says what it is about.
const BEGINNING_BYTES_MAX: u64 = 4 << 10;

/// This machine, seen from one bus.
#[derive(Debug, Clone)]
pub struct LocalSurroundings {
    bus_home: PathBuf,
    /// Whether agents would be started from here, in our environment.
    starts_agents: bool,
}

impl LocalSurroundings {
    pub fn of(layout: &Layout) -> Self {
        let home = layout.home();
        LocalSurroundings { bus_home: std::fs::canonicalize(&home).unwrap_or(home), starts_agents: true }
    }

    /// For a request that somebody else will carry out, with a `PATH` that we do not know.
    #[must_use]
    pub fn for_another_watcher(self) -> Self {
        LocalSurroundings { starts_agents: false, ..self }
    }
}

impl Surroundings for LocalSurroundings {
    fn entry(&self, path: &Path) -> Option<Entry> {
        let own = std::fs::symlink_metadata(path).ok()?;
        let target = if own.is_symlink() { std::fs::metadata(path).ok() } else { Some(own.clone()) };
        let kind = match &target {
            Some(target) if target.is_file() => EntryKind::File,
            Some(target) if target.is_dir() => EntryKind::Directory,
            _ => EntryKind::Other,
        };
        let mode = target.as_ref().unwrap_or(&own).mode() & 0o7777;
        Some(Entry { kind, owner: own.uid(), mode, is_link: own.is_symlink() })
    }

    fn resolved(&self, path: &Path) -> Option<PathBuf> {
        std::fs::canonicalize(path).ok()
    }

    fn is_empty_directory(&self, path: &Path) -> bool {
        let is_directory = std::fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
        is_directory && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn beginning(&self, path: &Path) -> Option<String> {
        // Opening a pipe would wait for a writer.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(BEGINNING_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn agent_directory(&self, name: &str, dir: &Path) -> Result<Option<AgentSettings>, Vec<Defect>> {
        directory::read(name, dir)
    }

    fn has_program(&self, name: &str, path: Option<&str>) -> bool {
        let path = path.map_or_else(|| std::env::var_os("PATH"), |path| Some(OsString::from(path)));
        let is_there = |dir: PathBuf| {
            let candidate = dir.join(name);
            // A directory that is not absolute is looked for in one that may not be there yet.
            !dir.is_absolute() || (candidate.is_file() && access(&candidate, Access::EXEC_OK).is_ok())
        };
        let directories = path.as_deref().map(std::env::split_paths).into_iter().flatten();
        !self.starts_agents || directories.filter(|dir| !dir.as_os_str().is_empty()).any(is_there)
    }

    fn may_write(&self, dir: &Path) -> bool {
        access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    }

    fn bus_home(&self) -> PathBuf {
        self.bus_home.clone()
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }
}
