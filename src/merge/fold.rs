//! Folds the changes of all agents at one path, in topological order, to one state. Each change ends with a
//! fate. What does not fit is set aside, the rest merges on, and the whole is one conflict for a person.

use std::collections::BTreeSet;
use std::io;

use super::conflict::{Clashing, Class, Conflict, ConflictKind, Version};
use super::contents::ContentStore;
use super::contribution::{Ancestry, Beside};
use super::lines::Side;
use super::receipt::{Because, Fate, PERSON};
use super::three_way::{Clashed, Outcome, Rules, States, three_way};
use crate::model::handoff::MergeStrategy;
use crate::model::tree::{Digest, Entry, TreePath};

const NO_CHANGE: &str = "no_change";

/// One agent's change on its way to a place in the merged tree.
#[derive(Debug, Clone)]
pub struct Step {
    /// The agent's number in topological order.
    pub turn: usize,
    pub who: String,
    /// Where the agent made it; another path than the place if somebody renamed the file meanwhile.
    pub path: TreePath,
    pub base: Option<Entry>,
    pub theirs: Option<Entry>,
    pub renamed_from: Option<TreePath>,
    /// Whether the base was taken from the path before the rename.
    pub carries_rename: bool,
    /// Whether the agent brings it as it found it.
    pub is_untouched: bool,
    /// What is known of it where others worked in the same file at the same time.
    pub beside: Option<Beside>,
}

/// What the folds of all paths share.
pub struct Terms<'a> {
    pub strategy: &'a MergeStrategy,
    pub ancestry: &'a Ancestry,
    pub contents: &'a dyn ContentStore,
}

/// One place of the merged tree, and what became of every change to it.
#[derive(Debug)]
pub struct Place {
    pub path: TreePath,
    pub entry: Option<Entry>,
    pub steps: Vec<Step>,
    /// One for each step.
    pub fates: Vec<Fate>,
    pub notes: Vec<Vec<String>>,
    pub conflict: Option<Conflict>,
    /// What a person can choose of an open conflict besides versions: the state before it, …
    pub(super) base: Option<Entry>,
    /// … and what became of every change if the entry as it is now stands.
    pub(super) if_ours: Vec<Fate>,
    /// What made the entry, if no agent did.
    pub made_by: Option<&'static str>,
    /// Clashes that priority or a person settled.
    pub settled: usize,
}

/// Where a step stands while the fold goes on.
#[derive(Debug, Clone)]
enum Standing {
    Author,
    Aside,
    Ended(Fate),
}

struct Fold<'a> {
    terms: &'a Terms<'a>,
    path: &'a TreePath,
    steps: &'a [Step],
    /// The agent that a person gave the word.
    chosen: Option<&'a str>,
    ours: Option<Entry>,
    standing: Vec<Standing>,
    notes: Vec<Vec<String>>,
    /// The first clash, its step, and the state from which that step began.
    clash: Option<(usize, Option<Entry>, Clashed)>,
    settled: usize,
}

/// Folds; an open conflict stays in the place until `resolve` settles it.
pub fn fold(path: TreePath, steps: Vec<Step>, terms: &Terms) -> io::Result<Place> {
    let mut fold = run(&path, &steps, terms, None)?;
    let if_ours = fold.fates();
    let clash = fold.clash.take().or_else(|| fold.side_by_side());
    let base = clash.as_ref().and_then(|(_, base, _)| base.clone());
    let conflict = clash.map(|(at, base, clashed)| fold.conflict(at, base, clashed));
    let fates: Vec<Fate> = match &conflict {
        Some(conflict) => if_ours.iter().map(|fate| escalated(fate, &conflict.id)).collect(),
        None => if_ours.clone(),
    };
    let has_author = fates.iter().any(|fate| !matches!(fate, Fate::Dropped { .. }));
    let entry = if has_author { fold.ours } else { None };
    let (notes, settled) = (fold.notes, fold.settled);
    Ok(Place { path, entry, steps, fates, notes, conflict, base, if_ours, made_by: None, settled })
}

/// What the changes come to where a person gave this agent the word: it wins what clashes, and what does not clash is
/// kept of all. `None` where others still contradict each other.
pub(super) fn favouring(
    path: &TreePath,
    steps: &[Step],
    terms: &Terms,
    agent: &str,
) -> io::Result<Option<Favouring>> {
    let fold = run(path, steps, terms, Some(agent))?;
    let is_settled = fold.clash.is_none();
    Ok(is_settled.then(|| Favouring { fates: fold.fates(), entry: fold.ours, notes: fold.notes }))
}

