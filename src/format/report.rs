//! The shapes of what a client gets back for a handed-over batch, for `wk schema` and for tests of what we write.
//!
//! In each shape the client's own fields come first; what we add stands behind them and says so.

use super::output::{ATTEMPT, COUNT, GRADES, SECONDS, open};
use super::shape::{Kind, Shape, nullable, optional, required};

/// Before the end a report may be asked for too; the file is written only at the end.
const REPORT_STATUSES: &[&str] =
    &["success", "partial_success", "failure", "timeout", "cancelled", "running"];
const AGENT_STATUSES: &[&str] = &["success", "failure", "timeout", "skipped", "running", "waiting"];
const MARKERS: &[&str] = &["success", "failed", "running", "waiting"];
const SEVERITIES: Kind = Kind::OneOf(&["low", "medium", "high"]);
const EXIT_CODE: Kind = Kind::Integer { least: 0, most: 255 };
const SIGNAL: Kind = Kind::Integer { least: 1, most: 255 };

const NOTICE: Shape = open(
    "notice",
    "An error or a warning",
    &[
        nullable("agent", Kind::Text, "whom it is about; null for the whole"),
        required("message", Kind::FilledText, "what happened"),
        required("severity", SEVERITIES, "how much it matters"),
        required("code", Kind::FilledText, "added: the same, for programs"),
        optional("remedy", Kind::Text, "added: what to do about it"),
    ],
);

const ERROR: Shape = open(
    "error",
    "Why an agent did not succeed",
    &[
        required("message", Kind::FilledText, "what happened"),
        required("code", Kind::FilledText, "the same, for programs"),
        nullable("remedy", Kind::Text, "what to do about it"),
    ],
);

const LOGS: Shape = open(
    "logs",
    "Where what an agent printed lies, of the last attempt",
    &[
        nullable("stdout", Kind::Text, "null where nothing was started here"),
        nullable("stderr", Kind::Text, "null where nothing was started here"),
    ],
);

const CONFLICT: Shape = open(
    "conflict",
    "One conflict that is not resolved, in few words",
    &[
        required("id", Kind::FilledText, "as the conflict report names it"),
        required("class", Kind::OneOf(&["file", "semantic", "dependency", "schema"]), "what kind it is"),
        required("path", Kind::Text, "where, among everything that is merged"),
        required("agents", Kind::Texts, "between whom"),
        required("message", Kind::Text, "what each wants"),
        optional("choices", Kind::Texts, "what `wk resolve` may be told"),
    ],
);

const AGENT: Shape = open(
    "agent",
    "How one agent ended",
    &[
        required("agent_name", Kind::FilledText, "as the request calls it"),
        required("status", Kind::OneOf(AGENT_STATUSES), "running and waiting only before the end"),
        nullable("tmux_session", Kind::Text, "null where none ran"),
        nullable("start_time", Kind::Time, "first sign of life; null where it never began"),
        nullable("end_time", Kind::Time, "null where it never began"),
        required("duration_seconds", SECONDS, "over all attempts; 0 where it never began"),
        nullable("exit_code", EXIT_CODE, "of the last attempt; null where a signal ended it, or nothing did"),
        required("outputs_produced", Kind::Map, "the declared outputs that were seen: path by name"),
        required(
            "success_criteria_met",
            Kind::Map,
            "the measured value, else whether it is met; null: not judged",
        ),
        required("logs", Kind::Object(&LOGS), "absolute paths"),
        required(
            "metrics",
            Kind::Map,
            "what the agent counted; measured by us: peak_memory_mb, cpu_seconds, wall_seconds, tokens_used, cost_usd",
        ),
        required("task", Kind::Id, "added: the task's key"),
        required("success_criteria_evidence", Kind::Map, "added: a grade by name; null: not judged"),
        nullable("evidence", GRADES, "added: what stands behind its success"),
        required("attempts", COUNT, "added: how many there were"),
        nullable("signal", SIGNAL, "added: what ended the last attempt, where no exit code does"),
        nullable("error", Kind::Object(&ERROR), "added: why it did not succeed"),
        required(
            "undeclared_changes",
            Kind::Texts,
            "added: changed, though nothing that it declares covers it",
        ),
        required("unclaimed_changes", Kind::Texts, "added: declared and changed, but not in its result"),
        required("missing_declared", Kind::Texts, "added: declared, but not there or not changed"),
    ],
);

