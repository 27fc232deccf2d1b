//! CPU time and memory of other processes, and medians.

use std::fs;
use std::process::{Command, Stdio};

/// The median of what was measured; zero of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// CPU seconds that all threads of a living process have used, to the nanosecond.
pub fn cpu_seconds(process: u32) -> f64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return 0.0 };
    let nanoseconds: f64 = threads
        .flatten()
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        })
        .sum();
    nanoseconds / 1e9
}

/// The most memory that a living process ever held, in megabytes.
pub fn most_memory_megabytes(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0 / 1e6
}

/// Runs a command to its end and returns the CPU seconds that it used; `None` if it cannot be run or fails.
pub fn cpu_of_run(command: &mut Command) -> Option<f64> {
    let before = ended_children_seconds();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(|| ended_children_seconds() - before)
}

/// CPU seconds of all children that have ended and were waited for.
#[expect(unsafe_code, reason = "getrusage has no safe wrapper; it fills the one structure that it is given")]
fn ended_children_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
