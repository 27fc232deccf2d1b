//! A batch's journal: one event a line, numbered and checksummed, appended and synced turn by turn.
//!
//! A torn last line is cut off, because nothing was done on its account: effects follow the sync. A damaged
//! line before that is never guessed over.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::disk::{BusError, Content, Disk, Durability};
use crate::model::event::{Entry, Event};
use crate::model::{Epoch, Tick, WallTime};

const CHECKSUM_KEY: &str = ",\"crc\":\"";
/// Of the checksum's key, its eight digits and the closing `"}`.
const CHECKSUM_BYTES: usize = CHECKSUM_KEY.len() + 8 + 2;

/// Why a journal cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{path}, line {line}: {why}")]
    Damaged { path: PathBuf, line: usize, why: String },
    /// Its checksum holds, so it is what somebody wrote: one of us who knows more.
    #[error("{path}, line {line}, was written by a newer wk (this one does not know what it says: {why})")]
    Newer { path: PathBuf, line: usize, why: String },
    #[error(transparent)]
    Disk(#[from] BusError),
}

/// Where the next line goes.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    next_seq: u64,
    next_turn: u64,
    /// Bytes that are known to be whole lines.
    whole_bytes: u64,
}

impl Journal {
    /// A journal that has no line yet.
    pub fn fresh(path: PathBuf) -> Self {
        Journal { path, next_seq: 1, next_turn: 1, whole_bytes: 0 }
    }

    /// Reads what is there and cuts off a torn last line.
    pub fn load(disk: &impl Disk, path: &Path) -> Result<(Journal, Vec<Entry>), JournalError> {
        let bytes = read_bytes(disk, path)?;
        let parsed = parse(path, &bytes)?;
        if parsed.whole_bytes < bytes.len() {
            log::warn!("{}: cutting off a torn last line", path.display());
            disk.truncate(path, parsed.whole_bytes as u64).map_err(BusError::of("truncate", path))?;
        }
        if parsed.whole_bytes > 0 {
            // A crash may have come between write and sync: what is folded must be durable before it acts.
            disk.append(path, &[], Durability::Synced).map_err(BusError::of("sync", path))?;
        }
        let last = parsed.entries.last();
        let journal = Journal {
            path: path.to_owned(),
            next_seq: last.map_or(1, |entry| entry.seq + 1),
            next_turn: last.map_or(1, |entry| entry.turn + 1),
            whole_bytes: parsed.whole_bytes as u64,
        };
        Ok((journal, parsed.entries))
    }

    pub fn has_lines(&self) -> bool {
        self.next_seq > 1
    }

    /// Makes a turn's events durable together.
    pub fn commit(&mut self, disk: &impl Disk, stamp: Stamp, events: &[Event]) -> Result<(), BusError> {
        let mut lines = Vec::with_capacity(events.len() * 256);
        let mut seq = self.next_seq;
        for event in events {
            let Stamp { epoch, at, clock } = stamp;
            render_line(&Line { seq, turn: self.next_turn, epoch, at, clock, event }, &mut lines);
            seq += 1;
        }
        if let Err(error) = disk.append(&self.path, &lines, Durability::Synced) {
            // Whatever part of it reached the file must not stand before the next try's lines.
            let _ = disk.truncate(&self.path, self.whole_bytes);
            return Err(BusError::of("append to", &self.path)(error));
        }
        self.next_seq = seq;
        self.next_turn += 1;
        self.whole_bytes += lines.len() as u64;
        Ok(())
    }
}

/// Who writes, and when.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    pub epoch: Epoch,
    pub at: WallTime,
    pub clock: Tick,
}

/// Reads a journal without changing it: what faces do.
pub fn read(disk: &impl Disk, path: &Path) -> Result<Vec<Entry>, JournalError> {
    let bytes = read_bytes(disk, path)?;
    Ok(parse(path, &bytes)?.entries)
}

fn read_bytes(disk: &impl Disk, path: &Path) -> Result<Vec<u8>, BusError> {
    loop {
        match disk.read(path, super::JOURNAL_BYTES_MAX).map_err(BusError::of("read", path))? {
            Content::Bytes { bytes, .. } => return Ok(bytes),
            Content::Absent => return Ok(Vec::new()),
            // A face may read while the watcher appends; the next look is whole.
            Content::Changing => {}
            Content::NotAFile(_)
            | Content::SharedLink
            | Content::Foreign { .. }
            | Content::TooLarge { .. } => {
                return Err(BusError::of("read", path)(std::io::Error::other("not a journal file")));
            }
            Content::Unreadable { why } => {
                return Err(BusError::of("read", path)(std::io::Error::other(why)));
            }
        }
    }
}

struct ParsedJournal {
    entries: Vec<Entry>,
    whole_bytes: usize,
}

/// Why a line is no entry.
enum NoEntry {
    /// It is not what was written, or not all of it.
    Broken(String),
    /// It is what was written, and means nothing to us.
    NotKnown(String),
}

