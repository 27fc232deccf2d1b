//! Finds the places in a stream where a secret may be: one pass for a few short words, then a closer look.
//!
//! The words are compared without regard to capitals. Which of them is meant, and whether it is one, the
//! judges of `rules`, `fields` and `forms` decide.

use std::collections::{BTreeMap, HashMap};

use aho_corasick::{AhoCorasick, MatchKind, packed};

use super::forms::{self, Form};
use super::reader::{ANY_BASE64, Class, LINE_END_MAX, Reader, Stop, line_end};
use super::rules::{self, Found, Rule, found};
use super::vendors::{self, DISCORD_DOTS};
use super::{commands, fields, pem};

/// No word is longer.
const WORD_MAX: usize = 8;
/// So many bytes, less one, may always be the beginning of a word, in the midst of which a line may end.
pub const WORD_SPAN_MAX: usize = WORD_MAX + LINE_END_MAX;
/// A line with at least so many characters of a code before its end may have been wrapped by an encoder: the
/// shortest that they make are nearly twice as long.
const WRAPPED_MIN: usize = 32;
/// What a secret may have before its word: the dashes of a key.
pub const BEFORE_WORD_MAX: usize = pem::DASHES_BEFORE;
/// The most words that the fast searcher takes at once.
const GROUP_MAX: usize = 64;
/// With more passes than this, one automaton for all words is faster.
const GROUPS_MAX: usize = 4;

/// Who judges what a word begins.
#[derive(Debug, Clone, Copy)]
enum Judge {
    Shaped,
    SkDash,
    Aws,
    Stripe,
    Jwt,
    SlackHook,
    PrivateKey,
    Authorization,
    Bearer,
    ApiKey,
    Secret,
    Assignment { name: usize },
    UrlPassword,
    AzureSecret,
    AzureKey,
    AzureSignature,
    SendGrid,
    Telegram,
    DiscordToken,
    DiscordHook,
    Putty,
    Netrc,
    Curl,
    MySql,
    Cookie,
}

impl Judge {
    /// Whether it knows secrets only where a word begins.
    fn wants_word_start(self) -> bool {
        matches!(
            self,
            Judge::Aws
                | Judge::Bearer
                | Judge::Curl
                | Judge::Jwt
                | Judge::MySql
                | Judge::Netrc
                | Judge::SendGrid
                | Judge::SkDash
                | Judge::Stripe
        )
    }
}

