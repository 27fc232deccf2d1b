//! The heart: what follows from a batch's state, from what a look at the bus showed, and from the time.
//!
//! Pure and total: no disk, no clock, no process, no randomness, no error. Every decision is an event that
//! carries its reason; the state is advanced by the very events that are returned, so a fold of the journal
//! and the running watcher cannot disagree. The order of the rules is the contract: wishes, specs, results,
//! signs of life, clocks, consequences. A wish for a task whose attempt has ended meanwhile comes after that end.

mod deadlines;
mod evidence;
mod finish;
mod handoff;
mod join;
mod liveness;
mod pulse;
mod results;
mod retry;
mod runners;
mod start;
mod wishes;

use crate::model::RunnerIdentity;
use crate::model::claim::Claim;
use crate::model::declared::DeclaredPlace;
use crate::model::event::{Sign, Suspect};
use crate::model::handoff::{Choices, MergeOutcome, Prepared};
use crate::model::state::{BatchState, TaskIx};
use crate::model::{Attempt, Defect, Event, Exit, Task, TaskKey, Tick, Verdict, WallTime};

pub use deadlines::{is_due, is_over_its_limit, next_deadline};
pub use liveness::{Census, census, condemned};
pub use pulse::{Glance, Pulse, Pulses};
pub use retry::RUNNER_SLACK;
pub use start::{PARALLEL_DEFAULT, has_room_to_begin};

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
    /// How many more attempts of ours the whole bus has room for.
    pub room: usize,
    /// A spec is still being written: an open batch does not close on it.
    pub has_coming_specs: bool,
    pub wishes: Vec<WishSeen>,
    pub specs: Vec<SpecSeen>,
    pub results: Vec<ResultSeen>,
    pub leftovers: Vec<LeftoverSeen>,
    pub signs: Vec<SignSeen>,
    pub runners: Vec<RunnerSeen>,
    pub begun: Vec<BegunSeen>,
    pub works: Vec<WorkSeen>,
    /// Records of how declared files were before, by their hash.
    pub baselines: Vec<(TaskIx, String)>,
}

/// What somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The end, of one task or of the batch.
    Cancel,
    /// One task ends as failed, its processes with it.
    Kill,
    /// Another try, of one task or of all that failed.
    Retry,
    /// Nothing further begins.
    Pause,
    Resume,
    /// The conflicts between outputs are decided: merge again.
    Resolve,
}

/// Somebody asks for something, about one task or about the batch.
#[derive(Debug, Clone)]
pub struct WishSeen {
    pub asked: Asked,
    pub task: Option<TaskKey>,
    pub by: String,
    pub why: Option<String>,
    /// Of `Resolve`: what becomes of the conflicts.
    pub choices: Choices,
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
    /// The result itself, where it is small enough for the journal.
    pub inline: Option<String>,
}

/// What an attempt of ours left in a drop box or its folder, and can no longer count.
#[derive(Debug)]
pub struct LeftoverSeen {
    pub task: TaskIx,
    pub sha256: String,
    /// For which attempt it speaks, if it says so.
    pub attempt: Option<Attempt>,
    /// A valid result of the same attempt was there before it.
    pub is_behind: bool,
}

/// A claim with what was checked of it when it was seen.
#[derive(Debug)]
pub struct Checked {
    pub claim: Claim,
    pub verdict: Verdict,
    /// What became of the declared files, where the exit record does not tell.
    pub declared: Vec<DeclaredPlace>,
    /// Files of which a new commit has another content than they had.
    pub committed: Vec<String>,
}

/// Somebody works on an attempt.
#[derive(Debug)]
pub struct SignSeen {
    pub task: TaskIx,
    pub attempt: Attempt,
    pub sign: Sign,
}

/// What was found of a runner whose attempt is not over.
#[derive(Debug)]
pub struct RunnerSeen {
    pub task: TaskIx,
    pub attempt: Attempt,
    pub found: Found,
}

/// A runner that nobody had seen before.
#[derive(Debug)]
pub struct BegunSeen {
    pub task: TaskIx,
    pub attempt: Attempt,
    pub runner: Box<RunnerIdentity>,
}

/// How an attempt of ours stands, as its files and processes show it.
#[derive(Debug)]
pub enum Found {
    /// Its exit record is there: nothing of it is left.
    Exited(Box<Exit>),
    /// Its runner is dead without a record, and so is every process of it.
    Gone { rebooted: bool },
    /// Its runner is dead, but processes of it are not, so far.
    Orphans,
    /// Nobody can tell whether processes of it are left.
    Unknown { why: String, suspects: Vec<Suspect> },
    /// It could not be launched: nothing was started.
    NotLaunched { why: String },
}

/// Slow work for the whole batch that was done elsewhere.
#[derive(Debug)]
pub enum WorkSeen {
    Prepared(Prepared),
    NotPrepared { why: String },
    Merged { round: u32, outcome: Box<MergeOutcome> },
}

/// Decides one turn of one batch.
pub fn decide(state: &mut BatchState, observed: Observed, pulses: &Pulses, now: Now) -> Vec<Event> {
    let has_coming_specs = observed.has_coming_specs;
    let mut turn = Turn { state, now, has_coming_specs, room: observed.room, events: Vec::new() };
    if turn.state.finished.is_some() {
        // What still comes is late; the archive is about to take the directory away.
        return turn.events;
    }
    let comes_too_late = |wish: &WishSeen| wishes::comes_too_late(turn.state, wish, &observed.runners);
    let (late, in_time): (Vec<_>, Vec<_>) = observed.wishes.into_iter().partition(comes_too_late);
    for wish in in_time {
        wishes::grant(&mut turn, wish);
    }
    handoff::note(&mut turn, observed.works);
    for spec in observed.specs {
        join::admit(&mut turn, spec);
    }
    runners::note_begun(&mut turn, observed.begun);
    for (task, sha256) in observed.baselines {
        if turn.state.tasks[task].baseline.is_none() {
            let task = turn.key(task);
            turn.record(Event::Baselined { task, sha256 });
        }
    }
    let ended = runners::note_exits(&mut turn, &observed.runners);
    for result in observed.results {
        results::judge(&mut turn, result);
    }
    for sign in observed.signs {
        start::recognise(&mut turn, &sign);
    }
    runners::conclude(&mut turn, &ended, observed.runners);
    for wish in late {
        wishes::grant(&mut turn, wish);
    }
    for leftover in observed.leftovers {
        results::put_leftover_aside(&mut turn, leftover);
    }
    if observed.full_scan {
        liveness::judge_words(&mut turn, pulses);
        liveness::judge_silence(&mut turn, pulses, observed.elsewhere);
        deadlines::judge_attempts(&mut turn);
        deadlines::judge_stages(&mut turn);
        deadlines::judge_batch(&mut turn);
    }
    wishes::carry_out_cancel(&mut turn);
    handoff::prepare(&mut turn);
    finish::abandon_dependents(&mut turn);
    start::begin(&mut turn);
    finish::finish(&mut turn, observed.full_scan);
    turn.events
}

/// One turn's work: a state that moves with each event that is recorded.
struct Turn<'a> {
    state: &'a mut BatchState,
    now: Now,
    has_coming_specs: bool,
    room: usize,
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
