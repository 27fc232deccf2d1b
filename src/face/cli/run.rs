//! `wk run FILE`: accepts a request, watches it to the end with live progress, prints the summary. On a bus
//! that is already watched it hands the request over and follows it; if that watcher ends, it takes over.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::check::Request;
use super::follow::{Followed, Interrupt, Progress, follow, print_line};
use super::{Desk, Exit, Outcome, Trouble, ground, locate, submit, terminal};
use crate::bus::disk::BusError;
use crate::bus::lease::{Lease, LeaseError};
use crate::bus::{Disk, Durability, RealDisk};
use crate::model::event::BatchStatus;
use crate::model::settings::Given;
use crate::model::{BatchId, Defect, Grade};
use crate::outcome::handoff::places::workspace_logs;
use crate::outcome::handoff::{progress as lines, report_bytes};
use crate::outcome::{aggregate, summary};
use crate::view::snapshot::{Live, Snapshot};
use crate::view::words::counted;
use crate::watcher::act::collected_claims;
use crate::watcher::kept;
use crate::watcher::project::live_of;
use crate::watcher::run::Session;

/// Accepts a request, watches it to the end with live progress, prints the summary.
///
/// Tasks that no agent in the settings serves wait for agents from outside: start them yourself, by the
/// published specs in .ce/orchestration/tasks/, or with `wk agent next`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk run plan.md\n  wk run plan.md --agent claude\n  wk run plan.md --agent codex --launcher tmux\n  wk run plan.md --require observed\n  wk run execution_request.json --output execution_report.json\n  wk run assignments.json --dry-run\n  wk run plan.md --set heartbeat_timeout_seconds=120 --json"
)]
pub struct Run {
    /// A plan (Markdown with phases, or JSON), an execution request, or assignments
    file: PathBuf,
    /// The least evidence with which a task may succeed: claimed, observed or verified
    #[arg(long, value_name = "GRADE")]
    require: Option<String>,
    /// Who does the tasks that name nobody: an agent of the settings, or a preset (claude, codex, opencode,
    /// gemini, shell)
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How agents are started that do not say: process, tmux or external
    #[arg(long, value_name = "NAME")]
    launcher: Option<String>,
    /// Writes the report there too, in the words of the request; a dry run has none
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How progress is shown: `json` prints one object a line instead of dashboard and summary
    #[arg(long, value_name = "FORM", value_parser = ["json", "text"])]
    progress: Option<String>,
    /// Checks and shows what would happen, as `wk check` does, and starts nothing
    #[arg(long = "dry-run")]
    only_shows: bool,
    /// Whether the criteria of a handed-over request are checked by their commands, whatever it says itself
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    verify: Option<bool>,
    /// Shows no progress, only the summary
    #[arg(long, short)]
    quiet: bool,
}

impl Run {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        desk.require(self.require.as_deref())?;
        let own = [("agent", &self.agent), ("launcher", &self.launcher)];
        for (key, value) in own.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            let put = desk.settings.put(key, Given::Text(value.clone()));
            put.map_err(|defect| Trouble::new(Exit::BadRequest, format!("--{key} {value}: {defect}")))?;
        }
        super::check_agent(&desk.settings)?;
        let request = Request::read(&self.file)?;
        desk.settings.verify = self.verify;
        let wants_lines = self.progress.as_deref() == Some("json");
        let plan = match request.read_plan(desk, &desk.surroundings()) {
            Ok(plan) => plan,
            Err(defects) => return Err(refused(&request, &defects, wants_lines)),
        };
        if self.only_shows || plan.is_dry_run() {
            match wants_lines {
                true => super::check::show_as_line(plan),
                false => drop(super::check::show(desk, plan)),
            }
            return Ok(Exit::Done);
        }
        ground::prepare(desk)?;
        let mut progress = match wants_lines {
            true => Progress::as_lines(desk),
            false => Progress::new(desk, self.quiet),
        };
        let asked = Asked { request: &request, output: self.output.as_deref() };
        let ended = self.carry_out(desk, asked, &mut progress);
        match (&self.output, ended) {
            // It is not known yet; whoever ends the batch writes it.
            (Some(output), Ok(Exit::Interrupted)) => {
                terminal::tell(&format!("{} is written when the batch has ended", output.display()));
                Ok(Exit::Interrupted)
            }
            (Some(output), Ok(exit)) => deliver(desk, &request, output).map(|()| exit),
            (_, ended) => ended,
        }
    }

    fn carry_out(&self, desk: &Desk, asked: Asked<'_>, progress: &mut Progress) -> Outcome {
        match Lease::take(&desk.layout) {
            Ok(lease) => watch_own(desk, lease, Some(asked), None, progress),
            Err(LeaseError::Held { .. }) if self.agent.is_some() || self.launcher.is_some() => Err(
                Trouble::new(Exit::Held, "this bus is watched, and its watcher decides who does the tasks")
                    .hint("put agent and launcher into .ce/watchkeeper.toml, or name agents in the plan"),
            ),
            Err(LeaseError::Held { .. }) if self.verify.is_some() => {
                Err(Trouble::new(Exit::Held, "this bus is watched, and its watcher reads the request alone")
                    .hint("write verify into the assignments, or run it where no watcher holds the bus"))
            }
            Err(LeaseError::Held { .. }) => hand_over(desk, asked, progress),
            Err(error) => Err(error.into()),
        }
    }
}