/// At most `WORD_MAX` bytes each, in small letters, and none the beginning of another.
const WORDS: &[(&str, Judge)] = &[
    ("a3t", Judge::Aws),
    ("akia", Judge::Aws),
    ("asia", Judge::Aws),
    ("abia", Judge::Aws),
    ("acca", Judge::Aws),
    ("ghp_", Judge::Shaped),
    ("gho_", Judge::Shaped),
    ("ghu_", Judge::Shaped),
    ("ghs_", Judge::Shaped),
    ("ghr_", Judge::Shaped),
    ("github_p", Judge::Shaped),
    ("glpat-", Judge::Shaped),
    ("aiza", Judge::Shaped),
    ("hf_", Judge::Shaped),
    ("npm_", Judge::Shaped),
    ("pypi-age", Judge::Shaped),
    ("xox", Judge::Shaped),
    ("age-secr", Judge::Shaped),
    ("atatt3", Judge::Shaped),
    ("atctt3", Judge::Shaped),
    ("atbb", Judge::Shaped),
    ("dapi", Judge::Shaped),
    ("dop_v1_", Judge::Shaped),
    ("doo_v1_", Judge::Shaped),
    ("dor_v1_", Judge::Shaped),
    ("dckr_", Judge::Shaped),
    ("gsk_", Judge::Shaped),
    ("lin_", Judge::Shaped),
    ("pplx-", Judge::Shaped),
    ("r8_", Judge::Shaped),
    ("shp", Judge::Shaped),
    ("hvs.", Judge::Shaped),
    ("hvb.", Judge::Shaped),
    ("xai-", Judge::Shaped),
    ("q~", Judge::AzureSecret),
    ("accountk", Judge::AzureKey),
    ("accesske", Judge::AzureKey),
    ("sig=", Judge::AzureSignature),
    ("sg.", Judge::SendGrid),
    (":aa", Judge::Telegram),
    ("discord", Judge::DiscordHook),
    ("private-", Judge::Putty),
    ("login", Judge::Netrc),
    ("curl", Judge::Curl),
    ("mysql", Judge::MySql),
    ("mariadb", Judge::MySql),
    ("cookie", Judge::Cookie),
    ("hooks.sl", Judge::SlackHook),
    ("sk-", Judge::SkDash),
    ("sk_test_", Judge::Stripe),
    ("sk_live_", Judge::Stripe),
    ("sk_prod_", Judge::Stripe),
    ("rk_test_", Judge::Stripe),
    ("rk_live_", Judge::Stripe),
    ("rk_prod_", Judge::Stripe),
    ("eyj", Judge::Jwt),
    ("eya", Judge::Jwt),
    ("begin ", Judge::PrivateKey),
    ("authoriz", Judge::Authorization),
    ("bearer", Judge::Bearer),
    ("apikey", Judge::ApiKey),
    ("api-key", Judge::ApiKey),
    ("api_key", Judge::ApiKey),
    ("secret", Judge::Secret),
    ("password", Judge::Assignment { name: "password".len() }),
    ("token", Judge::Assignment { name: "token".len() }),
    ("://", Judge::UrlPassword),
];

/// A place where there may be a secret, and what is to be asked about it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    pub at: usize,
    question: Question,
}

#[derive(Debug, Clone, Copy)]
enum Question {
    Word(Judge),
    /// Whether the form with this number stands there.
    Form(usize),
    /// Whether a secret that was recognised goes on.
    Rest(Rule, rules::Rest),
}

/// A word that is searched for, and the questions where it occurs.
#[derive(Debug)]
struct Word {
    text: Vec<u8>,
    questions: Vec<Question>,
}

/// All the words of one attempt, ready to be searched for.
pub struct Search {
    forms: Vec<Form>,
    words: Vec<Word>,
    /// The forms that lines may end in the midst of, by the word that each begins with.
    wrapped: HashMap<[u8; WORD_MAX], Vec<usize>>,
    engine: Engine,
    /// The bytes at hand in small letters; kept to be filled again.
    folded: Vec<u8>,
}

enum Engine {
    /// Vector instructions compare with up to 64 words at once; each searcher has its own.
    Groups(Vec<packed::Searcher>),
    /// Where the machine has no such instructions, or for very many values.
    Automaton(AhoCorasick),
}

