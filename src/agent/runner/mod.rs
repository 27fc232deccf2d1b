//! The runner: the small parent of one agent, from its start to the record of its end.
//!
//! It does what its order says and tells what it saw. It works the same whether a watcher is there or not, so
//! limits and timeouts hold while none is. It never judges a result and never starts a second agent.

mod attend;
mod beats;
mod declared;
mod ending;
mod environment;
mod files;
mod ground;
mod inspect;
mod kept;
mod log_file;
mod mirror;
mod prompt;
mod reasons;
mod report;
mod screen;
mod signals;
mod start;
mod stream;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use crate::agent::granted::Granted;
use crate::bus::platform::{pause_ms, wall_now};
use attend::Attendant;
pub use declared::DECLARED_INLINE_MAX;
use declared::Declared;
use environment::Environment;
use inspect::{CheckFiles, Inspector};
use log_file::LogFile;
use reasons::Reasons;
use report::{Ended, Run};
use signals::Signals;

use super::begun::{self, Beginner, Held};
use super::redact::redact;
use super::tree::{self, Cgroup, ProcessIdentity};
use crate::bus::layout::AttemptPaths;
use crate::bus::platform;
use crate::format::order::Order;
use crate::format::transcript::{Spoken, Transcript};
use crate::model::declared::DeclaredPlace;
use crate::model::exit::{Exit, Stopped};
use crate::model::inspected::Inspected;
use crate::model::{Seconds, WallTime};

/// An order with the longest prompt that a spec can hold.
const ORDER_BYTES_MAX: u64 = 64 << 20;

/// A session's name.
const SESSION_BYTES_MAX: u64 = 4 << 10;

/// How long to wait before a full disk is tried again.
const RETRY_MS: u64 = 1_000;
/// How often what is no want of room is tried again.
const RETRIES_MOST: u32 = 60;

/// Why there was nothing that a runner could do.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error("read {}: {source}", path.display())]
    NoOrder { path: PathBuf, source: io::Error },
    #[error("lock {}: {source}", path.display())]
    NoLock { path: PathBuf, source: io::Error },
}

/// What is ready before the agent is.
struct Begin<'a> {
    order: &'a Order,
    /// The folder that the logs go to.
    logs: &'a AttemptPaths,
    mirrors: Option<Mirrored<'a>>,
    signals: Signals,
    secrets: Arc<[String]>,
}

/// The workspace, and where in it the copies of two logs go.
#[derive(Clone, Copy)]
struct Mirrored<'a> {
    workspace: &'a Path,
    stdout: &'a Path,
    stderr: &'a Path,
}

/// Runs the attempt in this folder to its end. Does nothing if somebody else has begun it. The heir, where there
/// is one, inherits what loses its parent, should the runner die.
pub fn run(dir: &Path, heir: Option<ProcessIdentity>, granted: Granted) -> Result<(), RunnerError> {
    // The runner goes into the agent's directory, so a relative path would lose its meaning.
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let paths = AttemptPaths::at(dir);
    ground::take(paths.dir())
        .map_err(|error| RunnerError::NoOrder { path: paths.dir().to_owned(), source: error.into() })?;
    let order = read_order(&paths)?;
    platform::keep_descriptors();
    start::leave_no_core();
    if !order.echo {
        // Away from the watcher's terminal and group. A launcher may have done it already. On a terminal
        // of our own we stay, to hear when it is gone.
        let _ = rustix::process::setsid();
    }
    let cgroup = wanted_cgroup(&order);
    let cgroup_path = cgroup.as_ref().map(|group| group.path().to_string_lossy().into_owned());
    let who = Beginner { runner: ProcessIdentity::current(), heir, cgroup: cgroup_path };
    let begun = begun::begin(&paths, who, &order.mark);
    let held = begun.map_err(|source| RunnerError::NoLock { path: paths.lock(), source })?;
    if let Some(mut held) = held {
        let exit = run_begun((&order, &paths), granted, &mut held, cgroup.as_ref());
        let record = serde_json::to_vec(&exit).unwrap_or_default();
        stubbornly(|| publish_record(&paths, &order.paths.exit, &record));
    }
    if let Some(cgroup) = cgroup {
        let _ = cgroup.remove();
    }
    Ok(())
}

