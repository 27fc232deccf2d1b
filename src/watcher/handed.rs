//! What is different about launching a handed-over task: its agent may be a directory of the client's, it works
//! in the client's workspace, and its runner looks at the outputs.

use std::path::{Path, PathBuf};

use super::{Context, TurnError};
use crate::agent::directory;
use crate::bus::disk::BusError;
use crate::bus::layout::BatchPaths;
use crate::bus::occupancy::{Occupancy, Occupied};
use crate::bus::{self, Content, Disk};
use crate::format::order::{Inspection, Mirrors, PlacedOutput};
use crate::model::agent::{AgentSettings, Crew, EnvRule, ResourceLimits};
use crate::model::handoff::{Assignment, Criterion, Handoff, NamedPath, variable_part};
use crate::model::placement::{self, Placed};
use crate::model::state::{BatchState, TaskState};
use crate::model::tree::TreePath;
use crate::model::workspace::WorkspacePaths;
use crate::model::{Attempt, Defect};
use crate::outcome::handoff::places::Places;

/// The agent of a task: as its client's directory says, or as settings do. The error is a sentence for people.
pub(super) fn agent_of<D: Disk>(
    context: &Context<'_, D>,
    task: &TaskState,
    crew: &Crew,
) -> Result<AgentSettings, String> {
    let dir = task.spec.assignment.as_ref().and_then(|assignment| assignment.agent_dir.as_deref());
    match dir {
        Some(dir) => match directory::read(&crew.agent, Path::new(dir)) {
            Ok(Some(agent)) => Ok(agent),
            Ok(None) => Err(format!("{dir} does not say any more how its agent is started")),
            Err(defects) => {
                let told = |defect: &Defect| format!("{defect}; {}", defect.remedy);
                Err(defects.iter().map(told).collect::<Vec<_>>().join("; "))
            }
        },
        None => {
            let unknown = || format!("agent '{}' is not in settings any more", crew.agent);
            context.settings.agents.find(&crew.agent).ok_or_else(unknown)
        }
    }
}

/// Holds the workspace of a batch against other buses, and makes it where it is not there yet. While another bus works
/// in it nothing is decided. Where nothing can be locked, the batch goes on without: preparation says what is wrong
/// with a directory, and a file system without locks is no reason to refuse work.
pub(super) fn hold_workspace<D: Disk>(
    context: &Context<'_, D>,
    state: &BatchState,
    held: &mut Option<Occupancy>,
) -> Result<(), TurnError> {
    let (Some(handoff), None) = (&state.batch.handoff, &held) else { return Ok(()) };
    let workspace = WorkspacePaths::new(&handoff.workspace);
    let is_new = state.handoff.as_ref().is_none_or(|progress| progress.prepared.is_none());
    if is_new && super::work::make_private(workspace.root()).is_err() {
        return Ok(());
    }
    match Occupancy::take(&workspace.lock(), context.layout.root()) {
        Ok(Occupied::ByUs(occupancy)) => *held = Some(occupancy),
        Ok(Occupied::ByAnother(holder)) => {
            let busy = std::io::Error::new(std::io::ErrorKind::ResourceBusy, format!("{holder} works there"));
            return Err(BusError::of("work in", workspace.root())(busy).into());
        }
        Err(error) => log::debug!("{}: {error}; not locked", workspace.lock().display()),
    }
    Ok(())
}

/// What the client adds to the agent's environment, and where everything is.
pub(super) fn environment(handoff: &Handoff, assignment: &Assignment) -> Vec<EnvRule> {
    let plain = |name: String, value: &str| EnvRule { name, value: Some(value.to_owned()), plain: true };
    let mut rules = assignment.env.clone();
    rules.push(plain("WK_WORKSPACE".to_owned(), &handoff.workspace));
    rules.extend(assignment.context_path.as_deref().map(|path| plain("WK_CONTEXT".to_owned(), path)));
    for (prefix, named) in [("WK_INPUT_", &assignment.inputs), ("WK_OUTPUT_", &assignment.outputs)] {
        rules.extend(
            named.iter().map(|one| plain(format!("{prefix}{}", variable_part(&one.name)), &one.path)),
        );
    }
    rules
}

/// The stricter of two sets of limits: a client cannot grant more than settings do.
pub(super) fn limits(own: ResourceLimits, asked: ResourceLimits) -> ResourceLimits {
    let stricter = |own: Option<u64>, asked: Option<u64>| match (own, asked) {
        (Some(own), Some(asked)) => Some(own.min(asked)),
        (own, asked) => own.or(asked),
    };
    ResourceLimits {
        memory_mb: stricter(own.memory_mb, asked.memory_mb),
        cpu_seconds: stricter(own.cpu_seconds, asked.cpu_seconds),
        processes: stricter(own.processes, asked.processes),
        open_files: stricter(own.open_files, asked.open_files),
        file_size_mb: stricter(own.file_size_mb, asked.file_size_mb),
        log_mb: stricter(own.log_mb, asked.log_mb),
    }
}

