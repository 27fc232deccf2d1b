//! A bus with agents on it: scripts in the work tree, settings that name them, and an eye on every process
//! that any of them leaves behind.

use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::scene::apart::was_played_apart;
use crate::scene::{Bus, Process, Ran};

/// In the environment of everything that a scene starts, and of the runners that come of it. Agents do not
/// have it: their environment is a short list. They have `WK_ROOT`.
const SCENE: &str = "WK_SCENE";
/// Beside the quick settings of every scene.
const QUICK: &[&str] = &["kill_grace_seconds=0.5"];

/// One scene's bus. It fails the scene if a process is left when it is over.
pub struct Stage {
    bus: Bus,
    /// No other scene has it, in this run or another.
    pub name: String,
    variables: Vec<(String, String)>,
    has_tmux: bool,
}

impl Deref for Stage {
    type Target = Bus;

    fn deref(&self) -> &Bus {
        &self.bus
    }
}

impl Stage {
    pub fn new() -> Stage {
        Stage::below("")
    }

    /// A stage whose root has this name.
    pub fn below(root: &str) -> Stage {
        let bus = Bus::below(root);
        let name = format!("wk-test-{}", bus.name());
        Stage { bus, name, variables: Vec::new(), has_tmux: false }
    }

    /// A variable for the watcher.
    pub fn with(mut self, name: &str, value: &str) -> Stage {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A stage whose tmux, if one is started, is a server of its own.
    pub fn with_tmux(mut self) -> Stage {
        self.has_tmux = true;
        self
    }

    /// A stage for this launcher.
    pub fn for_launcher(mut self, launcher: &str) -> Stage {
        self.has_tmux = launcher == "tmux";
        self.settings(&format!("launcher = \"{launcher}\"\n"));
        self
    }

    /// Writes a shell script into the work tree. A command for it: `["sh","NAME"]`.
    pub fn script(&self, name: &str, text: &str) -> &Self {
        std::fs::write(self.file(name), text).unwrap();
        self
    }

    /// Puts a program into the work tree. Another one writes it: a scene that starts something just now would keep
    /// open what we write, and nobody could run it.
    pub fn program(&self, name: &str, text: &str) -> &Self {
        self.script("staged-program", text);
        let (from, to) = (self.file("staged-program"), self.file(name));
        let installed = Command::new("install").args(["-m", "755"]).arg(from).arg(to).status();
        assert!(installed.unwrap().success(), "{name}");
        self
    }

    /// Adds to the settings file. What stands in no table comes first.
    pub fn settings(&self, text: &str) -> &Self {
        let path = self.file(".ce/watchkeeper.toml");
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{before}{text}\n")).unwrap();
        self
    }

    /// Names an agent that runs a script of the work tree.
    pub fn agent_script(&self, agent: &str, text: &str) -> &Self {
        let file = format!("{agent}.sh");
        self.script(&file, text);
        self.settings(&format!("[agents.{agent}]\ncommand = [\"sh\", \"{file}\"]"))
    }

    pub fn dress(&self, mut command: Command) -> Command {
        command.env(SCENE, &self.name).envs(self.variables.iter().map(|(name, value)| (name, value)));
        if self.has_tmux {
            command.args(["--set", &format!("tmux_socket={}", self.name)]);
        }
        command
    }

    /// Starts a verb with quick settings and these ones.
    pub fn go(&self, verb: &[&str], settings: &[&str]) -> Process {
        let all: Vec<&str> = QUICK.iter().chain(settings).copied().collect();
        Process::start(self.dress(self.bus.with_settings(verb, &all)))
    }

    /// Starts `wk run` on a plan in the scenes' short form.
    pub fn run(&self, plan: &str, settings: &[&str]) -> Process {
        let plan = self.plan(plan);
        self.go(&["run", plan.to_str().unwrap()], settings)
    }

    /// The same with a process group of its own, as a shell gives to what it starts.
    pub fn run_as_group_leader(&self, plan: &str) -> Process {
        let plan = self.plan(plan);
        let mut command = self.dress(self.bus.with_settings(&["run", plan.to_str().unwrap()], QUICK));
        command.process_group(0);
        Process::start(command)
    }

    /// Starts a watcher and waits until it holds the bus.
    pub fn watch(&self, settings: &[&str]) -> Process {
        let process = self.go(&["watch"], settings);
        self.wait_for("the watcher holds the bus", || {
            (process.stderr().contains("watching ") || process.has_ended()).then_some(())
        });
        assert!(!process.has_ended(), "{}", process.stderr());
        process
    }

    /// Runs `wk` to its end.
    pub fn call(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.dress(self.bus.command(args)))
    }

    /// A file of the work tree, line by line; none while there is none.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read(self.file(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }

