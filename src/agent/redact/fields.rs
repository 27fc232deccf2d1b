//! Values that are secret because of the name before them: headers, assignments, the password in an address.
//!
//! The name stays, and so does a value that cannot be one: a word, a placeholder, a piece of code.

use super::reader::{ALNUM, LENGTH_MAX, Reader, Stop, TOKEN, UNBROKEN};
use super::rules::{Found, Rule, found, found_run};

/// As many blanks may stand around a separator.
const BLANKS_MAX: usize = 64;
/// How our own marks begin: what was removed once is not removed again.
pub const MARK: &[u8] = b"[redacted:";
/// Below this many bits a character, a value is a word rather than a secret.
const ENTROPY_MIN: f64 = 3.5;
/// As much of a value is weighed; 2^3.5 different characters need twelve bytes at least.
const WEIGHED_MAX: usize = 1024;
const VALUE_MIN: usize = 8;

/// `Authorization: scheme value`.
pub fn authorization(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const NAME: &[u8] = b"authorization";
    const TO_LINE_END: &[&[u8]] = &[b"aws4-hmac-sha256", b"digest", b"oauth", b"hawk", b"signature"];
    const SCHEME_MAX: usize = 20;
    if !has_word(reader, at, NAME)? {
        return Err(Stop::No);
    }
    let Some(value) = behind_separator(reader, at + NAME.len())? else { return Err(Stop::No) };
    let scheme_end = reader.run(value.start, TOKEN, LENGTH_MAX)?;
    let credential = skip_blanks(reader, scheme_end)?;
    let scheme = reader.bytes[value.start..scheme_end].to_ascii_lowercase();
    let is_signed = TO_LINE_END.contains(&scheme.as_slice());
    let is_name =
        scheme.len() <= SCHEME_MAX && scheme.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-');
    if credential == scheme_end || !(is_signed || is_name) {
        let has_digit = reader.bytes[value.start..scheme_end].iter().any(u8::is_ascii_digit);
        let length = scheme_end - value.start;
        let is_secret = length >= 24 || (length >= VALUE_MIN && has_digit);
        return if is_secret {
            token_run(Rule::Authorization, value.start, scheme_end)
        } else {
            Err(Stop::No)
        };
    }
    reader.begins_at(credential);
    if is_signed {
        return to_line_end(reader, credential, value.quote);
    }
    let end = reader.run(credential, TOKEN, LENGTH_MAX)?;
    if is_word(&reader.bytes[credential..end]) {
        Err(Stop::No)
    } else {
        token_run(Rule::Authorization, credential, end)
    }
}

/// `Bearer value`, in whatever field it stands.
pub fn bearer(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const NAME: &[u8] = b"bearer";
    if !has_word(reader, at, NAME)? || !reader.is_word_start(at) {
        return Err(Stop::No);
    }
    let blanks = at + NAME.len();
    let start = match pass_blanks(reader, blanks)? {
        same if same == blanks => skip_encoded_blank(reader, blanks)?,
        later => later,
    };
    reader.begins_at(start);
    let end = reader.run(start, TOKEN, LENGTH_MAX)?;
    if start == blanks || is_word(&reader.bytes[start..end]) {
        Err(Stop::No)
    } else {
        token_run(Rule::Bearer, start, end)
    }
}

fn skip_encoded_blank(reader: &Reader, at: usize) -> Result<usize, Stop> {
    Ok(if reader.has(at, b"%20")? { at + 3 } else { at })
}

/// What `api-key` or its relatives begin: a header, or an assignment.
pub fn api_key(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    let separated = usize::from(reader.peek(at + 3)?.is_some_and(|byte| b"-_".contains(&byte)));
    let name_end = at + "apikey".len() + separated;
    let is_header = at >= 2 && reader.bytes[at - 2..at].eq_ignore_ascii_case(b"x-");
    if !is_header {
        return assignment(reader, name_end);
    }
    let Some(value) = behind_separator(reader, name_end)? else { return Err(Stop::No) };
    let end = reader.run(value.start, TOKEN, LENGTH_MAX)?;
    if is_word(&reader.bytes[value.start..end]) {
        Err(Stop::No)
    } else {
        token_run(Rule::ApiKeyHeader, value.start, end)
    }
}