pub(super) struct Favouring {
    pub(super) entry: Option<Entry>,
    pub(super) fates: Vec<Fate>,
    pub(super) notes: Vec<Vec<String>>,
}

fn run<'a>(
    path: &'a TreePath,
    steps: &'a [Step],
    terms: &'a Terms,
    chosen: Option<&'a str>,
) -> io::Result<Fold<'a>> {
    let mut fold = Fold {
        terms,
        path,
        steps,
        chosen,
        ours: None,
        standing: Vec::new(),
        notes: vec![Vec::new(); steps.len()],
        clash: None,
        settled: 0,
    };
    for at in 0..steps.len() {
        fold.take(at)?;
    }
    Ok(fold)
}

impl Fold<'_> {
    fn take(&mut self, at: usize) -> io::Result<()> {
        let step = &self.steps[at];
        let base = self.base_of(at)?;
        // As long as nobody changed anything, the state is what the next agent found.
        let nobody =
            self.standing.iter().all(|standing| matches!(standing, Standing::Ended(Fate::Dropped { .. })));
        if nobody {
            self.ours.clone_from(&base);
        }
        let states = States {
            path: self.path,
            base: base.as_ref(),
            ours: self.ours.as_ref(),
            theirs: step.theirs.as_ref(),
        };
        // Whoever built upon a version that is in question is in question too.
        if self.ours != step.theirs && self.has_seen_aside(&step.who) {
            self.standing.push(Standing::Aside);
            return Ok(());
        }
        let authors = self.authors();
        let rules = Rules {
            by_structure: self.terms.strategy.is_auto() || self.chosen.is_some(),
            favour: self.favour(&authors, &step.who),
            our_name: &authors.join("+"),
            their_name: &step.who,
        };
        let standing = match three_way(states, rules, self.terms.contents)? {
            Outcome::Unchanged if step.carries_rename => Standing::Author,
            Outcome::Unchanged => Standing::Ended(Fate::Dropped { rule: NO_CHANGE }),
            Outcome::Same => Standing::Author,
            Outcome::Taken => {
                self.end_authors(&step.who, Because::BeganFromIt);
                self.ours.clone_from(&step.theirs);
                Standing::Author
            }
            Outcome::Combined(entry) => {
                self.ours = Some(entry);
                Standing::Author
            }
            Outcome::Favoured(entry, winner) => self.favoured(at, entry, winner, &authors),
            Outcome::Yielded(rule) => Standing::Ended(Fate::Dropped { rule }),
            Outcome::Clash(clashed) => {
                if self.clash.is_none() {
                    self.clash = Some((at, base, clashed));
                }
                Standing::Aside
            }
        };
        self.standing.push(standing);
        Ok(())
    }

    /// What stood there when the agent began. Where nothing is told of that and agents that it had seen
    /// wrote the path, it began from what they made of it together.
    fn base_of(&self, at: usize) -> io::Result<Option<Entry>> {
        let step = &self.steps[at];
        if step.base.is_some() {
            return Ok(step.base.clone());
        }
        let earlier = self.steps[..at].iter();
        let seen: Vec<Step> = earlier
            .filter(|earlier| self.terms.ancestry.has_seen(&step.who, &earlier.who))
            .cloned()
            .collect();
        if seen.is_empty() {
            return Ok(None);
        }
        Ok(run(self.path, &seen, self.terms, self.chosen)?.ours)
    }

    fn authors(&self) -> Vec<String> {
        let each = self.standing.iter().zip(self.steps);
        each.filter(|(standing, _)| matches!(standing, Standing::Author))
            .map(|(_, step)| step.who.clone())
            .collect()
    }

    fn has_seen_aside(&self, who: &str) -> bool {
        let mut each = self.standing.iter().zip(self.steps);
        each.any(|(standing, step)| {
            matches!(standing, Standing::Aside) && self.terms.ancestry.has_seen(who, &step.who)
        })
    }

    fn favour(&self, authors: &[String], who: &str) -> Option<Side> {
        if let Some(chosen) = self.chosen {
            let is_ours = authors.iter().any(|author| author == chosen);
            return if who == chosen { Some(Side::Theirs) } else { is_ours.then_some(Side::Ours) };
        }
        let first_wins = self.terms.strategy.first_wins(authors, &[who.to_owned()])?;
        Some(if first_wins { Side::Ours } else { Side::Theirs })
    }

    fn end_authors(&mut self, by: &str, because: Because) {
        for (standing, step) in self.standing.iter_mut().zip(self.steps) {
            // Whoever renamed the file changed its name alone, and that stands whatever others write in it.
            let stays = step.carries_rename && because == Because::BeganFromIt;
            if matches!(standing, Standing::Author) && !stays {
                *standing = Standing::Ended(Fate::Superseded { by: by.to_owned(), because });
            }
        }
    }

    fn favoured(&mut self, at: usize, entry: Option<Entry>, winner: Side, authors: &[String]) -> Standing {
        let step = &self.steps[at];
        let note = "what did not clash was kept".to_owned();
        let because = if self.chosen.is_some() { Because::Resolution } else { Because::Priority };
        self.settled += 1;
        let is_whole = match winner {
            Side::Ours => entry == self.ours,
            Side::Theirs => entry == step.theirs,
        };
        self.ours = entry;
        match winner {
            Side::Ours => {
                if !is_whole {
                    self.notes[at].push(note);
                }
                let by = self.chosen.map(str::to_owned).or_else(|| authors.last().cloned());
                Standing::Ended(Fate::Superseded { by: by.unwrap_or_default(), because })
            }
            Side::Theirs => {
                for (index, standing) in self.standing.iter().enumerate() {
                    if !is_whole && matches!(standing, Standing::Author) {
                        self.notes[index].push(note.clone());
                    }
                }
                self.end_authors(&step.who, because);
                Standing::Author
            }
        }
    }

    /// Fates as they are if our state stands: what was set aside gave way to it.
    fn fates(&self) -> Vec<Fate> {
        let authors = self.authors();
        let is_in = |standing: &Standing| {
            !matches!(standing, Standing::Aside | Standing::Ended(Fate::Dropped { .. }))
        };
        let others = |who: &str| -> Vec<String> {
            let each = self.standing.iter().zip(self.steps);
            let inside = each.filter(|(standing, step)| is_in(standing) && step.who != who);
            inside.map(|(_, step)| step.who.clone()).collect()
        };
        let fate = |(standing, step): (&Standing, &Step)| match standing {
            Standing::Ended(fate) => fate.clone(),
            // That this is what the agent itself wrote, nobody knows.
            Standing::Author if step.beside.is_some() && !others(&step.who).is_empty() => {
                Fate::Merged { with: others(&step.who) }
            }
            Standing::Author | Standing::Aside if step.theirs == self.ours => Fate::Kept,
            Standing::Author => Fate::Merged { with: others(&step.who) },
            Standing::Aside => taken(authors.last().map_or(PERSON, String::as_str)),
        };
        self.standing.iter().zip(self.steps).map(fate).collect()
    }

    /// Several agents wrote the file at the same time, and nothing shows what each of them wrote: that the last state
    /// is one for all of them proves nothing.
    fn side_by_side(&self) -> Option<(usize, Option<Entry>, Clashed)> {
        let each = self.standing.iter().zip(self.steps).enumerate();
        let wrote = each.filter(|(_, (standing, step))| {
            matches!(standing, Standing::Author) && step.beside == Some(Beside::Several)
        });
        let wrote: Vec<usize> = wrote.map(|(at, _)| at).collect();
        let last = *wrote.last().filter(|_| wrote.len() > 1)?;
        let told =
            "written by each of them at the same time, in one directory: what one of them wrote may be gone";
        let clashed = Clashed {
            class: Class::File,
            kind: ConflictKind::SideBySide,
            preview: None,
            marked: None,
            details: vec![told.to_owned()],
        };
        Some((last, self.steps[last].base.clone(), clashed))
    }

    fn conflict(&self, at: usize, base: Option<Entry>, clashed: Clashed) -> Conflict {
        let involved: Vec<&Step> = self
            .standing
            .iter()
            .zip(self.steps)
            .filter(|(standing, _)| matches!(standing, Standing::Author | Standing::Aside))
            .map(|(_, step)| step)
            .collect();
        Conflict::of(Clashing {
            class: clashed.class,
            kind: clashed.kind,
            path: self.path.clone(),
            agents: involved.iter().map(|step| step.who.clone()).collect(),
            base,
            ours: self.ours.clone(),
            theirs: self.steps[at].theirs.clone(),
            versions: versions(involved),
            graph: None,
            preview: clashed.preview,
            marked: clashed.marked,
            details: clashed.details,
        })
    }
}

