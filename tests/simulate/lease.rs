//! The lock on the model bus: a file that one watcher holds for as long as it stands where it stood.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use watchkeeper::bus::lease::Held;

use super::disk::{ModelDisk, Shared};
use super::tree::Inode;

/// The lock of a watcher, as it was when it was taken.
pub struct ModelLease {
    shared: Rc<RefCell<Shared>>,
    path: PathBuf,
    inode: Inode,
    bytes: Vec<u8>,
    /// A planted bug: what says the same is taken for the same.
    by_content: bool,
}

impl ModelLease {
    /// Takes the lock: what stands there stays what it is, and says who holds it.
    pub fn take(disk: &ModelDisk, path: &Path, by_content: bool) -> Self {
        let bytes = b"a watcher".to_vec();
        let tree = &mut disk.shared.borrow_mut().tree;
        tree.write_in_place(path, bytes.clone(), false).expect("the bus is there");
        let inode = tree.find(path).expect("it was written");
        ModelLease { shared: disk.shared.clone(), path: path.to_owned(), inode, bytes, by_content }
    }
}

impl Held for ModelLease {
    fn is_in_place(&self) -> bool {
        let tree = &self.shared.borrow().tree;
        match self.by_content {
            true => tree.file(&self.path).is_some_and(|file| file.bytes == self.bytes),
            false => tree.find(&self.path) == Some(self.inode),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
