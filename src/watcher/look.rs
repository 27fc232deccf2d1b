//! The scan of one batch: what lies in its directory, read without trust, and nothing decided about it.
//!
//! The one thing it moves is a valid result of the current attempt: collected by rename before the journal
//! names it, so that the journal never names bytes that are not safe.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::act::{exists, holds};
use super::beats::{look_at_first_beat, look_at_heartbeats, look_at_removed_specs};
use super::boxes::{look_at_box_of, look_at_closed, look_at_outboxes, look_at_result};
use super::claims::{inline_of, read_claim};
use super::kept::{Attention, Kept};
use super::published::look_at_published_specs;
use super::runners::{look_at_exit, look_at_failed_launches, look_at_runners};
use super::wishes::look_at_wishes;
use super::work::look_at_work;
use super::{Context, TurnError, declared, handed};
use crate::bus::disk::BusError;
use crate::bus::{self, BusName, Content, Disk};
use crate::decide::{Checked, Now, Observed, ResultSeen, SignSeen, SpecSeen};
use crate::format::{spec, take};
use crate::model::event::Sign;
use crate::model::evidence::{About, Brought};
use crate::model::handoff::Assignment;
use crate::model::inspected::Inspected;
use crate::model::state::{Phase, TaskIx, TaskState};
use crate::model::tree::TreePath;
use crate::model::{Attempt, Claim, Defect, Finding, Gate, Grade, Place, TaskKey, Verdict};
use crate::verify;

/// What a runner found: a line for each file of the outputs.
pub(super) const INSPECTED_BYTES_MAX: u64 = 256 << 20;

/// Looks at the batch. Also returns the wishes that were read: they are removed once they are granted.
pub(super) fn look<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    attention: &Attention,
    now: Now,
) -> Result<(Observed, Vec<PathBuf>), TurnError> {
    let mut observed = Observed::default();
    let mut granted = Vec::new();
    // Not forgotten until the turn is journaled: it may fail after a result was moved.
    for task in kept.unexamined.clone() {
        if kept.state.tasks[task].awaits_exit() {
            continue;
        }
        look_at_collected(kept, context, task, now, &mut observed)?;
        look_at_result(kept, context, task, now, &mut observed)?;
    }
    look_at_closed(kept, context, &mut observed)?;
    look_at_failed_launches(kept, &mut observed);
    match attention {
        Attention::Names(names) => {
            // What lies in an outbox is its attempt's for certain: it is looked at before what may be anybody's.
            let is_outbox =
                |name: &&std::ffi::OsString| matches!(BusName::of(name), BusName::OutboxResult(..));
            let (own, shared): (Vec<_>, Vec<_>) = names.iter().partition(is_outbox);
            for name in own.into_iter().chain(shared) {
                look_at_name(kept, context, name, now, &mut observed)?;
            }
            if names.iter().any(|name| name == bus::layout::CONTROL) {
                look_at_wishes(kept, context, now, &mut observed, &mut granted)?;
            }
        }
        Attention::Full => {
            let dir = kept.paths.dir().to_owned();
            let listed = context.disk.list(&dir).map_err(BusError::of("list", &dir))?;
            observed.full_scan = true;
            kept.settling.keep_only(|path| !matches!(context.disk.look(path), Ok(None)));
            look_at_outboxes(kept, context, now, &mut observed)?;
            kept.forget_odd_names_but(&listed);
            for entry in listed {
                look_at_name(kept, context, &entry.name, now, &mut observed)?;
            }
            look_at_wishes(kept, context, now, &mut observed, &mut granted)?;
            look_at_runners(kept, context, now, &mut observed)?;
            look_at_heartbeats(kept, context, now, &mut observed)?;
            look_at_removed_specs(kept, context, &mut observed)?;
            look_at_published_specs(kept, context)?;
        }
    }
    declared::look_at_baselines(kept, context, &mut observed)?;
    Ok((observed, granted))
}

/// Looks at one name. A file that this user may not read is nobody else's trouble.
fn look_at_name<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    name: &OsStr,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    match look_at_known_name(kept, context, name, now, observed) {
        Err(TurnError::Bus(error)) if error.source.kind() == std::io::ErrorKind::PermissionDenied => {
            note_odd(kept, name, &error.to_string());
            Ok(())
        }
        looked => looked,
    }
}

