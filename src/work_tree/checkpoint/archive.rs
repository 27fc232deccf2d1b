//! Writes the archive of a checkpoint: a tar of contents, each once, named by its digest, compressed in blocks
//! that can be read one without the other. `tar tzf` reads it like any other.
//!
//! A file's size stands before its bytes, so a content that turns out to be another one than announced is
//! taken back as a whole.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use flate2::{Compression, GzBuilder};
use sha2::Digest as _;

use crate::model::tree::Digest;
use crate::work_tree::operations::Written;

/// What of the tar is compressed by itself. Smaller blocks are found faster and compress worse.
pub const BLOCK_BYTES: usize = 256 << 10;
/// As `gzip` does when nobody asks for another.
const LEVEL: Compression = Compression::new(6);
/// More threads would take the machine from whoever works on it.
const THREADS_MAX: usize = 4;
/// Headers and contents fill up whole records.
pub(super) const RECORD_BYTES: u64 = 512;
/// What a content's name in the archive begins with.
pub(super) const FOLDER: &str = "objects/";

/// The name of a content in the archive.
pub(super) fn name_in_archive(digest: &Digest) -> String {
    format!("{FOLDER}{digest}")
}

/// How much of the tar a content takes, with its header.
pub(super) fn length_in_archive(size: u64) -> u64 {
    RECORD_BYTES + size.next_multiple_of(RECORD_BYTES)
}

/// The archive while it is written.
pub(super) struct ArchiveWriter<'h> {
    out: Written<'h>,
    hash: sha2::Sha256,
    /// Bytes of the archive so far.
    length: u64,
    /// Where each block begins in the archive.
    blocks: Vec<u64>,
    /// What the next block has so far.
    raw: Vec<u8>,
    /// The content that is being written: its size, and how much of it has come.
    announced: (u64, u64),
    press: Press,
}

/// A place in the archive to which it can be taken back.
pub(super) struct Mark {
    hash: sha2::Sha256,
    length: u64,
    blocks: usize,
    raw: Vec<u8>,
}

/// What a finished archive is known by.
pub(super) struct Finished {
    pub(super) sha256: Digest,
    pub(super) size: u64,
    pub(super) blocks: Vec<u64>,
}

impl<'h> ArchiveWriter<'h> {
    pub(super) fn new(out: Written<'h>) -> Self {
        let raw = Vec::with_capacity(BLOCK_BYTES);
        let (hash, press) = (sha2::Sha256::new(), Press::new());
        ArchiveWriter { out, hash, length: 0, blocks: Vec::new(), raw, announced: (0, 0), press }
    }

    /// Begins a content of exactly `size` bytes.
    pub(super) fn begin(&mut self, digest: &Digest, size: u64) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_path(name_in_archive(digest))?;
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(size);
        header.set_mode(0o444);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        self.announced = (size, 0);
        self.write_raw(header.as_bytes())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.announced.1 += bytes.len() as u64;
        if self.announced.1 > self.announced.0 {
            return Err(io::Error::other("more bytes than were announced"));
        }
        self.write_raw(bytes)
    }

    /// Ends a content, which must be complete.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let (size, written) = self.announced;
        if size != written {
            return Err(io::Error::other("fewer bytes than were announced"));
        }
        let padding = size.next_multiple_of(RECORD_BYTES) - size;
        self.write_raw(&[0; RECORD_BYTES as usize][..padding as usize])
    }

    /// Remembers this place; everything before it is written out first.
    pub(super) fn mark(&mut self) -> io::Result<Mark> {
        self.write_pressed(0)?;
        let (hash, raw) = (self.hash.clone(), self.raw.clone());
        Ok(Mark { hash, length: self.length, blocks: self.blocks.len(), raw })
    }

    pub(super) fn take_back_to(&mut self, mark: Mark) -> io::Result<()> {
        self.press.pressed.clear();
        self.out.cut_back_to(mark.length)?;
        self.blocks.truncate(mark.blocks);
        (self.hash, self.length, self.raw) = (mark.hash, mark.length, mark.raw);
        Ok(())
    }

    /// Ends the archive and syncs it.
    pub(super) fn finish(mut self) -> io::Result<Finished> {
        self.write_raw(&[0; 2 * RECORD_BYTES as usize])?;
        self.end_block()?;
        self.write_pressed(0)?;
        self.out.sync()?;
        Ok(Finished { sha256: Digest(self.hash.finalize().into()), size: self.length, blocks: self.blocks })
    }

    fn write_raw(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.raw.len()));
            self.raw.extend_from_slice(now);
            bytes = later;
            if self.raw.len() == BLOCK_BYTES {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        if !self.raw.is_empty() {
            let block = std::mem::replace(&mut self.raw, Vec::with_capacity(BLOCK_BYTES));
            self.press.begin(block)?;
            self.write_pressed(self.press.at_work_max)?;
        }
        Ok(())
    }

    /// Writes finished blocks until no more than `at_work` are still being compressed.
    fn write_pressed(&mut self, at_work: usize) -> io::Result<()> {
        while self.press.pressed.len() > at_work {
            let block = self.press.next()?;
            self.out.write_all(&block)?;
            self.blocks.push(self.length);
            self.hash.update(&block);
            self.length += block.len() as u64;
        }
        Ok(())
    }
}

/// Compresses blocks on a few threads and hands them back in their order.
struct Press {
    /// `None` only while it is taken apart.
    jobs: Option<SyncSender<Job>>,
    pressed: std::collections::VecDeque<Receiver<io::Result<Vec<u8>>>>,
    at_work_max: usize,
    threads: Vec<JoinHandle<()>>,
}

struct Job {
    raw: Vec<u8>,
    answer: Sender<io::Result<Vec<u8>>>,
}

impl Press {
    fn new() -> Self {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX));
        let (jobs, waiting) = sync_channel::<Job>(2 * count);
        let waiting = Arc::new(Mutex::new(waiting));
        let threads = (0..count)
            .map(|_| {
                let waiting = Arc::clone(&waiting);
                std::thread::spawn(move || {
                    loop {
                        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(Job { raw, answer }) = job else { return };
                        // Nobody waits for a block that was taken back.
                        let _ = answer.send(press(&raw));
                    }
                })
            })
            .collect();
        Press {
            jobs: Some(jobs),
            pressed: std::collections::VecDeque::new(),
            at_work_max: 2 * count,
            threads,
        }
    }

    fn begin(&mut self, raw: Vec<u8>) -> io::Result<()> {
        let (answer, pressed) = channel();
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(Job { raw, answer }).map_err(|_| stopped())?;
        self.pressed.push_back(pressed);
        Ok(())
    }

    fn next(&mut self) -> io::Result<Vec<u8>> {
        let first = self.pressed.pop_front().ok_or_else(stopped)?;
        first.recv().map_err(|_| stopped())?
    }
}

impl Drop for Press {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the thread that compresses has stopped")
}

fn press(raw: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::with_capacity(raw.len() / 2), LEVEL);
    encoder.write_all(raw)?;
    encoder.finish()
}
