//! The `[agents.NAME]` tables of the settings file: what is started for a task.
//!
//! Strict: an unknown field, a command in one string or a mistyped limit is a defect with its line. Fields
//! that a table does not give come from its preset, if its name or its `preset` is one.

use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::prompt;
use super::settings::{line_of, syntax_defect};
use crate::model::agent::{AgentSettings, Agents, EnvRule, ResourceLimits};
use crate::model::preset::{Dialect, PRESETS, PROMPT_PLACE, Preset, PromptVia};
use crate::model::settings::{LAUNCHERS, is_name, nearest};
use crate::model::{Defect, TaskType};

const FIELDS: &[&str] = &[
    "preset",
    "command",
    "env",
    "plain_env",
    "cwd",
    "launcher",
    "limits",
    "protected",
    "prompt",
    "prompt_via",
    "output",
    "types",
];
const LIMITS: &[&str] = &["memory_mb", "cpu_seconds", "processes", "open_files", "file_size_mb", "log_mb"];

/// What `wk init` shows of agents.
pub(super) const EXAMPLE: &str = "
# Agents that are started for tasks, one table each. Presets: claude, codex, opencode, gemini, shell.
#
#     [agents.executor]
#     command = [\"claude\", \"-p\"]       # program and arguments; or preset = \"claude\"
#     env = [\"ANTHROPIC_API_KEY\"]       # what it may see beside PATH, HOME, LANG and TERM
#     types = [\"executor\", \"generator\"]
#     limits = { memory_mb = 4096, cpu_seconds = 3600, processes = 200 }
#     launcher = \"process\"              # or tmux, or external: somebody else starts it
";

/// Reads the whole `agents` table; everything that is wrong becomes a defect.
pub(super) fn read(value: &Spanned<DeValue<'_>>, text: &str, into: &mut Agents, defects: &mut Vec<Defect>) {
    let DeValue::Table(tables) = value.get_ref() else {
        let message = "'agents' must be tables: [agents.NAME]";
        defects.push(defect(text, value.span().start, message, "write [agents.NAME] and its fields below"));
        return;
    };
    for (name, table) in tables {
        let prefix = format!("agents.{}", name.get_ref());
        let mut reader = Reader { text, name: name.get_ref(), prefix, origin: Origin::Settings, defects };
        if !is_name(name.get_ref()) {
            let message = format!("'{}' cannot be an agent's name", name.get_ref());
            reader.tell(name.span().start, message, "use letters, digits, '-' and '_'");
        } else if let DeValue::Table(fields) = table.get_ref() {
            if let Some(agent) = reader.agent(fields, name.span().start) {
                into.named.insert(agent.name.clone(), agent);
            }
        } else {
            reader.tell(name.span().start, "must be a table".to_owned(), "write [agents.NAME]");
        }
    }
}

/// Reads the `agent.toml` of an agent's directory: the fields of one table. `run` is the program that lies
/// beside it, which is started where the file names none.
pub fn read_agent_file(name: &str, text: &str, run: Option<&str>) -> Result<AgentSettings, Vec<Defect>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut defects: Vec<Defect> = errors.iter().map(|error| syntax_defect(text, error)).collect();
    let prefix = "agent.toml".to_owned();
    let mut reader = Reader { text, name, prefix, origin: Origin::Directory { run }, defects: &mut defects };
    let agent = reader.agent(table.get_ref(), 0);
    agent.filter(|_| defects.is_empty()).ok_or(defects)
}

fn defect(text: &str, offset: usize, message: &str, remedy: &str) -> Defect {
    Defect::new("bad_agent", line_of(text, offset), message, remedy)
}

/// Where an agent is described.
#[derive(Clone, Copy)]
enum Origin<'a> {
    Settings,
    Directory { run: Option<&'a str> },
}

struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    /// How messages begin.
    prefix: String,
    origin: Origin<'a>,
    defects: &'a mut Vec<Defect>,
}

