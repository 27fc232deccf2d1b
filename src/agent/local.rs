//! The runners of this machine: launched through the launchers, judged by their locks, ended with all that
//! descends from them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::begun::{self, Begun, Compared, Probe};
use super::environment;
use super::granted::Granted;
use super::launcher::{self, Job, Launcher, RunnerProgram};
use super::runners::{Ours, Record, Runners, Standing};
use super::tree::{self, Confirmation, Doubt, Existence, Innocent, ProcessIdentity, Signal, Spared};
use super::veil;
use crate::bus::layout::AttemptPaths;
use crate::bus::platform;
use crate::format::order::Order;
use crate::model::event::Suspect;
use crate::model::{RunnerIdentity, Settings};

/// Orphans are killed without grace, and looked for again at the next scan: the loop must not wait for them.
const ORPHANS_LIMIT: Duration = Duration::from_millis(300);

/// The pauses between looks at a runner that has left its record and is about to end, about three milliseconds in
/// all; one that takes longer is looked at again at another turn.
const ENDING_PAUSES_US: [u64; 6] = [50, 100, 200, 400, 800, 1_600];

/// Every runner of a bus on this machine.
pub struct LocalRunners {
    launchers: Vec<Box<dyn Launcher>>,
    program: std::io::Result<RunnerProgram>,
    /// Whether processes that lose their parents become our children, so that none can hide.
    inherits: bool,
    has_launched: Cell<bool>,
    /// Children that we had before we started anything: somebody else's.
    older_children: HashSet<(u32, u64)>,
    /// Values of all agents so far: none of them stands in the log of any.
    secrets: RefCell<BTreeSet<String>>,
}

impl LocalRunners {
    pub fn new(settings: &Settings) -> Self {
        LocalRunners {
            launchers: launcher::all(settings),
            program: RunnerProgram::find(),
            inherits: tree::become_subreaper().is_ok(),
            has_launched: Cell::new(false),
            older_children: tree::children_now(),
            secrets: RefCell::new(veil::secrets_of(settings)),
        }
    }

    fn launcher(&self, name: &str) -> Option<&dyn Launcher> {
        self.launchers.iter().find(|launcher| launcher.name() == name).map(AsRef::as_ref)
    }

    /// Ends what a dead runner left, and says whether anything is left.
    fn end_orphans(&self, begun: &Begun) -> Standing {
        let Some(trace) = begun.trace() else {
            return match begun.is_nobodys() {
                true => Standing::Gone { rebooted: false },
                false => unknown("this system does not list its processes"),
            };
        };
        let rebooted = trace.runner.was_before_reboot();
        // First those who hide: what cannot be told apart would else be taken for a stranger's.
        let since = trace.runner.started;
        let hidden = self.end_strays(since);
        let innocent = Innocent { own: launcher::PROGRAMS, servers: launcher::SERVERS };
        match tree::end_orphans(&trace, innocent, Duration::ZERO, ORPHANS_LIMIT, &mut || {}) {
            Confirmation::Gone => self.gone_but_for_strays(rebooted, since),
            Confirmation::Survivors(left) => Standing::Orphans { left: left.len() },
            // Whoever lost its parent became our child, so strangers who tell nothing of themselves are none of it.
            Confirmation::Unknown(Doubt::Unproven(_)) if self.is_heir_of(begun) => {
                self.gone_but_for_strays(rebooted, since)
            }
            // They are killed, and not gone yet: the next look can tell.
            Confirmation::Unknown(_) if hidden > 0 => Standing::Orphans { left: hidden },
            Confirmation::Unknown(doubt) => {
                let suspects = match &doubt {
                    Doubt::Unproven(processes) => processes.iter().map(suspect).collect(),
                    _ => Vec::new(),
                };
                Standing::Unknown { why: doubt.to_string(), suspects }
            }
        }
    }

