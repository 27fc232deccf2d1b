//! `report_aggregation`: one Markdown report of all that agents wrote, with contents and origin. Each output
//! also stands below its agent's name, so no two can collide. Lays out text; decides nothing.

use std::io;

use super::lines::is_binary;
use super::markdown;
use super::receipt::{Fate, PERSON};
use super::settle::RESOLVED_TO_DELETION;
use crate::model::tree::{Entry, TreePath};
use crate::work_tree::Contents;

/// The report's place in the merged tree.
pub const REPORT: &str = "report.md";
pub const REPORT_MODE: u32 = 0o644;
/// Longest text that is shown whole, and the most that all of them may take: a report is for reading.
const SHOWN_BYTES_MAX: u64 = 256 << 10;
const REPORT_BYTES_MAX: usize = 16 << 20;
/// Title, agent and output have the levels above.
const LEVELS_ABOVE: usize = 3;

/// One output of one agent, and what became of it.
#[derive(Debug)]
pub struct Output<'a> {
    pub agent: &'a str,
    pub path: &'a TreePath,
    pub place: TreePath,
    /// `None`: the agent deleted it.
    pub theirs: Option<&'a Entry>,
    pub fate: &'a Fate,
    /// What stands at the place.
    pub entry: Option<&'a Entry>,
}

/// Outputs stand in topological order of their agents.
pub fn report(title: &str, outputs: &[Output], contents: &dyn Contents) -> io::Result<Vec<u8>> {
    let mut list = String::new();
    let mut body = String::new();
    let mut agent = None;
    let mut numbers = (0, 0);
    for output in outputs.iter().filter(|output| !matches!(output.theirs, Some(Entry::Directory { .. }))) {
        if agent != Some(output.agent) {
            agent = Some(output.agent);
            numbers = (numbers.0 + 1, 0);
            let name = markdown::escaped(output.agent);
            list.push_str(&format!("- [{name}](#wk-{})\n", numbers.0));
            body.push_str(&format!("\n<a id=\"wk-{}\"></a>\n\n## {name}\n", numbers.0));
        }
        numbers.1 += 1;
        let anchor = format!("wk-{}-{}", numbers.0, numbers.1);
        let name = markdown::escaped(&output.path.to_string());
        let mark = left_out(output).map_or("", |_| " (left out)");
        list.push_str(&format!("  - [{name}](#{anchor}){mark}\n"));
        body.push_str(&format!("\n<a id=\"{anchor}\"></a>\n\n### {name}\n\n{}\n", origin(output)));
        if let Some(text) = shown(output, body.len(), contents)? {
            body.push('\n');
            body.push_str(&text);
        }
    }
    if list.is_empty() {
        list.push_str("No agent left an output.\n");
    }
    Ok(format!("# {}\n\n## Contents\n\n{list}{body}", markdown::escaped(title)).into_bytes())
}

fn origin(output: &Output) -> String {
    let from = format!("From {}", markdown::escaped(output.agent));
    if let Some(why) = left_out(output) {
        return format!("{from}: {why}.");
    }
    let place = markdown::code(&output.place.to_string());
    let stands = match output.fate {
        Fate::Superseded { by, .. } if by == PERSON => {
            format!("{from}; a person's version is kept as {place}")
        }
        _ => format!("{from}, kept as {place}"),
    };
    match output.entry {
        None => format!("{from}: deleted."),
        Some(Entry::File { size, sha256, .. }) => format!("{stands}: {size} bytes, SHA-256 `{sha256}`."),
        Some(Entry::Link { target }) => {
            format!("{stands}: a link to {}.", markdown::code(&target.to_string()))
        }
        Some(Entry::Directory { .. }) => format!("{stands}: a directory."),
    }
}

/// Why what the agent made does not stand, nor anything in its place.
fn left_out(output: &Output) -> Option<String> {
    output.theirs?;
    match output.fate {
        Fate::Escalated { conflict } => Some(format!("waits until a person settles conflict {conflict}")),
        _ if output.entry.is_some() => None,
        Fate::Dropped { rule } if *rule != RESOLVED_TO_DELETION => {
            Some(format!("left out by the rule `{rule}`"))
        }
        Fate::Superseded { by, .. } if by != PERSON => {
            Some(format!("left out; {} has something else there", markdown::escaped(by)))
        }
        _ => Some("left out, as a person decided".to_owned()),
    }
}

/// The text of an output; `None` for what is no text.
fn shown(output: &Output, so_far: usize, contents: &dyn Contents) -> io::Result<Option<String>> {
    let stands = output.entry.filter(|_| left_out(output).is_none());
    let Some(Entry::File { size, sha256, .. }) = stands else { return Ok(None) };
    if *size > SHOWN_BYTES_MAX || so_far + *size as usize > REPORT_BYTES_MAX {
        return Ok(Some("Too long for a report; read it where it is kept.\n".to_owned()));
    }
    let bytes = contents.read(sha256)?;
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
    if is_binary(&bytes) {
        return Ok(None);
    }
    let name = output.path.name().to_ascii_lowercase();
    let is_markdown = [&b".md"[..], b".markdown"].iter().any(|ending| name.ends_with(ending));
    Ok(Some(if is_markdown { markdown::demoted(text, LEVELS_ABOVE) } else { markdown::fenced(text) }))
}
