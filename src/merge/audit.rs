//! The second look at a merge: holds receipt and tree against what agents brought, with none of the code that
//! merges. Only what passes here can be published. Of a merged file it checks that it stands and whose it is; what
//! is inside, it does not read.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::identity;
use super::contribution::Contribution;
use super::receipt::{Fate, Line, PERHAPS_NEVER_COPIED, PERSON, Receipt};
use crate::model::inspected::Change;
use crate::model::tree::{Entry, Manifest, TreePath};

/// A receipt that was found true. There is no other way to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    receipt: Receipt,
}

impl Audited {
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// Checks that every change is accounted for exactly once and that the tree holds what the receipt says, no
/// more and no less. Failures are for people, all at once.
pub fn audit(
    contributions: &[Contribution],
    tree: &Manifest,
    receipt: Receipt,
) -> Result<Audited, Vec<String>> {
    let mut wrong = Vec::new();
    let mut lines: BTreeMap<(&str, &TreePath), Vec<&Line>> = BTreeMap::new();
    let mut at_place: BTreeMap<&TreePath, Vec<&Line>> = BTreeMap::new();
    for line in &receipt.lines {
        lines.entry((&line.agent, &line.path)).or_default().push(line);
        // Whoever lacks something has no part in what stands there.
        if !tells_absence(line) {
            at_place.entry(&line.place).or_default().push(line);
        }
    }
    let made: BTreeSet<&TreePath> = receipt.made.iter().map(|made| &made.path).collect();
    for contribution in contributions {
        let who = contribution.who.as_str();
        for path in &contribution.lacks {
            let told = lines.remove(&(who, path)).unwrap_or_default();
            if told.len() != 1 || !told.iter().all(|line| tells_absence(line)) {
                wrong.push(format!("{path}, which the copy of {who} lacks, has no line that says so"));
            }
            let is_right = |line: &&Line| line.digest == tree.get(&line.place).and_then(identity);
            if !told.iter().all(is_right) {
                wrong.push(format!("{path} of {who}: the tree has another content there"));
            }
        }
        for change in &contribution.changes {
            let of = format!("{} of {}", change.path, contribution.who);
            match lines.remove(&(contribution.who.as_str(), &change.path)).unwrap_or_default()[..] {
                [] => wrong.push(format!("{of} has no line")),
                [line] => {
                    let found = line_defect(line, change, tree, &at_place, &made);
                    wrong.extend(found.map(|why| format!("{of}: {why}")));
                }
                _ => wrong.push(format!("{of} has more than one line")),
            }
        }
    }
    for (agent, path) in lines.into_keys() {
        wrong.push(format!("a line tells of {path} of {agent}, which is no change"));
    }
    wrong.extend(tree_defects(tree, &receipt, &at_place, &made));
    if wrong.is_empty() { Ok(Audited { receipt }) } else { Err(wrong) }
}

/// Whether a line is about something that a copy lacks.
fn tells_absence(line: &Line) -> bool {
    line.fate == Fate::Dropped { rule: PERHAPS_NEVER_COPIED }
}

/// Whether a fate puts something where the line says.
fn stands(fate: &Fate) -> bool {
    matches!(fate, Fate::Kept | Fate::Merged { .. })
}

fn line_defect(
    line: &Line,
    change: &Change,
    tree: &Manifest,
    at_place: &BTreeMap<&TreePath, Vec<&Line>>,
    made: &BTreeSet<&TreePath>,
) -> Option<String> {
    let entry = tree.get(&line.place);
    let others = at_place.get(&line.place).map(Vec::as_slice).unwrap_or_default();
    let is_there = |agent: &str| others.iter().any(|other| other.agent == agent && other.agent != line.agent);
    if line.digest != entry.and_then(identity) {
        return Some(format!("the tree has another content at {}", line.place));
    }
    // A file that is gone may have left its name to a directory that holds what others brought.
    let is_parent_now = matches!(entry, Some(Entry::Directory { .. })) && made.contains(&line.place);
    match &line.fate {
        Fate::Kept if change.theirs.is_none() && is_parent_now => None,
        Fate::Kept if entry != change.theirs.as_ref() => {
            Some(format!("it is told as kept, and {} is not what the agent made", line.place))
        }
        Fate::Kept => None,
        Fate::Merged { .. } if entry.is_none() => {
            Some(format!("it is told as merged, and nothing stands at {}", line.place))
        }
        Fate::Merged { with } if with.is_empty() && !made.contains(&line.place) => {
            Some("it is told as merged with nobody".to_owned())
        }
        Fate::Merged { with } => {
            let is_given = |agent: &str| agent == PERSON && made.contains(&line.place);
            let stranger = with.iter().find(|agent| !is_there(agent) && !is_given(agent));
            stranger.map(|agent| format!("it is told as merged with {agent}, who brought nothing there"))
        }
        Fate::Superseded { by, .. } if by == PERSON => None,
        Fate::Superseded { by, .. } => {
            let ends_well = leads_to_something(line, at_place, tree, &mut BTreeSet::new());
            let is_made = is_there(by) && made.contains(&line.place);
            (!ends_well && !is_made)
                .then(|| format!("it is told as superseded by {by}, whose version does not stand"))
        }
        Fate::Dropped { rule } => rule.is_empty().then(|| "it was dropped by no rule".to_owned()),
        Fate::Escalated { conflict } => Some(format!("it waits for conflict {conflict}")),
    }
}

type AtPlace<'a> = BTreeMap<&'a TreePath, Vec<&'a Line>>;

/// Whether the chain of those who superseded each other ends with one whose change stands, or with a person.
fn leads_to_something<'a>(
    line: &'a Line,
    at_place: &AtPlace<'a>,
    tree: &Manifest,
    seen: &mut BTreeSet<(&'a str, &'a TreePath)>,
) -> bool {
    if !seen.insert((&line.agent, &line.path)) {
        return false;
    }
    match &line.fate {
        Fate::Superseded { by, .. } if by == PERSON => true,
        Fate::Superseded { by, .. } => {
            let here = at_place.get(&line.place).into_iter().flatten().copied();
            let mut here = here.filter(|other| other.agent == *by && other.agent != line.agent);
            here.any(|next| leads_to_something(next, at_place, tree, seen))
                || excluding(by, &line.place, at_place, tree)
                    .into_iter()
                    .any(|next| leads_to_something(next, at_place, tree, seen))
        }
        // A rule or a person took away what had taken the place.
        Fate::Dropped { .. } => true,
        fate => stands(fate),
    }
}

