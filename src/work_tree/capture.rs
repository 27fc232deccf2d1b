//! A scan that keeps what it reads: before and after each attempt, over what the agent may write.

use std::fs::File;
use std::io::Read;

use super::descriptors::PART_BYTES;
use super::scan::{KeepError, Keeper, Kept, Scan, walk};
use super::scope::Scope;
use super::store::{Batch, Staged, Store, WHOLE_BYTES_MAX, digest_of_bytes};
use crate::bus::disk::BusError;
use crate::model::tree::{Digest, Entry, Manifest, TreePath};

/// What stands in the trees; each content that the previous scan did not have is in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub scan: Scan,
    pub files_kept: u64,
    pub bytes_kept: u64,
}

/// Scans, and keeps the contents of all files that are not as they were in `previous`. Whoever gives a previous
/// scan has the contents that it names: in this store, or in a checkpoint.
pub fn capture(scope: &Scope, previous: Option<&Scan>, store: &Store<'_>) -> Result<Captured, BusError> {
    let known = previous.map(|scan| &scan.manifest);
    let batch = store.batch();
    let mut keeper = Storing { store, batch, known, buffer: Vec::new(), pending: None, kept: (0, 0) };
    let scan = walk(scope, previous, &mut keeper)?;
    let (files_kept, bytes_kept) = keeper.kept;
    keeper.batch.finish()?;
    Ok(Captured { scan, files_kept, bytes_kept })
}

struct Storing<'s, 'h> {
    store: &'s Store<'h>,
    batch: Batch<'s, 'h>,
    known: Option<&'s Manifest>,
    buffer: Vec<u8>,
    pending: Option<Pending<'s, 'h>>,
    kept: (u64, u64),
}

/// What was read and is not settled.
enum Pending<'s, 'h> {
    /// In the buffer.
    Whole,
    Streamed(Box<Staged<'s, 'h>>),
}

impl Storing<'_, '_> {
    fn is_known(&self, path: &TreePath, digest: &Digest) -> bool {
        let entry = self.known.and_then(|known| known.get(path));
        matches!(entry, Some(Entry::File { sha256, .. }) if sha256 == digest)
    }
}

impl Keeper for Storing<'_, '_> {
    fn read(&mut self, path: &TreePath, file: &mut File, size: u64) -> Result<Kept, KeepError> {
        self.pending = None;
        if size <= WHOLE_BYTES_MAX {
            self.buffer.clear();
            // One byte more than it should have: a file that grows shows it.
            file.take(size + 1).read_to_end(&mut self.buffer).map_err(KeepError::Reading)?;
            let digest = digest_of_bytes(&self.buffer);
            if !self.is_known(path, &digest) {
                self.pending = Some(Pending::Whole);
            }
            return Ok(Kept { digest, length: self.buffer.len() as u64, left_out: None });
        }
        let mut staged = self.store.stage().map_err(KeepError::Keeping)?;
        self.buffer.resize(PART_BYTES, 0);
        loop {
            let count = file.read(&mut self.buffer).map_err(KeepError::Reading)?;
            if count == 0 {
                break;
            }
            let written = staged.write(&self.buffer[..count]);
            written.map_err(|error| {
                KeepError::Keeping(BusError::of("keep the content of", &super::absolute(path))(error))
            })?;
        }
        let (digest, length) = (staged.digest(), staged.length);
        if !self.is_known(path, &digest) {
            self.pending = Some(Pending::Streamed(Box::new(staged)));
        }
        Ok(Kept { digest, length, left_out: None })
    }

    fn settle(&mut self, is_stable: bool) -> Result<(), BusError> {
        let Some(pending) = self.pending.take().filter(|_| is_stable) else { return Ok(()) };
        let length = match pending {
            Pending::Whole => {
                self.batch.put(&self.buffer)?;
                self.buffer.len() as u64
            }
            Pending::Streamed(staged) => {
                let length = staged.length;
                self.batch.add(*staged)?;
                length
            }
        };
        self.kept = (self.kept.0 + 1, self.kept.1 + length);
        Ok(())
    }
}
