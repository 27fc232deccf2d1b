//! Who a runner is: as the journal names it, so that no file on the bus can say otherwise later.

use serde::{Deserialize, Serialize};

/// A process that cannot be confused with a later one, nor with one of another machine or container.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
    pub boot_id: String,
    /// The inode of the pid namespace in which `pid` means it.
    pub pid_namespace: u64,
    /// Another boot on this host is this host's past; another boot elsewhere tells nothing.
    pub host: String,
}

/// A file that cannot be confused with another one in its place.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct LockIdentity {
    pub device: u64,
    pub inode: u64,
    /// Nanoseconds since 1970, as text; inodes are used again. Not every file system knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_ns: Option<String>,
    /// What the runner wrote into it, and nobody could guess.
    pub nonce: String,
}

/// The runner of an attempt.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct RunnerIdentity {
    pub process: ProcessIdentity,
    pub lock: LockIdentity,
    /// The control group that holds the attempt's processes, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Who started the runner's nursery, and inherits whatever loses its parent below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heir: Option<ProcessIdentity>,
}
