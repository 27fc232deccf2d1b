//! Tells a file that is still being written from one that is wrong.
//!
//! Agents write with `echo >` and with editors; no rename can be expected of them. A file that does not
//! parse may still become right while somebody has it open, while it changes, and for a while after.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::bus::Look;
use crate::bus::disk::WireLook;
use crate::model::{Seconds, Tick};

/// What is remembered of files that did not parse, in an order: they are looked at one after the other.
#[derive(Debug, Default)]
pub(super) struct Settling(BTreeMap<PathBuf, Sighting>);

#[derive(Debug, Clone)]
struct Sighting {
    look: Option<Look>,
    since: Tick,
}

/// The same for the next pass of `watch --once`: the path, how the file looked, and since when.
pub type Remembered = (PathBuf, Option<WireLook>, Tick);

impl Settling {
    /// Whether an unreadable file has had its time. `look` is `None` where it changed while it was read.
    pub(super) fn is_settled(
        &mut self,
        path: &Path,
        look: Option<Look>,
        has_writer: Option<bool>,
        now: Tick,
        settle: Seconds,
    ) -> bool {
        let fresh = Sighting { look, since: now };
        let sighting = self.0.entry(path.to_owned()).or_insert(fresh);
        if sighting.look != look || look.is_none() {
            *sighting = Sighting { look, since: now };
            return false;
        }
        has_writer != Some(true) && now.since(sighting.since) >= settle.millis()
    }

    /// Whether a file that parses may be taken although somebody has it open: it has not changed for long.
    pub(super) fn is_at_rest(&mut self, path: &Path, look: Look, now: Tick, settle: Seconds) -> bool {
        self.is_settled(path, Some(look), None, now, settle)
    }

    /// What the next pass must know, so that a file settles across passes.
    pub(super) fn remember(&self) -> impl Iterator<Item = Remembered> {
        let of = |(path, sighting): (&PathBuf, &Sighting)| {
            (path.clone(), sighting.look.as_ref().map(WireLook::of), sighting.since)
        };
        self.0.iter().map(of)
    }

    pub(super) fn recall(&mut self, (path, look, since): &Remembered) {
        let look = look.as_ref().and_then(WireLook::to_look);
        self.0.insert(path.clone(), Sighting { look, since: *since });
    }

    pub(super) fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Forgets files that are gone.
    pub(super) fn keep_only(&mut self, is_there: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| is_there(path));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::NodeKind;

    fn look(size: u64) -> Look {
        Look { kind: NodeKind::File, inode: 1, size, modified_ns: 0, changed_ns: 0, links: 1 }
    }

    #[test]
    fn a_file_settles_only_when_it_is_closed_unchanged_and_old_enough() {
        let mut settling = Settling::default();
        let path = Path::new("task-1.result.json");
        let five = Seconds(5.0);
        assert!(!settling.is_settled(path, Some(look(1)), None, Tick(0), five));
        assert!(!settling.is_settled(path, Some(look(1)), None, Tick(4_999), five));
        assert!(!settling.is_settled(path, Some(look(2)), None, Tick(5_000), five), "it changed");
        assert!(
            !settling.is_settled(path, Some(look(2)), Some(true), Tick(60_000), five),
            "somebody has it open"
        );
        assert!(settling.is_settled(path, Some(look(2)), Some(false), Tick(60_000), five));
    }
}
