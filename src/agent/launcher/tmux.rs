//! Runners in tmux: one session an attempt, named after agent and time, that people can attach to.
//!
//! The runner is the pane's own command, given as words: nothing of a task passes a shell or tmux's formats.
//! A session that is killed only hangs up: ending the processes is the runner's business, not tmux's.

#![expect(
    clippy::disallowed_methods,
    reason = "launchers start processes; a session's name is kept beside it"
)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Capabilities, Hint, Job, Launcher};
use crate::agent::tree;
use crate::bus::layout::AttemptPaths;
use crate::bus::{Disk, RealDisk, platform};

/// The option by which our sessions are known.
const MARK: &str = "@watchkeeper";
/// How often a server that is about to end is asked again, and after how long: about a second in all.
const ENDING_SERVER_TRIES: u32 = 50;
const ENDING_SERVER_PAUSE_MS: u64 = 20;
/// Sessions of one agent in one minute.
const NAMES_MAX: u32 = 10_000;
/// Longest part of a session's name that comes from the agent's.
const AGENT_CHARS_MAX: usize = 40;

pub(super) struct Tmux {
    socket: Option<String>,
}

impl Tmux {
    pub(super) fn new(socket: Option<String>) -> Self {
        Tmux { socket }
    }

    fn start(&self, job: &Job<'_>) -> Result<(), String> {
        if let Some(session) = Session::of(job.paths)
            && sessions(session.socket.as_deref())
                .get(&session.name)
                .is_some_and(|(attempt, _)| attempt == job.paths.dir())
        {
            return Ok(());
        }
        let stem = name_stem(&job.order.agent);
        for number in 1..=NAMES_MAX {
            let name = if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
            // Before the session: a short agent has ended before we would come to it, and its runner tells the name.
            let session = Session { name, socket: self.socket.clone() };
            let kept = RealDisk::default().prepare(&job.paths.session(), session.to_text().as_bytes());
            kept.map_err(|error| format!("{}: {error}", job.paths.session().display()))?;
            match self.new_session(&session.name, job)? {
                Made::Yes => return Ok(()),
                Made::NameIsTaken => {}
            }
        }
        Err(format!("there are {NAMES_MAX} tmux sessions named {stem}"))
    }

    /// On the server that is there, or else on a new one.
    ///
    /// The server is the user's, and outlives us. Were it our descendant while we inherit orphans, all that people
    /// daemonise in their own sessions on it would become our children, and be taken for what a dead runner left.
    fn new_session(&self, name: &str, job: &Job<'_>) -> Result<Made, String> {
        let ask = || match self.ask_for_session(name, job, &["-N"]) {
            // No server, or a tmux that does not know the flag for "only if there is one".
            Err(Refused::ByTmux(_)) => tree::without_inheriting(|| self.ask_for_session(name, job, &[])),
            answer => answer,
        };
        let mut answer = ask();
        for _ in 0..ENDING_SERVER_TRIES {
            match &answer {
                // Its last session was closed a moment ago. Once it is gone, there will be another one.
                Err(Refused::ByTmux(complaint)) if complaint.contains("server exited") => {}
                _ => break,
            }
            platform::pause_ms(ENDING_SERVER_PAUSE_MS);
            answer = ask();
        }
        answer.map_err(|refused| refused.to_string())
    }

    /// One call for everything: a second one would come too late for a short command.
    fn ask_for_session(&self, name: &str, job: &Job<'_>, flags: &[&str]) -> Result<Made, Refused> {
        let runner = job.runner.command(job.paths.dir());
        let mut command = tmux(self.socket.as_deref());
        command.args(flags);
        command.args(["new-session", "-d", "-s", name, "-x", "120", "-y", "40", "--"]);
        command.args(runner.iter().map(|word| without_separator(word)));
        command.args([";", "set-option", "-w", "remain-on-exit", "on"]);
        // A session that nobody looks at is the rule here, whatever people want of their own.
        command.args([";", "set-option", "destroy-unattached", "off"]);
        command.args([";", "set-option", MARK, &mark_of(job.paths.dir())]);
        let output = command.output().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Refused::NotInstalled,
            _ => Refused::NotRun(error),
        })?;
        if output.status.success() {
            return Ok(Made::Yes);
        }
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match complaint.contains("duplicate session") {
            true => Ok(Made::NameIsTaken),
            false => Err(Refused::ByTmux(complaint)),
        }
    }
}

/// A session as the attempt's folder names it: on which server it lives is not for every caller to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub name: String,
    /// The user's own server where absent.
    pub socket: Option<String>,
}

impl Session {
    /// The session that was made for this attempt, if one was.
    pub fn of(paths: &AttemptPaths) -> Option<Session> {
        let text = std::fs::read_to_string(paths.session()).ok()?;
        let mut lines = text.lines().map(|line| line.trim().to_owned());
        let name = lines.next().filter(|name| !name.is_empty())?;
        Some(Session { name, socket: lines.next().filter(|socket| !socket.is_empty()) })
    }

