//! Why an agent should end before it does so by itself: somebody asks, a later attempt exists, a valid result of
//! it is there already, or it uses more than it may.
//!
//! Looks and tells; ending it is for others. Its time is the loop's own affair.

use std::path::PathBuf;

use serde::Deserialize;

use super::files::{self, Glimpse};
use super::report;
use super::signals::Call;
use crate::agent::tree;
use crate::bus::layout::AttemptPaths;
use crate::bus::{NOTE_BYTES_MAX, RESULT_BYTES_MAX};
use crate::format::order::Order;
use crate::model::agent::ResourceLimits;
use crate::model::exit::{Resource, Stopped};
use crate::model::{Seconds, Tick};

/// How often the files are looked at that may ask for an end.
const LOOK_EVERY_MS: u64 = 1_000;
/// How often the tree is measured, where it has limits.
const MEASURE_EVERY_MS: u64 = 100;
/// How often the memory of a tree is weighed exactly while its sum is above the limit, which costs more.
const WEIGH_EVERY_MS: u64 = 1_000;
/// A sum that is larger than all before by this part is weighed at once.
const WEIGHED_GROWTH: u64 = 16;

/// The watcher's request that the attempt end.
#[derive(Deserialize)]
struct Request {
    why: String,
}

pub(super) struct Reasons<'a> {
    order: &'a Order,
    stop: PathBuf,
    successor: PathBuf,
    /// Where the watcher takes in what is valid.
    kept_result: PathBuf,
    /// How each drop box looked last, and whether a valid result of this attempt lay in it.
    box_seen: [(Option<Glimpse>, bool); 2],
    /// Since when there is a valid result.
    result_since: Option<Tick>,
    /// How long an agent may stay after its result; a check may stay.
    linger: Option<Seconds>,
    limits: ResourceLimits,
    next_look_ms: u64,
    next_measure_ms: u64,
    /// The largest sum that was weighed, and when one above the limit is weighed again.
    weighed_sum: u64,
    next_weighing_ms: u64,
    /// The most memory that the whole tree was seen to occupy.
    pub(super) peak_memory_bytes: u64,
}

impl<'a> Reasons<'a> {
    pub(super) fn new(order: &'a Order, paths: &AttemptPaths, now_ms: u64) -> Self {
        let limits = order.limits;
        let is_measured =
            limits.memory_mb.is_some() || limits.cpu_seconds.is_some() || limits.processes.is_some();
        Reasons {
            order,
            stop: paths.stop(),
            successor: paths.sibling(order.attempt.next()).dir().to_owned(),
            kept_result: paths.result(),
            box_seen: [(None, false); 2],
            result_since: None,
            linger: Some(order.kill_grace),
            limits,
            next_look_ms: now_ms + LOOK_EVERY_MS,
            next_measure_ms: if is_measured { now_ms + MEASURE_EVERY_MS } else { u64::MAX },
            weighed_sum: 0,
            next_weighing_ms: 0,
            peak_memory_bytes: 0,
        }
    }

    /// For a check, which runs while the result lies there.
    pub(super) fn of_check(order: &'a Order, paths: &AttemptPaths, now_ms: u64) -> Self {
        Reasons { linger: None, ..Reasons::new(order, paths, now_ms) }
    }

    /// When to look again.
    pub(super) fn next_ms(&self) -> u64 {
        self.next_look_ms.min(self.next_measure_ms)
    }

    /// Looks at whatever is due.
    pub(super) fn look(&mut self, now_ms: u64, now: Tick) -> Option<Stopped> {
        if now_ms >= self.next_measure_ms {
            self.next_measure_ms = now_ms + MEASURE_EVERY_MS;
            if let Some(stopped) = self.measure(now_ms) {
                return Some(stopped);
            }
        }
        if now_ms < self.next_look_ms {
            return None;
        }
        self.next_look_ms = now_ms + LOOK_EVERY_MS;
        self.before_start().or_else(|| self.linger(now))
    }

    /// The reasons that may be there before the agent is: a runner can come late, when nobody wants it any more.
    pub(super) fn before_start(&self) -> Option<Stopped> {
        if let Some(why) = self.request() {
            return Some(Stopped::Asked { why });
        }
        files::glimpse(&self.successor).is_some().then_some(Stopped::Superseded)
    }

