//! Publication: every crash and every full disk leaves the old tree or the new one, and nothing beside it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;
use watchkeeper::bus::{Listed, NodeKind};
use watchkeeper::merge::{Merge, RealTreeDisk, TreeDisk, publish, recover};

use crate::scene::Scene;

/// What befalls the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The operation and all after it do not happen.
    CrashBefore(usize),
    /// The operation happens, nobody hears of it, and none after it does.
    CrashAfter(usize),
    /// A crash in the middle of a write.
    Torn(usize),
    /// One operation finds no room; those after it work.
    NoRoom(usize),
    /// No operation finds room from there on; only what makes room works.
    Full(usize),
}

struct FaultyDisk {
    fault: Fault,
    can_exchange: bool,
    operations: Cell<usize>,
}

impl FaultyDisk {
    fn new(fault: Fault, can_exchange: bool) -> Self {
        FaultyDisk { fault, can_exchange, operations: Cell::new(0) }
    }

    fn change<T>(&self, makes_room: bool, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let number = self.operations.get();
        self.operations.set(number + 1);
        let crashed = || Err(io::Error::other("crashed"));
        match self.fault {
            Fault::CrashBefore(at) | Fault::Torn(at) if number >= at => crashed(),
            Fault::CrashAfter(at) if number > at => crashed(),
            Fault::CrashAfter(at) if number == at => run().and_then(|_| crashed()),
            Fault::NoRoom(at) if number == at => Err(io::ErrorKind::StorageFull.into()),
            Fault::Full(at) if number >= at && !makes_room => Err(io::ErrorKind::StorageFull.into()),
            _ => run(),
        }
    }
}

