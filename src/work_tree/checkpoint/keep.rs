//! Takes contents into a checkpoint's archive while the trees are walked, each file read once. Only files too
//! large for the memory are read twice: their name in the archive is their digest and stands before them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use super::Wish;
use super::archive::{ArchiveWriter, Finished, Mark};
use crate::bus::disk::BusError;
use crate::model::tree::{Digest, TreePath};
use crate::work_tree::descriptors::{PART_BYTES, digest_of};
use crate::work_tree::operations::Written;
use crate::work_tree::scan::{KeepError, Keeper, Kept, WhyLeftOut, walk};
use crate::work_tree::scope::Scope;
use crate::work_tree::store::{WHOLE_BYTES_MAX, digest_of_bytes};

/// Files, and bytes in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    pub files: u64,
    pub bytes: u64,
}

/// How far a checkpoint has come. What changes meanwhile may make `done` differ from `total` at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: Sum,
    pub total: Sum,
}

/// What there is to read, without reading it.
pub(super) fn sum_of(scope: &Scope) -> Result<Sum, BusError> {
    let mut counting = Counting::default();
    walk(scope, None, &mut counting)?;
    Ok(counting.0)
}

#[derive(Default)]
struct Counting(Sum);

impl Keeper for Counting {
    fn knows(&mut self, size: u64) -> Option<Digest> {
        self.0 = Sum { files: self.0.files + 1, bytes: self.0.bytes + size };
        // Nobody looks at it: what was counted is thrown away with its digests.
        Some(Digest([0; 32]))
    }

    fn read(&mut self, _: &TreePath, _: &mut File, size: u64) -> Result<Kept, KeepError> {
        Ok(Kept { digest: Digest([0; 32]), length: size, left_out: None })
    }
}

/// The archive as the place where a walk keeps contents.
pub(super) struct Archiving<'k> {
    archive: ArchiveWriter<'k>,
    place: &'k Path,
    file_bytes_max: u64,
    buffer: Vec<u8>,
    objects: Vec<Digest>,
    has: HashSet<Digest>,
    pending: Option<Pending>,
    done: Sum,
    total: Sum,
    progress: &'k mut dyn FnMut(Progress),
}

/// What was read and is not settled.
struct Pending {
    digest: Digest,
    length: u64,
    how: How,
}

enum How {
    /// It needs no place in the archive: empty, there already, or too large to be kept.
    Nothing,
    /// In the buffer.
    Whole,
    /// In the archive, from here on.
    Written(Mark),
}

impl<'k> Archiving<'k> {
    pub(super) fn new(
        out: Written<'k>,
        place: &'k Path,
        wish: &Wish<'_>,
        total: Sum,
        progress: &'k mut dyn FnMut(Progress),
    ) -> Self {
        Archiving {
            archive: ArchiveWriter::new(out),
            place,
            file_bytes_max: wish.file_bytes_max,
            buffer: Vec::new(),
            objects: Vec::new(),
            has: HashSet::new(),
            pending: None,
            done: Sum::default(),
            total,
            progress,
        }
    }

    pub(super) fn finish(self) -> Result<(Finished, Vec<Digest>), BusError> {
        let finished = self.archive.finish().map_err(BusError::of("write", self.place))?;
        Ok((finished, self.objects))
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> KeepError + use<'k> {
        let failed = BusError::of("write", self.place);
        move |error| KeepError::Keeping(failed(error))
    }

    fn read_whole(&mut self, file: &mut File, size: u64) -> Result<Pending, KeepError> {
        self.buffer.clear();
        // One byte more than it should have: a file that grows shows it.
        file.take(size + 1).read_to_end(&mut self.buffer).map_err(KeepError::Reading)?;
        let digest = digest_of_bytes(&self.buffer);
        let is_needed = !self.buffer.is_empty() && !self.has.contains(&digest);
        let how = if is_needed { How::Whole } else { How::Nothing };
        Ok(Pending { digest, length: self.buffer.len() as u64, how })
    }

