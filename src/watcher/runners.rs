//! How attempts that we started stand: their exit records first, then their locks and processes.

use std::path::Path;

use super::boxes::{boxes_of, look_at_result};
use super::kept::Kept;
use super::launch::ours;
use super::live_results::{look_at_leftover, look_at_unjudged};
use super::look::{INSPECTED_BYTES_MAX, look_at_collected};
use super::{Context, TurnError};
use crate::agent::runners::{Record, Standing};
use crate::bus::disk::BusError;
use crate::bus::layout::AttemptPaths;
use crate::bus::{self, Content, Disk};
use crate::decide::{BegunSeen, Found, Now, Observed, RUNNER_SLACK, RunnerSeen};
use crate::model::state::{Phase, TaskIx};
use crate::model::{Attempt, Defect, Exit, Place, Seconds, TaskKey};

/// How long processes may withstand a kill before a person is asked.
const UNKILLABLE_AFTER: Seconds = Seconds(60.0);

/// Looks at every live attempt of ours that no exit record was seen of in this turn.
pub(super) fn look_at_runners<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let is_ours = |task: &&TaskIx| kept.state.tasks[**task].is_ours();
    let awaiting = kept.state.awaiting.iter();
    let ours: Vec<TaskIx> = kept.state.live.iter().filter(is_ours).chain(awaiting).copied().collect();
    for task in ours {
        let Some(attempt) = kept.state.tasks[task].live_attempt() else { continue };
        look_at_runner(kept, context, task, attempt, now, observed)?;
    }
    Ok(())
}

/// Tells of agents that could not be started: nothing of them is on the disk.
pub(super) fn look_at_failed_launches(kept: &Kept, observed: &mut Observed) {
    let seen = kept.not_launched.iter().map(|(task, (attempt, why))| RunnerSeen {
        task: *task,
        attempt: *attempt,
        found: Found::NotLaunched { why: why.clone() },
    });
    observed.runners.extend(seen);
}

fn look_at_runner<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    if observed.runners.iter().any(|seen| seen.task == task) {
        return Ok(());
    }
    let key = kept.state.key(task).clone();
    let Some(found) = found_of(kept, context, (task, attempt), now, observed) else { return Ok(()) };
    // The record comes before the lock is released: one that is there now was written in between.
    look_at_exit(kept, context, &key, attempt, now, observed)?;
    if !observed.runners.iter().any(|seen| seen.task == task) {
        if matches!(found, Found::Gone { .. }) {
            look_at_unjudged(kept, context, task, attempt, observed)?;
        }
        observed.runners.push(RunnerSeen { task, attempt, found });
    }
    Ok(())
}

/// What the attempt's standing means, if it means anything; one that is being ended is seen to.
fn found_of<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    (task, attempt): (TaskIx, Attempt),
    now: Now,
    observed: &mut Observed,
) -> Option<Found> {
    let state = &kept.state.tasks[task];
    let ours = ours(context.layout.root(), &kept.paths, &kept.state, state, attempt);
    let ending_for = match state.phase {
        Phase::Ending { since, .. } => Some(now.clock.since(since)),
        _ => None,
    };
    let mut standing = context.runners.standing(&ours);
    if standing == Standing::Alive
        && ours.known.is_none()
        && let Some(runner) = context.runners.who(&ours)
    {
        observed.begun.push(BegunSeen { task, attempt, runner: Box::new(runner) });
    }
    if let Some(spent) = ending_for {
        let patience = Seconds(context.settings.kill_grace.0 + RUNNER_SLACK.0).millis();
        standing = match standing {
            Standing::NotBegun if context.runners.forbid(&ours.paths) => Standing::Gone { rebooted: false },
            Standing::Alive | Standing::Starting | Standing::Replaced if spent > patience => {
                context.runners.force(&ours)
            }
            // It was asked to end by what the journal knows of it.
            Standing::Replaced => Standing::Alive,
            other => other,
        };
        // Its folder or its lock is not what we made: then nothing of it will ever tell that it has ended.
        if matches!(standing, Standing::NotBegun | Standing::Starting) && spent > patience {
            let why = "its runner cannot be found: its attempt's folder or lock was replaced".to_owned();
            standing = Standing::Unknown { why, suspects: Vec::new() };
        }
    }
    match standing {
        Standing::NotBegun | Standing::Starting | Standing::Alive => None,
        Standing::Gone { rebooted } => Some(Found::Gone { rebooted }),
        // A person was asked already: only an end that is certain changes that.
        _ if matches!(state.phase, Phase::Awaiting { .. }) => None,
        Standing::Orphans { left } if ending_for.is_some_and(|spent| spent > UNKILLABLE_AFTER.millis()) => {
            let why = format!("{left} of its processes withstand being killed");
            Some(Found::Unknown { why, suspects: Vec::new() })
        }
        Standing::Orphans { .. } => Some(Found::Orphans),
        Standing::Unknown { why, suspects } => Some(Found::Unknown { why, suspects }),
        Standing::Replaced => {
            let why = "its runner.lock is another file than the one that the journal names".to_owned();
            Some(Found::Unknown { why, suspects: Vec::new() })
        }
    }
}

