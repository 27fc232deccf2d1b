//! A file system in memory: what lies where, what of it would survive a loss of power, who has it open.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};

use super::random::Random;

pub type Inode = usize;
const ROOT: Inode = 0;

#[derive(Debug, Clone)]
pub enum Node {
    File(File),
    Directory(BTreeMap<OsString, Entry>),
}

#[derive(Debug, Clone, Default)]
pub struct File {
    pub bytes: Vec<u8>,
    /// So many bytes from the start are on the platter; what follows is only in memory.
    pub synced_len: usize,
    pub modified_ns: i128,
    pub changed_ns: i128,
    pub has_writer: bool,
    pub number: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub inode: Inode,
    /// Until then another host still sees what was there before.
    pub hidden_until: u64,
    pub before: Option<Inode>,
}

/// A change of a directory that no sync has made durable yet.
#[derive(Debug, Clone)]
enum Pending {
    Linked { dir: Inode, name: OsString, inode: Inode, replaced: Option<Inode> },
    Moved { from: (Inode, OsString), to: (Inode, OsString), inode: Inode, replaced: Option<Inode> },
}

#[derive(Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    pending: Vec<Pending>,
    /// The file system's own time.
    pub now_ms: u64,
    /// How coarse it is.
    pub grain_ms: u64,
    next_number: u64,
    /// Reuse inode numbers, so that only times and sizes can tell two files apart.
    pub reuses_numbers: bool,
    /// How often a file was replaced by one that looks the same but for its content.
    pub same_times: u64,
}