pub fn versions<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Vec<Version> {
    let version = |step: &Step| Version { agent: step.who.clone(), entry: step.theirs.clone() };
    steps.into_iter().map(version).collect()
}

/// While a conflict is open, whatever counts at its path waits with it.
pub fn escalated(fate: &Fate, conflict: &str) -> Fate {
    match fate {
        Fate::Superseded { because: Because::BeganFromIt, .. } | Fate::Dropped { .. } => fate.clone(),
        Fate::Kept | Fate::Merged { .. } | Fate::Superseded { .. } | Fate::Escalated { .. } => {
            Fate::Escalated { conflict: conflict.to_owned() }
        }
    }
}

impl Place {
    /// A place with all its changes in one conflict.
    pub fn in_conflict(&mut self, conflict: Conflict) {
        self.if_ours.clone_from(&self.fates);
        self.fates = self.fates.iter().map(|fate| escalated(fate, &conflict.id)).collect();
        self.conflict = Some(conflict);
    }

    /// A place without changes, for what the merge makes itself.
    pub fn made(path: TreePath, entry: Entry, by: &'static str) -> Self {
        Place { entry: Some(entry), made_by: Some(by), ..Place::empty(path) }
    }

    /// A place where nothing stands yet.
    pub fn empty(path: TreePath) -> Self {
        let (steps, fates, notes) = (Vec::new(), Vec::new(), Vec::new());
        let (conflict, base, if_ours) = (None, None, Vec::new());
        Place { path, entry: None, steps, fates, notes, conflict, base, if_ours, made_by: None, settled: 0 }
    }