    /// What a signal means: the watcher sends one to hurry its request along.
    pub(super) fn called(&self, call: Call) -> Stopped {
        match call {
            Call::HangUp => Stopped::HungUp,
            Call::End(signal) => {
                Stopped::Asked { why: self.request().unwrap_or_else(|| format!("signal {signal}")) }
            }
        }
    }

    fn request(&self) -> Option<String> {
        let bytes = files::read(&self.stop, NOTE_BYTES_MAX).ok()??;
        // A request that cannot be read is one all the same.
        let request = serde_json::from_slice::<Request>(&bytes);
        Some(request.map_or_else(|_| "asked to stop".to_owned(), |request| request.why))
    }

    fn linger(&mut self, now: Tick) -> Option<Stopped> {
        let linger = self.linger?;
        if !self.is_delivered() {
            self.result_since = None;
            return None;
        }
        let since = *self.result_since.get_or_insert(now);
        (now >= since.after(linger)).then_some(Stopped::Lingered)
    }

    /// What does not parse, or speaks for somebody else, may still be corrected: it is no reason to end.
    fn is_delivered(&mut self) -> bool {
        for (path, known) in self.order.paths.boxes().zip(&mut self.box_seen) {
            let seen = files::glimpse(path);
            if seen != known.0 {
                let bytes = files::read(path, RESULT_BYTES_MAX).ok().flatten();
                *known = (seen, bytes.is_some_and(|bytes| report::is_valid(self.order, &bytes)));
            }
        }
        self.box_seen.iter().any(|known| known.1)
            || files::glimpse(&self.kept_result).is_some_and(|seen| seen.is_written())
    }

    fn measure(&mut self, now_ms: u64) -> Option<Stopped> {
        let usage = tree::usage(std::process::id())?;
        let occupied = self.weigh(usage.memory_bytes, now_ms).unwrap_or_default();
        self.peak_memory_bytes = self.peak_memory_bytes.max(occupied);
        let measured = [
            (Resource::MemoryMb, self.limits.memory_mb, occupied.div_ceil(1 << 20)),
            (Resource::CpuSeconds, self.limits.cpu_seconds, usage.cpu.as_secs()),
            (Resource::Processes, self.limits.processes, usage.processes as u64),
        ];
        measured.into_iter().find_map(|(what, limit, used)| {
            let limit = limit?;
            // All of the time may be used, and when it is, it is used up.
            let is_over = if what == Resource::CpuSeconds { used >= limit } else { used > limit };
            is_over.then_some(Stopped::Limit { what, limit })
        })
    }

    /// What the tree occupies, where its sum tells something new. Forked processes share their memory, and the sum
    /// counts it for each: it only says when a look is worth its cost.
    fn weigh(&mut self, sum: u64, now_ms: u64) -> Option<u64> {
        let is_over = self.limits.memory_mb.is_some_and(|limit| sum.div_ceil(1 << 20) > limit);
        let has_grown = sum > self.weighed_sum + self.weighed_sum / WEIGHED_GROWTH;
        let is_due = is_over && now_ms >= self.next_weighing_ms;
        if !has_grown && !is_due {
            return None;
        }
        self.weighed_sum = self.weighed_sum.max(sum);
        if is_over {
            self.next_weighing_ms = now_ms + WEIGH_EVERY_MS;
        }
        Some(tree::shared_out_memory(std::process::id()))
    }
}

/// The limit that the kernel held a process to, told from the signal that ended it.
pub(super) fn limit_of_signal(signal: i32, limits: &ResourceLimits) -> Option<Stopped> {
    use rustix::process::Signal;
    let of = |what, limit: Option<u64>| limit.map(|limit| Stopped::Limit { what, limit });
    if signal == Signal::XFSZ.as_raw() {
        of(Resource::FileSizeMb, limits.file_size_mb)
    } else if signal == Signal::XCPU.as_raw() {
        of(Resource::CpuSeconds, limits.cpu_seconds)
    } else {
        None
    }
}
