//! What a newer version wrote: refused with words, and not touched. One newer batch keeps nobody else waiting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::scene::Bus;

const OF_THE_BUS: &str = "was written by a newer wk (format 2; this one knows 1)";
const HINT: &str = "hint: nothing was touched";

/// Every file and directory below, with its bytes and its time.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let entries = walkdir::WalkDir::new(dir).into_iter().map(Result::unwrap);
    entries
        .map(|entry| {
            let bytes =
                if entry.file_type().is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
            (entry.path().to_owned(), (bytes, entry.metadata().unwrap().modified().unwrap()))
        })
        .collect()
}

/// A bus with two batches under way, each with one task that is offered, and an archived one.
fn three_batches() -> Bus {
    let bus = Bus::new();
    let watcher = bus.watch(&[]);
    for batch in ["1", "2", "3"] {
        bus.drop_plan(&format!("batch_id = {batch}\na"));
        bus.agent(&format!("{batch}/a")).waits_for_spec();
    }
    bus.agent("3/a").delivers("success");
    bus.ended("3");
    watcher.stop().exits(0);
    bus
}

/// Rewrites a `batch.json` as a later version might: another number, and a shape that nobody knows yet.
fn make_newer(bus: &Bus, dir: &str) {
    let name = format!("{dir}/batch.json");
    let mut batch = bus.json(&name);
    batch["version"] = 2.into();
    batch["tasks"] = serde_json::json!({"by_key": {}});
    bus.write(&name, batch.to_string());
}

#[test]
fn a_bus_says_its_format_and_a_newer_one_is_refused_by_every_verb() {
    let bus = three_batches();
    assert_eq!(std::fs::read_to_string(bus.path("version")).unwrap(), "1\n", "the watcher says the format");
    bus.write("version", "2\n");
    // A newer version has settings that this one does not know; that is not what stands in the way.
    std::fs::write(bus.file(".ce/watchkeeper.toml"), "warp = 9\n").unwrap();
    let plan = bus.plan("b");
    let plan = plan.to_str().unwrap();
    let before = tree(bus.root());
    let verbs: &[&[&str]] = &[
        &["init"],
        &["check", plan],
        &["run", plan],
        &["watch"],
        &["watch", "--once"],
        &["submit", plan],
        &["status"],
        &["status", "1", "--follow"],
        &["why", "1/a"],
        &["report", "3"],
        &["logs", "1/a"],
        &["attach", "1/a"],
        &["cancel", "1"],
        &["kill", "1/a"],
        &["retry", "3/a"],
        &["resolve", "1"],
        &["verify", "3"],
        &["undo", "3"],
        &["pause", "1"],
        &["resume", "1"],
        &["agent", "next"],
        &["agent", "beat", "1/a#1"],
        &["agent", "done", "1/a#1"],
    ];
    for verb in verbs {
        bus.wk(verb).exits(2).complains(OF_THE_BUS).complains(HINT);
    }
    assert_eq!(tree(bus.root()), before);
    std::fs::remove_file(bus.file(".ce/watchkeeper.toml")).unwrap();
    bus.wk(&["doctor"]).exits(1).says(OF_THE_BUS);
    bus.wk(&["schema"]).exits(0);
}

#[test]
fn a_new_bus_says_its_format() {
    let bus = Bus::new();
    bus.wk(&["init"]).exits(0);
    assert_eq!(std::fs::read_to_string(bus.path("version")).unwrap(), "1\n");
}

#[test]
fn a_newer_batch_is_left_alone_and_the_others_go_on() {
    let bus = three_batches();
    make_newer(&bus, "tasks/batch-2");
    make_newer(&bus, "completed-batches/batch-3");
    let places = ["tasks/batch-2", "completed-batches/batch-3"].map(|name| bus.path(name));
    let before = places.each_ref().map(|place| tree(place));
    let verbs: &[&[&str]] = &[
        &["status", "2"],
        &["why", "2/a"],
        &["report", "2"],
        &["logs", "2/a"],
        &["cancel", "2"],
        &["cancel", "2/a"],
        &["kill", "2/a"],
        &["pause", "2"],
        &["resume", "2"],
        &["resolve", "2"],
        &["agent", "next", "--batch", "2"],
        &["agent", "beat", "2/a#1"],
        &["agent", "done", "2/a#1"],
        &["retry", "3/a"],
        &["retry", "--failed", "3"],
        &["verify", "3"],
        &["undo", "3"],
        &["report", "3"],
    ];
    for verb in verbs {
        bus.wk(verb).exits(2).complains(OF_THE_BUS).complains(HINT);
    }
    bus.wk(&["status"]).exits(2).says("Batch 1").complains("batch 2: ").complains(OF_THE_BUS);
    bus.wk(&["doctor"]).exits(1).says("batch 2 is left alone");
    let watcher = bus.watch(&[]);
    // Of all that is offered, only what this version understands is given out.
    bus.wk(&["agent", "next"]).exits(0).says("1/a#1");
    bus.wk(&["agent", "next"]).exits(1);
    bus.wk(&["agent", "done", "1/a#1"]).exits(0);
    assert_eq!(bus.ended("1")["status"], "success");
    let told = watcher.stop().exits(0);
    assert!(told.err.contains("batch 2 is left alone: "), "{}", told.err);
    assert_eq!(places.each_ref().map(|place| tree(place)), before);
}

#[test]
fn a_journal_line_that_only_a_newer_version_knows_is_never_cut_off() {
    let bus = three_batches();
    let journal = bus.path("tasks/batch-2/journal.jsonl");
    let mut text = std::fs::read(&journal).unwrap();
    let last = bus.journal("2").pop().unwrap();
    let (seq, turn, epoch) =
        (last["seq"].as_u64().unwrap() + 1, last["turn"].as_u64().unwrap() + 1, &last["epoch"]);
    let line = format!(
        r#"{{"seq":{seq},"turn":{turn},"epoch":{epoch},"at":{},"clock":{},"event":"teleported","task":"a"}}"#,
        last["at"], last["clock"]
    );
    let checksum = crc32fast::hash(line.as_bytes());
    text.extend_from_slice(
        format!("{},\"crc\":\"{checksum:08x}\"}}\n", line.trim_end_matches('}')).as_bytes(),
    );
    std::fs::write(&journal, &text).unwrap();
    bus.wk(&["status", "2"]).exits(2).complains("was written by a newer wk");
    bus.wk(&["doctor"]).exits(1).says("batch 2 is left alone");
    let watcher = bus.watch(&[]);
    bus.agent("1/a").delivers("success");
    assert_eq!(bus.ended("1")["status"], "success");
    watcher.stop().exits(0);
    assert_eq!(std::fs::read(&journal).unwrap(), text);
}
