//! What goes in and comes out: environment, prompt, logs, secrets.

use std::os::unix::fs::PermissionsExt;

use watchkeeper::bus::layout::older_log;
use watchkeeper::model::agent::EnvRule;
use watchkeeper::model::claim::ClaimStatus;
use watchkeeper::model::preset::Dialect;

use super::stage::{Stage, eventually};

#[test]
fn the_environment_is_the_short_list_and_nothing_else() {
    let mut stage = Stage::new(&["env"]).with_env("GIVEN", "by settings");
    let inherits = |name: &str| EnvRule { name: name.to_owned(), value: None, plain: true };
    stage.order.env.extend([inherits("HANDED_ON"), inherits("NOWHERE"), inherits("FROM_FILE")]);
    stage.order.env.push(EnvRule { name: "WK_TASK".into(), value: Some("forged".into()), plain: true });
    for (name, value) in
        [("HANDED_ON", "yes"), ("NOT_NAMED", "no"), ("LD_DEBUG_OUTPUT", "/x"), ("FROM_FILE", "old")]
    {
        stage.variables.push((name.to_owned(), value.to_owned()));
    }
    let left = r#"{"values": {"FROM_FILE": "new", "UNNAMED": "no"}, "secrets": ["of another agent"]}"#;
    std::fs::write(stage.paths.environment(), left).unwrap();
    std::fs::set_permissions(stage.paths.environment(), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(stage.run().is_clean());
    assert!(!stage.paths.environment().exists(), "the values are read once and removed");

    let paths = &stage.order.paths;
    let mut expected = vec![
        "GIVEN=[REDACTED]".to_owned(),
        "HANDED_ON=yes".to_owned(),
        "FROM_FILE=new".to_owned(),
        "WK_BATCH=7".to_owned(),
        "WK_TASK=1".to_owned(),
        "WK_TASK_ID=phase-1".to_owned(),
        "WK_ATTEMPT=1".to_owned(),
        "WK_AGENT=smoke".to_owned(),
        format!("WK_ROOT={}", paths.root.display()),
        format!("WK_SPEC={}", paths.spec.display()),
        format!("WK_HEARTBEAT={}", paths.heartbeat.display()),
        format!("WK_RESULT={}", paths.result.display()),
        format!("WK_MARK={}", stage.order.mark),
    ];
    for name in ["PATH", "HOME", "LANG", "TERM"] {
        expected.extend(std::env::var(name).ok().map(|value| format!("{name}={value}")));
    }
    let names = |lines: &[String]| -> Vec<String> {
        let mut names: Vec<String> =
            lines.iter().map(|line| line.split('=').next().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let found: Vec<String> = stage.stdout().lines().map(str::to_owned).collect();
    assert_eq!(names(&found), names(&expected));
    for line in expected.iter().filter(|line| !line.starts_with("GIVEN=")) {
        assert!(found.contains(line), "{line} is missing in {found:?}");
    }
}

#[test]
fn a_long_prompt_arrives_whole_and_then_ends() {
    let mut stage = Stage::sh("sha256sum; echo over");
    let prompt = "a line of the prompt, with its number 12345\n".repeat((1 << 20) / 44 + 1);
    stage.order.stdin = Some(prompt.clone());
    assert!(stage.run().is_clean());
    let expected = watchkeeper::bus::sha256(prompt.as_bytes());
    assert_eq!(stage.stdout(), format!("{expected}  -\nover\n"));
}

#[test]
fn an_agent_that_never_reads_its_prompt_holds_up_nobody() {
    let mut stage = Stage::sh("echo done");
    stage.order.stdin = Some("x".repeat(1 << 20));
    assert!(stage.run().is_clean());
    let mut stage = Stage::sh("exec 0<&-; sleep 0.3; echo done");
    stage.order.stdin = Some("x".repeat(1 << 20));
    assert!(stage.run().is_clean());
    assert_eq!(stage.stdout(), "done\n");
    let stage = Stage::new(&["cat"]);
    assert!(stage.run().is_clean(), "no prompt is an empty one");
}

#[test]
fn a_secret_is_in_neither_log_nor_in_the_result_however_it_is_written() {
    const SECRET: &str = "correct-horse-battery";
    let script =
        r#"printf 'key correct-hor'; sleep 0.2; printf 'se-battery\n'; echo "again $TOKEN" >&2; exit 1"#;
    let stage = Stage::sh(script).with_env("TOKEN", SECRET);
    let exit = stage.run();
    assert!(exit.redacted >= 2, "{exit:?}");
    assert!(stage.stdout().starts_with("key ") && stage.stderr().starts_with("again "));
    let result = std::fs::read_to_string(stage.paths.result()).unwrap();
    for text in [stage.stdout(), stage.stderr(), result] {
        assert!(!text.contains(SECRET) && !text.contains("correct-hor"), "{text}");
    }
}

#[test]
fn what_is_held_back_is_written_when_the_agent_falls_silent() {
    let mut stage = Stage::sh("printf 'a question without an end of line? '; sleep 60")
        .with_env("TOKEN", "a-secret-value");
    stage.order.kill_grace = watchkeeper::model::Seconds(0.1);
    let running = stage.spawn();
    let log = stage.paths.stdout();
    eventually("the line is in the log", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("a question without an end of line"))
    });
    running.signal(rustix::process::Signal::TERM);
    running.exit();
}

#[test]
fn a_log_stays_within_twice_its_limit_and_has_the_newest() {
    let mut stage = Stage::sh("seq 1 700000");
    stage.order.limits.log_mb = Some(1);
    assert!(stage.run().is_clean());
    let newest = stage.stdout();
    let older = std::fs::read_to_string(older_log(&stage.paths.stdout())).unwrap();
    assert!(newest.len() <= 1 << 20 && older.len() <= 1 << 20, "{} {}", newest.len(), older.len());
    assert!(newest.ends_with("700000\n"));
}

#[test]
fn with_an_echo_the_terminal_and_its_log_show_the_same_without_secrets() {
    let mut stage = Stage::sh("echo out $TOKEN; echo err >&2").with_env("TOKEN", "a-secret-value");
    stage.order.echo = true;
    stage.write_order();
    let shown = stage.command().stdout(std::process::Stdio::piped()).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let pane = std::fs::read_to_string(stage.paths.pane()).unwrap();
    assert_eq!(shown, pane);
    assert!(
        shown.contains("out ") && shown.contains("err\n") && !shown.contains("a-secret-value"),
        "{shown}"
    );
}

fn telling(story: &str, script: &str) -> Stage {
    let mut stage = Stage::sh(script);
    stage.order.dialect = Dialect::Claude;
    let path = format!("{}/testdata/transcripts/claude/{story}.jsonl", env!("CARGO_MANIFEST_DIR"));
    stage.order.env.push(EnvRule { name: "STORY".into(), value: Some(path), plain: true });
    stage
}

#[test]
fn a_story_in_a_known_dialect_becomes_message_tokens_and_cost() {
    let stage = telling("failing-command", "cat \"$STORY\"");
    let exit = stage.run();
    let (claim, value) = stage.result();
    assert_eq!((claim.status, exit.cost_usd), (ClaimStatus::Success, Some(0.01662)));
    assert!(claim.tokens_used.is_some());
    assert_eq!(value["output"]["message"], "The command failed; nothing was changed.");

    let stage = telling("answer-cut", "cat \"$STORY\"");
    assert!(stage.run().is_clean());
    let (claim, _) = stage.result();
    assert_eq!(claim.status, ClaimStatus::Failure, "it says itself that it failed");
    assert!(claim.errors[0].contains("output token maximum"), "{:?}", claim.errors);
}

#[test]
fn beats_tell_the_progress_of_a_story() {
    let stage = telling("failing-command", "cat \"$STORY\"; sleep 60");
    let running = stage.spawn();
    eventually("the beat says what goes on", || {
        stage.beat().is_some_and(|beat| beat["progress"] == "The command failed; nothing was changed.")
    });
    running.signal(rustix::process::Signal::TERM);
    running.exit();
}
