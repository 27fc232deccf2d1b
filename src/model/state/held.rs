//! Which task holds which declared places, so that tasks that declare the same ones can run one after the other. A
//! directory is held with everything below it, a pattern with everything that it fits. Knows nothing of the disk.

use std::collections::BTreeMap;

use super::TaskIx;
use crate::model::declared::{is_pattern, overlap};

/// The places that are held, each by the first task that took it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HeldPlaces {
    by_place: BTreeMap<String, TaskIx>,
    /// How many of them are patterns.
    patterns: usize,
}

impl HeldPlaces {
    pub(super) fn take(&mut self, place: &str, task: TaskIx) {
        if !self.by_place.contains_key(place) {
            self.by_place.insert(place.to_owned(), task);
            self.patterns += usize::from(is_pattern(place));
        }
    }

    pub(super) fn release(&mut self, place: &str, task: TaskIx) {
        if self.by_place.get(place) == Some(&task) {
            self.by_place.remove(place);
            self.patterns -= usize::from(is_pattern(place));
        }
    }

    /// The task that holds the place, what is around it or something of it.
    pub(super) fn holder(&self, place: &str) -> Option<TaskIx> {
        if self.by_place.is_empty() {
            return None;
        }
        let around = place.match_indices('/').map(|(at, _)| &place[..at]);
        let mut whole = std::iter::once(place).chain(around);
        whole.find_map(|outer| self.by_place.get(outer).copied()).or_else(|| self.holder_inside(place))
    }

    fn holder_inside(&self, place: &str) -> Option<TaskIx> {
        if self.patterns > 0 || is_pattern(place) {
            return self.by_place.iter().find(|(held, _)| overlap(held, place)).map(|(_, task)| *task);
        }
        let below = format!("{place}/");
        let first = self.by_place.range(below.clone()..).next();
        first.filter(|(held, _)| held.starts_with(&below)).map(|(_, task)| *task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(places: &[&str]) -> HeldPlaces {
        let mut held = HeldPlaces::default();
        for (task, place) in places.iter().enumerate() {
            held.take(place, task);
        }
        held
    }

    #[test]
    fn a_place_is_held_with_what_is_in_it_and_around_it() {
        for (holds, asks) in [
            ("src/a.rs", "src/a.rs"),
            ("src", "src/deep/a.rs"),
            ("src/deep/a.rs", "src"),
            ("src/*.rs", "src/a.rs"),
            ("src/a.rs", "src/*.rs"),
            ("src", "src/**/*.rs"),
            ("src/parser", "src/*/*.rs"),
            ("src/*/*.rs", "src/parser"),
            ("src/a*.rs", "src/*b.rs"),
        ] {
            assert_eq!(held(&["other", holds]).holder(asks), Some(1), "{holds} and {asks}");
        }
        for (holds, asks) in [("src", "src-old/a.rs"), ("src/a", "src/a.rs"), ("src/*.rs", "src/a.py")] {
            assert_eq!(held(&["other", holds]).holder(asks), None, "{holds} and {asks}");
        }
    }

    #[test]
    fn only_its_holder_gives_a_place_back() {
        let mut held = held(&["src/*.rs"]);
        held.take("src/*.rs", 7);
        held.release("src/*.rs", 7);
        assert_eq!(held.holder("src/a.rs"), Some(0));
        held.release("src/*.rs", 0);
        assert_eq!(held, HeldPlaces::default());
    }
}
