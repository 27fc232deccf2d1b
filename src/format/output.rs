//! The shapes of the files that only the watcher writes, for `wk schema` and for tests of what we write.
//!
//! Nothing is read by them at run time: what we wrote ourselves needs no second opinion.

use super::shape::{Kind, Shape, Unknown, nullable, optional, required};

pub(super) const COUNT: Kind = Kind::Count { least: 0 };
const BATCH_ID: Kind = Kind::Either(&[COUNT, Kind::Id]);
pub(super) const GRADES: Kind = Kind::OneOf(&["claimed", "observed", "verified"]);
const BATCH_STATUSES: &[&str] = &["success", "partial_success", "failure", "timeout", "cancelled"];
const TASK_STATUSES: &[&str] =
    &["success", "failed", "blocked", "cancelled", "queued", "in_progress", "awaiting"];
pub(super) const ATTEMPT: Kind = Kind::Count { least: 1 };
pub(super) const SECONDS: Kind = Kind::Number { least: 0.0 };

pub(super) const fn open(
    name: &'static str,
    title: &'static str,
    fields: &'static [super::shape::Field],
) -> Shape {
    Shape { name, title, fields, unknown: Unknown::KeepSilently }
}

const CONFLICT: Shape = open(
    "conflict",
    "A file that several tasks changed",
    &[
        required("file", Kind::Text, "its path"),
        required("tasks", Kind::Texts, "who changed it, by task_id"),
        required("ordered", Kind::Boolean, "they depend on one another, so one saw the other's work"),
    ],
);

const LATE: Shape = open(
    "late",
    "A result that came after its verdict",
    &[
        required("task_id", Kind::Text, "whose it is"),
        nullable("attempt", ATTEMPT, "which attempt it speaks for, where it says so"),
        required("reason", Kind::Text, "why it was not used"),
    ],
);

const ATTEMPT_STORY: Shape = open(
    "attempt",
    "One try at a task",
    &[
        required("attempt", ATTEMPT, "its number"),
        required("offered_at", Kind::Time, "when its spec was published"),
        nullable("started_at", Kind::Time, "first sign of life"),
        nullable("ended_at", Kind::Time, "when it was settled"),
        required("outcome", Kind::Text, "how it ended"),
        nullable("reason", Kind::Text, "why it did not succeed"),
        nullable("reason_code", Kind::Text, "the same, for programs"),
        optional("agent", Kind::Text, "who was started for it; absent for outsiders"),
        optional("launcher", Kind::Text, "how"),
        optional("exit", Kind::Object(&EXIT), "how that agent ended, and what its whole tree used"),
    ],
);

const EXIT: Shape = open(
    "exit",
    "How an agent that was started ended, as its runner measured it",
    &[
        nullable("exit_code", Kind::Integer { least: 0, most: 255 }, "null where a signal ended it"),
        nullable("signal", Kind::Integer { least: 1, most: 255 }, "null where it ended by itself"),
        optional("stopped", Kind::Map, "why the runner ended it, if it did"),
        required("wall_seconds", SECONDS, "from its start to the end of its last process"),
        required("cpu_seconds", SECONDS, "user and system time of the whole tree"),
        required("peak_memory_mb", SECONDS, "the largest process, or the whole tree where it was sampled"),
        optional("cost_usd", SECONDS, "as its output tells"),
        required("redacted", COUNT, "secrets that were removed from its logs"),
    ],
);

const ABOUTS: &[&str] = &["claim", "declared", "commit", "output", "artifact", "criterion"];

const CHANGES: &[&str] = &[
    "created",
    "modified",
    "deleted",
    "rewritten",
    "emptied",
    "linked",
    "shared",
    "unknown",
    "untouched",
    "absent",
];

const REPORTED: Shape = open(
    "reported",
    "What the agent says that it made",
    &[
        required("files_created", Kind::Texts, "as its result lists them"),
        required("files_modified", Kind::Texts, "as its result lists them"),
        required("files_deleted", Kind::Texts, "as its result lists them"),
        required("commits", Kind::List, "as its result lists them"),
    ],
);

