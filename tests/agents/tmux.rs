//! The tmux launcher: one session an attempt, to be looked at, and nothing left when it is over.

use std::process::Command;

use rustix::process::Signal;

use crate::crew::{Stage, alone, is_alive, launchers, signal};
use crate::scene::{Process, ending};

fn stage() -> Option<Stage> {
    launchers().contains(&"tmux").then(|| Stage::new().for_launcher("tmux"))
}

fn tmux(stage: &Stage, arguments: &[&str]) -> String {
    let output = Command::new("tmux").args(["-L", &stage.name]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn sessions(stage: &Stage) -> Vec<String> {
    let listed = tmux(stage, &["list-sessions", "-F", "#{session_name}"]);
    listed.lines().map(str::to_owned).collect()
}

/// The name in the first line of the attempt's note.
fn session_of(stage: &Stage, key: &str) -> String {
    stage.kept_text("7", key, 1, "session").lines().next().unwrap_or_default().to_owned()
}

const WAITS: &str = "echo $WK_TASK >> begun; until [ -e go ]; do sleep 0.02; done";

#[test]
fn every_attempt_has_a_session_named_after_agent_and_time_until_the_batch_has_ended() {
    let Some(stage) = stage() else { return };
    stage.agent_script("code-generator", WAITS);
    let three = "batch_id = 7\n 1 agent=code-generator\n 2 agent=code-generator\n 3 agent=code-generator";
    let run = stage.run(three, &[]);
    stage.wait_lines("begun", 3);
    let names = sessions(&stage);
    assert_eq!(names.len(), 3, "{names:?}");
    for name in &names {
        // code-generator-20251030-1430, and a number where that is taken.
        let time = name.strip_prefix("code-generator-").unwrap_or_else(|| panic!("{name}"));
        let parts: Vec<&str> = time.split('-').collect();
        let is_number = |part: &&str| part.chars().all(|c| c.is_ascii_digit());
        assert!(parts.iter().all(is_number) && parts[0].len() == 8 && parts[1].len() == 4, "{name}");
    }
    for key in ["1", "2", "3"] {
        let session = session_of(&stage, key);
        assert!(names.contains(&session), "{session}");
        let shown = stage.call(&["attach", &format!("7/{key}"), "--print"]).exits(0);
        assert_eq!(shown.out, format!("tmux -L {} attach-session -t ={session}\n", stage.name));
    }
    stage.script("go", "");
    run.ends().exits(0);
    assert_eq!(sessions(&stage), [""; 0], "they are gone with the batch");
}

#[test]
fn a_session_goes_with_its_batch_though_its_agent_removed_what_names_it() {
    let Some(stage) = stage() else { return };
    // Once its runner has made what it makes there: nothing may come into the folder while it is removed.
    let removes = "folder=$(dirname \"$WK_SPEC\"); until [ -e \"$folder/stderr.log\" ]; do sleep 0.02; done\n\
        while [ -e \"$folder\" ]; do rm -rf \"$folder\"; done; echo gone >> gone";
    stage.agent_script("remover", removes);
    stage.run("batch_id = 7\n max_retries = 0\n 1 agent=remover", &[]).ends().exits(1);
    assert_eq!(stage.lines("gone"), ["gone"]);
    assert_eq!(sessions(&stage), [""; 0]);
}

fn a_session_comes_and_goes(stage: &Stage, how: &str) {
    stage.agent_script("slow", WAITS);
    let run = stage.run("batch_id = 7\n 1 agent=slow", &[]);
    stage.wait_lines("begun", 1);
    assert_eq!(sessions(stage).len(), 1, "{how:?}");
    stage.script("go", "");
    run.ends().exits(0);
    assert_eq!(sessions(stage), [""; 0], "{how:?}");
}

#[test]
fn sessions_are_known_and_closed_whatever_the_locale() {
    if stage().is_none() {
        return;
    }
    for locale in ["C", "POSIX", ""] {
        let stage = Stage::below("größe").for_launcher("tmux").with("LC_ALL", locale).with("LANG", locale);
        a_session_comes_and_goes(&stage, &format!("LC_ALL={locale}"));
    }
}

#[test]
fn a_session_stays_until_the_report_even_if_its_agent_has_ended() {
    let Some(stage) = stage() else { return };
    stage.agent_script("quick", "echo all done here");
    stage.agent_script("slow", WAITS);
    let run = stage.run("batch_id = 7\n 1 agent=quick\n 2 agent=slow", &[]);
    stage.wait_event("7", "succeeded", "1");
    stage.wait_lines("begun", 1);
    let session = session_of(&stage, "1");
    stage.wait_for("the pane shows it", || {
        let pane = tmux(&stage, &["capture-pane", "-p", "-S", "-", "-t", &format!("={session}:")]);
        pane.contains("all done here").then_some(())
    });
    stage.script("go", "");
    run.ends().exits(0);
    assert_eq!(sessions(&stage), [""; 0]);
}

#[test]
fn the_command_line_chooses_the_launcher_for_agents_that_do_not() {
    if stage().is_none() {
        return;
    }
    let stage = Stage::new().with_tmux();
    stage.agent_script("quick", "true");
    stage.agent_script("bare", "true").settings("launcher = \"process\"");
    let plan = stage.plan("batch_id = 7\n 1\n 2 agent=bare");
    let plan = plan.to_str().unwrap();
    stage.go(&["run", plan, "--agent", "quick", "--launcher", "tmux"], &[]).ends().exits(0);
    let launcher = |key: &str| {
        let journal = stage.journal("7");
        let is_it = |line: &&serde_json::Value| line["event"] == "launched" && line["task"] == key;
        journal.iter().find(is_it).unwrap()["launcher"].clone()
    };
    assert_eq!([launcher("1"), launcher("2")], ["tmux", "process"]);
    assert!(stage.kept("7", "1", 1, "session").exists() && !stage.kept("7", "2", 1, "session").exists());
}

#[test]
fn sessions_can_be_kept() {
    let Some(stage) = stage() else { return };
    stage.agent_script("quick", "true");
    stage.run("batch_id = 7\n 1 agent=quick\n 2 agent=quick", &["keep_sessions=true"]).ends().exits(0);
    assert_eq!(sessions(&stage).len(), 2);
}

#[test]
fn the_pane_and_its_log_show_what_the_agent_says_without_its_secrets() {
    let Some(stage) = stage() else { return };
    let stage = stage.with("MY_TOKEN", "hush-hush-very-secret");
    stage.agent_script(
        "tells",
        "echo it is $MY_TOKEN; echo oh no >&2; echo > begun; until [ -e go ]; do sleep 0.02; done",
    );
    stage.settings("env = [\"MY_TOKEN\"]");
    let run = stage.run("batch_id = 7\n 1 agent=tells", &[]);
    stage.wait_lines("begun", 1);
    let session = session_of(&stage, "1");
    let pane = stage.wait_for("the pane shows it", || {
        let pane = tmux(&stage, &["capture-pane", "-p", "-t", &format!("={session}:")]);
        (pane.contains("it is") && pane.contains("oh no")).then_some(pane)
    });
    assert!(!pane.contains("hush-hush"), "{pane}");
    stage.script("go", "");
    run.ends().exits(0);
    let log = stage.kept_text("7", "1", 1, "tmux.log");
    assert!(log.contains("it is") && log.contains("oh no") && !log.contains("hush-hush"), "{log}");
    assert!(!stage.kept("7", "1", 1, "environment").exists(), "its values do not stay on the disk");
}

#[test]
fn an_exit_code_comes_through_tmux() {
    let Some(stage) = stage() else { return };
    stage.agent_script("fails", "exit 42");
    stage.run("batch_id = 7\n max_retries = 0\n 1 agent=fails", &[]).ends().exits(1);
    let exit = stage.journal("7").into_iter().find(|line| line["event"] == "exited").unwrap();
    assert_eq!(exit["exit"]["exit_code"], 42);
    assert_eq!(ending(&stage.ended("7"), "1"), "failed:agent_exited");
}

#[test]
fn a_killed_tmux_server_fails_its_attempts_within_two_seconds_and_leaves_nobody() {
    let Some(stage) = stage() else { return };
    let children = "trap '' HUP TERM; sleep 300 & setsid sleep 301 & ";
    let waits = "echo $WK_TASK >> begun; while :; do sleep 1; done";
    stage.agent_script("slow", &format!("[ $WK_ATTEMPT = 1 ] || exit 0; {children}{waits}"));
    let settings = ["scan_interval_seconds=1", "idle_scan_seconds=60", "heartbeat_timeout_seconds=60"];
    let run = stage.run("batch_id = 7\n 1 agent=slow\n 2 agent=slow", &settings);
    stage.wait_lines("begun", 2);
    let server: u32 = tmux(&stage, &["display-message", "-p", "#{pid}"]).trim().parse().unwrap();
    let killed_at = jiff::Timestamp::now();
    signal(server, Signal::KILL);
    run.ends().exits(0);
    for line in stage.journal("7").iter().filter(|line| line["event"] == "attempt_failed") {
        let failed_at: jiff::Timestamp = line["at"].as_str().unwrap().parse().unwrap();
        let took = failed_at.duration_since(killed_at);
        // Two seconds are promised where nothing else holds the watcher up. Nothing but the scan of each second
        // could notice it before a minute has passed: whatever is far below that shows that the scan did.
        assert!(took.as_millis() <= 15_000, "it took {took}");
        assert_eq!(line["because"]["reason"], "terminal_lost");
    }
    assert_eq!(stage.count("7", "attempt_failed", None), 2);
    stage.nobody_is_left();
}

#[test]
fn a_server_that_is_about_to_end_is_asked_again() {
    let Some(stage) = stage() else { return };
    std::fs::create_dir(stage.file("programs")).unwrap();
    let asked = stage.script("asked", "").file("asked");
    let ends_twice = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\nif [ $(wc -l < {0}) -lt 4 ]; then echo >> {0}\n\
         echo 'server exited unexpectedly' >&2; exit 1; fi\nexec tmux \"$@\"\n",
        asked.display()
    );
    stage.program("programs/tmux", &ends_twice);
    let path = format!("{}:{}", stage.file("programs").display(), std::env::var("PATH").unwrap());
    let stage = stage.with("PATH", &path);
    stage.agent_script("quick", "true");
    stage.run("batch_id = 7\n max_retries = 0\n 1 agent=quick", &[]).ends().exits(0);
    // Each time by both questions: whether there is a server, and for a new one.
    assert_eq!(stage.lines("asked").len(), 4);
}

#[test]
fn what_has_no_session_says_what_to_do_instead() {
    let stage = Stage::new();
    stage.agent_script("quick", "true");
    stage.run("batch_id = 7\n 1 agent=quick", &[]).ends().exits(0);
    stage.call(&["attach", "7/1"]).exits(2).complains("has no tmux session").complains("wk logs 7/1 -f");
}

#[test]
fn a_session_is_found_on_its_own_server_by_whoever_does_not_name_that() {
    let Some(stage) = stage() else { return };
    stage.agent_script("slow", WAITS);
    let run = stage.run("batch_id = 7\n 1 agent=slow", &[]);
    stage.wait_lines("begun", 1);
    let shown = stage.wk(&["attach", "7/1", "--print"]).exits(0);
    assert_eq!(shown.out, format!("tmux -L {} attach-session -t ={}\n", stage.name, session_of(&stage, "1")));
    let refused = stage.wk(&["attach", "7/1"]).exits(1);
    refused
        .complains("error: there is no terminal")
        .complains(&format!("hint: on a terminal: {}", shown.out.trim()));
    run.kill();
    // A watcher with another server in its settings goes on with it, and closes it in the end.
    let another = format!("tmux_socket={}-another", stage.name);
    let watch = Process::start(stage.with_settings(&["watch"], &[&another]));
    stage.wait_for("it watches", || watch.stderr().contains("watching ").then_some(()));
    stage.script("go", "");
    assert_eq!(ending(&stage.ended("7"), "1"), "success");
    assert_eq!(sessions(&stage), [""; 0]);
    watch.stop().exits(0);
}

#[test]
fn what_people_daemonise_on_a_server_that_we_started_is_not_ours_to_end() {
    let Some(_alone) = alone(what_people_daemonise_on_a_server_that_we_started_is_not_ours_to_end) else {
        return;
    };
    if stage().is_none() {
        return;
    }
    let stage = Stage::new().with_tmux();
    stage.agent_script("shown", "true").settings("launcher = \"tmux\"");
    stage.agent_script("waits", "[ $WK_ATTEMPT = 1 ] || exit 0\necho >> begun; exec sleep 301");
    let run = stage.run("batch_id = 7\n 1 agent=shown\n 2 <- 1 agent=waits", &[]);
    stage.wait_lines("begun", 1);
    let pids = stage.file("pids");
    let daemon = format!("(setsid sh -c 'echo $$ >> {}; exec sleep 300' &)", pids.display());
    tmux(&stage, &["new-session", "-d", &format!("{daemon}; sleep 300")]);
    let daemon: u32 = stage.wait_lines("pids", 1)[0].parse().unwrap();
    signal(stage.runner("7", "2", 1), Signal::KILL);
    let ran = run.ends();
    let was_spared = is_alive(daemon);
    signal(daemon, Signal::KILL);
    ran.exits(0);
    assert!(was_spared, "a process of the user's own was killed");
    assert_eq!(stage.count("7", "launched", Some("2")), 2);
}

/// A terminal to look at sessions on: a pane of another server, gone with it.
struct Terminal(String);

impl Terminal {
    /// Each has a server of its own: one that was just closed may still be there.
    fn open(stage: &Stage, name: &str, words: &[&str]) -> Terminal {
        let terminal = Terminal(format!("{}-{name}", stage.name));
        let mut command = Command::new("tmux");
        command.args(["-L", &terminal.0, "-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30"]);
        let made = command.arg("-c").arg(stage.root()).arg("--").args(words).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        terminal
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
    }
}

/// Waits until somebody looks at this session, and at no other.
fn wait_until_shown(stage: &Stage, session: &str) {
    stage.wait_for(&format!("{session} is shown"), || {
        let shown = tmux(stage, &["list-clients", "-F", "#{client_session}"]);
        (shown.trim() == session).then_some(())
    });
}

#[test]
fn a_session_is_shown_to_those_who_are_inside_of_tmux() {
    let Some(stage) = stage() else { return };
    stage.agent_script("slow", WAITS);
    let run = stage.run("batch_id = 7\n 1 agent=slow", &[]);
    stage.wait_lines("begun", 1);
    let session = session_of(&stage, "1");
    let wk = env!("CARGO_BIN_EXE_wk");
    let elsewhere = Terminal::open(&stage, "elsewhere", &[wk, "attach", "7/1"]);
    wait_until_shown(&stage, &session);
    drop(elsewhere);

    tmux(&stage, &["new-session", "-d", "-s", "desk", "sleep 300"]);
    let words = ["env", "-u", "TMUX", "tmux", "-L", &stage.name, "attach-session", "-t", "=desk"];
    let _terminal = Terminal::open(&stage, "at-desk", &words);
    wait_until_shown(&stage, "desk");
    let root = stage.root().to_str().unwrap();
    tmux(&stage, &["new-window", "-t", "=desk:", "-c", root, "--", wk, "attach", "7/1"]);
    wait_until_shown(&stage, &session);
    stage.script("go", "");
    run.ends().exits(0);
}

#[test]
fn a_session_that_nobody_looks_at_stays_whatever_people_want_of_their_own() {
    let Some(stage) = stage() else { return };
    let home = stage.root().to_str().unwrap().to_owned();
    let stage = stage.with("HOME", &home);
    stage.script(".tmux.conf", "set -g destroy-unattached on\n");
    stage.agent_script("slow", WAITS);
    let run = stage.run("batch_id = 7\n max_retries = 0\n 1 agent=slow\n 2 agent=slow", &[]);
    stage.wait_lines("begun", 2);
    assert_eq!(sessions(&stage).len(), 2);
    stage.script("go", "");
    run.ends().exits(0);
}

#[test]
fn sessions_are_known_and_closed_whatever_the_root_is_called() {
    if stage().is_none() {
        return;
    }
    for root in ["one\ntwo", "a:b", "#{pid};"] {
        let stage = Stage::below(root).for_launcher("tmux");
        a_session_comes_and_goes(&stage, root);
    }
}

#[test]
fn keys_that_are_typed_at_a_session_end_nobody() {
    let Some(stage) = stage() else { return };
    stage.agent_script("slow", WAITS);
    let run = stage.run("batch_id = 7\n max_retries = 0\n 1 agent=slow", &[]);
    stage.wait_lines("begun", 1);
    let pane = format!("={}:", session_of(&stage, "1"));
    // What is typed last is shown last: then the others have arrived.
    for key in ["C-c", "C-\\", "C-z", "x"] {
        tmux(&stage, &["send-keys", "-t", &pane, key]);
    }
    stage.wait_for("the keys are shown", || {
        tmux(&stage, &["capture-pane", "-p", "-t", &pane]).contains('x').then_some(())
    });
    stage.script("go", "");
    run.ends().exits(0);
    assert_eq!(stage.count("7", "launched", None), 1);
}
