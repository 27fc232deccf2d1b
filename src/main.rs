//! The `wk` binary: an exit code, and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    watchkeeper::face::cli::main()
}
