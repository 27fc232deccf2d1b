//! Every setting with its default. A key is spelled once, in the table; files and `--set` go through it.

use super::batch::{Backoff, OnFileConflict};
use super::clock::Seconds;
use super::evidence::Grade;
use super::task::RETRIES_MAX;

/// What a setting may hold, for messages and for `wk schema settings`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingKind {
    /// Seconds, at least the given number.
    Span {
        least: f64,
    },
    /// Seconds, or `"off"`.
    OptionalSpan {
        least: f64,
    },
    Count {
        least: u64,
        most: u64,
    },
    OptionalCount {
        least: u64,
        most: u64,
    },
    Number {
        least: f64,
    },
    OptionalNumber {
        least: f64,
    },
    Switch,
    Word(&'static [&'static str]),
}

/// A value that was given for a setting, before it is checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    Number(f64),
    Switch(bool),
    Text(String),
}

/// All settings, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub heartbeat_timeout: Seconds,
    pub heartbeat_interval: Seconds,
    pub start_timeout: Option<Seconds>,
    pub timeout: Seconds,
    pub stage_timeout: Option<Seconds>,
    pub batch_timeout: Option<Seconds>,
    pub kill_grace: Seconds,
    pub close_after: Seconds,
    pub stuck_after: Seconds,
    pub settle: Seconds,
    pub scan_interval: Seconds,
    pub idle_scan: Seconds,
    pub dashboard_interval: Seconds,
    pub parallel_limit: Option<u32>,
    pub max_running: u32,
    pub max_retries: u32,
    pub backoff: Backoff,
    pub on_file_conflict: OnFileConflict,
    pub require: Grade,
    pub request_commands_always: bool,
    pub journal_sync: bool,
    pub events: bool,
    pub price_per_million_tokens: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            heartbeat_timeout: Seconds(60.0),
            heartbeat_interval: Seconds(30.0),
            start_timeout: None,
            timeout: Seconds(3600.0),
            stage_timeout: None,
            batch_timeout: None,
            kill_grace: Seconds(10.0),
            close_after: Seconds(10.0),
            stuck_after: Seconds(300.0),
            settle: Seconds(5.0),
            scan_interval: Seconds(1.0),
            idle_scan: Seconds(5.0),
            dashboard_interval: Seconds(30.0),
            parallel_limit: None,
            max_running: 64,
            max_retries: 2,
            backoff: Backoff { first: Seconds(1.0), factor: 2.0, longest: Seconds(100.0) },
            on_file_conflict: OnFileConflict::Serialise,
            require: Grade::Claimed,
            request_commands_always: false,
            journal_sync: true,
            events: true,
            price_per_million_tokens: None,
        }
    }
}

/// From the start of an attempt to its first beat, where nobody set anything.
pub const START_TIMEOUT_DEFAULT: Seconds = Seconds(60.0);
/// Shortest span that may be set: tests and demonstrations need not wait.
pub const SPAN_LEAST: f64 = 0.05;

/// A row of the settings table.
pub struct Setting {
    pub key: &'static str,
    pub kind: SettingKind,
    /// As the documentation shows it.
    pub default: &'static str,
    pub about: &'static str,
    put: fn(&mut Settings, Checked),
}

/// A value that fits its setting's kind.
enum Checked {
    Number(f64),
    Off,
    Switch(bool),
    Word(String),
}

impl Checked {
    fn span(self) -> Option<Seconds> {
        match self {
            Checked::Number(number) => Some(Seconds(number)),
            _ => None,
        }
    }
    fn number(self) -> Option<f64> {
        self.span().map(|span| span.0)
    }
    fn count(self) -> Option<u32> {
        self.number().map(|number| number as u32)
    }
    fn is_on(&self) -> bool {
        matches!(self, Checked::Switch(true))
    }
    fn word(self) -> String {
        match self {
            Checked::Word(word) => word,
            _ => String::new(),
        }
    }
}

const SPAN: SettingKind = SettingKind::Span { least: SPAN_LEAST };
const OPTIONAL_SPAN: SettingKind = SettingKind::OptionalSpan { least: SPAN_LEAST };

macro_rules! setting {
    ($key:literal, $kind:expr, $default:literal, $about:literal, $put:expr) => {
        Setting { key: $key, kind: $kind, default: $default, about: $about, put: $put }
    };
}

