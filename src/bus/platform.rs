//! What only some systems can tell: open writers, boot identity, kind of file system, monotonic time.
//!
//! Linux is home; every function has a portable answer ("cannot know") that the callers live with.
//! `WK_PORTABLE=1` forces those answers, so that they are tested here too.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// Whether the answers of systems that know less than Linux are to be given.
pub fn is_portable_forced() -> bool {
    static FORCED: OnceLock<bool> = OnceLock::new();
    *FORCED.get_or_init(|| std::env::var_os("WK_PORTABLE").is_some_and(|value| value == "1"))
}

/// Whether some process has the file open for writing. A read lease is refused exactly then.
pub fn has_writer(file: &File) -> Option<bool> {
    if is_portable_forced() {
        return None;
    }
    lease::has_writer(file)
}

#[cfg(target_os = "linux")]
mod lease {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    /// Chooses the signal that tells of somebody who wants to break a lease; missing in `libc`.
    const F_SETSIG: i32 = 10;

    /// A signal that does nothing to a process which has not asked for it.
    const IGNORED_BY_DEFAULT: i32 = libc::SIGURG;

    pub(super) fn has_writer(file: &File) -> Option<bool> {
        match take(file) {
            Ok(()) => {
                let _ = call(file, libc::F_SETLEASE, libc::F_UNLCK);
                Some(false)
            }
            Err(error) => (error.raw_os_error() == Some(libc::EAGAIN)).then_some(true),
        }
    }

    /// Takes a read lease. Whoever opens the file for writing before it is given back waits that long, and makes the
    /// kernel signal us: by a signal that ends a process which does not expect it, unless another one is chosen.
    fn take(file: &File) -> io::Result<()> {
        call(file, F_SETSIG, IGNORED_BY_DEFAULT)?;
        call(file, libc::F_SETLEASE, libc::F_RDLCK).map(drop)
    }

    #[expect(
        unsafe_code,
        reason = "these verbs of fcntl have no safe wrapper; the call takes two integers and no memory"
    )]
    fn call(file: &File, verb: i32, value: i32) -> io::Result<i32> {
        match unsafe { libc::fcntl(file.as_raw_fd(), verb, value) } {
            -1 => Err(io::Error::last_os_error()),
            answer => Ok(answer),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn who_opens_a_file_for_writing_while_it_is_asked_about_ends_nobody() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("written");
            std::fs::write(&path, "{}").unwrap();
            let file = File::open(&path).unwrap();
            if has_writer(&file).is_none() {
                return println!("skipped: no leases on this file system");
            }
            // A test that starts a program just now may have handed it what we wrote by, for a moment.
            until("it is ours alone", || take(&file).is_ok());
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| File::options().write(true).open(&path).unwrap());
                // The signal comes with the wish.
                until("the writer asks for it", || {
                    call(&file, libc::F_GETLEASE, 0).unwrap() != libc::F_RDLCK
                });
                call(&file, libc::F_SETLEASE, libc::F_UNLCK).unwrap();
                let written = writer.join().unwrap();
                assert_eq!(has_writer(&file), Some(true));
                drop(written);
            });
            until("nobody has it open", || has_writer(&file) == Some(false));
        }

        fn until(what: &str, is_so: impl Fn() -> bool) {
            let began = std::time::Instant::now();
            while !is_so() {
                assert!(began.elapsed().as_secs() < 60, "waited in vain: {what}");
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod lease {
    pub(super) fn has_writer(_: &std::fs::File) -> Option<bool> {
        None
    }
}

/// Which boot of the machine this is; monotonic times compare only within one.
pub fn boot_id() -> Option<String> {
    if is_portable_forced() {
        return None;
    }
    // It is 36 digits and dashes; every runner reads it, so it is read at one go.
    let mut text = [0; 64];
    let count = File::open("/proc/sys/kernel/random/boot_id").ok()?.read(&mut text).ok()?;
    Some(std::str::from_utf8(&text[..count]).ok()?.trim().to_owned())
}

/// Milliseconds of the machine's monotonic clock, which stops while it sleeps.
pub fn monotonic_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Microseconds of work that this thread has done. Unlike elapsed time it does not grow with the work of
/// others on the same machine.
pub fn worked_us() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// The file system that holds a path, and whether events and locks are known to reach across hosts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    pub name: String,
    pub is_network: bool,
}

/// Magic number, name, and whether other machines may write to it too.
#[cfg(target_os = "linux")]
const KNOWN: &[(u64, &str, bool)] = &[
    (0xEF53, "ext4", false),
    (0x5846_5342, "xfs", false),
    (0x9123_683E, "btrfs", false),
    (0x0102_1994, "tmpfs", false),
    (0x794C_7630, "overlayfs", false),
    (0x2FC1_2FC1, "zfs", false),
    (0x6969, "nfs", true),
    (0xFE53_4D42, "smb", true),
    (0xFF53_4D42, "cifs", true),
    (0x6573_5546, "fuse", true),
    (0x0102_1997, "9p", true),
];

#[cfg(target_os = "linux")]
pub fn file_system(path: &Path) -> Option<FileSystem> {
    if is_portable_forced() {
        return None;
    }
    let magic = rustix::fs::statfs(path).ok()?.f_type as u64 & 0xFFFF_FFFF;
    let known = KNOWN.iter().find(|(number, _, _)| *number == magic);
    Some(match known {
        Some((_, name, is_network)) => FileSystem { name: (*name).to_owned(), is_network: *is_network },
        None => FileSystem { name: format!("unknown ({magic:#x})"), is_network: false },
    })
}

#[cfg(not(target_os = "linux"))]
pub fn file_system(_: &Path) -> Option<FileSystem> {
    None
}

/// This machine's name, for people.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The time of day, for people; it stands in records and is never compared.
pub fn wall_now() -> crate::model::WallTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    crate::model::WallTime(time.tv_sec * 1000 + time.tv_nsec / 1_000_000)
}

