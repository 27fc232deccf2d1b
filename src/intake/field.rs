//! The fields that a phase may have, each with the names that plans use for it.
//!
//! One table for both spellings of a plan: `**Estimated Hours**:` and `"estimated_hours":` are one field.

use crate::model::settings::nearest;

/// A field that intake understands. Everything else is extra: kept, and handed to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Goal,
    Complexity,
    EstimatedHours,
    FilesModified,
    FilesDeleted,
    DeclaredFiles,
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
    ("files_deleted", Field::FilesDeleted),
    ("declared_files", Field::DeclaredFiles),
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

/// What people also call a field. A phase that has the field by its own name keeps these as extra fields.
const SYNONYMS: &[(&str, Field)] = &[
    ("objective", Field::Goal),
    ("objectives", Field::Goal),
    ("goals", Field::Goal),
    ("purpose", Field::Goal),
    ("aim", Field::Goal),
    ("what", Field::Goal),
    ("description", Field::Goal),
    ("summary", Field::Goal),
    ("complexity_level", Field::Complexity),
    ("difficulty", Field::Complexity),
    ("size", Field::Complexity),
    ("effort", Field::EstimatedHours),
    ("estimate", Field::EstimatedHours),
    ("estimated_effort", Field::EstimatedHours),
    ("estimated_duration", Field::EstimatedHours),
    ("effort_estimate", Field::EstimatedHours),
    ("time_estimate", Field::EstimatedHours),
    ("duration", Field::EstimatedHours),
    ("time", Field::EstimatedHours),
    ("hours", Field::EstimatedHours),
    ("est_hours", Field::EstimatedHours),
    ("est_time", Field::EstimatedHours),
    ("eta", Field::EstimatedHours),
    ("depends", Field::Dependencies),
    ("depends_upon", Field::Dependencies),
    ("dependency", Field::Dependencies),
    ("dependent_on", Field::Dependencies),
    ("deps", Field::Dependencies),
    ("blocked_by", Field::Dependencies),
    ("prerequisite", Field::Dependencies),
    ("prerequisites", Field::Dependencies),
    ("requires", Field::Dependencies),
    ("needs", Field::Dependencies),
    ("after", Field::Dependencies),
    ("waits_for", Field::Dependencies),
    ("predecessors", Field::Dependencies),
    ("tasks", Field::Steps),
    ("subtasks", Field::Steps),
    ("todo", Field::Steps),
    ("actions", Field::Steps),
    ("action_items", Field::Steps),
    ("implementation", Field::Steps),
    ("implementation_plan", Field::Steps),
    ("approach", Field::Steps),
    ("work_items", Field::Steps),
    ("gates", Field::ValidationGates),
    ("validation", Field::ValidationGates),
    ("validation_criteria", Field::ValidationGates),
    ("validation_steps", Field::ValidationGates),
    ("verification", Field::ValidationGates),
    ("acceptance", Field::ValidationGates),
    ("acceptance_criteria", Field::ValidationGates),
    ("success_criteria", Field::ValidationGates),
    ("exit_criteria", Field::ValidationGates),
    ("completion_criteria", Field::ValidationGates),
    ("quality_gates", Field::ValidationGates),
    ("definition_of_done", Field::ValidationGates),
    ("done_when", Field::ValidationGates),
];

/// Words that stand beside `files` in a name for the files that a phase writes: `Files to Create/Modify`.
const FILE_WORDS: &[&str] = &[
    "to",
    "be",
    "or",
    "and",
    "create",
    "created",
    "modify",
    "modified",
    "change",
    "changed",
    "changes",
    "edit",
    "edited",
    "touch",
    "touched",
    "update",
    "updated",
    "add",
    "added",
    "affected",
    "new",
    "target",
    "output",
    "involved",
    "key",
    "impacted",
    "scope",
    "in",
    "list",
    "write",
    "written",
    "deliverable",
];