impl TreeDisk for FaultyDisk {
    fn kind(&self, path: &Path) -> io::Result<Option<NodeKind>> {
        RealTreeDisk.kind(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        RealTreeDisk.list(dir)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.change(false, || RealTreeDisk.make_dir(path))
    }
    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let is_torn = matches!(self.fault, Fault::Torn(at) | Fault::NoRoom(at) | Fault::Full(at)
            if at == self.operations.get());
        if is_torn {
            RealTreeDisk.write(path, &bytes[..bytes.len() / 2], mode)?;
        }
        self.change(false, || RealTreeDisk.write(path, bytes, mode))
    }
    fn link(&self, path: &Path, target: &OsStr) -> io::Result<()> {
        self.change(false, || RealTreeDisk.link(path, target))
    }
    fn set_mode(&self, dir: &Path, mode: u32) -> io::Result<()> {
        self.change(true, || RealTreeDisk.set_mode(dir, mode))
    }
    fn sync(&self, path: &Path) -> io::Result<()> {
        self.change(false, || RealTreeDisk.sync(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(false, || RealTreeDisk.rename(from, to))
    }
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<bool> {
        self.change(false, || if self.can_exchange { RealTreeDisk.exchange(one, other) } else { Ok(false) })
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(true, || RealTreeDisk.remove_file(path))
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change(true, || RealTreeDisk.remove_dir(path))
    }
}

fn old() -> (Scene, Merge) {
    let scene = Scene::files().agent(
        "ann",
        &[],
        &[("a", None, Some("old a")), ("d/gone", None, Some("x!gone")), ("d/l", None, Some("-> ../a"))],
    );
    let merge = scene.ready();
    (scene, merge)
}

fn new() -> (Scene, Merge) {
    let scene = Scene::files().agent(
        "bob",
        &[],
        &[("a", None, Some("x!new a")), ("d", None, Some("-> e/f")), ("e/f/g", None, Some("deep"))],
    );
    let merge = scene.ready();
    (scene, merge)
}

/// Everything below a directory: paths, kinds, modes, contents, link targets.
fn shape(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
        let Ok(entry) = entry else { return vec!["nothing".to_owned()] };
        let path = entry.path().strip_prefix(dir).unwrap().display().to_string();
        let mode = fs::symlink_metadata(entry.path()).unwrap().permissions().mode() & 0o7777;
        found.push(match fs::read_link(entry.path()) {
            Ok(target) => format!("{path} -> {}", target.display()),
            Err(_) if entry.file_type().is_dir() => format!("{path}/ {mode:o}"),
            Err(_) => format!("{path} {mode:o} {}", fs::read_to_string(entry.path()).unwrap()),
        });
    }
    found
}

/// A parent with the old tree in it, or without one.
fn begin(has_old: bool) -> TempDir {
    let parent = tempfile::tempdir().unwrap();
    if has_old {
        let (scene, merge) = old();
        publish(&merge, &parent.path().join("merged"), &scene.contents, &RealTreeDisk).unwrap();
    }
    parent
}

fn names(parent: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(parent)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Runs into the fault, recovers, and tells whether the old (`false`) or the new tree (`true`) stands.
fn survives(fault: Fault, has_old: bool, can_exchange: bool) -> bool {
    let parent = begin(has_old);
    let merged = parent.path().join("merged");
    let (scene, merge) = new();
    let before = shape(&merged);
    let case = format!("{fault:?}, old tree: {has_old}, exchange: {can_exchange}");
    let outcome = publish(&merge, &merged, &scene.contents, &FaultyDisk::new(fault, can_exchange));
    if outcome.is_ok() && matches!(fault, Fault::NoRoom(_) | Fault::Full(_)) {
        assert!(merged.is_dir(), "{case}: it says that it is published");
    }
    recover(&merged, &RealTreeDisk).unwrap();
    let after = shape(&merged);
    assert!(names(parent.path()).iter().all(|name| name == "merged"), "{case}: {:?}", names(parent.path()));
    publish(&merge, &merged, &scene.contents, &RealTreeDisk).unwrap();
    let complete = shape(&merged);
    assert!(after == before || after == complete, "{case}: {after:#?}");
    if outcome.is_ok() {
        assert_eq!(after, complete, "{case}: it says that it is published");
    }
    after == complete
}

fn operations(has_old: bool, can_exchange: bool) -> usize {
    let parent = begin(has_old);
    let disk = FaultyDisk::new(Fault::None, can_exchange);
    let (scene, merge) = new();
    publish(&merge, &parent.path().join("merged"), &scene.contents, &disk).unwrap();
    disk.operations.get()
}

#[test]
fn every_crash_and_every_full_disk_leaves_the_old_tree_or_the_new_one() {
    for (has_old, can_exchange) in [(false, true), (true, true), (true, false)] {
        let count = operations(has_old, can_exchange);
        assert!(count > 15, "{count} operations");
        for fault in [Fault::CrashBefore, Fault::CrashAfter, Fault::Torn, Fault::NoRoom, Fault::Full] {
            let is_new: Vec<bool> = (0..count).map(|at| survives(fault(at), has_old, can_exchange)).collect();
            assert!(!is_new[0], "the first operation is no publication");
        }
        println!("{count} operations, five faults at each; old tree: {has_old}, exchange: {can_exchange}");
    }
}

#[test]
fn a_full_disk_gets_its_room_back_at_once() {
    for at in 0..operations(true, true) {
        let parent = begin(true);
        let merged = parent.path().join("merged");
        let (scene, merge) = new();
        let disk = FaultyDisk::new(Fault::Full(at), true);
        if publish(&merge, &merged, &scene.contents, &disk).is_err() {
            assert_eq!(names(parent.path()), ["merged"], "operation {at}");
        }
    }
}

#[test]
fn a_crash_of_the_recovery_itself_is_recovered_from() {
    let (scene, merge) = new();
    for at in 0..operations(true, false) {
        for again in 0..8 {
            let parent = begin(true);
            let merged = parent.path().join("merged");
            let before = shape(&merged);
            let _ = publish(&merge, &merged, &scene.contents, &FaultyDisk::new(Fault::CrashAfter(at), false));
            let _ = recover(&merged, &FaultyDisk::new(Fault::CrashAfter(again), false));
            recover(&merged, &RealTreeDisk).unwrap();
            let after = shape(&merged);
            publish(&merge, &merged, &scene.contents, &RealTreeDisk).unwrap();
            assert!(after == before || after == shape(&merged), "{at}, then {again}: {after:#?}");
        }
    }
}

#[test]
fn a_published_tree_is_the_planned_one() {
    let parent = begin(true);
    let merged = parent.path().join("merged");
    let (scene, merge) = new();
    let published = publish(&merge, &merged, &scene.contents, &RealTreeDisk).unwrap();
    assert!(published.has_replaced && published.leftover.is_none());
    let expected = ["/ 755", "a 755 new a", "d -> e/f", "e/ 755", "e/f/ 755", "e/f/g 644 deep"];
    assert_eq!(shape(&merged), expected);
}

#[test]
fn directories_that_forbid_writing_are_published_and_replaced() {
    let mut scene = Scene::files().agent("ann", &[], &[("d", None, Some("dir")), ("d/f", None, Some("f"))]);
    scene.contributions[0].changes[0].theirs =
        Some(watchkeeper::model::tree::Entry::Directory { mode: 0o555 });
    let merge = scene.ready();
    let parent = begin(false);
    let merged = parent.path().join("merged");
    publish(&merge, &merged, &scene.contents, &RealTreeDisk).unwrap();
    assert_eq!(shape(&merged), ["/ 755", "d/ 555", "d/f 644 f"]);
    publish(&merge, &merged, &scene.contents, &RealTreeDisk).unwrap();
    assert_eq!(names(parent.path()), ["merged"]);
}

#[test]
fn whatever_is_no_directory_is_not_replaced() {
    let parent = begin(false);
    let merged = parent.path().join("merged");
    std::os::unix::fs::symlink("elsewhere", &merged).unwrap();
    let (scene, merge) = new();
    let error = publish(&merge, &merged, &scene.contents, &RealTreeDisk).unwrap_err();
    assert!(error.to_string().contains("a symbolic link is in the way"), "{error}");
    assert_eq!(fs::read_link(&merged).unwrap(), Path::new("elsewhere"));
}

#[test]
fn a_hundred_files_are_published() {
    let parent = begin(true);
    let changes: Vec<(String, String)> = (0..100)
        .map(|number| (format!("code/{number}.rs"), format!("fn f{number}() {{}}\n").repeat(50)))
        .collect();
    let changes: Vec<_> =
        changes.iter().map(|(path, text)| (path.as_str(), None, Some(text.as_str()))).collect();
    let scene = Scene::files().agent("ann", &[], &changes);
    let begun = std::time::Instant::now();
    let merge = scene.ready();
    publish(&merge, &parent.path().join("merged"), &scene.contents, &RealTreeDisk).unwrap();
    println!("100 files planned and published in {:?}", begun.elapsed());
    assert_eq!(shape(&parent.path().join("merged")).len(), 102);
}