fn look_at_known_name<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    name: &OsStr,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    match BusName::of(name) {
        BusName::Result(key) => match kept.state.find_key(&key) {
            Some(task) => look_at_box_of(kept, context, task, None, now, observed)?,
            None => note_odd(kept, name, "a result for a task that this batch does not have"),
        },
        BusName::OutboxResult(key, attempt) => {
            if let Some(task) = kept.state.find_key(&key) {
                look_at_box_of(kept, context, task, Some(attempt), now, observed)?;
            }
        }
        BusName::Heartbeat(key) | BusName::OutboxHeartbeat(key, _) => {
            if let Some(task) = kept.state.find_key(&key) {
                look_at_first_beat(kept, context, task, now, observed)?;
            }
        }
        BusName::Take(key, attempt) => look_at_take(kept, context, &key, attempt, observed)?,
        BusName::Spec(key) => look_at_spec(kept, context, key, now, observed)?,
        BusName::BadId { defect, .. } => refuse_bad_name(kept, context, name, &defect, now)?,
        BusName::Unknown => note_odd(kept, name, &bus::misplaced::in_batch(name)),
        BusName::Exit(key, attempt) => look_at_exit(kept, context, &key, attempt, now, observed)?,
        BusName::Work(name) => look_at_work(kept, context, &name, observed)?,
        BusName::ResultError(_) | BusName::Own | BusName::Dropping => {}
    }
    Ok(())
}

pub(super) fn note_odd(kept: &mut Kept, name: &OsStr, why: &str) {
    let shown = super::published::shown(name);
    if kept.add_odd_name(shown.clone(), why) {
        log::warn!("{}: {shown}: ignored: {why}", kept.paths.dir().display());
    }
}

fn refuse_bad_name<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    name: &OsStr,
    defect: &crate::model::id::IdDefect,
    now: Now,
) -> Result<(), TurnError> {
    let path = kept.paths.dir().join(name);
    let message = format!("the task's id in the file name {defect}");
    let remedy = "use at most 64 letters, digits, '.', '_' and '-', beginning with a letter or digit";
    let defects = [Defect::new("bad_id", Place::File, message, remedy)];
    bus::quarantine::refuse(context.disk, context.layout, &path, &defects, now.wall)?;
    Ok(())
}

/// A claim that nothing depends on.
pub(super) fn unchecked(claim: Claim) -> Checked {
    Checked { claim, verdict: Verdict::default(), declared: Vec::new(), committed: Vec::new() }
}

pub(super) fn check<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
    claim: Claim,
) -> Checked {
    let spec = &kept.state.tasks[task].spec;
    let paths = kept.paths.attempt(&spec.key, attempt);
    let workspace = kept.state.batch.handoff.as_ref().map(|handoff| Path::new(&handoff.workspace));
    let root = workspace.unwrap_or_else(|| context.layout.root());
    let names_files = claim.files().next().is_some();
    // What an earlier attempt of the task wrote is the task's work too.
    let first = kept.paths.attempt(&spec.key, Attempt::FIRST);
    let began_ns = if names_files { declared::began_ns(context, &first) } else { 0 };
    let mut verdict = Verdict {
        findings: verify::listed(context.disk, root, &claim, began_ns),
        brought: Some(Brought::default()),
        ..Verdict::default()
    };
    verdict.findings.extend(spec.validation_gates.iter().map(gate_not_run));
    let mut declared = declared::compare(kept, context, task, attempt);
    let committed = match claim.commits.is_empty() {
        true => Vec::new(),
        false => declared::look_at_commits(kept, context, (task, attempt), &claim, &mut verdict),
    };
    if let Some(assignment) = &spec.assignment {
        let sources = kept.state.batch.handoff.as_ref();
        let sources = sources.map(|handoff| handed::sources(handoff, &kept.state, assignment));
        let ground = (root, sources.unwrap_or_default());
        add_inspected(context, &paths, assignment, &claim, ground, &mut verdict);
    } else if state_runs_gates(kept, task)
        || (kept.state.tasks[task].is_ours() && declared::is_told_apart(spec))
    {
        let inspected = read_inspected(context, &paths).unwrap_or_default();
        let found = inspected.findings;
        verdict.findings.retain(|finding| !found.iter().any(|checked| checked.subject == finding.subject));
        verdict.findings.extend(found);
        declared.extend(inspected.declared);
    }
    Checked { claim, verdict, declared, committed }
}

