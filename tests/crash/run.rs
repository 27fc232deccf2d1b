//! One run of the reference batch: a bus of its own, agents from outside, and a watcher that dies where it is
//! told to and is started again until the batch is archived.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::agents::{self, Unfinished, Yard};
use super::reference::{PARTS, SETTINGS, SHARED_FILE, plan};

/// Far more than any run needs: reached only where something hangs.
const RUN_LIMIT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const SIGKILL: i32 = 9;

/// How the plan comes to the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Dropped into the inbox of `wk watch`, with an id of its own.
    Inbox,
    /// By `wk run`, numbered by the bus.
    Run,
}

impl Way {
    pub const BOTH: [Way; 2] = [Way::Inbox, Way::Run];

    pub fn batch_id(self) -> u64 {
        match self {
            Way::Inbox => 43,
            Way::Run => 1,
        }
    }
}

/// Where the first watchers die: each before that one of its file operations.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub way: Way,
    pub deaths: Vec<u64>,
}

/// What came of a run, for the checks.
pub struct Played {
    pub root: tempfile::TempDir,
    pub way: Way,
    /// How many watchers were killed: a run may be over before the ordered operation comes.
    pub killed: usize,
    /// File operations of the last watcher.
    pub operations: u64,
    pub took: Duration,
}

impl Played {
    pub fn bus(&self) -> PathBuf {
        bus_of(self.root.path())
    }
    pub fn archive(&self) -> PathBuf {
        self.bus().join(format!("completed-batches/batch-{}", self.way.batch_id()))
    }
}

fn bus_of(root: &Path) -> PathBuf {
    root.join(".ce/orchestration")
}

/// Plays a scenario to its end, or says what hung or broke.
pub fn play(scenario: &Scenario) -> Result<Played, String> {
    let started = Instant::now();
    let root = prepare(scenario.way).map_err(|error| format!("no bus: {error}"))?;
    let batch = format!("tasks/batch-{}", scenario.way.batch_id());
    let yard = Yard {
        root: root.path().to_owned(),
        batch_dir: bus_of(root.path()).join(batch),
        is_over: AtomicBool::new(false),
        editors: AtomicUsize::new(0),
    };
    let (watched, unfinished) = thread::scope(|scope| {
        let agents: Vec<_> = PARTS.iter().map(|part| scope.spawn(|| agents::play(&yard, part))).collect();
        let watched = watch_to_the_end(scenario, root.path(), started);
        yard.is_over.store(true, Ordering::Relaxed);
        let ends = agents.into_iter().map(|agent| agent.join().expect("an agent does not panic"));
        (watched, ends.filter_map(Result::err).map(|Unfinished(why)| why).collect::<Vec<String>>())
    });
    let tell = |why: String| format!("{why}\n{}", story(root.path()));
    let (killed, operations) = watched.map_err(|why| tell(format!("{why}; agents: {unfinished:?}")))?;
    if !unfinished.is_empty() {
        return Err(tell(format!("agents: {unfinished:?}")));
    }
    Ok(Played { way: scenario.way, killed, operations, took: started.elapsed(), root })
}

fn prepare(way: Way) -> std::io::Result<tempfile::TempDir> {
    let root = tempfile::Builder::new().prefix("wk-crash-").tempdir()?;
    fs::create_dir_all(bus_of(root.path()).join("inbox"))?;
    fs::write(root.path().join(SHARED_FILE), "as it was\n")?;
    let id = (way == Way::Inbox).then(|| way.batch_id());
    fs::write(root.path().join("plan.json"), plan(id))?;
    Ok(root)
}

/// Starts watchers until one of them sees the batch through. Returns how many were killed, and how many
/// operations the last one needed.
fn watch_to_the_end(scenario: &Scenario, root: &Path, started: Instant) -> Result<(usize, u64), String> {
    let archive = bus_of(root).join(format!("completed-batches/batch-{}", scenario.way.batch_id()));
    let mut killed = 0;
    loop {
        let is_first = killed == 0;
        let mut watcher = Watcher::start(scenario, root, killed)?;
        if is_first && scenario.way == Way::Inbox {
            fs::rename(root.join("plan.json"), bus_of(root).join("inbox/plan.json"))
                .map_err(|error| format!("no plan: {error}"))?;
        }
        let status = watcher.await_end(&archive, started)?;
        if status.signal() == Some(SIGKILL) {
            killed += 1;
            continue;
        }
        if !archive.exists() {
            return Err(format!("watcher {} ended ({status}) before its batch", killed + 1));
        }
        let count = fs::read_to_string(root.join("operations")).unwrap_or_default();
        return Ok((killed, count.trim().parse().unwrap_or(0)));
    }
}

/// A `wk` process that watches; killed with the test if it is still there.
struct Watcher {
    child: Child,
    /// It watches for ever, and is asked to end when the batch is archived.
    stays: bool,
}

impl Watcher {
    /// Starts the watcher that comes after so many dead ones, as a user would.
    fn start(scenario: &Scenario, root: &Path, dead: usize) -> Result<Watcher, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wk"));
        command.arg("--root").arg(root).args(SETTINGS.iter().flat_map(|setting| ["--set", setting]));
        let tasks = bus_of(root).join(format!("tasks/batch-{}", scenario.way.batch_id()));
        let archive = bus_of(root).join(format!("completed-batches/batch-{}", scenario.way.batch_id()));
        let stays = match scenario.way {
            Way::Inbox if dead == 0 => {
                command.args(["watch", "--quiet"]);
                true
            }
            // Whoever ran it gives it again only where it was not accepted yet.
            Way::Run if !tasks.exists() && !archive.exists() => {
                command.args(["run", "--quiet"]).arg(root.join("plan.json"));
                false
            }
            _ => {
                command.args(["watch", "--quiet", "--exit-when-idle"]);
                false
            }
        };
        let log = fs::OpenOptions::new().create(true).append(true).open(root.join("log"));
        let log = log.map_err(|error| format!("no log: {error}"))?;
        command.env("WK_COUNT_OPERATIONS", root.join("operations")).env_remove("WK_CRASH_AT");
        if let Some(at) = scenario.deaths.get(dead) {
            command.env("WK_CRASH_AT", at.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("cannot start wk: {error}"))?;
        Ok(Watcher { child, stays })
    }

    fn await_end(&mut self, archive: &Path, started: Instant) -> Result<ExitStatus, String> {
        let mut is_asked = false;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(format!("cannot wait for wk: {error}")),
            }
            if self.stays && !is_asked && archive.exists() {
                is_asked = true;
                let process = rustix::process::Pid::from_child(&self.child);
                let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
            }
            if started.elapsed() > RUN_LIMIT {
                return Err(format!("not over after {} s", RUN_LIMIT.as_secs()));
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that helps to understand a run that went wrong.
pub fn story(root: &Path) -> String {
    let mut text = String::from("--- what the watchers said\n");
    text += &fs::read_to_string(root.join("log")).unwrap_or_default();
    text += "--- files\n";
    for entry in walkdir::WalkDir::new(root.join(".ce")).sort_by_file_name().into_iter().flatten() {
        if entry.file_type().is_file() {
            text += &format!("{}\n", entry.path().strip_prefix(root).unwrap_or(entry.path()).display());
        }
        if entry.file_name() == "journal.jsonl" {
            text += &fs::read_to_string(entry.path()).unwrap_or_default();
        }
    }
    text
}
