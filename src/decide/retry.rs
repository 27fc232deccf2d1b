//! The end of an attempt, and whether another follows.

use super::Turn;
use crate::model::batch::Backoff;
use crate::model::state::TaskIx;
use crate::model::{Attempt, Event, Reason, TaskKey};

/// Ends the task's current attempt. Another follows if the reason and the count allow it.
pub(super) fn fail_attempt(turn: &mut Turn<'_>, task: TaskIx, because: Reason) {
    let state = &turn.state.tasks[task];
    let Some(attempt) = state.live_attempt() else { return };
    let may_retry = because.is_retryable()
        && attempt.number() <= state.spec.limits.max_retries
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
