//! The ways in which a known value may be written: as it is, and in the encodings that logs carry.
//!
//! Each form is a literal text. Encodings of encodings are not followed, except JSON inside JSON, which agents
//! that report in JSON write all the time.

use std::collections::BTreeSet;

/// A shorter value would be found in ordinary words.
pub const VALUE_MIN: usize = 8;
/// A longer value is searched for in pieces, so that none of its forms exceeds what is held back.
const PIECE_MAX: usize = 512;

/// One way to write one value.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form {
    pub text: Vec<u8>,
    /// The character behind it also has bits of the value: base64 does not end where bytes do.
    pub shares_behind: bool,
    /// Its encoder ends a line after so many characters, in the midst of the value too.
    pub wraps: bool,
}

/// Every form of every value, each once.
pub fn all(values: &[String]) -> Vec<Form> {
    let mut forms = BTreeSet::new();
    for value in values {
        let lines = value.lines().map(str::trim).filter(|line| !is_title(line));
        for text in std::iter::once(value.as_str()).chain(std::iter::once(value.trim())).chain(lines) {
            for piece in pieces(text) {
                add_forms(piece, &mut forms);
            }
        }
    }
    forms.into_iter().collect()
}

/// The first and the last line of a key are no secret.
fn is_title(line: &str) -> bool {
    line.starts_with("-----") && line.ends_with("-----")
}

/// The value in parts of about equal length, none of them too short to be searched for.
fn pieces(value: &str) -> Vec<&str> {
    if value.len() < VALUE_MIN {
        return Vec::new();
    }
    let count = value.len().div_ceil(PIECE_MAX);
    let length = value.len().div_ceil(count);
    let mut parts = Vec::with_capacity(count);
    let mut rest = value;
    while rest.len() > length + VALUE_MIN {
        let whole_characters = (0..=length).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(length);
        let (part, behind) = rest.split_at(whole_characters);
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts
}

fn add_forms(value: &str, forms: &mut BTreeSet<Form>) {
    for alignment in 0..3 {
        forms.extend(base64(value.as_bytes(), alignment));
    }
    for is_upper in [false, true] {
        let mut digits = String::with_capacity(value.len() * 2);
        value.bytes().for_each(|byte| push_hex(&mut digits, byte, is_upper));
        forms.insert(Form { text: digits.into_bytes(), shares_behind: false, wraps: true });
    }
    let mut plain = |text: String| {
        forms.insert(Form { text: text.into_bytes(), shares_behind: false, wraps: false });
    };
    plain(value.to_owned());
    // Most tokens need no escapes, and all that follows would only say so again.
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return;
    }
    for is_upper in [false, true] {
        // What encoders leave as it is: browsers, RFC 3986, paths, forms, and the strictest.
        for kept in ["-_.!~*'()", "-_.~", "-_.~/", "-_.*", ""] {
            let text = percent(value, kept, is_upper);
            plain(text.replace("%20", "+"));
            plain(text);
        }
    }
    for text in shell(value) {
        plain(text);
    }
    if value.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"-_.~:@,".contains(&byte)) {
        for style in json_styles() {
            let once = json(value, &style);
            plain(json(&once, &style));
            plain(once);
        }
        python(value).into_iter().chain(html(value)).for_each(plain);
    }
}

fn push_hex(text: &mut String, byte: u8, is_upper: bool) {
    let digits = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    text.push(char::from(digits[usize::from(byte >> 4)]));
    text.push(char::from(digits[usize::from(byte & 15)]));
}

fn percent(value: &str, kept: &str, is_upper: bool) -> String {
    let mut text = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            push_hex(&mut text, byte, is_upper);
        }
    }
    text
}

/// What a JSON writer escapes beside what it must.
struct JsonStyle {
    /// Slashes get a backslash, all others a code, as those do who write JSON into pages, .NET and Gson among them.
    also: &'static str,
    non_ascii: bool,
    /// `\u000a` where others write `\n`.
    only_codes: bool,
    is_upper: bool,
}

fn json_styles() -> impl Iterator<Item = JsonStyle> {
    ["", "/", "<>&'", "/<>&'", "<>&'=", "<>&'+`\""].into_iter().flat_map(|also| {
        (0..8).map(move |bits: u8| JsonStyle {
            also,
            non_ascii: bits & 1 > 0,
            only_codes: bits & 2 > 0,
            is_upper: bits & 4 > 0,
        })
    })
}

