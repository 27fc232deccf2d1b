//! Unites graphs by node: what one side alone changed stands, what several changed alike stands once, and
//! what they changed differently clashes with every value named. Knows no policy: whoever calls decides clashes.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Edge, EdgeKey, Graph, Node, Part};
use super::json::Json;

/// Metadata that says where a graph came from; a united one says it anew.
const PROVENANCE: &[&str] = &[
    "agent",
    "timestamp",
    "version",
    "format",
    "merged_from",
    "merge_strategy",
    "conflicts_detected",
    "conflicts_resolved",
];

/// One agent's graph, and the graph from which it began.
#[derive(Debug)]
pub struct Side {
    pub who: String,
    pub base: Option<Graph>,
    pub graph: Graph,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClashKind {
    Attribute,
    /// Removed by one, changed by another.
    Node,
    /// The same field declared with two types.
    Schema,
}

/// Where sides differ, with the word of each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphClash {
    pub kind: ClashKind,
    pub node_id: String,
    pub attribute: String,
    pub base: Option<Json>,
    /// `None`: removed.
    pub values: Vec<(String, Option<Json>)>,
}

/// How a clash ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    pub value: Option<Json>,
    /// The agent whose value it is; `None` if it is a person's own.
    pub winner: Option<String>,
    pub strategy: &'static str,
}

#[derive(Debug, Default)]
pub struct United {
    pub graph: Graph,
    /// Clashes that nobody decided. In the graph the first value stands for the time being.
    pub open: Vec<GraphClash>,
    pub settled: Vec<(GraphClash, Decided)>,
    /// Differences that are no clash: words about edges, unknown metadata.
    pub notes: Vec<String>,
}

/// Asks whoever knows the policy how a clash ends; `None` leaves it open.
pub type Decide<'a> = dyn Fn(&GraphClash) -> Option<Decided> + 'a;

/// Sides stand in topological order. The united graph has no provenance yet.
pub fn unite(sides: &[Side], decide: &Decide) -> United {
    let mut uniting = Uniting { decide, united: United::default() };
    let views: Vec<View> = sides.iter().map(View::of).collect();
    for id in in_order(sides.iter().flat_map(|side| side.graph.nodes.iter().map(|node| node.id.as_str()))) {
        if let Some(node) = uniting.node(id, &views) {
            uniting.united.graph.nodes.push(node);
        }
    }
    for key in in_order(sides.iter().flat_map(|side| side.graph.edges.iter().map(|edge| &edge.key))) {
        if let Some(edge) = uniting.edge(key, &views) {
            uniting.united.graph.edges.push(edge);
        }
    }
    uniting.metadata(sides);
    uniting.united
}

/// A side with its nodes and edges at hand.
struct View<'a> {
    who: &'a str,
    base_nodes: BTreeMap<&'a str, &'a Node>,
    nodes: BTreeMap<&'a str, &'a Node>,
    base_edges: BTreeMap<&'a EdgeKey, &'a Edge>,
    edges: BTreeMap<&'a EdgeKey, &'a Edge>,
}

impl<'a> View<'a> {
    fn of(side: &'a Side) -> Self {
        View {
            who: &side.who,
            base_nodes: side.base.as_ref().map(Graph::nodes_by_id).unwrap_or_default(),
            nodes: side.graph.nodes_by_id(),
            base_edges: side.base.as_ref().map(Graph::edges_by_key).unwrap_or_default(),
            edges: side.graph.edges_by_key(),
        }
    }
}

/// What a side made of one thing.
#[derive(Debug, Clone, PartialEq)]
struct Word<'a, T: ?Sized> {
    who: &'a str,
    before: Option<&'a T>,
    after: Option<&'a T>,
}

/// The words that count: those that changed something, without those whose result a later one began from.
fn standing<'a, T: PartialEq + ?Sized>(words: &[Word<'a, T>]) -> Vec<Word<'a, T>> {
    let changed: Vec<&Word<T>> = words.iter().filter(|word| word.before != word.after).collect();
    let is_overtaken = |at: usize| {
        let later = &changed[at + 1..];
        later.iter().any(|word| word.before.is_some() && word.before == changed[at].after)
    };
    let count = changed.len();
    (0..count)
        .filter(|at| !is_overtaken(*at))
        .map(|at| Word { who: changed[at].who, before: changed[at].before, after: changed[at].after })
        .collect()
}

struct Uniting<'a> {
    decide: &'a Decide<'a>,
    united: United,
}

