//! What a green is worth: lies and honest work through the real binary, each under every grade that can be demanded.
//!
//! The scenes are data (`lies_*`, `honest_*`, `blind`); `play` runs them, many in one batch, and `table` holds what
//! came of them against `spec/evidence.md`. `WK_BLESS=1 cargo test --test evidence` writes that file anew.

#[path = "../agents/crew.rs"]
#[allow(dead_code)]
mod crew;
#[path = "../scene/mod.rs"]
mod scene;

mod blind;
mod honest_files;
mod honest_rest;
mod lies_checks;
mod lies_files;
mod lies_handed;
mod lies_words;
mod play;
mod play_handed;
mod table;
mod told;

use told::{Kind, Scene};

/// Every scene, in the order of the table.
fn all() -> Vec<(Kind, &'static Scene)> {
    let of = |kind: Kind, scenes: &'static [Scene]| scenes.iter().map(move |scene| (kind, scene));
    let lies = [lies_files::SCENES, lies_words::SCENES, lies_checks::SCENES, lies_handed::SCENES];
    let honest = [honest_files::SCENES, honest_rest::SCENES];
    let lies = lies.into_iter().flat_map(|scenes| of(Kind::Lie, scenes));
    let honest = honest.into_iter().flat_map(|scenes| of(Kind::Honest, scenes));
    lies.chain(of(Kind::Unseen, blind::SCENES)).chain(honest).collect()
}

#[test]
fn every_scene_ends_as_expected_and_the_table_tells_it() {
    let all = all();
    let outcomes = play::all(&all);
    let mut wrong = Vec::new();
    for ((_, scene), outcomes) in all.iter().zip(&outcomes) {
        for (grade, outcome) in told::GRADES.iter().zip(outcomes) {
            wrong.extend(outcome.objection(scene, grade));
        }
    }
    assert!(wrong.is_empty(), "{} of {} ended otherwise:\n{}", wrong.len(), 3 * all.len(), wrong.join("\n"));
    table::hold_against_file(&all, &outcomes);
}

#[test]
fn no_lie_that_can_be_seen_is_worth_more_than_a_word() {
    for (_, scene) in all().iter().filter(|(kind, _)| *kind == Kind::Lie) {
        let is_believed = |end: &&&str| ["observed", "verified"].contains(*end);
        assert_eq!(scene.ends.iter().find(is_believed), None, "{}", scene.name);
    }
    for (_, scene) in all().iter().filter(|(kind, _)| *kind == Kind::Unseen) {
        assert!(!scene.ends.contains(&"verified"), "{}: {:?}", scene.name, scene.ends);
    }
}

#[test]
fn the_scenes_are_many_and_each_has_a_name_of_its_own() {
    let all = all();
    let count = |wanted: Kind| all.iter().filter(|(kind, _)| *kind == wanted).count();
    assert!(count(Kind::Lie) >= 60, "{} lies", count(Kind::Lie));
    assert!(count(Kind::Honest) >= 30, "{} honest scenes", count(Kind::Honest));
    let names: std::collections::BTreeSet<&str> = all.iter().map(|(_, scene)| scene.name).collect();
    assert_eq!(names.len(), all.len());
    for (_, scene) in all.iter().filter(|(kind, _)| *kind == Kind::Honest) {
        assert!(told::GRADES.contains(&scene.ends[0]), "{}: honest work is green", scene.name);
    }
}
