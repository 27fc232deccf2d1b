//! `wk rehearse PLAN`: how a plan would go, played through in no time. Starts nothing and writes nothing.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::check::Request;
use super::{Desk, Exit, Outcome, Trouble, terminal};
use crate::bus::platform;
use crate::intake::Context;
use crate::model::event::BatchStatus;
use crate::model::{Batch, Seconds};
use crate::rehearse::{Away, Chaos, Conditions, Facts, Fault, Faults, Rehearsal, rehearse, text};
use crate::view::words::counted;

/// Plays a plan through on a virtual clock: stages, critical path, what would be lost. Starts nothing.
///
/// The heart that decides is the one of a real run; its agents are scripted. Each takes its estimated hours
/// (a minute where there is no estimate), beats in time and succeeds, unless you say otherwise. All settings
/// count as in a real run.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Rehearse {
    /// A plan (Markdown with phases, or JSON), an execution request, or assignments
    file: PathBuf,
    /// This task fails: at its first N tries, or at all
    #[arg(long, value_name = "TASK[:N]", value_parser = task_and_tries)]
    fail: Vec<TaskTries>,
    /// This task stops beating midway
    #[arg(long, value_name = "TASK[:N]", value_parser = task_and_tries)]
    silent: Vec<TaskTries>,
    /// This task's runner dies midway; an outsider that dies falls silent
    #[arg(long, value_name = "TASK[:N]", value_parser = task_and_tries)]
    crash: Vec<TaskTries>,
    /// This task's agent never shows a sign of life; for outsiders: nobody takes it
    #[arg(long, value_name = "TASK")]
    never_start: Vec<String>,
    /// This task takes FACTOR times its estimate
    #[arg(long, value_name = "TASK:FACTOR", value_parser = task_and_factor)]
    slow: Vec<(String, f64)>,
    /// The watcher is away from AT on, for so long: minutes, or with a unit as in 90s:2h
    #[arg(long, value_name = "AT:FOR", value_parser = absence)]
    watcher_down: Vec<Away>,
    /// A mix of these faults over all other tasks, the same for the same seed
    #[arg(long, value_name = "SEED")]
    chaos: Option<u64>,
    /// The share of attempts that chaos strikes, from 0 to 1
    #[arg(long, value_name = "P", default_value_t = 0.1, requires = "chaos", value_parser = share)]
    rate: f64,
    /// How many attempts may run at once, whatever plan and settings say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parallel: Option<u32>,
    /// Ends with 0 if the batch would end so, else with 1
    #[arg(long, value_name = "STATUS")]
    expect: Option<Expected>,
    /// Prints the journal that a real run would write, one JSON object a line
    #[arg(long, conflicts_with = "json")]
    journal: bool,
}

const EXAMPLES: &str = "\
Examples:
  wk rehearse plan.md
  wk rehearse plan.md --parallel 2
  wk rehearse plan.md --fail 2a:1 --silent 3 --slow 4:1.5
  wk rehearse plan.md --watcher-down 30:60
  wk rehearse plan.md --chaos 7 --rate 0.3 --json
  wk rehearse plan.md --set agent=claude --crash 2a
  wk rehearse plan.md --expect success     for CI: 0 if it would, else 1

Exit codes are those of `wk run`: 0 success, 1 failure, 3 partial success, 4 timeout; 2 for a bad plan, and
6 where it would wait for somebody for ever.";

/// A task, and how many of its first tries are meant; `None` means all.
type TaskTries = (String, Option<u32>);

/// How a batch may be expected to end.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Expected {
    Success,
    PartialSuccess,
    Failure,
    Timeout,
}

impl Expected {
    fn status(self) -> BatchStatus {
        match self {
            Expected::Success => BatchStatus::Success,
            Expected::PartialSuccess => BatchStatus::PartialSuccess,
            Expected::Failure => BatchStatus::Failure,
            Expected::Timeout => BatchStatus::Timeout,
        }
    }
}

impl Rehearse {
    pub fn run(self, desk: &Desk) -> Outcome {
        let request = Request::read(&self.file)?;
        let Some(plan) = request.plan(desk, &desk.surroundings_of_others())? else {
            return Ok(Exit::BadRequest);
        };
        let mut batch = plan.into_batch(Context::for_check());
        // Only the tasks are played: what comes before and after them has no script.
        batch.handoff = None;
        batch.parallel_limit = self.parallel.or(batch.parallel_limit);
        let conditions = self.conditions(desk, &batch)?;
        let started_us = platform::worked_us();
        let rehearsal = rehearse(batch, &conditions);
        let facts = Facts::of(&rehearsal);
        let spent_us = platform::worked_us() - started_us;
        if self.journal {
            terminal::print(&journal(&rehearsal));
        } else if desk.json {
            super::print_json(&facts.to_json(&rehearsal));
        } else {
            terminal::print(&text(&rehearsal, &facts, terminal::look().width));
        }
        // On standard error: the same rehearsal prints the same bytes, however long it took.
        let decisions = counted(facts.decisions, "decision");
        let events = counted(facts.events, "event");
        terminal::tell(&format!("{decisions} and {events} in {:.1} ms", spent_us as f64 / 1000.0));
        Ok(self.exit(&rehearsal))
    }