    /// Steps that still count here.
    pub fn standing_steps(&self) -> impl Iterator<Item = &Step> {
        let each = self.steps.iter().zip(&self.fates);
        each.filter(|(_, fate)| matches!(fate, Fate::Kept | Fate::Merged { .. })).map(|(step, _)| step)
    }

    /// Something was chosen that excludes whatever stands here.
    pub fn give_way(&mut self, fate: &Fate) {
        self.entry = None;
        self.made_by = None;
        for own in self.fates.iter_mut().filter(|own| counts(own)) {
            *own = fate.clone();
        }
    }

    /// The directory of this side was chosen instead of what stands here.
    pub fn become_directory(&mut self, side: &BTreeSet<String>, fate: &Fate) {
        self.give_way(fate);
        let is_directory = |step: &&Step| matches!(step.theirs, Some(Entry::Directory { .. }));
        let mut of_side = self.steps.iter().filter(|step| side.contains(&step.who));
        self.entry = of_side.find(is_directory).and_then(|step| step.theirs.clone());
        self.keep_alike(side);
    }

    /// Undoes a deletion that only made room for something outside, if this side has what was deleted.
    pub fn bring_back(&mut self, side: &BTreeSet<String>, because: Because) {
        let is_room_made = |step: &Step| step.theirs.is_none() && !side.contains(&step.who);
        let Some(own) = self.steps.iter().find(|step| step.theirs.is_some() && side.contains(&step.who))
        else {
            return;
        };
        if self.entry.is_some() || !self.standing_steps().all(is_room_made) {
            return;
        }
        let fate = Fate::Superseded { by: own.who.clone(), because };
        let entry = own.theirs.clone();
        self.give_way(&fate);
        self.entry = entry;
        self.keep_alike(side);
    }

    fn keep_alike(&mut self, side: &BTreeSet<String>) {
        for (step, fate) in self.steps.iter().zip(&mut self.fates) {
            if self.entry.is_some() && step.theirs == self.entry && side.contains(&step.who) {
                *fate = Fate::Kept;
            }
        }
    }

    /// Contents that agents brought here.
    pub fn brought(&self) -> Vec<Digest> {
        let files = self.steps.iter().filter_map(|step| match &step.theirs {
            Some(Entry::File { sha256, .. }) => Some(*sha256),
            _ => None,
        });
        files.collect()
    }

    /// A place that one agent has for itself.
    pub fn own(path: TreePath, step: Step) -> Self {
        let is_change = step.base != step.theirs;
        let fate = if is_change { Fate::Kept } else { Fate::Dropped { rule: NO_CHANGE } };
        let entry = if is_change { step.theirs.clone() } else { None };
        let (steps, fates, notes) = (vec![step], vec![fate], vec![Vec::new()]);
        Place { entry, steps, fates, notes, ..Place::empty(path) }
    }
}

/// Whether a change still has a say at its place.
fn counts(fate: &Fate) -> bool {
    matches!(fate, Fate::Kept | Fate::Merged { .. } | Fate::Escalated { .. })
}

pub(super) fn taken(by: &str) -> Fate {
    Fate::Superseded { by: by.to_owned(), because: Because::Resolution }
}
