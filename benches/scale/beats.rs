//! A thousand outsiders that beat every second.

use std::time::{Duration, Instant};

use crate::Setup;
use crate::agents::{self, Writing};
use crate::bus::Bus;
use crate::plans::Graph;
use crate::table::Row;

const OUTSIDERS: usize = 1_000;
const PERCENT_MOST: f64 = 5.0;
/// Beats are spread over each second in so many bunches.
const BUNCHES: usize = 20;

pub fn rows(setup: &Setup) -> Vec<Row> {
    let seconds = if setup.is_quick { 10 } else { 30 };
    let bus = Bus::with(setup, &Graph::wide(OUTSIDERS));
    let watcher = bus.watch(setup);
    bus.await_events("offered", OUTSIDERS);
    beat_for(&bus, 1, Writing::InPlace);
    bus.await_events("started", OUTSIDERS);
    let ways = [(Writing::InPlace, "in place"), (Writing::ByRename, "by rename")];
    let measure = |(writing, told)| {
        beat_for(&bus, 3, writing);
        let percent = watcher.cpu_percent_during(|| beat_for(&bus, seconds, writing));
        Row::limit(
            format!("{OUTSIDERS} outsiders beat every second, {told}: watcher's CPU over {seconds} s"),
            percent,
            "% of a core",
            PERCENT_MOST,
        )
    };
    ways.into_iter().map(measure).collect()
}

fn beat_for(bus: &Bus, seconds: usize, writing: Writing) {
    let began = Instant::now();
    for round in 0..seconds * BUNCHES {
        let bunch = round % BUNCHES;
        for task in (1 + bunch..=OUTSIDERS).step_by(BUNCHES) {
            agents::beat(bus, task, round, writing);
        }
        let due = began + Duration::from_millis((round as u64 + 1) * 1000 / BUNCHES as u64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}