/// What the caller wants carried out, and where the report is to go.
#[derive(Clone, Copy)]
struct Asked<'a> {
    request: &'a Request,
    output: Option<&'a Path>,
}

impl Asked<'_> {
    /// Notes with the batch where the report is to go.
    fn note_output(&self, desk: &Desk, id: &BatchId) -> Result<(), Trouble> {
        let Some(output) = self.output else { return Ok(()) };
        let whole = std::path::absolute(output).map_err(BusError::of("find", output))?;
        let path = locate::batch(desk, id.as_str())?.paths.deliveries();
        let bytes = serde_json::to_vec(&[whole]).unwrap_or_default();
        let noted = RealDisk::default().publish(&path, &bytes, Durability::Synced);
        Ok(noted.map_err(BusError::of("publish", &path))?)
    }
}

/// The batch that this very request has become, and that has not ended: its watcher was killed, or somebody stopped
/// watching it.
pub fn under_way(desk: &Desk, request: &Request) -> Option<BatchId> {
    let disk = RealDisk::default();
    let sha256 = crate::bus::sha256(&request.bytes);
    let mut active = locate::active(desk).ok()?.into_iter();
    let is_it = |found: &locate::Found| {
        kept::read_batch(&disk, &found.paths).is_ok_and(|batch| batch.source.sha256 == sha256)
    };
    let found = active.find(is_it).map(|mut found| (found.load(&disk).ok(), found.id.clone()));
    found
        .filter(|(loaded, _)| loaded.as_ref().is_some_and(|(state, _)| state.finished.is_none()))
        .map(|(_, id)| id)
}

/// Watches the bus until this batch has ended, and prints what came of it.
pub fn watch(desk: &Desk, lease: Lease, id: BatchId, progress: &mut Progress) -> Outcome {
    watch_own(desk, lease, None, Some(id), progress)
}

