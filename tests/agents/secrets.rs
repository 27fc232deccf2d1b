//! Secrets of an agent's environment: in no log, result, journal, status or summary, however they are written.

use crate::crew::{Stage, launchers};

const SECRET: &str = "correct-horse-battery-staple";

/// Every file below the root that holds this text, but for those that the agent itself put into the work tree.
fn files_with(stage: &Stage, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(stage.file(".ce")).into_iter().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        if String::from_utf8_lossy(&bytes).contains(text) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_secret_is_in_no_file_of_the_bus_however_the_agent_writes_it() {
    let encoded =
        ["b=$(printf %s \"$MY_TOKEN\" | base64); echo \"$b\"; printf '%s' \"xx$MY_TOKEN\" | base64"];
    let split = "printf %s \"${MY_TOKEN%battery*}\"; sleep 0.1; echo \"battery-staple\"";
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher).with("MY_TOKEN", SECRET);
        let fails =
            "[ $WK_ATTEMPT = 2 ] && exit 0; echo \"cannot log in with $MY_TOKEN\" >&2; sleep 0.4; exit 1";
        stage.agent_script(
            "leaks",
            &format!("cat > prompt-$WK_ATTEMPT\necho plain $MY_TOKEN\n{}\n{split}\necho \"$MY_TOKEN\" >&2\n{fails}", encoded[0]),
        );
        stage.settings("env = [\"MY_TOKEN\"]");
        let ran = stage.run("batch_id = 7\n 1 agent=leaks", &[]).ends().exits(0);
        let log = stage.kept_text("7", "1", 1, "stdout.log");
        assert!(log.contains("plain [redacted"), "{log}");
        let encoded = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";
        for text in [SECRET, encoded, "battery-staple"] {
            assert_eq!(files_with(&stage, text), [""; 0], "{launcher}: {text}");
            assert!(!ran.out.contains(text) && !ran.err.contains(text), "{}", ran.out);
            let told = [&["why", "7/1"] as &[&str], &["report", "7"], &["status", "7"], &["logs", "7/1"]];
            for args in told {
                let ran = stage.call(args).exits(0);
                assert!(!ran.out.contains(text) && !ran.err.contains(text), "{args:?}: {}", ran.out);
            }
        }
        assert!(!stage.lines("prompt-2").join("").contains(SECRET), "nor in what the next attempt is told");
    }
}

#[test]
fn a_secret_in_the_last_line_is_not_shown_as_progress() {
    let stage = Stage::new().with("MY_TOKEN", SECRET);
    stage.agent_script("leaks", "echo working with $MY_TOKEN; until [ -e go ]; do sleep 0.02; done");
    stage.settings("env = [\"MY_TOKEN\"]");
    let run = stage.run("batch_id = 7\n 1 agent=leaks", &["heartbeat_timeout_seconds=6"]);
    let beat = stage.wait_for("the beat tells of it", || {
        let beat = std::fs::read_to_string(stage.path("tasks/batch-7/outbox/1/1/heartbeat.json")).ok()?;
        beat.contains("working with").then_some(beat)
    });
    assert!(!beat.contains(SECRET), "{beat}");
    assert_eq!(files_with(&stage, SECRET), [""; 0]);
    stage.script("go", "");
    run.ends().exits(0);
}

/// A stage whose tmux is this script, or is not there.
fn stage_with_false_tmux(script: Option<&str>) -> Stage {
    let stage = Stage::new();
    let programs = stage.file("programs");
    std::fs::create_dir(&programs).unwrap();
    if let Some(script) = script {
        stage.program("programs/tmux", &format!("#!/bin/sh\n{script}\n"));
    }
    stage.settings("launcher = \"tmux\"\n");
    stage.agent_script("never", "echo it ran >> ran");
    stage.settings("env = [\"MY_TOKEN\"]");
    let path = programs.to_str().unwrap().to_owned();
    stage.with("PATH", &path).with("MY_TOKEN", SECRET)
}

#[test]
fn values_for_an_agent_that_no_launcher_could_start_do_not_stay_on_the_disk() {
    for (script, code) in [(None, 2), (Some("echo no server here >&2; exit 1"), 1)] {
        let stage = stage_with_false_tmux(script);
        stage.run("batch_id = 7\n max_retries = 0\n 1 agent=never", &[]).ends().exits(code);
        assert_eq!(files_with(&stage, SECRET), [""; 0], "{script:?}");
    }
}

#[test]
fn values_for_a_runner_that_never_came_do_not_stay_on_the_disk() {
    let stage = stage_with_false_tmux(Some("exit 0"));
    let watch = stage.go(&["watch"], &["keep_sessions=true"]);
    let plan = stage.plan("batch_id = 7\n max_retries = 0\n 1 agent=never");
    stage.call(&["submit", plan.to_str().unwrap()]).exits(0);
    stage.wait_for("the values wait for a runner", || {
        (!stage.kept_text("7", "1", 1, "environment").is_empty()).then_some(())
    });
    stage.call(&["kill", "7/1"]).exits(0);
    stage.ended("7");
    watch.stop().exits(0);
    assert!(stage.lines("ran").is_empty());
    assert_eq!(files_with(&stage, SECRET), [""; 0]);
}

