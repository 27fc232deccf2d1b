//! `wk retry TASK|--failed`: another try of what ended without success, in a batch under way or archived.
//!
//! The wish is left first; an archived batch is then moved back by one rename, and whoever watches the bus
//! finds both. Without a watcher this process becomes it, until the batch has ended.

use clap::Args;

use super::follow::Progress;
use super::locate::Found;
use super::{Desk, Exit, Outcome, Trouble, locate, run, terminal, wish};
use crate::agent::local::living;
use crate::bus::Disk;
use crate::bus::disk::BusError;
use crate::bus::lease::{Lease, LeaseError};
use crate::format::wish::Verb;
use crate::model::TaskKey;
use crate::model::state::{BatchState, Outcome as Ending, Phase, TaskState};

/// Takes up what ended without success, in a new session with a clean context.
///
/// Whoever was skipped because of it waits again. Works on archived batches too: they are opened again. For an
/// attempt that nobody could confirm gone, naming its task is your word that it is; --failed leaves it alone. Where no
/// watcher runs on the bus, this command watches the batch to its end, like `wk run`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk retry 2a\n  wk retry 43/2a --why \"the server is back\"\n  wk retry --failed\n  wk retry --failed 43"
)]
pub struct Retry {
    /// TASK, or BATCH/TASK; with --failed, the batch
    name: Option<String>,
    /// All tasks that failed
    #[arg(long)]
    failed: bool,
    /// Although processes that may belong to its last attempt are alive
    #[arg(long, conflicts_with = "failed")]
    force: bool,
    /// The reason, for the story and the report
    #[arg(long)]
    why: Option<String>,
    /// Shows no progress, only the summary
    #[arg(long, short)]
    quiet: bool,
}

impl Retry {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        let (mut found, task) = match (&self.name, self.failed) {
            (name, true) => (locate::batch_or_only(desk, name.as_deref())?, None),
            (Some(name), false) => wish::task_named(desk, name).map(|(found, key)| (found, Some(key)))?,
            (None, false) => {
                return Err(Trouble::new(Exit::BadRequest, "which task?")
                    .hint("`wk retry TASK`, or `wk retry --failed` for all that failed"));
            }
        };
        let (state, _) = found.load(&desk.disk())?;
        match &task {
            Some(_) if self.force => {}
            Some(key) => check_that_it_is_gone(&found, &state, key)?,
            None => tell_whom_it_leaves_alone(&found, &state),
        }
        check_that_it_helps(&found, &state, task.as_ref())?;
        wish::leave(desk, &found, Verb::Retry, task, self.why)?;
        if found.is_archived {
            let back = desk.layout.batch(&found.id);
            let moved = desk.disk().move_tree(found.paths.dir(), back.dir());
            moved.map_err(BusError::of("open again", found.paths.dir()))?;
        }
        match Lease::take(&desk.layout) {
            Ok(lease) => run::watch(desk, lease, found.id, &mut Progress::new(desk, self.quiet)),
            Err(LeaseError::Held { .. }) => {
                match desk.json {
                    true => super::print_json(
                        &serde_json::json!({ "batch": found.id.to_json(), "watched": true }),
                    ),
                    false => terminal::print(&format!("asked for another try in batch {}\n", found.id)),
                }
                Ok(Exit::Done)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A retry never starts beside a survivor by mistake.
fn check_that_it_is_gone(found: &Found, state: &BatchState, key: &TaskKey) -> Result<(), Trouble> {
    let Some(task) = state.find(key.as_str()).map(|ix| &state.tasks[ix]) else { return Ok(()) };
    let Some(unconfirmed) = task.unconfirmed() else { return Ok(()) };
    let alive: Vec<String> =
        living(&unconfirmed.suspects).iter().map(|suspect| suspect.pid.to_string()).collect();
    if alive.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{}/{key}: processes that may belong to its last attempt are alive: {}",
        found.id,
        alive.join(", ")
    );
    Err(Trouble::new(Exit::BadRequest, text)
        .hint("end them first; if you know that they are somebody else's, `wk retry --force`"))
}

/// Nobody gave their word for these.
fn tell_whom_it_leaves_alone(found: &Found, state: &BatchState) {
    for task in state.tasks.iter().filter(|task| task.can_be_tried_again()) {
        if let Some(unconfirmed) = task.unconfirmed() {
            let address = format!("{}/{}", found.id, task.spec.key);
            terminal::tell(&format!(
                "note: {address} is left alone: nobody could confirm that it is gone ({}); \
                 when you are sure, `wk retry {address}`",
                unconfirmed.why
            ));
        }
    }
}

/// A wish that would change nothing is told at once, with the reason.
fn check_that_it_helps(found: &Found, state: &BatchState, task: Option<&TaskKey>) -> Result<(), Trouble> {
    let refuse = |text: String| Err(Trouble::new(Exit::BadRequest, text));
    match task.and_then(|key| state.find(key.as_str())) {
        Some(ix) if !state.tasks[ix].can_be_tried_again() => {
            let word = crate::view::words::Word::of(&state.tasks[ix].phase).shown();
            let trouble =
                refuse(format!("{}/{} is {word}: there is nothing to try again", found.id, state.key(ix)));
            match state.tasks[ix].phase {
                Phase::Done(Ending::Skipped(_)) => trouble.map_err(|trouble| {
                    trouble.hint("retry the task that it was skipped for; `wk why` names it")
                }),
                _ => trouble,
            }
        }
        Some(ix) if state.has_failed_dependency(ix) => {
            let text = format!("{}/{} depends on a task that did not succeed", found.id, state.key(ix));
            Err(Trouble::new(Exit::BadRequest, text)
                .hint("retry that one first: what was skipped for it comes back"))
        }
        Some(_) => Ok(()),
        None if !state.tasks.iter().any(TaskState::has_failed) => {
            refuse(format!("nothing in batch {} has failed", found.id))
        }
        None => Ok(()),
    }
}
