//! What a scan sees, what it leaves out, and what it need not read again.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use watchkeeper::work_tree::{Scan, Scope, WhyLeftOut, absolute, rescan, scan};

use crate::scene::{Scene, picture_of};

#[test]
fn a_scan_sees_what_the_system_sees() {
    let scene = Scene::with_a_tree();
    let found = scan(&scene.scope()).unwrap();
    assert_eq!(picture_of(&found), scene.picture());
    assert_eq!(found.left_out, []);
}

#[test]
fn a_root_may_be_a_file_a_link_or_nothing() {
    let scene = Scene::with_a_tree();
    let root = |name: &str| scene.tree().join(name);
    let roots = [root("readme.md"), root("link"), root("not/there")];
    let scope = Scope::new(&roots, &[]).unwrap();
    let found = picture_of(&scan(&scope).unwrap());
    assert_eq!(found.keys().collect::<Vec<_>>(), [&root("link"), &root("readme.md")]);
    assert_eq!(found[&root("link")], "-> readme.md");
    let absent: Vec<_> = scope.absent().iter().map(absolute).collect();
    assert_eq!(absent, [root("not"), root("not/there")]);
}

#[test]
fn a_root_inside_another_is_folded_into_it_also_through_a_link() {
    let scene = Scene::with_a_tree();
    symlink(scene.tree(), scene.path().join("alias")).unwrap();
    let roots = [scene.tree().join("src/deep"), scene.path().join("alias/src"), scene.tree()];
    let scope = Scope::new(&roots, &[]).unwrap();
    let folded: Vec<_> = scope.roots().iter().map(absolute).collect();
    assert_eq!(folded, [scene.tree()]);
}

#[test]
fn roots_that_are_relative_go_upward_or_mean_everything_are_refused() {
    for path in ["relative", "/a/../b", "/", "/."] {
        let refused = Scope::new(&[path.into()], &[]);
        assert!(refused.is_err(), "{path}: {refused:?}");
    }
}

#[test]
fn a_link_is_never_followed() {
    let scene = Scene::new();
    fs::create_dir(scene.path().join("outside")).unwrap();
    fs::write(scene.path().join("outside/secret"), "secret").unwrap();
    symlink(scene.path().join("outside"), scene.tree().join("out")).unwrap();
    symlink(".", scene.tree().join("circle")).unwrap();
    symlink("/proc/self/fd", scene.tree().join("magic")).unwrap();
    let found = picture_of(&scan(&scene.scope()).unwrap());
    let names: Vec<_> = found.keys().map(|path| path.strip_prefix(scene.path()).unwrap()).collect();
    let expected = ["tree", "tree/circle", "tree/magic", "tree/out"];
    assert_eq!(names, expected.map(std::path::Path::new));
}

#[test]
fn pipes_sockets_and_our_own_leftovers_are_left_out_and_told_and_block_nothing() {
    let scene = Scene::new();
    scene.write("file", "f", 0o644);
    scene.write(".tmp-wk-half-written", "half", 0o644);
    let pipe = scene.tree().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let _socket = UnixListener::bind(scene.tree().join("socket")).unwrap();
    let found = scan(&scene.scope()).unwrap();
    let told: Vec<_> = found.left_out.iter().map(|left| (absolute(&left.path), &left.because)).collect();
    let at = |name: &str| scene.tree().join(name);
    let expected = [
        (at(".tmp-wk-half-written"), &WhyLeftOut::OwnTemporary),
        (at("pipe"), &WhyLeftOut::Pipe),
        (at("socket"), &WhyLeftOut::Socket),
    ];
    assert_eq!(told, expected);
    assert_eq!(picture_of(&found).len(), 2);
}

#[test]
fn what_may_not_be_read_is_left_out_and_told() {
    let scene = Scene::new();
    scene.write("open", "o", 0o644);
    scene.write("closed", "c", 0o000);
    scene.write("closed-dir/inside", "i", 0o644);
    scene.set_mode("closed-dir", 0o000);
    let found = scan(&scene.scope()).unwrap();
    if rustix::process::geteuid().is_root() {
        // Nothing is closed to this user; then nothing may be missing.
        assert_eq!((found.left_out.len(), found.manifest.len()), (0, 5));
        return;
    }
    let told: Vec<String> = found.left_out.iter().map(ToString::to_string).collect();
    assert!(told.len() == 2 && told[0].contains("cannot be read"), "{told:?}");
}

