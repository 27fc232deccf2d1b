//! A file against a directory: each choice means the whole of one side, and every change on the other is told.

use watchkeeper::merge::receipt::Fate;
use watchkeeper::model::handoff::Choice;

use crate::scene::{Scene, fate};

/// Ann makes a file of the directory that bob and eve write in.
fn scene(scene: Scene) -> Scene {
    scene
        .agent("ann", &[], &[("d", Some("dir"), Some("a file")), ("d/x", Some("x"), None)])
        .agent(
            "bob",
            &[],
            &[("d", Some("dir"), Some("dir")), ("d/x", Some("x"), Some("x")), ("d/n", None, Some("n"))],
        )
        .agent("eve", &[], &[("d/e", None, Some("e")), ("d-e", None, Some("beside"))])
}

fn take(who: &str) -> Choice {
    Choice::Take(who.to_owned())
}

#[test]
fn both_sides_of_a_file_against_a_directory_can_be_named() {
    let scene = scene(Scene::files());
    let conflict = scene.conflicted().report.conflicts.remove(0);
    assert_eq!((conflict.kind.word().as_str(), conflict.path.to_string().as_str()), ("type", "d"));
    assert_eq!(conflict.agents, ["ann", "bob", "eve"]);
    assert_eq!(conflict.choices, ["ours", "theirs:ann", "theirs:bob", "theirs:eve", "delete", "file"]);
}

#[test]
fn whoever_takes_the_file_ends_all_below_it() {
    let scene = scene(Scene::files());
    for choice in [take("ann"), Choice::Ours] {
        let merge = scene.settled(choice);
        scene.holds(&merge, &[("d", "a file"), ("d-e", "beside")]);
        let superseded = r#"{"is":"superseded","by":"ann","because":"resolution"}"#;
        assert_eq!(
            (fate(&merge, "bob", "d/n"), fate(&merge, "eve", "d/e")),
            (superseded.into(), superseded.into())
        );
        assert_eq!(fate(&merge, "ann", "d"), r#"{"is":"kept"}"#);
        assert_eq!(merge.conflicts_resolved(), 1);
    }
}

#[test]
fn whoever_takes_the_directory_has_it_as_it_was_without_the_file() {
    let scene = scene(Scene::files());
    let merge = scene.settled(take("bob"));
    scene.holds(&merge, &[("d/e", "e"), ("d/n", "n"), ("d/x", "x"), ("d-e", "beside")]);
    let superseded = r#"{"is":"superseded","by":"bob","because":"resolution"}"#;
    assert_eq!(
        (fate(&merge, "ann", "d"), fate(&merge, "ann", "d/x")),
        (superseded.into(), superseded.into())
    );
    assert_eq!(fate(&merge, "eve", "d/e"), r#"{"is":"kept"}"#);
    scene.holds(&scene.settled(take("eve")), &[("d/e", "e"), ("d/n", "n"), ("d/x", "x"), ("d-e", "beside")]);
}

#[test]
fn a_deletion_leaves_nothing_at_or_below_the_path() {
    let scene = scene(Scene::files());
    let merge = scene.settled(Choice::Delete);
    scene.holds(&merge, &[("d-e", "beside")]);
    for (who, path) in [("ann", "d"), ("bob", "d/n"), ("eve", "d/e")] {
        assert_eq!(fate(&merge, who, path), r#"{"is":"dropped","rule":"resolved_to_deletion"}"#);
    }
}

#[test]
fn priority_decides_between_a_file_and_a_directory() {
    let scene_of = |listed: &[&str]| scene(Scene::auto().priority(listed));
    let first = scene_of(&["ann", "bob", "eve"]);
    let merge = first.gives(&[("d", "a file"), ("d-e", "beside")]);
    assert_eq!(fate(&merge, "bob", "d/n"), r#"{"is":"superseded","by":"ann","because":"priority"}"#);
    assert_eq!(merge.conflicts_resolved(), 1);
    let last = scene_of(&["eve", "bob", "ann"]);
    let merge = last.gives(&[("d/e", "e"), ("d/n", "n"), ("d/x", "x"), ("d-e", "beside")]);
    assert_eq!(fate(&merge, "ann", "d"), r#"{"is":"superseded","by":"eve","because":"priority"}"#);
    assert_eq!(scene_of(&["bob", "ann", "eve"]).conflicts(), ["type d"], "ann stands between the others");
}

#[test]
fn both_sides_wait_while_a_file_and_a_directory_are_in_question() {
    let receipt = scene(Scene::files()).conflicted().receipt;
    let kept: Vec<String> = receipt
        .lines
        .iter()
        .filter(|line| matches!(line.fate, Fate::Kept))
        .map(|line| format!("{} {}", line.agent, line.path))
        .collect();
    assert_eq!(kept, ["eve d-e"]);
    assert_eq!(receipt.totals.escalated, 4);
}

/// Bob made the directory himself, so the path itself is in question.
#[test]
fn a_choice_about_a_new_directory_holds_for_what_is_in_it() {
    let scene = Scene::files().agent("ann", &[], &[("d", None, Some("a file"))]).agent(
        "bob",
        &[],
        &[("d", None, Some("dir")), ("d/n", None, Some("n"))],
    );
    assert_eq!(scene.conflicted().receipt.totals.escalated, 3);
    scene.holds(&scene.settled(take("ann")), &[("d", "a file")]);
    scene.holds(&scene.settled(take("bob")), &[("d/n", "n")]);
    let merge = scene.settled(Choice::Delete);
    scene.holds(&merge, &[]);
    assert_eq!(merge.conflicts_resolved(), 1);
}