    fn conditions(&self, desk: &Desk, batch: &Batch) -> Result<Conditions, Trouble> {
        let mut faults = Faults::default();
        let never = self.never_start.iter().map(|name| (name, Fault::NeverStart, None));
        let kinds = [(&self.crash, Fault::Crash), (&self.silent, Fault::Silent), (&self.fail, Fault::Fail)];
        let counted = kinds
            .into_iter()
            .flat_map(|(given, fault)| given.iter().map(move |(name, tries)| (name, fault, *tries)));
        let slow = self.slow.iter().map(|(name, factor)| (name, Fault::Slow(*factor), None));
        for (name, fault, tries) in never.chain(counted).chain(slow) {
            let added = faults.add(batch, name, fault, tries);
            added.map_err(|unknown| Trouble::new(Exit::BadRequest, unknown.to_string()))?;
        }
        let mut away = self.watcher_down.clone();
        if let Some(seed) = self.chaos {
            let chaos = Chaos { seed, rate: self.rate };
            faults.set_chaos(chaos);
            away.extend(chaos.absence());
        }
        Ok(Conditions { faults, away, ..Conditions::fair(&desk.settings) })
    }

    fn exit(&self, rehearsal: &Rehearsal) -> Exit {
        let status = rehearsal.state.finished.map(|(status, _)| status);
        match (self.expect, status) {
            (Some(expected), _) if status == Some(expected.status()) => Exit::Done,
            (Some(_), _) => Exit::Failure,
            (None, Some(status)) => Exit::Batch(status),
            (None, None) => Exit::Awaiting,
        }
    }
}

fn journal(rehearsal: &Rehearsal) -> String {
    let mut lines = String::new();
    for entry in &rehearsal.entries {
        lines.push_str(&serde_json::to_string(entry).expect("a line has only string keys"));
        lines.push('\n');
    }
    lines
}

fn task_and_tries(text: &str) -> Result<TaskTries, String> {
    match text.split_once(':') {
        None => Ok((text.to_owned(), None)),
        Some((task, tries)) => match tries.parse() {
            Ok(tries) if tries > 0 => Ok((task.to_owned(), Some(tries))),
            _ => Err("after the colon comes how many tries, at least 1".to_owned()),
        },
    }
}

fn task_and_factor(text: &str) -> Result<(String, f64), String> {
    const FACTOR_MOST: f64 = 10_000.0;
    let given = text.split_once(':').and_then(|(task, factor)| Some((task, factor.parse::<f64>().ok()?)));
    match given {
        Some((task, factor)) if factor > 0.0 && factor <= FACTOR_MOST => Ok((task.to_owned(), factor)),
        _ => Err(format!("must be TASK:FACTOR, with a factor above 0 and up to {FACTOR_MOST}")),
    }
}

fn absence(text: &str) -> Result<Away, String> {
    let parsed = text.split_once(':').and_then(|(at, lasting)| Some((span(at)?, span(lasting)?)));
    match parsed {
        Some((from, lasting)) if lasting.0 > 0.0 => Ok(Away { from, lasting }),
        _ => Err("must be AT:FOR in minutes, as in 30:60, or with units, as in 90s:2h".to_owned()),
    }
}

/// Minutes, unless it ends with a unit.
fn span(text: &str) -> Option<Seconds> {
    const LONGEST: f64 = 366.0 * 86_400.0;
    let (number, unit) = match text.char_indices().last()? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3600.0),
        _ => (text, 60.0),
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    (0.0..=LONGEST).contains(&seconds).then_some(Seconds(seconds))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_written_as_task_and_number() {
        assert_eq!(task_and_tries("2a"), Ok(("2a".to_owned(), None)));
        assert_eq!(task_and_tries("2a:2"), Ok(("2a".to_owned(), Some(2))));
        assert!(task_and_tries("2a:0").is_err() && task_and_tries("2a:x").is_err());
        assert_eq!(task_and_factor("3:1.5"), Ok(("3".to_owned(), 1.5)));
        assert!(task_and_factor("3").is_err() && task_and_factor("3:0").is_err());
    }

    #[test]
    fn an_absence_is_told_in_minutes_or_with_units() {
        let away = |from, lasting| Ok(Away { from: Seconds(from), lasting: Seconds(lasting) });
        assert_eq!(absence("30:60"), away(1800.0, 3600.0));
        assert_eq!(absence("90s:2h"), away(90.0, 7200.0));
        assert!(absence("30").is_err() && absence("-1:3").is_err() && absence("1:0").is_err());
    }
}
