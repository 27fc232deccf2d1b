//! Who may reach a bus, and whose files are messages there. What needs a second user is skipped unless root runs it.

mod scene;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use scene::{Bus, SUCCESS, rule};

/// A user whom no bus of these scenes belongs to.
const STRANGER: u32 = 4242;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Everything on the bus with its mode, the locks apart.
fn modes(bus: &Bus, is_lock: bool) -> Vec<(PathBuf, u32, bool)> {
    let entries = walkdir::WalkDir::new(bus.path("")).into_iter().map(Result::unwrap);
    let found = entries.map(|entry| {
        let is_dir = entry.file_type().is_dir();
        (entry.path().to_owned(), mode(entry.path()), is_dir)
    });
    found.filter(|(path, ..)| path.to_string_lossy().ends_with(".lock") == is_lock).collect()
}

/// Runs a plan with one agent of ours under a umask that forbids nothing.
fn run_openly(bus: &Bus, settings: &[&str]) {
    let plan = bus.file("plan.json");
    fs::write(
        &plan,
        r#"{"batch_id": 1, "phases": [{"phase": 1, "name": "n", "goal": "g", "complexity": "low",
            "estimated_hours": 1, "files_modified": ["made.txt"], "dependencies": [],
            "command": ["sh", "-c", "echo made > made.txt; echo said"]}]}"#,
    )
    .unwrap();
    let mut command = Command::new("sh");
    command.current_dir(bus.root()).args(["-c", "umask 0; exec \"$@\"", "sh"]);
    command.args([env!("CARGO_BIN_EXE_wk"), "run", plan.to_str().unwrap()]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A bus that nothing but its own modes closes, and that no `wk` has touched.
fn open_bus() -> Bus {
    let bus = Bus::below("project");
    for dir in [bus.root().parent().unwrap(), bus.root()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::remove_dir_all(bus.root().join(".ce")).unwrap();
    bus
}

#[test]
fn the_bus_is_its_owners_alone_and_the_work_tree_is_nobodys_business() {
    let bus = open_bus();
    run_openly(&bus, &[]);
    let found = modes(&bus, false);
    assert!(found.len() > 15, "{found:?}");
    for (path, mode, is_dir) in found.into_iter().chain(modes(&bus, true)) {
        assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
        assert_eq!(mode == 0o700, is_dir, "{} has {mode:o}", path.display());
    }
    assert_eq!(mode(&bus.file("made.txt")), 0o666, "the agent's umask was the caller's");
}

#[test]
fn a_bus_that_an_older_version_left_open_is_closed() {
    let bus = open_bus();
    fs::create_dir_all(bus.path("tasks")).unwrap();
    for dir in [bus.path(""), bus.path("tasks")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(bus.path("watch.lock"), "").unwrap();
    drop(bus.watch(&[]));
    assert_eq!((mode(&bus.path("")), mode(&bus.path("tasks"))), (0o700, 0o700));
    assert_eq!(mode(&bus.path("watch.lock")), 0o600);
}

#[test]
fn a_shared_bus_is_its_groups_too_and_its_locks_are_not() {
    let bus = open_bus();
    run_openly(&bus, &["shared=group"]);
    for (path, mode, is_dir) in modes(&bus, false) {
        // Orders hold values.
        let expected: &[u32] = if is_dir { &[0o2770] } else { &[0o660, 0o600] };
        assert!(expected.contains(&mode), "{} has {mode:o}", path.display());
    }
    assert_eq!(mode(&bus.path("completed-batches/batch-1/journal.jsonl")), 0o660);
    assert_eq!(mode(&bus.path("completed-batches/batch-1/attempts/1/1/stdout.log")), 0o660);
    for (path, mode, _) in modes(&bus, true) {
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn nobody_else_can_open_a_lock() {
    if !is_root() {
        return println!("skipped: only root can be somebody else");
    }
    let bus = open_bus();
    let _watch = bus.watch(&[]);
    let lock = bus.path("watch.lock");
    let stranger = STRANGER.to_string();
    let opened = Command::new("setpriv")
        .args(["--reuid", &stranger, "--regid", &stranger, "--clear-groups", "flock", "--nonblock"])
        .arg(&lock)
        .args(["true"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&opened.stderr);
    assert!(told.contains("ermission denied"), "{told}");
    // One that it made itself, where the group may write.
    let shared = open_bus();
    fs::create_dir_all(shared.path("")).unwrap();
    fs::write(shared.path("watch.lock"), "").unwrap();
    std::os::unix::fs::chown(shared.path("watch.lock"), Some(STRANGER), None).unwrap();
    let refused = shared.wk(&["watch", "--once"]);
    assert!(refused.err.contains("belongs to user 4242"), "{}", refused.err);
    assert!(refused.err.contains("hint: "), "{}", refused.err);
}

/// Writes a file of another user's, and lets it appear at once.
fn drop_of(bus: &Bus, user: u32, name: &str, text: &str) {
    let staged = bus.file("staged");
    fs::write(&staged, text).unwrap();
    std::os::unix::fs::chown(&staged, Some(user), None).unwrap();
    fs::rename(&staged, bus.path(name)).unwrap();
}

#[test]
fn files_of_another_user_are_no_messages_unless_the_settings_trust_that_user() {
    if !is_root() {
        return println!("skipped: only root can write for somebody else");
    }
    let plan = scene::plan::json("batch_id = 9\n 1");
    let bus = Bus::new();
    let watch = bus.watch(&["heartbeat_timeout_seconds=600"]);
    bus.drop_plan("batch_id = 1\n 1");
    bus.agent("1/1").waits_for_spec();
    let drops = [
        ("inbox/theirs.json", plan.as_str()),
        ("tasks/loose.json", r#"{"task_id": "loose", "goal": "g"}"#),
        ("tasks/batch-1/task-1.result.json", r#"{"task_id": "1", "status": "success", "output": {}}"#),
        ("tasks/batch-1/control/cancel-1-1.json", r#"{"verb": "cancel", "by": "them"}"#),
    ];
    for (name, text) in drops {
        drop_of(&bus, STRANGER, name, text);
        let (_, reason) = bus.quarantined(name.rsplit('/').next().unwrap());
        assert_eq!(rule(&reason), "foreign_user", "{name}");
        assert!(reason["defects"][0]["message"].as_str().unwrap().contains("user 4242"), "{reason}");
    }
    drop_of(&bus, STRANGER, "tasks/batch-1/task-1.1.take", r#"{"by": "them"}"#);
    drop_of(&bus, STRANGER, "tasks/batch-1/task-1.hb", r#"{"status": "working"}"#);
    bus.agent("1/1").delivers(SUCCESS);
    assert_eq!(bus.ended("1")["status"], "success");
    assert_eq!(bus.count("1", "started", Some("1")), 1);
    let signs: Vec<_> = bus.journal("1").into_iter().filter(|line| line["event"] == "started").collect();
    assert!(!signs[0].to_string().contains("them"), "{signs:?}");
    drop(watch);

    let _watch = bus.watch(&["trusted_uids=4242"]);
    drop_of(&bus, STRANGER, "inbox/trusted.json", &plan);
    bus.agent("9/1").waits_for_spec();
}

#[test]
fn a_doctor_says_whether_the_file_system_keeps_modes() {
    let bus = Bus::new();
    let told = bus.wk(&["doctor"]).out;
    assert!(told.contains("modes: kept"), "{told}");
}
