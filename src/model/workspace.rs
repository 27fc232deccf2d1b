//! Every path and file name in the workspace of a handed-over batch, spelled once. One writer per file:
//!
//! | file | writer |
//! |---|---|
//! | `execution_request.json` or `assignments.json`, `inputs/` | the client |
//! | `outputs/` | the agents |
//! | `logs/`, `tmux/`, `artifacts/` | the runners |
//! | `.wk-lock`, `.wk-conflicts/`, `.wk-merged/`, `.wk-replaced/`, `status.json`, `status/`, `checkpoint/`, `merged/`, `conflicts.json`, `receipt.json`, `execution_report.json` | watcher |
//!
//! Joins of paths alone: whether anything stands there is not known here.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::clock::WallTime;
use super::handoff::Dialect;
use super::id::TaskKey;

/// The contents of a checkpoint, in its directory.
pub const CHECKPOINT_ARCHIVE: &str = "checkpoint.tar.gz";
/// What a checkpoint holds, in its directory.
pub const CHECKPOINT_MANIFEST: &str = "manifest.json";
const OLDER_CHECKPOINT: &str = "checkpoint-";
const EARLIER: &str = "checkpoint-before-";
/// No batch was accepted earlier: a name with less behind it, such as `checkpoint-500`, is a client's own.
const ACCEPTED_MS_LEAST: i64 = 1_000_000_000_000;

/// The files below one workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacePaths {
    root: PathBuf,
}

impl WorkspacePaths {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        WorkspacePaths { root: root.into() }
    }
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The request as its client left it, or as it was when it came another way.
    pub fn request(&self, dialect: Dialect) -> PathBuf {
        self.root.join(match dialect {
            Dialect::ExecutionRequest => "execution_request.json",
            Dialect::Assignments => "assignments.json",
        })
    }
    pub fn inputs(&self) -> PathBuf {
        self.root.join("inputs")
    }
    pub fn outputs(&self) -> PathBuf {
        self.root.join("outputs")
    }
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }
    /// What the agent of one name printed, as an execution request's client looks for it.
    pub fn agent_logs(&self, agent: &str) -> LogPaths {
        let folder = self.logs().join(file_name(agent));
        LogPaths { stdout: folder.join("stdout.log"), stderr: folder.join("stderr.log") }
    }
    /// What a command printed that decides a criterion of this agent.
    pub fn check_logs(&self, agent: &str, criterion: &str) -> LogPaths {
        let (folder, name) = (self.logs().join(file_name(agent)).join("checks"), file_name(criterion));
        LogPaths { stdout: folder.join(format!("{name}.out")), stderr: folder.join(format!("{name}.err")) }
    }
    /// What one attempt printed, as a client of assignments looks for it; `stem` is agent and time.
    pub fn attempt_logs(&self, stem: &str) -> LogPaths {
        let stem = file_name(stem);
        LogPaths {
            stdout: self.logs().join(format!("{stem}.out")),
            stderr: self.logs().join(format!("{stem}.err")),
        }
    }
    /// The folder for what terminal sessions showed.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("tmux")
    }
    pub fn session_log(&self, session: &str) -> PathBuf {
        self.sessions().join(format!("{}.log", file_name(session)))
    }
    /// Copies of what a task made.
    pub fn artifacts(&self, task: &TaskKey) -> PathBuf {
        self.root.join("artifacts").join(task.as_str())
    }
    /// The folder of all copies.
    pub fn all_artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }
    /// Whatever is written here for the client, and what the client wrote for us: nobody's work. The merged tree is
    /// not among it, because it is somebody's.
    pub fn bookkeeping(&self) -> Vec<PathBuf> {
        let requests = [Dialect::ExecutionRequest, Dialect::Assignments].map(|dialect| self.request(dialect));
        let papers = [
            self.logs(),
            self.sessions(),
            self.markers(),
            self.checkpoint(),
            self.status(),
            self.report(),
            self.lock(),
            self.versions(),
            self.candidate(),
            self.replaced(),
        ];
        requests.into_iter().chain(papers).collect()
    }
    /// What a merge leaves: kept before it and undone with it, because something of the client's may stand there.
    pub fn of_merge(&self) -> Vec<PathBuf> {
        vec![self.all_artifacts(), self.merged(), self.conflicts(), self.receipt()]
    }
    /// The folder of the markers.
    pub fn markers(&self) -> PathBuf {
        self.root.join("status")
    }
    pub fn marker(&self, task: &TaskKey, marker: Marker) -> PathBuf {
        self.markers().join(format!("{task}.{}", marker.word()))
    }
    /// Locked while a batch works here, so that no other bus does.
    pub fn lock(&self) -> PathBuf {
        self.root.join(".wk-lock")
    }
    pub fn status(&self) -> PathBuf {
        self.root.join("status.json")
    }
    pub fn report(&self) -> PathBuf {
        self.root.join("execution_report.json")
    }
    pub fn conflicts(&self) -> PathBuf {
        self.root.join("conflicts.json")
    }
    /// Every version of each file that is in question, while that is so.
    pub fn versions(&self) -> PathBuf {
        self.root.join(".wk-conflicts")
    }
    /// The merged tree while it is checked, before it is published.
    pub fn candidate(&self) -> PathBuf {
        self.root.join(".wk-merged")
    }
    /// What people had edited in trees that a merge made, before it made them anew.
    pub fn replaced(&self) -> PathBuf {
        self.root.join(".wk-replaced")
    }
    pub fn receipt(&self) -> PathBuf {
        self.root.join("receipt.json")
    }
    pub fn merged(&self) -> PathBuf {
        self.root.join("merged")
    }
    pub fn checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint")
    }
    /// Where the checkpoint of an earlier batch is kept, told apart by when that batch was accepted.
    pub fn older_checkpoint(&self, accepted_at: WallTime) -> PathBuf {
        self.root.join(format!("{OLDER_CHECKPOINT}{}", accepted_at.0))
    }
    /// Where what was here before a batch is kept, if it has no place beside an older checkpoint.
    pub fn earlier(&self, accepted_at: WallTime) -> PathBuf {
        self.root.join(format!("{EARLIER}{}", accepted_at.0))
    }
    /// Whether something of an earlier batch is kept there.
    pub fn is_put_aside(&self, path: &Path) -> bool {
        path.parent() == Some(&self.root) && put_aside_at(path).is_some()
    }
    /// When the batch was accepted whose older checkpoint this is.
    pub fn taken_at(&self, path: &Path) -> Option<WallTime> {
        put_aside_at(path).filter(|(prefix, _)| *prefix == OLDER_CHECKPOINT).map(|(_, at)| at)
    }
    /// The snapshot in the form that the client knows.
    pub fn checkpoint_archive(&self) -> PathBuf {
        self.checkpoint().join(CHECKPOINT_ARCHIVE)
    }
    pub fn checkpoint_manifest(&self) -> PathBuf {
        self.checkpoint().join(CHECKPOINT_MANIFEST)
    }
}