/// Reads an exit record, and with it the attempt's result: the first that was kept, else the one in the drop box,
/// else the runner's.
pub(super) fn look_at_exit<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    key: &TaskKey,
    attempt: Attempt,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let Some(task) = kept.state.find_key(key) else { return Ok(()) };
    let is_live = kept.state.tasks[task].live_attempt() == Some(attempt);
    if !is_live || observed.runners.iter().any(|seen| seen.task == task) {
        return Ok(());
    }
    let path = kept.paths.exit(key, attempt);
    let is_there = context.disk.look(&path).map_err(BusError::of("look at", &path))?.is_some();
    if !is_there {
        return Ok(());
    }
    // Read only after the runner's end: until then anybody may have written the record, and the runner replaces it.
    let ours = ours(context.layout.root(), &kept.paths, &kept.state, &kept.state.tasks[task], attempt);
    match context.runners.record(&ours) {
        Record::Genuine => {}
        Record::Early => {
            log::debug!("{}: its runner has not ended; looked at again", path.display());
            kept.early_records += 1;
            return Ok(());
        }
        Record::Forged => {
            let message = "an exit record whose runner was killed before its agent ended";
            let defect = Defect::new("forged_exit", Place::File, message, "leave exit records to the runner");
            bus::quarantine::refuse(context.disk, context.layout, &path, &[defect], now.wall)?;
            return Ok(());
        }
    }
    let Some(mut exit) = read_exit(context, &path, &ours.mark, now)? else { return Ok(()) };
    if exit.task != *key || exit.attempt != attempt {
        return Ok(());
    }
    kept.told_baselines.extend(exit.baseline_sha256.iter().map(|sha256| (task, sha256.clone())));
    if let Some(why) = lost_finding(context, &ours.paths, &exit) {
        // Without it nothing that the agent claims can be held against what was seen.
        exit.no_result = Some(why);
        observed.runners.push(RunnerSeen { task, attempt, found: Found::Exited(Box::new(exit)) });
        return Ok(());
    }
    // What a runner wrote of an end that it forced is for people. One that inspects writes none of that kind.
    let is_told = exit.stopped.is_some() && exit.result_by_runner && exit.inspected_sha256.is_none();
    if !is_told {
        look_at_collected(kept, context, task, now, observed)?;
    }
    if observed.results.iter().any(|seen| seen.task == task) {
        look_at_leftover(kept, context, task, observed)?;
    } else if !exit.result_by_runner {
        // Nobody writes it any more, however it looked a moment ago.
        for drop_box in boxes_of(kept, task) {
            kept.settling.forget(&drop_box.path);
        }
        look_at_result(kept, context, task, now, observed)?;
    }
    observed.runners.push(RunnerSeen { task, attempt, found: Found::Exited(Box::new(exit)) });
    Ok(())
}