/// Watches the bus until one batch has ended: the request's, or one that lost its watcher.
fn watch_own(
    desk: &Desk,
    lease: Lease,
    asked: Option<Asked<'_>>,
    orphan: Option<BatchId>,
    progress: &mut Progress,
) -> Outcome {
    let orphan = orphan.or_else(|| asked.and_then(|asked| under_way(desk, asked.request)));
    let is_new = orphan.is_none();
    let (layout, settings) = (desk.layout.clone(), desk.settings.clone());
    let mut session = Session::open(lease, desk.disk(), layout, settings, desk.runners())?;
    session.longest_wait_ms = progress.longest_wait_ms();
    let interrupt = Interrupt::listen(Some(session.wake.nudger()))?;
    let Some(id) = batch_of(desk, &mut session, asked, orphan, progress)? else { return Ok(Exit::Done) };
    announce(desk, &session, &id, is_new, progress);
    let mut ended = None;
    let mut awaits = false;
    let mut removal = Removal::default();
    let mut advice = Advice::default();
    session.run(|session, report| {
        let finished = report.finished.iter().find(|(finished, _)| *finished == id);
        ended = finished.map(|(_, status)| *status);
        if ended.is_some() || interrupt.came() {
            return ControlFlow::Break(());
        }
        if session.watcher.batches.get(&id).is_some_and(|kept| kept.state.awaits_a_person()) {
            awaits = true;
            return ControlFlow::Break(());
        }
        if let Some(why) = session.watcher.broken.get(&id) {
            terminal::tell(&format!("error: batch {id} is stopped: {why}"));
            return ControlFlow::Break(());
        }
        if removal.is_certain(desk, &id) {
            return ControlFlow::Break(());
        }
        session.longest_wait_ms = removal.longest_wait_ms(progress.longest_wait_ms());
        let (now, mode) = (session.now(), session.mode());
        if let Some(kept) = session.watcher.batches.get(&id) {
            progress.tell(&kept.state, || live_of(kept, mode, now));
        }
        let snapshot = || session.watcher.snapshot(&id, mode, now).into_iter().collect::<Vec<_>>();
        advice.give(desk, snapshot);
        progress.show(snapshot);
        ControlFlow::Continue(())
    })?;
    session.watcher.release();
    match ended {
        Some(status) => conclude(desk, &id, status, progress),
        None if interrupt.came() => {
            progress.finish(&[]);
            terminal::tell(&format!("stopped watching; batch {id} is kept as it is"));
            terminal::tell("hint: `wk watch` goes on with it, `wk cancel` ends it");
            Ok(Exit::Interrupted)
        }
        None if awaits => {
            progress.finish(&[]);
            ask_person(&session, &id, progress);
            Ok(Exit::Awaiting)
        }
        None if removal.since_ms.is_some() => Err(removed(desk, &id, progress)),
        None => Ok(Exit::Disk),
    }
}

/// The batch that is watched: one that is there already, or the request's.
fn batch_of(
    desk: &Desk,
    session: &mut Session,
    asked: Option<Asked<'_>>,
    orphan: Option<BatchId>,
    progress: &Progress,
) -> Result<Option<BatchId>, Trouble> {
    let id = match (asked, orphan) {
        (_, Some(id)) => id,
        (Some(Asked { request, .. }), None) => {
            let now = session.now();
            let accepted = session.watcher.accept(&request.name, &request.bytes, now)?;
            accepted.map_err(|defects| refused(request, &defects, progress.is_lines()))?
        }
        (None, None) => return Ok(None),
    };
    let accepted_with = session.watcher.batches.get(&id).map(|kept| kept.state.batch.require);
    refuse_a_late_demand(desk, &id, accepted_with)?;
    if let Some(asked) = asked {
        asked.note_output(desk, &id)?;
    }
    Ok(Some(id))
}

/// A batch is judged by what was demanded when it was accepted: nobody is told that a later demand was met.
fn refuse_a_late_demand(desk: &Desk, id: &BatchId, accepted_with: Option<Grade>) -> Result<(), Trouble> {
    match (desk.demanded, accepted_with) {
        (Some(demanded), Some(required)) if demanded > required => {
            let what = format!("batch {id} is under way, and was accepted with require = {required}");
            Err(Trouble::new(Exit::BadRequest, what)
                .hint(format!("`wk cancel {id}` ends it; then run the request with --require {demanded}")))
        }
        _ => Ok(()),
    }
}

/// Notices that the batch's directory is gone. A person may be moving it, so it is waited for a little.
#[derive(Default)]
struct Removal {
    since_ms: Option<u64>,
}

impl Removal {
    fn is_certain(&mut self, desk: &Desk, id: &BatchId) -> bool {
        const PATIENCE_MS: u64 = 3_000;
        let dir = desk.layout.batch(id);
        // Only a look that finds nothing says so; one that fails says nothing.
        if !matches!(RealDisk::default().look(dir.dir()), Ok(None)) {
            self.since_ms = None;
            return false;
        }
        let now = crate::bus::platform::monotonic_ms();
        now - *self.since_ms.get_or_insert(now) >= PATIENCE_MS
    }

    /// Nothing that could still happen would wake a watcher whose directory is gone.
    fn longest_wait_ms(&self, usual: u64) -> u64 {
        const WHILE_GONE_MS: u64 = 500;
        if self.since_ms.is_some() { usual.min(WHILE_GONE_MS) } else { usual }
    }
}

/// What is to be said of a batch whose directory is neither under way nor in the archive.
fn removed(desk: &Desk, id: &BatchId, progress: &mut Progress) -> Trouble {
    progress.finish(&[]);
    let text = format!("batch {id} was removed while it ran: {} is gone", spec_dir(desk, id));
    Trouble::new(Exit::Disk, text)
        .hint("nothing can come of it any more; its agents end by themselves")
        .hint("run it again for a new batch, or put the directory back and start `wk watch`")
}

