//! Every rule, in every place where agents print secrets.

use super::{Redactor, check, check_with, pick, random_text, redact};

/// Examples of every rule whose secret is recognised by itself: the name of the rule, and a secret.
pub fn tokens() -> Vec<(&'static str, String)> {
    const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut tokens = Vec::new();
    let mut add = |rule, prefix: &str, body: String| tokens.push((rule, format!("{prefix}{body}")));
    for (seed, prefix) in ["A3TX", "AKIA", "ASIA", "ABIA", "ACCA"].iter().enumerate() {
        add("aws", prefix, pick(CAPITALS, 16, seed as u64));
    }
    for (seed, kind) in ["p", "o", "u", "s", "r"].iter().enumerate() {
        add("github", &format!("gh{kind}_"), random_text(36, seed as u64));
    }
    add("github", "github_pat_", format!("{}_{}", random_text(22, 6), random_text(59, 7)));
    let mark = ["T3Blbk", "FJ"].concat();
    add("openai", "sk-", format!("{}{mark}{}", random_text(20, 8), random_text(20, 9)));
    for (seed, kind) in ["proj", "svcacct", "admin"].iter().enumerate() {
        let body = format!("{}_-{mark}{}", random_text(72, 10 + seed as u64), random_text(74, 14));
        add("openai", &format!("sk-{kind}-"), body);
    }
    for (seed, kind) in ["api03", "admin01", "oat01"].iter().enumerate() {
        add("anthropic", &format!("sk-ant-{kind}-"), format!("{}-_AA", random_text(91, 20 + seed as u64)));
    }
    let parts = [random_text(33, 30), random_text(70, 31), random_text(43, 32)];
    add("jwt", "eyJ", format!("{}.eyJ{}.{}", parts[0], parts[1], parts[2]));
    for (seed, kind) in ["b", "a", "p", "r", "s"].iter().enumerate() {
        let body = format!("{}-{}", pick(b"0123456789", 12, 40), random_text(24, 41 + seed as u64));
        add("slack", &format!("xox{kind}-"), body);
    }
    add("google", "AIza", format!("Sy{}-_", random_text(31, 50)));
    add("gitlab", "glpat-", random_text(20, 51));
    add("huggingface", "hf_", pick(LETTERS, 34, 52));
    for (seed, kind) in ["sk_test", "sk_live", "sk_prod", "rk_test", "rk_live", "rk_prod"].iter().enumerate()
    {
        add("stripe", &format!("{kind}_"), random_text(24, 60 + seed as u64));
    }
    add_of_vendors(&mut add);
    add("npm", "npm_", random_text(36, 70));
    add("pypi", "pypi-AgE", format!("IcHlwaS5vcmc{}", random_text(90, 71)));
    tokens
}

