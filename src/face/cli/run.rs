//! `wk run FILE`: accepts a request, watches it to the end with live progress, prints the summary. On a bus
//! that is already watched it hands the request over and follows it; if that watcher ends, it takes over.

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;

use super::check::Request;
use super::follow::{Followed, Interrupt, Progress, follow};
use super::{Desk, Exit, Outcome, Trouble, locate, submit, terminal};
use crate::bus::lease::{Lease, LeaseError};
use crate::bus::{Disk, RealDisk};
use crate::model::BatchId;
use crate::model::event::BatchStatus;
use crate::outcome::{aggregate, summary};
use crate::view::snapshot::Snapshot;
use crate::watcher::act::collected_claims;
use crate::watcher::run::Session;

/// Accepts a request, watches it to the end with live progress, prints the summary.
///
/// Tasks that no agent in the settings serves wait for agents from outside: start them yourself, by the
/// published specs in .ce/orchestration/tasks/, or with `wk agent next`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk run plan.md\n  wk run plan.md --require observed\n  wk run plan.md --set heartbeat_timeout_seconds=120 --json"
)]
pub struct Run {
    /// A plan: Markdown with phases, or JSON
    file: PathBuf,
    /// The least evidence with which a task may succeed: claimed, observed or verified
    #[arg(long, value_name = "GRADE")]
    require: Option<String>,
    /// Shows no progress, only the summary
    #[arg(long, short)]
    quiet: bool,
}

impl Run {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        desk.require(self.require.as_deref())?;
        let request = Request::read(&self.file)?;
        submit::check(desk, &request)?;
        make_directories(desk)?;
        let mut progress = Progress::new(desk, self.quiet);
        match Lease::take(&desk.layout) {
            Ok(lease) => watch_own(desk, lease, Some(&request), None, &mut progress),
            Err(LeaseError::Held { .. }) => hand_over(desk, &request, &mut progress),
            Err(error) => Err(error.into()),
        }
    }
}

pub fn make_directories(desk: &Desk) -> Result<(), Trouble> {
    let disk = RealDisk::default();
    for dir in desk.layout.directories() {
        disk.make_dirs(&dir).map_err(crate::bus::disk::BusError::of("make", &dir))?;
    }
    Ok(())
}

/// Watches the bus until one batch has ended: the request's, or one that lost its watcher.
fn watch_own(
    desk: &Desk,
    lease: Lease,
    request: Option<&Request>,
    orphan: Option<BatchId>,
    progress: &mut Progress,
) -> Outcome {
    let mut session = Session::open(desk.disk(), desk.layout.clone(), desk.settings.clone())?;
    session.longest_wait_ms = progress.longest_wait_ms();
    let interrupt = Interrupt::listen(Some(session.wake.nudger()))?;
    let id = match (request, orphan) {
        (Some(request), _) => {
            let now = session.now();
            let accepted = session.watcher.accept(&request.name, &request.bytes, now)?;
            accepted.map_err(|defects| Trouble::refused(&request.name, &defects))?
        }
        (None, Some(id)) => id,
        (None, None) => return Ok(Exit::Done),
    };
    if !desk.json {
        terminal::tell(&format!("Batch {id} accepted; its specs appear in {}", spec_dir(desk, &id)));
    }
    let mut ended = None;
    let mut advice = Advice::default();
    session.run(|session, report| {
        let finished = report.finished.iter().find(|(finished, _)| *finished == id);
        ended = finished.map(|(_, status)| *status);
        if ended.is_some() || interrupt.came() {
            return ControlFlow::Break(());
        }
        if let Some(why) = session.watcher.broken.get(&id) {
            terminal::tell(&format!("error: batch {id} is stopped: {why}"));
            return ControlFlow::Break(());
        }
        let (now, mode) = (session.now(), session.mode());
        let snapshot = || session.watcher.snapshot(&id, mode, now).into_iter().collect::<Vec<_>>();
        advice.give(desk, snapshot);
        progress.show(snapshot);
        ControlFlow::Continue(())
    })?;
    drop(lease);
    match ended {
        Some(status) => conclude(desk, &id, status, progress),
        None if interrupt.came() => {
            progress.finish(&[]);
            terminal::tell(&format!("stopped watching; batch {id} is kept as it is"));
            terminal::tell("hint: `wk watch` goes on with it, `wk cancel` ends it");
            Ok(Exit::Interrupted)
        }
        None => Ok(Exit::Disk),
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
fn hand_over(desk: &Desk, request: &Request, progress: &mut Progress) -> Outcome {
    let interrupt = Interrupt::listen(None)?;
    let name = submit::drop_into_inbox(desk, request)?;
    let id = match submit::await_answer(desk, &name, None, &interrupt)? {
        submit::Answer::Accepted(id) => id,
        submit::Answer::Refused(defects) => return Err(Trouble::refused(&request.name, &defects)),
        submit::Answer::Interrupted => return Ok(Exit::Interrupted),
        submit::Answer::None => {
            // The watcher ended before it looked: its place is free, and the inbox is served by whoever comes.
            let lease = Lease::take(&desk.layout)?;
            return serve_inbox(desk, lease, &name, request, progress);
        }
    };
    if !desk.json {
        terminal::tell(&format!("Batch {id} is run by the watcher of this bus; following it"));
    }
    loop {
        let found = locate::batch(desk, id.as_str())?;
        match follow(desk, &found, progress, &interrupt)? {
            Followed::Ended(status) => return conclude(desk, &id, status, progress),
            Followed::Interrupted => {
                terminal::tell(&format!("stopped following; batch {id} goes on"));
                return Ok(Exit::Interrupted);
            }
            Followed::Unwatched => match Lease::take(&desk.layout) {
                Ok(lease) => return watch_own(desk, lease, None, Some(id), progress),
                Err(LeaseError::Held { .. }) => {}
                Err(error) => return Err(error.into()),
            },
        }
    }
}

/// Takes the request back out of the inbox and runs it here.
fn serve_inbox(desk: &Desk, lease: Lease, name: &str, request: &Request, progress: &mut Progress) -> Outcome {
    let path = desk.layout.inbox().join(name);
    match RealDisk::default().remove_file(&path) {
        Ok(()) => watch_own(desk, lease, Some(request), None, progress),
        Err(error) => Err(crate::bus::disk::BusError::of("take back", &path)(error).into()),
    }
}

/// Prints what came of a batch.
fn conclude(desk: &Desk, id: &BatchId, status: BatchStatus, progress: &mut Progress) -> Outcome {
    let disk = RealDisk::default();
    let found = locate::batch(desk, id.as_str())?;
    let (state, _) = found.load(&disk)?;
    let claims = collected_claims(&disk, &found.paths, &state)?;
    if desk.json {
        terminal::print(&String::from_utf8_lossy(&aggregate::canonical_bytes(&state, &claims)));
    } else {
        progress.finish(&[super::follow::snapshot_of(&found, &state)]);
        terminal::print(&summary::summary(&state, &claims));
    }
    Ok(Exit::Batch(status))
}
