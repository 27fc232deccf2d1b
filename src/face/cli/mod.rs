//! The command line: one file a verb. Here are the verbs, what they share, and how an error is told.

mod agent;
mod cancel;
mod check;
mod doctor;
mod follow;
mod generate;
mod init;
mod locate;
mod report;
mod run;
mod status;
mod submit;
mod terminal;
mod watch;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::bus::disk::BusError;
use crate::bus::lease::LeaseError;
use crate::bus::{Layout, RealDisk};
use crate::format;
use crate::model::event::BatchStatus;
use crate::model::{Defect, Grade, Settings};
use crate::outcome::status::exit_code;
use crate::watcher::TurnError;
use crate::watcher::kept::LoadError;

/// How the process ends. The numbers are a promise to scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failure,
    BadRequest,
    Batch(BatchStatus),
    Interrupted,
    Disk,
    Held,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failure => 1,
            Exit::BadRequest => 2,
            Exit::Batch(status) => exit_code(status),
            Exit::Disk => 74,
            Exit::Held => 75,
            Exit::Interrupted => 130,
        })
    }
}

/// What went wrong, and what to do about it.
#[derive(Debug)]
pub struct Trouble {
    exit: Exit,
    text: String,
    hints: Vec<String>,
}

impl Trouble {
    fn new(exit: Exit, text: impl Into<String>) -> Self {
        Trouble { exit, text: text.into(), hints: Vec::new() }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// A request with defects: all of them, each with its place and remedy.
    fn refused(name: &str, defects: &[Defect]) -> Self {
        let count = crate::view::words::counted(defects.len(), "defect");
        let mut text = format!("{name} has {count}");
        for defect in defects {
            text.push_str(&format!("\n  {}\n    {}", defect, defect.remedy));
        }
        Trouble::new(Exit::BadRequest, text)
    }
}

impl From<BusError> for Trouble {
    fn from(error: BusError) -> Self {
        Trouble::new(Exit::Disk, error.to_string()).hint("`wk doctor` measures what this file system can do")
    }
}

impl From<TurnError> for Trouble {
    fn from(error: TurnError) -> Self {
        let exit = match error {
            TurnError::Superseded { .. } => Exit::Held,
            _ => Exit::Disk,
        };
        Trouble::new(exit, error.to_string())
    }
}

impl From<LoadError> for Trouble {
    fn from(error: LoadError) -> Self {
        Trouble::new(Exit::Disk, error.to_string())
            .hint("the batch's files are untouched; `wk doctor` says which line and what to do")
    }
}

impl From<LeaseError> for Trouble {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Held { .. } => Trouble::new(Exit::Held, error.to_string())
                .hint("`wk submit FILE` hands that watcher a request, `wk status --follow` shows its work"),
            LeaseError::Disk(error) => error.into(),
        }
    }
}

type Outcome = Result<Exit, Trouble>;

/// Runs batches of work by agents, with the file system as the message bus.
#[derive(Parser)]
#[command(name = "wk", version, about, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  wk init                       set up .ce/ in this project
  wk check plan.md              what would happen, and everything that is wrong with the plan
  wk run plan.md                accept it, watch it to the end, print the summary
  wk agent next --type executor --wait 60
                                take the next task, as an agent from outside
  wk why 2a                     how it came to this

Exit codes: 0 success, 1 failure, 2 bad request or usage, 3 partial success, 4 timeout, 5 cancelled,
  6 awaiting a human, 70 bug, 74 disk error, 75 the bus is held, 130 interrupted.";