impl Uniting<'_> {
    fn node(&mut self, id: &str, views: &[View]) -> Option<Node> {
        let words: Vec<Word<Node>> = views
            .iter()
            .map(|view| Word {
                who: view.who,
                before: view.base_nodes.get(id).copied(),
                after: view.nodes.get(id).copied(),
            })
            .filter(|word| word.before.is_some() || word.after.is_some())
            .collect();
        let standing = standing(&words);
        let removers: Vec<&Word<Node>> = standing.iter().filter(|word| word.after.is_none()).collect();
        let keepers: Vec<&Word<Node>> = standing.iter().filter(|word| word.after.is_some()).collect();
        if !removers.is_empty() && keepers.is_empty() {
            return None;
        }
        let node = self.parts(id, &words);
        if removers.is_empty() {
            return Some(node);
        }
        let clash = GraphClash {
            kind: ClashKind::Node,
            node_id: id.to_owned(),
            attribute: "node".to_owned(),
            base: removers[0].before.map(Node::to_json),
            values: standing
                .iter()
                .map(|word| (word.who.to_owned(), word.after.map(Node::to_json)))
                .collect(),
        };
        let merged = node.to_json();
        let chosen = self.settle(clash, Some(merged.clone()))?;
        if chosen == merged { Some(node) } else { Some(Node::of(&chosen).unwrap_or(node)) }
    }

    fn parts(&mut self, id: &str, words: &[Word<Node>]) -> Node {
        let holders: Vec<(&str, Option<&Node>, &Node)> =
            words.iter().filter_map(|word| word.after.map(|after| (word.who, word.before, after))).collect();
        let names = in_order(holders.iter().flat_map(|(_, _, node)| node.parts.iter().map(|(part, _)| part)));
        let mut parts = Vec::new();
        for part in names {
            let said: Vec<Word<Json>> = holders
                .iter()
                .map(|(who, before, after)| Word {
                    who,
                    before: before.and_then(|node| node.get(part)),
                    after: after.get(part),
                })
                .collect();
            let name = part.to_string();
            if let Some(value) = self.value(ClashKind::Attribute, id, &name, &said) {
                parts.push((part.clone(), value));
            }
        }
        // A node reads best with its own fields before its attributes, in the order of the first author.
        parts.sort_by_key(|(part, _)| matches!(part, Part::Attribute(_)));
        Node { id: id.to_owned(), parts }
    }

    fn value(&mut self, kind: ClashKind, id: &str, name: &str, said: &[Word<Json>]) -> Option<Json> {
        let standing = standing(said);
        let Some(first) = standing.first() else {
            return said.iter().find_map(|word| word.after).cloned();
        };
        if standing.iter().all(|word| word.after == first.after) {
            return first.after.cloned();
        }
        let clash = GraphClash {
            kind,
            node_id: id.to_owned(),
            attribute: name.to_owned(),
            base: standing.iter().find_map(|word| word.before).cloned(),
            values: standing.iter().map(|word| (word.who.to_owned(), word.after.cloned())).collect(),
        };
        self.settle(clash, first.after.cloned())
    }

    fn settle(&mut self, clash: GraphClash, for_now: Option<Json>) -> Option<Json> {
        match (self.decide)(&clash) {
            Some(decided) => {
                let value = decided.value.clone();
                self.united.settled.push((clash, decided));
                value
            }
            None => {
                self.united.open.push(clash);
                for_now
            }
        }
    }

    fn edge(&mut self, key: &EdgeKey, views: &[View]) -> Option<Edge> {
        let words: Vec<Word<Edge>> = views
            .iter()
            .map(|view| Word {
                who: view.who,
                before: view.base_edges.get(key).copied(),
                after: view.edges.get(key).copied(),
            })
            .filter(|word| word.before.is_some() || word.after.is_some())
            .collect();
        let standing = standing(&words);
        let kept: Vec<&Word<Edge>> = standing.iter().filter(|word| word.after.is_some()).collect();
        if standing.len() > kept.len() {
            if kept.is_empty() {
                return None;
            }
            let note = format!("edge {key} was removed by one agent and written by another; it stays");
            self.united.notes.push(note);
        }
        let first = kept.first().and_then(|word| word.after);
        let edge = first.or_else(|| words.iter().find_map(|word| word.after))?;
        for other in kept.iter().filter(|word| word.after != Some(edge)) {
            let note = format!("edge {key}: the words of {} about it gave way to earlier ones", other.who);
            self.united.notes.push(note);
        }
        Some(edge.clone())
    }

    fn metadata(&mut self, sides: &[Side]) {
        let all = sides.iter().flat_map(|side| side.graph.metadata.iter());
        let names = in_order(all.map(|(name, _)| name.as_str()).filter(|name| !PROVENANCE.contains(name)));
        for name in names {
            let said: Vec<(&str, &Json)> = sides
                .iter()
                .filter_map(|side| Some((side.who.as_str(), find(&side.graph.metadata, name)?)))
                .collect();
            if name == "schema" && said.iter().all(|(_, value)| value.as_object().is_some()) {
                let schema = self.schema(sides);
                self.united.graph.metadata.push((name.to_owned(), Json::Object(schema)));
            } else if said.iter().all(|(_, value)| *value == said[0].1) {
                self.united.graph.metadata.push((name.to_owned(), said[0].1.clone()));
            } else {
                self.united.notes.push(format!("metadata {name:?} differs between agents and is left out"));
            }
        }
    }

    fn schema(&mut self, sides: &[Side]) -> Vec<(String, Json)> {
        fn fields(graph: &Graph) -> &[(String, Json)] {
            find(&graph.metadata, "schema").and_then(Json::as_object).unwrap_or_default()
        }
        let names =
            in_order(sides.iter().flat_map(|side| fields(&side.graph).iter().map(|(name, _)| name.as_str())));
        let mut schema = Vec::new();
        for name in names {
            let said: Vec<Word<Json>> = sides
                .iter()
                .map(|side| Word {
                    who: &side.who,
                    before: side.base.as_ref().and_then(|base| find(fields(base), name)),
                    after: find(fields(&side.graph), name),
                })
                .collect();
            if let Some(value) = self.value(ClashKind::Schema, "metadata.schema", name, &said) {
                schema.push((name.to_owned(), value));
            }
        }
        schema
    }
}

fn find<'a>(fields: &'a [(String, Json)], name: &str) -> Option<&'a Json> {
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
}

/// Each once, where it came first.
fn in_order<T: Ord + Copy>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut known = BTreeSet::new();
    all.filter(|one| known.insert(*one)).collect()
}
