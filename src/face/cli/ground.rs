//! The ground that a bus stands on: makes its directories, and says what may sweep it away. Git removes untracked
//! files with `git clean` and `git stash -u`, and a bus that it does not ignore is nothing but untracked files.

use std::path::Path;

use super::{Desk, Trouble};
use crate::bus::disk::BusError;
use crate::bus::{Content, Disk, Durability, NOTE_BYTES_MAX, access};

/// What every file of the bus falls under.
const EVERYTHING: &str = "*\n";

/// Makes what is missing of the bus. A bus that was not there is kept out of git from its beginning. `true` if it is new.
pub fn prepare(desk: &Desk) -> Result<bool, Trouble> {
    desk.check_root()?;
    let disk = desk.disk();
    let bus = desk.layout.bus();
    let is_new = disk.look(&bus).map_err(BusError::of("look at", &bus))?.is_none();
    for dir in desk.layout.directories() {
        disk.make_dirs(&dir).map_err(BusError::of("make", &dir))?;
    }
    // One that an older wk made, or that was shared and is not any more, too.
    for dir in desk.layout.directories().into_iter().chain([bus]) {
        access::share(&dir, desk.settings.shared).map_err(BusError::of("close", &dir))?;
    }
    if is_new {
        hide_from_git(desk)?;
    }
    Ok(is_new)
}

/// Leaves a `.gitignore` on the bus unless there is one. `true` if there was none.
pub fn hide_from_git(desk: &Desk) -> Result<bool, Trouble> {
    let (disk, path) = (desk.disk(), desk.layout.gitignore());
    if disk.look(&path).map_err(BusError::of("look at", &path))?.is_some() {
        return Ok(false);
    }
    disk.publish(&path, EVERYTHING.as_bytes(), Durability::Synced).map_err(BusError::of("publish", &path))?;
    Ok(true)
}

/// What git could do to the bus, where it does not ignore it: a sentence, with the remedy.
pub fn exposure(desk: &Desk) -> Option<String> {
    let layout = &desk.layout;
    let repository = layout.root().ancestors().find(|dir| dir.join(".git").exists())?;
    if is_ignored(desk, repository) {
        return None;
    }
    Some(format!(
        "git does not ignore {}: `git clean -fd` and `git stash -u` would remove the bus with its batches; put a \
         line `*` into {}",
        layout.bus().display(),
        layout.gitignore().display()
    ))
}

/// Whether a `.gitignore` says so in plain words. Patterns that would need git to be understood are not believed.
fn is_ignored(desk: &Desk, repository: &Path) -> bool {
    let bus = desk.layout.bus();
    if lines(desk, &desk.layout.gitignore()).iter().any(|line| matches!(line.as_str(), "*" | "**")) {
        return true;
    }
    bus.ancestors().skip(1).take_while(|dir| dir.starts_with(repository)).any(|dir| {
        let covers = |line: &String| {
            let plain = line.trim_start_matches('/').trim_end_matches("/**").trim_end_matches("/*");
            let plain = plain.trim_end_matches('/');
            !plain.is_empty() && bus.starts_with(dir.join(plain))
        };
        let exclude = repository.join(".git/info/exclude");
        let own = lines(desk, &dir.join(".gitignore"));
        own.iter().any(covers) || (dir == repository && lines(desk, &exclude).iter().any(covers))
    })
}

fn lines(desk: &Desk, path: &Path) -> Vec<String> {
    match desk.disk().read(path, NOTE_BYTES_MAX) {
        Ok(Content::Bytes { bytes, .. }) => {
            String::from_utf8_lossy(&bytes).lines().map(|line| line.trim().to_owned()).collect()
        }
        _ => Vec::new(),
    }
}
