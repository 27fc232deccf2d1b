//! A bus of its own for each measurement, and a watcher that runs on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Setup;
use crate::measure;
use crate::plans::Graph;

/// Longest wait for something that must happen; beyond it the benchmark is broken, not slow.
const PATIENCE: Duration = Duration::from_secs(600);

/// A directory with a bus.
pub struct Bus {
    root: PathBuf,
}

impl Bus {
    /// A bus whose inbox holds this graph as a plan.
    pub fn with(setup: &Setup, graph: &Graph) -> Bus {
        Bus::with_plan(setup, &graph.json())
    }

    /// A bus whose inbox holds this plan.
    pub fn with_plan(setup: &Setup, plan: &str) -> Bus {
        let bus = Bus { root: setup.new_directory() };
        fs::create_dir_all(bus.orchestration().join("inbox")).expect("the bus can be made");
        fs::create_dir_all(bus.orchestration().join("quarantine")).expect("the bus can be made");
        fs::create_dir_all(bus.staging()).expect("the bus can be made");
        fs::write(bus.orchestration().join("inbox/plan.json"), plan).expect("the plan can be written");
        bus
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn orchestration(&self) -> PathBuf {
        self.root().join(".ce/orchestration")
    }

    /// Where agents put files together before they rename them into place.
    pub fn staging(&self) -> PathBuf {
        self.root().join("staging")
    }

    /// The directory of the one batch.
    pub fn batch(&self) -> PathBuf {
        self.orchestration().join("tasks/batch-7")
    }

    pub fn journal(&self) -> PathBuf {
        self.batch().join("journal.jsonl")
    }

    pub fn task_file(&self, task: usize, ending: &str) -> PathBuf {
        self.batch().join(format!("task-{task}.{ending}"))
    }

    /// Whether the batch has ended and lies in the archive.
    pub fn has_finished(&self) -> bool {
        self.orchestration().join("completed-batches/batch-7").exists()
    }

    /// How many journal lines hold this event.
    pub fn events(&self, event: &str) -> usize {
        let journal = fs::read_to_string(self.journal()).unwrap_or_default();
        journal.matches(&format!("\"event\":\"{event}\"")).count()
    }

    /// Waits until so many lines hold this event.
    pub fn await_events(&self, event: &str, count: usize) {
        await_that(&format!("{count} times '{event}'"), Duration::from_millis(50), || {
            let refused = fs::read_dir(self.orchestration().join("quarantine"));
            assert!(refused.is_ok_and(|mut files| files.next().is_none()), "the watcher refused the plan");
            self.events(event) >= count
        });
    }

    /// Starts a watcher. Syncs are off: what a disk takes to sync says nothing about this program.
    pub fn watch(&self, setup: &Setup) -> Watcher {
        self.watch_by(&setup.wk)
    }

    /// The same by another binary.
    pub fn watch_by(&self, wk: &Path) -> Watcher {
        let child = Command::new(wk)
            .arg("--root")
            .arg(self.root())
            .args(["--set", "journal_sync=false", "watch", "--quiet"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.root().join("watch.log")).expect("a log"))
            .spawn()
            .expect("the binary under test can be started");
        Watcher { child }
    }
}

/// A running watcher, killed at the end.
pub struct Watcher {
    child: Child,
}

impl Watcher {
    pub fn cpu_seconds(&self) -> f64 {
        measure::cpu_seconds(self.child.id())
    }

    pub fn most_memory_megabytes(&self) -> f64 {
        measure::most_memory_megabytes(self.child.id())
    }

    /// The share of a core that it used while `meanwhile` went on, in percent.
    pub fn cpu_percent_during(&self, meanwhile: impl FnOnce()) -> f64 {
        let (began, before) = (Instant::now(), self.cpu_seconds());
        meanwhile();
        100.0 * (self.cpu_seconds() - before) / began.elapsed().as_secs_f64()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something that must happen.
pub fn await_that(what: &str, between_looks: Duration, mut has_happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !has_happened() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(between_looks);
    }
}
