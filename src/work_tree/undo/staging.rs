//! Where an undo prepares what it will put back: a directory of its own in each root, on the same file system,
//! filled from the archive and verified before any of it gets its name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::Dir;

use super::directories::Directories;
use super::{Step, UndoError, UndoPlan};
use crate::bus::disk::BusError;
use crate::bus::real_disk::TEMPORARY_PREFIX;
use crate::model::tree::{Digest, Entry, TreePath};
use crate::work_tree::checkpoint::{ArchiveError, Checkpoint, extract};
use crate::work_tree::descriptors::{
    MODE_BITS, absolute, digest_of, is_gone, name_of, names_in, open_directory, open_directory_in,
    open_file_in,
};
use crate::work_tree::operations::{Hand, SYNCED_TOGETHER, Written};
use crate::work_tree::scope::is_inside;
use crate::work_tree::store::digest_of_bytes;

/// The staging directories of one undo.
pub(super) struct Staging<'s> {
    hand: Hand<'s>,
    checkpoint: &'s Checkpoint,
    plan: &'s UndoPlan,
    /// Each root with its staging directory, the longest root first.
    places: Vec<(&'s TreePath, TreePath)>,
    open: BTreeMap<TreePath, OwnedFd>,
    /// Files that wait to be synced together.
    unsynced: Vec<Written<'s>>,
}

impl<'s> Staging<'s> {
    pub(super) fn new(hand: Hand<'s>, checkpoint: &'s Checkpoint, plan: &'s UndoPlan) -> Self {
        let place = |(number, root)| (root, place_in(root, number, checkpoint, plan));
        let mut places: Vec<(&TreePath, TreePath)> = checkpoint.roots.iter().enumerate().map(place).collect();
        places.sort_by_key(|(root, _)| std::cmp::Reverse(root.as_bytes().len()));
        Staging { hand, checkpoint, plan, places, open: BTreeMap::new(), unsynced: Vec::new() }
    }

    /// Prepares everything that the given steps need. What an interrupted undo has left is thrown away first.
    pub(super) fn fill(
        &mut self,
        todo: &BTreeSet<usize>,
        dir: &Path,
        directories: &mut Directories<'_>,
    ) -> Result<(), UndoError> {
        self.remove(directories)?;
        let mut by_digest: BTreeMap<Digest, Vec<usize>> = BTreeMap::new();
        for index in todo {
            let step = &self.plan.steps[*index];
            match &step.wanted {
                _ if !needs_staging(step) => {}
                Some(Entry::File { sha256, .. }) => by_digest.entry(*sha256).or_default().push(*index),
                Some(Entry::Link { target }) => {
                    let hand = self.hand;
                    let open = self.open_for(&step.path, directories)?;
                    let made = hand.make_link(target.as_os_str(), open, &staged_name(*index));
                    made.map_err(BusError::of("stage", &absolute(&step.path)))?;
                }
                Some(Entry::Directory { .. }) | None => {}
            }
        }
        let empty = digest_of_bytes(b"");
        if let Some(steps) = by_digest.remove(&empty) {
            self.stage_copies(&empty, &steps, None, directories)?;
        }
        if !by_digest.is_empty() {
            self.extract(&by_digest, dir, directories)?;
        }
        self.sync().map_err(BusError::of("sync what is staged from", dir))?;
        for (path, open) in &self.open {
            let synced = self.hand.sync_directory(open, name_of(path));
            synced.map_err(BusError::of("sync", &absolute(path)))?;
        }
        Ok(())
    }

    /// Takes contents out of the archive; each is written for its first step and copied for the others.
    fn extract(
        &mut self,
        by_digest: &BTreeMap<Digest, Vec<usize>>,
        dir: &Path,
        directories: &mut Directories<'_>,
    ) -> Result<(), UndoError> {
        let refused = |error| UndoError::Archive { place: dir.display().to_string(), error };
        let opened = self.checkpoint.open_proven_archive(dir);
        let archive = match opened {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Err(refused(ArchiveError::Gone)),
            opened => opened?.map_err(refused),
        }?;
        let sizes = self.checkpoint.sizes();
        let wanted: BTreeSet<Digest> = by_digest.keys().copied().collect();
        let mut writing: Option<Written<'s>> = None;
        let taken = extract(archive, &sizes, &wanted, |digest, part| {
            let steps = by_digest.get(digest).ok_or(io::ErrorKind::NotFound)?;
            let first = *steps.first().ok_or(io::ErrorKind::NotFound)?;
            if writing.is_none() {
                writing = Some(self.create(first, directories).map_err(|error| error.source)?);
            }
            if let (Some(bytes), Some(file)) = (part, &mut writing) {
                return file.write_all(bytes);
            }
            if let Some(file) = writing.take() {
                self.complete(first, file)?;
            }
            let copied = self.stage_copies(digest, &steps[1..], Some(first), directories);
            copied.map_err(|error| error.source)
        });
        taken.map_err(|error| match error {
            ArchiveError::Taking(error) => BusError::of("stage contents from", dir)(error).into(),
            other => refused(other),
        })
    }