fn absent() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Tree {
    pub fn new() -> Self {
        Tree { nodes: vec![Node::Directory(BTreeMap::new())], grain_ms: 1, ..Tree::default() }
    }

    fn time_ns(&self) -> i128 {
        i128::from(self.now_ms / self.grain_ms * self.grain_ms) * 1_000_000
    }

    pub fn node(&self, inode: Inode) -> &Node {
        &self.nodes[inode]
    }

    fn entries(&self, dir: Inode) -> Option<&BTreeMap<OsString, Entry>> {
        match &self.nodes[dir] {
            Node::Directory(entries) => Some(entries),
            Node::File(_) => None,
        }
    }

    fn entries_mut(&mut self, dir: Inode) -> Option<&mut BTreeMap<OsString, Entry>> {
        match &mut self.nodes[dir] {
            Node::Directory(entries) => Some(entries),
            Node::File(_) => None,
        }
    }

    pub fn find(&self, path: &Path) -> Option<Inode> {
        let mut at = ROOT;
        for part in path.components() {
            if let Component::Normal(name) = part {
                at = self.entries(at)?.get(name)?.inode;
            }
        }
        Some(at)
    }

    /// As somebody on another host sees it.
    pub fn find_visible(&self, path: &Path) -> Option<Inode> {
        let dir = self.find(path.parent()?)?;
        let Some(name) = path.file_name() else { return Some(dir) };
        let entry = self.entries(dir)?.get(name)?;
        if entry.hidden_until > self.now_ms { entry.before } else { Some(entry.inode) }
    }

    /// From when on others see what lies there.
    pub fn visible_from(&self, path: &Path) -> u64 {
        let dir = path.parent().and_then(|dir| self.find(dir));
        let entries = dir.and_then(|dir| self.entries(dir));
        entries
            .zip(path.file_name())
            .and_then(|(all, name)| all.get(name))
            .map_or(0, |entry| entry.hidden_until)
    }

    pub fn file(&self, path: &Path) -> Option<&File> {
        match &self.nodes[self.find(path)?] {
            Node::File(file) => Some(file),
            Node::Directory(_) => None,
        }
    }

    fn file_mut(&mut self, path: &Path) -> Option<&mut File> {
        let inode = self.find(path)?;
        match &mut self.nodes[inode] {
            Node::File(file) => Some(file),
            Node::Directory(_) => None,
        }
    }

    pub fn listing(&self, dir: &Path) -> io::Result<Vec<(OsString, bool)>> {
        let dir = self.find(dir).ok_or_else(absent)?;
        let entries = self.entries(dir).ok_or_else(|| io::Error::from(io::ErrorKind::NotADirectory))?;
        let seen =
            entries.iter().filter(|(_, entry)| entry.hidden_until <= self.now_ms || entry.before.is_some());
        Ok(seen
            .map(|(name, entry)| (name.clone(), matches!(self.nodes[entry.inode], Node::Directory(_))))
            .collect())
    }

    pub fn make_dirs(&mut self, dir: &Path) -> io::Result<()> {
        let mut at = ROOT;
        for part in dir.components() {
            let Component::Normal(name) = part else { continue };
            let next = self.nodes.len();
            let entries =
                self.entries_mut(at).ok_or_else(|| io::Error::from(io::ErrorKind::NotADirectory))?;
            at = match entries.get(name) {
                Some(entry) => entry.inode,
                None => {
                    entries.insert(name.to_owned(), Entry { inode: next, hidden_until: 0, before: None });
                    self.nodes.push(Node::Directory(BTreeMap::new()));
                    next
                }
            };
        }
        Ok(())
    }

    fn place(&self, path: &Path) -> io::Result<(Inode, OsString)> {
        let dir = self.find(path.parent().ok_or_else(absent)?).ok_or_else(absent)?;
        if self.entries(dir).is_none() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok((dir, path.file_name().ok_or_else(absent)?.to_owned()))
    }

    /// A new file under this name, by rename: whatever stood there is replaced.
    pub fn replace(&mut self, path: &Path, bytes: Vec<u8>, hidden_until: u64) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        let (time, inode) = (self.time_ns(), self.nodes.len());
        let replaced = self.entries(dir).and_then(|entries| entries.get(&name)).map(|entry| entry.inode);
        let number = match replaced.map(|old| &self.nodes[old]) {
            Some(Node::File(old)) if self.reuses_numbers => {
                self.same_times += u64::from(old.modified_ns == time && old.bytes.len() == bytes.len());
                old.number
            }
            Some(Node::Directory(_)) => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
            _ => {
                self.next_number += 1;
                self.next_number
            }
        };
        let file = File { bytes, modified_ns: time, changed_ns: time, number, ..File::default() };
        self.nodes.push(Node::File(file));
        let before = replaced.filter(|_| hidden_until > self.now_ms);
        let entry = Entry { inode, hidden_until, before };
        self.entries_mut(dir).expect("it was a directory").insert(name.clone(), entry);
        self.pending.push(Pending::Linked { dir, name, inode, replaced });
        Ok(())
    }

    /// Writes into the file that is there, or makes one, keeping it open if more is to come.
    pub fn write_in_place(&mut self, path: &Path, bytes: Vec<u8>, stays_open: bool) -> io::Result<()> {
        if self.file(path).is_none() {
            self.replace(path, Vec::new(), 0)?;
        }
        let time = self.time_ns();
        let file = self.file_mut(path).ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        file.synced_len = file.bytes.iter().zip(&bytes).take(file.synced_len).filter(|(a, b)| a == b).count();
        (file.modified_ns, file.changed_ns) = (time, time);
        (file.bytes, file.has_writer) = (bytes, stays_open);
        Ok(())
    }

    pub fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.file(path).is_none() {
            self.replace(path, Vec::new(), 0)?;
        }
        let time = self.time_ns();
        let file = self.file_mut(path).ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        file.bytes.extend_from_slice(bytes);
        (file.modified_ns, file.changed_ns) = (time, time);
        Ok(())
    }

    pub fn truncate(&mut self, path: &Path, len: usize) -> io::Result<()> {
        let file = self.file_mut(path).ok_or_else(absent)?;
        file.bytes.truncate(len);
        file.synced_len = file.bytes.len();
        Ok(())
    }

    pub fn touch(&mut self, path: &Path) {
        let time = self.time_ns();
        if let Some(file) = self.file_mut(path) {
            (file.modified_ns, file.changed_ns) = (time, time);
        }
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        let entry = self.entries(from_dir).and_then(|entries| entries.get(&from_name)).copied();
        let inode = entry.ok_or_else(absent)?.inode;
        let replaced =
            self.entries(to_dir).and_then(|entries| entries.get(&to_name)).map(|entry| entry.inode);
        if let Some(Node::Directory(entries)) = replaced.map(|old| &self.nodes[old])
            && !entries.is_empty()
        {
            return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
        }
        let time = self.time_ns();
        if let Node::File(file) = &mut self.nodes[inode] {
            file.changed_ns = time;
        }
        self.entries_mut(from_dir).expect("it was a directory").remove(&from_name);
        let entry = Entry { inode, hidden_until: 0, before: None };
        self.entries_mut(to_dir).expect("it was a directory").insert(to_name.clone(), entry);
        self.pending.push(Pending::Moved {
            from: (from_dir, from_name),
            to: (to_dir, to_name),
            inode,
            replaced,
        });
        Ok(())
    }

    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        self.entries_mut(dir).and_then(|entries| entries.remove(&name)).map(|_| ()).ok_or_else(absent)
    }

    /// Makes a file's bytes durable.
    pub fn sync_file(&mut self, path: &Path) {
        if let Some(file) = self.file_mut(path) {
            file.synced_len = file.bytes.len();
        }
    }

    /// Makes a directory's names durable.
    pub fn sync_names(&mut self, dir: &Path) {
        let Some(dir) = self.find(dir) else { return };
        self.pending.retain(|change| match change {
            Pending::Linked { dir: at, .. } => *at != dir,
            Pending::Moved { to, .. } => to.0 != dir,
        });
    }

    /// Power is lost: whatever no sync has made durable may be gone, wholly or in part.
    /// Returns how many appended tails were torn.
    pub fn lose_power(&mut self, random: &mut Random) -> usize {
        for change in std::mem::take(&mut self.pending).into_iter().rev() {
            if random.chance(40) {
                self.undo(change);
            }
        }
        let mut torn = 0;
        for node in &mut self.nodes {
            let Node::File(file) = node else { continue };
            file.has_writer = false;
            let unsynced = file.bytes.len() - file.synced_len.min(file.bytes.len());
            if unsynced == 0 {
                continue;
            }
            match random.below(4) {
                0 => {}
                1 => file.bytes.truncate(file.synced_len),
                2 => file.bytes[file.synced_len..].fill(0),
                _ => {
                    let left = file.synced_len + random.below(unsynced as u64) as usize;
                    file.bytes.truncate(left);
                    torn += usize::from(file.synced_len > 0);
                }
            }
            file.synced_len = file.bytes.len();
        }
        torn
    }

    /// Takes one change back, unless something later was built on it.
    fn undo(&mut self, change: Pending) {
        match change {
            Pending::Linked { dir, name, inode, replaced } => {
                let Some(entries) = self.entries_mut(dir) else { return };
                if entries.get(&name).is_some_and(|entry| entry.inode == inode) {
                    match replaced {
                        Some(old) => {
                            entries.insert(name, Entry { inode: old, hidden_until: 0, before: None })
                        }
                        None => entries.remove(&name),
                    };
                }
            }
            Pending::Moved { from, to, inode, replaced } => {
                let is_free = self.entries(from.0).is_some_and(|entries| !entries.contains_key(&from.1));
                let is_there = self.entries(to.0).and_then(|entries| entries.get(&to.1));
                if !is_free || is_there.is_none_or(|entry| entry.inode != inode) {
                    return;
                }
                let back = |inode| Entry { inode, hidden_until: 0, before: None };
                if let Some(entries) = self.entries_mut(to.0) {
                    match replaced {
                        Some(old) => entries.insert(to.1, back(old)),
                        None => entries.remove(&to.1),
                    };
                }
                if let Some(entries) = self.entries_mut(from.0) {
                    entries.insert(from.1, back(inode));
                }
            }
        }
    }

    /// Every file below a directory, with its path.
    pub fn files_below(&self, dir: &Path) -> Vec<(std::path::PathBuf, &File)> {
        let mut found = Vec::new();
        let mut to_visit: Vec<(std::path::PathBuf, Inode)> =
            self.find(dir).map(|inode| (dir.to_owned(), inode)).into_iter().collect();
        while let Some((path, inode)) = to_visit.pop() {
            match &self.nodes[inode] {
                Node::File(file) => found.push((path, file)),
                Node::Directory(entries) => {
                    to_visit.extend(entries.iter().map(|(name, entry)| (path.join(name), entry.inode)));
                }
            }
        }
        found
    }
}