const FINDING: Shape = open(
    "finding",
    "One thing that was looked at",
    &[
        required("subject", Kind::Text, "a file, a gate, the name of an output or of a criterion"),
        optional("about", Kind::OneOf(ABOUTS), "claim where absent"),
        required("grade", GRADES, "how it was looked at"),
        required("met", Kind::Boolean, "whether it holds"),
        optional("change", Kind::OneOf(CHANGES), "of a file: what became of it since the first attempt"),
        optional("inherited", Kind::Boolean, "an earlier attempt of the task did it"),
        optional("value", Kind::Any, "what a criterion was measured at"),
        required("saw", Kind::Text, "what was seen"),
    ],
);

const DRIFT: Shape = open(
    "drift",
    "Where deeds and words differ",
    &[
        optional("touched_unclaimed", Kind::Texts, "changed, but not in the result"),
        optional("declared_untouched", Kind::Texts, "declared, but not changed"),
        optional("touched_undeclared", Kind::Texts, "changed, though nothing that is declared covers it"),
    ],
);

const TASK_RESULT: Shape = open(
    "task-result",
    "How one task ended",
    &[
        required("task_id", Kind::Text, "its name"),
        required("key", Kind::Id, "the X of its files' names"),
        required("phase_name", Kind::Text, "how people call it"),
        required("type", Kind::OneOf(super::spec::TYPES), "what kind of agent it was for"),
        required("stage", ATTEMPT, "longest-path level, from 1"),
        required("status", Kind::OneOf(TASK_STATUSES), "how it ended"),
        nullable("evidence", GRADES, "what stands behind it"),
        required("attempts", Kind::Objects(&ATTEMPT_STORY), "every try"),
        nullable("reason", Kind::Text, "why it did not succeed"),
        nullable("reason_code", Kind::Text, "the same, for programs"),
        nullable("caused_by", Kind::Text, "the task_id whose failure blocked it"),
        optional("flaky", Kind::Boolean, "it succeeded, but not at once"),
        optional("unfenced", Kind::Boolean, "its result does not say which attempt it speaks for"),
        required("files_created", Kind::Texts, "as they were seen"),
        required("files_modified", Kind::Texts, "as they were seen"),
        optional("files_deleted", Kind::Texts, "as they were seen"),
        optional("more_files", COUNT, "files made or changed beyond those that are listed"),
        required("commits", Kind::List, "that were found in the repository"),
        nullable("reported", Kind::Object(&REPORTED), "the agent's own list"),
        nullable("standing", Kind::Text, "files and criteria apart, in words"),
        optional("no_change_needed", Kind::Text, "why the agent says that nothing had to be changed"),
        required("prps_generated", Kind::List, "as the agent says"),
        required("errors", Kind::Texts, "as the agent says"),
        nullable("tokens_used", COUNT, "null where nobody counted"),
        nullable("elapsed_seconds", SECONDS, "measured, from the first sign of life to the end"),
        nullable("started_at", Kind::Time, "first sign of life of the first attempt"),
        nullable("finished_at", Kind::Time, "when it was settled"),
        optional("validation_gates", Kind::List, "what had to hold"),
        optional("findings", Kind::Objects(&FINDING), "what was looked at"),
        nullable("drift", Kind::Object(&DRIFT), "where deeds and words differ"),
    ],
);

