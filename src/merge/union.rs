//! `ctxpack_union`: takes the graphs out of what agents changed and unites them to one file. Policy for
//! clashes between graphs is applied here; how graphs unite is `unite`'s matter.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::conflict::{Clashing, Class, Conflict, ConflictKind, graph_record};
use super::fold::{Step, Terms, escalated, versions};
use super::graph::{Graph, is_graph_name};
use super::json::{Json, Style};
use super::receipt::{Because, Fate, PERSON};
use super::rename::Places;
use super::settle::RESOLVED_TO_DELETION;
use super::strategy::Occasion;
use super::unite::{ClashKind, Decided, GraphClash, Side, United, unite};
use crate::model::handoff::{Choice, Choices, MergeKind};
use crate::model::tree::{Digest, Entry, TreePath};
use crate::work_tree::Contents;

/// The united graph's place in the merged tree.
pub const INTEGRATED: &str = "integrated.ctxp";
const FORMAT: &str = "ctxp-graph/1";
const FORMAT_VERSION: &str = "1.0";
const INTEGRATED_MODE: u32 = 0o644;
/// A rule: somebody else still writes the graph that an agent deleted.
const GRAPH_STAYS: &str = "graph_is_still_written";

/// A step with what became of it.
#[derive(Debug)]
pub struct Ended {
    pub step: Step,
    pub fate: Fate,
    pub notes: Vec<String>,
    /// Whether it went into the united graph; else it stays at its own path, where nothing stands.
    pub is_united: bool,
}

#[derive(Debug, Default)]
pub struct Union {
    pub entry: Option<Entry>,
    pub ended: Vec<Ended>,
    pub conflicts: Vec<Conflict>,
    pub settled: usize,
    /// Graphs that a person gave instead of files that are none, by the step that brought the file.
    pub given: BTreeMap<(usize, TreePath), Digest>,
    /// Ids of resolutions that were of use.
    pub used: BTreeSet<String>,
    /// Choices that make no sense, for people.
    pub refused: Vec<String>,
    pub notes: Vec<String>,
}

/// Takes the changes to graphs out of the rest.
pub fn take_graphs(places: &mut Places) -> Vec<Step> {
    let is_file = |entry: &Option<Entry>| matches!(entry, None | Some(Entry::File { .. }));
    let is_union = |path: &TreePath, steps: &[Step]| {
        path.as_bytes() == INTEGRATED.as_bytes()
            || is_graph_name(path.name())
                && steps.iter().all(|step| is_file(&step.base) && is_file(&step.theirs))
    };
    let paths: Vec<TreePath> =
        places.iter().filter(|(path, steps)| is_union(path, steps)).map(|(path, _)| path.clone()).collect();
    let mut steps: Vec<Step> = paths.iter().filter_map(|path| places.remove(path)).flatten().collect();
    steps.sort_by(|a, b| (a.turn, &a.path).cmp(&(b.turn, &b.path)));
    steps
}

pub fn of(steps: Vec<Step>, terms: &Terms, resolutions: &Choices, occasion: &Occasion) -> io::Result<Union> {
    let mut union = Union::default();
    let steps = set_deletions_apart(steps, terms, &mut union);
    let (steps, sides) = read_sides(steps, terms, resolutions, &mut union)?;
    let policy = Policy { terms, resolutions, state: RefCell::default() };
    let united = unite(&sides, &|clash| policy.decide(clash));
    let state = policy.state.into_inner();
    union.used.extend(state.used);
    union.refused.extend(state.refused);
    union.settled += united.settled.len();
    if !sides.is_empty() {
        let counted = Counted { open: union.conflicts.len() + united.open.len(), settled: union.settled };
        let bytes = integrated(&united, &sides, counted, occasion);
        let sha256 = terms.contents.keep(&bytes)?;
        union.entry = Some(Entry::File { mode: INTEGRATED_MODE, size: bytes.len() as u64, sha256 });
    }
    // What clashes is known once every graph is: a file that is none may yet be replaced by one.
    if union.conflicts.is_empty() {
        union.conflicts.extend(united.open.iter().map(conflict_of));
    }
    union.notes.extend(united.notes.iter().map(|note| format!("{INTEGRATED}: {note}")));
    let fates: Vec<Fate> = steps.iter().map(|step| fate_in_union(step, &steps, &union.given)).collect();
    for (step, fate) in steps.into_iter().zip(fates) {
        let notes = lost_by(&step.who, &united);
        union.ended.push(Ended { step, fate, notes, is_united: true });
    }
    if let Some(first) = union.conflicts.first() {
        for ended in &mut union.ended {
            ended.fate = escalated(&ended.fate, &first.id);
        }
    }
    Ok(union)
}

