//! From claim to verdict, as far as looking goes: what became of the files that a task declares, and whether the
//! files that a result lists exist, lie inside the root and were written since the attempt began.
//!
//! Runs no command but git's plumbing, and decides nothing: `decide` weighs what was found.

pub mod baseline;
pub mod cannot_fail;
pub mod check_files;
pub mod commits;
pub mod criteria;
pub mod declared;
pub mod outputs;
mod tally;
pub mod vacuous;

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::bus::{Disk, Look, NodeKind};
use crate::model::claim::Claim;
use crate::model::{Finding, Grade};

pub use baseline::Baseline;
pub use declared::{Since, compare};

/// Beyond this many, files that are as claimed are counted rather than listed: the verdict is journaled.
const FINDINGS_LISTED_MAX: usize = 100;

/// Looks at the files that a result lists. `began_ns` is the file system's own time of the attempt's first file:
/// compared with other times of file systems only, never with a clock.
pub fn listed(disk: &impl Disk, root: &Path, claim: &Claim, began_ns: i128) -> Vec<Finding> {
    findings_of(claim, "were written since the attempt began", |file| {
        let look = find(disk, root, file)?;
        match look.changed_ns >= began_ns {
            true => Ok("written since the attempt began"),
            false => Err("did not change since the attempt began".to_owned()),
        }
    })
}

/// Whether what a claim names is there, whoever has changed it since.
pub fn still_there(disk: &impl Disk, root: &Path, claim: &Claim) -> Vec<Finding> {
    findings_of(claim, "exist", |file| find(disk, root, file).map(|_| "exists"))
}

/// One finding a file; where many are as they should be, one for all of these.
fn findings_of(
    claim: &Claim,
    all_are: &str,
    look: impl Fn(&str) -> Result<&'static str, String>,
) -> Vec<Finding> {
    let mut seen = HashSet::new();
    let mut findings: Vec<Finding> = claim
        .files()
        .filter(|file| seen.insert(file.as_str()))
        .map(|file| {
            let (met, saw) = match look(file) {
                Ok(saw) => (true, saw.to_owned()),
                Err(why) => (false, why),
            };
            Finding::new(file, Grade::Claimed, met, saw)
        })
        .collect();
    let met = findings.iter().filter(|finding| finding.met).count();
    if met > FINDINGS_LISTED_MAX {
        findings.retain(|finding| !finding.met);
        findings.push(Finding::new(format!("{met} files"), Grade::Claimed, true, all_are));
    }
    findings
}

/// The named file as it is, or why it is none of the root's.
fn find(disk: &impl Disk, root: &Path, file: &str) -> Result<Look, String> {
    let path = inside(root, file).ok_or("lies outside the root")?;
    let absent = || "does not exist".to_owned();
    let look = disk.look(&path).ok().flatten().ok_or_else(absent)?;
    let resolved = disk.resolve(&path).map_err(|_| absent())?;
    let root = disk.resolve(root).unwrap_or_else(|_| root.to_owned());
    if !resolved.starts_with(&root) {
        return Err("leads outside the root through a symbolic link".to_owned());
    }
    match look.kind {
        NodeKind::File | NodeKind::Directory | NodeKind::Symlink => Ok(look),
        kind @ NodeKind::Special => Err(format!("is {}", kind.word())),
    }
}

/// The path below the root that a claim means, or `None` where it points out of it.
pub fn inside(root: &Path, file: &str) -> Option<PathBuf> {
    let given = Path::new(file);
    let relative = if given.is_absolute() { given.strip_prefix(root).ok()? } else { given };
    let mut path = root.to_owned();
    for part in relative.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::RealDisk;

    #[test]
    fn a_file_that_was_listed_must_exist_inside_the_root_and_have_been_written() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        let disk = RealDisk::default();
        std::fs::write(root.join("new"), "made").unwrap();
        std::fs::write(root.join("old"), "as it was").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("way-out")).unwrap();
        let look = |name: &str| disk.look(&root.join(name)).unwrap().unwrap().changed_ns;
        let files = ["new", "old", "gone", "../secret", "/etc/passwd", "way-out", "./new"];
        let files_created = files.iter().map(|file| (*file).to_owned()).collect();
        let claim = Claim { files_created, ..Claim::default() };
        let unmet = |began_ns| -> Vec<String> {
            let findings = listed(&disk, &root, &claim, began_ns);
            findings.iter().filter(|one| !one.met).map(ToString::to_string).collect()
        };
        let amiss = [
            "gone: does not exist",
            "../secret: lies outside the root",
            "/etc/passwd: lies outside the root",
            "way-out: leads outside the root through a symbolic link",
        ];
        assert_eq!(unmet(look("new").min(look("old"))), amiss);
        let later = unmet(i128::MAX);
        assert!(later.contains(&"old: did not change since the attempt began".to_owned()), "{later:?}");
    }
}
