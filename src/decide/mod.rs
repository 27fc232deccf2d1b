//! The heart: what follows from a batch's state, from what a look at the bus showed, and from the time.
//!
//! Pure and total: no disk, no clock, no process, no randomness, no error. Every decision is an event that
//! carries its reason; the state is advanced by the very events that are returned, so a fold of the journal
//! and the running watcher cannot disagree. The order of the rules is the contract: wishes, specs, results,
//! signs of life, clocks, consequences.

mod cancel;
mod deadlines;
mod finish;
mod join;
mod liveness;
mod pulse;
mod results;
mod retry;
mod start;

use crate::model::claim::Claim;
use crate::model::event::Sign;
use crate::model::state::{BatchState, TaskIx};
use crate::model::{Attempt, Defect, Event, Task, TaskKey, Tick, Verdict, WallTime};

pub use deadlines::{is_due, is_over_its_limit, next_deadline};
pub use liveness::{Census, census, condemned};
pub use pulse::{Glance, Pulse, Pulses};

/// The moment of a turn: what decides, and what people read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Now {
    pub clock: Tick,
    pub wall: WallTime,
}

/// Everything new that a look at one batch showed.
#[derive(Debug, Default)]
pub struct Observed {
    /// Every file was looked at, so the absence of a sign means something and clocks may be judged.
    pub full_scan: bool,
    /// How the running attempts of the bus's other batches do: a fault of ours shows in all of them.
    pub elsewhere: Census,
    /// A spec is still being written: an open batch does not close on it.
    pub has_coming_specs: bool,
    pub wishes: Vec<WishSeen>,
    pub specs: Vec<SpecSeen>,
    pub results: Vec<ResultSeen>,
    pub signs: Vec<SignSeen>,
}

/// Somebody asks for the end of the batch, or of one task.
#[derive(Debug, Clone)]
pub struct WishSeen {
    pub task: Option<TaskKey>,
    pub by: String,
    pub why: Option<String>,
}

/// A spec dropped into an open batch.
#[derive(Debug)]
pub struct SpecSeen {
    pub key: TaskKey,
    pub sha256: String,
    pub content: Result<Box<Task>, Vec<Defect>>,
}

/// A settled file in a task's drop box.
#[derive(Debug)]
pub struct ResultSeen {
    pub task: TaskIx,
    pub sha256: String,
    pub content: Result<Checked, Vec<Defect>>,
}

/// A claim with what was checked of it when it was seen.
#[derive(Debug)]
pub struct Checked {
    pub claim: Claim,
    pub verdict: Verdict,
}

/// Somebody works on an attempt.
#[derive(Debug)]
pub struct SignSeen {
    pub task: TaskIx,
    pub attempt: Attempt,
    pub sign: Sign,
}

/// Decides one turn of one batch.
pub fn decide(state: &mut BatchState, observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    let mut turn = Turn { state, now, has_coming_specs: observed.has_coming_specs, events: Vec::new() };
    if turn.state.finished.is_some() {
        // What still comes is late; the archive is about to take the directory away.
        return turn.events;
    }
    for wish in observed.wishes {
        cancel::grant(&mut turn, wish);
    }
    for spec in observed.specs {
        join::admit(&mut turn, spec);
    }
    for result in observed.results {
        results::judge(&mut turn, result);
    }
    for sign in observed.signs {
        start::recognise(&mut turn, &sign);
    }
    if observed.full_scan {
        liveness::judge_silence(&mut turn, pulses, observed.elsewhere);
        deadlines::judge_attempts(&mut turn);
        deadlines::judge_stages(&mut turn);
        deadlines::judge_batch(&mut turn);
    }
    cancel::carry_out(&mut turn);
    finish::abandon_dependents(&mut turn);
    start::offer(&mut turn);
    finish::finish(&mut turn, observed.full_scan);
    turn.events
}

/// One turn's work: a state that moves with each event that is recorded.
struct Turn<'a> {
    state: &'a mut BatchState,
    now: Now,
    has_coming_specs: bool,
    events: Vec<Event>,
}

impl Turn<'_> {
    fn record(&mut self, event: Event) {
        let applied = self.state.apply_event(&event, self.now.clock, self.now.wall);
        debug_assert!(applied.is_ok(), "decided about a task that is not there: {event:?}");
        self.events.push(event);
    }

    fn key(&self, task: TaskIx) -> TaskKey {
        self.state.key(task).clone()
    }
}