/// Reads a record, unless it is of another user, or of a runner of another bus.
fn read_exit<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    mark: &str,
    now: Now,
) -> Result<Option<Exit>, TurnError> {
    let content = context.disk.read(path, bus::NOTE_BYTES_MAX).map_err(BusError::of("read", path))?;
    if let Content::Foreign { .. } = content {
        let defect = super::look::unreadable(&content, bus::NOTE_BYTES_MAX);
        bus::quarantine::refuse(context.disk, context.layout, path, &[defect], now.wall)?;
    }
    let Content::Bytes { bytes, .. } = content else { return Ok(None) };
    let Ok(exit) = serde_json::from_slice::<Exit>(&bytes) else {
        log::warn!("{}: not an exit record; ignored", path.display());
        return Ok(None);
    };
    if exit.mark.as_ref().is_some_and(|said| *said != *mark) {
        let message = "the exit record of a runner that was started on another bus in this place";
        let defect =
            Defect::new("foreign_exit", Place::File, message, "nothing is to be done: it is not used");
        bus::quarantine::refuse(context.disk, context.layout, path, &[defect], now.wall)?;
        return Ok(None);
    }
    Ok(Some(exit))
}

/// Why what the runner found is not what lies there, if its record names it.
fn lost_finding<D: Disk>(context: &Context<'_, D>, paths: &AttemptPaths, exit: &Exit) -> Option<String> {
    let named = exit.inspected_sha256.as_ref()?;
    match context.disk.read(&paths.inspected(), INSPECTED_BYTES_MAX) {
        Ok(Content::Bytes { bytes, .. }) if bus::sha256(&bytes) == *named => None,
        Ok(Content::Absent) => Some("what its runner found was removed (inspected.json)".to_owned()),
        Ok(_) => Some("what its runner found was replaced (inspected.json)".to_owned()),
        // It cannot be looked at now: whoever reads it says so.
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::agent::runners::{Ours, Runners};
    use crate::bus::{Layout, RealDisk};
    use crate::format::order::Order;
    use crate::model::event::BatchStatus;
    use crate::model::{BatchId, Settings, Tick, WallTime};
    use crate::watcher::{Focus, Watcher};

    /// A runner that ends in the very moment in which somebody asks whether it has.
    struct EndsWhenAsked {
        record: PathBuf,
        bytes: String,
    }

    impl Runners for EndsWhenAsked {
        fn launch(&self, _: &str, _: &Order, _: &AttemptPaths) -> Result<(), String> {
            Ok(())
        }
        fn standing(&self, _: &Ours) -> Standing {
            Standing::Alive
        }
        fn record(&self, _: &Ours) -> Record {
            fs::write(&self.record, &self.bytes).unwrap();
            Record::Genuine
        }
        fn ask_to_stop(&self, _: &Ours) {}
        fn force(&self, _: &Ours) -> Standing {
            Standing::Alive
        }
        fn forbid(&self, _: &AttemptPaths) -> bool {
            true
        }
        fn let_go(&self, _: &str, _: &[AttemptPaths]) {}
        fn reap(&self) {}
    }

    #[test]
    fn a_forged_record_is_not_believed_although_the_runner_ends_while_it_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("bus"));
        let (paths, key) = (layout.batch(&BatchId::parse("7").unwrap()), TaskKey::parse("1").unwrap());
        let (record, result) = (paths.exit(&key, Attempt::FIRST), paths.result(&key));
        let exit = |code: i32| {
            format!(
                r#"{{"task":"1","attempt":1,"exit_code":{code},"started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:00:00Z","wall_seconds":0,"cpu_seconds":0,"peak_memory_kb":0}}"#
            )
        };
        let runners = Box::new(EndsWhenAsked { record: record.clone(), bytes: exit(3) });
        let now = Now { clock: Tick(0), wall: WallTime::default() };
        let mut watcher =
            Watcher::open(RealDisk::default(), layout, Settings::default(), runners, now).unwrap();
        let plan = r#"{"batch_id": 7, "phases": [{"phase": 1, "name": "n", "goal": "g", "complexity": "low",
            "estimated_hours": 1, "files_modified": [], "dependencies": [], "command": ["true"], "max_retries": 0}]}"#;
        let id = watcher.accept("plan.json", plan.as_bytes(), now).unwrap().unwrap();
        watcher.turn(&Focus::full(), now).unwrap();
        fs::write(&result, r#"{"task_id":"1","status":"success","output":{}}"#).unwrap();
        fs::write(&record, exit(0)).unwrap();
        let report = watcher.turn(&Focus::full(), now).unwrap();
        assert_eq!(report.finished, [(id, BatchStatus::Failure)]);
    }
}
