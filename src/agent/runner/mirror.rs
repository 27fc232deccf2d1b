//! A second copy of a log in the client's workspace, where agents can write too: it is opened without following any
//! link below the workspace, and whatever stood in its place makes way.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::files;

/// The copy of one log. It is a convenience: what it misses is in the attempt's own log.
pub(super) struct Mirror {
    file: Option<File>,
    size: u64,
    limit: u64,
}

impl Mirror {
    pub(super) fn open(workspace: &Path, path: &Path, limit: u64) -> Self {
        Mirror { file: files::open_anew_below(workspace, path).ok(), size: 0, limit }
    }

    /// At its limit it begins anew; the attempt's own log keeps the older half.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if self.size > 0 && self.size + bytes.len() as u64 > self.limit {
            let is_empty = file.set_len(0).is_ok() && file.seek(SeekFrom::Start(0)).is_ok();
            self.size = if is_empty { 0 } else { self.size };
        }
        match file.write_all(bytes) {
            Ok(()) => self.size += bytes.len() as u64,
            Err(_) => self.file = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_below_the_workspace_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (workspace, victim) = (dir.path().join("ws"), dir.path().join("victim"));
        std::fs::create_dir_all(workspace.join("logs")).unwrap();
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("stdout.log"), "precious").unwrap();
        symlink(&victim, workspace.join("logs/b")).unwrap();
        Mirror::open(&workspace, &workspace.join("logs/b/stdout.log"), 100).append(b"x");
        symlink(victim.join("stdout.log"), workspace.join("logs/c.out")).unwrap();
        Mirror::open(&workspace, &workspace.join("logs/c.out"), 100).append(b"y");
        assert_eq!(std::fs::read_to_string(victim.join("stdout.log")).unwrap(), "precious");
        assert_eq!(std::fs::read_to_string(workspace.join("logs/c.out")).unwrap(), "y");
    }

    #[test]
    fn a_mirror_never_exceeds_its_limit_and_shows_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/a/stdout.log");
        let mut mirror = Mirror::open(dir.path(), &path, 100);
        for number in 0..50 {
            mirror.append(format!("line {number:02}\n").as_bytes());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() <= 100 && text.ends_with("line 49\n"), "{text}");
    }
}
