//! Receipts: each change once, and an audit that notices whatever is lost, invented or told wrongly.

use std::collections::{BTreeMap, BTreeSet};

use watchkeeper::bus::platform::worked_us;
use watchkeeper::merge::audit::audit;
use watchkeeper::merge::receipt::Fate;
use watchkeeper::merge::{Contribution, Merge, Receipt};
use watchkeeper::model::inspected::Change;
use watchkeeper::model::tree::{Entry, Manifest};

use crate::scene::{Scene, path};

fn scene() -> Scene {
    let (base, top, end) = ("1\n2\n3\n4\n5\n", "x\n2\n3\n4\n5\n", "1\n2\n3\n4\ny\n");
    Scene::files()
        .agent("ann", &[], &[("f", Some(base), Some(top)), ("a", None, Some("a")), ("old", Some("o"), None)])
        .agent("bob", &[], &[("f", Some(base), Some(end)), ("d/b", None, Some("-> ../a"))])
        .agent("eve", &["ann"], &[("a", Some("a"), Some("A"))])
}

/// A merge, spoiled in one way, and whether the audit notices.
#[track_caller]
fn notices(what: &str, spoil: impl Fn(&mut Manifest, &mut Receipt)) {
    let scene = scene();
    let merge: Merge = scene.ready();
    let (mut tree, mut receipt) = (merge.tree().clone(), merge.receipt().clone());
    audit(&scene.contributions, &tree, receipt.clone()).expect("an honest merge passes");
    spoil(&mut tree, &mut receipt);
    let found = audit(&scene.contributions, &tree, receipt);
    assert!(found.is_err(), "{what} goes unnoticed");
}

fn fix_totals(receipt: &mut Receipt) {
    receipt.totals.changes = receipt.lines.len();
}

#[test]
fn every_planted_loss_is_noticed() {
    notices("a file that is lost", |tree, _| drop(tree.remove(&path("a"))));
    notices("a lost file whose digest is not told either", |tree, receipt| {
        tree.remove(&path("a"));
        receipt.lines.iter_mut().filter(|line| line.place == path("a")).for_each(|line| line.digest = None);
    });
    notices("a change without a line", |_, receipt| {
        receipt.lines.remove(0);
        fix_totals(receipt);
    });
    notices("a change with two lines", |_, receipt| {
        let line = receipt.lines[0].clone();
        receipt.lines.push(line);
        fix_totals(receipt);
    });
    notices("a deleted file that is back", |tree, _| {
        tree.insert(
            path("old"),
            Entry::File { mode: 0o644, size: 0, sha256: watchkeeper::merge::contents::digest_of(b"") },
        );
    });
    notices("a merged file that is one side's", |tree, _| {
        let scene = scene();
        tree.insert(path("f"), scene.contributions[0].changes[0].theirs.clone().unwrap());
    });
    notices("a mode that is another", |tree, _| {
        if let Some(Entry::File { mode, .. }) = tree.get_mut(&path("a")) {
            *mode = 0o777;
        }
    });
    notices("a link that leads elsewhere", |tree, _| {
        tree.insert(path("d/b"), scene().entry("-> ../f"));
    });
}

#[test]
fn what_a_copy_lacks_is_told_and_a_receipt_without_it_is_not_believed() {
    let mut scene = scene();
    scene.contributions[1].lacks.insert(path("a"));
    let merge = scene.ready();
    let (tree, receipt) = (merge.tree(), merge.receipt());
    let of_absence =
        receipt.lines.iter().position(|line| line.agent == "bob" && line.path == path("a")).unwrap();
    let line = &receipt.lines[of_absence];
    assert_eq!(line.fate, Fate::Dropped { rule: "perhaps_never_copied" });
    assert!(tree.contains_key(&path("a")) && line.digest.is_some(), "what others have of it stays");
    let mut silent = receipt.clone();
    silent.lines.remove(of_absence);
    silent.totals.changes -= 1;
    silent.totals.dropped -= 1;
    assert!(audit(&scene.contributions, tree, silent).is_err());
    let mut invented = receipt.clone();
    invented.lines[of_absence].fate = Fate::Kept;
    assert!(audit(&scene.contributions, tree, invented).is_err());
}