/// `secret`, `secret_key`, `SECRET_ACCESS_KEY` and the like.
pub fn secret(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    let mut name_end = at + "secret".len();
    reader.begins_at(name_end);
    for (word, is_last) in [(b"access".as_slice(), false), (b"key", true)] {
        let separated = usize::from(reader.peek(name_end)?.is_some_and(|byte| b"-_".contains(&byte)));
        if has_word(reader, name_end + separated, word)? {
            name_end += separated + word.len();
        } else if is_last && name_end > at + "secret".len() {
            return Err(Stop::No);
        }
    }
    assignment(reader, name_end)
}

/// `name = value`, where `name_end` is behind the name of a secret thing.
pub fn assignment(reader: &mut Reader, name_end: usize) -> Result<Found, Stop> {
    let Some(value) = behind_separator(reader, name_end)? else { return Err(Stop::No) };
    let end = match value.quote {
        Some(quote) => quoted_end(reader, value.start, quote)?,
        None => bare_end(reader, value.start)?,
    };
    let text = &reader.bytes[value.start..end];
    let is_secret = entropy(text) >= ENTROPY_MIN
        && !text.starts_with(MARK)
        && !is_placeholder(text)
        && !is_prose(text)
        && (value.quote.is_some() || !is_code(text, value.is_tight));
    if !is_secret {
        return Err(Stop::No);
    }
    let is_cut = end >= value.start + WEIGHED_MAX;
    if is_cut {
        found_run(Rule::Assignment, value.start, end, UNBROKEN)
    } else {
        found(Rule::Assignment, value.start, end)
    }
}

/// `scheme://user:password@host`: the password alone. `at` is the place of `://`.
pub fn url_password(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    let authority = at + "://".len();
    let (mut colon, mut last_at) = (None, None);
    let mut place = authority;
    while place < authority + LENGTH_MAX {
        reader.begins_at(colon.map_or(place, |colon| colon + 1));
        let Some(byte) = reader.peek(place)? else { break };
        match byte {
            b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' => break,
            byte if byte <= b' ' => break,
            b':' => colon = colon.or(Some(place)),
            b'@' => last_at = Some(place),
            _ => (),
        }
        place += 1;
    }
    match (colon, last_at) {
        (Some(colon), Some(end)) if colon + 1 < end && !reader.bytes[colon + 1..end].starts_with(MARK) => {
            found(Rule::UrlPassword, colon + 1, end)
        }
        _ => Err(Stop::No),
    }
}

/// Where a value begins, and how it is written.
struct Value {
    start: usize,
    quote: Option<Quote>,
    /// No blanks around the separator, as shells and settings want it.
    is_tight: bool,
}

/// The sign that ends a value, behind as many backslashes as began it.
#[derive(Clone, Copy)]
pub struct Quote {
    sign: u8,
    backslashes: usize,
}

/// The value behind `=` or `:`, on the same line; the name may have been in quotes, and so may the value.
fn behind_separator(reader: &mut Reader, name_end: usize) -> Result<Option<Value>, Stop> {
    reader.begins_at(name_end);
    let behind_name = match quote_at(reader, name_end)? {
        Some((_, behind)) => behind,
        None => name_end,
    };
    let separator = pass_blanks(reader, behind_name)?;
    let mut behind = match reader.peek(separator)? {
        Some(b'=' | b':') => separator + 1,
        _ => return Ok(None),
    };
    // `:=` and `=>`; two equal signs compare.
    match (reader.bytes[separator], reader.peek(behind)?) {
        (b':', Some(b'=')) | (b'=', Some(b'>')) => behind += 1,
        (b'=', Some(b'=')) | (b':', Some(b':')) => return Ok(None),
        _ => (),
    }
    let place = pass_blanks(reader, behind)?;
    let is_tight = separator == behind_name && place == behind;
    let (quote, start) = match quote_at(reader, place)? {
        Some((quote, inside)) => (Some(quote), inside),
        None => (None, place),
    };
    reader.begins_at(start);
    Ok(Some(Value { start, quote, is_tight }))
}

