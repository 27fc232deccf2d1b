//! What performance is judged by: every promise about cost, measured on the real binary and printed as one
//! Markdown table beside its target.
//!
//! CPU time is what counts, not wall time, and a reference runs interleaved with what it is compared to, so
//! that a busy machine disturbs both alike. Nothing here fails because a machine is slow: it reports.

mod agents;
mod beats;
mod bus;
mod check;
mod decision;
mod evidence;
mod idle;
mod measure;
mod plans;
mod recovery;
mod reference;
mod table;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use table::Row;

/// How the benchmark was asked to run.
pub struct Setup {
    /// The binary under test.
    pub wk: PathBuf,
    /// Fewer rounds and shorter spans: for a first impression.
    pub is_quick: bool,
    /// Everything is made in here and removed at the very end: on some file systems making files costs
    /// many times as much for minutes after many were deleted.
    scratch: tempfile::TempDir,
}

impl Setup {
    pub fn new_directory(&self) -> PathBuf {
        let made = tempfile::Builder::new().prefix("bench-").tempdir_in(self.scratch.path());
        made.expect("a directory can be made").keep()
    }
}

/// One part of the table, by the name that `--only` takes.
type Part = (&'static str, fn(&Setup) -> Vec<Row>);

const PARTS: &[Part] = &[
    ("check", check::rows),
    ("decision", decision::rows),
    ("beats", beats::rows),
    ("idle", idle::rows),
    ("recovery", recovery::rows),
    ("throughput", throughput::rows),
    ("evidence", evidence::rows),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value_of = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).cloned()
    };
    if let Some(dir) = value_of("--reference-loop") {
        return reference::serve(&PathBuf::from(dir));
    }
    let wk =
        std::env::var_os("WK_BENCH_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_wk").into(), PathBuf::from);
    let scratch = tempfile::Builder::new().prefix("wk-bench-").tempdir().expect("a temporary directory");
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let setup = Setup { wk, is_quick, scratch };
    let only = value_of("--only");
    let mut rows = Vec::new();
    for (name, measure) in PARTS {
        if only.as_deref().is_none_or(|only| only.split(',').any(|part| part == *name)) {
            eprintln!("measuring: {name}");
            rows.extend(measure(&setup));
        }
    }
    let text = table::render(&rows);
    print!("{text}");
    match value_of("--out").map(|file| std::fs::write(file, &text)) {
        Some(Err(error)) => {
            eprintln!("error: the table could not be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
