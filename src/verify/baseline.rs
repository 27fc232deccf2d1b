//! How the files that a task declares were before its first attempt: what stood there, how it looked, which bytes.
//!
//! Taken once for a task, by the runner or, for outsiders, by the watcher. Only looks and reads; what became of the
//! files since is `declared`'s matter.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::inside;
use crate::bus::disk::WireLook;
use crate::bus::{Disk, Look, NodeKind};
use crate::model::declared::{fitting, is_pattern};

/// Most files that one declared place may hold: above it only what is there now is known.
pub const FILES_MAX: usize = 20_000;
/// Directories within directories that a walk enters.
const DEPTH_MAX: usize = 64;
/// A file of at most this size is read even where it looks as it did: two writes may bear the same time stamp.
pub const READ_ANYWAY_BYTES_MAX: u64 = 1 << 20;

/// How many bytes the watcher reads of one task's declared files, before or after its work: its loop must not stand still.
const LOOP_BYTES_MAX: u64 = 64 << 20;

/// How much of the declared files may be read.
pub struct Reading {
    left: Cell<u64>,
}

impl Reading {
    /// By a runner, which nobody waits for: everything.
    pub fn whole() -> Self {
        Reading { left: Cell::new(u64::MAX) }
    }

    /// By the watcher, between two looks at the bus.
    pub fn in_the_loop() -> Self {
        Reading { left: Cell::new(LOOP_BYTES_MAX) }
    }

    /// The digest of a file, or of the file that a link leads to; nothing where that would be too much.
    pub(super) fn digest(&self, disk: &impl Disk, path: &Path, look: &Look) -> Option<String> {
        self.left.set(self.left.get().checked_sub(look.size)?);
        digest(disk, path, look)
    }
}

/// What stood at the declared places.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    pub version: u32,
    /// By path below the root.
    pub files: BTreeMap<String, Before>,
    /// Places of which not everything was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<String>,
    /// By declared place: the directory that a link led to on the way there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, PathBuf>,
    /// The commits that the references of the root's repository named; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tips: Option<Vec<String>>,
}

/// One file as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Before {
    pub look: WireLook,
    /// Of its content; of a link, that of the file that it leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Baseline {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a baseline has only string keys")
    }

    /// `None` where it is none, or one of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|baseline: &Baseline| baseline.version == VERSION)
    }
}

const VERSION: u32 = 1;

/// Looks at every declared place and reads what stands there.
pub fn take(disk: &impl Disk, root: &Path, places: &[String], reading: &Reading) -> Baseline {
    let tips = super::commits::tips(disk, root);
    let mut baseline = Baseline { version: VERSION, tips, ..Baseline::default() };
    for place in places {
        let found = find(disk, root, place);
        if found.is_partial {
            baseline.partial.push(place.clone());
        }
        baseline.links.extend(found.behind_a_link.map(|dir| (place.clone(), dir)));
        for (file, look) in found.files {
            let sha256 = reading.digest(disk, &root.join(&file), &look);
            baseline.files.insert(file, Before { look: WireLook::of(&plainly(look)), sha256 });
        }
    }
    baseline
}

/// What stands at a declared place now.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By path below the root.
    pub(super) files: BTreeMap<String, Look>,
    /// Why it can be nobody's work.
    pub(super) refused: Option<String>,
    /// Not everything was looked at.
    pub(super) is_partial: bool,
    /// The directory that it lies in, where the way there leads through a link.
    pub(super) behind_a_link: Option<PathBuf>,
}