/// Titles of a sub-heading under which the phase's own fields stand.
const OWN_FIELDS: &[&str] = &[
    "details",
    "phase_details",
    "overview",
    "metadata",
    "info",
    "information",
    "properties",
    "fields",
    "at_a_glance",
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

    /// Of a field that goes by another name.
    pub(super) fn of_synonym(name: &str, field: Field) -> Spelling {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = folded(name, &mut buffer);
        let position = all_names().position(|known| Some(known) == name);
        position.map_or_else(|| Spelling::of(field.word()), |position| Spelling(position as u8))
    }

    pub(super) fn word(self) -> &'static str {
        all_names().nth(self.0.into()).unwrap_or("")
    }
}

fn all_names() -> impl Iterator<Item = &'static str> {
    let fields = SPELLINGS.iter().map(|(name, _)| *name);
    let synonyms = SYNONYMS.iter().map(|(name, _)| *name);
    fields.chain(OTHER_NAMES.iter().copied()).chain(PLAN_SETTINGS.iter().copied()).chain(synonyms)
}

/// A field, and whether the name that was used for it is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meant {
    pub(super) field: Field,
    pub(super) is_synonym: bool,
}

impl Field {
    /// The five that every phase has.
    pub(super) const REQUIRED: [Field; 5] =
        [Field::Goal, Field::Complexity, Field::EstimatedHours, Field::FilesModified, Field::Dependencies];

    /// The field that a name means, by its own name or by what people also call it.
    pub(super) fn meant(name: &str) -> Option<Meant> {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = folded(super::value::without_remark(name), &mut buffer)?;
        if let Some((_, field)) = SPELLINGS.iter().find(|(known, _)| *known == name) {
            return Some(Meant { field: *field, is_synonym: false });
        }
        let synonym = SYNONYMS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field);
        let field = synonym.or_else(|| names_files(name).then_some(Field::FilesModified))?;
        Some(Meant { field, is_synonym: true })
    }

    /// The field of this name in any spelling, with the spelling that places use.
    pub(super) fn named(name: &str) -> Option<(Field, Spelling)> {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = folded(name, &mut buffer)?;
        let position = SPELLINGS.iter().position(|(known, _)| *known == name)?;
        Some((SPELLINGS[position].1, Spelling(position as u8)))
    }

    /// Is this nearly the name of a field that every phase has?
    pub(super) fn is_nearly_one(name: &str) -> bool {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = folded(name, &mut buffer).filter(|name| name.len() > 3);
        name.is_some_and(|name| nearest(name, Field::REQUIRED.iter().map(|field| field.word())).is_some())
    }

    /// As messages call it.
    pub(super) fn word(self) -> &'static str {
        SPELLINGS.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }

    pub(super) fn shape(self) -> Shape {
        match self {
            Field::FilesModified | Field::FilesDeleted | Field::Dependencies | Field::Command => Shape::Names,
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
    "declared_files",
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

/// `files_to_create_or_modify`
fn names_files(name: &str) -> bool {
    let mut words = name.split('_').filter(|word| !word.is_empty());
    let is_files = |word: &str| matches!(word, "file" | "files");
    name.split('_').any(is_files) && words.all(|word| is_files(word) || FILE_WORDS.contains(&word))
}

/// Does a sub-heading of this title hold the phase's own fields?
pub(super) fn holds_own_fields(title: &str) -> bool {
    let mut buffer = [0; NAME_BYTES_MAX];
    folded(title, &mut buffer).is_some_and(|title| OWN_FIELDS.contains(&title))
}

/// Does a section of this title, before the first phase, hold settings of the batch?
pub(super) fn holds_settings(title: &str) -> bool {
    let mut buffer = [0; NAME_BYTES_MAX];
    folded(title, &mut buffer).is_some_and(|title| {
        let mut words = title.split('_');
        words.any(|word| matches!(word, "settings" | "configuration" | "config" | "metadata" | "limits"))
    })
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
            b' ' | b'-' | b'_' | b'/' | b'&' => b'_',
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
