//! The `.ctxp` graph: what a file of it says, and what is wrong with it. How graphs unite is `unite`'s matter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use petgraph::graphmap::DiGraphMap;

use super::json::Json;
use crate::model::ctxp::{EDGE_TYPES, NODE_TYPES};

pub use crate::model::ctxp::is_graph_name;

/// Attributes whose values are ids of nodes.
const REFERENCES: &[&str] = &["module", "parent", "tested_by", "depends_on"];

/// What a node says of itself: a field of its own, or one of its attributes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Field(String),
    Attribute(String),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Field(name) => write!(f, "node.{name}"),
            Part::Attribute(name) => f.write_str(name),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub id: String,
    pub parts: Vec<(Part, Json)>,
}

impl Node {
    pub fn of(json: &Json) -> Result<Node, String> {
        let fields = json.as_object().ok_or("a node must be an object")?;
        let id = json.get("id").and_then(Json::as_text).ok_or("`id` must be a string")?;
        let mut parts = Vec::new();
        for (name, value) in fields {
            match name.as_str() {
                "id" => {}
                "attributes" => {
                    let attributes = value.as_object().ok_or("`attributes` must be an object")?;
                    let named = attributes.iter().map(|(name, value)| (Part::Attribute(name.clone()), value));
                    parts.extend(named.map(|(part, value)| (part, value.clone())));
                }
                _ => parts.push((Part::Field(name.clone()), value.clone())),
            }
        }
        Ok(Node { id, parts })
    }

    pub fn get(&self, part: &Part) -> Option<&Json> {
        self.parts.iter().find(|(name, _)| name == part).map(|(_, value)| value)
    }

    /// Ids that the node's attributes name.
    pub fn references(&self) -> impl Iterator<Item = (&str, String)> {
        self.parts.iter().flat_map(|(part, value)| {
            let name = match part {
                Part::Attribute(name) if REFERENCES.contains(&name.as_str()) => name.as_str(),
                _ => return Vec::new(),
            };
            let ids = value.as_array().unwrap_or(std::slice::from_ref(value)).iter();
            ids.filter_map(Json::as_text).filter(|id| !id.is_empty()).map(|id| (name, id)).collect()
        })
    }

    pub fn to_json(&self) -> Json {
        let mut fields = vec![("id".to_owned(), Json::text(&self.id))];
        let mut attributes = Vec::new();
        for (part, value) in &self.parts {
            match part {
                Part::Field(name) => fields.push((name.clone(), value.clone())),
                Part::Attribute(name) => attributes.push((name.clone(), value.clone())),
            }
        }
        fields.push(("attributes".to_owned(), Json::Object(attributes)));
        Json::Object(fields)
    }
}

/// Edges are the same when these are; a label is only a word about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EdgeKey {
    pub source: String,
    pub target: String,
    pub kind: String,
}

