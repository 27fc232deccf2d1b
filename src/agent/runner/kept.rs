//! What of an agent's output is kept in memory for its result: all of it while it is small, and its end.

/// An object that an agent prints as its answer is at most this long.
const WHOLE_BYTES_MAX: usize = 1 << 20;
/// Enough for the last lines; twice as much is collected before the older half is dropped.
const TAIL_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    /// More came than is kept.
    is_cut: bool,
}

impl Kept {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.is_cut && bytes.len() >= TAIL_BYTES_MAX {
            // Nothing of what was kept so far, and only the end of what came, is needed.
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[bytes.len() - TAIL_BYTES_MAX..]);
            return;
        }
        self.bytes.extend_from_slice(bytes);
        let most = if self.is_cut { 2 * TAIL_BYTES_MAX } else { WHOLE_BYTES_MAX };
        if self.bytes.len() > most {
            self.is_cut = true;
            self.bytes.drain(..self.bytes.len() - TAIL_BYTES_MAX);
        }
    }

    /// Everything, if it was small enough and not blank.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        let trimmed = self.bytes.trim_ascii();
        (!self.is_cut && !trimmed.is_empty()).then_some(trimmed)
    }

    /// The last line that is not blank, if all of it is kept and it stands out from those before it: where two
    /// lines in a row begin like an object, they are entries of a log and nobody's answer.
    pub(super) fn parting_line(&self) -> Option<&[u8]> {
        let is_object = |line: &[u8]| line.starts_with(b"{");
        // Of the first line that is kept the beginning may be gone.
        let first_whole = match self.is_cut {
            true => self.bytes.iter().position(|byte| *byte == b'\n')? + 1,
            false => 0,
        };
        let lines = self.bytes[first_whole..].rsplit(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let mut lines = lines.filter(|line| !line.is_empty());
        let last = lines.next().filter(|line| is_object(line))?;
        (!lines.next().is_some_and(is_object)).then_some(last)
    }

    /// What is kept, as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The last line that has its end, as text: what comes after it is still being said.
    pub(super) fn last_whole_line(&self) -> Option<String> {
        let end = self.bytes.iter().rposition(|byte| *byte == b'\n')?;
        last_lines_of(&self.bytes[..end], 1).pop()
    }

    /// The last lines, as text. Of a line that is too long its end.
    pub(super) fn last_lines(&self, count: usize) -> Vec<String> {
        last_lines_of(&self.bytes, count)
    }
}

fn last_lines_of(bytes: &[u8], count: usize) -> Vec<String> {
    let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(count);
    lines[from..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_whole_when_it_has_its_end() {
        let mut kept = Kept::default();
        kept.push(b"li");
        assert_eq!(kept.last_whole_line(), None);
        kept.push(b"ne 1\n\nli");
        assert_eq!(kept.last_whole_line().as_deref(), Some("line 1"));
        assert_eq!(kept.last_lines(1), ["li"]);
    }

    #[test]
    fn the_last_line_is_an_answer_where_it_alone_may_be_one() {
        let parting = |text: &str| {
            let mut kept = Kept::default();
            kept.push(text.as_bytes());
            kept.parting_line().map(|line| String::from_utf8_lossy(line).into_owned())
        };
        assert_eq!(parting("working\n\n  {\"a\": 1} \r\n\n").as_deref(), Some("{\"a\": 1}"));
        assert_eq!(parting("{\"level\": \"info\"}\n{\"level\": \"info\"}\n"), None, "a log of objects");
        assert_eq!(parting("{\"a\": 1}\ndone\n"), None);
        let cut = format!("{}{{\"a\": 1}}", "x".repeat(WHOLE_BYTES_MAX));
        assert_eq!(parting(&cut), None, "nobody knows where that line begins");
        assert_eq!(parting(&format!("{cut}\n{{}}")).as_deref(), Some("{}"));
    }

    #[test]
    fn a_flood_is_kept_as_its_last_lines_alone() {
        let mut kept = Kept::default();
        kept.push(b"{\"a\": 1}\n");
        assert_eq!(kept.whole(), Some(b"{\"a\": 1}".as_slice()));
        for number in 0..200_000 {
            kept.push(format!("line {number}\n").as_bytes());
        }
        assert_eq!(kept.whole(), None);
        assert_eq!(kept.last_lines(2), ["line 199998", "line 199999"]);
        assert!(kept.bytes.len() <= 2 * TAIL_BYTES_MAX);
    }
}
