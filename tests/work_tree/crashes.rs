//! A crash and a full disk at every single operation of a checkpoint and of an undo.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use watchkeeper::work_tree::checkpoint::{self, FILE_BYTES_MAX, Wish};
use watchkeeper::work_tree::undo::{self, UndoError, Word};
use watchkeeper::work_tree::{Checkpoint, Hand, Operation, Scope, scan};

use crate::scene::{Fault, Faults, NOON, Scene, an_agent_works, leftovers, picture, picture_of, unsynced};

const FAULTS: [Fault; 3] = [Fault::Crash, Fault::FullOnce, Fault::Full];

#[test]
fn a_checkpoint_that_is_stopped_anywhere_is_none_or_complete_and_can_be_written_again() {
    for fault in FAULTS {
        for at in 0.. {
            let scene = Scene::with_a_tree();
            let before = scene.picture();
            let faults = Faults::new(fault, at);
            let stopped = scene.try_checkpoint(Hand::hindered_by(&faults));
            let told = format!("{fault:?} at {at}: {:?}", faults.log().last());
            assert_eq!(scene.picture(), before, "{told}");
            let read = Checkpoint::read(&scene.checkpoint_dir()).unwrap();
            let complete = match read {
                Some(checkpoint) => checkpoint,
                None => {
                    assert!(stopped.is_err(), "{told}");
                    if fault != Fault::Crash {
                        let text = stopped.as_ref().unwrap_err().to_string();
                        assert!(text.contains("No space left"), "{told}: {text}");
                    }
                    scene.checkpoint().0
                }
            };
            let archive = complete.contents(&scene.checkpoint_dir()).unwrap();
            for digest in &complete.archive.objects {
                watchkeeper::work_tree::Contents::read(&archive, digest).unwrap();
            }
            assert_eq!(picture_of(&scan(&complete.scope()).unwrap()), before, "{told}");
            let left = leftovers(&scene.path());
            assert!(left.is_empty(), "{told}: {left:?}");
            if stopped.is_ok() && faults.log().len() <= at {
                assert!(at > 10, "a checkpoint takes more than {at} operations");
                break;
            }
        }
    }
}

/// Every path is as the batch left it or as it was before: nothing is half written under its name. Where one
/// kind of thing becomes another, it may be missing for a moment, and directories get their modes last.
fn is_between(
    now: &BTreeMap<PathBuf, String>,
    left: &BTreeMap<PathBuf, String>,
    old: &BTreeMap<PathBuf, String>,
) {
    for (path, what) in now {
        let is_ours =
            path.components().any(|part| part.as_os_str().to_string_lossy().starts_with(".tmp-wk-"));
        let fits = [left.get(path), old.get(path)].contains(&Some(what));
        assert!(is_ours || fits || what.starts_with("directory"), "{}: {what}", path.display());
    }
    for (path, what) in old {
        let was_always = left.get(path) == Some(what);
        assert!(!was_always || now.contains_key(path), "{} is gone", path.display());
    }
}

#[test]
fn an_undo_that_is_stopped_anywhere_is_completed_by_the_next_one() {
    for fault in FAULTS {
        for at in 0.. {
            let scene = Scene::with_a_tree();
            let before = scene.picture();
            scene.checkpoint();
            an_agent_works(&scene);
            let after = scan(&scene.scope()).unwrap();
            let left = scene.picture();
            let faults = Faults::new(fault, at);
            let stopped = scene.undo(&after, Hand::hindered_by(&faults));
            let told = format!("{fault:?} at {at}: {:?}", faults.log().last());
            is_between(&scene.picture(), &left, &before);
            if let Err(error) = &stopped {
                assert!(matches!(error, UndoError::Disk(_)), "{told}: {error:?}");
                assert!(error.to_string().contains("No space left"), "{told}: {error}");
                scene.undo(&after, unsynced()).unwrap_or_else(|error| panic!("{told}: {error}"));
            }
            assert_eq!(scene.picture(), before, "{told}");
            let remains = leftovers(&scene.path());
            assert!(remains.is_empty(), "{told}: {remains:?}");
            assert!(!scene.checkpoint_dir().join("undo.json").exists(), "{told}");
            if stopped.is_ok() && faults.log().len() <= at {
                assert!(at > 40, "this undo takes more than {at} operations");
                break;
            }
        }
    }
}

#[test]
fn a_second_crash_in_the_completion_changes_nothing_either() {
    let total = {
        let scene = Scene::with_a_tree();
        scene.checkpoint();
        an_agent_works(&scene);
        let after = scan(&scene.scope()).unwrap();
        let faults = Faults::none();
        scene.undo(&after, Hand::hindered_by(&faults)).unwrap();
        faults.log().len()
    };
    for first in (0..total).step_by(5) {
        for second in (0..total).step_by(7) {
            let scene = Scene::with_a_tree();
            let before = scene.picture();
            scene.checkpoint();
            an_agent_works(&scene);
            let after = scan(&scene.scope()).unwrap();
            for at in [first, second] {
                let faults = Faults::new(Fault::Crash, at);
                let _ = scene.undo(&after, Hand::hindered_by(&faults));
            }
            scene.undo(&after, unsynced()).unwrap_or_else(|error| panic!("{first}, {second}: {error}"));
            assert_eq!(scene.picture(), before, "{first}, {second}");
        }
    }
}