/// A gate that nobody ran. Where it is a command it could have been.
fn gate_not_run(gate: &Gate) -> Finding {
    let (about, saw) = match &gate.command {
        Some(_) => (About::Criterion, "not run; the agent's word alone"),
        None => (About::Claim, "the agent's word alone"),
    };
    Finding { about, ..Finding::new(&gate.text, Grade::Claimed, true, saw) }
}

/// Whether the runner of this task decides gates; a task of an outsider's has none.
fn state_runs_gates(kept: &Kept, task: TaskIx) -> bool {
    let state = &kept.state.tasks[task];
    state.is_ours() && state.spec.checked_gates(&kept.state.batch).next().is_some()
}

fn read_inspected<D: Disk>(context: &Context<'_, D>, paths: &bus::layout::AttemptPaths) -> Option<Inspected> {
    match context.disk.read(&paths.inspected(), INSPECTED_BYTES_MAX) {
        Ok(Content::Bytes { bytes, .. }) => serde_json::from_slice(&bytes).ok(),
        _ => None,
    }
}

/// What the runner of a handed-over attempt found, and what the agent says of the criteria that no command decided.
fn add_inspected<D: Disk>(
    context: &Context<'_, D>,
    paths: &bus::layout::AttemptPaths,
    assignment: &Assignment,
    claim: &Claim,
    (root, sources): (&Path, Vec<(TreePath, PathBuf)>),
    verdict: &mut Verdict,
) {
    let inspected = read_inspected(context, paths).unwrap_or_else(|| {
        let why = "what its runner found is gone; try it again";
        Inspected {
            findings: vec![Finding::new("outputs", Grade::Observed, false, why)],
            ..Inspected::default()
        }
    });
    verdict.touched_unclaimed.extend(verify::outputs::unclaimed(&inspected.changes, &sources, root, claim));
    verdict.findings.extend(inspected.findings);
    verdict.brought.get_or_insert_default().extend(inspected.brought);
    let by_word = verify::criteria::by_word(&assignment.criteria, &verdict.findings, claim);
    verdict.findings.extend(by_word);
}

/// A result that was collected just before a crash is in the attempt's folder, and nobody knows of it yet.
pub(super) fn look_at_collected<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    _now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let Some(attempt) = kept.state.tasks[task].live_attempt() else { return Ok(()) };
    if observed.results.iter().any(|seen| seen.task == task) {
        return Ok(());
    }
    let folder = kept.paths.attempt(kept.state.key(task), attempt);
    let path = folder.result();
    let content = context.disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let Content::Bytes { bytes, .. } = content else { return Ok(()) };
    let outbox_of = (!exists(context, &folder.unfenced())?).then_some(attempt);
    if let Ok(claim) = read_claim(kept, context, (task, outbox_of), &bytes) {
        let inline = inline_of(kept, context, task, &path, &bytes)?;
        let checked = check(kept, context, task, attempt, claim);
        let sha256 = bus::sha256(&bytes);
        observed.results.push(ResultSeen { task, sha256, content: Ok(checked), inline });
    }
    Ok(())
}

fn look_at_take<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    key: &TaskKey,
    attempt: Attempt,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let Some(task) = kept.state.find_key(key) else { return Ok(()) };
    let is_offered =
        matches!(kept.state.tasks[task].phase, Phase::Offered { attempt: out, .. } if out == attempt);
    if !is_offered {
        return Ok(());
    }
    let path = kept.paths.take(key, attempt);
    let content = context.disk.read(&path, bus::NOTE_BYTES_MAX).map_err(BusError::of("read", &path))?;
    if let Content::Bytes { bytes, .. } = &content {
        let sign = Sign::Take { by: take::read(bytes).by };
        observed.signs.push(SignSeen { task, attempt, sign });
    } else if let Content::Foreign { .. } = content {
        let defect = unreadable(&content, bus::NOTE_BYTES_MAX);
        note_odd(kept, path.file_name().unwrap_or_default(), &defect.message);
    }
    Ok(())
}

