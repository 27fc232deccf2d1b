//! Where declared outputs go among everything that is merged: one place for one file, whoever declares it.

use std::path::{Path, PathBuf};

use super::handoff::{Dialect, NamedPath};
use super::tree::TreePath;

/// A declared output and its place in the merged tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<'a> {
    pub output: &'a NamedPath,
    pub place: TreePath,
}

/// The places of one agent's outputs. `all` are the outputs of every agent.
///
/// Tasks of assignments share one tree, so theirs stay where they are in it. Agents of an execution request have
/// folders of their own: what counts there is an output's last name, and what lies inside another output lies inside
/// it here too. Two outputs of one agent that end in the same name are told apart by what the client calls them.
pub fn placed<'a>(
    dialect: Dialect,
    workspace: &Path,
    all: &[&NamedPath],
    own: &'a [NamedPath],
) -> Vec<Placed<'a>> {
    let mut placed: Vec<Placed<'a>> = Vec::new();
    for output in own {
        let path = Path::new(&output.path);
        let in_workspace = || path.strip_prefix(workspace).ok().and_then(TreePath::of);
        let natural = match dialect {
            Dialect::Assignments => in_workspace().or_else(|| by_name(path, path)),
            Dialect::ExecutionRequest => by_name(path, outermost(all, path)),
        };
        let Some(natural) = natural else { continue };
        let called = TreePath::parse(output.name.replace('/', "_"));
        let numbered = (2..).filter_map(|number| TreePath::parse(format!("{natural}-{number}")));
        let mut places = std::iter::once(natural.clone()).chain(called).chain(numbered);
        let is_free = |place: &TreePath| !placed.iter().any(|other| other.place == *place);
        let place = places.find(is_free).unwrap_or_else(|| natural.clone());
        placed.push(Placed { output, place });
    }
    placed
}

/// The file that has this place, where it lies in one of these outputs. Of two that could hold it the inner
/// one does.
pub fn source_of(sources: &[(TreePath, PathBuf)], path: &TreePath) -> Option<PathBuf> {
    let holding = sources.iter().filter(|(place, _)| path == place || path.is_below(place));
    let (place, source) = holding.max_by_key(|(place, _)| place.as_bytes().len())?;
    Some(match path.rest_below(place) {
        Some(rest) => rest.below(source),
        None => source.clone(),
    })
}

/// The output that holds this one, or itself.
fn outermost<'a>(all: &[&'a NamedPath], path: &'a Path) -> &'a Path {
    let holding = all.iter().map(|output| Path::new(&output.path)).filter(|outer| path.starts_with(outer));
    holding.min_by_key(|outer| outer.as_os_str().len()).unwrap_or(path)
}

/// The last name of `outer`, and what leads from there to `path`.
fn by_name(path: &Path, outer: &Path) -> Option<TreePath> {
    let name = TreePath::of(Path::new(outer.file_name()?))?;
    match path.strip_prefix(outer).ok().and_then(TreePath::of) {
        Some(rest) => Some(name.join(&rest)),
        None => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, path: &str) -> NamedPath {
        NamedPath { name: name.to_owned(), path: path.to_owned() }
    }

    fn places(dialect: Dialect, others: &[NamedPath], own: &[NamedPath]) -> Vec<String> {
        let all: Vec<&NamedPath> = others.iter().chain(own).collect();
        let placed = placed(dialect, Path::new("/ws"), &all, own);
        placed.iter().map(|one| one.place.to_string()).collect()
    }

    #[test]
    fn what_lies_inside_anothers_output_has_its_place_in_it() {
        let outer = [named("code", "/ws/outputs/a/src")];
        let inner = [named("module", "/ws/outputs/a/src/deep/m.py"), named("note", "/ws/outputs/b/note.md")];
        assert_eq!(places(Dialect::ExecutionRequest, &outer, &inner), ["src/deep/m.py", "note.md"]);
    }

    #[test]
    fn a_place_leads_back_to_the_file_that_has_it() {
        let place = |text: &str| TreePath::parse(text).unwrap();
        let sources =
            [(place("src"), PathBuf::from("/ws/a/src")), (place("src/m"), PathBuf::from("/ws/b/m"))];
        for (path, source) in [("src/x", "/ws/a/src/x"), ("src", "/ws/a/src"), ("src/m/y", "/ws/b/m/y")] {
            assert_eq!(source_of(&sources, &place(path)), Some(PathBuf::from(source)));
        }
        assert_eq!(source_of(&sources, &place("other")), None);
    }

    #[test]
    fn two_of_one_name_are_told_apart_by_what_the_client_calls_them() {
        let own = [named("api", "/ws/a/README.md"), named("guide", "/ws/b/README.md")];
        assert_eq!(places(Dialect::ExecutionRequest, &[], &own), ["README.md", "guide"]);
    }

    #[test]
    fn tasks_that_share_a_tree_keep_their_places_in_it() {
        let own = [named("docs/README.md", "/ws/docs/README.md"), named("README.md", "/ws/README.md")];
        assert_eq!(places(Dialect::Assignments, &[], &own), ["docs/README.md", "README.md"]);
    }
}
