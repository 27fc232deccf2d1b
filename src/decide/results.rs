//! What a file in a drop box means: the first valid result of the current attempt counts, everything else
//! is put aside and shown.

use super::{Checked, LeftoverSeen, ResultSeen, Turn, evidence, retry};
use crate::model::claim::ClaimStatus;
use crate::model::event::{LateBecause, Sign};
use crate::model::exit::Stopped;
use crate::model::state::{Phase, TaskIx};
use crate::model::{Attempt, Defect, Event, Reason};

pub(super) fn judge(turn: &mut Turn<'_>, seen: ResultSeen) {
    let ResultSeen { task, sha256, content, inline } = seen;
    let current = match turn.state.tasks[task].phase {
        // Too early: it stays where it is, and is looked at again when the task begins.
        Phase::Waiting { .. } | Phase::Ready => return,
        Phase::Offered { attempt, .. } | Phase::Running { attempt, .. } => attempt,
        // Result beats death, where the agent ended by itself before the end that was meant for it.
        Phase::Ending { attempt, .. } if ended_by_itself(turn, task) => attempt,
        Phase::Ending { .. } => return put_aside(turn, task, sha256, content, LateBecause::Ending),
        Phase::Awaiting { attempt, .. } if ended_by_itself(turn, task) => attempt,
        Phase::BackingOff { .. } | Phase::Awaiting { .. } => {
            return put_aside(turn, task, sha256, content, LateBecause::BetweenAttempts);
        }
        Phase::Claimed { attempt } if is_collected(turn, task, &sha256) => {
            return judge_collected(turn, task, attempt, content);
        }
        Phase::Claimed { .. } | Phase::Done(_) => {
            return put_aside(turn, task, sha256, content, LateBecause::Settled);
        }
    };
    match content {
        Ok(checked) => match checked.claim.attempt {
            Some(other) if other != current => {
                put_aside(turn, task, sha256, Ok(checked), LateBecause::OtherAttempt { current });
            }
            said => collect(turn, task, current, (sha256, inline), checked, said),
        },
        Err(defects) => refuse(turn, task, current, sha256, defects),
    }
}

fn ended_by_itself(turn: &Turn<'_>, task: TaskIx) -> bool {
    turn.state.tasks[task].exit().is_some_and(|exit| exit.stopped.is_none())
}

fn put_aside(
    turn: &mut Turn<'_>,
    task: TaskIx,
    sha256: String,
    content: Result<Checked, Vec<Defect>>,
    because: LateBecause,
) {
    let attempt = content.ok().and_then(|checked| checked.claim.attempt);
    let task = turn.key(task);
    turn.record(Event::Late { task, attempt, sha256, because });
}

/// What lies behind the result that counts, or was left by an attempt that ended without a record.
pub(super) fn put_leftover_aside(turn: &mut Turn<'_>, seen: LeftoverSeen) {
    let LeftoverSeen { task, sha256, attempt, is_behind } = seen;
    let because = match turn.state.tasks[task].phase {
        _ if is_behind => LateBecause::NotTheFirst,
        Phase::Done(_) => LateBecause::Settled,
        Phase::BackingOff { .. } => LateBecause::BetweenAttempts,
        _ => match turn.state.tasks[task].live_attempt() {
            Some(current) if attempt.is_some_and(|of| of != current) => LateBecause::OtherAttempt { current },
            // Its attempt is not over yet.
            _ => return,
        },
    };
    let task = turn.key(task);
    turn.record(Event::Late { task, attempt, sha256, because });
}

fn refuse(turn: &mut Turn<'_>, task: TaskIx, attempt: Attempt, sha256: String, defects: Vec<Defect>) {
    begin_if_offered(turn, task, attempt);
    let task = turn.key(task);
    turn.record(Event::ResultRefused { task, attempt, sha256, defects });
}

/// Whether this is the result that was collected, and only its judgement was lost with the journal's tail.
fn is_collected(turn: &Turn<'_>, task: TaskIx, sha256: &str) -> bool {
    turn.state.tasks[task].collected.as_ref().is_some_and(|collected| collected.sha256 == sha256)
}

fn collect(
    turn: &mut Turn<'_>,
    task: TaskIx,
    attempt: Attempt,
    (sha256, inline): (String, Option<String>),
    checked: Checked,
    said: Option<Attempt>,
) {
    let key = turn.key(task);
    begin_if_offered(turn, task, attempt);
    let checked = evidence::weigh(turn, task, checked);
    let unfenced = said.is_none() && attempt > Attempt::FIRST;
    let failure = failure_in(turn, task, &checked);
    let Checked { claim, verdict, .. } = checked;
    let tokens_used = claim.tokens_used;
    turn.record(Event::Collected { task: key, attempt, sha256, unfenced, inline, tokens_used, verdict });
    conclude(turn, task, attempt, failure);
}

fn conclude(turn: &mut Turn<'_>, task: TaskIx, attempt: Attempt, failure: Option<Reason>) {
    match failure {
        Some(because) => retry::end_attempt(turn, task, because),
        None => {
            let task = turn.key(task);
            turn.record(Event::Succeeded { task, attempt });
        }
    }
}

/// Whoever writes a result works on the attempt, though nobody saw it take it or beat.
fn begin_if_offered(turn: &mut Turn<'_>, task: TaskIx, attempt: Attempt) {
    if matches!(turn.state.tasks[task].phase, Phase::Offered { .. }) {
        let task = turn.key(task);
        turn.record(Event::Started { task, attempt, sign: Sign::Result });
    }
}

/// A turn that was cut after its result was collected: the judgement is still owed, by the verdict of then.
fn judge_collected(
    turn: &mut Turn<'_>,
    task: TaskIx,
    attempt: Attempt,
    content: Result<Checked, Vec<Defect>>,
) {
    let verdict = turn.state.tasks[task].collected.as_ref().map(|collected| collected.verdict.clone());
    let failure = match content {
        Ok(seen) => failure_in(turn, task, &Checked { verdict: verdict.unwrap_or_default(), ..seen }),
        Err(defects) => Some(Reason::ResultRefused { defects }),
    };
    conclude(turn, task, attempt, failure);
}

/// Why a valid result is not a success, if it is not.
fn failure_in(turn: &Turn<'_>, task: TaskIx, checked: &Checked) -> Option<Reason> {
    let Checked { claim, verdict, .. } = checked;
    let exit = turn.state.tasks[task].exit();
    if let Some(defects) = &turn.state.tasks[task].refusal
        && exit.is_some_and(|exit| exit.result_by_runner)
    {
        // What it said itself was refused, and it did not say it again.
        return Some(Reason::ResultRefused { defects: defects.clone() });
    }
    if claim.status == ClaimStatus::Failure {
        return Some(match exit {
            // The runner wrote it from the exit alone: then that is the reason.
            Some(exit) if exit.result_by_runner && exit.exit_code != Some(0) => Reason::AgentExited {
                code: exit.exit_code,
                signal: exit.signal,
                // The first error says what the exit says; the last line that it printed says more.
                said: claim.errors.iter().skip(1).next_back().cloned(),
            },
            _ => Reason::AgentReported { errors: claim.errors.clone() },
        });
    }
    if let Some(exit) = exit
        && !exit.is_clean()
        && exit.stopped != Some(Stopped::Lingered)
    {
        return Some(match exit.stopped {
            Some(_) => super::runners::why_it_ended(turn, task, exit),
            None => Reason::ExitDisagrees { code: exit.exit_code, signal: exit.signal },
        });
    }
    evidence::shortcoming(turn, task, verdict)
}
