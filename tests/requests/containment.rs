//! Where a request may let its agents write: scenes of workspaces, outputs and codebases that lie badly.

use serde_json::{Value, json};
use watchkeeper::intake::{Request, read_request};

use crate::machine::{Machine, settings};

fn request(workspace: &str) -> Value {
    json!({
        "execution_id": "exec-1", "workspace_root": workspace,
        "agents": [{
            "agent_name": "a", "agent_path": "/agents/code-generator", "task": {"description": "Do a"},
        }],
    })
}

/// What is wrong with it: rule, and message.
fn defects(value: &Value) -> Vec<(String, String)> {
    let bytes = value.to_string().into_bytes();
    let read = read_request(Request { name: "request.json", bytes: &bytes }, &settings(), &Machine::new());
    let defects = read.err().unwrap_or_default();
    defects.into_iter().map(|defect| (defect.rule, defect.message)).collect()
}

#[track_caller]
fn refused(value: &Value, rule: &str, word: &str) {
    let told = defects(value);
    assert!(told.iter().any(|(r, m)| r == rule && m.contains(word)), "{rule}, {word}: {told:?} for {value}");
}

fn with_output(workspace: &str, output: &str) -> Value {
    let mut value = request(workspace);
    value["agents"][0]["task"]["outputs"] = json!({"code": output});
    value
}

#[test]
fn a_workspace_inside_one_of_either_dialect_is_refused() {
    for outer in ["taken", "assigned"] {
        let inner = format!("/tmp/orchestration/{outer}/inner");
        refused(
            &request(&inner),
            "bad_workspace",
            &format!("inside another workspace, /tmp/orchestration/{outer}"),
        );
    }
    assert_eq!(defects(&request("/tmp/orchestration/idle/inner")), [], "assignments alone are no workspace");
}

#[test]
fn nothing_of_the_system_is_a_workspace() {
    for system in
        ["/etc", "/usr", "/var", "/home", "/boot", "/bin/x", "/lib/x", "/etc/cron.d", "/root", "/settings/x"]
    {
        refused(&request(system), "bad_workspace", "belongs to the whole system");
    }
    refused(&request("/dev/shm"), "bad_workspace", "shared with everybody");
    for holder in
        ["/tmp", "/var/tmp", "/srv", "/opt", "/root", "/var/lib", "/home", "/dev/shm", "/usr/local/src"]
    {
        assert_eq!(defects(&request(&format!("{holder}/x"))), [], "below {holder}");
    }
}

#[test]
fn a_repositorys_own_directory_is_neither_workspace_nor_codebase() {
    for inside in ["/project/.git", "/project/.git/hooks", "/project/.GIT/hooks", "/project/.g\u{131}t"] {
        refused(&request(inside), "bad_workspace", "inside .git");
    }
    refused(&with_output("/project/.git/hooks", "pre-commit"), "bad_workspace", "inside .git");
    let mut value = request("/tmp/orchestration/exec-1");
    value["agents"][0]["task"]["inputs"] = json!({"codebase": "/project/.git/hooks"});
    refused(&value, "bad_codebase", "inside .git");
    value["agents"][0]["task"]["inputs"] = json!({"codebase": "/project/.ce"});
    refused(&value, "bad_codebase", "inside the bus");
}

#[test]
fn a_twin_of_the_bus_or_of_the_books_is_no_output() {
    for twin in [".ce/x", ".CE/x", ".Ce", ".ce/orche\u{17f}tration/x"] {
        refused(&with_output("/project", twin), "path_not_contained", "the bus itself");
        refused(&with_output("/alias", twin), "path_not_contained", "the bus itself");
    }
    for (twin, book) in [
        ("log\u{17f}/x", "logs"),
        ("\u{17f}tatus/x", "status"),
        ("conflict\u{17f}.json", "conflicts.json"),
        ("\u{fb06}atus.json", "status.json"),
        ("chec\u{212a}point", "checkpoint"),
    ] {
        refused(&with_output("/project", twin), "path_not_contained", &format!("inside {book},"));
    }
    refused(&with_output("/project", "out/.g\u{131}t/x"), "path_not_contained", "inside .git");
    refused(&with_output("/project", ".g\u{feff}it/x"), "bad_path", "hides or reorders");
    refused(&request("/project/.CE/x"), "bad_workspace", "inside the bus");
    assert_eq!(defects(&with_output("/project", "outputs/logs/x")), []);
}

#[test]
fn a_workspace_on_which_nothing_can_be_written_is_a_defect_of_the_request() {
    for unwritable in ["/read-only/ws", "/read-only/new"] {
        refused(&request(unwritable), "workspace_unwritable", "nothing can be written in /read-only");
    }
}
