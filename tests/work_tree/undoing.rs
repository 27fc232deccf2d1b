//! The way back: exactly what was there, and nothing of what somebody did since.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode};
use watchkeeper::work_tree::checkpoint::{self, FILE_BYTES_MAX, Wish};
use watchkeeper::work_tree::undo::{self, Refused, UndoError, WhyNot, Word};
use watchkeeper::work_tree::{Checkpoint, Hand, Scan, Scope, absolute, scan};

use crate::scene::{NOON, Scene, an_agent_works, leftovers, picture};

/// A checkpoint, an agent's work after it, and what the batch left.
fn worked(scene: &Scene, work: impl FnOnce(&Scene)) -> Scan {
    scene.checkpoint();
    work(scene);
    scan(&scene.scope()).unwrap()
}

fn refused(scene: &Scene, after: &Scan) -> Vec<String> {
    match scene.undo(after, Hand::free()) {
        Err(UndoError::Refused(Refused(obstacles))) => {
            obstacles.iter().map(|obstacle| absolute(&obstacle.path).display().to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_is_back_exactly_with_modes_links_and_absences() {
    let scene = Scene::with_a_tree();
    let before = scene.picture();
    let after = worked(&scene, an_agent_works);
    assert_ne!(scene.picture(), before);
    let undone = scene.undo(&after, Hand::free()).unwrap();
    assert_eq!(scene.picture(), before);
    assert!(undone.removed.contains(&scene.below_root("made/deep/new.txt")));
    assert!(undone.restored.contains(&scene.below_root("src/deep/er/leaf.txt")));
    assert_eq!(leftovers(&scene.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn undoing_twice_says_that_there_is_nothing_to_undo() {
    let scene = Scene::with_a_tree();
    let after = worked(&scene, an_agent_works);
    scene.undo(&after, Hand::free()).unwrap();
    let checkpoint = Checkpoint::read(&scene.checkpoint_dir()).unwrap().unwrap();
    let now = scan(&checkpoint.scope()).unwrap();
    let plan = undo::plan(&checkpoint, Some(&after.manifest), &now, &|_| Word::Agents).unwrap();
    assert!(plan.is_nothing());
    let before = scene.picture();
    assert_eq!(scene.undo(&after, Hand::free()).unwrap(), undo::Undone::default());
    assert_eq!(scene.picture(), before);
}

#[test]
fn what_somebody_changed_since_is_listed_and_nothing_is_touched() {
    let scene = Scene::with_a_tree();
    let after = worked(&scene, an_agent_works);
    scene.write("readme.md", "a person's work\n", 0o644);
    scene.write("new.txt", "a person's too", 0o644);
    fs::remove_file(scene.tree().join("link")).unwrap();
    scene.set_mode("bin/run", 0o700);
    scene.write("later.txt", "made later", 0o644);
    let left = scene.picture();
    let expected = ["bin/run", "link", "new.txt", "readme.md"];
    assert_eq!(refused(&scene, &after), expected.map(|name| format!("{}/{name}", scene.tree().display())));
    assert_eq!(scene.picture(), left);
    assert!(!scene.checkpoint_dir().join("undo.json").exists());
}

#[test]
fn later_work_elsewhere_can_be_left_while_the_batch_is_undone() {
    let scene = Scene::with_a_tree();
    let mut expected = scene.picture();
    let after = worked(&scene, |scene| scene.write("readme.md", "agent", 0o644));
    scene.write("later.txt", "made later", 0o644);
    scene.write("src/main.rs", "edited later", 0o644);
    for name in ["later.txt", "src/main.rs"] {
        let path = scene.tree().join(name);
        expected.insert(path.clone(), picture(&path)[&path].clone());
    }
    let dir = scene.checkpoint_dir();
    let checkpoint = Checkpoint::read(&dir).unwrap().unwrap();
    let now = scan(&checkpoint.scope()).unwrap();
    let plan = undo::plan(&checkpoint, Some(&after.manifest), &now, &|_| Word::Agents).unwrap();
    assert_eq!(plan.left_alone, [scene.below_root("later.txt"), scene.below_root("src/main.rs")]);
    undo::carry_out(&dir, &checkpoint, &plan, Hand::free()).unwrap();
    assert_eq!(scene.picture(), expected);
}

#[test]
fn a_directory_that_must_make_place_for_a_file_keeps_later_work() {
    let scene = Scene::with_a_tree();
    let after = worked(&scene, an_agent_works);
    // `big.bin` was a file; the batch made it a directory, and somebody put something in.
    scene.write("big.bin/precious", "p", 0o644);
    let checkpoint = Checkpoint::read(&scene.checkpoint_dir()).unwrap().unwrap();
    let now = scan(&checkpoint.scope()).unwrap();
    let planned = undo::plan(&checkpoint, Some(&after.manifest), &now, &|_| Word::Agents);
    let obstacles = planned.unwrap_err().0;
    assert_eq!(obstacles.len(), 1);
    assert_eq!(
        (&obstacles[0].path, &obstacles[0].because),
        (&scene.below_root("big.bin"), &WhyNot::HoldsOther)
    );
}

#[test]
fn a_directory_that_the_batch_made_stays_if_something_else_is_in_it() {
    let scene = Scene::with_a_tree();
    let after = worked(&scene, |scene| scene.write("made/new.txt", "new", 0o644));
    scene.write("made/.tmp-wk-of-somebody", "x", 0o644);
    let undone = scene.undo(&after, Hand::free()).unwrap();
    assert_eq!(undone.kept_directories, [scene.below_root("made")]);
    assert!(!scene.tree().join("made/new.txt").exists());
    assert!(scene.tree().join("made/.tmp-wk-of-somebody").exists());
}

#[test]
fn absent_roots_are_absent_again_with_the_directories_that_led_to_them() {
    let scene = Scene::new();
    let root = scene.path().join("reports/2025/out.md");
    let scope = Scope::new(&[scene.tree(), root.clone()], &[]).unwrap();
    let wish = Wish { scope: &scope, created_at: NOON, file_bytes_max: FILE_BYTES_MAX };
    checkpoint::write(&scene.checkpoint_dir(), &wish, Hand::free(), &mut |_| {}).unwrap();
    fs::create_dir_all(root.parent().unwrap()).unwrap();
    fs::write(&root, "report").unwrap();
    fs::write(scene.path().join("reports/other.md"), "of somebody else").unwrap();
    let after = scan(&scope).unwrap();
    let undone = scene.undo(&after, Hand::free()).unwrap();
    assert!(!scene.path().join("reports/2025").exists());
    assert!(scene.path().join("reports/other.md").exists());
    let kept: Vec<_> = undone.kept_directories.iter().map(absolute).collect();
    assert_eq!(kept, [scene.path().join("reports")]);
}

#[test]
fn a_whole_root_that_was_removed_comes_back() {
    let scene = Scene::with_a_tree();
    let before = scene.picture();
    let after = worked(&scene, |scene| {
        scene.set_mode("locked", 0o755);
        fs::remove_dir_all(scene.tree()).unwrap();
    });
    assert_eq!(after.manifest.len(), 0);
    scene.undo(&after, Hand::free()).unwrap();
    assert_eq!(scene.picture(), before);
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_told_and_not_replaced() {
    let scene = Scene::with_a_tree();
    let after = worked(&scene, |scene| {
        let place = scene.tree().join("readme.md");
        fs::remove_file(&place).unwrap();
        rustix::fs::mknodat(CWD, &place, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    });
    assert_eq!(refused(&scene, &after), [scene.tree().join("readme.md").display().to_string()]);
}

#[test]
fn a_file_whose_content_was_not_kept_is_told_before_anything_is_done() {
    let scene = Scene::with_a_tree();
    let scope = scene.scope();
    let wish = Wish { scope: &scope, created_at: NOON, file_bytes_max: 1000 };
    checkpoint::write(&scene.checkpoint_dir(), &wish, Hand::free(), &mut |_| {}).unwrap();
    scene.write("readme.md", "agent", 0o644);
    scene.set_mode("big.bin", 0o600);
    let only_mode = scan(&scope).unwrap();
    scene.undo(&only_mode, Hand::free()).unwrap();
    assert_eq!(fs::metadata(scene.tree().join("big.bin")).unwrap().permissions().mode() & 0o777, 0o644);
    scene.write("readme.md", "agent", 0o644);
    scene.write("big.bin", "other", 0o644);
    let after = scan(&scope).unwrap();
    let left = scene.picture();
    assert_eq!(refused(&scene, &after), [scene.tree().join("big.bin").display().to_string()]);
    assert_eq!(scene.picture(), left);
}

#[test]
fn what_could_not_be_looked_at_then_is_not_taken_for_the_batchs_work() {
    let scene = Scene::with_a_tree();
    let place = scene.tree().join("was-a-pipe");
    rustix::fs::mknodat(CWD, &place, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let after = worked(&scene, |scene| {
        fs::remove_file(&place).unwrap();
        scene.write("was-a-pipe", "now a file", 0o644);
    });
    assert_eq!(scene.undo(&after, Hand::free()).unwrap(), undo::Undone::default());
    assert!(place.is_file());
}

#[test]
fn a_directory_swapped_for_a_link_does_not_lead_the_undo_out() {
    let scene = Scene::with_a_tree();
    let outside = scene.path().join("outside");
    fs::create_dir_all(outside.join("deep/er")).unwrap();
    fs::write(outside.join("main.rs"), "canary").unwrap();
    fs::write(outside.join("deep/er/leaf.txt"), "canary").unwrap();
    let before = scene.picture();
    let canary = picture(&outside);
    let after = worked(&scene, |scene| {
        fs::remove_dir_all(scene.tree().join("src")).unwrap();
        symlink(&outside, scene.tree().join("src")).unwrap();
    });
    scene.undo(&after, Hand::free()).unwrap();
    assert_eq!((scene.picture(), picture(&outside)), (before, canary));
}

#[test]
fn a_link_that_appears_after_the_plan_is_refused() {
    let scene = Scene::with_a_tree();
    let outside = scene.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("main.rs"), "canary").unwrap();
    let canary = picture(&outside);
    let after = worked(&scene, |scene| scene.write("src/main.rs", "agent", 0o644));
    let dir = scene.checkpoint_dir();
    let checkpoint = Checkpoint::read(&dir).unwrap().unwrap();
    let plan = undo::plan(&checkpoint, Some(&after.manifest), &after, &|_| Word::Agents).unwrap();
    fs::rename(scene.tree().join("src"), scene.path().join("moved")).unwrap();
    symlink(&outside, scene.tree().join("src")).unwrap();
    assert!(undo::carry_out(&dir, &checkpoint, &plan, Hand::free()).is_err());
    assert_eq!(picture(&outside), canary);
}

#[test]
fn special_bits_of_directories_stay_and_those_of_files_are_not_given_back() {
    let scene = Scene::new();
    scene.write("shared/tool", "tool", 0o4755);
    scene.set_mode("shared", 0o2775);
    let after = worked(&scene, |scene| {
        scene.write("shared/tool", "other", 0o755);
        scene.set_mode("shared", 0o2700);
    });
    scene.undo(&after, Hand::free()).unwrap();
    let mode = |name: &str| fs::metadata(scene.tree().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("shared"), mode("shared/tool")), (0o2775, 0o755));
}

#[test]
fn a_plan_on_the_disk_that_says_other_than_the_checkpoint_is_refused() {
    let scene = Scene::with_a_tree();
    let canary = scene.path().join("canary");
    fs::write(&canary, "canary").unwrap();
    let after = worked(&scene, |scene| scene.write("readme.md", "agent", 0o644));
    let dir = scene.checkpoint_dir();
    let checkpoint = Checkpoint::read(&dir).unwrap().unwrap();
    let plan = undo::plan(&checkpoint, Some(&after.manifest), &after, &|_| Word::Agents).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    let tree = scene.below_root("x").parent().unwrap().to_string();
    let outside = tree.replace("/tree", "/canary");
    for case in [
        text.replace(&format!("{tree}/readme.md"), &outside),
        text.replace(&format!("{tree}/readme.md"), &format!("{tree}/bin/run")),
        text.replace("\"remove_if_empty\":[]", &format!("\"remove_if_empty\":[\"{tree}/hollow\"]")),
    ] {
        assert_ne!(case, text, "the case must differ");
        fs::write(dir.join("undo.json"), case).unwrap();
        let left = picture(&scene.path());
        let done = scene.undo(&after, Hand::free());
        assert!(matches!(done, Err(UndoError::BadPlan { .. })), "{done:?}");
        assert_eq!(picture(&scene.path()), left);
    }
}