/// Prefixes are put together here: no scanner shall take them for somebody's.
fn add_of_vendors(add: &mut impl FnMut(&'static str, &str, String)) {
    const HEX: &[u8] = b"0123456789abcdef";
    const BECH32: &[u8] = b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";
    let long = |seed| format!("{}-_{}", random_text(90, seed), random_text(88, seed + 1));
    add("age", &["AGE-SECRET", "-KEY-1"].concat(), pick(BECH32, 58, 100));
    add(
        "atlassian",
        &["ATATT", "3xFfGF0"].concat(),
        format!("{}={}", long(101), pick(b"0123456789ABCDEF", 8, 103)),
    );
    add(
        "bitbucket",
        &["ATCTT", "3xFfGN0"].concat(),
        format!("{}={}", long(104), pick(b"0123456789ABCDEF", 8, 105)),
    );
    add("bitbucket", "ATBB", random_text(32, 106));
    add("databricks", "dapi", pick(HEX, 32, 109));
    for (seed, kind) in ["p", "o", "r"].iter().enumerate() {
        add("digitalocean", &format!("do{kind}_v1_"), pick(HEX, 64, 110 + seed as u64));
    }
    add("docker", "dckr_pat_", format!("{}-_{}", random_text(13, 113), random_text(12, 114)));
    add("docker", "dckr_oat_", random_text(32, 115));
    add("groq", "gsk_", random_text(52, 116));
    add("linear", "lin_api_", random_text(40, 117));
    add("linear", "lin_oauth_", pick(HEX, 64, 118));
    add("openrouter", "sk-or-v1-", pick(HEX, 64, 119));
    add("perplexity", "pplx-", random_text(48, 120));
    add("replicate", "r8_", random_text(37, 121));
    add("sendgrid", "SG.", format!("{}.{}", random_text(22, 122), random_text(43, 123)));
    for (seed, kind) in ["at", "ca", "pa", "ss"].iter().enumerate() {
        add("shopify", &format!("shp{kind}_"), pick(HEX, 32, 124 + seed as u64));
    }
    add("vault", "hvs.", format!("CAES{}", random_text(90, 128)));
    add("vault", "hvb.", format!("AAAA{}", random_text(130, 129)));
    add("xai", "xai-", random_text(80, 130));
}

/// Where a secret may stand; `@` is its place.
const PLACES: &[&str] = &[
    "@",
    "@\n",
    "before\n@\nbehind\n",
    "read @ from the vault\n",
    "read '@'\n",
    "read \"@\", then stop\n",
    "{\"event\":\"log\",\"value\":\"@\",\"n\":1}\n",
    "{\"text\":\"first\\n@\\nsecond\"}\n",
    "{\"text\":\"{\\\"value\\\":\\\"@\\\"}\"}\n",
    "MY_VALUE=@\n",
    "export MY_VALUE='@'; run\n",
    "my_value: @\r\n",
    "(@)\n[@]\n<@>\n",
    "https://example.com/?q=@&n=1\n",
    "q%3D@%26n\n",
    "\u{1b}[32m@\u{1b}[0m\n",
];

#[test]
fn every_token_is_removed_wherever_it_stands_and_however_it_is_cut() {
    let mut redactor = Redactor::new([]);
    for (rule, token) in tokens() {
        for place in PLACES {
            let expected = place.replace('@', &format!("[redacted:{rule}]"));
            check_with(&mut redactor, &place.replace('@', &token), &expected);
        }
    }
}

#[test]
fn behind_the_name_of_a_secret_thing_a_token_is_still_called_what_it_is() {
    let mut redactor = Redactor::new([]);
    for (rule, token) in tokens() {
        for place in ["API_TOKEN=@\n", "\"secret\": \"@\"\n", "password: '@'\n"] {
            let expected = place.replace('@', &format!("[redacted:{rule}]"));
            check_with(&mut redactor, &place.replace('@', &token), &expected);
        }
    }
}

#[test]
fn a_private_key_is_removed_to_its_end_over_lines_and_inside_json() {
    for title in
        ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]
    {
        let lines = [random_text(64, 80), random_text(64, 81), format!("{}==", random_text(22, 82))];
        for newline in ["\n", "\r\n", "\\n", "\\\\n", "\n    "] {
            let body = lines.join(newline);
            let key = format!("-----BEGIN {title}-----{newline}{body}{newline}-----END {title}-----");
            for place in ["@", "key:\n@\nbehind\n", "{\"key\":\"@\\n\",\"n\":1}\n", "KEY='@'\n"] {
                check(&place.replace('@', &key), &[], &place.replace('@', "[redacted:private-key]"));
            }
        }
    }
}

#[test]
fn a_private_key_with_a_cipher_or_with_marks_of_the_log_before_each_line_is_removed() {
    let body = random_text(64, 83);
    let enciphered = format!(
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n{body}\n-----END RSA PRIVATE KEY-----"
    );
    check(&format!("a {enciphered} b\n"), &[], "a [redacted:private-key] b\n");
    let marked = format!("-----BEGIN PRIVATE KEY-----\n12:00 | {body}\n12:00 | -----END PRIVATE KEY-----");
    check(&format!("12:00 | {marked}\n"), &[], "12:00 | [redacted:private-key]\n");
}

#[test]
fn a_private_key_that_never_ends_is_removed_to_the_end_of_the_stream() {
    let started = format!("a\n-----BEGIN PRIVATE KEY-----\n{}", random_text(40, 84));
    check(&started, &[], "a\n[redacted:private-key]");
    check("a\n-----BEGIN PRIVATE KEY-----\nMIIEvQIB", &[], "a\n[redacted:private-key]");
}

#[test]
fn addresses_of_slack_hooks_lose_their_path() {
    let path =
        format!("T{}/B{}/{}", pick(b"0123456789ABC", 9, 1), pick(b"0123456789ABC", 9, 2), random_text(24, 3));
    let expected = "post to https://hooks.slack.com/services/[redacted:slack]\n";
    check(&format!("post to https://hooks.slack.com/services/{path}\n"), &[], expected);
    let in_json =
        format!("{{\"u\":\"https:\\/\\/hooks.slack.com\\/services\\/{}\"}}", path.replace('/', "\\/"));
    check(&in_json, &[], "{\"u\":\"https:\\/\\/hooks.slack.com\\/services\\/[redacted:slack]\"}");
}

