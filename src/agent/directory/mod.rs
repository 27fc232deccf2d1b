//! Agent directories: how the agent of a directory is started, by its `agent.toml` or by its `run`.
//!
//! Reads, and starts nothing. Nothing of a directory is executed but the one program that it names itself,
//! and that only if nobody but its owner and the administrator could have put it there.

use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::format::agents::read_agent_file;
use crate::model::agent::{AgentSettings, EXTERNAL};
use crate::model::{Defect, Place};

const AGENT_FILE: &str = "agent.toml";
const RUN: &str = "run";
/// Stands for the directory itself in the arguments of a command.
const DIR_PLACE: &str = "{agent_dir}";
/// Longest `agent.toml`, in bytes: a prompt may stand in it.
const AGENT_FILE_BYTES_MAX: u64 = 256 << 10;
const ADMINISTRATOR: u32 = 0;

/// How the agent of a directory is started. `None`: it has neither `agent.toml` nor `run`. Where it has both,
/// `agent.toml` says everything, and `run` is the program if it names none.
pub fn read(name: &str, dir: &Path) -> Result<Option<AgentSettings>, Vec<Defect>> {
    let directory = Directory::open(dir).map_err(|defect| vec![defect])?;
    let mut defects = Vec::new();
    let file = directory.text_of(AGENT_FILE).unwrap_or_else(|defect| {
        defects.push(defect);
        None
    });
    let has_run = std::fs::symlink_metadata(directory.real.join(RUN)).is_ok();
    if !defects.is_empty() {
        return Err(defects);
    }
    let run = has_run.then(|| directory.real.join(RUN).to_string_lossy().into_owned());
    let mut agent = match (file, run) {
        (None, None) => return Ok(None),
        (Some(text), run) => read_agent_file(name, &text, run.as_deref())?,
        (None, Some(run)) => AgentSettings { command: vec![run], ..AgentSettings::named(name) },
    };
    if agent.launcher.as_deref() != Some(EXTERNAL) {
        directory.settle_command(&mut agent.command).map_err(|defect| vec![defect])?;
    }
    Ok(Some(agent))
}

/// A directory that only its owner and the administrator can change.
struct Directory {
    /// Without links.
    real: PathBuf,
}

impl Directory {
    fn open(dir: &Path) -> Result<Directory, Defect> {
        let shown = dir.display();
        let real = std::fs::canonicalize(dir).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                refusal("agent_path_missing", format!("{shown} does not exist"), "correct the path")
            }
            _ => refusal("agent_path_missing", format!("{shown}: {error}"), "make it readable"),
        })?;
        let metadata = look(&real)?;
        if !metadata.is_dir() {
            let message = format!("{shown} is not a directory");
            return Err(refusal(
                "agent_path_missing",
                message,
                "name the directory that holds agent.toml or run",
            ));
        }
        guard(&real, &metadata)?;
        Ok(Directory { real })
    }

    /// A text file of the directory, if it is there.
    fn text_of(&self, name: &str) -> Result<Option<String>, Defect> {
        let path = self.real.join(name);
        if std::fs::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        let path = self.inside(&path)?;
        let metadata = look(&path)?;
        let shown = path.display();
        if !metadata.is_file() {
            let message = format!("{shown} is not a regular file");
            return Err(refusal("bad_agent_file", message, "replace it"));
        }
        guard(&path, &metadata)?;
        let mut text = String::new();
        let read = std::fs::File::open(&path)
            .and_then(|file| file.take(AGENT_FILE_BYTES_MAX + 1).read_to_string(&mut text));
        read.map_err(|error| refusal("bad_agent_file", format!("{shown}: {error}"), "make it readable"))?;
        if text.len() as u64 > AGENT_FILE_BYTES_MAX {
            let message = format!("{shown} has more than {AGENT_FILE_BYTES_MAX} bytes");
            return Err(refusal("bad_agent_file", message, "put long texts into files of their own"));
        }
        Ok(Some(text))
    }

    /// Finds the program, and fills in where the directory is.
    fn settle_command(&self, command: &mut [String]) -> Result<(), Defect> {
        for argument in command.iter_mut() {
            *argument = argument.replace(DIR_PLACE, &self.real.to_string_lossy());
        }
        let Some(program) = command.first_mut() else { return Ok(()) };
        let beside = self.real.join(&*program);
        let is_beside = program.contains('/') || std::fs::symlink_metadata(&beside).is_ok();
        if !is_beside {
            // A name alone is looked for in PATH, as every agent's is.
            return Ok(());
        }
        let path = match Path::new(&*program).is_absolute() && !Path::new(&*program).starts_with(&self.real) {
            true => PathBuf::from(&*program),
            false => self.inside(&beside)?,
        };
        let metadata = look(&path)?;
        if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
            let message = format!("{} is not an executable file", path.display());
            return Err(refusal("agent_not_executable", message, "chmod +x it, or name another program"));
        }
        guard(&path, &metadata)?;
        *program = path.to_string_lossy().into_owned();
        Ok(())
    }

    /// The path without links, which must not lead out.
    fn inside(&self, path: &Path) -> Result<PathBuf, Defect> {
        let real = std::fs::canonicalize(path).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            refusal("bad_agent_file", message, "correct the name, or what the link leads to")
        })?;
        if !real.starts_with(&self.real) {
            let message =
                format!("{} leads out of the agent's directory, to {}", path.display(), real.display());
            return Err(refusal("agent_leads_out", message, "put the file itself into the directory"));
        }
        Ok(real)
    }
}

fn look(path: &Path) -> Result<Metadata, Defect> {
    std::fs::metadata(path).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        refusal("bad_agent_file", message, "make it readable")
    })
}

/// Whatever others can change, others can run as us.
fn guard(path: &Path, metadata: &Metadata) -> Result<(), Defect> {
    let shown = path.display();
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user && metadata.uid() != ADMINISTRATOR {
        let message =
            format!("{shown} belongs to user {}, who is neither we nor the administrator", metadata.uid());
        return Err(refusal("agent_not_ours", message, "take a copy of your own"));
    }
    if metadata.mode() & 0o002 != 0 {
        let message = format!("{shown} can be changed by everybody");
        return Err(refusal("agent_not_safe", message, "chmod o-w it"));
    }
    Ok(())
}

fn refusal(rule: &str, message: String, remedy: &str) -> Defect {
    Defect::new(rule, Place::File, message, remedy)
}

#[cfg(test)]
mod tests;
