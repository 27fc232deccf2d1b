//! The words of `wk resolve` become choices, or everything that is wrong with them is told at once.

use std::path::{Path, PathBuf};

use super::locate::Found;
use super::{Exit, Trouble};
use crate::model::handoff::{Choice, Choices, ConflictBrief};
use crate::model::settings::nearest;
use crate::view::words::counted;
use crate::work_tree::{Hand, Store};

/// What was asked for, as it was written.
pub(super) struct Wanted<'a> {
    pub(super) take: &'a [String],
    pub(super) ours: &'a [String],
    pub(super) base: &'a [String],
    pub(super) delete: &'a [String],
    pub(super) file: &'a [String],
    pub(super) all: Option<&'a str>,
}

/// Something wrong with one choice, and what to do about it.
struct Wrong {
    what: String,
    remedy: String,
}

fn wrong<T>(what: impl Into<String>, remedy: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { what: what.into(), remedy: remedy.into() })
}

impl Wanted<'_> {
    pub(super) fn choices(&self, found: &Found, conflicts: &[ConflictBrief]) -> Result<Choices, Trouble> {
        let mut choices = Choices::new();
        let mut all_wrong = Vec::new();
        for chosen in self.each(found, conflicts) {
            let checked = chosen.and_then(|(conflict, choice)| {
                check_offered(conflict, &choice)?;
                match choices.insert(conflict.id.clone(), choice) {
                    None => Ok(()),
                    Some(_) => wrong(
                        format!("conflict {} ({}) is decided twice", conflict.id, conflict.path),
                        "give one choice for each conflict",
                    ),
                }
            });
            all_wrong.extend(checked.err());
        }
        match &all_wrong[..] {
            [] => Ok(choices),
            [Wrong { what, remedy }] => Err(Trouble::new(Exit::BadRequest, what).hint(remedy)),
            several => {
                let told = several.iter().map(|Wrong { what, remedy }| format!("\n  {what}\n    {remedy}"));
                let what =
                    format!("{} cannot be: {}", counted(several.len(), "choice"), told.collect::<String>());
                Err(Trouble::new(Exit::BadRequest, what).hint("nothing was decided; say all of them again"))
            }
        }
    }

    fn each<'c>(
        &self,
        found: &Found,
        conflicts: &'c [ConflictBrief],
    ) -> Vec<Result<(&'c ConflictBrief, Choice), Wrong>> {
        let mut each = Vec::new();
        if let Some(agent) = self.all {
            let part_of = conflicts.iter().filter(|conflict| conflict.agents.iter().any(|one| one == agent));
            let of_agent = part_of.map(|conflict| Ok((conflict, Choice::Take(agent.to_owned()))));
            let before = each.len();
            each.extend(of_agent);
            if each.len() == before {
                let what = format!("agent '{agent}' has no part in a conflict");
                each.push(wrong(what, "`wk resolve BATCH` lists the conflicts and their agents"));
            }
        }
        each.extend(self.take.iter().map(|given| {
            let (conflict, agent) = pair(conflicts, given, "--take CONFLICT=AGENT")?;
            Ok((conflict, Choice::Take(agent.to_owned())))
        }));
        let kinds = [(self.ours, Choice::Ours), (self.base, Choice::Base), (self.delete, Choice::Delete)];
        for (names, choice) in kinds {
            each.extend(names.iter().map(|name| Ok((named(conflicts, name)?, choice.clone()))));
        }
        each.extend(self.file.iter().map(|given| {
            let (conflict, file) = pair(conflicts, given, "--file CONFLICT=FILE")?;
            check_value(conflict, Path::new(file))?;
            Ok((conflict, Choice::Content(keep(found, Path::new(file))?)))
        }));
        each
    }
}

/// A choice that the conflict does not offer would only be refused later.
fn check_offered(conflict: &ConflictBrief, choice: &Choice) -> Result<(), Wrong> {
    let is_offered = match choice {
        _ if !conflict.choices.is_empty() => conflict.choices.contains(&choice.word()),
        Choice::Take(agent) => conflict.agents.contains(agent),
        _ => true,
    };
    if is_offered {
        return Ok(());
    }
    let what = format!("conflict {} ({}) does not offer '{}'", conflict.id, conflict.path, choice.word());
    wrong(what, format!("it offers {}", conflict.choices.join(", ")))
}

/// What agents contradict each other about in a graph is a value, and only JSON can say one.
fn check_value(conflict: &ConflictBrief, file: &Path) -> Result<(), Wrong> {
    const ABOUT_A_VALUE: &str = "semantic";
    if conflict.class != ABOUT_A_VALUE {
        return Ok(());
    }
    let text = std::fs::read(file).unwrap_or_default();
    match serde_json::from_slice::<serde_json::Value>(&text) {
        Ok(_) => Ok(()),
        Err(why) => wrong(
            format!("{}: not JSON: {why}", file.display()),
            "write the value as JSON; a text stands in quotes",
        ),
    }
}

/// `CONFLICT=WHAT`; what stands before the last `=` may itself hold one.
fn pair<'a, 'b>(
    conflicts: &'a [ConflictBrief],
    given: &'b str,
    form: &str,
) -> Result<(&'a ConflictBrief, &'b str), Wrong> {
    match given.rsplit_once('=') {
        Some((name, what)) => Ok((named(conflicts, name)?, what)),
        None => wrong(format!("{given}: which conflict, and what of it?"), format!("write it as {form}")),
    }
}

/// The conflict of this id or path.
fn named<'a>(conflicts: &'a [ConflictBrief], name: &str) -> Result<&'a ConflictBrief, Wrong> {
    let mut of_path = conflicts.iter().filter(|conflict| conflict.path == name);
    if let Some(conflict) = conflicts.iter().find(|conflict| conflict.id == name) {
        return Ok(conflict);
    }
    match (of_path.next(), of_path.next()) {
        (Some(conflict), None) => Ok(conflict),
        (Some(_), Some(_)) => {
            wrong(format!("there are several conflicts about {name}"), "name one of them by its id")
        }
        (None, _) => {
            let known = conflicts.iter().flat_map(|conflict| [conflict.id.as_str(), conflict.path.as_str()]);
            let remedy = match nearest(name, known) {
                Some(near) => format!("did you mean {near}?"),
                None => "`wk resolve BATCH` lists them".to_owned(),
            };
            wrong(format!("there is no conflict '{name}'"), remedy)
        }
    }
}

/// Keeps the content of a person's own file, so that the merge finds it whatever becomes of the file.
fn keep(found: &Found, file: &Path) -> Result<crate::model::tree::Digest, Wrong> {
    let unreadable = |why: String| Wrong { what: why, remedy: "name a file that can be read".to_owned() };
    let resolved: PathBuf =
        std::fs::canonicalize(file).map_err(|error| unreadable(format!("{}: {error}", file.display())))?;
    if !resolved.is_file() {
        let what = format!("{}: not a file, and only the content of one can be taken", file.display());
        return Err(unreadable(what));
    }
    let kept = Store::open(&found.paths.objects(), Hand::free()).and_then(|store| store.put_file(&resolved));
    kept.map_err(|error| unreadable(error.to_string()))
}
