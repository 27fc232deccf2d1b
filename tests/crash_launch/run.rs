//! One run: a bus of its own, a watcher that dies where it is told to, whoever is to fall with it, another watcher.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watchkeeper::agent::begun::{self, Probe};
use watchkeeper::bus::layout::AttemptPaths;

const RUN_LIMIT: Duration = Duration::from_secs(180);
const MAX_RETRIES: u64 = 3;
const PARTS: [(&str, &[&str], &str); 8] = [
    ("a1", &[], "quick"),
    ("a2", &[], "slow"),
    ("a3", &[], "flaky"),
    ("b1", &["a1"], "child"),
    ("b2", &["a1", "a2"], "result"),
    ("b3", &["a3"], "daemon"),
    ("c1", &["b1", "b2"], "slow"),
    ("c2", &["b2", "b3"], "quick"),
];

/// Who falls with the watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fall {
    Nobody,
    Nursery,
    Runners,
    Agents,
}

impl Fall {
    pub const ALL: [Fall; 4] = [Fall::Nobody, Fall::Nursery, Fall::Runners, Fall::Agents];
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub fall: Fall,
    /// Before which of its file operations the first watcher dies; 0 is never.
    pub at: u64,
}

impl Scenario {
    pub fn named(point: &str) -> Option<Scenario> {
        let (fall, at) = point.split_once(':')?;
        let fall = Fall::ALL.into_iter().find(|known| format!("{known:?}").eq_ignore_ascii_case(fall))?;
        Some(Scenario { fall, at: at.parse().ok()? })
    }
}

pub struct Played {
    pub was_killed: bool,
    pub operations: u64,
}

pub fn play(scenario: &Scenario) -> Result<Played, String> {
    let root =
        tempfile::Builder::new().prefix("wk-crash-launch-").tempdir().map_err(|error| error.to_string())?;
    let root = root.path();
    fs::write(root.join("plan.json"), plan()).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let mut was_killed = false;
    loop {
        let mut watcher = Watcher(start(scenario, root, was_killed)?);
        let pid = watcher.0.id();
        let mut last_nursery = Vec::new();
        let status = loop {
            match watcher.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if started.elapsed() > RUN_LIMIT => return Err(format!("hangs\n{}", story(root))),
                None => {
                    let now = children_of(pid);
                    if !now.is_empty() {
                        last_nursery = now;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        };
        if status.signal() == Some(9) {
            was_killed = true;
            fell(scenario.fall, root, &last_nursery);
            continue;
        }
        break;
    }
    let operations = fs::read_to_string(root.join("operations")).unwrap_or_default();
    let faults = faults(root);
    match faults.is_empty() {
        true => Ok(Played { was_killed, operations: operations.trim().parse().unwrap_or(0) }),
        false => Err(format!("{}\n{}", faults.join("\n"), story(root))),
    }
}

struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(scenario: &Scenario, root: &Path, was_killed: bool) -> Result<Child, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wk"));
    command.arg("--root").arg(root);
    let settings = [
        "retry_delay_seconds=0.05",
        "scan_interval_seconds=0.1",
        "idle_scan_seconds=0.2",
        "kill_grace_seconds=0.3",
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting])).args(["--set", "max_retries=3"]);
    let has_batch =
        ["tasks/batch-1", "completed-batches/batch-1"].iter().any(|dir| bus(root).join(dir).exists());
    match has_batch {
        true => command.args(["watch", "--quiet", "--exit-when-idle"]),
        false => command.args(["run", "--quiet"]).arg(root.join("plan.json")),
    };
    command.env("WK_COUNT_OPERATIONS", root.join("operations")).env_remove("WK_CRASH_AT");
    if scenario.at > 0 && !was_killed {
        command.env("WK_CRASH_AT", scenario.at.to_string());
    }
    let log = fs::OpenOptions::new().create(true).append(true).open(root.join("log"));
    let log = log.map_err(|error| format!("no log: {error}"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(|error| format!("cannot start wk: {error}"))
}

fn plan() -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/agents/crash-part.sh");
    let phase = |(key, after, role): &(&str, &[&str], &str)| {
        json!({
            "id": key, "phase_name": format!("Part {key}"), "goal": "g", "complexity": "low",
            "estimated_hours": 0, "files_modified": [], "dependencies": after,
            "command": [script.to_string_lossy(), role],
        })
    };
    let phases: Vec<Value> = PARTS.iter().map(phase).collect();
    json!({ "phases": phases }).to_string().into_bytes()
}

