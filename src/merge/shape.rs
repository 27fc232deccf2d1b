//! Looks at a merged tree as a whole: what excludes what, which links lead out, which names a careless file
//! system takes for one. Finds; decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization;

use crate::model::tree::{Entry, Manifest, TreePath};

/// Permission bits of directories that no agent told of.
pub const PARENT_MODE: u32 = 0o755;
/// Links followed before a chain of them counts as a circle; Linux gives up as soon.
const LINKS_MAX: usize = 40;

/// Directories that hold something and are not in the tree.
pub fn missing_parents(tree: &Manifest) -> Manifest {
    let mut missing = Manifest::new();
    for path in first_in_each_directory(tree) {
        let mut above = path.parent();
        while let Some(parent) = above {
            if tree.contains_key(&parent) || missing.contains_key(&parent) {
                break;
            }
            above = parent.parent();
            missing.insert(parent, Entry::Directory { mode: PARENT_MODE });
        }
    }
    missing
}

/// Files and links with something below them, each with all that stands there.
pub fn with_something_below(tree: &Manifest) -> BTreeMap<TreePath, Vec<TreePath>> {
    let mut parents = BTreeSet::new();
    for path in first_in_each_directory(tree) {
        let mut above = path.parent();
        while let Some(parent) = above {
            above = parent.parent();
            if matches!(tree.get(&parent), Some(Entry::File { .. } | Entry::Link { .. })) {
                parents.insert(parent);
            }
        }
    }
    let below = |parent: &TreePath| -> Vec<TreePath> {
        let start = [parent.as_bytes(), b"/"].concat();
        let after = tree.range::<TreePath, _>(parent..).skip(1);
        // Names such as `a-b` stand between `a` and what `a` holds.
        let until_past = after.take_while(|(path, _)| path.as_bytes().starts_with(parent.as_bytes()));
        until_past.map(|(path, _)| path).filter(|path| path.as_bytes().starts_with(&start)).cloned().collect()
    };
    parents.into_iter().map(|parent| (parent.clone(), below(&parent))).collect()
}

/// Neighbours in one directory have the same parents: one of them stands for all.
fn first_in_each_directory(tree: &Manifest) -> impl Iterator<Item = &TreePath> {
    fn parent(path: &TreePath) -> &[u8] {
        let bytes = path.as_bytes();
        &bytes[..bytes.len() - path.name().len()]
    }
    let mut before: Option<&TreePath> = None;
    tree.keys().filter(move |path| {
        let is_first = before.is_none_or(|before| parent(before) != parent(path));
        before = Some(path);
        is_first
    })
}

/// A link that leads out of the tree.
#[derive(Debug, PartialEq, Eq)]
pub struct LeadsOut {
    pub path: TreePath,
    /// Whether no other link has a part in it.
    pub alone: bool,
}

pub fn links_that_lead_out(tree: &Manifest) -> Vec<LeadsOut> {
    let links = tree.iter().filter_map(|(path, entry)| match entry {
        Entry::Link { target } => Some((path, target.as_bytes())),
        _ => None,
    });
    let found = links.filter_map(|(path, target)| {
        let followed = followed_on_the_way_out(tree, path, target)?;
        Some(LeadsOut { path: path.clone(), alone: followed == 0 })
    });
    found.collect()
}

/// How many other links are followed until the way leaves the tree; `None` if it does not.
fn followed_on_the_way_out(tree: &Manifest, path: &TreePath, target: &[u8]) -> Option<usize> {
    fn names(bytes: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
        bytes.split(|byte| *byte == b'/').map(<[u8]>::to_vec)
    }
    let mut here: Vec<Vec<u8>> =
        path.parent().map(|parent| names(parent.as_bytes()).collect()).unwrap_or_default();
    // What is still to go, the next name last.
    let mut ahead: Vec<Vec<u8>> = names(target).rev().collect();
    let mut followed = 0;
    if target.first() == Some(&b'/') {
        return Some(followed);
    }
    while let Some(name) = ahead.pop() {
        match &name[..] {
            b"" | b"." => continue,
            b".." if here.pop().is_none() => return Some(followed),
            b".." => continue,
            _ => here.push(name),
        }
        let at = TreePath::parse(here.join(&b'/'));
        if let Some(Entry::Link { target }) = at.and_then(|at| tree.get(&at)) {
            followed += 1;
            if target.as_bytes().first() == Some(&b'/') {
                return Some(followed);
            }
            if followed > LINKS_MAX {
                return None;
            }
            here.pop();
            ahead.extend(names(target.as_bytes()).rev());
        }
    }
    None
}

/// Paths that some file systems take for one: they differ in case, or in how an accent is spelled.
pub fn twins(tree: &Manifest) -> Vec<Vec<&TreePath>> {
    let mut alike: BTreeMap<String, Vec<&TreePath>> = BTreeMap::new();
    for path in tree.keys() {
        let name = String::from_utf8_lossy(path.as_bytes()).to_lowercase();
        let name = if name.is_ascii() { name } else { name.nfc().collect() };
        alike.entry(name).or_default().push(path);
    }
    alike.into_values().filter(|paths| paths.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tree::RawText;

    fn tree(entries: &[(&str, &str)]) -> Manifest {
        let entry = |target: &str| match target {
            "dir" => Entry::Directory { mode: 0o755 },
            target => Entry::Link { target: RawText::new(target) },
        };
        entries.iter().map(|(path, target)| (TreePath::parse(*path).unwrap(), entry(target))).collect()
    }

    fn out(entries: &[(&str, &str)]) -> Vec<String> {
        links_that_lead_out(&tree(entries)).iter().map(|link| link.path.to_string()).collect()
    }

    #[test]
    fn a_link_is_judged_by_where_it_leads_in_the_end() {
        assert_eq!(out(&[("a", "/etc/passwd"), ("b", "../x"), ("c", "d/../e"), ("d/f", "../c")]), ["a", "b"]);
        assert_eq!(out(&[("p/q/l", "../.."), ("m", "p/q/l/../x")]), ["m"], "it leaves through another link");
        assert_eq!(out(&[("a", "b"), ("b", "a"), ("c", "nowhere")]), [""; 0], "a circle leads nowhere");
        assert_eq!(out(&[("a", "b/c"), ("b", "/")]), ["a", "b"]);
    }

    #[test]
    fn all_that_stands_below_something_else_than_a_directory_is_found() {
        let tree =
            tree(&[("a", "x"), ("a-b", "x"), ("a/b/c", "x"), ("a/d", "x"), ("b", "dir"), ("b/c", "x")]);
        let found = with_something_below(&tree);
        let shown: Vec<String> =
            found.into_iter().map(|(path, below)| format!("{path}: {below:?}")).collect();
        assert_eq!(shown, [r#"a: [TreePath("a/b/c"), TreePath("a/d")]"#]);
        let missing: Vec<String> = missing_parents(&tree).keys().map(ToString::to_string).collect();
        assert_eq!(missing, ["a/b"]);
    }

    #[test]
    fn names_that_differ_in_case_or_accents_are_twins() {
        let tree = tree(&[("App.py", "x"), ("app.py", "x"), ("e\u{301}", "x"), ("\u{e9}", "x"), ("b", "x")]);
        assert_eq!(twins(&tree).len(), 2);
    }
}
