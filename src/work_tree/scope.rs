//! Which trees are meant: roots, folded where one holds another, and what in them is left aside.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bus::disk::BusError;
use crate::model::tree::TreePath;

/// Roots and exclusions, as paths below `/` without a link on the way to them. A root may be a directory, a
/// file, a link or nothing at all; a root that is a link stands for the link.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    roots: Vec<TreePath>,
    excluded: BTreeSet<TreePath>,
    absent: BTreeSet<TreePath>,
    /// Once this is true nobody wants the walk any more.
    left_off: Arc<AtomicBool>,
}

impl Scope {
    /// Links in what leads to a root are followed now and never again.
    pub fn new(roots: &[PathBuf], excluded: &[PathBuf]) -> Result<Self, BusError> {
        let resolved = |paths: &[PathBuf]| -> Result<BTreeSet<TreePath>, BusError> {
            paths.iter().map(|path| resolve(path)).collect()
        };
        let all = resolved(roots)?;
        let is_inside_another =
            |root: &TreePath| above(root).any(|outer| all.contains(&outer) && share_a_device(&outer, root));
        let roots: Vec<TreePath> = all.iter().filter(|root| !is_inside_another(root)).cloned().collect();
        let absent = roots.iter().flat_map(missing).collect();
        Ok(Scope { roots, excluded: resolved(excluded)?, absent, left_off: Arc::default() })
    }

    /// The same, to be walked only as long as nobody says that it is enough.
    pub fn until(self, left_off: &Arc<AtomicBool>) -> Self {
        Scope { left_off: left_off.clone(), ..self }
    }

    pub(super) fn is_left_off(&self) -> bool {
        self.left_off.load(Ordering::Relaxed)
    }

    /// As an earlier one was written down.
    pub(super) fn of_parts(roots: Vec<TreePath>, excluded: Vec<TreePath>) -> Self {
        let absent = roots.iter().flat_map(missing).collect();
        Scope { roots, excluded: excluded.into_iter().collect(), absent, left_off: Arc::default() }
    }

    pub fn roots(&self) -> &[TreePath] {
        &self.roots
    }

    pub fn excluded(&self) -> &BTreeSet<TreePath> {
        &self.excluded
    }

    /// Roots that were not there when the scope was made, and directories on the way to them likewise.
    pub fn absent(&self) -> &BTreeSet<TreePath> {
        &self.absent
    }

    /// Whether something lies in a root and is no part of its tree: what earlier versions have looked at may name it.
    pub fn sets_aside(&self, path: &TreePath) -> bool {
        let rests = self.roots.iter().filter_map(|root| path.rest_below(root));
        rests.into_iter().any(|rest| rest.as_bytes().split(|byte| *byte == b'/').any(is_set_aside))
    }

    pub fn holds(&self, path: &TreePath) -> bool {
        let is_in = |place: &TreePath| path == place || is_inside(path, place);
        self.roots.iter().any(is_in) && !self.excluded.iter().any(is_in)
    }
}

/// Names of what is nobody's work in a tree: the repository that keeps its history, and caches that tools make anew.
/// They are neither kept nor compared nor merged.
const SET_ASIDE: [&str; 8] =
    [".git", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox"];

/// Whether a name inside of a root is set aside with all that lies below it.
pub(super) fn is_set_aside(name: &[u8]) -> bool {
    SET_ASIDE.iter().any(|aside| aside.as_bytes() == name)
}

/// The directories above a path, the nearest first.
pub(super) fn above(path: &TreePath) -> impl Iterator<Item = TreePath> {
    std::iter::successors(path.parent(), TreePath::parent)
}

/// Whether a path lies in a directory, at any depth.
pub(super) fn is_inside(path: &TreePath, directory: &TreePath) -> bool {
    let rest = path.as_bytes().strip_prefix(directory.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"/"))
}

/// An absolute path with the links on the way followed, but not a link at its end.
fn resolve(path: &Path) -> Result<TreePath, BusError> {
    let refused =
        |why: &str| BusError::of("take as root", path)(io::Error::new(io::ErrorKind::InvalidInput, why));
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !is_plain {
        return Err(refused("an absolute path without `..` is expected"));
    }
    let mut parents = path.ancestors().skip(1);
    let there = parents.find(|parent| fs::metadata(parent).is_ok_and(|data| data.is_dir()));
    let there = there.ok_or_else(|| refused("the whole system is no work tree; name a directory in it"))?;
    let rest = path.strip_prefix(there).map_err(|_| refused("it is not below its own parent"))?;
    let resolved = fs::canonicalize(there).map_err(BusError::of("resolve", there))?.join(rest);
    let below = resolved.strip_prefix("/").ok().and_then(TreePath::of);
    below.ok_or_else(|| refused("the whole system is no work tree; name a directory in it"))
}

/// What of a path and of its parents is not there.
fn missing(root: &TreePath) -> Vec<TreePath> {
    let is_missing = |path: &TreePath| {
        fs::symlink_metadata(super::absolute(path))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    std::iter::once(root.clone()).chain(above(root)).take_while(is_missing).collect()
}

/// Whether a walk from the outer root reaches the inner one. What is not there is reached by whoever comes to
/// where it would be.
fn share_a_device(outer: &TreePath, inner: &TreePath) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: PathBuf| {
        let mut places = path.ancestors().map(fs::symlink_metadata);
        places.find_map(Result::ok).map(|data| data.dev())
    };
    device(super::absolute(outer)) == device(super::absolute(inner))
}
