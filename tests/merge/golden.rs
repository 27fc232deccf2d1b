//! What becomes of adds, edits, deletes, renames, modes, links and binaries, alone and against each other.

use watchkeeper::merge::Planned;
use watchkeeper::model::handoff::{Choice, Choices};

use crate::scene::{Scene, fate, path};

const BASE: &str = "one\ntwo\nthree\nfour\nfive\n";
const TOP: &str = "ONE\ntwo\nthree\nfour\nfive\n";
const END: &str = "one\ntwo\nthree\nfour\nFIVE\n";
const BOTH: &str = "ONE\ntwo\nthree\nfour\nFIVE\n";

#[test]
fn edits_of_different_lines_merge() {
    let scene = Scene::files().agent("ann", &[], &[("code/app.py", Some(BASE), Some(TOP))]).agent(
        "bob",
        &[],
        &[("code/app.py", Some(BASE), Some(END))],
    );
    let merge = scene.gives(&[("code/app.py", BOTH)]);
    assert_eq!(fate(&merge, "ann", "code/app.py"), r#"{"is":"merged","with":["bob"]}"#);
    assert_eq!(merge.receipt().totals.merged, 2);
}

#[test]
fn outputs_of_different_names_stand_side_by_side() {
    let scene = Scene::files()
        .agent("ann", &[], &[("code", None, Some("dir")), ("code/a.py", None, Some("a\n"))])
        .agent("bob", &[], &[("code", None, Some("dir")), ("code/b.py", None, Some("x!b"))]);
    let merge = scene.gives(&[("code/a.py", "a\n"), ("code/b.py", "x!b")]);
    assert_eq!(fate(&merge, "bob", "code"), r#"{"is":"kept"}"#);
}

#[test]
fn the_same_change_made_twice_is_no_conflict() {
    let scene = Scene::files()
        .agent(
            "ann",
            &[],
            &[("f", Some(BASE), Some(TOP)), ("new", None, Some("n")), ("gone", Some("g"), None)],
        )
        .agent(
            "bob",
            &[],
            &[("f", Some(BASE), Some(TOP)), ("new", None, Some("n")), ("gone", Some("g"), None)],
        );
    let merge = scene.gives(&[("f", TOP), ("new", "n")]);
    assert_eq!(merge.receipt().totals.kept, 6);
    assert!(merge.deleted().contains(&path("gone")));
}

#[test]
fn an_edit_against_a_deletion_waits_for_a_person() {
    let scene = Scene::files().agent("ann", &[], &[("f", Some(BASE), None)]).agent(
        "bob",
        &[],
        &[("f", Some(BASE), Some(TOP))],
    );
    assert_eq!(scene.conflicts(), ["edit/delete f"]);
    scene.holds(&scene.settled(Choice::Take("ann".to_owned())), &[]);
    scene.holds(&scene.settled(Choice::Take("bob".to_owned())), &[("f", TOP)]);
    scene.holds(&scene.settled(Choice::Base), &[("f", BASE)]);
}

#[test]
fn a_mode_and_a_content_merge_each_by_itself() {
    let program = format!("x!{BASE}");
    let scene = Scene::files().agent("ann", &[], &[("f", Some(BASE), Some(&program))]).agent(
        "bob",
        &[],
        &[("f", Some(BASE), Some(TOP))],
    );
    let merge = scene.gives(&[("f", &format!("x!{TOP}"))]);
    assert_eq!(serde_json::to_value(merge.receipt().lines[0].change).unwrap(), "mode");
    let scene = Scene::files().agent("ann", &[], &[("f", None, Some("same"))]).agent(
        "bob",
        &[],
        &[("f", None, Some("x!same"))],
    );
    assert_eq!(scene.conflicts(), ["mode f"]);
}

#[test]
fn an_edit_follows_a_rename() {
    for editor_is_first in [true, false] {
        let renames: &[_] = &[("old.py", Some(BASE), None), ("new.py", None, Some(BASE))];
        let edits: &[_] = &[("old.py", Some(BASE), Some(TOP))];
        let scene = Scene::files();
        let scene = if editor_is_first {
            scene.agent("editor", &[], edits).agent("renamer", &[], renames)
        } else {
            scene.agent("renamer", &[], renames).agent("editor", &[], edits)
        };
        let merge = scene.gives(&[("new.py", TOP)]);
        assert!(merge.deleted().contains(&path("old.py")));
        let line = merge.receipt().lines.iter().find(|line| line.agent == "editor").unwrap();
        assert_eq!(line.place, path("new.py"));
        assert_eq!(fate(&merge, "renamer", "new.py"), r#"{"is":"merged","with":["editor"]}"#);
    }
}

#[test]
fn an_edit_does_not_follow_where_it_is_not_plain_whereto() {
    let scene = Scene::files()
        .agent("ann", &[], &[("old", Some(BASE), None), ("here", None, Some(BASE))])
        .agent("bob", &[], &[("old", Some(BASE), None), ("there", None, Some(BASE))])
        .agent("eve", &[], &[("old", Some(BASE), Some(TOP))]);
    assert_eq!(scene.conflicts(), ["edit/delete old"]);
    let scene = Scene::files()
        .agent("ann", &[], &[("old", Some(BASE), None), ("new", None, Some(TOP))])
        .agent("bob", &[], &[("old", Some(BASE), Some(END))]);
    assert_eq!(scene.conflicts(), ["edit/delete old"], "a rename with an edit is seen as a deletion");
}

#[test]
fn two_agents_may_rename_and_edit_the_same_file() {
    let renames: &[_] = &[("old", Some(BASE), None), ("new", None, Some(BASE))];
    Scene::files()
        .agent("ann", &[], renames)
        .agent("bob", &[], renames)
        .agent("eve", &[], &[("old", Some(BASE), Some(TOP))])
        .agent("fay", &[], &[("old", Some(BASE), Some(END))])
        .gives(&[("new", BOTH)]);
}

#[test]
fn links_merge_as_a_whole() {
    let scene = Scene::files().agent("ann", &[], &[("l", Some("-> a"), Some("-> b"))]).agent(
        "bob",
        &[],
        &[("l", Some("-> a"), Some("-> b")), ("m", None, Some("-> l"))],
    );
    scene.gives(&[("l", "-> b"), ("m", "-> l")]);
    let scene = Scene::files().agent("ann", &[], &[("l", None, Some("-> a"))]).agent(
        "bob",
        &[],
        &[("l", None, Some("-> b"))],
    );
    assert_eq!(scene.conflicts(), ["link l"]);
    let scene = Scene::files().agent("ann", &[], &[("l", None, Some("-> a"))]).agent(
        "bob",
        &[],
        &[("l", None, Some("text"))],
    );
    assert_eq!(scene.conflicts(), ["type l"]);
}

#[test]
fn a_link_that_leads_out_is_refused() {
    let scene = Scene::files().agent("ann", &[], &[("d/l", None, Some("-> ../../etc/passwd"))]);
    assert_eq!(scene.conflicts(), ["link_leads_out d/l"]);
    scene.holds(&scene.settled(Choice::Delete), &[]);
    let conflict = scene.conflicted().report.conflicts.remove(0);
    let error = scene.plan(&Choices::from([(conflict.id, Choice::Ours)])).unwrap_err();
    assert!(error.to_string().contains("not offered"), "{error}");
}

#[test]
fn binaries_merge_by_identity_alone() {
    let scene = Scene::files()
        .agent("ann", &[], &[("logo", Some("a\0\n1\n2\n3\n"), Some("b\0\n1\n2\n3\n"))])
        .agent("bob", &[], &[("logo", Some("a\0\n1\n2\n3\n"), Some("b\0\n1\n2\n3\n"))]);
    scene.gives(&[("logo", "b\0\n1\n2\n3\n")]);
    let scene = scene.agent("eve", &[], &[("logo", Some("a\0\n1\n2\n3\n"), Some("a\0\n1\n2\n4\n"))]);
    assert_eq!(scene.conflicts(), ["binary logo"]);
}

#[test]
fn line_ends_stay_as_they_are() {
    let lines = ["one", "two", "three", "four", "five"];
    let (base, mut top, mut end) = (lines, lines, lines);
    (top[0], end[4]) = ("ONE", "FIVE");
    let mut both = top;
    both[4] = "FIVE";
    for (line_end, last) in [("\r\n", "\r\n"), ("\n", ""), ("\r\n", "")] {
        let text = |lines: [&str; 5]| format!("{}{last}", lines.join(line_end));
        Scene::files()
            .agent("ann", &[], &[("f", Some(&text(base)), Some(&text(top)))])
            .agent("bob", &[], &[("f", Some(&text(base)), Some(&text(end)))])
            .gives(&[("f", &text(both))]);
    }
    let scene = Scene::files().agent("ann", &[], &[("f", Some("one\n"), Some("one"))]).agent(
        "bob",
        &[],
        &[("f", Some("one\n"), Some("one\r\n"))],
    );
    assert_eq!(scene.conflicts(), ["edit/edit f"]);
}

#[test]
fn an_empty_file_is_a_file_and_takes_nothing_from_another() {
    Scene::files()
        .agent("ann", &[], &[("f", Some(BASE), Some("")), ("empty", None, Some(""))])
        .agent("bob", &[], &[("f", Some(BASE), Some(BASE))])
        .gives(&[("f", ""), ("empty", "")]);
    Scene::files()
        .agent("ann", &[], &[("f", None, Some(""))])
        .agent("bob", &[], &[("f", None, Some("b\n"))])
        .gives(&[("f", "b\n")]);
    let scene = Scene::files().agent("ann", &[], &[("f", None, Some("a\n"))]).agent(
        "bob",
        &[],
        &[("f", None, Some("b\n"))],
    );
    assert_eq!(scene.conflicts(), ["add/add f"]);
}

#[test]
fn a_file_and_a_directory_exclude_each_other() {
    let scene = Scene::files().agent("ann", &[], &[("data", None, Some("a file"))]).agent(
        "bob",
        &[],
        &[("data", None, Some("dir")), ("data/x", None, Some("x"))],
    );
    assert_eq!(scene.conflicts(), ["type data"]);
    let scene = Scene::files().agent("ann", &[], &[("data", None, Some("a file"))]).agent(
        "bob",
        &[],
        &[("data/x", None, Some("x")), ("data/y/z", None, Some("z"))],
    );
    assert_eq!(scene.conflicts(), ["type data"]);
    let conflict = scene.conflicted().report.conflicts.remove(0);
    assert_eq!(conflict.agents, ["ann", "bob"]);
    scene.holds(&scene.settled(Choice::Take("ann".to_owned())), &[("data", "a file")]);
    scene.holds(&scene.settled(Choice::Take("bob".to_owned())), &[("data/x", "x"), ("data/y/z", "z")]);
    scene.holds(&scene.settled(Choice::Delete), &[]);
}

#[test]
fn a_file_may_become_a_directory() {
    let scene =
        Scene::files().agent("ann", &[], &[("data", Some("a file"), None), ("data/x", None, Some("x"))]);
    scene.gives(&[("data/x", "x")]);
}

#[test]
fn a_deleted_directory_that_others_need_stays() {
    let scene = Scene::files()
        .agent("ann", &[], &[("d", Some("dir"), None), ("d/old", Some("o"), None)])
        .agent("bob", &[], &[("d/new", None, Some("n"))]);
    let merge = scene.gives(&[("d/new", "n")]);
    assert_eq!(fate(&merge, "ann", "d"), r#"{"is":"dropped","rule":"directory_still_needed"}"#);
}

#[test]
fn names_that_some_file_systems_confuse_are_told() {
    let scene = Scene::files().agent("ann", &[], &[("App.py", None, Some("1"))]).agent(
        "bob",
        &[],
        &[("app.py", None, Some("2"))],
    );
    let merge = scene.gives(&[("App.py", "1"), ("app.py", "2")]);
    assert_eq!(merge.findings().len(), 1);
    assert!(merge.findings()[0].message.contains("App.py, app.py"));
}

#[test]
fn a_later_agent_that_rewrote_what_it_saw_stands() {
    let scene = Scene::files().agent("ann", &[], &[("f", None, Some("draft\n"))]).agent(
        "bob",
        &["ann"],
        &[("f", None, Some("final\n"))],
    );
    let merge = scene.gives(&[("f", "final\n")]);
    let superseded = r#"{"is":"superseded","by":"bob","because":"began_from_it"}"#;
    assert_eq!(fate(&merge, "ann", "f"), superseded);
    let scene = Scene::files()
        .agent("ann", &[], &[("f", Some(BASE), Some(TOP))])
        .agent("bob", &[], &[("f", Some(BASE), Some(END))])
        .agent("eve", &["ann", "bob"], &[("f", None, Some("eve's\n"))]);
    assert_eq!(fate(&scene.gives(&[("f", "eve's\n")]), "bob", "f"), superseded.replace("bob", "eve"));
}

#[test]
fn a_later_agent_that_saw_only_one_side_merges_with_the_other() {
    let seen_and_edited = TOP.replace("three", "THREE");
    Scene::files()
        .agent("ann", &[], &[("f", Some(BASE), Some(TOP))])
        .agent("bob", &[], &[("f", Some(BASE), Some(END))])
        .agent("eve", &["ann"], &[("f", None, Some(&seen_and_edited))])
        .gives(&[("f", &BOTH.replace("three", "THREE"))]);
}

#[test]
fn what_is_told_without_a_change_is_dropped_by_name() {
    let scene = Scene::files().agent("ann", &[], &[("f", Some(BASE), Some(BASE)), ("g", None, Some("g"))]);
    let merge = scene.gives(&[("g", "g")]);
    assert_eq!(fate(&merge, "ann", "f"), r#"{"is":"dropped","rule":"no_change"}"#);
}

#[test]
fn rights_to_act_as_others_are_taken_away() {
    let mut scene = Scene::files().agent("ann", &[], &[("f", None, Some("x!f"))]);
    let Some(watchkeeper::model::tree::Entry::File { mode, .. }) =
        &mut scene.contributions[0].changes[0].theirs
    else {
        unreachable!()
    };
    *mode = 0o6755;
    let merge = scene.ready();
    assert!(format!("{:?}", merge.tree()).contains(&format!("mode: {}", 0o755)));
}

#[test]
fn contributions_out_of_order_are_refused() {
    let scene = Scene::files().agent("bob", &["ann"], &[]).agent("ann", &[], &[]);
    let error = scene.plan(&Choices::new()).unwrap_err().to_string();
    assert!(error.contains("topological"), "{error}");
}

#[test]
fn a_merge_of_nothing_is_an_empty_tree() {
    let planned = Scene::files().plan(&Choices::new()).unwrap();
    assert!(matches!(planned, Planned::Ready(merge) if merge.tree().is_empty()));
}