/// Publishes the exit record, although the agent may have removed the folder that it is staged in, or put something
/// else in its place: then it is staged beside the place where it goes.
fn publish_record(paths: &AttemptPaths, exit: &Path, record: &[u8]) -> io::Result<()> {
    let stagings: [&dyn Fn() -> io::Result<()>; 3] = [
        &|| files::publish(paths.dir(), exit, record),
        &|| files::make_folder(paths.dir()).and_then(|()| files::publish(paths.dir(), exit, record)),
        &|| files::publish(exit.parent().unwrap_or(paths.dir()), exit, record),
    ];
    let mut published = Ok(());
    for publish in stagings {
        published = publish();
        if !published.as_ref().is_err_and(is_hopeless) {
            break;
        }
    }
    published
}

fn read_order(paths: &AttemptPaths) -> Result<Order, RunnerError> {
    let path = paths.order();
    let read = files::read(&path, ORDER_BYTES_MAX).and_then(|bytes| {
        let bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
        Ok(serde_json::from_slice(&bytes)?)
    });
    read.map_err(|source| RunnerError::NoOrder { path, source })
}

/// A group for the attempt's processes, where it is asked for.
fn wanted_cgroup(order: &Order) -> Option<Cgroup> {
    // Making one and moving in and out costs more than a short task itself; the subreaper's walk is as thorough.
    let is_wanted = std::env::var_os("WK_CGROUPS").is_some_and(|value| value == "on");
    is_wanted.then(|| Cgroup::create(&order.mark)).flatten()
}

/// Everything between the begin record and the exit record.
fn run_begun(
    (order, paths): (&Order, &AttemptPaths),
    granted: Granted,
    held: &mut Held,
    cgroup: Option<&Cgroup>,
) -> Exit {
    let (started_at, started_ms) = (wall_now(), platform::monotonic_ms());
    let mut reasons = Reasons::new(order, paths, started_ms);
    if let Some(stopped) = reasons.before_start() {
        return never_begun(order, paths, started_at, stopped);
    }
    let (mut inspector, declared, environment) = match prepare(order, paths, granted) {
        Ok(prepared) => prepared,
        Err(why) => return never_begun(order, paths, started_at, not_started(&why, &[])),
    };
    let (begin, child) = match start(order, (paths, mirrors_of(order)), &environment, cgroup) {
        Ok(started) => started,
        Err(why) => return never_begun(order, paths, started_at, not_started(&why, &environment.secrets)),
    };
    // The agent runs; whether the record could be completed changes nothing for it.
    let _ = held.started(child.id());
    let mut attendant = Attendant::new(begin, child, started_ms);
    let mut stopped = attendant.attend(&mut reasons);
    ending::end_everyone(&mut attendant, cgroup, stopped.as_ref());
    let spoken = heard(order, attendant.finish(), &attendant.secrets);
    let signal = attendant.status.and_then(|status| status.signal());
    stopped = stopped.or_else(|| reasons::limit_of_signal(signal?, &order.limits));
    let usage = platform::children_usage();
    let run = Run {
        wall: attendant.elapsed(),
        cpu: Seconds(usage.cpu_us as f64 / 1_000_000.0),
        peak_memory_kb: usage.peak_memory_kb.max(reasons.peak_memory_bytes >> 10),
    };
    let left = leave_result(order, paths, &attendant, (&spoken, stopped.as_ref(), run));
    let mut exit = Exit {
        task: order.task.clone(),
        attempt: order.attempt,
        exit_code: attendant.status.and_then(|status| status.code()),
        signal,
        stopped,
        started_at,
        ended_at: wall_now(),
        wall_seconds: run.wall.0,
        cpu_seconds: run.cpu.0,
        peak_memory_kb: run.peak_memory_kb,
        redacted: attendant.out.found() + attendant.err.found(),
        cost_usd: spoken.cost_usd,
        result_by_runner: left.as_ref().is_ok_and(|is_by_runner| *is_by_runner),
        no_result: left.err(),
        warnings: spoken.warnings,
        produced: Vec::new(),
        inspected_sha256: None,
        declared: Vec::new(),
        baseline_sha256: declared.as_ref().map(Declared::sha256),
        session: session_of(paths),
        mark: Some(order.mark.clone()),
    };
    drop(attendant);
    let mut places = declared.as_ref().map(Declared::end).unwrap_or_default();
    if declared::fit_inline(&mut places) {
        exit.declared = std::mem::take(&mut places);
    }
    let check_files = declared.as_ref().map(Declared::check_files);
    conclude(&mut exit, paths, inspector.as_mut(), (places, check_files), (&environment, cgroup));
    exit
}

