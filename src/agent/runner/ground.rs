//! The directories of the bus that a runner works in, held open from its beginning: what a path meant then is what it
//! means for the runner's whole life. Opens and names; reads and writes nothing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

/// How far above an attempt's folder its batch's directory is: `attempts/TASK/ATTEMPT`.
const BATCH_ABOVE_ATTEMPT: usize = 3;

/// A process runs one attempt.
static GROUND: OnceLock<Ground> = OnceLock::new();

struct Ground {
    attempt: Anchor,
    batch: Anchor,
}

struct Anchor {
    path: PathBuf,
    dir: OwnedFd,
}

impl Anchor {
    fn open(path: &Path) -> Result<Anchor, Errno> {
        Ok(Anchor { path: path.to_owned(), dir: open_dir(CWD, path.as_os_str())? })
    }

    /// Whether the directory still has a name, whichever that is.
    fn is_linked(&self) -> bool {
        rustix::fs::fstat(&self.dir).is_ok_and(|stat| stat.st_nlink > 0)
    }
}

/// Opens the directories of an attempt. Until then, and for paths elsewhere, a path means what the system says.
pub(super) fn take(attempt: &Path) -> Result<(), Errno> {
    let Some(batch) = attempt.ancestors().nth(BATCH_ABOVE_ATTEMPT) else { return Ok(()) };
    let ground = Ground { attempt: Anchor::open(attempt)?, batch: Anchor::open(batch)? };
    // A second call would be a second attempt in one process.
    let _ = GROUND.set(ground);
    Ok(())
}

/// A name, and the directory in which it stands.
pub(super) struct Place<'a> {
    dir: Dir,
    name: &'a OsStr,
}

enum Dir {
    Held(BorrowedFd<'static>),
    Opened(OwnedFd),
}

impl Place<'_> {
    pub(super) fn name(&self) -> &OsStr {
        self.name
    }
}

impl AsFd for Place<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.dir {
            Dir::Held(dir) => *dir,
            Dir::Opened(dir) => dir.as_fd(),
        }
    }
}

/// Where a path leads: through the attempt's folder as it was when the runner began, or, where an agent has removed
/// that, from the batch's directory down. No link on the way is followed.
pub(super) fn at(path: &Path) -> Result<Place<'_>, Errno> {
    let Some(ground) = GROUND.get() else { return Ok(elsewhere(path)) };
    let below =
        |anchor: &Anchor| path.strip_prefix(&anchor.path).ok().filter(|rest| !rest.as_os_str().is_empty());
    if let Some(rest) = below(&ground.attempt)
        && ground.attempt.is_linked()
    {
        return walk(&ground.attempt, rest);
    }
    match below(&ground.batch) {
        Some(rest) => walk(&ground.batch, rest),
        None => Ok(elsewhere(path)),
    }
}

fn elsewhere(path: &Path) -> Place<'_> {
    Place { dir: Dir::Held(CWD), name: path.as_os_str() }
}

fn walk<'a>(from: &'static Anchor, rest: &'a Path) -> Result<Place<'a>, Errno> {
    let mut dir = Dir::Held(from.dir.as_fd());
    let mut names = rest.iter().peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return Ok(Place { dir, name });
        }
        let opened = match &dir {
            Dir::Held(held) => open_dir(*held, name)?,
            Dir::Opened(opened) => open_dir(opened.as_fd(), name)?,
        };
        dir = Dir::Opened(opened);
    }
    Err(Errno::INVAL)
}

fn open_dir(from: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(from, name, flags, Mode::empty())
}