impl Search {
    pub fn new(known_values: &[String]) -> Search {
        let forms = forms::all(known_values);
        let mut beginnings: BTreeMap<Vec<u8>, Vec<Question>> = BTreeMap::new();
        let mut wrapped: HashMap<[u8; WORD_MAX], Vec<usize>> = HashMap::new();
        for (number, form) in forms.iter().enumerate() {
            let beginning = form.text[..WORD_MAX].to_ascii_lowercase();
            if let (true, Ok(word)) = (form.wraps, beginning.as_slice().try_into()) {
                wrapped.entry(word).or_default().push(number);
            }
            beginnings.entry(beginning).or_default().push(Question::Form(number));
        }
        for (word, judge) in WORDS {
            beginnings.entry(word.as_bytes().to_vec()).or_default();
            // The searchers report one word for each place: the longest, which asks for the shorter as well.
            for (text, questions) in &mut beginnings {
                if text.starts_with(word.as_bytes()) {
                    questions.push(Question::Word(*judge));
                }
            }
        }
        let mut words: Vec<Word> =
            beginnings.into_iter().map(|(text, questions)| Word { text, questions }).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.text.len()));
        let engine = Engine::new(&words);
        Search { forms, words, wrapped, engine, folded: Vec::new() }
    }

    /// How many literal words are searched for.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|word| word.text.as_slice())
    }

    /// Adds a candidate for every word that begins in `from..until`; those that are cut off at the end of
    /// `bytes` are none yet.
    pub fn find(&mut self, bytes: &[u8], from: usize, until: usize, candidates: &mut Vec<Candidate>) {
        self.folded.clear();
        self.folded.extend_from_slice(&bytes[from..]);
        self.folded.make_ascii_lowercase();
        let words = &self.words;
        let mut hit = |number: usize, at: usize| {
            let at = from + at;
            if at < until {
                let questions = words[number].questions.iter();
                candidates.extend(questions.map(|question| Candidate { at, question: *question }));
            }
        };
        match &self.engine {
            Engine::Automaton(automaton) => {
                let mut place = 0;
                while let Some(found) = automaton.find(aho_corasick::Input::new(&self.folded).range(place..))
                {
                    hit(found.pattern().as_usize(), found.start());
                    place = found.start() + 1;
                }
            }
            Engine::Groups(searchers) => {
                for (group, searcher) in searchers.iter().enumerate() {
                    let mut place = 0;
                    let rest = |place| (place..self.folded.len()).into();
                    while let Some(found) = searcher.find_in(&self.folded, rest(place)) {
                        hit(group * GROUP_MAX + found.pattern().as_usize(), found.start());
                        place = found.start() + 1;
                    }
                }
            }
        }
    }

    /// Adds a candidate for every dot that may be the first of a Discord token, which has no word of its own.
    pub fn find_dotted(&self, bytes: &[u8], from: usize, until: usize, candidates: &mut Vec<Candidate>) {
        let dots = memchr::memchr_iter(b'.', &bytes[from..until]).map(|found| from + found);
        candidates.extend(
            dots.filter(|at| is_discord_dot(bytes, *at))
                .map(|at| Candidate { at, question: Question::Word(Judge::DiscordToken) }),
        );
    }

    /// Adds a candidate for every word of a form that begins in `from..until` and in the midst of which a line
    /// ends. Words that are whole are found by the engine, whatever becomes of the lines behind them.
    pub fn find_wrapped(&self, bytes: &[u8], from: usize, until: usize, candidates: &mut Vec<Candidate>) {
        let last = bytes.len().min(until + WORD_MAX);
        if self.wrapped.is_empty() || from >= last {
            return;
        }
        for found in memchr::memchr2_iter(b'\n', b'\\', &bytes[from..last]) {
            let is_second = bytes[from + found] == b'\n' && found > 0 && bytes[from + found - 1] == b'\r';
            let end = from + found - usize::from(is_second);
            let Some(Ok(length)) = line_end(&bytes[end..]) else { continue };
            if !is_wrapped(bytes, end) {
                continue;
            }
            for at in end.saturating_sub(WORD_MAX - 1).max(from)..end.min(until) {
                let forms =
                    joined(&bytes[at..end], &bytes[end + length..]).and_then(|word| self.wrapped.get(&word));
                let questions = forms.into_iter().flatten().map(|number| Question::Form(*number));
                candidates.extend(questions.map(|question| Candidate { at, question }));
            }
        }
    }

    /// Whether a word of a form may begin at `at`, in the midst of which a line ends.
    fn may_begin_wrapped(&self, at: usize, bytes: &[u8]) -> bool {
        let place =
            (at + 1..bytes.len().min(at + WORD_MAX)).find(|place| line_end(&bytes[*place..]).is_some());
        let Some(end) = place.filter(|end| is_wrapped(bytes, *end)) else { return false };
        let Some(Ok(length) | Err(length)) = line_end(&bytes[end..]) else { return false };
        let mut so_far = [&bytes[at..end], &bytes[end + length..]].concat();
        so_far.truncate(WORD_MAX);
        so_far.make_ascii_lowercase();
        self.wrapped.keys().any(|word| word.starts_with(&so_far))
    }

    /// Where in the last bytes, from `from` on, something begins that may become a secret.
    pub fn first_possible(&self, bytes: &[u8], from: usize) -> usize {
        let mut first = bytes.len();
        for at in from..bytes.len() {
            if is_discord_dot(bytes, at) {
                let candidate = Candidate { at, question: Question::Word(Judge::DiscordToken) };
                first = self.may_begin(&candidate, bytes).into_iter().fold(first, usize::min);
            }
            if self.may_begin_wrapped(at, bytes) {
                first = first.min(at);
            }
            let rest = bytes[at..].to_ascii_lowercase();
            for word in &self.words {
                if word.text.len() > rest.len() && word.text.starts_with(&rest) {
                    if !word.wants_word_start() || Reader::new(bytes, false, at).is_word_start(at) {
                        first = first.min(at);
                    }
                } else if rest.starts_with(&word.text) {
                    let candidates =
                        word.questions.iter().map(|question| Candidate { at, question: *question });
                    let begins = candidates.filter_map(|candidate| self.may_begin(&candidate, bytes));
                    first = begins.fold(first, usize::min);
                }
            }
        }
        let before = bytes[..first].iter().rev().take(BEFORE_WORD_MAX);
        first - before.take_while(|byte| **byte == b'-').count()
    }

    fn may_begin(&self, candidate: &Candidate, bytes: &[u8]) -> Option<usize> {
        match self.judge(candidate, bytes, false) {
            Ok(found) => Some(found.start),
            Err(Stop::Wait { from }) => Some(from),
            Err(Stop::No) => None,
        }
    }

    /// Looks closer at a candidate.
    pub fn judge(&self, candidate: &Candidate, bytes: &[u8], is_end: bool) -> Result<Found, Stop> {
        let at = candidate.at;
        let mut reader = Reader::new(bytes, is_end, at);
        match candidate.question {
            Question::Form(number) => known(&self.forms[number], &reader, at),
            Question::Rest(rule, rest) => rules::go_on(rule, rest, &reader, at),
            Question::Word(judge) => match judge {
                Judge::Shaped => rules::shaped(&reader, at),
                Judge::SkDash => rules::sk_dash(&reader, at),
                Judge::Aws => rules::aws(&reader, at),
                Judge::Stripe => rules::stripe(&reader, at),
                Judge::Jwt => rules::jwt(&reader, at),
                Judge::SlackHook => rules::slack_hook(&mut reader, at),
                Judge::PrivateKey => pem::private_key(&mut reader, at),
                Judge::Authorization => fields::authorization(&mut reader, at),
                Judge::Bearer => fields::bearer(&mut reader, at),
                Judge::ApiKey => fields::api_key(&mut reader, at),
                Judge::Secret => fields::secret(&mut reader, at),
                Judge::Assignment { name } => fields::assignment(&mut reader, at + name),
                Judge::UrlPassword => fields::url_password(&mut reader, at),
                Judge::AzureSecret => vendors::azure_secret(&reader, at),
                Judge::AzureKey => vendors::azure_key(&mut reader, at),
                Judge::AzureSignature => vendors::azure_signature(&mut reader, at),
                Judge::SendGrid => vendors::sendgrid(&reader, at),
                Judge::Telegram => vendors::telegram(&mut reader, at),
                Judge::DiscordToken => vendors::discord_token(&mut reader, at),
                Judge::DiscordHook => vendors::discord_hook(&mut reader, at),
                Judge::Putty => pem::putty(&mut reader, at),
                Judge::Netrc => commands::netrc(&mut reader, at),
                Judge::Curl => commands::curl(&mut reader, at),
                Judge::MySql => commands::mysql(&mut reader, at),
                Judge::Cookie => commands::cookie(&mut reader, at),
            },
        }
    }
}

