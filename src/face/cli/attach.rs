//! `wk attach TASK`: shows the tmux session that a task's agent runs in.

use clap::Args;

use super::{Desk, Exit, Outcome, Trouble, locate};
use crate::agent::launcher::{self, Session};

/// Shows the tmux session that a task's agent runs in.
///
/// Needs the tmux launcher (`wk run --launcher tmux`, or launcher = "tmux" in settings). Leave it with the
/// usual keys (Ctrl-b d): the agent goes on. Inside of tmux it takes the place of the session that you look at,
/// and Ctrl-b L brings that back.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk attach 2a\n  wk attach 43/2a --print")]
pub struct Attach {
    /// TASK, or BATCH/TASK
    task: String,
    /// Prints the command instead of running it
    #[arg(long)]
    print: bool,
}

impl Attach {
    pub fn run(self, desk: &Desk) -> Outcome {
        let found = locate::task(desk, &self.task)?;
        let key = found.state.key(found.task).clone();
        let tries = &found.state.tasks[found.task].tries;
        let mut sessions = tries.iter().rev().filter_map(|one| {
            let attempt = found.batch.paths.attempt(&key, one.attempt);
            Some((Session::of(&attempt)?, attempt))
        });
        let Some((session, attempt)) = sessions.next() else {
            return Err(Trouble::new(
                Exit::BadRequest,
                format!("{}/{key} has no tmux session", found.batch.id),
            )
            .hint("`wk run --launcher tmux` gives every agent one")
            .hint(format!("`wk logs {}/{key} -f` shows what the agent prints", found.batch.id)));
        };
        let (command, session) = (session.attach_command(), &session.name);
        if desk.json {
            super::print_json(&serde_json::json!({ "session": session, "command": command }));
            return Ok(Exit::Done);
        }
        if self.print {
            super::terminal::print(&format!("{}\n", command.join(" ")));
            return Ok(Exit::Done);
        }
        if !desk.has_session(&attempt) {
            let text = format!("the session '{session}' is gone: its batch has ended, or somebody closed it");
            return Err(Trouble::new(Exit::Failure, text)
                .hint("keep_sessions = true leaves sessions open after the batch")
                .hint(format!("`wk logs {}/{key}` shows what the agent printed", found.batch.id)));
        }
        if !super::terminal::can_be_taken_over() {
            return Err(Trouble::new(Exit::Failure, "there is no terminal here to show the session on")
                .hint(format!("on a terminal: {}", command.join(" ")))
                .hint(format!("`wk logs {}/{key} -f` shows what the agent prints", found.batch.id)));
        }
        let error = launcher::become_program(&command);
        Err(Trouble::new(Exit::Failure, format!("tmux: {error}")).hint("install tmux"))
    }
}
