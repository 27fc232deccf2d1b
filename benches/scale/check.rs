//! `wk check` of large plans beside `ninja -n` on the same graph.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Setup;
use crate::measure::{cpu_of_run, median};
use crate::plans::Graph;
use crate::table::{Row, rounded};

const LAYERS: usize = 100;
const RATIO_MOST: f64 = 1.5;

pub fn rows(setup: &Setup) -> Vec<Row> {
    let sizes: [(usize, usize); 2] =
        if setup.is_quick { [(10_000, 3), (100_000, 1)] } else { [(10_000, 11), (100_000, 5)] };
    sizes.into_iter().flat_map(|(tasks, rounds)| compare(setup, tasks, rounds)).collect()
}

fn compare(setup: &Setup, tasks: usize, rounds: usize) -> Vec<Row> {
    let dir = setup.new_directory();
    let graph = Graph::layered(tasks, LAYERS);
    let write = |name: &str, text: String| fs::write(dir.join(name), text).expect("a plan can be written");
    write("plan.md", graph.markdown());
    write("plan.json", graph.json_with_files());
    write("build.ninja", graph.ninja());
    let (mut reference, mut markdown, mut json) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        reference.extend(cpu_of_run(Command::new("ninja").arg("-n").current_dir(&dir)));
        markdown.extend(cpu_of_run(&mut check(setup, &dir, "plan.md")));
        json.extend(cpu_of_run(&mut check(setup, &dir, "plan.json")));
    }
    vec![row(tasks, "Markdown", &markdown, &reference, rounds), row(tasks, "JSON", &json, &reference, rounds)]
}

fn check(setup: &Setup, dir: &Path, file: &str) -> Command {
    let mut command = Command::new(&setup.wk);
    command.args(["check", file]).current_dir(dir);
    command
}

fn row(tasks: usize, spelling: &str, ours: &[f64], reference: &[f64], rounds: usize) -> Row {
    let what = format!("`wk check`, {tasks} tasks, {spelling}: CPU");
    let target = format!("≤ {RATIO_MOST}×");
    if ours.len() < rounds {
        return Row::unmeasured(what, "`wk check` failed", &target);
    }
    if reference.len() < rounds {
        return Row::unmeasured(what, "ninja is not installed", &target);
    }
    let ratios = ours.iter().zip(reference).map(|(ours, reference)| ours / reference).collect();
    let milliseconds = |seconds: &[f64]| format!("{} ms", rounded(median(seconds.to_vec()) * 1e3));
    Row::compared(
        what,
        milliseconds(ours),
        format!("`ninja -n` {}", milliseconds(reference)),
        median(ratios),
        RATIO_MOST,
    )
}