/// What an agent has, or had until something else took its place, above or below a place where it leaves no room
/// for another kind of thing: a file where a directory would be needed, or something inside.
fn excluding<'a>(by: &str, place: &TreePath, at_place: &AtPlace<'a>, tree: &Manifest) -> Vec<&'a Line> {
    let mut found: Vec<&Line> = Vec::new();
    let mut above = place.parent();
    while let Some(parent) = above {
        let leaves_room = matches!(tree.get(&parent), None | Some(Entry::Directory { .. }));
        let lines = at_place.get(&parent).into_iter().flatten();
        found.extend(lines.filter(|line| !(leaves_room && stands(&line.fate))));
        above = parent.parent();
    }
    let after = at_place.range::<&TreePath, _>(place..).skip(1);
    let near = after.take_while(|(path, _)| path.as_bytes().starts_with(place.as_bytes()));
    for (path, lines) in near.filter(|(path, _)| path.is_below(place)) {
        let is_gone = !tree.contains_key(*path);
        found.extend(lines.iter().filter(|line| !(is_gone && stands(&line.fate))));
    }
    found.retain(|line| line.agent == by);
    found
}

fn tree_defects(
    tree: &Manifest,
    receipt: &Receipt,
    at_place: &BTreeMap<&TreePath, Vec<&Line>>,
    made: &BTreeSet<&TreePath>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, entry) in tree {
        let mut lines = at_place.get(path).into_iter().flatten();
        if !made.contains(path) && !lines.any(|line| stands(&line.fate)) {
            wrong.push(format!("{path} stands in the tree, and nobody brought it"));
        }
        if let Some(parent) = path.parent()
            && !matches!(tree.get(&parent), Some(Entry::Directory { .. }))
        {
            wrong.push(format!("{path} stands in the tree, and nothing holds it"));
        }
        if let Entry::File { mode, .. } | Entry::Directory { mode } = entry
            && mode & !0o777 != 0
        {
            wrong.push(format!("{path} has more than permission bits in its mode"));
        }
    }
    for made in &receipt.made {
        match tree.get(&made.path) {
            None => wrong.push(format!("{} is told as made, and is not there", made.path)),
            Some(entry) if identity(entry) != made.digest => {
                wrong.push(format!("{} is told as made with another content", made.path));
            }
            Some(_) => {}
        }
    }
    let totals = super::receipt::totals(&receipt.lines);
    if totals != receipt.totals {
        wrong.push("the totals are not those of the lines".to_owned());
    }
    wrong
}
