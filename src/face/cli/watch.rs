//! `wk watch`: the background process. `--once` is one pass, for cron.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use clap::Args;

use super::follow::{Interrupt, Progress};
use super::{Desk, Exit, Outcome, ground, terminal};
use crate::bus::Disk;
use crate::bus::lease::Lease;
use crate::decide::Now;
use crate::model::BatchId;
use crate::watcher::run::{Session, wall_now};
use crate::watcher::{TurnReport, Watcher, clock, pass};

/// Watches the bus until it is stopped; --once for cron.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk watch &\n  wk watch --exit-when-idle\n  * * * * * cd /path/to/project && wk watch --once     (a line of a crontab)"
)]
pub struct Watch {
    /// One pass over everything, then exit. The 60-second rule holds across passes
    #[arg(long, conflicts_with = "exit_when_idle")]
    once: bool,
    /// Ends when no batch is under way any more, and with exit code 6 when all that are left wait for a person
    #[arg(long)]
    exit_when_idle: bool,
    /// Prints no dashboard
    #[arg(long, short)]
    quiet: bool,
}

impl Watch {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        let is_new = ground::prepare(desk)?;
        tell_of_ground(desk, is_new);
        let lease = Lease::take(&desk.layout)?;
        if self.once { once(desk, lease) } else { self.stay(desk, lease) }
    }

    fn stay(&self, desk: &Desk, lease: Lease) -> Outcome {
        let mut progress = Progress::new(desk, self.quiet);
        let mut session =
            Session::open(lease, desk.disk(), desk.layout.clone(), desk.settings.clone(), desk.runners())?;
        session.longest_wait_ms = progress.longest_wait_ms();
        let interrupt = Interrupt::listen(Some(session.wake.nudger()))?;
        let mut log = Log::new(desk);
        log.tell(&format!("watching {} ({})", desk.layout.bus().display(), session.wake.mode()));
        let mut end = End::Asked;
        let ran = session.run(|session, report| {
            let lines = log.lines(report, &session.watcher);
            if !lines.is_empty() {
                progress.make_room();
                lines.iter().for_each(|line| log.tell(line));
            }
            let is_idle = session.watcher.is_idle() && !report.again;
            if interrupt.came() {
                return ControlFlow::Break(());
            }
            if self.exit_when_idle && is_idle {
                end = End::Idle;
                return ControlFlow::Break(());
            }
            if self.exit_when_idle && session.watcher.awaits_people() && !report.again {
                end = End::Awaiting;
                return ControlFlow::Break(());
            }
            let (now, mode) = (session.now(), session.mode());
            if !session.watcher.batches.is_empty() {
                progress.show(|| {
                    let ids: Vec<_> = session.watcher.batches.keys().cloned().collect();
                    ids.iter().filter_map(|id| session.watcher.snapshot(id, mode, now)).collect()
                });
            }
            ControlFlow::Continue(())
        });
        let left = session.watcher.batches.len();
        if let Err(error) = ran {
            log.tell(&format!("stopped watching because of an error; {}", kept_as_they_are(left)));
            return Err(error.into());
        }
        if matches!(end, End::Awaiting) {
            for id in session.watcher.batches.keys() {
                terminal::tell(&format!("batch {id} waits for a person: `wk status {id}` says for what"));
            }
        }
        log.tell(&format!("stopped watching: {}; {}", end.why(), kept_as_they_are(left)));
        Ok(end.exit())
    }
}

/// Why a watcher ends.
#[derive(Clone, Copy)]
enum End {
    Asked,
    Idle,
    Awaiting,
}

impl End {
    fn why(self) -> &'static str {
        match self {
            End::Asked => "it was asked to end",
            End::Idle => "no batch is under way",
            End::Awaiting => "all that is left waits for a person",
        }
    }

    fn exit(self) -> Exit {
        match self {
            End::Asked | End::Idle => Exit::Done,
            End::Awaiting => Exit::Awaiting,
        }
    }
}

