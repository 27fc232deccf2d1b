//! Tokens that show what they are by their shape: the formats that those who issue them have published.
//!
//! Each rule asks for enough of the shape that ordinary words, hashes and encoded files stay as they are. No
//! rule goes by randomness alone.

use super::pem;
use super::reader::{
    ALNUM, CAPITALS, Class, HEX, LENGTH_MAX, Reader, Stop, WORD, WORD_DASH, WORD_DASH_DOT, WORD_DASH_EQUALS,
};

/// Why something was removed. In this order: of two reasons that begin at one place, the first is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Known,
    Pem,
    Aws,
    GitHub,
    Anthropic,
    OpenAi,
    Jwt,
    Slack,
    Google,
    GitLab,
    HuggingFace,
    Stripe,
    Npm,
    PyPi,
    Age,
    Atlassian,
    Azure,
    Bitbucket,
    Databricks,
    DigitalOcean,
    Discord,
    Docker,
    Groq,
    Linear,
    OpenRouter,
    Perplexity,
    Replicate,
    SendGrid,
    Shopify,
    Telegram,
    Vault,
    Xai,
    Netrc,
    CommandPassword,
    Cookie,
    Authorization,
    Bearer,
    ApiKeyHeader,
    UrlPassword,
    Assignment,
}

impl Rule {
    /// The name that stands in the log where the secret stood.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Known => "known",
            Rule::Pem => "private-key",
            Rule::Aws => "aws",
            Rule::GitHub => "github",
            Rule::Anthropic => "anthropic",
            Rule::OpenAi => "openai",
            Rule::Jwt => "jwt",
            Rule::Slack => "slack",
            Rule::Google => "google",
            Rule::GitLab => "gitlab",
            Rule::HuggingFace => "huggingface",
            Rule::Stripe => "stripe",
            Rule::Npm => "npm",
            Rule::PyPi => "pypi",
            Rule::Age => "age",
            Rule::Atlassian => "atlassian",
            Rule::Azure => "azure",
            Rule::Bitbucket => "bitbucket",
            Rule::Databricks => "databricks",
            Rule::DigitalOcean => "digitalocean",
            Rule::Discord => "discord",
            Rule::Docker => "docker",
            Rule::Groq => "groq",
            Rule::Linear => "linear",
            Rule::OpenRouter => "openrouter",
            Rule::Perplexity => "perplexity",
            Rule::Replicate => "replicate",
            Rule::SendGrid => "sendgrid",
            Rule::Shopify => "shopify",
            Rule::Telegram => "telegram",
            Rule::Vault => "vault",
            Rule::Xai => "xai",
            Rule::Netrc => "netrc",
            Rule::CommandPassword => "command-password",
            Rule::Cookie => "cookie",
            Rule::Authorization => "authorization",
            Rule::Bearer => "bearer",
            Rule::ApiKeyHeader => "api-key",
            Rule::UrlPassword => "url-password",
            Rule::Assignment => "assignment",
        }
    }
}

/// A secret, by its place in the bytes at hand.
#[derive(Debug)]
pub struct Found {
    pub rule: Rule,
    pub start: usize,
    pub end: usize,
    /// How it may go on behind `end`.
    pub rest: Option<Rest>,
}

