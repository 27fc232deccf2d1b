//! The real binary: run to its end, or kept running beside the scene and ended with it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::PATIENCE;

/// Held by all who write for a watcher, and alone by whoever starts a process: that one has for a moment open what any
/// scene here has open, and a file that was written long ago would still seem to have a writer.
static STARTING: RwLock<()> = RwLock::new(());

fn spawn(command: &mut Command) -> Child {
    let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn().expect("the binary starts")
}

/// Writes while nothing is started.
pub fn while_nobody_starts<T>(write: impl FnOnce() -> T) -> T {
    let _among_writers = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    write()
}

/// A call that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(command: &mut Command) -> Ran {
        let child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let output = child.wait_with_output().expect("it can be waited for");
        Ran {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts how the call ended.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Asserts that standard output says this.
    #[track_caller]
    pub fn says(self, text: &str) -> Ran {
        assert!(self.out.contains(text), "no {text:?} in\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Asserts that standard error says this.
    #[track_caller]
    pub fn complains(self, text: &str) -> Ran {
        assert!(self.err.contains(text), "no {text:?} in\n{}\nstdout:\n{}", self.err, self.out);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}:\n{}\nstderr:\n{}", self.out, self.err))
    }
}

/// A call that goes on beside the scene; it is killed when it is dropped.
pub struct Process {
    child: std::cell::RefCell<Child>,
    told: tempfile::TempDir,
}

impl Process {
    pub fn start(mut command: Command) -> Process {
        let told = tempfile::tempdir().unwrap();
        let file = |name: &str| Stdio::from(File::create(told.path().join(name)).unwrap());
        let child = spawn(command.stdout(file("out")).stderr(file("err")));
        Process { child: child.into(), told }
    }

    pub fn id(&self) -> u32 {
        self.child.borrow().id()
    }

    pub fn has_ended(&self) -> bool {
        self.child.borrow_mut().try_wait().unwrap().is_some()
    }

    pub fn stdout(&self) -> String {
        self.read("out")
    }

    pub fn stderr(&self) -> String {
        self.read("err")
    }

    fn read(&self, name: &str) -> String {
        let path: PathBuf = self.told.path().join(name);
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.id() as i32).unwrap();
        kill_process(pid, signal).expect("the process is there");
    }

    /// Waits for its own end.
    #[track_caller]
    pub fn ends(self) -> Ran {
        let started = Instant::now();
        while !self.has_ended() {
            assert!(started.elapsed() < PATIENCE, "it goes on:\n{}\n{}", self.stdout(), self.stderr());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let code = self.child.borrow_mut().wait().unwrap().code();
        Ran { code, out: self.stdout(), err: self.stderr() }
    }

    /// Asks it to end, as Ctrl-C and service managers do.
    #[track_caller]
    pub fn stop(self) -> Ran {
        self.signal(Signal::TERM);
        self.ends()
    }

    /// Ends it without a word.
    pub fn kill(self) -> Ran {
        self.signal(Signal::KILL);
        self.ends()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Starts one of the shell agents in `testdata/agents` on a task.
pub fn shell_agent(script: &str, batch_dir: &std::path::Path, key: &str) -> Process {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/agents").join(script);
    let mut command = Command::new("sh");
    command.arg(path).arg(batch_dir).arg(key).stdin(Stdio::null());
    Process::start(command)
}
