//! The watcher's port to the model file system, where any call can fail, and any call can be the last.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use watchkeeper::bus::{Content, Disk, Durability, Listed, Look, NodeKind};

use super::fault::{Fault, Fired};
use super::oracle::Violation;
use super::random::Random;
use super::tree::{File, Inode, Node, Tree};

/// Errors that come for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    None,
    Full,
    ReadOnly,
    TooManyOpen,
    /// Some calls fail with EIO.
    Errors,
    /// Only the journal's sync does.
    JournalSync,
}

/// What happens on the disk, and to it.
#[expect(clippy::struct_excessive_bools, reason = "faults are switched on and off one by one")]
pub struct Shared {
    pub tree: Tree,
    pub random: Random,
    pub fired: Fired,
    pub trouble: Trouble,
    pub after_effect: bool,
    pub half_renames: bool,
    /// From this operation on every call fails, until the process is started again.
    pub crash_at: Option<u64>,
    /// The next line that is written stays incomplete, because its writer dies.
    pub tears_next_append: bool,
    pub is_crashed: bool,
    pub operations: u64,
    /// The process that raised the epoch last.
    pub newest_process: u64,
    pub violation: Option<Violation>,
    /// Specs that the watcher published: path and bytes.
    pub offers: Vec<(PathBuf, Vec<u8>)>,
    /// Paths that changed, for the events.
    pub touched: Vec<PathBuf>,
    /// Names that were moved away lately: a listing may still show them.
    ghosts: Vec<PathBuf>,
    /// Journal lines with this text never reach the file: a planted bug.
    pub swallows: Option<&'static str>,
    /// What must not take the place of another file does: a planted bug.
    pub replaces: bool,
}

/// One process's view of the shared disk.
#[derive(Clone)]
pub struct ModelDisk {
    pub shared: Rc<RefCell<Shared>>,
    pub process: u64,
}

/// The number of those who are no watcher: no fault of a watcher's disk befalls them.
pub const OUTSIDER: u64 = u64::MAX;

enum Kind {
    Reads,
    Changes,
}

impl ModelDisk {
    pub fn new(random: Random) -> Self {
        let shared = Shared {
            tree: Tree::new(),
            random,
            fired: Fired::default(),
            trouble: Trouble::None,
            after_effect: false,
            half_renames: false,
            crash_at: None,
            tears_next_append: false,
            is_crashed: false,
            operations: 0,
            newest_process: 0,
            violation: None,
            offers: Vec::new(),
            touched: Vec::new(),
            ghosts: Vec::new(),
            swallows: None,
            replaces: false,
        };
        ModelDisk { shared: Rc::new(RefCell::new(shared)), process: 0 }
    }

    /// The same disk for an agent that uses `wk agent`.
    pub fn of_outsider(&self) -> ModelDisk {
        ModelDisk { shared: self.shared.clone(), process: OUTSIDER }
    }

    fn begin(&self, shared: &mut Shared, kind: Kind) -> io::Result<()> {
        if self.process == OUTSIDER {
            return Ok(());
        }
        shared.operations += 1;
        if shared.crash_at.is_some_and(|at| shared.operations >= at) {
            shared.is_crashed = true;
        }
        if shared.is_crashed {
            return Err(crashed());
        }
        let error = match (shared.trouble, &kind) {
            (Trouble::TooManyOpen, _) if shared.random.chance(70) => Some(errno(libc::EMFILE)),
            (Trouble::ReadOnly, Kind::Changes) => Some(errno(libc::EROFS)),
            (Trouble::Errors, _) if shared.random.chance(8) => Some(errno(libc::EIO)),
            _ => None,
        };
        match error {
            Some(error) => Err(error),
            None => {
                if matches!(kind, Kind::Changes) {
                    self.check_epoch(shared);
                }
                Ok(())
            }
        }
    }

    /// Nothing is written by a watcher that was superseded.
    fn check_epoch(&self, shared: &mut Shared) {
        if self.process < shared.newest_process && shared.violation.is_none() {
            let detail = format!("process {} writes after process {}", self.process, shared.newest_process);
            shared.violation = Some(Violation { invariant: "I1", detail });
        }
    }

    fn room(&self, shared: &Shared) -> io::Result<()> {
        let is_full = shared.trouble == Trouble::Full && self.process != OUTSIDER;
        if is_full { Err(errno(libc::ENOSPC)) } else { Ok(()) }
    }

    /// The call took effect, and still says that it failed.
    fn fails_afterwards(&self, shared: &mut Shared) -> io::Result<()> {
        if self.process != OUTSIDER && shared.after_effect && shared.random.chance(4) {
            shared.fired.count(Fault::ErrorAfterEffect);
            return Err(errno(libc::EMFILE));
        }
        Ok(())
    }
}

fn crashed() -> io::Error {
    io::Error::other("this process is dead")
}

