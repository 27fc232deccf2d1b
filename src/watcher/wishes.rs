//! Wishes: files in `control/` by which people and agents ask the watcher for something.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::kept::Kept;
use super::look::unreadable;
use super::{Context, TurnError};
use crate::bus::disk::{BusError, Listed};
use crate::bus::layout::BatchPaths;
use crate::bus::{self, Content, Disk};
use crate::decide::{Asked, Now, Observed, WishSeen};
use crate::format::wish;
use crate::model::Defect;

/// Reads every wish. Those that are granted are removed once the turn is journaled.
pub(super) fn look_at_wishes<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    now: Now,
    observed: &mut Observed,
    granted: &mut Vec<PathBuf>,
) -> Result<(), TurnError> {
    let dir = kept.paths.control();
    let listed = match context.disk.list(&dir) {
        Ok(listed) => listed,
        Err(error) if bus::disk::is_absent(&error) => return Ok(()),
        // Somebody put something else there: then there are no wishes.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(()),
        Err(error) => return Err(BusError::of("list", &dir)(error).into()),
    };
    let is_wish = |name: &OsString| name.to_str().is_some_and(|name| !bus::layout::is_dropping(name));
    let mut listed: Vec<Listed> = listed.into_iter().filter(|entry| is_wish(&entry.name)).collect();
    // In the order in which they were asked: `wk` names them by verb and time.
    listed.sort_by_key(|entry| (time_in(&entry.name), entry.name.clone()));
    for entry in listed {
        let path = dir.join(&entry.name);
        let (content, has_writer) =
            context.disk.read_and_ask(&path, bus::NOTE_BYTES_MAX).map_err(BusError::of("read", &path))?;
        let (read, look) = match content {
            Content::Absent | Content::Changing => continue,
            Content::Bytes { bytes, look } => (wish::read(&bytes), Some(look)),
            other => (Err(vec![unreadable(&other, bus::NOTE_BYTES_MAX)]), None),
        };
        match read {
            Ok(wish) if !is_about_this_batch(kept, &wish) => {
                let message = "this batch has no such task";
                let defect = Defect::field("unknown_task", "task", message, "`wk status` lists the tasks");
                bus::quarantine::refuse(context.disk, context.layout, &path, &[defect], now.wall)?;
            }
            Ok(wish) => {
                observed.wishes.push(WishSeen {
                    asked: asked_by(wish.verb),
                    task: wish.task,
                    by: wish.by,
                    why: wish.why,
                    choices: wish.choices,
                });
                granted.push(path);
            }
            Err(defects) => {
                let settle = context.settings.settle;
                if look.is_none() || kept.settling.is_settled(&path, look, has_writer, now.clock, settle) {
                    kept.settling.forget(&path);
                    bus::quarantine::refuse(context.disk, context.layout, &path, &defects, now.wall)?;
                }
            }
        }
    }
    Ok(())
}

/// Who asks for another try, or for another merge, in a batch that has ended.
pub(super) fn wish_to_reopen<D: Disk>(context: &Context<'_, D>, paths: &BatchPaths) -> Option<String> {
    let dir = paths.control();
    let listed = context.disk.list(&dir).ok()?;
    let wishes = listed.iter().filter_map(|entry| {
        match context.disk.read(&dir.join(&entry.name), bus::NOTE_BYTES_MAX).ok()? {
            Content::Bytes { bytes, .. } => wish::read(&bytes).ok(),
            _ => None,
        }
    });
    let mut opening = wishes.filter(|wish| matches!(wish.verb, wish::Verb::Retry | wish::Verb::Resolve));
    opening.next().map(|wish| wish.by)
}

/// The number in `pause-1794835680213-4711.json`; names without one come first.
fn time_in(name: &OsStr) -> u64 {
    let name = name.to_string_lossy();
    name.split('-').find_map(|part| part.parse().ok()).unwrap_or(0)
}

fn asked_by(verb: wish::Verb) -> Asked {
    match verb {
        wish::Verb::Cancel => Asked::Cancel,
        wish::Verb::Kill => Asked::Kill,
        wish::Verb::Retry => Asked::Retry,
        wish::Verb::Pause => Asked::Pause,
        wish::Verb::Resume => Asked::Resume,
        wish::Verb::Resolve => Asked::Resolve,
    }
}

fn is_about_this_batch(kept: &Kept, wish: &wish::Wish) -> bool {
    wish.task.as_ref().is_none_or(|task| kept.state.find(task.as_str()).is_some())
}