    /// How an attempt stands whose runner the journal knows.
    fn standing_of(&self, ours: &Ours, known: &RunnerIdentity) -> Standing {
        // First of all: nothing of another boot is left, whatever lies there now.
        if known.process.was_before_reboot() {
            environment::discard(&ours.paths);
            return Standing::Gone { rebooted: true };
        }
        match begun::compare(&ours.paths, &known.lock) {
            Ok(Compared::Same { is_free: false, .. }) => Standing::Alive,
            Ok(Compared::Same { is_free: true, .. }) => {
                environment::discard(&ours.paths);
                self.end_orphans(&Begun::of_known(known, &ours.mark))
            }
            Ok(Compared::Other) => Standing::Replaced,
            // An agent may have removed its folder, and work on.
            Ok(Compared::Missing) if known.process.state() == Existence::Alive => Standing::Alive,
            Ok(Compared::Missing) => unknown("somebody removed its runner's lock"),
            Err(error) => {
                log::warn!("{}: {error}", ours.paths.lock().display());
                Standing::Starting
            }
        }
    }

    /// Ends what a free lock names, where nothing contradicts it. Nobody is killed on its word alone.
    fn end_named(&self, ours: &Ours, begun: &Begun) -> Standing {
        if !begun.is_nobodys() && begun.mark != ours.mark {
            return unknown("its runner's lock names another attempt");
        }
        let lives =
            |begun: &Begun| begun.runner.as_ref().is_some_and(|runner| runner.state() == Existence::Alive);
        for pause in ENDING_PAUSES_US {
            if !lives(begun) {
                return self.end_orphans(begun);
            }
            platform::pause_us(pause);
        }
        unknown("nobody holds its runner's lock, and the process that it names lives")
    }

    fn gone_but_for_strays(&self, rebooted: bool, since: u64) -> Standing {
        match self.end_strays(since) {
            0 => Standing::Gone { rebooted },
            left => Standing::Orphans { left },
        }
    }

    /// Whether everything that the runner left must have come to us: we started its nursery, and inherited for as long
    /// as it lived.
    fn is_heir_of(&self, begun: &Begun) -> bool {
        let is_at_hand = begun.heir.is_some() && begun.heir == ProcessIdentity::current();
        let has_seen_all =
            begun.runner.as_ref().is_some_and(|runner| tree::has_inherited_since(runner.started));
        self.inherits && is_at_hand && has_seen_all
    }

    /// Kills children of ours that nobody started on purpose: whoever lost its parent and hid from every other
    /// search. Returns how many are left.
    fn end_strays(&self, since: u64) -> usize {
        if !self.inherits {
            return 0;
        }
        let Ok(program) = &self.program else { return 0 };
        let servers = launcher::SERVERS;
        let spared = Spared { runner: program.path(), servers, older: &self.older_children, since };
        let left = tree::end_strays(&spared);
        self.reap();
        left
    }
}

/// What a record is worth whose runner the journal knows.
fn record_of(ours: &Ours, known: &RunnerIdentity) -> Record {
    for pause in ENDING_PAUSES_US {
        if known.process.state() != Existence::Alive {
            let agent = match begun::compare(&ours.paths, &known.lock) {
                Ok(Compared::Same { agent, .. }) => agent,
                _ => None,
            };
            let has_left = agent.is_some_and(|agent| known.process.has_left(agent))
                || (agent.is_none() && !tree::marked(&begun::marker(&ours.mark), 0).marked.is_empty());
            return if has_left { Record::Forged } else { Record::Genuine };
        }
        platform::pause_us(pause);
    }
    Record::Early
}

/// Whether a dead runner did not see its agent end.
fn has_left_its_agent(begun: &Begun) -> bool {
    begun.runner.as_ref().zip(begun.agent).is_some_and(|(runner, agent)| runner.has_left(agent))
}

fn unknown(why: &str) -> Standing {
    Standing::Unknown { why: why.to_owned(), suspects: Vec::new() }
}

fn suspect(process: &ProcessIdentity) -> Suspect {
    Suspect { pid: process.pid, started: process.started }
}