#[test]
fn headers_keep_their_name_and_scheme_and_lose_their_value() {
    let value = random_text(28, 90);
    let cases = [
        ("Authorization: Bearer @\n", "authorization"),
        ("> authorization: bearer @\r\n", "authorization"),
        ("AUTHORIZATION: Basic @==\n", "authorization"),
        ("Authorization: token @\n", "authorization"),
        ("Authorization: @\n", "authorization"),
        ("Authorization: @ was sent\n", "authorization"),
        ("curl -H 'Authorization: Bearer @' x\n", "authorization"),
        ("{\"Authorization\": \"Bearer @\"}\n", "authorization"),
        ("{\"t\":\"{\\\"authorization\\\":\\\"Bearer @\\\"}\"}\n", "authorization"),
        ("got Bearer @, thanks\n", "bearer"),
        ("auth=Bearer%20@&x\n", "bearer"),
        ("bearer @", "bearer"),
        ("x-api-key: @\n", "api-key"),
        ("X-API-Key: @\n", "api-key"),
        ("{\"x-api-key\":\"@\"}\n", "api-key"),
        ("-H \"x-api-key: @\" -d\n", "api-key"),
    ];
    for (place, rule) in cases {
        let text = place.replace('@', &value);
        check(&text, &[], &place.replace("@==", "@").replace('@', &format!("[redacted:{rule}]")));
    }
}

#[test]
fn headers_that_sign_a_request_lose_everything_behind_the_scheme() {
    let text =
        "Authorization: AWS4-HMAC-SHA256 Credential=x/2024/eu, SignedHeaders=host, Signature=fe5f80f7\nok\n";
    check(text, &[], "Authorization: AWS4-HMAC-SHA256 [redacted:authorization]\nok\n");
}

#[test]
fn only_the_password_leaves_an_address() {
    let cases = [
        ("https://bob:@@example.com/x\n", "hunter2"),
        ("postgres://app:@@db:5432/main\n", "pa:ss@w0rd"),
        ("redis://:@@cache\n", "s3cr3t"),
        ("\"git+https://x-access:@@example.com/a.git\"\n", "abc%2Fdef"),
        ("https://a:@@b.c", "d"),
    ];
    for (place, password) in cases {
        let with = |filling: &str| place.replacen('@', filling, 1);
        check(&with(password), &[], &with("[redacted:url-password]"));
    }
}

#[test]
fn values_behind_names_of_secret_things_are_removed() {
    let names = [
        "password",
        "PASSWORD",
        "PassWord",
        "DB_PASSWORD",
        "client_secret",
        "token",
        "authToken",
        "api_key",
        "API-KEY",
        "apikey",
        "AWS_SECRET_ACCESS_KEY",
        "secretKey",
    ];
    let places = [
        "N=@\n",
        "N: @\n",
        "N = '@'\n",
        "\"N\": \"@\",\n",
        "'N' : '@'\n",
        "{\\\"N\\\":\\\"@\\\"}\n",
        "N:=@\n",
        "\"N\" => \"@\"\n",
        "--N=@ --next\n",
        "?N=@&user=bob\n",
        "f(N=@, user=1)\n",
        "{N:@,user:bob}\n",
        "N=@",
        "a N=\"@\"; b\n",
    ];
    let value = "aB3/dE5+gH7_jK9-mN1p";
    let mut redactor = Redactor::new([]);
    for name in names {
        for place in places {
            let place = place.replace('N', name);
            let expected = place.replace('@', "[redacted:assignment]");
            check_with(&mut redactor, &place.replace('@', value), &expected);
        }
    }
}

#[test]
fn a_quoted_value_ends_at_its_own_quote() {
    check(r#"{"password":"aB3\"dE5gH7jK9mN1p","n":1}"#, &[], r#"{"password":"[redacted:assignment]","n":1}"#);
    check(r#"{"password":"aB3dE5gH7jK9mN1p\\","n":1}"#, &[], r#"{"password":"[redacted:assignment]","n":1}"#);
}

#[test]
fn what_was_redacted_once_stays_as_it_is() {
    let lines = tokens().into_iter().map(|(_, token)| format!("a {token}\nTOKEN={token}\n"));
    let mut text = lines.collect::<Vec<_>>().concat();
    text.push_str("Authorization: Bearer abcdEFGH12345678\nhttps://a:b1@c/\npassword: 'aB3dE5gH7jK9mN1p'\n");
    text.push_str("Authorization: Digest username=bob, response=00ff00ff\nx-api-key: abcdEFGH12345678\n");
    let once = redact(&text, &[]);
    assert_eq!(redact(&once, &[]), once);
}

#[test]
fn a_quoted_value_with_blanks_is_removed_whole_and_a_sentence_stays() {
    for (before, after) in [("password='", "'"), ("\"password\": \"", "\"")] {
        let with = |value: &str| format!("{before}{value}{after}\n");
        check(&with("with spaces 1$aZ9"), &[], &with("[redacted:assignment]"));
        for prose in ["must have 8 characters or more", "Ask Sam, he knows it!", "see RFC 2617 (section 3)"] {
            check(&with(prose), &[], &with(prose));
        }
    }
}
