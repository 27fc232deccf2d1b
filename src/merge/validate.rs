//! Looks at the contents of a merged tree before it is published. Finds; decides nothing.

use std::collections::BTreeSet;
use std::io;

use serde::Serialize;

use super::graph::{Graph, is_graph_name};
use super::json::Json;
use super::lines::is_binary;
use crate::model::handoff::MergeValidation;
use crate::model::tree::{Digest, Entry, TreePath};
use crate::work_tree::Contents;

/// A file of the merged tree, and the versions of it that agents brought.
#[derive(Debug)]
pub struct Merged<'a> {
    pub path: &'a TreePath,
    pub entry: &'a Entry,
    pub versions: Vec<Digest>,
}

/// Something to tell of the merged tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether nothing may be published because of it.
    pub is_error: bool,
    pub path: TreePath,
    pub rule: &'static str,
    pub message: String,
}

const SCHEMA: &str = "schema_validation";
const CONSISTENCY: &str = "semantic_consistency";

pub fn findings(
    files: &[Merged],
    validation: MergeValidation,
    contents: &dyn Contents,
) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in files {
        let Entry::File { sha256, .. } = file.entry else { continue };
        let name = file.path.name();
        let is_made = !file.versions.contains(sha256);
        let mut tell = |rule: &'static str, is_error: bool, message: String| {
            findings.push(Finding { is_error, path: file.path.clone(), rule, message });
        };
        if is_graph_name(name) && (validation.schema_validation || validation.semantic_consistency) {
            look_at_graph(file, &contents.read(sha256)?, validation, contents, &mut tell)?;
        }
        if validation.schema_validation && name.ends_with(b".json") {
            look_at_json(file, &contents.read(sha256)?, contents, &mut tell)?;
        }
        if validation.semantic_consistency && is_made {
            look_for_marks(file, &contents.read(sha256)?, contents, &mut tell)?;
        }
    }
    Ok(findings)
}

type Tell<'a> = dyn FnMut(&'static str, bool, String) + 'a;

fn look_at_graph(
    file: &Merged,
    text: &[u8],
    validation: MergeValidation,
    contents: &dyn Contents,
    tell: &mut Tell,
) -> io::Result<()> {
    let graph = match Graph::parse(text) {
        Ok(graph) => graph,
        Err(wrong) => {
            wrong.into_iter().for_each(|why| tell(SCHEMA, true, why));
            return Ok(());
        }
    };
    if validation.schema_validation {
        graph.errors().into_iter().for_each(|why| tell(SCHEMA, true, why));
        graph.warnings().into_iter().for_each(|why| tell(SCHEMA, false, why));
    }
    if validation.semantic_consistency {
        if !validation.schema_validation {
            let dangling = graph.errors().into_iter().filter(|why| why.ends_with("which is no node"));
            dangling.for_each(|why| tell(CONSISTENCY, true, why));
        }
        let dangling = graph.dangling_references();
        if !dangling.is_empty() {
            // A node that some agent had and the merge lost is our fault; one that nobody had came that way.
            let had = nodes_of_versions(file, contents)?;
            for (node, attribute, missing) in dangling {
                let message = format!("{attribute} of node {node:?} names {missing:?}, which is no node");
                tell(CONSISTENCY, had.contains(&missing), message);
            }
        }
    }
    Ok(())
}

fn nodes_of_versions(file: &Merged, contents: &dyn Contents) -> io::Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for version in &file.versions {
        if let Ok(graph) = Graph::parse(&contents.read(version)?) {
            ids.extend(graph.nodes.into_iter().map(|node| node.id));
        }
    }
    Ok(ids)
}

fn look_at_json(file: &Merged, text: &[u8], contents: &dyn Contents, tell: &mut Tell) -> io::Result<()> {
    let Err(why) = Json::parse(text) else { return Ok(()) };
    let mut all_parsed = true;
    for version in &file.versions {
        all_parsed &= Json::parse(&contents.read(version)?).is_ok();
    }
    let origin = if all_parsed { "though every agent's version is" } else { "and came so from an agent" };
    tell(SCHEMA, all_parsed, format!("{why}; {origin}"));
    Ok(())
}

fn look_for_marks(file: &Merged, text: &[u8], contents: &dyn Contents, tell: &mut Tell) -> io::Result<()> {
    if is_binary(text) {
        return Ok(());
    }
    let mut marks: BTreeSet<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| is_mark(line)).collect();
    for version in &file.versions {
        if marks.is_empty() {
            break;
        }
        let version = contents.read(version)?;
        for line in version.split(|byte| *byte == b'\n') {
            marks.remove(line);
        }
    }
    for mark in marks {
        let line = text.split(|byte| *byte == b'\n').position(|line| line == mark).unwrap_or_default() + 1;
        tell(
            CONSISTENCY,
            true,
            format!("line {line} is a conflict mark that no agent wrote; settle it there"),
        );
    }
    Ok(())
}

fn is_mark(line: &[u8]) -> bool {
    [&b"<<<<<<<"[..], b">>>>>>>"].iter().any(|mark| {
        line.strip_prefix(*mark).is_some_and(|rest| matches!(rest.first(), None | Some(b' ' | b'\r')))
    })
}
