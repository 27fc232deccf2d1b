//! A cgroup (version 2) of its own for an attempt, where the machine lets us: nobody gets out of it by
//! forking, and all in it end at one stroke.
//!
//! Makes, opens and removes only directories with our prefix, and never ends a group that we are in ourselves.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;

use super::has_procfs;
use super::procfs::{Process, read_to_end};

/// Ours are told from everybody else's by the beginning of their names.
const PREFIX: &str = "wk-";

/// An agent may make groups inside of its own; deeper than this, nobody does.
const DEPTH_MAX: u32 = 16;

/// The kernel's number for the file system of version 2.
#[cfg(target_os = "linux")]
const CGROUP2_MAGIC: u64 = 0x6367_7270;

#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("{doing} {path}: {source}")]
    Io { doing: &'static str, path: PathBuf, source: Errno },
    #[error("{path}: we are in it ourselves")]
    Inside { path: PathBuf },
}

impl Cgroup {
    /// Makes one below our own group, or else at the top of the hierarchy; `None` where we may do neither.
    /// The name must be new: a group with living members is never taken over.
    pub fn create(name: &str) -> Option<Cgroup> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) || !has_procfs() {
            return None;
        }
        let hierarchy = Hierarchy::find()?;
        let below = |parent: &Path| {
            // Moving a process takes the right to write in the group that has both places below it.
            rustix::fs::access(parent.join("cgroup.procs"), Access::WRITE_OK).ok()?;
            let path = parent.join(format!("{PREFIX}{name}"));
            match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => Some(Cgroup { path }).filter(|group| !group.is_populated()),
                Err(_) => None,
            }
        };
        below(&hierarchy.own).or_else(|| below(&hierarchy.top))
    }

    /// One that was made earlier; `None` if it is gone, or was not made here.
    pub fn open(path: &Path) -> Option<Cgroup> {
        let is_ours = path.file_name()?.to_str()?.starts_with(PREFIX);
        let is_plain = path.is_absolute() && !path.components().any(|part| part.as_os_str() == "..");
        (is_ours && is_plain && has_procfs() && is_cgroup2(path)).then(|| Cgroup { path: path.to_owned() })
    }

    /// Whether one that was made at this path is not there any more. The kernel removes only empty ones, so nobody
    /// was left in it then.
    pub fn is_removed(path: &Path) -> bool {
        let is_ours =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        is_ours && has_procfs() && !path.exists() && path.parent().is_some_and(is_cgroup2)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process, with all its threads; its later children are born inside.
    pub fn enter(&self, pid: u32) -> Result<(), CgroupError> {
        write(&self.path, "cgroup.procs", &pid.to_string(), "enter")
    }

    /// Runs `start` inside and comes back out, so that what it starts is inside from its first moment on and we
    /// are not. Nothing is run if we could not get in, or not out again.
    pub fn around<T>(&self, start: impl FnOnce() -> T) -> Result<T, CgroupError> {
        let outside =
            Hierarchy::find().map(|hierarchy| hierarchy.own).filter(|own| !own.starts_with(&self.path));
        let outside = outside.ok_or_else(|| CgroupError::Inside { path: self.path.clone() })?;
        rustix::fs::access(outside.join("cgroup.procs"), Access::WRITE_OK)
            .map_err(|source| CgroupError::Io { doing: "return to", path: outside.clone(), source })?;
        // The kernel reads 0 as "whoever writes".
        write(&self.path, "cgroup.procs", "0", "enter")?;
        let started = start();
        // Failing here costs only the stroke at all at once, which then spares us: `kill` looks first.
        let _ = write(&outside, "cgroup.procs", "0", "return to");
        Ok(started)
    }

    /// Ends all members at one stroke, however fast they fork. Returns before they are gone.
    pub fn kill(&self) -> Result<(), CgroupError> {
        if self.members().iter().any(|member| member.pid == std::process::id()) {
            return Err(CgroupError::Inside { path: self.path.clone() });
        }
        write(&self.path, "cgroup.kill", "1", "end all in")
    }

    /// Whether anybody in it, or in a group inside it, is alive. A group that is gone has nobody.
    pub fn is_populated(&self) -> bool {
        match read(&self.path, "cgroup.events") {
            Ok(text) => !text.lines().any(|line| line == "populated 0"),
            Err(error) => !matches!(error, Errno::NOENT | Errno::NODEV),
        }
    }

    /// The living in it and in the groups inside it.
    pub fn members(&self) -> Vec<Process> {
        let mut members = Vec::new();
        for directory in with_inner(&self.path) {
            let text = read(&directory, "cgroup.procs").unwrap_or_default();
            let pids = text.lines().filter_map(|line| line.parse().ok());
            members.extend(pids.filter_map(Process::read).filter(Process::is_alive));
        }
        members
    }

    /// Removes it, with the groups that were made inside; fails while anybody is alive in it.
    pub fn remove(self) -> Result<(), CgroupError> {
        for directory in with_inner(&self.path).into_iter().rev() {
            match rustix::fs::rmdir(&directory) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(source) => return Err(CgroupError::Io { doing: "remove", path: directory, source }),
            }
        }
        Ok(())
    }
}