pub(super) fn find(disk: &impl Disk, root: &Path, place: &str) -> Found {
    let mut found = Found::default();
    let place = spelled(place);
    if is_pattern(&place) {
        let fits = fitting(&place);
        // Walked from the last directory that stands in the pattern as it is.
        let literal: Vec<&str> = place.split('/').take_while(|part| !is_pattern(part)).collect();
        let literal = literal.join("/");
        found.behind_a_link = behind_a_link(disk, root, &literal);
        if found.behind_a_link.is_some() && leads_out(disk, root, &root.join(&literal)) {
            found.refused = Some(LEADS_OUT.to_owned());
            return found;
        }
        walk(disk, root, &literal, 0, &mut found);
        found.files.retain(|file, _| fits(Path::new(file)));
        return found;
    }
    let Some(path) = inside(root, &place) else { return found };
    let above = place.rsplit_once('/').map_or("", |(above, _)| above);
    found.behind_a_link = behind_a_link(disk, root, above);
    let Some(look) = disk.look(&path).ok().flatten() else { return found };
    let may_lead_out = found.behind_a_link.is_some() || look.kind == NodeKind::Symlink;
    found.refused = match look.kind {
        NodeKind::Special => Some(format!("is {}", look.kind.word())),
        // Without a link on the way nothing leads out.
        _ => (may_lead_out && leads_out(disk, root, &path)).then(|| LEADS_OUT.to_owned()),
    };
    match look.kind {
        _ if found.refused.is_some() => {}
        NodeKind::Directory => walk(disk, root, &place, 0, &mut found),
        // A link that leads nowhere is no file.
        NodeKind::Symlink if disk.resolve(&path).is_err() => {}
        NodeKind::File | NodeKind::Symlink | NodeKind::Special => {
            found.files.insert(place, look);
        }
    }
    found
}

const LEADS_OUT: &str = "leads outside the root through a symbolic link";

/// Where a directory below the root really is, if it is a symbolic link or lies behind one.
fn behind_a_link(disk: &impl Disk, root: &Path, dir: &str) -> Option<PathBuf> {
    let is_link = |dir: &str| {
        let look = disk.look(&root.join(dir)).ok().flatten();
        look.is_some_and(|look| look.kind == NodeKind::Symlink)
    };
    let mut above = dir.match_indices('/').map(|(at, _)| &dir[..at]).chain((!dir.is_empty()).then_some(dir));
    above.any(is_link).then(|| disk.resolve(&root.join(dir)).unwrap_or_default())
}

fn leads_out(disk: &impl Disk, root: &Path, path: &Path) -> bool {
    let Ok(resolved) = disk.resolve(path) else { return false };
    !resolved.starts_with(disk.resolve(root).unwrap_or_else(|_| root.to_owned()))
}

/// By this a directory says that it is a cache (bford.info/cachedir): whoever runs code leaves such, and it is no work.
const CACHE_TAG: &str = "CACHEDIR.TAG";
/// Caches that do not say it.
const CACHES: [&str; 2] = ["__pycache__", ".ipynb_checkpoints"];

/// All files below a directory, without following a link and without caches and what belongs to git and to the bus.
fn walk(disk: &impl Disk, root: &Path, dir: &str, depth: usize, found: &mut Found) {
    let path = if dir.is_empty() { root.to_owned() } else { root.join(dir) };
    let Ok(listed) = disk.list(&path) else { return };
    if depth > 0 && listed.iter().any(|entry| entry.name == CACHE_TAG) {
        return;
    }
    for entry in listed {
        let Some(name) = entry.name.to_str() else { continue };
        let file = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        if found.files.len() >= FILES_MAX || depth >= DEPTH_MAX {
            found.is_partial = true;
            return;
        }
        match entry.kind {
            NodeKind::Directory if is_ours_or_gits(&file, name) || CACHES.contains(&name) => {}
            NodeKind::Directory => walk(disk, root, &file, depth + 1, found),
            NodeKind::File => {
                if let Some(look) = disk.look(&root.join(&file)).ok().flatten() {
                    found.files.insert(file, look);
                }
            }
            NodeKind::Symlink | NodeKind::Special => {}
        }
    }
}

fn is_ours_or_gits(path: &str, name: &str) -> bool {
    crate::model::containment::is_git(name) || crate::model::containment::is_bus(path)
}

/// The one spelling of a place: `./src/` is `src`.
pub(super) fn spelled(place: &str) -> String {
    crate::model::containment::plain_spelling(place).into_owned()
}

pub(super) fn digest(disk: &impl Disk, path: &Path, look: &Look) -> Option<String> {
    let target: PathBuf = match look.kind {
        NodeKind::File => path.to_owned(),
        NodeKind::Symlink => disk.resolve(path).ok()?,
        NodeKind::Directory | NodeKind::Special => return None,
    };
    disk.digest(&target).ok().flatten()
}

/// A second name for the same file is no change of it.
pub(super) fn plainly(look: Look) -> Look {
    Look { links: 1, ..look }
}
