//! One form for names that people, or some file systems, do not tell apart.
//!
//! For comparing only: what is written to a disk or shown keeps its own spelling.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// Without case, in a composed form: names that are one file where case does not count are one here.
pub fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => text.to_ascii_lowercase().into(),
            false => text.into(),
        };
    }
    // By way of the capitals, because some small letters are the same only there: `ſ` and `s`, `ﬆ` and `st`.
    let capitals = text.nfc().collect::<String>().to_uppercase();
    capitals.to_lowercase().nfc().collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_differ_in_case_alone_are_one() {
        for (text, plain) in [
            ("Status", "status"),
            ("\u{17f}tatu\u{17f}", "status"),
            ("\u{fb06}atus", "status"),
            (".wk-loc\u{212a}", ".wk-lock"),
            ("E\u{301}", "\u{e9}"),
            ("\u{3a3}\u{391}\u{3a3}", "\u{3c3}\u{3b1}\u{3c2}"),
            ("ﬁle", "file"),
        ] {
            assert_eq!(folded(text), folded(plain), "{text}");
        }
        assert_eq!(folded("Straße"), folded("STRASSE"));
        assert_ne!(folded("logs"), folded("log"));
    }
}
