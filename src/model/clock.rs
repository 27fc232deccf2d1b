//! Two kinds of time. `Tick` is the watcher's own active time and the only one that decides;
//! `WallTime` is for people and is never compared.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds in which a watcher of this bus was awake and looking. Time in which it was stopped,
/// suspended or down is not in it, so it counts for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tick(pub u64);

impl Tick {
    pub fn after(self, span: Seconds) -> Tick {
        Tick(self.0.saturating_add(span.millis()))
    }

    /// Milliseconds since `earlier`; zero if that lies ahead.
    pub fn since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A span as settings and specs give it. At least a millisecond where it limits something.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl Seconds {
    pub fn millis(self) -> u64 {
        (self.0 * 1000.0).round().max(0.0) as u64
    }

    pub fn from_millis(millis: u64) -> Seconds {
        Seconds(millis as f64 / 1000.0)
    }
}

impl fmt::Display for Seconds {
    /// `60s`, `0.2s`: the seed's spelling, without a needless fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

/// More time between two turns than was planned plus this much was spent asleep.
const LATENESS_ALLOWED_MS: u64 = 100;

/// Counts active time: it runs while its owner is awake and looking, and stands still otherwise. An owner that
/// was stopped, or a machine that slept, therefore costs nobody any of their limits.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveClock {
    active_ms: u64,
    monotonic_ms: u64,
}

impl ActiveClock {
    pub fn resume(active: Tick, monotonic_ms: u64) -> Self {
        ActiveClock { active_ms: active.0, monotonic_ms }
    }

    pub fn now(&self) -> Tick {
        Tick(self.active_ms)
    }

    /// Moves on after a wait that was planned to last `planned_ms` at most. Returns the time that is not
    /// counted.
    pub fn advance(&mut self, monotonic_ms: u64, planned_ms: u64) -> u64 {
        let passed = monotonic_ms.saturating_sub(self.monotonic_ms);
        let counted = passed.min(planned_ms + (planned_ms / 2).max(LATENESS_ALLOWED_MS));
        self.active_ms += counted;
        self.monotonic_ms = monotonic_ms;
        passed - counted
    }

    /// Active time never goes back: the journals may know of a later moment than the clock's own file,
    /// which is not synced.
    pub fn catch_up(&mut self, latest: Tick) {
        self.active_ms = self.active_ms.max(latest.0);
    }

    /// Lets time pass for nobody: the watcher could not work.
    pub fn skip_to(&mut self, monotonic_ms: u64) {
        self.monotonic_ms = monotonic_ms;
    }
}

/// Milliseconds since 1970, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct WallTime(pub i64);

impl WallTime {
    /// RFC 3339 in UTC, to the millisecond.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => format!("{time:.3}"),
            Err(_) => "0000-00-00T00:00:00.000Z".to_owned(),
        }
    }

    /// RFC 3339 in UTC, to the second: as the dialects of a handoff write times.
    pub fn rfc3339_seconds(self) -> String {
        let whole = WallTime(self.0.div_euclid(1000) * 1000).rfc3339();
        whole.replace(".000Z", "Z")
    }

    /// For file names: `20251030-143005-123`, in UTC.
    pub fn stamp(self) -> String {
        let kept: String = self.rfc3339().chars().filter(char::is_ascii_digit).collect();
        // Eight digits of the date, six of the time, three of the fraction.
        let (day, rest) = kept.split_at_checked(8).unwrap_or((&kept, ""));
        let (time, millis) = rest.split_at_checked(6).unwrap_or((rest, ""));
        format!("{day}-{time}-{millis}")
    }

    pub fn parse(text: &str) -> Option<WallTime> {
        let time: jiff::Timestamp = text.parse().ok()?;
        Some(WallTime(time.as_millisecond()))
    }

    pub fn seconds_since(self, earlier: WallTime) -> f64 {
        (self.0 - earlier.0).max(0) as f64 / 1000.0
    }
}

impl Serialize for WallTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.rfc3339())
    }
}

impl<'de> Deserialize<'de> for WallTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        WallTime::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time in RFC 3339"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_time_survives_its_spelling() {
        let time = WallTime(1_762_785_000_123);
        assert_eq!(time.rfc3339(), "2025-11-10T14:30:00.123Z");
        assert_eq!(WallTime::parse(&time.rfc3339()), Some(time));
    }

    #[test]
    fn a_wall_time_has_a_short_spelling_and_one_for_file_names() {
        let time = WallTime(1_762_785_000_999);
        assert_eq!(time.rfc3339_seconds(), "2025-11-10T14:30:00Z");
        assert_eq!(time.stamp(), "20251110-143000-999");
        assert_eq!(WallTime(-1).rfc3339_seconds(), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn spans_keep_the_seeds_spelling() {
        assert_eq!(Seconds(60.0).to_string(), "60s");
        assert_eq!(Seconds(0.2).to_string(), "0.2s");
    }

    #[test]
    fn time_in_which_the_watcher_was_stopped_counts_for_nobody() {
        let mut clock = ActiveClock::resume(Tick(5_000), 1_000);
        assert_eq!(clock.advance(2_000, 1_000), 0);
        assert_eq!(clock.now(), Tick(6_000));
        let lost = clock.advance(3_602_000, 1_000);
        assert_eq!(clock.now(), Tick(7_500));
        assert_eq!(lost, 3_600_000 - 1_500);
        clock.skip_to(3_700_000);
        assert_eq!(clock.advance(3_700_010, 1_000), 0);
        assert_eq!(clock.now(), Tick(7_510));
    }
}
