//! The scan of one batch: what lies in its directory, read without trust, and nothing decided about it.
//!
//! The one thing it moves is a valid result of the current attempt: collected by rename before the journal
//! names it, so that the journal never names bytes that are not safe.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::beats::look_at_heartbeats;
use super::kept::{Attention, Kept};
use super::{Context, TurnError};
use crate::bus::disk::{BusError, Durability};
use crate::bus::{self, BusName, Content, Disk};
use crate::decide::{Checked, Now, Observed, ResultSeen, SignSeen, SpecSeen, WishSeen};
use crate::format::{result, spec, take, wish};
use crate::model::event::Sign;
use crate::model::state::{Phase, TaskIx};
use crate::model::{Attempt, Claim, Defect, Place, TaskKey, Verdict};
use crate::verify;

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
        look_at_collected(kept, context, task, now, &mut observed)?;
        look_at_result(kept, context, task, now, &mut observed)?;
    }
    match attention {
        Attention::Names(names) => {
            for name in names {
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
            for entry in listed {
                look_at_name(kept, context, &entry.name, now, &mut observed)?;
            }
            look_at_wishes(kept, context, now, &mut observed, &mut granted)?;
            look_at_heartbeats(kept, context, now, &mut observed)?;
        }
    }
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
            Some(task) => look_at_result(kept, context, task, now, observed)?,
            None => note_odd(kept, name, "a result for a task that this batch does not have"),
        },
        BusName::Take(key, attempt) => look_at_take(kept, context, &key, attempt, observed)?,
        BusName::Spec(key) => look_at_spec(kept, context, key, now, observed)?,
        BusName::BadId { defect, .. } => refuse_bad_name(kept, context, name, &defect, now)?,
        BusName::Unknown => note_odd(kept, name, "not a file of the bus"),
        BusName::Heartbeat(_) | BusName::ResultError(_) | BusName::Own | BusName::Dropping => {}
    }
    Ok(())
}

