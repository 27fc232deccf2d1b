//! Children that we never started: whoever lost its parent below us and hid from every other search.
//!
//! Only a subreaper has them. They come from trees whose own parent is dead, so nobody else will end them.

use std::collections::HashSet;
use std::path::Path;

use rustix::process::Signal;

use super::procfs::{Process, descendants, program_of};
use super::signal::send_to;
use crate::bus::platform::pause_ms;

/// Who is killed is gone within a moment, and its children are ours then; whoever stays longer is looked at again
/// at the next scan.
const ROUNDS: u32 = 20;
const ROUND_MS: u64 = 5;

/// Who among our children is nobody's orphan.
#[derive(Debug, Clone)]
pub struct Spared<'a> {
    /// The program that runners run.
    pub runner: &'a Path,
    /// Programs that launchers leave running for good.
    pub servers: &'a [&'static str],
    /// Children that we had before we started anything.
    pub older: &'a HashSet<(u32, u64)>,
    /// Whoever began before the dead runner did is not its orphan; in clock ticks from boot.
    pub since: u64,
}

/// The children that we have now, by pid and start.
pub fn children_now() -> HashSet<(u32, u64)> {
    let me = std::process::id();
    descendants(me).iter().filter(|process| process.parent == me).map(Process::key).collect()
}

/// Kills all children of ours that are not spared, with what descends from them. Returns how many are left.
pub fn end_strays(spared: &Spared<'_>) -> usize {
    for _ in 0..ROUNDS {
        let strays = strays(spared);
        if strays.is_empty() {
            return 0;
        }
        for child in strays {
            for process in descendants(child.pid).iter().chain(std::iter::once(&child)) {
                let _ = send_to(process.pid, process.started, Signal::KILL);
            }
        }
        pause_ms(ROUND_MS);
    }
    strays(spared).len()
}

fn strays(spared: &Spared<'_>) -> Vec<Process> {
    let me = std::process::id();
    // A child that is just being started still runs our own program.
    let own = std::env::current_exe().ok();
    let is_spared = |process: &Process| {
        if process.started < spared.since || spared.older.contains(&process.key()) {
            return true;
        }
        let Some(program) = program_of(process.pid) else { return false };
        let is_server =
            program.file_name().is_some_and(|name| spared.servers.iter().any(|server| name == *server));
        is_server || program == spared.runner || Some(program) == own
    };
    let mut children = descendants(me);
    children.retain(|process| process.parent == me && !is_spared(process));
    children
}
