//! From what a plan writes under Dependencies to the phases that are meant.
//!
//! Whether the dependencies make sense together is the graph's business.

use super::DEPENDENCIES_MAX;
use super::draft::{Findings, Item, Phase, Slot, Spot};
use super::loosely::{self, Everything};
use super::names::{Meaning, Names};
use super::say::quote;
use super::value::is_none;

/// How many wrong names get a suggestion; each means a look at every name there is.
const SUGGESTIONS_MAX: usize = 20;

/// By phase: the indexes of the phases it waits for, in the order of the plan, each once.
pub(super) fn resolve(phases: &[Phase<'_>], findings: &mut Findings) -> Vec<Vec<usize>> {
    let names = Names::of(phases, findings);
    let mut seen = vec![0; phases.len()];
    let mut suggestions_left = SUGGESTIONS_MAX;
    let mut dependencies = Vec::with_capacity(phases.len());
    for (own, phase) in phases.iter().enumerate() {
        let Slot::Given(items, spot) = &phase.dependencies else {
            dependencies.push(Vec::new());
            continue;
        };
        let mut search = Search {
            names: &names,
            phase,
            own,
            found: Vec::new(),
            seen: &mut seen,
            stamp: own as u32 + 1,
            repeated: None,
            suggestions_left: &mut suggestions_left,
            findings,
        };
        items.iter().for_each(|item| search.resolve(item));
        dependencies.push(search.finish(*spot));
    }
    dependencies
}

/// The search for one phase's dependencies.
struct Search<'s, 'p> {
    names: &'s Names<'p>,
    phase: &'s Phase<'p>,
    /// Its index.
    own: usize,
    found: Vec<usize>,
    /// By phase: the stamp of the last phase that was found to wait for it.
    seen: &'s mut [u32],
    stamp: u32,
    repeated: Option<usize>,
    suggestions_left: &'s mut usize,
    findings: &'s mut Findings,
}

impl Search<'_, '_> {
    /// Takes the text as one name, else as several with commas, else each of those as several with "and":
    /// a title may have both in it.
    fn resolve(&mut self, item: &Item<'_>) {
        if is_none(&item.text) {
            return;
        }
        let text = item.text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&item.text);
        let text = text.strip_suffix('.').unwrap_or(text);
        match self.names.exact(text) {
            Meaning::Unknown => {}
            meaning => return self.add(meaning, text, item.spot),
        }
        for piece in pieces(text) {
            match self.meaning(piece) {
                Meaning::Unknown => self.resolve_parts(piece, item.spot),
                meaning => self.add(meaning, piece, item.spot),
            }
        }
    }

    /// What a piece means to this phase, which may speak of all others.
    fn meaning(&self, piece: &str) -> Meaning {
        match self.names.meaning(piece) {
            Meaning::Unknown => match loosely::everything(piece) {
                Some(Everything::Others) => {
                    let all = 0..self.seen.len();
                    Meaning::Many(all.filter(|index| *index != self.own).collect(), "all others:")
                }
                Some(Everything::Previous) => Meaning::Many((0..self.own).collect(), "all before it:"),
                Some(Everything::Last) if self.own > 0 => Meaning::Many(vec![self.own - 1], ""),
                _ => Meaning::Unknown,
            },
            meaning => meaning,
        }
    }

    fn resolve_parts(&mut self, piece: &str, spot: Spot) {
        let parts: Vec<(&str, Meaning)> = piece
            .split(" and ")
            .flat_map(|part| part.split(['&', '+']))
            .map(|part| part.trim().strip_prefix("and ").unwrap_or(part.trim()))
            .filter(|part| !part.is_empty() && !is_none(part))
            .map(|part| (part, self.meaning(part)))
            .collect();
        // "Phase 1 must be complete and merged" means Phase 1 as a whole, not in parts.
        if parts.iter().any(|(_, meaning)| matches!(meaning, Meaning::Unknown)) {
            let mentioned = loosely::mentioned(piece, |name| match self.names.meaning(name) {
                Meaning::One(index) => Some(index),
                _ => None,
            });
            if !mentioned.is_empty() {
                return self.add(Meaning::Many(mentioned, ""), piece, spot);
            }
        }
        parts.into_iter().for_each(|(part, meaning)| self.add(meaning, part, spot));
    }

    fn add(&mut self, meaning: Meaning, text: &str, spot: Spot) {
        let (name, text) = (quote_lazily(self.phase), text.trim());
        match meaning {
            Meaning::One(index) => self.put(index),
            Meaning::Many(indexes, what) => {
                let listed = self.names.listed(indexes.iter().copied());
                let space = if what.is_empty() { "" } else { " " };
                let message =
                    format!("Phase '{}': '{}' is taken for {what}{space}{listed}", name(), quote(text));
                self.findings.warning(spot, message);
                indexes.into_iter().for_each(|index| self.put(index));
            }
            Meaning::Ambiguous(indexes) => {
                let message = format!("Phase '{}': dependency '{}' is ambiguous", name(), quote(text));
                let remedy = format!("it may mean {}; use the label", self.names.listed(indexes.into_iter()));
                self.findings.defect(spot, "ambiguous_dependency", message, remedy);
            }
            Meaning::Unknown => {
                let suggestion = self.suggestion(text);
                let message = format!("Phase '{}': unknown dependency '{}'{suggestion}", name(), quote(text));
                let remedy = format!("the phases are {}", self.names.listed(0..self.seen.len()));
                self.findings.defect(spot, "unknown_dependency", message, remedy);
            }
        }
    }

    fn put(&mut self, index: usize) {
        if std::mem::replace(&mut self.seen[index], self.stamp) == self.stamp {
            self.repeated.get_or_insert(index);
        } else {
            self.found.push(index);
        }
    }

    fn suggestion(&mut self, text: &str) -> String {
        if *self.suggestions_left == 0 {
            return String::new();
        }
        *self.suggestions_left -= 1;
        let suggestion = self.names.suggestion(text);
        suggestion.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
    }

    fn finish(self, spot: Spot) -> Vec<usize> {
        let name = quote_lazily(self.phase);
        if let Some(repeated) = self.repeated {
            let listed = self.names.listed([repeated].into_iter());
            let message = format!("Phase '{}' names the dependency {listed} more than once", name());
            self.findings.warning(spot, message);
        }
        if self.found.len() > DEPENDENCIES_MAX {
            let count = self.found.len();
            let message = format!("Phase '{}' has {count} dependencies; at most {DEPENDENCIES_MAX}", name());
            self.findings.defect(spot, "too_many_dependencies", message, "put a phase in between");
        }
        self.found
    }
}

/// The phase's name, made only for a message.
fn quote_lazily<'s>(phase: &'s Phase<'_>) -> impl Fn() -> String + 's {
    move || quote(phase.name())
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
