//! `wk kill TASK`: the task ends as failed, with every process of its agent.

use clap::Args;

use super::{Desk, Exit, Outcome, Trouble, terminal, wish};
use crate::format::wish::Verb;
use crate::view::words::Word;

/// Ends one task as failed, with every process of its agent.
///
/// An agent that was started is asked first (TERM), given kill_grace_seconds, and then killed with everything
/// that descends from it. An outsider cannot be killed: its attempt is given up, and what it still sends is
/// put aside. `wk retry` takes the task up again.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk kill 2a\n  wk kill 43/2a --why \"going in circles\"")]
pub struct Kill {
    /// TASK, or BATCH/TASK
    task: String,
    /// The reason, for the story and the report
    #[arg(long)]
    why: Option<String>,
}

impl Kill {
    pub fn run(self, desk: &Desk) -> Outcome {
        let (mut found, key) = wish::task_named(desk, &self.task)?;
        let (state, _) = found.load(&desk.disk())?;
        if let Some(task) = state.find(key.as_str()).map(|ix| &state.tasks[ix]) {
            if task.is_done() && !found.is_archived {
                let word = Word::of(&task.phase).shown();
                let text = format!("{}/{key} is {word}: there is nothing to end", found.id);
                return Err(Trouble::new(Exit::BadRequest, text));
            }
            if let Some(unconfirmed) = task.unconfirmed() {
                terminal::tell(&format!(
                    "note: whatever is known to be of {}/{key} was ended; of the rest nobody can tell: {}",
                    found.id, unconfirmed.why
                ));
            }
        }
        let what = format!("the end of {}/{key}", found.id);
        wish::ask(desk, &found, Verb::Kill, Some(key), self.why, &what)
    }
}
