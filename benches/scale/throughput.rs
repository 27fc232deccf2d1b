//! What a finished task costs the watcher, in a small batch and in one ten times as large.

use crate::Setup;
use crate::agents;
use crate::bus::Bus;
use crate::measure::median;
use crate::plans::Graph;
use crate::table::{Row, rounded};

const SMALL: usize = 1_000;
const LARGE: usize = 10_000;
const LAYERS: usize = 10;
const RATIO_MOST: f64 = 1.2;

pub fn rows(setup: &Setup) -> Vec<Row> {
    let rounds = if setup.is_quick { 1 } else { 3 };
    let layered = |tasks| Graph::layered(tasks, LAYERS);
    vec![
        compare(setup, "wide", Graph::wide, rounds),
        compare(setup, &format!("{LAYERS} layers, 3 dependencies each"), layered, rounds),
    ]
}

fn compare(setup: &Setup, told: &str, graph: impl Fn(usize) -> Graph, rounds: usize) -> Row {
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        small.extend((0..3).map(|_| microseconds_a_task(setup, &graph(SMALL))));
        large.push(microseconds_a_task(setup, &graph(LARGE)));
    }
    let (small, large) = (median(small), median(large));
    Row::compared(
        format!("watcher's CPU for each finished task, {LARGE} tasks, {told}"),
        format!("{} µs", rounded(large)),
        format!("with {SMALL} tasks {} µs", rounded(small)),
        large / small,
        RATIO_MOST,
    )
}

fn microseconds_a_task(setup: &Setup, graph: &Graph) -> f64 {
    let bus = Bus::with(setup, graph);
    let watcher = bus.watch(setup);
    agents::work_off(&bus, graph.len(), |_| ());
    watcher.cpu_seconds() * 1e6 / graph.len() as f64
}
