//! `wk agent exec`: a whole agent in one line.

use rustix::process::{Pid, Signal, test_kill_process};

use crate::scene::{Bus, ending, task};

/// A batch of one task, and `wk agent exec` on it.
fn exec(
    bus: &Bus,
    settings: &[&str],
    flags: &[&str],
    script: &str,
) -> (crate::scene::Process, crate::scene::Process) {
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1");
    let run = bus.run(&plan, settings);
    bus.agent("7/1").waits_for_spec();
    let words = [&["agent", "exec", "7/1"], flags, &["--", "sh", "-c", script]].concat();
    (run, bus.start(&words, settings))
}

#[test]
fn a_command_beats_while_it_runs_with_its_last_line_as_progress() {
    let bus = Bus::new();
    let script = "echo step one; until [ -e go ]; do sleep 0.05; done; echo step two; until [ -e end ]; do sleep 0.05; done";
    let (run, exec) = exec(&bus, &["heartbeat_timeout_seconds=6"], &[], script);
    let shows = |text: &str| {
        bus.wait_for(&format!("{text} is shown"), || {
            bus.wk(&["status", "7"]).out.contains(text).then_some(())
        });
    };
    shows("step one");
    std::fs::write(bus.file("go"), "").unwrap();
    shows("step two");
    std::fs::write(bus.file("end"), "").unwrap();
    exec.ends().exits(0).says("step one\nstep two\n");
    run.ends().exits(0);
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
}

#[test]
fn a_command_that_fails_is_a_failed_attempt_with_its_last_lines_as_the_reason() {
    let bus = Bus::new();
    let (run, exec) = exec(
        &bus,
        &[],
        &["--created", "never.txt"],
        "echo compiling; echo 'error: no such thing' >&2; exit 3",
    );
    exec.ends().exits(1).complains("exit code 3").complains("error: no such thing");
    run.ends().exits(1);
    let result = bus.ended("7");
    assert_eq!(ending(&result, "1"), "failed:agent_reported");
    let reason = task(&result, "1")["reason"].as_str().unwrap();
    assert!(reason.contains("exit code 3") && reason.contains("error: no such thing"), "{reason}");
}

#[test]
fn a_command_that_cannot_be_started_is_a_failed_attempt() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n max_retries = 0\n 1");
    let run = bus.run(&plan, &[]);
    bus.agent("7/1").waits_for_spec();
    bus.wk(&["agent", "exec", "7/1", "--", "./there-is-no-such-program"])
        .exits(1)
        .complains("cannot be started");
    run.ends().exits(1);
    assert!(task(&bus.ended("7"), "1")["reason"].as_str().unwrap().contains("there-is-no-such-program"));
}

#[test]
fn a_command_knows_its_task_and_its_own_result_counts() {
    let bus = Bus::new();
    let wk = env!("CARGO_BIN_EXE_wk");
    let script = format!(
        "grep -q '\"goal\": \"do 1\"' \"$WK_SPEC\" && cd \"$WK_ROOT\" && echo x > made.txt && \
         {wk} agent done --created made.txt --tokens 77 && test $WK_BATCH/$WK_TASK#$WK_ATTEMPT = '7/1#1'"
    );
    let (run, exec) = exec(&bus, &[], &[], &script);
    exec.ends().exits(0);
    run.ends().exits(0);
    let result = bus.ended("7");
    assert_eq!((ending(&result, "1").as_str(), &task(&result, "1")["tokens_used"]), ("success", &77.into()));
    assert_eq!(result["late"].as_array().unwrap().len(), 0, "no second result was written");
}

#[test]
fn a_command_whose_attempt_is_over_is_ended_with_its_children() {
    let bus = Bus::new();
    let script = "sleep 300 & echo $! > child.pid.new; mv child.pid.new child.pid; wait";
    let (run, exec) = exec(&bus, &["heartbeat_timeout_seconds=6"], &[], script);
    let child =
        bus.wait_for("the command has a child", || std::fs::read_to_string(bus.file("child.pid")).ok());
    bus.wk(&["kill", "7/1"]).exits(0);
    run.ends().exits(1);
    exec.ends().exits(1).complains("the command was ended");
    let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    bus.wait_for("the child is gone", || test_kill_process(child).is_err().then_some(()));
}

#[test]
fn an_interrupted_command_is_reported_as_failed() {
    let bus = Bus::new();
    let (run, exec) = exec(&bus, &[], &[], "echo begun > begun.txt; sleep 300");
    bus.wait_for("the command runs", || bus.file("begun.txt").exists().then_some(()));
    exec.signal(Signal::TERM);
    exec.ends().exits(130);
    run.ends().exits(1);
    let reason = task(&bus.ended("7"), "1")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("SIGTERM"), "{reason}");
}