impl Reader<'_> {
    fn tell(&mut self, offset: usize, message: String, remedy: &str) {
        let message = format!("{}: {message}", self.prefix);
        self.defects.push(defect(self.text, offset, &message, remedy));
    }

    fn agent(&mut self, fields: &DeTable<'_>, at: usize) -> Option<AgentSettings> {
        let before = self.defects.len();
        let mut agent = self.base(fields);
        for (key, value) in fields {
            let known = FIELDS.contains(&key.get_ref().as_ref());
            if !known {
                let near = nearest(key.get_ref(), FIELDS.iter().copied());
                let hint = near.map_or(String::new(), |name| format!("; did you mean '{name}'?"));
                let message = format!("unknown field '{}'{hint}", key.get_ref());
                self.tell(key.span().start, message, "remove it, or write a field that there is");
                continue;
            }
            if key.get_ref() == "cwd" && matches!(self.origin, Origin::Directory { .. }) {
                let message = "'cwd' has no place here: the agent works in the request's workspace";
                self.tell(key.span().start, message.to_owned(), "remove it");
                continue;
            }
            if let Err(rule) = put(&mut agent, key.get_ref(), value.get_ref()) {
                let message = format!("'{}' {rule}", key.get_ref());
                self.tell(key.span().start, message, "choose a value that fits");
            }
        }
        if let Origin::Directory { run: Some(run) } = self.origin
            && agent.command.is_empty()
        {
            agent.command = vec![run.to_owned()];
        }
        if agent.command.is_empty() && agent.launcher.as_deref() != Some(crate::model::agent::EXTERNAL) {
            let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            let message = format!("has no command, and is no preset ({})", known.join(", "));
            self.tell(at, message, "write command = [\"program\", \"argument\"]");
        }
        let has_place = agent.command.iter().any(|word| word.contains(PROMPT_PLACE));
        if agent.prompt_via == PromptVia::Argument && !has_place {
            let message = format!("prompt_via is 'argument', and its command has no {PROMPT_PLACE}");
            self.tell(at, message, "put {prompt} into the command where the prompt belongs");
        }
        if let Some(script) = prompt::script_with_place(&agent.command) {
            let message =
                format!("'command' puts {script:?} into a shell's script: what a plan says would be run");
            let remedy =
                "pass it as an argument of its own: [\"sh\", \"-c\", 'echo \"$1\"', \"sh\", \"{prompt}\"]";
            self.tell(at, message, remedy);
        }
        (self.defects.len() == before).then_some(agent)
    }

    /// What the table starts from: its preset, if it has one.
    fn base(&mut self, fields: &DeTable<'_>) -> AgentSettings {
        let named = fields.iter().find(|(key, _)| key.get_ref() == "preset");
        let wanted = match named {
            Some((_, value)) => word(value.get_ref()).unwrap_or_default(),
            // A directory is not a preset because of its name.
            None if matches!(self.origin, Origin::Directory { .. }) => String::new(),
            None => self.name.to_owned(),
        };
        match Preset::named(&wanted) {
            Some(preset) => AgentSettings::of_preset(self.name, preset),
            None => {
                if let Some((key, _)) = named {
                    let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                    let message = format!("there is no preset '{wanted}'");
                    let remedy = format!("choose one of {}", known.join(", "));
                    self.tell(key.span().start, message, &remedy);
                }
                AgentSettings::named(self.name)
            }
        }
    }
}

