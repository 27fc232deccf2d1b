//! `wk resolve BATCH`: says what becomes of conflicts between outputs, so that the merge goes on. No agent runs
//! again.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::follow::Progress;
use super::locate::Found;
use super::{Desk, Exit, Outcome, Trouble, locate, run, terminal, wish};
use crate::bus::RealDisk;
use crate::bus::lease::{Lease, LeaseError};
use crate::format::wish::Verb;
use crate::model::handoff::{Choice, Choices, ConflictBrief, MergeOutcome};
use crate::model::settings::nearest;
use crate::view::escape::one_line;
use crate::view::words::counted;
use crate::work_tree::{Hand, Store};

/// Decides conflicts between the outputs of agents, and lets the merge go on.
///
/// Without a choice it lists the conflicts that wait. A choice is for one conflict, by its id or by its path;
/// conflicts.json in the workspace shows the versions. Where no watcher runs on the bus, this command watches the
/// batch to its end, like `wk run`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk resolve exec-001\n  wk resolve exec-001 --take c-1f3a=code-generator\n  wk resolve exec-001 --take src/app.py=code-reviewer --base README.md\n  wk resolve exec-001 --file src/app.py=merged-by-hand.py\n  wk resolve exec-001 --all code-generator"
)]
pub struct Resolve {
    /// The batch
    batch: String,
    /// This agent's version counts
    #[arg(long, value_name = "CONFLICT=AGENT")]
    take: Vec<String>,
    /// What the agents that fit together made
    #[arg(long, value_name = "CONFLICT")]
    ours: Vec<String>,
    /// As it was before the agents
    #[arg(long, value_name = "CONFLICT")]
    base: Vec<String>,
    /// Nothing is to be there
    #[arg(long, value_name = "CONFLICT")]
    delete: Vec<String>,
    /// The content of this file counts
    #[arg(long, value_name = "CONFLICT=FILE")]
    file: Vec<String>,
    /// This agent's version counts in every conflict that it has a part in
    #[arg(long, value_name = "AGENT")]
    all: Option<String>,
    /// Shows no progress, only the summary
    #[arg(long, short)]
    quiet: bool,
}

