//! Every setting with its default. A key is spelled once, in the table; files and `--set` go through it.

use std::collections::BTreeMap;

use super::agent::Agents;
use super::batch::{Backoff, OnFileConflict};
use super::clock::Seconds;
use super::declared::DeclaredFiles;
use super::evidence::Grade;
use super::handoff::Check;

mod table;

pub use table::SETTINGS;

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
    /// A name of the user's own choice.
    Name,
    /// Numbers of users.
    Users,
}

/// Who may reach the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The user who owns it.
    Private,
    /// The group of its directory too.
    Group,
}

/// A value that was given for a setting, before it is checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    Number(f64),
    Switch(bool),
    Text(String),
    Numbers(Vec<f64>),
}

/// All settings, resolved.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
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
    /// Where nobody says it, the task's type does.
    pub declared_files: Option<DeclaredFiles>,
    pub request_commands_always: bool,
    pub journal_sync: bool,
    pub events: bool,
    pub shared: Sharing,
    /// Users whose files on the bus are messages, beside our own and root's.
    pub trusted_uids: Vec<u32>,
    pub price_per_million_tokens: Option<f64>,
    /// Terminal sessions stay after the report is written.
    pub keep_sessions: bool,
    /// The tmux server that sessions live in; the user's own where absent.
    pub tmux_socket: Option<String>,
    pub agents: Agents,
    /// How criteria are checked, by their names: the `[criteria]` table.
    pub criteria: BTreeMap<String, Check>,
    /// What is run in a merged tree before it is published: `verify` of the `[merge]` table.
    pub merge_verify: Option<Check>,
    /// What the caller of this one command says about verification, whatever the request says.
    pub verify: Option<bool>,
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
            declared_files: None,
            request_commands_always: false,
            journal_sync: true,
            events: true,
            shared: Sharing::Private,
            trusted_uids: Vec::new(),
            price_per_million_tokens: None,
            keep_sessions: false,
            tmux_socket: None,
            agents: Agents::default(),
            criteria: BTreeMap::new(),
            merge_verify: None,
            verify: None,
        }
    }
}

/// From the start of an attempt to its first beat, where nobody set anything.
pub const START_TIMEOUT_DEFAULT: Seconds = Seconds(60.0);
/// Every launcher there is, as settings name them.
pub const LAUNCHERS: &[&str] = &["process", "tmux", "external"];
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
    Users(Vec<u32>),
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
    fn users(self) -> Vec<u32> {
        match self {
            Checked::Users(users) => users,
            _ => Vec::new(),
        }
    }
    fn word(self) -> String {
        match self {
            Checked::Word(word) => word,
            _ => String::new(),
        }
    }
}

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

/// What may name an agent or a server.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with('-')
}

fn nearest_key(key: &str) -> Option<&'static str> {
    nearest(key, SETTINGS.iter().map(|setting| setting.key))
}

/// The known name that a wrong one most likely meant.
pub fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LIKENESS_LEAST: f64 = 0.75;
    let wrong = wrong.to_lowercase();
    known
        .map(|name| (strsim::jaro_winkler(&wrong, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_LEAST)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `[1000, 1001]` in a file, `1000,1001` after `--set`.
fn users_of(given: &Given) -> Option<Vec<u32>> {
    let number = |number: f64| {
        let is_user = number.fract() == 0.0 && (0.0..f64::from(u32::MAX)).contains(&number);
        is_user.then_some(number as u32)
    };
    match given {
        Given::Number(one) => Some(vec![number(*one)?]),
        Given::Numbers(many) => many.iter().map(|one| number(*one)).collect(),
        Given::Text(text) => text.split(',').map(|one| one.trim().parse().ok()).collect(),
        Given::Switch(_) => None,
    }
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
        SettingKind::Users => match users_of(&given) {
            Some(users) => Ok(Checked::Users(users)),
            None => Err("must be a list of the numbers of users, as `id -u` prints them".to_owned()),
        },
        SettingKind::Name => match given {
            Given::Text(text) if is_name(&text) => Ok(Checked::Word(text)),
            _ => Err("must be a name of letters, digits, '-' and '_'".to_owned()),
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
        settings.put_text("trusted_uids=1000, 1001").unwrap();
        assert_eq!(settings.trusted_uids, [1000, 1001]);
        assert!(refused("trusted_uids=alice").contains("`id -u`"));
        assert_eq!(refused("journal_sync=maybe"), "'journal_sync' must be true or false");
        assert!(refused("timeout_seconds").contains("key=value"));
    }
}
