//! The shapes of what another orchestrator hands over: `execution_request.json` and `assignments.json`.
//!
//! Form alone, and strict: an unknown field is refused. What the fields mean together is `intake::handoff`'s
//! business. Fields that the seeds do not have are marked as additions.

use super::shape::{Field, Kind, Shape, Unknown, optional, required};
use crate::model::settings::SPAN_LEAST;
use crate::model::task::RETRIES_MAX;

const SPAN: Kind = Kind::Span { least: SPAN_LEAST };
const FLOOR: Kind = Kind::Number { least: 0.0 };
const PATHS: Kind = Kind::Each(&Kind::FilledText);
const LINE_OR_COMMAND: Kind = Kind::Either(&[Kind::FilledText, Kind::Command]);
const CRITERIA: Kind = Kind::Each(&Kind::Either(&[Kind::Boolean, FLOOR, Kind::Object(&CRITERION)]));

pub static EXECUTION_REQUEST: Shape = Shape {
    name: "execution-request",
    title: "Execution request: execution_request.json",
    fields: &[
        required("execution_id", Kind::Id, "unique name of this execution; becomes the batch's id"),
        optional("request_timestamp", Kind::ShownTime, "when it was written; shown, never used"),
        required("workspace_root", Kind::FilledText, "absolute; everything is written below it"),
        required("agents", Kind::Objects(&AGENT), "who does what"),
        optional("merge_strategy", Kind::Object(&MERGE), "how the outputs become one"),
        optional("execution_options", Kind::Object(&OPTIONS), "how it is executed"),
    ],
    unknown: Unknown::Refuse,
};

static AGENT: Shape = strict(
    "Agent",
    &[
        required("agent_name", Kind::Id, "unique in the request; the task's key"),
        required(
            "agent_path",
            Kind::FilledText,
            "absolute path of the directory that says how it is started",
        ),
        required("task", Kind::Object(&TASK), "what it does"),
        optional("dependencies", Kind::Texts, "names of the agents that must have succeeded before"),
        optional(
            "timeout",
            SPAN,
            "longest attempt, in seconds; timeout_seconds of the settings where absent",
        ),
    ],
);

static TASK: Shape = strict(
    "Task",
    &[
        required("description", Kind::FilledText, "what is to be achieved"),
        optional(
            "inputs",
            PATHS,
            "paths by name; each exists, or an agent that this one depends on makes it",
        ),
        optional("outputs", PATHS, "paths by name, inside the workspace; each must exist at the end"),
        optional("success_criteria", CRITERIA, CRITERIA_ABOUT),
    ],
);

const CRITERIA_ABOUT: &str =
    "by name: true or false, a number as a floor, or (an addition) an object that says how it is checked";

static CRITERION: Shape = strict(
    "Criterion with its own check",
    &[
        optional("cmd", LINE_OR_COMMAND, "program and arguments, or one line for `sh -c`"),
        optional("shell", Kind::FilledText, "one line for `sh -c`"),
        optional("value", Kind::FilledText, "regular expression that finds the value in what is printed"),
        optional("min", FLOOR, "the value is at least this"),
    ],
);

static MERGE: Shape = strict(
    "Merge strategy",
    &[
        optional("type", Kind::OneOf(MERGE_KINDS), "how outputs become one; ctxpack_union where absent"),
        optional(
            "conflict_resolution",
            Kind::OneOf(RESOLUTIONS),
            "what becomes of contradictions; manual_review where absent",
        ),
        optional("validation", Kind::Object(&VALIDATION), "what is checked before the merge is published"),
        optional(
            "priority",
            Kind::Texts,
            "addition: whose word counts where agents disagree, first to last; names of agents",
        ),
    ],
);

/// The words of `MergeKind` and `ConflictResolution`; a test keeps them so.
const MERGE_KINDS: &[&str] = &["ctxpack_union", "file_merge", "report_aggregation"];
const RESOLUTIONS: &[&str] = &["auto", "manual_review", "fail_on_conflict"];
const LOG_LEVELS: &[&str] = &["debug", "info", "warning", "error"];

static VALIDATION: Shape = strict(
    "Validation after the merge",
    &[
        optional("semantic_consistency", Kind::Boolean, "true where absent"),
        optional("schema_validation", Kind::Boolean, "true where absent"),
        optional(
            "command",
            LINE_OR_COMMAND,
            "addition: run in the merged tree before it is published; it must end with 0",
        ),
    ],
);

