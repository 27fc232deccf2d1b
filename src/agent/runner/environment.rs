//! What an agent finds in its environment: a short list, and nothing that merely happened to be there.

use std::ffi::{OsStr, OsString};
use std::io;

use super::files;
use crate::agent::begun::MARK;
use crate::agent::environment::{self, EVERYONES};
use crate::agent::granted::Granted;
use crate::bus::layout::AttemptPaths;
use crate::format::order::Order;

/// Values shorter than this stand in logs by chance.
const SECRET_BYTES_MIN: usize = 8;

/// Largest file of values; the kernel takes no more than this for all arguments together.
const VALUES_BYTES_MAX: u64 = 2 << 20;

/// The variables of one agent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Environment {
    pub(super) variables: Vec<(String, OsString)>,
    /// Values that must not stand in any log.
    pub(super) secrets: Vec<String>,
}

impl Environment {
    pub(super) fn get(&self, name: &str) -> Option<&OsString> {
        // The last one wins, as it will for the agent.
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Takes the values that a launcher could not hand on: they are read once, and gone before the agent is there.
pub(super) fn take_values(paths: &AttemptPaths) -> io::Result<Granted> {
    let path = paths.environment();
    let Some(bytes) = files::read(&path, VALUES_BYTES_MAX)? else { return Ok(Granted::default()) };
    files::remove(&path)?;
    Ok(environment::read(&bytes)?)
}

/// Removes the values of an agent that is never started; where that fails, whoever ends the batch does it.
pub(super) fn discard_values(paths: &AttemptPaths) {
    let _ = files::remove(&paths.environment());
}

/// Puts the environment together. `own` is the runner's.
pub(super) fn environment_of(
    order: &Order,
    granted: &Granted,
    own: impl Fn(&str) -> Option<OsString>,
) -> Environment {
    let inherited = |name: &str| granted.values.get(OsStr::new(name)).cloned().or_else(|| own(name));
    let mut environment = Environment { variables: Vec::with_capacity(16), secrets: Vec::new() };
    for name in EVERYONES {
        if let Some(value) = inherited(name) {
            environment.variables.push(((*name).to_owned(), value));
        }
    }
    for rule in &order.env {
        let value = rule.value.as_ref().map(OsString::from).or_else(|| inherited(&rule.name));
        let Some(value) = value else { continue };
        if let Some(text) = value.to_str()
            && !rule.plain
            && text.len() >= SECRET_BYTES_MIN
        {
            environment.secrets.push(text.to_owned());
        }
        environment.variables.push((rule.name.clone(), value));
    }
    environment.variables.extend(our_own(order));
    // Those of other agents stand in this one's log as little as its own.
    let others = granted.secrets.iter().filter(|secret| secret.len() >= SECRET_BYTES_MIN);
    environment.secrets.extend(others.cloned());
    environment.secrets.sort_unstable();
    environment.secrets.dedup();
    environment
}

/// Last, so that no rule can make an agent speak for another attempt.
fn our_own(order: &Order) -> impl Iterator<Item = (String, OsString)> {
    let paths = &order.paths;
    let own: [(&str, OsString); 10] = [
        ("WK_BATCH", order.batch.as_str().into()),
        ("WK_TASK", order.task.as_str().into()),
        ("WK_TASK_ID", order.task_id.as_str().into()),
        ("WK_ATTEMPT", order.attempt.to_string().into()),
        ("WK_AGENT", order.agent.as_str().into()),
        ("WK_ROOT", paths.root.clone().into()),
        ("WK_SPEC", paths.spec.clone().into()),
        ("WK_HEARTBEAT", paths.heartbeat.clone().into()),
        ("WK_RESULT", paths.result.clone().into()),
        (MARK, order.mark.as_str().into()),
    ];
    own.into_iter().map(|(name, value)| (name.to_owned(), value))
}
