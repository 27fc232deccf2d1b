//! One bus per workspace: an OS lock on a file in it, held as long as a watcher keeps a batch that works there. The
//! kernel frees it when the holder dies, as it does with the lock on a bus.

#![expect(clippy::disallowed_methods, reason = "the lock is a file that is never replaced")]

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::lease::{TRIES_MOST, TRY_AGAIN_AFTER, holder_of, is_still_at};

/// The lock on a workspace. Its file goes with it: a workspace is the client's, and nothing of ours stays that tells
/// nothing.
#[derive(Debug)]
pub struct Occupancy {
    /// Dropping the file frees the lock.
    file: File,
    place: PathBuf,
}

/// What came of an attempt to lock a workspace.
#[derive(Debug)]
pub enum Occupied {
    ByUs(Occupancy),
    /// Who holds it, in words.
    ByAnother(String),
}

impl Occupancy {
    /// Locks the file at `place` for a bus.
    pub fn take(place: &Path, bus: &Path) -> io::Result<Occupied> {
        let mut tries = 0;
        loop {
            let mut file = open(OpenOptions::new().create(true).mode(0o600), place)?;
            // fs2 by its full path: std has methods of the same names with other errors.
            if let Err(error) = fs2::FileExt::try_lock_exclusive(&file) {
                if error.kind() != fs2::lock_contended_error().kind() {
                    return Err(error);
                }
                // Somebody who only asks who is there holds the lock for a moment.
                if tries < TRIES_MOST {
                    tries += 1;
                    std::thread::sleep(TRY_AGAIN_AFTER);
                    continue;
                }
                return Ok(Occupied::ByAnother(holder_of(&mut file)));
            }
            if is_still_at(&file, place) {
                file.set_len(0)?;
                file.seek(SeekFrom::Start(0))?;
                writeln!(file, "the bus {} (process {})", bus.display(), std::process::id())?;
                return Ok(Occupied::ByUs(Occupancy { file, place: place.to_owned() }));
            }
            // Its last holder took the file away between open and lock: this lock guards nothing.
        }
    }

    /// Who holds the workspace, without taking anything.
    pub fn holder(place: &Path) -> Option<String> {
        let mut file = open(&mut OpenOptions::new(), place).ok()?;
        match fs2::FileExt::try_lock_shared(&file) {
            Ok(()) => {
                let _ = fs2::FileExt::unlock(&file);
                None
            }
            Err(_) => Some(holder_of(&mut file)),
        }
    }
}

impl Drop for Occupancy {
    fn drop(&mut self) {
        // Still locked: whoever opened it before sees that it is not there any more, and makes a new one.
        if is_still_at(&self.file, &self.place) {
            let _ = std::fs::remove_file(&self.place);
        }
    }
}

/// Agents can write here too: a link is not followed, and a pipe is not waited for.
fn open(options: &mut OpenOptions, place: &Path) -> io::Result<File> {
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(place: &Path) -> Occupancy {
        match Occupancy::take(place, Path::new("/ours")).unwrap() {
            Occupied::ByUs(occupancy) => occupancy,
            Occupied::ByAnother(holder) => panic!("held by {holder}"),
        }
    }

    #[test]
    fn a_second_bus_learns_who_works_there_and_a_freed_place_can_be_taken() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("lock");
        assert_eq!(Occupancy::holder(&place), None);
        let first = taken(&place);
        assert!(Occupancy::holder(&place).is_some_and(|holder| holder.contains("the bus /ours")));
        let second = Occupancy::take(&place, Path::new("/theirs")).unwrap();
        assert!(matches!(second, Occupied::ByAnother(holder) if holder.contains("/ours")));
        drop(first);
        assert!(!place.exists());
        drop(taken(&place));
    }

    #[test]
    fn a_file_that_a_killed_holder_left_is_taken_over_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("lock");
        std::fs::write(&place, "the bus /gone (process 1)\n").unwrap();
        assert_eq!(Occupancy::holder(&place), None);
        drop(taken(&place));
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &place).unwrap();
        assert!(Occupancy::take(&place, Path::new("/ours")).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
