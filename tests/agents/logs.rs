//! `wk logs`: what an agent printed, stream by stream and attempt by attempt, while it goes on and after.

use crate::crew::Stage;

const TALKS: &str = "
echo out of $WK_ATTEMPT; echo err of $WK_ATTEMPT >&2
[ -z \"$WAIT\" ] || until [ -e go-$WK_ATTEMPT ]; do sleep 0.02; done
echo last of $WK_ATTEMPT
[ $WK_ATTEMPT = 2 ]
";

#[test]
fn both_streams_of_any_attempt_are_shown_apart_in_part_and_as_json() {
    let stage = Stage::new();
    stage.agent_script("talks", TALKS);
    stage.run("batch_id = 7\n 1 agent=talks", &[]).ends().exits(0);
    let both = stage.call(&["logs", "7/1"]).exits(0);
    assert_eq!((both.out.as_str(), both.err.as_str()), ("out of 2\nlast of 2\n", "err of 2\n"));
    let first = stage.call(&["logs", "1", "--attempt", "1"]).exits(0);
    assert_eq!((first.out.as_str(), first.err.as_str()), ("out of 1\nlast of 1\n", "err of 1\n"));
    assert_eq!(stage.call(&["logs", "7/1", "--stdout"]).exits(0).err, "");
    assert_eq!(stage.call(&["logs", "7/1", "--stderr"]).exits(0).out, "");
    assert_eq!(stage.call(&["logs", "7/1", "--tail", "1"]).exits(0).out, "last of 2\n");
    let json = stage.call(&["logs", "7/1", "--json", "--tail", "1"]).exits(0).json();
    assert_eq!(json["stdout"], "last of 2\n");
    assert_eq!(json["stderr"], "err of 2\n");
    assert_eq!(json["attempt"], 2);
}

#[test]
fn what_cannot_be_shown_is_refused_with_a_hint() {
    let stage = Stage::new();
    stage.agent_script("talks", TALKS);
    stage.run("batch_id = 7\n 1 agent=talks", &[]).ends().exits(0);
    stage.call(&["logs", "7/1", "--attempt", "9"]).exits(2).complains("has no attempt 9").complains("wk why");
    stage.call(&["logs", "7/9"]).exits(2).complains("hint:");
    stage.call(&["logs", "nobody"]).exits(2).complains("hint:");
    let run = stage.run("batch_id = 8\n 1", &[]);
    stage.wait_event("8", "offered", "1");
    stage.call(&["logs", "8/1"]).exits(2).complains("outsider").complains("hint:");
    run.kill();
}

#[test]
fn a_follower_waits_for_a_task_to_begin_or_to_end_without() {
    let stage = Stage::new();
    stage.agent_script("waits", "until [ -e go ]; do sleep 0.02; done; [ $WK_TASK != 2 ]");
    stage.agent_script("talks", "echo here I am");
    let plan = "batch_id = 7\n max_retries = 0\n 1 agent=waits\n 2 agent=waits\n 3 <- 1 agent=talks\n 4 <- 2 agent=talks";
    let run = stage.run(plan, &[]);
    stage.wait_event("7", "launched", "2");
    let followers = ["7/3", "7/4"].map(|task| stage.go(&["logs", task, "-f"], &[]));
    stage.call(&["logs", "7/3"]).exits(2).complains("has not begun");
    assert!(followers.iter().all(|follower| !follower.has_ended()));
    stage.script("go", "");
    let [begun, skipped] = followers;
    assert_eq!(begun.ends().exits(0).out, "here I am\n");
    skipped.ends().exits(0).complains("7/4 has ended without having begun").complains("wk why 7/4");
    run.ends().exits(3);
}

#[test]
fn a_follower_sees_both_attempts_and_ends_with_the_task() {
    let stage = Stage::new();
    stage.agent_script("talks", TALKS);
    stage.settings("plain_env = [\"WAIT=yes\"]");
    // So long between the attempts that the follower looks several times.
    let run = stage.run("batch_id = 7\n 1 agent=talks\n 2 <- 1 agent=talks", &["retry_delay_seconds=1"]);
    stage.wait_for("it talks", || {
        stage.kept_text("7", "1", 1, "stdout.log").contains("out of 1").then_some(())
    });
    let follow = stage.go(&["logs", "7/1", "-f"], &[]);
    stage.wait_for("the first words are shown", || follow.stdout().contains("out of 1").then_some(()));
    assert!(!follow.has_ended());
    stage.script("go-1", "");
    stage.wait_for("the second attempt is shown", || follow.stdout().contains("out of 2").then_some(()));
    stage.script("go-2", "");
    let shown = follow.ends().exits(0);
    assert_eq!(shown.out, "out of 1\nlast of 1\nout of 2\nlast of 2\n");
    assert!(shown.err.contains("err of 1") && shown.err.contains("err of 2"), "{}", shown.err);
    run.ends();
}

#[test]
fn a_log_whose_beginning_is_gone_says_so_and_begins_with_a_whole_line() {
    let stage = Stage::new();
    // Four times as much as is kept in each half, in writes that end anywhere.
    stage.agent_script("floods", "seq -f 'line %010g of many' 200000");
    stage.settings("limits = { log_mb = 1 }");
    stage.run("batch_id = 7\n 1 agent=floods", &[]).ends().exits(0);
    let shown = stage.call(&["logs", "7/1"]).exits(0).complains("bytes of stdout are gone");
    let lines: Vec<&str> = shown.out.lines().collect();
    assert!(
        lines.iter().all(|line| line.len() == lines[0].len() && line.starts_with("line ")),
        "{}",
        lines[0]
    );
    assert!(lines.last().unwrap().contains("200000"));
    assert!(stage.call(&["logs", "7/1", "--json"]).exits(0).json()["stdout_gone_bytes"].as_u64() > Some(0));
    assert_eq!(stage.call(&["logs", "7/1", "--tail", "1"]).exits(0).err, "");
}