/// Says that the batch is there, or there again.
fn announce(desk: &Desk, session: &Session, id: &BatchId, is_new: bool, progress: &Progress) {
    if progress.is_lines() {
        if let Some(kept) = session.watcher.batches.get(id) {
            print_line(&lines::accepted(&kept.state));
        }
    } else if !desk.json {
        terminal::tell(&match is_new {
            true => accepted(desk, session, id),
            false => format!("Batch {id} goes on"),
        });
    }
}

/// Says for what a person is asked, and what to do.
fn ask_person(session: &Session, id: &BatchId, progress: &mut Progress) {
    let kept = session.watcher.batches.get(id);
    let is_merge = kept.is_some_and(|kept| kept.state.awaits_resolution());
    if let (true, Some(kept)) = (progress.is_lines(), kept) {
        progress.tell(&kept.state, Live::default);
        print_line(&lines::finished(&kept.state));
    }
    terminal::tell(&format!("batch {id} waits for a person: `wk status {id}` says for what"));
    terminal::tell(&match is_merge {
        true => format!("hint: `wk resolve {id}` lists the conflicts and takes your word on them"),
        false => {
            "hint: see that no process of it is left, then `wk retry TASK`; or `wk cancel` it".to_owned()
        }
    });
}

/// A refusal, also as a line for those who want lines.
fn refused(request: &Request, defects: &[Defect], as_line: bool) -> Trouble {
    if as_line {
        let told = |defect: &Defect| {
            json!({
                "rule": defect.rule, "place": defect.place.to_string(),
                "message": defect.message, "remedy": defect.remedy,
            })
        };
        let defects: Vec<Value> = defects.iter().map(told).collect();
        print_line(&json!({"event": "refused", "defects": defects}));
    }
    Trouble::refused(&request.name, defects)
}

/// Writes the report also where the caller wants it.
fn deliver(desk: &Desk, request: &Request, output: &Path) -> Result<(), Trouble> {
    let disk = RealDisk::default();
    let sha256 = crate::bus::sha256(&request.bytes);
    let is_it = |found: &locate::Found| {
        kept::read_batch(&disk, &found.paths).is_ok_and(|batch| batch.source.sha256 == sha256)
    };
    // The newest: the same request may have been run before.
    let all = locate::active(desk)?.into_iter().rev().chain(locate::archived(desk)?.into_iter().rev());
    let Some(mut found) = all.into_iter().find(is_it) else { return Ok(()) };
    let (state, _) = found.load(&disk)?;
    let claims = collected_claims(&disk, &found.paths, &state, &desk.veil(&state.batch))?;
    let bytes = match &state.batch.handoff {
        Some(handoff) => report_bytes(&state, &claims, &workspace_logs(&state), handoff.dialect),
        None => aggregate::canonical_bytes(&state, &claims),
    };
    Ok(disk.publish(output, &bytes, Durability::Synced).map_err(BusError::of("publish", output))?)
}

/// What becomes of the batch now, in one line.
fn accepted(desk: &Desk, session: &Session, id: &BatchId) -> String {
    let Some(kept) = session.watcher.batches.get(id) else { return format!("Batch {id} accepted") };
    let tasks = &kept.state.tasks;
    let ours = tasks.iter().filter(|task| task.is_ours()).count();
    let (count, place) = (counted(tasks.len(), "task"), spec_dir(desk, id));
    match (ours, tasks.len() - ours) {
        (0, _) => format!("Batch {id} accepted: {count}; their specs appear in {place}"),
        (_, 0) => {
            format!("Batch {id} accepted: {count}; agents are started, `wk logs TASK` shows what they print")
        }
        (_, others) => {
            format!(
                "Batch {id} accepted: {count}, {others} of them for outsiders, whose specs appear in {place}"
            )
        }
    }
}

fn spec_dir(desk: &Desk, id: &BatchId) -> String {
    desk.layout.batch(id).dir().display().to_string()
}

/// Says once, where people do not see the dashboard, that tasks wait for an agent.
#[derive(Default)]
struct Advice {
    is_given: bool,
    first_seen_ms: Option<u64>,
}

