//! What must hold whatever happens: the journal read independently of the product, line by line, against
//! what the agents did and what a watcher could see.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use watchkeeper::bus::Look;

use super::plan::PlannedBatch;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

pub type Checked = Result<(), Violation>;

fn broken<T>(invariant: &'static str, detail: String) -> Result<T, Violation> {
    Err(Violation { invariant, detail })
}

/// A result that an agent published completely.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about it")]
#[derive(Debug, Clone)]
pub struct Published {
    pub key: String,
    pub sha256: String,
    pub says: Option<u32>,
    pub is_valid: bool,
    /// The attempt that was out when it was published, by the journal.
    pub during: u32,
    pub at_ms: u64,
    /// It still lies in the drop box, as far as agents know, since this moment.
    pub visible_from: u64,
    pub is_overwritten: bool,
    pub was_torn: bool,
    /// It was delivered by the product's own verb, which never lets a second one take the place of the first.
    pub by_verb: bool,
}

/// When an attempt was last seen to beat, by the oracle's own looks.
#[derive(Debug, Clone)]
pub struct Beat {
    pub attempt: u32,
    pub tick: u64,
    pub looks: u32,
    /// How the heartbeats in the outbox and at the plain name looked.
    pub seen: [Option<Look>; 2],
}

impl Beat {
    pub fn has_beaten(&self) -> bool {
        self.seen.iter().any(Option::is_some)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub attempt: u32,
    pub is_live: bool,
    pub is_running: bool,
    pub ended: Option<bool>,
    pub collected: Option<(u32, String)>,
    reprieve_until: u64,
}

/// One batch as its journal tells it.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the story")]
pub struct Reading {
    pub plan: PlannedBatch,
    pub heartbeat_ms: u64,
    pub start_ms: u64,
    pub is_serialised: bool,
    pub tasks: HashMap<String, Seen>,
    pub published: Vec<Published>,
    /// What agents have written outside of the bus.
    pub written: HashSet<String>,
    pub beats: HashMap<String, Beat>,
    read_bytes: usize,
    /// Power was lost: a journal that is as long as before may hold other lines.
    pub is_doubtful: bool,
    last_seq: u64,
    last_epoch: u64,
    pub finished: bool,
    pub cancelled: bool,
    joined: usize,
    /// The watcher and its disk are left alone: then verdicts and acceptances have their bounds.
    pub is_undisturbed: bool,
    pub scan_ms: u64,
    pub settle_ms: u64,
}

/// The moment of a turn, as the world knows it.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub mono_ms: u64,
}

impl Reading {
    pub fn new(plan: PlannedBatch, settings: &watchkeeper::model::Settings, is_undisturbed: bool) -> Self {
        Reading {
            plan,
            heartbeat_ms: settings.heartbeat_timeout.millis(),
            start_ms: settings.start_timeout_or_default().millis(),
            is_serialised: true,
            tasks: HashMap::new(),
            published: Vec::new(),
            written: HashSet::new(),
            beats: HashMap::new(),
            read_bytes: 0,
            is_doubtful: false,
            last_seq: 0,
            last_epoch: 0,
            finished: false,
            cancelled: false,
            joined: 0,
            is_undisturbed,
            scan_ms: settings.scan_interval.millis(),
            settle_ms: settings.settle.millis(),
        }
    }

    /// After a loss of power, or a cut tail, the story is read from its beginning.
    fn forget(&mut self) {
        self.tasks.clear();
        (self.read_bytes, self.last_seq, self.last_epoch) = (0, 0, 0);
        (self.finished, self.cancelled, self.joined) = (false, false, 0);
    }

    /// Reads what the journal holds beyond the last reading.
    pub fn read(&mut self, journal: &[u8], moment: Moment, told: &mut Vec<String>) -> Checked {
        if journal.len() < self.read_bytes || std::mem::take(&mut self.is_doubtful) {
            self.forget();
        }
        let is_again = self.read_bytes == 0 && !self.beats.is_empty();
        let end = journal.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in journal[self.read_bytes.min(end)..end].split_inclusive(|byte| *byte == b'\n') {
            let Ok(entry) = serde_json::from_slice::<Value>(line) else {
                self.read_bytes = 0;
                return Ok(());
            };
            told.push(String::from_utf8_lossy(line).trim_end().to_owned());
            self.entry(&entry, moment, is_again)?;
        }
        self.read_bytes = end;
        Ok(())
    }