    fn read_twice(&mut self, file: &mut File) -> Result<Pending, KeepError> {
        let (digest, length) = digest_of(file, &mut self.buffer).map_err(KeepError::Reading)?;
        if self.has.contains(&digest) || length > self.file_bytes_max || length == 0 {
            return Ok(Pending { digest, length, how: How::Nothing });
        }
        file.rewind().map_err(KeepError::Reading)?;
        let mark = self.archive.mark().map_err(self.failed())?;
        match self.copy_announced(file, &digest, length) {
            Ok(true) => return Ok(Pending { digest, length, how: How::Written(mark) }),
            Err(KeepError::Keeping(error)) => return Err(KeepError::Keeping(error)),
            Ok(false) | Err(KeepError::Reading(_)) => {}
        }
        self.archive.take_back_to(mark).map_err(self.failed())?;
        // A length that no file has: what was read is of no use.
        Ok(Pending { digest, length: u64::MAX, how: How::Nothing })
    }

    /// Copies a file into the archive; `false` if it is no longer what was announced.
    fn copy_announced(&mut self, file: &mut File, digest: &Digest, length: u64) -> Result<bool, KeepError> {
        self.archive.begin(digest, length).map_err(self.failed())?;
        let mut copied = Copied { archive: &mut self.archive, from: file.take(length), failed: None };
        let again = digest_of(&mut copied, &mut self.buffer);
        if let Some(error) = copied.failed {
            return Err(self.failed()(error));
        }
        if again.map_err(KeepError::Reading)? != (*digest, length) {
            return Ok(false);
        }
        self.archive.end().map_err(self.failed())?;
        Ok(true)
    }

    fn settled(&mut self, pending: Pending) -> io::Result<()> {
        let Pending { digest, length, how } = pending;
        match how {
            How::Nothing => {}
            How::Whole => {
                self.archive.begin(&digest, length)?;
                self.archive.write(&self.buffer)?;
                self.archive.end()?;
                self.enter(digest);
            }
            How::Written(_) => self.enter(digest),
        }
        self.done = Sum { files: self.done.files + 1, bytes: self.done.bytes + length };
        (self.progress)(Progress { done: self.done, total: self.total });
        Ok(())
    }

    fn enter(&mut self, digest: Digest) {
        self.has.insert(digest);
        self.objects.push(digest);
    }
}

impl Keeper for Archiving<'_> {
    fn read(&mut self, _: &TreePath, file: &mut File, size: u64) -> Result<Kept, KeepError> {
        let limit = self.file_bytes_max;
        let is_whole = size <= WHOLE_BYTES_MAX.min(limit);
        let pending = if is_whole { self.read_whole(file, size)? } else { self.read_twice(file)? };
        let (digest, length) = (pending.digest, pending.length);
        self.pending = Some(pending);
        let left_out = (length > limit).then_some(WhyLeftOut::TooLarge { size: length, limit });
        Ok(Kept { digest, length, left_out })
    }

    fn settle(&mut self, is_stable: bool) -> Result<(), BusError> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let done = match pending.how {
            _ if is_stable => self.settled(pending),
            How::Written(mark) => self.archive.take_back_to(mark),
            How::Nothing | How::Whole => Ok(()),
        };
        done.map_err(BusError::of("write", self.place))
    }
}

/// Reads a file and writes what it reads into the archive.
struct Copied<'c, 'k> {
    archive: &'c mut ArchiveWriter<'k>,
    from: io::Take<&'c mut File>,
    failed: Option<io::Error>,
}

impl Read for Copied<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let wanted = bytes.len().min(PART_BYTES);
        let count = self.from.read(&mut bytes[..wanted])?;
        if let Err(error) = self.archive.write(&bytes[..count]) {
            self.failed = Some(error);
            return Err(io::Error::other("the archive cannot be written"));
        }
        Ok(count)
    }
}
