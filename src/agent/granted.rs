//! Values that agents are granted, on their way from the environment that `wk` was started with to the agents alone.
//!
//! Every process of a user can read the environment of every other one. So a `wk` that starts agents executes itself
//! anew with a short environment, and hands itself the rest through a descriptor; runners get theirs through a pipe.
//! Nothing here decides who is granted what: that is the settings' business.

#![expect(
    clippy::disallowed_methods,
    reason = "a program that is to have another environment must be executed anew"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use crate::bus::platform;
use crate::format::order::Order;

/// What `wk` itself, tmux and the system's own libraries look at; agents get none of it by that.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "COLUMNS",
    "LINES",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TZ",
    "TMPDIR",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "XDG_RUNTIME_DIR",
    "INVOCATION_ID",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "LD_LIBRARY_PATH",
];
/// Locale, and our own: the mark of an attempt, among them, by which whoever is left of it is found.
const KEPT_PREFIXES: &[&str] = &["LC_", "WK_"];

/// Where the rest is: `PID:DESCRIPTOR`. A program keeps its number when it executes itself.
const PLACE: &str = "WK_ENVIRONMENT";
/// What the descriptor's file is called.
const NAME: &str = "wk-environment";
/// What ends an entry; no variable can hold it.
const END: u8 = 0;

type Variables = BTreeMap<OsString, OsString>;

static HIDDEN: OnceLock<Variables> = OnceLock::new();

/// Gets everything but a short list out of this program's environment. Returns in the program that has the short one,
/// and where that cannot be had, with a word about it.
pub fn hide_environment() {
    if let Some(hidden) = take_hidden() {
        let _ = HIDDEN.set(hidden);
        return;
    }
    let (kept, hidden): (Variables, Variables) = std::env::vars_os().partition(|(name, _)| is_kept(name));
    if hidden.is_empty() || !cfg!(target_os = "linux") {
        return;
    }
    let error = match leave(&hidden) {
        Ok(place) => execute_with(kept, &place),
        Err(error) => error,
    };
    log::warn!("agents can read the environment of this process: {error}");
}

/// A variable as `wk` was given it.
pub fn inherited(name: &str) -> Option<OsString> {
    HIDDEN.get().and_then(|hidden| hidden.get(OsStr::new(name)).cloned()).or_else(|| std::env::var_os(name))
}

fn is_kept(name: &OsStr) -> bool {
    let is_ours = |name: &str| {
        name != PLACE && (KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
    };
    name.to_str().is_some_and(is_ours)
}

/// Leaves variables in memory that only a descriptor leads to, and says which.
fn leave(variables: &Variables) -> io::Result<String> {
    let mut file = anonymous_file()?;
    for (name, value) in variables {
        file.write_all(name.as_bytes())?;
        file.write_all(b"=")?;
        file.write_all(value.as_bytes())?;
        file.write_all(&[END])?;
    }
    file.rewind()?;
    Ok(format!("{}:{}", std::process::id(), file.into_raw_fd()))
}

#[cfg(target_os = "linux")]
fn anonymous_file() -> io::Result<File> {
    // Not closed by the execution that follows at once, and closed before anything else is started.
    Ok(File::from(rustix::fs::memfd_create(NAME, rustix::fs::MemfdFlags::empty())?))
}

#[cfg(not(target_os = "linux"))]
fn anonymous_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns only where it is refused.
fn execute_with(kept: Variables, place: &str) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut words = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).env_clear().envs(kept).env(PLACE, place).exec()
}

/// What this program left for itself; nothing if the note is another one's.
fn take_hidden() -> Option<Variables> {
    let place = std::env::var(PLACE).ok()?;
    let (pid, descriptor) = place.split_once(':')?;
    if pid.parse() != Ok(std::process::id()) {
        return None;
    }
    let descriptor: i32 = descriptor.parse().ok()?;
    let named = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    if !named.as_os_str().as_bytes().starts_with(format!("/memfd:{NAME}").as_bytes()) {
        return None;
    }
    let mut bytes = Vec::new();
    platform::own_descriptor(descriptor).read_to_end(&mut bytes).ok()?;
    Some(bytes.split(|byte| *byte == END).filter_map(variable).collect())
}

fn variable(entry: &[u8]) -> Option<(OsString, OsString)> {
    let middle = entry.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((text(&entry[..middle]), text(&entry[middle + 1..])))
}

/// What a runner is given beside its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// Variables that its order names, and those of earlier orders where a nursery keeps them.
    pub values: Variables,
    /// Values of all agents, which stand in no log.
    pub secrets: BTreeSet<String>,
}

impl Granted {
    /// The values of the variables that an order names.
    pub fn to(order: &Order, secrets: &BTreeSet<String>) -> Granted {
        let named = order.env.iter().filter(|rule| rule.value.is_none()).map(|rule| rule.name.as_str());
        let names = super::environment::EVERYONES.iter().copied().chain(named);
        let values = names.filter_map(|name| Some((name.into(), inherited(name)?))).collect();
        Granted { values, secrets: secrets.clone() }
    }

    /// What of it is not in another one, as entries of a stream.
    pub fn entries_beyond(&self, known: &Granted) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in
            self.values.iter().filter(|(name, value)| known.values.get(*name) != Some(*value))
        {
            bytes.extend([b"V", name.as_bytes(), b"=", value.as_bytes(), &[END]].concat());
        }
        for secret in self.secrets.difference(&known.secrets) {
            bytes.extend([b"S", secret.as_bytes(), &[END]].concat());
        }
        bytes
    }

    /// Takes in one entry of such a stream. `false` if it is of another kind.
    pub fn take_entry(&mut self, entry: &[u8]) -> bool {
        match entry.split_first() {
            Some((b'V', rest)) => self.values.extend(variable(rest)),
            Some((b'S', rest)) => self.secrets.extend(String::from_utf8(rest.to_vec())),
            _ => return false,
        }
        true
    }

    pub fn extend(&mut self, other: Granted) {
        self.values.extend(other.values);
        self.secrets.extend(other.secrets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_comes_out_of_a_stream_as_it_went_in() {
        let mut granted = Granted::default();
        granted.values.insert("A".into(), OsString::from_vec(vec![0xff, b'=', b'\n']));
        granted.secrets.insert("two\nlines".to_owned());
        let mut read = Granted::default();
        for entry in granted.entries_beyond(&read).split(|byte| *byte == END).filter(|part| !part.is_empty())
        {
            assert!(read.take_entry(entry));
        }
        assert_eq!(read, granted);
        assert_eq!(granted.entries_beyond(&read), b"");
        assert!(!read.take_entry(b"P/a/path"));
    }

    #[test]
    fn only_what_wk_itself_looks_at_stays_in_its_environment() {
        let kept = |name: &str| is_kept(OsStr::new(name));
        assert!(kept("PATH") && kept("LC_ALL") && kept("WK_MARK"));
        assert!(!kept("OPENAI_API_KEY") && !kept("SSH_AUTH_SOCK") && !kept(PLACE));
    }

    #[test]
    fn what_was_left_in_a_descriptor_is_what_is_found_there() {
        let Ok(place) = leave(&BTreeMap::from([("A".into(), "b=c".into())])) else { return };
        let descriptor = place.split_once(':').unwrap().1.parse().unwrap();
        let mut file = platform::own_descriptor(descriptor);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"A=b=c\0");
    }
}