/// What every verb understands.
#[derive(Args)]
struct Shared {
    /// The directory that holds .ce (default: the nearest one upward that has it, else here)
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Sets any setting for this call, as in --set heartbeat_timeout_seconds=5
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Prints JSON instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Sets up .ce/ in this project
    Init(init::Init),
    /// Validates a request; shows stages, critical path and file conflicts
    Check(check::Check),
    /// Accepts a request, watches it to the end with live progress, prints the summary
    Run(run::Run),
    /// Watches the bus until it is stopped; --once for cron
    Watch(watch::Watch),
    /// Drops a request into the inbox of a running watcher
    Submit(submit::Submit),
    /// Shows the dashboard
    Status(status::Status),
    /// Tells the causal story of a task, from the journal
    Why(why::Why),
    /// Reports on a batch: summary, batch result or timeline
    Report(report::Report),
    /// Asks for the end of a batch or of one task
    Cancel(cancel::Cancel),
    /// The agent's side of the protocol
    Agent(agent::Agent),
    /// Measures what this file system and machine can do, and says what to change
    Doctor(doctor::Doctor),
    /// Prints a JSON Schema, or lists them
    Schema(generate::Schema),
    /// Prints a shell's completions
    Completions(generate::Completions),
    /// Prints the manual page
    Man(generate::Man),
}

/// What a verb works with.
struct Desk {
    layout: Layout,
    settings: Settings,
    json: bool,
}

impl Desk {
    fn open(shared: &Shared) -> Result<Desk, Trouble> {
        let here = std::env::current_dir()
            .map_err(|error| Trouble::new(Exit::Disk, format!("the current directory: {error}")))?;
        let root = match &shared.root {
            Some(root) => std::fs::canonicalize(root).map_err(|error| {
                Trouble::new(Exit::BadRequest, format!("--root {}: {error}", root.display()))
            })?,
            None => Layout::nearest_root(&here),
        };
        let layout = Layout::new(root);
        let settings = read_settings(&layout, &shared.settings)?;
        Ok(Desk { layout, settings, json: shared.json })
    }

    fn disk(&self) -> RealDisk {
        RealDisk::new(!self.settings.journal_sync)
    }

    /// Raises the evidence that is required, if the call says so.
    fn require(&mut self, grade: Option<&str>) -> Result<(), Trouble> {
        let Some(word) = grade else { return Ok(()) };
        self.settings.require = Grade::parse(word).ok_or_else(|| {
            Trouble::new(Exit::BadRequest, format!("--require {word}: must be claimed, observed or verified"))
        })?;
        Ok(())
    }
}

fn read_settings(layout: &Layout, assignments: &[String]) -> Result<Settings, Trouble> {
    let mut settings = Settings::default();
    let path = layout.settings();
    match std::fs::read_to_string(&path) {
        Ok(text) => format::settings::read_toml(&text, &mut settings)
            .map_err(|defects| Trouble::refused(&path.display().to_string(), &defects))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(BusError::of("read", &path)(error).into()),
    }
    for assignment in assignments {
        settings
            .put_text(assignment)
            .map_err(|defect| Trouble::new(Exit::BadRequest, format!("--set: {defect}")))?;
    }
    Ok(settings)
}

/// Runs the command line and says how the process is to end.
pub fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"))
        .format_timestamp(None)
        .format_target(false)
        .init();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not errors; everything else is a bad request.
            let _ = error.print();
            return if error.use_stderr() { Exit::BadRequest.into() } else { Exit::Done.into() };
        }
    };
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(trouble) => {
            terminal::tell_trouble(&trouble.text, &trouble.hints);
            trouble.exit.into()
        }
    }
}

fn dispatch(cli: Cli) -> Outcome {
    let mut desk = Desk::open(&cli.shared)?;
    match cli.verb {
        Verb::Init(verb) => verb.run(&desk),
        Verb::Check(verb) => verb.run(&mut desk),
        Verb::Run(verb) => verb.run(&mut desk),
        Verb::Watch(verb) => verb.run(&mut desk),
        Verb::Submit(verb) => verb.run(&desk),
        Verb::Status(verb) => verb.run(&desk),
        Verb::Why(verb) => verb.run(&desk),
        Verb::Report(verb) => verb.run(&desk),
        Verb::Cancel(verb) => verb.run(&desk),
        Verb::Agent(verb) => verb.run(&desk),
        Verb::Doctor(verb) => verb.run(&desk),
        Verb::Schema(verb) => verb.run(),
        Verb::Completions(verb) => verb.run(),
        Verb::Man(verb) => verb.run(),
    }
}

/// The definition of the command line, for completions and the manual page.
fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Prints a JSON value, for programs.
fn print_json(value: &serde_json::Value) {
    terminal::print(&format!("{value:#}\n"));
}
