//! What comes when: a queue by time, in which things of one moment keep the order in which they were put.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Agenda<T> {
    items: BTreeMap<(u64, u64), T>,
    put_so_far: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Agenda { items: BTreeMap::new(), put_so_far: 0 }
    }
}

impl<T> Agenda<T> {
    pub(super) fn put(&mut self, at: u64, what: T) {
        self.items.insert((at, self.put_so_far), what);
        self.put_so_far += 1;
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.items.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next thing whose time has come.
    pub(super) fn take_due(&mut self, now: u64) -> Option<T> {
        let first = self.items.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