/// Kills whoever is to fall with the watcher.
fn fell(fall: Fall, root: &Path, nursery: &[u32]) {
    let begun = || {
        attempts(root).into_iter().filter_map(|paths| match begun::probe(&paths) {
            Ok(Probe::Alive(begun)) => Some(begun),
            _ => None,
        })
    };
    let victims: Vec<u32> = match fall {
        Fall::Nobody => Vec::new(),
        Fall::Nursery => nursery.to_vec(),
        Fall::Runners => begun().filter_map(|begun| Some(begun.runner?.pid)).collect(),
        Fall::Agents => begun().filter_map(|begun| begun.agent).collect(),
    };
    for pid in victims.into_iter().filter_map(|pid| rustix::process::Pid::from_raw(pid as i32)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn bus(root: &Path) -> PathBuf {
    root.join(".ce/orchestration")
}

fn attempts(root: &Path) -> Vec<AttemptPaths> {
    let dirs = ["tasks", "completed-batches"].map(|place| bus(root).join(place).join("batch-1/attempts"));
    let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    dirs.into_iter().flat_map(below).flat_map(below).map(AttemptPaths::at).collect()
}

/// Everything that is wrong after a run.
fn faults(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let result = fs::read(bus(root).join("batches/batch-1.result.json")).unwrap_or_default();
    let result: Value = serde_json::from_slice(&result).unwrap_or_default();
    if result["status"] != "success" {
        faults.push(format!("the batch ended as {}", result["status"]));
    }
    let told = fs::read_to_string(root.join("told")).unwrap_or_default();
    faults.extend(told.lines().filter(|line| line.starts_with("OVERLAP")).map(str::to_owned));
    for (key, ..) in PARTS {
        if !told.lines().any(|line| line.starts_with(&format!("end {key} "))) {
            faults.push(format!("{key} never came to its end"));
        }
    }
    faults.extend(attempts_out_of_order(root));
    let names: Vec<_> = fs::read_dir(bus(root).join("tasks")).into_iter().flatten().flatten().collect();
    if !names.is_empty() {
        faults.push(format!("tasks/ holds {}", names[0].file_name().display()));
    }
    faults.extend(survivors(root));
    faults
}

fn attempts_out_of_order(root: &Path) -> Vec<String> {
    let journal = bus(root).join("completed-batches/batch-1/journal.jsonl");
    let text = fs::read_to_string(journal).unwrap_or_default();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let mut faults = Vec::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line["event"] != "launched" {
            continue;
        }
        let (task, attempt) =
            (line["task"].as_str().unwrap_or_default().to_owned(), line["attempt"].as_u64());
        let before = last.entry(task.clone()).or_default();
        if attempt != Some(*before + 1) || attempt > Some(1 + MAX_RETRIES) {
            faults.push(format!("{task}: attempt {attempt:?} was launched after attempt {before}"));
        }
        *before = attempt.unwrap_or(0);
    }
    faults
}

/// Processes of this run that are still alive: whoever carries its root in the environment.
fn survivors(root: &Path) -> Vec<String> {
    let mark = format!("WK_ROOT={}", root.display());
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let found: Vec<String> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            })
            .map(|pid| {
                format!("process {pid} is left: {:?}", fs::read_to_string(format!("/proc/{pid}/cmdline")))
            })
            .collect();
        if found.is_empty() || Instant::now() > limit {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn story(root: &Path) -> String {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let journal = |place: &str| read(bus(root).join(place).join("batch-1/journal.jsonl"));
    format!(
        "--- log\n{}--- told\n{}--- journal\n{}{}",
        read(root.join("log")),
        read(root.join("told")),
        journal("tasks"),
        journal("completed-batches")
    )
}