/// A quote sign at a place, perhaps escaped, and the place behind it.
pub fn quote_at(reader: &Reader, at: usize) -> Result<Option<(Quote, usize)>, Stop> {
    const NESTED_MAX: usize = 7;
    let mut backslashes = 0;
    while backslashes < NESTED_MAX && reader.peek(at + backslashes)? == Some(b'\\') {
        backslashes += 1;
    }
    let place = at + backslashes;
    Ok(match reader.peek(place)? {
        Some(sign @ (b'"' | b'\'' | b'`')) => Some((Quote { sign, backslashes }, place + 1)),
        _ => None,
    })
}

fn skip_blanks(reader: &Reader, at: usize) -> Result<usize, Stop> {
    let mut end = at;
    while end < at + BLANKS_MAX && matches!(reader.peek(end)?, Some(b' ' | b'\t')) {
        end += 1;
    }
    Ok(end)
}

/// Skips blanks before a secret: they need not wait for it, so that a prompt comes out whole.
pub fn pass_blanks(reader: &mut Reader, at: usize) -> Result<usize, Stop> {
    let known = reader.bytes[at.min(reader.bytes.len())..].iter().take(BLANKS_MAX);
    reader.begins_at(at + known.take_while(|byte| matches!(byte, b' ' | b'\t')).count());
    skip_blanks(reader, at)
}