    fn entry(&mut self, entry: &Value, moment: Moment, is_again: bool) -> Checked {
        let number = |name: &str| entry[name].as_u64().unwrap_or(0);
        let (seq, epoch) = (number("seq"), number("epoch"));
        if seq != self.last_seq + 1 {
            return broken("I2", format!("line {seq} follows line {}", self.last_seq));
        }
        if epoch < self.last_epoch {
            return broken("I1", format!("line {seq} of epoch {epoch} follows epoch {}", self.last_epoch));
        }
        (self.last_seq, self.last_epoch) = (seq, epoch);
        let event = entry["event"].as_str().unwrap_or("").to_owned();
        if self.finished && event != "resumed" {
            return broken("I12", format!("line {seq}: {event} after the batch had finished"));
        }
        let key = match &entry["task"] {
            Value::String(key) => key.clone(),
            other => other["key"].as_str().unwrap_or("").to_owned(),
        };
        let attempt = number("attempt") as u32;
        match event.as_str() {
            "joined" => self.joined += 1,
            "offered" => self.offered(&key, attempt, number("clock"))?,
            "started" => self.task(&key).is_running = true,
            "collected" => self.collected(entry, &key, attempt, moment, is_again)?,
            "succeeded" => {
                let seen = self.task(&key);
                if seen.collected.as_ref().is_none_or(|(of, _)| *of != attempt) {
                    return broken("I5", format!("{key} succeeded without a collected result"));
                }
                self.check_declared(&key)?;
                self.end(&key, true)?;
            }
            "attempt_failed" => self.attempt_failed(entry, &key, attempt, moment, is_again)?,
            "abandoned" => self.abandoned(entry, &key)?,
            "spec_refused" => self.end(&key, false)?,
            "self_suspected" => {
                let until = number("until");
                for key in entry["silent"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    self.task(key).reprieve_until = until;
                }
            }
            "cancel_asked" => self.cancelled = true,
            "finished" => self.finish()?,
            _ => {}
        }
        Ok(())
    }

    pub fn task(&mut self, key: &str) -> &mut Seen {
        self.tasks.entry(key.to_owned()).or_default()
    }

    fn offered(&mut self, key: &str, attempt: u32, tick: u64) -> Checked {
        let live = self.tasks.values().filter(|seen| seen.is_live).count();
        let Some(ix) = self.plan.task(key) else { return broken("I12", format!("{key} is not planned")) };
        let planned = self.plan.tasks[ix].clone();
        let seen = self.task(key).clone();
        if seen.is_live {
            return broken("I4", format!("{key}: attempt {attempt} begins beside attempt {}", seen.attempt));
        }
        if seen.ended.is_some() {
            return broken("I12", format!("{key} begins again after its end"));
        }
        if attempt != seen.attempt + 1 {
            return broken("I11", format!("{key}: attempt {attempt} follows {}", seen.attempt));
        }
        if attempt > 1 + planned.max_retries {
            return broken("I11", format!("{key}: attempt {attempt}, and {} retries", planned.max_retries));
        }
        for on in &planned.dependencies {
            let on = &self.plan.tasks[*on].key;
            if self.tasks.get(on).and_then(|seen| seen.ended) != Some(true) {
                return broken("I12", format!("{key} begins before {on} has succeeded"));
            }
        }
        if self.plan.parallel_limit.is_some_and(|limit| live >= limit as usize) {
            return broken("I12", format!("{key} begins beside {live} others"));
        }
        if self.is_serialised {
            self.check_files(key, &planned.files)?;
        }
        if self.beats.get(key).is_none_or(|beat| beat.attempt != attempt) {
            self.beats.insert(key.to_owned(), Beat { attempt, tick, looks: 0, seen: [None; 2] });
        }
        let seen = self.task(key);
        (seen.attempt, seen.is_live, seen.is_running, seen.reprieve_until) = (attempt, true, false, 0);
        Ok(())
    }

    fn check_files(&self, key: &str, files: &[String]) -> Checked {
        for other in &self.plan.tasks {
            let holds =
                self.tasks.get(&other.key).is_some_and(|seen| seen.attempt > 0 && seen.ended.is_none());
            if other.key != key && holds && other.files.iter().any(|file| files.contains(file)) {
                return broken("I12", format!("{key} begins while {} holds its file", other.key));
            }
        }
        Ok(())
    }

