//! What was changed in the trees though nobody declares it, and by whom, as far as that can be told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::model::handoff::{UndeclaredChange, UndeclaredChanges};
use crate::model::state::TaskState;
use crate::model::tree::{Entry, Manifest, TreePath};
use crate::model::{TaskKey, WallTime};
use crate::verify::outputs;
use crate::work_tree::{Changed, Scan, Scope, absolute, difference};

/// Most that are told one by one.
const LISTED_MAX: usize = 100;

/// A file's time may be this much older than the write: kernels stamp files by the last of their ticks, which are up to
/// ten milliseconds apart, and what an agent writes at once would otherwise be told of the one that ended before it.
const TICK_MS: i64 = 10;

/// What somebody declares, and who ran when.
#[derive(Debug, Default)]
pub(super) struct Drift {
    pub(super) workspace: PathBuf,
    pub(super) declared: Vec<Declared>,
    /// What everybody may make below the workspace.
    pub(super) patterns: Vec<String>,
    /// Folders that we made ourselves.
    pub(super) made: Vec<PathBuf>,
    pub(super) ran: Vec<Ran>,
}

/// What may be changed, and by whom.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) path: PathBuf,
    /// `None`: by anybody.
    pub(super) by: Option<TaskKey>,
}

/// When an attempt of a task ran.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) task: TaskKey,
    pub(super) from: WallTime,
    pub(super) to: WallTime,
}

/// When the attempts of a task ran, and a little more: nobody is to be blamed because another was seen too late.
pub(super) fn spans(task: &TaskState) -> impl Iterator<Item = Ran> {
    let begun = task.tries.iter().filter(|one| one.started.is_some());
    begun.filter_map(|one| {
        let seen_at = one.ended_at?;
        // A turn's time is taken before its look: an agent that ended between the two had written until then.
        let to = one.exit.as_ref().map_or(seen_at, |exit| exit.ended_at.max(seen_at));
        Some(Ran { task: task.spec.key.clone(), from: one.offered_at, to })
    })
}

impl Drift {
    /// Each path that changed outside of everything declared, or in what only others declare.
    pub(super) fn undeclared(&self, before: &Manifest, after: &Scan) -> UndeclaredChanges {
        let declared: Vec<(TreePath, Option<&TaskKey>)> = self
            .declared
            .iter()
            .filter_map(|declared| Some((resolved(&declared.path)?, declared.by.as_ref())))
            .collect();
        let made: Vec<TreePath> = self.made.iter().filter_map(|made| resolved(made)).collect();
        let workspace = resolved(&self.workspace);
        let mut undeclared: Vec<(Changed, Option<&TaskKey>)> = Vec::new();
        let mut folders_made_for: BTreeSet<TreePath> = BTreeSet::new();
        for change in difference(before, &after.manifest) {
            let by = self.only_one_at(&change, after);
            if may_change(&change.path, by, &declared)
                || self.fits_a_pattern(&change.path, workspace.as_ref())
            {
                folders_made_for.extend(std::iter::successors(change.path.parent(), TreePath::parent));
            } else if !made.contains(&change.path) {
                undeclared.push((change, by));
            }
        }
        undeclared.retain(|(change, _)| !folders_made_for.contains(&change.path));
        let wiped = wiped(&undeclared, before, &after.manifest);
        let is_in_wiped = |path: &TreePath| wiped.keys().any(|dir| path == dir || path.is_below(dir));
        let all = wiped.iter().map(|(dir, (files, by))| UndeclaredChange {
            path: absolute(dir).to_string_lossy().into_owned(),
            task: by.cloned(),
            wiped: Some(*files),
        });
        let rest = undeclared.iter().filter(|(change, _)| !is_in_wiped(&change.path));
        let all = all.chain(rest.map(|(change, by)| UndeclaredChange {
            path: absolute(&change.path).to_string_lossy().into_owned(),
            task: by.cloned(),
            wiped: None,
        }));
        let mut listed: Vec<UndeclaredChange> = all.collect();
        let more = listed.len().saturating_sub(LISTED_MAX) as u64;
        listed.truncate(LISTED_MAX);
        UndeclaredChanges { listed, more }
    }

    fn fits_a_pattern(&self, path: &TreePath, workspace: Option<&TreePath>) -> bool {
        let rest = workspace.and_then(|workspace| path.rest_below(workspace));
        rest.is_some_and(|rest| self.patterns.iter().any(|pattern| outputs::fits(pattern, rest.as_path())))
    }

    /// The one task that ran when the file was last written. Where several may have, nobody is blamed.
    fn only_one_at(&self, change: &Changed, after: &Scan) -> Option<&TaskKey> {
        let written_ms = after.seen.get(&change.path).map(|seen| seen.changed_ns / 1_000_000);
        let written_ms = written_ms.or_else(|| written_at(change))?;
        self.only_one_at_time(written_ms)
    }

