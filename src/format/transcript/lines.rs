//! Bytes in any pieces, back into lines, with a bound on what is held.

use super::LINE_BYTES_MAX;

/// The beginning of a line whose end has not come yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    is_too_long: bool,
    skipped: u64,
    /// Nothing but blanks has come since the last line that was skipped.
    is_last_skipped: bool,
}

impl Lines {
    /// Takes bytes and gives every line that they complete, without its end.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..at]);
            bytes = &bytes[at + 1..];
            if !self.is_too_long {
                each(&self.begun);
                self.is_last_skipped &= self.begun.trim_ascii().is_empty();
            }
            self.is_too_long = false;
            self.begun.clear();
        }
        self.extend(bytes);
    }

    /// Lines that were too long, the one that has only begun among them.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether the last line that said something was too long.
    pub(super) fn is_last_skipped(&self) -> bool {
        self.is_last_skipped && self.begun.trim_ascii().is_empty()
    }

    /// Gives the last line if it lacks its end.
    pub(super) fn finish(self, mut each: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            each(&self.begun);
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.is_too_long {
            return;
        }
        if self.begun.len() + bytes.len() > LINE_BYTES_MAX {
            self.is_too_long = true;
            self.skipped += 1;
            self.is_last_skipped = true;
            // Most runs have no other line of this size, so its room is given back.
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]]) -> (Vec<String>, u64) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| found.push(String::from_utf8_lossy(line).into_owned()));
        }
        let skipped = lines.skipped();
        lines.finish(|line| found.push(String::from_utf8_lossy(line).into_owned()));
        (found, skipped)
    }

    #[test]
    fn lines_come_out_whole_wherever_the_pieces_are_cut() {
        assert_eq!(lines_of(&[b"one\ntw", b"o\n", b"", b"\nthree"]).0, ["one", "two", "", "three"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_up_to_its_end_and_the_next_is_heard() {
        let long = vec![b'x'; LINE_BYTES_MAX];
        let (found, skipped) = lines_of(&[b"a\n", &long, b"y", &long, b"z\nnext\n"]);
        assert_eq!((found, skipped), (vec!["a".to_owned(), "next".to_owned()], 1));
        let (found, skipped) = lines_of(&[&long, b"\n"]);
        assert_eq!((found.len(), skipped), (1, 0), "exactly at the bound it is still heard");
    }
}