/// Those of them that still live on this machine.
pub fn living(suspects: &[Suspect]) -> Vec<Suspect> {
    let lives = |one: &&Suspect| {
        let found = ProcessIdentity::of(one.pid).filter(|process| process.state() == Existence::Alive);
        found.as_ref().map(suspect).as_ref() == Some(*one)
    };
    suspects.iter().filter(lives).copied().collect()
}

impl Runners for LocalRunners {
    fn launch(&self, launcher: &str, order: &Order, paths: &AttemptPaths) -> Result<(), String> {
        let runner = self.program.as_ref().map_err(|error| format!("this program's own path: {error}"))?;
        let launcher = self.launcher(launcher).ok_or_else(|| format!("there is no launcher '{launcher}'"))?;
        self.secrets.borrow_mut().extend(veil::values_of(order.env.iter()));
        let granted = Granted::to(order, &self.secrets.borrow());
        if !launcher.capabilities().has_pipe || !runner.is_lean() {
            environment::leave(&granted, paths)?;
        }
        let job = Job { granted: &granted, paths, runner, order };
        let submitted = launcher.submit(&[job]).pop();
        submitted.unwrap_or_else(|| Err("nothing was submitted".to_owned())).inspect_err(|_| {
            environment::discard(paths);
        })?;
        self.has_launched.set(true);
        Ok(())
    }

    fn standing(&self, ours: &Ours) -> Standing {
        if let Some(known) = &ours.known {
            return self.standing_of(ours, known);
        }
        let paths = &ours.paths;
        match begun::probe(paths) {
            Ok(Probe::NotBegun) => Standing::NotBegun,
            Ok(Probe::Starting) => Standing::Starting,
            Ok(Probe::Alive(_)) => Standing::Alive,
            Ok(Probe::Lost) => unknown("somebody removed or emptied its runner's lock"),
            Ok(Probe::Dead(begun)) => {
                // It may have died before it took them.
                environment::discard(paths);
                self.end_named(ours, &begun)
            }
            // What cannot be looked at now says nothing about the attempt.
            Err(error) => {
                log::warn!("{}: {error}", paths.lock().display());
                Standing::Starting
            }
        }
    }

    fn who(&self, ours: &Ours) -> Option<RunnerIdentity> {
        begun::identity(&ours.paths)
    }

    fn record(&self, ours: &Ours) -> Record {
        let (paths, mark) = (&ours.paths, &ours.mark);
        if let Some(known) = &ours.known {
            return record_of(ours, known);
        }
        // The record wakes us while its writer is on its last few instructions.
        for pause in ENDING_PAUSES_US {
            match begun::probe(paths) {
                Ok(Probe::Dead(begun)) if has_left_its_agent(&begun) => return Record::Forged,
                Ok(Probe::Dead(_)) => return Record::Genuine,
                // The folder is as we made it: nobody has begun, so nobody can have ended.
                Ok(Probe::NotBegun) if begun::has_order(paths) => return Record::Early,
                Ok(Probe::Starting) if !begun::has_log(paths) => return Record::Early,
                // Somebody removed the folder or the lock, or emptied that: the mark is what is left to go by.
                Ok(Probe::NotBegun | Probe::Starting | Probe::Lost) => {
                    let is_borne = !tree::marked(&begun::marker(mark), 0).marked.is_empty();
                    return if is_borne { Record::Early } else { Record::Genuine };
                }
                // A lock that cannot be looked at now does not say that nobody holds it.
                Ok(Probe::Alive(_)) | Err(_) => platform::pause_us(pause),
            }
        }
        Record::Early
    }

    fn ask_to_stop(&self, ours: &Ours) {
        let known = ours.known.clone().or_else(|| begun::identity(&ours.paths));
        if let Some(RunnerIdentity { process, .. }) = known {
            // One that is stopped could not obey.
            let _ = tree::send(&process, Signal::TERM);
            let _ = tree::send(&process, Signal::CONT);
        }
    }

