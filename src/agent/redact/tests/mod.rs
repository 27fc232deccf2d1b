//! Scenes of redaction, and what they share: examples of every rule, and every way to cut a text.
//!
//! The examples are put together from parts, so that no scanner of this repository takes them for real.

mod known;
mod ordinary;
mod places;
mod rules;
mod streams;

use super::{Redactor, redact};

/// What comes out when the text is written in these parts.
fn through(parts: &[&[u8]], known_values: &[String]) -> Vec<u8> {
    stream(&mut Redactor::new(known_values.iter().cloned()), parts)
}

/// One stream from its beginning to its end; the redactor can take the next one then.
fn stream(redactor: &mut Redactor, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        redactor.push(part, &mut out);
    }
    redactor.finish(&mut out);
    out
}

/// Asserts that a text becomes another, whole, cut in two at every byte, byte by byte, and with pauses.
fn check(text: &str, known_values: &[String], expected: &str) {
    let mut redactor = Redactor::new(known_values.iter().cloned());
    check_with(&mut redactor, text, expected);
}

fn check_with(redactor: &mut Redactor, text: &str, expected: &str) {
    let bytes = text.as_bytes();
    let shown = |out: Vec<u8>| String::from_utf8_lossy(&out).into_owned();
    assert_eq!(shown(stream(redactor, &[bytes])), expected, "the whole of {text:?}");
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(shown(stream(redactor, &[left, right])), expected, "{text:?} cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(shown(stream(redactor, &single)), expected, "{text:?} byte by byte");

    let mut out = Vec::new();
    for byte in single {
        redactor.push(byte, &mut out);
        redactor.idle(&mut out);
    }
    redactor.finish(&mut out);
    assert_eq!(shown(out), expected, "{text:?} byte by byte with pauses");
}

fn stays(text: &str) {
    check(text, &[], text);
}

/// So many letters and digits that look random and are always the same.
fn random_text(length: usize, seed: u64) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    pick(LETTERS, length, seed)
}

fn pick(letters: &[u8], length: usize, seed: u64) -> String {
    let mut dice = Dice(seed);
    (0..length).map(|_| char::from(letters[dice.roll(letters.len())])).collect()
}

/// Numbers that look random and are always the same (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1);
        self.0 ^= self.0 >> 29;
        (self.0 >> 11) as usize % sides
    }
}
