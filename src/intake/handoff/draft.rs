//! What a handed-over request says, field by field, before it is judged as a whole.
//!
//! Both dialects fill it; `settle` makes the batch of it and knows neither.

use std::path::PathBuf;

use crate::model::agent::{AgentSettings, EnvRule, ResourceLimits};
use crate::model::handoff::{Criterion, Dialect, MergeStrategy};
use crate::model::{BatchId, Seconds};

/// A whole request as it was written.
pub(super) struct Draft {
    pub(super) dialect: Dialect,
    pub(super) own_id: Option<BatchId>,
    /// `None` where no path could be made out; then that is a defect.
    pub(super) workspace: Option<PathBuf>,
    pub(super) tasks: Vec<TaskDraft>,
    pub(super) merge: MergeStrategy,
    pub(super) checkpoint: bool,
    pub(super) verify: Option<bool>,
    pub(super) is_dry_run: bool,
    pub(super) log_level: Option<String>,
    pub(super) request_timestamp: Option<String>,
    pub(super) parallel_limit: Option<u32>,
    pub(super) overall_timeout: Option<Seconds>,
    pub(super) max_retries: Option<u32>,
    /// Whether the client asks for further tries, also after a timeout.
    pub(super) asks_for_retries: bool,
    /// Of the whole.
    pub(super) checks: Vec<Criterion>,
    pub(super) required_artifacts: Vec<String>,
    /// For every agent.
    pub(super) env: Vec<EnvRule>,
    pub(super) limits: ResourceLimits,
}

/// One task as it was written.
pub(super) struct TaskDraft {
    /// `agents[1]`.
    pub(super) place: String,
    /// `agents[1].task.outputs`.
    pub(super) outputs_place: String,
    /// What dependencies call it: the agent's name, or the task's id.
    pub(super) name: String,
    pub(super) goal: String,
    pub(super) agent_name: String,
    /// `None` where no agent was found; then that is a defect.
    pub(super) agent: Option<Chosen>,
    pub(super) inputs: Vec<Given>,
    pub(super) outputs: Vec<Given>,
    pub(super) context: Option<Given>,
    pub(super) criteria: Vec<Criterion>,
    pub(super) required_artifacts: Vec<String>,
    /// Each with its place.
    pub(super) dependencies: Vec<(String, String)>,
    pub(super) timeout: Option<Seconds>,
}

/// A path with the name that the request gives it, and where it stands there.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) place: String,
    pub(super) name: String,
    /// Absolute and plain.
    pub(super) path: PathBuf,
}

/// Who does a task.
pub(super) struct Chosen {
    pub(super) settings: AgentSettings,
    /// The directory that says so; `None` where settings or a preset do.
    pub(super) dir: Option<PathBuf>,
}
