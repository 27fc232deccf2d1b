//! Three states of one path, one result: content, mode, kind and absence each merged by itself. Reads the
//! contents of that path alone. Which agents stand behind the sides is not known here.

use std::io;

use super::by_key::KeyMerge;
use super::conflict::{Class, ConflictKind};
use super::contents::ContentStore;
use super::dependency;
use super::graph::{Graph, is_graph_name};
use super::json::{Json, Style};
use super::lines::{LineMerge, Side, is_binary};
use super::unite::{self, Decided, unite};
use crate::model::tree::{Digest, Entry, TreePath};
use crate::work_tree::Contents;

/// Larger contents are merged by identity alone: three of them must fit in memory.
pub const MERGED_BYTES_MAX: u64 = 64 << 20;
/// Lines around a clash in a preview.
const PREVIEW_CONTEXT_LINES: usize = 3;

/// How far a merge may go.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Whether what clashes by line may be merged by structure.
    pub by_structure: bool,
    /// The side that wins what is left; `None`: nobody does.
    pub favour: Option<Side>,
    pub our_name: &'a str,
    pub their_name: &'a str,
}

/// One path in three states.
#[derive(Debug, Clone, Copy)]
pub struct States<'a> {
    pub path: &'a TreePath,
    pub base: Option<&'a Entry>,
    pub ours: Option<&'a Entry>,
    pub theirs: Option<&'a Entry>,
}

