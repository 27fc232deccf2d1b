//! What could not be started is told before anything is: programs, launchers, commands that no system takes.

use serde_json::{Value, json};
use watchkeeper::intake::{Request, read_request};
use watchkeeper::model::Settings;

use crate::machine::{Machine, settings};

/// Rules and places of all defects, in a request as the machine sees it.
fn told(value: &Value, settings: &Settings, machine: &Machine) -> Vec<(String, String)> {
    let bytes = value.to_string().into_bytes();
    let read = read_request(Request { name: "request.json", bytes: &bytes }, settings, machine);
    let defects = read.err().unwrap_or_default();
    defects.into_iter().map(|defect| (defect.rule.clone(), defect.place.to_string())).collect()
}

fn by(directory: &str) -> Value {
    json!({
        "execution_id": "exec-1", "workspace_root": "/tmp/orchestration/exec-1",
        "agents": [{"agent_name": "a", "agent_path": directory, "task": {"description": "Do a"}}],
    })
}

fn assigned(success: &Value) -> Value {
    json!({
        "tasks": [{"id": "A", "agent": "scribe", "context_path": "tasks/a.md"}],
        "environment": {"workspace_dir": "/ws"}, "success_criteria": success,
    })
}

fn one(rule: &str, place: &str) -> Vec<(String, String)> {
    vec![(rule.to_owned(), place.to_owned())]
}

#[test]
fn a_program_that_is_not_in_the_agents_path_is_told_at_its_field() {
    let check = |value: &Value| told(value, &settings(), &Machine::new());
    let missing = one("program_missing", "field agents[0].agent_path");
    assert_eq!(check(&by("/agents/absent")), missing);
    assert_eq!(check(&by("/agents/tool")), missing, "only another PATH has it");
    assert_eq!(check(&by("/agents/equipped")), [], "it is in the PATH that the agent sets for itself");
    assert_eq!(check(&by("/agents/torn")), one("bad_agent", "field agents[0].agent_path"));
    let mut named = settings();
    named.agents.named.get_mut("scribe").unwrap().command[0] = "absent".to_owned();
    let found = told(&assigned(&json!({})), &named, &Machine::new());
    assert_eq!(found, one("program_missing", "field tasks[0].agent"));
    let mut outside = settings();
    outside.agents.launcher = Some("external".to_owned());
    assert_eq!(told(&by("/agents/absent"), &outside, &Machine::new()), [], "somebody else starts it");
}

#[test]
fn a_tmux_that_is_not_there_is_told_before_anything_starts() {
    let mut bare = Machine::new();
    bare.lacks_tmux = true;
    let missing = one("launcher_missing", "field agents[0].agent_path");
    assert_eq!(told(&by("/agents/code-reviewer"), &settings(), &bare), missing);
    assert_eq!(told(&by("/agents/code-generator"), &settings(), &bare), []);
    let mut in_tmux = settings();
    in_tmux.agents.launcher = Some("tmux".to_owned());
    assert_eq!(told(&by("/agents/code-generator"), &in_tmux, &bare), missing);
    assert_eq!(told(&by("/agents/code-generator"), &in_tmux, &Machine::new()), []);
    let phase = json!({"name": "X", "goal": "x", "complexity": "low", "estimated_hours": 1, "files_modified": [],
                       "dependencies": [], "agent": "scribe"});
    let rules = told(&json!({"tasks": [phase]}), &in_tmux, &bare);
    assert_eq!(rules.iter().map(|(rule, _)| rule.as_str()).collect::<Vec<_>>(), ["launcher_missing"]);
}

#[test]
fn a_command_with_a_nul_is_refused_wherever_it_stands() {
    let check = |success: &Value| told(&assigned(success), &settings(), &Machine::new());
    let place = |rest: &str| one("bad_argument", &format!("field success_criteria.{rest}"));
    assert_eq!(check(&json!({"tests_cmd": "make\u{0}test"})), place("tests_cmd"));
    assert_eq!(check(&json!({"tests_cmd": ["make", "te\u{0}st"]})), place("tests_cmd[1]"));
    assert_eq!(check(&json!({"criteria": {"x": {"cmd": "a\u{0}"}}})), place("criteria.x.cmd"));
    assert_eq!(check(&json!({"criteria": {"x": {"shell": "a\u{0}"}}})), place("criteria.x.shell"));
    let mut request = by("/agents/code-generator");
    request["agents"][0]["task"]["description"] = "Do\u{0} it".into();
    let found = told(&request, &settings(), &Machine::new());
    assert_eq!(found, one("bad_text", "field agents[0].task.description"));
}
