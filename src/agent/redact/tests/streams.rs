//! Streams: cut anywhere, of any length, with pauses, and of any bytes.

use super::super::STEP;
use super::rules::tokens;
use super::{Dice, Redactor, random_text, through};

/// Logs with secrets among ordinary lines and odd bytes.
fn noisy_log(seed: u64) -> Vec<u8> {
    let tokens = tokens();
    let mut dice = Dice(seed);
    let mut log = Vec::new();
    for line in 0..120 {
        match dice.roll(9) {
            0 => log.extend_from_slice(format!("token={}\n", tokens[dice.roll(tokens.len())].1).as_bytes()),
            1 => log
                .extend_from_slice(format!("https://u:{}@h/\n", random_text(dice.roll(9), line)).as_bytes()),
            2 => log.extend((0..dice.roll(60)).map(|_| dice.roll(256) as u8).collect::<Vec<u8>>()),
            3 => log.extend_from_slice(tokens[dice.roll(tokens.len())].1.as_bytes()),
            4 => {
                let token = &tokens[dice.roll(tokens.len())].1;
                log.extend_from_slice(&token.as_bytes()[..dice.roll(token.len())]);
            }
            5 => log.extend_from_slice(b"-----BEGIN PRIVATE KEY-----\n"),
            6 => log.extend_from_slice(format!("{}\n", random_text(dice.roll(70), line)).as_bytes()),
            7 => log.extend_from_slice(b"-----END PRIVATE KEY-----\nAuthorization: Bearer "),
            _ => log.extend_from_slice(format!("known-value-{} password: '", dice.roll(3)).as_bytes()),
        }
    }
    log
}

#[test]
fn the_same_text_comes_out_however_it_is_cut() {
    let known = vec!["known-value-1".to_owned(), "= Bearer known".to_owned()];
    for seed in 1..60 {
        let log = noisy_log(seed);
        let whole = through(&[&log], &known);
        let mut dice = Dice(seed);
        for _ in 0..20 {
            let longest = 1 + dice.roll(400);
            let mut redactor = Redactor::new(known.iter().cloned());
            let (mut out, mut rest) = (Vec::new(), log.as_slice());
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.len().min(dice.roll(longest) + 1));
                redactor.push(part, &mut out);
                if dice.roll(4) == 0 {
                    redactor.idle(&mut out);
                }
                rest = behind;
            }
            redactor.finish(&mut out);
            assert!(out == whole, "seed {seed}, parts up to {longest}");
        }
    }
}

#[test]
fn a_secret_across_the_border_of_two_steps_is_caught() {
    let token = &tokens()[5].1;
    for before in STEP - 50..STEP + 10 {
        let text = format!("{}{token} end", ".".repeat(before));
        let expected = format!("{}[redacted:github] end", ".".repeat(before));
        assert!(through(&[text.as_bytes()], &[]) == expected.as_bytes(), "{before} bytes before it");
    }
}

#[test]
fn bytes_without_secrets_come_out_as_they_went_in() {
    let mut dice = Dice(9);
    let bytes: Vec<u8> = (0..300_000).map(|_| dice.roll(256) as u8).collect();
    assert!(through(&[&bytes], &[]) == bytes);
    let parts: Vec<&[u8]> = bytes.chunks(777).collect();
    assert!(through(&parts, &[]) == bytes);
    let every_byte: Vec<u8> = (0..=255).cycle().take(5_000).collect();
    assert!(through(&[&every_byte], &[]) == every_byte);
}

