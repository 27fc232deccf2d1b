//! What an agent is granted, for a launcher that has no pipe to its runner: a file that only this user can read, which
//! the runner removes before it starts the agent.

#![expect(clippy::disallowed_methods, reason = "the file must have its mode from its first moment on")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use serde::{Deserialize, Serialize};

use super::granted::Granted;
use crate::bus::disk::is_absent;
use crate::bus::layout::AttemptPaths;

/// What every agent has, where we have it.
pub const EVERYONES: &[&str] = &["PATH", "HOME", "LANG", "TERM"];

/// The file. JSON has no word for other bytes than text.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Left {
    values: BTreeMap<String, String>,
    secrets: BTreeSet<String>,
}

/// Leaves what the agent is granted in the attempt's folder.
pub(super) fn leave(granted: &Granted, paths: &AttemptPaths) -> Result<(), String> {
    let path = paths.environment();
    let text = |value: &OsString| value.to_str().map(str::to_owned);
    // A terminal has its own TERM.
    let values = granted.values.iter().filter(|(name, _)| *name != "TERM");
    let left = Left {
        values: values.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect(),
        secrets: granted.secrets.clone(),
    };
    let bytes = serde_json::to_vec(&left).map_err(|error| error.to_string())?;
    // Made anew: one that a crash left may be half written, and its mode somebody else's.
    let _ = std::fs::remove_file(&path);
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    made.and_then(|mut file| file.write_all(&bytes)).map_err(|error| {
        discard(paths);
        format!("{}: {error}", path.display())
    })
}

/// What such a file holds.
pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Granted> {
    let Left { values, secrets } = serde_json::from_slice(bytes)?;
    let values = values.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Ok(Granted { values, secrets })
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
