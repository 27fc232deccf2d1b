//! Slow work on whole trees for a handed-over batch, done beside the loop: it is begun when the journal says so
//! and reports back by a file, like everybody on the bus.
//!
//! Each job can be begun again after a crash: what was done is found, the rest is done.

mod bases;
mod drift;
mod earlier;
mod gather;
mod given;
mod ignore_rules;
mod kept;
mod likeness;
mod merge;
mod part;
mod prepare;
mod replaced;
mod shop;
mod side_by_side;
mod verifying;
mod versions;
mod witness;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::act::collected_claims;
use super::kept::Kept;
use super::{Context, TurnError, handed};
use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::bus::platform::wall_now;
use crate::bus::{self, Content, Disk, Layout, Readers};
use crate::decide::{Now, Observed, WorkSeen};
use crate::merge::Occasion;
use crate::model::handoff::{Assignment, CODEBASE, Dialect, Handoff, MergeOutcome, MergeStatus, Prepared};
use crate::model::placement::Placed;
use crate::model::state::{BatchState, Outcome, Phase, TaskIx, TaskState};
use crate::model::tree::TreePath;
use crate::model::workspace::WorkspacePaths;
use crate::model::{Claim, Finding, WallTime};
use crate::outcome::handoff::places::agent_name;
use crate::work_tree::Scope;
use drift::{Declared, Drift};
use given::{Given, Giver};
use merge::Merging;
use part::{Claimed, Part};
use prepare::Preparation;
use verifying::Verifying;

pub(super) use prepare::make_private;
use shop::LeftOff;
pub(super) use shop::Workshop;
use witness::Beat;

/// What a job reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub(super) enum Report {
    Prepared {
        #[serde(flatten)]
        prepared: Prepared,
    },
    NotPrepared {
        why: String,
    },
    Merged {
        round: u32,
        outcome: Box<MergeOutcome>,
    },
}

/// Why work could not be done.
#[derive(Debug)]
struct Fault {
    why: String,
    /// It passes by itself: the disk is full, descriptors are used up.
    is_passing: bool,
}

impl From<BusError> for Fault {
    fn from(error: BusError) -> Self {
        Fault { is_passing: error.is_bus_wide(), why: error.to_string() }
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Fault { why, is_passing: false }
    }
}

impl Fault {
    /// Does the work again until it is done or fails for good: what passes by itself costs nobody their work.
    fn outlasted<T>(work: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
        loop {
            match work() {
                Err(fault) if fault.is_passing => {
                    log::warn!("{}; trying again", fault.why);
                    bus::platform::pause_ms(RETRY_MS);
                }
                done => return done,
            }
        }
    }
}

/// How long to wait before work is tried again.
const RETRY_MS: u64 = 1_000;

/// The name of the report of a preparation.
pub(super) const PREPARE: &str = "prepare";

/// The name of the report of one round of merging.
pub(super) fn merge_round(round: u32) -> String {
    format!("merge-{round}")
}

/// Reads a report that a job left. One of a round that is not awaited says nothing.
pub(super) fn look_at_work<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    name: &str,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let Some(handoff) = &kept.state.handoff else { return Ok(()) };
    let is_awaited = (handoff.preparing && name == PREPARE)
        || handoff.merging.is_some_and(|round| name == merge_round(round));
    if !is_awaited {
        return Ok(());
    }
    let path = kept.paths.work(name);
    let content = context.disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let Content::Bytes { bytes, .. } = content else { return Ok(()) };
    match serde_json::from_slice(&bytes) {
        Ok(Report::Prepared { prepared }) => observed.works.push(WorkSeen::Prepared(prepared)),
        Ok(Report::NotPrepared { why }) => observed.works.push(WorkSeen::NotPrepared { why }),
        Ok(Report::Merged { round, outcome }) => observed.works.push(WorkSeen::Merged { round, outcome }),
        Err(error) => log::warn!("{}: {error}; ignored", path.display()),
    }
    Ok(())
}

/// The name of the look at the trees before the first agent.
pub(super) const BEFORE: &str = "before";
/// The name of the look at the trees after the merge: what `wk undo` compares with.
pub const AFTER: &str = "after";
/// Such a look: two hundred bytes a file, for five million files.
pub const AFTER_BYTES_MAX: u64 = 1 << 30;