#[test]
fn a_mounted_directory_is_left_out_and_told() {
    let scene = Scene::new();
    scene.write("mounted/hidden", "h", 0o644);
    let place = scene.tree().join("mounted");
    // Unprivileged tests have a mount in every tree only below /proc: then there is nothing to show.
    let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&place).output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        println!("skipped: this user may not mount");
        return;
    }
    let found = scan(&scene.scope());
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&place).status();
    assert!(unmounted.unwrap().success());
    let found = found.unwrap();
    assert_eq!(found.left_out.len(), 1);
    assert_eq!(found.left_out[0].because, WhyLeftOut::OtherMount);
}

#[test]
fn what_is_excluded_is_not_looked_into() {
    let scene = Scene::with_a_tree();
    let excluded = [scene.tree().join("src"), scene.tree().join("big.bin")];
    let found = scan(&Scope::new(&[scene.tree()], &excluded).unwrap()).unwrap();
    let mut expected = scene.picture();
    expected.retain(|path, _| !excluded.iter().any(|excluded| path.starts_with(excluded)));
    assert_eq!(picture_of(&found), expected);
}

#[test]
fn names_of_any_bytes_are_kept_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new();
    let names: [&[u8]; 4] = [b"\xff\xfe", b"a\nb", b"back\\slash", "\u{202e}gpj.exe".as_bytes()];
    for name in names {
        fs::write(scene.tree().join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let found = scan(&scene.scope()).unwrap();
    assert_eq!(picture_of(&found), scene.picture());
    let spelled = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Scan>(&spelled).unwrap(), found);
}

/// Makes every file old enough for the next scan to remember it.
fn settle(scene: &Scene) -> Scan {
    let found = scan(&scene.scope()).unwrap();
    // The time of change cannot be set, so it must be waited for.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let again = rescan(&scene.scope(), &found).unwrap();
        let files = |found: &Scan| {
            let kinds = found.manifest.values();
            kinds.filter(|entry| matches!(entry, watchkeeper::model::tree::Entry::File { .. })).count()
        };
        if again.seen.len() == files(&again) {
            return again;
        }
        assert!(Instant::now() < deadline, "files never settle");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A tree, and a scan so shortly after it was made that nothing in it can have settled. On a busy machine more time may
/// pass between the two: then it is another scene.
fn scanned_at_once() -> (Scene, Scan) {
    loop {
        let begun = Instant::now();
        let scene = Scene::with_a_tree();
        let found = scan(&scene.scope()).unwrap();
        if begun.elapsed() < Duration::from_secs(1) {
            return (scene, found);
        }
    }
}

#[test]
fn a_file_that_was_just_written_is_read_again_and_a_settled_one_is_not() {
    let (scene, fresh) = scanned_at_once();
    assert_eq!(fresh.seen.len(), 0, "written in this very moment, so not to be trusted");
    let mut settled = settle(&scene);
    assert_eq!(settled.manifest, fresh.manifest);
    // A lie in the cache shows what is taken from it and what is read.
    let path = scene.below_root("readme.md");
    let other = settled.manifest[&scene.below_root("bin/run")].clone();
    settled.manifest.insert(path.clone(), other.clone());
    let believed = rescan(&scene.scope(), &settled).unwrap();
    let digest = |entry: &watchkeeper::model::tree::Entry| match entry {
        watchkeeper::model::tree::Entry::File { sha256, .. } => *sha256,
        other => panic!("{other:?}"),
    };
    assert_eq!(digest(&believed.manifest[&path]), digest(&other));
    scene.write("readme.md", "READ ME\n", 0o644);
    let read = rescan(&scene.scope(), &settled).unwrap();
    assert_eq!(picture_of(&read), scene.picture());
}

#[test]
fn a_change_that_keeps_size_and_time_of_modification_is_noticed() {
    let scene = Scene::with_a_tree();
    let settled = settle(&scene);
    let path = scene.tree().join("readme.md");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "red me!\n").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let again = rescan(&scene.scope(), &settled).unwrap();
    assert_eq!(picture_of(&again), scene.picture());
}

#[test]
fn a_directory_that_is_swapped_for_a_link_all_the_time_never_leads_out() {
    let scene = Scene::new();
    fs::create_dir(scene.path().join("outside")).unwrap();
    fs::write(scene.path().join("outside/secret"), "secret").unwrap();
    scene.write("real/inside", "inside", 0o644);
    let (real, link) = (scene.tree().join("real"), scene.tree().join("link"));
    symlink(scene.path().join("outside"), &link).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &real, CWD, &link, exchange).unwrap();
            }
        });
        for _ in 0..500 {
            let found = scan(&scene.scope()).unwrap();
            let names: Vec<_> = found.manifest.keys().map(|path| path.name().to_vec()).collect();
            assert!(!names.contains(&b"secret".to_vec()), "{names:?}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
