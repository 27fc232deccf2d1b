//! Which phase a dependency means: by label, by task id, by title, in the spellings that people use.
//!
//! Finds, or says why not. Whether the dependencies make sense together is the graph's business.

use std::borrow::Cow;
use std::collections::HashMap;

use super::draft::{Findings, Item, Phase};
use super::say::quote;
use super::value::{folded, is_none, plain, without_remark};
use crate::model::settings::nearest;

/// How many wrong names get a suggestion; each means a look at every name there is.
const SUGGESTIONS_MAX: usize = 20;
/// How many names a remedy lists.
const LISTED_MAX: usize = 8;

/// All names of a plan's phases.
pub(super) struct Names<'p> {
    phases: &'p [Phase<'p>],
    by_label: HashMap<Cow<'p, str>, usize>,
    by_title: HashMap<Cow<'p, str>, usize>,
    by_task_id: HashMap<Cow<'p, str>, usize>,
    /// Some name is one phase's label and another's title, so a label alone settles nothing.
    is_ambiguous: bool,
    suggestions_left: usize,
}

/// What a text in a list of dependencies turned out to mean.
enum Meaning {
    One(usize),
    /// A group or a range, and how to say so.
    Many(Vec<usize>, &'static str),
    Several(Vec<usize>),
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
            suggestions_left: SUGGESTIONS_MAX,
        };
        for (index, phase) in phases.iter().enumerate() {
            let label = names.by_label.insert(folded(&phase.label), index);
            let title = match phase.title.is_empty() {
                true => None,
                false => names.by_title.insert(folded(&phase.title), index),
            };
            let task_id = phase.task_id.as_deref().and_then(|id| names.by_task_id.insert(folded(id), index));
            // One defect for a pair, however many names they share.
            if let Some((first, what, name)) = label
                .map(|first| (first, "label", &*phase.label))
                .or(title.map(|first| (first, "name", &*phase.title)))
                .or(task_id.map(|first| (first, "task_id", phase.task_id.as_deref().unwrap_or(""))))
            {
                let both = findings.both(phases[first].spot, phase.spot);
                let message = format!("Duplicate phase {what} '{}' ({both})", quote(name));
                findings.defect(phase.spot, "duplicate_phase", message, "give each phase a name of its own");
            }
        }
        names.is_ambiguous = names.overlap();
        names
    }

    fn overlap(&self) -> bool {
        let collides = |(name, index): (&Cow<'_, str>, &usize)| {
            self.by_label.get(strip_phase(name)).is_some_and(|other| other != index)
        };
        self.by_title.iter().any(collides) || self.by_task_id.iter().any(collides)
    }

    /// The phases that a phase's dependencies mean, in their order, each once.
    pub(super) fn resolve(
        &mut self,
        items: &[Item<'_>],
        of: usize,
        seen: &mut [u32],
        findings: &mut Findings,
    ) -> Vec<usize> {
        let mut found =
            Found { indexes: Vec::with_capacity(items.len()), seen, stamp: of as u32 + 1, repeated: None };
        for item in items {
            self.resolve_item(item, of, &mut found, findings);
        }
        if let Some(repeated) = found.repeated {
            let phase = &self.phases[of];
            let message = format!(
                "Phase '{}' names the dependency Phase {} more than once",
                quote(phase.name()),
                self.phases[repeated].label
            );
            findings.warning(phase.spot, message);
        }
        found.indexes
    }

    /// Takes the text as one name, else as several with commas, else each of those as several with "and".
    fn resolve_item(&mut self, item: &Item<'_>, of: usize, found: &mut Found<'_>, findings: &mut Findings) {
        if is_none(&item.text) {
            return;
        }
        let text = item.text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&item.text);
        let has_separator = text.contains([',', ';', '&', '+']) || text.contains(" and ");
        if !has_separator || !matches!(self.meaning(text), Meaning::Unknown) {
            return self.add(text, item, of, found, findings);
        }
        for piece in pieces(text) {
            if !matches!(self.meaning(piece), Meaning::Unknown) {
                self.add(piece, item, of, found, findings);
                continue;
            }
            for part in piece.split(" and ").flat_map(|part| part.split(['&', '+'])) {
                let part = part.trim().strip_prefix("and ").unwrap_or(part.trim());
                if !part.is_empty() && !is_none(part) {
                    self.add(part, item, of, found, findings);
                }
            }
        }
    }

    fn add(
        &mut self,
        text: &str,
        item: &Item<'_>,
        of: usize,
        found: &mut Found<'_>,
        findings: &mut Findings,
    ) {
        let name = self.phases[of].name();
        match self.meaning(text) {
            Meaning::One(index) => found.add(index),
            Meaning::Many(indexes, what) => {
                let listed = self.listed(&indexes);
                let message =
                    format!("Phase '{}': '{}' is taken for {what} {listed}", quote(name), quote(text.trim()));
                findings.warning(item.spot, message);
                indexes.into_iter().for_each(|index| found.add(index));
            }
            Meaning::Several(indexes) => {
                let message = format!("Phase '{}': dependency '{}' is ambiguous", quote(name), quote(text));
                let remedy = format!("it may mean {}; use the label", self.listed(&indexes));
                findings.defect(item.spot, "ambiguous_dependency", message, remedy);
            }
            Meaning::Unknown => {
                let suggestion = self.suggestion(text);
                let message = format!(
                    "Phase '{}': unknown dependency '{}'{suggestion}",
                    quote(name),
                    quote(text.trim())
                );
                let all: Vec<usize> = (0..self.phases.len().min(LISTED_MAX + 1)).collect();
                let remedy = format!("the phases are {}", self.listed(&all));
                findings.defect(item.spot, "unknown_dependency", message, remedy);
            }
        }
    }

    fn meaning(&self, text: &str) -> Meaning {
        let text = plain(text);
        let name = folded(text);
        let bare = strip_phase(&name);
        let label = self.by_label.get(bare).copied();
        if let Some(index) = label
            && !self.is_ambiguous
        {
            return Meaning::One(index);
        }
        let mut candidates: Vec<usize> = Vec::new();
        candidates.extend(label);
        candidates.extend(self.by_title.get(name.as_ref()));
        candidates.extend(self.by_task_id.get(name.as_ref()));
        candidates.sort_unstable();
        candidates.dedup();
        match candidates.as_slice() {
            [] => self.looser_meaning(&name, bare),
            [index] => Meaning::One(*index),
            _ => Meaning::Several(candidates),
        }
    }

    /// `Phase 1 (needs the parser)`, `Phase 2a: Analyzer`, `Phase 2` for 2a and 2b, `Phases 1-3`.
    fn looser_meaning(&self, name: &str, bare: &str) -> Meaning {
        let without = without_remark(name);
        if without.len() < name.len() {
            return self.meaning(without);
        }
        let is_named_phase = bare.len() < name.len();
        let head = bare.find([':', '–', '—']).or_else(|| bare.find(" - ")).map(|end| bare[..end].trim());
        if let Some(&index) = head.filter(|_| is_named_phase).and_then(|head| self.by_label.get(head)) {
            return Meaning::One(index);
        }
        let group = self.group(bare);
        if !group.is_empty() {
            return Meaning::Many(group, "the group of");
        }
        match self.range(bare) {
            Some(range) => Meaning::Many(range, "the range of"),
            None => Meaning::Unknown,
        }
    }

    /// All phases whose label is this number and letters.
    fn group(&self, number: &str) -> Vec<usize> {
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Vec::new();
        }
        let is_member = |phase: &Phase<'_>| {
            let rest = phase.label.strip_prefix(number).unwrap_or("");
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphabetic())
        };
        (0..self.phases.len()).filter(|&index| is_member(&self.phases[index])).collect()
    }

    /// `1-3`, `1 to 3`: every number in between must be a phase.
    fn range(&self, text: &str) -> Option<Vec<usize>> {
        let (first, last) = ["-", "–", " to ", " through "].iter().find_map(|mark| text.split_once(mark))?;
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first >= last || last - first > self.phases.len() {
            return None;
        }
        (first..=last).map(|number| self.by_label.get(number.to_string().as_str()).copied()).collect()
    }

    fn suggestion(&mut self, text: &str) -> String {
        if self.suggestions_left == 0 {
            return String::new();
        }
        self.suggestions_left -= 1;
        let name = folded(plain(text));
        let bare = strip_phase(&name);
        // Backwards, because among equals the last one wins.
        let titles = self.phases.iter().rev().map(|phase| &*phase.title).filter(|title| !title.is_empty());
        let folded_titles: Vec<Cow<'_, str>> = titles.clone().map(folded).collect();
        if let Some(found) = nearest(&name, folded_titles.iter().map(AsRef::as_ref)) {
            let title =
                titles.zip(&folded_titles).find(|(_, folded)| *folded == found).map(|(title, _)| title);
            return format!("; did you mean '{}'?", quote(title.unwrap_or(found)));
        }
        let headed: Vec<String> =
            self.phases.iter().rev().map(|phase| format!("phase {}", folded(&phase.label))).collect();
        let index = nearest(&format!("phase {bare}"), headed.iter().map(String::as_str))
            .and_then(|found| headed.iter().position(|name| name == found));
        match index {
            Some(index) => {
                let label = &self.phases[self.phases.len() - 1 - index].label;
                format!("; did you mean 'Phase {}'?", quote(label))
            }
            None => String::new(),
        }
    }

    fn listed(&self, indexes: &[usize]) -> String {
        let mut listed: Vec<String> = indexes
            .iter()
            .take(LISTED_MAX)
            .map(|&index| format!("Phase {}", quote(&self.phases[index].label)))
            .collect();
        if indexes.len() > LISTED_MAX {
            listed.push("…".to_owned());
        }
        listed.join(", ")
    }
}

/// The dependencies found so far, each once.
struct Found<'s> {
    indexes: Vec<usize>,
    /// By phase: the stamp of the last phase that depends on it.
    seen: &'s mut [u32],
    stamp: u32,
    repeated: Option<usize>,
}

impl Found<'_> {
    fn add(&mut self, index: usize) {
        if std::mem::replace(&mut self.seen[index], self.stamp) == self.stamp {
            self.repeated.get_or_insert(index);
        } else {
            self.indexes.push(index);
        }
    }
}

/// `phase 2a`, `phase-2a` and `phases 2a` are `2a`.
fn strip_phase(name: &str) -> &str {
    let rest = match name.strip_prefix("phase") {
        Some(rest) => rest.strip_prefix('s').unwrap_or(rest),
        None => return name,
    };
    match rest.strip_prefix([' ', '-', '_', '#']) {
        Some(rest) if !rest.trim_start().is_empty() => rest.trim_start(),
        _ => name,
    }
}

/// The pieces between commas, none of which is within parentheses.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        matches!(c, ',' | ';') && depth == 0
    })
    .map(str::trim)
    .filter(|piece| !piece.is_empty())
}