/// A spec that we did not publish: in an open batch it joins, in a planned one it has no place.
fn look_at_spec<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    key: TaskKey,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let path = kept.paths.spec(&key);
    let known = kept.state.find_key(&key).map(|task| &kept.state.tasks[task]);
    if known.is_some_and(|known| !known.is_refused()) {
        return Ok(());
    }
    if let Some(refused) = known.and_then(|known| known.refused_spec.as_deref())
        && holds(context, &path, bus::SPEC_BYTES_MAX, refused)?
    {
        // What was wrong with it is wrong with it still.
        let defects = known.map(TaskState::spec_defects).unwrap_or_default().to_vec();
        bus::quarantine::refuse(context.disk, context.layout, &path, &defects, now.wall)?;
        return Ok(());
    }
    if !kept.state.batch.is_open() {
        let id = &kept.state.batch.id;
        let message = format!("batch {id} was planned as a whole and has no task '{key}'");
        let remedy = "drop the spec into a directory batch-N of its own, or straight into tasks/";
        let defects = [Defect::new("not_in_plan", Place::File, message, remedy)];
        bus::quarantine::refuse(context.disk, context.layout, &path, &defects, now.wall)?;
        return Ok(());
    }
    let (content, has_writer) =
        context.disk.read_and_ask(&path, bus::SPEC_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let identity = identity_of(&content);
    let content = match content {
        Content::Absent => return Ok(()),
        Content::Changing => {
            kept.settling.is_settled(&path, None, None, now.clock, context.settings.settle);
            return Ok(());
        }
        Content::Bytes { bytes, look } => match read_spec(context, &key, &bytes) {
            Ok(task) => Ok(Box::new(task)),
            Err(defects) => {
                let settle = context.settings.settle;
                if !kept.settling.is_settled(&path, Some(look), has_writer, now.clock, settle) {
                    return Ok(());
                }
                Err(defects)
            }
        },
        other => Err(vec![unreadable(&other, bus::SPEC_BYTES_MAX)]),
    };
    kept.settling.forget(&path);
    observed.specs.push(SpecSeen { key, sha256: identity, content });
    Ok(())
}

fn read_spec<D: Disk>(
    context: &Context<'_, D>,
    key: &TaskKey,
    bytes: &[u8],
) -> Result<crate::model::Task, Vec<Defect>> {
    let dropped = spec::read_dropped(key, bytes, context.settings)?;
    for warning in &dropped.warnings {
        log::warn!("task-{key}: {warning}");
    }
    if dropped.task.brings_a_command() && !context.settings.request_commands_always {
        let field = if dropped.task.command.is_some() { "command" } else { "shell" };
        return Err(vec![Defect::field(
            "command_not_allowed",
            field,
            "a dropped spec may not bring a command",
            "name an agent of the settings, or set request_commands = \"always\"",
        )]);
    }
    Ok(dropped.task)
}

/// What names the content in the journal: the hash of bytes, or what kept them from being read.
pub(super) fn identity_of(content: &Content) -> String {
    match content {
        Content::Bytes { bytes, .. } => bus::sha256(bytes),
        Content::TooLarge { size } => format!("size:{size}"),
        Content::NotAFile(kind) => format!("kind:{}", kind.word()),
        Content::SharedLink => "kind:hard link".to_owned(),
        Content::Foreign { owner } => format!("owner:{owner}"),
        Content::Unreadable { .. } => "kind:unreadable".to_owned(),
        Content::Absent | Content::Changing => String::new(),
    }
}

/// Why a file cannot be read at all.
pub(super) fn unreadable(content: &Content, limit: u64) -> Defect {
    let (rule, message, remedy) = match content {
        Content::TooLarge { size } => (
            "too_large",
            format!("file has {size} bytes, and at most {limit} are read"),
            "write less, and put bulk data into files of its own",
        ),
        Content::NotAFile(kind) => {
            ("not_a_file", format!("is {}, not a regular file", kind.word()), "write a regular file")
        }
        Content::SharedLink => {
            ("hard_link", "has more than one name (hard link)".to_owned(), "write a file of its own")
        }
        Content::Foreign { owner } => (
            "foreign_user",
            format!("belongs to user {owner}, whom the settings do not trust"),
            "write it as the watcher's user, or name that user in trusted_uids",
        ),
        Content::Unreadable { why } => {
            ("unreadable", format!("cannot be read: {why}"), "let the watcher's user read it")
        }
        Content::Absent | Content::Changing | Content::Bytes { .. } => {
            ("unreadable", "cannot be read".to_owned(), "write it again")
        }
    };
    Defect::new(rule, Place::File, message, remedy)
}
