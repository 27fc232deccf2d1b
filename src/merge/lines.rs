//! Three texts, one result: a merge by lines that agrees with `git merge-file`, byte for byte where it is
//! clean and conflict for conflict where it is not. Knows nothing of files, agents or policies.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Bytes in which a NUL makes a content binary; git looks as far.
const BINARY_PROBE_BYTES: usize = 8000;

/// Whether a content is merged by identity alone.
pub fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_PROBE_BYTES)].contains(&0)
}

/// Whose lines stand where both sides changed the same place differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Ours,
    Theirs,
}

/// A place that both sides changed, each in its own way. Lines keep their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash<'a> {
    /// The line of the base, from 1, at which it begins.
    pub base_line: usize,
    pub base: Vec<&'a [u8]>,
    pub ours: Vec<&'a [u8]>,
    pub theirs: Vec<&'a [u8]>,
}

/// A stretch of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<'a> {
    Settled(Vec<&'a [u8]>),
    Clash(Clash<'a>),
}

/// A merge by lines, with or without places that clash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMerge<'a> {
    pieces: Vec<Piece<'a>>,
}

impl<'a> LineMerge<'a> {
    /// Changes that touch or overlap in the base are one place. Where both sides made the same of it, that
    /// stands; where they did not, they clash.
    pub fn of(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Self {
        let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
        let mut by_us = changes(&base, &ours).into_iter().peekable();
        let mut by_them = changes(&base, &theirs).into_iter().peekable();
        let mut pieces = Vec::new();
        let mut done = 0;
        loop {
            let starts = [by_us.peek(), by_them.peek()].map(|next| next.map(|change| change.base.start));
            let Some(start) = starts.into_iter().flatten().min() else { break };
            let mut place = Place { end: start, ours: Vec::new(), theirs: Vec::new() };
            // A change may reach a later one of the other side, which may reach a later one of this side.
            loop {
                if let Some(change) = by_us.next_if(|change| change.base.start <= place.end) {
                    place.end = place.end.max(change.base.end);
                    place.ours.push(change);
                } else if let Some(change) = by_them.next_if(|change| change.base.start <= place.end) {
                    place.end = place.end.max(change.base.end);
                    place.theirs.push(change);
                } else {
                    break;
                }
            }
            pieces.push(Piece::Settled(base[done..start].to_vec()));
            done = place.end;
            pieces.push(place.piece(start, &base, &ours, &theirs));
        }
        pieces.push(Piece::Settled(base[done..].to_vec()));
        LineMerge { pieces }
    }

    pub fn clashes(&self) -> impl Iterator<Item = &Clash<'a>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Settled(_) => None,
            Piece::Clash(clash) => Some(clash),
        })
    }

    /// The merged text; `None` if anything clashes.
    pub fn clean(&self) -> Option<Vec<u8>> {
        self.clashes().next().is_none().then(|| self.favouring(Side::Ours))
    }

    /// The merged text with one side's lines where the two clash.
    pub fn favouring(&self, side: Side) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            let chosen = match (piece, side) {
                (Piece::Settled(lines), _) => lines,
                (Piece::Clash(clash), Side::Ours) => &clash.ours,
                (Piece::Clash(clash), Side::Theirs) => &clash.theirs,
            };
            chosen.iter().for_each(|line| text.extend_from_slice(line));
        }
        text
    }

    /// The places that clash, between the usual marks, with up to `context` lines around each.
    pub fn marked(&self, our_name: &str, their_name: &str, context: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Clash(clash) => {
                    put_mark(&mut text, &format!("<<<<<<< {our_name}"));
                    put_lines(&mut text, &clash.ours);
                    put_mark(&mut text, "||||||| base");
                    put_lines(&mut text, &clash.base);
                    put_mark(&mut text, "=======");
                    put_lines(&mut text, &clash.theirs);
                    put_mark(&mut text, &format!(">>>>>>> {their_name}"));
                }
                Piece::Settled(lines) => {
                    let is_clash = |at: Option<usize>| {
                        let piece = at.and_then(|at| self.pieces.get(at));
                        matches!(piece, Some(Piece::Clash(_)))
                    };
                    let tail = if is_clash(index.checked_sub(1)) { context.min(lines.len()) } else { 0 };
                    let head = if is_clash(index.checked_add(1)) { context } else { 0 };
                    let head = lines.len().saturating_sub(head).max(tail);
                    put_lines(&mut text, &lines[..tail]);
                    if tail < head && !text.is_empty() && head < lines.len() {
                        put_mark(&mut text, "…");
                    }
                    put_lines(&mut text, &lines[head..]);
                }
            }
        }
        text
    }
}

