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
    fn spans_keep_the_seeds_spelling() {
        assert_eq!(Seconds(60.0).to_string(), "60s");
        assert_eq!(Seconds(0.2).to_string(), "0.2s");
    }
}