const MERGE_RESULT: Shape = open(
    "merge-result",
    "What became of the outputs",
    &[
        required("status", Kind::OneOf(&["success", "failure", "skipped"]), "how the merge ended"),
        nullable("merged_ctxpack", Kind::Text, "the united context graph, absolute"),
        required("conflicts_detected", COUNT, "in all"),
        required("conflicts_resolved", COUNT, "by rule, or by a person"),
        nullable("validation_passed", Kind::Boolean, "null where none was asked for or reached"),
        required("merged_files", Kind::Texts, "the outermost paths of the merged tree, absolute"),
        nullable("reason", Kind::Text, "added: why it is no success"),
        required(
            "awaits_resolution",
            Kind::Boolean,
            "added: a person is to say what becomes of the conflicts",
        ),
        nullable("next_step", Kind::Text, "added: the command by which that is said"),
        required("conflicts", Kind::Objects(&CONFLICT), "added: those that are not resolved"),
        nullable("conflict_report", Kind::Text, "added: where all of them are told"),
        nullable("receipt", Kind::Text, "added: where every change is accounted for"),
        nullable("receipt_sha256", Kind::Text, "added: the hash of that file"),
    ],
);

pub const EXECUTION_REPORT: Shape = open(
    "execution-report",
    "Report on an execution request: execution_report.json",
    &[
        required("execution_id", Kind::Id, "as the request has it"),
        required(
            "status",
            Kind::OneOf(REPORT_STATUSES),
            "how it ended; running where it was asked for before",
        ),
        required("start_timestamp", Kind::Time, "when the request was accepted"),
        nullable("end_timestamp", Kind::Time, "null while it runs"),
        nullable("duration_seconds", SECONDS, "between the two; null while it runs"),
        required("agents", Kind::Objects(&AGENT), "in the request's order"),
        required("merge_result", Kind::Object(&MERGE_RESULT), "what became of the outputs"),
        required("errors", Kind::Objects(&NOTICE), "what kept it from being a success"),
        required("warnings", Kind::Objects(&NOTICE), "what should be known besides"),
        required("version", COUNT, "added: 1"),
        nullable("reason", Kind::Text, "added: why it is no success, for programs"),
        nullable("evidence", GRADES, "added: that of the weakest agent that succeeded"),
        nullable("workspace_root", Kind::Text, "added: as the request has it"),
        required("tokens_used", COUNT, "added: of all attempts that told"),
        nullable("cost_usd", SECONDS, "added: of all attempts, where known"),
        nullable("log_level", Kind::Text, "added: as the request has it"),
        nullable("request_timestamp", Kind::Text, "added: as the request has it"),
        optional(
            "undone_at",
            Kind::Text,
            "added: when the trees were put back as they were before the batch",
        ),
    ],
);

const SUMMARY: Shape = open(
    "summary",
    "How it ended, in four fields",
    &[
        required("completed", Kind::Boolean, "everything succeeded: tasks, validation and merge"),
        required("failed_tasks", Kind::Ids, "whatever did not succeed; the tasks tell why"),
        required(
            "validation",
            Kind::OneOf(&["passed", "failed", "skipped"]),
            "passed only where a machine looked",
        ),
        required("conflicts", Kind::Texts, "ids of those that are not resolved"),
    ],
);

const TASK: Shape = open(
    "task",
    "How one task ended",
    &[
        required("id", Kind::Id, "as the assignment has it"),
        required("agent", Kind::FilledText, "who was to do it"),
        required("status", Kind::OneOf(MARKERS), "the word of its marker; waiting where it has none yet"),
        required("logs", Kind::Object(&LOGS), "relative to the workspace"),
        required("artifacts", Kind::Texts, "relative to the workspace"),
        required("outcome", Kind::OneOf(AGENT_STATUSES), "added: tells a timeout from a failure"),
        nullable("error", Kind::Object(&ERROR), "added: why it did not succeed"),
        nullable("tmux_session", Kind::Text, "added: null where none ran"),
        nullable("start_time", Kind::Time, "added: null where it never began"),
        nullable("end_time", Kind::Time, "added: null where it never began"),
        required("duration_seconds", SECONDS, "added: over all attempts"),
        nullable("exit_code", EXIT_CODE, "added: of the last attempt"),
        nullable("signal", SIGNAL, "added: what ended the last attempt, where no exit code does"),
        required("attempts", COUNT, "added: how many there were"),
        nullable("evidence", GRADES, "added: what stands behind its success"),
        required("outputs_produced", Kind::Map, "added: the declared outputs that were seen"),
        required("success_criteria_met", Kind::Map, "added: the measured value, else whether it is met"),
        required("success_criteria_evidence", Kind::Map, "added: a grade by name"),
        required("metrics", Kind::Map, "added: what the agent counted, and what was measured"),
        required(
            "undeclared_changes",
            Kind::Texts,
            "added: changed, though nothing that it declares covers it",
        ),
        required("unclaimed_changes", Kind::Texts, "added: declared and changed, but not in its result"),
        required("missing_declared", Kind::Texts, "added: declared, but not there or not changed"),
    ],
);

