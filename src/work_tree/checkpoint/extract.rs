//! Reads the archive of a checkpoint and trusts nothing in it: plain contents with names that the manifest
//! knows, each once, of the size and digest that it says, and nothing else.
//!
//! Contents are handed out as bytes. Where they go, and with which mode, is not the archive's to say.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use flate2::bufread::MultiGzDecoder;
use sha2::Digest as _;

use super::ArchiveNote;
use super::archive::{FOLDER, RECORD_BYTES, length_in_archive, name_in_archive};
use crate::model::tree::{Digest, RawText};
use crate::work_tree::shown;
use crate::work_tree::store::{Contents, damaged, digest_of_bytes, not_kept};

/// A tar may be filled up with zeros to a whole block of the tapes of old.
const PADDING_BYTES_MAX: u64 = 10 << 10;

/// Why an archive is not used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the archive is gone, and with it what was in the trees before")]
    Gone,
    #[error("the archive is not the one that the manifest names: it has another {0}")]
    Exchanged(&'static str),
    #[error("the archive has an entry {name} that is {what}; only plain contents are taken")]
    NotPlain { name: String, what: String },
    #[error("the archive has an entry {0} that the manifest does not know")]
    Unknown(String),
    #[error("the archive has {0} twice")]
    Duplicate(Digest),
    #[error("the archive says that {digest} has {said} bytes, the manifest says {known}")]
    Size { digest: Digest, said: u64, known: u64 },
    #[error("the archive's bytes of {0} have another digest")]
    Damaged(Digest),
    #[error("the archive lacks {0}")]
    Missing(Digest),
    #[error("the archive unpacks to more than the {0} bytes that the manifest accounts for")]
    TooMuch(u64),
    #[error("the archive goes on after its end")]
    Trailing,
    #[error("the archive cannot be read: {0}")]
    Unreadable(io::Error),
    /// What was done with a content failed.
    #[error(transparent)]
    Taking(io::Error),
}

/// Whether the file is the archive that was written, by its size and digest.
pub(super) fn check_identity(file: &mut File, note: &ArchiveNote) -> Result<(), ArchiveError> {
    let length = file.metadata().map_err(ArchiveError::Unreadable)?.len();
    if length != note.size {
        return Err(ArchiveError::Exchanged("size"));
    }
    let mut part = Vec::new();
    let (digest, _) =
        crate::work_tree::descriptors::digest_of(file, &mut part).map_err(ArchiveError::Unreadable)?;
    if digest != note.sha256 {
        return Err(ArchiveError::Exchanged("digest"));
    }
    io::Seek::rewind(file).map_err(ArchiveError::Unreadable)
}

/// Goes through a whole archive and hands each content whose digest is `wanted` to `take`, in parts: all parts
/// of one content, then `None`. A content that proves bad ends everything without that `None`.
pub fn extract(
    archive: impl Read,
    known: &BTreeMap<Digest, u64>,
    wanted: &BTreeSet<Digest>,
    mut take: impl FnMut(&Digest, Option<&[u8]>) -> io::Result<()>,
) -> Result<(), ArchiveError> {
    let accounted = known.values().map(|size| length_in_archive(*size)).sum::<u64>();
    let limit = accounted + 2 * RECORD_BYTES + PADDING_BYTES_MAX;
    let unpacked =
        Bounded { inner: MultiGzDecoder::new(BufReader::new(archive)), left: limit, is_over: false };
    let mut tar = tar::Archive::new(unpacked);
    let passed = go_through(&mut tar, known, wanted, &mut take);
    let mut rest = tar.into_inner();
    let passed = passed.and_then(|()| only_zeros_follow(&mut rest));
    // Being too much shows as an error of reading wherever it is noticed.
    if rest.is_over { Err(ArchiveError::TooMuch(limit)) } else { passed }
}

fn go_through<R: Read>(
    tar: &mut tar::Archive<R>,
    known: &BTreeMap<Digest, u64>,
    wanted: &BTreeSet<Digest>,
    take: &mut impl FnMut(&Digest, Option<&[u8]>) -> io::Result<()>,
) -> Result<(), ArchiveError> {
    let mut met = BTreeSet::new();
    let mut part = vec![0; crate::work_tree::descriptors::PART_BYTES];
    // Raw: an entry that would change how the next one is read is an entry like any other, and refused.
    for entry in tar.entries().map_err(ArchiveError::Unreadable)?.raw(true) {
        let mut entry = entry.map_err(ArchiveError::Unreadable)?;
        let digest = plain_content(entry.header(), known)?;
        if !met.insert(digest) {
            return Err(ArchiveError::Duplicate(digest));
        }
        // What nobody wants is passed over by the reader, not hashed.
        if !wanted.contains(&digest) {
            continue;
        }
        let mut hash = sha2::Sha256::new();
        loop {
            let count = entry.read(&mut part).map_err(ArchiveError::Unreadable)?;
            if count == 0 {
                break;
            }
            hash.update(&part[..count]);
            take(&digest, Some(&part[..count])).map_err(ArchiveError::Taking)?;
        }
        if Digest(hash.finalize().into()) != digest {
            return Err(ArchiveError::Damaged(digest));
        }
        take(&digest, None).map_err(ArchiveError::Taking)?;
    }
    match wanted.iter().find(|digest| !met.contains(digest)) {
        Some(digest) => Err(ArchiveError::Missing(*digest)),
        None => Ok(()),
    }
}

