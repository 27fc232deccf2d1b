//! The command line: one file a verb. Here are the verbs, what they share, and how an error is told.

mod agent;
mod agent_exec;
mod attach;
mod cancel;
mod check;
mod doctor;
mod doctor_agents;
mod evidence;
mod follow;
mod generate;
mod ground;
mod init;
mod kill;
mod locate;
mod logs;
mod pause;
mod quarantine;
mod rehearse;
mod report;
mod resolve;
mod resolve_choices;
mod retry;
mod run;
mod status;
mod submit;
mod terminal;
mod undo;
mod verify;
mod watch;
mod why;
mod wish;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::agent::granted;
use crate::agent::launcher::{self, Hint};
use crate::agent::local::LocalRunners;
use crate::agent::runners::Runners;
use crate::agent::surroundings::LocalSurroundings;
use crate::agent::veil::Veil;
use crate::bus::access::Trust;
use crate::bus::disk::BusError;
use crate::bus::layout::AttemptPaths;
use crate::bus::lease::{Lease, LeaseError};
use crate::bus::version::{self, VersionError};
use crate::bus::{Layout, RealDisk};
use crate::format;
use crate::model::event::BatchStatus;
use crate::model::preset::PRESETS;
use crate::model::{Batch, Defect, Grade, Settings};
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
    /// Somebody is waited for.
    Awaiting,
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
            Exit::Awaiting => 6,
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

    /// Something that only a newer wk understands. This one is the wrong program, and has done nothing.
    fn newer(text: String) -> Self {
        Trouble::new(Exit::BadRequest, text).hint(
            "nothing was touched; use the wk that wrote it, or a later one (`wk --version` tells this one's)",
        )
    }

    /// A request with defects, each with its place and remedy; of many the rest is counted.
    fn refused(name: &str, defects: &[Defect]) -> Self {
        let count = crate::view::words::counted(defects.len(), "defect");
        let mut text = format!("{name} has {count}");
        let (shown, rest) = crate::view::defects::detailed(defects);
        for defect in shown {
            text.push_str(&format!("\n  {}\n    {}", defect, defect.remedy));
        }
        let trouble = |text| Trouble::new(Exit::BadRequest, text);
        match rest {
            Some(rest) => trouble(format!("{text}\n  {rest}")).hint("`wk check FILE --json` lists them all"),
            None => trouble(text),
        }
    }
}

impl From<BusError> for Trouble {
    fn from(error: BusError) -> Self {
        Trouble::new(Exit::Disk, error.to_string()).hint("`wk doctor` measures what this file system can do")
    }
}

impl From<TurnError> for Trouble {
    fn from(error: TurnError) -> Self {
        let trouble = |exit| Trouble::new(exit, error.to_string());
        match error {
            TurnError::Newer(error) => error.into(),
            TurnError::Superseded { .. } => trouble(Exit::Held),
            TurnError::LockGone { .. } => trouble(Exit::Held)
                .hint("this watcher has stopped; see that no agent of the old bus is left, then start `wk watch` again")
                .hint("`wk init` keeps `git clean` and `git stash` away from the bus"),
            _ => trouble(Exit::Disk),
        }
    }
}

impl From<VersionError> for Trouble {
    fn from(error: VersionError) -> Self {
        match error {
            VersionError::Newer { .. } => Trouble::newer(error.to_string()),
            VersionError::Disk(error) => error.into(),
        }
    }
}

impl From<LoadError> for Trouble {
    fn from(error: LoadError) -> Self {
        if error.is_newer() {
            return Trouble::newer(error.to_string());
        }
        Trouble::new(Exit::Disk, error.to_string())
            .hint("the batch's files are untouched; `wk doctor` says which line and what to do")
    }
}

