//! An agent as settings name it: what is started for a task, with what, and within which limits.
//!
//! Data alone. `format::agents` reads it from TOML, `agent` starts it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::preset::{Dialect, PRESETS, Preset, PromptVia, SHELL_PLACE};
use super::settings::nearest;
use super::task::{Task, TaskType};

/// The launcher that starts nothing: its tasks wait for outsiders.
pub const EXTERNAL: &str = "external";
/// The launcher that needs nothing.
pub const PROCESS: &str = "process";
/// Starts agents in sessions of a terminal that people can attach to.
pub const TMUX: &str = "tmux";
/// The name under which a task's own command runs.
pub const OWN_COMMAND: &str = "command";

/// One `[agents.NAME]` table, completed by its preset.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    pub name: String,
    /// Program and arguments; never a shell's line.
    pub command: Vec<String>,
    /// Variables that it may see, beside the few that everyone has.
    pub env: Vec<EnvRule>,
    /// Relative to the root; the root itself where absent.
    pub cwd: Option<String>,
    pub launcher: Option<String>,
    pub limits: ResourceLimits,
    /// Accepts only the coordinator and the user.
    pub protected: bool,
    /// A template with the spec's fields; the built-in one where absent.
    pub prompt: Option<String>,
    pub prompt_via: PromptVia,
    pub dialect: Dialect,
    /// The task types that it serves without being named.
    pub types: Vec<TaskType>,
}

impl AgentSettings {
    /// An agent of which nothing is known but its name.
    pub fn named(name: &str) -> Self {
        AgentSettings {
            name: name.to_owned(),
            command: Vec::new(),
            env: Vec::new(),
            cwd: None,
            launcher: None,
            limits: ResourceLimits::default(),
            protected: false,
            prompt: None,
            prompt_via: PromptVia::Stdin,
            dialect: Dialect::Plain,
            // Where it does not list what it serves, the type of its own name.
            types: TaskType::parse(name).into_iter().collect(),
        }
    }

    /// What a preset knows, under a name.
    pub fn of_preset(name: &str, preset: &Preset) -> Self {
        // A preset's keys and tokens are secrets; where it keeps its configuration is not.
        let is_secret = |name: &str| name.contains("KEY") || name.contains("TOKEN");
        let inherited =
            |name: &&str| EnvRule { name: (*name).to_owned(), value: None, plain: !is_secret(name) };
        AgentSettings {
            command: preset.command.iter().map(|word| (*word).to_owned()).collect(),
            env: preset.environment.iter().map(inherited).collect(),
            prompt_via: preset.prompt_via,
            dialect: preset.dialect,
            ..AgentSettings::named(name)
        }
    }

    /// Whether it does nothing but the task's own line, and the task has none: it would do nothing, and call that
    /// a success.
    pub fn lacks_line(&self, task: &Task) -> bool {
        let runs_line = self.command.iter().any(|word| word.contains(SHELL_PLACE));
        runs_line && task.shell.is_none() && task.command.is_none()
    }

    /// Whether it does tasks of this type that name nobody.
    pub fn serves(&self, kind: TaskType) -> bool {
        self.types.contains(&kind)
    }
}

/// One variable of an agent's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvRule {
    pub name: String,
    /// `None`: inherited from whoever runs `wk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value is no secret, and may stand in logs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
}

/// What an agent's whole tree may use. `None` is no limit of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_mb: Option<u64>,
    /// Most bytes of each log; older ones make room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_mb: Option<u64>,
}

/// Who does a task: decided when its batch is accepted, so that editing settings changes nothing under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crew {
    /// A name in settings, a preset, or `command` for the task's own.
    pub agent: String,
    pub launcher: String,
}

/// Everything that settings say about agents.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agents {
    pub named: BTreeMap<String, AgentSettings>,
    /// Who does what names nobody: `agent` in settings, or `--agent`.
    pub for_all: Option<String>,
    /// How agents that do not say are launched.
    pub launcher: Option<String>,
}

/// A task asks for an agent that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent '{name}' is neither in settings nor a preset")]
pub struct UnknownAgent {
    pub name: String,
    pub nearest: Option<String>,
}

impl Agents {
    /// The agent of this name: as settings say, or a preset as it is.
    pub fn find(&self, name: &str) -> Option<AgentSettings> {
        if name == OWN_COMMAND {
            return Some(AgentSettings { prompt_via: PromptVia::None, ..AgentSettings::named(OWN_COMMAND) });
        }
        let preset = || Preset::named(name).map(|preset| AgentSettings::of_preset(name, preset));
        self.named.get(name).cloned().or_else(preset)
    }

    /// Whether there is such an agent.
    pub fn known(&self, name: &str) -> Result<(), UnknownAgent> {
        if self.find(name).is_some() {
            return Ok(());
        }
        let known = self.named.keys().map(String::as_str);
        let known = known.chain(PRESETS.iter().map(|preset| preset.name));
        let nearest = nearest(name, known).map(str::to_owned);
        Err(UnknownAgent { name: name.to_owned(), nearest })
    }

    /// Who does a task: whom it names, its own command, the agent for all, whoever serves its type.
    pub fn crew_of(&self, task: &Task) -> Result<Option<Crew>, UnknownAgent> {
        let name = match &task.agent {
            Some(name) => name.as_str(),
            None if task.brings_a_command() => OWN_COMMAND,
            None => match self.for_all.as_deref().or_else(|| self.serving(task.kind)) {
                Some(name) => name,
                None => return Ok(None),
            },
        };
        self.known(name)?;
        let own = self.named.get(name).and_then(|agent| agent.launcher.as_deref());
        let launcher = own.or(self.launcher.as_deref()).unwrap_or(PROCESS);
        if launcher == EXTERNAL {
            return Ok(None);
        }
        Ok(Some(Crew { agent: name.to_owned(), launcher: launcher.to_owned() }))
    }

    /// The agent that is to run a task's own line although there is none.
    pub fn without_line(&self, task: &Task) -> Option<AgentSettings> {
        let agent = self.find(&task.crew.as_ref()?.agent)?;
        agent.lacks_line(task).then_some(agent)
    }

    fn serving(&self, kind: TaskType) -> Option<&str> {
        self.named.values().find(|agent| agent.serves(kind)).map(|agent| agent.name.as_str())
    }
}