    /// Its name in the first line, its server in the second.
    fn to_text(&self) -> String {
        let socket = self.socket.iter().map(|socket| format!("{socket}\n"));
        std::iter::once(format!("{}\n", self.name)).chain(socket).collect()
    }

    /// The command that shows it to a person where we are: on a bare terminal, or inside of tmux.
    pub fn attach_command(&self) -> Vec<String> {
        let around = std::env::var("TMUX").ok().filter(|around| !around.is_empty());
        let is_same = |around: &str| {
            let pid = server_pid_in(around);
            pid.is_some() && self.server_pid().as_deref() == pid
        };
        self.command_that_shows(around.as_deref().map(is_same))
    }

    /// `is_on_same_server` says so of the tmux around us, if there is one.
    fn command_that_shows(&self, is_on_same_server: Option<bool>) -> Vec<String> {
        let (before, verb): (&[&str], &str) = match is_on_same_server {
            None => (&[], "attach-session"),
            // A client shows one session at a time: no second one inside of it.
            Some(true) => (&[], "switch-client"),
            Some(false) => (&["env", "-u", "TMUX"], "attach-session"),
        };
        let mut words: Vec<String> = before.iter().chain(&["tmux"]).map(|word| (*word).to_owned()).collect();
        words.extend(self.socket.iter().flat_map(|socket| ["-L".to_owned(), socket.clone()]));
        words.extend([verb.to_owned(), "-t".to_owned(), format!("={}", self.name)]);
        words
    }

    fn server_pid(&self) -> Option<String> {
        let target = format!("={}:", self.name);
        let mut command = tmux(self.socket.as_deref());
        let output = command.args(["display-message", "-p", "-t", &target, "#{pid}"]).output().ok()?;
        let pid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (!pid.is_empty()).then_some(pid)
    }
}

/// The server's process, as tmux tells those inside: `/tmp/tmux-1000/default,4321,0`.
fn server_pid_in(around: &str) -> Option<&str> {
    around.rsplit(',').nth(1)
}

/// What each server keeps, asked once.
#[derive(Default)]
struct Servers(HashMap<Option<String>, HashMap<String, (PathBuf, bool)>>);

impl Servers {
    fn find(&mut self, session: &Session) -> Option<&(PathBuf, bool)> {
        self.sessions(session.socket.as_ref()).get(&session.name)
    }

    /// The session of an attempt whose folder does not name it: an agent may have removed that.
    fn session_of(&mut self, socket: Option<&String>, attempt: &Path) -> Option<Session> {
        let found = self.sessions(socket).iter().find(|(_, (of, _))| of == attempt);
        found.map(|(name, _)| Session { name: name.clone(), socket: socket.cloned() })
    }

    fn sessions(&mut self, socket: Option<&String>) -> &HashMap<String, (PathBuf, bool)> {
        self.0.entry(socket.cloned()).or_insert_with(|| sessions(socket.map(String::as_str)))
    }
}

fn tmux(socket: Option<&str>) -> Command {
    let mut command = Command::new("tmux");
    // Whatever the locale: without it tmux rewrites what is no plain ASCII in all that it tells.
    command.arg("-u");
    if let Some(socket) = socket {
        command.args(["-L", socket]);
    }
    command.stdin(Stdio::null());
    command
}

/// Our sessions on one server by name, each with its attempt's folder and whether its runner has ended.
fn sessions(socket: Option<&str>) -> HashMap<String, (PathBuf, bool)> {
    // No session's name holds a colon.
    let format = format!("#{{session_name}}:#{{pane_dead}}:#{{{MARK}}}");
    let output = tmux(socket).args(["list-panes", "-a", "-F", &format]).output();
    let Ok(output) = output else { return HashMap::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let session = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (name, dead, attempt) = (parts.next()?, parts.next()?, parts.next()?);
        Some((name.to_owned(), (marked(attempt)?, dead == "1")))
    };
    text.lines().filter_map(session).collect()
}

/// An attempt's folder in digits: a path may hold what ends a line, or what tmux takes for its own.
fn mark_of(attempt: &Path) -> String {
    attempt.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// The folder that such a mark names; none for sessions that are not ours.
fn marked(mark: &str) -> Option<PathBuf> {
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let bytes: Vec<u8> = mark.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
    (!bytes.is_empty()).then(|| OsString::from_vec(bytes).into())
}

enum Made {
    Yes,
    NameIsTaken,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("tmux is not installed; install it or use --launcher process")]
    NotInstalled,
    #[error("tmux: {0}")]
    NotRun(std::io::Error),
    #[error("tmux: {0}")]
    ByTmux(String),
}

