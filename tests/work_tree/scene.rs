//! A directory to play in, and an independent eye for what stands in it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use watchkeeper::model::WallTime;
use watchkeeper::model::tree::{Entry, TreePath};
use watchkeeper::work_tree::checkpoint::{self, FILE_BYTES_MAX, Wish};
use watchkeeper::work_tree::undo::{self, UndoError, Undone, Word};
use watchkeeper::work_tree::{Checkpoint, Hand, Hindrance, Operation, Scan, Scope, scan};

pub const NOON: WallTime = WallTime(1_762_785_000_000);

/// A place of its own with a tree in it, and room for the checkpoint beside it.
pub struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    pub fn new() -> Self {
        let scene = Scene { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.tree()).unwrap();
        scene
    }

    /// A tree with one of everything that a tree can hold.
    pub fn with_a_tree() -> Self {
        let scene = Scene::new();
        scene.write("readme.md", "read me\n", 0o644);
        scene.write("src/main.rs", "fn main() {}\n", 0o644);
        scene.write("src/same-as-main.rs", "fn main() {}\n", 0o600);
        scene.write("src/deep/er/leaf.txt", "leaf", 0o640);
        scene.write("bin/run", "#!/bin/sh\n", 0o755);
        scene.write("empty", "", 0o644);
        scene.write("big.bin", &"0123456789abcdef".repeat(40_000), 0o644);
        scene.write("locked/secret", "s", 0o400);
        symlink("readme.md", scene.tree().join("link")).unwrap();
        symlink("/nowhere/at/all", scene.tree().join("dangling")).unwrap();
        fs::create_dir(scene.tree().join("hollow")).unwrap();
        scene.set_mode("locked", 0o555);
        scene
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }
    pub fn tree(&self) -> PathBuf {
        self.path().join("tree")
    }
    pub fn checkpoint_dir(&self) -> PathBuf {
        self.path().join("checkpoint")
    }
    pub fn scope(&self) -> Scope {
        Scope::new(&[self.tree()], &[]).unwrap()
    }

    pub fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.tree().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn below_root(&self, name: &str) -> TreePath {
        TreePath::of(self.tree().join(name).strip_prefix("/").unwrap()).unwrap()
    }

    pub fn checkpoint(&self) -> (Checkpoint, Scan) {
        self.try_checkpoint(unsynced()).unwrap()
    }

    pub fn try_checkpoint(&self, hand: Hand<'_>) -> Result<(Checkpoint, Scan), checkpoint::CheckpointError> {
        let scope = self.scope();
        let wish = Wish { scope: &scope, created_at: NOON, file_bytes_max: FILE_BYTES_MAX };
        checkpoint::write(&self.checkpoint_dir(), &wish, hand, &mut |_| {})
    }

    /// Everything in the tree as text, by the standard library alone.
    pub fn picture(&self) -> BTreeMap<PathBuf, String> {
        picture(&self.tree())
    }

    /// Undoes as `wk undo` does: completes what was begun, else plans anew.
    pub fn undo(&self, after: &Scan, hand: Hand<'_>) -> Result<Undone, UndoError> {
        let dir = self.checkpoint_dir();
        let checkpoint = Checkpoint::read(&dir).unwrap().unwrap();
        let plan = match undo::begun(&dir)? {
            Some(plan) => plan,
            None => {
                let now = scan(&checkpoint.scope()).unwrap();
                undo::plan(&checkpoint, Some(&after.manifest), &now, &|_| Word::Agents)?
            }
        };
        undo::carry_out(&dir, &checkpoint, &plan, hand)
    }
}

impl Drop for Scene {
    /// So that whoever is not root can remove it.
    fn drop(&mut self) {
        for entry in walkdir::WalkDir::new(self.dir.path()).into_iter().flatten() {
            if entry.file_type().is_dir() {
                let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700));
            }
        }
    }
}

pub fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    for entry in walkdir::WalkDir::new(root).follow_links(false) {
        let Ok(entry) = entry else { continue };
        let data = fs::symlink_metadata(entry.path()).unwrap();
        let kind = data.file_type();
        let mode = data.mode() & 0o7777;
        let what = if kind.is_symlink() {
            format!("-> {}", fs::read_link(entry.path()).unwrap().display())
        } else if kind.is_dir() {
            format!("directory {mode:o}")
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap();
            format!("file {mode:o} {} {}", bytes.len(), watchkeeper::bus::sha256(&bytes))
        } else {
            format!("special {mode:o}")
        };
        seen.insert(entry.path().to_owned(), what);
    }
    seen
}

