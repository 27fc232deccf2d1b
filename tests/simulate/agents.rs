//! What outsiders do to the bus, step by step, and what people and accidents do beside them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use watchkeeper::bus::layout::BatchPaths;
use watchkeeper::bus::outsider::{self, Delivery};
use watchkeeper::bus::{Look, sha256};
use watchkeeper::model::{Attempt, BatchId, TaskKey};

use super::disk::{attempt_in, visible_look};
use super::fault::Fault;
use super::oracle::{Beat, Published};
use super::script::{Act, Habit, Stroke};
use super::tree::{Node, Tree};
use super::world::{World, fingerprint};

/// How long an agent sleeps before it looks for its spec again.
const POLL_MS: u64 = 700;

impl World {
    fn paths(&self, batch: usize) -> BatchPaths {
        self.layout.batch(&BatchId::parse(&self.story.batches[batch].id).unwrap())
    }

    pub fn agent_acts(&mut self) {
        let Some(Reverse((_, _, number))) = self.queue.pop() else { return };
        if self.mono_ms < self.paused_until {
            let at = self.paused_until + self.random.below(400);
            return self.schedule(number, at);
        }
        let agent = &self.agents[number];
        let (batch, ix, attempt) = (agent.batch, agent.ix, agent.attempt);
        let Some(step) = agent.steps.front().cloned() else { return };
        let paths = self.paths(batch);
        if matches!(step.act, Act::Begin) && !self.spec_is_out(&paths, batch, ix, attempt) {
            // Nobody waits for a batch that is gone, or for an attempt that is over.
            let key = self.story.batches[batch].tasks[ix].key.clone();
            let is_over = self.readings[batch].live_attempt(&key) != attempt;
            if !is_over {
                let at = self.mono_ms + POLL_MS;
                self.schedule(number, at);
            }
            return;
        }
        self.agents[number].steps.pop_front();
        if let Some(next) = self.agents[number].steps.front() {
            let at = self.mono_ms + next.after_ms;
            self.schedule(number, at);
        }
        self.say(|| format!("agent {batch}/{ix}#{attempt}: {:?}", step.act));
        self.act(&paths, batch, ix, attempt, step.act);
    }

    fn spec_is_out(&self, paths: &BatchPaths, batch: usize, ix: usize, attempt: u32) -> bool {
        let key = TaskKey::parse(&self.story.batches[batch].tasks[ix].key).unwrap();
        let shared = self.disk.shared.borrow();
        shared.tree.file(&paths.spec(&key)).is_some_and(|file| attempt_in(&file.bytes) == attempt)
    }

    fn act(&mut self, paths: &BatchPaths, batch: usize, ix: usize, attempt: u32, act: Act) {
        let key = TaskKey::parse(&self.story.batches[batch].tasks[ix].key).unwrap();
        if self.disk.shared.borrow().tree.find(paths.dir()).is_none() {
            return;
        }
        let number = Attempt::from_wire(u64::from(attempt)).unwrap();
        let habit = self.scene(batch, ix, attempt).habit();
        match act {
            Act::Begin => {}
            Act::Plays(fault) => self.fire(fault),
            Act::Take { by } => {
                let path = paths.take(&key, number);
                let is_free = self.disk.shared.borrow().tree.find(&path).is_none();
                if is_free {
                    self.write(path, by.as_bytes().to_vec());
                }
            }
            Act::Beat { says_attempt } => {
                let text = match says_attempt {
                    true => format!("{{\"progress\":\"{}\",\"attempt\":{attempt}}}", self.mono_ms % 1000),
                    false => format!("{{\"progress\":\"{}\"}}", self.mono_ms % 1000),
                };
                self.beat(paths, &key, habit, number, text.into_bytes());
            }
            Act::Touch => {
                let path = heartbeat_of(paths, &key, habit, number);
                self.disk.shared.borrow_mut().tree.touch(&path);
            }
            Act::GarbageBeat => {
                self.write(heartbeat_of(paths, &key, habit, number), b"alive!".to_vec());
            }
            Act::DeleteSpec => {
                let _ = self.disk.shared.borrow_mut().tree.remove(&paths.spec(&key));
            }
            Act::WriteFile(name) => {
                let path = self.layout.root().join(&name);
                let text = format!("made by {batch}/{ix}/{attempt}").into_bytes();
                let _ = self.disk.shared.borrow_mut().tree.replace(&path, text, 0);
                self.readings[batch].written.insert(name);
            }
            Act::Result { bytes, stroke: Stroke::Part(1 | 2), is_valid: true, .. }
                if habit == Habit::Verbs =>
            {
                // The verb writes all of it at once, when it is complete.
                drop(bytes);
            }
            Act::Result { bytes, is_valid: true, .. } if habit == Habit::Verbs => {
                self.deliver(paths, batch, &key, number, &bytes);
            }
            Act::Result { bytes, stroke, is_valid, says } => {
                let (path, says) = match habit {
                    Habit::Plain => (paths.result(&key), says),
                    // Whose outbox it is says whose result it is.
                    Habit::Outbox | Habit::Verbs => (paths.outbox(&key, number).result(), Some(attempt)),
                };
                self.write_result(path, batch, key.as_str(), bytes, stroke, is_valid, says);
            }
        }
    }

