//! Takes one agent's change back out of what another made upon it: who failed contributes nothing, not even through
//! those who came after.

use std::io;

use super::contents::ContentStore;
use super::three_way::{Outcome, Rules, States, three_way};
use crate::model::inspected::Change;

/// The later change as if the failed one had never been. `None` where they cannot be told apart.
pub fn take_back(failed: &Change, later: &Change, contents: &dyn ContentStore) -> io::Result<Option<Change>> {
    let states = States {
        path: &later.path,
        base: failed.theirs.as_ref(),
        ours: failed.base.as_ref(),
        theirs: later.theirs.as_ref(),
    };
    let rules = Rules { by_structure: false, favour: None, our_name: "before", their_name: "after" };
    let theirs = match three_way(states, rules, contents)? {
        Outcome::Unchanged => failed.base.clone(),
        Outcome::Same | Outcome::Taken => later.theirs.clone(),
        Outcome::Combined(entry) => Some(entry),
        Outcome::Favoured(..) | Outcome::Yielded(_) | Outcome::Clash(_) => return Ok(None),
    };
    Ok(Some(Change { path: later.path.clone(), base: failed.base.clone(), theirs }))
}
