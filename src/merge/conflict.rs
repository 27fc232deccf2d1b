//! Conflicts as values: what clashes between whom, how a person can settle it, and the report that tells of
//! them (`conflicts.json`). Finds and decides nothing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::contents::digest_of;
use super::json::Json;
use super::strategy::Occasion;
use super::unite::GraphClash;
use crate::model::handoff::Choice;
use crate::model::tree::{Digest, Entry, TreePath};

/// Bytes of a preview: enough to see what it is about, little enough for a page.
const PREVIEW_BYTES_MAX: usize = 4000;

/// What a conflict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    File,
    Semantic,
    /// Two versions of one dependency.
    Dependency,
    Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ConflictKind {
    #[serde(rename = "edit/edit")]
    EditEdit,
    #[serde(rename = "add/add")]
    AddAdd,
    #[serde(rename = "edit/delete")]
    EditDelete,
    /// Written by several agents that worked side by side in one directory.
    #[serde(rename = "side_by_side")]
    SideBySide,
    #[serde(rename = "binary")]
    Binary,
    #[serde(rename = "too_large")]
    TooLarge,
    #[serde(rename = "mode")]
    Mode,
    /// File, link and directory exclude each other.
    #[serde(rename = "type")]
    Type,
    #[serde(rename = "link")]
    Link,
    #[serde(rename = "link_leads_out")]
    LinkLeadsOut,
    #[serde(rename = "attribute_conflict")]
    Attribute,
    #[serde(rename = "node_removed")]
    NodeRemoved,
    #[serde(rename = "schema_mismatch")]
    SchemaMismatch,
    #[serde(rename = "not_a_graph")]
    NotAGraph,
}

impl ConflictKind {
    pub fn word(self) -> String {
        serde_json::to_value(self).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
    }

    fn severity(self) -> Severity {
        match self {
            ConflictKind::LinkLeadsOut => Severity::Critical,
            ConflictKind::Mode | ConflictKind::Link | ConflictKind::Attribute => Severity::Medium,
            ConflictKind::EditEdit
            | ConflictKind::AddAdd
            | ConflictKind::EditDelete
            | ConflictKind::SideBySide
            | ConflictKind::Binary
            | ConflictKind::TooLarge
            | ConflictKind::Type
            | ConflictKind::NodeRemoved
            | ConflictKind::SchemaMismatch
            | ConflictKind::NotAGraph => Severity::High,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Medium,
    High,
    Critical,
}

/// One agent's version of a path; `entry` is `None` where it deleted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Version {
    pub agent: String,
    pub entry: Option<Entry>,
}

/// Where graphs differ, as the format tells it; `values` has those that two places cannot hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphRecord {
    #[serde(rename = "type")]
    pub kind: ConflictKind,
    pub node_id: String,
    pub attribute: String,
    pub source1: String,
    pub value1: Value,
    pub source2: String,
    pub value2: Value,
    pub values: Vec<GraphValue>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphValue {
    pub source: String,
    /// `null` where the agent removed it.
    pub value: Value,
}

/// Longest value that a sentence shows whole.
const TOLD_CHARS_MAX: usize = 60;

impl GraphRecord {
    /// What is contradicted, and who says what about it, in one line.
    pub fn told(&self) -> String {
        let said = |said: &GraphValue| match &said.value {
            Value::Null => format!("{} removed it", said.source),
            value => {
                let text = value.to_string();
                let shown: String = text.chars().take(TOLD_CHARS_MAX).collect();
                let more = if shown.len() < text.len() { "…" } else { "" };
                format!("{} says {shown}{more}", said.source)
            }
        };
        let values: Vec<String> = self.values.iter().map(said).collect();
        format!("{} of {}: {}", self.attribute, self.node_id, values.join(", "))
    }
}

/// Changes that do not merge by themselves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conflict {
    /// The same as long as path, agents and versions are the same.
    pub id: String,
    pub class: Class,
    pub kind: ConflictKind,
    pub severity: Severity,
    pub must_resolve: bool,
    pub path: TreePath,
    pub agents: Vec<String>,
    pub base: Option<Digest>,
    /// What the other agents' changes make together.
    pub ours: Option<Digest>,
    /// The first version that does not fit to it.
    pub theirs: Option<Digest>,
    pub versions: Vec<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// The whole file with conflict marks.
    #[serde(skip)]
    pub marked: Option<Vec<u8>>,
    /// Where each version lies, by the word that chooses it, and the file with conflict marks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    pub details: Vec<String>,
    /// Words for `Choice::of_word`; `file` stands for a content of one's own.
    pub choices: Vec<String>,
}

/// What a conflict is made of; the rest follows.
#[derive(Debug)]
pub struct Clashing {
    pub class: Class,
    pub kind: ConflictKind,
    pub path: TreePath,
    pub agents: Vec<String>,
    pub base: Option<Entry>,
    pub ours: Option<Entry>,
    pub theirs: Option<Entry>,
    pub versions: Vec<Version>,
    pub graph: Option<GraphRecord>,
    pub preview: Option<Vec<u8>>,
    pub marked: Option<Vec<u8>>,
    pub details: Vec<String>,
}