/// What is looked at when the agent has ended, written beside the exit record where that has no room for it.
fn conclude(
    exit: &mut Exit,
    paths: &AttemptPaths,
    inspector: Option<&mut Inspector<'_>>,
    (places, check_files): (Vec<DeclaredPlace>, Option<CheckFiles>),
    (environment, cgroup): (&Environment, Option<&Cgroup>),
) {
    if let Some(inspector) = inspector {
        inspector.conclude(exit, (places, check_files), environment, cgroup);
    } else if !places.is_empty() {
        let inspected = Inspected { declared: places, ..Inspected::default() };
        exit.inspected_sha256 = inspect::write(paths, &inspected);
    }
}

/// Where copies of the two logs go, if anywhere.
fn mirrors_of(order: &Order) -> Option<Mirrored<'_>> {
    let inspection = order.inspection.as_deref()?;
    let mirrors = inspection.mirrors.as_ref()?;
    Some(Mirrored { workspace: &inspection.workspace, stdout: &mirrors.stdout, stderr: &mirrors.stderr })
}

/// What must stand before the agent begins: its environment, and how the files look without it.
fn prepare<'a>(
    order: &'a Order,
    paths: &'a AttemptPaths,
    mut granted: Granted,
) -> Result<(Option<Inspector<'a>>, Option<Declared<'a>>, Environment), String> {
    let left = environment::take_values(paths)
        .map_err(|error| format!("cannot take the agent's environment: {error}; see its launcher"))?;
    granted.extend(left);
    let environment = environment::environment_of(order, &granted, |name| std::env::var_os(name));
    let inspection = order.inspection.as_deref();
    let inspector = inspection.map(|inspection| Inspector::begin(order, inspection, paths)).transpose()?;
    let declared = order.declared.as_deref();
    let declared = declared.map(|declared| Declared::begin(order, declared, paths)).transpose()?;
    Ok((inspector, declared, environment))
}

/// Starts a command of the order's; the error is a sentence for people.
fn start<'a>(
    order: &'a Order,
    (logs, mirrors): (&'a AttemptPaths, Option<Mirrored<'a>>),
    environment: &Environment,
    cgroup: Option<&Cgroup>,
) -> Result<(Begin<'a>, Child), String> {
    let signals = Signals::catch(order.echo).map_err(|error| format!("cannot wait for signals: {error}"))?;
    // Where it cannot be had, the tree is ended as far as it can be seen.
    let _ = tree::become_subreaper();
    let start = || start::start(order, environment);
    let child = match cgroup.map(|group| group.around(start)) {
        Some(Ok(started)) => started?,
        // Nothing was started yet, and the walk through the tree does without.
        Some(Err(_)) | None => start()?,
    };
    let secrets = environment.secrets.clone().into();
    Ok((Begin { order, logs, mirrors, signals, secrets }, child))
}

/// Why no agent began, without secrets: it quotes the command and the directory, which may hold one.
fn not_started(why: &str, secrets: &[String]) -> Stopped {
    Stopped::NotStarted { why: redact(why, secrets) }
}

