//! Attempts that we start: their folder with spec and order, the launch, the request to end.
//!
//! Their spec stays in the attempt's folder: published among the tasks, it would invite outsiders to take
//! what is already in hand.

use std::path::{Path, PathBuf};

use super::act::{clear_away, exists, make_directory, make_way, previous_reasons, publish, render_spec};
use super::{Context, TurnError, handed};
use crate::agent::runners::Ours;
use crate::bus::disk::{BusError, rename_if_present};
use crate::bus::layout::BatchPaths;
use crate::bus::{self, Disk, Durability, Readers};
use crate::decide::Now;
use crate::format::order::{Order, OrderPaths};
use crate::format::prompt::{self, PromptFields};
use crate::model::agent::{AgentSettings, PROCESS};
use crate::model::preset::{Preset, PromptVia};
use crate::model::state::{BatchState, TaskState};
use crate::model::{Attempt, Reason, Seconds, TaskKey};

/// A runner beats at least this often, whatever the limit is.
const BEAT_LONGEST: Seconds = Seconds(25.0);

/// Prepares the attempt and starts its runner. `Some` says why it could not be started.
pub(super) fn launch<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    task: &TaskState,
    attempt: Attempt,
    now: Now,
) -> Result<Option<String>, TurnError> {
    let key = &task.spec.key;
    let folder = paths.attempt(key, attempt);
    let outbox = paths.outbox(key, attempt);
    make_folder(context, folder.dir(), 2, now)?;
    // Its log tells that it was begun even where somebody removed the lock.
    if exists(context, &folder.lock())? || exists(context, &folder.stdout())? {
        return Ok(None);
    }
    let Some(crew) = &task.spec.crew else { return Ok(Some("nobody is to do it".to_owned())) };
    let agent = match handed::agent_of(context, task, crew) {
        Ok(agent) => agent,
        Err(why) => return Ok(Some(why)),
    };
    if agent.lacks_line(&task.spec) {
        let name = &agent.name;
        let why =
            format!("agent '{name}' runs a task's own `shell` line, and this one has none; give it one");
        return Ok(Some(why));
    }
    make_folder(context, outbox.dir(), 3, now)?;
    if let Some(previous) = task.tries.iter().rev().find(|one| one.attempt < attempt) {
        clear_away(context, paths, key, previous.attempt, now)?;
    }
    prepare(context, &folder.spec(), &render_spec(paths, state, task, attempt), Readers::Everybody)?;
    let order = order_of(context, paths, state, task, attempt, &agent);
    let mut bytes = serde_json::to_vec(&order).expect("an order has only string keys");
    bytes.push(b'\n');
    // It holds the values of the agent's variables, from settings or from a request.
    prepare(context, &folder.order(), &bytes, Readers::UserAlone)?;
    Ok(context.runners.launch(&crew.launcher, &order, &folder).err())
}

/// Makes the attempt's folder and those above it, so many in all; what is no folder and stands in the way of one is put
/// aside, links among it.
pub(super) fn make_folder<D: Disk>(
    context: &Context<'_, D>,
    folder: &Path,
    depth: usize,
    now: Now,
) -> Result<(), TurnError> {
    // One after the other: asked for the inner one first, the system would be asked three times.
    let dirs: Vec<&Path> = folder.ancestors().take(depth).collect();
    dirs.into_iter().rev().try_for_each(|dir| make_directory(context, dir, now))
}

/// Puts aside what stands in the place of a live attempt's folder or outbox: an agent can write there, and waiting would not help.
pub(super) fn make_live_folders<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    now: Now,
) -> Result<(), TurnError> {
    for task in state.live.iter().chain(&state.awaiting).map(|task| &state.tasks[*task]) {
        if let Some(attempt) = task.live_attempt() {
            // Down from the folder of all attempts.
            make_folder(context, paths.attempt(&task.spec.key, attempt).dir(), 3, now)?;
            make_folder(context, paths.outbox(&task.spec.key, attempt).dir(), 3, now)?;
        }
    }
    Ok(())
}

