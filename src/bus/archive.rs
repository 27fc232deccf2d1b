//! Moving a finished batch across devices, where one rename cannot: copy aside, compare, rename, remove.
//!
//! At every moment either the old directory or the new one is whole.

#![expect(clippy::disallowed_methods, reason = "a tree is moved by the same rules as a file is published")]

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::real_disk::TEMPORARY_PREFIX;

/// Copies `from` beside `to`, compares every byte, renames it into place and removes `from`.
pub fn copy_across(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        // An earlier try came as far as the rename: what is left is to remove the source, if it is the same.
        if !holds_all_of(from, to)? {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is there", to.display())));
        }
        return fs::remove_dir_all(from);
    }
    let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut staged_name = std::ffi::OsString::from(TEMPORARY_PREFIX);
    staged_name.push(name);
    let staged = to.with_file_name(staged_name);
    if staged.exists() {
        fs::remove_dir_all(&staged)?;
    }
    for entry in WalkDir::new(from).follow_links(false) {
        let entry = entry.map_err(io::Error::from)?;
        let target = target_of(entry.path(), from, &staged)?;
        copy_one(&entry, &target)?;
    }
    fs::File::open(&staged)?.sync_all()?;
    fs::rename(&staged, to)?;
    if let Some(parent) = to.parent() {
        fs::File::open(parent)?.sync_all()?;
    }
    fs::remove_dir_all(from)
}

/// Whether every file of `from` is in `to`, byte for byte.
fn holds_all_of(from: &Path, to: &Path) -> io::Result<bool> {
    for entry in WalkDir::new(from).follow_links(false) {
        let entry = entry.map_err(io::Error::from)?;
        let target = target_of(entry.path(), from, to)?;
        if entry.file_type().is_file() && !(target.is_file() && same_bytes(entry.path(), &target)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn target_of(path: &Path, from: &Path, staged: &Path) -> io::Result<PathBuf> {
    let inside = path.strip_prefix(from).map_err(io::Error::other)?;
    Ok(staged.join(inside))
}

fn copy_one(entry: &walkdir::DirEntry, target: &Path) -> io::Result<()> {
    let kind = entry.file_type();
    if kind.is_dir() {
        return super::access::make_directories(target);
    }
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(entry.path())?, target);
    }
    if !kind.is_file() {
        // A pipe or socket has no content to keep.
        return Ok(());
    }
    fs::copy(entry.path(), target)?;
    fs::File::open(target)?.sync_all()?;
    if !same_bytes(entry.path(), target)? {
        return Err(io::Error::other(format!("the copy {} differs from its source", target.display())));
    }
    Ok(())
}

fn same_bytes(left: &Path, right: &Path) -> io::Result<bool> {
    let mut left = io::BufReader::new(fs::File::open(left)?);
    let mut right = io::BufReader::new(fs::File::open(right)?);
    let (mut a, mut b) = ([0; 8192], [0; 8192]);
    loop {
        let read = left.read(&mut a)?;
        if read == 0 {
            return Ok(right.read(&mut b)? == 0);
        }
        right.read_exact(&mut b[..read])?;
        if a[..read] != b[..read] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_archive_is_the_same_tree_and_the_source_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("batch-1"), dir.path().join("archive/batch-1"));
        fs::create_dir_all(from.join("attempts/1/1")).unwrap();
        fs::create_dir(dir.path().join("archive")).unwrap();
        fs::write(from.join("journal.jsonl"), "one\n").unwrap();
        fs::write(from.join("attempts/1/1/result.json"), vec![7; 100_000]).unwrap();
        std::os::unix::fs::symlink("journal.jsonl", from.join("link")).unwrap();
        copy_across(&from, &to).unwrap();
        assert!(!from.exists());
        assert_eq!(fs::read(to.join("attempts/1/1/result.json")).unwrap(), vec![7; 100_000]);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("journal.jsonl"));
        assert_eq!(fs::read_dir(dir.path().join("archive")).unwrap().count(), 1);
    }

    #[test]
    fn an_interrupted_copy_is_completed_and_a_different_archive_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("batch-1"), dir.path().join("batch-1-archived"));
        for place in [&from, &to] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("journal.jsonl"), "one\n").unwrap();
        }
        fs::write(to.join("journal.jsonl"), "two\n").unwrap();
        assert_eq!(copy_across(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::write(to.join("journal.jsonl"), "one\n").unwrap();
        copy_across(&from, &to).unwrap();
        assert!(!from.exists());
    }
}
