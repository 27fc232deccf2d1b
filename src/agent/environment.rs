//! The values of an agent's environment for a launcher that cannot hand ours on: a file that only this user
//! can read, which the runner removes before it starts the agent.

#![expect(clippy::disallowed_methods, reason = "the file must have its mode from its first moment on")]

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use crate::bus::disk::is_absent;
use crate::bus::layout::AttemptPaths;
use crate::format::order::Order;

/// What every agent has, where we have it.
pub const EVERYONES: &[&str] = &["PATH", "HOME", "LANG", "TERM"];

/// Leaves the inherited values that the order names in the attempt's folder.
pub(super) fn leave(order: &Order, paths: &AttemptPaths) -> Result<(), String> {
    let path = paths.environment();
    let named = order.env.iter().filter(|rule| rule.value.is_none()).map(|rule| rule.name.as_str());
    // A terminal has its own TERM.
    let names = EVERYONES.iter().copied().filter(|name| *name != "TERM").chain(named);
    let values: BTreeMap<&str, String> =
        names.filter_map(|name| Some((name, std::env::var(name).ok()?))).collect();
    let bytes = serde_json::to_vec(&values).map_err(|error| error.to_string())?;
    // Made anew: one that a crash left may be half written, and its mode somebody else's.
    let _ = std::fs::remove_file(&path);
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    made.and_then(|mut file| file.write_all(&bytes)).map_err(|error| {
        discard(paths);
        format!("{}: {error}", path.display())
    })
}

/// Removes what no runner will take any more: values must not outlive their attempt.
pub(super) fn discard(paths: &AttemptPaths) {
    let path = paths.environment();
    match std::fs::remove_file(&path) {
        Err(error) if !is_absent(&error) => {
            log::error!("{}: {error}; it holds secrets, remove it", path.display());
        }
        _ => {}
    }
}
