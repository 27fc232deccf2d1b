//! What the files of one declared place or output add up to: one change for all of them.

use std::path::Path;

use crate::model::declared::LISTED_MAX;
use crate::model::evidence::{Brought, Change};

/// Names of files that are customarily empty.
const CUSTOMARILY_EMPTY: [&str; 6] =
    ["__init__.py", ".gitkeep", ".keep", "py.typed", ".nojekyll", ".npmignore"];

pub(super) fn is_customarily_empty(path: &Path) -> bool {
    path.file_name().is_some_and(|name| CUSTOMARILY_EMPTY.iter().any(|known| name == *known))
}

/// What the files of one place add up to.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) brought: Brought,
    pub(super) had_files: bool,
    has_files: bool,
    /// The best of what is worth no more than a word.
    weak: Option<Change>,
    by_this_attempt: bool,
    listed: usize,
}

impl Tally {
    pub(super) fn note(&mut self, file: &str, change: Change, is_older: bool) {
        self.has_files |= change != Change::Deleted;
        self.had_files |= !matches!(change, Change::Created | Change::Linked | Change::Emptied);
        self.by_this_attempt |= change.is_done() && !is_older;
        let list = match change {
            Change::Created => &mut self.brought.created,
            Change::Modified => &mut self.brought.modified,
            Change::Deleted => &mut self.brought.deleted,
            Change::Untouched | Change::Absent => return,
            weak => {
                self.weak.get_or_insert(weak);
                return;
            }
        };
        self.listed += 1;
        match self.listed <= LISTED_MAX {
            true => list.push(file.to_owned()),
            false => self.brought.more += 1,
        }
    }

    pub(super) fn change(&self) -> Change {
        let Brought { created, modified, deleted, .. } = &self.brought;
        match (created.is_empty() && modified.is_empty(), self.weak) {
            (false, _) if self.had_files => Change::Modified,
            (false, _) => Change::Created,
            (true, Some(weak)) => weak,
            (true, None) if !deleted.is_empty() => Change::Deleted,
            (true, None) if self.has_files => Change::Untouched,
            (true, None) => Change::Absent,
        }
    }

    pub(super) fn is_inherited(&self) -> bool {
        self.change().is_done() && !self.by_this_attempt
    }
}
