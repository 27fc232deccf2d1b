//! What a watcher tells a runner: the order in an attempt's `launch.json`.
//!
//! Both ends are ours and of one version, so this is a plain serde type; nothing that an agent may write.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::agent::{EnvRule, ResourceLimits};
use crate::model::handoff::{Criterion, NamedPath};
use crate::model::preset::Dialect;
use crate::model::tree::TreePath;
use crate::model::workspace::LogPaths;
use crate::model::{Attempt, BatchId, Seconds, TaskKey};

/// What a runner is to do. Written by the watcher before it launches, read once by the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub batch: BatchId,
    pub task: TaskKey,
    pub task_id: String,
    pub attempt: Attempt,
    pub agent: String,
    /// Program and arguments, complete.
    pub command: Vec<String>,
    /// Absolute.
    pub cwd: PathBuf,
    /// Beside PATH, HOME, LANG, TERM and our own `WK_*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvRule>,
    /// For standard input; `None` closes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    #[serde(default)]
    pub dialect: Dialect,
    pub paths: OrderPaths,
    pub timeout: Seconds,
    pub kill_grace: Seconds,
    /// How often the runner beats.
    pub beat_every: Seconds,
    #[serde(default)]
    pub limits: ResourceLimits,
    /// What the environment of every process of this attempt carries as `WK_MARK`.
    pub mark: String,
    /// Shows what the agent prints on the runner's own terminal too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
    /// The files that the task declares, which are looked at before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Box<DeclaredOrder>>,
    /// What is looked at around a handed-over attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Box<Inspection>>,
}

/// The files that a task of a plan declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredOrder {
    /// Files, directories and patterns below the root.
    pub places: Vec<String>,
    /// What the checks of the task consist of, in the same spelling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Where the record is of how they were before the task's first attempt.
    pub baseline: PathBuf,
    /// What the journal calls that record, where it names it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_sha256: Option<String>,
}

/// What a runner looks at before its agent begins and after it has ended: the outputs as they were and as they
/// became, and whether the criteria are met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// Absolute, like everything here.
    pub workspace: PathBuf,
    /// Where contents are kept by their digest.
    pub objects: PathBuf,
    /// The look at the trees before the first agent, whose contents a checkpoint has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<PathBuf>,
    /// The look at the trees before the first agent, for what the checks consist of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks_before: Option<PathBuf>,
    /// What tasks of the batch declare below the workspace: a check may consist of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<String>,
    /// The look at the trees before the first agent, where the whole is to be compared with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_batch: Option<PathBuf>,
    /// What the journal calls the record of how the outputs were before the task's first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_sha256: Option<String>,
    /// Second copies of the logs, where the client looks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<Mirrors>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<PlacedOutput>,
    /// What of the workspace is nobody's output: the client's papers, the bus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<PathBuf>,
    /// Patterns below the workspace: what of this matches and was changed belongs to the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Those of the patterns that must match something; the others only say what to keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_artifacts: Vec<String>,
    /// Those that a command decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
}

impl Inspection {
    /// One that only runs checks.
    pub fn of_checks(workspace: PathBuf, objects: PathBuf, criteria: Vec<Criterion>) -> Self {
        Inspection {
            workspace,
            objects,
            checkpoint: None,
            checks_before: None,
            declared: Vec::new(),
            before_batch: None,
            base_sha256: None,
            mirrors: None,
            outputs: Vec::new(),
            aside: Vec::new(),
            artifacts: Vec::new(),
            required_artifacts: Vec::new(),
            criteria,
        }
    }
}

/// A declared output, and where it goes among everything that is merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedOutput {
    #[serde(flatten)]
    pub output: NamedPath,
    pub place: TreePath,
}

/// Where logs are written a second time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrors {
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    /// The folder for what a terminal session showed, in a file of the session's name.
    pub sessions: PathBuf,
    /// The logs of the commands that decide criteria, by the criterion's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, LogPaths>,
}

/// Where everything of the attempt is, absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderPaths {
    /// The attempt's own folder: logs, lock, result of the runner.
    pub attempt: PathBuf,
    pub root: PathBuf,
    pub spec: PathBuf,
    pub heartbeat: PathBuf,
    /// The drop box, in the attempt's own outbox.
    pub result: PathBuf,
    /// The task's plain name for a result, for an agent that knows no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_result: Option<PathBuf>,
    /// Where the exit record is published.
    pub exit: PathBuf,
}

impl OrderPaths {
    /// Where a result of the agent's may lie.
    pub fn boxes(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.result).chain(&self.plain_result)
    }
}
