//! One agent's part in a merge: what its runner found, what it was given, what it says that it wrote. Merges nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Fault;
use super::given::Given;
use crate::bus::disk::BusError;
use crate::bus::{self, Content, Disk, RealDisk};
use crate::merge::Contribution;
use crate::model::inspected::Inspected;
use crate::model::placement::source_of;
use crate::model::tree::TreePath;
use crate::model::{Claim, TaskKey, WallTime};
use crate::verify::outputs;

/// A runner's finding: a line for each file of the outputs.
const INSPECTED_BYTES_MAX: u64 = 256 << 20;

/// One agent's part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) task: TaskKey,
    pub(super) agent: String,
    /// What it was given, and may have gone on with.
    pub(super) given: Vec<Given>,
    /// Its declared outputs: the place of each in the merged tree, and where it lies.
    pub(super) sources: Vec<(TreePath, PathBuf)>,
    /// What its runner found, where one did.
    pub(super) inspected: Option<PathBuf>,
    /// The hash of that, as its exit was journaled.
    pub(super) inspected_sha256: Option<String>,
    pub(super) has_succeeded: bool,
    /// Patterns below the workspace that are this task's alone.
    pub(super) own_patterns: Vec<String>,
    /// What its result names, absolute.
    pub(super) claimed: Claimed,
    /// When its attempts ran.
    pub(super) ran: Vec<(WallTime, WallTime)>,
}

/// Files that an agent says it wrote or deleted.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) written: BTreeSet<PathBuf>,
    pub(super) deleted: BTreeSet<PathBuf>,
    /// The same as the agent wrote it.
    deleted_as_told: BTreeSet<PathBuf>,
}

impl Claimed {
    pub(super) fn of(claim: Option<&Claim>, workspace: &Path) -> Self {
        let Some(claim) = claim else { return Claimed::default() };
        // Without `.` on the way: agents write `./src/app.py`.
        let place = |file: &String| -> PathBuf { workspace.join(file).components().collect() };
        Claimed {
            written: claim.files().map(place).collect(),
            deleted: claim.files_deleted.iter().map(place).collect(),
            deleted_as_told: claim.files_deleted.iter().map(PathBuf::from).collect(),
        }
    }
}

impl Claimed {
    /// Whether the agent says that it deleted one of these, or a directory that held it. Agents name what they deleted
    /// by where it was in their copy, in the workspace, or in what they were given.
    fn deletes(&self, names: &[&Path]) -> bool {
        let told = |outer: &Path| self.deleted.contains(outer) || self.deleted_as_told.contains(outer);
        names.iter().any(|name| name.ancestors().any(told))
    }
}

impl Part {
    /// Whether the agent says that it deleted what would be at this place, which is `rest` in what it was given.
    pub(super) fn says_deleted(&self, place: &TreePath, rest: &TreePath, given_at: Option<&Path>) -> bool {
        let source = source_of(&self.sources, place);
        let names = [Some(place.as_path()), Some(rest.as_path()), source.as_deref(), given_at];
        self.claimed.deletes(&names.into_iter().flatten().collect::<Vec<_>>())
    }

    /// Where what goes to this place was made.
    pub(super) fn source(&self, place: &TreePath, workspace: &Path) -> PathBuf {
        source_of(&self.sources, place).unwrap_or_else(|| place.below(workspace))
    }

    /// Whether the task declares it as its own, or its agent says that it wrote it.
    pub(super) fn owns(&self, place: &TreePath, workspace: &Path) -> bool {
        source_of(&self.sources, place).is_some()
            || self.claimed.written.contains(&self.source(place, workspace))
            || self.own_patterns.iter().any(|pattern| outputs::fits(pattern, place.as_path()))
    }

    pub(super) fn ran_beside(&self, other: &Part) -> bool {
        let meet = |one: &(WallTime, WallTime), two: &(WallTime, WallTime)| one.0 < two.1 && two.0 < one.1;
        self.ran.iter().any(|one| other.ran.iter().any(|two| meet(one, two)))
    }

    pub(super) fn ran_at(&self, time: WallTime) -> bool {
        self.ran.iter().any(|(from, to)| *from <= time && time <= *to)
    }

    /// Everything that it made, or left in its outputs, without regard to others.
    pub(super) fn alone(&self, inspected: &Inspected) -> Contribution {
        let mut changes = inspected.changes.clone();
        let is_declared =
            |path: &TreePath| self.sources.iter().any(|(place, _)| path == place || path.is_below(place));
        for change in changes.iter_mut().filter(|change| change.base == change.theirs) {
            // Of one that failed, nobody can say that what stood there before is its work.
            if self.has_succeeded && is_declared(&change.path) {
                change.base = None;
            }
        }
        let (who, untouched) = (self.agent.clone(), BTreeSet::new());
        let (lacks, side_by_side) = (BTreeSet::new(), BTreeMap::new());
        Contribution { who, depends_on: Vec::new(), changes, untouched, lacks, side_by_side }
    }

    pub(super) fn read(&self) -> Result<Option<Inspected>, Fault> {
        let Some(path) = &self.inspected else { return Ok(None) };
        let content = RealDisk::default().read(path, INSPECTED_BYTES_MAX);
        match content.map_err(BusError::of("read", path))? {
            Content::Bytes { bytes, .. } if !self.is_as_journaled(&bytes) => {
                Err(format!("{} was changed after its attempt had ended", path.display()).into())
            }
            Content::Bytes { bytes, .. } => {
                let read = serde_json::from_slice(&bytes).map(Some);
                Ok(read.map_err(|error| format!("{}: {error}", path.display()))?)
            }
            _ if self.has_succeeded => Err(format!("{} is gone", path.display()).into()),
            _ => Ok(None),
        }
    }

    fn is_as_journaled(&self, bytes: &[u8]) -> bool {
        self.inspected_sha256.as_ref().is_some_and(|journaled| *journaled == bus::sha256(bytes))
    }
}