impl Launcher for Tmux {
    fn name(&self) -> &'static str {
        "tmux"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { can_attach: true, has_pipe: false }
    }

    fn submit(&self, jobs: &[Job<'_>]) -> Vec<Result<(), String>> {
        jobs.iter().map(|job| self.start(job)).collect()
    }

    fn poll(&self, attempts: &[AttemptPaths]) -> Vec<Hint> {
        let mut servers = Servers::default();
        let mut hint = |paths: &AttemptPaths| {
            let session = Session::of(paths);
            let found = session.as_ref().and_then(|session| servers.find(session));
            match found.filter(|(attempt, _)| is_same_attempt(attempt, paths.dir())) {
                Some((_, true)) => Hint::Ended,
                Some((_, false)) => Hint::Running,
                None => Hint::Gone,
            }
        };
        attempts.iter().map(&mut hint).collect()
    }

    fn cancel(&self, attempts: &[AttemptPaths]) {
        let mut servers = Servers::default();
        for paths in attempts {
            // Only one that is still ours: names are used again.
            let named = Session::of(paths)
                .filter(|session| servers.find(session).is_some_and(|(attempt, _)| attempt == paths.dir()));
            let session = named.or_else(|| servers.session_of(self.socket.as_ref(), paths.dir()));
            let Some(session) = session else { continue };
            let target = format!("={}", session.name);
            let _ = tmux(session.socket.as_deref()).args(["kill-session", "-t", &target]).output();
        }
    }

    fn reconcile(&self) -> Vec<PathBuf> {
        sessions(self.socket.as_deref()).into_values().map(|(attempt, _)| attempt).collect()
    }
}

/// Whether two folders are one attempt's, before and after its batch was archived.
fn is_same_attempt(one: &Path, other: &Path) -> bool {
    const BATCH_ATTEMPTS_TASK_NUMBER: usize = 4;
    let end = |path: &Path| {
        path.components()
            .rev()
            .take(BATCH_ATTEMPTS_TASK_NUMBER)
            .map(|c| c.as_os_str().to_owned())
            .collect::<Vec<_>>()
    };
    end(one) == end(other)
}

/// `code-generator-20251030-1430`: agent and minute, in characters that tmux leaves as they are.
fn name_stem(agent: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let agent: String =
        agent.chars().take(AGENT_CHARS_MAX).map(|c| if is_plain(c) { c } else { '_' }).collect();
    let minute: String =
        platform::wall_now().rfc3339().chars().take(16).filter(|c| *c != '-' && *c != ':').collect();
    format!("{agent}-{}", minute.replace('T', "-"))
}

/// tmux takes a word that ends in a semicolon for the end of a command.
fn without_separator(word: &std::ffi::OsStr) -> OsString {
    match word.as_bytes().strip_suffix(b";") {
        Some(rest) => OsString::from_vec([rest, b"\\;"].concat()),
        None => word.to_owned(),
    }
}

/// Becomes another program; returns only where that is refused.
pub fn become_program(words: &[String]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    match words.split_first() {
        Some((program, arguments)) => Command::new(program).args(arguments).exec(),
        None => std::io::ErrorKind::InvalidInput.into(),
    }
}

/// What the installed tmux calls itself, if there is one.
pub fn version() -> Option<String> {
    let output = Command::new("tmux").arg("-V").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_name_holds_nothing_that_tmux_would_rewrite() {
        let name = name_stem("a.b:c #{pid}");
        assert!(name.starts_with("a_b_c___pid_-2"), "{name}");
        assert_eq!(name.len(), "a_b_c___pid_".len() + "-20251030-1430".len());
    }

    #[test]
    fn a_path_that_ends_in_a_semicolon_is_one_word() {
        assert_eq!(without_separator("/x;".as_ref()), OsString::from("/x\\;"));
        assert_eq!(without_separator("/x;y".as_ref()), OsString::from("/x;y"));
    }

    #[test]
    fn a_mark_is_one_line_of_digits_and_names_its_folder() {
        let folder = Path::new("/a\n#{pid};/größe:1");
        let mark = mark_of(folder);
        assert!(mark.bytes().all(|byte| byte.is_ascii_hexdigit()), "{mark}");
        assert_eq!(marked(&mark).as_deref(), Some(folder));
        assert_eq!((marked(""), marked("/somebody/elses")), (None, None));
    }

    #[test]
    fn a_session_is_shown_inside_of_tmux_as_well_as_outside() {
        let session = Session { name: "a-1".to_owned(), socket: Some("ours".to_owned()) };
        let shown = |is_same| session.command_that_shows(is_same).join(" ");
        assert_eq!(shown(None), "tmux -L ours attach-session -t =a-1");
        assert_eq!(shown(Some(true)), "tmux -L ours switch-client -t =a-1");
        assert_eq!(shown(Some(false)), "env -u TMUX tmux -L ours attach-session -t =a-1");
        assert_eq!(server_pid_in("/tmp/a,b/default,4321,0"), Some("4321"));
        assert_eq!(server_pid_in("odd"), None);
    }
}