/// What a scan found, in the same words as `picture`.
pub fn picture_of(found: &Scan) -> BTreeMap<PathBuf, String> {
    let entry = |(path, entry): (&TreePath, &Entry)| {
        let what = match entry {
            Entry::Directory { mode } => format!("directory {mode:o}"),
            Entry::Link { target } => format!("-> {}", Path::new(target.as_os_str()).display()),
            Entry::File { mode, size, sha256 } => format!("file {mode:o} {size} {sha256}"),
        };
        (Path::new("/").join(path.as_path()), what)
    };
    found.manifest.iter().map(entry).collect()
}

/// Everything that an agent can do to the tree of `with_a_tree`.
pub fn an_agent_works(scene: &Scene) {
    let tree = scene.tree();
    scene.write("readme.md", "rewritten\n", 0o644);
    scene.write("new.txt", "new", 0o644);
    scene.write("made/deep/new.txt", "new", 0o600);
    scene.set_mode("bin/run", 0o644);
    fs::remove_file(tree.join("empty")).unwrap();
    fs::remove_dir_all(tree.join("src/deep")).unwrap();
    fs::remove_file(tree.join("src/main.rs")).unwrap();
    fs::remove_file(tree.join("src/same-as-main.rs")).unwrap();
    // A file becomes a directory, a directory a file, a link a file, a file a link.
    fs::remove_file(tree.join("big.bin")).unwrap();
    scene.write("big.bin/inside", "x", 0o644);
    fs::remove_dir(tree.join("hollow")).unwrap();
    scene.write("hollow", "no longer", 0o644);
    fs::remove_file(tree.join("link")).unwrap();
    scene.write("link", "a file now", 0o644);
    fs::remove_file(tree.join("dangling")).unwrap();
    symlink("/etc/passwd", tree.join("dangling")).unwrap();
    scene.set_mode("locked", 0o755);
    fs::remove_file(tree.join("locked/secret")).unwrap();
    symlink("../readme.md", tree.join("locked/secret")).unwrap();
    scene.set_mode("locked", 0o555);
}

/// A hand that nothing hinders and that does not wait for the disk.
pub fn unsynced() -> Hand<'static> {
    struct Unsynced;
    impl Hindrance for Unsynced {
        fn before(&self, _: Operation, _: &OsStr) -> io::Result<()> {
            Ok(())
        }
        fn syncs(&self) -> bool {
            false
        }
    }
    Hand::hindered_by(&Unsynced)
}

/// How operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done any more, as after a crash.
    Crash,
    /// This one fails, the ones before and after it are done.
    FullOnce,
    /// From here on nothing that needs room is done; a write is done by half.
    Full,
}

/// Counts operations, and lets the one with a given number fail.
pub struct Faults {
    state: Mutex<State>,
    fault: Fault,
    at: usize,
}

#[derive(Default)]
struct State {
    count: usize,
    log: Vec<(Operation, String)>,
}

impl Faults {
    pub fn new(fault: Fault, at: usize) -> Self {
        Faults { state: Mutex::new(State::default()), fault, at }
    }

    /// Fails never.
    pub fn none() -> Self {
        Faults::new(Fault::FullOnce, usize::MAX)
    }

    pub fn log(&self) -> Vec<(Operation, String)> {
        self.state.lock().unwrap().log.clone()
    }
}

impl Hindrance for Faults {
    fn before(&self, operation: Operation, name: &OsStr) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let number = state.count;
        state.count += 1;
        state.log.push((operation, name.to_string_lossy().into_owned()));
        let needs_room = matches!(
            operation,
            Operation::MakeDirectory
                | Operation::CreateFile
                | Operation::Write
                | Operation::MakeLink
                | Operation::Rename
                | Operation::SyncFile
        );
        let fails = match self.fault {
            Fault::Crash => number >= self.at,
            Fault::FullOnce => number == self.at,
            // The write with the number itself is done by half.
            Fault::Full => number > self.at && needs_room,
        };
        if fails { Err(rustix::io::Errno::NOSPC.into()) } else { Ok(()) }
    }

    /// What is lost with the power is not lost here, and a thousand runs would wait for the disk.
    fn syncs(&self) -> bool {
        false
    }

    fn room(&self, wanted: usize) -> usize {
        let number = self.state.lock().unwrap().count - 1;
        if self.fault == Fault::Full && number == self.at { wanted.div_ceil(2) } else { wanted }
    }
}

/// Names of our own temporary files anywhere below a directory.
pub fn leftovers(root: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(root).into_iter().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".tmp-wk-"));
    ours.map(walkdir::DirEntry::into_path).collect()
}
