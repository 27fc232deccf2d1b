//! Texts of a request that would be commands if anything read them as such. Each carries canaries: files that
//! would appear in the root, and processes that would be started.

use serde_json::{Value, json};

use crate::crew::{Stage, launchers};
use crate::scene::ending;

/// One text with everything that shells, tmux and printf would read; `{}` is the canary's name.
const HOSTILE: &[&str] = &[
    "; touch {};",
    "`touch {}`",
    "$(touch {})",
    "x\ntouch {}\n",
    "\r touch {}\r",
    "-x --help -- {}",
    "#{pane_pid} #(touch {}) #{l:x}",
    "%n%s%d {} %1$s",
    "'\"; touch {}; '\"",
    "| touch {} & touch {} && touch {}",
    "${IFS}touch${IFS}{} \\; touch {} ;",
    "#SBATCH --wrap='touch {}'",
    "{goal} {prompt} {shell} {root}",
];

/// Keeps its prompt and its arguments, so that the scene sees that the text arrived as it was.
const KEEPS: &str = "cat > prompt.$WK_TASK; printf '%s\\n' \"$@\" > arguments.$WK_TASK";

fn named(text: &str, number: usize) -> String {
    text.replace("{}", &format!("canary-{number}"))
}

#[track_caller]
fn no_canary(stage: &Stage, what: &str) {
    for entry in walkdir::WalkDir::new(stage.root()).into_iter().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.contains("canary"), "{what}: {}", entry.path().display());
    }
}

fn phase(number: usize, text: &str) -> Value {
    json!({
        "id": format!("{number}"), "name": format!("Phase {number}: {}", text.replace(['\n', '\r'], " ")),
        "goal": text, "steps": [text, "then rest"], "validation_gates": [text], "conflict_notes": text,
        "complexity": "low", "estimated_hours": 0.1, "files_modified": [], "dependencies": [],
        "agent": "keeps",
    })
}

#[test]
fn no_text_of_a_plan_is_ever_run() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        stage.script("keeps.sh", KEEPS);
        stage.settings(
            "[agents.keeps]\ncommand = [\"sh\", \"keeps.sh\", \"{task_id}\", \"{task}\", \"{root}\", \"x{spec_file}\"]",
        );
        let phases: Vec<Value> =
            HOSTILE.iter().enumerate().map(|(index, text)| phase(index + 1, &named(text, index))).collect();
        std::fs::write(stage.file("hostile.json"), json!({"batch_id": 7, "phases": phases}).to_string())
            .unwrap();
        stage.go(&["run", "hostile.json"], &["parallel_limit=8"]).ends().exits(0);
        no_canary(&stage, launcher);
        for (index, text) in HOSTILE.iter().enumerate() {
            let prompt = std::fs::read_to_string(stage.file(&format!("prompt.{}", index + 1))).unwrap();
            let goal = named(text, index);
            assert!(prompt.contains(goal.trim()), "{launcher}: {goal:?} is not in\n{prompt}");
        }
        for args in [&["status", "7"] as &[&str], &["report", "7"], &["why", "7/1"], &["logs", "7/4"]] {
            stage.call(args).exits(0);
        }
        no_canary(&stage, launcher);
    }
}

#[test]
fn only_what_is_called_a_shell_text_is_run_by_a_shell() {
    let stage = Stage::new();
    let plan = "batch_id = 7\n 1 shell=\"touch\\tcanary-shell\" goal=\"$(touch\\tcanary-goal)\"";
    stage.run(plan, &[]).ends().exits(0);
    assert!(stage.file("canary-shell").exists(), "the canaries of the other scenes would be seen");
    assert!(!stage.file("canary-goal").exists());
}

#[test]
fn a_prompt_in_an_argument_is_one_argument_and_never_an_option() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        stage.script("keeps.sh", "printf '%s' \"$#\" > count.$WK_TASK; printf '%s' \"$1\" > first.$WK_TASK");
        stage.settings(
            "[agents.keeps]\ncommand = [\"sh\", \"keeps.sh\", \"{prompt}\", \"last\"]\nprompt = \"{goal}\"\nprompt_via = \"argument\"",
        );
        let phases: Vec<Value> =
            HOSTILE.iter().enumerate().map(|(index, text)| phase(index + 1, &named(text, index))).collect();
        std::fs::write(stage.file("hostile.json"), json!({"batch_id": 7, "phases": phases}).to_string())
            .unwrap();
        stage.go(&["run", "hostile.json"], &["parallel_limit=8"]).ends().exits(0);
        no_canary(&stage, launcher);
        for (index, text) in HOSTILE.iter().enumerate() {
            let read = |name: &str| {
                std::fs::read_to_string(stage.file(&format!("{name}.{}", index + 1))).unwrap_or_default()
            };
            assert_eq!(read("count"), "2", "{launcher}: {text}");
            assert_eq!(read("first").trim(), named(text, index).trim(), "{launcher}");
            assert!(!read("first").starts_with('-'), "{launcher}: {text}");
        }
    }
}