    /// Beats; one that uses `wk agent` does so by the product's own code.
    fn beat(&mut self, paths: &BatchPaths, key: &TaskKey, habit: Habit, number: Attempt, bytes: Vec<u8>) {
        let path = heartbeat_of(paths, key, habit, number);
        if habit != Habit::Verbs {
            return self.write(path, bytes);
        }
        if let Ok(true) = outsider::beat(&self.disk.of_outsider(), paths, key, Some(number), &bytes) {
            // Where its attempt has no outbox, as on a bus that was made anew, it takes the plain name.
            let is_there = self.disk.shared.borrow().tree.find(&path).is_some();
            self.hint(if is_there { path } else { paths.heartbeat(key) });
        }
    }

    /// Delivers a result as `wk agent done` does, and takes its word for what came of it.
    fn deliver(&mut self, paths: &BatchPaths, batch: usize, key: &TaskKey, number: Attempt, bytes: &[u8]) {
        // The verb always says for whom it speaks.
        let mut said: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        said["attempt"] = number.number().into();
        let bytes = &serde_json::to_vec(&said).unwrap();
        let delivery = outsider::deliver(&self.disk.of_outsider(), paths, key, Some(number), bytes);
        self.say(|| format!("delivered {key}#{number}: {delivery:?}"));
        let Ok(Delivery::Made(path)) = delivery else { return };
        let during = self.readings[batch].live_attempt(key.as_str());
        self.readings[batch].published.push(Published {
            key: key.as_str().to_owned(),
            sha256: sha256(bytes),
            says: Some(number.number()),
            is_valid: true,
            during,
            at_ms: self.mono_ms,
            visible_from: 0,
            is_overwritten: false,
            was_torn: false,
            by_verb: true,
        });
        self.keep(bytes, format!("result delivered for {key}"));
        self.hint(path);
    }

    fn delay(&mut self) -> u64 {
        if !self.options.menu.has(Fault::DelayedVisibility) || !self.random.chance(15) {
            return 0;
        }
        self.fire(Fault::DelayedVisibility);
        self.mono_ms + self.random.below(10_000)
    }

