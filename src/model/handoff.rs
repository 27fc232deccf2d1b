//! What another orchestrator hands over with its tasks: a workspace, how outputs become one, what each agent
//! is given and must produce. Data alone; both dialects of a handoff (an execution request, assignments) come
//! to these types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::agent::{EnvRule, ResourceLimits};
use super::clock::WallTime;
use super::evidence::Finding;
use super::id::TaskKey;
use super::tree::Digest;

/// The input by this name is the client's code: agents may work in it.
pub const CODEBASE: &str = "codebase";

/// The name under which the command that tests the whole is checked and reported.
pub const TESTS_CMD: &str = "tests_cmd";

/// The name under which the command that checks the merged tree is reported.
pub const MERGE_VERIFY: &str = "merge_verify";

/// A name as a shell can spell it in a variable: of `code-review` it is `CODE_REVIEW`.
pub fn variable_part(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// The part of a batch that only a handed-over one has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    pub dialect: Dialect,
    /// Absolute, and everything that the batch writes for its client is below it.
    pub workspace: String,
    /// The directory that holds the bus, absolute, so that the client can be told a command that finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// A snapshot is taken before the first agent, so that `wk undo` can go back to it.
    pub checkpoint: bool,
    /// Criteria are checked by their commands; without it they stay the agents' word.
    pub verify: bool,
    pub merge: MergeStrategy,
    /// What must hold of the whole once every task has succeeded, before anything is merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Criterion>,
    /// Patterns below the workspace that must then match something, likewise once for the whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_artifacts: Vec<String>,
    /// What the client calls it; kept for its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// When the client says that it wrote the request; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_timestamp: Option<String>,
}

impl Handoff {
    /// Whether the request itself says what is to be run for the whole.
    pub fn brings_a_command(&self) -> bool {
        let merge = self.merge.verify.as_ref();
        self.checks.iter().any(Criterion::brings_a_command) || merge.is_some_and(|check| check.from_request)
    }
}

/// In which words the client asked, and is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// `execution_request.json`.
    ExecutionRequest,
    /// `assignments.json`.
    Assignments,
}

/// How the outputs of several agents become one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeStrategy {
    #[serde(rename = "type")]
    pub kind: MergeKind,
    #[serde(default)]
    pub conflict_resolution: ConflictResolution,
    #[serde(default)]
    pub validation: MergeValidation,
    /// Whose word counts where two agents disagree, first to last. An addition of ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priority: Vec<String>,
    /// A command that must end well in the merged tree before that is published. An addition of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Check>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeKind {
    /// Context graphs are united, everything else merges as files do.
    CtxpackUnion,
    FileMerge,
    ReportAggregation,
}

impl MergeKind {
    pub const ALL: [MergeKind; 3] =
        [MergeKind::CtxpackUnion, MergeKind::FileMerge, MergeKind::ReportAggregation];

    pub fn word(self) -> &'static str {
        match self {
            MergeKind::CtxpackUnion => "ctxpack_union",
            MergeKind::FileMerge => "file_merge",
            MergeKind::ReportAggregation => "report_aggregation",
        }
    }
}

/// What to do about outputs that contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictResolution {
    /// What can be decided by structure or priority is; the rest waits for a person.
    Auto,
    /// Every conflict waits for a person.
    #[default]
    ManualReview,
    /// Nothing is merged.
    FailOnConflict,
}

impl ConflictResolution {
    pub const ALL: [ConflictResolution; 3] =
        [ConflictResolution::Auto, ConflictResolution::ManualReview, ConflictResolution::FailOnConflict];

    pub fn word(self) -> &'static str {
        match self {
            ConflictResolution::Auto => "auto",
            ConflictResolution::ManualReview => "manual_review",
            ConflictResolution::FailOnConflict => "fail_on_conflict",
        }
    }
}

/// What is checked after a merge, before it is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MergeValidation {
    pub semantic_consistency: bool,
    pub schema_validation: bool,
}

/// The part of a task that only a handed-over one has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Assignment {
    /// As the client calls whoever does it.
    pub agent_name: String,
    /// The directory that says how the agent is started, absolute. Without one, settings do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_dir: Option<String>,
    /// What the agent is given, by name. Paths are absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<NamedPath>,
    /// What it must produce, by name. Absolute, and inside the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<NamedPath>,
    /// What the agent is told beyond its goal: a file or a directory, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_path: Option<String>,
    /// Patterns below the workspace; each must match something that is not empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_artifacts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// What the client adds to the agent's environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvRule>,
    #[serde(default)]
    pub limits: ResourceLimits,
    /// An attempt that ran out of its time is not followed by another: the client gave it that time, and did not ask
    /// for more tries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timeout_is_final: bool,
    /// It does no work of the client's: it checks the whole after all others, and no report lists it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_validation: bool,
}

/// A path under the name that the client gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPath {
    pub name: String,
    pub path: String,
}

/// One condition of success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    pub name: String,
    pub wants: Wanted,
    /// How it is checked; without this only the agent can say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

impl Criterion {
    /// Whether its command came with the request, so that policy decides whether it may run.
    pub fn brings_a_command(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.from_request)
    }
}

/// What a criterion asks for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// It must hold; with `false` it is looked at and told, and decides nothing.
    Truth(bool),
    /// The measured value is at least this.
    Floor(f64),
}

/// A command that says whether a criterion is met: by its exit code, and for a floor by a number that it prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Program and arguments. A line for a shell is `["sh", "-c", LINE]`.
    pub command: Vec<String>,
    /// Finds the value in what the command prints: the first group, or the whole match. Without it the last
    /// number counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The command came with the request, so policy decides whether it may run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_request: bool,
}

impl Check {
    /// One line as a shell reads it.
    pub fn shell(line: &str) -> Vec<String> {
        vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()]
    }
}

