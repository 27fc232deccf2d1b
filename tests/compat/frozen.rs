//! A frozen project, unpacked where it was made, and what must never happen to it: a journal that is rewritten, a result,
//! a late result, a refused file or a piece of work that is gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::scene::{Bus, Process, Ran};

/// The states that scenes play.
pub const STATES: &[&str] = &[
    "outsiders",
    "ours",
    "finished",
    "archived",
    "execution",
    "interrupted",
    "conflict",
    "assignments",
    "cancelled",
    "paused",
    "refused",
    "dropped",
];

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/compat")
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Every archive: its release and its state.
pub fn archives() -> Vec<(String, String)> {
    let versions = names_in(&testdata()).into_iter().filter(|name| testdata().join(name).is_dir());
    let of_version = |version: String| {
        let names = names_in(&testdata().join(&version));
        names.into_iter().map(move |name| {
            let state =
                name.strip_suffix(".tar.gz").unwrap_or_else(|| panic!("{version}/{name}: no archive"));
            (version.clone(), state.to_owned())
        })
    };
    versions.flat_map(of_version).collect()
}

/// Plays a scene on this state of every release that has it.
pub fn each(state: &str, play: impl Fn(&Frozen)) {
    let of_state = archives().into_iter().filter(|(_, name)| name == state);
    let mut count = 0;
    for (version, name) in of_state {
        let frozen = Frozen::unpack(&version, &name);
        frozen.is_looked_at_without_a_trace();
        play(&frozen);
        frozen.lost_nothing();
        count += 1;
    }
    assert!(count > 0, "no release has the state {state}");
}

/// One frozen project at its place.
pub struct Frozen {
    bus: Bus,
    place: PathBuf,
    /// Which release wrote it, and the state.
    pub name: String,
    journals: BTreeMap<String, Vec<u8>>,
    treasures: BTreeMap<PathBuf, Vec<u8>>,
}

impl Deref for Frozen {
    type Target = Bus;

    fn deref(&self) -> &Bus {
        &self.bus
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.bus.root());
        // The last one takes it away.
        let _ = fs::remove_dir(&self.place);
    }
}

impl Frozen {
    fn unpack(version: &str, state: &str) -> Frozen {
        be_alone();
        // Handed-over batches hold absolute paths, so it must be where it was made.
        let place = PathBuf::from(format!("/tmp/wk-compat-{version}"));
        fs::create_dir_all(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        let root = place.join(state);
        let _ = fs::remove_dir_all(&root);
        let archive = testdata().join(version).join(format!("{state}.tar.gz"));
        let unpacked = Command::new("tar").arg("-xzpf").arg(&archive).arg("-C").arg(&place).status();
        assert!(unpacked.expect("tar is there").success(), "{}", archive.display());
        let bus = Bus::at(root);
        let mut frozen = Frozen {
            bus,
            place,
            name: format!("{version}/{state}"),
            journals: BTreeMap::new(),
            treasures: BTreeMap::new(),
        };
        for batch in frozen.batches() {
            let journal = frozen.journal_bytes(&batch);
            frozen.journals.insert(batch, journal);
        }
        frozen.treasures = frozen
            .files()
            .into_iter()
            .filter(|(path, _)| is_treasure(path))
            .map(|(p, b)| (home_of(&p), b))
            .collect();
        frozen
    }

    /// The ids of all its batches.
    pub fn batches(&self) -> Vec<String> {
        let places = ["tasks", "completed-batches"].map(|place| self.path(place));
        let names = places.iter().flat_map(|place| names_in(place));
        names.filter_map(|name| name.strip_prefix("batch-").map(str::to_owned)).collect()
    }

    fn journal_bytes(&self, batch: &str) -> Vec<u8> {
        let places = ["tasks", "completed-batches"];
        let read = |place: &&str| fs::read(self.path(&format!("{place}/batch-{batch}/journal.jsonl"))).ok();
        places.iter().find_map(read).unwrap_or_else(|| panic!("{}: no journal of {batch}", self.name))
    }

    /// Every file below the root, by its path from there.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = walkdir::WalkDir::new(self.root()).into_iter().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().is_file());
        files
            .map(|file| {
                let path = file.path().strip_prefix(self.root()).unwrap().to_owned();
                (path, fs::read(file.path()).unwrap())
            })
            .collect()
    }

    /// Each batch and each task can be shown, told and reported; that alone changes nothing on the disk.
    fn is_looked_at_without_a_trace(&self) {
        let before = self.files();
        self.wk(&["status"]).exits(0);
        for batch in self.batches() {
            self.wk(&["report", &batch]).exits(0);
            self.wk(&["report", &batch, "timeline"]).exits(0);
            let told = self.wk(&["report", &batch, "batch"]).exits(0).json();
            for task in told["results"].as_array().unwrap() {
                let key = task["key"].as_str().unwrap();
                self.wk(&["why", &format!("{batch}/{key}")]).exits(0);
            }
        }
        let after = self.files();
        let changed: Vec<&PathBuf> =
            before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
        assert!(changed.is_empty(), "{}: looking changed {changed:?}", self.name);
    }