    /// Nothing is called done of which nobody wrote anything.
    fn check_declared(&self, key: &str) -> Checked {
        let declared = self.plan.task(key).map_or(&[] as &[String], |ix| &self.plan.tasks[ix].files);
        match declared.iter().any(|file| self.written.contains(file)) || declared.is_empty() {
            true => Ok(()),
            false => broken("I27", format!("{key} succeeded, and nobody wrote {declared:?}")),
        }
    }

    fn collected(
        &mut self,
        entry: &Value,
        key: &str,
        attempt: u32,
        moment: Moment,
        is_again: bool,
    ) -> Checked {
        let sha256 = entry["sha256"].as_str().unwrap_or("").to_owned();
        let seen = self.task(key).clone();
        if !seen.is_live || seen.attempt != attempt {
            return broken("I6", format!("{key}: a result is accepted for attempt {attempt}, which is over"));
        }
        if seen.collected.as_ref().is_some_and(|(of, _)| *of == attempt) {
            return broken("I5", format!("{key}: two results are accepted for attempt {attempt}"));
        }
        let known = self.published.iter().rev().find(|one| one.key == key && one.sha256 == sha256);
        match known {
            None => return broken("I3", format!("{key}: bytes are accepted that nobody published whole")),
            Some(one) if one.says.is_some_and(|said| said != attempt) => {
                return broken(
                    "I6",
                    format!("{key}: a result of attempt {:?} counts for {attempt}", one.says),
                );
            }
            Some(one) if one.by_verb && self.came_second(one) => {
                return broken("I26", format!("{key}: a second result took the place of the first"));
            }
            Some(one) if !one.is_valid => {
                return broken("I3", format!("{key}: an invalid result is accepted"));
            }
            Some(one) if self.is_undisturbed && !is_again && one.during == attempt => {
                let settle = if one.was_torn { self.settle_ms } else { 0 };
                let bound = one.visible_from.max(one.at_ms) + 2 * self.scan_ms + settle + 50;
                if moment.mono_ms > bound {
                    let late = moment.mono_ms - one.at_ms;
                    return broken("I10", format!("{key}: a result was accepted after {late} ms"));
                }
            }
            Some(_) => {}
        }
        self.task(key).collected = Some((attempt, sha256));
        Ok(())
    }

    /// Whether another result of the same attempt had been delivered before, while that attempt was out.
    fn came_second(&self, one: &Published) -> bool {
        let same = |other: &&Published| {
            let is_own = (&other.key, other.says, other.during) == (&one.key, one.says, one.during);
            other.by_verb && is_own && !other.is_overwritten
        };
        // An agent of a bus that was removed may speak for an attempt that has not begun here.
        let is_in_time = one.says == Some(one.during);
        is_in_time && self.published.iter().find(same).is_some_and(|first| first.sha256 != one.sha256)
    }

    fn attempt_failed(
        &mut self,
        entry: &Value,
        key: &str,
        attempt: u32,
        moment: Moment,
        is_again: bool,
    ) -> Checked {
        let seen = self.task(key).clone();
        if !seen.is_live || seen.attempt != attempt {
            return broken("I4", format!("{key}: attempt {attempt} fails, which is not out"));
        }
        let reason = entry["because"]["reason"].as_str().unwrap_or("").to_owned();
        let tick = entry["clock"].as_u64().unwrap_or(0);
        if !is_again {
            self.check_death(key, attempt, &reason, tick, moment)?;
        }
        let has_retry = !entry["retry_at"].is_null();
        let retries = self.plan.task(key).map_or(0, |ix| self.plan.tasks[ix].max_retries);
        if has_retry && attempt > retries {
            return broken("I11", format!("{key}: a retry after attempt {attempt}, and {retries} retries"));
        }
        let seen = self.task(key);
        (seen.is_live, seen.is_running) = (false, false);
        if has_retry { Ok(()) } else { self.end(key, false) }
    }

