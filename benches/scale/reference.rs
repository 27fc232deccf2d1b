//! The least that any watcher does: wait for a file event, read the file, parse it, write one line.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::fs::inotify;

/// The loop itself, in a process of its own: results come into `dir/in`, lines go to `dir/lines`.
pub fn serve(dir: &Path) -> ExitCode {
    let inbox = dir.join("in");
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).expect("file events");
    inotify::add_watch(&events, &inbox, inotify::WatchFlags::MOVED_TO).expect("the directory can be watched");
    let mut lines = OpenOptions::new().append(true).create(true).open(dir.join("lines")).expect("a file");
    File::create(dir.join("is-ready")).expect("a file");
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&events, &mut buffer);
    loop {
        let Ok(event) = reader.next() else { return ExitCode::FAILURE };
        let Some(name) = event.file_name() else { continue };
        let path = inbox.join(name.to_string_lossy().as_ref());
        let bytes = fs::read(path).expect("what was renamed can be read");
        let value: serde_json::Value = serde_json::from_slice(&bytes).expect("what was renamed is JSON");
        writeln!(lines, "{}", value["task_id"]).expect("a line can be written");
    }
}

/// That process, started by the benchmark and killed at the end.
pub struct Reference {
    child: Child,
    dir: PathBuf,
}

impl Reference {
    pub fn start(dir: PathBuf) -> Reference {
        fs::create_dir_all(dir.join("in")).expect("a directory");
        let this = std::env::current_exe().expect("this program's own path");
        let child = Command::new(this).arg("--reference-loop").arg(&dir).stdin(Stdio::null()).spawn();
        let reference = Reference { child: child.expect("this program can be started again"), dir };
        crate::bus::await_that("the reference", std::time::Duration::from_millis(5), || {
            reference.dir.join("is-ready").exists()
        });
        reference
    }

    pub fn lines(&self) -> PathBuf {
        self.dir.join("lines")
    }

    pub fn drop_box(&self, task: usize) -> PathBuf {
        self.dir.join("in").join(format!("task-{task}.result.json"))
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