impl Conflict {
    pub fn of(clashing: Clashing) -> Self {
        let Clashing {
            class,
            kind,
            path,
            agents,
            base,
            ours,
            theirs,
            versions,
            graph,
            preview,
            marked,
            details,
        } = clashing;
        let choices = choices(kind, base.is_some(), &versions, graph.as_ref());
        let named = serde_json::json!([path, kind, agents, base, versions, graph]);
        let id = format!("c-{}", &digest_of(named.to_string().as_bytes()).to_string()[..16]);
        Conflict {
            id,
            class,
            kind,
            severity: kind.severity(),
            must_resolve: true,
            path,
            agents,
            base: base.as_ref().and_then(identity),
            ours: ours.as_ref().and_then(identity),
            theirs: theirs.as_ref().and_then(identity),
            versions,
            graph,
            preview: preview.map(|text| bounded(&text)),
            marked,
            files: BTreeMap::new(),
            details,
            choices,
        }
    }

    pub fn offers(&self, resolution: &Choice) -> bool {
        self.choices.contains(&resolution.word())
    }
}

/// A record of a clash between graphs; every author keeps its value.
pub fn graph_record(kind: ConflictKind, clash: &GraphClash) -> GraphRecord {
    let value = |value: &Option<Json>| value.as_ref().map_or(Value::Null, Json::to_value);
    let values: Vec<GraphValue> = clash
        .values
        .iter()
        .map(|(source, said)| GraphValue { source: source.clone(), value: value(said) })
        .collect();
    let at = |index: usize| values.get(index).cloned();
    let empty = GraphValue { source: String::new(), value: Value::Null };
    let (first, second) = (at(0).unwrap_or(empty.clone()), at(1).unwrap_or(empty));
    GraphRecord {
        kind,
        node_id: clash.node_id.clone(),
        attribute: clash.attribute.clone(),
        source1: first.source,
        value1: first.value,
        source2: second.source,
        value2: second.value,
        values,
    }
}

/// `conflicts.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConflictReport {
    pub execution_id: String,
    pub detection_timestamp: String,
    /// Those that are listed, and those that were settled before.
    pub conflicts_detected: usize,
    pub conflicts_resolved: usize,
    pub conflict_summary: ConflictSummary,
    pub conflicts: Vec<Conflict>,
    pub recommended_actions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConflictSummary {
    pub file: usize,
    pub semantic: usize,
    pub dependency: usize,
    pub schema: usize,
}

impl ConflictReport {
    pub fn of(conflicts: Vec<Conflict>, resolved: usize, occasion: &Occasion) -> Self {
        let count = |class: Class| conflicts.iter().filter(|conflict| conflict.class == class).count();
        ConflictReport {
            execution_id: occasion.execution_id.clone(),
            detection_timestamp: occasion.at.clone(),
            conflicts_detected: conflicts.len() + resolved,
            conflicts_resolved: resolved,
            conflict_summary: ConflictSummary {
                file: count(Class::File),
                semantic: count(Class::Semantic),
                dependency: count(Class::Dependency),
                schema: count(Class::Schema),
            },
            recommended_actions: conflicts.iter().map(recommended).collect(),
            conflicts,
        }
    }

    /// Two spaces a level, and a newline at the end.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

fn recommended(conflict: &Conflict) -> String {
    let Conflict { id, path, kind, agents, choices, .. } = conflict;
    let what = conflict
        .graph
        .as_ref()
        .map_or(String::new(), |graph| format!(", {} of {}", graph.attribute, graph.node_id));
    let (agents, choices) = (agents.join(", "), choices.join(", "));
    format!("{id}: settle {path}{what} ({} between {agents}): choose one of {choices}", kind.word())
}

fn choices(
    kind: ConflictKind,
    has_base: bool,
    versions: &[Version],
    graph: Option<&GraphRecord>,
) -> Vec<String> {
    let takes = |agents: Vec<&String>| agents.into_iter().map(|agent| format!("theirs:{agent}")).collect();
    let fixed = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    if let Some(graph) = graph {
        let mut words: Vec<String> = takes(graph.values.iter().map(|said| &said.source).collect());
        words.extend(fixed(&["base", "delete", "file"]));
        return words;
    }
    match kind {
        ConflictKind::LinkLeadsOut | ConflictKind::NotAGraph => fixed(&["delete", "file"]),
        _ => {
            let mut words = fixed(&["ours"]);
            words.extend::<Vec<String>>(takes(versions.iter().map(|version| &version.agent).collect()));
            if has_base {
                words.push("base".to_owned());
            }
            words.extend(fixed(&["delete", "file"]));
            words
        }
    }
}

/// What tells two entries apart by content.
pub fn identity(entry: &Entry) -> Option<Digest> {
    match entry {
        Entry::File { sha256, .. } => Some(*sha256),
        Entry::Link { target } => Some(digest_of(target.as_bytes())),
        Entry::Directory { .. } => None,
    }
}

fn bounded(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&text[..text.len().min(PREVIEW_BYTES_MAX)]).into_owned();
    if text.len() > PREVIEW_BYTES_MAX {
        return format!("{shown}\n… {} bytes more\n", text.len() - PREVIEW_BYTES_MAX);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_has_a_word_that_comes_back() {
        let all = [Choice::Ours, Choice::Take("ann".into()), Choice::Base, Choice::Delete];
        for resolution in all {
            assert_eq!(Choice::of_word(&resolution.word()), Some(resolution));
        }
        assert_eq!(Choice::of_word("file"), None);
    }

    #[test]
    fn a_preview_is_bounded() {
        assert!(bounded("x".repeat(100_000).as_bytes()).len() < PREVIEW_BYTES_MAX + 100);
    }
}
