//! Removes secrets from what agents print, while it streams.
//!
//! Two layers: values that are known to be secret, in the encodings that logs carry, and the published shapes
//! of tokens. What is no secret comes out byte for byte, and however the stream was cut into writes, the same
//! text comes out. It cannot be complete: a value can be transformed in more ways than anyone can list.
//!
//! Nothing here reads or writes files, and no raw byte is kept longer than it takes to judge it.

mod commands;
mod fields;
mod forms;
mod pem;
mod reader;
mod rules;
mod search;
#[cfg(test)]
mod tests;
mod vendors;

use std::collections::BTreeMap;

use reader::Stop;
use rules::{Found, Rule};
use search::{BEFORE_WORD_MAX, Candidate, Runs, Search, WORD_SPAN_MAX};

/// As much is looked at in one go: it stays in the fast memory, whatever a single write brings.
const STEP: usize = 64 * 1024;
/// As many bytes before the open ones are kept, for judges that look back.
const LOOK_BACK: usize = 64;
/// Old bytes are dropped when there are so many of them, not at every write.
const DROP_MIN: usize = 4 * 1024;

/// The secrets of one attempt: values that are known, and the built-in rules.
pub struct Redactor {
    known_values: Vec<String>,
    /// Built with the first byte: an agent that prints nothing costs nothing.
    search: Option<Box<Search>>,
    /// The bytes that are not decided yet, and some before them.
    bytes: Vec<u8>,
    /// Everything before this place was given out, or removed.
    given: usize,
    /// Every word that begins before this place is among the candidates, or was judged.
    searched: usize,
    /// Bytes before this place belong to a secret whose mark was given out.
    removed_until: Option<usize>,
    waiting: Vec<Waiting>,
    /// Secrets whose mark was not given out yet.
    secrets: Vec<Found>,
    found: BTreeMap<&'static str, u64>,
}

/// A candidate that more bytes have to decide, and where its secret would begin at the earliest.
struct Waiting {
    candidate: Candidate,
    from: usize,
}

impl Redactor {
    /// Values shorter than eight bytes are left alone.
    pub fn new(known_values: impl IntoIterator<Item = String>) -> Redactor {
        Redactor {
            known_values: known_values.into_iter().collect(),
            search: None,
            bytes: Vec::new(),
            given: 0,
            searched: 0,
            removed_until: None,
            waiting: Vec::new(),
            secrets: Vec::new(),
            found: BTreeMap::new(),
        }
    }

    /// Takes bytes as they came, and appends to `out` what may be written by now.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for part in bytes.chunks(STEP) {
            self.bytes.extend_from_slice(part);
            let until = self.bytes.len().saturating_sub(WORD_SPAN_MAX - 1);
            self.look(until, false);
            self.give(self.searched.saturating_sub(BEFORE_WORD_MAX), out);
            self.drop_old();
        }
    }

    /// Nothing came for a while: gives out what cannot be the beginning of a secret any more. This never
    /// changes what comes out in the end.
    pub fn idle(&mut self, out: &mut Vec<u8>) {
        let Some(search) = &self.search else { return };
        let limit = search.first_possible(&self.bytes, self.searched);
        self.give(limit, out);
    }

    /// The stream ended: gives out the rest, redacted as what it is by then.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.search.is_none() {
            return;
        }
        self.look(self.bytes.len(), true);
        self.give(self.bytes.len(), out);
        self.bytes.clear();
        (self.given, self.searched, self.removed_until) = (0, 0, None);
    }

    /// How many secrets were removed so far, by the name of the rule.
    pub fn found(&self) -> &BTreeMap<&'static str, u64> {
        &self.found
    }

    /// The literal words that the stream is searched for; what a benchmark has to give to others as well.
    pub fn words(&self) -> Vec<Vec<u8>> {
        Search::new(&self.known_values).words().map(<[u8]>::to_vec).collect()
    }

    /// Searches up to `until` and judges what can be judged.
    fn look(&mut self, until: usize, is_end: bool) {
        let search = self.search.get_or_insert_with(|| Box::new(Search::new(&self.known_values)));
        let mut open: Vec<Candidate> = self.waiting.drain(..).map(|waiting| waiting.candidate).collect();
        if self.searched < until {
            search.find(&self.bytes, self.searched, until, &mut open);
            search.find_wrapped(&self.bytes, self.searched, until, &mut open);
            search.find_dotted(&self.bytes, self.searched, until, &mut open);
            self.searched = until;
        }
        // From left to right, so that each run is walked once, however many secrets begin in it.
        open.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.at));
        let mut runs = Runs::default();
        while let Some(candidate) = open.pop() {
            match search.judge(&candidate, &self.bytes, is_end) {
                Err(Stop::No) => (),
                Err(Stop::Wait { from }) => self.waiting.push(Waiting { candidate, from }),
                Ok(found) => {
                    if !runs.have_walked(&found) {
                        open.extend(Candidate::rest_of(&found));
                    }
                    self.secrets.push(found);
                }
            }
        }
    }

    /// Gives out what comes before `limit`, unless a candidate that waits may still begin there.
    ///
    /// Secrets that overlap or touch are removed as one, named after the one that begins first. Everything that
    /// begins before the limit is known here, so the mark does not depend on how the stream was cut.
    fn give(&mut self, limit: usize, out: &mut Vec<u8>) {
        let limit = self.waiting.iter().map(|waiting| waiting.from).fold(limit, usize::min).max(self.given);
        self.secrets.sort_by_key(|secret| (secret.start, secret.rule));
        let ready = self.secrets.partition_point(|secret| secret.start < limit);
        for secret in self.secrets.drain(..ready) {
            let removed_until = self.removed_until.unwrap_or(0);
            if self.removed_until.is_none() || removed_until < secret.start {
                out.extend_from_slice(&self.bytes[self.given.max(removed_until)..secret.start]);
                out.extend_from_slice(mark(secret.rule).as_bytes());
                *self.found.entry(secret.rule.name()).or_default() += 1;
                self.given = secret.start;
            }
            self.removed_until = Some(secret.end.max(removed_until));
        }
        let kept_from = self.given.max(self.removed_until.unwrap_or(0));
        if kept_from < limit {
            out.extend_from_slice(&self.bytes[kept_from..limit]);
        }
        self.given = limit;
    }

    /// Forgets bytes that no judge needs any more.
    fn drop_old(&mut self) {
        let open = self.waiting.iter().map(|waiting| waiting.candidate.at);
        let first_needed = open.fold(self.given.min(self.searched), usize::min).saturating_sub(LOOK_BACK);
        if first_needed < DROP_MIN {
            return;
        }
        self.bytes.drain(..first_needed);
        self.given -= first_needed;
        self.searched -= first_needed;
        self.removed_until = self.removed_until.and_then(|until| until.checked_sub(first_needed));
        for waiting in &mut self.waiting {
            waiting.candidate.at -= first_needed;
            waiting.from -= first_needed;
        }
        for secret in &mut self.secrets {
            secret.start -= first_needed;
            secret.end -= first_needed;
        }
    }
}

/// One whole text at once.
pub fn redact(text: &str, known_values: &[String]) -> String {
    let mut redactor = Redactor::new(known_values.iter().cloned());
    let mut out = Vec::with_capacity(text.len());
    redactor.push(text.as_bytes(), &mut out);
    redactor.finish(&mut out);
    // Secrets are cut at characters of their own alphabets; should one ever end inside a letter of another,
    // a replacement sign is better than the raw text.
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn mark(rule: Rule) -> String {
    format!("[redacted:{}]", rule.name())
}
