//! `wk agent next|beat|done`: the comfortable way for an agent from outside. Everything it does can be done
//! by writing files; this only does it atomically and with the right attempt number.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::layout::BatchPaths;
use crate::bus::outsider::{self, Offer, Wanted};
use crate::bus::platform;
use crate::format::heartbeat::{self, Beat};
use crate::format::result::{self, Done as DoneFields};
use crate::format::take::{self, Take};
use crate::model::{Attempt, BatchId, TaskKey, TaskType};
use crate::watcher::run::wall_now;

/// The agent's side of the protocol.
#[derive(Args)]
#[command(after_help = "Examples:
  task=$(wk agent next --type executor --wait 60) || exit
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
    /// Runs one prepared attempt to its end: what launchers start
    Run(RunVerb),
}

impl Agent {
    pub fn run(self, desk: &Desk) -> Outcome {
        match self.verb {
            AgentVerb::Next(verb) => verb.run(desk),
            AgentVerb::Beat(verb) => verb.run(desk),
            AgentVerb::Done(verb) => verb.run(desk),
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
        match crate::agent::runner::run(&attempt, None) {
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
                return Err(Trouble::new(Exit::Failure, "no task is ready")
                    .hint("--wait SECONDS waits for one; `wk status` shows what runs"));
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

/// Writes a heartbeat. At least every 30 seconds, while you work.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk agent beat 43/2a#1\n  wk agent beat 43/2a#1 --progress \"Step 2 of 5\" --tokens 12500"
)]
struct BeatVerb {
    /// BATCH/TASK#ATTEMPT as `next` printed it, BATCH/TASK, or TASK where that is clear; an agent that wk
    /// started may leave it out
    task: Option<String>,
    /// What you are doing
    #[arg(long)]
    progress: Option<String>,
    /// Tokens used so far
    #[arg(long, value_name = "COUNT")]
    tokens: Option<u64>,
    /// Which attempt you are, if the name does not say it
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u64>,
}

impl BeatVerb {
    fn run(self, desk: &Desk) -> Outcome {
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
        outsider::beat(&desk.disk(), &place.paths, &place.key, &heartbeat::render(&beat))?;
        Ok(Exit::Done)
    }
}

/// Delivers the result.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk agent done 43/2a#1 --created src/new.rs --tokens 1200\n  wk agent done 43/2a#1 --status failed --error \"the build is red\"\n  wk agent done 43/2a#1 --from result.json"
)]
struct DoneVerb {
    /// BATCH/TASK#ATTEMPT as `next` printed it, BATCH/TASK, or TASK where that is clear; an agent that wk
    /// started may leave it out
    task: Option<String>,
    /// success or failed
    #[arg(long)]
    status: Option<String>,
    /// A file that you created; may be given several times
    #[arg(long, value_name = "FILE")]
    created: Vec<String>,
    /// A file that you modified; may be given several times
    #[arg(long, value_name = "FILE")]
    modified: Vec<String>,
    /// A commit that you made; may be given several times
    #[arg(long, value_name = "COMMIT")]
    commit: Vec<String>,
    /// What went wrong; may be given several times
    #[arg(long, value_name = "TEXT")]
    error: Vec<String>,
    /// Tokens used in all
    #[arg(long, value_name = "COUNT")]
    tokens: Option<u64>,
    /// Which attempt you are, if the name does not say it
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u64>,
    /// A JSON object with the result, or parts of it; - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

impl DoneVerb {
    fn run(self, desk: &Desk) -> Outcome {
        let place = Place::find(desk, &own_name(self.task)?, self.attempt)?;
        let partial = match &self.from {
            Some(path) => read_object(path)?,
            None => Map::new(),
        };
        let fields = DoneFields {
            task_id: place.task_id,
            status: self.status,
            attempt: place.attempt,
            files_created: self.created,
            files_modified: self.modified,
            commits: self.commit,
            errors: self.error,
            tokens_used: self.tokens,
            ..DoneFields::default()
        };
        let bytes =
            result::render(&fields, partial).map_err(|defects| Trouble::refused("the result", &defects))?;
        let path = outsider::deliver(&desk.disk(), &place.paths, &place.key, &bytes)?;
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

/// Where an agent writes, and for which attempt it speaks.
struct Place {
    paths: BatchPaths,
    key: TaskKey,
    task_id: String,
    /// Only what the caller said: stamping the attempt that happens to be out would let a given-up agent
    /// speak for its successor.
    attempt: Option<Attempt>,
}

impl Place {
    /// Understands `BATCH/TASK#ATTEMPT`, `BATCH/TASK` and `TASK`.
    fn find(desk: &Desk, name: &str, said: Option<u64>) -> Result<Place, Trouble> {
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
            return Ok(place);
        }
        let found = locate::task(desk, name)?;
        let task = &found.state.tasks[found.task];
        if found.batch.is_archived || task.is_done() {
            return Err(Trouble::new(Exit::Failure, format!("task {name} is not running"))
                .hint(format!("`wk why {name}` tells how it came to this")));
        }
        let task_id = task.spec.task_id.clone();
        Ok(Place { key: task.spec.key.clone(), paths: found.batch.paths, task_id, attempt })
    }

    /// The cheap way: an attempt's folder shows that the batch has this task, and nothing need be folded.
    fn on_disk(desk: &Desk, name: &str, attempt: Option<Attempt>) -> Option<Place> {
        let (batch, key) = name.split_once('/')?;
        let batch = BatchId::parse(batch.strip_prefix("batch-").unwrap_or(batch)).ok()?;
        let key = TaskKey::parse(key).ok()?;
        let paths = desk.layout.batch(&batch);
        let folder = paths.attempt(&key, attempt?);
        let has_begun = folder.dir().is_dir();
        has_begun.then(|| Place { task_id: key.as_str().to_owned(), paths, key, attempt })
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