/// Writes a file that only the runner will read, which is not there yet.
fn prepare<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    bytes: &[u8],
    readers: Readers,
) -> Result<(), TurnError> {
    Ok(context.disk.prepare_for(readers, path, bytes).map_err(BusError::of("write", path))?)
}

/// Takes the exit record of a success into the attempt's folder. Nothing else of it lies among the tasks.
pub(super) fn take_record<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    key: &TaskKey,
    attempt: Attempt,
) -> Result<(), TurnError> {
    let folder = paths.attempt(key, attempt);
    let from = paths.exit(key, attempt);
    rename_if_present(context.disk, &from, &folder.exit(), Durability::Unsynced)
        .map_err(BusError::of("move", &from))?;
    Ok(())
}

/// Leaves the request to end where the runner looks, and wakes it.
pub(super) fn ask_to_stop<D: Disk>(
    context: &Context<'_, D>,
    batch: (&BatchPaths, &BatchState),
    (key, attempt): (&TaskKey, Attempt),
    because: &Reason,
    now: Now,
) -> Result<(), TurnError> {
    let (paths, state) = batch;
    let Some(task) = state.find_key(key).map(|ix| &state.tasks[ix]) else { return Ok(()) };
    let ours = ours(context.layout.root(), paths, state, task, attempt);
    let folder = &ours.paths;
    // An agent may have removed its folder, or put something in the way: that must not hold up the others.
    make_folder(context, folder.dir(), 2, now)?;
    make_way(context, &folder.stop(), now)?;
    let mut bytes = serde_json::json!({"why": because.to_string()}).to_string().into_bytes();
    bytes.push(b'\n');
    publish(context, &folder.stop(), &bytes, Durability::Unsynced)?;
    context.runners.ask_to_stop(&ours);
    Ok(())
}

fn order_of<D: Disk>(
    context: &Context<'_, D>,
    paths: &BatchPaths,
    state: &BatchState,
    task: &TaskState,
    attempt: Attempt,
    agent: &AgentSettings,
) -> Order {
    let (spec, root) = (&task.spec, context.layout.root());
    let (folder, outbox) = (paths.attempt(&spec.key, attempt), paths.outbox(&spec.key, attempt));
    let places = OrderPaths {
        attempt: folder.dir().to_owned(),
        root: root.to_owned(),
        spec: folder.spec(),
        heartbeat: outbox.heartbeat(),
        result: outbox.result(),
        plain_result: Some(paths.result(&spec.key)),
        exit: paths.exit(&spec.key, attempt),
    };
    let prompt = match agent.prompt_via {
        PromptVia::None => String::new(),
        PromptVia::Stdin | PromptVia::Argument => {
            let handed_over = spec.assignment.as_ref();
            let written = handed_over.and_then(|assignment| handed::context_text(context, assignment));
            let previous = previous_reasons(task, attempt);
            prompt_of(state, task, attempt, agent, &places, (written.as_deref(), &previous))
        }
    };
    let limits = &spec.limits;
    let handed_over = state.batch.handoff.as_ref().zip(spec.assignment.as_deref());
    let mut env = agent.env.clone();
    env.extend(
        handed_over.into_iter().flat_map(|(handoff, assignment)| handed::environment(handoff, assignment)),
    );
    let own_cwd = agent.cwd.as_deref().map(|cwd| root.join(cwd));
    let workspace = || handed_over.map(|(handoff, _)| PathBuf::from(&handoff.workspace));
    Order {
        batch: state.batch.id.clone(),
        task: spec.key.clone(),
        task_id: spec.task_id.clone(),
        attempt,
        agent: agent.name.clone(),
        command: command_of(task, agent, &prompt, &places),
        cwd: own_cwd.or_else(workspace).unwrap_or_else(|| root.to_owned()),
        env,
        stdin: (agent.prompt_via == PromptVia::Stdin).then_some(prompt),
        dialect: agent.dialect,
        mark: mark_of(root, state, task, attempt),
        paths: places,
        timeout: limits.timeout,
        kill_grace: context.settings.kill_grace,
        beat_every: Seconds((limits.heartbeat_timeout.0 / 3.0).min(BEAT_LONGEST.0)),
        limits: handed_over
            .map_or(agent.limits, |(_, assignment)| handed::limits(agent.limits, assignment.limits)),
        // Who is started on a terminal of its own is to be looked at there.
        echo: task.spec.crew.as_ref().is_some_and(|crew| crew.launcher != PROCESS),
        declared: super::declared::order(&folder, state, task).map(Box::new),
        inspection: handed::inspection(paths, state, task, attempt)
            .or_else(|| handed::gates(context, paths, state, task)),
    }
}