fn put_aside_at(path: &Path) -> Option<(&'static str, WallTime)> {
    let name = path.file_name()?.to_string_lossy();
    [OLDER_CHECKPOINT, EARLIER].into_iter().find_map(|prefix| {
        let digits = name.strip_prefix(prefix)?;
        let at = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())??;
        (at >= ACCEPTED_MS_LEAST).then_some((prefix, WallTime(at)))
    })
}

/// Where an agent's two streams are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPaths {
    pub stdout: PathBuf,
    pub stderr: PathBuf,
}

/// The ending of a file that says by its name alone how a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    Running,
    Success,
    Failed,
}

impl Marker {
    pub const ALL: [Marker; 3] = [Marker::Running, Marker::Success, Marker::Failed];

    pub fn word(self) -> &'static str {
        match self {
            Marker::Running => "running",
            Marker::Success => "success",
            Marker::Failed => "failed",
        }
    }
}

/// A name that somebody gave, as one part of a path: it can lead nowhere else, and hides nothing.
pub fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    if plain.starts_with('.') || plain.is_empty() { format!("_{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_lies_where_its_dialect_looks_for_it() {
        let paths = WorkspacePaths::new("/w");
        let key = TaskKey::parse("A").unwrap();
        let shown = |path: PathBuf| path.to_str().unwrap().to_owned();
        assert_eq!(shown(paths.agent_logs("code-generator").stdout), "/w/logs/code-generator/stdout.log");
        assert_eq!(
            shown(paths.attempt_logs("gen-20251030-143005-123").stderr),
            "/w/logs/gen-20251030-143005-123.err"
        );
        assert_eq!(shown(paths.session_log("gen-1430")), "/w/tmux/gen-1430.log");
        assert_eq!(shown(paths.marker(&key, Marker::Failed)), "/w/status/A.failed");
        assert_eq!(shown(paths.artifacts(&key)), "/w/artifacts/A");
        assert_eq!(shown(paths.request(Dialect::Assignments)), "/w/assignments.json");
        assert_eq!(shown(paths.checkpoint_archive()), "/w/checkpoint/checkpoint.tar.gz");
    }

    #[test]
    fn what_was_put_aside_is_told_from_a_clients_checkpoints() {
        let paths = WorkspacePaths::new("/w");
        let is_ours = |path: &str| paths.is_put_aside(Path::new(path));
        assert!(is_ours("/w/checkpoint-1761834605000") && is_ours("/w/checkpoint-before-1761834605000"));
        assert!(paths.is_put_aside(&paths.older_checkpoint(WallTime(1_761_834_605_000))));
        for own in ["/w/checkpoint-500", "/w/runs/checkpoint-1761834605000", "/w/checkpoint--1761834605000"] {
            assert!(!is_ours(own), "{own}");
        }
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        for (name, part) in
            [("../x", "_..-x"), ("a/b", "a-b"), ("", "_"), (".hidden", "_.hidden"), ("ü b", "--b")]
        {
            assert_eq!(file_name(name), part, "{name:?}");
        }
    }
}
