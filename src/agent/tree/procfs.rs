//! What `/proc` says about processes, and who descends from whom.
//!
//! One `stat` line has nearly all that is needed here. Signals nobody.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::has_procfs;

/// A thread of the kernel, in the flags of a `stat` line; it has no environment and no parent among ours.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A `stat` line: 52 numbers of at most 20 digits, and a name of at most 64 bytes.
const STAT_BYTES_MAX: usize = 2048;

/// A name with its end of line; those of the kernel's own threads can be longer.
const NAME_BYTES_MAX: usize = 64;

/// How often a process whose parent vanished during a pass is asked for its new one.
const ADOPTIONS_MAX: u32 = 8;

/// One process as `/proc` showed it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// Clock ticks from boot to its start: together with the pid, it names one process of this boot.
    pub started: u64,
    pub(super) state: u8,
    pub(super) threads: u64,
    pub(super) flags: u64,
    /// Clock ticks of its own work.
    pub(super) worked: u64,
    /// Clock ticks of the children that it has waited for.
    pub(super) waited_for: u64,
    pub(super) resident_pages: u64,
}

impl Process {
    pub fn read(pid: u32) -> Option<Process> {
        let mut buffer = [0; STAT_BYTES_MAX];
        let length = read_into(&format!("/proc/{pid}/stat"), &mut buffer)?;
        Self::parse(&buffer[..length])
    }

    /// Whether it can still do anything. A zombie cannot, unless only its first thread has ended.
    pub fn is_alive(&self) -> bool {
        match self.state {
            b'Z' => self.threads > 1,
            b'X' | b'x' => false,
            _ => true,
        }
    }

    pub(super) fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Pid and start: the same process, within one boot and one pid namespace.
    pub(super) fn key(&self) -> (u32, u64) {
        (self.pid, self.started)
    }

    /// The name stands in parentheses and may itself hold blanks and parentheses: the last one ends it.
    fn parse(line: &[u8]) -> Option<Process> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let pid = std::str::from_utf8(&line[..open]).ok()?.trim().parse().ok()?;
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        // Numbered as in the manual, proc(5): the state is field 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        // Groups and sessions outside of our namespace are 0, and some numbers can be negative.
        let number =
            |at: usize| field(at)?.parse::<i128>().ok().map(|value| u64::try_from(value).unwrap_or(0));
        Some(Process {
            pid,
            state: *field(3)?.as_bytes().first()?,
            parent: number(4)? as u32,
            group: number(5)? as u32,
            session: number(6)? as u32,
            flags: number(9)?,
            worked: number(14)? + number(15)?,
            waited_for: number(16)? + number(17)?,
            threads: number(20)?,
            started: number(22)?,
            resident_pages: number(24)?,
        })
    }
}

/// All living descendants of a process, parents before their children. Empty where nobody can know.
///
/// Where the kernel lists children, the cost is that of the tree, not of the machine; a child that is born
/// or adopted during the walk can be missed, as in every such walk.
pub fn descendants(of: u32) -> Vec<Process> {
    let mut family = family(of);
    family.retain(Process::is_alive);
    family
}

/// As `descendants`, with those that have ended but were not waited for.
pub(super) fn family(of: u32) -> Vec<Process> {
    if !has_procfs() {
        return Vec::new();
    }
    walk_children(of).unwrap_or_else(|| below(&everyone(), &[of]))
}

/// The same by one pass over every process: slower, and sees also what moved during a walk.
pub(super) fn family_by_pass(of: u32) -> Vec<Process> {
    below(&everyone(), &[of])
}

/// Every process but the threads of the kernel.
pub(super) fn everyone() -> Vec<Process> {
    if !has_procfs() {
        return Vec::new();
    }
    let mut all: HashMap<u32, Process> =
        pids_in("/proc").filter_map(|pid| Some((pid, Process::read(pid)?))).collect();
    // A parent that ended before its turn leaves a child whose link leads nowhere: ask that child again.
    for _ in 0..ADOPTIONS_MAX {
        let is_lost = |process: &&Process| process.parent != 0 && !all.contains_key(&process.parent);
        let lost: Vec<Process> = all.values().filter(is_lost).cloned().collect();
        let mut has_moved = false;
        for before in lost {
            let now = Process::read(before.pid);
            // A parent that stays unknown is one that we may not see.
            has_moved |= now.as_ref().map(|process| process.parent) != Some(before.parent);
            match now {
                Some(process) => {
                    if let Some(parent) = Process::read(process.parent) {
                        all.insert(parent.pid, parent);
                    }
                    all.insert(process.pid, process);
                }
                None => drop(all.remove(&before.pid)),
            }
        }
        if !has_moved {
            break;
        }
    }
    all.into_values().filter(|process| !process.is_kernel_thread()).collect()
}

