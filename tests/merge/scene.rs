//! Scenes of merges: agents and what they wrote, told in a few words; results told in the same words.
//!
//! A state is text for a file (`x!` before it makes it a program, `\0` in it makes it binary), `-> target` for
//! a link, `dir` for a directory, and `None` for nothing.

use std::collections::{BTreeMap, BTreeSet};

use watchkeeper::merge::{
    Conflicted, ContentStore, Contribution, InMemory, Merge, MergeError, Occasion, Planned, plan,
};
use watchkeeper::model::handoff::{
    Choice, Choices, ConflictResolution, MergeKind, MergeStrategy, MergeValidation,
};
use watchkeeper::model::inspected::Change;
use watchkeeper::model::tree::{Entry, RawText, TreePath};
use watchkeeper::work_tree::Contents;

pub type State<'a> = Option<&'a str>;

pub struct Scene {
    pub contents: InMemory,
    pub contributions: Vec<Contribution>,
    pub strategy: MergeStrategy,
}

impl Scene {
    pub fn of(kind: MergeKind, conflict_resolution: ConflictResolution) -> Self {
        let validation = MergeValidation { schema_validation: true, semantic_consistency: true };
        let strategy =
            MergeStrategy { kind, conflict_resolution, priority: Vec::new(), validation, verify: None };
        Scene { contents: InMemory::default(), contributions: Vec::new(), strategy }
    }

    pub fn files() -> Self {
        Scene::of(MergeKind::FileMerge, ConflictResolution::ManualReview)
    }

    pub fn auto() -> Self {
        Scene::of(MergeKind::FileMerge, ConflictResolution::Auto)
    }

    pub fn union(policy: ConflictResolution) -> Self {
        Scene::of(MergeKind::CtxpackUnion, policy)
    }

    pub fn priority(mut self, agents: &[&str]) -> Self {
        self.strategy.priority = agents.iter().map(|agent| (*agent).to_owned()).collect();
        self
    }

    /// An agent, whom it waits for, and its changes: path, before, after.
    pub fn agent(mut self, who: &str, depends_on: &[&str], changes: &[(&str, State, State)]) -> Self {
        let changes = changes
            .iter()
            .map(|(at, before, after)| Change {
                path: path(at),
                base: before.map(|state| self.entry(state)),
                theirs: after.map(|state| self.entry(state)),
            })
            .collect();
        let depends_on = depends_on.iter().map(|name| (*name).to_owned()).collect();
        self.contributions.push(Contribution {
            who: who.to_owned(),
            depends_on,
            changes,
            untouched: BTreeSet::new(),
            lacks: BTreeSet::new(),
            side_by_side: BTreeMap::new(),
        });
        self
    }

    pub fn entry(&self, state: &str) -> Entry {
        if state == "dir" {
            return Entry::Directory { mode: 0o755 };
        }
        if let Some(target) = state.strip_prefix("-> ") {
            return Entry::Link { target: RawText::new(target) };
        }
        let (mode, text) = state.strip_prefix("x!").map_or((0o644, state), |text| (0o755, text));
        let sha256 = self.contents.keep(text.as_bytes()).unwrap();
        Entry::File { mode, size: text.len() as u64, sha256 }
    }

    pub fn plan(&self, resolutions: &Choices) -> Result<Planned, MergeError> {
        plan(&self.contributions, &self.strategy, resolutions, &occasion(), &self.contents)
    }

    #[track_caller]
    pub fn ready(&self) -> Merge {
        self.resolved(&Choices::new())
    }

    #[track_caller]
    pub fn resolved(&self, resolutions: &Choices) -> Merge {
        match self.plan(resolutions).unwrap() {
            Planned::Ready(merge) => merge,
            Planned::Conflicted(conflicted) => {
                panic!("conflicts: {}", String::from_utf8_lossy(&conflicted.report.to_json()))
            }
            Planned::Invalid(invalid) => panic!("invalid: {:#?}", invalid.findings),
        }
    }

    #[track_caller]
    pub fn conflicted(&self) -> Conflicted {
        match self.plan(&Choices::new()).unwrap() {
            Planned::Conflicted(conflicted) => conflicted,
            other => panic!("no conflict: {other:#?}"),
        }
    }

    /// Kinds and paths of the conflicts, as `edit/edit code/app.py`.
    #[track_caller]
    pub fn conflicts(&self) -> Vec<String> {
        let conflicts = self.conflicted().report.conflicts;
        conflicts.iter().map(|conflict| format!("{} {}", conflict.kind.word(), conflict.path)).collect()
    }

    /// Settles the only conflict.
    #[track_caller]
    pub fn settled(&self, resolution: Choice) -> Merge {
        let conflicts = self.conflicted().report.conflicts;
        assert_eq!(conflicts.len(), 1);
        self.resolved(&Choices::from([(conflicts[0].id.clone(), resolution)]))
    }

    pub fn text(&self, entry: &Entry) -> String {
        match entry {
            Entry::Directory { .. } => "dir".to_owned(),
            Entry::Link { target } => format!("-> {target}"),
            Entry::File { mode, sha256, .. } => {
                let text = String::from_utf8(self.contents.read(sha256).unwrap()).unwrap();
                if mode & 0o111 == 0 { text } else { format!("x!{text}") }
            }
        }
    }

    /// The merged tree in words, without directories.
    pub fn tree(&self, merge: &Merge) -> BTreeMap<String, String> {
        let files = merge.tree().iter().filter(|(_, entry)| !matches!(entry, Entry::Directory { .. }));
        files.map(|(path, entry)| (path.to_string(), self.text(entry))).collect()
    }

    #[track_caller]
    pub fn gives(&self, expected: &[(&str, &str)]) -> Merge {
        let merge = self.ready();
        self.holds(&merge, expected);
        merge
    }

    #[track_caller]
    pub fn holds(&self, merge: &Merge, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        assert_eq!(self.tree(merge), expected);
    }
}

/// What became of an agent's change, as JSON has it.
#[track_caller]
pub fn fate(merge: &Merge, who: &str, at: &str) -> String {
    let lines = &merge.receipt().lines;
    let line = lines.iter().find(|line| line.agent == who && line.path == path(at)).expect("a line");
    serde_json::to_string(&line.fate).unwrap()
}

pub fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

pub fn occasion() -> Occasion {
    Occasion { execution_id: "exec-7".to_owned(), at: "2026-01-02T03:04:05Z".to_owned() }
}
