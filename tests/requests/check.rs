//! `wk check`, `wk run --dry-run` and the inbox with requests that are handed over, on a real disk.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A project, a directory of agents and a place for workspaces.
struct Scene {
    top: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Scene { top: tempfile::tempdir().unwrap() };
        for dir in ["project/.ce", "agents/coder", "agents/mute", "inputs"] {
            fs::create_dir_all(scene.at(dir)).unwrap();
        }
        scene.write("agents/coder/run", "#!/bin/sh\ntouch \"$CANARY\"\n");
        fs::set_permissions(scene.at("agents/coder/run"), fs::Permissions::from_mode(0o755)).unwrap();
        scene.write("inputs/spec.md", "# Build it\n");
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.top.path()).unwrap().join(path)
    }

    fn text(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn wk(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wk"));
        command.arg("--root").arg(self.at("project")).args(arguments).current_dir(self.at("project"));
        command.env("CANARY", self.at("canary")).env("RUST_LOG", "off").output().unwrap()
    }

    fn execution_request(&self) -> Value {
        json!({
            "execution_id": "exec-001",
            "workspace_root": self.text("ws"),
            "agents": [{
                "agent_name": "coder", "agent_path": self.text("agents/coder"),
                "task": {
                    "description": "Build it", "inputs": {"spec": self.text("inputs/spec.md")},
                    "outputs": {"code": "outputs/code"},
                    "success_criteria": {"tests_pass": true, "size": {"cmd": ["wc", "-c"], "min": 3}},
                },
            }],
        })
    }

    /// Why files were refused.
    fn reasons(&self) -> Vec<String> {
        let listed = fs::read_dir(self.at("project/.ce/orchestration/quarantine")).unwrap();
        let paths = listed.map(|entry| entry.unwrap().path());
        let reasons = paths.filter(|path| path.to_string_lossy().ends_with(".reason.json"));
        reasons.map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    fn put(&self, request: &Value) -> String {
        self.write("request.json", &request.to_string());
        self.text("request.json")
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_there(path: &Path) -> bool {
    path.exists()
}

#[test]
fn check_shows_the_workspace_the_merge_and_every_command() {
    let scene = Scene::new();
    scene.write("project/.ce/watchkeeper.toml", "[criteria]\ntests_pass = [\"make\", \"all tests\"]\n");
    let file = scene.put(&scene.execution_request());
    let shown = scene.wk(&["check", &file]);
    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    let text = out(&shown);
    for part in [
        "request.json: 1 task in 1 stage\n".to_owned(),
        format!("Workspace: {}, with a checkpoint", scene.text("ws")),
        "Merge: ctxpack_union, conflicts: manual_review".to_owned(),
        format!("  coder: {}  (by {})", scene.text("agents/coder/run"), scene.text("agents/coder")),
        "  coder: size is at least 3, by `wc -c` (from the request)".to_owned(),
        "  coder: tests_pass holds, by `make \"all tests\"` (from settings)".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} in:\n{text}");
    }
    let facts: Value = serde_json::from_slice(&scene.wk(&["check", "--json", &file]).stdout).unwrap();
    assert_eq!(facts["stages"], json!({"coder": 1}));
    assert_eq!(facts["handoff"]["workspace"], scene.text("ws"));
    assert_eq!(facts["handoff"]["merge_strategy"]["type"], "ctxpack_union");
    assert_eq!(facts["handoff"]["agents"][0]["command"][0], scene.text("agents/coder/run"));
    assert!(
        !is_there(&scene.at("ws")) && !is_there(&scene.at("canary")),
        "nothing is made and nothing started"
    );
}

#[test]
fn check_tells_every_defect_at_once_with_exit_code_2() {
    let scene = Scene::new();
    let mut request = scene.execution_request();
    request["workspace_root"] = "/tmp".into();
    request["agents"][0]["agent_path"] = scene.text("agents/mute").into();
    request["agents"][0]["dependencies"] = json!(["nobody"]);
    request["agents"][0]["tsk"] = json!(1);
    let file = scene.put(&request);
    let refused = scene.wk(&["check", &file]);
    assert_eq!(refused.status.code(), Some(2));
    let facts: Value = serde_json::from_slice(&scene.wk(&["check", "--json", &file]).stdout).unwrap();
    let rules: Vec<&str> =
        facts["defects"].as_array().unwrap().iter().map(|defect| defect["rule"].as_str().unwrap()).collect();
    for rule in ["unknown_field", "bad_workspace", "agent_says_nothing", "unknown_dependency"] {
        assert!(rules.contains(&rule), "{rule} in {rules:?}");
    }
    assert!(err(&refused).contains("agents[0].agent_path"), "{}", err(&refused));
}

#[test]
fn assignments_are_checked_too_and_a_dry_run_starts_nothing() {
    let scene = Scene::new();
    let request = json!({
        "tasks": [{"id": "A", "agent": scene.text("agents/coder"), "context_path": scene.text("inputs/spec.md")}],
        "environment": {"workspace_dir": scene.text("ws"), "env_vars": ["CANARY"]},
        "success_criteria": {"tests_cmd": "make test", "required_artifacts": ["out/*"]},
        "execution_mode": {"dry_run": true},
    });
    let file = scene.put(&request);
    for verb in ["check", "run", "submit"] {
        let shown = scene.wk(&[verb, &file]);
        assert_eq!(shown.status.code(), Some(0), "{verb}: {}", err(&shown));
        let text = out(&shown);
        assert!(text.contains("Build it"), "{verb}: {text}");
        assert!(
            text.contains("the whole: tests_cmd holds, by `sh -c \"make test\"` (from the request)"),
            "{text}"
        );
        assert!(text.contains("Required artifacts: out/*"), "{text}");
        assert_eq!(text.matches("tests_cmd").count(), 1, "{text}");
        assert!(!text.contains("validation: \n"), "{text}");
    }
    let file = scene.put(&scene.execution_request());
    let shown = scene.wk(&["run", "--dry-run", &file]);
    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    assert!(out(&shown).contains("Started with"), "{}", out(&shown));
    assert!(!is_there(&scene.at("ws")) && !is_there(&scene.at("canary")));
}

#[test]
fn nothing_adds_up_to_less_than_nothing() {
    let scene = Scene::new();
    let file = scene.put(&scene.execution_request());
    let facts = out(&scene.wk(&["check", "--json", &file]));
    assert!(facts.contains("\"estimated_hours\"") && !facts.contains("-0.0"), "{facts}");
}

#[test]
fn a_dry_run_is_one_line_for_whoever_wants_lines_whoever_asked_for_it() {
    let scene = Scene::new();
    let assignments = json!({
        "execution_id": "dry-1", "execution_mode": {"dry_run": true},
        "tasks": [{"id": "A", "agent": scene.text("agents/coder"), "context_path": scene.text("inputs/spec.md")}],
        "environment": {"workspace_dir": scene.text("ws")},
    });
    let cases =
        [(assignments, "dry-1", &[][..]), (scene.execution_request(), "exec-001", &["--dry-run"][..])];
    for (request, id, more) in cases {
        let file = scene.put(&request);
        let told = scene.wk(&[&["run", "--progress", "json", &file], more].concat());
        assert_eq!(told.status.code(), Some(0), "{}", err(&told));
        let line: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!((line["event"].as_str(), line["execution_id"].as_str()), (Some("dry_run"), Some(id)));
        assert_eq!(line["workspace_root"], scene.text("ws"));
        assert_eq!(line["check"]["handoff"]["workspace"], scene.text("ws"));
        assert!(line["text"].as_str().unwrap().contains("Started with"), "{line}");
    }
    assert!(!is_there(&scene.at("ws")) && !is_there(&scene.at("canary")));
}

#[test]
fn a_program_that_nobody_has_is_a_defect_of_the_request() {
    let scene = Scene::new();
    scene.write("agents/mute/agent.toml", "command = [\"no-such-program-here\", \"{agent_dir}\"]\n");
    let mut request = scene.execution_request();
    request["agents"][0]["agent_path"] = scene.text("agents/mute").into();
    let file = scene.put(&request);
    for verb in ["check", "run"] {
        let refused = scene.wk(&[verb, &file]);
        assert_eq!(refused.status.code(), Some(2), "{}", out(&refused));
        let told = err(&refused);
        for part in ["agents[0].agent_path", "no program 'no-such-program-here' in PATH", "install it"] {
            assert!(told.contains(part), "{verb}: {part} in {told}");
        }
    }
    // Whoever takes it out of the inbox may have the program.
    let submitted = scene.wk(&["submit", "--no-wait", &file]);
    assert_eq!(submitted.status.code(), Some(0), "{}", err(&submitted));
    assert!(!is_there(&scene.at("ws")) && !is_there(&scene.at("canary")));
}

#[test]
fn a_request_says_no_when_its_workspace_is_the_systems_or_a_repositorys() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("repository/.git/hooks")).unwrap();
    let hooks = scene.text("repository/.git/hooks");
    for workspace in ["/etc", "/usr/local/bin/x", "/home", "/dev/shm", hooks.as_str()] {
        let mut request = scene.execution_request();
        request["workspace_root"] = workspace.into();
        request["agents"][0]["task"]["outputs"] = json!({"code": "pre-commit"});
        let refused = scene.wk(&["check", &scene.put(&request)]);
        assert_eq!(refused.status.code(), Some(2), "{workspace}: {}", out(&refused));
        assert!(err(&refused).contains("workspace_root"), "{workspace}: {}", err(&refused));
    }
}

