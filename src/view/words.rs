//! One vocabulary for every face: what a task's phase is called, its mark, how spans of time read.
//!
//! The words are those of the plan dialect; other dialects translate where they write.

use crate::model::clock::Seconds;
use crate::model::event::BatchStatus;
use crate::model::state::{Outcome, Phase, TaskState};

/// What a task's phase is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Word {
    Queued,
    InProgress,
    Awaiting,
    Completed,
    Failed,
    Blocked,
    Cancelled,
}

impl Word {
    pub const ALL: [Word; 7] = [
        Word::Queued,
        Word::InProgress,
        Word::Awaiting,
        Word::Completed,
        Word::Failed,
        Word::Blocked,
        Word::Cancelled,
    ];

    pub fn of(phase: &Phase) -> Word {
        match phase {
            Phase::Waiting { .. } | Phase::Ready | Phase::Offered { .. } | Phase::BackingOff { .. } => {
                Word::Queued
            }
            Phase::Running { .. } | Phase::Claimed { .. } | Phase::Ending { .. } => Word::InProgress,
            Phase::Awaiting { .. } => Word::Awaiting,
            Phase::Done(Outcome::Succeeded) => Word::Completed,
            Phase::Done(Outcome::Failed(_) | Outcome::TimedOut(_)) => Word::Failed,
            Phase::Done(Outcome::Skipped(_)) => Word::Blocked,
            Phase::Done(Outcome::Cancelled(_)) => Word::Cancelled,
        }
    }

    /// As the dashboard shows it.
    pub fn shown(self) -> &'static str {
        match self {
            Word::Queued => "QUEUED",
            Word::InProgress => "IN_PROGRESS",
            Word::Awaiting => "AWAITING",
            Word::Completed => "COMPLETED",
            Word::Failed => "FAILED",
            Word::Blocked => "BLOCKED",
            Word::Cancelled => "CANCELLED",
        }
    }

    /// As JSON says it; an ended task's word is that of the batch result.
    pub fn written(self) -> &'static str {
        match self {
            Word::Queued => "queued",
            Word::InProgress => "in_progress",
            Word::Awaiting => "awaiting",
            Word::Completed => "success",
            Word::Failed => "failed",
            Word::Blocked => "blocked",
            Word::Cancelled => "cancelled",
        }
    }

    /// Within a sentence or a count: `3 completed`.
    pub fn told(self) -> &'static str {
        match self {
            Word::InProgress => "in progress",
            Word::Awaiting => "awaiting a human",
            Word::Completed => "completed",
            other => other.written(),
        }
    }

    pub fn glyph(self) -> char {
        match self {
            Word::Queued => '·',
            Word::InProgress => '▶',
            Word::Awaiting => '?',
            Word::Completed => '✓',
            Word::Failed => '✗',
            Word::Blocked | Word::Cancelled => '⊘',
        }
    }
}

/// The headline's word for how a batch ended.
pub fn batch_shown(status: BatchStatus) -> &'static str {
    match status {
        BatchStatus::Success => "SUCCESS",
        BatchStatus::PartialSuccess => "PARTIAL SUCCESS",
        BatchStatus::Failure => "FAILURE",
        BatchStatus::Timeout => "TIMEOUT",
        BatchStatus::Cancelled => "CANCELLED",
    }
}

/// Tries that a task has in all.
pub fn attempts_max(task: &TaskState) -> u32 {
    task.spec.limits.max_retries.saturating_add(1).saturating_add(task.tries_before as u32)
}

/// `attempt 2 of 3`; a try by hand beyond the limit is just `attempt 4`.
pub fn attempt_of(number: u32, max: u32) -> String {
    if number > max { format!("attempt {number}") } else { format!("attempt {number} of {max}") }
}

/// A span as tables show it: `0.4s`, `12s`, `1m 30s`, `30m`, `1h 5m`, `2d 3h`.
pub fn duration(span: Seconds) -> String {
    let millis = span.millis();
    let (seconds, tenths) = (millis / 1000, millis / 100 % 10);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if seconds < 10 && tenths > 0 {
        format!("{seconds}.{tenths}s")
    } else if minutes == 0 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two_units(minutes, "m", seconds % 60, "s")
    } else if hours == 0 {
        // Beyond ten minutes nobody counts seconds.
        format!("{minutes}m")
    } else if hours < 48 {
        two_units(hours, "h", minutes % 60, "m")
    } else {
        two_units(days, "d", hours % 24, "h")
    }
}

/// A span as a headline says it: `1 hour` where it is whole hours, else as tables show it.
pub fn duration_in_words(span: Seconds) -> String {
    let minutes = span.millis() / 60_000;
    match (minutes / 60, minutes % 60) {
        (1, 0) => "1 hour".to_owned(),
        (hours @ 2..48, 0) => format!("{hours} hours"),
        _ => duration(span),
    }
}

/// A span in the dashboard's title: `15min`, `1h 5min`, `40s`.
pub fn elapsed(span: Seconds) -> String {
    let minutes = span.millis() / 60_000;
    match (minutes / 60, minutes % 60) {
        (0, 0) => duration(span),
        (0, minutes) => format!("{minutes}min"),
        (hours, minutes) => two_units(hours, "h", minutes, "min"),
    }
}

fn two_units(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit} {small}{small_unit}")
    }
}

/// `1 task`, `3 tasks`, `10,000 tasks`.
pub fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// Digits in groups of three: `10,000`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [rest @ .., last] => {
            let rest: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", rest.join(", "), last.as_ref())
        }
    }
}

/// Like `listed`, but beyond `most` names the others are only counted.
pub fn listed_at_most<S: AsRef<str>>(names: &[S], most: usize) -> String {
    if names.len() <= most.max(1) {
        return listed(names);
    }
    let shown: Vec<&str> = names[..most].iter().map(AsRef::as_ref).collect();
    format!("{} and {} more", shown.join(", "), grouped(names.len() - most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_people_say_them() {
        let cases = [
            (0.0, "0s"),
            (0.4, "0.4s"),
            (9.96, "9.9s"),
            (12.3, "12s"),
            (60.0, "1m"),
            (90.0, "1m 30s"),
            (1800.0, "30m"),
            (3600.0, "1h"),
            (3900.0, "1h 5m"),
            (183_600.0, "2d 3h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(duration(Seconds(seconds)), text, "{seconds}");
        }
        assert_eq!(duration_in_words(Seconds(3600.0)), "1 hour");
        assert_eq!(duration_in_words(Seconds(7230.0)), "2 hours");
        assert_eq!(duration_in_words(Seconds(3900.0)), "1h 5m");
        assert_eq!(duration_in_words(Seconds(1800.0)), "30m");
        assert_eq!(elapsed(Seconds(900.0)), "15min");
        assert_eq!(elapsed(Seconds(3900.0)), "1h 5min");
        assert_eq!(elapsed(Seconds(3.5)), "3.5s");
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!(listed_at_most(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(counted(10_000, "task"), "10,000 tasks");
        assert_eq!(counted(1, "task"), "1 task");
    }

    #[test]
    fn every_word_fits_the_status_column() {
        assert!(Word::ALL.iter().all(|word| word.shown().len() <= "IN_PROGRESS".len()));
    }
}
