//! A bus in a temporary directory, the real binary on it, and agents that only write files.
//!
//! Nothing here sleeps and hopes: `wait_for` looks until it sees, up to a limit that only a failing test
//! reaches.

#![allow(dead_code)]

pub mod agent;
pub mod apart;
pub mod plan;
pub mod play;
pub mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[allow(unused_imports)]
pub use agent::{Agent, FAILED, SUCCESS};
#[allow(unused_imports)]
pub use process::{Process, Ran};

/// How long a scene waits for what must come, on a machine that is busy with other scenes.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Settings under which nothing takes long. A scene that is about one of them sets it anew.
const QUICK: &[&str] = &[
    "settle_seconds=0.3",
    "scan_interval_seconds=0.1",
    "idle_scan_seconds=0.1",
    "close_after_seconds=0.4",
    "retry_delay_seconds=0.05",
    "journal_sync=false",
];

/// A project with a bus.
pub struct Bus {
    /// Gone with everything below it when the scene ends. The root is below it unless it was given.
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl Bus {
    /// A bus with its directories and nothing on it.
    pub fn new() -> Bus {
        Bus::below("")
    }

    /// A bus in a directory with this name, in one of its own.
    pub fn below(name: &str) -> Bus {
        let dir = tempfile::tempdir().unwrap();
        let root = if name.is_empty() { dir.path().to_owned() } else { dir.path().join(name) };
        let bus = Bus { dir, root };
        for name in ["inbox", "tasks", "batches", "completed-batches", "quarantine"] {
            std::fs::create_dir_all(bus.path(name)).unwrap();
        }
        bus
    }

    /// The bus of a project that is there already, and stays when the scene ends.
    pub fn at(root: PathBuf) -> Bus {
        Bus { dir: tempfile::tempdir().unwrap(), root }
    }

    /// What no other bus is called, in this run or another.
    pub fn name(&self) -> String {
        let name = self.dir.path().file_name().expect("a directory of its own").to_string_lossy();
        name.trim_start_matches('.').to_owned()
    }

    /// The directory that holds `.ce`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path on the bus.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(".ce/orchestration").join(name)
    }

