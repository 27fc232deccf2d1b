//! The files that a task declares, as they looked before its attempt and as they look after it.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::inside;
use crate::bus::disk::WireLook;
use crate::bus::{Disk, Look};
use crate::model::{Task, Verdict};

/// How the declared files looked; `None` where there was nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope(BTreeMap<String, Option<Look>>);

impl Scope {
    /// `None` if the file is not in the scope; else what it looked like, if it was there.
    pub fn before(&self, file: &str) -> Option<Option<Look>> {
        self.0.get(file.strip_prefix("./").unwrap_or(file)).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let wire: BTreeMap<&String, Option<WireLook>> =
            self.0.iter().map(|(file, look)| (file, look.as_ref().map(WireLook::of))).collect();
        serde_json::to_vec(&wire).expect("a scope has only string keys")
    }

    /// What cannot be read counts as no scope: then the file system's times decide.
    pub fn from_bytes(bytes: &[u8]) -> Scope {
        let wire: BTreeMap<String, Option<WireLook>> = serde_json::from_slice(bytes).unwrap_or_default();
        Scope(wire.into_iter().map(|(file, look)| (file, look.and_then(|look| look.to_look()))).collect())
    }
}

/// Looks at every declared file before an attempt begins.
pub fn record_scope(disk: &impl Disk, root: &Path, task: &Task) -> Scope {
    let look = |file: &String| {
        let path = inside(root, file)?;
        let look = disk.look(&path).ok().flatten().map(|look| Look { links: 1, ..look });
        Some((file.strip_prefix("./").unwrap_or(file).to_owned(), look))
    };
    Scope(task.files_modified.iter().filter_map(look).collect())
}

/// Notes what was touched without being claimed, and what was declared but not touched.
pub(super) fn add_drift(
    disk: &impl Disk,
    root: &Path,
    task: &Task,
    claimed: &HashSet<PathBuf>,
    scope: &Scope,
    verdict: &mut Verdict,
) {
    let after = record_scope(disk, root, task);
    for (file, before) in &scope.0 {
        let is_touched = after.0.get(file) != Some(before);
        let is_claimed = inside(root, file).is_some_and(|path| claimed.contains(&path));
        match (is_touched, is_claimed) {
            (true, false) => verdict.touched_unclaimed.push(file.clone()),
            (false, _) => verdict.declared_untouched.push(file.clone()),
            (true, true) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::NodeKind;

    #[test]
    fn a_scope_survives_its_file() {
        let look = Look {
            kind: NodeKind::File,
            inode: 7,
            size: 3,
            modified_ns: 1_762_785_000_123_456_789,
            changed_ns: 5,
            links: 1,
        };
        let scope = Scope([("a".to_owned(), Some(look)), ("b".to_owned(), None)].into());
        assert_eq!(Scope::from_bytes(&scope.to_bytes()), scope);
        assert_eq!(scope.before("./a"), Some(Some(look)));
        assert_eq!(scope.before("c"), None);
    }
}
