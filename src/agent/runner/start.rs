//! Starts the agent: finds its program, sets the limits that the kernel keeps, and says what to do where it
//! cannot be started.
//!
//! The way through `posix_spawn` is kept open: no closure runs between fork and exec. That is why the
//! session is the runner's own (it calls `setsid` when it starts, and so leaves the watcher's), and the
//! agent leads a process group in it: signals to the watcher's group or terminal reach neither of them.

#![expect(clippy::disallowed_methods, reason = "this is where agents are started")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::Access;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

use super::environment::Environment;
use crate::format::order::Order;
use crate::model::agent::ResourceLimits;

/// The runner itself opens files while it starts the agent, under the limit that is meant for the agent.
const OPEN_FILES_WHILE_STARTING: u64 = 64;

/// Starts the order's command. The error is a sentence for people, with the remedy.
pub(super) fn start(order: &Order, environment: &Environment) -> Result<Child, String> {
    let Some((program, arguments)) = order.command.split_first() else {
        return Err("the agent's command is empty; name a program in its `command`".to_owned());
    };
    // Here and not in the child, where it would cost the fast way of starting one on some systems. All paths
    // of the runner are absolute.
    rustix::process::chdir(&order.cwd).map_err(|error| {
        let what = format!("its working directory {}: {error}", order.cwd.display());
        cannot(program, &what, "create it, or change the agent's `cwd`")
    })?;
    let found = find(program, &order.cwd, environment.get("PATH").map(OsString::as_os_str))?;
    let mut command = Command::new(&found);
    command
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(environment.variables.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(if order.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let kept = KernelLimits::of(&order.limits);
    let own = kept.lower_own();
    let started = command.spawn();
    restore(&own);
    let child = started.map_err(|error| why_not(&error, program, &found))?;
    kept.fix_for(&child);
    Ok(child)
}

/// The program's full path, as the agent's own `PATH` finds it.
fn find(program: &str, cwd: &Path, path: Option<&OsStr>) -> Result<PathBuf, String> {
    if program.contains('/') {
        return Ok(cwd.join(program));
    }
    let directories = path.map(OsStr::as_bytes).unwrap_or_default().split(|byte| *byte == b':');
    let mut refused = None;
    for directory in directories.filter(|directory| !directory.is_empty()) {
        let candidate = cwd.join(OsStr::from_bytes(directory)).join(program);
        match rustix::fs::access(&candidate, Access::EXEC_OK) {
            Ok(()) if candidate.is_file() => return Ok(candidate),
            Err(rustix::io::Errno::ACCESS) => refused = Some(candidate),
            _ => {}
        }
    }
    Err(match refused {
        Some(candidate) => cannot(program, "permission denied", &executable_remedy(&candidate)),
        None => {
            let remedy = "install it, or give its full path in the agent's `command`";
            cannot(program, "not found in PATH", remedy)
        }
    })
}

fn why_not(error: &io::Error, program: &str, found: &Path) -> String {
    use rustix::io::Errno;
    let remedy = match Errno::from_io_error(error) {
        Some(Errno::NOENT) if found.exists() => {
            "the interpreter in its first line is not there; install it or correct that line".to_owned()
        }
        Some(Errno::NOENT) => format!("{} is not there; correct the agent's `command`", found.display()),
        Some(Errno::ACCESS) => executable_remedy(found),
        Some(Errno::NOEXEC) => "let its first line name its interpreter, as in `#!/bin/sh`".to_owned(),
        Some(Errno::TOOBIG) => {
            "its arguments are too long; let the prompt arrive on standard input".to_owned()
        }
        Some(Errno::AGAIN | Errno::NOMEM) => {
            "the system has no room for another process; lower `max_running`".to_owned()
        }
        _ => "see whether it starts by hand".to_owned(),
    };
    cannot(program, &error.to_string(), &remedy)
}

fn executable_remedy(path: &Path) -> String {
    if path.is_dir() {
        return "it is a directory; name a program".to_owned();
    }
    format!("make it executable: chmod +x {}", path.display())
}

fn cannot(program: &str, what: &str, remedy: &str) -> String {
    format!("cannot start '{program}': {what}; {remedy}")
}

/// The limits that the kernel keeps for each process.
struct KernelLimits(Vec<(Resource, u64)>);

impl KernelLimits {
    fn of(limits: &ResourceLimits) -> Self {
        // One second later than our own measure of the whole tree, which can say what happened.
        let cpu = limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds.saturating_add(1)));
        let open = limits.open_files.map(|count| (Resource::Nofile, count));
        let size = limits.file_size_mb.map(|mb| (Resource::Fsize, mb.saturating_mul(1 << 20)));
        KernelLimits([cpu, open, size].into_iter().flatten().collect())
    }

    /// Lowers our own limits, so that the agent has them from its first instruction. Returns what to restore.
    fn lower_own(&self) -> Vec<(Resource, Rlimit)> {
        let mut own = Vec::new();
        for (resource, limit) in &self.0 {
            if *resource == Resource::Nofile && *limit < OPEN_FILES_WHILE_STARTING {
                continue;
            }
            let before = getrlimit(*resource);
            let current = before.maximum.map_or(*limit, |maximum| maximum.min(*limit));
            if setrlimit(*resource, Rlimit { current: Some(current), ..before }).is_ok() {
                own.push((*resource, before));
            }
        }
        own
    }

    /// Takes away from the agent the right to raise them again.
    #[cfg(target_os = "linux")]
    fn fix_for(&self, child: &Child) {
        let Some(agent) = Pid::from_raw(child.id() as i32) else { return };
        for (resource, limit) in &self.0 {
            let maximum = getrlimit(*resource).maximum.map_or(*limit, |maximum| maximum.min(*limit));
            // The kernel ends a process at once at the hard limit of its time; let it have the warning first.
            let hard = if *resource == Resource::Cpu { maximum.saturating_add(1) } else { maximum };
            let fixed = Rlimit { current: Some(maximum), maximum: Some(hard) };
            // It may have ended already.
            let _ = rustix::process::prlimit(Some(agent), *resource, fixed);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn fix_for(&self, _: &Child) {}
}

/// A crash of ours or of the agent's leaves no core file: it would hold secrets, and what was not redacted yet. The
/// agent may raise the limit for itself.
pub(super) fn leave_no_core() {
    let before = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..before });
}

fn restore(own: &[(Resource, Rlimit)]) {
    for (resource, before) in own {
        // The hard limits were left alone, so this cannot be refused.
        let _ = setrlimit(*resource, *before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_found_is_told_without_the_whole_path() {
        let path = OsStr::new("/opt/somewhere/bin:/opt/elsewhere/bin");
        let why = find("no-such-program", Path::new("/"), Some(path)).unwrap_err();
        assert!(why.contains("'no-such-program': not found in PATH; install it"), "{why}");
        assert!(!why.contains("/opt/somewhere"), "{why}");
    }
}
