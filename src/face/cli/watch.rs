//! `wk watch`: the background process. `--once` is one pass, for cron.

use std::ops::ControlFlow;

use clap::Args;

use super::follow::{Interrupt, Progress};
use super::{Desk, Exit, Outcome, run, terminal};
use crate::bus::lease::Lease;
use crate::decide::Now;
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
        run::make_directories(desk)?;
        let lease = Lease::take(&desk.layout)?;
        let outcome = if self.once { once(desk) } else { self.stay(desk) };
        drop(lease);
        outcome
    }

    fn stay(&self, desk: &Desk) -> Outcome {
        let mut progress = Progress::new(desk, self.quiet);
        let mut session =
            Session::open(desk.disk(), desk.layout.clone(), desk.settings.clone(), desk.runners())?;
        session.longest_wait_ms = progress.longest_wait_ms();
        let interrupt = Interrupt::listen(Some(session.wake.nudger()))?;
        if !desk.json {
            terminal::tell(&format!("watching {} ({})", desk.layout.bus().display(), session.wake.mode()));
        }
        let mut exit = Exit::Done;
        session.run(|session, report| {
            tell(desk, report);
            let is_idle = session.watcher.is_idle() && !report.again;
            if interrupt.came() || (self.exit_when_idle && is_idle) {
                return ControlFlow::Break(());
            }
            if self.exit_when_idle && session.watcher.awaits_people() && !report.again {
                exit = Exit::Awaiting;
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
        })?;
        if matches!(exit, Exit::Awaiting) {
            for id in session.watcher.batches.keys() {
                terminal::tell(&format!("batch {id} waits for a person: `wk status {id}` says for what"));
            }
        }
        Ok(exit)
    }
}

fn once(desk: &Desk) -> Outcome {
    let disk = desk.disk();
    let (mut clock, file) = pass::resume_clock(&disk, &desk.layout, true);
    let now = Now { clock: clock.now(), wall: wall_now() };
    let mut watcher = Watcher::open(disk, desk.layout.clone(), desk.settings.clone(), desk.runners(), now)?;
    clock.catch_up(watcher.latest_clock());
    watcher.recall(&file);
    let report = watcher.pass(&clock, wall_now())?;
    tell(desk, &report);
    watcher.project_status(crate::view::snapshot::Mode::Scan, now);
    watcher.project_ledger(now);
    clock::write(watcher.disk(), watcher.layout(), &watcher.remember(clock.now()))?;
    if desk.json {
        let finished: Vec<_> =
            report.finished.iter().map(|(id, status)| (id.to_json(), status.word())).collect();
        let active: Vec<_> = watcher.batches.keys().map(crate::model::id::BatchId::to_json).collect();
        super::print_json(&serde_json::json!({ "finished": finished, "active": active }));
    }
    Ok(Exit::Done)
}

/// A line for each thing that a log wants to have.
fn tell(desk: &Desk, report: &TurnReport) {
    if desk.json {
        return;
    }
    for accepted in &report.accepted {
        terminal::tell(&format!("batch {}: accepted from {}", accepted.batch, accepted.name));
    }
    for refusal in &report.refused {
        terminal::tell(&format!("{}: refused", refusal.name));
        for defect in &refusal.defects {
            terminal::tell(&format!("  {defect}; {}", defect.remedy));
        }
    }
    for (id, status) in &report.finished {
        terminal::tell(&format!("batch {id}: {}; `wk report {id}` tells the rest", status.word()));
    }
}