/// What became of a file whose graph is among the united ones: its own, or a person's in its place.
fn fate_in_union(step: &Step, steps: &[Step], given: &BTreeMap<(usize, TreePath), Digest>) -> Fate {
    let is_given = |step: &Step| given.contains_key(&(step.turn, step.path.clone()));
    if is_given(step) {
        return Fate::Superseded { by: PERSON.to_owned(), because: Because::Resolution };
    }
    let name = |other: &Step| if is_given(other) { PERSON.to_owned() } else { other.who.clone() };
    let mut with: Vec<String> = steps.iter().map(name).filter(|who| *who != step.who).collect();
    with.dedup();
    Fate::Merged { with }
}

/// A deletion ends what its agent had seen of the graph; a graph that others write on stays.
fn set_deletions_apart(steps: Vec<Step>, terms: &Terms, union: &mut Union) -> Vec<Step> {
    let (deletions, mut writing): (Vec<Step>, Vec<Step>) =
        steps.into_iter().partition(|step| step.theirs.is_none());
    for deletion in deletions {
        let is_ended = |step: &Step| {
            let has_seen = terms.ancestry.has_seen(&deletion.who, &step.who);
            step.path == deletion.path
                && step.turn < deletion.turn
                && (has_seen || deletion.base == step.theirs)
        };
        let (ended, left): (Vec<Step>, Vec<Step>) = writing.into_iter().partition(is_ended);
        writing = left;
        for step in ended {
            let fate = Fate::Superseded { by: deletion.who.clone(), because: Because::BeganFromIt };
            union.ended.push(Ended { step, fate, notes: Vec::new(), is_united: false });
        }
        let is_integrated = deletion.path.as_bytes() == INTEGRATED.as_bytes();
        let stays = writing.iter().any(|step| is_integrated || step.path == deletion.path);
        let fate = if stays { Fate::Dropped { rule: GRAPH_STAYS } } else { Fate::Kept };
        union.ended.push(Ended { step: deletion, fate, notes: Vec::new(), is_united: false });
    }
    writing
}

fn read_sides(
    steps: Vec<Step>,
    terms: &Terms,
    resolutions: &Choices,
    union: &mut Union,
) -> io::Result<(Vec<Step>, Vec<Side>)> {
    let mut sides: Vec<Side> = Vec::new();
    let mut read: Vec<Step> = Vec::new();
    for step in steps {
        let graph = match parse(step.theirs.as_ref(), terms.contents)? {
            Ok(graph) => Some(graph),
            Err(wrong) => instead(&step, wrong, terms.contents, resolutions, union)?,
        };
        let Some(graph) = graph else { continue };
        let base = match &step.base {
            Some(_) => parse(step.base.as_ref(), terms.contents)?.ok(),
            None => seen_base(&step, &read, &sides, terms),
        };
        sides.push(Side { who: step.who.clone(), base, graph });
        read.push(step);
    }
    Ok((read, sides))
}

fn parse(entry: Option<&Entry>, contents: &dyn Contents) -> io::Result<Result<Graph, Vec<String>>> {
    match entry {
        Some(Entry::File { sha256, .. }) => Ok(Graph::parse(&contents.read(sha256)?)),
        _ => Ok(Err(vec!["no regular file".to_owned()])),
    }
}