impl From<LeaseError> for Trouble {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Held { .. } => Trouble::new(Exit::Held, error.to_string())
                .hint("`wk submit FILE` hands that watcher a request, `wk status --follow` shows its work"),
            LeaseError::Foreign { .. } => Trouble::new(Exit::Disk, error.to_string())
                .hint("remove it if that user runs no watcher here; a bus has one owner, who watches it"),
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
  wk rehearse plan.md --fail 2a how it would go, played through in no time; starts nothing
  wk run plan.md                accept it, watch it to the end, print the summary
  wk agent next --type executor --wait 60
                                take the next task, as an agent from outside
  wk run plan.md --agent claude every task by this agent, started, watched and logged
  wk logs 2a -f                 what the agent prints
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
    /// Plays a plan through on a virtual clock: stages, critical path, what would be lost
    Rehearse(rehearse::Rehearse),
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
    /// Shows why a task has its grade of evidence, finding by finding
    Evidence(evidence::Evidence),
    /// Reports on a batch: summary, batch result, timeline, or in the words of another orchestrator
    Report(report::Report),
    /// Prints what a task's agent printed
    Logs(logs::Logs),
    /// Shows the tmux session that a task's agent runs in
    Attach(attach::Attach),
    /// Asks for the end of a batch or of one task
    Cancel(cancel::Cancel),
    /// Ends one task as failed, with every process of its agent
    Kill(kill::Kill),
    /// Takes up what ended without success
    Retry(retry::Retry),
    /// Decides conflicts between outputs, and lets the merge go on
    Resolve(resolve::Resolve),
    /// Checks a finished batch again
    Verify(verify::Verify),
    /// Puts the work trees back as they were before a handed-over batch
    Undo(undo::Undo),
    /// Lets nothing further begin in a batch
    Pause(pause::Pause),
    /// Lets a paused batch go on
    Resume(pause::Resume),
    /// Lists what was refused, shows why, and gives it another try
    Quarantine(quarantine::Quarantine),
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

impl Verb {
    /// Whether it reads or writes files of the bus. `wk doctor` does too, and tells what it finds.
    fn opens_the_bus(&self) -> bool {
        !matches!(
            self,
            Verb::Rehearse(_) | Verb::Doctor(_) | Verb::Schema(_) | Verb::Completions(_) | Verb::Man(_)
        )
    }
}

impl Verb {
    /// Whether agents may run below this very process, who could look into its environment.
    fn starts_agents(&self) -> bool {
        matches!(self, Verb::Run(_) | Verb::Watch(_) | Verb::Verify(_))
    }
}

/// What a verb works with.
struct Desk {
    layout: Layout,
    settings: Settings,
    /// What `--require` asks for.
    demanded: Option<Grade>,
    json: bool,
}

impl Desk {
    fn open(shared: &Shared, verb: &Verb) -> Result<Desk, Trouble> {
        let here = std::env::current_dir()
            .map_err(|error| Trouble::new(Exit::Disk, format!("the current directory: {error}")))?;
        let root = match &shared.root {
            Some(root) => std::fs::canonicalize(root).map_err(|error| {
                Trouble::new(Exit::BadRequest, format!("--root {}: {error}", root.display()))
            })?,
            // Like `git init`: here, although a directory above may have a bus.
            None if matches!(verb, Verb::Init(_)) => here,
            None => Layout::nearest_root(&here),
        };
        let layout = Layout::new(root);
        if verb.opens_the_bus() {
            // Before the settings are read: a newer wk knows more of them.
            version::check_bus(&RealDisk::default(), &layout)?;
        }
        let settings = read_settings(&layout, &shared.settings)?;
        check_agent(&settings)?;
        Ok(Desk { layout, settings, demanded: None, json: shared.json })
    }

    /// Orders and records name places in JSON, which has no word for other bytes.
    fn check_root(&self) -> Result<(), Trouble> {
        let root = self.layout.root();
        if root.to_str().is_some() {
            return Ok(());
        }
        let text = format!("the root {} has a path that is not UTF-8", root.display());
        Err(Trouble::new(Exit::BadRequest, text)
            .hint("rename the directory, or name another one with --root DIR"))
    }