fn put(agent: &mut AgentSettings, key: &str, value: &DeValue<'_>) -> Result<(), String> {
    match key {
        "command" => agent.command = command(value)?,
        "env" => agent.env.extend(environment(value)?),
        "plain_env" => {
            let rules = environment(value)?;
            agent.env.extend(rules.into_iter().map(|rule| EnvRule { plain: true, ..rule }));
        }
        "cwd" => agent.cwd = Some(word(value).ok_or("must be a path")?),
        "launcher" => agent.launcher = Some(one_of(value, LAUNCHERS)?),
        "limits" => agent.limits = limits(value)?,
        "protected" => match value {
            DeValue::Boolean(on) => agent.protected = *on,
            _ => return Err("must be true or false".to_owned()),
        },
        "prompt" => agent.prompt = Some(word(value).ok_or("must be a text")?),
        "prompt_via" => {
            let words: Vec<&str> = PromptVia::ALL.into_iter().map(PromptVia::word).collect();
            agent.prompt_via = PromptVia::parse(&one_of(value, &words)?).unwrap_or(agent.prompt_via);
        }
        "output" => {
            let words: Vec<&str> = Dialect::ALL.into_iter().map(Dialect::word).collect();
            agent.dialect = Dialect::parse(&one_of(value, &words)?).unwrap_or(agent.dialect);
        }
        "types" => agent.types = types(value)?,
        _ => {}
    }
    Ok(())
}

pub(super) fn word(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

fn words(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::Array(items) => items.iter().map(|item| word(item.get_ref())).collect(),
        _ => None,
    }
}

fn one_of(value: &DeValue<'_>, allowed: &[&str]) -> Result<String, String> {
    let given = word(value).filter(|given| allowed.contains(&given.as_str()));
    given.ok_or_else(|| format!("must be one of {}", allowed.join(", ")))
}

pub(super) fn command(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let rule = "must be a list of program and arguments, such as [\"claude\", \"-p\"]";
    let words = words(value).filter(|words| words.first().is_some_and(|program| !program.is_empty()));
    let words = words.ok_or(rule)?;
    match words.iter().any(|word| word.contains('\0')) {
        true => Err("must not contain a NUL".to_owned()),
        false => Ok(words),
    }
}

/// `["NAME", "NAME=value"]`, or a table of `NAME = "value"` and `NAME = true` (inherited).
fn environment(value: &DeValue<'_>) -> Result<Vec<EnvRule>, String> {
    let rule = |name: &str, value: Option<String>| match is_variable(name) {
        true => Ok(EnvRule { name: name.to_owned(), value, plain: false }),
        false => Err(format!("has '{name}', which is no variable's name")),
    };
    match value {
        DeValue::Table(entries) => entries
            .iter()
            .map(|(name, value)| match value.get_ref() {
                DeValue::Boolean(true) => rule(name.get_ref(), None),
                DeValue::String(text) => rule(name.get_ref(), Some(text.to_string())),
                _ => Err(format!("'{}' must be a text, or true to inherit it", name.get_ref())),
            })
            .collect(),
        _ => words(value)
            .ok_or("must be a list of names, or a table")?
            .iter()
            .map(|entry| match entry.split_once('=') {
                Some((name, value)) => rule(name, Some(value.to_owned())),
                None => rule(entry, None),
            })
            .collect(),
    }
}

/// What may name a variable of the environment.
pub fn is_variable(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_plain) && !name.as_bytes()[0].is_ascii_digit()
}

fn types(value: &DeValue<'_>) -> Result<Vec<TaskType>, String> {
    let known: Vec<&str> = TaskType::ALL.into_iter().map(TaskType::word).collect();
    let rule = || format!("must be a list of {}", known.join(", "));
    let words = words(value).ok_or_else(rule)?;
    words.iter().map(|word| TaskType::parse(word).ok_or_else(rule)).collect()
}

fn limits(value: &DeValue<'_>) -> Result<ResourceLimits, String> {
    let DeValue::Table(entries) = value else { return Err("must be a table".to_owned()) };
    let mut limits = ResourceLimits::default();
    let mut wrong = Vec::new();
    for (name, value) in entries {
        let number = match value.get_ref() {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
            _ => None,
        };
        let place = match name.get_ref().as_ref() {
            "memory_mb" => &mut limits.memory_mb,
            "cpu_seconds" => &mut limits.cpu_seconds,
            "processes" => &mut limits.processes,
            "open_files" => &mut limits.open_files,
            "file_size_mb" => &mut limits.file_size_mb,
            "log_mb" => &mut limits.log_mb,
            other => {
                wrong.push(format!("has no '{other}' (there are {})", LIMITS.join(", ")));
                continue;
            }
        };
        *place = number.filter(|number| *number > 0);
        if place.is_none() {
            wrong.push(format!("'{}' must be a whole number above 0", name.get_ref()));
        }
    }
    if wrong.is_empty() { Ok(limits) } else { Err(wrong.join("; ")) }
}