impl Assignment {
    /// Whether the request itself says what is to be run for it.
    pub fn brings_a_command(&self) -> bool {
        self.agent_dir.is_some() || self.criteria.iter().any(Criterion::brings_a_command)
    }
}

/// How far a handed-over batch is beside its tasks: before the first and after the last of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HandoffState {
    /// When each preparation and each round of merging was under way, in their order.
    pub works: Vec<Work>,
    /// The workspace is being made and the snapshot taken.
    pub preparing: bool,
    pub prepared: Option<Prepared>,
    /// Why no agent could begin.
    pub not_prepared: Option<String>,
    /// Which round of merging is under way; a person's resolutions make another.
    pub merging: Option<u32>,
    /// How many rounds there were.
    pub rounds: u32,
    /// What the last round came to.
    pub merged: Option<MergeOutcome>,
    /// What a person has decided so far, by the conflict's id.
    pub choices: Choices,
}

impl HandoffState {
    /// Whether conflicts wait for a person.
    pub fn awaits_resolution(&self) -> bool {
        let is_waiting = |merged: &MergeOutcome| merged.status == MergeStatus::AwaitsResolution;
        self.merging.is_none() && self.merged.as_ref().is_some_and(is_waiting)
    }
}

/// What becomes of a conflict, by its id.
pub type Choices = BTreeMap<String, Choice>;

/// What a person decides about one conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// What the agents that fit together made.
    Ours,
    /// This agent's version.
    Take(String),
    /// As it was before the agents.
    Base,
    /// Nothing is to be there.
    Delete,
    /// A version of the person's own, kept by its digest.
    Content(Digest),
}

/// A preparation or one round of merging, with its times for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// The round of merging; `None` for a preparation.
    pub round: Option<u32>,
    pub began_at: WallTime,
    pub ended_at: Option<WallTime>,
}

impl Choice {
    /// `None` for words that are no choice, and for `file`, which needs a content.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "ours" => Some(Choice::Ours),
            "base" => Some(Choice::Base),
            "delete" => Some(Choice::Delete),
            _ => word.strip_prefix("theirs:").map(|agent| Choice::Take(agent.to_owned())),
        }
    }

    /// The word by which a conflict offers it.
    pub fn word(&self) -> String {
        match self {
            Choice::Ours => "ours".to_owned(),
            Choice::Take(agent) => format!("theirs:{agent}"),
            Choice::Base => "base".to_owned(),
            Choice::Delete => "delete".to_owned(),
            Choice::Content(_) => "file".to_owned(),
        }
    }
}

/// What stands ready before the first agent begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Prepared {
    /// Files in the snapshot, and their bytes; nothing where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The hash of the snapshot's manifest, which names everything else in it by hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_sha256: Option<String>,
    /// What is not in it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// How a merge ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeStatus {
    Success,
    /// There are conflicts, and a person is to say what becomes of them.
    AwaitsResolution,
    Failure,
    /// Nothing was there to merge, or it must not be.
    Skipped,
}

impl MergeStatus {
    pub fn word(self) -> &'static str {
        match self {
            MergeStatus::Success => "success",
            MergeStatus::AwaitsResolution => "awaits_resolution",
            MergeStatus::Failure => "failure",
            MergeStatus::Skipped => "skipped",
        }
    }
}

/// What became of the agents' outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeOutcome {
    pub status: MergeStatus,
    /// Why it is not a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The united context graph, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_ctxpack: Option<String>,
    /// The outermost files and directories of the merged tree, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged_files: Vec<String>,
    #[serde(default)]
    pub conflicts_detected: u32,
    #[serde(default)]
    pub conflicts_resolved: u32,
    /// `None` where no validation was asked for or reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_passed: Option<bool>,
    /// What is not resolved, at most so many that people read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ConflictBrief>,
    /// What a person decided; it can be decided otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<ConflictBrief>,
    /// What was found by the checks of the whole, which no single agent answers for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Finding>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What changed in the trees though nobody declares it.
    #[serde(default, skip_serializing_if = "UndeclaredChanges::is_none")]
    pub undeclared: UndeclaredChanges,
    /// The hash of the receipt that accounts for every change; without one nothing is a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_sha256: Option<String>,
}

impl MergeOutcome {
    /// Nothing was merged, for this reason.
    pub fn without_result(status: MergeStatus, because: impl Into<String>) -> Self {
        MergeOutcome {
            status,
            because: Some(because.into()),
            merged_ctxpack: None,
            merged_files: Vec::new(),
            conflicts_detected: 0,
            conflicts_resolved: 0,
            validation_passed: None,
            conflicts: Vec::new(),
            settled: Vec::new(),
            checks: Vec::new(),
            warnings: Vec::new(),
            undeclared: UndeclaredChanges::default(),
            receipt_sha256: None,
        }
    }
}

/// What changed in the trees though nobody declares it, at most so much that people read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UndeclaredChanges {
    pub listed: Vec<UndeclaredChange>,
    /// How many there are besides.
    #[serde(default)]
    pub more: u64,
}

impl UndeclaredChanges {
    pub fn is_none(&self) -> bool {
        self.listed.is_empty() && self.more == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndeclaredChange {
    /// Absolute.
    pub path: String,
    /// The task that alone ran when it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskKey>,
    /// It is a directory that held so many files and holds none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wiped: Option<u64>,
}

/// One conflict in few words; the whole of it is in the conflict report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictBrief {
    pub id: String,
    /// `file`, `semantic`, `dependency` or `schema`.
    pub class: String,
    pub path: String,
    pub agents: Vec<String>,
    pub message: String,
    /// What may become of it: `ours`, `theirs:AGENT`, `base`, `delete`, `file`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}