/// Whoever descends from one of `roots` by the links of one pass; the roots themselves are left out.
pub(super) fn below(everyone: &[Process], roots: &[u32]) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<&Process>> = HashMap::new();
    for process in everyone {
        children.entry(process.parent).or_default().push(process);
    }
    let mut seen: HashSet<u32> = roots.iter().copied().collect();
    let mut queue: Vec<u32> = roots.to_vec();
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(parent) = queue.get(next) {
        next += 1;
        for child in children.get(parent).into_iter().flatten() {
            if seen.insert(child.pid) {
                found.push((*child).clone());
                queue.push(child.pid);
            }
        }
    }
    found
}

/// By the kernel's own lists of children, one for each thread; `None` where it keeps none.
fn walk_children(of: u32) -> Option<Vec<Process>> {
    let Some(root) = Process::read(of) else { return Some(Vec::new()) };
    let mut seen = HashSet::from([of]);
    let mut found = vec![root];
    let mut list = vec![0; 4096];
    let mut next = 0;
    while let Some((parent, threads)) = found.get(next).map(|process| (process.pid, process.threads)) {
        let is_root = next == 0;
        next += 1;
        // Most processes have one thread, of their own number: no need to list them.
        let threads =
            if threads == 1 { vec![parent] } else { pids_in(&format!("/proc/{parent}/task")).collect() };
        for thread in threads {
            let path = format!("/proc/{parent}/task/{thread}/children");
            let Ok(length) = read_to_end(path, &mut list) else {
                // The thread has ended, or the kernel keeps no lists: then ours has none either.
                if is_root && !Path::new("/proc/thread-self/children").exists() {
                    return None;
                }
                continue;
            };
            let pids = list[..length].split(u8::is_ascii_whitespace).filter_map(number);
            found.extend(pids.filter(|pid| seen.insert(*pid)).filter_map(Process::read));
        }
    }
    found.remove(0);
    Some(found)
}

/// The program that a process runs, where we may know. One that was replaced by a newer one meanwhile has its name
/// still.
pub(super) fn program_of(pid: u32) -> Option<PathBuf> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let program = program.to_string_lossy();
    Some(Path::new(program.strip_suffix(" (deleted)").unwrap_or(&program)).to_owned())
}

/// What a process calls itself; at most 15 bytes of it.
pub(super) fn name_of(pid: u32) -> Option<String> {
    let mut buffer = [0; NAME_BYTES_MAX];
    let length = read_into(&format!("/proc/{pid}/comm"), &mut buffer)?;
    Some(String::from_utf8_lossy(buffer[..length].trim_ascii_end()).into_owned())
}

/// The user whose rights a process has.
pub(super) fn owner_of(pid: u32) -> Option<u32> {
    rustix::fs::stat(format!("/proc/{pid}")).ok().map(|about| about.st_uid)
}

/// The numbers among the names in a directory; none if it is gone.
pub(super) fn pids_in(directory: &str) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads what fits; these files are made anew at each first read, and are whole in one.
fn read_into(path: &str, buffer: &mut [u8]) -> Option<usize> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::io::read(&file, buffer).ok()
}

/// Reads to the end, growing the buffer where the file is longer.
pub(super) fn read_to_end(path: impl rustix::path::Arg, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut length = 0;
    loop {
        if length == buffer.len() {
            buffer.resize(length.max(4096) * 2, 0);
        }
        match rustix::io::read(&file, &mut buffer[length..])? {
            0 => return Ok(length),
            read => length += read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Process;

    #[test]
    fn a_name_with_blanks_and_parentheses_moves_no_field() {
        let line = b"42 (a) R 1 (b) S 7 40 41 0 -1 4194304 98 0 0 0 5 6 7 8 20 0 3 0 1145726 3133440 381 18446744073709551615";
        let process = Process::parse(line).unwrap();
        assert_eq!((process.pid, process.parent, process.group, process.session), (42, 7, 40, 41));
        assert_eq!((process.started, process.worked, process.waited_for), (1_145_726, 11, 15));
        assert_eq!((process.threads, process.resident_pages), (3, 381));
    }

    #[test]
    fn a_cut_off_line_is_no_process() {
        assert_eq!(Process::parse(b"42 (sh) S 7 40"), None);
        assert_eq!(Process::parse(b""), None);
        assert_eq!(Process::parse(b"(sh) S"), None);
    }

    #[test]
    fn a_zombie_whose_other_threads_go_on_is_alive() {
        let line = |threads| {
            let text = format!("42 (sh) Z 7 40 41 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 99 0 0");
            Process::parse(text.as_bytes()).unwrap()
        };
        assert!(!line(1).is_alive());
        assert!(line(2).is_alive());
    }
}
