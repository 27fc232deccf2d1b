//! Tokens whose shape needs more than a prefix and a run: several parts, or a part that is public and stays.

use super::fields::has_word;
use super::reader::{BASE64_PADDED, Class, Reader, Stop, TOKEN, WORD_DASH, WORD_DASH_DOT_TILDE};
use super::rules::{Found, Rule, behind_slash, found_run};

/// A client secret of Azure: three characters, a digit, `Q~`, and 31 or more. What stands before `Q~` stays: it is given
/// out before anybody can know what follows.
pub fn azure_secret(reader: &Reader, at: usize) -> Result<Found, Stop> {
    const BEFORE: usize = 4;
    const BODY_MIN: usize = 31;
    let Some(start) = at.checked_sub(BEFORE) else { return Err(Stop::No) };
    let (first, digit) = (&reader.bytes[start..at - 1], reader.bytes[at - 1]);
    let has_beginning =
        digit.is_ascii_digit() && first.iter().all(|byte| WORD_DASH_DOT_TILDE[*byte as usize]);
    if !has_beginning || !reader.is_word_start(start) || !reader.has(at, b"Q~")? {
        return Err(Stop::No);
    }
    long_run(reader, Rule::Azure, (at, at + 2), WORD_DASH_DOT_TILDE, BODY_MIN)
}

/// `AccountKey=…` and `SharedAccessKey=…` of a connection string: the key alone.
pub fn azure_key(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const BODY_MIN: usize = 40;
    let is_shared = at >= 6 && reader.bytes[at - 6..at].eq_ignore_ascii_case(b"shared");
    let name: &[u8] = if is_shared { b"AccessKey=" } else { b"AccountKey=" };
    if !has_word(reader, at, name)? {
        return Err(Stop::No);
    }
    let start = at + name.len();
    reader.begins_at(start);
    long_run(reader, Rule::Azure, (start, start), BASE64_PADDED, BODY_MIN)
}

/// `&sig=…`: what signs an address of Azure's storage.
pub fn azure_signature(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const BODY_MIN: usize = 40;
    if !reader.before(at).is_some_and(|byte| b"?&;".contains(&byte)) {
        return Err(Stop::No);
    }
    let start = at + "sig=".len();
    reader.begins_at(start);
    long_run(reader, Rule::Azure, (start, start), TOKEN, BODY_MIN)
}

/// `SG.…`: 22 characters, a dot, 43 characters.
pub fn sendgrid(reader: &Reader, at: usize) -> Result<Found, Stop> {
    const ID: usize = 22;
    const SECRET_MIN: usize = 43;
    if !reader.has(at, b"SG.")? || !reader.is_word_start(at) {
        return Err(Stop::No);
    }
    let dot = reader.run(at + 3, WORD_DASH, ID + 1)?;
    if dot != at + 3 + ID || !reader.has(dot, b".")? {
        return Err(Stop::No);
    }
    long_run(reader, Rule::SendGrid, (at, dot + 1), WORD_DASH, SECRET_MIN)
}

/// `123456789:AA…`: the number is the bot's public one.
pub fn telegram(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const DIGITS_MIN: usize = 6;
    const SECRET_MIN: usize = 35;
    reader.begins_at(at + 1);
    let number = at.checked_sub(DIGITS_MIN).map(|start| &reader.bytes[start..at]);
    if !number.is_some_and(|number| number.iter().all(u8::is_ascii_digit)) || !reader.has(at, b":AA")? {
        return Err(Stop::No);
    }
    long_run(reader, Rule::Telegram, (at + 1, at + 1), WORD_DASH, SECRET_MIN)
}

/// How far behind the first dot of a Discord token the second one stands.
pub const DISCORD_DOTS: usize = 7;

/// `ID.TIME.SECRET`, where the first part is a user's public number, encoded. `at` is the place of the first dot.
pub fn discord_token(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const ID: std::ops::RangeInclusive<usize> = 23..=28;
    const SECRET_MIN: usize = 27;
    reader.begins_at(at + 1);
    let known = &reader.bytes[..at];
    let length = known.iter().rev().take(ID.end() + 1).take_while(|byte| WORD_DASH[**byte as usize]).count();
    if !ID.contains(&length) || !is_encoded_number(&known[at - length..]) {
        return Err(Stop::No);
    }
    let second = reader.run(at + 1, WORD_DASH, DISCORD_DOTS)?;
    if second != at + DISCORD_DOTS || !reader.has(second, b".")? {
        return Err(Stop::No);
    }
    long_run(reader, Rule::Discord, (at + 1, second + 1), WORD_DASH, SECRET_MIN)
}

/// Whether base64 of nothing but digits stands here.
fn is_encoded_number(code: &[u8]) -> bool {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' | b'-' => 62,
        _ => 63,
    };
    code.chunks_exact(4).all(|four| {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | value(*byte));
        [bits >> 16, bits >> 8, bits].iter().all(|byte| (*byte as u8).is_ascii_digit())
    })
}

/// `discord.com/api/webhooks/NUMBER/…`: who knows the path may post.
pub fn discord_hook(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const SECRET_MIN: usize = 60;
    const VERSION_MAX: usize = 4;
    let mut end = at + "discord".len();
    for host in [b"app.com".as_slice(), b".com"] {
        if reader.has(end, host)? {
            end += host.len();
            break;
        }
    }
    let Some(api) = behind_slash(reader, end)? else { return Err(Stop::No) };
    if !reader.has(api, b"api")? {
        return Err(Stop::No);
    }
    let Some(mut kind) = behind_slash(reader, api + 3)? else { return Err(Stop::No) };
    if reader.has(kind, b"v")? {
        let version = reader.run(kind, WORD_DASH, VERSION_MAX)?;
        kind = behind_slash(reader, version)?.ok_or(Stop::No)?;
    }
    if !reader.has(kind, b"webhooks")? {
        return Err(Stop::No);
    }
    let number = behind_slash(reader, kind + "webhooks".len())?.ok_or(Stop::No)?;
    let number_end = reader.run(number, WORD_DASH, SECRET_MIN)?;
    let start = behind_slash(reader, number_end)?.ok_or(Stop::No)?;
    reader.begins_at(start);
    long_run(reader, Rule::Discord, (start, start), WORD_DASH, SECRET_MIN)
}

/// A secret from `start` on, of whose last part, which begins at `body`, so much must be there.
fn long_run(
    reader: &Reader,
    rule: Rule,
    (start, body): (usize, usize),
    class: &'static Class,
    least: usize,
) -> Result<Found, Stop> {
    let end = reader.run(body, class, least)?;
    if end == body + least { found_run(rule, start, end, class) } else { Err(Stop::No) }
}
