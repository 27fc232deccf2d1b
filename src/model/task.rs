//! A task: one node of a batch's graph, in normal form, with every default already resolved.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::clock::Seconds;
use super::id::TaskKey;

/// Most tries after the first: more would hide what is broken.
pub const RETRIES_MAX: u32 = 10;

/// What kind of agent a task is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskType {
    Generator,
    Executor,
    Reviewer,
    ContextUpdater,
}

impl TaskType {
    pub const ALL: [TaskType; 4] =
        [TaskType::Generator, TaskType::Executor, TaskType::Reviewer, TaskType::ContextUpdater];

    pub fn word(self) -> &'static str {
        match self {
            TaskType::Generator => "generator",
            TaskType::Executor => "executor",
            TaskType::Reviewer => "reviewer",
            TaskType::ContextUpdater => "context-updater",
        }
    }

    pub fn parse(word: &str) -> Option<TaskType> {
        TaskType::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for TaskType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A validation gate of a plan. One that is just a command in backticks is a criterion with that
/// command; any other is something that only the agent can claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Gate {
    pub fn of(text: String) -> Self {
        let quoted = text.trim().strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        let command = quoted
            .map(str::trim)
            .filter(|command| !command.is_empty() && !command.contains('`'))
            .map(str::to_owned);
        Gate { text, command }
    }
}

/// The clocks and bounds of one task, resolved from its spec, its batch and the settings at acceptance,
/// so that editing settings never changes a batch that already runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Longest attempt, counted from its first sign of life.
    pub timeout: Seconds,
    /// Longest silence between two beats.
    pub heartbeat_timeout: Seconds,
    /// How often the agent is told to beat.
    pub heartbeat_interval: Seconds,
    /// From the start of an attempt to its first beat.
    pub start_timeout: Seconds,
    /// Somebody set `start_timeout` on purpose: then it also counts for an outsider that has not yet come.
    pub start_timeout_was_set: bool,
    /// Tries after the first.
    pub max_retries: u32,
    /// Without progress for this long a task is shown as stuck.
    pub stuck_after: Seconds,
}

/// One node of a batch's graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub key: TaskKey,
    /// As results may name it: `phase-2a`. Unique in its batch, like the key.
    pub task_id: String,
    #[serde(rename = "type")]
    pub kind: TaskType,
    /// As the plan heads it: `Phase 2a: Analyzer`.
    pub phase_name: String,
    pub goal: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    pub complexity: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_hours: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<TaskKey>,
    /// Longest-path level, from 1. What people see; not a barrier.
    pub stage: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation_gates: Vec<Gate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict_notes: Option<String>,
    /// The agent in settings that the request chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// An explicit command (argv), honoured where policy allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    pub limits: Limits,
    /// Fields that we do not know: kept, and handed to the agent.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl Task {
    /// The part of the heading that names the task to people: `Phase 2a`, or the key where there is none.
    pub fn label(&self) -> &str {
        match self.phase_name.split_once(':') {
            Some((head, _)) => head.trim(),
            None if self.phase_name.is_empty() => self.key.as_str(),
            None => &self.phase_name,
        }
    }

    /// Stands for a dropped spec that was refused: there is nothing to run, but the task has ended.
    pub fn refused(key: &TaskKey) -> Task {
        let none = Seconds(0.0);
        Task {
            key: key.clone(),
            task_id: key.as_str().to_owned(),
            kind: TaskType::Executor,
            phase_name: key.as_str().to_owned(),
            goal: String::new(),
            steps: Vec::new(),
            complexity: String::new(),
            files_modified: Vec::new(),
            estimated_hours: None,
            dependencies: Vec::new(),
            stage: 1,
            validation_gates: Vec::new(),
            conflict_notes: None,
            agent: None,
            command: None,
            limits: Limits {
                timeout: none,
                heartbeat_timeout: none,
                heartbeat_interval: none,
                start_timeout: none,
                start_timeout_was_set: false,
                max_retries: 0,
                stuck_after: none,
            },
            extra: Map::new(),
        }
    }

    /// Results may carry the file key or the task id: seed 004 uses both for one task.
    pub fn answers_to(&self, name: &str) -> bool {
        self.task_id == name || self.key.as_str() == name
    }
}