pub const BATCH_RESULT: Shape = open(
    "batch-result",
    "Batch result: batches/batch-N.result.json",
    &[
        required("batch_id", BATCH_ID, "a number where it is one"),
        required("status", Kind::OneOf(BATCH_STATUSES), "how the batch ended"),
        nullable("evidence", GRADES, "that of the weakest task that succeeded"),
        nullable("standing", Kind::Text, "files and criteria of the tasks that succeeded apart, in words"),
        required("stage", COUNT, "how many stages were completed"),
        required("stages_completed", COUNT, "stages whose tasks all succeeded"),
        required("stages_total", COUNT, "stages in all"),
        required("completed_tasks", Kind::Texts, "task_ids"),
        required("failed_tasks", Kind::Texts, "task_ids, those that timed out too"),
        required("skipped_tasks", Kind::Texts, "task_ids that a failure blocked"),
        required("cancelled_tasks", Kind::Texts, "task_ids"),
        required("total_files_created", COUNT, "different files"),
        required("total_files_modified", COUNT, "different files"),
        required("total_tokens_used", COUNT, "of all that were counted"),
        required("total_elapsed_seconds", SECONDS, "measured, from acceptance to the end"),
        nullable("cost_usd", SECONDS, "of all tokens counted, where settings name a price"),
        required("files_created", Kind::Texts, "of all tasks"),
        required("files_modified", Kind::Texts, "of all tasks"),
        optional("files_deleted", Kind::Texts, "of all tasks"),
        optional("more_files", COUNT, "files made or changed beyond those that are listed"),
        required("commits", Kind::List, "of all tasks"),
        required("prps_generated", Kind::List, "of all tasks"),
        required("conflicts", Kind::Objects(&CONFLICT), "files that several tasks changed"),
        required("late", Kind::Objects(&LATE), "results that came after their verdict"),
        required("warnings", Kind::Texts, "what was let pass"),
        nullable("started_at", Kind::Time, "when the batch was accepted"),
        nullable("finished_at", Kind::Time, "when it ended"),
        required("results", Kind::Objects(&TASK_RESULT), "task by task"),
    ],
);

const DEFECT: Shape = open(
    "defect",
    "One broken rule",
    &[
        required("rule", Kind::Text, "stable name, for programs"),
        required("place", Kind::Any, "file, line, line and column, or field"),
        required("message", Kind::Text, "what is wrong"),
        required("remedy", Kind::Text, "what to do about it"),
    ],
);

pub const REASON: Shape = open(
    "reason",
    "Why a file was refused: quarantine/NAME.reason.json, task-X.result.error.json",
    &[
        required("file", Kind::Text, "where it lay"),
        nullable("refused_at", Kind::Time, "when"),
        required("defects", Kind::Objects(&DEFECT), "everything that is wrong with it"),
    ],
);

pub const JOURNAL_ENTRY: Shape = open(
    "journal-entry",
    "One line of journal.jsonl, less its checksum",
    &[
        required("seq", COUNT, "place in the journal"),
        required("turn", COUNT, "the watcher's turn; its events become durable together"),
        required("epoch", COUNT, "which watcher wrote it"),
        required("at", Kind::Time, "for people"),
        required("clock", COUNT, "milliseconds in which a watcher was awake; the time that decides"),
        required("event", Kind::FilledText, "what was decided; the other fields depend on it"),
        optional(
            "task",
            Kind::Either(&[Kind::Id, Kind::Map]),
            "whom it is about; all of it where a task joins",
        ),
        optional("attempt", ATTEMPT, "which try it is about"),
        optional("because", Kind::Map, "the reason, as a value"),
    ],
);

const TASK_STATUS: Shape = open(
    "task-status",
    "Where a task stands",
    &[
        required("key", Kind::Id, "the X of its files' names"),
        required("task_id", Kind::Text, "its name"),
        optional("phase_name", Kind::Text, "how people call it"),
        required("status", Kind::FilledText, "where it stands"),
        optional("stage", ATTEMPT, "longest-path level, from 1"),
        nullable("attempt", COUNT, "the current or last try; 0 before the first"),
        nullable("reason", Kind::Text, "why it stands there"),
    ],
);

pub const STATUS: Shape = open(
    "status",
    "Live state: status.json",
    &[
        required("batch_id", BATCH_ID, "a number where it is one"),
        required("status", Kind::FilledText, "running, or how it ended"),
        nullable("updated_at", Kind::Time, "when it was written"),
        optional(
            "stage",
            Kind::OneOf(&["preparing", "running", "merging", "awaiting_resolution", "finished"]),
            "of a handed-over batch: how far it is beside its tasks",
        ),
        optional("stage_note", Kind::Text, "the same as a sentence"),
        optional("paused_by", Kind::Text, "who paused it; absent unless it is paused"),
        required("tasks", Kind::Objects(&TASK_STATUS), "in the plan's order"),
        optional("live", Kind::Map, "progress and ages, which the journal does not keep"),
    ],
);