static OPTIONS: Shape = strict(
    "Execution options",
    &[
        optional(
            "parallel_limit",
            Kind::Integer { least: 1, most: 100_000 },
            "how many agents may run at once; parallel_limit of the settings where absent",
        ),
        optional("retry_on_failure", Kind::Boolean, "false: no agent gets another try; true where absent"),
        optional(
            "max_retries",
            Kind::Integer { least: 0, most: RETRIES_MAX as i64 },
            "tries after the first; max_retries of the settings (2) where absent",
        ),
        optional("checkpoint_enabled", Kind::Boolean, "a snapshot before the first agent; true where absent"),
        optional("log_level", Kind::OneOf(LOG_LEVELS), "kept for the report"),
        optional("overall_timeout", SPAN, "addition: how long the whole may take, in seconds"),
    ],
);

pub static ASSIGNMENTS: Shape = Shape {
    name: "assignments",
    title: "Assignments: assignments.json",
    fields: &[
        optional("execution_id", Kind::Id, "addition: the batch's id; a number where absent"),
        required("tasks", Kind::Objects(&ASSIGNED), "what is to be done, by whom"),
        required("environment", Kind::Object(&ENVIRONMENT), "where and with what it is done"),
        optional("success_criteria", Kind::Object(&SUCCESS), "checked once, after every task has succeeded"),
        optional("execution_mode", Kind::Object(&MODE), "dry_run and verify"),
        optional("dry_run", Kind::Boolean, DRY_RUN),
        optional("verify", Kind::Boolean, VERIFY),
    ],
    unknown: Unknown::Refuse,
};

const DRY_RUN: &str = "true: everything is checked and shown, nothing is started; false where absent";
const VERIFY: &str = "false: criteria stay the agents' word; true where absent";

static MODE: Shape = strict(
    "Execution mode",
    &[optional("dry_run", Kind::Boolean, DRY_RUN), optional("verify", Kind::Boolean, VERIFY)],
);

static ASSIGNED: Shape = strict(
    "Assigned task",
    &[
        required("id", Kind::Id, "unique in the file; the task's key"),
        required("agent", Kind::FilledText, "an agent of the settings, a preset, or an agent's directory"),
        required("context_path", Kind::FilledText, "what the agent is told: a file or a directory"),
        optional("dependencies", Kind::Texts, "ids of the tasks that must have succeeded before"),
        optional("timeout", SPAN, "addition: longest attempt, in seconds"),
        optional(
            "outputs",
            Kind::Either(&[PATHS, Kind::Items(&Kind::FilledText)]),
            "addition: what it must produce, inside the workspace, by name or as a list of paths",
        ),
        optional("success_criteria", Kind::Object(&SUCCESS), "addition: of this task alone"),
    ],
);

static ENVIRONMENT: Shape = strict(
    "Environment",
    &[
        required("workspace_dir", Kind::FilledText, "absolute; everything is written below it"),
        optional(
            "env_vars",
            Kind::Either(&[
                Kind::Each(&Kind::Either(&[Kind::Text, Kind::Boolean])),
                Kind::Items(&Kind::Either(&[Kind::FilledText, Kind::Object(&VARIABLE)])),
            ]),
            "variables: an object (true inherits), or a list of \"NAME=value\", \"NAME\" (inherited) or \
             {name, value}",
        ),
        optional("resource_limits", Kind::Object(&LIMITS), "what each agent's whole tree may use"),
    ],
);

static VARIABLE: Shape = strict(
    "Variable",
    &[
        required("name", Kind::FilledText, "letters, digits and '_'"),
        optional("value", Kind::Text, "inherited where absent"),
    ],
);

const LIMIT: Kind = Kind::Count { least: 1 };

static LIMITS: Shape = strict(
    "Resource limits",
    &[
        optional("memory_mb", LIMIT, "of the whole tree"),
        optional("cpu_seconds", LIMIT, "of the whole tree"),
        optional("processes", LIMIT, "of the whole tree"),
        optional("open_files", LIMIT, "of each process"),
        optional("file_size_mb", LIMIT, "of each process"),
        optional("log_mb", LIMIT, "of each log"),
    ],
);

static SUCCESS: Shape = strict(
    "Success criteria",
    &[
        optional(
            "required_artifacts",
            Kind::Texts,
            "patterns below the workspace; each must match something",
        ),
        optional("tests_cmd", LINE_OR_COMMAND, "a line for `sh -c`, or program and arguments; 0 is success"),
        optional("criteria", CRITERIA, "addition: further ones, as an execution request has them"),
    ],
);

const fn strict(title: &'static str, fields: &'static [Field]) -> Shape {
    Shape { name: "", title, fields, unknown: Unknown::Refuse }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::handoff::{ConflictResolution, MergeKind};

    #[test]
    fn the_words_of_a_merge_are_those_of_the_model() {
        assert_eq!(MERGE_KINDS, MergeKind::ALL.map(MergeKind::word));
        assert_eq!(RESOLUTIONS, ConflictResolution::ALL.map(ConflictResolution::word));
    }
}
