//! The menu of faults. Each seed enables a random half of it; each fault that really happened is counted.

use super::random::Random;

macro_rules! faults {
    ($($name:ident = $words:literal),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault { $($name),* }

        impl Fault {
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];

            pub fn words(self) -> &'static str {
                match self { $(Fault::$name => $words),* }
            }
        }
    };
}

faults! {
    Crash = "the watcher is killed at some disk operation",
    DoubleCrash = "it is killed again while it recovers",
    PowerLoss = "power is lost, and with it what was not synced",
    TornJournal = "the journal's last line is torn",
    LostEvent = "a file event is lost",
    DuplicatedEvent = "a file event comes twice",
    EventOverflow = "the event queue overflows",
    WatcherStopped = "the watcher is stopped for up to an hour",
    Suspended = "the machine is suspended",
    WallStep = "the wall clock is set by up to a day",
    SecondWatcher = "a second watcher takes over while the first one is paused",
    ReplacedLock = "the watcher's lock is replaced by a file that says the same",
    RemadeBus = "the bus is removed and made anew while a watcher of the old one is paused",
    DiskFull = "the disk is full",
    DiskError = "the disk gives input/output errors",
    JournalSyncError = "the journal's sync fails",
    TooManyOpen = "file descriptors are used up",
    ReadOnly = "the file system is read-only",
    ErrorAfterEffect = "an operation fails although it took effect",
    HalfRename = "a listing sees half of a rename",
    DelayedVisibility = "a file becomes visible late",
    CoarseClock = "two writes have the same time",
    DamagedFile = "a bit flips in an agent's file, or its end is missing",
    Junk = "a flood of junk files",
    CancelWish = "somebody asks for an end",
    MassSilence = "all agents pause together and come back",
    TornWrite = "an agent writes its result in place, in steps",
    FailedResult = "an agent reports failure",
    Silence = "an agent falls silent",
    NeverStarts = "an agent never begins",
    SlowButBeating = "an agent is slow, and beats",
    TouchOnly = "an agent beats by touching its file",
    GarbageHeartbeat = "an agent writes garbage as its heartbeat",
    GarbageResult = "an agent writes garbage as its result",
    WrongTask = "a result names another task",
    DoubleResult = "an agent writes two results",
    LateResult = "a result comes after its attempt was given up",
    Zombie = "a given-up agent beats on, and writes a result for its old attempt",
    UnfencedZombie = "such a result does not say its attempt",
    DeletesSpec = "an agent deletes its spec",
    EarlyResult = "a result comes before its task begins",
    BeatsAfterResult = "an agent beats after its result",
    Take = "an agent takes its task by a file",
    TwoTakers = "two agents take one task",
    MissingFile = "a result names a file that is not there",
}

/// How often each fault happened.
#[derive(Debug, Clone)]
pub struct Fired(pub Vec<u64>);

impl Default for Fired {
    fn default() -> Self {
        Fired(vec![0; Fault::ALL.len()])
    }
}

impl Fired {
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub fn add(&mut self, other: &Fired) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
}

/// Which faults a world may have.
#[derive(Debug, Clone)]
pub struct Menu(Vec<bool>);

impl Menu {
    /// A random half of all.
    pub fn swarm(seed: u64) -> Self {
        let mut random = Random::stream(seed, "menu", 0);
        Menu(Fault::ALL.iter().map(|_| random.chance(50)).collect())
    }

    pub fn only(faults: &[Fault]) -> Self {
        Menu(Fault::ALL.iter().map(|fault| faults.contains(fault)).collect())
    }

    pub fn without(mut self, faults: &[Fault]) -> Self {
        for fault in faults {
            self.0[*fault as usize] = false;
        }
        self
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.0[fault as usize]
    }

    /// Whether nothing befalls the watcher or its disk, whatever the agents do.
    pub fn leaves_the_watcher_alone(&self) -> bool {
        let about_the_watcher = (Fault::Crash as usize)..=(Fault::CoarseClock as usize);
        !self.0[about_the_watcher].iter().any(|enabled| *enabled)
    }
}
