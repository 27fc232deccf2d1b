//! What nobody granted: it is in no environment that an agent could look into, and what one agent is granted stands in no
//! other one's log.

use crate::crew::{Stage, launchers};

/// Looks for a text in the environment of every process that there is, its own among them.
const LOOKS: &str = "for one in /proc/[0-9]*/environ; do\n\
    tr '\\000' '\\n' < $one 2>/dev/null | grep -q \"$(cat wanted)\" && echo $one $(tr '\\000' ' ' < ${one%environ}cmdline) >> seen\n\
    done\necho looked >> looked";

#[test]
fn what_was_not_granted_is_in_no_environment_that_an_agent_can_read() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        let text = format!("not-granted-{}", stage.name);
        let stage = stage.with("SOMEBODYS_TOKEN", &text);
        stage.script("wanted", &text);
        stage.agent_script("nosy", LOOKS);
        stage.run("batch_id = 7\n 1 agent=nosy", &[]).ends().exits(0);
        assert_eq!(stage.lines("looked"), ["looked"]);
        assert_eq!(stage.lines("seen"), [""; 0], "{launcher}");
    }
}

#[test]
fn what_an_agent_is_granted_it_has_and_nobody_above_it() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        let text = format!("granted-{}", stage.name);
        let stage = stage.with("MY_TOKEN", &text);
        stage.script("wanted", &text);
        stage.agent_script(
            "nosy",
            &format!("echo $MY_TOKEN >> has\nunset MY_TOKEN\nexec sh -c '{}'", LOOKS.replace('\'', "'\\''")),
        );
        stage.settings("env = [\"MY_TOKEN\"]");
        stage.run("batch_id = 7\n 1 agent=nosy", &[]).ends().exits(0);
        assert_eq!(stage.lines("has"), [text.as_str()], "{launcher}");
        assert_eq!(stage.lines("seen"), [""; 0], "{launcher}");
        let left = walkdir::WalkDir::new(stage.path("")).into_iter().flatten();
        let left: Vec<_> = left.filter(|entry| entry.file_name() == "environment").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_log_has_the_secrets_of_no_agent() {
    const SECRET: &str = "correct-horse-battery-staple";
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher).with("MY_TOKEN", SECRET);
        stage.agent_script("careless", "echo $MY_TOKEN > note");
        stage.settings("env = [\"MY_TOKEN\"]");
        stage.agent_script("reader", "cat note; cat note | base64");
        stage.run("batch_id = 7\n 1 agent=careless\n 2 <- 1 agent=reader", &[]).ends().exits(0);
        assert_eq!(stage.lines("note"), [SECRET]);
        let log = stage.kept_text("7", "2", 1, "stdout.log");
        assert!(!log.contains(SECRET) && log.contains("[redacted:known]"), "{launcher}: {log}");
    }
}
