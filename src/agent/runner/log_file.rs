//! One log of an attempt: appended to as the agent speaks, and never larger than its limit.
//!
//! At the limit the file becomes the older half and a new one begins, so the newest is always there. A
//! full disk costs bytes of the log and nothing else.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::files;
use super::mirror::Mirror;
use crate::bus::layout;

/// Where settings set no other.
const LIMIT_MB_DEFAULT: u64 = 64;

pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    limit: u64,
    dropped: u64,
    /// Of the older half, and of everything before it, which is gone.
    older_size: u64,
    gone: u64,
    /// The same again, where somebody else looks for it.
    mirror: Option<Mirror>,
}

impl LogFile {
    /// Creates the log, also when nothing will ever be written: no log would look like a lost one.
    pub(super) fn create(path: PathBuf, limit_mb: Option<u64>) -> Self {
        let limit = limit_mb.unwrap_or(LIMIT_MB_DEFAULT).max(1).saturating_mul(1 << 20);
        let file = files::open_new(&path).ok();
        LogFile { path, file, size: 0, limit, dropped: 0, older_size: 0, gone: 0, mirror: None }
    }

    /// Writes everything to a second place below the workspace too, under the same limit.
    pub(super) fn mirrored(mut self, workspace: &Path, path: &Path) -> Self {
        self.mirror = Some(Mirror::open(workspace, path, self.limit));
        self
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.append(bytes);
        }
        if self.size > 0 && self.size + bytes.len() as u64 > self.limit {
            self.rotate();
        }
        if self.dropped > 0 {
            let note = format!("\nwk: {} bytes are missing here: the disk was full\n", self.dropped);
            if self.write(note.as_bytes()) < note.len() {
                self.dropped += bytes.len() as u64;
                return;
            }
            self.dropped = 0;
        }
        let written = self.write(bytes);
        self.dropped += (bytes.len() - written) as u64;
    }

    /// How many of the bytes could be written.
    fn write(&mut self, bytes: &[u8]) -> usize {
        if self.file.is_none() {
            self.file = files::open_new(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return 0 };
        let mut written = 0;
        while written < bytes.len() {
            match file.write(&bytes[written..]) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.size += written as u64;
        written
    }

    fn rotate(&mut self) {
        if self.older_size > 0 {
            self.gone += self.older_size;
            // Before the old half is replaced: who reads the logs then knows that they have no beginning.
            let _ = files::write(&layout::gone_of_log(&self.path), format!("{}\n", self.gone).as_bytes());
        }
        self.older_size = self.size;
        // Where it cannot be renamed it is overwritten: the limit holds, and the newest is kept.
        let _ = files::rename(&self.path, &layout::older_log(&self.path));
        self.file = files::open_new(&self.path).ok();
        self.size = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_never_grows_beyond_twice_its_limit_and_keeps_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        let mut log = LogFile::create(path.clone(), Some(1));
        for number in 0..50_000 {
            log.append(format!("line {number:06} {}\n", "x".repeat(80)).as_bytes());
        }
        let newest = std::fs::read_to_string(&path).unwrap();
        let older = std::fs::read_to_string(layout::older_log(&path)).unwrap();
        assert!(newest.len() <= 1 << 20 && older.len() <= 1 << 20);
        assert!(newest.trim_end().lines().last().unwrap().starts_with("line 049999"));
        let last_of_older: u32 = older.lines().last().unwrap()[5..11].parse().unwrap();
        let first_of_newest: u32 = newest.lines().next().unwrap()[5..11].parse().unwrap();
        assert_eq!(first_of_newest, last_of_older + 1, "nothing is lost between the halves");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_costs_bytes_of_the_log_and_says_how_many() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        let mut log = LogFile::create(PathBuf::from("/dev/full"), None);
        log.append(b"these are lost");
        log.append(b"these too");
        log.file = Some(files::open_new(&path).unwrap());
        log.append(b"there is room again\n");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "\nwk: 23 bytes are missing here: the disk was full\nthere is room again\n");
    }
}
