//! What it costs the watcher to look at declared files by their content: a batch of outsiders that declare one file of
//! 4 KB each, beside the same batch under an older `wk`, which `WK_BENCH_BEFORE` names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Setup;
use crate::agents;
use crate::bus::Bus;
use crate::measure::median;
use crate::plans::Graph;
use crate::table::{Row, rounded};

const TASKS: usize = 1_000;
const FILE_BYTES: usize = 4 << 10;
const RATIO_MOST: f64 = 1.05;

pub fn rows(setup: &Setup) -> Vec<Row> {
    let what = format!("watcher's CPU for each finished task that declares a file of 4 KB, {TASKS} tasks");
    let Some(before) = std::env::var_os("WK_BENCH_BEFORE").map(PathBuf::from) else {
        let why = "WK_BENCH_BEFORE names no older `wk`";
        return vec![Row::unmeasured(what, why, &format!("≤ {RATIO_MOST}×"))];
    };
    let rounds = if setup.is_quick { 3 } else { 9 };
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        old.push(microseconds_a_task(setup, &before));
        new.push(microseconds_a_task(setup, &setup.wk));
    }
    let (old, new) = (median(old), median(new));
    let (ours, theirs) = (format!("{} µs", rounded(new)), format!("before {} µs", rounded(old)));
    vec![Row::compared(what, ours, theirs, new / old, RATIO_MOST)]
}

fn microseconds_a_task(setup: &Setup, wk: &Path) -> f64 {
    let bus = Bus::with_plan(setup, &Graph::wide(TASKS).json_with_files());
    fs::create_dir(bus.root().join("out")).expect("a directory can be made");
    let write = |task: usize, letter: &str| {
        let place = bus.root().join(format!("out/f{task}.txt"));
        fs::write(place, letter.repeat(FILE_BYTES)).expect("a file can be written");
    };
    (1..=TASKS).for_each(|task| write(task, "a"));
    let watcher = bus.watch_by(wk);
    agents::work_off(&bus, TASKS, |task| write(task, "b"));
    watcher.cpu_seconds() * 1e6 / TASKS as f64
}
