//! A task: one node of a batch's graph, in normal form, with every default already resolved.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::agent::Crew;
use super::batch::Batch;
use super::clock::Seconds;
use super::declared::DeclaredFiles;
use super::handoff::{Assignment, Check, Criterion, Wanted};
use super::id::TaskKey;

/// Most tries after the first: more would hide what is broken.
pub const RETRIES_MAX: u32 = 10;

/// To keep the outputs of a handed-over attempt as they were and as they became.
const INSPECTION_SECONDS: f64 = 600.0;

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
    /// Those of them that the plan wants removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_deleted: Vec<String>,
    /// Whether the declared files must be changed.
    #[serde(default, skip_serializing_if = "DeclaredFiles::is_must")]
    pub declared_files: DeclaredFiles,
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
    /// A line for `sh -c`, honoured where policy allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Who of ours does it; `None` waits for an outsider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crew: Option<Crew>,
    pub limits: Limits,
    /// What only a task of a handoff has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Box<Assignment>>,
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
            files_deleted: Vec::new(),
            declared_files: DeclaredFiles::Must,
            estimated_hours: None,
            dependencies: Vec::new(),
            stage: 1,
            validation_gates: Vec::new(),
            conflict_notes: None,
            agent: None,
            command: None,
            shell: None,
            crew: None,
            limits: Limits {
                timeout: none,
                heartbeat_timeout: none,
                heartbeat_interval: none,
                start_timeout: none,
                start_timeout_was_set: false,
                max_retries: 0,
                stuck_after: none,
            },
            assignment: None,
            extra: Map::new(),
        }
    }

    /// What it declares: files, directories and patterns that it changes or removes. Those of a handed-over task are
    /// its assignment's outputs.
    pub fn declared_places(&self) -> Vec<String> {
        if self.assignment.is_some() {
            return Vec::new();
        }
        let only_deleted = self.files_deleted.iter().filter(|file| !self.files_modified.contains(file));
        self.files_modified.iter().chain(only_deleted).cloned().collect()
    }

    /// Whether it brings something to run: then policy decides whether it may.
    pub fn brings_a_command(&self) -> bool {
        let assigned = self.assignment.as_ref().is_some_and(|assignment| assignment.brings_a_command());
        let own = self.command.is_some() || self.shell.is_some();
        // The command of a validation does nothing; its checks are what it brings.
        (own && !self.is_validation()) || assigned
    }

    /// Whether the client gave it values for its environment, which may be secrets.
    pub fn carries_values(&self) -> bool {
        let assigned = self.assignment.as_ref();
        assigned.is_some_and(|assignment| assignment.env.iter().any(|rule| rule.value.is_some()))
    }

    /// Whether it does no work of its own, and only checks the whole of a handed-over batch.
    pub fn is_validation(&self) -> bool {
        self.assignment.as_ref().is_some_and(|assignment| assignment.is_validation)
    }

    /// The gates that a command decides in this batch, as criteria by their texts.
    pub fn checked_gates(&self, batch: &Batch) -> impl Iterator<Item = Criterion> {
        self.gates_with_commands().filter(|_| batch.runs_gates)
    }

    /// The gates that a command could decide; those of a handed-over task are its assignment's criteria.
    pub fn gates_with_commands(&self) -> impl Iterator<Item = Criterion> {
        let gates = self.validation_gates.iter().filter(|_| self.assignment.is_none());
        gates.filter_map(|gate| {
            let line = gate.command.clone()?;
            let command = vec!["sh".to_owned(), "-c".to_owned(), line];
            let check = Some(Check { command, value: None, from_request: true });
            Some(Criterion { name: gate.text.clone(), wants: Wanted::Truth(true), check })
        })
    }

    /// How long an attempt may take in all. A handed-over one is looked at after its agent has ended, and each of
    /// its checks may take as long as the agent.
    pub fn longest_attempt(&self) -> Seconds {
        let timeout = self.limits.timeout.0;
        match &self.assignment {
            None => {
                // Whether they are run is the batch's matter; a limit that is too long harms nobody.
                let gates = self.validation_gates.iter().filter(|gate| gate.command.is_some()).count();
                Seconds(timeout * (1 + gates) as f64)
            }
            Some(assignment) => {
                let checks = assignment.criteria.iter().filter(|criterion| criterion.check.is_some()).count();
                Seconds(timeout * (1 + checks) as f64 + INSPECTION_SECONDS)
            }
        }
    }

    /// Results may carry the file key or the task id: seed 004 uses both for one task.
    pub fn answers_to(&self, name: &str) -> bool {
        self.task_id == name || self.key.as_str() == name
    }
}
