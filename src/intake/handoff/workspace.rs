//! Which directory may be a workspace: one of the user's own, that no other request and not the bus lies
//! around, and that nobody else can swap.
//!
//! Looks through the port and makes nothing; a batch makes its workspace when it begins.

use std::path::{Path, PathBuf};

use super::{Reading, ground, occupied, paths};
use crate::format::shortened;
use crate::intake::{Entry, Surroundings};
use crate::model::containment::INSIDE_GIT;
use crate::model::handoff::Dialect;
use crate::model::workspace::WorkspacePaths;

/// The administrator's: whatever leads through links of theirs is as they want it.
const ADMINISTRATOR: u32 = 0;

/// Reads the field. `None` only where no path could be made out, so that the rest can still be judged.
pub(super) fn read(text: &str, place: &str, reading: &mut Reading<'_>) -> Option<PathBuf> {
    let path = match paths::read(text, None) {
        Ok(path) => path,
        Err(why) => {
            let message = format!("{:?} {why}", shortened(text));
            reading.report.refuse("bad_workspace", place, message, "write the whole path, from '/' on");
            return None;
        }
    };
    let around = reading.around;
    let place_objection = objection_to_place(&path, around).or_else(|| objection_to_way(&path, around));
    let objection = place_objection.or_else(|| match around.entry(&path) {
        Some(entry) => objection_to_entry(&entry, around.user()),
        None => objection_to_parent(&path, around),
    });
    if let Some((why, remedy)) = objection {
        let message = format!("{:?} {why}", shortened(text));
        reading.report.refuse("bad_workspace", place, message, remedy);
        return Some(path);
    }
    // The batch makes it, or works in it.
    let made_in = if around.entry(&path).is_some() { Some(path.as_path()) } else { path.parent() };
    if let Some(dir) = made_in.filter(|dir| !around.may_write(dir)) {
        let message = format!("{:?}: nothing can be written in {}", shortened(text), dir.display());
        let remedy = "choose another place, or let yourself write there";
        reading.report.refuse("workspace_unwritable", place, message, remedy);
    }
    occupied::judge(&path, place, reading);
    if around.entry(&path).is_some_and(|entry| entry.mode & 0o002 != 0) {
        reading.report.warn(place, "everybody may write there; other users can change what agents made");
    }
    Some(path)
}

type Objection = (String, &'static str);

fn objection(why: &str, remedy: &'static str) -> Option<Objection> {
    Some((why.to_owned(), remedy))
}

/// What speaks against the place, wherever its links lead.
fn objection_to_place(path: &Path, around: &dyn Surroundings) -> Option<Objection> {
    const ELSEWHERE: &str = "choose a directory of its own, such as /tmp/orchestration/exec-001";
    let real = really(path, around);
    for path in [path, real.as_path()] {
        if let Some(why) = ground::objection_to_workspace(path) {
            return objection(why, ELSEWHERE);
        }
        if holds_home(path, around) {
            return objection(HOME, ELSEWHERE);
        }
        if paths::is_inside_git(path) {
            return objection(INSIDE_GIT, ELSEWHERE);
        }
        if is_inside_bus(path, around) {
            return objection(
                "is inside the bus",
                "choose a directory beside .ce; the one that holds it is fine",
            );
        }
        if let Some(outer) = path.ancestors().skip(1).find(|dir| is_workspace(dir, around)) {
            let why = format!("is inside another workspace, {}", outer.display());
            return Some((why, "give each request a workspace of its own"));
        }
    }
    None
}

/// What speaks against a tree that agents may write, and that is kept before they begin, wherever its links lead.
pub(super) fn objection_to_tree(path: &Path, around: &dyn Surroundings) -> Option<&'static str> {
    let real = really(path, around);
    [path, real.as_path()].into_iter().find_map(|path| {
        ground::objection_to_codebase(path)
            .or(holds_home(path, around).then_some(HOME))
            .or(paths::is_inside_git(path).then_some(INSIDE_GIT))
            .or(is_inside_bus(path, around).then_some("is inside the bus"))
    })
}

const HOME: &str = "is your home, or holds it";

fn holds_home(path: &Path, around: &dyn Surroundings) -> bool {
    let home = around.home();
    let real = home.as_deref().and_then(|home| around.resolved(home));
    home.iter().chain(&real).any(|home| home.starts_with(path))
}

fn is_inside_bus(path: &Path, around: &dyn Surroundings) -> bool {
    paths::without_case(path).starts_with(paths::without_case(&around.bus_home()))
}

/// A directory is known as a workspace by its status, beside a request in either dialect.
fn is_workspace(dir: &Path, around: &dyn Surroundings) -> bool {
    let paths = WorkspacePaths::new(dir);
    let requests = [Dialect::ExecutionRequest, Dialect::Assignments].map(|dialect| paths.request(dialect));
    let is_there = |path: &PathBuf| around.entry(path).is_some();
    is_there(&paths.status()) && requests.iter().any(is_there)
}

/// The path with the links of what exists of it followed.
pub(super) fn really(path: &Path, around: &dyn Surroundings) -> PathBuf {
    let known = path.ancestors().find_map(|dir| Some((dir, around.resolved(dir)?)));
    match known {
        Some((dir, real)) => real.join(path.strip_prefix(dir).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

/// A link on the way could be turned elsewhere after we have looked.
fn objection_to_way(path: &Path, around: &dyn Surroundings) -> Option<Objection> {
    let is_risky =
        |dir: &&Path| around.entry(dir).is_some_and(|entry| entry.is_link && entry.owner != ADMINISTRATOR);
    let link = path.ancestors().skip(1).find(is_risky)?;
    Some((format!("leads through the link {}", link.display()), "write the path that the link leads to"))
}

fn objection_to_entry(entry: &Entry, user: u32) -> Option<Objection> {
    if entry.is_link {
        return objection("is a link", "write the path that it leads to");
    }
    if !entry.is_directory() {
        return objection("is not a directory", "choose another path, or move what stands there");
    }
    if entry.owner != user {
        let why = format!("belongs to user {}, and we are user {user}", entry.owner);
        return Some((why, "choose a directory of your own"));
    }
    if entry.mode & 0o700 != 0o700 {
        return objection("cannot be read and written by its owner", "chmod u+rwx it");
    }
    None
}

/// What is not there yet is made by the batch, in a parent where nobody can put something else in its place.
fn objection_to_parent(path: &Path, around: &dyn Surroundings) -> Option<Objection> {
    let parent = path.parent()?;
    let real = around.resolved(parent).unwrap_or_else(|| parent.to_owned());
    let Some(entry) = around.entry(&real) else {
        let why = format!("cannot be made: {} does not exist", parent.display());
        return Some((why, "make that directory, or choose another"));
    };
    if !entry.is_directory() {
        let why = format!("cannot be made: {} is not a directory", parent.display());
        return Some((why, "choose another path"));
    }
    // In a sticky directory only the owner of a name can take it away again.
    let is_sticky = entry.mode & 0o1000 != 0;
    let is_trusted = entry.owner == around.user() || entry.owner == ADMINISTRATOR;
    if !is_sticky && (!is_trusted || entry.mode & 0o002 != 0) {
        let why = format!("is not safe: others may change {}", parent.display());
        return Some((why, "make the workspace yourself first, or choose a directory of your own"));
    }
    None
}