fn note_odd(kept: &mut Kept, name: &OsStr, why: &str) {
    let shown = name.to_string_lossy().escape_debug().to_string();
    if !kept.odd_names.contains_key(&shown) {
        log::warn!("{}: {shown}: ignored: {why}", kept.paths.dir().display());
        kept.odd_names.insert(shown, why.to_owned());
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

/// Looks into a task's drop box.
pub(super) fn look_at_result<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    if observed.results.iter().any(|seen| seen.task == task) {
        return Ok(());
    }
    let path = kept.paths.result(kept.state.key(task));
    let (content, has_writer) =
        context.disk.read_and_ask(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    if matches!(content, Content::Absent) {
        kept.settling.forget(&path);
        kept.held.remove(&task);
        return Ok(());
    }
    if matches!(kept.state.tasks[task].phase, Phase::Waiting { .. } | Phase::Ready) {
        kept.held.insert(task);
        return Ok(());
    }
    let settle = context.settings.settle;
    let identity = identity_of(&content);
    let content = match content {
        Content::Absent => return Ok(()),
        Content::Changing => {
            kept.settling.is_settled(&path, None, None, now.clock, settle);
            return Ok(());
        }
        // Empty means: not yet written.
        Content::Bytes { bytes, .. } if bytes.is_empty() => return Ok(()),
        Content::Unreadable { why } => {
            note_odd(kept, path.file_name().unwrap_or_default(), &why);
            return Ok(());
        }
        Content::Bytes { bytes, look } => match read_claim(kept, task, &bytes) {
            Ok(claim) if has_writer == Some(true) => {
                if !kept.settling.is_at_rest(&path, look, now.clock, settle) {
                    return Ok(());
                }
                Ok(claim)
            }
            Ok(claim) => Ok(claim),
            Err(defects) => {
                if !kept.settling.is_settled(&path, Some(look), has_writer, now.clock, settle) {
                    return Ok(());
                }
                Err(defects)
            }
        },
        other => Err(vec![unreadable(&other, bus::RESULT_BYTES_MAX)]),
    };
    kept.settling.forget(&path);
    let content = match content {
        Err(defects) => Err(defects),
        Ok(claim) => {
            kept.unexamined.push(task);
            let Some(checked) = collect(kept, context, task, claim)? else { return Ok(()) };
            Ok(checked)
        }
    };
    observed.results.push(ResultSeen { task, sha256: identity, content });
    Ok(())
}

/// Reads a claim, and refuses one that speaks for another task.
fn read_claim(kept: &Kept, task: TaskIx, bytes: &[u8]) -> Result<Claim, Vec<Defect>> {
    let claim = result::read(bytes)?;
    let spec = &kept.state.tasks[task].spec;
    if spec.answers_to(&claim.task_id) {
        return Ok(claim);
    }
    let message = format!("is '{}', but this is the drop box of '{}'", claim.task_id, spec.task_id);
    Err(vec![Defect::field(
        "wrong_task",
        "task_id",
        message,
        format!("write \"task_id\": \"{}\"", spec.task_id),
    )])
}

/// Takes the current attempt's result into its folder and looks at what it claims. A result for another
/// attempt stays where it is; `None` means that it vanished meanwhile.
fn collect<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    claim: Claim,
) -> Result<Option<Checked>, TurnError> {
    let state = &kept.state.tasks[task];
    let current = match state.phase {
        Phase::Offered { attempt, .. } | Phase::Running { attempt, .. }
            if claim.attempt.is_none_or(|said| said == attempt) =>
        {
            attempt
        }
        _ => return Ok(Some(Checked { claim, verdict: Verdict::default() })),
    };
    let from = kept.paths.result(&state.spec.key);
    let to = kept.paths.attempt(&state.spec.key, current).result();
    if !bus::disk::rename_if_present(context.disk, &from, &to, Durability::Synced)
        .map_err(BusError::of("collect", &from))?
    {
        return Ok(None);
    }
    Ok(Some(check(kept, context, task, current, claim)))
}

fn check<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
    claim: Claim,
) -> Checked {
    let spec = &kept.state.tasks[task].spec;
    let paths = kept.paths.attempt(&spec.key, attempt);
    let names_files = claim.files().next().is_some();
    let begun = if names_files { context.disk.look(&paths.spec()).ok().flatten() } else { None };
    let scope = if spec.files_modified.is_empty() { None } else { read_scope(context, &paths) };
    let beginning = verify::Beginning {
        changed_ns: begun.map_or(0, |look| look.changed_ns),
        scope: scope.unwrap_or_default(),
    };
    let verdict = verify::check_claim(context.disk, context.layout.root(), spec, &claim, &beginning);
    Checked { claim, verdict }
}

fn read_scope<D: Disk>(context: &Context<'_, D>, paths: &bus::layout::AttemptPaths) -> Option<verify::Scope> {
    match context.disk.read(&paths.before(), bus::SPEC_BYTES_MAX * 16) {
        Ok(Content::Bytes { bytes, .. }) => Some(verify::Scope::from_bytes(&bytes)),
        _ => None,
    }
}

