//! The other orchestrator: it has a workspace, agents in directories, and writes requests.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::crew::Stage;
use crate::scene::{Process, Ran};

/// A client and its bus.
pub struct Client {
    pub stage: Stage,
}

impl Client {
    pub fn new() -> Client {
        Client { stage: Stage::new() }
    }

    pub fn with_tmux() -> Client {
        Client { stage: Stage::new().with_tmux() }
    }

    /// Where the workspace is.
    pub fn workspace(&self, rest: &str) -> PathBuf {
        self.stage.file("ws").join(rest)
    }

    pub fn text(&self, rest: &str) -> String {
        std::fs::read_to_string(self.workspace(rest)).unwrap_or_else(|error| panic!("{rest}: {error}"))
    }

    pub fn json(&self, rest: &str) -> Value {
        serde_json::from_str(&self.text(rest)).unwrap()
    }

    /// Holds a file of the workspace against its published schema.
    pub fn judge(&self, file: &str, schema: &str) {
        let all = watchkeeper::format::schema::all();
        let (_, schema) = all.iter().find(|(name, _)| *name == schema).unwrap();
        let judge = jsonschema::validator_for(schema).unwrap();
        let told: Vec<String> = judge
            .iter_errors(&self.json(file))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(told.is_empty(), "{file}: {told:#?}");
    }

    pub fn report(&self) -> Value {
        self.json("execution_report.json")
    }

    /// Makes an agent's directory, which is started by a shell script `run`.
    pub fn agent(&self, name: &str, script: &str) -> &Self {
        let dir = self.stage.file("agents").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let text = self.stage.file("agents").join(format!("{name}.text"));
        std::fs::write(&text, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
        // By another program: one of ours that starts another just now would keep it open for writing.
        let installed = Command::new("install").args(["-m", "755"]).arg(&text).arg(dir.join("run")).status();
        assert!(installed.unwrap().success());
        std::fs::remove_file(text).unwrap();
        self
    }

    /// One entry of `agents`: its outputs are `outputs/NAME/OUTPUT`.
    pub fn entry(&self, name: &str, outputs: &[(&str, &str)], dependencies: &[&str]) -> Value {
        let outputs: serde_json::Map<String, Value> = outputs
            .iter()
            .map(|(key, file)| ((*key).to_owned(), json!(self.workspace("outputs").join(name).join(file))))
            .collect();
        json!({
            "agent_name": name,
            "agent_path": self.stage.file("agents").join(name),
            "task": {"description": format!("the work of {name}"), "inputs": {}, "outputs": outputs, "success_criteria": {}},
            "dependencies": dependencies,
            "timeout": 30,
        })
    }

    pub fn request(&self, agents: &[Value]) -> Value {
        json!({
            "execution_id": "exec-001",
            "request_timestamp": "2025-10-30T14:30:00Z",
            "workspace_root": self.workspace(""),
            "agents": agents,
            "merge_strategy": {"type": "file_merge", "conflict_resolution": "manual_review"},
            "execution_options": {"parallel_limit": 4, "retry_on_failure": false, "checkpoint_enabled": true},
        })
    }

    pub fn write(&self, request: &Value) -> String {
        let path = self.stage.file("request.json");
        std::fs::write(&path, serde_json::to_string_pretty(request).unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Starts `wk run` on a request.
    pub fn start(&self, request: &Value, more: &[&str]) -> Process {
        let path = self.write(request);
        let verb: Vec<&str> = ["run", &path].into_iter().chain(more.iter().copied()).collect();
        self.stage.go(&verb, &[])
    }

    /// The same to its end.
    pub fn run(&self, request: &Value) -> Ran {
        self.start(request, &[]).ends()
    }
}

/// One agent of a report.
pub fn agent_of<'a>(report: &'a Value, name: &str) -> &'a Value {
    let agents = report["agents"].as_array().unwrap();
    agents
        .iter()
        .find(|agent| agent["agent_name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {report:#}"))
}
