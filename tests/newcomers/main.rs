//! What somebody meets who is new here: refusals that can be read, drops in the wrong place, words for what happens.

mod drops;
mod exec;
mod heartbeats;
mod readme;
mod results;
#[path = "../scene/mod.rs"]
mod scene;
mod watching;

use scene::Bus;

#[test]
fn ten_defects_are_shown_and_the_rest_is_counted_by_kind() {
    let bus = Bus::new();
    let phases: Vec<String> = (1..=9).map(|n| format!("### Phase {n}: Title {n}\nWords.\n\n")).collect();
    let phases = phases.concat();
    std::fs::write(bus.file("bare.md"), phases).unwrap();
    let error = bus.wk(&["check", "bare.md"]).exits(2).err;
    assert!(error.contains("bare.md has 45 defects"), "{error}");
    assert_eq!(error.matches("missing '").count(), 10, "{error}");
    assert!(error.contains("and 35 more: 35 missing_field"), "{error}");
    let listed = bus.wk(&["check", "bare.md", "--json"]).exits(2).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["defects"].as_array().unwrap().len(), 45, "programs get all of them");
}