/// A result that was collected just before a crash is in the attempt's folder, and nobody knows of it yet.
fn look_at_collected<D: Disk>(
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
    let path = kept.paths.attempt(kept.state.key(task), attempt).result();
    let content = context.disk.read(&path, bus::RESULT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let Content::Bytes { bytes, .. } = content else { return Ok(()) };
    if let Ok(claim) = read_claim(kept, task, &bytes) {
        let checked = check(kept, context, task, attempt, claim);
        observed.results.push(ResultSeen { task, sha256: bus::sha256(&bytes), content: Ok(checked) });
    }
    Ok(())
}

fn look_at_take<D: Disk>(
    kept: &Kept,
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
    if let Content::Bytes { bytes, .. } = content {
        let sign = Sign::Take { by: take::read(&bytes).by };
        observed.signs.push(SignSeen { task, attempt, sign });
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
    if kept.state.find_key(&key).is_some() {
        return Ok(());
    }
    let path = kept.paths.spec(&key);
    if !kept.state.batch.is_open() {
        let id = &kept.state.batch.id;
        let message = format!("batch {id} was planned as a whole and has no task '{key}'");
        let remedy = "drop the spec into a directory batch-N of its own, or straight into tasks/";
        let defects = [Defect::new("not_in_plan", Place::File, message, remedy)];
        bus::quarantine::refuse(context.disk, context.layout, &path, &defects, now.wall)?;
        return Ok(());
    }
    let content = context.disk.read(&path, bus::SPEC_BYTES_MAX).map_err(BusError::of("read", &path))?;
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
                let has_writer = context.disk.has_writer(&path);
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
    if dropped.task.command.is_some() && !context.settings.request_commands_always {
        return Err(vec![Defect::field(
            "command_not_allowed",
            "command",
            "a dropped spec may not bring a command",
            "name an agent of the settings, or set request_commands = \"always\"",
        )]);
    }
    Ok(dropped.task)
}

fn look_at_wishes<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    now: Now,
    observed: &mut Observed,
    granted: &mut Vec<PathBuf>,
) -> Result<(), TurnError> {
    let dir = kept.paths.control();
    let listed = match context.disk.list(&dir) {
        Ok(listed) => listed,
        Err(error) if bus::disk::is_absent(&error) => return Ok(()),
        // Somebody put something else there: then there are no wishes.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(()),
        Err(error) => return Err(BusError::of("list", &dir)(error).into()),
    };
    let is_wish = |name: &OsString| name.to_str().is_some_and(|name| !bus::layout::is_dropping(name));
    for entry in listed.into_iter().filter(|entry| is_wish(&entry.name)) {
        let path = dir.join(&entry.name);
        let content = context.disk.read(&path, bus::NOTE_BYTES_MAX).map_err(BusError::of("read", &path))?;
        let (read, look) = match content {
            Content::Absent | Content::Changing => continue,
            Content::Bytes { bytes, look } => (wish::read(&bytes), Some(look)),
            other => (Err(vec![unreadable(&other, bus::NOTE_BYTES_MAX)]), None),
        };
        match read {
            Ok(wish) if !is_about_this_batch(kept, &wish) => {
                let message = "this batch has no such task";
                let defect = Defect::field("unknown_task", "task", message, "`wk status` lists the tasks");
                bus::quarantine::refuse(context.disk, context.layout, &path, &[defect], now.wall)?;
            }
            Ok(wish) => {
                observed.wishes.push(WishSeen { task: wish.task, by: wish.by, why: wish.why });
                granted.push(path);
            }
            Err(defects) => {
                let has_writer = context.disk.has_writer(&path);
                let settle = context.settings.settle;
                if look.is_none() || kept.settling.is_settled(&path, look, has_writer, now.clock, settle) {
                    kept.settling.forget(&path);
                    bus::quarantine::refuse(context.disk, context.layout, &path, &defects, now.wall)?;
                }
            }
        }
    }
    Ok(())
}

fn is_about_this_batch(kept: &Kept, wish: &wish::Wish) -> bool {
    wish.task.as_ref().is_none_or(|task| kept.state.find(task.as_str()).is_some())
}

/// What names the content in the journal: the hash of bytes, or what kept them from being read.
pub(super) fn identity_of(content: &Content) -> String {
    match content {
        Content::Bytes { bytes, .. } => bus::sha256(bytes),
        Content::TooLarge { size } => format!("size:{size}"),
        Content::NotAFile(kind) => format!("kind:{}", kind.word()),
        Content::SharedLink => "kind:hard link".to_owned(),
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
        Content::Unreadable { why } => {
            ("unreadable", format!("cannot be read: {why}"), "let the watcher's user read it")
        }
        Content::Absent | Content::Changing | Content::Bytes { .. } => {
            ("unreadable", "cannot be read".to_owned(), "write it again")
        }
    };
    Defect::new(rule, Place::File, message, remedy)
}
