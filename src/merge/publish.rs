//! Puts a merged tree in place, all of it or nothing: it is staged beside its place, made safe, and swapped in
//! by one rename. A crash at any point leaves the old tree or the new one, and `recover` says which by acting.

use std::io;
use std::path::{Path, PathBuf};

use super::contents::digest_of;
use super::plan::Merge;
use super::tree_disk::TreeDisk;
use crate::bus::NodeKind;
use crate::bus::disk::{BusError, is_absent};
use crate::bus::real_disk::TEMPORARY_PREFIX;
use crate::model::tree::{Entry, Manifest};
use crate::work_tree::Contents;

const MERGED_MODE: u32 = 0o755;
/// Larger files are written in pieces.
const HELD_BYTES_MAX: u64 = 4 << 20;

/// What a publication left.
#[derive(Debug, PartialEq, Eq)]
pub struct Published {
    /// Whether another tree stood there before.
    pub has_replaced: bool,
    /// The old tree, if it could not be removed; `recover` tries again.
    pub leftover: Option<PathBuf>,
}

/// Names beside the place. Nobody else uses them: one watcher writes a workspace.
struct Beside {
    parent: PathBuf,
    /// The new tree before the swap, the old one after it.
    staged: PathBuf,
    /// The old tree between two renames, where a swap takes two.
    retired: PathBuf,
}

impl Beside {
    fn of(merged: &Path) -> Result<Self, BusError> {
        let no_name =
            || io::Error::new(io::ErrorKind::InvalidInput, "a merged tree needs a name and a parent");
        let names = merged.parent().zip(merged.file_name());
        let (parent, name) = names.ok_or_else(no_name).map_err(BusError::of("publish into", merged))?;
        let beside = |ending: &str| {
            let mut temporary = std::ffi::OsString::from(TEMPORARY_PREFIX);
            temporary.push(name);
            temporary.push(ending);
            parent.join(temporary)
        };
        Ok(Beside { parent: parent.to_owned(), staged: beside("-new"), retired: beside("-old") })
    }
}

/// Publishes a merge as the directory `merged`, whose parent exists. To do it again does no harm.
pub fn publish(
    merge: &Merge,
    merged: &Path,
    contents: &dyn Contents,
    disk: &dyn TreeDisk,
) -> Result<Published, BusError> {
    recover(merged, disk)?;
    let beside = Beside::of(merged)?;
    let has_replaced = match disk.kind(merged).map_err(BusError::of("look at", merged))? {
        None => false,
        Some(NodeKind::Directory) => true,
        Some(kind) => {
            let why = format!("{} is in the way; move it", kind.word());
            let error = io::Error::new(io::ErrorKind::NotADirectory, why);
            return Err(BusError::of("publish into", merged)(error));
        }
    };
    let swapped = stage(merge.tree(), &beside.staged, contents, disk)
        .and_then(|()| swap(merged, &beside, has_replaced, disk));
    if let Err(error) = swapped {
        // Best effort: a full disk needs the room now, and whoever comes next recovers again.
        let _ = recover(merged, disk);
        return Err(error);
    }
    let left = [&beside.staged, &beside.retired].into_iter().find(|path| remove_tree(path, disk).is_err());
    Ok(Published { has_replaced, leftover: left.cloned() })
}

/// Ends what a crash interrupted: afterwards the old or the new tree stands, and nothing is beside it.
pub fn recover(merged: &Path, disk: &dyn TreeDisk) -> Result<(), BusError> {
    let beside = Beside::of(merged)?;
    let is_there = |path: &Path| -> Result<bool, BusError> {
        Ok(disk.kind(path).map_err(BusError::of("look at", path))?.is_some())
    };
    if is_there(&beside.retired)? && !is_there(merged)? {
        disk.rename(&beside.retired, merged).map_err(BusError::of("put back", merged))?;
        disk.sync(&beside.parent).map_err(BusError::of("sync", &beside.parent))?;
    }
    remove_tree(&beside.retired, disk)?;
    remove_tree(&beside.staged, disk)
}