#[test]
fn a_secret_in_the_command_of_an_agent_that_cannot_be_started_is_told_nowhere() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher).with("MY_TOKEN", SECRET);
        let never = format!("[agents.never]\ncommand = [\"./no-{SECRET}\"]\nenv = [\"MY_TOKEN\"]\n");
        let nowhere =
            format!("[agents.nowhere]\ncommand = [\"true\"]\ncwd = \"no-{SECRET}\"\nenv = [\"MY_TOKEN\"]");
        stage.settings(&format!("{never}{nowhere}"));
        let plan = "batch_id = 7\n max_retries = 1\n 1 agent=never\n 2 agent=nowhere";
        let ran = stage.run(plan, &[]).ends().exits(1);
        assert!(ran.out.contains("no-[redacted:known]") && !ran.out.contains(SECRET), "{}", ran.out);
        // The settings say it themselves, and the order repeats them for the runner, whom alone it is for.
        let mut told = files_with(&stage, SECRET);
        told.retain(|path| !path.ends_with("/launch.json") && !path.ends_with("watchkeeper.toml"));
        assert_eq!(told, [""; 0], "{launcher}");
    }
}

#[test]
fn the_key_of_a_preset_that_settings_do_not_name_is_told_nowhere() {
    let stage = Stage::new();
    std::fs::create_dir(stage.file("bin")).unwrap();
    let says = "#!/bin/sh\ncat > prompt-$WK_ATTEMPT; [ $WK_ATTEMPT = 1 ] || exit 0\n\
        echo \"{\\\"progress\\\":\\\"using $ANTHROPIC_API_KEY\\\"}\" > \"$WK_HEARTBEAT\"\n\
        echo \"{\\\"task_id\\\":\\\"$WK_TASK\\\",\\\"status\\\":\\\"failed\\\",\\\"output\\\":{},\
        \\\"errors\\\":[\\\"refused $ANTHROPIC_API_KEY\\\"]}\" > \"$WK_RESULT\"\n";
    stage.script("stand-in", says);
    // By another program: one of ours that starts another just now would keep it open for writing.
    let mut install = std::process::Command::new("install");
    let installed =
        install.args(["-m", "755"]).arg(stage.file("stand-in")).arg(stage.file("bin/claude")).status();
    assert!(installed.unwrap().success());
    let path = format!("{}:{}", stage.file("bin").display(), std::env::var("PATH").unwrap());
    let stage = stage.with("PATH", &path).with("ANTHROPIC_API_KEY", SECRET);
    let ran = stage.run("batch_id = 7\n 1 agent=claude", &[]).ends().exits(0);
    assert!(ran.out.contains("refused [redacted:known]") && !ran.out.contains(SECRET), "{}", ran.out);
    let mut told = files_with(&stage, SECRET);
    told.retain(|path| !path.ends_with("/result.json") && !path.ends_with("/heartbeat.json"));
    assert_eq!(told, [""; 0]);
    assert!(!stage.lines("prompt-2").join("").contains(SECRET), "nor is the next attempt");
}

#[test]
fn what_the_settings_call_plain_is_shown() {
    let stage = Stage::new().with("MY_REGION", "north-by-northwest");
    stage.agent_script("tells", "echo in $MY_REGION");
    stage.settings("plain_env = [\"MY_REGION\"]");
    stage.run("batch_id = 7\n 1 agent=tells", &[]).ends().exits(0);
    stage.call(&["logs", "7/1"]).exits(0).says("in north-by-northwest");
}

#[test]
fn a_secret_that_an_agent_reports_stays_in_its_own_files() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let stage = Stage::new().with("MY_TOKEN", SECRET);
    let agent = format!(
        "cat > prompt-$WK_ATTEMPT; [ $WK_ATTEMPT = 1 ] || exit 0\n\
         echo \"{{\\\"progress\\\":\\\"step 1 with $MY_TOKEN and {token}\\\"}}\" > \"$WK_HEARTBEAT\"\n\
         until grep -q 'step 1 with' .ce/orchestration/tasks/batch-7/status.json; do sleep 0.02; done\n\
         cp .ce/orchestration/tasks/batch-7/status.json seen.json\n\
         echo \"{{\\\"task_id\\\":\\\"$WK_TASK_ID\\\",\\\"status\\\":\\\"failed\\\",\\\"output\\\":{{}},\\\n\
         \\\"errors\\\":[\\\"refused $MY_TOKEN and {token}\\\"]}}\" > \"$WK_RESULT\""
    );
    stage.agent_script("reports", &agent);
    stage.settings("env = [\"MY_TOKEN\"]");
    let ran = stage.run("batch_id = 7\n 1 agent=reports", &[]).ends().exits(0);
    let is_own = |path: &String| path.ends_with("/result.json") || path.ends_with("/heartbeat.json");
    for text in [SECRET, token] {
        let others: Vec<String> = files_with(&stage, text).into_iter().filter(|path| !is_own(path)).collect();
        assert_eq!(others, [""; 0]);
        assert!(!ran.out.contains(text) && !ran.err.contains(text), "{}", ran.out);
        for args in [&["why", "7/1"] as &[&str], &["report", "7"], &["report", "7", "--json"]] {
            assert!(!stage.call(args).exits(0).out.contains(text), "{args:?}");
        }
        assert!(!stage.lines("seen.json").join("").contains(text));
        assert!(!stage.lines("prompt-2").join("").contains(text), "nor in what the next attempt is told");
    }
    stage.call(&["why", "7/1"]).says("refused [redacted");
}
