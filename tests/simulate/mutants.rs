//! Ten bugs, planted one at a time: a simulator that cannot fail proves nothing. Each is caught within a
//! bounded number of seeds, by the invariant that it breaks.

use watchkeeper::decide::{self, Now, Observed, Pulses};
use watchkeeper::model::evidence::Change;
use watchkeeper::model::state::{BatchState, Phase};
use watchkeeper::model::{Attempt, Event};
use watchkeeper::watcher::Heart;

use super::fault::Fault;
use super::world::{Bug, Options};
use super::{Campaign, ordinary, play};

/// By then each bug must have been found.
const SEEDS_MOST: u64 = 500;

fn bug_caught(bug: Bug, by: &[&str]) {
    let found = play(&Campaign::first(SEEDS_MOST), |seed| Options { bug: Some(bug), ..ordinary(seed) }).found;
    let (seed, violation) = found.first().expect("the planted bug was not noticed");
    assert!(by.contains(&violation.invariant), "seed {seed}: {violation:?}, where {by:?} was expected");
}

#[test]
fn a_lock_that_is_known_by_its_content_is_noticed() {
    bug_caught(Bug::LockByContent, &["I1"]);
}

#[test]
fn a_second_result_that_takes_the_place_of_the_first_is_noticed() {
    bug_caught(Bug::SecondResultWins, &["I26", "I17"]);
}

#[test]
fn an_epoch_that_is_counted_from_one_again_is_noticed() {
    bug_caught(Bug::EpochFromOne, &["I1"]);
}

fn caught(heart: Option<Heart>, swallows: Option<&'static str>, by: &[&str], without: &[Fault]) {
    let options = |seed| {
        let ordinary = ordinary(seed);
        Options { heart, swallows, menu: ordinary.menu.clone().without(without), ..ordinary }
    };
    let found = play(&Campaign::first(SEEDS_MOST), options).found;
    let (seed, violation) = found.first().expect("the planted bug was not noticed");
    assert!(by.contains(&violation.invariant), "seed {seed}: {violation:?}, where {by:?} was expected");
}

fn record(state: &mut BatchState, events: &mut Vec<Event>, event: Event, now: Now) {
    if state.apply_event(&event, now.clock, now.wall).is_ok() {
        events.push(event);
    }
}

/// Whoever has a heartbeat file lives.
fn by_existence(state: &mut BatchState, observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    let mut alive = pulses.clone();
    for (task, pulse) in pulses.iter() {
        if pulse.has_beaten {
            alive.restore(task, decide::Pulse { since: now.clock, ..pulse.clone() });
        }
    }
    decide::decide(state, observed, &alive, now)
}

#[test]
fn a_heartbeat_judged_by_its_existence_is_noticed() {
    caught(Some(by_existence), None, &["I10", "I25"], &[]);
}

/// A result counts whatever attempt it speaks for.
fn accepts_late(state: &mut BatchState, mut observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    for seen in &mut observed.results {
        if let Ok(checked) = &mut seen.content {
            checked.claim.attempt = None;
        }
    }
    decide::decide(state, observed, pulses, now)
}

#[test]
fn a_late_result_that_counts_is_noticed() {
    caught(Some(accepts_late), None, &["I6"], &[]);
}

/// An agent that says that it succeeded has done what its task declares.
fn believes(state: &mut BatchState, mut observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    let results = observed.results.iter_mut().filter_map(|seen| seen.content.as_mut().ok());
    for place in results.flat_map(|checked| &mut checked.declared) {
        place.change = Change::Modified;
    }
    decide::decide(state, observed, pulses, now)
}

#[test]
fn a_success_without_evidence_is_noticed() {
    caught(Some(believes), None, &["I27"], &[]);
}

/// A second attempt begins while the first one is out.
fn retries_beside(state: &mut BatchState, observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    let mut events = decide::decide(state, observed, pulses, now);
    let running = state.live.iter().copied().find(|task| {
        matches!(state.tasks[*task].phase, Phase::Running { attempt, since }
            if attempt == Attempt::FIRST && now.clock.since(since) > 3_000
                && state.tasks[*task].spec.limits.max_retries > 0)
    });
    if let Some(task) = running {
        let task = state.key(task).clone();
        record(state, &mut events, Event::Offered { task, attempt: Attempt::FIRST.next() }, now);
    }
    events
}

#[test]
fn a_retry_beside_a_live_attempt_is_noticed() {
    caught(Some(retries_beside), None, &["I4"], &[]);
}

#[test]
fn an_effect_without_its_intent_is_noticed() {
    caught(None, Some("\"event\":\"offered\""), &["I2"], &[]);
}

/// A task begins when its first dependency has succeeded.
fn starts_early(state: &mut BatchState, observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    let mut events = decide::decide(state, observed, pulses, now);
    let waiting = (0..state.tasks.len())
        .find(|task| matches!(state.tasks[*task].phase, Phase::Waiting { unmet } if unmet == 1));
    if let (Some(task), None) = (waiting, state.finished) {
        let task = state.key(task).clone();
        record(state, &mut events, Event::Offered { task, attempt: Attempt::FIRST }, now);
    }
    events
}

#[test]
fn a_dependent_that_starts_early_is_noticed() {
    caught(Some(starts_early), None, &["I12"], &[]);
}

/// A batch that is over is over once more.
fn finishes_twice(state: &mut BatchState, observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    let mut events = decide::decide(state, observed, pulses, now);
    if let Some(Event::Finished { status }) = events.last() {
        let status = *status;
        record(state, &mut events, Event::Finished { status }, now);
    }
    events
}

#[test]
fn a_batch_that_finishes_twice_is_noticed() {
    caught(Some(finishes_twice), None, &["I12"], &[]);
}