/// What still belongs to a secret that was recognised before all of it had come.
#[derive(Debug, Clone, Copy)]
pub enum Rest {
    /// As long as the characters are of this kind.
    Run(&'static Class),
    /// To the end of a private key, or as many bytes.
    Pem { left: usize, close: &'static pem::Close },
}

/// A secret of a fixed extent.
pub fn found(rule: Rule, start: usize, end: usize) -> Result<Found, Stop> {
    Ok(Found { rule, start, end, rest: None })
}

/// A secret that lasts as long as the run of a class: enough of it was seen.
pub fn found_run(rule: Rule, start: usize, end: usize, class: &'static Class) -> Result<Found, Stop> {
    Ok(Found { rule, start, end, rest: Some(Rest::Run(class)) })
}

/// The next piece of a secret that was recognised before.
pub fn go_on(rule: Rule, rest: Rest, reader: &Reader, at: usize) -> Result<Found, Stop> {
    match rest {
        Rest::Pem { left, close } => pem::go_on(reader, at, left, close),
        Rest::Run(class) => {
            reader.peek(at)?;
            let end = reader.run_so_far(at, class, LENGTH_MAX);
            if end == at { Err(Stop::No) } else { found_run(rule, at, end, class) }
        }
    }
}

/// A prefix, and at least so many characters of a kind behind it.
struct Shape {
    rule: Rule,
    prefix: &'static str,
    body: &'static Class,
    body_min: usize,
    /// The prefix also occurs inside words, so it counts only where one begins.
    begins_word: bool,
}

const fn shape(rule: Rule, prefix: &'static str, body: &'static Class, body_min: usize) -> Shape {
    Shape { rule, prefix, body, body_min, begins_word: false }
}

const fn word(shape: Shape) -> Shape {
    Shape { begins_word: true, ..shape }
}

const SHAPES: &[Shape] = &[
    shape(Rule::GitHub, "ghp_", ALNUM, 36),
    shape(Rule::GitHub, "gho_", ALNUM, 36),
    shape(Rule::GitHub, "ghu_", ALNUM, 36),
    shape(Rule::GitHub, "ghs_", ALNUM, 36),
    shape(Rule::GitHub, "ghr_", ALNUM, 36),
    shape(Rule::GitHub, "github_pat_", WORD, 36),
    shape(Rule::GitLab, "glpat-", WORD_DASH_DOT, 20),
    word(shape(Rule::Google, "AIza", WORD_DASH, 35)),
    word(shape(Rule::HuggingFace, "hf_", ALNUM, 34)),
    word(shape(Rule::Npm, "npm_", ALNUM, 36)),
    // Every token of PyPI begins with the same bytes of its format, encoded.
    shape(Rule::PyPi, "pypi-AgE", WORD_DASH, 50),
    shape(Rule::Anthropic, "sk-ant-", WORD_DASH, 32),
    shape(Rule::OpenAi, "sk-proj-", WORD_DASH, 32),
    shape(Rule::OpenAi, "sk-svcacct-", WORD_DASH, 32),
    shape(Rule::OpenAi, "sk-admin-", WORD_DASH, 32),
    word(shape(Rule::Slack, "xoxb-", WORD_DASH, 10)),
    word(shape(Rule::Slack, "xoxa-", WORD_DASH, 10)),
    word(shape(Rule::Slack, "xoxp-", WORD_DASH, 10)),
    word(shape(Rule::Slack, "xoxr-", WORD_DASH, 10)),
    word(shape(Rule::Slack, "xoxs-", WORD_DASH, 10)),
    word(shape(Rule::Slack, "xoxe.xox", WORD_DASH_DOT, 10)),
    word(shape(Rule::Slack, "xoxe-", WORD_DASH, 10)),
    word(shape(Rule::Age, "AGE-SECRET-KEY-1", CAPITALS, 58)),
    word(shape(Rule::Atlassian, "ATATT3xFf", WORD_DASH_EQUALS, 100)),
    word(shape(Rule::Bitbucket, "ATCTT3xFf", WORD_DASH_EQUALS, 100)),
    word(shape(Rule::Bitbucket, "ATBB", ALNUM, 32)),
    word(shape(Rule::Databricks, "dapi", HEX, 32)),
    word(shape(Rule::DigitalOcean, "dop_v1_", HEX, 64)),
    word(shape(Rule::DigitalOcean, "doo_v1_", HEX, 64)),
    word(shape(Rule::DigitalOcean, "dor_v1_", HEX, 64)),
    word(shape(Rule::Docker, "dckr_pat_", WORD_DASH, 27)),
    word(shape(Rule::Docker, "dckr_oat_", WORD_DASH, 27)),
    word(shape(Rule::Groq, "gsk_", ALNUM, 52)),
    word(shape(Rule::Linear, "lin_api_", ALNUM, 40)),
    word(shape(Rule::Linear, "lin_oauth_", HEX, 64)),
    shape(Rule::OpenRouter, "sk-or-", WORD_DASH, 32),
    word(shape(Rule::Perplexity, "pplx-", ALNUM, 40)),
    word(shape(Rule::Replicate, "r8_", ALNUM, 37)),
    word(shape(Rule::Shopify, "shpat_", HEX, 32)),
    word(shape(Rule::Shopify, "shpca_", HEX, 32)),
    word(shape(Rule::Shopify, "shppa_", HEX, 32)),
    word(shape(Rule::Shopify, "shpss_", HEX, 32)),
    word(shape(Rule::Vault, "hvs.", WORD_DASH, 24)),
    word(shape(Rule::Vault, "hvb.", WORD_DASH, 24)),
    word(shape(Rule::Xai, "xai-", ALNUM, 70)),
];

/// One of the shapes above, whichever has its prefix here.
pub fn shaped(reader: &Reader, at: usize) -> Result<Found, Stop> {
    for shape in SHAPES {
        if !reader.has(at, shape.prefix.as_bytes())? {
            continue;
        }
        if shape.begins_word && !reader.is_word_start(at) {
            return Err(Stop::No);
        }
        let body = at + shape.prefix.len();
        let end = reader.run(body, shape.body, shape.body_min)?;
        let is_long_enough = end == body + shape.body_min;
        return if is_long_enough { found_run(shape.rule, at, end, shape.body) } else { Err(Stop::No) };
    }
    Err(Stop::No)
}

/// `sk-…`: the shapes above, or the older form with a mark in its middle.
pub fn sk_dash(reader: &Reader, at: usize) -> Result<Found, Stop> {
    const MARK: &[u8] = b"T3BlbkFJ";
    const MARKED_MAX: usize = 200;
    if !reader.is_word_start(at) || !reader.has(at, b"sk-")? {
        return Err(Stop::No);
    }
    match shaped(reader, at) {
        Err(Stop::No) => (),
        decided => return decided,
    }
    let end = reader.run(at, WORD_DASH, MARKED_MAX)?;
    let has_mark = reader.bytes[at..end].windows(MARK.len()).any(|part| part == MARK);
    if has_mark { found_run(Rule::OpenAi, at, end, WORD_DASH) } else { Err(Stop::No) }
}

/// `AKIA…`: twenty capitals and digits, no more and no less.
pub fn aws(reader: &Reader, at: usize) -> Result<Found, Stop> {
    const LENGTH: usize = 20;
    if !reader.is_word_start(at) {
        return Err(Stop::No);
    }
    let end = reader.run(at, CAPITALS, LENGTH + 1)?;
    if end != at + LENGTH || reader.peek(end)?.is_some_and(|next| WORD[next as usize]) {
        return Err(Stop::No);
    }
    found(Rule::Aws, at, end)
}

/// `sk_live_…` and its relatives.
pub fn stripe(reader: &Reader, at: usize) -> Result<Found, Stop> {
    const PREFIX: usize = "sk_live_".len();
    const SURELY: usize = 24;
    const PERHAPS: usize = 10;
    let is_lower = reader.bytes[at..at + PREFIX].iter().all(|byte| !byte.is_ascii_uppercase());
    if !is_lower || !reader.is_word_start(at) {
        return Err(Stop::No);
    }
    let body = at + PREFIX;
    let end = reader.run(body, ALNUM, SURELY)?;
    // A short one needs a digit: `sk_test_connection` is the name of a function.
    let has_digit = reader.bytes[body..end].iter().any(u8::is_ascii_digit);
    let is_token = end - body == SURELY || (end - body >= PERHAPS && has_digit);
    if is_token { found_run(Rule::Stripe, at, end, ALNUM) } else { Err(Stop::No) }
}

/// `eyJ….eyJ….…`: two encoded JSON objects and a signature.
pub fn jwt(reader: &Reader, at: usize) -> Result<Found, Stop> {
    const PART_MIN: usize = 10;
    const HEADER_MAX: usize = 2048;
    if !reader.has(at, b"ey")? || !reader.is_word_start(at) {
        return Err(Stop::No);
    }
    let dot = reader.run(at, WORD_DASH, HEADER_MAX)?;
    if dot - at < PART_MIN || !reader.has(dot, b".ey")? {
        return Err(Stop::No);
    }
    let end = reader.run(dot + 1, WORD_DASH, PART_MIN)?;
    if end - dot <= PART_MIN {
        return Err(Stop::No);
    }
    let end = reader.run_so_far(end, WORD_DASH_DOT, LENGTH_MAX);
    found_run(Rule::Jwt, at, end, WORD_DASH_DOT)
}

/// `hooks.slack.com/services/…`: who knows the path may post. The slashes may be escaped, as in JSON.
pub fn slack_hook(reader: &mut Reader, at: usize) -> Result<Found, Stop> {
    const HOST: &[u8] = b"hooks.slack.com";
    const KINDS: &[&[u8]] = &[b"services", b"workflows", b"triggers"];
    const PATH_MIN: usize = 16;
    if !reader.has(at, HOST)? {
        return Err(Stop::No);
    }
    let Some(kind) = behind_slash(reader, at + HOST.len())? else { return Err(Stop::No) };
    let mut path = None;
    for name in KINDS {
        if reader.has(kind, name)? {
            path = behind_slash(reader, kind + name.len())?;
        }
    }
    let Some(start) = path else { return Err(Stop::No) };
    reader.begins_at(start);
    let mut end = start;
    while end < start + LENGTH_MAX {
        end = reader.run(end, WORD_DASH, LENGTH_MAX)?;
        match behind_slash(reader, end)? {
            Some(next) => end = next,
            None => break,
        }
    }
    if end - start >= PATH_MIN { found(Rule::Slack, start, end) } else { Err(Stop::No) }
}

pub fn behind_slash(reader: &Reader, at: usize) -> Result<Option<usize>, Stop> {
    for slash in [b"/".as_slice(), b"\\/"] {
        if reader.has(at, slash)? {
            return Ok(Some(at + slash.len()));
        }
    }
    Ok(None)
}