pub fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn look_of(file: &File) -> Look {
    Look {
        kind: NodeKind::File,
        inode: file.number,
        size: file.bytes.len() as u64,
        modified_ns: file.modified_ns,
        changed_ns: file.changed_ns,
        links: 1,
    }
}

/// What a watcher sees of a file at this moment.
pub fn visible_look(tree: &Tree, path: &Path) -> Option<Look> {
    Some(look_at(tree, tree.find_visible(path)?))
}

fn look_at(tree: &Tree, inode: Inode) -> Look {
    match tree.node(inode) {
        Node::File(file) => look_of(file),
        Node::Directory(_) => Look {
            kind: NodeKind::Directory,
            inode: inode as u64,
            size: 4096,
            modified_ns: 0,
            changed_ns: 0,
            links: 2,
        },
    }
}

/// Whether the journal beside a path holds, durably, an event of this kind about this task.
fn journal_says(tree: &Tree, dir: &Path, needle: &str) -> bool {
    let Some(file) = tree.file(&dir.join("journal.jsonl")) else { return false };
    let synced = &file.bytes[..file.synced_len.min(file.bytes.len())];
    let mut lines = synced.split(|byte| *byte == b'\n');
    lines.any(|line| line.windows(needle.len()).any(|window| window == needle.as_bytes()))
}

impl Shared {
    /// Effects come after their intent is durable.
    fn check_intent(&mut self, path: &Path, bytes: &[u8]) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
            return;
        };
        let is_batch = dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("batch-"));
        let key = name.strip_prefix("task-").and_then(|rest| rest.strip_suffix(".json"));
        if let (true, Some(key)) = (is_batch, key.filter(|key| !key.contains(".result"))) {
            let attempt = attempt_in(bytes);
            let needle = format!("\"event\":\"offered\",\"task\":\"{key}\",\"attempt\":{attempt}");
            if !journal_says(&self.tree, dir, &needle) {
                self.blame("I2", format!("{name} attempt {attempt} is published without its intent"));
            }
            self.offers.push((path.to_owned(), bytes.to_vec()));
        }
        let id = name.strip_suffix(".result.json").filter(|name| name.starts_with("batch-"));
        if let Some(id) = id {
            let tasks = dir.with_file_name("tasks").join(id);
            if !journal_says(&self.tree, &tasks, "\"event\":\"finished\"") {
                self.blame("I2", format!("{name} is published before the batch has finished"));
            }
        }
    }

    pub fn blame(&mut self, invariant: &'static str, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, detail });
        }
    }
}

