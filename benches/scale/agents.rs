//! Outsiders, played cheaply: results by rename, heartbeats in place or by rename.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rustix::fs::inotify;

use crate::bus::{self, Bus};

/// How a heartbeat is written.
#[derive(Clone, Copy)]
pub enum Writing {
    InPlace,
    ByRename,
}

/// Leaves a valid result in a task's drop box, by rename.
pub fn finish(bus: &Bus, task: usize) {
    let staged = stage_result(bus, task);
    fs::rename(staged, bus.task_file(task, "result.json")).expect("a result can be renamed into place");
}

/// Writes a result beside the bus, ready to be renamed.
pub fn stage_result(bus: &Bus, task: usize) -> std::path::PathBuf {
    let staged = bus.staging().join(format!("{task}.result"));
    fs::write(&staged, result_of(task)).expect("a result can be written");
    staged
}

/// What a result says.
pub fn result_of(task: usize) -> String {
    format!(
        "{{\"task_id\":\"{task}\",\"status\":\"success\",\"attempt\":1,\"output\":{{}},\"tokens_used\":1200}}\n"
    )
}

/// One beat of one task.
pub fn beat(bus: &Bus, task: usize, round: usize, writing: Writing) {
    let text =
        format!("{{\"task_id\":\"{task}\",\"progress\":\"step {round}\",\"tokens_used\":{}}}\n", round * 100);
    let place = bus.task_file(task, "hb");
    match writing {
        Writing::InPlace => fs::write(place, text).expect("a heartbeat can be written"),
        Writing::ByRename => {
            let staged = bus.staging().join(format!("{task}.hb"));
            fs::write(&staged, text).expect("a heartbeat can be written");
            fs::rename(staged, place).expect("a heartbeat can be renamed into place");
        }
    }
}

/// Does every task of the batch as soon as its spec appears, until the batch has ended.
pub fn work_off(bus: &Bus, tasks: usize, work: impl Fn(usize)) {
    bus::await_that("the batch", std::time::Duration::from_millis(1), || bus.batch().exists());
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).expect("file events");
    let watch = inotify::add_watch(&events, bus.batch(), inotify::WatchFlags::MOVED_TO);
    watch.expect("the batch can be watched");
    let mut done = HashSet::new();
    let listed = fs::read_dir(bus.batch()).expect("the batch can be listed");
    for entry in listed.flatten() {
        finish_if_spec(bus, &entry.file_name().to_string_lossy(), &mut done, &work);
    }
    let mut buffer = vec![std::mem::MaybeUninit::uninit(); 64 * 1024];
    let mut reader = inotify::Reader::new(&events, &mut buffer);
    while done.len() < tasks {
        let event = reader.next().expect("file events can be read");
        let name = event.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        finish_if_spec(bus, &name, &mut done, &work);
    }
    bus::await_that("the batch's end", std::time::Duration::from_millis(1), || bus.has_finished());
}

fn finish_if_spec(bus: &Bus, name: &str, done: &mut HashSet<usize>, work: impl Fn(usize)) {
    let number = Path::new(name).file_name().and_then(|name| name.to_str());
    let number = number.and_then(|name| name.strip_prefix("task-")?.strip_suffix(".json")?.parse().ok());
    if let Some(task) = number
        && done.insert(task)
    {
        work(task);
        finish(bus, task);
    }
}
