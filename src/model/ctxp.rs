//! The words of context graphs, files that end in `.ctxp` or `.ctxpack`. Data alone; both endings name the same format.

/// What a node may be.
pub const NODE_TYPES: &[&str] = &["module", "class", "function", "variable", "test", "dependency", "config"];
/// What an edge may say.
pub const EDGE_TYPES: &[&str] = &["contains", "calls", "imports", "inherits", "depends_on", "tests"];
const ENDINGS: [&[u8]; 2] = [b".ctxp", b".ctxpack"];

/// Whether a file of this name holds a graph.
pub fn is_graph_name(name: &[u8]) -> bool {
    ENDINGS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
}