/// Where the hierarchy of version 2 is mounted, and where in it we are.
struct Hierarchy {
    top: PathBuf,
    own: PathBuf,
}

impl Hierarchy {
    fn find() -> Option<Hierarchy> {
        let mounts = read(Path::new("/proc/self"), "mountinfo").ok()?;
        let groups = read(Path::new("/proc/self"), "cgroup").ok()?;
        Self::parse(&mounts, &groups)
    }

    /// A mount may show only a part of the hierarchy; our place is then told from the whole's root.
    fn parse(mounts: &str, groups: &str) -> Option<Hierarchy> {
        let place = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        mounts.lines().find_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            kind.starts_with("cgroup2 ").then_some(())?;
            let mut fields = mount.split(' ').skip(3);
            let (root, top) = (fields.next()?, Path::new(fields.next()?));
            let inner = Path::new(place).strip_prefix(root).ok()?;
            let is_below = !inner.components().any(|part| part.as_os_str() == "..");
            is_below.then(|| Hierarchy { top: top.to_owned(), own: top.join(inner) })
        })
    }
}

/// The directory and those inside it, outer before inner.
fn with_inner(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut next = 0;
    let depth = |inner: &Path| inner.components().count() - path.components().count();
    while let Some(directory) = found.get(next).cloned() {
        next += 1;
        if depth(&directory) >= DEPTH_MAX as usize {
            continue;
        }
        let entries = std::fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok);
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        found.extend(inner.map(|entry| entry.path()));
    }
    found
}

fn read(directory: &Path, name: &str) -> Result<String, Errno> {
    let mut buffer = vec![0; 4096];
    let length = read_to_end(directory.join(name), &mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn write(directory: &Path, name: &str, text: &str, doing: &'static str) -> Result<(), CgroupError> {
    let path = directory.join(name);
    let file = rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    match file.and_then(|file| rustix::io::write(&file, text.as_bytes())) {
        Ok(_) => Ok(()),
        Err(source) => Err(CgroupError::Io { doing, path: directory.to_owned(), source }),
    }
}

#[cfg(target_os = "linux")]
fn is_cgroup2(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|about| about.f_type as u64 == CGROUP2_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_cgroup2(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_place_is_found_in_a_mount_that_shows_a_part() {
        let mounts = "30 1 0:26 / /proc rw - proc proc rw\n\
                      41 31 0:38 /user/me /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n";
        let found = Hierarchy::parse(mounts, "4:memory:/x\n0::/user/me/shell\n").unwrap();
        assert_eq!(found.own, Path::new("/sys/fs/cgroup/shell"));
        assert!(Hierarchy::parse(mounts, "0::/elsewhere\n").is_none());
        assert!(Hierarchy::parse(mounts, "0::/user/me/../..\n").is_none());
        assert!(Hierarchy::parse(mounts, "4:memory:/x\n").is_none());
    }

    #[test]
    fn a_directory_that_is_no_cgroup_of_ours_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let fake = directory.path().join("wk-fake");
        std::fs::create_dir(&fake).unwrap();
        assert!(Cgroup::open(&fake).is_none());
        assert!(Cgroup::open(Path::new("/sys/fs/cgroup")).is_none());
        assert!(Cgroup::open(Path::new("wk-relative")).is_none());
    }

    #[test]
    fn a_name_that_leads_elsewhere_makes_nothing() {
        assert!(Cgroup::create("").is_none());
        assert!(Cgroup::create("a/b").is_none());
    }
}