/// Has the workspace made and the snapshot taken.
pub(super) fn prepare<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
) -> Result<(), TurnError> {
    let Some(handoff) = &state.batch.handoff else { return Ok(()) };
    let workspace = WorkspacePaths::new(&handoff.workspace);
    let request = paths.request();
    let content = context.disk.read(&request, bus::PLAN_BYTES_MAX).map_err(BusError::of("read", &request))?;
    let Content::Bytes { bytes: request, .. } = content else {
        let gone = std::io::Error::new(std::io::ErrorKind::NotFound, "the request is not there yet");
        return Err(BusError::of("read", &request)(gone).into());
    };
    let preparation = Preparation {
        batch: state.batch.id.clone(),
        dialect: handoff.dialect,
        request,
        readers: Readers::of_values(state.batch.carries_values()),
        outputs: handed::outputs(state).map(|output| PathBuf::from(&output.path)).collect(),
        roots: roots(handoff, state),
        aside: aside(handoff, &context.layout.home()),
        takes_checkpoint: handoff.checkpoint,
        accepted_at: state.batch.accepted_at,
        before: paths.work(BEFORE),
        workspace,
    };
    let failed = |why| Report::NotPrepared { why };
    begin(context, paths.work(PREPARE), move |left_off| preparation.carry_out(left_off), failed)
}

/// Has the outputs merged.
pub(super) fn merge<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    round: u32,
    now: Now,
) -> Result<(), TurnError> {
    let (Some(handoff), Some(progress)) = (&state.batch.handoff, &state.handoff) else { return Ok(()) };
    let claims = collected_claims(context.disk, paths, state, context.veil)?;
    let merging = Merging {
        round,
        occasion: Occasion { execution_id: state.batch.id.as_str().to_owned(), at: now.wall.rfc3339() },
        workspace: WorkspacePaths::new(&handoff.workspace),
        dialect: handoff.dialect,
        objects: paths.objects(),
        strategy: handoff.merge.clone(),
        choices: progress.choices.clone(),
        parts: parts(paths, handoff, state, &claims),
        not_merged: why_nothing_is_merged(handoff, state),
        checks: checks_of_the_whole(state),
        roots: roots(handoff, state),
        aside: aside(handoff, &context.layout.home()),
        drift: drift(handoff, state),
        verifying: verifying(context, paths, handoff, state),
        before: paths.work(BEFORE),
        overwritten: paths.work(witness::OVERWRITTEN),
        after: paths.work(AFTER),
        prepared: progress.prepared.clone(),
    };
    let failed = move |why: String| {
        let outcome = Box::new(MergeOutcome::without_result(MergeStatus::Failure, why));
        Report::Merged { round, outcome }
    };
    let witness = context.workshop.watch_no_more(&paths.work(witness::OVERWRITTEN));
    let job = move |left_off: &LeftOff| {
        if let Some(witness) = witness {
            witness.catch_up(witness::LAG_MAX);
        }
        merging.carry_out(left_off)
    };
    begin(context, paths.work(&merge_round(round)), job, failed)
}

/// What is run in the merged tree, if anything is.
fn verifying<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    handoff: &Handoff,
    state: &BatchState,
) -> Option<Verifying> {
    let check = handoff.merge.verify.clone().filter(|_| handoff.verify)?;
    let task = state.tasks.last()?;
    let assignment = task.spec.assignment.as_deref();
    Some(Verifying {
        check,
        settings: context.settings.clone(),
        root: context.layout.root().to_owned(),
        batch: state.batch.id.clone(),
        task: task.spec.key.clone(),
        task_id: task.spec.task_id.clone(),
        env: assignment.map(|assignment| assignment.env.clone()).unwrap_or_default(),
        limits: assignment.map(|assignment| assignment.limits).unwrap_or_default(),
        timeout: context.settings.timeout,
        place: paths.work(AFTER).parent().unwrap_or(paths.dir()).to_owned(),
        workspace: PathBuf::from(&handoff.workspace),
    })
}

/// Has the workspace of assignments watched over as long as several tasks may work in it at the same time.
pub(super) fn watch_over<D: Disk>(context: &Context<'_, D>, paths: &BatchPaths, state: &BatchState) {
    let Some(handoff) = &state.batch.handoff else { return };
    let tasks = state.tasks.iter().filter(|task| !task.spec.is_validation()).count();
    if handoff.dialect != Dialect::Assignments || tasks < 2 {
        return;
    }
    let noted = paths.work(witness::OVERWRITTEN);
    if state.is_settled() {
        // The merge asks it for the rest; where nothing was started, there is none.
        if state.handoff.as_ref().is_some_and(|handoff| handoff.prepared.is_none()) {
            context.workshop.watch_no_more(&noted);
        }
        return;
    }
    context.workshop.watch_over(Beat {
        workspace: PathBuf::from(&handoff.workspace),
        aside: handed::aside(&WorkspacePaths::new(&handoff.workspace)),
        patterns: patterns(handoff, state),
        objects: paths.objects(),
        noted,
    });
}

