//! Whose change a path is, as far as that is known: what agents declared, what they say that they wrote, what we made
//! ourselves, and what the caller of an undo says of the rest.
//!
//! That an agent ran while a file changed proves nothing: a person may have edited it at the same time.

use std::path::{Path, PathBuf};

use crate::model::handoff::Handoff;
use crate::model::tree::TreePath;
use crate::model::workspace::WorkspacePaths;
use crate::model::{Batch, Claim};
use crate::verify::outputs;
use crate::work_tree::Scope;
use crate::work_tree::undo::Word;

/// What the caller says of paths; one that is a directory speaks for everything in it.
#[derive(Debug, Default)]
pub struct Answers {
    /// Put back as it was, whoever changed it.
    pub take: Vec<PathBuf>,
    /// Left as it is.
    pub leave: Vec<PathBuf>,
    /// What is said of everything else that would be asked about.
    pub rest: Option<Word>,
}

#[derive(Debug)]
pub struct Authors {
    workspace: Option<TreePath>,
    /// Written by agents, or made by us; and what lies below.
    written: Vec<TreePath>,
    /// Made by us, and what lies below is not.
    made: Vec<TreePath>,
    patterns: Vec<String>,
    /// Said by the caller, the longest first.
    said: Vec<(TreePath, Word)>,
    rest: Option<Word>,
}

impl Authors {
    pub fn new<'a>(
        batch: &Batch,
        handoff: &Handoff,
        claims: impl Iterator<Item = &'a Claim>,
        answers: &Answers,
    ) -> Self {
        let paths = WorkspacePaths::new(&handoff.workspace);
        let assignments = || batch.tasks.iter().filter_map(|task| task.assignment.as_deref());
        let outputs = assignments().flat_map(|assignment| &assignment.outputs);
        let mut written: Vec<PathBuf> = outputs.map(|output| PathBuf::from(&output.path)).collect();
        let claimed = claims.flat_map(|claim| claim.files().chain(&claim.files_deleted));
        written.extend(claimed.map(|file| paths.root().join(file)));
        written.extend(paths.of_merge());
        let patterns = handoff.required_artifacts.iter();
        let patterns = patterns.chain(assignments().flat_map(|assignment| &assignment.required_artifacts));
        let of = |paths: &[PathBuf], word: Word| -> Vec<(TreePath, Word)> {
            paths.iter().filter_map(|path| Some((resolved(path)?, word))).collect()
        };
        let mut said = of(&answers.take, Word::Take);
        said.extend(of(&answers.leave, Word::Leave));
        said.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_bytes().len()));
        Authors {
            workspace: resolved(paths.root()),
            written: written.iter().filter_map(|path| resolved(path)).collect(),
            made: [paths.inputs(), paths.outputs()].iter().filter_map(|path| resolved(path)).collect(),
            patterns: patterns.cloned().collect(),
            said,
            rest: answers.rest,
        }
    }

    pub fn word(&self, path: &TreePath) -> Word {
        let holds = |outer: &TreePath| path == outer || path.is_below(outer);
        if let Some((_, word)) = self.said.iter().find(|(outer, _)| holds(outer)) {
            return *word;
        }
        let is_known =
            self.written.iter().any(holds) || self.made.contains(path) || self.fits_a_pattern(path);
        if is_known { Word::Agents } else { self.rest.unwrap_or(Word::Unknown) }
    }

    fn fits_a_pattern(&self, path: &TreePath) -> bool {
        let rest = self.workspace.as_ref().and_then(|workspace| path.rest_below(workspace));
        rest.is_some_and(|rest| self.patterns.iter().any(|pattern| outputs::fits(pattern, rest.as_path())))
    }
}

/// As a scan names it: without links on the way. What cannot be meant is nobody's.
fn resolved(path: &Path) -> Option<TreePath> {
    Scope::new(&[path.to_owned()], &[]).ok()?.roots().first().cloned()
}
