//! What the scenes need to be played: trees that start, tell who they are and can be counted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

/// Says which scene the program was started for, and where.
pub(super) const SCENE: &str = "WK_TEST_SCENE";
pub(super) const PLACE: &str = "WK_TEST_PLACE";

pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const GRACE: Duration = Duration::from_millis(300);
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A tree whose runner was killed by force.
pub(super) struct Orphaned {
    pub(super) trace: Trace,
    pub(super) who: BTreeMap<&'static str, ProcessIdentity>,
    _place: TempDir,
}

impl Orphaned {
    pub(super) fn by(scene: &str) -> Orphaned {
        let place = tempfile::tempdir().unwrap();
        let mut runner = program(scene).env(PLACE, place.path()).stdout(Stdio::null()).spawn().unwrap();
        let names: &[_] = if scene == "orphans" { &["child", "session", "daemon"] } else { &["bare"] };
        let who = names.iter().map(|name| (*name, told(place.path(), name))).collect();
        let path = place.path().join("trace");
        until("the trace is there", || path.exists());
        let trace: Trace = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        runner.kill().unwrap();
        runner.wait().unwrap();
        let orphaned = Orphaned { trace, who, _place: place };
        assert!(orphaned.who.values().all(|one| one.state() == Existence::Alive));
        orphaned
    }

    pub(super) fn assert_dead(&self, names: &[&str]) {
        for name in names {
            assert_eq!(self.who[name].state(), Existence::Dead, "{name}");
        }
    }
}

/// A tree below this process.
pub(super) struct Played {
    pub(super) leader: u32,
    pub(super) who: BTreeMap<&'static str, ProcessIdentity>,
    pub(super) place: TempDir,
}

impl Played {
    pub(super) fn new(command: &[String], cgroup: Option<&Cgroup>, names: &[&'static str]) -> Played {
        become_subreaper().unwrap();
        let place = tempfile::tempdir().unwrap();
        let leader = start(command, place.path(), "WK_TEST_MARK=played", cgroup);
        let who = names.iter().map(|name| (*name, told(place.path(), name))).collect();
        Played { leader, who, place }
    }

    pub(super) fn tree<'a>(&self, cgroup: Option<&'a Cgroup>) -> Tree<'a> {
        Tree { leader: Some(self.leader), cgroup }
    }

    pub(super) fn end(&self, cgroup: Option<&Cgroup>) -> Ended {
        end_tree(&self.tree(cgroup), GRACE, LIMIT, &mut || ())
    }

    pub(super) fn alive(&self) -> usize {
        self.who.values().filter(|one| one.state() == Existence::Alive).count()
    }
}

pub(super) fn start(command: &[String], place: &Path, marker: &str, cgroup: Option<&Cgroup>) -> u32 {
    let (name, value) = marker.split_once('=').unwrap();
    let mut agent = Command::new(&command[0]);
    agent.args(&command[1..]).arg(place).env(name, value);
    // Who leads a group can lead a session only through a child, and would not be its leader then.
    if command[0] != "setsid" {
        agent.process_group(0);
    }
    agent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = match cgroup {
        Some(cgroup) => cgroup.around(|| agent.spawn()).unwrap(),
        None => agent.spawn(),
    };
    child.unwrap().id()
}

pub(super) fn agent(name: &str) -> Vec<String> {
    vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/agents").join(name).display().to_string()]
}

pub(super) fn script(text: &str) -> Vec<String> {
    ["sh", "-c", text, "scene"].map(str::to_owned).to_vec()
}

pub(super) fn leading_a_session(text: &str) -> Vec<String> {
    let mut command = script(text);
    command.insert(0, "setsid".to_owned());
    command
}

/// Who wrote its pid to this file.
pub(super) fn told(place: &Path, name: &str) -> ProcessIdentity {
    let mut told = None;
    until(name, || {
        let text = fs::read_to_string(place.join(name)).unwrap_or_default();
        told = text.strip_suffix('\n').and_then(|pid| ProcessIdentity::of(pid.parse().ok()?));
        told.is_some()
    });
    told.unwrap()
}

pub(super) fn family_of_ours() -> usize {
    procfs::family_by_pass(std::process::id()).len()
}

pub(super) fn has_cgroups() -> bool {
    let probe = Cgroup::create(&format!("probe-{}", std::process::id()));
    let has = probe.is_some();
    if let Some(probe) = probe {
        probe.remove().unwrap();
    } else {
        eprintln!("skipped: no cgroup can be made here");
    }
    has
}

pub(super) fn in_cgroup(scene: impl FnOnce(Option<&Cgroup>)) {
    if !has_cgroups() {
        return;
    }
    let cgroup = Cgroup::create(&format!("scene-{}", std::process::id())).unwrap();
    scene(Some(&cgroup));
    assert!(!cgroup.is_populated());
    cgroup.remove().unwrap();
}

/// Plays a scene in a process of its own, and fails as it fails.
pub(super) fn play(scene: &str, environment: &[(&str, &str)]) {
    let output = program(scene).envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scene}: {text}");
    assert!(text.contains("1 passed"), "the stage was not found: {text}");
}

pub(super) fn program(scene: &str) -> Command {
    let (_, module) = module_path!().split_once("::").unwrap();
    let (tree, _) = module.rsplit_once("::").unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args([&format!("{tree}::scenes::stage"), "--exact", "--nocapture", "--test-threads=1"]);
    program.env(SCENE, scene).stdin(Stdio::null());
    program
}

pub(in crate::agent) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