/// Tells a preparation or a merge that nobody waits for it any more, once its batch was cancelled or is out of time.
pub(super) fn leave_off<D: Disk>(context: &Context<'_, D>, paths: &BatchPaths, state: &BatchState) {
    let Some(handoff) = &state.handoff else { return };
    if handoff.preparing && state.is_settled() {
        context.workshop.leave_off(&paths.work(PREPARE));
    }
    if let Some(round) = handoff.merging.filter(|_| state.cancel.is_some() || state.timed_out) {
        context.workshop.leave_off(&paths.work(&merge_round(round)));
    }
}

/// A report is in the journal now.
pub(super) fn take_in<D: Disk>(context: &Context<'_, D>, paths: &BatchPaths, name: &str) {
    context.workshop.forget(&paths.work(name));
}

fn begin<D: Disk>(
    context: &Context<'_, D>,
    report: PathBuf,
    job: impl FnOnce(&LeftOff) -> Report + Send + 'static,
    failed: impl Fn(String) -> Report + Send + 'static,
) -> Result<(), TurnError> {
    Ok(context
        .workshop
        .begin(report.clone(), job, failed)
        .map_err(BusError::of("begin work for", &report))?)
}

/// The trees that agents may write, as far as anybody's work can be in them.
pub(super) fn trees(layout: &Layout, handoff: &Handoff, state: &BatchState) -> Result<Scope, BusError> {
    Scope::new(&roots(handoff, state), &aside(handoff, &layout.home()))
}

/// The trees that agents may write: the workspace, and the client's code.
fn roots(handoff: &Handoff, state: &BatchState) -> Vec<PathBuf> {
    let assignments = state.tasks.iter().filter_map(|task| task.spec.assignment.as_deref());
    let code = assignments.flat_map(|assignment: &Assignment| &assignment.inputs);
    let code = code.filter(|input| input.name == CODEBASE).map(|input| followed(&input.path));
    std::iter::once(PathBuf::from(&handoff.workspace)).chain(code).collect()
}

/// A link to the client's code stands for what it leads to: that is where agents write.
fn followed(path: &str) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// What is nobody's work, and is neither kept nor compared: our papers, and the bus.
fn aside(handoff: &Handoff, bus_home: &Path) -> Vec<PathBuf> {
    let mut aside = handed::papers(&WorkspacePaths::new(&handoff.workspace));
    aside.push(bus_home.to_owned());
    aside
}

/// Agents in topological order: a stage is longer than everything that leads to it.
fn parts(
    paths: &BatchPaths,
    handoff: &Handoff,
    state: &BatchState,
    claims: &HashMap<TaskIx, Claim>,
) -> Vec<Part> {
    let mut tasks: Vec<&TaskState> = state.tasks.iter().filter(|task| !task.spec.is_validation()).collect();
    tasks.sort_by_key(|task| task.spec.stage);
    let name_of = |task: &TaskState| contributor(state, task);
    let part = |task: &&TaskState| Part {
        task: task.spec.key.clone(),
        agent: name_of(task),
        given: given(handoff, state, task),
        sources: sources(handoff, state, task),
        inspected: task.tries.last().map(|last| paths.attempt(&task.spec.key, last.attempt).inspected()),
        inspected_sha256: task.tries.last().and_then(|last| last.exit.as_ref()?.inspected_sha256.clone()),
        has_succeeded: matches!(task.phase, Phase::Done(Outcome::Succeeded)),
        own_patterns: own_patterns(handoff, task),
        claimed: Claimed::of(
            state.find_key(&task.spec.key).and_then(|ix| claims.get(&ix)),
            Path::new(&handoff.workspace),
        ),
        ran: outings(task).collect(),
    };
    tasks.iter().map(part).collect()
}

fn own_patterns(handoff: &Handoff, task: &TaskState) -> Vec<String> {
    let patterns = task.spec.assignment.iter().flat_map(|assignment| &assignment.required_artifacts);
    patterns.filter(|pattern| !handoff.required_artifacts.contains(pattern)).cloned().collect()
}

/// Where the outputs of a task go in the merged tree, and where they lie.
fn sources(handoff: &Handoff, state: &BatchState, task: &TaskState) -> Vec<(TreePath, PathBuf)> {
    let assignment = task.spec.assignment.as_ref();
    assignment.map(|assignment| handed::sources(handoff, state, assignment)).unwrap_or_default()
}