/// What the children that were waited for have used, with their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildrenUsage {
    /// Microseconds of work.
    pub cpu_us: u64,
    /// Of the largest one.
    pub peak_memory_kb: u64,
}

#[expect(
    unsafe_code,
    reason = "getrusage has no safe wrapper here; the call fills one structure that is ours and all numbers"
)]
pub fn children_usage() -> ChildrenUsage {
    // All its fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return ChildrenUsage::default();
    }
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    // Darwin counts bytes here, everybody else kilobytes.
    let unit = if cfg!(target_os = "macos") { 1024 } else { 1 };
    ChildrenUsage {
        cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_memory_kb: usage.ru_maxrss as u64 / unit,
    }
}

/// The processes that hold a lock on a file with this number, as the kernel lists them. `None` where it lists none: other
/// systems, and file systems whose locks it does not keep itself.
pub fn lock_holders(inode: u64) -> Option<Vec<u32>> {
    if is_portable_forced() {
        return None;
    }
    let text = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF`; who waits for one has an arrow before the kind.
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words.as_slice() else { return None };
        (file.rsplit(':').next()?.parse() == Ok(inode)).then(|| pid.parse().ok()).flatten()
    };
    let holders: Vec<u32> = text.lines().filter_map(holder).collect();
    (!holders.is_empty()).then_some(holders)
}

/// Keeps every open descriptor but the first three from whatever is started later: whoever started us may
/// have left us some that nobody knows of.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "close_range has no safe wrapper; the call takes three integers, and here closes nothing in us"
)]
pub fn keep_descriptors() {
    // Where the kernel is too old for it, those stay open in the agent as they would in any child.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

#[cfg(not(target_os = "linux"))]
pub fn keep_descriptors() {}

/// The file behind a descriptor that this program left open for itself when it executed itself anew.
#[expect(
    unsafe_code,
    reason = "nobody else in the program knows of the descriptor, so nobody else closes it"
)]
pub fn own_descriptor(descriptor: i32) -> File {
    use std::os::fd::FromRawFd;
    unsafe { File::from_raw_fd(descriptor) }
}

/// A number that nobody else draws. For names and marks that must differ, never for keys.
pub fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library asks the system for the hasher's keys, and changes them each time.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Which side of a fork we are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    Parent,
    Child,
}

/// Copies this process. Only for one that has a single thread: the copy has no other, and would wait for ever
/// for whatever another one held.
#[expect(
    unsafe_code,
    reason = "fork has no safe wrapper; the only caller is a process that never has a second thread"
)]
pub fn fork() -> std::io::Result<Forked> {
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Parent),
    }
}

/// Lets time pass where there is nothing to wait for.
pub fn pause_ms(millis: u64) {
    pause_us(millis.saturating_mul(1000));
}

/// The same for shorter spans.
pub fn pause_us(micros: u64) {
    let span = rustix::event::Timespec {
        tv_sec: (micros / 1_000_000) as _,
        tv_nsec: (micros % 1_000_000 * 1000) as _,
    };
    // A signal may cut it short; whoever waits looks again anyway.
    let _ = rustix::event::poll(&mut [], Some(&span));
}