#[derive(Debug)]
pub enum Outcome {
    /// They left it as it was.
    Unchanged,
    /// Both sides made the same of it.
    Same,
    /// We had left it as it was: theirs stands.
    Taken,
    /// Something new, made of both.
    Combined(Entry),
    /// One side won what clashed.
    Favoured(Option<Entry>, Side),
    /// Ours stands, by a rule.
    Yielded(&'static str),
    Clash(Clashed),
}

#[derive(Debug)]
pub struct Clashed {
    pub class: Class,
    pub kind: ConflictKind,
    pub preview: Option<Vec<u8>>,
    /// The whole file with conflict marks.
    pub marked: Option<Vec<u8>>,
    pub details: Vec<String>,
}

impl Clashed {
    fn of(kind: ConflictKind) -> Self {
        Clashed { class: Class::File, kind, preview: None, marked: None, details: Vec::new() }
    }
}

/// A rule by which directories never clash: the mode of the first agent stands.
pub const FIRST_DIRECTORY_MODE: &str = "first_directory_mode";

pub fn three_way(states: States, rules: Rules, contents: &dyn ContentStore) -> io::Result<Outcome> {
    let States { base, ours, theirs, .. } = states;
    if base == theirs {
        return Ok(Outcome::Unchanged);
    }
    if ours == theirs {
        return Ok(Outcome::Same);
    }
    if base == ours {
        return Ok(Outcome::Taken);
    }
    let clash = match (ours, theirs) {
        (Some(Entry::File { .. }), Some(Entry::File { .. })) => return files(states, rules, contents),
        (Some(Entry::Directory { .. }), Some(Entry::Directory { .. })) => {
            return Ok(Outcome::Yielded(FIRST_DIRECTORY_MODE));
        }
        (Some(Entry::Link { .. }), Some(Entry::Link { .. })) => Clashed::of(ConflictKind::Link),
        (None, _) | (_, None) => Clashed::of(ConflictKind::EditDelete),
        (Some(_), Some(_)) => Clashed::of(ConflictKind::Type),
    };
    Ok(match rules.favour {
        Some(Side::Ours) => Outcome::Favoured(ours.cloned(), Side::Ours),
        Some(Side::Theirs) => Outcome::Favoured(theirs.cloned(), Side::Theirs),
        None => Outcome::Clash(clash),
    })
}

/// A file's state without its name.
#[derive(Clone, Copy)]
struct FileState {
    mode: u32,
    size: u64,
    sha256: Digest,
}

fn file_state(entry: Option<&Entry>) -> Option<FileState> {
    match entry {
        Some(Entry::File { mode, size, sha256 }) => {
            Some(FileState { mode: *mode, size: *size, sha256: *sha256 })
        }
        _ => None,
    }
}

/// Of three values, the one that changed; `None` if both changed differently.
fn changed<T: PartialEq + Copy>(base: Option<T>, ours: T, theirs: T) -> Option<T> {
    if ours == theirs || base == Some(theirs) {
        Some(ours)
    } else if base == Some(ours) {
        Some(theirs)
    } else {
        None
    }
}

fn files(states: States, rules: Rules, contents: &dyn ContentStore) -> io::Result<Outcome> {
    let base = file_state(states.base);
    let (Some(ours), Some(theirs)) = (file_state(states.ours), file_state(states.theirs)) else {
        return Ok(Outcome::Clash(Clashed::of(ConflictKind::Type)));
    };
    let mode = changed(base.map(|state| state.mode), ours.mode, theirs.mode);
    let sha256 = changed(base.map(|state| state.sha256), ours.sha256, theirs.sha256);
    let mut is_favoured = false;
    let (sha256, size) = match sha256 {
        Some(sha256) if sha256 == ours.sha256 => (sha256, ours.size),
        Some(sha256) => (sha256, theirs.size),
        None => match file_contents(states, [base, Some(ours), Some(theirs)], rules, contents)? {
            Content::Merged(bytes) => (contents.keep(&bytes)?, bytes.len() as u64),
            Content::Favoured(bytes) => {
                is_favoured = true;
                (contents.keep(&bytes)?, bytes.len() as u64)
            }
            Content::Whole(Side::Ours) => {
                is_favoured = true;
                (ours.sha256, ours.size)
            }
            Content::Whole(Side::Theirs) => {
                is_favoured = true;
                (theirs.sha256, theirs.size)
            }
            Content::Clash(clashed) => return Ok(Outcome::Clash(clashed)),
        },
    };
    let mode = match (mode, rules.favour) {
        (Some(mode), _) => mode,
        (None, Some(side)) => {
            is_favoured = true;
            if side == Side::Ours { ours.mode } else { theirs.mode }
        }
        (None, None) => {
            let details = vec![format!("mode {:04o} against {:04o}", ours.mode, theirs.mode)];
            return Ok(Outcome::Clash(Clashed { details, ..Clashed::of(ConflictKind::Mode) }));
        }
    };
    let entry = Entry::File { mode, size, sha256 };
    Ok(match rules.favour {
        Some(side) if is_favoured => Outcome::Favoured(Some(entry), side),
        _ => Outcome::Combined(entry),
    })
}

enum Content {
    Merged(Vec<u8>),
    /// One side won some places of it.
    Favoured(Vec<u8>),
    /// One side won all of it.
    Whole(Side),
    Clash(Clashed),
}

fn file_contents(
    states: States,
    files: [Option<FileState>; 3],
    rules: Rules,
    contents: &dyn Contents,
) -> io::Result<Content> {
    let whole = |kind: ConflictKind| match rules.favour {
        Some(side) => Content::Whole(side),
        None => Content::Clash(Clashed::of(kind)),
    };
    if files.iter().flatten().any(|file| file.size > MERGED_BYTES_MAX) {
        return Ok(whole(ConflictKind::TooLarge));
    }
    let read = |file: Option<FileState>| file.map(|file| contents.read(&file.sha256)).transpose();
    let [base, ours, theirs] = files.map(read);
    let (base, ours, theirs) = (base?, ours?.unwrap_or_default(), theirs?.unwrap_or_default());
    if [base.as_ref(), Some(&ours), Some(&theirs)].into_iter().flatten().any(|text| is_binary(text)) {
        return Ok(whole(ConflictKind::Binary));
    }
    let lines = LineMerge::of(base.as_deref().unwrap_or_default(), &ours, &theirs);
    let structure = Structure { path: states.path, base: base.as_deref(), ours: &ours, theirs: &theirs };
    if let Some(clean) = lines.clean() {
        // Lines may merge well and leave half a sentence; where all sides are JSON, so is the result.
        let broken = rules.by_structure && structure.is_json() && Json::parse(&clean).is_err();
        if !broken {
            return Ok(Content::Merged(clean));
        }
    }
    let mut details = Vec::new();
    if rules.by_structure {
        match structure.merged(rules) {
            Some(Structured::Clean(bytes)) => return Ok(Content::Merged(bytes)),
            Some(Structured::Favoured(bytes)) => return Ok(Content::Favoured(bytes)),
            Some(Structured::Clash(told)) => details = told,
            None => {}
        }
    }
    if let Some(side) = rules.favour {
        return Ok(Content::Favoured(lines.favouring(side)));
    }
    Ok(Content::Clash(clash_of_lines(&lines, &structure, rules, details)))
}

fn clash_of_lines(lines: &LineMerge, texts: &Structure, rules: Rules, mut details: Vec<String>) -> Clashed {
    let name = texts.path.name();
    let mut class = if is_graph_name(name) { Class::Semantic } else { Class::File };
    if dependency::is_manifest_name(name) {
        let versions: Vec<String> = lines.clashes().flat_map(dependency::versions_that_differ).collect();
        if !versions.is_empty() {
            class = Class::Dependency;
            details.extend(versions);
        }
    }
    let starts: Vec<String> = lines.clashes().take(20).map(|clash| clash.base_line.to_string()).collect();
    if texts.base.is_some() && !starts.is_empty() {
        details.push(format!("clashes at lines of the base: {}", starts.join(", ")));
    }
    Clashed {
        class,
        kind: if texts.base.is_some() { ConflictKind::EditEdit } else { ConflictKind::AddAdd },
        preview: Some(lines.marked(rules.our_name, rules.their_name, PREVIEW_CONTEXT_LINES)),
        marked: Some(lines.marked(rules.our_name, rules.their_name, usize::MAX)),
        details,
    }
}

/// Three texts that may have a structure.
struct Structure<'a> {
    path: &'a TreePath,
    base: Option<&'a [u8]>,
    ours: &'a [u8],
    theirs: &'a [u8],
}