/// What a task was given and may have gone on with in an output of its own: others' outputs at the same place in the
/// merged tree, and the client's code.
fn given(handoff: &Handoff, state: &BatchState, task: &TaskState) -> Vec<Given> {
    let Some(assignment) = &task.spec.assignment else { return Vec::new() };
    let mut given = Vec::new();
    for Placed { output: own, place } in handed::placed(handoff, state, assignment) {
        for input in &assignment.inputs {
            let is_called_alike = own.name == input.name;
            let given_by = |from: Giver| Given { from, place: place.clone(), is_called_alike };
            let earlier = state.tasks.iter().filter(|maker| maker.spec.stage < task.spec.stage);
            let makers = earlier.filter(|maker| brought(handoff, state, maker, &place, &input.path));
            let mut makers: Vec<&TaskState> = makers.collect();
            // Of several that it was given the last one knew the others.
            makers.sort_by_key(|maker| std::cmp::Reverse(maker.spec.stage));
            for maker in makers {
                given.push(given_by(Giver::Agent(contributor(state, maker))));
            }
            if input.name == CODEBASE {
                let tree = TreePath::of(followed(&input.path).strip_prefix("/").unwrap_or(Path::new("")));
                given.extend(tree.map(|tree| given_by(Giver::Client(tree))));
            }
        }
    }
    // Whoever has seen another's version went on from that, and not from the client's.
    given.sort_by_key(|given| matches!(given.from, Giver::Client(_)));
    given
}

/// Whether an input is, holds or lies in an output of the maker's that has its place where the other one has.
fn brought(handoff: &Handoff, state: &BatchState, maker: &TaskState, place: &TreePath, input: &str) -> bool {
    let Some(assignment) = &maker.spec.assignment else { return false };
    let input = Path::new(input);
    handed::placed(handoff, state, assignment).iter().any(|placed| {
        let output = Path::new(&placed.output.path);
        placed.place == *place && (output.starts_with(input) || input.starts_with(output))
    })
}

/// As whom a task contributes: its agent, or the task itself where one agent does several.
fn contributor(state: &BatchState, task: &TaskState) -> String {
    match state.batch.handoff.as_ref().map(|handoff| handoff.dialect) {
        Some(Dialect::Assignments) => task.spec.key.as_str().to_owned(),
        _ => agent_name(task).to_owned(),
    }
}

fn why_nothing_is_merged(handoff: &Handoff, state: &BatchState) -> Option<String> {
    let has_succeeded = |task: &TaskState| matches!(task.phase, Phase::Done(Outcome::Succeeded));
    if state.cancel.is_some() {
        Some("the batch was cancelled".to_owned())
    } else if state.timed_out {
        Some("the batch was out of time; what is there of the outputs stays".to_owned())
    } else if !state.tasks.iter().any(has_succeeded) {
        Some("no agent succeeded".to_owned())
    } else if handoff.dialect == Dialect::Assignments && !state.tasks.iter().all(has_succeeded) {
        Some("not everything succeeded, so nothing is merged".to_owned())
    } else {
        None
    }
}

/// When the attempts of a task were out, as the journal tells it: one that waited for another was never out beside it.
fn outings(task: &TaskState) -> impl Iterator<Item = (WallTime, WallTime)> {
    let begun = task.tries.iter().filter(|one| one.started.is_some());
    begun.filter_map(|one| Some((one.offered_at, one.ended_at?)))
}

/// What was found about the whole, which no single agent answers for.
fn checks_of_the_whole(state: &BatchState) -> Vec<Finding> {
    let validations = state.tasks.iter().filter(|task| task.spec.is_validation());
    let collected = validations.filter_map(|task| task.collected.as_ref());
    collected.flat_map(|collected| collected.verdict.findings.iter().cloned()).collect()
}

fn drift(handoff: &Handoff, state: &BatchState) -> Drift {
    let workspace = WorkspacePaths::new(&handoff.workspace);
    let mut declared: Vec<Declared> = Vec::new();
    for task in &state.tasks {
        let outputs = task.spec.assignment.iter().flat_map(|assignment| &assignment.outputs);
        let by = || Some(task.spec.key.clone());
        declared.extend(outputs.map(|output| Declared { path: PathBuf::from(&output.path), by: by() }));
    }
    declared.extend(workspace.of_merge().into_iter().map(|path| Declared { path, by: None }));
    let made = vec![workspace.inputs(), workspace.outputs()];
    let patterns = patterns(handoff, state);
    let workers = state.tasks.iter().filter(|task| !task.spec.is_validation());
    let ran = workers.flat_map(drift::spans).collect();
    Drift { workspace: handoff.workspace.clone().into(), declared, patterns, made, ran }
}

/// What of the workspace is an artifact, of a task or of the whole.
fn patterns(handoff: &Handoff, state: &BatchState) -> Vec<String> {
    let of_tasks = state.tasks.iter().filter_map(|task| task.spec.assignment.as_ref());
    let of_tasks = of_tasks.flat_map(|assignment| &assignment.required_artifacts);
    of_tasks.chain(&handoff.required_artifacts).cloned().collect()
}