impl Resolve {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        let mut found = locate::batch(desk, &self.batch)?;
        let (state, _) = found.load(&RealDisk::default())?;
        let merged = state.handoff.as_ref().and_then(|handoff| handoff.merged.as_ref());
        let waiting = merged.filter(|_| state.awaits_resolution() && !found.is_archived);
        let Some(merged) = waiting else {
            let what = format!("no conflict of batch {} waits for a person", found.id);
            return Err(Trouble::new(Exit::BadRequest, what)
                .hint(format!("`wk status {}` says how it stands", found.id)));
        };
        let choices = self.choices(&found, &merged.conflicts)?;
        if choices.is_empty() {
            list(desk, &found, merged);
            return Ok(Exit::Awaiting);
        }
        wish::leave_with(desk, &found, Verb::Resolve, None, None, choices)?;
        match Lease::take(&desk.layout) {
            Ok(lease) => {
                let mut progress = Progress::new(desk, self.quiet);
                run::watch(desk, lease, found.id, &mut progress)
            }
            Err(LeaseError::Held { .. }) => {
                if !desk.json {
                    terminal::print("told the watcher; it merges again\n");
                }
                Ok(Exit::Done)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn choices(&self, found: &Found, conflicts: &[ConflictBrief]) -> Result<Choices, Trouble> {
        let mut choices = Choices::new();
        let mut choose = |conflict: &ConflictBrief, choice: Choice| {
            check_offered(conflict, &choice)?;
            match choices.insert(conflict.id.clone(), choice) {
                None => Ok(()),
                Some(_) => {
                    let what = format!("conflict {} ({}) is decided twice", conflict.id, conflict.path);
                    Err(Trouble::new(Exit::BadRequest, what).hint("give one choice for each conflict"))
                }
            }
        };
        let part_of =
            |agent: &String| conflicts.iter().filter(|conflict| conflict.agents.contains(agent)).collect();
        let all: Vec<&ConflictBrief> = self.all.as_ref().map(part_of).unwrap_or_default();
        if let (Some(agent), true) = (&self.all, all.is_empty()) {
            return Err(Trouble::new(Exit::BadRequest, format!("agent '{agent}' has no part in a conflict")));
        }
        for conflict in all {
            choose(conflict, Choice::Take(self.all.clone().unwrap_or_default()))?;
        }
        for given in &self.take {
            let (conflict, agent) = pair(conflicts, given, "--take CONFLICT=AGENT")?;
            if conflict.choices.is_empty() && !conflict.agents.iter().any(|known| known == agent) {
                let known = conflict.agents.join(", ");
                let what = format!("--take {given}: agent '{agent}' has no part in it");
                return Err(Trouble::new(Exit::BadRequest, what).hint(format!("its agents are {known}")));
            }
            choose(conflict, Choice::Take(agent.to_owned()))?;
        }
        let kinds = [(&self.ours, Choice::Ours), (&self.base, Choice::Base), (&self.delete, Choice::Delete)];
        for (names, choice) in kinds {
            for name in names {
                choose(named(conflicts, name)?, choice.clone())?;
            }
        }
        for given in &self.file {
            let (conflict, file) = pair(conflicts, given, "--file CONFLICT=FILE")?;
            check_value(conflict, Path::new(file))?;
            choose(conflict, Choice::Content(keep(found, Path::new(file))?))?;
        }
        Ok(choices)
    }
}

/// A choice that the conflict does not offer would only be refused later.
fn check_offered(conflict: &ConflictBrief, choice: &Choice) -> Result<(), Trouble> {
    if conflict.choices.is_empty() || conflict.choices.contains(&choice.word()) {
        return Ok(());
    }
    let what = format!("conflict {} ({}) does not offer '{}'", conflict.id, conflict.path, choice.word());
    Err(Trouble::new(Exit::BadRequest, what).hint(format!("it offers {}", conflict.choices.join(", "))))
}

/// What agents contradict each other about in a graph is a value, and only JSON can say one.
fn check_value(conflict: &ConflictBrief, file: &Path) -> Result<(), Trouble> {
    const ABOUT_A_VALUE: &str = "semantic";
    if conflict.class != ABOUT_A_VALUE {
        return Ok(());
    }
    let text = std::fs::read(file).unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&text).map(drop).map_err(|why| {
        let what = format!("{}: not JSON: {why}", file.display());
        Trouble::new(Exit::BadRequest, what).hint("write the value as JSON; a text stands in quotes")
    })
}

/// `CONFLICT=WHAT`; what stands before the last `=` may itself hold one.
fn pair<'a, 'b>(
    conflicts: &'a [ConflictBrief],
    given: &'b str,
    form: &str,
) -> Result<(&'a ConflictBrief, &'b str), Trouble> {
    let (name, what) = given
        .rsplit_once('=')
        .ok_or_else(|| Trouble::new(Exit::BadRequest, format!("{given}: write it as {form}")))?;
    Ok((named(conflicts, name)?, what))
}

/// The conflict of this id or path.
fn named<'a>(conflicts: &'a [ConflictBrief], name: &str) -> Result<&'a ConflictBrief, Trouble> {
    let mut of_path = conflicts.iter().filter(|conflict| conflict.path == name);
    if let Some(conflict) = conflicts.iter().find(|conflict| conflict.id == name) {
        return Ok(conflict);
    }
    match (of_path.next(), of_path.next()) {
        (Some(conflict), None) => Ok(conflict),
        (Some(_), Some(_)) => {
            let what = format!("there are several conflicts about {name}; name one by its id");
            Err(Trouble::new(Exit::BadRequest, what))
        }
        (None, _) => {
            let known = conflicts.iter().flat_map(|conflict| [conflict.id.as_str(), conflict.path.as_str()]);
            let trouble = Trouble::new(Exit::BadRequest, format!("there is no conflict '{name}'"));
            Err(match nearest(name, known) {
                Some(near) => trouble.hint(format!("did you mean {near}?")),
                None => trouble.hint("`wk resolve BATCH` lists them"),
            })
        }
    }
}

/// Keeps the content of a person's own file, so that the merge finds it whatever becomes of the file.
fn keep(found: &Found, file: &Path) -> Result<crate::model::tree::Digest, Trouble> {
    let resolved: PathBuf = std::fs::canonicalize(file)
        .map_err(|error| Trouble::new(Exit::BadRequest, format!("{}: {error}", file.display())))?;
    if !resolved.is_file() {
        let what = format!("{}: not a file, and only the content of one can be taken", file.display());
        return Err(Trouble::new(Exit::BadRequest, what));
    }
    let store = Store::open(&found.paths.objects(), Hand::free())?;
    Ok(store.put_file(&resolved)?)
}

fn list(desk: &Desk, found: &Found, merged: &MergeOutcome) {
    if desk.json {
        return super::print_json(&json!({"batch_id": found.id.to_json(), "conflicts": merged.conflicts}));
    }
    let count = merged.conflicts.len();
    let verb = if count == 1 { "waits" } else { "wait" };
    let mut text = format!("{} {verb} for a person:\n", counted(count, "conflict"));
    for conflict in &merged.conflicts {
        text.push_str(&format!(
            "  {}  {} ({}; {})\n      {}\n",
            conflict.id,
            one_line(&conflict.path),
            conflict.class,
            conflict.agents.join(", "),
            one_line(&conflict.message)
        ));
        if !conflict.choices.is_empty() {
            text.push_str(&format!("      choices: {}\n", conflict.choices.join(", ")));
        }
    }
    terminal::print(&text);
    terminal::tell(&format!("hint: wk resolve {} --take CONFLICT=AGENT", found.id));
}