    /// A verdict over a living attempt: nothing that it published is overlooked, and no limit is cut short.
    fn check_death(&self, key: &str, attempt: u32, reason: &str, tick: u64, moment: Moment) -> Checked {
        let is_silence = matches!(reason, "no_heartbeat" | "never_started" | "heartbeat_malformed");
        if is_silence || matches!(reason, "attempt_timeout" | "result_refused") {
            let overlooked = self.published.iter().find(|one| {
                one.key == key
                    && one.is_valid
                    && !one.is_overwritten
                    && one.during == attempt
                    && one.says.is_none_or(|said| said == attempt)
                    && one.visible_from <= moment.mono_ms
                    && one.at_ms < moment.mono_ms
            });
            if let Some(one) = overlooked {
                return broken("I7", format!("{key}: {reason}, though its result came at {}", one.at_ms));
            }
        }
        let Some(beat) = self.beats.get(key).filter(|beat| beat.attempt == attempt) else {
            return Ok(());
        };
        let overdue = tick.saturating_sub(beat.tick);
        let bound = 3 * self.heartbeat_ms + 4 * self.scan_ms;
        if self.is_undisturbed && beat.has_beaten() && overdue > bound {
            return broken("I10", format!("{key}: {reason}, after {overdue} ms of silence"));
        }
        if !is_silence {
            return Ok(());
        }
        let limit = if reason == "no_heartbeat" { self.heartbeat_ms } else { self.start_ms };
        let silent_for = tick.saturating_sub(beat.tick);
        if silent_for < limit.min(self.heartbeat_ms) || beat.looks < 2 {
            let detail = format!("{key}: {reason} after {silent_for} ms and {} looks", beat.looks);
            return broken("I8", detail);
        }
        self.check_brake(key, tick)
    }

    /// Many that fall silent together are doubted once before any of them is given up.
    fn check_brake(&self, key: &str, tick: u64) -> Checked {
        let running: Vec<&String> = self
            .tasks
            .iter()
            .filter(|(_, seen)| seen.is_running && seen.is_live)
            .map(|(key, _)| key)
            .collect();
        let is_silent = |key: &&&String| {
            self.beats.get(**key).is_some_and(|beat| tick.saturating_sub(beat.tick) > self.heartbeat_ms)
        };
        let silent: Vec<&&String> = running.iter().filter(is_silent).collect();
        let is_mass = silent.len() >= 3 && silent.len() * 2 >= running.len();
        let was_doubted = |key: &str| self.tasks.get(key).is_some_and(|seen| seen.reprieve_until > 0);
        if is_mass && silent.iter().any(|other| other.as_str() == key) && !was_doubted(key) {
            return broken("I9", format!("{key} is given up with {} others, undoubted", silent.len() - 1));
        }
        Ok(())
    }

    fn abandoned(&mut self, entry: &Value, key: &str) -> Checked {
        let reason = entry["because"]["reason"].as_str().unwrap_or("");
        if reason == "dependency_failed" {
            let planned = self.plan.task(key).map(|ix| self.plan.tasks[ix].clone());
            let is_failed = |on: &usize| {
                self.tasks.get(&self.plan.tasks[*on].key).and_then(|seen| seen.ended) == Some(false)
            };
            if !planned.is_some_and(|task| task.dependencies.iter().any(is_failed)) {
                return broken("I12", format!("{key} is skipped, though nothing that it needs has failed"));
            }
        }
        if self.task(key).is_live {
            return broken("I12", format!("{key} is skipped while its attempt is out"));
        }
        self.end(key, false)
    }

    fn end(&mut self, key: &str, success: bool) -> Checked {
        let seen = self.task(key);
        if seen.ended.is_some() {
            return broken("I12", format!("{key} ends twice"));
        }
        (seen.ended, seen.is_live, seen.is_running) = (Some(success), false, false);
        Ok(())
    }

    fn finish(&mut self) -> Checked {
        if self.finished {
            return broken("I12", "the batch finishes twice".to_owned());
        }
        self.finished = true;
        for planned in &self.plan.tasks {
            let seen = self.tasks.get(&planned.key);
            let has_joined = seen.is_some() || !self.is_open();
            if has_joined && seen.and_then(|seen| seen.ended).is_none() {
                return broken("I12", format!("the batch finishes before {} has ended", planned.key));
            }
        }
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        matches!(self.plan.way, super::plan::Way::Specs | super::plan::Way::Loose)
    }

    pub fn joined(&self) -> usize {
        self.joined
    }

    /// The attempt of a task that is out now, by the journal.
    pub fn live_attempt(&self, key: &str) -> u32 {
        self.tasks.get(key).filter(|seen| seen.is_live).map_or(0, |seen| seen.attempt)
    }
}