impl fmt::Display for EdgeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -{}-> {}", self.source, self.kind, self.target)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub key: EdgeKey,
    pub fields: Vec<(String, Json)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    pub metadata: Vec<(String, Json)>,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Reads a file. The errors are for people; a graph with any of them cannot be united with others.
    pub fn parse(text: &[u8]) -> Result<Graph, Vec<String>> {
        let json = Json::parse(text).map_err(|why| vec![why])?;
        let mut wrong = Vec::new();
        let mut graph = Graph::default();
        // Nodes and edges make a graph; where it comes from is known without it.
        match json.get("metadata").map(Json::as_object) {
            Some(Some(metadata)) => graph.metadata = metadata.to_vec(),
            Some(None) => wrong.push("`metadata` must be an object".to_owned()),
            None => {}
        }
        let mut list = |key: &str| -> Vec<Json> {
            let found = json.get(key).and_then(Json::as_array);
            if found.is_none() {
                wrong.push(format!("`{key}` must be an array"));
            }
            found.unwrap_or_default().to_vec()
        };
        let (nodes, edges) = (list("nodes"), list("edges"));
        let mut ids = BTreeSet::new();
        for (index, node) in nodes.iter().enumerate() {
            match Node::of(node) {
                Ok(node) if ids.insert(node.id.clone()) => graph.nodes.push(node),
                Ok(node) => wrong.push(format!("node id {:?} stands twice", node.id)),
                Err(why) => wrong.push(format!("nodes[{index}]: {why}")),
            }
        }
        for (index, edge) in edges.iter().enumerate() {
            match edge_of(edge) {
                Some(edge) => graph.edges.push(edge),
                None => {
                    wrong.push(format!("edges[{index}] needs `source`, `target` and `type`, each a string"));
                }
            }
        }
        if wrong.is_empty() { Ok(graph) } else { Err(wrong) }
    }

    pub fn to_json(&self) -> Json {
        let edge = |edge: &Edge| {
            let ends = [("source", &edge.key.source), ("target", &edge.key.target), ("type", &edge.key.kind)];
            let ends = ends.into_iter().map(|(name, value)| (name.to_owned(), Json::text(value)));
            Json::Object(ends.chain(edge.fields.iter().cloned()).collect())
        };
        Json::Object(vec![
            ("metadata".to_owned(), Json::Object(self.metadata.clone())),
            ("nodes".to_owned(), Json::Array(self.nodes.iter().map(Node::to_json).collect())),
            ("edges".to_owned(), Json::Array(self.edges.iter().map(edge).collect())),
        ])
    }

    pub fn node_ids(&self) -> BTreeSet<&str> {
        self.nodes.iter().map(|node| node.id.as_str()).collect()
    }

    /// What the format forbids in a whole graph.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for node in &self.nodes {
            let kind = node.get(&Part::Field("type".to_owned())).and_then(Json::as_text);
            if let Some(kind) = kind.filter(|kind| !NODE_TYPES.contains(&kind.as_str())) {
                let known = NODE_TYPES.join(", ");
                errors.push(format!("node {:?} has the type {kind:?}; known are {known}", node.id));
            }
        }
        let ids = self.node_ids();
        for edge in &self.edges {
            let EdgeKey { source, target, kind } = &edge.key;
            if !EDGE_TYPES.contains(&kind.as_str()) {
                let known = EDGE_TYPES.join(", ");
                errors.push(format!("edge {} has an unknown type; known are {known}", edge.key));
            }
            for end in [source, target].into_iter().filter(|end| !ids.contains(end.as_str())) {
                errors.push(format!("edge {} leads to {end:?}, which is no node", edge.key));
            }
        }
        errors
    }

    /// What the format allows and a reader may want to know.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let edges = self.edges.iter().map(|edge| (edge.key.source.as_str(), edge.key.target.as_str()));
        let links: DiGraphMap<&str, ()> = DiGraphMap::from_edges(edges);
        for circle in petgraph::algo::tarjan_scc(&links) {
            if circle.len() > 1 || circle.iter().any(|id| links.contains_edge(id, id)) {
                let shown: BTreeSet<&str> = circle.into_iter().collect();
                let shown: Vec<&str> = shown.into_iter().take(8).collect();
                warnings.push(format!("nodes lead to each other in a circle: {}", shown.join(", ")));
            }
        }
        let untyped = |node: &&Node| node.get(&Part::Field("type".to_owned())).is_none();
        warnings
            .extend(self.nodes.iter().filter(untyped).map(|node| format!("node {:?} has no type", node.id)));
        for node in self.nodes.iter().filter(|node| !links.contains_node(node.id.as_str())) {
            warnings.push(format!("node {:?} has no edges", node.id));
        }
        warnings
    }

    /// References in attributes to nodes that are not there: node, attribute, missing id.
    pub fn dangling_references(&self) -> Vec<(&str, &str, String)> {
        let ids = self.node_ids();
        let each = self.nodes.iter().flat_map(|node| {
            node.references().map(|(attribute, id)| (node.id.as_str(), attribute, id)).collect::<Vec<_>>()
        });
        each.filter(|(_, _, id)| !ids.contains(id.as_str())).collect()
    }

    pub fn nodes_by_id(&self) -> BTreeMap<&str, &Node> {
        self.nodes.iter().map(|node| (node.id.as_str(), node)).collect()
    }

    pub fn edges_by_key(&self) -> BTreeMap<&EdgeKey, &Edge> {
        self.edges.iter().map(|edge| (&edge.key, edge)).collect()
    }
}

fn edge_of(json: &Json) -> Option<Edge> {
    let end = |name: &str| json.get(name).and_then(Json::as_text);
    let key = EdgeKey { source: end("source")?, target: end("target")?, kind: end("type")? };
    let is_own = |name: &str| !["source", "target", "type"].contains(&name);
    let fields = json.as_object()?.iter().filter(|(name, _)| is_own(name)).cloned().collect();
    Some(Edge { key, fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defect_of_a_file_is_told() {
        let wrong = Graph::parse(br#"{"nodes": [{"id": 1}, {"id": "a"}, {"id": "a"}], "edges": [{}]}"#);
        assert_eq!(wrong.unwrap_err().len(), 3, "an id, a twin, an edge");
        assert!(Graph::parse(b"[]").is_err());
    }

    #[test]
    fn an_edge_to_nowhere_is_an_error_and_a_circle_a_warning() {
        let graph = Graph::parse(
            br#"{"metadata": {}, "nodes": [
                {"id": "a", "type": "module", "name": "a", "attributes": {"tested_by": ["t", "a"]}},
                {"id": "b", "type": "function", "name": "b", "attributes": {}},
                {"id": "lone", "type": "gadget", "name": "lone"}],
              "edges": [{"source": "a", "target": "b", "type": "calls", "label": "x"},
                {"source": "b", "target": "a", "type": "calls"},
                {"source": "b", "target": "gone", "type": "calls"}]}"#,
        )
        .unwrap();
        assert_eq!(graph.errors().len(), 2, "{:?}", graph.errors());
        assert_eq!(graph.warnings().len(), 2, "{:?}", graph.warnings());
        assert_eq!(graph.dangling_references(), [("a", "tested_by", "t".to_owned())]);
        let text = graph.to_json().compact();
        assert_eq!(Graph::parse(text.as_bytes()).unwrap(), graph);
    }
}