    fn disk(&self) -> RealDisk {
        let trust = Trust::on(&self.layout.bus(), &self.settings.trusted_uids);
        RealDisk::new(!self.settings.journal_sync).trusting(trust)
    }

    fn runners(&self) -> Box<dyn Runners> {
        Box::new(LocalRunners::new(&self.settings))
    }

    /// What agents say is shown through it.
    fn veil(&self, batch: &Batch) -> Veil {
        Veil::for_batch(&self.settings, batch)
    }

    fn surroundings(&self) -> LocalSurroundings {
        let here = LocalSurroundings::of(&self.layout);
        if Lease::holder(&self.layout).is_some() { here.for_another_watcher() } else { here }
    }

    /// The same for verbs that start nothing themselves.
    fn surroundings_of_others(&self) -> LocalSurroundings {
        LocalSurroundings::of(&self.layout).for_another_watcher()
    }

    /// Whether some launcher still keeps something of the attempt for people to look at.
    fn has_session(&self, attempt: &AttemptPaths) -> bool {
        let looked_at = launcher::all(&self.settings).into_iter().filter(|one| one.capabilities().can_attach);
        let attempt = std::slice::from_ref(attempt);
        looked_at.flat_map(|one| one.poll(attempt)).any(|hint| matches!(hint, Hint::Running | Hint::Ended))
    }

    /// Raises the evidence that is required, if the call says so.
    fn require(&mut self, grade: Option<&str>) -> Result<(), Trouble> {
        let Some(word) = grade else { return Ok(()) };
        let demanded = Grade::parse(word).ok_or_else(|| {
            Trouble::new(Exit::BadRequest, format!("--require {word}: must be claimed, observed or verified"))
        })?;
        self.settings.require = demanded;
        self.demanded = Some(demanded);
        Ok(())
    }
}

/// An agent for all tasks that nobody knows is told at once, not task by task.
fn check_agent(settings: &Settings) -> Result<(), Trouble> {
    let Some(name) = &settings.agents.for_all else { return Ok(()) };
    settings.agents.known(name).map_err(|unknown| {
        let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let trouble = Trouble::new(Exit::BadRequest, unknown.to_string());
        let trouble = match unknown.nearest {
            Some(near) => trouble.hint(format!("did you mean '{near}'?")),
            None => trouble,
        };
        trouble
            .hint(format!("name it in settings as [agents.{name}], or take a preset: {}", presets.join(", ")))
    })
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
    if cli.verb.starts_agents() {
        granted::hide_environment();
    }
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(trouble) => {
            terminal::tell_trouble(&trouble.text, &trouble.hints);
            trouble.exit.into()
        }
    }
}

fn dispatch(cli: Cli) -> Outcome {
    let mut desk = Desk::open(&cli.shared, &cli.verb)?;
    match cli.verb {
        Verb::Init(verb) => verb.run(&desk),
        Verb::Check(verb) => verb.run(&mut desk),
        Verb::Rehearse(verb) => verb.run(&desk),
        Verb::Run(verb) => verb.run(&mut desk),
        Verb::Watch(verb) => verb.run(&mut desk),
        Verb::Submit(verb) => verb.run(&mut desk),
        Verb::Status(verb) => verb.run(&desk),
        Verb::Why(verb) => verb.run(&desk),
        Verb::Evidence(verb) => verb.run(&desk),
        Verb::Report(verb) => verb.run(&desk),
        Verb::Logs(verb) => verb.run(&desk),
        Verb::Attach(verb) => verb.run(&desk),
        Verb::Cancel(verb) => verb.run(&desk),
        Verb::Kill(verb) => verb.run(&desk),
        Verb::Retry(verb) => verb.run(&mut desk),
        Verb::Resolve(verb) => verb.run(&mut desk),
        Verb::Verify(verb) => verb.run(&desk),
        Verb::Undo(verb) => verb.run(&desk),
        Verb::Pause(verb) => verb.run(&desk),
        Verb::Resume(verb) => verb.run(&desk),
        Verb::Quarantine(verb) => verb.run(&desk),
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
