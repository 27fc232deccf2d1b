//! Passwords in command lines and netrc files, and cookies in headers: what is secret by where it stands, whatever it looks like.
//!
//! The command, the name of the user and the name of a cookie stay.

use super::fields::{MARK, has_word, is_placeholder, pass_blanks, quote_at};
use super::reader::{LENGTH_MAX, Reader, Stop, UNBROKEN, WORD_DASH, WORD_DASH_DOT};
use super::rules::{Found, Rule, found};

/// As far behind a command's name its options are looked for.
const LINE_MAX: usize = 1024;

/// `curl … -u NAME:PASSWORD`.
pub fn curl(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    let name_end = at + "curl".len();
    if !is_command(reader, at, name_end)? {
        return Err(Stop::No);
    }
    for_each_option(reader, name_end, |reader, option| {
        let end = reader.run(option, WORD_DASH, LENGTH_MAX)?;
        let word = &reader.bytes[option..end];
        let is_long = matches!(word, b"--user" | b"--proxy-user");
        let is_short = !word.starts_with(b"--") && matches!(word.last(), Some(b'u' | b'U'));
        // Its value may follow at once, up to the colon.
        let is_attached =
            !word.starts_with(b"--") && matches!(word.get(1), Some(b'u' | b'U')) && word.len() > 2;
        if !(is_long || is_short || is_attached) {
            return Err(Stop::No);
        }
        let value = if is_attached { option + 2 } else { value_behind(reader, end)? };
        let stop = bare_end(reader, value)?;
        let colon = reader.bytes[value..stop].iter().position(|byte| *byte == b':').ok_or(Stop::No)?;
        password(reader, value + colon + 1, stop)
    })
}

/// `mysql … -pPASSWORD`, `mysqldump`, `mariadb` and their relatives; `--password=PASSWORD`.
pub fn mysql(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const NAME_MAX: usize = 32;
    let name_end = reader.run(at, WORD_DASH, NAME_MAX)?;
    if !is_command(reader, at, name_end)? {
        return Err(Stop::No);
    }
    for_each_option(reader, name_end, |reader, option| {
        const LONG: &[u8] = b"--password=";
        let value = match reader.has(option, LONG)? {
            true => option + LONG.len(),
            false if reader.has(option, b"-p")? => option + 2,
            false => return Err(Stop::No),
        };
        let value = quote_at(reader, value)?.map_or(value, |(_, inside)| inside);
        reader.begins_at(value);
        let end = bare_end(reader, value)?;
        password(reader, value, end)
    })
}

/// A command's own name, with options behind it.
fn is_command(reader: &Reader, at: usize, name_end: usize) -> Result<bool, Stop> {
    Ok(reader.is_word_start(at)
        && reader.before(at) != Some(b'-')
        && matches!(reader.peek(name_end)?, Some(b' ' | b'\t')))
}

/// Asks about each word behind a command that begins with a dash, up to the end of its line.
fn for_each_option(
    reader: &mut Reader,
    from: usize,
    ask: impl Fn(&mut Reader, usize) -> Result<Found, Stop>,
) -> Result<Found, Stop> {
    let mut at = from;
    while at < from + LINE_MAX {
        reader.begins_at(at);
        let Some(byte) = reader.peek(at)? else { break };
        let before = reader.bytes[at - 1];
        // A backslash at its end continues the line; in JSON an escaped one ends it.
        let ends = (byte == b'\n' && before != b'\\') || (byte == b'n' && before == b'\\');
        if ends || b"|;&".contains(&byte) {
            break;
        }
        if byte == b'-' && matches!(before, b' ' | b'\t' | b'\n') {
            match ask(reader, at) {
                Err(Stop::No) => {}
                decided => return decided,
            }
        }
        at += 1;
    }
    Err(Stop::No)
}

/// Where the value of an option begins: behind blanks or `=`, and behind a quote.
fn value_behind(reader: &mut Reader, option_end: usize) -> Result<usize, Stop> {
    let place = match reader.peek(option_end)? {
        Some(b'=') => option_end + 1,
        _ => pass_blanks(reader, option_end)?,
    };
    Ok(quote_at(reader, place)?.map_or(place, |(_, inside)| inside))
}

fn bare_end(reader: &Reader, at: usize) -> Result<usize, Stop> {
    reader.run(at, UNBROKEN, LENGTH_MAX)
}

