//! The names of a plan's phases, and which phase a name means: by label, task id or title, in the
//! spellings that people use.
//!
//! Finds and suggests. What to say about a name that finds nothing is `dependencies`' business.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use super::draft::{Findings, Phase};
use super::say::quote;
use super::value::{folded, plain, without_remark};
use crate::model::settings::nearest;

/// How many names a message lists.
const LISTED_MAX: usize = 8;

/// All names of a plan's phases.
pub(super) struct Names<'p> {
    phases: &'p [Phase<'p>],
    by_label: HashMap<Cow<'p, str>, u32>,
    by_title: HashMap<Cow<'p, str>, u32>,
    by_task_id: HashMap<Cow<'p, str>, u32>,
    /// Some name is one phase's label and another's title, so a label alone settles nothing.
    is_ambiguous: bool,
    /// Some title has a comma in it, so a list may be a name.
    has_list_like_title: bool,
    /// By number: the phases whose label is that number and letters. Made when first asked for.
    groups: OnceCell<HashMap<&'p str, Vec<usize>>>,
}

/// What a name turned out to mean.
pub(super) enum Meaning {
    One(usize),
    /// A group or a range, and what to call it.
    Many(Vec<usize>, &'static str),
    /// Several phases have this name.
    Ambiguous(Vec<usize>),
    Unknown,
}

impl<'p> Names<'p> {
    /// Takes up all names, and reports those that two phases share.
    pub(super) fn of(phases: &'p [Phase<'p>], findings: &mut Findings) -> Self {
        let mut names = Names {
            phases,
            by_label: HashMap::with_capacity(phases.len()),
            by_title: HashMap::with_capacity(phases.len()),
            by_task_id: HashMap::new(),
            is_ambiguous: false,
            has_list_like_title: phases.iter().any(|phase| phase.title.contains(',')),
            groups: OnceCell::new(),
        };
        for (index, phase) in (0..).zip(phases) {
            let label = names.by_label.insert(folded(&phase.label), index);
            let title = match phase.title.is_empty() {
                true => None,
                false => names.by_title.insert(folded(&phase.title), index),
            };
            let task_id = phase.task_id().and_then(|id| names.by_task_id.insert(folded(id), index));
            // One defect for a pair, however many names they share.
            if let Some((first, what, name)) = label
                .map(|first| (first, "label", &*phase.label))
                .or(title.map(|first| (first, "name", &*phase.title)))
                .or(task_id.map(|first| (first, "task_id", phase.task_id().unwrap_or(""))))
            {
                let both = findings.both(phases[first as usize].spot, phase.spot);
                let message = format!("Duplicate phase {what} '{}' ({both})", quote(name));
                findings.defect(phase.spot, "duplicate_phase", message, "give each phase a name of its own");
            }
        }
        names.is_ambiguous = names.overlap();
        names
    }

    fn overlap(&self) -> bool {
        // No label has a space in it, so most titles need no look.
        let collides = |(name, index): (&Cow<'_, str>, &u32)| {
            let bare = strip_phase(name);
            !bare.contains(' ') && self.by_label.get(bare).is_some_and(|other| other != index)
        };
        self.by_title.iter().any(collides) || self.by_task_id.iter().any(collides)
    }

    /// The phase that has exactly this name: its label, task id or title.
    pub(super) fn exact(&self, text: &str) -> Meaning {
        if !self.has_list_like_title && text.contains(',') {
            return Meaning::Unknown;
        }
        self.find(&folded(plain(text)))
    }

    fn find(&self, name: &str) -> Meaning {
        let label = self.by_label.get(strip_phase(name)).map(|&index| index as usize);
        if let Some(index) = label
            && !self.is_ambiguous
        {
            return Meaning::One(index);
        }
        let others = [self.by_title.get(name), self.by_task_id.get(name)];
        let others = others.into_iter().flatten().map(|&index| index as usize);
        let mut candidates: Vec<usize> = label.into_iter().chain(others).collect();
        candidates.sort_unstable();
        candidates.dedup();
        match candidates.as_slice() {
            [] => Meaning::Unknown,
            [index] => Meaning::One(*index),
            _ => Meaning::Ambiguous(candidates),
        }
    }

