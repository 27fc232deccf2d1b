//! One journal event as a sentence about the task that it belongs to.

use crate::model::agent::PROCESS;
use crate::model::clock::{Seconds, Tick};
use crate::model::defect::Defect;
use crate::model::event::{Event, Sign};
use crate::model::evidence::Verdict;
use crate::model::exit::{Exit, Stopped};
use crate::model::handoff::Prepared;
use crate::model::id::Attempt;
use crate::model::state::{BatchState, Phase, TaskIx};
use crate::view::handoff::{conflict, outcome};
use crate::view::waiting;
use crate::view::words::{attempt_of, attempts_max, counted, duration, listed_at_most};

use super::aggregate::late_reason;

/// Conflicts and left-out files that one sentence names.
const NAMED_MAX: usize = 3;

/// Tells an event of the task itself. `past` is the state just after it.
pub(super) fn own(past: &BatchState, ix: TaskIx, event: &Event, clock: Tick) -> String {
    let max = attempts_max(&past.tasks[ix]);
    let nth = |attempt: &Attempt| attempt_of(attempt.number(), max);
    match event {
        Event::Joined { .. } => {
            match waiting::waiting_short(past, ix).filter(|_| past.tasks[ix].phase != Phase::Ready) {
                Some(waits) => format!("its spec joined the batch. {waits}"),
                None => "its spec joined the batch".to_owned(),
            }
        }
        Event::SpecRefused { defects, .. } => format!("its spec was refused: {}", told(defects)),
        Event::Offered { attempt, .. } => format!("offered: its spec is published ({})", nth(attempt)),
        Event::Started { attempt, sign, .. } => format!("{} ({})", begun(sign), nth(attempt)),
        Event::Launched { attempt, agent, launcher, .. } => {
            let sign = Sign::Launch { agent: agent.clone(), launcher: launcher.clone() };
            format!("{} ({})", begun(&sign), nth(attempt))
        }
        Event::Begun { runner, .. } => format!("its runner is process {}", runner.process.pid),
        Event::Exited { exit } => ended(exit),
        Event::Ending { attempt, because, .. } => {
            format!("{} is being ended: {because}", nth(attempt))
        }
        Event::Unconfirmed { why, .. } => {
            format!("a person is asked: nobody can tell whether its processes are gone ({why})")
        }
        Event::RetryAsked { by, why, .. } => {
            let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
            format!("{by} asked for another try{why}")
        }
        Event::ResultRefused { defects, .. } => {
            format!("a result was refused: {}; the attempt goes on", told(defects))
        }
        Event::Collected { unfenced, verdict, .. } => collected(*unfenced, verdict),
        Event::Succeeded { attempt, .. } if *attempt == Attempt::FIRST => "succeeded".to_owned(),
        Event::Succeeded { attempt, .. } => format!("succeeded on {}", nth(attempt)),
        Event::AttemptFailed { attempt, because, retry_at, .. } => {
            let is_last = because.is_retryable() && attempt.number() >= max;
            format!("{} failed: {because}{}", nth(attempt), what_follows(*retry_at, clock, is_last))
        }
        Event::Abandoned { .. } => match past.tasks[ix].outcome() {
            Some(outcome) => format!("will not run: {}", waiting::ending(past, ix, outcome)),
            None => "will not run".to_owned(),
        },
        Event::Late { attempt, because, .. } => {
            let whose = attempt.map_or(String::new(), |attempt| format!(" of attempt {attempt}"));
            format!("a result{whose} was put aside: {}", late_reason(because))
        }
        Event::Baselined { .. }
        | Event::Accepted { .. }
        | Event::Resumed { .. }
        | Event::SelfSuspected { .. }
        | Event::CancelAsked { .. }
        | Event::PauseAsked { .. }
        | Event::ResumeAsked { .. }
        | Event::Preparing
        | Event::Prepared { .. }
        | Event::NotPrepared { .. }
        | Event::Merging { .. }
        | Event::Merged { .. }
        | Event::ResolveAsked { .. }
        | Event::OutOfTime { .. }
        | Event::Reopened { .. }
        | Event::Finished { .. } => String::new(),
    }
}

/// What comes after an attempt that failed.
fn what_follows(retry_at: Option<Tick>, clock: Tick, is_last: bool) -> String {
    match retry_at {
        Some(at) => format!("; the next follows in {}", duration(Seconds::from_millis(at.since(clock)))),
        None if is_last => "; no tries are left".to_owned(),
        None => String::new(),
    }
}