/// One change of a side: which lines of the base became which of its own.
#[derive(Debug)]
struct Changed {
    base: Range<usize>,
    side: Range<usize>,
}

/// The changes of both sides that reach each other.
struct Place {
    end: usize,
    ours: Vec<Changed>,
    theirs: Vec<Changed>,
}

impl Place {
    fn piece<'a>(
        &self,
        start: usize,
        base: &[&'a [u8]],
        ours: &[&'a [u8]],
        theirs: &[&'a [u8]],
    ) -> Piece<'a> {
        let range = start..self.end;
        let our_lines = side_of(&range, &self.ours).map(|lines| ours[lines].to_vec());
        let their_lines = side_of(&range, &self.theirs).map(|lines| theirs[lines].to_vec());
        match (our_lines, their_lines) {
            (None, None) => Piece::Settled(base[range].to_vec()),
            (Some(only), None) | (None, Some(only)) => Piece::Settled(only),
            (Some(ours), Some(theirs)) if ours == theirs => Piece::Settled(ours),
            (Some(ours), Some(theirs)) => {
                Piece::Clash(Clash { base_line: start + 1, base: base[range].to_vec(), ours, theirs })
            }
        }
    }
}

/// What became of a range of the base; `None` if the side left it alone.
fn side_of(base: &Range<usize>, changes: &[Changed]) -> Option<Range<usize>> {
    let (first, last) = (changes.first()?, changes.last()?);
    let start = first.side.start - (first.base.start - base.start);
    let end = last.side.end + (base.end - last.base.end);
    Some(start..end)
}

/// Lines with their ends; the last one may have none.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn changes(base: &[&[u8]], side: &[&[u8]]) -> Vec<Changed> {
    let mut input = InternedInput::default();
    input.update_before(base.iter().copied());
    input.update_after(side.iter().copied());
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    // Merges of git place a change that could slide as far down as it goes, without its look at indents.
    diff.postprocess_no_heuristic(&input);
    let wide = |range: Range<u32>| range.start as usize..range.end as usize;
    diff.hunks().map(|hunk| Changed { base: wide(hunk.before), side: wide(hunk.after) }).collect()
}

fn put_lines(text: &mut Vec<u8>, lines: &[&[u8]]) {
    lines.iter().for_each(|line| text.extend_from_slice(line));
}

/// A mark stands on a line of its own, even after a text without a last newline.
fn put_mark(text: &mut Vec<u8>, mark: &str) {
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    text.extend_from_slice(mark.as_bytes());
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_apart_merge_and_changes_that_touch_clash() {
        let merge = |ours: &str, theirs: &str| {
            let base = b"a\nb\nc\nd\n";
            LineMerge::of(base, ours.as_bytes(), theirs.as_bytes()).clean().map(String::from_utf8)
        };
        assert_eq!(merge("A\nb\nc\nd\n", "a\nb\nc\nD\n"), Some(Ok("A\nb\nc\nD\n".to_owned())));
        assert_eq!(merge("A\nb\nc\nd\n", "a\nB\nc\nd\n"), None, "neighbours are one place, as in git");
        assert_eq!(merge("A\nb\nc\nd\n", "A\nb\nc\nd\n"), Some(Ok("A\nb\nc\nd\n".to_owned())));
        assert_eq!(merge("a\nb\nc\nd\n", ""), Some(Ok(String::new())));
    }

    #[test]
    fn the_preview_shows_both_sides_and_the_base() {
        let merge = LineMerge::of(b"1\n2\n3\n4\nx", b"1\n2\n3\n4\ny", b"1\n2\n3\n4\nz");
        let shown = String::from_utf8(merge.marked("ann", "bob", 1)).unwrap();
        assert_eq!(shown, "4\n<<<<<<< ann\ny\n||||||| base\nx\n=======\nz\n>>>>>>> bob\n");
        assert_eq!(merge.favouring(Side::Theirs), b"1\n2\n3\n4\nz");
    }
}
