//! The heart on a virtual clock: a whole batch played through with scripted agents and faults, in no time.
//!
//! Values in, values out: nothing is started and nothing is written. What decides is the very `decide` of a
//! real run; only the world around it is made up. Time jumps from one happening to the next.

mod advice;
mod agenda;
mod agents;
mod facts;
mod fault;
mod path;
mod script;
mod text;
mod world;

use crate::model::event::Entry;
use crate::model::state::BatchState;
use crate::model::{Batch, Seconds, Settings};

pub use facts::{Absence, Facts, Loss, Retry, Slots, StageSpan};
pub use fault::{Chaos, Fault, Faults, UnknownTask};
pub use path::{Because, PathStep};
pub use text::text;

/// How long a task takes that no estimate speaks of.
const UNESTIMATED: Seconds = Seconds(60.0);

/// Under which conditions a batch is rehearsed.
#[derive(Debug, Clone)]
pub struct Conditions {
    pub faults: Faults,
    pub away: Vec<Away>,
    /// How many attempts of ours the bus has room for.
    pub max_running: usize,
    /// How long a runner that does not answer is waited for.
    pub kill_grace: Seconds,
}

impl Conditions {
    /// Nothing goes wrong.
    pub fn fair(settings: &Settings) -> Self {
        Conditions {
            faults: Faults::default(),
            away: Vec::new(),
            max_running: settings.max_running as usize,
            kill_grace: settings.kill_grace,
        }
    }
}

/// A time in which nobody watches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Away {
    pub from: Seconds,
    pub lasting: Seconds,
}

/// A batch that was played to its end, or to where nothing more could happen.
#[derive(Debug)]
pub struct Rehearsal {
    /// What the journal adds up to.
    pub state: BatchState,
    /// The journal that a real run would have written.
    pub entries: Vec<Entry>,
    /// How often the heart was asked.
    pub decisions: usize,
    /// Most attempts that were out at once.
    pub peak: usize,
    pub absences: Vec<Absence>,
    /// When it ended, or when the last thing happened.
    pub elapsed: Seconds,
    max_running: usize,
    /// By task, by try: why it began no earlier.
    because: Vec<Vec<Because>>,
}

/// Plays a batch through.
pub fn rehearse(batch: Batch, conditions: &Conditions) -> Rehearsal {
    world::World::new(batch, conditions).play()
}
