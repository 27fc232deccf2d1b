//! `wk agent next|beat|done|exec`: the comfortable way for an agent from outside. Everything it does can be done
//! by writing files; this only does it atomically and with the right attempt number.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::agent::granted::Granted;
use crate::bus::layout::BatchPaths;
use crate::bus::outsider::{self, Delivery, Offer, Wanted};
use crate::bus::{platform, version};
use crate::format::heartbeat::{self, Beat};
use crate::format::result::{self, Done as DoneFields};
use crate::format::take::{self, Take};
use crate::model::{Attempt, BatchId, TaskKey, TaskType};
use crate::watcher::run::wall_now;

/// The agent's side of the protocol.
#[derive(Args)]
#[command(after_help = "Examples:
  task=$(wk agent next --type executor --wait 60) || exit
  wk agent exec \"$task\" -- make check      (beats while it runs, and reports how it ended)
  wk agent beat \"$task\" --progress \"Step 2 of 5\"
  wk agent done \"$task\" --created src/new.rs --tokens 1200
  wk agent done \"$task\" --status failed --error \"the build is red\"
  wk agent done --created src/new.rs        (in an agent that wk started)")]
pub struct Agent {
    #[command(subcommand)]
    verb: AgentVerb,
}

#[derive(Subcommand)]
enum AgentVerb {
    /// Takes a ready task, so that nobody else does, and prints its name BATCH/TASK#ATTEMPT
    Next(Next),
    /// Writes a heartbeat
    Beat(BeatVerb),
    /// Delivers the result
    Done(DoneVerb),
    /// Runs a command for a task: beats while it runs, and reports how it ended
    Exec(super::agent_exec::Exec),
    /// Runs one prepared attempt to its end: what launchers start
    Run(RunVerb),
}

impl Agent {
    pub fn run(self, desk: &Desk) -> Outcome {
        match self.verb {
            AgentVerb::Next(verb) => verb.run(desk),
            AgentVerb::Beat(verb) => verb.run(desk),
            AgentVerb::Done(verb) => verb.run(desk),
            AgentVerb::Exec(verb) => verb.run(desk),
            AgentVerb::Run(verb) => verb.run(),
        }
    }
}

/// Runs one prepared attempt to its end: what launchers start.
///
/// Holds the attempt's lock for life, starts the agent as its launch.json says, beats for it, keeps its logs
/// without secrets, ends it and all that descends from it at its limits, and leaves its exit record. Does
/// nothing where somebody else has begun the attempt. `wk-runner DIR` is the same, and starts faster.
#[derive(Args)]
#[command(after_help = "Example:\n  wk agent run .ce/orchestration/tasks/batch-43/attempts/2a/1")]
struct RunVerb {
    /// The attempt's folder
    attempt: PathBuf,
}

impl RunVerb {
    fn run(self) -> Outcome {
        let attempt = std::path::absolute(&self.attempt).unwrap_or(self.attempt);
        match crate::agent::runner::run(&attempt, None, Granted::default()) {
            Ok(()) => Ok(Exit::Done),
            Err(error) => Err(Trouble::new(Exit::BadRequest, error.to_string())
                .hint("an attempt is prepared by the watcher, which also starts its runner")),
        }
    }
}

/// Takes a ready task, so that nobody else does, and prints its name BATCH/TASK#ATTEMPT.
///
/// Ends with 1 if there is none. With --json the whole spec is printed.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk agent next\n  wk agent next --type reviewer --batch 43 --wait 60\n  wk agent next --json"
)]
struct Next {
    /// Only tasks of this type: generator, executor, reviewer or context-updater
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only tasks of this batch
    #[arg(long)]
    batch: Option<String>,
    /// Waits up to so many seconds for one
    #[arg(long, value_name = "SECONDS")]
    wait: Option<f64>,
    /// Who takes it (default: user and process)
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Prints the spec's path instead of the task's name
    #[arg(long)]
    path: bool,
}