    fn write(&mut self, path: PathBuf, bytes: Vec<u8>) {
        let hidden_until = self.delay();
        let is_written = self.disk.shared.borrow_mut().tree.replace(&path, bytes, hidden_until).is_ok();
        if is_written {
            self.hint(path);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "everything that one publication is")]
    fn write_result(
        &mut self,
        path: PathBuf,
        batch: usize,
        key: &str,
        bytes: Vec<u8>,
        stroke: Stroke,
        is_valid: bool,
        says: Option<u32>,
    ) {
        let is_new = self.disk.shared.borrow().tree.find(&path).is_none();
        self.forget_box(batch, key, &path);
        let visible_from;
        let is_written = match stroke {
            Stroke::Whole => {
                visible_from = if is_new { self.delay() } else { 0 };
                self.disk.shared.borrow_mut().tree.replace(&path, bytes.clone(), visible_from).is_ok()
            }
            Stroke::Part(part) => {
                // A later part of a file that was moved away goes where the file went: here, a new one.
                let end = if part == 3 { bytes.len() } else { bytes.len() * part as usize / 3 };
                let tree = &mut self.disk.shared.borrow_mut().tree;
                let is_written = tree.write_in_place(&path, bytes[..end].to_vec(), part < 3).is_ok();
                // Written into a file of somebody else's that is not visible yet, it is not visible either.
                visible_from = tree.visible_from(&path);
                is_written
            }
        };
        if is_written && matches!(stroke, Stroke::Whole | Stroke::Part(3)) {
            let during = self.readings[batch].live_attempt(key);
            self.readings[batch].published.push(Published {
                key: key.to_owned(),
                sha256: sha256(&bytes),
                says,
                is_valid,
                during,
                at_ms: self.mono_ms,
                visible_from,
                is_overwritten: false,
                was_torn: stroke != Stroke::Whole,
                by_verb: false,
            });
            self.keep(
                &bytes,
                format!("{} in {key}'s drop box", if is_valid { "result" } else { "bad result" }),
            );
        }
        self.hint(path);
    }

    /// What lies in the drop box is about to be replaced by whoever writes there now.
    fn forget_box(&mut self, batch: usize, key: &str, path: &Path) {
        let shared = self.disk.shared.borrow();
        let Some(file) = shared.tree.file(path) else { return };
        let (print, hash) = (fingerprint(&file.bytes), sha256(&file.bytes));
        drop(shared);
        self.kept_bytes.remove(&print);
        let mut was_result = false;
        for one in &mut self.readings[batch].published {
            let is_this = one.key == key && one.sha256 == hash;
            was_result |= is_this && one.is_valid;
            one.is_overwritten |= is_this;
        }
        // Its only sign of life may be gone with it: whoever runs that agent starts it again.
        let attempt = self.readings[batch].live_attempt(key);
        let is_unseen = !self.readings[batch].task(key).is_running;
        if let (true, true, Some(ix)) =
            (was_result && attempt > 0, is_unseen, self.story.batches[batch].task(key))
            && self.respawned.insert((batch, ix, attempt))
        {
            self.spawn_again(batch, ix, attempt);
        }
    }

    /// A result may come before its task begins: whoever plays that does so as soon as there is a directory.
    pub fn early_results(&mut self) {
        if !self.options.menu.has(Fault::EarlyResult) {
            return;
        }
        for batch in 0..self.story.batches.len() {
            let paths = self.paths(batch);
            for ix in 0..self.story.batches[batch].tasks.len() {
                let key = TaskKey::parse(&self.story.batches[batch].tasks[ix].key).unwrap();
                let scene = self.scene(batch, ix, 1);
                if scene.part() != Some(Fault::EarlyResult) || self.random.chance(80) {
                    continue;
                }
                let bytes = self.scene(batch, ix, 1).result(4, "success", None);
                let is_there = self.disk.shared.borrow().tree.find(paths.dir()).is_some();
                let has_begun = self.readings[batch].tasks.contains_key(key.as_str());
                if is_there
                    && !has_begun
                    && self.disk.shared.borrow().tree.find(&paths.result(&key)).is_none()
                {
                    self.fire(Fault::EarlyResult);
                    self.write_result(
                        paths.result(&key),
                        batch,
                        key.as_str(),
                        bytes,
                        Stroke::Whole,
                        true,
                        None,
                    );
                }
            }
        }
    }