const MERGE: Shape = open(
    "merge",
    "What became of the outputs",
    &[
        required(
            "strategy",
            Kind::OneOf(&["topological"]),
            "a task's outputs after those that it depends on",
        ),
        required("result", Kind::OneOf(&["success", "failed", "skipped"]), "how the merge ended"),
        required("conflicts", Kind::Objects(&CONFLICT), "those that are not resolved"),
        nullable("reason", Kind::Text, "added: why it is no success"),
        required("conflicts_detected", COUNT, "added: in all"),
        required("conflicts_resolved", COUNT, "added: by rule, or by a person"),
        required(
            "awaits_resolution",
            Kind::Boolean,
            "added: a person is to say what becomes of the conflicts",
        ),
        nullable("next_step", Kind::Text, "added: the command by which that is said"),
        required("merged_files", Kind::Texts, "added: the outermost paths of the merged tree"),
        nullable("receipt_sha256", Kind::Text, "added: the hash of the file that accounts for every change"),
    ],
);

const CHECK: Shape = open(
    "check",
    "What was found by one check of the whole",
    &[
        required("name", Kind::FilledText, "its name"),
        required("met", Kind::Boolean, "whether it holds"),
        nullable("value", Kind::Any, "what was measured"),
        required("grade", GRADES, "how it is known"),
        required("saw", Kind::Text, "what was seen"),
    ],
);

pub const ASSIGNMENTS_REPORT: Shape = open(
    "assignments-report",
    "Report on assignments: execution_report.json",
    &[
        required("summary", Kind::Object(&SUMMARY), "how it ended"),
        required("tasks", Kind::Objects(&TASK), "in the order of the assignments"),
        required("merge", Kind::Object(&MERGE), "what became of the outputs"),
        required("version", COUNT, "added: 1"),
        required("execution_id", Kind::Id, "added: the batch"),
        required(
            "status",
            Kind::OneOf(REPORT_STATUSES),
            "added: running where it was asked for before the end",
        ),
        nullable("reason", Kind::Text, "added: why it is no success, for programs"),
        nullable("evidence", GRADES, "added: that of the weakest task that succeeded"),
        nullable("workspace_dir", Kind::Text, "added: as the assignments have it"),
        required("start_timestamp", Kind::Time, "added: when they were accepted"),
        nullable("end_timestamp", Kind::Time, "added: null while they run"),
        nullable("duration_seconds", SECONDS, "added: between the two"),
        required("validation", Kind::Objects(&CHECK), "added: what the checks of the whole found"),
        required("errors", Kind::Objects(&NOTICE), "added: what kept it from being a success"),
        required("warnings", Kind::Objects(&NOTICE), "added: what should be known besides"),
        required("tokens_used", COUNT, "added: of all attempts that told"),
        nullable("cost_usd", SECONDS, "added: of all attempts, where known"),
        optional(
            "undone_at",
            Kind::Text,
            "added: when the trees were put back as they were before the batch",
        ),
    ],
);

const AGENT_NOW: Shape = open(
    "agent-now",
    "How one agent stands",
    &[
        required("agent_name", Kind::FilledText, "as the request calls it"),
        required("task", Kind::Id, "the task's key"),
        required("status", Kind::OneOf(AGENT_STATUSES), "one at a time; between two attempts it is running"),
        required("attempt", COUNT, "the one that is out, or the last; 0 before the first"),
        nullable("progress", Kind::Text, "the agent's own words, while it runs"),
        nullable("start_time", Kind::Time, "first sign of life"),
        nullable("end_time", Kind::Time, "null until it has ended"),
        nullable("note", Kind::Text, "why it waits, why it failed, what its success stands on"),
        nullable("tmux_session", Kind::Text, "where it can be watched, or could; null where none ran"),
    ],
);

const MERGE_NOW: Shape = open(
    "merge-now",
    "How the merge stands",
    &[
        required(
            "status",
            Kind::OneOf(&["merging", "success", "awaits_resolution", "failure", "skipped"]),
            "merging, or how the last round ended",
        ),
        required("round", ATTEMPT, "a person's word makes another"),
        required("conflicts_detected", COUNT, "in all"),
        required("conflicts_resolved", COUNT, "by rule, or by a person"),
        required("conflicts_open", COUNT, "those that wait"),
        nullable("next_step", Kind::Text, "the command by which a person says what becomes of them"),
    ],
);

pub const WORKSPACE_STATUS: Shape = open(
    "workspace-status",
    "Live state of a handed-over batch: status.json in its workspace",
    &[
        required("execution_id", Kind::Id, "as the request has it"),
        required("status", Kind::OneOf(REPORT_STATUSES), "running, or as the report says it"),
        required("updated_at", Kind::Time, "when it was written"),
        required(
            "stage",
            Kind::OneOf(&["preparing", "running", "merging", "awaiting_resolution", "finished"]),
            "how far it is",
        ),
        required("agents", Kind::Objects(&AGENT_NOW), "in the request's order"),
        nullable("merge", Kind::Object(&MERGE_NOW), "null before the first round"),
        nullable("note", Kind::Text, "the stage as a sentence, where there is something to say"),
        required("version", COUNT, "1"),
    ],
);
