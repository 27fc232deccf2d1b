//! Leaving a wish: what `wk cancel`, `kill`, `retry`, `pause` and `resume` have in common.

use std::path::PathBuf;

use super::locate::Found;
use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::disk::{BusError, is_absent};
use crate::bus::lease::Lease;
use crate::bus::{Disk, Durability};
use crate::format::wish::{self, Verb, Wish};
use crate::model::TaskKey;
use crate::model::handoff::Choices;
use crate::watcher::run::wall_now;

/// Who asks, as the story tells it.
pub fn asker() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "the user".to_owned())
}

/// Puts the wish where the batch's watcher looks.
pub fn leave(
    desk: &Desk,
    found: &Found,
    verb: Verb,
    task: Option<TaskKey>,
    why: Option<String>,
) -> Result<PathBuf, Trouble> {
    leave_with(desk, found, verb, task, why, Choices::new())
}

/// The same, with what becomes of conflicts.
pub fn leave_with(
    desk: &Desk,
    found: &Found,
    verb: Verb,
    task: Option<TaskKey>,
    why: Option<String>,
    choices: Choices,
) -> Result<PathBuf, Trouble> {
    let bytes = wish::render(&Wish { verb, task, by: asker(), why, choices });
    let disk = desk.disk();
    let dir = found.paths.control();
    disk.make_dirs(&dir).map_err(BusError::of("make", &dir))?;
    let path = dir.join(format!("{}-{}-{}.json", verb.word(), wall_now().0, std::process::id()));
    match disk.publish(&path, &bytes, Durability::Synced) {
        // A wish for the end may be granted, and the batch archived, before we have synced its directory.
        Err(error) if is_absent(&error) && is_for_an_end(verb) && !found.paths.dir().exists() => Ok(path),
        published => {
            published.map(|()| path.clone()).map_err(|error| BusError::of("publish", &path)(error).into())
        }
    }
}

fn is_for_an_end(verb: Verb) -> bool {
    matches!(verb, Verb::Cancel | Verb::Kill)
}

/// Leaves a wish about a batch that is under way, and says what happens with it.
pub fn ask(
    desk: &Desk,
    found: &Found,
    verb: Verb,
    task: Option<TaskKey>,
    why: Option<String>,
    what: &str,
) -> Outcome {
    if found.is_archived {
        return Err(Trouble::new(Exit::BadRequest, format!("batch {} has already ended", found.id))
            .hint("`wk retry` takes up what failed in it"));
    }
    let path = leave(desk, found, verb, task, why)?;
    let is_watched = Lease::holder(&desk.layout).is_some();
    if desk.json {
        super::print_json(&serde_json::json!({ "wish": path, "watched": is_watched }));
    } else if is_watched {
        terminal::print(&format!("asked for {what}\n"));
    } else {
        terminal::print(&format!("asked for {what}; the next watcher grants it\n"));
        terminal::tell("hint: no watcher runs on this bus; `wk watch --once` grants it now");
    }
    Ok(Exit::Done)
}

/// `BATCH/TASK`, or `TASK` where that is clear: its batch and its key.
pub fn task_named(desk: &Desk, name: &str) -> Result<(Found, TaskKey), Trouble> {
    let found = locate::task(desk, name)?;
    let key = found.state.key(found.task).clone();
    Ok((found.batch, key))
}
