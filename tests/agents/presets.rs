//! The presets, with stand-ins for the real programs that replay what those printed: the command line that they
//! are given, and how far what they say comes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::crew::Stage;
use crate::scene::{ending, task};

const CLIS: &[&str] = &["claude", "codex", "opencode", "gemini"];

/// Keeps its command line and its prompt, and plays its transcript; before the last line it waits, if it is to.
const STAND_IN: &str = r#"#!/bin/sh
me=${0##*/}
printf '%s\n' "$me" "$@" > "argv.$me"
cat > "prompt.$me"
sed '$d' "$me.jsonl"
[ "$PACE" = 0 ] || until [ -e go ]; do sleep 0.02; done
sed -n '$p' "$me.jsonl"
"#;

fn transcript(cli: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/transcripts").join(cli).join(name)
}

fn expected(cli: &str, name: &str) -> Value {
    let text = std::fs::read(transcript(cli, &format!("{name}.expected.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A stage with all four on its path, each with this transcript.
fn stage(name: &str, pace: &str) -> Stage {
    let stage = Stage::new();
    std::fs::create_dir(stage.file("bin")).unwrap();
    for cli in CLIS {
        stage.program(&format!("bin/{cli}"), STAND_IN);
        let played = transcript(cli, &format!("{name}.jsonl"));
        if played.exists() {
            std::fs::copy(played, stage.file(&format!("{cli}.jsonl"))).unwrap();
        }
        stage.settings(&format!("[agents.{cli}]\nplain_env = [\"PACE={pace}\"]"));
    }
    let path = format!("{}:{}", stage.file("bin").display(), std::env::var("PATH").unwrap());
    stage.with("PATH", &path)
}

/// One task for each, under its name.
fn plan() -> String {
    CLIS.iter().fold("batch_id = 7\n max_retries = 0\n".to_owned(), |plan, cli| {
        format!("{plan}{cli} agent={cli} goal=write\\thello\n")
    })
}

#[test]
fn every_preset_is_started_as_its_program_wants_with_the_prompt_on_standard_input() {
    let stage = stage("plain", "0");
    stage.run(&plan(), &[]).ends().exits(0);
    let commands: &[&[&str]] = &[
        &["claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"],
        &["codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write", "-"],
        &["opencode", "run", "--format", "json"],
        &["gemini", "--output-format", "stream-json", "--approval-mode", "auto_edit", "--skip-trust"],
    ];
    for command in commands {
        assert_eq!(stage.lines(&format!("argv.{}", command[0])), *command);
        let prompt = stage.lines(&format!("prompt.{}", command[0])).join("\n");
        assert!(prompt.contains("write\\thello"), "{prompt}");
    }
}

#[test]
fn what_they_say_reaches_heartbeat_status_and_result() {
    let stage = stage("tool-call", "slow");
    let run = stage.run(&plan(), &["heartbeat_timeout_seconds=30"]);
    for cli in CLIS {
        let expected = expected(cli, "tool-call");
        let known = expected["progress"].as_array().unwrap();
        stage.wait_for(&format!("{cli} beats with its words"), || {
            let beat =
                std::fs::read(stage.path(&format!("tasks/batch-7/outbox/{cli}/1/heartbeat.json"))).ok()?;
            let beat: Value = serde_json::from_slice(&beat).ok()?;
            // What these two spent is in their last line alone.
            let has_tokens = ["codex", "gemini"].contains(cli)
                || beat["tokens_used"].as_u64().is_some_and(|count| count > 0);
            (known.contains(&beat["progress"]) && has_tokens).then_some(())
        });
        stage.wait_for(&format!("the status file tells of {cli}"), || {
            let status = std::fs::read(stage.path("tasks/batch-7/status.json")).ok()?;
            let status: Value = serde_json::from_slice(&status).ok()?;
            let told = status["live"]["tasks"].as_array()?.iter().find(|one| one["key"] == *cli)?.clone();
            known.contains(&told["progress"]).then_some(())
        });
    }
    stage.script("go", "");
    run.ends().exits(0).says("Cost: $");
    let result = stage.ended("7");
    let mut cost = 0.0;
    for cli in CLIS {
        let expected = expected(cli, "tool-call");
        assert_eq!(task(&result, cli)["tokens_used"], expected["tokens_used"], "{cli}");
        cost += expected["cost_usd"].as_f64().unwrap_or(0.0);
        let written: Value =
            serde_json::from_str(&stage.kept_text("7", cli, 1, "result.json")).unwrap_or_default();
        assert_eq!(written["output"]["message"], expected["final_message"], "{cli}: {written:#}");
    }
    assert!((result["cost_usd"].as_f64().unwrap() - cost).abs() < 0.0001, "{result:#}");
}

#[test]
fn a_story_that_ends_in_failure_fails_the_attempt_whatever_its_exit_code() {
    let stage = stage("refusal", "0");
    stage.run(&plan(), &[]).ends().exits(1);
    let result = stage.ended("7");
    for cli in CLIS {
        assert!(ending(&result, cli).starts_with("failed:"), "{cli}: {}", ending(&result, cli));
        let failure = expected(cli, "refusal")["failure"].as_str().unwrap().to_owned();
        let told = task(&result, cli).to_string();
        let words: Vec<&str> = failure.split_whitespace().take(3).collect();
        assert!(told.contains(&words.join(" ")), "{cli}: {failure} is not in {told}");
    }
}

#[test]
fn a_last_line_that_is_too_long_to_be_read_is_no_success() {
    let stage = stage("plain", "0");
    let said = "x".repeat((1 << 20) + 1);
    let last = format!(r#"{{"type":"result","subtype":"success","is_error":true,"result":"{said}"}}"#);
    let path = stage.file("claude.jsonl");
    let played = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = played.lines().filter(|line| !line.contains("\"type\":\"result\"")).collect();
    std::fs::write(path, format!("{}\n{last}\n", lines.join("\n"))).unwrap();
    stage.run("batch_id = 7\n max_retries = 0\n claude agent=claude", &[]).ends().exits(1);
    assert_eq!(ending(&stage.ended("7"), "claude"), "failed:agent_reported");
    stage.call(&["why", "7/claude"]).says("longer than 1 MiB");
}

#[test]
fn what_made_its_output_doubtful_is_told_beside_its_success() {
    let stage = stage("plain", "0");
    let path = stage.file("gemini.jsonl");
    let played = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = played.lines().filter(|line| !line.contains("\"type\":\"result\"")).collect();
    std::fs::write(path, format!("{}\n", lines.join("\n"))).unwrap();
    let told = "the output ends before its result";
    stage.run("batch_id = 7\n max_retries = 0\n gemini agent=gemini", &[]).ends().exits(0).says(told);
    assert_eq!(ending(&stage.ended("7"), "gemini"), "success");
    stage.call(&["why", "7/gemini"]).says(told);
    assert!(stage.kept_text("7", "gemini", 1, "result.json").contains(told));
}

#[test]
fn a_cli_that_says_nothing_at_all_is_doubted() {
    let stage = stage("plain", "0");
    for cli in CLIS {
        std::fs::write(stage.file(&format!("{cli}.jsonl")), "").unwrap();
    }
    stage.run(&plan(), &[]).ends().exits(0);
    for cli in CLIS {
        let told = format!("nothing in the output is of the dialect `{cli}`");
        stage.call(&["why", &format!("7/{cli}")]).says(&told);
        assert!(stage.kept_text("7", cli, 1, "result.json").contains(&told), "{cli}");
    }
}