    /// Writes a content that is staged already for further steps; an empty one needs no source.
    fn stage_copies(
        &mut self,
        digest: &Digest,
        steps: &[usize],
        source: Option<usize>,
        directories: &mut Directories<'_>,
    ) -> Result<(), BusError> {
        for index in steps {
            let path = &self.plan.steps[*index].path;
            let mut file = self.create(*index, directories)?;
            let copied = || -> io::Result<()> {
                if let Some(source) = source {
                    let open = self.opened(source).ok_or(io::ErrorKind::NotFound)?;
                    let from = open_file_in(open.as_fd(), &staged_name(source))?;
                    let mut through = io::BufReader::with_capacity(1 << 17, Tee { from, into: &mut file });
                    if digest_of(&mut through, &mut Vec::new())?.0 != *digest {
                        return Err(io::Error::other("what was staged has changed"));
                    }
                }
                self.complete(*index, file)
            };
            copied().map_err(BusError::of("stage", &absolute(path)))?;
        }
        Ok(())
    }

    fn create(&mut self, index: usize, directories: &mut Directories<'_>) -> Result<Written<'s>, BusError> {
        let path = &self.plan.steps[index].path;
        let hand = self.hand;
        let open = self.open_for(path, directories)?;
        hand.create(open, &staged_name(index), 0o600).map_err(BusError::of("stage", &absolute(path)))
    }

    /// Gives a staged file its mode; it is synced with others.
    fn complete(&mut self, index: usize, file: Written<'s>) -> io::Result<()> {
        if let Some(Entry::File { mode, .. }) = &self.plan.steps[index].wanted {
            file.set_mode(mode & MODE_BITS)?;
        }
        self.unsynced.push(file);
        if self.unsynced.len() < SYNCED_TOGETHER { Ok(()) } else { self.sync() }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.hand.sync_files(self.unsynced.iter())?;
        self.unsynced.clear();
        Ok(())
    }

    /// Puts what is staged for a step in its place.
    pub(super) fn publish(&self, index: usize, parent: &OwnedFd) -> io::Result<()> {
        let step = &self.plan.steps[index];
        let open = self.opened(index).ok_or(io::ErrorKind::NotFound)?;
        self.hand.rename(open, &staged_name(index), parent, name_of(&step.path))
    }

    /// Removes all staging directories with whatever is in them: they are ours by their name.
    pub(super) fn remove(&mut self, directories: &mut Directories<'_>) -> Result<(), BusError> {
        self.open.clear();
        for (_, place) in &self.places {
            let mut removed = || -> io::Result<()> {
                let open = match open_directory(Some(place)) {
                    Ok(open) => open,
                    Err(error) if is_gone(&error) => return Ok(()),
                    Err(error) => return Err(error),
                };
                for name in names_in(&mut Dir::read_from(&open)?)? {
                    self.hand.remove_file(&open, OsStr::from_bytes(&name))?;
                }
                self.hand.remove_directory(directories.holding(place)?, name_of(place))
            };
            removed().map_err(BusError::of("remove", &absolute(place)))?;
        }
        Ok(())
    }

    fn opened(&self, index: usize) -> Option<&OwnedFd> {
        self.open.get(&self.place_for(&self.plan.steps[index].path)?)
    }

    /// The staging directory of the root that holds `path`, made if it is not there.
    fn open_for(&mut self, path: &TreePath, directories: &mut Directories<'_>) -> Result<&OwnedFd, BusError> {
        let mut made = || -> io::Result<(TreePath, Option<OwnedFd>)> {
            let place = self.place_for(path).ok_or(io::ErrorKind::NotFound)?;
            if self.open.contains_key(&place) {
                return Ok((place, None));
            }
            let parent = directories.holding(&place)?;
            self.hand.make_directory(parent, name_of(&place), 0o700)?;
            let open = open_directory_in(parent.as_fd(), name_of(&place))?;
            Ok((place, Some(open)))
        };
        let (place, open) = made().map_err(BusError::of("stage", &absolute(path)))?;
        if let Some(open) = open {
            self.open.insert(place.clone(), open);
        }
        Ok(&self.open[&place])
    }

    fn place_for(&self, path: &TreePath) -> Option<TreePath> {
        let holds = |root: &TreePath| root == path || is_inside(path, root);
        self.places.iter().find(|(root, _)| holds(root)).map(|(_, place)| place.clone())
    }
}

/// In the root itself if it is a directory all the time, else beside it. Roots beside each other share none.
fn place_in(root: &TreePath, number: usize, checkpoint: &Checkpoint, plan: &UndoPlan) -> TreePath {
    let is_directory = |entry: Option<&Entry>| matches!(entry, Some(Entry::Directory { .. }));
    let step = plan.steps.iter().find(|step| step.path == *root);
    let stays = is_directory(checkpoint.entries.get(root))
        && step.is_none_or(|step| is_directory(step.found.as_ref()));
    let digest: String = plan.archive.to_string().chars().take(12).collect();
    let name = TreePath::parse(format!("{TEMPORARY_PREFIX}undo-{digest}-{number}"));
    let name = name.expect("digits and dashes are a name");
    let around = if stays { Some(root.clone()) } else { root.parent() };
    around.map_or(name.clone(), |around| around.join(&name))
}

/// Whether something must be made ready before the step: a file of other content, or a link.
pub(super) fn needs_staging(step: &Step) -> bool {
    match (&step.found, &step.wanted) {
        (Some(Entry::File { sha256: found, .. }), Some(Entry::File { sha256: wanted, .. })) => {
            found != wanted
        }
        (_, Some(Entry::File { .. } | Entry::Link { .. })) => true,
        (_, Some(Entry::Directory { .. }) | None) => false,
    }
}

fn staged_name(index: usize) -> OsString {
    OsString::from(index.to_string())
}

/// Reads, and writes what it reads.
struct Tee<'t, 'h> {
    from: std::fs::File,
    into: &'t mut Written<'h>,
}

impl io::Read for Tee<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(bytes)?;
        self.into.write_all(&bytes[..count])?;
        Ok(count)
    }
}