    pub fn junk(&mut self) {
        let batch = self.random.below(self.story.batches.len() as u64) as usize;
        let dir = self.paths(batch).dir().to_owned();
        if self.disk.shared.borrow().tree.find(&dir).is_none() {
            return;
        }
        self.fire(Fault::Junk);
        let names = ["notes.txt", "task-.json", "task-zz.result.json", "task-1.json~", "core", "task-a b.hb"];
        for number in 0..self.random.between(5, 40) {
            let name = match number % 7 {
                6 => format!("junk-{number}-{}", self.mono_ms),
                other => names[other as usize].to_owned(),
            };
            let _ = self.disk.shared.borrow_mut().tree.replace(&dir.join(name), b"\x00junk".to_vec(), 0);
        }
        let _ = self.disk.shared.borrow_mut().tree.make_dirs(&dir.join("task-99.result.json"));
    }

    pub fn cancel_wish(&mut self) {
        let batch = self.random.below(self.story.batches.len() as u64) as usize;
        let control = self.paths(batch).control();
        if self.disk.shared.borrow().tree.find(&control).is_none() {
            return;
        }
        self.fire(Fault::CancelWish);
        let count = self.story.batches[batch].tasks.len() as u64;
        let text = match self.random.chance(70) {
            true => {
                let ix = self.random.below(count) as usize;
                let key = &self.story.batches[batch].tasks[ix].key;
                format!("{{\"wish\":\"cancel\",\"task\":\"{key}\"}}")
            }
            false => "{\"wish\":\"cancel\",\"by\":\"ann\"}".to_owned(),
        };
        let path = control.join(format!("wish-{}.json", self.mono_ms));
        self.write(path, text.into_bytes());
    }

