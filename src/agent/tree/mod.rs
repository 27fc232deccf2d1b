//! Process trees: who is who, who descends from whom, and how all of them are ended and that confirmed.
//!
//! A retry beside a surviving first attempt is the worst that can happen here, so "gone" is said only where
//! the kernel said so. Linux is home; elsewhere, and with `WK_PORTABLE=1`, the answer is that nobody can know.
//! Nothing here decides whether a tree should end.

mod cgroup;
mod identity;
mod kill;
mod marker;
mod orphans;
mod portable;
mod procfs;
mod reap;
#[cfg(test)]
mod scenes;
mod signal;
#[cfg(test)]
mod staging;
mod strays;
mod suspects;
mod usage;

use std::sync::OnceLock;

use crate::bus::platform::is_portable_forced;

pub use cgroup::{Cgroup, CgroupError};
pub use identity::{Existence, ProcessIdentity};
pub use kill::{Confirmation, Doubt, Ended, Tree, end_rest_of_group, end_tree};
pub use marker::{Found, marked};
pub use orphans::{Trace, end_orphans};
pub use procfs::{Process, descendants};
pub use reap::{Reaped, become_subreaper, has_inherited_since, reap, without_inheriting};
pub use rustix::process::Signal;
pub use signal::{SignalError, send};
#[cfg(test)]
pub(super) use staging::until;
pub use strays::{Spared, children_now, end_strays};
pub use suspects::Innocent;
pub use usage::{Usage, shared_out_memory, usage};

/// Learns what never changes while we run, so that processes which are forked from us need not.
pub fn look_around() {
    let _ = ProcessIdentity::current();
}

/// Whether processes can be looked at here at all.
pub(super) fn has_procfs() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        cfg!(target_os = "linux") && !is_portable_forced() && std::path::Path::new("/proc/self/stat").exists()
    })
}
