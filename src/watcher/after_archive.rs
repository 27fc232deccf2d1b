//! Results that somebody writes for a batch that was archived: they are kept with it, as late ones. Decides nothing.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{TurnError, Watcher};
use crate::bus::disk::{BusError, leads_nowhere};
use crate::bus::layout::reason_beside;
use crate::bus::{self, BusName, Content, Disk, Durability, Listed, NodeKind, layout};
use crate::decide::Now;
use crate::format::result;
use crate::model::event::LateBecause;
use crate::model::{BatchId, TaskKey};

impl<D: Disk> Watcher<D> {
    /// Moves results out of a directory that was made anew for a batch in the archive, to the late ones there.
    pub(super) fn put_with_archive(
        &mut self,
        id: &BatchId,
        listed: &[Listed],
        now: Now,
    ) -> Result<(), TurnError> {
        let dir = self.layout.batch(id).dir().to_owned();
        let plain = listed.iter().filter_map(|entry| match BusName::of(&entry.name) {
            BusName::Result(key) => Some((dir.join(&entry.name), key)),
            _ => None,
        });
        let results: Vec<(PathBuf, TaskKey)> = plain.chain(self.outbox_results(id, listed)?).collect();
        for (path, key) in results {
            self.put_late(id, &path, &key, now)?;
        }
        Ok(())
    }

    /// The results in outboxes below such a directory.
    fn outbox_results(&self, id: &BatchId, listed: &[Listed]) -> Result<Vec<(PathBuf, TaskKey)>, TurnError> {
        let dir = self.layout.batch(id).dir().to_owned();
        if !listed.iter().any(|entry| entry.name == layout::OUTBOX && entry.kind == NodeKind::Directory) {
            return Ok(Vec::new());
        }
        let mut names = vec![PathBuf::from(layout::OUTBOX)];
        // Down to the task, then to the attempt, then to what lies there.
        for _ in 0..3 {
            let mut below = Vec::new();
            for name in names {
                below.extend(self.names_in(&dir.join(&name))?.into_iter().map(|inner| name.join(inner)));
            }
            names = below;
        }
        let of_name = |name: PathBuf| match BusName::of(name.as_os_str()) {
            BusName::OutboxResult(key, _) => Some((dir.join(&name), key)),
            _ => None,
        };
        Ok(names.into_iter().filter_map(of_name).collect())
    }

    fn names_in(&self, dir: &std::path::Path) -> Result<Vec<OsString>, TurnError> {
        match self.disk.list(dir) {
            Ok(listed) => Ok(listed.into_iter().map(|entry| entry.name).collect()),
            Err(error) if leads_nowhere(&error) => Ok(Vec::new()),
            Err(error) => Err(BusError::of("list", dir)(error).into()),
        }
    }

    fn put_late(
        &mut self,
        id: &BatchId,
        path: &std::path::Path,
        key: &TaskKey,
        now: Now,
    ) -> Result<(), TurnError> {
        let (content, has_writer) =
            self.disk.read_and_ask(path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", path))?;
        let Content::Bytes { bytes, .. } = &content else { return Ok(()) };
        let is_whole = result::read(bytes).is_ok() && has_writer != Some(true);
        if bytes.is_empty() || !(is_whole || self.is_settled(path, (&content, has_writer), now)) {
            return Ok(());
        }
        let archived = self.layout.archived(id);
        let short: String = bus::sha256(bytes).chars().take(12).collect();
        let target = archived.late_result(key, &short);
        let late = archived.late();
        self.disk.make_dirs(&late).map_err(BusError::of("make", &late))?;
        let mut reason = serde_json::to_vec_pretty(&LateBecause::Settled).expect("it has only string keys");
        reason.push(b'\n');
        let beside = reason_beside(&target);
        self.disk
            .publish(&beside, &reason, Durability::Unsynced)
            .map_err(BusError::of("publish", &beside))?;
        bus::disk::rename_if_present(&self.disk, path, &target, Durability::Synced)
            .map_err(BusError::of("keep", path))?;
        self.forget_unsettled(path);
        self.tell_once(format!("{}: batch {id} was archived; kept as {}", path.display(), target.display()));
        Ok(())
    }
}