impl Candidate {
    /// The question whether a secret that was recognised goes on behind its end.
    pub fn rest_of(found: &Found) -> Option<Candidate> {
        found.rest.map(|rest| Candidate { at: found.end, question: Question::Rest(found.rule, rest) })
    }
}

impl Word {
    fn wants_word_start(&self) -> bool {
        self.questions.iter().all(|question| match question {
            Question::Word(judge) => judge.wants_word_start(),
            Question::Form(_) | Question::Rest(..) => false,
        })
    }
}

/// Whether the second dot of a Discord token stands where it has to, or has not come yet.
fn is_discord_dot(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b'.' && bytes.get(at + DISCORD_DOTS).is_none_or(|byte| *byte == b'.')
}

/// The last run of each kind of characters that was followed to where it ends, or to the last byte at hand.
#[derive(Default)]
pub struct Runs(Vec<(&'static Class, std::ops::RangeInclusive<usize>)>);

impl Runs {
    /// Whether the rest of this secret was followed already; if not, it will be now.
    pub fn have_walked(&mut self, found: &Found) -> bool {
        let Some(rules::Rest::Run(class)) = found.rest else { return false };
        let walked = self.0.iter_mut().find(|(walked, _)| std::ptr::eq(*walked, class));
        match walked {
            Some((_, range)) if range.contains(&found.end) => true,
            Some((_, range)) if range.contains(&found.start) => {
                *range = *range.start()..=found.end;
                false
            }
            Some((_, range)) => {
                *range = found.start..=found.end;
                false
            }
            None => {
                self.0.push((class, found.start..=found.end));
                false
            }
        }
    }
}

impl Engine {
    fn new(words: &[Word]) -> Engine {
        let group = |words: &[Word]| {
            let mut builder = packed::Config::new().match_kind(packed::MatchKind::LeftmostFirst).builder();
            builder.extend(words.iter().map(|word| &word.text));
            builder.build()
        };
        let few = words.len() <= GROUP_MAX * GROUPS_MAX;
        let groups = few.then(|| words.chunks(GROUP_MAX).map(group).collect::<Option<Vec<_>>>()).flatten();
        groups.map_or_else(|| Engine::Automaton(automaton(words)), Engine::Groups)
    }
}

fn automaton(words: &[Word]) -> AhoCorasick {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(words.iter().map(|word| &word.text))
        .expect("the forms of some values are far below the limits of the automaton")
}

/// A known value in one of its forms.
fn known(form: &Form, reader: &Reader, at: usize) -> Result<Found, Stop> {
    let is_shared = |byte: Option<u8>| byte.is_some_and(|byte| ANY_BASE64[byte as usize]);
    let end = match form.wraps {
        true => reader.wrapped(at, &form.text)?,
        false => reader.has(at, &form.text)?.then_some(at + form.text.len()),
    };
    let Some(mut end) = end else { return Err(Stop::No) };
    if form.shares_behind {
        // There always is one: where a line ends, it stands in the next.
        let shared = end + reader.line_end(end)?;
        if is_shared(reader.peek(shared)?) {
            end = shared + 1;
            while end < shared + 3 && reader.peek(end)? == Some(b'=') {
                end += 1;
            }
        }
    }
    found(Rule::Known, at, end)
}

/// Whether the line that ends here may have been wrapped by an encoder.
fn is_wrapped(bytes: &[u8], end: usize) -> bool {
    let line = end.checked_sub(WRAPPED_MIN).map(|start| &bytes[start..end]);
    line.is_some_and(|line| line.iter().rev().all(|byte| ANY_BASE64[*byte as usize]))
}

/// The word that a line end interrupts, in small letters.
fn joined(before: &[u8], behind: &[u8]) -> Option<[u8; WORD_MAX]> {
    let mut word = [0; WORD_MAX];
    let (left, right) = word.split_at_mut(before.len());
    left.copy_from_slice(before);
    right.copy_from_slice(behind.get(..right.len())?);
    word.make_ascii_lowercase();
    Some(word)
}
