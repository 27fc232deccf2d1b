//! Lays out what a person needs to decide conflicts: every version of each file that is in question, and the file with
//! conflict marks. Made anew in every round, and gone with the last conflict; what a person has made of the file with
//! conflict marks stays as long as its conflict waits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Fault;
use super::replaced::Replaced;
use super::side_by_side::SideBySide;
use crate::bus::disk::BusError;
use crate::bus::{Content, Disk, Durability, RealDisk};
use crate::merge::tree_disk::RealTreeDisk;
use crate::merge::{self, Conflict, ContentStore, Contribution, MERGED_BYTES_MAX, Occasion, Planned};
use crate::model::handoff::{Choice, Choices, ConflictResolution, MergeKind, MergeStrategy, MergeValidation};
use crate::model::inspected::Change;
use crate::model::tree::{Digest, Entry, TreePath};
use crate::work_tree::Contents;

/// Most conflicts whose versions are laid out; the conflict report has the hashes of all.
const LAID_OUT_MAX: usize = 200;
/// What a person edits is written so.
const MODE: u32 = 0o644;
/// The word for the file with conflict marks.
const MARKED: &str = "marked";

/// Where the versions go, and where their contents are.
pub(super) struct Versions<'a> {
    pub(super) place: PathBuf,
    pub(super) occasion: &'a Occasion,
    pub(super) replaced: &'a Replaced<'a>,
    pub(super) shared: &'a SideBySide,
}

impl Versions<'_> {
    /// Writes them, and notes in each conflict where.
    pub(super) fn lay_out(&self, conflicts: &mut [Conflict]) -> Result<(), Fault> {
        let mut changes = Vec::new();
        let mut edited = Vec::new();
        for conflict in conflicts.iter_mut().take(LAID_OUT_MAX).filter(|conflict| conflict.graph.is_none()) {
            for (name, theirs) in self.of(conflict)? {
                let told = name.replace(':', "-");
                let place = [conflict.id.as_str(), &told].into_iter().filter_map(TreePath::parse);
                let file = TreePath::of(Path::new(conflict.path.as_path().file_name().unwrap_or_default()));
                let Some(path) = place.chain(file).reduce(|outer, inner| outer.join(&inner)) else {
                    continue;
                };
                let place = path.below(&self.place);
                if name == MARKED {
                    edited.extend(edited_at(&place, &theirs).map(|bytes| (place.clone(), bytes)));
                }
                conflict.files.insert(name, place.to_string_lossy().into_owned());
                changes.push(Change { path, base: None, theirs: Some(theirs) });
            }
        }
        self.publish(changes)?;
        for (place, bytes) in edited {
            let written = RealDisk::default().publish(&place, &bytes, Durability::Synced);
            written.map_err(BusError::of("put back", &place))?;
        }
        Ok(())
    }

    /// Takes them away again.
    pub(super) fn remove(&self) -> Result<(), Fault> {
        self.replaced.keep(&self.place)?;
        Ok(merge::remove(&self.place, &RealTreeDisk)?)
    }

    /// Every version by the word that chooses it, and what helps to choose.
    fn of(&self, conflict: &Conflict) -> Result<Vec<(String, Entry)>, Fault> {
        let mut found: Vec<(String, Entry)> = Vec::new();
        for version in &conflict.versions {
            if let Some(entry @ Entry::File { .. }) = &version.entry {
                found.push((Choice::Take(version.agent.clone()).word(), plain(entry)));
            }
        }
        let known = [(Choice::Ours, conflict.ours), (Choice::Base, conflict.base)];
        for (choice, digest) in known {
            let entry = digest.and_then(|digest| self.entry(digest));
            found.extend(entry.map(|entry| (choice.word(), entry)));
        }
        for (at, lost) in self.shared.lost_of(&conflict.path).iter().enumerate() {
            found.extend(self.entry(*lost).map(|entry| (format!("overwritten:{}", at + 1), entry)));
        }
        if let Some(marked) = &conflict.marked {
            let sha256 =
                self.replaced.contents.keep(marked).map_err(|error| format!("{}: {error}", conflict.path))?;
            found.push((MARKED.to_owned(), Entry::File { mode: MODE, size: marked.len() as u64, sha256 }));
        }
        Ok(found)
    }

    /// A content that is known by its hash alone; a link's target is none.
    fn entry(&self, sha256: Digest) -> Option<Entry> {
        let size = self.replaced.contents.read(&sha256).ok()?.len() as u64;
        (size <= MERGED_BYTES_MAX).then_some(Entry::File { mode: MODE, size, sha256 })
    }

    fn publish(&self, changes: Vec<Change>) -> Result<(), Fault> {
        if changes.is_empty() {
            return self.remove();
        }
        let strategy = MergeStrategy {
            kind: MergeKind::FileMerge,
            conflict_resolution: ConflictResolution::FailOnConflict,
            validation: MergeValidation::default(),
            priority: Vec::new(),
            verify: None,
        };
        let alone = Contribution {
            who: "versions".to_owned(),
            depends_on: Vec::new(),
            changes,
            untouched: BTreeSet::new(),
            lacks: BTreeSet::new(),
            side_by_side: BTreeMap::new(),
        };
        let contents = self.replaced.contents;
        match merge::plan(&[alone], &strategy, &Choices::new(), self.occasion, contents) {
            Ok(Planned::Ready(merge)) => {
                self.replaced.keep(&self.place)?;
                merge::publish(&merge, &self.place, contents, &RealTreeDisk)?;
                Ok(())
            }
            Ok(_) => Err("the versions of a conflict exclude each other".to_owned().into()),
            Err(error) => Err(error.to_string().into()),
        }
    }
}

/// What a person has made of the file that is to be laid out there.
fn edited_at(place: &Path, laid_out: &Entry) -> Option<Vec<u8>> {
    let Ok(Content::Bytes { bytes, .. }) = RealDisk::default().read(place, MERGED_BYTES_MAX) else {
        return None;
    };
    let digest = merge::contents::digest_of(&bytes);
    (!matches!(laid_out, Entry::File { sha256, .. } if *sha256 == digest)).then_some(bytes)
}

fn plain(entry: &Entry) -> Entry {
    match entry {
        Entry::File { size, sha256, .. } => Entry::File { mode: MODE, size: *size, sha256: *sha256 },
        other => other.clone(),
    }
}
