//! Private keys in PEM blocks, over many lines or with `\n` spelled out inside a JSON string.
//!
//! A block is removed as it comes: once its first line and some of its body were seen, nothing of it has to be
//! kept. A title alone, as source code and manuals quote it, stays.

use super::reader::{BASE64, Class, DIGEST, Reader, Stop, TITLE};
use super::rules::{Found, Rest, Rule, found};

/// A block that has not ended by then is given up.
const BLOCK_MAX: usize = 16 * 1024;
const TITLE_MAX: usize = 64;
const DASHES: &[u8] = b"-----";
/// How many dashes stand before the word that is searched for.
pub const DASHES_BEFORE: usize = DASHES.len();
/// How the last line of a key is known.
#[derive(Debug)]
pub struct Close {
    begins: &'static [u8],
    goes_on: &'static Class,
    ends: &'static [u8],
}

const PEM: &Close = &Close { begins: b"-----END", goes_on: TITLE, ends: DASHES };
const PUTTY: &Close = &Close { begins: b"Private-MAC", goes_on: DIGEST, ends: b"" };
/// The longest last line.
const END_MAX: usize = 16 + TITLE_MAX + DASHES.len();

/// `-----BEGIN … PRIVATE KEY-----`, where `at` is the place of `BEGIN`.
pub fn private_key(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    let Some(start) = at.checked_sub(DASHES.len()) else { return Err(Stop::No) };
    if !reader.has(start, DASHES)? || !reader.has(at, b"BEGIN ")? {
        return Err(Stop::No);
    }
    reader.begins_at(start);
    let title_end = reader.run(at, TITLE, TITLE_MAX)?;
    let is_private = reader.bytes[at..title_end].windows(11).any(|part| part == b"PRIVATE KEY");
    if !is_private || !reader.has(title_end, DASHES)? {
        return Err(Stop::No);
    }
    let end = title_end + DASHES.len();
    if has_body(reader, end)? {
        let rest = Some(Rest::Pem { left: BLOCK_MAX - (end - start), close: PEM });
        return Ok(Found { rule: Rule::Pem, start, end, rest });
    }
    Err(Stop::No)
}

/// `Private-Lines: 14` of a key of PuTTY's, and the lines behind it.
pub fn putty(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const NAME: &[u8] = b"Private-Lines: ";
    const NUMBER_MAX: usize = 6;
    if !reader.has(at, NAME)? {
        return Err(Stop::No);
    }
    let start = reader.run(at + NAME.len(), DIGEST, NUMBER_MAX)?;
    reader.begins_at(start);
    let line_end = reader.line_end(start)?;
    if line_end == 0 || !has_body(reader, start)? {
        return Err(Stop::No);
    }
    let (start, rest) = (start + line_end, Some(Rest::Pem { left: BLOCK_MAX, close: PUTTY }));
    Ok(Found { rule: Rule::Pem, start, end: start, rest })
}

/// Whether a key follows: a long run of its alphabet, soon. Marks of the log before each line may stand
/// between, and lines that name a cipher.
fn has_body(reader: &Reader, from: usize) -> Result<bool, Stop> {
    const LINE_MIN: usize = 32;
    const SOON: usize = 512;
    let mut at = from;
    while at < from + SOON {
        let end = reader.run_so_far(at, BASE64, LINE_MIN);
        if end - at == LINE_MIN {
            return Ok(true);
        }
        if reader.peek(end)?.is_none() {
            break;
        }
        at = end + 1;
    }
    // The stream ended inside a short beginning of a key.
    let body = &reader.bytes[from.min(reader.bytes.len())..];
    let is_key_like =
        |byte: &u8| BASE64[*byte as usize] || byte.is_ascii_whitespace() || b"\\=".contains(byte);
    Ok(reader.is_end
        && body.len() < SOON
        && body.iter().all(is_key_like)
        && body.iter().any(u8::is_ascii_alphanumeric))
}

/// The next piece of a block that has begun, at most `left` bytes of it.
pub fn go_on(reader: &Reader, at: usize, left: usize, close: &'static Close) -> Result<Found, Stop> {
    let mark = close.begins;
    let known = reader.bytes.len();
    let until = known.min(at + left);
    let searched = &reader.bytes[at..known.min(until + mark.len() - 1)];
    if let Some(offset) = searched.windows(mark.len()).position(|part| part == mark) {
        let last_line = at + offset;
        let end = reader.run(last_line + mark.len(), close.goes_on, TITLE_MAX);
        let closed =
            end.and_then(|end| Ok(if reader.has(end, close.ends)? { end + close.ends.len() } else { end }));
        return match closed {
            Ok(end) => found(Rule::Pem, at, end),
            Err(stop) if last_line == at => Err(stop),
            Err(_) => Ok(piece(at, last_line, left, close)),
        };
    }
    if until == at + left || reader.is_end {
        return if until > at { found(Rule::Pem, at, until) } else { Err(Stop::No) };
    }
    // The last line may have begun in what is there.
    let sure = known.saturating_sub(END_MAX).max(at);
    if sure == at { Err(Stop::Wait { from: at }) } else { Ok(piece(at, sure, left, close)) }
}

fn piece(start: usize, end: usize, left: usize, close: &'static Close) -> Found {
    Found { rule: Rule::Pem, start, end, rest: Some(Rest::Pem { left: left - (end - start), close }) }
}