#[test]
fn the_inbox_takes_no_commands_of_a_handed_over_request_and_no_dry_run() {
    let scene = Scene::new();
    scene.write("project/.ce/watchkeeper.toml", "[agents.scribe]\ncommand = [\"true\"]\n");
    let assignments = |more: Value| {
        let mut request = json!({
            "tasks": [{"id": "A", "agent": "scribe", "context_path": scene.text("inputs/spec.md")}],
            "environment": {"workspace_dir": scene.text("ws")},
        });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let cases = [
        ("directory.json", scene.execution_request(), "command_not_allowed"),
        (
            "tests.json",
            assignments(json!({"success_criteria": {"tests_cmd": "touch x"}})),
            "command_not_allowed",
        ),
        ("dry.json", assignments(json!({"dry_run": true})), "dry_run"),
    ];
    for (name, request, _) in &cases {
        scene.write(&format!("project/.ce/orchestration/inbox/{name}"), &request.to_string());
    }
    // What is refused must have settled, which takes more than one pass.
    let passes = (0..500).map(|_| {
        let watched = scene.wk(&["watch", "--once", "--set", "settle_seconds=0.05"]);
        assert_eq!(watched.status.code(), Some(0), "{}", err(&watched));
        scene.reasons()
    });
    let reasons = passes.into_iter().find(|reasons| reasons.len() == cases.len()).unwrap_or_default();
    for (name, _, rule) in &cases {
        assert!(
            reasons.iter().any(|text| text.contains(name) && text.contains(rule)),
            "{name} in {reasons:?}"
        );
    }
    assert!(!is_there(&scene.at("canary")) && !is_there(&scene.at("ws")));
}

#[test]
fn doctor_misses_the_program_of_a_criterion() {
    let scene = Scene::new();
    scene.write("project/.ce/watchkeeper.toml", "[criteria]\ntests_pass = [\"no-such-program-here\"]\n");
    let told = out(&scene.wk(&["doctor"]));
    assert!(told.contains("tests_pass: there is no program 'no-such-program-here'"), "{told}");
}
