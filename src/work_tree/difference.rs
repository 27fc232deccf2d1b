//! What changed between two looks at the same trees. Pure.

use crate::model::tree::{Entry, Manifest, TreePath};

/// A path whose entry is another one than before. Never the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub path: TreePath,
    pub before: Option<Entry>,
    pub after: Option<Entry>,
}

/// All changes, in the order of their paths.
pub fn difference(before: &Manifest, after: &Manifest) -> Vec<Changed> {
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let path = match (old.peek(), new.peek()) {
            (None, None) => return changes,
            (Some((path, _)), None) | (None, Some((path, _))) => *path,
            (Some((left, _)), Some((right, _))) => *left.min(right),
        };
        let before = old.next_if(|(at, _)| *at == path).map(|(_, entry)| entry);
        let after = new.next_if(|(at, _)| *at == path).map(|(_, entry)| entry);
        if before != after {
            changes.push(Changed { path: path.clone(), before: before.cloned(), after: after.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, u32)]) -> Manifest {
        let entry =
            |(path, mode): &(&str, u32)| (TreePath::parse(*path).unwrap(), Entry::Directory { mode: *mode });
        entries.iter().map(entry).collect()
    }

    #[test]
    fn every_path_that_differs_is_told_once_and_no_other() {
        let before = tree(&[("a", 1), ("b", 1), ("b/c", 1), ("d", 1)]);
        let after = tree(&[("a", 1), ("b", 2), ("c", 1), ("d", 1), ("e", 1)]);
        let told: Vec<String> = difference(&before, &after)
            .iter()
            .map(|change| {
                let sides = (change.before.is_some(), change.after.is_some());
                format!("{} {sides:?}", change.path)
            })
            .collect();
        assert_eq!(told, ["b (true, true)", "b/c (true, false)", "c (false, true)", "e (false, true)"]);
        assert_eq!(difference(&after, &after), []);
    }
}