#[test]
fn a_prompt_comes_out_at_a_pause_and_what_may_be_a_secret_does_not() {
    let cases = [
        ("Continue? [y/N] ", "Continue? [y/N] "),
        ("Password: ", "Password: "),
        ("Token: ", "Token: "),
        ("done\n", "done\n"),
        ("a ghp_abc", "a "),
        ("a gh", "a "),
        ("password=hunt", "password="),
        ("https://bob:hunt", "https://bob:"),
        ("https://example.com", "https://example.com"),
        ("a -----", "a "),
        ("a -----BEGIN PRIV", "a "),
        ("a know", "a "),
        ("a known-va", "a "),
    ];
    for (text, expected) in cases {
        let mut redactor = Redactor::new(["known-value".to_owned()]);
        let mut out = Vec::new();
        redactor.push(text.as_bytes(), &mut out);
        redactor.idle(&mut out);
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected, "{text:?}");
        redactor.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

/// How much a redactor keeps at most while this comes.
fn most_kept(stream: &[u8], part: usize) -> (usize, Vec<u8>) {
    let mut redactor = Redactor::new(["known-value".to_owned()]);
    let (mut out, mut taken, mut most) = (Vec::new(), 0, 0);
    for part in stream.chunks(part) {
        redactor.push(part, &mut out);
        taken += part.len();
        most = most.max(redactor.bytes.len()).max(redactor.waiting.len());
    }
    assert_eq!(taken, stream.len());
    redactor.finish(&mut out);
    (most, out)
}

#[test]
fn memory_stays_bounded_whatever_comes() {
    let megabyte = 1 << 20;
    let endless = |beginning: &str, unit: &str| {
        let mut stream = beginning.as_bytes().to_vec();
        stream.extend(unit.as_bytes().iter().cycle().take(megabyte));
        stream
    };
    let streams = [
        endless("ghp_", "aB3"),
        endless("Authorization: Bearer ", "aB3"),
        endless("Authorization: Digest ", "aB3 "),
        endless("password=\"", "aB3dE5gH7jK9mN1p"),
        endless("https://bob:", "aB3"),
        endless("eyJ", "aB3"),
        endless("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0", "aB3"),
        endless("-----BEGIN PRIVATE KEY-----\n", "aB3dE5gH7jK9mN1paB3dE5gH7jK9mN1paB3\n"),
        endless("https://hooks.slack.com/services/", "aB3/"),
        endless("token", " "),
        endless("token=", "\\"),
        endless("", "://"),
        endless("", "sk-ant-"),
        endless("", "glpat-"),
        endless("", "token="),
        endless("", "known-valu"),
        endless("", "-----BEGIN PRIVATE KEY-----"),
    ];
    for stream in streams {
        let (most, _) = most_kept(&stream, 1000);
        assert!(most <= 16 * 1024, "{most} kept of {:?}", String::from_utf8_lossy(&stream[..40]));
    }
}

#[test]
fn a_token_of_any_length_is_removed_to_its_last_character() {
    for beginning in ["ghp_", "Authorization: Bearer ", "Bearer ", "x-api-key: ", "sk-ant-api03-", "token="] {
        let stream = format!("{beginning}{} end\n", random_text(50_000, 3));
        let (_, out) = most_kept(stream.as_bytes(), 1000);
        assert!(out.len() < 100, "{beginning}: {}", out.len());
        assert!(out.ends_with(b"] end\n"));
    }
}

#[test]
fn a_private_key_without_an_end_is_given_up_after_sixteen_kibibytes() {
    let line = format!("{}\n", random_text(63, 8));
    let stream = format!("-----BEGIN PRIVATE KEY-----\n{}", line.repeat(1024));
    let (_, out) = most_kept(stream.as_bytes(), 1000);
    assert!(out.starts_with(b"[redacted:private-key]"));
    assert_eq!(out.len() - "[redacted:private-key]".len(), stream.len() - 16 * 1024);
}

#[test]
fn what_was_removed_is_counted_by_rule() {
    let tokens = tokens();
    let mut redactor = Redactor::new(["known-value".to_owned()]);
    let mut out = Vec::new();
    redactor.push(format!("{} known-value {}", tokens[0].1, tokens[1].1).as_bytes(), &mut out);
    redactor.finish(&mut out);
    assert_eq!(redactor.found().get("aws"), Some(&2));
    assert_eq!(redactor.found().get("known"), Some(&1));
    assert_eq!(redactor.found().len(), 2);
}

#[test]
fn nothing_is_built_before_the_first_byte() {
    let mut redactor = Redactor::new(["known-value".to_owned()]);
    let mut out = Vec::new();
    redactor.push(b"", &mut out);
    redactor.idle(&mut out);
    redactor.finish(&mut out);
    assert!(out.is_empty() && redactor.search.is_none() && redactor.bytes.capacity() == 0);
}