fn kept_as_they_are(left: usize) -> String {
    match left {
        0 => "nothing is left to do".to_owned(),
        1 => "1 batch is kept as it is, and its agents go on".to_owned(),
        _ => format!("{left} batches are kept as they are, and their agents go on"),
    }
}

fn once(desk: &Desk, lease: Lease) -> Outcome {
    let disk = desk.disk();
    let (mut clock, file) = pass::resume_clock(&disk, &desk.layout, true);
    let now = Now { clock: clock.now(), wall: wall_now() };
    let mut watcher = Watcher::open(disk, desk.layout.clone(), desk.settings.clone(), desk.runners(), now)?;
    watcher = watcher.with_lease(lease);
    clock.catch_up(watcher.latest_clock());
    watcher.recall(&file);
    let mut log = Log::new(desk);
    // One pass an hour must not tell each time what is under way.
    log.known.extend(watcher.batches.keys().cloned());
    let report = watcher.pass(&clock, wall_now())?;
    log.lines(&report, &watcher).iter().for_each(|line| log.tell(line));
    watcher.project_status(crate::view::snapshot::Mode::Scan, now);
    watcher.project_ledger(now);
    clock::write(watcher.disk(), watcher.layout(), &watcher.remember(clock.now()))?;
    if desk.json {
        let finished: Vec<_> =
            report.finished.iter().map(|(id, status)| (id.to_json(), status.word())).collect();
        let active: Vec<_> = watcher.batches.keys().map(BatchId::to_json).collect();
        super::print_json(&serde_json::json!({ "finished": finished, "active": active }));
    }
    Ok(Exit::Done)
}

/// A bus that nobody had made may be the wrong one; one that git does not ignore may be gone tomorrow.
fn tell_of_ground(desk: &Desk, is_new: bool) {
    if is_new {
        let root = desk.layout.root().display();
        terminal::tell(&format!("warning: there was no bus in {root}; `wk watch` has made one"));
        terminal::tell(
            "hint: if you meant another project, stop this watcher and name that one with --root DIR",
        );
    }
    if let Some(exposure) = ground::exposure(desk) {
        terminal::tell(&format!("warning: {exposure}"));
    }
}

/// What a watcher tells while it works, a line each, with the time.
struct Log<'a> {
    desk: &'a Desk,
    /// Batches that were told of.
    known: BTreeSet<BatchId>,
}

impl<'a> Log<'a> {
    fn new(desk: &'a Desk) -> Self {
        Log { desk, known: BTreeSet::new() }
    }

    /// Programs that asked for JSON find the same in the journals.
    fn tell(&self, line: &str) {
        if !self.desk.json {
            terminal::tell(&format!("{} {line}", wall_now().rfc3339_seconds()));
        }
    }

    fn lines<D: Disk>(&mut self, report: &TurnReport, watcher: &Watcher<D>) -> Vec<String> {
        let mut lines = Vec::new();
        for accepted in &report.accepted {
            self.known.insert(accepted.batch.clone());
            lines.push(format!("batch {}: accepted from {}", accepted.batch, accepted.name));
        }
        for refusal in &report.refused {
            let to = refusal.quarantined.as_ref().map(|path| format!(", and moved to {}", path.display()));
            lines.push(format!("{}: refused{}", refusal.name, to.unwrap_or_default()));
            let (shown, rest) = crate::view::defects::detailed(&refusal.defects);
            lines.extend(shown.iter().map(|defect| format!("  {defect}; {}", defect.remedy)));
            lines.extend(rest.map(|rest| format!("  {rest}")));
        }
        let taken_up = watcher.batches.keys().filter(|id| !self.known.contains(*id));
        lines.extend(taken_up.map(|id| format!("batch {id}: taken up")));
        self.known.extend(watcher.batches.keys().cloned());
        lines.extend(report.news.iter().cloned());
        for (id, status) in &report.finished {
            self.known.remove(id);
            let archive = self.desk.layout.archived(id);
            lines.push(format!(
                "batch {id}: {}, archived to {}; `wk report {id}` tells the rest",
                status.word(),
                archive.dir().display()
            ));
        }
        lines
    }
}
