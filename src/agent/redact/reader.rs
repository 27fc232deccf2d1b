//! Looks at the part of a stream that is in memory, and knows the difference between "no" and "not yet".
//!
//! Every judgement is made through a `Reader`, and none looks at how the bytes were cut into pieces: that is
//! what makes the same text come out the same, however it was written.

/// The longest text that is judged as one secret, in bytes. Longer ones go on as a run.
pub const LENGTH_MAX: usize = 4096;

/// Why there is no secret to speak of.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// Whatever comes, this is none.
    No,
    /// It may become one, which would begin at `from` or later.
    Wait { from: usize },
}

/// A kind of characters, as a table: one look a byte.
pub type Class = [bool; 256];

pub const ALNUM: &Class = &class(b"");
pub const WORD: &Class = &class(b"_");
pub const WORD_DASH: &Class = &class(b"_-");
pub const WORD_DASH_DOT: &Class = &class(b"_-.");
pub const WORD_DASH_DOT_TILDE: &Class = &class(b"_-.~");
/// With the checksum behind an equal sign.
pub const WORD_DASH_EQUALS: &Class = &class(b"_-=");
pub const HEX: &Class = &only(b"0123456789abcdefABCDEF");
pub const BASE64_PADDED: &Class = &class(b"+/=");
/// What closes the key of PuTTY: a title's rest and a digest.
pub const DIGEST: &Class = &only(b": 0123456789abcdefABCDEF");
pub const BASE64: &Class = &class(b"+/");
/// Both alphabets of it.
pub const ANY_BASE64: &Class = &class(b"+/-_");
/// What RFC 6750 and its relatives call a token, and the colons that some put in.
pub const TOKEN: &Class = &class(b"-._~+/=:%");
pub const CAPITALS: &Class = &only(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
pub const TITLE: &Class = &only(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ");
/// All but blanks, quotes and the escapes before them: the rest of a value that is known to be secret.
pub const UNBROKEN: &Class = &all_but_blanks();

const fn only(members: &[u8]) -> Class {
    let mut table = [false; 256];
    let mut at = 0;
    while at < members.len() {
        table[members[at] as usize] = true;
        at += 1;
    }
    table
}

const fn class(beside_letters_and_digits: &[u8]) -> Class {
    let mut table = only(beside_letters_and_digits);
    let mut byte = 0;
    while byte < 256 {
        table[byte] = table[byte] || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    table
}

const fn all_but_blanks() -> Class {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte <= b' ' as usize {
        table[byte] = false;
        byte += 1;
    }
    table[b'"' as usize] = false;
    table[b'\'' as usize] = false;
    table[b'`' as usize] = false;
    table[b'\\' as usize] = false;
    table
}

/// How a line may end that an encoder wrapped: as it is, or as JSON writes it, once or twice.
const LINE_ENDS: &[&[u8]] = &[b"\n", b"\r\n", b"\\n", b"\\r\\n", b"\\\\n", b"\\\\r\\\\n"];
/// The longest of them.
pub const LINE_END_MAX: usize = 6;

/// How long the line end is that these bytes begin with. `Err` says how much of one there is that may be
/// cut off.
pub fn line_end(rest: &[u8]) -> Option<Result<usize, usize>> {
    let whole = LINE_ENDS.iter().find(|end| rest.starts_with(end)).map(|end| Ok(end.len()));
    let is_cut = || !rest.is_empty() && LINE_ENDS.iter().any(|end| end.starts_with(rest));
    whole.or_else(|| is_cut().then_some(Err(rest.len())))
}

/// A look at the bytes around one place.
pub struct Reader<'a> {
    pub bytes: &'a [u8],
    /// Nothing comes after these bytes.
    pub is_end: bool,
    /// Where a secret would begin, as far as is known by now.
    from: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], is_end: bool, from: usize) -> Reader<'a> {
        Reader { bytes, is_end, from }
    }

    /// What comes before `from` is known to be no part of the secret: it need not wait with it.
    pub fn begins_at(&mut self, from: usize) {
        self.from = from;
    }

    /// The byte at a place; `None` behind the end of the stream.
    pub fn peek(&self, at: usize) -> Result<Option<u8>, Stop> {
        match self.bytes.get(at) {
            Some(byte) => Ok(Some(*byte)),
            None if self.is_end => Ok(None),
            None => Err(Stop::Wait { from: self.from }),
        }
    }

    /// Whether `word` stands at a place, letter for letter.
    pub fn has(&self, at: usize, word: &[u8]) -> Result<bool, Stop> {
        let rest = &self.bytes[at.min(self.bytes.len())..];
        let common = rest.len().min(word.len());
        if rest[..common] != word[..common] {
            return Ok(false);
        }
        if common < word.len() {
            self.peek(at + common)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Where `code` ends that stands at a place, though lines may end in the midst of it.
    pub fn wrapped(&self, at: usize, code: &[u8]) -> Result<Option<usize>, Stop> {
        let mut end = at;
        for byte in code {
            if end > at && self.peek(end)? != Some(*byte) {
                end += self.line_end(end)?;
            }
            if self.peek(end)? != Some(*byte) {
                return Ok(None);
            }
            end += 1;
        }
        Ok(Some(end))
    }

    /// How long the line end at a place is; 0 where there is none.
    pub fn line_end(&self, at: usize) -> Result<usize, Stop> {
        match line_end(&self.bytes[at.min(self.bytes.len())..]) {
            Some(Ok(length)) => Ok(length),
            Some(Err(_)) if !self.is_end => Err(Stop::Wait { from: self.from }),
            _ => Ok(0),
        }
    }

    /// Where the run of a class ends that begins at a place; at most `max` bytes are looked at.
    pub fn run(&self, at: usize, class: &Class, max: usize) -> Result<usize, Stop> {
        let end = self.run_so_far(at, class, max);
        if end < at + max {
            self.peek(end)?;
        }
        Ok(end)
    }

    /// The same, without a wish to know whether more of it comes.
    pub fn run_so_far(&self, at: usize, class: &Class, max: usize) -> usize {
        let rest = self.bytes[at.min(self.bytes.len())..].iter().take(max);
        at + rest.take_while(|byte| class[**byte as usize]).count()
    }

    /// The byte before a place, if it is still known.
    pub fn before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).map(|at| self.bytes[at])
    }

    /// Whether no word goes on into this place.
    ///
    /// A letter before it may also be the end of something else: of an escape in JSON (`\n`, `\u000a`), of a
    /// percent code, of a colour for the terminal.
    pub fn is_word_start(&self, at: usize) -> bool {
        let Some(last) = self.before(at) else { return true };
        if !WORD[last as usize] {
            return true;
        }
        let known = &self.bytes[..at];
        let ends_with = |sign: &[u8], digits: usize| {
            known.len().checked_sub(sign.len() + digits).is_some_and(|start| {
                known[start..].starts_with(sign)
                    && known[start + sign.len()..].iter().all(u8::is_ascii_hexdigit)
            })
        };
        let is_escape = b"nrtbf".contains(&last) && known.len() > 1 && known[known.len() - 2] == b'\\';
        is_escape
            || ends_with(b"%", 2)
            || ends_with(b"\\x", 2)
            || ends_with(b"\\u", 4)
            || ends_a_colour(known)
    }
}

/// Whether the text ends like `ESC [ 1 ; 32 m`, the first sign of which may be written in many ways.
fn ends_a_colour(known: &[u8]) -> bool {
    let Some(inner) = known.strip_suffix(b"m") else { return false };
    let codes =
        inner.iter().rev().take(12).take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    inner[..inner.len() - codes].ends_with(b"[")
}