fn prompt_of(
    state: &BatchState,
    task: &TaskState,
    attempt: Attempt,
    agent: &AgentSettings,
    places: &OrderPaths,
    (written, previous): (Option<&str>, &[(Attempt, Reason)]),
) -> String {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let fields = PromptFields {
        task: &task.spec,
        batch: state.batch.id.as_str(),
        attempt,
        agent: &agent.name,
        root: &text(&places.root),
        // Of a handed-over task the workspace is where it works, and its outputs are whole paths.
        is_elsewhere: agent.cwd.is_some() && task.spec.assignment.is_none(),
        spec_file: &text(&places.spec),
        result_file: &text(&places.result),
        heartbeat_file: &text(&places.heartbeat),
        context: written,
        previous,
    };
    prompt::render(agent.prompt.as_deref(), &fields)
}

/// The task's own command, or the agent's with what stands between its braces filled in.
fn command_of(task: &TaskState, agent: &AgentSettings, prompt: &str, places: &OrderPaths) -> Vec<String> {
    if let Some(command) = &task.spec.command {
        return command.clone();
    }
    // A task's own line runs as the preset for such lines does.
    let shell = Preset::named("shell").map(|preset| AgentSettings::of_preset(&agent.name, preset).command);
    let template = match (&task.spec.shell, agent.command.as_slice()) {
        (Some(_), []) => shell.as_deref().unwrap_or_default(),
        (_, template) => template,
    };
    let value = |name: &str| match name {
        "prompt" => Some(prompt.to_owned()),
        "shell" => task.spec.shell.clone(),
        "task" => Some(task.spec.key.to_string()),
        "task_id" => Some(task.spec.task_id.clone()),
        "root" => Some(places.root.to_string_lossy().into_owned()),
        "spec_file" => Some(places.spec.to_string_lossy().into_owned()),
        _ => None,
    };
    template.iter().map(|argument| undashed(argument, prompt::fill(argument, value))).collect()
}

/// A value that stands for a whole argument must not be read as an option.
fn undashed(argument: &str, filled: String) -> String {
    match filled.starts_with('-') && !argument.starts_with('-') {
        true => format!(" {filled}"),
        false => filled,
    }
}

/// Ends what the journal knows of an attempt that a person gave up although nobody could confirm its end.
pub(super) fn end_unconfirmed<D: Disk>(
    context: &Context<'_, D>,
    (paths, state): (&BatchPaths, &BatchState),
    (key, attempt): (&TaskKey, Attempt),
) {
    let Some(task) = state.find_key(key).map(|ix| &state.tasks[ix]) else { return };
    let last = task.tries.last().filter(|last| last.attempt == attempt);
    if last.is_some_and(|last| last.unconfirmed.is_some() && last.runner.is_some()) {
        context.runners.force(&ours(context.layout.root(), paths, state, task, attempt));
    }
}

/// An attempt of ours, with all that the journal knows of it.
pub(super) fn ours(
    root: &Path,
    paths: &BatchPaths,
    state: &BatchState,
    task: &TaskState,
    attempt: Attempt,
) -> Ours {
    Ours {
        paths: paths.attempt(&task.spec.key, attempt),
        mark: mark_of(root, state, task, attempt),
        known: task.runner(attempt).cloned(),
    }
}

/// What marks the processes of one attempt, the same whoever computes it.
pub(super) fn mark_of(root: &Path, state: &BatchState, task: &TaskState, attempt: Attempt) -> String {
    let batch = &state.batch;
    let named =
        format!("{}\n{}\n{}\n{}\n{attempt}", root.display(), batch.id, batch.accepted_at.0, task.spec.key);
    bus::sha256(named.as_bytes()).chars().filter(char::is_ascii_hexdigit).take(24).collect()
}
