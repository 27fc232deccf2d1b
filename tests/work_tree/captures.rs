//! Contents that are kept by their digest, and what changed between two looks.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use watchkeeper::model::tree::{Digest, Entry};
use watchkeeper::work_tree::{Contents, Hand, Store, capture, difference, scan};

use crate::scene::{Fault, Faults, Scene, an_agent_works, leftovers, picture_of, unsynced};

fn digest(entry: &Entry) -> Option<Digest> {
    match entry {
        Entry::File { sha256, .. } => Some(*sha256),
        _ => None,
    }
}

#[test]
fn what_is_put_comes_back_and_is_kept_once() {
    let scene = Scene::new();
    let dir = scene.path().join("objects");
    let store = Store::open(&dir, Hand::free()).unwrap();
    let first = store.put(b"content").unwrap();
    let file = scene.path().join("file");
    fs::write(&file, "content").unwrap();
    assert_eq!(store.put_file(&file).unwrap(), first);
    let large = vec![7; 5 << 20];
    fs::write(&file, &large).unwrap();
    let second = store.put_file(&file).unwrap();
    assert_eq!((store.read(&first).unwrap(), store.read(&second).unwrap()), (b"content".to_vec(), large));
    let hex = first.to_string();
    assert!(dir.join(&hex[..2]).join(&hex[2..]).is_file());
    assert_eq!(leftovers(&dir), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_damaged_content_is_told_and_never_handed_out() {
    let scene = Scene::new();
    let dir = scene.path().join("objects");
    let store = Store::open(&dir, Hand::free()).unwrap();
    let digest = store.put(b"content").unwrap();
    let hex = digest.to_string();
    let place = dir.join(&hex[..2]).join(&hex[2..]);
    fs::remove_file(&place).unwrap();
    assert_eq!(store.read(&digest).unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::write(&place, "CONTENT").unwrap();
    assert_eq!(store.read(&digest).unwrap_err().kind(), io::ErrorKind::InvalidData);
    fs::remove_file(&place).unwrap();
    fs::write(scene.path().join("elsewhere"), "content").unwrap();
    symlink(scene.path().join("elsewhere"), &place).unwrap();
    assert!(store.read(&digest).is_err(), "a link is no content");
}

#[test]
fn a_store_that_is_a_link_is_refused() {
    let scene = Scene::new();
    symlink(scene.tree(), scene.path().join("objects")).unwrap();
    assert!(Store::open(&scene.path().join("objects"), Hand::free()).is_err());
}

#[test]
fn after_an_attempt_every_changed_content_is_in_the_store_and_no_other() {
    let scene = Scene::with_a_tree();
    let store = Store::open(&scene.path().join("objects"), Hand::free()).unwrap();
    let before = scan(&scene.scope()).unwrap();
    an_agent_works(&scene);
    let after = capture(&scene.scope(), Some(&before), &store).unwrap();
    assert_eq!(picture_of(&after.scan), scene.picture());
    let changes = difference(&before.manifest, &after.scan.manifest);
    assert!(changes.len() > 10);
    for change in &changes {
        let same = |entry: &Option<Entry>| entry.as_ref().and_then(digest);
        if let Some(sha256) = same(&change.after).filter(|_| same(&change.before) != same(&change.after)) {
            assert!(store.read(&sha256).is_ok(), "{}", change.path);
        }
    }
    let untouched = digest(&before.manifest[&scene.below_root("bin/run")]).unwrap();
    assert!(!store.holds(&untouched), "only its mode changed");
}

#[test]
fn contents_are_asked_for_in_one_place_after_the_other() {
    let scene = Scene::with_a_tree();
    let (checkpoint, _) = scene.checkpoint();
    let archive = checkpoint.contents(&scene.checkpoint_dir()).unwrap();
    let store = Store::open(&scene.path().join("objects"), Hand::free()).unwrap();
    let new = store.put(b"new").unwrap();
    let both: [&dyn Contents; 2] = [&store, &archive];
    let old = digest(&checkpoint.entries[&scene.below_root("readme.md")]).unwrap();
    assert_eq!(both.read(&new).unwrap(), b"new");
    assert_eq!(both.read(&old).unwrap(), b"read me\n");
    assert_eq!(both.read(&Digest([1; 32])).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_capture_that_is_stopped_anywhere_leaves_no_half_content_under_a_name() {
    for fault in [Fault::Crash, Fault::FullOnce, Fault::Full] {
        for at in 0.. {
            let scene = Scene::new();
            scene.write("small", "small", 0o644);
            scene.write("large", &"large".repeat(1 << 20), 0o644);
            let dir = scene.path().join("objects");
            let faults = Faults::new(fault, at);
            let hand = Hand::hindered_by(&faults);
            let stopped =
                Store::open(&dir, hand).and_then(|store| capture(&scene.scope(), None, &store).map(|_| ()));
            let store = Store::open(&dir, unsynced()).unwrap();
            store.sweep().unwrap();
            for entry in walkdir::WalkDir::new(&dir).into_iter().flatten() {
                if entry.file_type().is_file() {
                    let bytes = fs::read(entry.path()).unwrap();
                    let name = entry.path().strip_prefix(&dir).unwrap().to_str().unwrap().replace('/', "");
                    assert_eq!(watchkeeper::bus::sha256(&bytes), name, "{fault:?} at {at}");
                }
            }
            let captured = capture(&scene.scope(), None, &store).unwrap();
            let mut digests = captured.scan.manifest.values().filter_map(digest);
            assert!(digests.all(|digest| store.read(&digest).is_ok()), "{fault:?} at {at}");
            if stopped.is_ok() && faults.log().len() <= at {
                break;
            }
        }
    }
}