    /// A path in the work tree.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file of the bus in place, as a shell would, with the directories it needs.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        process::while_nobody_starts(|| std::fs::write(&path, text)).unwrap();
        path
    }

    /// Drops a whole spec that needs nothing but its goal.
    pub fn drop_spec(&self, batch: &str, key: &str) -> PathBuf {
        let spec = format!(r#"{{"task_id": "{key}", "goal": "whatever {key} is for"}}"#);
        self.drop_spec_text(batch, key, &spec)
    }

    /// Drops a spec atomically: scenes about torn ones write them themselves.
    pub fn drop_spec_text(&self, batch: &str, key: &str, text: &str) -> PathBuf {
        let staged = self.write(&format!("tasks/batch-{batch}/.staged-{key}"), text);
        let path = self.path(&format!("tasks/batch-{batch}/task-{key}.json"));
        std::fs::rename(staged, &path).unwrap();
        path
    }

    /// Writes a plan in the scenes' short form (see `plan`) and gives its path.
    pub fn plan(&self, graph: &str) -> PathBuf {
        let path = self.file("plan.json");
        std::fs::write(&path, plan::json(graph)).unwrap();
        path
    }

    /// Copies such a plan into the inbox, as a person would.
    pub fn drop_plan(&self, graph: &str) {
        let plan = self.plan(graph);
        process::while_nobody_starts(|| std::fs::copy(plan, self.path("inbox/plan.json"))).unwrap();
    }

    /// `wk` with these arguments, ready to be started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wk"));
        command.current_dir(self.root()).args(args).stdin(Stdio::null());
        command.env_remove("RUST_LOG").env("USER", "sam");
        command
    }

    /// Runs `wk` to its end.
    pub fn wk(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Starts a watcher with quick settings and these ones, and waits until it holds the bus.
    pub fn watch(&self, settings: &[&str]) -> Process {
        let process = self.start(&["watch"], settings);
        self.wait_for("the watcher holds the bus", || {
            let told = process.stderr();
            (told.contains("watching ") || process.has_ended()).then_some(())
        });
        process
    }

    /// Starts `wk run` on a plan with quick settings and these ones.
    pub fn run(&self, plan: &Path, settings: &[&str]) -> Process {
        self.start(&["run", plan.to_str().unwrap()], settings)
    }

    /// One pass, as cron would make it.
    pub fn pass(&self, settings: &[&str]) -> Ran {
        Ran::of(&mut self.with_settings(&["watch", "--once"], settings))
    }

    /// Starts a verb with quick settings and these ones.
    pub fn start(&self, verb: &[&str], settings: &[&str]) -> Process {
        Process::start(self.with_settings(verb, settings))
    }

    /// A verb with quick settings and these ones, ready to be started.
    pub fn with_settings(&self, verb: &[&str], settings: &[&str]) -> Command {
        let mut command = self.command(verb);
        for setting in QUICK.iter().chain(settings) {
            command.args(["--set", setting]);
        }
        command
    }

    /// Somebody who works on `BATCH/TASK`.
    pub fn agent(&self, name: &str) -> Agent<'_> {
        Agent::new(self, name)
    }

    /// Waits until the batch is archived, and reads its result.
    pub fn ended(&self, batch: &str) -> Value {
        let archive = self.path(&format!("completed-batches/batch-{batch}"));
        self.wait_for(&format!("batch {batch} is archived"), || archive.exists().then_some(()));
        self.json(&format!("batches/batch-{batch}.result.json"))
    }

    /// A JSON file of the bus.
    pub fn json(&self, name: &str) -> Value {
        let path = self.path(name);
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The journal of a batch, active or archived, line by line.
    pub fn journal(&self, batch: &str) -> Vec<Value> {
        let places = ["tasks", "completed-batches"];
        let read = |place: &&str| {
            std::fs::read_to_string(self.path(&format!("{place}/batch-{batch}/journal.jsonl"))).ok()
        };
        let text = places.iter().find_map(read).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How often the journal tells such an event, of this task if one is named.
    pub fn count(&self, batch: &str, event: &str, task: Option<&str>) -> usize {
        let is_it = |line: &&Value| line["event"] == event && task.is_none_or(|task| line["task"] == task);
        self.journal(batch).iter().filter(is_it).count()
    }

    /// Waits until the journal tells such an event.
    pub fn wait_event(&self, batch: &str, event: &str, task: &str) {
        self.wait_events(batch, event, task, 1);
    }

    pub fn wait_events(&self, batch: &str, event: &str, task: &str, count: usize) {
        let what = format!("{event} of {batch}/{task}, {count} times");
        self.wait_for(&what, || (self.count(batch, event, Some(task)) >= count).then_some(()));
    }

    /// Waits until a file of the bus is there.
    pub fn wait_file(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        self.wait_for(&format!("{name} appears"), || path.exists().then(|| path.clone()))
    }

    /// Looks until there is something to see.
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(started.elapsed() < PATIENCE, "waited in vain until {what}\n{}", self.tell());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The refused file whose name ends so, waited for, with the reason beside it.
    pub fn quarantined(&self, name: &str) -> (PathBuf, Value) {
        self.wait_for(&format!("{name} is in quarantine"), || {
            let path = self.quarantine().into_iter().find(|path| {
                let shown = path.file_name().unwrap().to_string_lossy().into_owned();
                shown.split_once('-').is_some_and(|(_, rest)| rest == name)
            })?;
            let mut beside = path.clone().into_os_string();
            beside.push(".reason.json");
            let reason = std::fs::read(beside).ok()?;
            Some((path, serde_json::from_slice(&reason).unwrap()))
        })
    }

    /// Everything that was refused, without the reasons.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("quarantine")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_refused = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            !name.ends_with(".reason.json") && !name.starts_with('.')
        };
        paths.filter(is_refused).collect()
    }

    /// What a failing scene shows: every file, and every journal.
    fn tell(&self) -> String {
        let mut files: Vec<String> = Vec::new();
        let mut journals = String::new();
        for entry in walkdir::WalkDir::new(self.path("")).into_iter().flatten().take(300) {
            let path = entry.path();
            files.push(path.strip_prefix(self.path("")).unwrap().display().to_string());
            if path.ends_with("journal.jsonl") {
                journals.push_str(&std::fs::read_to_string(path).unwrap_or_default());
            }
        }
        files.sort();
        format!("{}\n{journals}", files.join("\n"))
    }
}

/// A task's part of a batch result, by key.
pub fn task<'a>(result: &'a Value, key: &str) -> &'a Value {
    let all = result["results"].as_array().expect("a batch result lists its tasks");
    all.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("no task {key} in {result:#}"))
}

/// How a task ended and why, as one word: `success`, `failed:no_heartbeat`.
pub fn ending(result: &Value, key: &str) -> String {
    let task = task(result, key);
    let status = task["status"].as_str().unwrap_or("?");
    match task["reason_code"].as_str() {
        Some(code) => format!("{status}:{code}"),
        None => status.to_owned(),
    }
}

/// The rule that the first defect of a reason file names.
pub fn rule(reason: &Value) -> &str {
    let defect = &reason["defects"][0];
    assert!(defect["remedy"].as_str().is_some_and(|text| !text.is_empty()), "no remedy: {reason:#}");
    defect["rule"].as_str().unwrap_or_default()
}
