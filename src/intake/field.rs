//! The fields that a phase may have, each with the names that plans use for it.
//!
//! One table for both spellings of a plan: `**Estimated Hours**:` and `"estimated_hours":` are one field.

/// A field that intake understands. Everything else is extra: kept, and handed to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Goal,
    Complexity,
    EstimatedHours,
    FilesModified,
    Dependencies,
    Steps,
    ValidationGates,
    ConflictNotes,
    Type,
    Agent,
    Command,
    Shell,
    Timeout,
    MaxRetries,
    HeartbeatTimeout,
    StartTimeout,
    StuckAfter,
}

/// How the value of a field is read from Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One paragraph.
    Text,
    /// Names in one line, separated by commas, or one to a list item.
    Names,
    /// Sentences, one to a list item.
    Sentences,
}

/// Every spelling of a field's name. The first of a field is the one that messages use.
const SPELLINGS: &[(&str, Field)] = &[
    ("goal", Field::Goal),
    ("complexity", Field::Complexity),
    ("estimated_hours", Field::EstimatedHours),
    ("estimated_time", Field::EstimatedHours),
    ("files_modified", Field::FilesModified),
    ("dependencies", Field::Dependencies),
    ("depends_on", Field::Dependencies),
    ("steps", Field::Steps),
    ("implementation_steps", Field::Steps),
    ("validation_gates", Field::ValidationGates),
    ("conflict_notes", Field::ConflictNotes),
    ("type", Field::Type),
    ("agent", Field::Agent),
    ("command", Field::Command),
    ("shell", Field::Shell),
    ("timeout_seconds", Field::Timeout),
    ("timeout", Field::Timeout),
    ("max_retries", Field::MaxRetries),
    ("heartbeat_timeout_seconds", Field::HeartbeatTimeout),
    ("heartbeat_timeout", Field::HeartbeatTimeout),
    ("start_timeout_seconds", Field::StartTimeout),
    ("start_timeout", Field::StartTimeout),
    ("stuck_after_seconds", Field::StuckAfter),
    ("stuck_after", Field::StuckAfter),
];

/// Names in JSON that are not a field's: what a phase is called, and what stands beside the phases.
const OTHER_NAMES: &[&str] =
    &["phase_name", "name", "title", "task_id", "id", "key", "phase", "batch_id", "phases", "tasks"];

/// A known name in one byte, so that every item of a large plan can say where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spelling(u8);

impl Spelling {
    /// Of a name that is in one of the tables here.
    pub(super) fn of(name: &str) -> Spelling {
        let position = all_names().position(|known| known == name);
        debug_assert!(position.is_some(), "{name} is in no table");
        Spelling(position.unwrap_or(0) as u8)
    }

    pub(super) fn word(self) -> &'static str {
        all_names().nth(self.0.into()).unwrap_or("")
    }
}

fn all_names() -> impl Iterator<Item = &'static str> {
    let fields = SPELLINGS.iter().map(|(name, _)| *name);
    fields.chain(OTHER_NAMES.iter().copied()).chain(PLAN_SETTINGS.iter().copied())
}

impl Field {
    /// The field of this name in any spelling, with the spelling that places use.
    pub(super) fn named(name: &str) -> Option<(Field, Spelling)> {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = folded(name, &mut buffer)?;
        let position = SPELLINGS.iter().position(|(known, _)| *known == name)?;
        Some((SPELLINGS[position].1, Spelling(position as u8)))
    }

    /// As messages call it.
    pub(super) fn word(self) -> &'static str {
        SPELLINGS.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }

    pub(super) fn shape(self) -> Shape {
        match self {
            Field::FilesModified | Field::Dependencies | Field::Command => Shape::Names,
            Field::Steps | Field::ValidationGates => Shape::Sentences,
            _ => Shape::Text,
        }
    }

    /// A bit of its own, to remember which fields a phase has.
    pub(super) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The settings that a plan may give for its batch, by their name in the settings table.
pub(super) const PLAN_SETTINGS: &[&str] = &[
    "parallel_limit",
    "require",
    "on_file_conflict",
    "max_retries",
    "timeout_seconds",
    "stage_timeout_seconds",
    "batch_timeout_seconds",
    "heartbeat_timeout_seconds",
    "heartbeat_interval_seconds",
    "start_timeout_seconds",
    "stuck_after_seconds",
];

/// The setting of this name in any spelling; `Stage Timeout` needs no `seconds`.
pub(super) fn plan_setting(name: &str) -> Option<&'static str> {
    let mut buffer = [0; NAME_BYTES_MAX];
    let name = folded(name, &mut buffer)?;
    PLAN_SETTINGS.iter().copied().find(|key| *key == name || key.strip_suffix("_seconds") == Some(name))
}

/// Does this name the batch's id?
pub(super) fn is_batch_id(name: &str) -> bool {
    let mut buffer = [0; NAME_BYTES_MAX];
    matches!(folded(name, &mut buffer), Some("batch" | "batch_id"))
}

/// Longer than any name that is known.
const NAME_BYTES_MAX: usize = 40;

/// Lower case, with underscores for spaces and hyphens. A name too long or too strange to be known is none.
fn folded<'b>(name: &str, buffer: &'b mut [u8; NAME_BYTES_MAX]) -> Option<&'b str> {
    let name = name.trim();
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    for (slot, byte) in buffer.iter_mut().zip(name.bytes()) {
        *slot = match byte {
            b' ' | b'-' | b'_' => b'_',
            byte if byte.is_ascii_alphabetic() => byte.to_ascii_lowercase(),
            _ => return None,
        };
    }
    std::str::from_utf8(&buffer[..name.len()]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_known_in_every_spelling() {
        for name in ["Files Modified", "files_modified", "FILES-MODIFIED", " files modified "] {
            let (field, spelling) = Field::named(name).unwrap();
            assert_eq!((field, spelling.word()), (Field::FilesModified, "files_modified"), "{name}");
        }
        assert_eq!(Field::named("Owner"), None);
        assert_eq!(Field::named("Ziel für alle"), None);
        assert_eq!(Spelling::of("batch_id").word(), "batch_id");
        assert_eq!(Field::Timeout.word(), "timeout_seconds");
        assert_eq!(plan_setting("Stage Timeout"), Some("stage_timeout_seconds"));
        assert_eq!(plan_setting("journal_sync"), None, "not a plan's business");
    }
}