/// What a person put in the place of a file that is no graph. `None`: it stays out, and its fate is told.
fn instead(
    step: &Step,
    wrong: Vec<String>,
    contents: &dyn Contents,
    resolutions: &Choices,
    union: &mut Union,
) -> io::Result<Option<Graph>> {
    let conflict = not_a_graph(step, wrong);
    let mut fate = Fate::Escalated { conflict: conflict.id.clone() };
    let refused = match resolutions.get(&conflict.id) {
        None => {
            union.conflicts.push(conflict);
            union.ended.push(Ended { step: step.clone(), fate, notes: Vec::new(), is_united: false });
            return Ok(None);
        }
        Some(Choice::Content(digest)) => match Graph::parse(&contents.read(digest)?) {
            Ok(graph) => {
                union.given.insert((step.turn, step.path.clone()), *digest);
                union.used.insert(conflict.id);
                union.settled += 1;
                return Ok(Some(graph));
            }
            Err(wrong) => Some(format!("the given file is no graph: {}", wrong.join("; "))),
        },
        Some(Choice::Delete) => {
            fate = Fate::Dropped { rule: RESOLVED_TO_DELETION };
            union.settled += 1;
            None
        }
        Some(other) => Some(format!("{:?} is not offered", other.word())),
    };
    union.refused.extend(refused.map(|why| format!("{}: {why}", conflict.id)));
    union.used.insert(conflict.id);
    union.ended.push(Ended { step: step.clone(), fate, notes: Vec::new(), is_united: false });
    Ok(None)
}

/// Where nothing is told of a base, an agent began from what those made that it had seen.
fn seen_base(step: &Step, read: &[Step], sides: &[Side], terms: &Terms) -> Option<Graph> {
    let each = read.iter().zip(sides);
    let seen: Vec<Side> = each
        .filter(|(earlier, _)| earlier.path == step.path && terms.ancestry.has_seen(&step.who, &earlier.who))
        .map(|(_, side)| Side { who: side.who.clone(), base: side.base.clone(), graph: side.graph.clone() })
        .collect();
    (!seen.is_empty()).then(|| unite(&seen, &|_| None).graph)
}

/// How clashes between graphs end: by a person's word, else by priority, else not.
struct Policy<'a> {
    terms: &'a Terms<'a>,
    resolutions: &'a Choices,
    state: RefCell<PolicyState>,
}

#[derive(Default)]
struct PolicyState {
    used: BTreeSet<String>,
    refused: Vec<String>,
}

impl Policy<'_> {
    fn decide(&self, clash: &GraphClash) -> Option<Decided> {
        let conflict = conflict_of(clash);
        let Some(resolution) = self.resolutions.get(&conflict.id) else { return self.by_priority(clash) };
        let mut state = self.state.borrow_mut();
        state.used.insert(conflict.id.clone());
        match self.by_person(clash, resolution) {
            Ok(decided) => Some(decided),
            Err(why) => {
                state.refused.push(format!("{}: {why}", conflict.id));
                None
            }
        }
    }

    fn by_person(&self, clash: &GraphClash, resolution: &Choice) -> Result<Decided, String> {
        let decided =
            |value: Option<Json>, winner: Option<String>| Decided { value, winner, strategy: "manual" };
        match resolution {
            Choice::Take(agent) => match clash.values.iter().find(|(who, _)| who == agent) {
                Some((who, value)) => Ok(decided(value.clone(), Some(who.clone()))),
                None => Err(format!("{agent:?} says nothing there")),
            },
            Choice::Base => Ok(decided(clash.base.clone(), None)),
            Choice::Delete => Ok(decided(None, None)),
            Choice::Content(digest) => {
                let text = self.terms.contents.read(digest).map_err(|error| error.to_string())?;
                Ok(decided(Some(Json::parse(&text)?), None))
            }
            Choice::Ours => Err("`ours` is not offered; name an agent".to_owned()),
        }
    }

    fn by_priority(&self, clash: &GraphClash) -> Option<Decided> {
        let strategy = self.terms.strategy;
        if !strategy.is_auto() {
            return None;
        }
        let place = |who: &String| strategy.priority.iter().position(|listed| listed == who);
        let placed: Option<Vec<_>> =
            clash.values.iter().map(|(who, value)| Some((place(who)?, who, value))).collect();
        let (_, who, value) = placed?.into_iter().min_by_key(|(place, _, _)| *place)?;
        Some(Decided { value: value.clone(), winner: Some(who.clone()), strategy: "priority" })
    }
}