enum Structured {
    Clean(Vec<u8>),
    Favoured(Vec<u8>),
    Clash(Vec<String>),
}

impl Structure<'_> {
    fn is_json(&self) -> bool {
        let texts = [self.base, Some(self.ours), Some(self.theirs)];
        texts.into_iter().flatten().all(|text| Json::parse(text).is_ok())
    }

    /// `None` where the texts have no structure that is known.
    fn merged(&self, rules: Rules) -> Option<Structured> {
        if is_graph_name(self.path.name()) { self.by_node(rules) } else { self.by_key(rules) }
    }

    fn by_key(&self, rules: Rules) -> Option<Structured> {
        let base = self.base.map(Json::parse).transpose().ok()?;
        let (ours, theirs) = (Json::parse(self.ours).ok()?, Json::parse(self.theirs).ok()?);
        let merged = KeyMerge::of(base.as_ref(), &ours, &theirs, rules.favour.unwrap_or(Side::Ours));
        let bytes = Style::of(self.ours).write(&merged.json);
        Some(match (merged.clashes.is_empty(), rules.favour) {
            (true, _) => Structured::Clean(bytes),
            (false, Some(_)) => Structured::Favoured(bytes),
            (false, None) => {
                Structured::Clash(merged.clashes.into_iter().map(|at| format!("clashes at {at}")).collect())
            }
        })
    }

    fn by_node(&self, rules: Rules) -> Option<Structured> {
        let base = self.base.map(Graph::parse).transpose().ok()?;
        let side = |who: &str, text: &[u8]| -> Option<unite::Side> {
            Some(unite::Side { who: who.to_owned(), base: base.clone(), graph: Graph::parse(text).ok()? })
        };
        let sides = [side("ours", self.ours)?, side("theirs", self.theirs)?];
        let united = unite(&sides, &|clash| {
            let winner = match rules.favour? {
                Side::Ours => "ours",
                Side::Theirs => "theirs",
            };
            let (_, value) = clash.values.iter().find(|(who, _)| who == winner)?;
            Some(Decided { value: value.clone(), winner: None, strategy: "priority" })
        });
        if !united.open.is_empty() {
            let told = united.open.iter().map(|clash| format!("{} of {}", clash.attribute, clash.node_id));
            return Some(Structured::Clash(told.collect()));
        }
        let mut graph = united.graph;
        // One file stays one agent's paper: its provenance is ours, which has the earlier author.
        let provenance = sides[0].graph.metadata.iter();
        let known: Vec<String> = graph.metadata.iter().map(|(name, _)| name.clone()).collect();
        let missing = provenance.filter(|(name, _)| !known.contains(name)).cloned();
        graph.metadata = missing.chain(graph.metadata.clone()).collect();
        let bytes = Style::of(self.ours).write(&graph.to_json());
        let is_favoured = !united.settled.is_empty();
        Some(if is_favoured { Structured::Favoured(bytes) } else { Structured::Clean(bytes) })
    }
}