    /// What a name means, also where it says more or less than a name: `Phase 1 (needs the parser)`,
    /// `Phase 2a: Analyzer`, `Phase 2` for 2a and 2b, `Phases 1-3`.
    pub(super) fn meaning(&self, text: &str) -> Meaning {
        let text = plain(text);
        // Nearly always it is a label, and nearly always that settles it.
        if !self.is_ambiguous
            && let Some(&index) = self.by_label.get(&folded(strip_phase(text)))
        {
            return Meaning::One(index as usize);
        }
        let name = folded(text);
        match self.find(&name) {
            Meaning::Unknown => {}
            meaning => return meaning,
        }
        let without = plain(without_remark(&name));
        if without.len() < name.len()
            && let found @ (Meaning::One(_) | Meaning::Ambiguous(_)) = self.find(without)
        {
            return found;
        }
        let bare = strip_phase(without);
        let head = bare.find([':', '–', '—']).or_else(|| bare.find(" - ")).map(|end| bare[..end].trim());
        let is_headed = bare.len() < without.len();
        if let Some(&index) = head.filter(|_| is_headed).and_then(|head| self.by_label.get(head)) {
            return Meaning::One(index as usize);
        }
        if let Some(group) = self.groups().get(bare) {
            return Meaning::Many(group.clone(), "the group of");
        }
        match self.range(bare) {
            Some(range) => Meaning::Many(range, "the range of"),
            None => Meaning::Unknown,
        }
    }

    fn groups(&self) -> &HashMap<&'p str, Vec<usize>> {
        self.groups.get_or_init(|| {
            let mut groups: HashMap<&str, Vec<usize>> = HashMap::new();
            for (index, phase) in self.phases.iter().enumerate() {
                let label: &str = &phase.label;
                let number = label.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
                if is_number && number.len() < label.len() {
                    groups.entry(number).or_default().push(index);
                }
            }
            groups
        })
    }

    /// `1-3`, `1 to 3`: every number in between must be a phase.
    fn range(&self, text: &str) -> Option<Vec<usize>> {
        let (first, last) = ["-", "–", " to ", " through "].iter().find_map(|mark| text.split_once(mark))?;
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first >= last || last - first > self.phases.len() {
            return None;
        }
        let label = |number: usize| self.by_label.get(number.to_string().as_str());
        (first..=last).map(|number| label(number).map(|&index| index as usize)).collect()
    }

    /// The name that a wrong one most likely meant. Looks at every name there is.
    pub(super) fn suggestion(&self, text: &str) -> Option<String> {
        let name = folded(plain(text));
        // Backwards, because among equals the last one wins.
        let titled = || self.phases.iter().rev().filter(|phase| !phase.title.is_empty());
        let titles: Vec<Cow<'_, str>> = titled().map(|phase| folded(&phase.title)).collect();
        if let Some(found) = nearest(&name, titles.iter().map(AsRef::as_ref)) {
            let title = titled().zip(&titles).find(|(_, title)| *title == found);
            return title.map(|(phase, _)| quote(&phase.title));
        }
        let bare = strip_phase(&name);
        let headed: Vec<String> =
            self.phases.iter().rev().map(|phase| format!("phase {}", folded(&phase.label))).collect();
        let found = nearest(&format!("phase {bare}"), headed.iter().map(String::as_str))?;
        let index = headed.iter().position(|name| name == found)?;
        let label = &self.phases[self.phases.len() - 1 - index].label;
        Some(format!("Phase {}", quote(label)))
    }

    /// `Phase 1, Phase 2a, …`
    pub(super) fn listed(&self, indexes: impl ExactSizeIterator<Item = usize>) -> String {
        let is_long = indexes.len() > LISTED_MAX;
        let labels =
            indexes.take(LISTED_MAX).map(|index| format!("Phase {}", quote(&self.phases[index].label)));
        let listed: Vec<String> = labels.chain(is_long.then(|| "…".to_owned())).collect();
        listed.join(", ")
    }
}

/// `phase 2a`, `phase-2a` and `phases 2a` are `2a`.
fn strip_phase(name: &str) -> &str {
    let Some((_, rest)) = name.split_at_checked(5).filter(|(head, _)| head.eq_ignore_ascii_case("phase"))
    else {
        return name;
    };
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    match rest.strip_prefix([' ', '-', '_', '#']).map(str::trim_start) {
        Some(rest) if !rest.is_empty() => rest,
        _ => name,
    }
}