/// What looks like a name to be filled in, and is left as it is. It may be meant so: a warning, no defect.
pub fn template_warnings(agent: &AgentSettings) -> Vec<String> {
    let tell = |field: &str, template: &str, known: &[&str]| -> Vec<String> {
        let unknown = prompt::unknown_names(template, known);
        let told = |name: &&str| {
            let agent = &agent.name;
            format!(
                "agents.{agent}: '{field}' has {{{name}}}, which is left as it is; there are {}",
                known.join(", ")
            )
        };
        unknown.iter().map(told).collect()
    };
    let command = agent.command.iter().flat_map(|word| tell("command", word, prompt::COMMAND_NAMES));
    command.chain(agent.prompt.iter().flat_map(|text| tell("prompt", text, prompt::NAMES))).collect()
}

/// Types that more than one agent would serve: the first by name does, which nobody may have meant.
pub fn type_warnings(agents: &Agents) -> Vec<String> {
    if agents.for_all.is_some() {
        return Vec::new();
    }
    let told = |kind: TaskType| {
        let serving = agents.named.values().filter(|agent| agent.serves(kind));
        let names: Vec<&str> = serving.map(|agent| agent.name.as_str()).collect();
        let (first, kind) = (names.first()?, kind.word());
        (names.len() > 1).then(|| format!("agents {} all serve '{kind}'; {first} is taken", names.join(", ")))
    };
    TaskType::ALL.into_iter().filter_map(told).collect()
}

