//! Agents from outside, played by threads: they know the files of the contract and nothing else.
//!
//! Each script leads to the same ending whatever the timing, and however often the watcher is replaced:
//! it waits for what it sees on the bus, never for time to pass.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::reference::{Part, Role, SHARED_FILE};

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Between the pieces of a torn result: shorter than the settling time, longer than a look.
const PIECE_EVERY: Duration = Duration::from_millis(60);

/// What all agents of one run share.
pub struct Yard {
    pub root: PathBuf,
    /// `tasks/batch-N`, which need not exist yet.
    pub batch_dir: PathBuf,
    /// Set when the run is over, one way or the other.
    pub is_over: AtomicBool,
    /// Agents that have a task which modifies the shared file.
    pub editors: AtomicUsize,
}

/// Why a script did not come to its end: the run was over before, the disk failed, or a promise was broken.
#[derive(Debug)]
pub struct Unfinished(pub String);

impl From<io::Error> for Unfinished {
    fn from(error: io::Error) -> Self {
        Unfinished(error.to_string())
    }
}

type Played = Result<(), Unfinished>;

/// Plays the agent of one task.
pub fn play(yard: &Yard, part: &Part) -> Played {
    let agent = Agent { yard, key: part.key };
    match part.role {
        Role::Creates => agent.creates(),
        Role::Flaky => agent.fails_once(),
        Role::DeletesSpec => agent.deletes_its_spec(),
        Role::Silent => agent.falls_silent(false),
        Role::Late => agent.falls_silent(true),
        Role::Garbage => agent.sends_garbage_first(),
        Role::Torn => agent.writes_in_pieces(),
        Role::Edits => agent.edits(),
    }
}

struct Agent<'a> {
    yard: &'a Yard,
    key: &'static str,
}

impl Agent<'_> {
    fn creates(&self) -> Played {
        let spec = self.await_attempt(1)?;
        self.beat(1, "begun")?;
        let name = format!("made-by-{}.txt", self.key);
        fs::write(self.yard.root.join(&name), "made\n")?;
        self.beat(1, "made")?;
        let mut result = success(&spec, 1);
        result["output"]["files_created"] = json!([name]);
        self.deliver(&result)
    }

    fn fails_once(&self) -> Played {
        let spec = self.await_attempt(1)?;
        self.beat(1, "begun")?;
        let mut result = success(&spec, 1);
        result["status"] = json!("failed");
        result["output"]["errors"] = json!(["the first try never works"]);
        self.deliver(&result)?;
        let spec = self.await_attempt(2)?;
        self.beat(2, "begun again")?;
        self.deliver(&success(&spec, 2))
    }

    fn deletes_its_spec(&self) -> Played {
        let spec = self.await_attempt(1)?;
        self.beat(1, "read")?;
        fs::remove_file(self.path("json"))?;
        self.beat(1, "removed")?;
        self.deliver(&success(&spec, 1))
    }

    fn falls_silent(&self, comes_back_late: bool) -> Played {
        let first = self.await_attempt(1)?;
        for step in ["one", "two", "three"] {
            self.beat(1, step)?;
        }
        let second = self.await_attempt(2)?;
        if comes_back_late {
            self.deliver(&success(&first, 1))?;
            self.await_absence(&self.path("result.json"))?;
        }
        // Without a beat: until the result comes nobody counts how long this one is silent.
        self.deliver(&success(&second, 2))
    }

    fn sends_garbage_first(&self) -> Played {
        let spec = self.await_attempt(1)?;
        self.beat(1, "begun")?;
        self.publish(&self.path("result.json"), b"{\"status\": success}")?;
        let reason = self.path("result.error.json");
        self.await_that("the reason of the refusal", || reason.exists().then_some(()))?;
        self.deliver(&success(&spec, 1))
    }

    fn writes_in_pieces(&self) -> Played {
        let spec = self.await_attempt(1)?;
        self.beat(1, "begun")?;
        let bytes = success(&spec, 1).to_string().into_bytes();
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).open(self.path("result.json"))?;
        for piece in bytes.chunks(bytes.len() / 3 + 1) {
            file.write_all(piece)?;
            file.flush()?;
            thread::sleep(PIECE_EVERY);
        }
        Ok(())
    }

    fn edits(&self) -> Played {
        let spec = self.await_attempt(1)?;
        let others = self.yard.editors.fetch_add(1, Ordering::SeqCst);
        if others > 0 {
            return Err(Unfinished(format!("{} edits {SHARED_FILE} beside another", self.key)));
        }
        self.beat(1, "editing")?;
        let mut file = OpenOptions::new().append(true).open(self.yard.root.join(SHARED_FILE))?;
        writeln!(file, "edited by {}", self.key)?;
        let mut result = success(&spec, 1);
        result["output"]["files_modified"] = json!([SHARED_FILE]);
        self.yard.editors.fetch_sub(1, Ordering::SeqCst);
        self.deliver(&result)
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.yard.batch_dir.join(format!("task-{}.{ending}", self.key))
    }

    /// The published spec, once it is the one of this attempt.
    fn await_attempt(&self, attempt: u64) -> Result<Value, Unfinished> {
        let path = self.path("json");
        self.await_that(&format!("the spec of attempt {attempt}"), || {
            let spec: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            (spec["attempt"] == attempt).then_some(spec)
        })
    }

    fn await_absence(&self, path: &Path) -> Played {
        self.await_that("the drop box to be emptied", || (!path.exists()).then_some(()))
    }

    fn await_that<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, Unfinished> {
        loop {
            if let Some(seen) = look() {
                return Ok(seen);
            }
            if self.yard.is_over.load(Ordering::Relaxed) {
                return Err(Unfinished(format!("{} still waited for {what}", self.key)));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn beat(&self, attempt: u64, progress: &str) -> Played {
        let beat =
            json!({ "task_id": self.key, "attempt": attempt, "status": "in_progress", "progress": progress });
        self.publish(&self.path("hb"), beat.to_string().as_bytes())
    }

    fn deliver(&self, result: &Value) -> Played {
        self.publish(&self.path("result.json"), result.to_string().as_bytes())
    }

    fn publish(&self, path: &Path, bytes: &[u8]) -> Played {
        let staged = self.yard.batch_dir.join(format!(".agent-{}", self.key));
        fs::write(&staged, bytes)?;
        fs::rename(&staged, path)?;
        Ok(())
    }
}

fn success(spec: &Value, attempt: u64) -> Value {
    json!({
        "task_id": spec["task_id"],
        "status": "success",
        "attempt": attempt,
        "output": { "files_created": [], "files_modified": [], "errors": [] },
        "tokens_used": 100,
    })
}