/// The attempt that a published spec names.
pub fn attempt_in(bytes: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(bytes);
    let at = text.find("\"attempt\": ").map(|at| &text[at + 11..]);
    let digits: String = at.unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

impl Disk for ModelDisk {
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Reads)?;
        let mut listed: Vec<Listed> = shared
            .tree
            .listing(dir)?
            .into_iter()
            .map(|(name, is_dir)| Listed {
                name,
                kind: if is_dir { NodeKind::Directory } else { NodeKind::File },
            })
            .collect();
        if shared.half_renames && shared.random.chance(10) {
            let ghost = shared.ghosts.iter().rev().find(|path| path.parent() == Some(dir)).cloned();
            match ghost.as_deref().and_then(Path::file_name) {
                Some(name) if !listed.iter().any(|entry| entry.name == name) => {
                    listed.push(Listed { name: name.to_owned(), kind: NodeKind::File });
                    shared.fired.count(Fault::HalfRename);
                }
                _ if !listed.is_empty() => {
                    let at = shared.random.below(listed.len() as u64) as usize;
                    if listed[at].kind == NodeKind::File {
                        listed.remove(at);
                        shared.fired.count(Fault::HalfRename);
                    }
                }
                _ => {}
            }
        }
        Ok(listed)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Look>> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Reads)?;
        Ok(visible_look(&shared.tree, path))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Content> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Reads)?;
        let Some(inode) = shared.tree.find_visible(path) else { return Ok(Content::Absent) };
        let Node::File(file) = shared.tree.node(inode) else {
            return Ok(Content::NotAFile(NodeKind::Directory));
        };
        if file.bytes.len() as u64 > limit {
            return Ok(Content::TooLarge { size: file.bytes.len() as u64 });
        }
        if file.has_writer && shared.random.chance(10) {
            return Ok(Content::Changing);
        }
        Ok(Content::Bytes { bytes: file.bytes.clone(), look: look_of(file) })
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Reads)?;
        match shared.tree.find(path) {
            Some(_) => Ok(path.to_owned()),
            None => Err(errno(libc::ENOENT)),
        }
    }

    fn has_writer(&self, path: &Path) -> Option<bool> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Reads).ok()?;
        Some(shared.tree.file(path)?.has_writer)
    }

    fn make_dirs(&self, dir: &Path) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        if shared.tree.find(dir).is_none() {
            self.room(shared)?;
        }
        shared.tree.make_dirs(dir)
    }

    fn publish(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        let parent = path.parent().ok_or_else(|| errno(libc::ENOENT))?;
        let staged = parent.join(format!(".tmp-wk-{}", shared.operations));
        shared.tree.replace(&staged, Vec::new(), 0)?;
        if let Err(full) = self.room(shared) {
            let _ = shared.tree.remove(&staged);
            return Err(full);
        }
        shared.tree.write_in_place(&staged, bytes.to_vec(), false)?;
        if durability == Durability::Synced {
            shared.tree.sync_file(&staged);
        }
        // A crash between the two leaves the staged file behind; an error removes it.
        if let Err(error) = self.begin(shared, Kind::Changes) {
            if !shared.is_crashed {
                let _ = shared.tree.remove(&staged);
            }
            return Err(error);
        }
        shared.check_intent(path, bytes);
        if path.file_name().is_some_and(|name| name == "epoch") {
            shared.newest_process = shared.newest_process.max(self.process);
        }
        shared.tree.rename(&staged, path)?;
        shared.touched.push(path.to_owned());
        if durability == Durability::Synced {
            shared.tree.sync_names(parent);
            self.fails_afterwards(shared)?;
        }
        Ok(())
    }

    fn publish_once(&self, path: &Path, bytes: &[u8]) -> io::Result<bool> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        if shared.tree.find(path).is_some() && !shared.replaces {
            return Ok(false);
        }
        shared.tree.replace(path, bytes.to_vec(), 0)?;
        shared.tree.sync_file(path);
        shared.tree.sync_names(path.parent().unwrap_or(path));
        Ok(true)
    }

    fn create_empty(&self, path: &Path) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        if shared.tree.find(path).is_none() {
            self.room(shared)?;
            shared.tree.replace(path, Vec::new(), 0)?;
        }
        Ok(())
    }

    fn append(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        let kept = match shared.swallows {
            Some(text) => without_lines(bytes, text),
            None => bytes.to_vec(),
        };
        if let Err(full) = self.room(shared) {
            let part = shared.random.below(kept.len() as u64 + 1) as usize;
            shared.tree.append(path, &kept[..part])?;
            return Err(full);
        }
        // Killed in the middle of the write, or between write and sync.
        if std::mem::take(&mut shared.tears_next_append) {
            shared.crash_at = Some(shared.operations + 1);
        }
        let will_die = shared.crash_at.is_some_and(|at| shared.operations + 1 >= at);
        let part = if will_die { shared.random.below(kept.len() as u64 + 1) as usize } else { kept.len() };
        shared.tree.append(path, &kept[..part])?;
        if part > 0 && part < kept.len() {
            shared.fired.count(Fault::TornJournal);
        }
        if durability == Durability::Synced {
            self.begin(shared, Kind::Changes)?;
            if shared.trouble == Trouble::JournalSync {
                shared.fired.count(Fault::JournalSyncError);
                return Err(errno(libc::EIO));
            }
            shared.tree.sync_file(path);
            shared.tree.sync_names(path.parent().unwrap_or(path));
        }
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        shared.tree.truncate(path, len as usize)
    }

    fn rename(&self, from: &Path, to: &Path, durability: Durability) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        if durability == Durability::Synced {
            shared.tree.sync_file(from);
        }
        // A spec may also be published by a rename; one that was dropped names no attempt.
        let offer =
            shared.tree.file(from).map(|file| file.bytes.clone()).filter(|bytes| attempt_in(bytes) > 0);
        if let Some(bytes) = offer {
            shared.check_intent(to, &bytes);
        }
        shared.tree.rename(from, to)?;
        shared.ghosts.push(from.to_owned());
        shared.touched.push(from.to_owned());
        if durability == Durability::Synced {
            shared.tree.sync_names(to.parent().unwrap_or(to));
            self.fails_afterwards(shared)?;
        }
        Ok(())
    }

    fn move_tree(&self, from: &Path, to: &Path) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        let is_archived = to.components().any(|part| part.as_os_str() == "completed-batches");
        if is_archived
            && shared.tree.find(from).is_some()
            && !journal_says(&shared.tree, from, "\"event\":\"finished\"")
        {
            shared.blame("I2", format!("{} is archived before it has finished", from.display()));
        }
        shared.tree.rename(from, to)?;
        shared.touched.push(to.to_owned());
        shared.tree.sync_names(to.parent().unwrap_or(to));
        shared.tree.sync_names(from.parent().unwrap_or(from));
        self.fails_afterwards(shared)
    }

    /// Always the same, so that a seed is one world.
    fn random(&self) -> u64 {
        0
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        self.begin(shared, Kind::Changes)?;
        shared.tree.remove(path)
    }
}

fn without_lines(bytes: &[u8], text: &str) -> Vec<u8> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let keeps = |line: &&[u8]| !line.windows(text.len()).any(|window| window == text.as_bytes());
    lines.filter(keeps).flatten().copied().collect()
}
