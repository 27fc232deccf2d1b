//! One journal event as a sentence about the task that it belongs to.

use crate::model::clock::Seconds;
use crate::model::defect::Defect;
use crate::model::event::{Entry, Event, Sign};
use crate::model::evidence::Verdict;
use crate::model::id::Attempt;
use crate::model::state::{BatchState, TaskIx};
use crate::view::waiting;
use crate::view::words::{attempt_of, attempts_max, duration};

use super::aggregate::late_reason;

/// Tells an event of the task itself. `past` is the state just after it.
pub(super) fn own(past: &BatchState, ix: TaskIx, entry: &Entry) -> String {
    let max = attempts_max(&past.tasks[ix]);
    let nth = |attempt: &Attempt| attempt_of(attempt.number(), max);
    match &entry.event {
        Event::Joined { .. } => {
            match waiting::waiting_short(past, ix).filter(|_| !past.ready.contains(&ix)) {
                Some(waits) => format!("its spec joined the batch. {waits}"),
                None => "its spec joined the batch".to_owned(),
            }
        }
        Event::SpecRefused { defects, .. } => format!("its spec was refused: {}", told(defects)),
        Event::Offered { attempt, .. } => format!("offered: its spec is published ({})", nth(attempt)),
        Event::Started { attempt, sign, .. } => format!("{} ({})", begun(sign), nth(attempt)),
        Event::ResultRefused { defects, .. } => {
            format!("a result was refused: {}; the attempt goes on", told(defects))
        }
        Event::Collected { unfenced, verdict, .. } => collected(*unfenced, verdict),
        Event::Succeeded { attempt, .. } if *attempt == Attempt::FIRST => "succeeded".to_owned(),
        Event::Succeeded { attempt, .. } => format!("succeeded on {}", nth(attempt)),
        Event::AttemptFailed { attempt, because, retry_at, .. } => {
            let then = match retry_at {
                Some(at) => {
                    let pause = duration(Seconds::from_millis(at.since(entry.clock)));
                    format!("; the next follows in {pause}")
                }
                None if because.is_retryable() && attempt.number() >= max => "; no tries are left".to_owned(),
                None => String::new(),
            };
            format!("{} failed: {because}{then}", nth(attempt))
        }
        Event::Abandoned { .. } => match past.tasks[ix].outcome() {
            Some(outcome) => format!("will not run: {}", waiting::ending(past, ix, outcome)),
            None => "will not run".to_owned(),
        },
        Event::Late { attempt, because, .. } => {
            let whose = attempt.map_or(String::new(), |attempt| format!(" of attempt {attempt}"));
            format!("a result{whose} was put aside: {}", late_reason(because))
        }
        Event::Accepted { .. }
        | Event::Resumed { .. }
        | Event::SelfSuspected { .. }
        | Event::CancelAsked { .. }
        | Event::Finished { .. } => String::new(),
    }
}

fn begun(sign: &Sign) -> String {
    match sign {
        Sign::Take { by } => format!("{by} took it"),
        Sign::Beat => "started: its first heartbeat was seen".to_owned(),
        Sign::Result => "started: its result was the first sign of it".to_owned(),
    }
}

fn collected(unfenced: bool, verdict: &Verdict) -> String {
    let unmet: Vec<String> =
        verdict.unmet().map(|finding| format!("{}: {}", finding.subject, finding.saw)).collect();
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
