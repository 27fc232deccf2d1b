//! Finds processes by the mark that an attempt's environment carries, whoever their parents are by now.
//!
//! A process can clear its environment and so lose its mark; only a cgroup holds such a one. Those that may have
//! done so are told apart: who has nothing in it, because ordinary programs have at least a search path, and who
//! has no attempt's mark.

use rustix::io::Errno;

use super::procfs::{Process, everyone, read_to_end};

/// What shells put into an environment by themselves, even an empty one.
const SHELLS_OWN: &[&[u8]] = &[b"PWD", b"OLDPWD", b"SHLVL", b"_"];

/// What systemd gives to all that it starts by itself, and what comes of that. Agents are not given it.
const INVOCATION: &[u8] = b"INVOCATION_ID";

/// What the environments said.
#[derive(Debug, Default)]
pub struct Found {
    pub marked: Vec<Process>,
    /// Those that may be marked: we are not allowed to read their environment, or it is empty.
    pub unreadable: Vec<Process>,
    /// Those whose environment tells neither of this attempt nor of another, nor of who else started them.
    pub unmarked: Vec<Process>,
}

/// Every living process with `NAME=value` in its environment, among those that started at `since` (clock
/// ticks from boot, `ProcessIdentity::started`) or later.
pub fn marked(marker: &str, since: u64) -> Found {
    marked_among(&everyone(), marker, since)
}

pub(super) fn marked_among(everyone: &[Process], marker: &str, since: u64) -> Found {
    let mut found = Found::default();
    let mut buffer = vec![0; 16 * 1024];
    for process in everyone.iter().filter(|process| process.started >= since && process.is_alive()) {
        match mark(process.pid, marker, &mut buffer) {
            Mark::Present => found.marked.push(process.clone()),
            Mark::Absent => found.unmarked.push(process.clone()),
            Mark::Another => {}
            Mark::Unreadable => found.unreadable.push(process.clone()),
        }
    }
    // In the middle of an exec an environment is empty for a moment: look again.
    found.unreadable.retain(|process| match mark(process.pid, marker, &mut buffer) {
        Mark::Present => {
            found.marked.push(process.clone());
            false
        }
        Mark::Absent => {
            found.unmarked.push(process.clone());
            false
        }
        Mark::Another => false,
        Mark::Unreadable => Process::read(process.pid).is_some_and(|now| now.is_alive()),
    });
    found
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    Present,
    /// None at all.
    Absent,
    /// That of another attempt, or of somebody else who started it; or it is gone.
    Another,
    Unreadable,
}

fn mark(pid: u32, marker: &str, buffer: &mut Vec<u8>) -> Mark {
    match read_to_end(format!("/proc/{pid}/environ"), buffer) {
        Ok(length) => judge(&buffer[..length], marker),
        Err(Errno::NOENT | Errno::SRCH) => Mark::Another,
        Err(_) => Mark::Unreadable,
    }
}

/// Whole entries only: the mark of attempt 1 is the beginning of that of attempt 10.
fn judge(environment: &[u8], marker: &str) -> Mark {
    let entries = || environment.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let names = || entries().map(name_of);
    let marks_name = name_of(marker.as_bytes());
    if entries().any(|entry| entry == marker.as_bytes()) {
        Mark::Present
    } else if names().any(|name| name == marks_name || name == INVOCATION) {
        Mark::Another
    } else if names().all(|name| SHELLS_OWN.contains(&name)) {
        Mark::Unreadable
    } else {
        Mark::Absent
    }
}

fn name_of(entry: &[u8]) -> &[u8] {
    &entry[..entry.iter().position(|byte| *byte == b'=').unwrap_or(entry.len())]
}

#[cfg(test)]
mod tests {
    use super::{Mark, judge};

    #[test]
    fn a_mark_is_a_whole_entry() {
        let environment = b"PATH=/bin\0WK_MARK=a/10\0X=WK_MARK=a/2\0";
        assert_eq!(judge(environment, "WK_MARK=a/10"), Mark::Present);
        assert_eq!(judge(environment, "WK_MARK=a/1"), Mark::Another);
        assert_eq!(judge(environment, "WK_MARK=a/2"), Mark::Another);
    }

    #[test]
    fn an_environment_that_tells_who_else_started_it_is_no_doubt() {
        assert_eq!(judge(b"PATH=/bin\0INVOCATION_ID=5\0", "WK_MARK=a"), Mark::Another);
        assert_eq!(judge(b"PATH=/bin\0X=WK_MARK=a\0WK_MARKED=a\0", "WK_MARK=a"), Mark::Absent);
    }

    #[test]
    fn an_empty_environment_tells_nothing() {
        assert_eq!(judge(b"", "WK_MARK=a"), Mark::Unreadable);
        assert_eq!(judge(b"\0\0", "WK_MARK=a"), Mark::Unreadable);
        assert_eq!(judge(b"PWD=/tmp\0SHLVL=1\0_=/bin/sleep\0", "WK_MARK=a"), Mark::Unreadable);
        assert_eq!(judge(b"PWD=/tmp\0PATH=/bin\0", "WK_MARK=a"), Mark::Absent);
    }
}