fn stage(
    tree: &Manifest,
    staged: &Path,
    contents: &dyn Contents,
    disk: &dyn TreeDisk,
) -> Result<(), BusError> {
    disk.make_dir(staged).map_err(BusError::of("make", staged))?;
    for (path, entry) in tree {
        let place = path.below(staged);
        match entry {
            Entry::Directory { .. } => disk.make_dir(&place).map_err(BusError::of("make", &place))?,
            Entry::Link { target } => {
                disk.link(&place, target.as_os_str()).map_err(BusError::of("link", &place))?;
            }
            Entry::File { mode, size, sha256 } if *size > HELD_BYTES_MAX => {
                let mut fill = |out: &mut dyn io::Write| contents.copy_to(sha256, out);
                disk.write_from(&place, *mode, &mut fill).map_err(BusError::of("write", &place))?;
            }
            Entry::File { mode, sha256, .. } => {
                let bytes = contents.read(sha256).map_err(BusError::of("read the content of", &place))?;
                if digest_of(&bytes) != *sha256 {
                    let error = io::Error::new(io::ErrorKind::InvalidData, "the stored content is damaged");
                    return Err(BusError::of("read the content of", &place)(error));
                }
                disk.write(&place, &bytes, *mode).map_err(BusError::of("write", &place))?;
            }
        }
    }
    // All were written first: then the first sync carries most of them along. Inner before outer.
    for (path, entry) in tree.iter().rev() {
        let place = path.below(staged);
        if !matches!(entry, Entry::Link { .. }) {
            disk.sync(&place).map_err(BusError::of("sync", &place))?;
        }
        if let Entry::Directory { mode } = entry {
            disk.set_mode(&place, *mode).map_err(BusError::of("set the mode of", &place))?;
        }
    }
    disk.set_mode(staged, MERGED_MODE).map_err(BusError::of("set the mode of", staged))?;
    disk.sync(staged).map_err(BusError::of("sync", staged))
}

fn swap(merged: &Path, beside: &Beside, is_there: bool, disk: &dyn TreeDisk) -> Result<(), BusError> {
    let swapped = || BusError::of("swap in", merged);
    let sync = || disk.sync(&beside.parent).map_err(BusError::of("sync", &beside.parent));
    if !is_there {
        disk.rename(&beside.staged, merged).map_err(swapped())?;
    } else if !disk.exchange(&beside.staged, merged).map_err(swapped())? {
        disk.rename(merged, &beside.retired).map_err(swapped())?;
        sync()?;
        disk.rename(&beside.staged, merged).map_err(swapped())?;
    }
    sync()
}

/// Removes whatever stands there, if anything. Directories that forbid it are opened first: they are ours.
/// Removes a tree that was published here. Whatever else stands in its place stays.
pub fn remove(place: &Path, disk: &dyn TreeDisk) -> Result<(), BusError> {
    recover(place, disk)?;
    match disk.kind(place).map_err(BusError::of("look at", place))? {
        Some(NodeKind::Directory) => remove_tree(place, disk),
        _ => Ok(()),
    }
}

fn remove_tree(path: &Path, disk: &dyn TreeDisk) -> Result<(), BusError> {
    let failed = || BusError::of("remove", path);
    let removed = match disk.kind(path).map_err(failed())? {
        None => return Ok(()),
        Some(NodeKind::Directory) => {
            disk.set_mode(path, 0o700).map_err(failed())?;
            for entry in disk.list(path).map_err(failed())? {
                remove_tree(&path.join(entry.name), disk)?;
            }
            disk.remove_dir(path)
        }
        Some(_) => disk.remove_file(path),
    };
    match removed {
        Err(error) if !is_absent(&error) => Err(failed()(error)),
        _ => Ok(()),
    }
}
