//! The files that tasks declare, as the watcher looks at them: the baseline of an outsider's task before it is
//! offered, the comparison when its result is there, and what the journal has to name of either.
//!
//! For attempts that we start the runner does both, beside the loop. What the watcher reads itself is small.

use std::path::PathBuf;

use super::act::{exists, publish};
use super::kept::Kept;
use super::{Context, TurnError};
use crate::bus::disk::BusError;
use crate::bus::layout::AttemptPaths;
use crate::bus::{self, Content, Disk, Durability};
use crate::decide::Observed;
use crate::format::order::DeclaredOrder;
use crate::model::declared::{DeclaredPlace, LISTED_MAX, covers};
use crate::model::evidence::{Brought, Change};
use crate::model::state::{BatchState, TaskIx, TaskState};
use crate::model::{Attempt, Claim, Task, Verdict};
use crate::verify::baseline::Reading;
use crate::verify::check_files;
use crate::verify::commits::{self, Named, Repository};
use crate::verify::{self, Baseline, Since};

/// A baseline: some two hundred bytes a file.
const BASELINE_BYTES_MAX: u64 = 64 << 20;

/// Records how the declared files are before a task's first attempt is offered. Returns the record's hash. Whatever
/// stands in its place then was planted; from the second attempt on it stays.
pub(super) fn take_baseline<D: Disk>(
    context: &Context<'_, D>,
    folder: &AttemptPaths,
    task: &TaskState,
    attempt: Attempt,
) -> Result<Option<String>, TurnError> {
    let places = task.spec.declared_places();
    let path = folder.baseline();
    if places.is_empty() || (attempt > Attempt::FIRST && exists(context, &path)?) {
        return Ok(None);
    }
    let bytes = verify::baseline::take(context.disk, context.layout.root(), &places, &Reading::in_the_loop())
        .to_bytes();
    publish(context, &path, &bytes, Durability::Unsynced)?;
    Ok(Some(bus::sha256(&bytes)))
}

/// The hash of the record that stands in an attempt's folder.
pub(super) fn baseline_of<D: Disk>(
    context: &Context<'_, D>,
    folder: &AttemptPaths,
) -> Result<Option<String>, TurnError> {
    let path = folder.baseline();
    let content = context.disk.read(&path, BASELINE_BYTES_MAX).map_err(BusError::of("read", &path))?;
    Ok(match content {
        Content::Bytes { bytes, .. } => Some(bus::sha256(&bytes)),
        _ => None,
    })
}

/// What a runner is told of the declared files.
pub(super) fn order(folder: &AttemptPaths, state: &BatchState, task: &TaskState) -> Option<DeclaredOrder> {
    let places = task.spec.declared_places();
    let checks = task.spec.checked_gates(&state.batch).filter_map(|gate| gate.check);
    let checks: Vec<String> = checks.flat_map(|check| check_files::places_of(&check.command)).collect();
    let (baseline, baseline_sha256) = (folder.baseline(), task.baseline.clone());
    let is_asked_for = !places.is_empty() || !checks.is_empty();
    is_asked_for.then_some(DeclaredOrder { places, checks, baseline, baseline_sha256 })
}

/// Names the baselines that runners took: until the journal does, an agent could replace one unseen.
pub(super) fn look_at_baselines<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    observed.baselines.extend(kept.baselines.iter().map(|(task, sha256)| (*task, sha256.clone())));
    if !observed.full_scan {
        return Ok(());
    }
    for task in kept.state.live.iter().copied() {
        let state = &kept.state.tasks[task];
        let is_open = state.is_ours() && state.baseline.is_none() && !state.spec.declared_places().is_empty();
        let Some(attempt) = state.live_attempt().filter(|_| is_open) else { continue };
        let folder = kept.paths.attempt(&state.spec.key, attempt);
        observed.baselines.extend(baseline_of(context, &folder)?.map(|sha256| (task, sha256)));
    }
    Ok(())
}

/// What became of the declared files of an outsider's task.
pub(super) fn compare<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
) -> Vec<DeclaredPlace> {
    let state = &kept.state.tasks[task];
    let places = state.spec.declared_places();
    if places.is_empty() || state.is_ours() {
        return Vec::new();
    }
    let folder = kept.paths.attempt(&state.spec.key, attempt);
    let named = kept.baselines.get(&task).or(state.baseline.as_ref());
    let baseline = read_baseline(context, &folder, named);
    if named.is_some() && baseline.is_none() {
        return places.into_iter().map(without_baseline).collect();
    }
    let since = Since {
        baseline: baseline.as_ref().map(|(baseline, _)| baseline),
        is_confirmed: baseline.as_ref().is_some_and(|(_, is_named)| *is_named),
        attempt_began_ns: (attempt > Attempt::FIRST).then(|| began_ns(context, &folder)),
    };
    verify::compare(context.disk, context.layout.root(), &places, since, &Reading::in_the_loop())
}