    /// A bit flips in a result that lies in its drop box, or its end is lost.
    pub fn damage(&mut self) {
        for batch in 0..self.story.batches.len() {
            for ix in 0..self.story.batches[batch].tasks.len() {
                let key = self.story.batches[batch].tasks[ix].key.clone();
                let path = self.paths(batch).result(&TaskKey::parse(&key).unwrap());
                let bytes = self.disk.shared.borrow().tree.file(&path).map(|file| file.bytes.clone());
                let Some(mut bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { continue };
                self.fire(Fault::DamagedFile);
                self.forget_box(batch, &key, &path);
                let at = self.random.below(bytes.len() as u64) as usize;
                if self.random.chance(50) {
                    bytes.truncate(at);
                } else {
                    bytes[at] ^= 1 << self.random.below(7);
                }
                let _ = self.disk.shared.borrow_mut().tree.write_in_place(&path, bytes.clone(), false);
                // It may still be a result, with other words in it.
                let said = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
                if let Some(said) = said {
                    let says = said["attempt"].as_u64().map(|number| number as u32);
                    self.readings[batch].published.push(Published {
                        key: key.clone(),
                        sha256: sha256(&bytes),
                        says,
                        is_valid: true,
                        during: 0,
                        at_ms: self.mono_ms,
                        visible_from: 0,
                        is_overwritten: true,
                        was_torn: true,
                        by_verb: false,
                    });
                }
                return;
            }
        }
    }

    /// The oracle's own look at every heartbeat, with the eyes of the watcher that is about to scan.
    pub fn observe(&mut self) {
        self.early_results();
        let tick = self.now().clock.0;
        for batch in 0..self.readings.len() {
            let paths = self.paths(batch);
            let live: Vec<(String, u32)> = self.readings[batch]
                .tasks
                .iter()
                .filter(|(_, seen)| seen.is_live)
                .map(|(key, seen)| (key.clone(), seen.attempt))
                .collect();
            for (key, attempt) in live {
                let places = heartbeats_of(&paths, &key, attempt);
                let shared = self.disk.shared.borrow();
                let fresh = || Beat { attempt, tick, looks: 0, seen: [None; 2] };
                let beat = self.readings[batch].beats.entry(key).or_insert_with(fresh);
                if beat.attempt != attempt {
                    *beat = fresh();
                }
                for (path, seen) in places.iter().zip(&mut beat.seen) {
                    if let Some(look) = new_beat(&shared.tree, path, attempt, *seen) {
                        (*seen, beat.tick, beat.looks) = (Some(look), tick, 0);
                    }
                }
                beat.looks += 1;
            }
        }
    }

    /// An event tells of an attempt's first beat; later ones are for the scans.
    pub fn observe_first_beats(&mut self, hints: &BTreeSet<PathBuf>) {
        let tick = self.now().clock.0;
        for batch in 0..self.readings.len() {
            let paths = self.paths(batch);
            let unbegun: Vec<(String, u32)> = self.readings[batch]
                .tasks
                .iter()
                .filter(|(_, seen)| seen.is_live && !seen.is_running)
                .map(|(key, seen)| (key.clone(), seen.attempt))
                .collect();
            for (key, attempt) in unbegun {
                let places = heartbeats_of(&paths, &key, attempt);
                if !places.iter().any(|path| hints.contains(path)) {
                    continue;
                }
                let shared = self.disk.shared.borrow();
                let Some(beat) = self.readings[batch].beats.get_mut(&key) else { continue };
                for (path, seen) in places.iter().zip(&mut beat.seen) {
                    if let Some(look) = new_beat(&shared.tree, path, attempt, *seen) {
                        (*seen, beat.tick, beat.looks) = (Some(look), tick, 0);
                    }
                }
            }
        }
    }

    /// After a loss of power: what agents never synced may be gone, and is nobody's fault.
    pub fn forget_what_power_took(&mut self) {
        let shared = self.disk.shared.borrow();
        let files = shared.tree.files_below(self.layout.root());
        let prints: std::collections::HashSet<u64> =
            files.iter().map(|(_, file)| fingerprint(&file.bytes)).collect();
        let hashes: std::collections::HashSet<String> =
            files.iter().filter(|(path, _)| is_result(path)).map(|(_, file)| sha256(&file.bytes)).collect();
        self.kept_bytes.retain(|print, _| prints.contains(print));
        for reading in &mut self.readings {
            for one in &mut reading.published {
                one.is_overwritten |= !hashes.contains(&one.sha256);
            }
        }
    }

    /// Machines that went dark come back with new agents for what nobody had begun.
    pub fn replace_agents(&mut self, are_gone: bool) {
        let mut unbegun = Vec::new();
        for (batch, reading) in self.readings.iter().enumerate() {
            for (key, seen) in reading.tasks.iter().filter(|(_, seen)| seen.is_live && !seen.is_running) {
                unbegun.extend(reading.plan.task(key).map(|ix| (batch, ix, seen.attempt)));
            }
        }
        if are_gone {
            self.queue.clear();
        }
        unbegun.sort_unstable();
        for (batch, ix, attempt) in unbegun {
            self.spawn_again(batch, ix, attempt);
        }
    }
}

/// Where an agent of this habit beats.
fn heartbeat_of(paths: &BatchPaths, key: &TaskKey, habit: Habit, number: Attempt) -> PathBuf {
    match habit {
        Habit::Plain => paths.heartbeat(key),
        Habit::Outbox | Habit::Verbs => paths.outbox(key, number).heartbeat(),
    }
}

/// Both places where an attempt may beat.
fn heartbeats_of(paths: &BatchPaths, key: &str, attempt: u32) -> [PathBuf; 2] {
    let key = TaskKey::parse(key).unwrap();
    let number = Attempt::from_wire(u64::from(attempt)).unwrap();
    [paths.outbox(&key, number).heartbeat(), paths.heartbeat(&key)]
}

/// How a heartbeat looks that changed, and speaks for this attempt.
fn new_beat(tree: &Tree, path: &Path, attempt: u32, seen: Option<Look>) -> Option<Look> {
    let look = visible_look(tree, path).filter(|look| look.size > 0)?;
    (Some(look) != seen && speaks_for(tree, path, attempt)).then_some(look)
}

fn is_result(path: &Path) -> bool {
    path.to_string_lossy().ends_with("result.json")
}

fn speaks_for(tree: &Tree, path: &Path, attempt: u32) -> bool {
    let Some(inode) = tree.find_visible(path) else { return false };
    let Node::File(file) = tree.node(inode) else { return false };
    match serde_json::from_slice::<serde_json::Value>(&file.bytes) {
        Ok(value) if value.is_object() => {
            value["attempt"].as_u64().is_none_or(|said| said == u64::from(attempt))
        }
        _ => false,
    }
}