fn json(value: &str, style: &JsonStyle) -> String {
    let mut units = [0; 2];
    let mut text = String::with_capacity(value.len() * 2);
    for character in value.chars() {
        let is_also = style.also.contains(character);
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '/' if is_also => "\\/",
            _ => "",
        };
        let is_coded = character.is_control() || is_also || (style.non_ascii && !character.is_ascii());
        if !short.is_empty() && (character == '/' || !style.only_codes && !is_also) {
            text.push_str(short);
        } else if is_coded || !short.is_empty() {
            for unit in character.encode_utf16(&mut units) {
                text.push_str("\\u");
                unit.to_be_bytes().into_iter().for_each(|byte| push_hex(&mut text, byte, style.is_upper));
            }
        } else {
            text.push(character);
        }
    }
    text
}

/// What shells need, or print, for a value that is not one plain word.
fn shell(value: &str) -> [String; 5] {
    let escape = |special: fn(char) -> bool| {
        value.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect::<String>()
    };
    [
        value.replace('\'', "'\\''"),
        value.replace('\'', "'\"'\"'"),
        escape(|c| "\"$`\\".contains(c)),
        escape(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_./:=@%+,".contains(c)),
        // `$'…'`
        value.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\t', "\\t"),
    ]
}

/// What Python prints of a text (`repr`), of a text in ASCII (`ascii`) and of bytes, between either quotes.
fn python(value: &str) -> Vec<String> {
    let escape = |c: char, quote: char, of_others: fn(&mut String, char)| {
        let mut text = String::new();
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if c == '\\' || c == quote => text.extend(['\\', c]),
            _ if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ if c.is_ascii() => text.push(c),
            _ => of_others(&mut text, c),
        }
        text
    };
    let in_ascii = |text: &mut String, c: char| match u32::from(c) {
        code @ ..=0xff => text.push_str(&format!("\\x{code:02x}")),
        code @ ..=0xffff => text.push_str(&format!("\\u{code:04x}")),
        code => text.push_str(&format!("\\U{code:08x}")),
    };
    let as_bytes = |text: &mut String, c: char| {
        c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    };
    let ways: [fn(&mut String, char); 3] = [String::push, in_ascii, as_bytes];
    let quoted = ways.into_iter().flat_map(|way| ['\'', '"'].map(|quote| (quote, way)));
    quoted.map(|(quote, way)| value.chars().map(|c| escape(c, quote, way)).collect()).collect()
}

/// Entities of pages and of XML, which differ in what they write for quotes.
fn html(value: &str) -> Vec<String> {
    const QUOTES: &[(&str, &str, &str)] = &[
        ("\"", "'", "+"),
        ("&quot;", "'", "+"),
        ("&quot;", "&#39;", "+"),
        ("&quot;", "&#x27;", "+"),
        ("&quot;", "&apos;", "+"),
        ("&#34;", "&#39;", "+"),
        ("&#34;", "&#39;", "&#43;"),
    ];
    let escaped = |(double, single, plus): &(&str, &str, &str)| {
        let mut text = String::with_capacity(value.len() * 2);
        for character in value.chars() {
            match character {
                '&' => text.push_str("&amp;"),
                '<' => text.push_str("&lt;"),
                '>' => text.push_str("&gt;"),
                '"' => text.push_str(double),
                '\'' => text.push_str(single),
                '+' => text.push_str(plus),
                _ => text.push(character),
            }
        }
        text
    };
    QUOTES.iter().map(escaped).collect()
}

/// The characters that only the value decides when `alignment` unknown bytes stand before it in its group of
/// three, in both alphabets.
fn base64(value: &[u8], alignment: usize) -> [Form; 2] {
    const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bit = |index: usize| match index.checked_sub(alignment * 8) {
        Some(inside) => value[inside / 8] >> (7 - inside % 8) & 1,
        None => 0,
    };
    let bits = (alignment + value.len()) * 8;
    let sextets = (alignment * 8).div_ceil(6)..bits / 6;
    [STANDARD, URL_SAFE].map(|alphabet| Form {
        text: sextets
            .clone()
            .map(|sextet| (0..6).fold(0, |code, offset| code << 1 | bit(sextet * 6 + offset)))
            .map(|code| alphabet[code as usize])
            .collect(),
        shares_behind: !bits.is_multiple_of(6),
        wraps: true,
    })
}