fn integrated_path() -> TreePath {
    TreePath::parse(INTEGRATED).expect("a plain name is a path")
}

fn conflict_of(clash: &GraphClash) -> Conflict {
    let (class, kind) = match clash.kind {
        ClashKind::Attribute => (Class::Semantic, ConflictKind::Attribute),
        ClashKind::Node => (Class::Semantic, ConflictKind::NodeRemoved),
        ClashKind::Schema => (Class::Schema, ConflictKind::SchemaMismatch),
    };
    let mut agents: Vec<String> = clash.values.iter().map(|(who, _)| who.clone()).collect();
    agents.dedup();
    Conflict::of(Clashing {
        class,
        kind,
        path: integrated_path(),
        agents,
        base: None,
        ours: None,
        theirs: None,
        versions: Vec::new(),
        graph: Some(graph_record(kind, clash)),
        preview: None,
        marked: None,
        details: Vec::new(),
    })
}

fn not_a_graph(step: &Step, wrong: Vec<String>) -> Conflict {
    Conflict::of(Clashing {
        class: Class::Schema,
        kind: ConflictKind::NotAGraph,
        path: step.path.clone(),
        agents: vec![step.who.clone()],
        base: step.base.clone(),
        ours: None,
        theirs: step.theirs.clone(),
        versions: versions([step]),
        graph: None,
        preview: None,
        marked: None,
        details: wrong,
    })
}

/// What an agent said and another's word took the place of.
fn lost_by(who: &str, united: &United) -> Vec<String> {
    let lost = united.settled.iter().filter(|(clash, decided)| {
        let mut own = clash.values.iter().filter(|(said_by, _)| said_by == who);
        own.any(|(_, value)| *value != decided.value)
    });
    let told = lost.map(|(clash, decided)| {
        let by = decided.winner.as_deref().unwrap_or(PERSON);
        format!("{} of {}: superseded by {by} ({})", clash.attribute, clash.node_id, decided.strategy)
    });
    told.collect()
}

/// Conflicts between graphs and about files that are none.
struct Counted {
    open: usize,
    settled: usize,
}

fn integrated(united: &United, sides: &[Side], counted: Counted, occasion: &Occasion) -> Vec<u8> {
    let mut agents: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, side) in sides.iter().enumerate() {
        agents.entry(&side.who).or_insert(index);
    }
    let mut agents: Vec<(&str, usize)> = agents.into_iter().collect();
    agents.sort_by_key(|(_, index)| *index);
    let merged_from = agents.iter().map(|(who, _)| Json::text(who)).collect();
    let own = [
        ("agent", Json::text("watchkeeper")),
        ("timestamp", Json::text(&occasion.at)),
        ("version", Json::text(FORMAT_VERSION)),
        ("format", Json::text(FORMAT)),
        ("merged_from", Json::Array(merged_from)),
        ("merge_strategy", Json::text(MergeKind::CtxpackUnion.word())),
        ("conflicts_detected", Json::number(counted.open + counted.settled)),
        ("conflicts_resolved", Json::number(counted.settled)),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut graph = united.graph.clone();
    graph.metadata = own.chain(graph.metadata).collect();
    Style::ours().write(&graph.to_json())
}