/// The digest that a header announces, if it is one of ours in every respect.
fn plain_content(header: &tar::Header, known: &BTreeMap<Digest, u64>) -> Result<Digest, ArchiveError> {
    let path = header.path_bytes();
    let name = || shown::text(&RawText::new(path.to_vec()));
    let kind = header.entry_type();
    if kind != tar::EntryType::Regular {
        return Err(ArchiveError::NotPlain { name: name(), what: word_for(kind) });
    }
    if header.link_name_bytes().is_some() {
        return Err(ArchiveError::NotPlain {
            name: name(),
            what: "a file that names a link's target".into(),
        });
    }
    let hex = std::str::from_utf8(&path).ok().and_then(|text| text.strip_prefix(FOLDER));
    let digest = hex.and_then(Digest::parse).filter(|digest| *path == *name_in_archive(digest).as_bytes());
    let found = digest.and_then(|digest| Some((digest, *known.get(&digest)?)));
    let (digest, size) = found.ok_or_else(|| ArchiveError::Unknown(name()))?;
    let said = header.entry_size().map_err(ArchiveError::Unreadable)?;
    if said != size {
        return Err(ArchiveError::Size { digest, said, known: size });
    }
    Ok(digest)
}

fn word_for(kind: tar::EntryType) -> String {
    use tar::EntryType;
    match kind {
        EntryType::Link => "a hard link".into(),
        EntryType::Symlink => "a symbolic link".into(),
        EntryType::Char | EntryType::Block => "a device".into(),
        EntryType::Fifo => "a pipe".into(),
        EntryType::Directory => "a directory".into(),
        other => format!("of type {:#04x}", other.as_byte()),
    }
}

fn only_zeros_follow(rest: &mut impl Read) -> Result<(), ArchiveError> {
    let mut part = [0; 4096];
    loop {
        match rest.read(&mut part).map_err(ArchiveError::Unreadable)? {
            0 => return Ok(()),
            count if part[..count].iter().all(|byte| *byte == 0) => {}
            _ => return Err(ArchiveError::Trailing),
        }
    }
}

/// Reads no more than is accounted for, whatever a few compressed bytes would become.
struct Bounded<R> {
    inner: R,
    left: u64,
    is_over: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                self.is_over = true;
                return Err(io::Error::other("it unpacks to too much"));
            }
        }
        Ok(count)
    }
}

/// Single contents out of an archive, found by its blocks. Each is verified by itself.
#[derive(Debug)]
pub struct Archive {
    file: File,
    blocks: Vec<u64>,
    block_bytes: u64,
    /// Where each content begins in the tar, and its size.
    places: HashMap<Digest, (u64, u64)>,
}

impl Archive {
    pub(super) fn new(file: File, note: &ArchiveNote, sizes: &BTreeMap<Digest, u64>) -> Self {
        let mut at = 0;
        let mut places = HashMap::with_capacity(note.objects.len());
        for digest in &note.objects {
            let Some(size) = sizes.get(digest) else { continue };
            places.insert(*digest, (at, *size));
            at += length_in_archive(*size);
        }
        Archive { file, blocks: note.blocks.clone(), block_bytes: note.block_bytes, places }
    }
}

impl Contents for Archive {
    fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        if *digest == digest_of_bytes(b"") {
            return Ok(Vec::new());
        }
        let (place, size) = *self.places.get(digest).ok_or_else(|| not_kept(digest))?;
        let block = place / self.block_bytes;
        let offset = *self.blocks.get(block as usize).ok_or_else(|| damaged(digest))?;
        let packed = BufReader::with_capacity(64 << 10, FileFrom { file: &self.file, offset });
        let mut unpacked = MultiGzDecoder::new(packed);
        let before = place % self.block_bytes;
        io::copy(&mut (&mut unpacked).take(before), &mut io::sink())?;
        let mut header = tar::Header::new_old();
        unpacked.read_exact(header.as_mut_bytes())?;
        if *header.path_bytes() != *name_in_archive(digest).as_bytes() {
            return Err(damaged(digest));
        }
        // Not reserved beforehand: the size is only what the manifest says.
        let mut bytes = Vec::new();
        unpacked.take(size).read_to_end(&mut bytes)?;
        if digest_of_bytes(&bytes) == *digest { Ok(bytes) } else { Err(damaged(digest)) }
    }
}

/// A file from some place on, for several readers at once.
struct FileFrom<'f> {
    file: &'f File,
    offset: u64,
}

impl Read for FileFrom<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(bytes, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