impl Next {
    fn run(self, desk: &Desk) -> Outcome {
        let wanted = Wanted { kind: self.kind()?, batch: self.batch_id()? };
        let by = self.by.clone().unwrap_or_else(|| {
            let user = std::env::var("USER").unwrap_or_else(|_| "agent".to_owned());
            format!("{user}, process {}", std::process::id())
        });
        let take = take::render(&Take {
            by,
            host: Some(platform::host_name()),
            pid: Some(std::process::id()),
            at: Some(wall_now().rfc3339()),
        });
        let disk = desk.disk();
        let started = platform::monotonic_ms();
        let patience_ms = (self.wait.unwrap_or(0.0).max(0.0) * 1000.0) as u64;
        loop {
            if let Some(offer) = outsider::take_next(&disk, &desk.layout, &wanted, &take)? {
                self.print(desk, &offer);
                return Ok(Exit::Done);
            }
            if platform::monotonic_ms() - started >= patience_ms {
                if let Some(batch) = &wanted.batch {
                    version::check_batch(&disk, &desk.layout.batch(batch))?;
                }
                return Err(none_ready(&outsider::paused(&disk, &desk.layout, &wanted)?));
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "a follower looks now and then; nothing waits for it"
            )]
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn kind(&self) -> Result<Option<TaskType>, Trouble> {
        let Some(word) = &self.kind else { return Ok(None) };
        TaskType::parse(word).map(Some).ok_or_else(|| {
            let known: Vec<&str> = TaskType::ALL.iter().map(|kind| kind.word()).collect();
            Trouble::new(Exit::BadRequest, format!("--type {word}: must be one of {}", known.join(", ")))
        })
    }

    fn batch_id(&self) -> Result<Option<BatchId>, Trouble> {
        let Some(name) = &self.batch else { return Ok(None) };
        let id = name.strip_prefix("batch-").unwrap_or(name);
        BatchId::parse(id)
            .map(Some)
            .map_err(|defect| Trouble::new(Exit::BadRequest, format!("--batch {name} {defect}")))
    }

    fn print(&self, desk: &Desk, offer: &Offer) {
        if desk.json {
            terminal::print(&String::from_utf8_lossy(&offer.spec));
        } else if self.path {
            terminal::print(&format!("{}\n", offer.spec_path.display()));
        } else {
            terminal::print(&format!("{}/{}#{}\n", offer.batch, offer.key, offer.attempt));
        }
    }
}

fn none_ready(paused: &[(BatchId, String)]) -> Trouble {
    let trouble = Trouble::new(Exit::Failure, "no task is ready");
    let trouble = paused.iter().fold(trouble, |trouble, (batch, by)| {
        trouble.hint(format!("{by} paused batch {batch}; `wk resume {batch}` lets it go on"))
    });
    trouble.hint("--wait SECONDS waits for one; `wk status` shows what runs")
}

/// Writes a heartbeat. At least every 30 seconds, while you work.
#[derive(Args, Default)]
#[command(
    after_help = "Examples:\n  wk agent beat 43/2a#1\n  wk agent beat 43/2a#1 --progress \"Step 2 of 5\" --tokens 12500"
)]
pub(super) struct BeatVerb {
    /// BATCH/TASK#ATTEMPT as `next` printed it, BATCH/TASK, or TASK where that is clear; an agent that wk
    /// started may leave it out
    pub(super) task: Option<String>,
    /// What you are doing
    #[arg(long)]
    pub(super) progress: Option<String>,
    /// Tokens used so far
    #[arg(long, value_name = "COUNT")]
    pub(super) tokens: Option<u64>,
    /// Which attempt you are, if the name does not say it
    #[arg(long, value_name = "NUMBER")]
    pub(super) attempt: Option<u64>,
}

impl BeatVerb {
    pub(super) fn run(self, desk: &Desk) -> Outcome {
        let place = Place::find(desk, &own_name(self.task)?, self.attempt)?;
        let beat = Beat {
            attempt: place.attempt,
            task_id: Some(place.task_id),
            status: Some("in_progress".to_owned()),
            progress: self.progress,
            tokens_used: self.tokens,
            elapsed_seconds: None,
            last_update: Some(wall_now().rfc3339()),
            warnings: Vec::new(),
        };
        let bytes = heartbeat::render(&beat);
        match outsider::beat(&desk.disk(), &place.paths, &place.key, place.attempt, &bytes)? {
            true => Ok(Exit::Done),
            false => Err(is_over(desk, &place.name, place.attempt)),
        }
    }
}

