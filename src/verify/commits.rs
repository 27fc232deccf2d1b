//! Commits that a result names: whether they are there, whether they are new, and which files they change.
//!
//! The repository is the agent's too. So references are read as files, and git's plumbing alone is run: no hooks, no
//! filters, no replaced objects, no fetching, and nothing that the repository's configuration names.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::bus::{self, Content, Disk, NodeKind};
use crate::model::evidence::About;
use crate::model::{Finding, Grade};

/// References that are read: beyond them a repository's new commits cannot be told from its old ones.
const TIPS_MAX: usize = 20_000;
const REFERENCE_BYTES_MAX: u64 = 4 << 10;
const PACKED_BYTES_MAX: u64 = 16 << 20;
/// References within references.
const DEPTH_MAX: usize = 16;
/// Commits of one result that are looked at.
const COMMITS_MAX: usize = 50;
/// A content that is larger is compared by nobody.
const BLOB_BYTES_MAX: usize = 64 << 20;
const OUTPUT_BYTES_MAX: u64 = BLOB_BYTES_MAX as u64 + 1;
/// A repository in which git takes longer, or waits for a pipe that an agent put there, tells nothing.
const GIT_TIME_MAX: Duration = Duration::from_secs(10);
/// Digits of an id: fewer are no id, more are of no known hash.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=64;

/// What is known of one commit that a result names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// It is there, and is not reachable from what was there before.
    New { id: String, files: BTreeSet<String> },
    /// It is there; whether it is new nobody can tell.
    There { id: String },
    /// It was there before the task began.
    Old,
    /// There is no such commit.
    Absent,
    /// Nobody can look: no repository, no git, or no id.
    Unknown { why: &'static str },
}

impl Named {
    /// Its whole id, where it is there.
    pub fn id(&self) -> Option<&str> {
        match self {
            Named::New { id, .. } | Named::There { id } => Some(id),
            Named::Old | Named::Absent | Named::Unknown { .. } => None,
        }
    }

    pub fn finding(&self, name: &str) -> Finding {
        let (grade, met, saw) = match self {
            Named::New { files, .. } => {
                (Grade::Observed, true, format!("is new, and changes {}", counted(files.len())))
            }
            Named::There { .. } => {
                (Grade::Claimed, true, "exists; whether it is new is not known".to_owned())
            }
            Named::Old => (Grade::Observed, false, "was there before the task began".to_owned()),
            Named::Absent => (Grade::Observed, false, "is not in the repository".to_owned()),
            Named::Unknown { why } => (Grade::Claimed, true, (*why).to_owned()),
        };
        Finding { about: About::Commit, ..Finding::new(name, grade, met, saw) }
    }
}

/// The ids of all commits that the references of the root's repository name. `None` where there is no repository, or
/// its references cannot be read.
pub fn tips(disk: &impl Disk, root: &Path) -> Option<Vec<String>> {
    let own = git_directory(disk, root)?;
    let common = common_directory(disk, &own);
    // References in a format that is not read here.
    if disk.look(&common.join("reftable")).ok()?.is_some() {
        return None;
    }
    let mut tips = BTreeSet::new();
    tips.extend(read(disk, &own.join("HEAD"), REFERENCE_BYTES_MAX).and_then(|text| full_id(&text)));
    collect_loose(disk, &common.join("refs"), 0, &mut tips)?;
    for tree in disk.list(&common.join("worktrees")).unwrap_or_default() {
        let head = common.join("worktrees").join(&tree.name).join("HEAD");
        tips.extend(read(disk, &head, REFERENCE_BYTES_MAX).and_then(|text| full_id(&text)));
    }
    if let Some(packed) = read(disk, &common.join("packed-refs"), PACKED_BYTES_MAX) {
        // `^` marks what a tag leads to.
        let ids = packed.lines().filter_map(|line| full_id(line.trim_start_matches('^')));
        tips.extend(ids);
    }
    (tips.len() <= TIPS_MAX).then(|| tips.into_iter().collect())
}

