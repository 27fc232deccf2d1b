//! The shapes of what a merge leaves for people and programs: `conflicts.json` and `receipt.json`.

use super::output::{COUNT, open};
use super::shape::{Kind, Shape, nullable, optional, required};

const CLASSES: Kind = Kind::OneOf(&["file", "semantic", "dependency", "schema"]);
const STRATEGIES: Kind = Kind::OneOf(&["ctxpack_union", "file_merge", "report_aggregation"]);

const SUMMARY: Shape = open(
    "conflict_summary",
    "How many conflicts there are of each class",
    &[
        required("file", COUNT, "two versions of a file"),
        required("semantic", COUNT, "two statements about one node"),
        required("dependency", COUNT, "two versions of one dependency"),
        required("schema", COUNT, "what is not of its format"),
    ],
);

const CONFLICT: Shape = open(
    "conflict",
    "Changes that do not merge by themselves",
    &[
        required("id", Kind::FilledText, "stays the same as long as path, agents and versions do"),
        required("class", CLASSES, "what it is about"),
        required("kind", Kind::FilledText, "edit/edit, edit/delete, mode, attribute_conflict and their like"),
        required("severity", Kind::OneOf(&["medium", "high", "critical"]), "how much it matters"),
        required("must_resolve", Kind::Boolean, "whether nothing is merged before it is decided"),
        required("path", Kind::FilledText, "where in the merged tree"),
        required("agents", Kind::Texts, "between whom"),
        nullable("base", Kind::Text, "the SHA-256 of what stood there before"),
        nullable("ours", Kind::Text, "of what the agents that fit together made"),
        nullable("theirs", Kind::Text, "of the first version that does not fit"),
        required("versions", Kind::List, "every agent's version"),
        optional("graph", Kind::Map, "of graphs: node, attribute, and every author's value"),
        optional(
            "preview",
            Kind::Text,
            "of texts: both versions between conflict marks, cut where it is long",
        ),
        optional(
            "files",
            Kind::Map,
            "where each version lies, by the word that chooses it; `marked` has both between conflict marks",
        ),
        required("details", Kind::Texts, "what else is to be known"),
        required("choices", Kind::Texts, "what `wk resolve` may be told"),
    ],
);

pub const CONFLICTS: Shape = open(
    "conflicts",
    "Conflicts between outputs: conflicts.json",
    &[
        required("execution_id", Kind::FilledText, "the batch"),
        required("detection_timestamp", Kind::Time, "when they were found"),
        required("conflicts_detected", COUNT, "how many there are and were"),
        required("conflicts_resolved", COUNT, "how many of these are settled; the others are listed"),
        required("conflict_summary", Kind::Object(&SUMMARY), "how many of each class"),
        required("conflicts", Kind::Objects(&CONFLICT), "each of them"),
        required("recommended_actions", Kind::Texts, "what to do about each"),
    ],
);

const TOTALS: Shape = open(
    "totals",
    "What became of all changes",
    &[
        required("changes", COUNT, "how many there were"),
        required("kept", COUNT, "stand as the agent made them"),
        required("merged", COUNT, "stand together with others"),
        required("superseded", COUNT, "gave way to another version"),
        required("dropped", COUNT, "by a rule"),
        required("escalated", COUNT, "wait for a person"),
    ],
);

const LINE: Shape = open(
    "line",
    "One change of one agent",
    &[
        required("agent", Kind::FilledText, "whose it is"),
        required("path", Kind::FilledText, "where the agent made it"),
        required(
            "change",
            Kind::OneOf(&["added", "edited", "deleted", "mode", "renamed", "unchanged"]),
            "what it is",
        ),
        optional("renamed_from", Kind::Text, "its name before"),
        required("fate", Kind::Map, "`is`: kept, merged, superseded, dropped or escalated, and why"),
        required("place", Kind::FilledText, "where it stands in the merged tree"),
        nullable("digest", Kind::Text, "the SHA-256 of what stands there"),
        optional("notes", Kind::Texts, "what else is to be known"),
    ],
);

pub const RECEIPT: Shape = open(
    "receipt",
    "What became of every change of every agent: receipt.json",
    &[
        required("execution_id", Kind::FilledText, "the batch"),
        required("merged_at", Kind::Time, "when"),
        required("strategy", STRATEGIES, "how outputs became one"),
        required("totals", Kind::Object(&TOTALS), "all of it in numbers"),
        required("lines", Kind::Objects(&LINE), "one for each change"),
        required("made", Kind::List, "what no agent made alone: path, by what, digest, `given`"),
    ],
);
