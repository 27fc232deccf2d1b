//! The way back to a checkpoint: `plan` says what would be done or why it cannot be, `carry_out` does it.
//!
//! An undo that was interrupted has left its plan behind; `begun` finds it, and `carry_out` completes it. What nobody
//! can tell to be the batch's is asked about, and whatever an undo takes away is kept beside the checkpoint.

mod carry_out;
mod directories;
mod plan;
mod staging;

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use carry_out::{Undone, carry_out};
pub use plan::{Word, plan};

use super::checkpoint::{ArchiveError, MANIFEST_BYTES_MAX};
use super::descriptors::open_own_file;
use super::operations::Hand;
use super::scan::LeftOut;
use super::shown;
use super::store::open_own;
use crate::bus::disk::BusError;
use crate::model::tree::{Digest, Entry, Manifest, TreePath};

const VERSION: u32 = 1;
/// Beside the checkpoint: the plan while it is carried out, and once it is.
const INTENT: &str = "undo.json";
const DONE: &str = "undone.json";

/// What has to be done to put everything back, in the order of the paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoPlan {
    version: u32,
    /// The checkpoint that it leads back to.
    archive: Digest,
    pub steps: Vec<Step>,
    /// Directories on the way to roots, made since: they go if nothing is left in them.
    pub remove_if_empty: Vec<TreePath>,
    /// Directories that nobody may write to: they are opened while something in them changes.
    locked: Vec<Locked>,
    /// The number of the directory that keeps what is taken away: `undone`, `undone-2` …
    #[serde(default = "first")]
    kept_in: u32,
    /// What is not as it was and stays so: unknown at the checkpoint, or changed later where the batch did not.
    #[serde(skip)]
    pub left_alone: Vec<TreePath>,
}

fn first() -> u32 {
    1
}

impl UndoPlan {
    /// Whether everything is as it was already.
    pub fn is_nothing(&self) -> bool {
        self.steps.is_empty() && self.remove_if_empty.is_empty()
    }

    /// Whether each step finds what the batch has left, as `after` says, or is at a path that the caller takes.
    pub fn fits(&self, after: &Manifest, is_taken: &dyn Fn(&TreePath) -> bool) -> bool {
        let fits = |step: &Step| step.found.as_ref() == after.get(&step.path) || is_taken(&step.path);
        self.steps.iter().all(fits)
    }

    /// What will be gone: files and links that the batch made.
    pub fn removals(&self) -> impl Iterator<Item = &TreePath> {
        self.steps.iter().filter(|step| step.wanted.is_none()).map(|step| &step.path)
    }
}

/// One path that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub path: TreePath,
    /// What the batch left there.
    pub found: Option<Entry>,
    /// What was there before.
    pub wanted: Option<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Locked {
    path: TreePath,
    mode: u32,
}

/// Why an undo goes no further: all that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub Vec<Obstacle>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub path: TreePath,
    pub because: WhyNot,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNot {
    /// It is neither what the batch left nor what was there before.
    ChangedSince { left_by_batch: Option<Entry>, now: Option<Entry> },
    /// It changed while the batch ran, and no agent declares it or says that it wrote it.
    Nobodys,
    /// The checkpoint knows what it was, but has not kept the content.
    NotKept,
    /// Something stands there that is no part of a tree.
    InTheWay(LeftOut),
    /// It must make place for a file, and it holds what is not ours to remove.
    HoldsOther,
}

impl Refused {
    /// What the caller's word would settle.
    pub fn asked(&self) -> impl Iterator<Item = &TreePath> {
        let is_asked = |one: &&Obstacle| matches!(one.because, WhyNot::ChangedSince { .. } | WhyNot::Nobodys);
        self.0.iter().filter(is_asked).map(|one| &one.path)
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = if self.0.len() == 1 { "path" } else { "paths" };
        write!(f, "the undo is refused because of {} {paths}:", self.0.len())?;
        self.0.iter().try_for_each(|obstacle| write!(f, "\n  {obstacle}"))
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = shown::path(&self.path);
        match &self.because {
            WhyNot::ChangedSince { left_by_batch, now } => {
                let (left, now) = (word(left_by_batch.as_ref()), word(now.as_ref()));
                write!(f, "{path}: changed since: the batch left {left}, now there is {now}")
            }
            WhyNot::Nobodys => {
                write!(
                    f,
                    "{path}: changed while the batch ran; no agent declares it or says that it wrote it"
                )
            }
            WhyNot::NotKept => {
                write!(f, "{path}: the checkpoint did not keep its content; put it back by hand")
            }
            WhyNot::InTheWay(left_out) => write!(f, "{left_out}; remove it"),
            WhyNot::HoldsOther => {
                write!(f, "{path}: a directory that must make place holds other things; move them away")
            }
        }
    }
}

fn word(entry: Option<&Entry>) -> String {
    match entry {
        None => "nothing".to_owned(),
        Some(Entry::Directory { mode }) => format!("a directory of mode {mode:03o}"),
        Some(Entry::Link { target }) => format!("a link to {}", shown::text(target)),
        Some(Entry::File { mode, size, sha256 }) => {
            let digest: String = sha256.to_string().chars().take(8).collect();
            format!("a file of {size} bytes ({digest}…, mode {mode:03o})")
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Disk(#[from] BusError),
    #[error("{place}: {error}")]
    Archive { place: String, error: ArchiveError },
    #[error("{place} is no plan of an undo of this checkpoint: {why}; remove it to plan anew")]
    BadPlan { place: String, why: String },
    #[error("{} is not as it was after all was done; run the undo again", shown::path(.0))]
    NotAsBefore(TreePath),
}

/// Forgets an undo that was begun: it is planned anew.
pub fn forget(dir: &Path, hand: Hand<'_>) -> Result<(), UndoError> {
    let removed = || -> io::Result<()> {
        let Some(open) = open_own(dir)? else { return Ok(()) };
        match hand.remove_file(&open, OsStr::new(INTENT)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    Ok(removed().map_err(BusError::of("remove", &dir.join(INTENT)))?)
}

/// Whether an undo was completed from the checkpoint in this directory.
pub fn is_done(dir: &Path) -> bool {
    dir.join(DONE).symlink_metadata().is_ok()
}

/// The undo that was begun in the directory of a checkpoint and not completed.
pub fn begun(dir: &Path) -> Result<Option<UndoPlan>, UndoError> {
    let place = dir.join(INTENT);
    let failed = || BusError::of("read", &place);
    let Some(open) = open_own(dir).map_err(failed())? else { return Ok(None) };
    let Some(file) = open_own_file(&open, OsStr::new(INTENT)).map_err(failed())? else { return Ok(None) };
    let bad = |why: String| UndoError::BadPlan { place: place.display().to_string(), why };
    let reader = BufReader::with_capacity(1 << 17, file).take(MANIFEST_BYTES_MAX);
    let plan: UndoPlan = serde_json::from_reader(reader).map_err(|error| bad(error.to_string()))?;
    if plan.version != VERSION {
        return Err(bad(format!("its version is {}, and {VERSION} is understood", plan.version)));
    }
    Ok(Some(plan))
}
