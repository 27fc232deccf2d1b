//! Who does a task of a handed-over request: the agent of a directory, of the settings, or a preset.

use std::path::Path;

use super::draft::Chosen;
use super::{Reading, paths};
use crate::format::shortened;
use crate::model::agent::{AgentSettings, EXTERNAL, OWN_COMMAND, TMUX};
use crate::model::{Defect, Place, TaskKey};

/// An execution request's agent: its directory says how it is started; where it does not, settings may.
pub(super) fn of_directory(name: &str, path: &str, place: &str, reading: &mut Reading<'_>) -> Option<Chosen> {
    let dir = match paths::read(path, None) {
        Ok(dir) => dir,
        Err(why) => {
            let message = format!("{:?} {why}", shortened(path));
            reading.report.refuse("bad_agent_path", place, message, "write the whole path, from '/' on");
            return None;
        }
    };
    match reading.around.agent_directory(name, &dir) {
        Ok(Some(settings)) => {
            judge_start(&settings, place, reading);
            Some(Chosen { settings, dir: Some(dir) })
        }
        Ok(None) => named(name, place, reading).or_else(|| {
            let message = format!("{} has neither agent.toml nor run", dir.display());
            let remedy = format!("put one of them there, or [agents.{name}] into settings");
            reading.report.refuse("agent_says_nothing", place, message, remedy);
            None
        }),
        Err(defects) => {
            tell(defects, place, reading);
            None
        }
    }
}

/// An assignment's agent, with the name that reports call it by: one of the settings, a preset, or a directory.
pub(super) fn of_assignment(
    agent: &str,
    context: Option<&Path>,
    workspace: Option<&Path>,
    place: &str,
    reading: &mut Reading<'_>,
) -> (String, Option<Chosen>) {
    if let Some(chosen) = named(agent, place, reading) {
        return (agent.to_owned(), Some(chosen));
    }
    let dir = match paths::read(agent, Some(workspace.unwrap_or(Path::new("/")))) {
        Ok(dir) => dir,
        Err(why) => {
            let message = format!("{:?} {why}", shortened(agent));
            reading.report.refuse("bad_agent_path", place, message, "name an agent, or its directory");
            return (agent.to_owned(), None);
        }
    };
    let last = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = last.unwrap_or_else(|| agent.to_owned());
    if let Err(why) = TaskKey::parse(&name) {
        let message = format!("{name:?} {why}");
        reading.report.refuse(
            "bad_agent_name",
            place,
            message,
            "its logs are named after it; rename the directory",
        );
        return (name, None);
    }
    let around = reading.around;
    let is_directory = |dir: &Path| around.entry(dir).is_some_and(|entry| entry.is_directory());
    // A context that is a directory may be the agent's own.
    let looked_at = [dir.as_path()].into_iter().chain(context.filter(|dir| is_directory(dir)));
    for dir in looked_at.clone().filter(|dir| is_directory(dir)) {
        match reading.around.agent_directory(&name, dir) {
            Ok(Some(settings)) => {
                judge_start(&settings, place, reading);
                return (name, Some(Chosen { settings, dir: Some(dir.to_owned()) }));
            }
            Ok(None) => {}
            Err(defects) => {
                tell(defects, place, reading);
                return (name, None);
            }
        }
    }
    let known = reading.settings.agents.known(agent).err().and_then(|unknown| unknown.nearest);
    let hint = known.as_ref().map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    let message = format!(
        "{:?} is neither an agent of the settings, nor a preset, nor a directory with agent.toml or run \
         (looked at {}){hint}",
        shortened(agent),
        looked_at.map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" and "),
    );
    let remedy = match known {
        Some(near) => format!("write '{near}', or name it in settings as [agents.NAME]"),
        None => "name it in settings as [agents.NAME], take a preset, or write its directory".to_owned(),
    };
    reading.report.refuse("unknown_agent", place, message, remedy);
    (name, None)
}

fn named(name: &str, place: &str, reading: &mut Reading<'_>) -> Option<Chosen> {
    let settings = reading.settings.agents.find(name).filter(|_| name != OWN_COMMAND)?;
    judge_start(&settings, place, reading);
    Some(Chosen { settings, dir: None })
}

/// What would keep the agent from being started is told now, and not when others have worked already.
fn judge_start(agent: &AgentSettings, place: &str, reading: &mut Reading<'_>) {
    let launcher = agent.launcher.as_ref().or(reading.settings.agents.launcher.as_ref());
    if launcher.is_some_and(|launcher| launcher == EXTERNAL) {
        return;
    }
    let values = agent.env.iter().filter_map(|rule| rule.value.as_ref());
    if agent.command.iter().chain(values).any(|word| word.contains('\0')) {
        let message = format!("the command or environment of '{}' contains a NUL character", agent.name);
        reading.report.refuse("bad_agent", place, message, "remove it");
        return;
    }
    let own = agent.env.iter().find(|rule| rule.name == "PATH").and_then(|rule| rule.value.as_deref());
    // A program with a slash in its name is looked for by whoever reads the directory, or in the workspace.
    let program = agent.command.first().filter(|program| !program.contains('/'));
    if let Some(program) = program.filter(|program| !reading.around.has_program(program, own)) {
        let message = format!("there is no program '{}' in PATH, which starts the agent", shortened(program));
        let remedy = "install it, or give its full path in the agent's command";
        reading.report.refuse("program_missing", place, message, remedy);
    }
    if let Some(missing) =
        agent.command.first().and_then(|program| missing_interpreter(program, own, reading))
    {
        let message = format!("the agent's program {missing}, which is not there");
        let remedy = "install it, or correct the first line of the program";
        reading.report.refuse("interpreter_missing", place, message, remedy);
    }
    if launcher.is_some_and(|launcher| launcher == TMUX) && !reading.around.has_program(TMUX, None) {
        let message = "the agent is to be started in tmux, and there is no program 'tmux' in PATH";
        reading.report.refuse("launcher_missing", place, message, "install it, or take the launcher process");
    }
}

/// What the first line of a script asks for and nobody has: `#!/usr/bin/python9`, `#!/usr/bin/env node`.
fn missing_interpreter(program: &str, path: Option<&str>, reading: &Reading<'_>) -> Option<String> {
    let text = Path::new(program).is_absolute().then(|| reading.around.beginning(Path::new(program)))??;
    let line = text.strip_prefix("#!")?.lines().next()?;
    let mut words = line.split_whitespace();
    let interpreter = words.next()?;
    let told = || format!("is a script of {:?}", shortened(line.trim()));
    if !Path::new(interpreter).is_absolute() {
        return None;
    }
    if reading.around.entry(Path::new(interpreter)).is_none() {
        return Some(told());
    }
    let is_env = Path::new(interpreter).file_name().is_some_and(|name| name == "env");
    let named = words.find(|word| !word.starts_with('-') && !word.contains('=')).filter(|_| is_env)?;
    (!named.contains('/') && !reading.around.has_program(named, path)).then(told)
}

/// A directory's defects, at the field that names it.
fn tell(defects: Vec<Defect>, place: &str, reading: &mut Reading<'_>) {
    for defect in defects {
        let message = match &defect.place {
            Place::Line(line) => {
                let bare = defect.message.strip_prefix("agent.toml: ").unwrap_or(&defect.message);
                format!("agent.toml, line {line}: {bare}")
            }
            _ => defect.message,
        };
        reading.report.refuse(&defect.rule, place, message, defect.remedy);
    }
}