/// Tells what was asked of the whole batch, or done for a handed-over one beside its tasks; `None` for every other event.
pub(super) fn of_batch(event: &Event) -> Option<String> {
    let because = |why: &Option<String>| why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    match event {
        Event::CancelAsked { by, why } => {
            Some(format!("{by} asked for the end of the batch{}", because(why)))
        }
        Event::PauseAsked { by, why } => Some(format!("{by} asked for a pause of the batch{}", because(why))),
        Event::ResumeAsked { by } => Some(format!("{by} let the batch go on")),
        Event::Reopened { by } => Some(format!("{by} opened the batch again")),
        Event::Preparing => Some("the workspace is being prepared".to_owned()),
        Event::Prepared { prepared } => Some(stands(prepared)),
        Event::NotPrepared { why } => Some(format!("the workspace could not be prepared: {why}")),
        Event::Merging { round: 1 } => Some("what the agents made is being merged".to_owned()),
        Event::Merging { round } => {
            Some(format!("what the agents made is being merged again (round {round})"))
        }
        Event::Merged { outcome: merged, .. } => {
            let conflicts: Vec<String> = merged.conflicts.iter().map(conflict).collect();
            let besides = match conflicts.is_empty() {
                true => String::new(),
                false => format!("; {}", listed_at_most(&conflicts, NAMED_MAX)),
            };
            Some(format!("the merge ended: {}{besides}", outcome(merged)))
        }
        Event::OutOfTime { limit } => {
            Some(format!("the time of the whole ran out ({limit}) during the merge"))
        }
        Event::ResolveAsked { by, .. } => Some(format!("{by} said what becomes of the conflicts")),
        _ => None,
    }
}

/// `the workspace stands; 12 files are in the checkpoint, not big.iso: too large`.
fn stands(prepared: &Prepared) -> String {
    let mut text = "the workspace stands".to_owned();
    if let Some(files) = prepared.files {
        let verb = if files == 1 { "is" } else { "are" };
        text.push_str(&format!("; {} {verb} in the checkpoint", counted(files as usize, "file")));
    }
    if !prepared.left_out.is_empty() {
        text.push_str(&format!(", not {}", listed_at_most(&prepared.left_out, NAMED_MAX)));
    }
    text
}

fn begun(sign: &Sign) -> String {
    match sign {
        Sign::Take { by } => format!("{by} took it"),
        Sign::Beat => "started: its first heartbeat was seen".to_owned(),
        Sign::SpecRemoved => "started: its published spec was removed, which only an agent does".to_owned(),
        Sign::Result => "started: its result was the first sign of it".to_owned(),
        Sign::Launch { agent, launcher } if launcher == PROCESS => format!("agent '{agent}' was started"),
        Sign::Launch { agent, launcher } => format!("agent '{agent}' was started ({launcher})"),
    }
}

/// `its agent ended with exit code 0 after 3s (12 MB, 0.4s CPU)`.
fn ended(exit: &Exit) -> String {
    let how = match (&exit.stopped, exit.exit_code, exit.signal) {
        (Some(stopped), ..) => format!("was stopped ({})", stopped_because(stopped)),
        (None, Some(code), _) => format!("ended with exit code {code}"),
        (None, None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None, None) => "ended".to_owned(),
    };
    let span = duration(Seconds(exit.wall_seconds));
    let memory = exit.peak_memory_kb.div_ceil(1024);
    let warnings: Vec<String> = exit.warnings.iter().map(|warning| format!("; warning: {warning}")).collect();
    let warnings = warnings.concat();
    format!("its agent {how} after {span} ({memory} MB, {:.1}s CPU){warnings}", exit.cpu_seconds)
}

fn stopped_because(stopped: &Stopped) -> String {
    match stopped {
        Stopped::Timeout { limit } => format!("{limit} were up"),
        Stopped::Limit { what, limit } => format!("limit {what} = {limit}"),
        Stopped::Asked { why } => why.clone(),
        Stopped::Superseded => "a later attempt exists".to_owned(),
        Stopped::Lingered => "its result was there, but it did not end".to_owned(),
        Stopped::HungUp => "its terminal is gone".to_owned(),
        Stopped::NotStarted { why } => why.clone(),
    }
}

fn collected(unfenced: bool, verdict: &Verdict) -> String {
    let unmet: Vec<String> = verdict.unmet().map(ToString::to_string).collect();
    let mut text = format!("its result was collected; evidence: {}", verdict.grade());
    if unfenced {
        text.push_str("; it does not say which attempt it speaks for");
    }
    if !unmet.is_empty() {
        text.push_str(&format!("; not so: {}", unmet.join("; ")));
    }
    text
}

/// Each defect with what to do about it.
fn told(defects: &[Defect]) -> String {
    let texts: Vec<String> = defects.iter().map(|defect| format!("{defect} ({})", defect.remedy)).collect();
    texts.join("; ")
}