    fn force(&self, ours: &Ours) -> Standing {
        let known = ours.known.clone().or_else(|| begun::identity(&ours.paths));
        match (known, begun::probe(&ours.paths)) {
            (Some(known), _) => self.end_orphans(&Begun::of_known(&known, &ours.mark)),
            // A system that does not list its processes: their lock is all that tells of them.
            (None, Ok(Probe::Alive(begun))) if begun.runner.is_none() => self.end_orphans(&begun),
            (None, Ok(Probe::Alive(_))) => unknown("its runner's lock names another process than its holder"),
            (None, _) => self.standing(ours),
        }
    }

    fn forbid(&self, paths: &AttemptPaths) -> bool {
        let is_forbidden = matches!(begun::forbid(paths), Ok(true));
        if is_forbidden {
            environment::discard(paths);
        }
        is_forbidden
    }

    fn let_go(&self, launcher: &str, attempts: &[AttemptPaths]) {
        if let Some(launcher) = self.launcher(launcher) {
            launcher.cancel(attempts);
        }
    }

    fn reap(&self) {
        let (true, Ok(program)) = (self.has_launched.get(), &self.program) else { return };
        for (pid, _) in tree::reap().ended {
            for launcher in &self.launchers {
                launcher.child_ended(pid, program);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::tree::{has_procfs, until};

    /// Runners that inherit nobody: whoever runs these tests has other tests, which count their orphans.
    fn childless() -> LocalRunners {
        LocalRunners {
            launchers: Vec::new(),
            program: RunnerProgram::find(),
            inherits: false,
            has_launched: Cell::new(false),
            older_children: HashSet::new(),
            secrets: RefCell::default(),
        }
    }

    fn ours(paths: &AttemptPaths, mark: &str) -> Ours {
        Ours { paths: paths.clone(), mark: mark.to_owned(), known: None }
    }

    /// The folder of an attempt with these files in it.
    fn attempt(files: &[fn(&AttemptPaths) -> std::path::PathBuf]) -> (tempfile::TempDir, AttemptPaths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = AttemptPaths::at(dir.path().join("1"));
        fs::create_dir(paths.dir()).unwrap();
        for path in files {
            fs::write(path(&paths), "").unwrap();
        }
        (dir, paths)
    }

    #[test]
    fn no_record_counts_before_its_attempt_has_begun() {
        let runners = childless();
        let (_dir, paths) = attempt(&[AttemptPaths::order]);
        assert_eq!(runners.record(&ours(&paths, "no-such-mark")), Record::Early, "no runner has been there");
        let (_dir, paths) = attempt(&[AttemptPaths::order, AttemptPaths::lock]);
        assert_eq!(
            runners.record(&ours(&paths, "no-such-mark")),
            Record::Early,
            "a runner is about to begin"
        );
    }

    #[test]
    fn without_a_lock_a_record_counts_when_nobody_carries_its_mark() {
        if !has_procfs() {
            return;
        }
        let runners = childless();
        let mark = format!("local-{}", std::process::id());
        let mut agent =
            std::process::Command::new("sleep").arg("600").env(begun::MARK, &mark).spawn().unwrap();
        // Its environment is empty until its exec is over, which may be after `spawn` has returned.
        until("the mark can be read", || !tree::marked(&begun::marker(&mark), 0).marked.is_empty());
        let (_dir, removed) = attempt(&[AttemptPaths::order, AttemptPaths::stdout]);
        let (_dir, emptied) = attempt(&[AttemptPaths::lock, AttemptPaths::stdout]);
        let whole = tempfile::tempdir().unwrap();
        let gone = AttemptPaths::at(whole.path().join("gone"));
        let records = || [&removed, &emptied, &gone].map(|paths| runners.record(&ours(paths, &mark)));
        assert_eq!(records(), [Record::Early; 3]);
        agent.kill().unwrap();
        agent.wait().unwrap();
        assert_eq!(records(), [Record::Genuine; 3]);
    }
}