pub fn has_word(reader: &Reader, at: usize, word: &[u8]) -> Result<bool, Stop> {
    for (offset, wanted) in word.iter().enumerate() {
        if reader.peek(at + offset)?.is_none_or(|byte| !byte.eq_ignore_ascii_case(wanted)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where a value in quotes ends: at its closing sign, or with its line.
fn quoted_end(reader: &Reader, start: usize, quote: Quote) -> Result<usize, Stop> {
    let mut at = start;
    while at < start + WEIGHED_MAX {
        let mut behind = at;
        while behind < start + WEIGHED_MAX && reader.peek(behind)? == Some(b'\\') {
            behind += 1;
        }
        let backslashes = behind - at;
        match reader.peek(behind)? {
            None | Some(b'\n' | b'\r') => return Ok(behind),
            Some(sign) if sign == quote.sign => {
                let closes = match quote.backslashes {
                    0 => backslashes.is_multiple_of(2),
                    opening => backslashes <= opening,
                };
                if closes {
                    return Ok(if quote.backslashes == 0 { behind } else { at });
                }
            }
            Some(_) => (),
        }
        at = behind + 1;
    }
    Ok(start + WEIGHED_MAX)
}

/// Where a value without quotes ends: at a blank, a quote or an escape, or where the next pair begins.
fn bare_end(reader: &Reader, start: usize) -> Result<usize, Stop> {
    let mut end = start;
    while end < start + WEIGHED_MAX {
        let Some(byte) = reader.peek(end)? else { break };
        let stops = match byte {
            byte if byte <= b' ' => true,
            b'"' | b'\'' | b'`' => true,
            b'\\' => reader.peek(end + 1)?.is_none_or(|next| b"nrtu\"'\\".contains(&next)),
            b',' | b';' | b'&' => begins_pair(reader, end + 1)?,
            _ => false,
        };
        if stops {
            break;
        }
        end += 1;
    }
    if end == start + WEIGHED_MAX {
        return Ok(end);
    }
    let value = &reader.bytes[start..end];
    let closing = value.iter().rev().take_while(|byte| b")]}>,;.:|".contains(byte)).count();
    Ok(end - closing)
}

fn begins_pair(reader: &Reader, at: usize) -> Result<bool, Stop> {
    const NAME_MAX: usize = 40;
    let mut end = at;
    while end < at + NAME_MAX
        && reader.peek(end)?.is_some_and(|byte| ALNUM[byte as usize] || b"_-.".contains(&byte))
    {
        end += 1;
    }
    Ok(end > at && matches!(reader.peek(end)?, Some(b'=' | b':')))
}

fn to_line_end(reader: &Reader, start: usize, quote: Option<Quote>) -> Result<Found, Stop> {
    let mut end = start;
    while end < start + LENGTH_MAX {
        match reader.peek(end)? {
            None | Some(b'\n' | b'\r' | b'\\') => break,
            Some(byte) if quote.is_some_and(|quote| quote.sign == byte) => break,
            Some(_) => end += 1,
        }
    }
    let is_secret = end - start >= VALUE_MIN && !reader.bytes[start..end].starts_with(MARK);
    if is_secret { found(Rule::Authorization, start, end) } else { Err(Stop::No) }
}

/// A token of which at most `LENGTH_MAX` bytes were looked at.
fn token_run(rule: Rule, start: usize, end: usize) -> Result<Found, Stop> {
    let is_cut = end - start == LENGTH_MAX;
    if is_cut { found_run(rule, start, end, TOKEN) } else { found(rule, start, end) }
}

/// Too short for a secret, or a word of prose: "Bearer authentication", "Authorization: Basic realm".
fn is_word(value: &[u8]) -> bool {
    const PROSE_MAX: usize = 16;
    let Some((_, behind_first)) = value.split_first() else { return true };
    value.len() < VALUE_MIN
        || (value.len() < PROSE_MAX
            && behind_first.iter().all(|byte| byte.is_ascii_lowercase() || b".:-".contains(byte)))
}

/// A name that stands for a value which is filled in elsewhere.
pub fn is_placeholder(value: &[u8]) -> bool {
    const SIGNS: &[&[u8]] = &[b"$", b"<", b"{{", b"%(", b"%{", b"***"];
    SIGNS.iter().any(|sign| value.starts_with(sign))
}

/// Words with blanks between them, none of which looks as if nobody could guess it.
fn is_prose(value: &[u8]) -> bool {
    const KINDS_LEAST: usize = 3;
    let is_mixed = |word: &[u8]| {
        // Signs at the ends of a word are a sentence's.
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric();
        let first = word.iter().position(is_letter).unwrap_or(0);
        let last = word.iter().rposition(is_letter).map_or(0, |at| at + 1);
        let inner = &word[first.min(last)..last];
        let kinds: [fn(&u8) -> bool; 4] =
            [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit, u8::is_ascii_punctuation];
        kinds.iter().filter(|kind| inner.iter().any(kind)).count() >= KINDS_LEAST
    };
    let mut words = value.split(|byte| *byte <= b' ').filter(|word| !word.is_empty());
    value.iter().any(|byte| *byte <= b' ') && !words.any(is_mixed)
}

/// Without quotes, source code has names and calls where settings have values.
fn is_code(value: &[u8], is_tight: bool) -> bool {
    let has = |part: &[u8]| value.windows(part.len()).any(|window| window == part);
    let is_constant =
        has(b"_") && value.iter().all(|byte| byte.is_ascii_uppercase() || b"_0123456789".contains(byte));
    if [b"(".as_slice(), b"::", b"<", b"["].into_iter().any(has) || value.starts_with(b"&") || is_constant {
        return true;
    }
    let has_digit = value.iter().any(u8::is_ascii_digit);
    let is_path = value.iter().any(|byte| b"./:\\".contains(byte));
    !has_digit && (is_path || !is_tight)
}

/// Bits a character, by how often each occurs in the value.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        counts[*byte as usize] += 1;
    }
    let length = value.len() as f64;
    let share = |count: &u32| f64::from(*count) / length;
    -counts.iter().filter(|count| **count > 0).map(|count| share(count) * share(count).log2()).sum::<f64>()
}