fn password(reader: &mut Reader, start: usize, end: usize) -> Result<Found, Stop> {
    reader.begins_at(start);
    let text = &reader.bytes[start.min(end)..end];
    let is_secret = !text.is_empty() && !is_placeholder(text) && !text.starts_with(MARK);
    if is_secret { found(Rule::CommandPassword, start, end) } else { Err(Stop::No) }
}

/// `Cookie: NAME=…` to the end of the line, and the value of `Set-Cookie: NAME=…; Path=/`.
pub fn cookie(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const VALUE_MIN: usize = 6;
    const NAME: &[u8] = b"cookie";
    const NAME_MAX: usize = 128;
    if !has_word(reader, at, NAME)? {
        return Err(Stop::No);
    }
    let name_end = at + NAME.len();
    reader.begins_at(name_end);
    let behind_name = quote_at(reader, name_end)?.map_or(name_end, |(_, behind)| behind);
    let is_option = at >= 2 && reader.bytes[at - 2..at] == *b"--";
    let separator = pass_blanks(reader, behind_name)?;
    let place = match reader.peek(separator)? {
        Some(b':') => pass_blanks(reader, separator + 1)?,
        Some(_) if is_option => value_behind(reader, name_end)?,
        _ => return Err(Stop::No),
    };
    let first = quote_at(reader, place)?.map_or(place, |(_, inside)| inside);
    let equals = reader.run(first, WORD_DASH_DOT, NAME_MAX)?;
    if equals == first || !reader.has(equals, b"=")? {
        return Err(Stop::No);
    }
    let start = equals + 1;
    reader.begins_at(start);
    let first_end = cookie_end(reader, start, true)?;
    let text = &reader.bytes[start..first_end];
    if text.len() < VALUE_MIN || is_placeholder(text) || text.starts_with(MARK) {
        return Err(Stop::No);
    }
    let is_set = at >= 4 && reader.bytes[at - 4..at].eq_ignore_ascii_case(b"set-");
    let end = if is_set { first_end } else { cookie_end(reader, start, false)? };
    found(Rule::Cookie, start, end)
}

/// Where one cookie, or all of a header, ends.
fn cookie_end(reader: &Reader, start: usize, is_one: bool) -> Result<usize, Stop> {
    let mut end = start;
    while end < start + LENGTH_MAX {
        match reader.peek(end)? {
            None | Some(b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'\\') => break,
            Some(b';' | b' ' | b'\t') if is_one => break,
            Some(_) => end += 1,
        }
    }
    Ok(end)
}

/// `login NAME password VALUE` of a netrc file, behind the machine that it is for.
pub fn netrc(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const BEFORE: usize = 64;
    const WORD_MAX: usize = 256;
    if !has_word(reader, at, b"login")? || !reader.is_word_start(at) {
        return Err(Stop::No);
    }
    let before = &reader.bytes[at.saturating_sub(BEFORE)..at];
    if !before.windows(8).any(|part| matches!(part, b"machine " | b"machine\t" | b"default " | b"default\n"))
    {
        return Err(Stop::No);
    }
    let user = blanks_end(reader, at + "login".len())?;
    let user_end = word_end(reader, user, WORD_MAX)?;
    let name = blanks_end(reader, user_end)?;
    reader.begins_at(name);
    if user == at + "login".len() || user_end == user || !has_word(reader, name, b"password")? {
        return Err(Stop::No);
    }
    let value = blanks_end(reader, name + "password".len())?;
    reader.begins_at(value);
    let end = word_end(reader, value, WORD_MAX)?;
    let is_told =
        value > name + "password".len() && end > value && !reader.bytes[value..end].starts_with(MARK);
    if is_told { found(Rule::Netrc, value, end) } else { Err(Stop::No) }
}

/// Behind blanks and line ends.
fn blanks_end(reader: &mut Reader, at: usize) -> Result<usize, Stop> {
    const BLANKS_MAX: usize = 64;
    let mut end = at;
    while end < at + BLANKS_MAX {
        match reader.peek(end)? {
            Some(b' ' | b'\t') => end += 1,
            Some(_) => match reader.line_end(end)? {
                0 => break,
                length => end += length,
            },
            None => break,
        }
    }
    Ok(end)
}

fn word_end(reader: &Reader, at: usize, most: usize) -> Result<usize, Stop> {
    let mut end = at;
    while end < at + most && reader.peek(end)?.is_some_and(|byte| byte > b' ' && !b"\"'\\".contains(&byte)) {
        end += 1;
    }
    Ok(end)
}
