//! What redaction costs, beside `grep -F` with as many literal words over the same log.
//!
//! Both run as processes of their own that read the same file, turn by turn, and CPU time is what counts: a
//! busy machine disturbs both alike. Nothing here fails because a machine is slow: it reports.

#[path = "../scale/measure.rs"]
#[expect(dead_code, reason = "the other benchmark uses the rest of it")]
mod measure;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use measure::{cpu_of_run, median};
use watchkeeper::agent::redact::Redactor;

const BUILD_LOG: &str = include_str!("../../testdata/redaction/build.log");
/// As an agent's pipe hands it over.
const READ: usize = 64 * 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--redact-file", file, known] => redact_file(Path::new(file), known.parse().unwrap_or(0)),
        arguments => compare(arguments.contains(&"--quick")),
    }
}

/// The redactor's side, in a process of its own.
fn redact_file(file: &Path, known: u64) -> ExitCode {
    let mut redactor = Redactor::new(known_values(known));
    let mut file = File::open(file).expect("the log was written");
    let mut part = vec![0; READ];
    let (mut out, mut sink) = (Vec::new(), io::sink());
    loop {
        let count = file.read(&mut part).expect("the log can be read");
        if count == 0 {
            break;
        }
        redactor.push(&part[..count], &mut out);
        sink.write_all(&out).expect("a sink takes everything");
        out.clear();
    }
    redactor.finish(&mut out);
    ExitCode::SUCCESS
}

fn compare(is_quick: bool) -> ExitCode {
    let (megabytes, rounds) = if is_quick { (64, 3) } else { (256, 7) };
    let scratch = tempfile::tempdir().expect("a directory can be made");
    let log = scratch.path().join("build.log");
    write_log(&log, megabytes);
    let counts = scratch.path().join("counts");
    println!("| secrets | words | redactor MB/s | grep -F MB/s | ratio | target |");
    println!("|---|---:|---:|---:|---:|---|");
    for known in [0, 3, 30] {
        let words = Redactor::new(known_values(known)).words();
        let patterns = scratch.path().join("patterns");
        fs::write(&patterns, words.join(&b'\n')).expect("a file can be written");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.extend(cpu_of_run(
                Command::new(this_program()).arg("--redact-file").arg(&log).arg(known.to_string()),
            ));
            // Into a file: `grep` stops at its first hit when it sees that nobody reads.
            let mut grep = Command::new("sh");
            grep.env("LC_ALL", "C").args(["-c", "exec grep -c -F -f \"$1\" \"$2\" > \"$3\"", "sh"]);
            theirs.extend(cpu_of_run(grep.args([&patterns, &log, &counts])));
        }
        let length = fs::metadata(&log).expect("the log was written").len() as f64 / 1e6;
        let (ours, theirs) = (length / median(ours), length / median(theirs));
        let count = words.len();
        let ratio = ours / theirs;
        println!(
            "| rules, {known} values | {count} | {ours:.0} | {theirs:.0} | {ratio:.2} | ≥ 0.50, ≥ 200 MB/s |"
        );
    }
    ExitCode::SUCCESS
}

/// The log of the tests, again and again.
fn write_log(path: &Path, megabytes: usize) {
    let mut file = File::create(path).expect("a file can be made");
    for _ in 0..(megabytes * 1_000_000).div_ceil(BUILD_LOG.len()) {
        file.write_all(BUILD_LOG.as_bytes()).expect("there is room for the log");
    }
}

/// Values that look random and are always the same.
fn known_values(count: u64) -> Vec<String> {
    let value = |seed: u64| {
        let scrambled = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        format!("{:016x}/{:016X}", scrambled, scrambled.rotate_left(23) ^ 0x5DEE_CE66)
    };
    (0..count).map(value).collect()
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program's own path")
}
