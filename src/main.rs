//! The `wk` binary: an exit code, and nothing else.

use std::process::ExitCode;

/// What a script sees of a bug.
const BUG: u8 = 70;

fn main() -> ExitCode {
    // The panic has told itself on standard error; the code tells scripts that the fault is ours.
    std::panic::catch_unwind(watchkeeper::face::cli::main).unwrap_or(ExitCode::from(BUG))
}