#[test]
fn what_somebody_changed_between_crash_and_completion_is_refused() {
    let scene = Scene::with_a_tree();
    scene.checkpoint();
    an_agent_works(&scene);
    let after = scan(&scene.scope()).unwrap();
    let faults = Faults::new(Fault::Crash, 30);
    assert!(scene.undo(&after, Hand::hindered_by(&faults)).is_err());
    assert!(scene.checkpoint_dir().join("undo.json").exists(), "{:?}", faults.log());
    scene.write("readme.md", "a person's work", 0o644);
    let refused = scene.undo(&after, Hand::free());
    assert!(matches!(&refused, Err(UndoError::Refused(_))), "{refused:?}");
    assert_eq!(fs::read_to_string(scene.tree().join("readme.md")).unwrap(), "a person's work");
    scene.write("readme.md", "rewritten\n", 0o644);
    scene.undo(&after, Hand::free()).unwrap();
    assert_eq!(fs::read_to_string(scene.tree().join("readme.md")).unwrap(), "read me\n");
}

#[test]
fn nothing_gets_its_name_before_it_is_synced() {
    let scene = Scene::with_a_tree();
    let faults = Faults::none();
    let hand = Hand::hindered_by(&faults);
    scene.try_checkpoint(hand).unwrap();
    an_agent_works(&scene);
    let after = scan(&scene.scope()).unwrap();
    scene.undo(&after, hand).unwrap();
    let log = faults.log();
    let position = |wanted: (Operation, &str)| {
        log.iter().position(|(operation, name)| (*operation, name.as_str()) == wanted).unwrap()
    };
    let order = [
        (Operation::SyncFile, ".tmp-wk-checkpoint.tar.gz"),
        (Operation::Rename, "checkpoint.tar.gz"),
        (Operation::SyncDirectory, "checkpoint.tar.gz"),
        (Operation::SyncFile, ".tmp-wk-manifest.json"),
        (Operation::Rename, "manifest.json"),
        (Operation::SyncDirectory, "manifest.json"),
        (Operation::SyncFile, ".tmp-wk-undo.json"),
        (Operation::Rename, "undo.json"),
        (Operation::SyncDirectory, "undo.json"),
        (Operation::MakeLink, "readme.md"),
        (Operation::Rename, "readme.md"),
        (Operation::SyncDirectory, "tree"),
        (Operation::Rename, "undone.json"),
    ];
    let positions: Vec<usize> = order.into_iter().map(position).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    let created = log.iter().filter(|(operation, _)| *operation == Operation::CreateFile).count();
    let synced = log.iter().filter(|(operation, _)| *operation == Operation::SyncFile).count();
    assert!(synced >= created, "{created} files were made, {synced} synced");
}

/// A small file system of its own, if this user may mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: PathBuf) -> Option<Self> {
        fs::create_dir(&place).unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&place).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(SmallDisk(place))
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut filler = fs::File::create(self.0.join("filler")).unwrap();
        while filler.write(&[1; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At once out of the tree, even if somebody who was started meanwhile still has a file of it open.
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.0.display());
    }
}

#[test]
fn a_disk_that_is_really_full_is_told_and_what_was_begun_is_completed_when_there_is_room() {
    let scene = Scene::with_a_tree();
    let Some(disk) = SmallDisk::mount(scene.path().join("small")) else {
        println!("skipped: this user may not mount");
        return;
    };
    let (tree, dir) = (disk.0.join("tree"), disk.0.join("checkpoint"));
    let copied = Command::new("cp").arg("-a").arg(scene.tree()).arg(&tree).status();
    assert!(copied.unwrap().success());
    let before = picture(&tree);
    let scope = Scope::new(std::slice::from_ref(&tree), &[]).unwrap();
    let wish = Wish { scope: &scope, created_at: NOON, file_bytes_max: FILE_BYTES_MAX };
    disk.fill();
    let full = checkpoint::write(&dir, &wish, Hand::free(), &mut |_| {}).unwrap_err();
    assert!(full.to_string().contains("No space left"), "{full}");
    assert_eq!((picture(&tree), Checkpoint::read(&dir).unwrap()), (before.clone(), None));
    fs::remove_file(disk.0.join("filler")).unwrap();
    let (checkpoint, _) = checkpoint::write(&dir, &wish, Hand::free(), &mut |_| {}).unwrap();

    fs::remove_file(tree.join("big.bin")).unwrap();
    fs::write(tree.join("readme.md"), "agent").unwrap();
    let after = scan(&scope).unwrap();
    let left = picture(&tree);
    let plan = undo::plan(&checkpoint, Some(&after.manifest), &after, &|_| Word::Agents).unwrap();
    disk.fill();
    let full = undo::carry_out(&dir, &checkpoint, &plan, Hand::free()).unwrap_err();
    assert!(full.to_string().contains("No space left"), "{full}");
    let visible = |mut seen: BTreeMap<PathBuf, String>| {
        seen.retain(|path, _| !path.to_string_lossy().contains("/.tmp-wk-"));
        seen
    };
    assert_eq!(visible(picture(&tree)), left, "nothing changes before everything is ready");
    fs::remove_file(disk.0.join("filler")).unwrap();
    let plan = undo::begun(&dir).unwrap().unwrap_or(plan);
    undo::carry_out(&dir, &checkpoint, &plan, Hand::free()).unwrap();
    assert_eq!(picture(&tree), before);
}
