//! What a checkpoint holds, and that others can read it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use watchkeeper::model::tree::{Digest, Entry};
use watchkeeper::work_tree::checkpoint::{self, CheckpointError, Progress, Wish};
use watchkeeper::work_tree::{Checkpoint, Contents, Hand, Scope, WhyLeftOut, absolute, scan};

use crate::scene::{NOON, Scene, leftovers, picture_of};

#[test]
fn a_checkpoint_comes_back_as_it_was_written_with_every_content() {
    let scene = Scene::with_a_tree();
    let (written, found) = scene.checkpoint();
    let read = Checkpoint::read(&scene.checkpoint_dir()).unwrap().unwrap();
    assert_eq!(read, written);
    assert_eq!(picture_of(&found), scene.picture());
    let archive = read.contents(&scene.checkpoint_dir()).unwrap();
    for (path, entry) in &read.entries {
        if let Entry::File { sha256, .. } = entry {
            assert_eq!(archive.read(sha256).unwrap(), fs::read(absolute(path)).unwrap(), "{path}");
        }
    }
    assert_eq!(leftovers(&scene.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn tar_lists_the_archive_with_each_content_once_and_no_empty_one() {
    let scene = Scene::with_a_tree();
    let (written, _) = scene.checkpoint();
    let archive = scene.checkpoint_dir().join("checkpoint.tar.gz");
    let listed = Command::new("tar").arg("tzf").arg(&archive).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names: Vec<String> = String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect();
    let expected: Vec<String> =
        written.archive.objects.iter().map(|digest| format!("objects/{digest}")).collect();
    assert_eq!(names, expected);
    // Seven files: one is empty, two are the same.
    assert_eq!(names.len(), 6);
    let bytes = fs::read(&archive).unwrap();
    assert_eq!(watchkeeper::bus::sha256(&bytes), written.archive.sha256.to_string());
    let unpacked = scene.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let status = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&unpacked).status();
    assert!(status.unwrap().success());
    for name in names {
        let bytes = fs::read(unpacked.join(&name)).unwrap();
        assert_eq!(format!("objects/{}", watchkeeper::bus::sha256(&bytes)), name);
    }
}

#[test]
fn contents_of_many_blocks_are_found_one_by_one() {
    let scene = Scene::new();
    let mut seed = 1_u64;
    for number in 0..200 {
        let mut words = Vec::new();
        for _ in 0..number * 40 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            words.push(format!("{:x}", seed >> 40));
        }
        let text = words.join(" ");
        scene.write(&format!("d{}/f{number}", number % 7), &text, 0o644);
    }
    scene.write("large", &"large file ".repeat(1 << 20), 0o644);
    let (written, _) = scene.checkpoint();
    assert!(written.archive.blocks.len() > 10, "{}", written.archive.blocks.len());
    let archive = written.contents(&scene.checkpoint_dir()).unwrap();
    for (path, entry) in &written.entries {
        if let Entry::File { sha256, .. } = entry {
            assert_eq!(archive.read(sha256).unwrap(), fs::read(absolute(path)).unwrap(), "{path}");
        }
    }
    assert!(archive.read(&Digest([3; 32])).is_err());
}

#[test]
fn absent_roots_exclusions_and_large_files_are_remembered_and_told() {
    let scene = Scene::with_a_tree();
    let roots = [scene.tree(), scene.path().join("reports/out.md")];
    let scope = Scope::new(&roots, &[scene.tree().join("src")]).unwrap();
    let wish = Wish { scope: &scope, created_at: NOON, file_bytes_max: 1000 };
    let mut told = Vec::new();
    let mut progress = |progress: Progress| told.push(progress);
    let written = checkpoint::write(&scene.checkpoint_dir(), &wish, Hand::free(), &mut progress);
    let (written, _) = written.unwrap();
    let absent: Vec<_> = written.absent.iter().map(absolute).collect();
    assert_eq!(absent, [scene.path().join("reports"), scene.path().join("reports/out.md")]);
    assert!(!written.entries.contains_key(&scene.below_root("src")));
    let big = scene.below_root("big.bin");
    assert_eq!(written.left_out.len(), 1);
    assert_eq!(written.left_out[0].path, big);
    assert_eq!(written.left_out[0].because, WhyLeftOut::TooLarge { size: 640_000, limit: 1000 });
    assert!(written.entries.contains_key(&big), "its digest is known all the same");
    let last = told.last().unwrap();
    assert_eq!(last.done, last.total);
    assert_eq!((last.done.files, told.len()), (5, 5));
}

#[test]
fn a_checkpoint_is_written_once_and_not_through_a_link() {
    let scene = Scene::with_a_tree();
    symlink(scene.tree(), scene.checkpoint_dir()).unwrap();
    let before = scene.picture();
    assert!(matches!(scene.try_checkpoint(Hand::free()), Err(CheckpointError::Disk(_))));
    assert_eq!(scene.picture(), before);
    fs::remove_file(scene.checkpoint_dir()).unwrap();
    scene.checkpoint();
    let again = scene.try_checkpoint(Hand::free());
    assert!(matches!(again, Err(CheckpointError::AlreadyThere { .. })), "{again:?}");
}

#[test]
fn no_checkpoint_is_none_and_a_foreign_manifest_is_refused() {
    let scene = Scene::with_a_tree();
    assert_eq!(Checkpoint::read(&scene.checkpoint_dir()).unwrap(), None);
    scene.checkpoint();
    let place = scene.checkpoint_dir().join("manifest.json");
    let text = fs::read_to_string(&place).unwrap();
    let tree = scene.below_root("x").parent().unwrap().to_string();
    let outside = format!("\"{tree}/../canary\":{{\"type\":\"directory\",\"mode\":493}},\"{tree}/bin\"");
    let beside = format!("\"{tree}x\":{{\"type\":\"directory\",\"mode\":493}},\"{tree}/bin\"");
    let below_file = format!("\"{tree}/empty/x\":{{\"type\":\"directory\",\"mode\":493}},\"{tree}/bin\"");
    let cases = [
        text.replace("\"version\":1", "\"version\":2"),
        text.replacen(&format!("\"{tree}/bin\""), &outside, 1),
        text.replacen(&format!("\"{tree}/bin\""), &beside, 1),
        text.replacen(&format!("\"{tree}/bin\""), &below_file, 1),
        text.replacen("\"mode\":493", "\"mode\":2541", 1),
        text[..text.len() / 2].to_owned(),
    ];
    for case in cases {
        assert_ne!(case, text, "the case must differ");
        fs::write(&place, &case).unwrap();
        let read = Checkpoint::read(&scene.checkpoint_dir());
        assert!(matches!(read, Err(CheckpointError::BadManifest { .. })), "{read:?}");
    }
}

#[test]
fn a_checkpoint_of_a_large_file_that_is_exchanged_while_it_is_read_stays_whole() {
    let scene = Scene::new();
    let large = |letter: &str| letter.repeat(6 << 20);
    scene.write("a-first", "first", 0o644);
    scene.write("large", &large("x"), 0o644);
    scene.write("z-last", "last", 0o644);
    let path = scene.tree().join("large");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for letter in ["y", "z"] {
                    fs::write(&path, large(letter)).unwrap();
                }
            }
        });
        scene.checkpoint();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // Whatever became of the large file, everything that the manifest names is there and whole.
    let read = Checkpoint::read(&scene.checkpoint_dir()).unwrap().unwrap();
    let archive = read.contents(&scene.checkpoint_dir()).unwrap();
    for entry in read.entries.values() {
        if let Entry::File { sha256, .. } = entry {
            archive.read(sha256).unwrap();
        }
    }
    assert!(read.entries.contains_key(&scene.below_root("z-last")));
}

#[test]
fn the_scan_of_a_checkpoint_is_one_to_go_on_from() {
    let scene = Scene::with_a_tree();
    let (_, found) = scene.checkpoint();
    assert_eq!(scan(&scene.scope()).unwrap().manifest, found.manifest);
}
