//! An agent from outside: it knows its batch's directory and writes files there, in place.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Bus;
use super::process::while_nobody_starts;

pub const SUCCESS: &str = "success";
pub const FAILED: &str = "failed";

/// No two beats of a test are the same.
static BEATS: AtomicU64 = AtomicU64::new(1);

/// Somebody who works on one task.
pub struct Agent<'a> {
    bus: &'a Bus,
    dir: String,
    key: String,
}

impl<'a> Agent<'a> {
    pub fn new(bus: &'a Bus, name: &str) -> Self {
        let (batch, key) = name.split_once('/').expect("a task is named BATCH/TASK");
        Agent { bus, dir: format!("tasks/batch-{batch}"), key: key.to_owned() }
    }

    fn name(&self, ending: &str) -> String {
        format!("{}/task-{}{ending}", self.dir, self.key)
    }

    pub fn spec(&self) -> PathBuf {
        self.bus.path(&self.name(".json"))
    }
    pub fn heartbeat(&self) -> PathBuf {
        self.bus.path(&self.name(".hb"))
    }
    pub fn result(&self) -> PathBuf {
        self.bus.path(&self.name(".result.json"))
    }
    pub fn result_error(&self) -> PathBuf {
        self.bus.path(&self.name(".result.error.json"))
    }
    /// What lies in the attempt's own folder.
    pub fn kept(&self, attempt: u32, name: &str) -> PathBuf {
        self.bus.path(&format!("{}/attempts/{}/{attempt}/{name}", self.dir, self.key))
    }

    /// Waits for the spec: its appearance means "start".
    pub fn waits_for_spec(&self) -> &Self {
        self.bus
            .wait_for(&format!("the spec of {} appears", self.key), || self.spec().exists().then_some(()));
        self
    }

    /// Waits for the spec of this attempt.
    pub fn waits_for_attempt(&self, attempt: u32) -> &Self {
        self.bus.wait_for(&format!("attempt {attempt} of {} is offered", self.key), || {
            let spec: serde_json::Value = serde_json::from_slice(&std::fs::read(self.spec()).ok()?).ok()?;
            (spec["attempt"] == attempt).then_some(())
        });
        self
    }

    /// Beats once, with a word that was never said before.
    pub fn beats(&self) -> &Self {
        let number = BEATS.fetch_add(1, Ordering::Relaxed);
        self.beats_with(&format!(r#"{{"status": "in_progress", "progress": "step {number}"}}"#))
    }

    pub fn beats_with(&self, text: &str) -> &Self {
        write_in_place(&self.heartbeat(), text);
        self
    }

    /// Beats every few milliseconds until it is dropped.
    pub fn keeps_beating(&self) -> Beating {
        let path = self.heartbeat();
        Beating::start(move |number| {
            write_in_place(&path, &format!(r#"{{"progress": "step {number}"}}"#));
        })
    }

    /// Takes the task by a file that anybody could write.
    pub fn takes(&self, attempt: u32, by: &str) -> &Self {
        self.bus.write(&self.name(&format!(".{attempt}.take")), format!(r#"{{"by": "{by}"}}"#));
        self
    }

    /// Writes the shortest result with this status.
    pub fn delivers(&self, status: &str) -> &Self {
        self.delivers_fields(status, "")
    }

    /// Writes a result that says for which attempt it speaks.
    pub fn delivers_for(&self, attempt: u32, status: &str) -> &Self {
        self.delivers_fields(status, &format!(r#", "attempt": {attempt}"#))
    }

    /// Writes a result with more fields: `, "tokens_used": 5`.
    pub fn delivers_fields(&self, status: &str, fields: &str) -> &Self {
        let key = &self.key;
        self.delivers_text(&format!(
            r#"{{"task_id": "{key}", "status": "{status}", "output": {{}}{fields}}}"#
        ))
    }

    /// Claims to have created these files.
    pub fn delivers_files(&self, files: &[&str]) -> &Self {
        let (key, files) = (&self.key, serde_json::to_string(files).unwrap());
        self.delivers_text(&format!(
            r#"{{"task_id": "{key}", "status": "success", "output": {{"files_created": {files}}}}}"#
        ))
    }

    pub fn delivers_text(&self, text: &str) -> &Self {
        write_in_place(&self.result(), text);
        self
    }
}

/// As `echo … > file` does: no rename, no sync. A vanished directory is the watcher's good right.
fn write_in_place(path: &std::path::Path, text: &str) {
    while_nobody_starts(|| {
        if let Ok(mut file) = std::fs::OpenOptions::new().write(true).create(true).truncate(true).open(path) {
            let _ = file.write_all(text.as_bytes());
        }
    });
}

/// Something that goes on beside the scene until it is dropped.
pub struct Beating {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Beating {
    pub fn start(mut each: impl FnMut(u64) + Send + 'static) -> Beating {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut number = 0;
            while !seen.load(Ordering::Relaxed) {
                each(number);
                number += 1;
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        Beating { stop, thread: Some(thread) }
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
