//! Ten thousand running tasks, a watcher killed without warning, and the one that goes on.

use std::time::Duration;

use crate::Setup;
use crate::agents::{self, Writing};
use crate::bus::{self, Bus};
use crate::plans::Graph;
use crate::table::Row;

const TASKS: usize = 10_000;
const SECONDS_MOST: f64 = 2.0;
const MEGABYTES_MOST: f64 = 100.0;

pub fn rows(setup: &Setup) -> Vec<Row> {
    let bus = Bus::with(setup, &Graph::wide(TASKS));
    let watcher = bus.watch(setup);
    bus.await_events("offered", TASKS);
    (1..=TASKS).for_each(|task| agents::beat(&bus, task, 1, Writing::InPlace));
    bus.await_events("started", TASKS);
    std::thread::sleep(Duration::from_secs(2));
    let before = watcher.most_memory_megabytes();
    // Dropping it is a kill without warning.
    drop(watcher);
    // Decided in the new watcher's first full turn, which looks at every running task.
    agents::finish(&bus, TASKS);
    let watcher = bus.watch(setup);
    bus::await_that("the first decision", Duration::from_millis(2), || {
        !bus.task_file(TASKS, "result.json").exists()
    });
    bus.await_events("succeeded", 1);
    let seconds = watcher.cpu_seconds();
    std::thread::sleep(Duration::from_secs(3));
    let after = watcher.most_memory_megabytes();
    vec![
        Row::limit(
            format!("{TASKS} running tasks recovered after a kill: watcher's CPU until its first decision"),
            seconds,
            "s",
            SECONDS_MOST,
        ),
        Row::limit(
            format!("{TASKS} running tasks: most memory, before and after the kill"),
            before.max(after),
            "MB",
            MEGABYTES_MOST,
        ),
    ]
}