/// The tables as a JSON Schema, for editors.
pub(super) fn schema() -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let env = json!({"anyOf": [texts, {"type": "object",
        "additionalProperties": {"anyOf": [{"type": "string"}, {"const": true}]}}]});
    let limit = json!({"type": "integer", "minimum": 1});
    let limits: serde_json::Map<String, Value> =
        LIMITS.iter().map(|name| ((*name).to_owned(), limit.clone())).collect();
    let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let dialects: Vec<&str> = Dialect::ALL.into_iter().map(Dialect::word).collect();
    let ways: Vec<&str> = PromptVia::ALL.into_iter().map(PromptVia::word).collect();
    let types: Vec<&str> = TaskType::ALL.into_iter().map(TaskType::word).collect();
    json!({
        "type": "object",
        "description": "agents that are started for tasks, by name",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "preset": {"enum": presets},
                "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "env": env, "plain_env": env, "cwd": text,
                "launcher": {"enum": LAUNCHERS},
                "limits": {"type": "object", "properties": limits, "additionalProperties": false},
                "protected": {"type": "boolean"}, "prompt": text,
                "prompt_via": {"enum": ways}, "output": {"enum": dialects},
                "types": {"type": "array", "items": {"enum": types}},
            },
            "additionalProperties": false,
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::format::settings::read_toml;
    use crate::model::{Settings, TaskType};

    fn read(text: &str) -> Result<Settings, Vec<String>> {
        let mut settings = Settings::default();
        let read = read_toml(text, &mut settings);
        read.map(|()| settings)
            .map_err(|defects| defects.iter().map(|defect| format!("{}: {defect}", defect.place)).collect())
    }

    #[test]
    fn an_agent_has_what_its_table_says_and_the_rest_from_its_preset() {
        let settings = read(
            "[agents.mine]\ncommand = [\"prog\", \"-x\"]\nenv = [\"TOKEN\", \"MODE=fast\"]\n\
             types = [\"executor\", \"reviewer\"]\nlimits = { memory_mb = 512 }\nprotected = true\n\
             [agents.runs]\npreset = \"shell\"\n",
        )
        .unwrap();
        let mine = &settings.agents.named["mine"];
        assert_eq!(mine.command, ["prog", "-x"]);
        assert_eq!(mine.env[1].value.as_deref(), Some("fast"));
        assert_eq!(mine.limits.memory_mb, Some(512));
        assert!(mine.protected && mine.serves(TaskType::Reviewer) && !mine.serves(TaskType::Generator));
        assert_eq!(settings.agents.named["runs"].command[0], "sh");
    }

    #[test]
    fn an_agent_serves_the_type_of_its_name_unless_it_says_what_it_serves() {
        let text = "[agents.executor]\ncommand = [\"x\"]\n[agents.reviewer]\ncommand = [\"x\"]\ntypes = []\n";
        let agents = read(text).unwrap().agents.named;
        assert!(agents["executor"].serves(TaskType::Executor));
        assert!(!agents["reviewer"].serves(TaskType::Reviewer), "an empty list is nothing");
    }

    #[test]
    fn what_a_plan_says_is_never_part_of_a_shells_script() {
        for command in [
            r#"["sh", "-c", "echo {prompt}"]"#,
            r#"["sh", "-c", "{prompt}"]"#,
            r#"["/bin/bash", "-lc", "run {task_id} --root {root}"]"#,
            r#"["env", "A=b", "dash", "-e", "-o", "nounset", "-c", "cat {spec_file}"]"#,
            r#"["zsh", "-ec", "--", "x {shell}"]"#,
            r#"["busybox", "ash", "-c", "-x", "x {task}"]"#,
        ] {
            let defects = read(&format!("[agents.a]\ncommand = {command}\n")).unwrap_err();
            assert!(defects[0].contains("agents.a") && defects[0].contains("shell's script"), "{defects:?}");
        }
        for command in [
            r#"["sh", "-c", "{shell}"]"#,
            r#"["sh", "-c", "echo \"$1\"", "sh", "{prompt}"]"#,
            r#"["sh", "-c", "echo ${HOME} {other}"]"#,
            r#"["sh", "run.sh", "{prompt}"]"#,
            r#"["prog", "-c", "{prompt}"]"#,
        ] {
            read(&format!("[agents.a]\ncommand = {command}\n")).unwrap();
        }
    }

    #[test]
    fn two_agents_for_one_type_are_warned_about() {
        let two = "[agents.a]\ncommand = [\"x\"]\ntypes = [\"executor\"]\n\
                   [agents.executor]\ncommand = [\"x\"]\n";
        let mut agents = read(two).unwrap().agents;
        let told = super::type_warnings(&agents);
        assert_eq!(told, ["agents a, executor all serve 'executor'; a is taken"]);
        agents.for_all = Some("a".to_owned());
        assert!(super::type_warnings(&agents).is_empty(), "then the type decides nothing");
    }

    #[test]
    fn everything_wrong_with_agents_is_told_at_once_with_its_line() {
        let defects = read(
            "[agents.a]\ncommand = \"rm -rf /\"\n[agents.b]\ncomand = [\"x\"]\n[agents.c]\ncommand = [\"x\"]\n\
             limits = { memory = 3, cpu_seconds = 0 }\ntypes = [\"cook\"]\nlauncher = \"ssh\"\nenv = [\"A B=c\"]\n\
             [agents.d]\ncommand = [\"x\"]\nprompt_via = \"argument\"\n",
        )
        .unwrap_err()
        .join("\n");
        for part in [
            "line 2",
            "must be a list",
            "did you mean 'command'",
            "has no 'memory'",
            "'cpu_seconds' must be a whole number above 0",
            "executor",
            "one of process",
            "has no {prompt}",
            "A B",
        ] {
            assert!(defects.contains(part), "{part} in:\n{defects}");
        }
    }
}