/// Every setting there is, in the order of the documentation.
pub const SETTINGS: &[Setting] = &[
    setting!(
        "heartbeat_timeout_seconds",
        SPAN,
        "60",
        "longest silence between two beats of a running attempt",
        |s, v| if let Some(span) = v.span() {
            s.heartbeat_timeout = span;
        }
    ),
    setting!("heartbeat_interval_seconds", SPAN, "30", "how often agents are told to beat", |s, v| {
        if let Some(span) = v.span() {
            s.heartbeat_interval = span;
        }
    }),
    setting!(
        "start_timeout_seconds",
        OPTIONAL_SPAN,
        "60",
        "from an attempt's start to its first beat; for outsiders it counts from their take, unless it is set",
        |s, v| s.start_timeout = v.span()
    ),
    setting!("timeout_seconds", SPAN, "3600", "longest attempt", |s, v| if let Some(span) = v.span() {
        s.timeout = span;
    }),
    setting!(
        "stage_timeout_seconds",
        OPTIONAL_SPAN,
        "the sum of (1 + max_retries) x timeout_seconds over the stage",
        "how long a stage's tasks may run in all; then they are ended without retry",
        |s, v| s.stage_timeout = v.span()
    ),
    setting!("batch_timeout_seconds", OPTIONAL_SPAN, "off", "how long a batch may take", |s, v| s
        .batch_timeout =
        v.span()),
    setting!(
        "kill_grace_seconds",
        SPAN,
        "10",
        "between the request to end and the kill",
        |s, v| if let Some(span) = v.span() {
            s.kill_grace = span;
        }
    ),
    setting!(
        "close_after_seconds",
        SPAN,
        "10",
        "an open batch closes when no spec has come for this long",
        |s, v| if let Some(span) = v.span() {
            s.close_after = span;
        }
    ),
    setting!(
        "stuck_after_seconds",
        SPAN,
        "300",
        "without progress for this long a task is shown as stuck",
        |s, v| if let Some(span) = v.span() {
            s.stuck_after = span;
        }
    ),
    setting!(
        "settle_seconds",
        SPAN,
        "5",
        "a file that does not parse may still be written for this long",
        |s, v| if let Some(span) = v.span() {
            s.settle = span;
        }
    ),
    setting!("scan_interval_seconds", SPAN, "1", "between two full scans while tasks run", |s, v| {
        if let Some(span) = v.span() {
            s.scan_interval = span;
        }
    }),
    setting!(
        "idle_scan_seconds",
        SPAN,
        "5",
        "between two full scans while nothing runs",
        |s, v| if let Some(span) = v.span() {
            s.idle_scan = span;
        }
    ),
    setting!(
        "dashboard_interval_seconds",
        SPAN,
        "30",
        "between two dashboards where the output is not a terminal",
        |s, v| if let Some(span) = v.span() {
            s.dashboard_interval = span;
        }
    ),
    setting!(
        "parallel_limit",
        SettingKind::OptionalCount { least: 1, most: 100_000 },
        "4 for agents that are started, none for outsiders",
        "how many attempts of a batch may run at once",
        |s, v| s.parallel_limit = v.count()
    ),
    setting!(
        "max_running",
        SettingKind::Count { least: 1, most: 100_000 },
        "64",
        "how many attempts may run on the whole bus at once",
        |s, v| if let Some(count) = v.count() {
            s.max_running = count;
        }
    ),
    setting!(
        "max_retries",
        SettingKind::Count { least: 0, most: RETRIES_MAX as u64 },
        "2",
        "tries after the first",
        |s, v| if let Some(count) = v.count() {
            s.max_retries = count;
        }
    ),
    setting!(
        "retry_delay_seconds",
        SettingKind::Span { least: 0.0 },
        "1",
        "before the first retry",
        |s, v| if let Some(span) = v.span() {
            s.backoff.first = span;
        }
    ),
    setting!(
        "retry_delay_factor",
        SettingKind::Number { least: 1.0 },
        "2",
        "how much longer before each further retry",
        |s, v| if let Some(number) = v.number() {
            s.backoff.factor = number;
        }
    ),
    setting!(
        "retry_delay_max_seconds",
        SettingKind::Span { least: 0.0 },
        "100",
        "longest delay before a retry",
        |s, v| if let Some(span) = v.span() {
            s.backoff.longest = span;
        }
    ),
    setting!(
        "on_file_conflict",
        SettingKind::Word(&["serialise", "warn", "refuse"]),
        "serialise",
        "what to do about tasks that declare the same file and could run at the same time",
        |s, v| if let Some(policy) = OnFileConflict::parse(&v.word()) {
            s.on_file_conflict = policy;
        }
    ),
    setting!(
        "require",
        SettingKind::Word(&["claimed", "observed", "verified"]),
        "claimed",
        "the least evidence with which a task may succeed",
        |s, v| if let Some(grade) = Grade::parse(&v.word()) {
            s.require = grade;
        }
    ),
    setting!(
        "request_commands",
        SettingKind::Word(&["caller", "always"]),
        "caller",
        "whose commands are honoured: only a caller's who runs wk, or always, from the inbox too",
        |s, v| s.request_commands_always = v.word() == "always"
    ),
    setting!(
        "journal_sync",
        SettingKind::Switch,
        "true",
        "sync the journal at each turn; off loses decisions with the power",
        |s, v| s.journal_sync = v.is_on()
    ),
    setting!(
        "events",
        SettingKind::Switch,
        "true",
        "wake up by file events; off means scans alone",
        |s, v| s.events = v.is_on()
    ),
    setting!(
        "price_per_million_tokens",
        SettingKind::OptionalNumber { least: 0.0 },
        "off",
        "US dollars, for the cost in summary and result",
        |s, v| s.price_per_million_tokens = v.number()
    ),
];

