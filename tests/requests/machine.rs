//! A machine that is not there: what requests may ask of it, answered from a list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use watchkeeper::format::settings::read_toml;
use watchkeeper::intake::{Entry, EntryKind, Surroundings};
use watchkeeper::model::agent::{AgentSettings, EnvRule};
use watchkeeper::model::{Defect, Place, Settings};

pub const ANN: u32 = 1000;
const ROOT: u32 = 0;
const OTHER: u32 = 1001;

/// The machine of every scene here. Ann is the user; the bus is at `/project/.ce`.
pub struct Machine {
    entries: BTreeMap<PathBuf, Entry>,
    /// Where links lead.
    links: BTreeMap<PathBuf, PathBuf>,
    texts: BTreeMap<PathBuf, String>,
    pub lacks_tmux: bool,
}

impl Machine {
    pub fn new() -> Self {
        let mut machine = Machine {
            entries: BTreeMap::new(),
            links: BTreeMap::new(),
            texts: BTreeMap::new(),
            lacks_tmux: false,
        };
        machine
            .directory("/", ROOT, 0o755)
            .directory("/tmp", ROOT, 0o1777)
            .directory("/var/tmp", ROOT, 0o1777);
        machine.directory("/u", ROOT, 0o755).directory("/u/ann", ANN, 0o750).directory(
            "/u/ann/ws",
            ANN,
            0o750,
        );
        machine.directory("/project", ANN, 0o755).directory("/project/.ce", ANN, 0o755);
        machine.directory("/others", OTHER, 0o755).directory("/others/ws", OTHER, 0o755);
        machine.directory("/open", ANN, 0o777).directory("/open/ws", ANN, 0o777);
        machine.directory("/read-only", ANN, 0o755).directory("/read-only/ws", ANN, 0o755);
        machine.directory("/locked", ANN, 0o555).file("/tmp/orchestration/file", "");
        machine.directory("/tmp/orchestration", ANN, 0o755).directory(
            "/tmp/orchestration/codebase",
            ANN,
            0o755,
        );
        machine.directory("/tmp/orchestration/exec-20251030-1430-abc123", ANN, 0o755);
        machine.file(
            "/tmp/orchestration/exec-20251030-1430-abc123/inputs/requirements/auth-spec.md",
            "# Auth\n",
        );
        machine.directory("/tmp/orchestration/taken", ANN, 0o755);
        machine.file("/tmp/orchestration/taken/execution_request.json", "{}");
        machine.file("/tmp/orchestration/taken/status.json", "{}");
        machine.directory("/tmp/orchestration/assigned", ANN, 0o755);
        machine.file("/tmp/orchestration/assigned/assignments.json", "{}");
        machine.file("/tmp/orchestration/assigned/status.json", "{}");
        machine.directory("/tmp/orchestration/idle", ANN, 0o755);
        machine.file("/tmp/orchestration/idle/assignments.json", "{}");
        machine.link("/settings", "/etc", ROOT).link("/alias", "/project", ROOT);
        for system in ["/etc", "/usr/local/src", "/dev/shm", "/srv", "/opt", "/root", "/var/lib", "/home"] {
            machine.directory(system, ROOT, 0o755);
        }
        machine.directory("/project/.git/hooks", ANN, 0o755);
        machine.link("/shortcut", "/tmp/orchestration", ANN).link("/system", "/tmp/orchestration", ROOT);
        machine.link("/tmp/orchestration/linked", "/others/ws", ANN);
        machine.directory("/ws", ANN, 0o755).link("/ws/away", "/others/ws", ANN);
        machine.file("/ws/tasks/a.md", "# Generate the parser\n\nWith tests.\n");
        machine.file("/ws/tasks/b.md", "Review what A made.\n").directory("/ws/tasks/c", ANN, 0o755);
        machine.file("/ws/src/main.rs", "fn main() {}\n").directory("/ws/src", ANN, 0o755);
        for agent in ["code-generator", "code-reviewer", "silent", "unsafe", "scribe"] {
            machine.directory(&format!("/agents/{agent}"), ANN, 0o755);
        }
        machine.directory("/ws/local-agent", ANN, 0o755);
        machine
    }

    pub fn directory(&mut self, path: &str, owner: u32, mode: u32) -> &mut Self {
        let entry = Entry { kind: EntryKind::Directory, owner, mode, is_link: false };
        self.entries.insert(path.into(), entry);
        self
    }

