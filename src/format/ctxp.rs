//! The shape of a context graph, a file that ends in `.ctxp` or `.ctxpack`, and how agents are told of it. What graphs
//! become together is the merge's matter.

use super::output::open;
use super::shape::{Kind, Shape, optional, required};
use crate::model::ctxp::{EDGE_TYPES, NODE_TYPES};

const METADATA: Shape = open(
    "metadata",
    "Where the graph comes from",
    &[
        optional("format", Kind::Text, "ctxp-graph/1"),
        optional("agent", Kind::Text, "who made it"),
        optional("timestamp", Kind::Text, "when, in RFC 3339"),
        optional("version", Kind::Text, "1.0"),
        optional("schema", Kind::Map, "declared attributes: name to an object with `type`"),
        optional("merged_from", Kind::Texts, "after a merge: the agents"),
        optional("merge_strategy", Kind::Text, "after a merge"),
        optional("conflicts_detected", Kind::Number { least: 0.0 }, "after a merge"),
        optional("conflicts_resolved", Kind::Number { least: 0.0 }, "after a merge: how many of these"),
    ],
);

const NODE: Shape = open(
    "node",
    "One thing in the code",
    &[
        required("id", Kind::Text, "unique in the file"),
        optional("type", Kind::OneOf(NODE_TYPES), "what it is"),
        optional("name", Kind::Text, "for people"),
        optional(
            "attributes",
            Kind::Map,
            "free; `module`, `parent`, `tested_by`, `depends_on` hold ids of nodes",
        ),
    ],
);

const EDGE: Shape = open(
    "edge",
    "How one thing relates to another",
    &[
        required("source", Kind::Text, "the id of a node of the merged graph"),
        required("target", Kind::Text, "likewise"),
        required("type", Kind::OneOf(EDGE_TYPES), "what the source does"),
        optional("label", Kind::Text, "a word about it"),
    ],
);

pub const CTXP: Shape = open(
    "ctxp",
    "A context graph: NAME.ctxp",
    &[
        optional("metadata", Kind::Object(&METADATA), "where it comes from"),
        required("nodes", Kind::Objects(&NODE), "the things"),
        required("edges", Kind::Objects(&EDGE), "how they relate"),
    ],
);

/// What an agent is told that is to make one.
pub(super) fn told() -> String {
    format!(
        "A .ctxp file is one JSON object: {{\"nodes\": [{{\"id\": \"unique\", \"type\": \"…\", \"name\": \"…\", \
         \"attributes\": {{}}}}], \"edges\": [{{\"source\": \"id\", \"target\": \"id\", \"type\": \"…\"}}]}}, with a \
         \"metadata\" object if you like. Types of nodes: {}. Types of edges: {}. Every edge leads from a node to a \
         node.\n",
        NODE_TYPES.join(", "),
        EDGE_TYPES.join(", ")
    )
}