fn parse(path: &Path, bytes: &[u8]) -> Result<ParsedJournal, JournalError> {
    let damaged = |line, why| JournalError::Damaged { path: path.to_owned(), line, why };
    let mut entries: Vec<Entry> = Vec::new();
    let mut whole_bytes = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_last = whole_bytes + line.len() == bytes.len();
        match parse_line(line) {
            Ok(entry) => {
                let expected = entries.last().map_or(1, |last| last.seq + 1);
                if entry.seq != expected {
                    let why = format!("sequence number {} where {expected} belongs", entry.seq);
                    return Err(damaged(index + 1, why));
                }
                if entries.last().is_some_and(|last| last.epoch > entry.epoch) {
                    let why = "written by a watcher that had been superseded".to_owned();
                    return Err(damaged(index + 1, why));
                }
                entries.push(entry);
                whole_bytes += line.len();
            }
            // Never taken for a torn line: it would be cut off, and it was decided.
            Err(NoEntry::NotKnown(why)) => {
                return Err(JournalError::Newer { path: path.to_owned(), line: index + 1, why });
            }
            Err(NoEntry::Broken(_)) if is_last => break,
            Err(NoEntry::Broken(why)) => return Err(damaged(index + 1, why)),
        }
    }
    Ok(ParsedJournal { entries, whole_bytes })
}

/// An `Entry` that is written without being owned.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    turn: u64,
    epoch: Epoch,
    at: WallTime,
    clock: Tick,
    #[serde(flatten)]
    event: &'a Event,
}

fn render_line(line: &Line<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    serde_json::to_writer(&mut *out, line).expect("a line has only string keys");
    let checksum = crc32fast::hash(&out[start..]);
    out.pop();
    out.extend_from_slice(CHECKSUM_KEY.as_bytes());
    out.extend_from_slice(format!("{checksum:08x}\"}}\n").as_bytes());
}

fn parse_line(line: &[u8]) -> Result<Entry, NoEntry> {
    let body = checked_body(line).map_err(NoEntry::Broken)?;
    serde_json::from_slice(&body).map_err(|error| NoEntry::NotKnown(error.to_string()))
}

/// A line's JSON without its checksum, if that holds.
fn checked_body(line: &[u8]) -> Result<Vec<u8>, String> {
    let line = line.strip_suffix(b"\n").ok_or("the line has no end")?;
    let cut = line.len().checked_sub(CHECKSUM_BYTES).ok_or("the line is too short")?;
    let (body, tail) = line.split_at(cut);
    let tail = std::str::from_utf8(tail).map_err(|_| "the checksum is not text")?;
    let digits = tail
        .strip_prefix(CHECKSUM_KEY)
        .and_then(|rest| rest.strip_suffix("\"}"))
        .ok_or("the line has no checksum")?;
    let written = u32::from_str_radix(digits, 16).map_err(|_| "the checksum is not a number")?;
    let mut whole = Vec::with_capacity(body.len() + 1);
    whole.extend_from_slice(body);
    whole.push(b'}');
    let found = crc32fast::hash(&whole);
    if found != written {
        return Err(format!("checksum {found:08x} where {written:08x} is written"));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::super::RealDisk;
    use super::*;
    use crate::model::{Attempt, TaskKey};

    fn stamp() -> Stamp {
        Stamp { epoch: Epoch(1), at: WallTime(1_000), clock: Tick(5) }
    }

    fn offered(key: &str) -> Event {
        Event::Offered { task: TaskKey::parse(key).unwrap(), attempt: Attempt::FIRST }
    }

    fn written(disk: &RealDisk, path: &Path) -> Vec<u8> {
        let mut journal = Journal::fresh(path.to_owned());
        journal.commit(disk, stamp(), &[Event::Accepted { tasks: 2, batch_sha256: None }]).unwrap();
        journal.commit(disk, stamp(), &[offered("1"), offered("2a")]).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_every_whole_line_and_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        let path = dir.path().join("journal.jsonl");
        let whole = written(&disk, &path);
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, entries) = Journal::load(&disk, &path).unwrap();
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(entries.len(), lines, "cut at {cut}");
            journal.commit(&disk, stamp(), &[offered("3")]).unwrap();
            assert_eq!(read(&disk, &path).unwrap().len(), lines + 1);
        }
    }

    #[test]
    fn a_line_of_a_newer_version_is_refused_and_never_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        let path = dir.path().join("journal.jsonl");
        let mut text = written(&disk, &path);
        let line = br#"{"seq":4,"turn":3,"epoch":1,"at":1000,"clock":5,"event":"teleported","task":"1"}"#;
        let checksum = crc32fast::hash(line);
        text.extend_from_slice(&line[..line.len() - 1]);
        text.extend_from_slice(format!("{CHECKSUM_KEY}{checksum:08x}\"}}\n").as_bytes());
        std::fs::write(&path, &text).unwrap();
        for told in [Journal::load(&disk, &path).map(drop), read(&disk, &path).map(drop)] {
            assert!(matches!(told, Err(JournalError::Newer { line: 4, .. })), "{told:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), text);
    }

    #[test]
    fn a_flipped_bit_before_the_last_line_is_never_guessed_over() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        let path = dir.path().join("journal.jsonl");
        let whole = written(&disk, &path);
        let first_line = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for at in 0..first_line {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            std::fs::write(&path, &damaged).unwrap();
            assert!(Journal::load(&disk, &path).is_err(), "flip at {at}");
        }
    }
}