    /// Waits until a file of the work tree has so many lines.
    pub fn wait_lines(&self, name: &str, count: usize) -> Vec<String> {
        self.wait_for(&format!("{name} has {count} lines"), || {
            let lines = self.lines(name);
            (lines.len() >= count).then_some(lines)
        })
    }

    /// A file of an attempt's folder, in a batch under way or archived.
    pub fn kept(&self, batch: &str, key: &str, attempt: u32, name: &str) -> PathBuf {
        let places = ["tasks", "completed-batches"];
        let paths =
            places.map(|place| self.path(&format!("{place}/batch-{batch}/attempts/{key}/{attempt}/{name}")));
        paths.iter().find(|path| path.exists()).unwrap_or(&paths[0]).clone()
    }

    pub fn kept_text(&self, batch: &str, key: &str, attempt: u32, name: &str) -> String {
        let bytes = std::fs::read(self.kept(batch, key, attempt, name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the attempt's runner has begun and started its agent, and gives the runner's process.
    pub fn runner(&self, batch: &str, key: &str, attempt: u32) -> u32 {
        self.wait_for(&format!("attempt {attempt} of {key} has begun"), || {
            let lock = self.kept_text(batch, key, attempt, "runner.lock");
            let mut lines = lock.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let first: Value = serde_json::from_str(lines.next()?).ok()?;
            lines.next()?;
            first["runner"]["pid"].as_u64().map(|pid| pid as u32)
        })
    }

    /// The process that bears the runners of this watcher.
    pub fn nursery(&self, watcher: u32) -> u32 {
        self.wait_for("there is a nursery", || {
            let is_it = |pid: &u32| {
                let fields = stat(*pid).unwrap_or_default();
                let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let is_nursery = String::from_utf8_lossy(&command).contains("--nursery");
                is_nursery && fields.parent == watcher && fields.session != *pid
            };
            everyone().into_iter().find(is_it)
        })
    }

    /// Every living process of an agent of this scene.
    pub fn agents(&self) -> Vec<u32> {
        carriers(&[format!("WK_ROOT={}", self.root().display())])
    }

    /// Asserts that nobody is left of any agent, now.
    #[track_caller]
    pub fn nobody_is_left(&self) {
        let left: Vec<String> = self.agents().into_iter().map(describe).collect();
        assert!(left.is_empty(), "left behind: {left:#?}");
    }

    fn everybody_of_ours(&self) -> Vec<u32> {
        let root = format!("WK_ROOT={}", self.root().display());
        carriers(&[root, format!("{SCENE}={}", self.name)])
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.has_tmux {
            let _ = Command::new("tmux").args(["-L", &self.name, "kill-server"]).output();
        }
        let began = std::time::Instant::now();
        let limit = if std::thread::panicking() { 0 } else { 30 };
        while !self.everybody_of_ours().is_empty() && began.elapsed().as_secs() < limit {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let mut left = self.everybody_of_ours();
        let told: Vec<String> = left.iter().copied().map(describe).collect();
        // Those whose environment tells nothing wrote down who they are.
        left.extend(self.lines("pids").iter().filter_map(|pid| pid.parse::<u32>().ok()));
        for pid in left {
            signal(pid, Signal::KILL);
        }
        assert!(told.is_empty() || std::thread::panicking(), "the scene left behind: {told:#?}");
    }
}

/// A process with nothing in its environment could be anybody's: scenes that look for them play where nobody else is,
/// and else one by one. `None` if this one was played.
pub fn alone(test: impl Fn()) -> Option<MutexGuard<'static, ()>> {
    static HIDDEN: Mutex<()> = Mutex::new(());
    if was_played_apart(test) {
        return None;
    }
    Some(HIDDEN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Every launcher that starts something here.
pub fn launchers() -> &'static [&'static str] {
    if Command::new("tmux").arg("-V").output().is_ok() {
        return &["process", "tmux"];
    }
    println!("skipped with the tmux launcher: tmux is not installed");
    &["process"]
}

/// Sends a signal, if the process is still there.
pub fn signal(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
}

/// Whether a process exists and is not merely waiting to be collected.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| !matches!(fields.state, 'Z' | 'X'))
}

#[derive(Default)]
struct Stat {
    state: char,
    parent: u32,
    session: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        session: fields.nth(1)?.parse().ok()?,
    })
}

fn everyone() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The living that have one of these in their environment.
fn carriers(variables: &[String]) -> Vec<u32> {
    let carries = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| variables.iter().any(|variable| variable.as_bytes() == one))
    };
    everyone().into_iter().filter(|pid| carries(pid) && is_alive(*pid)).collect()
}

fn describe(pid: u32) -> String {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&command).replace('\0', " "))
}

/// A script of `testdata/agents`.
pub fn shared_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/agents").join(name)
}