/// The journal names a baseline, and it is gone or another one: then nothing can be shown of the place.
fn without_baseline(place: String) -> DeclaredPlace {
    let why = "cannot be judged: the record of how it was before is gone, or not the one of then".to_owned();
    let (change, refused, brought) = (Change::Unknown, Some(why), Brought::default());
    DeclaredPlace { place, change, remains: false, inherited: false, refused, brought }
}

/// Looks for the commits that a result names. Returns the files of which a new one has another content than they had.
pub(super) fn look_at_commits<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    (task, attempt): (TaskIx, Attempt),
    claim: &Claim,
    verdict: &mut Verdict,
) -> Vec<String> {
    let state = &kept.state.tasks[task];
    let folder = kept.paths.attempt(&state.spec.key, attempt);
    let root = context.layout.root();
    let works_in = cwd_of(context, &folder).unwrap_or_else(|| root.to_owned());
    let is_elsewhere = match commits::is_shared_with(context.disk, root, &works_in) {
        None => Some("there is no repository here; nobody looked for it"),
        Some(false) => Some("the agent works in another clone; nobody looked for it there"),
        Some(true) => None,
    };
    let (told, named) = (kept.told_baselines.get(&task), state.baseline.as_ref());
    // The first runner took it itself; later ones only found it.
    let known = if attempt == Attempt::FIRST { told.or(named) } else { named.or(told) };
    let known = kept.baselines.get(&task).or(known);
    let baseline = read_baseline(context, &folder, known).filter(|(_, is_named)| *is_named);
    let baseline = baseline.map(|(baseline, _)| baseline);
    let tips = baseline.as_ref().and_then(|baseline| baseline.tips.as_deref());
    let repository = Repository { root, tips };
    let found = match is_elsewhere {
        Some(why) => {
            let unknown = |commit: &serde_json::Value| (commits::shown(commit), Named::Unknown { why });
            claim.commits.iter().map(unknown).collect()
        }
        None => repository.look_at(&claim.commits),
    };
    let before = |file: &str| baseline.as_ref()?.files.get(file)?.sha256.clone();
    let mut committed = Vec::new();
    for (name, named) in found {
        if let Named::New { id, files } = &named {
            let differs = |file: &&String| {
                let now = repository.digest_of(id, file);
                now.is_some() && now != before(file)
            };
            let places = state.spec.declared_places();
            let declared = files.iter().filter(|file| places.iter().any(|place| covers(place, file)));
            committed.extend(declared.take(LISTED_MAX).filter(differs).cloned());
        }
        verdict.brought.get_or_insert_default().commits.extend(named.id().map(str::to_owned));
        verdict.findings.push(named.finding(&name));
    }
    committed
}

/// Where the agent of an attempt of ours works.
fn cwd_of<D: Disk>(context: &Context<'_, D>, folder: &AttemptPaths) -> Option<PathBuf> {
    let Ok(Content::Bytes { bytes, .. }) = context.disk.read(&folder.order(), BASELINE_BYTES_MAX) else {
        return None;
    };
    let order: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    order.get("cwd")?.as_str().map(PathBuf::from)
}

/// The file system's time when the attempt began: that of our own copy of its spec.
pub(super) fn began_ns<D: Disk>(context: &Context<'_, D>, folder: &AttemptPaths) -> i128 {
    context.disk.look(&folder.spec()).ok().flatten().map_or(0, |look| look.changed_ns)
}

/// The baseline, and whether it is the one that was named. One that was replaced is none.
fn read_baseline<D: Disk>(
    context: &Context<'_, D>,
    folder: &AttemptPaths,
    named: Option<&String>,
) -> Option<(Baseline, bool)> {
    let Ok(Content::Bytes { bytes, .. }) = context.disk.read(&folder.baseline(), BASELINE_BYTES_MAX) else {
        return None;
    };
    match named {
        Some(named) if *named != bus::sha256(&bytes) => None,
        named => Some((Baseline::from_bytes(&bytes)?, named.is_some())),
    }
}

/// Whether the runner puts what it saw of them into the exit record, or beside it.
pub(super) fn is_told_apart(task: &Task) -> bool {
    task.declared_places().len() > crate::agent::runner::DECLARED_INLINE_MAX
}
