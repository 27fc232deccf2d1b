//! What the checks of an attempt consist of, before the agent began and now.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::files;
use crate::bus::RealDisk;
use crate::format::order::Inspection;
use crate::model::declared::covers;
use crate::model::tree::{Entry, TreePath};
use crate::verify::check_files;
use crate::work_tree::Scan;

/// A look at a workspace: two hundred bytes a file.
const SCAN_BYTES_MAX: u64 = 1 << 30;

/// The files of the checks as they were.
pub(in super::super) struct CheckFiles {
    /// Where checks run.
    pub(in super::super) root: PathBuf,
    /// Digests by path below the root.
    pub(in super::super) before: BTreeMap<String, String>,
    /// What may be changed, though a check consists of it.
    pub(in super::super) declared: Vec<String>,
}

impl CheckFiles {
    /// Those of a handed-over task, as the look before the first agent has them.
    pub(super) fn of_workspace(inspection: &Inspection) -> Option<CheckFiles> {
        let bytes = files::read(inspection.checks_before.as_ref()?, SCAN_BYTES_MAX).ok()??;
        let scan: Scan = serde_json::from_slice(&bytes).ok()?;
        let root = inspection.workspace.canonicalize().ok()?;
        let workspace = TreePath::of(root.strip_prefix("/").ok()?)?;
        let digest = |(path, entry): (&TreePath, &Entry)| match entry {
            Entry::File { sha256, .. } => {
                Some((path.rest_below(&workspace)?.as_path().to_str()?.to_owned(), sha256.to_string()))
            }
            Entry::Link { .. } | Entry::Directory { .. } => None,
        };
        let before = scan.manifest.iter().filter_map(digest).collect();
        let declared = [&inspection.declared[..], &inspection.artifacts[..]].concat();
        Some(CheckFiles { root, before, declared })
    }

    /// The files of a check that changed although nobody declares them.
    pub(super) fn tampered(&self, command: &[String]) -> Vec<String> {
        let places = check_files::places_of(command);
        let mut changed = check_files::changed(&RealDisk::default(), &self.root, &places, &self.before);
        changed.retain(|file| !self.declared.iter().any(|place| covers(place, file)));
        changed
    }
}