    fn only_one_at_time(&self, stamp_ms: i64) -> Option<&TaskKey> {
        let may_have_written = |ran: &&Ran| ran.from.0 - TICK_MS <= stamp_ms && stamp_ms <= ran.to.0;
        let mut running = self.ran.iter().filter(may_have_written);
        let first = running.next()?;
        running.all(|other| other.task == first.task).then_some(&first.task)
    }
}

/// Directories that held files and hold none any more, the outermost of each, with how many files and whose it was.
fn wiped<'a>(
    undeclared: &[(Changed, Option<&'a TaskKey>)],
    before: &Manifest,
    after: &Manifest,
) -> BTreeMap<TreePath, (u64, Option<&'a TaskKey>)> {
    let is_file = |entry: &Entry| !matches!(entry, Entry::Directory { .. });
    let above = |path: &TreePath| std::iter::successors(path.parent(), TreePath::parent);
    let files = after.iter().filter(|(_, entry)| is_file(entry));
    let filled: BTreeSet<TreePath> = files.flat_map(|(path, _)| above(path)).collect();
    let mut wiped: BTreeMap<TreePath, (u64, Option<&TaskKey>)> = BTreeMap::new();
    let gone = undeclared.iter().filter(|(change, _)| change.after.is_none());
    for (change, by) in gone.filter(|(change, _)| change.before.as_ref().is_some_and(is_file)) {
        let was_directory = |dir: &TreePath| {
            matches!(before.get(dir), Some(Entry::Directory { .. })) && !filled.contains(dir)
        };
        if let Some(outermost) = above(&change.path).take_while(was_directory).last() {
            let (files, whose) = wiped.entry(outermost).or_insert((0, *by));
            *files += 1;
            if whose != by {
                *whose = None;
            }
        }
    }
    wiped
}

/// Whether somebody declares the path: whoever wrote it last, where that is known, else anybody.
fn may_change(path: &TreePath, by: Option<&TaskKey>, declared: &[(TreePath, Option<&TaskKey>)]) -> bool {
    declared.iter().any(|(root, declarer)| {
        // What leads to an output was made for it.
        let leads_to_it = root.is_below(path);
        let is_in_it = path == root || path.is_below(root);
        leads_to_it || (is_in_it && (declarer.is_none() || by.is_none() || *declarer == by))
    })
}

pub(super) fn resolved(path: &Path) -> Option<TreePath> {
    Scope::new(&[path.to_owned()], &[]).ok()?.roots().first().cloned()
}

fn written_at(change: &Changed) -> Option<i64> {
    use std::os::unix::fs::MetadataExt;
    let data = absolute(&change.path).symlink_metadata().ok()?;
    Some(data.ctime() * 1000 + data.ctime_nsec() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::exit::Exit;
    use crate::view::scene::{Scene, wall};

    fn ran(task: &str, from: i64, to: i64) -> Ran {
        Ran { task: TaskKey::parse(task).unwrap(), from: WallTime(from), to: WallTime(to) }
    }

    #[test]
    fn what_is_written_within_a_tick_of_a_beginning_is_told_of_nobody_and_later_of_the_one_that_ran() {
        let drift =
            Drift { ran: vec![ran("maker", 1000, 2000), ran("meddler", 2000, 3000)], ..Drift::default() };
        let by = |stamp_ms| drift.only_one_at_time(stamp_ms).map(TaskKey::as_str);
        assert_eq!(by(1000 - TICK_MS), Some("maker"), "its own first write, stamped by the tick before");
        assert_eq!(by(2000 - TICK_MS - 1), Some("maker"));
        assert_eq!((by(2000 - TICK_MS), by(2000)), (None, None), "either may have written it");
        assert_eq!(by(2001), Some("meddler"));
        assert_eq!(by(3001), None, "nobody ran");
    }

    #[test]
    fn what_an_agent_wrote_after_the_turn_that_saw_its_end_had_begun_is_told_of_it() {
        let mut scene = Scene::of("1", "0 offer 1\n1 start 1\n5 collect 1 claimed\n5 succeed 1");
        let spans_of =
            |scene: &Scene| spans(&scene.state.tasks[0]).map(|ran| (ran.from, ran.to)).collect::<Vec<_>>();
        assert_eq!(spans_of(&scene), [(wall(0.0), wall(5.0))]);
        let end = |ended_at| Some(Exit { ended_at, ..exit() });
        scene.state.tasks[0].tries[0].exit = end(wall(5.2));
        assert_eq!(spans_of(&scene), [(wall(0.0), wall(5.2))], "its runner saw it end later");
        scene.state.tasks[0].tries[0].exit = end(wall(4.8));
        assert_eq!(spans_of(&scene), [(wall(0.0), wall(5.0))]);
    }

    fn exit() -> Exit {
        let text = r#"{"task": "1", "attempt": 1, "exit_code": 0, "started_at": "2025-11-10T14:30:00Z",
            "ended_at": "2025-11-10T14:30:00Z", "wall_seconds": 0, "cpu_seconds": 0, "peak_memory_kb": 0}"#;
        serde_json::from_str(text).unwrap()
    }
}