    /// The journal was only appended to, and what people and agents made is where its batch is now.
    fn lost_nothing(&self) {
        for (batch, before) in &self.journals {
            let after = self.journal_bytes(batch);
            assert!(after.starts_with(before), "{}: the journal of {batch} was rewritten", self.name);
        }
        let now: BTreeMap<PathBuf, Vec<u8>> =
            self.files().into_iter().map(|(path, bytes)| (home_of(&path), bytes)).collect();
        for (path, bytes) in &self.treasures {
            let kept = now.get(path).unwrap_or_else(|| panic!("{}: {} is gone", self.name, path.display()));
            assert_eq!(kept, bytes, "{}: {} is another one", self.name, path.display());
        }
    }

    /// How `wk status` shows a task, in one word.
    pub fn shown(&self, batch: &str, key: &str) -> String {
        let told = self.wk(&["status", batch, "--json"]).exits(0).json();
        let tasks = told["batches"][0]["tasks"].as_array().unwrap();
        let task = tasks.iter().find(|task| task["key"] == key);
        let task = task.unwrap_or_else(|| panic!("{}: no task {key} in {told:#}", self.name));
        task["status"].as_str().unwrap().to_owned()
    }

    /// Asserts how `wk status` shows the tasks of a batch.
    #[track_caller]
    pub fn shows(&self, batch: &str, tasks: &[(&str, &str)]) {
        for (key, word) in tasks {
            assert_eq!(self.shown(batch, key), *word, "{}: {batch}/{key}", self.name);
        }
    }

    /// The file that a task of a plan declares: its agent has it written, and nobody else.
    pub fn works(&self, key: &str) {
        fs::create_dir_all(self.file("src")).unwrap();
        fs::write(self.file(&format!("src/{key}.txt")), format!("made by {key}\n")).unwrap();
    }

    /// An agent from outside, with plain files: it beats, does the work, and says so.
    pub fn does(&self, batch: &str, key: &str, attempt: u32) {
        let name = format!("{batch}/{key}");
        let agent = self.agent(&name);
        agent.waits_for_attempt(attempt).beats();
        self.works(key);
        let made = format!(r#", "attempt": {attempt}, "output": {{"files_created": ["src/{key}.txt"]}}"#);
        agent.delivers_text(&format!(r#"{{"task_id": "{key}", "status": "success"{made}}}"#));
        self.wait_event(batch, "succeeded", key);
    }

    /// The same by `wk agent`. Returns the name that it was given.
    pub fn takes_and_does_one(&self) -> String {
        let next = self.wk(&["agent", "next", "--wait", "60"]).exits(0);
        let name = next.out.trim().to_owned();
        let key = name.split(['/', '#']).nth(1).unwrap().to_owned();
        self.wk(&["agent", "beat", &name, "--progress", "at work"]).exits(0);
        self.works(&key);
        self.wk(&["agent", "done", &name, "--created", &format!("src/{key}.txt")]).exits(0);
        name
    }

    /// Waits for the end of a batch some of whose agents were killed with their runners. Where the record was made on
    /// another host nobody can confirm that they are gone: then a person gives their word.
    pub fn ends_though_agents_were_killed(&self, batch: &str, killed: &[&str]) -> Value {
        let archive = self.path(&format!("completed-batches/batch-{batch}"));
        let mut asked: Vec<&str> = Vec::new();
        self.wait_for(&format!("batch {batch} is archived"), || {
            for key in killed {
                if !asked.contains(key) && self.count(batch, "unconfirmed_kill", Some(key)) > 0 {
                    // On the machine and boot that froze it, any process may look like one of theirs.
                    self.wk(&["retry", "--force", &format!("{batch}/{key}")]).exits(0);
                    asked.push(key);
                }
            }
            archive.exists().then_some(())
        });
        self.json(&format!("batches/batch-{batch}.result.json"))
    }

    /// Watches until nothing is under way any more.
    pub fn watched_to_the_end(&self) -> Ran {
        self.start(&["watch", "--exit-when-idle"], &[]).ends().exits(0)
    }

    pub fn watched(&self) -> Process {
        self.watch(&[])
    }
}

/// Whether a file is one that nobody may lose or change: what agents and people gave, and what became of it.
fn is_treasure(path: &Path) -> bool {
    let text = path.to_str().unwrap();
    let in_bus = text.strip_prefix(".ce/orchestration/");
    match in_bus {
        None => text.starts_with("src/"),
        Some(rest) => {
            rest.starts_with("quarantine/")
                || rest.contains("/late/")
                || rest.ends_with("/request")
                || (rest.contains("/attempts/") && rest.ends_with("/result.json"))
        }
    }
}

/// The same name for a file of a batch under way and of the archived one.
fn home_of(path: &Path) -> PathBuf {
    PathBuf::from(path.to_str().unwrap().replacen(
        "orchestration/completed-batches/",
        "orchestration/tasks/",
        1,
    ))
}

/// The places are the same in every run: two runs at once take turns.
fn be_alone() {
    static LOCK: OnceLock<File> = OnceLock::new();
    LOCK.get_or_init(|| {
        let path = Path::new("/tmp/wk-compat.lock");
        // Not created where it is there: another user's may be opened, but not made anew.
        let file = File::open(path).or_else(|_| File::create(path));
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs2::FileExt::lock_exclusive(&file).unwrap();
        file
    });
}