/// Delivers the result.
#[derive(Args, Default)]
#[command(
    after_help = "Examples:\n  wk agent done 43/2a#1 --created src/new.rs --tokens 1200\n  wk agent done 43/2a#1 --status failed --error \"the build is red\"\n  wk agent done 43/2a#1 --from result.json"
)]
pub(super) struct DoneVerb {
    /// BATCH/TASK#ATTEMPT as `next` printed it, BATCH/TASK, or TASK where that is clear; an agent that wk
    /// started may leave it out
    pub(super) task: Option<String>,
    /// success or failed
    #[arg(long)]
    pub(super) status: Option<String>,
    /// A file that you created; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) created: Vec<String>,
    /// A file that you modified; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) modified: Vec<String>,
    /// A file that you removed on purpose; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) deleted: Vec<String>,
    /// Why nothing of what the task declares had to be changed
    #[arg(long, value_name = "WHY")]
    pub(super) no_change_needed: Option<String>,
    /// A commit that you made; may be given several times
    #[arg(long, value_name = "COMMIT")]
    pub(super) commit: Vec<String>,
    /// What went wrong; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(super) error: Vec<String>,
    /// Tokens used in all
    #[arg(long, value_name = "COUNT")]
    pub(super) tokens: Option<u64>,
    /// Which attempt you are, if the name does not say it
    #[arg(long, value_name = "NUMBER")]
    pub(super) attempt: Option<u64>,
    /// A JSON object with the result, or parts of it; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) from: Option<PathBuf>,
}

impl DoneVerb {
    pub(super) fn run(self, desk: &Desk) -> Outcome {
        let name = own_name(self.task)?;
        let place = Place::find(desk, &name, self.attempt)?;
        let partial = match &self.from {
            Some(path) => read_object(path)?,
            None => Map::new(),
        };
        let mark = own_mark(desk, &place);
        let fields = DoneFields {
            task_id: place.task_id,
            status: self.status,
            attempt: place.attempt,
            mark,
            files_created: self.created,
            files_modified: self.modified,
            files_deleted: self.deleted,
            no_change_needed: self.no_change_needed,
            commits: self.commit,
            errors: self.error,
            tokens_used: self.tokens,
            ..DoneFields::default()
        };
        let bytes =
            result::render(&fields, partial).map_err(|defects| Trouble::refused("the result", &defects))?;
        let delivery = outsider::deliver(&desk.disk(), &place.paths, &place.key, place.attempt, &bytes)?;
        let path = match delivery {
            Delivery::Made(path) | Delivery::Repeated(path) => path,
            Delivery::NotTheFirst => {
                let message = format!("{} has a result already, and the first one counts", place.name);
                return Err(Trouble::new(Exit::Failure, message)
                    .hint(format!("`wk why {}` tells what came of it", place.name)));
            }
            Delivery::Over => return Err(is_over(desk, &place.name, place.attempt)),
        };
        if desk.json {
            let attempt = place.attempt.map(Attempt::number);
            super::print_json(&serde_json::json!({ "result": path, "attempt": attempt }));
        }
        Ok(Exit::Done)
    }
}

/// The name that was given, or the attempt that we run in.
fn own_name(given: Option<String>) -> Result<String, Trouble> {
    let of = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let own = || Some(format!("{}/{}#{}", of("WK_BATCH")?, of("WK_TASK")?, of("WK_ATTEMPT")?));
    given.or_else(own).ok_or_else(|| {
        Trouble::new(Exit::BadRequest, "which task?")
            .hint("name it as BATCH/TASK#ATTEMPT; only agents that wk started know their own (WK_BATCH, WK_TASK, WK_ATTEMPT)")
    })
}

/// Says that an attempt is over, and how it came to that.
fn is_over(desk: &Desk, name: &str, attempt: Option<Attempt>) -> Trouble {
    let shown = attempt.map_or_else(|| name.to_owned(), |attempt| format!("attempt {attempt} of {name}"));
    let found = locate::task(desk, name).ok();
    let task = found.as_ref().map(|found| &found.state.tasks[found.task]);
    let own = task.and_then(|task| task.tries.iter().find(|one| Some(one.attempt) == attempt));
    let message = match own.and_then(|one| one.failed_because.as_ref()) {
        Some(because) => format!("{shown} is over: {because}"),
        None => format!("{shown} is over"),
    };
    let trouble = Trouble::new(Exit::Failure, message);
    match task.and_then(crate::model::state::TaskState::live_attempt).filter(|live| Some(*live) != attempt) {
        Some(live) => trouble.hint(format!("attempt {live} is out now; leave the task to it")),
        None => trouble.hint(format!("`wk why {name}` tells how it came to this")),
    }
}

