//! The bus on disk: where files lie, how they are published, read, refused, journaled and archived.
//!
//! Everything that touches the disk goes through the `Disk` port, so the simulator can stand in for it.
//! No decision is taken here.

pub mod access;
pub mod archive;
pub mod disk;
pub mod journal;
pub mod layout;
pub mod lease;
pub mod misplaced;
mod names;
pub mod occupancy;
pub mod outsider;
pub mod platform;
pub mod quarantine;
pub mod real_disk;
pub mod version;
pub mod wake;

pub use disk::{Content, Disk, Durability, Listed, Look, NodeKind, Readers};
pub use layout::{BusName, Layout};
pub use real_disk::RealDisk;

pub use crate::model::batch::PLAN_BYTES_MAX;

/// Largest task spec that is read, in bytes.
pub const SPEC_BYTES_MAX: u64 = 1 << 20;
/// Largest heartbeat: it is read again and again.
pub const HEARTBEAT_BYTES_MAX: u64 = 64 << 10;
/// Largest result.
pub const RESULT_BYTES_MAX: u64 = 16 << 20;
/// Largest take or wish: they say who and what, no more.
pub const NOTE_BYTES_MAX: u64 = 64 << 10;
/// Largest journal that is folded; a batch of 200,000 tasks with retries stays far below it.
pub const JOURNAL_BYTES_MAX: u64 = 4 << 30;

/// The hash by which the journal names bytes.
pub fn sha256(bytes: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

/// The same hash, part by part.
#[derive(Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    pub fn update(&mut self, part: &[u8]) {
        use sha2::Digest;
        self.0.update(part);
    }

    /// In lower-case hexadecimal.
    pub fn finish(self) -> String {
        use sha2::Digest;
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digest = self.0.finalize();
        let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
    }
}
