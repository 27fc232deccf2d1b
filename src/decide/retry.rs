//! The end of an attempt, and whether another follows.

use super::Turn;
use crate::model::batch::Backoff;
use crate::model::state::{Phase, TaskIx, TaskState};
use crate::model::{Attempt, Event, Reason, Seconds, TaskKey};

/// How long after its grace an attempt that is being ended may still be its runner's business.
pub const RUNNER_SLACK: Seconds = Seconds(5.0);

/// Most tries that count for nobody: a machine that restarts again and again helps no task.
const UNCOUNTED_MAX: usize = 5;

/// Gives the task's current attempt up. An outsider's is over with that: its number fences off whatever it
/// sends later. One of ours is ended first, and is over when nothing of it is left.
pub(super) fn fail_attempt(turn: &mut Turn<'_>, task: TaskIx, because: Reason) {
    let state = &turn.state.tasks[task];
    let Some(attempt) = state.live_attempt() else { return };
    if let Phase::Ending { because: present, .. } = &state.phase {
        // Somebody's wish outweighs a reason after which it would be tried again.
        if present.is_retryable() && !because.is_retryable() {
            let task = turn.key(task);
            turn.record(Event::Ending { task, attempt, because });
        }
        return;
    }
    let is_awaited = matches!(state.phase, Phase::Awaiting { .. });
    if state.is_ours() && state.exit().is_none() && !is_awaited {
        let task = turn.key(task);
        turn.record(Event::Ending { task, attempt, because });
    } else {
        let because = match state.unconfirmed() {
            Some(unconfirmed) => with_doubt(because, attempt, &unconfirmed.why),
            None => because,
        };
        end_attempt(turn, task, because);
    }
}

/// The end of a task is no proof of its attempt's: what nobody could confirm stays told.
fn with_doubt(because: Reason, attempt: Attempt, doubt: &str) -> Reason {
    let told = |why: Option<String>| {
        let doubt = format!("nobody could confirm that attempt {attempt} is gone ({doubt})");
        Some(why.map_or(doubt.clone(), |why| format!("{why}; {doubt}")))
    };
    match because {
        Reason::Killed { by, why } => Reason::Killed { by, why: told(why) },
        Reason::Cancelled { by, why } => Reason::Cancelled { by, why: told(why) },
        other => other,
    }
}

/// Ends the task's current attempt, of which nothing is left that matters. Another follows if the reason
/// and the count allow it.
pub(super) fn end_attempt(turn: &mut Turn<'_>, task: TaskIx, because: Reason) {
    let state = &turn.state.tasks[task];
    let Some(attempt) = state.live_attempt() else { return };
    let is_final = matches!(because, Reason::AttemptTimeout { .. })
        && state.spec.assignment.as_ref().is_some_and(|assignment| assignment.timeout_is_final);
    let may_retry = because.is_retryable()
        && !is_final
        && has_tries_left(state, &because)
        && turn.state.cancel.is_none()
        && !turn.state.timed_out;
    let retry_at = may_retry.then(|| {
        let delay = delay_ms(&turn.state.batch.backoff, &state.spec.key, attempt);
        // Never in this turn: the old attempt's files are moved away before the next begins.
        crate::model::Tick(turn.now.clock.0 + delay.max(1))
    });
    let task = turn.key(task);
    turn.record(Event::AttemptFailed { task, attempt, because, retry_at });
}

/// Whether the tries since the last request for one leave room for another.
fn has_tries_left(state: &TaskState, because: &Reason) -> bool {
    let earlier = state.tries[state.tries_before..].iter().filter_map(|one| one.failed_because.as_ref());
    let (mut counted, mut uncounted) = (0, 0);
    for reason in earlier.chain(std::iter::once(because)) {
        let count = if reason.counts() { &mut counted } else { &mut uncounted };
        *count += 1;
    }
    counted <= state.spec.limits.max_retries as usize && uncounted <= UNCOUNTED_MAX
}

/// Exponential, with jitter that depends on the task alone: the same story has the same delays.
fn delay_ms(backoff: &Backoff, key: &TaskKey, failed: Attempt) -> u64 {
    let exponent = failed.number().saturating_sub(1).min(64) as i32;
    let full = (backoff.first.0 * backoff.factor.powi(exponent)).min(backoff.longest.0);
    let spread = f64::from(crc32fast::hash(key.as_str().as_bytes())) / f64::from(u32::MAX);
    (full * (0.5 + 0.5 * spread) * 1000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Seconds;

    #[test]
    fn delays_double_up_to_the_longest_and_keep_to_the_upper_half() {
        let backoff = Backoff { first: Seconds(1.0), factor: 2.0, longest: Seconds(100.0) };
        let key = TaskKey::parse("2a").unwrap();
        let mut attempt = Attempt::FIRST;
        for full in [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 100_000, 100_000] {
            let delay = delay_ms(&backoff, &key, attempt);
            assert!(delay >= full / 2 && delay <= full, "{delay} for {full}");
            assert_eq!(delay, delay_ms(&backoff, &key, attempt));
            attempt = attempt.next();
        }
    }
}