/// Whether both directories belong to one repository; work trees of one share its commits. `None` where the first
/// has none.
pub fn is_shared_with(disk: &impl Disk, root: &Path, other: &Path) -> Option<bool> {
    let common = |dir: &Path| {
        let common = common_directory(disk, &git_directory(disk, dir)?);
        disk.resolve(&common).ok()
    };
    let own = common(root)?;
    Some(common(other).is_some_and(|common| common == own))
}

/// Where the repository of a directory is, as git looks for it; a linked work tree names it in a file.
fn git_directory(disk: &impl Disk, dir: &Path) -> Option<PathBuf> {
    let (base, path, kind) = dir.ancestors().find_map(|base| {
        let path = base.join(".git");
        let look = disk.look(&path).ok()??;
        Some((base, path, look.kind))
    })?;
    match kind {
        NodeKind::Directory => Some(path),
        NodeKind::File => {
            let text = read(disk, &path, REFERENCE_BYTES_MAX)?;
            Some(base.join(text.trim().strip_prefix("gitdir:")?.trim()))
        }
        NodeKind::Symlink | NodeKind::Special => None,
    }
}

fn common_directory(disk: &impl Disk, own: &Path) -> PathBuf {
    match read(disk, &own.join("commondir"), REFERENCE_BYTES_MAX) {
        Some(text) => own.join(text.trim()),
        None => own.to_owned(),
    }
}

fn collect_loose(disk: &impl Disk, dir: &Path, depth: usize, tips: &mut BTreeSet<String>) -> Option<()> {
    if depth > DEPTH_MAX || tips.len() > TIPS_MAX {
        return None;
    }
    for entry in disk.list(dir).ok()? {
        let path = dir.join(&entry.name);
        match entry.kind {
            NodeKind::Directory => collect_loose(disk, &path, depth + 1, tips)?,
            NodeKind::File => {
                tips.extend(read(disk, &path, REFERENCE_BYTES_MAX).and_then(|text| full_id(&text)));
            }
            NodeKind::Symlink | NodeKind::Special => {}
        }
    }
    Some(())
}