impl Advice {
    fn give(&mut self, desk: &Desk, snapshots: impl FnOnce() -> Vec<Snapshot>) {
        const PATIENCE_MS: u64 = 3_000;
        if self.is_given || desk.json {
            return;
        }
        let now = crate::bus::platform::monotonic_ms();
        let since = *self.first_seen_ms.get_or_insert(now);
        if now - since < PATIENCE_MS {
            return;
        }
        self.is_given = true;
        for snapshot in snapshots() {
            let Some((task, path)) = snapshot.waiting_for_outsiders().next() else { continue };
            terminal::tell(&format!("{} waits for an agent; its spec: {path}", task.label));
            terminal::tell("hint: start an agent that follows the spec, or take it with `wk agent next`");
        }
    }
}

/// Gives the request to the watcher that holds the bus, and follows it.
fn hand_over(desk: &Desk, asked: Asked<'_>, progress: &mut Progress) -> Outcome {
    let interrupt = Interrupt::listen(None)?;
    let id = match under_way(desk, asked.request) {
        Some(id) => {
            let found = locate::known_batch(desk, &id)?;
            let loaded = found.and_then(|mut found| found.load(&RealDisk::default()).ok());
            refuse_a_late_demand(desk, &id, loaded.map(|(state, _)| state.batch.require))?;
            id
        }
        None => {
            let name = submit::drop_into_inbox(desk, asked.request)?;
            match submit::await_answer(desk, &name, None, &interrupt)? {
                submit::Answer::Accepted(id) => id,
                submit::Answer::Refused(defects) => {
                    return Err(refused(asked.request, &defects, progress.is_lines()));
                }
                submit::Answer::Interrupted => return Ok(Exit::Interrupted),
                submit::Answer::None => {
                    // The watcher ended before it looked: its place is free, and the inbox is served by whoever comes.
                    let lease = Lease::take(&desk.layout)?;
                    return serve_inbox(desk, lease, &name, asked, progress);
                }
            }
        }
    };
    asked.note_output(desk, &id)?;
    if !desk.json && !progress.is_lines() {
        terminal::tell(&format!("Batch {id} is run by the watcher of this bus; following it"));
    }
    loop {
        let Some(found) = locate::known_batch(desk, &id)? else { return Err(removed(desk, &id, progress)) };
        match follow(desk, &found, progress, &interrupt)? {
            Followed::Removed => return Err(removed(desk, &id, progress)),
            Followed::Ended(status) => return conclude(desk, &id, status, progress),
            Followed::Interrupted => {
                terminal::tell(&format!("stopped following; batch {id} goes on"));
                return Ok(Exit::Interrupted);
            }
            Followed::Unwatched => match Lease::take(&desk.layout) {
                // Another watcher may have come, ended it and gone meanwhile; now that the bus is ours nobody can.
                Ok(_) if locate::batch(desk, id.as_str())?.is_archived => {}
                Ok(lease) => return watch_own(desk, lease, None, Some(id), progress),
                Err(LeaseError::Held { .. }) => {}
                Err(error) => return Err(error.into()),
            },
        }
    }
}

/// Takes the request back out of the inbox and runs it here.
fn serve_inbox(desk: &Desk, lease: Lease, name: &str, asked: Asked<'_>, progress: &mut Progress) -> Outcome {
    let path = desk.layout.inbox().join(name);
    match RealDisk::default().remove_file(&path) {
        Ok(()) => watch_own(desk, lease, Some(asked), None, progress),
        Err(error) => Err(BusError::of("take back", &path)(error).into()),
    }
}

/// Prints what came of a batch.
fn conclude(desk: &Desk, id: &BatchId, status: BatchStatus, progress: &mut Progress) -> Outcome {
    let disk = RealDisk::default();
    let mut found = locate::batch(desk, id.as_str())?;
    let (state, _) = found.load(&disk)?;
    let claims = collected_claims(&disk, &found.paths, &state, &desk.veil(&state.batch))?;
    if progress.is_lines() {
        progress.tell(&state, Live::default);
        print_line(&lines::finished(&state));
    } else if desk.json {
        terminal::print(&String::from_utf8_lossy(&aggregate::canonical_bytes(&state, &claims)));
    } else {
        progress.finish(&[super::follow::snapshot_of(&found, &state)]);
        terminal::print(&summary::summary(&state, &claims));
    }
    Ok(Exit::Batch(status))
}
