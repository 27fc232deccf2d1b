//! Whether something shows that it was made from something else: at least half of that is still in it.

use std::collections::HashMap;

use crate::merge::lines;
use crate::model::tree::{Digest, Entry};
use crate::work_tree::Contents;

/// Larger files are compared by identity alone.
const COMPARED_BYTES_MAX: u64 = 8 << 20;

pub(super) fn is_made_from(given: &Entry, theirs: &Entry, contents: &dyn Contents) -> bool {
    match (given, theirs) {
        (Entry::File { sha256, size, .. }, Entry::File { sha256: other, size: length, .. }) => {
            let is_small = *size.max(length) <= COMPARED_BYTES_MAX;
            sha256 == other || (is_small && keeps_half(sha256, other, contents))
        }
        (Entry::Directory { .. }, Entry::Directory { .. }) => true,
        (given, theirs) => given == theirs,
    }
}

fn keeps_half(given: &Digest, theirs: &Digest, contents: &dyn Contents) -> bool {
    let (Ok(given), Ok(theirs)) = (contents.read(given), contents.read(theirs)) else {
        return false;
    };
    !lines::is_binary(&given) && !lines::is_binary(&theirs) && keeps_half_of(&given, &theirs)
}

/// Whether at least half of the first text is still in the second.
pub(super) fn keeps_half_of(first: &[u8], second: &[u8]) -> bool {
    second.starts_with(first) || kept_bytes(first, second) * 2 >= first.len()
}

/// How many bytes of the first text's lines are in the second too, each as often as it stands there.
fn kept_bytes(first: &[u8], second: &[u8]) -> usize {
    let mut left: HashMap<&[u8], usize> = HashMap::new();
    for line in second.split_inclusive(|byte| *byte == b'\n') {
        *left.entry(line).or_default() += 1;
    }
    let mut kept = 0;
    for line in first.split_inclusive(|byte| *byte == b'\n') {
        if let Some(count) = left.get_mut(line).filter(|count| **count > 0) {
            *count -= 1;
            kept += line.len();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_as_often_as_they_stand_in_both() {
        assert_eq!(kept_bytes(b"a\nb\na\n", b"a\nc\n"), 2);
        assert_eq!(kept_bytes(b"gen summary\n", b"review of it\n"), 0);
        assert_eq!(kept_bytes(b"", b"new\n"), 0);
    }
}