#[test]
fn every_invented_fate_is_noticed() {
    let set = |receipt: &mut Receipt, at: &str, fate: Fate| {
        let lines = receipt.lines.iter_mut().filter(|line| line.path == path(at));
        lines.for_each(|line| line.fate = fate.clone());
        receipt.totals = watchkeeper::merge::receipt::totals(&receipt.lines);
    };
    notices("a change that still waits", |_, receipt| {
        set(receipt, "f", Fate::Escalated { conflict: "c-1".to_owned() });
    });
    notices("all versions superseded by each other", |_, receipt| {
        let because = watchkeeper::merge::receipt::Because::Priority;
        let by = |who: &str| Fate::Superseded { by: who.to_owned(), because };
        set(receipt, "f", by("ann"));
        receipt.lines[0].fate = by("bob");
        receipt.totals = watchkeeper::merge::receipt::totals(&receipt.lines);
    });
    notices("a partner who was not there", |_, receipt| {
        set(receipt, "f", Fate::Merged { with: vec!["eve".to_owned()] });
    });
    notices("a file told as kept that is not", |_, receipt| set(receipt, "f", Fate::Kept));
    notices("a file that nobody brought", |tree, _| {
        tree.insert(path("stranger"), Entry::Link { target: watchkeeper::model::tree::RawText::new("a") });
    });
    notices("a thing told as made that is not", |_, receipt| {
        receipt.made[0].path = path("nowhere");
    });
    notices("totals that are not those of the lines", |_, receipt| receipt.totals.kept += 1);
}

#[test]
fn a_receipt_as_json_tells_each_change_in_one_place() {
    let merge = scene().ready();
    let told: serde_json::Value = serde_json::from_slice(&merge.receipt().to_json()).unwrap();
    assert_eq!(told["totals"]["changes"], 6);
    assert_eq!((&told["totals"]["merged"], &told["totals"]["superseded"]), (&2.into(), &1.into()));
    let first = &told["lines"][0];
    assert_eq!(
        (&first["agent"], &first["path"], &first["change"]),
        (&"ann".into(), &"a".into(), &"added".into())
    );
    assert_eq!(first["fate"]["by"], "eve");
    assert_eq!(told["made"][0]["by"], "parent_directory");
}

/// One agent makes 50,000 files, another that saw them changes 100.
#[test]
fn a_hundred_changes_to_fifty_thousand_files_are_planned() {
    const FILES: usize = 50_000;
    const CHANGED: usize = 100;
    let scene = Scene::files();
    let entry = scene.entry("content\n");
    let edited = scene.entry("content\nand more\n");
    let name = |number: usize| path(&format!("code/{:03}/{number}.rs", number % 500));
    let added = |number: usize| Change { path: name(number), base: None, theirs: Some(entry.clone()) };
    let changed = |number: usize| Change { path: name(number * 7), base: None, theirs: Some(edited.clone()) };
    let first = Contribution {
        who: "ann".to_owned(),
        depends_on: Vec::new(),
        changes: (0..FILES).map(added).collect(),
        untouched: BTreeSet::new(),
        lacks: BTreeSet::new(),
        side_by_side: BTreeMap::new(),
    };
    let second = Contribution {
        who: "bob".to_owned(),
        depends_on: vec!["ann".to_owned()],
        changes: (0..CHANGED).map(changed).collect(),
        untouched: BTreeSet::new(),
        lacks: BTreeSet::new(),
        side_by_side: BTreeMap::new(),
    };
    let scene = Scene { contributions: vec![first, second], ..scene };
    let begun_us = worked_us();
    let merge = scene.ready();
    println!("{} paths planned with {} ms of work", merge.tree().len(), (worked_us() - begun_us) / 1000);
    assert_eq!(merge.receipt().totals.superseded, CHANGED);
    assert_eq!(merge.receipt().totals.kept, FILES);
}