/// Why a value cannot be a setting's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingDefect {
    #[error("unknown setting '{key}'{}", nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default())]
    Unknown { key: String, nearest: Option<&'static str> },
    #[error("'{key}' {rule}")]
    Bad { key: String, rule: String },
}

impl Settings {
    /// Puts one value in its place, or says why not.
    pub fn put(&mut self, key: &str, given: Given) -> Result<(), SettingDefect> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            return Err(SettingDefect::Unknown { key: key.to_owned(), nearest: nearest_key(key) });
        };
        let checked =
            check(setting.kind, given).map_err(|rule| SettingDefect::Bad { key: key.to_owned(), rule })?;
        (setting.put)(self, checked);
        Ok(())
    }

    /// Puts `key=value` as `--set` gives it.
    pub fn put_text(&mut self, assignment: &str) -> Result<(), SettingDefect> {
        let Some((key, text)) = assignment.split_once('=') else {
            let rule = "must be given as key=value".to_owned();
            return Err(SettingDefect::Bad { key: assignment.to_owned(), rule });
        };
        let text = text.trim();
        let given = match (text.parse::<f64>(), text.parse::<bool>()) {
            (Ok(number), _) => Given::Number(number),
            (_, Ok(switch)) => Given::Switch(switch),
            _ => Given::Text(text.to_owned()),
        };
        self.put(key.trim(), given)
    }

    /// How long an agent may take to its first beat.
    pub fn start_timeout_or_default(&self) -> Seconds {
        self.start_timeout.unwrap_or(START_TIMEOUT_DEFAULT)
    }
}

fn nearest_key(key: &str) -> Option<&'static str> {
    nearest(key, SETTINGS.iter().map(|setting| setting.key))
}

/// The known name that a wrong one most likely meant.
pub fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LIKENESS_LEAST: f64 = 0.75;
    known
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_LEAST)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn check(kind: SettingKind, given: Given) -> Result<Checked, String> {
    let off = matches!(&given, Given::Text(text) if text == "off") || given == Given::Switch(false);
    let number = |least: f64, what: &str| match given {
        Given::Number(number) if number.is_finite() && number >= least => Ok(Checked::Number(number)),
        _ => Err(format!("must be {what}, at least {least}")),
    };
    let count = |least: u64, most: u64| match given {
        Given::Number(n) if n.fract() == 0.0 && n >= least as f64 && n <= most as f64 => {
            Ok(Checked::Number(n))
        }
        _ => Err(format!("must be a whole number from {least} to {most}")),
    };
    match kind {
        SettingKind::OptionalSpan { .. }
        | SettingKind::OptionalCount { .. }
        | SettingKind::OptionalNumber { .. }
            if off =>
        {
            Ok(Checked::Off)
        }
        SettingKind::Span { least } => number(least, "a number of seconds"),
        SettingKind::OptionalSpan { least } => number(least, "a number of seconds or \"off\""),
        SettingKind::Number { least } => number(least, "a number"),
        SettingKind::OptionalNumber { least } => number(least, "a number or \"off\""),
        SettingKind::Count { least, most } | SettingKind::OptionalCount { least, most } => count(least, most),
        SettingKind::Switch => match given {
            Given::Switch(on) => Ok(Checked::Switch(on)),
            _ => Err("must be true or false".to_owned()),
        },
        SettingKind::Word(words) => match given {
            Given::Text(text) if words.contains(&text.as_str()) => Ok(Checked::Word(text)),
            _ => Err(format!("must be one of {}", words.join(", "))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_put_in_its_place_or_refused_with_the_rule() {
        let mut settings = Settings::default();
        settings.put_text("heartbeat_timeout_seconds=0.2").unwrap();
        assert_eq!(settings.heartbeat_timeout, Seconds(0.2));
        settings.put_text("batch_timeout_seconds=90").unwrap();
        settings.put_text("batch_timeout_seconds=off").unwrap();
        assert_eq!(settings.batch_timeout, None);
        settings.put_text("require=observed").unwrap();
        assert_eq!(settings.require, Grade::Observed);

        let refused = |text: &str| Settings::default().put_text(text).unwrap_err().to_string();
        assert_eq!(
            refused("heartbeat_timout_seconds=3"),
            "unknown setting 'heartbeat_timout_seconds'; did you mean 'heartbeat_timeout_seconds'?"
        );
        assert_eq!(refused("max_retries=11"), "'max_retries' must be a whole number from 0 to 10");
        assert_eq!(
            refused("timeout_seconds=0"),
            "'timeout_seconds' must be a number of seconds, at least 0.05"
        );
        assert_eq!(refused("journal_sync=maybe"), "'journal_sync' must be true or false");
        assert!(refused("timeout_seconds").contains("key=value"));
    }
}
