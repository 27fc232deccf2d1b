//! Contents that a merge may add to, and contents in memory. Who keeps them, and where, is not known here.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use sha2::{Digest as _, Sha256};

use crate::model::tree::Digest;
use crate::work_tree::Contents;

/// Contents to which a plan may add what no agent wrote: merged texts, the united graph, the report.
pub trait ContentStore: Contents {
    fn keep(&self, bytes: &[u8]) -> io::Result<Digest>;
}

/// The digest of some bytes.
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// Contents in memory: for trees that are small, and for tests.
#[derive(Debug, Default)]
pub struct InMemory {
    kept: RefCell<BTreeMap<Digest, Vec<u8>>>,
}

impl Contents for InMemory {
    fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let absent = || io::Error::new(io::ErrorKind::NotFound, format!("no content with SHA-256 {digest}"));
        self.kept.borrow().get(digest).cloned().ok_or_else(absent)
    }
}

impl ContentStore for InMemory {
    fn keep(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = digest_of(bytes);
        self.kept.borrow_mut().insert(digest, bytes.to_vec());
        Ok(digest)
    }
}
