//! The port to the processes of attempts that we start: few verbs, each whole. `LocalRunners` implements it
//! for the product; where nothing is ever started, `NoRunners` does.

use crate::bus::layout::AttemptPaths;
use crate::format::order::Order;
use crate::model::RunnerIdentity;
use crate::model::event::Suspect;

/// How an attempt of ours stands, as its lock and its processes show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// No runner has begun it.
    NotBegun,
    /// A runner is about to, or died in that very moment.
    Starting,
    Alive,
    /// The runner is dead, and so is every process of the attempt.
    Gone {
        rebooted: bool,
    },
    /// The runner is dead; processes of the attempt were killed, and some are not gone yet.
    Orphans {
        left: usize,
    },
    /// The lock is another file than the one that the journal names: somebody put it there, and it says nothing.
    Replaced,
    /// The runner is dead, and nobody can tell whether anything of the attempt is left.
    Unknown {
        why: String,
        /// Those of whom nothing tells whether they belong to it.
        suspects: Vec<Suspect>,
    },
}

/// An attempt of ours, and what is known of it beside what its files say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ours {
    pub paths: AttemptPaths,
    /// What the environment of every process of the attempt carries.
    pub mark: String,
    /// Its runner, as the journal names it: no file is believed that says otherwise.
    pub known: Option<RunnerIdentity>,
}

/// What an exit record is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// The runner wrote it and is gone.
    Genuine,
    /// The runner lives, or has not begun: it is about to end, or somebody else wrote the record and it will be replaced.
    Early,
    /// The runner is dead and its agent is not: then it wrote none.
    Forged,
}

/// The runners of a bus, as its watcher deals with them.
pub trait Runners {
    /// Starts a runner on the order that lies in the attempt's folder. Doing it twice is harmless: an attempt
    /// is begun once, by whoever makes its lock file.
    fn launch(&self, launcher: &str, order: &Order, paths: &AttemptPaths) -> Result<(), String>;

    /// Looks at the attempt; what a dead runner left behind is killed.
    fn standing(&self, ours: &Ours) -> Standing;

    /// Who the runner is that holds the attempt's lock, for the journal.
    fn who(&self, _: &Ours) -> Option<RunnerIdentity> {
        None
    }

    /// Whose the exit record is that lies there: a runner is gone a moment after it wrote one, and everybody with the
    /// attempt's mark was gone before.
    fn record(&self, ours: &Ours) -> Record;

    /// Tells a living runner to look at the request to stop that lies in the attempt's folder.
    fn ask_to_stop(&self, ours: &Ours);

    /// Ends by force what did not end when it was asked.
    fn force(&self, ours: &Ours) -> Standing;

    /// Sees to it that nobody begins the attempt any more. `false` if somebody has.
    fn forbid(&self, paths: &AttemptPaths) -> bool;

    /// The batch's report is written: whatever its launchers keep for people to look at may go.
    fn let_go(&self, launcher: &str, attempts: &[AttemptPaths]);

    /// Collects runners that have ended, so that they do not stay as zombies.
    fn reap(&self);
}

/// For a bus on which nothing is started.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRunners;

impl Runners for NoRunners {
    fn launch(&self, _: &str, _: &Order, _: &AttemptPaths) -> Result<(), String> {
        Err("nothing is started here".to_owned())
    }
    fn standing(&self, _: &Ours) -> Standing {
        Standing::NotBegun
    }
    fn record(&self, _: &Ours) -> Record {
        Record::Genuine
    }
    fn ask_to_stop(&self, _: &Ours) {}
    fn force(&self, _: &Ours) -> Standing {
        Standing::Gone { rebooted: false }
    }
    fn forbid(&self, _: &AttemptPaths) -> bool {
        true
    }
    fn let_go(&self, _: &str, _: &[AttemptPaths]) {}
    fn reap(&self) {}
}
