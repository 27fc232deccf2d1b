//! The parent of one agent: `wk-runner ATTEMPT_DIR`; or the one that bears such parents: `wk-runner --nursery`.
//! Lean on purpose, because every task has one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use watchkeeper::agent::granted::Granted;
use watchkeeper::agent::nursery::{self, NURSERY};

/// What a launcher sees of a call without an attempt's folder, or with one that holds no order.
const USAGE: u8 = 2;

const HELP: &str = "\
Runs one agent and looks after it. `wk` starts it; by hand it is of use only to look into an attempt.

Usage: wk-runner ATTEMPT_DIR

ATTEMPT_DIR is the folder of an attempt that holds its order (launch.json).
";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(dir), None) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        eprintln!("error: usage: wk-runner ATTEMPT_DIR");
        return ExitCode::from(USAGE);
    };
    if dir == Path::new("--help") || dir == Path::new("-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let ran = match dir == Path::new(NURSERY) {
        true => nursery::serve(),
        false => watchkeeper::agent::runner::run(&dir, None, Granted::default()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(USAGE)
        }
    }
}