#[test]
fn names_with_odd_characters_are_refused_or_harmless() {
    let stage = Stage::new();
    stage.agent_script("keeps", KEEPS);
    for id in ["$(touch canary)", "../../canary", "a;b", "-x", "a b", "`x`", "a\nb", "#{pid}", "x%n"] {
        let mut one = phase(1, "fine");
        one["id"] = id.into();
        one["task_id"] = id.into();
        std::fs::write(stage.file("odd.json"), json!({"phases": [one]}).to_string()).unwrap();
        let ran = stage.go(&["run", "odd.json"], &[]).ends();
        assert!(matches!(ran.code, Some(0 | 2)), "{id:?}: {} {}", ran.out, ran.err);
        no_canary(&stage, id);
    }
    for file in ["$(touch canary).txt", "; touch canary", "-rf", "a b`touch canary`.txt"] {
        let mut one = phase(1, "fine");
        one["files_modified"] = json!([file]);
        std::fs::write(stage.file("odd.json"), json!({"phases": [one]}).to_string()).unwrap();
        let ran = stage.go(&["run", "odd.json"], &[]).ends();
        assert!(matches!(ran.code, Some(0..=3)), "{file:?}: {} {}", ran.out, ran.err);
        no_canary(&stage, file);
    }
}

#[test]
fn a_root_with_an_odd_path_works_and_nothing_of_it_is_run() {
    for launcher in launchers() {
        for root in [
            "a b;c",
            "$(touch canary) `touch canary`",
            "#{pane_pid}#(touch canary)",
            "it's \"quoted\" %n \\x",
            "--help",
            "ends in ;",
            "umlaut ä 日本",
        ] {
            let stage = Stage::below(root).for_launcher(launcher);
            stage.agent_script(
                "works",
                "cat > prompt; echo $WK_ATTEMPT >> \"$WK_ROOT/tries\"; [ $WK_ATTEMPT = 2 ]",
            );
            let run = stage.run("batch_id = 7\n 1 agent=works\n 2 <- 1 command=[\"sh\",\"-c\",\"touch\\t\\\"$WK_ROOT/two\\\"\"]", &[]);
            let ran = run.ends();
            assert_eq!(ran.code, Some(0), "{launcher}, {root:?}: {} {}", ran.out, ran.err);
            assert_eq!(stage.lines("tries"), ["1", "2"], "{launcher}, {root:?}");
            assert!(stage.file("two").exists(), "{launcher}, {root:?}");
            assert_eq!(ending(&stage.ended("7"), "1"), "success");
            assert!(
                !stage.file("canary").exists() && !stage.file("../canary").exists(),
                "{launcher}, {root:?}"
            );
        }
    }
}

#[test]
fn what_an_agent_prints_is_never_obeyed_by_the_next_or_by_the_terminal() {
    let Some(launcher) = launchers().iter().find(|launcher| **launcher == "tmux") else { return };
    let stage = Stage::new().for_launcher(launcher);
    stage.script(
        "says.sh",
        "printf '%s\\n' '$(touch canary)' '; touch canary' \"$(printf '\\033]0;x\\007\\033[2J')\"; exit 1",
    );
    stage.run("batch_id = 7\n 1 command=[\"sh\",\"says.sh\"]", &["max_retries=1"]).ends().exits(1);
    no_canary(&stage, "output");
    let shown = stage.call(&["why", "7/1"]).exits(0);
    assert!(!shown.out.contains('\u{1b}'), "{}", shown.out);
    let shown = stage.call(&["report", "7"]).exits(0);
    assert!(!shown.out.contains('\u{1b}'), "{}", shown.out);
}

#[test]
fn no_text_of_a_dropped_spec_is_ever_run() {
    for launcher in launchers() {
        let stage = Stage::new().for_launcher(launcher);
        stage.settings("agent = \"keeps\"");
        stage.agent_script("keeps", KEEPS);
        let watch = stage.watch(&[]);
        // The batch comes whole, so that it cannot close before its last spec is there.
        std::fs::create_dir(stage.file("staged")).unwrap();
        for (index, text) in HOSTILE.iter().enumerate() {
            let (key, text) = (format!("{}", index + 1), named(text, index));
            let spec = json!({
                "task_id": key, "phase_name": text, "goal": text, "steps": [text], "complexity": text,
                "validation_gates": [text], "conflict_notes": text,
            });
            stage.script(&format!("staged/task-{key}.json"), &spec.to_string());
        }
        std::fs::rename(stage.file("staged"), stage.path("tasks/batch-7")).unwrap();
        let result = stage.ended("7");
        for index in 1..=HOSTILE.len() {
            assert_eq!(ending(&result, &index.to_string()), "success", "{launcher}");
        }
        no_canary(&stage, launcher);
        watch.stop().exits(0);
    }
}
