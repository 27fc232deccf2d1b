//! Drops that lie in the wrong place or have the wrong name, what was refused, and specs that were edited.

use crate::scene::{Bus, SUCCESS, ending, rule};

const SPEC: &str = r#"{"task_id": "1", "goal": "g"}"#;

#[test]
fn a_drop_that_is_ignored_is_told_with_its_right_place() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    bus.write("tasks/43/task-1.json", SPEC);
    bus.write("tasks/x.JSON", SPEC);
    bus.write("tasks/plan.md", "### Phase 1: A\n");
    bus.write("tasks/batch-9/phase_1.json", SPEC);
    bus.write("tasks/batch-9/task-2.JSON", SPEC);
    let told = [
        ("tasks/43 is ignored", "rename it to batch-43"),
        ("tasks/x.JSON is ignored", "rename it to x.json"),
        ("tasks/plan.md is ignored", "move the plan into inbox/"),
        ("tasks/batch-9/phase_1.json is ignored", "task-1.json"),
        ("tasks/batch-9/task-2.JSON is ignored", "rename it to task-2.json"),
    ];
    for (what, place) in told {
        bus.wait_for(&format!("{what} is told"), || {
            let log = watch.stderr();
            log.lines().any(|line| line.contains(what) && line.contains(place)).then_some(())
        });
    }
    let status = bus.wk(&["status"]).exits(0);
    for (what, place) in &told[..3] {
        assert!(status.err.lines().any(|line| line.contains(what) && line.contains(place)), "{}", status.err);
    }
    // In the right place all of it works.
    std::fs::rename(bus.path("tasks/43"), bus.path("tasks/batch-43")).unwrap();
    bus.agent("43/1").waits_for_attempt(1).delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("43"), "1"), "success");
}

#[test]
fn a_wrong_name_in_a_batch_under_way_is_shown_until_it_is_renamed() {
    let bus = Bus::new();
    let _watch = bus.watch(&["close_after_seconds=600"]);
    bus.drop_spec("9", "1");
    bus.agent("9/1").waits_for_attempt(1);
    bus.write("tasks/batch-9/Task_2.json", r#"{"task_id": "2", "goal": "g"}"#);
    let shows = |text: &str| bus.wk(&["status", "9"]).out.contains(text);
    bus.wait_for("it is shown", || shows("Task_2.json: a spec is called task-2.json").then_some(()));
    std::fs::rename(bus.path("tasks/batch-9/Task_2.json"), bus.path("tasks/batch-9/task-2.json")).unwrap();
    bus.agent("9/2").waits_for_attempt(1);
    bus.wait_for("it is shown no longer", || (!shows("Task_2.json")).then_some(()));
}

#[test]
fn a_plan_among_specs_is_refused_with_the_way_to_the_inbox_and_can_be_tried_again() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    let plan = std::fs::read_to_string(bus.plan("batch_id = 7\n 1")).unwrap();
    bus.write("tasks/my.json", &plan);
    let (path, reason) = bus.quarantined("my.json");
    assert_eq!(rule(&reason), "request_among_specs");
    assert!(reason["defects"][0]["remedy"].as_str().unwrap().contains("inbox/"), "{reason:#}");
    let number = path.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned();

    bus.wk(&["quarantine", "list"])
        .exits(0)
        .says(&format!("{number}  tasks/my.json"))
        .says("a plan or a request");
    bus.wk(&["quarantine", "show", &number]).exits(0).says("drop it into inbox/").says("wk quarantine retry");
    let json: serde_json::Value =
        serde_json::from_str(&bus.wk(&["quarantine", "list", "--json"]).out).unwrap();
    assert_eq!((&json[0]["file"], &json[0]["number"].to_string()), (&"tasks/my.json".into(), &number));
    bus.wk(&["quarantine", "show", "99"]).exits(2).complains("there is no file 99");

    // Corrected where it lies, it goes back to where it was dropped.
    std::fs::write(&path, SPEC).unwrap();
    bus.wk(&["quarantine", "retry", &number]).exits(0).says("tasks/my.json");
    bus.agent("loose-1/1").waits_for_attempt(1).delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("loose-1"), "1"), "success");
    assert_eq!(bus.quarantine().len(), 0, "{}", watch.stderr());
    bus.wk(&["quarantine", "list"]).exits(0).says("Nothing was refused");
}

#[test]
fn what_was_refused_does_not_replace_what_lies_in_its_place_now() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    bus.write("inbox/wrong.json", r#"{"phases": 7}"#);
    bus.quarantined("wrong.json");
    watch.stop().exits(0);
    bus.write("inbox/wrong.json", "another");
    bus.wk(&["quarantine", "retry", "1"]).exits(1).complains("another file lies there now");
    assert_eq!(std::fs::read_to_string(bus.path("inbox/wrong.json")).unwrap(), "another");
    assert_eq!(bus.quarantine().len(), 1);
}

#[test]
fn a_published_spec_that_is_edited_is_noticed_and_changes_nothing() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1\n 2");
    let run = bus.run(&plan, &[]);
    let (edited, untouched) = (bus.agent("7/1"), bus.agent("7/2"));
    untouched.waits_for_spec();
    let spec = std::fs::read_to_string(edited.waits_for_spec().spec()).unwrap();
    std::fs::write(edited.spec(), spec.replace("do 1", "do something else")).unwrap();
    let shown = || bus.wk(&["status", "7"]).out;
    bus.wait_for("it is told", || {
        shown().contains("task-1.json: edited after it was published").then_some(())
    });
    assert!(run.stderr().contains("edited after it was published"), "{}", run.stderr());
    assert!(!shown().contains("task-2.json: edited"), "{}", shown());
    std::fs::write(edited.spec(), &spec).unwrap();
    bus.wait_for("it is told no longer", || (!shown().contains("edited after it was")).then_some(()));
    edited.delivers(SUCCESS);
    untouched.delivers(SUCCESS);
    run.ends().exits(0);
    assert_eq!(bus.json("completed-batches/batch-7/attempts/1/1/spec.json")["goal"], "do 1");
}