/// The mark of the attempt that we run in, if it is the one that is spoken for.
fn own_mark(desk: &Desk, place: &Place) -> Option<String> {
    let of = |name: &str| std::env::var(name).ok();
    let is_own = of("WK_ROOT").is_some_and(|root| std::path::Path::new(&root) == desk.layout.root())
        && place.paths == desk.layout.batch(&BatchId::parse(&of("WK_BATCH")?).ok()?)
        && of("WK_TASK").as_deref() == Some(place.key.as_str())
        && of("WK_ATTEMPT") == place.attempt.map(|attempt| attempt.to_string());
    if is_own { of(crate::agent::begun::MARK) } else { None }
}

/// Where an agent writes, and for which attempt it speaks.
pub(super) struct Place {
    /// The task as the caller called it, without the attempt.
    name: String,
    pub(super) paths: BatchPaths,
    pub(super) key: TaskKey,
    task_id: String,
    /// Only what the caller said: stamping the attempt that happens to be out would let a given-up agent
    /// speak for its successor.
    pub(super) attempt: Option<Attempt>,
}

impl Place {
    /// Understands `BATCH/TASK#ATTEMPT`, `BATCH/TASK` and `TASK`.
    pub(super) fn find(desk: &Desk, name: &str, said: Option<u64>) -> Result<Place, Trouble> {
        let (name, number) = match name.split_once('#') {
            Some((name, number)) => (name, Some(number.parse::<u64>().unwrap_or(0))),
            None => (name, None),
        };
        let attempt = match said.or(number) {
            None => None,
            Some(number) => Some(
                Attempt::from_wire(number)
                    .ok_or_else(|| Trouble::new(Exit::BadRequest, "an attempt's number counts from 1"))?,
            ),
        };
        if let Some(place) = Place::on_disk(desk, name, attempt) {
            version::check_batch(&desk.disk(), &place.paths)?;
            return Ok(place);
        }
        let found = locate::task(desk, name)?;
        let task = &found.state.tasks[found.task];
        if found.batch.is_archived || task.is_done() {
            return Err(Trouble::new(Exit::Failure, format!("task {name} is not running"))
                .hint(format!("`wk why {name}` tells how it came to this")));
        }
        let task_id = task.spec.task_id.clone();
        let is_out = attempt.is_none_or(|said| task.live_attempt() == Some(said));
        if !is_out {
            return Err(is_over(desk, name, attempt));
        }
        Ok(Place {
            name: name.to_owned(),
            key: task.spec.key.clone(),
            paths: found.batch.paths,
            task_id,
            attempt,
        })
    }

    /// The cheap way: an attempt's outbox shows that it is out, and nothing need be folded.
    fn on_disk(desk: &Desk, name: &str, attempt: Option<Attempt>) -> Option<Place> {
        let (batch, key) = name.split_once('/')?;
        let batch = BatchId::parse(batch.strip_prefix("batch-").unwrap_or(batch)).ok()?;
        let key = TaskKey::parse(key).ok()?;
        let paths = desk.layout.batch(&batch);
        // An outbox is there from an attempt's beginning to its end.
        let is_out = paths.outbox(&key, attempt?).dir().is_dir();
        let (name, task_id) = (name.to_owned(), key.as_str().to_owned());
        is_out.then_some(Place { name, paths, key, task_id, attempt })
    }
}

fn read_object(path: &std::path::Path) -> Result<Map<String, Value>, Trouble> {
    use std::io::Read;
    let shown = path.display().to_string();
    let mut bytes = Vec::new();
    let read = if shown == "-" {
        std::io::stdin().lock().take(crate::bus::RESULT_BYTES_MAX + 1).read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    read.map_err(|error| Trouble::new(Exit::BadRequest, format!("{shown}: {error}")))?;
    crate::format::json::parse_object(&bytes).map_err(|defect| Trouble::refused(&shown, &[defect]))
}