/// The record of an attempt without an agent.
fn never_begun(order: &Order, paths: &AttemptPaths, started_at: WallTime, stopped: Stopped) -> Exit {
    environment::discard_values(paths);
    let _ = LogFile::create(paths.stdout(), None);
    let mut log = LogFile::create(paths.stderr(), None);
    if let Stopped::NotStarted { why } = &stopped {
        log.append(format!("wk: {why}\n").as_bytes());
    }
    Exit {
        task: order.task.clone(),
        attempt: order.attempt,
        exit_code: None,
        signal: None,
        stopped: Some(stopped),
        started_at,
        ended_at: wall_now(),
        wall_seconds: 0.0,
        cpu_seconds: 0.0,
        peak_memory_kb: 0,
        redacted: 0,
        cost_usd: None,
        result_by_runner: false,
        no_result: None,
        warnings: Vec::new(),
        produced: Vec::new(),
        inspected_sha256: None,
        declared: Vec::new(),
        baseline_sha256: None,
        session: session_of(paths),
        mark: Some(order.mark.clone()),
    }
}

/// The terminal session that a launcher made for the attempt.
fn session_of(paths: &AttemptPaths) -> Option<String> {
    let bytes = files::read(&paths.session(), SESSION_BYTES_MAX).ok().flatten()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().next().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// What the agent's output told, fit to be written down.
fn heard(order: &Order, transcript: Option<Transcript>, secrets: &[String]) -> Spoken {
    // Silence is told as well: a CLI that tells stories and told none did perhaps nothing.
    let mut spoken = transcript.unwrap_or_else(|| Transcript::new(order.dialect)).finish();
    let Spoken { final_message, failure, warnings, .. } = &mut spoken;
    for text in [final_message, failure].into_iter().flatten().chain(warnings) {
        *text = redact(text, secrets);
    }
    spoken
}

/// Writes a result if the agent wrote none. Tells whether it did; the error is why it could not.
///
/// That of an agent that was ended is for people: the record decides. Where outputs are inspected the record of a
/// clean end may come to say that it was stopped, too, and nobody could tell the one from the other.
fn leave_result(
    order: &Order,
    paths: &AttemptPaths,
    attendant: &Attendant,
    (spoken, stopped, run): (&Spoken, Option<&Stopped>, Run),
) -> Result<bool, String> {
    if stopped.is_some() && order.inspection.is_some() {
        return Ok(false);
    }
    let says_something = |path: &PathBuf| files::glimpse(path).is_some_and(|seen| seen.says_something());
    let is_in_box = order.paths.boxes().any(says_something);
    // Looked at second: the watcher moves it from the one to the other.
    let is_delivered = is_in_box || files::glimpse(&paths.result()).is_some_and(|seen| seen.is_written());
    let (false, Some(status)) = (is_delivered, attendant.status) else { return Ok(false) };
    let (out, err) = (&attendant.out.kept, &attendant.err.kept);
    let ended = Ended { status, stopped, out, err, spoken, run };
    // Nobody reads it before the exit record is published.
    match stubbornly(|| files::write(&paths.result(), &report::result_of(order, &ended))) {
        true => Ok(true),
        false => Err("its attempt's folder was removed while it ran".to_owned()),
    }
}

/// Writes as soon as the disk lets it. Gives up where nobody can ever read it, because the folder is gone or something
/// else is in its place; and after a minute where nothing says that the cause will pass.
fn stubbornly(write: impl Fn() -> io::Result<()>) -> bool {
    let mut tries = 0;
    loop {
        match write() {
            Ok(()) => return true,
            Err(error) if is_hopeless(&error) => return false,
            Err(error) if !is_want(&error) && tries >= RETRIES_MOST => return false,
            Err(_) => pause_ms(RETRY_MS),
        }
        tries += 1;
    }
}

/// Whether the place itself is not there, or is no folder.
fn is_hopeless(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || errno == Some(rustix::io::Errno::LOOP)
}

/// Whether something is used up, or may not be written for now: whoever sees to the machine will see to that.
fn is_want(error: &io::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    use rustix::io::Errno;
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem | OutOfMemory)
        || matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
