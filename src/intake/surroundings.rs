//! What a reader of requests has to ask about the machine: whether paths exist, whose they are, how an agent's
//! directory says that it is started.
//!
//! A port: `agent::surroundings` answers for the real disk, tests answer as they like. Nothing is changed
//! through it.

use std::path::{Path, PathBuf};

use crate::model::Defect;
use crate::model::agent::AgentSettings;

/// What can be asked before a request is accepted.
pub trait Surroundings {
    /// What stands at an absolute path; `None` where nothing can be seen.
    fn entry(&self, path: &Path) -> Option<Entry>;

    /// The path without links in it, if it exists.
    fn resolved(&self, path: &Path) -> Option<PathBuf>;

    /// Whether a directory stands there with nothing in it.
    fn is_empty_directory(&self, path: &Path) -> bool;

    /// The beginning of a text file.
    fn beginning(&self, path: &Path) -> Option<String>;

    /// How the agent of this directory is started. `None`: the directory does not say. A place in a defect is
    /// a line of its `agent.toml`.
    fn agent_directory(&self, name: &str, dir: &Path) -> Result<Option<AgentSettings>, Vec<Defect>>;

    /// Whether a program of that name is found: in the `PATH` that its agent sets for itself, else in the one
    /// that agents inherit. Yes where that cannot be known.
    fn has_program(&self, name: &str, path: Option<&str>) -> bool;

    /// Whether we may make something in a directory. Yes where that cannot be known.
    fn may_write(&self, _dir: &Path) -> bool {
        true
    }

    /// The directory that holds the bus and its settings.
    fn bus_home(&self) -> PathBuf;

    /// The user's home.
    fn home(&self) -> Option<PathBuf>;

    /// Who we are.
    fn user(&self) -> u32;
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Of what a link leads to, where it is one.
    pub kind: EntryKind,
    /// Whose it is; a link's own owner, where it is one.
    pub owner: u32,
    /// Its permissions, those of a link's target where it is one.
    pub mode: u32,
    pub is_link: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    /// A pipe, a device, a link that leads nowhere.
    Other,
}

impl Entry {
    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }

    /// A link whose target is not there.
    pub fn leads_nowhere(&self) -> bool {
        self.is_link && self.kind == EntryKind::Other
    }
}

/// For a bus that takes no handed-over requests: there is nothing to be seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSurroundings;

impl Surroundings for NoSurroundings {
    fn entry(&self, _: &Path) -> Option<Entry> {
        None
    }
    fn resolved(&self, _: &Path) -> Option<PathBuf> {
        None
    }
    fn is_empty_directory(&self, _: &Path) -> bool {
        false
    }
    fn beginning(&self, _: &Path) -> Option<String> {
        None
    }
    fn agent_directory(&self, _: &str, _: &Path) -> Result<Option<AgentSettings>, Vec<Defect>> {
        Ok(None)
    }
    fn has_program(&self, _: &str, _: Option<&str>) -> bool {
        true
    }
    fn bus_home(&self) -> PathBuf {
        PathBuf::new()
    }
    fn home(&self) -> Option<PathBuf> {
        None
    }
    fn user(&self) -> u32 {
        0
    }
}
