//! The names of things. An id that exists is valid: file names are built from it without a second look.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest id in bytes: `task-` + id + `.result.error.json` stays far below the 255 bytes of a file name.
pub const ID_BYTES_MAX: usize = 64;

/// Why a text is not an id. The words are what the user reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdDefect {
    #[error("is empty")]
    Empty,
    #[error("is longer than {ID_BYTES_MAX} bytes")]
    TooLong,
    #[error("must start with a letter or digit")]
    BadStart,
    #[error("contains {0:?}; only letters, digits, '.', '_' and '-' are allowed")]
    BadCharacter(char),
    #[error("contains '..'")]
    DotDot,
    #[error("ends with a dot")]
    TrailingDot,
    #[error("ends with '{0}', which names another kind of file on the bus")]
    ReservedEnding(&'static str),
    #[error("is a reserved device name on some systems")]
    DeviceName,
}

/// Endings that would make one task's spec look like another task's result or heartbeat.
const RESERVED_ENDINGS: &[&str] = &[".result", ".result.error", ".hb", ".take", ".json"];
const DEVICE_NAMES: &[&str] = &["con", "prn", "aux", "nul"];

fn check(text: &str) -> Result<(), IdDefect> {
    if text.is_empty() {
        return Err(IdDefect::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdDefect::TooLong);
    }
    if !text.as_bytes()[0].is_ascii_alphanumeric() {
        let first = text.chars().next().unwrap_or(' ');
        return Err(match first {
            '.' | '_' | '-' => IdDefect::BadStart,
            other => IdDefect::BadCharacter(other),
        });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
        return Err(IdDefect::BadCharacter(bad));
    }
    if text.contains("..") {
        return Err(IdDefect::DotDot);
    }
    if text.ends_with('.') {
        return Err(IdDefect::TrailingDot);
    }
    let ends_with = |ending: &str| {
        let cut = text.len().checked_sub(ending.len());
        cut.is_some_and(|cut| text.as_bytes()[cut..].eq_ignore_ascii_case(ending.as_bytes()))
    };
    if let Some(ending) = RESERVED_ENDINGS.iter().find(|ending| ends_with(ending)) {
        return Err(IdDefect::ReservedEnding(ending));
    }
    let stem = text.split('.').next().unwrap_or(text);
    if DEVICE_NAMES.iter().any(|name| stem.eq_ignore_ascii_case(name)) {
        return Err(IdDefect::DeviceName);
    }
    Ok(())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The only way in: an id that exists has passed the rule.
            pub fn parse(text: &str) -> Result<Self, IdDefect> {
                check(text).map(|()| Self(Arc::from(text)))
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
            /// Two ids that differ only in case would share a file on some file systems.
            pub fn folded(&self) -> String {
                self.0.to_ascii_lowercase()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(|defect| serde::de::Error::custom(format!("id {text:?} {defect}")))
            }
        }
    };
}

text_id! {
    /// A batch: `43`, `exec-001`, `loose-fix-docs`.
    BatchId
}
text_id! {
    /// A task within its batch, as file names spell it: the `2a` of `task-2a.json`.
    TaskKey
}

impl BatchId {
    /// The number of a numbered batch, so that JSON can say `43` where the seed does. `043` is another id.
    pub fn number(&self) -> Option<u64> {
        let number = self.0.parse::<u64>().ok()?;
        (number.to_string() == *self.0).then_some(number)
    }

    /// As JSON shows it: a number where it is one.
    pub fn to_json(&self) -> serde_json::Value {
        match self.number() {
            Some(number) => number.into(),
            None => self.as_str().into(),
        }
    }

    pub fn from_number(number: u64) -> Self {
        Self(Arc::from(number.to_string()))
    }
}

/// One try at a task. The number fences off everything older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(u32);

impl Attempt {
    pub const FIRST: Attempt = Attempt(1);

    pub fn next(self) -> Attempt {
        Attempt(self.0 + 1)
    }

    /// An attempt number as somebody else wrote it; zero is none.
    pub fn from_wire(number: u64) -> Option<Attempt> {
        u32::try_from(number).ok().filter(|n| *n > 0).map(Attempt)
    }

    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Which watcher wrote a journal line; raised by each one that takes the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_safe_file_name_or_it_is_refused_with_the_rule() {
        for good in ["1", "2a", "phase-1", "exec-20251030-1430-abc123", "A.b_c-d", "consul"] {
            assert!(TaskKey::parse(good).is_ok(), "{good}");
        }
        let bad = [
            ("", IdDefect::Empty),
            ("-rf", IdDefect::BadStart),
            (".hidden", IdDefect::BadStart),
            ("a/b", IdDefect::BadCharacter('/')),
            ("a\0b", IdDefect::BadCharacter('\0')),
            ("a\nb", IdDefect::BadCharacter('\n')),
            ("а1", IdDefect::BadCharacter('а')),
            ("a\u{202e}b", IdDefect::BadCharacter('\u{202e}')),
            ("a..b", IdDefect::DotDot),
            ("a.", IdDefect::TrailingDot),
            ("1.result", IdDefect::ReservedEnding(".result")),
            ("1.HB", IdDefect::ReservedEnding(".hb")),
            ("nul", IdDefect::DeviceName),
        ];
        for (text, defect) in bad {
            assert_eq!(TaskKey::parse(text), Err(defect), "{text:?}");
        }
        assert_eq!(TaskKey::parse(&"x".repeat(65)), Err(IdDefect::TooLong));
        assert!(TaskKey::parse(&"x".repeat(64)).is_ok());
    }

    #[test]
    fn a_batch_number_is_a_number_only_in_its_own_spelling() {
        assert_eq!(BatchId::parse("43").unwrap().number(), Some(43));
        assert_eq!(BatchId::parse("043").unwrap().number(), None);
        assert_eq!(BatchId::parse("exec-1").unwrap().number(), None);
    }
}