/// What the runner looks at.
pub(super) fn inspection(
    paths: &BatchPaths,
    state: &BatchState,
    task: &TaskState,
    attempt: Attempt,
) -> Option<Box<Inspection>> {
    let (handoff, assignment) = (state.batch.handoff.as_ref()?, task.spec.assignment.as_ref()?);
    let places = Places::of(state)?;
    let ix = state.find_key(&task.spec.key)?;
    let logs = places.logs(ix, attempt)?;
    let workspace = places.paths();
    let is_checked = |criterion: &&Criterion| handoff.verify && criterion.check.is_some();
    let criteria: Vec<Criterion> = assignment.criteria.iter().filter(is_checked).cloned().collect();
    let check_logs = |criterion: &Criterion| {
        Some((criterion.name.clone(), places.check_logs(ix, attempt, &criterion.name)?))
    };
    let mirrors = Mirrors {
        stdout: logs.stdout,
        stderr: logs.stderr,
        sessions: workspace.sessions(),
        checks: criteria.iter().filter_map(check_logs).collect(),
    };
    // What belongs to a task is what of the client's patterns it changed, its own and the whole's; only its own must
    // match.
    let mut artifacts = assignment.required_artifacts.clone();
    artifacts.extend(
        handoff.required_artifacts.iter().filter(|one| !artifacts.contains(one)).cloned().collect::<Vec<_>>(),
    );
    Some(Box::new(Inspection {
        workspace: workspace.root().to_owned(),
        objects: paths.objects(),
        checkpoint: handoff.checkpoint.then(|| paths.work(super::work::BEFORE)),
        checks_before: (!criteria.is_empty()).then(|| paths.work(super::work::BEFORE)),
        declared: declared_below(workspace.root(), state),
        before_batch: task.spec.is_validation().then(|| paths.work(super::work::BEFORE)),
        base_sha256: task.baseline.clone(),
        mirrors: Some(mirrors),
        outputs: placed(handoff, state, assignment)
            .into_iter()
            .map(|Placed { output, place }| PlacedOutput { output: output.clone(), place })
            .collect(),
        aside: aside(workspace),
        artifacts,
        required_artifacts: assignment.required_artifacts.clone(),
        criteria,
    }))
}

/// The outputs of all tasks, as paths below the workspace.
fn declared_below(workspace: &Path, state: &BatchState) -> Vec<String> {
    let assignments = state.tasks.iter().filter_map(|task| task.spec.assignment.as_ref());
    let outputs = assignments.flat_map(|assignment| &assignment.outputs);
    let below = outputs.filter_map(|output| Path::new(&output.path).strip_prefix(workspace).ok()?.to_str());
    below.map(str::to_owned).collect()
}

/// Gates of a plan that are commands, where whoever runs the plan wants them run.
pub(super) fn gates<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    task: &TaskState,
) -> Option<Box<Inspection>> {
    let criteria: Vec<Criterion> = task.spec.checked_gates(&state.batch).collect();
    (!criteria.is_empty()).then(|| {
        let root = context.layout.root().to_owned();
        Box::new(Inspection::of_checks(root, paths.objects(), criteria))
    })
}

/// What in a workspace is nobody's output: the client's papers and ours.
pub(super) fn aside(workspace: &WorkspacePaths) -> Vec<PathBuf> {
    let mut aside = papers(workspace);
    aside.extend(workspace.of_merge());
    aside.extend([".ce", ".git"].map(|name| workspace.root().join(name)));
    aside
}

/// What is written in a workspace for the client, or was written by it for us.
pub(super) fn papers(workspace: &WorkspacePaths) -> Vec<PathBuf> {
    let mut aside = workspace.bookkeeping();
    aside.extend(put_aside(workspace));
    aside
}

/// Where checkpoints and other things of earlier batches lie.
pub(super) fn put_aside(workspace: &WorkspacePaths) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(workspace.root()).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| workspace.is_put_aside(path)).collect()
}

/// What the client wrote for the task, where it is a file of reasonable size.
pub(super) fn context_text<D: Disk>(context: &Context<'_, D>, assignment: &Assignment) -> Option<String> {
    let path = Path::new(assignment.context_path.as_deref()?);
    match context.disk.read(path, bus::SPEC_BYTES_MAX) {
        Ok(Content::Bytes { bytes, .. }) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    }
}

/// Where the outputs of one task go among everything that is merged.
pub(super) fn placed<'a>(
    handoff: &Handoff,
    state: &BatchState,
    assignment: &'a Assignment,
) -> Vec<Placed<'a>> {
    let all: Vec<&NamedPath> = outputs(state).collect();
    placement::placed(handoff.dialect, Path::new(&handoff.workspace), &all, &assignment.outputs)
}

/// The same, as where each of them lies.
pub(super) fn sources(
    handoff: &Handoff,
    state: &BatchState,
    assignment: &Assignment,
) -> Vec<(TreePath, PathBuf)> {
    let placed = placed(handoff, state, assignment).into_iter();
    placed.map(|Placed { output, place }| (place, PathBuf::from(&output.path))).collect()
}

/// Every output of every task, for those who look at all of them.
pub(super) fn outputs(state: &BatchState) -> impl Iterator<Item = &NamedPath> {
    let assignments = state.tasks.iter().filter_map(|task| task.spec.assignment.as_ref());
    assignments.flat_map(|assignment| &assignment.outputs)
}
