//! A stage for one attempt: its folder on a bus, an order to be changed, and a runner on it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use watchkeeper::bus::Layout;
use watchkeeper::bus::layout::AttemptPaths;
use watchkeeper::format::order::{Order, OrderPaths};
use watchkeeper::format::result;
use watchkeeper::model::agent::{EnvRule, ResourceLimits};
use watchkeeper::model::preset::Dialect;
use watchkeeper::model::{Attempt, BatchId, Claim, Exit, Seconds, TaskKey};

/// Nothing here takes this long; a machine that is busy with other things may be slow.
pub const LIMIT: Duration = Duration::from_secs(120);

pub struct Stage {
    pub dir: tempfile::TempDir,
    pub paths: AttemptPaths,
    pub order: Order,
    /// Of the runner itself, beside PATH.
    pub variables: Vec<(String, String)>,
}

impl Stage {
    pub fn new(command: &[&str]) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let batch_id = BatchId::parse("7").unwrap();
        let key = TaskKey::parse("1").unwrap();
        let batch = Layout::new(&root).batch(&batch_id);
        let paths = batch.attempt(&key, Attempt::FIRST);
        std::fs::create_dir_all(paths.dir()).unwrap();
        let order = Order {
            batch: batch_id,
            task_id: "phase-1".to_owned(),
            attempt: Attempt::FIRST,
            agent: "smoke".to_owned(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            cwd: root.clone(),
            env: Vec::new(),
            stdin: None,
            dialect: Dialect::Plain,
            paths: OrderPaths {
                attempt: paths.dir().to_owned(),
                spec: batch.spec(&key),
                heartbeat: batch.heartbeat(&key),
                result: batch.result(&key),
                plain_result: None,
                exit: batch.exit(&key, Attempt::FIRST),
                root,
            },
            task: key,
            timeout: Seconds(60.0),
            kill_grace: Seconds(0.3),
            beat_every: Seconds(0.3),
            limits: ResourceLimits::default(),
            mark: format!(
                "mark-{}",
                dir.path().file_name().unwrap().to_string_lossy().trim_start_matches('.')
            ),
            echo: false,
            inspection: None,
            declared: None,
        };
        Stage { dir, paths, order, variables: Vec::new() }
    }

    /// An agent that is a line of shell.
    pub fn sh(script: &str) -> Stage {
        Stage::new(&["sh", "-c", script])
    }

    /// One of the scripts in `testdata/agents`.
    pub fn script(name: &str) -> Stage {
        Stage::new(&[&format!("{}/testdata/agents/{name}", env!("CARGO_MANIFEST_DIR"))])
    }

    pub fn with_env(mut self, name: &str, value: &str) -> Stage {
        let rule = EnvRule { name: name.to_owned(), value: Some(value.to_owned()), plain: false };
        self.order.env.push(rule);
        self
    }

    pub fn write_order(&self) {
        std::fs::write(self.paths.order(), serde_json::to_vec(&self.order).unwrap()).unwrap();
    }

    /// A runner's command line, not started yet.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wk-runner"));
        command.arg(self.paths.dir()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn spawn(&self) -> Running<'_> {
        self.write_order();
        Running { stage: self, runner: self.command().spawn().unwrap() }
    }

    pub fn run(&self) -> Exit {
        self.spawn().exit()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.paths.stdout()).unwrap()).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.paths.stderr()).unwrap()).into_owned()
    }

    /// The runner's own result: as a claim that was read by the rules, and as it stands there.
    pub fn result(&self) -> (Claim, Value) {
        let bytes = std::fs::read(self.paths.result()).unwrap();
        (result::read(&bytes).unwrap(), serde_json::from_slice(&bytes).unwrap())
    }

    pub fn beat(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(&self.order.paths.heartbeat).ok()?).ok()
    }

    /// Asks for the end as the watcher does: whole, or not at all.
    pub fn asks(&self, request: &str) {
        let staged = self.dir.path().join("staged-stop");
        std::fs::write(&staged, request).unwrap();
        std::fs::rename(staged, self.paths.stop()).unwrap();
    }

    /// Living processes that carry this attempt's mark.
    pub fn marked(&self) -> Vec<u32> {
        let mark = format!("WK_MARK={}", self.order.mark);
        let is_marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let pids = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.filter(is_marked).collect()
    }
}

/// A runner at work. It is not left behind when a test fails.
pub struct Running<'a> {
    stage: &'a Stage,
    pub runner: Child,
}

impl Running<'_> {
    pub fn signal(&self, signal: rustix::process::Signal) {
        let runner = rustix::process::Pid::from_child(&self.runner);
        rustix::process::kill_process(runner, signal).unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.runner.try_wait().unwrap().is_none()
    }

    /// Waits for the runner's end, and reads what it recorded.
    pub fn exit(mut self) -> Exit {
        eventually("the runner ends", || self.runner.try_wait().unwrap().is_some());
        assert!(self.runner.wait().unwrap().success());
        let bytes = std::fs::read(&self.stage.order.paths.exit).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.runner.kill();
            let _ = self.runner.wait();
            for pid in self.stage.marked() {
                let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Waits until it is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for this many different beats.
pub fn different_beats(stage: &Stage, count: usize) {
    let mut seen: Vec<String> = Vec::new();
    eventually("it has beaten", || {
        let update = stage.beat().and_then(|beat| Some(beat["last_update"].as_str()?.to_owned()));
        if let Some(update) = update.filter(|update| !seen.contains(update)) {
            seen.push(update);
        }
        seen.len() >= count
    });
}

/// What `wk` would show of a file, or nothing while there is none.
pub fn text(path: PathBuf) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