fn read(disk: &impl Disk, path: &Path, limit: u64) -> Option<String> {
    match disk.read(path, limit) {
        Ok(Content::Bytes { bytes, .. }) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn full_id(text: &str) -> Option<String> {
    let word = text.split_whitespace().next()?;
    (matches!(word.len(), 40 | 64) && is_hex(word)).then(|| word.to_owned())
}

fn is_hex(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id in what a result lists: `"4f2a91c"`, `"4f2a91c add parser"`, `{"sha": "4f2a91c"}`.
pub fn id_of(commit: &Value) -> Option<String> {
    let text = match commit {
        Value::String(text) => Some(text.as_str()),
        Value::Object(fields) => ["sha", "id", "hash", "commit", "oid"]
            .iter()
            .find_map(|name| fields.get(*name).and_then(Value::as_str)),
        _ => None,
    };
    let word = text?.split(|char: char| char.is_whitespace() || char == ':').next()?;
    (DIGITS.contains(&word.len()) && is_hex(word)).then(|| word.to_ascii_lowercase())
}

/// What a look at a repository needs.
#[derive(Debug, Clone, Copy)]
pub struct Repository<'a> {
    pub root: &'a Path,
    /// The commits that were named before the task began; `None` where nobody looked.
    pub tips: Option<&'a [String]>,
}

impl Repository<'_> {
    /// Looks at each commit that a result names, as it names it.
    pub fn look_at(&self, commits: &[Value]) -> Vec<(String, Named)> {
        let named = |commit: &Value| match id_of(commit) {
            Some(id) => (id.clone(), self.named(&id)),
            None => (shown(commit), Named::Unknown { why: "is no id of a commit; nobody can look for it" }),
        };
        commits.iter().take(COMMITS_MAX).map(named).collect()
    }

    fn named(&self, id: &str) -> Named {
        let no_git = Named::Unknown { why: "git cannot be run here; nobody looked for it" };
        let Some(found) =
            self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{id}^{{commit}}")])
        else {
            return no_git;
        };
        let full = text(&found);
        // A reference may bear a name that looks like an id.
        if !found.status.success() || !full.starts_with(id) {
            return Named::Absent;
        }
        let Some(tips) = self.tips else { return Named::There { id: full } };
        // A tip that is gone makes git fail: then nobody can tell what was reachable from it.
        let mut excluded = vec![OsString::from("rev-list"), "--max-count=1".into()];
        excluded.extend([full.clone().into(), "--stdin".into()]);
        let tips = tips.iter().fold(String::new(), |all, tip| all + "^" + tip + "\n");
        match self.git_with(&excluded, &tips) {
            None => no_git,
            Some(listed) if !listed.status.success() => Named::There { id: full },
            Some(listed) if text(&listed) != full => Named::Old,
            Some(_) => Named::New { files: self.files_of(&full), id: full },
        }
    }

    /// The files that a commit changes, against its first parent.
    fn files_of(&self, id: &str) -> BTreeSet<String> {
        let command = ["diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", "--no-renames"];
        let options = ["--no-ext-diff", "--no-textconv", "--relative", "-m", "--first-parent", id];
        let listed = self.git(&[&command[..], &options[..]].concat());
        let Some(listed) = listed.filter(|listed| listed.status.success()) else { return BTreeSet::new() };
        let names = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// The digest of a file as a commit has it; `None` where it has none, or one too large.
    pub fn digest_of(&self, id: &str, file: &str) -> Option<String> {
        let content = self.git(&["cat-file", "blob", &format!("{id}:./{file}")])?;
        let is_known = content.status.success() && content.stdout.len() <= BLOB_BYTES_MAX;
        is_known.then(|| bus::sha256(&content.stdout))
    }

    fn git(&self, arguments: &[&str]) -> Option<Output> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        self.git_with(&arguments, "")
    }

    fn git_with(&self, arguments: &[OsString], input: &str) -> Option<Output> {
        #[expect(clippy::disallowed_methods, reason = "plumbing that reads, and ends by itself or is killed")]
        let mut command = Command::new("git");
        command.arg("-C").arg(self.root).arg("--no-replace-objects").arg("--no-optional-locks");
        for setting in
            ["core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "safe.directory=*"]
        {
            command.args(["-c", setting]);
        }
        command.args(arguments);
        // Nothing of the watcher's own environment speaks here, and no object is fetched from anywhere.
        let keep = ["PATH", "HOME", "LD_LIBRARY_PATH"];
        command.env_clear().envs(keep.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
        command.envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            // What an agent may write to cut the history short.
            ("GIT_SHALLOW_FILE", "/dev/null"),
            ("GIT_GRAFT_FILE", "/dev/null"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("LC_ALL", "C"),
        ]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        limited(piped.spawn().ok()?, input)
    }
}

/// What a child prints, unless it takes too long: then it is killed. Both pipes are served beside it, so that neither
/// of us waits for the other.
fn limited(mut child: Child, input: &str) -> Option<Output> {
    let (mut stdin, mut stdout) = (child.stdin.take()?, child.stdout.take()?);
    let (input, (tell, told)) = (input.to_owned(), mpsc::channel());
    std::thread::spawn(move || {
        // It may end before it has read everything.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let mut bytes = Vec::new();
        let is_read = stdout.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).is_ok();
        let _ = tell.send(is_read.then_some(bytes));
    });
    let printed = told.recv_timeout(GIT_TIME_MAX).ok().flatten();
    if printed.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    Some(Output { status, stdout: printed?, stderr: Vec::new() })
}

/// A commit as a result names it.
pub fn shown(commit: &Value) -> String {
    match commit {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn counted(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::RealDisk;

    struct Scene {
        dir: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Scene { dir: tempfile::tempdir().unwrap() };
            scene.git(&["init", "-q"]);
            scene.commit("old.txt", "old");
            scene
        }

        fn git(&self, arguments: &[&str]) -> String {
            let identity =
                ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
            let mut command = Command::new("git");
            command.current_dir(self.dir.path()).args(identity).args(arguments);
            let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            text(&output)
        }

        fn commit(&self, file: &str, content: &str) -> String {
            std::fs::write(self.dir.path().join(file), content).unwrap();
            self.git(&["add", "."]);
            self.git(&["commit", "-q", "-m", content]);
            self.git(&["rev-parse", "HEAD"])
        }

        fn tips(&self) -> Vec<String> {
            tips(&RealDisk::default(), self.dir.path()).unwrap()
        }

        fn look(&self, tips: &[String], id: &str) -> Named {
            let repository = Repository { root: self.dir.path(), tips: Some(tips) };
            repository.look_at(&[id.into()]).remove(0).1
        }
    }

    #[test]
    fn history_that_an_agent_cuts_short_makes_no_old_commit_new() {
        let scene = Scene::new();
        let old = scene.commit("a.txt", "1");
        scene.commit("a.txt", "2");
        let tips = scene.tips();
        std::fs::write(scene.dir.path().join(".git/shallow"), format!("{}\n", tips[0])).unwrap();
        assert!(matches!(scene.look(&tips, &old), Named::Old));
        let object = format!(".git/objects/{}/{}", &tips[0][..2], &tips[0][2..]);
        std::fs::remove_file(scene.dir.path().join(object)).unwrap();
        std::fs::remove_file(scene.dir.path().join(".git/shallow")).unwrap();
        assert!(matches!(scene.look(&tips, &old), Named::There { .. }), "nobody can tell");
    }

    #[test]
    fn references_in_another_format_say_nothing_and_other_work_trees_count() {
        let scene = Scene::new();
        let other = scene.dir.path().join("beside");
        scene.git(&["worktree", "add", "-q", "--detach", other.to_str().unwrap()]);
        std::fs::write(other.join("b.txt"), "beside").unwrap();
        let there = |arguments: &[&str]| scene.git(&[&["-C", other.to_str().unwrap()], arguments].concat());
        there(&["add", "."]);
        there(&["commit", "-q", "-m", "beside"]);
        let id = there(&["rev-parse", "HEAD"]);
        assert!(scene.tips().contains(&id));
        std::fs::create_dir(scene.dir.path().join(".git/reftable")).unwrap();
        assert_eq!(tips(&RealDisk::default(), scene.dir.path()), None);
    }

    #[test]
    fn a_commit_is_new_if_it_was_not_reachable_before() {
        let scene = Scene::new();
        scene.git(&["branch", "side"]);
        scene.git(&["pack-refs", "--all"]);
        let old = scene.git(&["rev-parse", "HEAD"]);
        let before = scene.tips();
        assert_eq!(before, std::slice::from_ref(&old));
        let new = scene.commit("new.txt", "new");
        let files = BTreeSet::from(["new.txt".to_owned()]);
        assert_eq!(scene.look(&before, &new[..10]), Named::New { id: new.clone(), files });
        assert_eq!(scene.look(&before, &old), Named::Old);
        assert_eq!(scene.look(&scene.tips(), &new), Named::Old);
        assert_eq!(scene.look(&before, &"0".repeat(40)), Named::Absent);
        assert!(matches!(scene.look(&before, "HEAD"), Named::Unknown { .. }));
        let repository = Repository { root: scene.dir.path(), tips: None };
        assert_eq!(repository.digest_of(&new, "new.txt"), Some(bus::sha256(b"new")));
    }

    #[test]
    fn what_the_repository_configures_is_not_run_and_nothing_stands_in_for_a_commit() {
        let scene = Scene::new();
        let before = scene.tips();
        let old = scene.git(&["rev-parse", "HEAD"]);
        let canary = scene.dir.path().join("canary");
        let run = format!("touch {}; false", canary.display());
        for key in ["core.fsmonitor", "diff.external", "core.sshCommand", "core.pager", "alias.rev-parse"] {
            scene.git(&["config", key, &run]);
        }
        scene.git(&["config", "extensions.partialClone", "origin"]);
        scene.git(&["config", "remote.origin.url", &format!("ext::sh -c {}", canary.display())]);
        scene.git(&["config", "remote.origin.promisor", "true"]);
        assert_eq!(scene.look(&before, &"1".repeat(40)), Named::Absent);
        // A branch whose name looks like an id is none.
        scene.git(&["update-ref", "refs/heads/abcdef1", &old]);
        assert_eq!(scene.look(&before, "abcdef1"), Named::Absent);
        assert!(!canary.exists());
    }

    #[test]
    fn where_there_is_no_repository_nobody_can_look() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(tips(&RealDisk::default(), dir.path()), None);
    }
}