    pub fn file(&mut self, path: &str, text: &str) -> &mut Self {
        let entry = Entry { kind: EntryKind::File, owner: ANN, mode: 0o644, is_link: false };
        self.entries.insert(path.into(), entry);
        self.texts.insert(path.into(), text.to_owned());
        self
    }

    pub fn link(&mut self, path: &str, to: &str, owner: u32) -> &mut Self {
        let entry = Entry { kind: EntryKind::Directory, owner, mode: 0o755, is_link: true };
        self.entries.insert(path.into(), entry);
        self.links.insert(path.into(), to.into());
        self
    }
}

impl Surroundings for Machine {
    fn entry(&self, path: &Path) -> Option<Entry> {
        self.entries.get(path).copied()
    }

    fn resolved(&self, path: &Path) -> Option<PathBuf> {
        let entry = self.entries.get(path)?;
        if entry.is_link {
            return self.links.get(path).cloned();
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Some(path.into()) };
        Some(self.resolved(parent).unwrap_or_else(|| parent.to_owned()).join(name))
    }

    fn is_empty_directory(&self, path: &Path) -> bool {
        let is_below = |other: &PathBuf| other.as_path() != path && other.starts_with(path);
        self.entries.contains_key(path) && !self.entries.keys().any(is_below)
    }

    fn beginning(&self, path: &Path) -> Option<String> {
        self.texts.get(path).cloned()
    }

    fn agent_directory(&self, name: &str, dir: &Path) -> Result<Option<AgentSettings>, Vec<Defect>> {
        let run = || vec![dir.join("run").to_string_lossy().into_owned()];
        let agent = AgentSettings { command: run(), ..AgentSettings::named(name) };
        match dir.to_str().unwrap() {
            "/agents/code-generator" | "/ws/local-agent" | "/ws/tasks/c" => Ok(Some(agent)),
            "/agents/code-reviewer" => {
                let command = vec!["python3".to_owned(), "/agents/code-reviewer/main.py".to_owned()];
                Ok(Some(AgentSettings { command, launcher: Some("tmux".to_owned()), ..agent }))
            }
            "/agents/absent" | "/agents/tool" | "/agents/equipped" | "/agents/torn" => {
                let program = match dir.file_name().unwrap().to_str().unwrap() {
                    "absent" => "absent",
                    "torn" => "to\0rn",
                    _ => "tool",
                };
                let path = EnvRule { name: "PATH".into(), value: Some("/opt/tools".into()), plain: false };
                let env = if dir.ends_with("equipped") { vec![path] } else { Vec::new() };
                Ok(Some(AgentSettings { command: vec![program.to_owned()], env, ..agent }))
            }
            "/agents/silent" | "/agents/scribe" => Ok(None),
            "/agents/unsafe" => Err(vec![
                Defect::new(
                    "agent_not_safe",
                    Place::File,
                    "/agents/unsafe/run can be changed by everybody",
                    "chmod o-w it",
                ),
                Defect::new(
                    "bad_agent",
                    Place::Line(3),
                    "agent.toml: 'launcher' must be one of process, tmux, external",
                    "choose a value that fits",
                ),
            ]),
            other => {
                let message = format!("{other} does not exist");
                Err(vec![Defect::new("agent_path_missing", Place::File, message, "correct the path")])
            }
        }
    }

    fn has_program(&self, name: &str, path: Option<&str>) -> bool {
        match path {
            Some(path) => path == "/opt/tools" && name == "tool",
            None if name == "tmux" => !self.lacks_tmux,
            None => !matches!(name, "tool" | "absent"),
        }
    }

    fn may_write(&self, dir: &Path) -> bool {
        !dir.starts_with("/read-only")
    }

    fn bus_home(&self) -> PathBuf {
        "/project/.ce".into()
    }

    fn home(&self) -> Option<PathBuf> {
        Some("/u/ann".into())
    }

    fn user(&self) -> u32 {
        ANN
    }
}

/// Settings with an agent and two criteria.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    let text = "[agents.scribe]\ncommand = [\"scribe\", \"--fast\"]\n\
                [criteria]\ntests_pass = [\"make\", \"test\"]\n\
                coverage = { cmd = [\"make\", \"coverage\"], value = '(\\d+)%' }\n";
    read_toml(text, &mut settings).unwrap();
    settings
}
