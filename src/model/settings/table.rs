//! The table of settings: each key once, with its kind, default and meaning, and where its value goes.

use super::{LAUNCHERS, SPAN_LEAST, Setting, SettingKind, Sharing};
use crate::model::batch::OnFileConflict;
use crate::model::declared::DeclaredFiles;
use crate::model::evidence::Grade;
use crate::model::task::RETRIES_MAX;

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
        "the sum of (1 + max_retries) x (timeout_seconds + 30) over the stage",
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
        "declared_files",
        SettingKind::Word(&["must", "may"]),
        "must",
        "whether an attempt that changes nothing of what its task declares has failed; unset, may for reviewers",
        |s, v| s.declared_files = DeclaredFiles::parse(&v.word())
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
        "shared",
        SettingKind::Word(&["private", "group"]),
        "private",
        "who may reach the bus: its owner alone, or the group of its directory too",
        |s, v| s.shared = if v.word() == "group" { Sharing::Group } else { Sharing::Private }
    ),
    setting!(
        "trusted_uids",
        SettingKind::Users,
        "[]",
        "users whose files on the bus are accepted, by number, beside your own and root's",
        |s, v| s.trusted_uids = v.users()
    ),
    setting!(
        "price_per_million_tokens",
        SettingKind::OptionalNumber { least: 0.0 },
        "off",
        "US dollars, for the cost in summary and result",
        |s, v| s.price_per_million_tokens = v.number()
    ),
    setting!(
        "agent",
        SettingKind::Name,
        "none",
        "the agent for tasks that name none; else the one that serves the task's type",
        |s, v| s.agents.for_all = Some(v.word())
    ),
    setting!(
        "launcher",
        SettingKind::Word(LAUNCHERS),
        "process",
        "how agents are started that do not say: as processes, in tmux sessions, or by somebody else",
        |s, v| s.agents.launcher = Some(v.word())
    ),
    setting!(
        "keep_sessions",
        SettingKind::Switch,
        "false",
        "leave tmux sessions open after the batch has ended",
        |s, v| s.keep_sessions = v.is_on()
    ),
    setting!(
        "tmux_socket",
        SettingKind::Name,
        "your own tmux server",
        "the name of the tmux server for sessions, as in `tmux -L NAME`",
        |s, v| s.tmux_socket = Some(v.word())
    ),
];
