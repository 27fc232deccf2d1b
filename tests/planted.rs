//! Links that an agent puts where we are about to write: nothing of ours goes where they lead.

mod scene;

use std::fs;
use std::os::unix::fs::symlink;

use scene::{Bus, SUCCESS};

#[test]
fn a_late_result_does_not_follow_a_link_in_the_place_of_its_folder() {
    let bus = Bus::new();
    let outside = bus.file("outside");
    fs::create_dir(&outside).unwrap();
    let plan = bus.plan("batch_id = 1\n 1\n 2");
    let run = bus.run(&plan, &[]);
    bus.agent("1/1").waits_for_spec().delivers(SUCCESS);
    bus.wait_event("1", "succeeded", "1");
    symlink(&outside, bus.path("tasks/batch-1/late")).unwrap();
    bus.agent("1/1").delivers(SUCCESS);
    bus.wait_event("1", "late", "1");
    bus.agent("1/2").waits_for_spec().delivers(SUCCESS);
    run.ends().exits(0);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing came through the link");
    let kept = fs::read_dir(bus.path("completed-batches/batch-1/late")).unwrap().count();
    assert!(kept >= 1, "it is kept where it belongs");
}

#[test]
fn logs_of_checks_do_not_follow_a_link_in_the_place_of_their_folder() {
    let bus = Bus::new();
    let outside = bus.file("outside");
    fs::create_dir(&outside).unwrap();
    let plan = bus.file("plan.json");
    let script = "ln -s \"$WK_ROOT/outside\" \"$(dirname \"$WK_SPEC\")/checks\"; echo made > made.txt";
    let phase = serde_json::json!({
        "phase": 1, "name": "n", "goal": "g", "complexity": "low", "estimated_hours": 1,
        "files_modified": ["made.txt"], "dependencies": [], "command": ["sh", "-c", script], "max_retries": 0,
        "validation_gates": ["`echo said by the check`"],
    });
    fs::write(&plan, serde_json::json!({"batch_id": 1, "phases": [phase]}).to_string()).unwrap();
    let ran = bus.wk(&["run", plan.to_str().unwrap(), "--verify"]);
    assert!(ran.code.is_some_and(|code| code != 70), "{}", ran.err);
    let journal = bus.journal("1");
    assert!(journal.iter().any(|line| line["event"] == "exited"), "{journal:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing came through the link");
}
