//! From claim to verdict, as far as looking goes: the files that a result names exist, lie inside the root
//! and did change since the attempt began; the rest stays the agent's word.
//!
//! Runs no command and decides nothing: `decide` weighs the verdict.

pub mod criteria;
pub mod outputs;
mod scope;

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::bus::{Disk, Look, NodeKind};
use crate::model::claim::Claim;
use crate::model::{Finding, Grade, Task, Verdict};

pub use scope::{Scope, record_scope};

/// Beyond this many, files that are as claimed are counted rather than listed: the verdict is journaled.
const FINDINGS_LISTED_MAX: usize = 100;

/// How things stood when the attempt began.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    /// The file system's own time of the attempt's first file. Compared with other times of the same file
    /// system only, never with a clock.
    pub changed_ns: i128,
    pub scope: Scope,
}

/// Looks at everything that a claim names.
pub fn check_claim(
    disk: &impl Disk,
    root: &Path,
    task: &Task,
    claim: &Claim,
    beginning: &Beginning,
) -> Verdict {
    let mut verdict = Verdict { findings: file_findings(disk, root, claim, beginning), ..Verdict::default() };
    verdict.findings.extend(task.validation_gates.iter().map(|gate| {
        let saw = match &gate.command {
            Some(_) => "the agent's word; its command was not run",
            None => "the agent's word",
        };
        Finding::new(&gate.text, Grade::Claimed, true, saw)
    }));
    let claimed: HashSet<PathBuf> = claim.files().filter_map(|file| inside(root, file)).collect();
    scope::add_drift(disk, root, task, &claimed, &beginning.scope, &mut verdict);
    verdict
}

fn file_findings(disk: &impl Disk, root: &Path, claim: &Claim, beginning: &Beginning) -> Vec<Finding> {
    let look = |file: &str| look_at(disk, root, file, beginning).map(|()| "exists and changed");
    findings_of(claim, "exist and changed", look)
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
            Finding::new(file, Grade::Observed, met, saw)
        })
        .collect();
    let met = findings.iter().filter(|finding| finding.met).count();
    if met > FINDINGS_LISTED_MAX {
        findings.retain(|finding| !finding.met);
        findings.push(Finding::new(format!("{met} files"), Grade::Observed, true, all_are));
    }
    findings
}

/// Why a named file is not as claimed.
fn look_at(disk: &impl Disk, root: &Path, file: &str, beginning: &Beginning) -> Result<(), String> {
    let look = find(disk, root, file)?;
    if has_changed(file, &look, beginning) {
        Ok(())
    } else {
        Err("did not change since the attempt began".to_owned())
    }
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

/// Whether what a claim names is there, whoever has changed it since.
pub fn still_there(disk: &impl Disk, root: &Path, claim: &Claim) -> Vec<Finding> {
    findings_of(claim, "exist", |file| find(disk, root, file).map(|_| "exists"))
}

/// A declared file is compared with how it looked before; any other by when the file system last changed it.
fn has_changed(file: &str, look: &Look, beginning: &Beginning) -> bool {
    match beginning.scope.before(file) {
        Some(before) => before != Some(Look { links: 1, ..*look }),
        None => look.changed_ns >= beginning.changed_ns,
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
    use crate::model::claim::ClaimStatus;

    fn claim(files: &[&str]) -> Claim {
        Claim {
            task_id: "1".into(),
            status: ClaimStatus::Success,
            attempt: None,
            files_created: files.iter().map(|file| (*file).to_owned()).collect(),
            files_modified: Vec::new(),
            ..Claim::default()
        }
    }

    fn task(files: &[&str]) -> Task {
        let mut task = Task::refused(&crate::model::TaskKey::parse("1").unwrap());
        task.files_modified = files.iter().map(|file| (*file).to_owned()).collect();
        task
    }

    fn unmet(verdict: &Verdict) -> Vec<String> {
        verdict.unmet().map(|finding| format!("{}: {}", finding.subject, finding.saw)).collect()
    }

    #[test]
    fn a_file_that_was_claimed_must_exist_inside_the_root_and_have_changed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("old"), "as it was").unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        let disk = RealDisk::default();
        let task = task(&["old"]);
        let scope = record_scope(&disk, &root, &task);
        std::fs::write(root.join("begin"), "").unwrap();
        let changed_ns = disk.look(&root.join("begin")).unwrap().unwrap().changed_ns;
        let beginning = Beginning { changed_ns, scope };
        std::fs::write(root.join("new"), "made").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("way-out")).unwrap();

        let claim = claim(&["new", "old", "gone", "../secret", "/etc/passwd", "way-out", "./new"]);
        let verdict = check_claim(&disk, &root, &task, &claim, &beginning);
        assert_eq!(
            unmet(&verdict),
            [
                "old: did not change since the attempt began",
                "gone: does not exist",
                "../secret: lies outside the root",
                "/etc/passwd: lies outside the root",
                "way-out: leads outside the root through a symbolic link",
            ]
        );
        assert_eq!(verdict.declared_untouched, ["old"]);
    }

    #[test]
    fn a_gate_that_nobody_ran_leaves_the_agents_word() {
        let mut task = task(&[]);
        task.validation_gates = vec![crate::model::Gate { text: "tests pass".into(), command: None }];
        let verdict = check_claim(
            &RealDisk::default(),
            Path::new("/nonexistent"),
            &task,
            &claim(&[]),
            &Beginning::default(),
        );
        assert_eq!(verdict.grade(), Grade::Claimed);
        assert_eq!(verdict.unmet().count(), 0);
    }
}
