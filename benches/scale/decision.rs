//! From a result's rename to the decision about it, beside a bare loop that reads, parses and writes a line.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Setup;
use crate::agents;
use crate::bus::Bus;
use crate::measure::median;
use crate::plans::Graph;
use crate::reference::Reference;
use crate::table::{Row, rounded};

const RATIO_MOST: f64 = 3.0;
/// Before the samples that count.
const WARM_UP: usize = 20;
/// Between two samples, so that each finds both processes asleep.
const PAUSE: Duration = Duration::from_millis(3);

pub fn rows(setup: &Setup) -> Vec<Row> {
    let samples = if setup.is_quick { 200 } else { 1_000 };
    let tasks = WARM_UP + samples;
    // One task stays open, so that the batch never ends.
    let bus = Bus::with(setup, &Graph::wide(tasks + 1));
    let _watcher = bus.watch(setup);
    bus.await_events("offered", tasks + 1);
    std::thread::sleep(Duration::from_secs(1));
    let reference = Reference::start(bus.root().join("reference"));
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for task in 1..=tasks {
        let staged = agents::stage_result(&bus, task);
        ours.push(microseconds_to_answer(&staged, &bus.task_file(task, "result.json"), &bus.journal()));
        std::thread::sleep(PAUSE);
        let staged = agents::stage_result(&bus, task);
        bare.push(microseconds_to_answer(&staged, &reference.drop_box(task), &reference.lines()));
        std::thread::sleep(PAUSE);
    }
    let (ours, bare) = (median(ours.split_off(WARM_UP)), median(bare.split_off(WARM_UP)));
    vec![Row::compared(
        "a result's rename to its decision in the journal, median",
        format!("{} µs", rounded(ours)),
        format!("bare inotify loop {} µs", rounded(bare)),
        ours / bare,
        RATIO_MOST,
    )]
}

/// Renames the result into place and watches the answer's file grow.
fn microseconds_to_answer(staged: &Path, place: &Path, answers: &Path) -> f64 {
    let answers = File::open(answers).expect("the answers' file");
    let size = || answers.metadata().expect("the answers' file").len();
    let before = size();
    let began = Instant::now();
    fs::rename(staged, place).expect("a result can be renamed into place");
    while size() == before {
        assert!(began.elapsed() < Duration::from_secs(60), "no answer to {}", place.display());
        std::hint::spin_loop();
    }
    began.elapsed().as_secs_f64() * 1e6
}
