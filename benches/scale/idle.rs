//! A watcher with much to wait for and nothing to do.

use std::time::Duration;

use crate::Setup;
use crate::bus::Bus;
use crate::plans::Graph;
use crate::table::Row;

const TASKS: usize = 1_000;
const PERCENT_MOST: f64 = 0.1;
const SETTLING: Duration = Duration::from_secs(10);

pub fn rows(setup: &Setup) -> Vec<Row> {
    let seconds = if setup.is_quick { 20 } else { 120 };
    let (offered, behind) =
        (Bus::with(setup, &Graph::wide(TASKS)), Bus::with(setup, &Graph::behind_one(TASKS)));
    // Both sleep nearly all the time, so they can be measured side by side.
    let (one, other) = (offered.watch(setup), behind.watch(setup));
    offered.await_events("offered", TASKS);
    behind.await_events("offered", 1);
    std::thread::sleep(SETTLING);
    let mut second = 0.0;
    let first = one.cpu_percent_during(|| {
        second = other.cpu_percent_during(|| std::thread::sleep(Duration::from_secs(seconds)));
    });
    let row = |told: &str, percent| {
        let what = format!("idle, {told}: watcher's CPU over {seconds} s");
        Row::limit(what, percent, "% of a core", PERCENT_MOST)
    };
    vec![
        row(&format!("{TASKS} tasks offered, nobody comes"), first),
        row(&format!("1 task offered, {} behind it", TASKS - 1), second),
    ]
}
