//! Scenes of agent directories, good and bad, on a real disk.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::*;

fn put(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    chmod(path, mode);
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// An agent's directory in a directory of its own.
fn scene() -> (tempfile::TempDir, PathBuf) {
    let top = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(top.path()).unwrap().join("coder");
    fs::create_dir(&dir).unwrap();
    chmod(&dir, 0o755);
    (top, dir)
}

fn command_of(dir: &Path) -> Vec<String> {
    read("coder", dir).unwrap().unwrap().command
}

#[track_caller]
fn refused(dir: &Path, rule: &str) -> String {
    let defects = read("coder", dir).unwrap_err();
    assert_eq!(defects[0].rule, rule, "{defects:?}");
    assert!(!defects[0].remedy.is_empty());
    defects[0].message.clone()
}

#[test]
fn a_directory_with_run_is_started_by_it() {
    let (_top, dir) = scene();
    put(&dir.join("run"), "#!/bin/sh\n", 0o755);
    put(&dir.join("setup.sh"), "#!/bin/sh\n", 0o755);
    assert_eq!(command_of(&dir), [dir.join("run").to_string_lossy()]);
}

#[test]
fn a_directory_that_says_nothing_is_no_defect_of_its_own() {
    let (_top, dir) = scene();
    put(&dir.join("README.md"), "prompts only\n", 0o644);
    assert_eq!(read("coder", &dir).unwrap(), None);
}

#[test]
fn agent_toml_names_its_program_from_the_directory_or_from_the_path() {
    let (_top, dir) = scene();
    let text =
        |command: &str| format!("command = {command}\nlauncher = \"tmux\"\nlimits = {{ memory_mb = 64 }}\n");
    put(&dir.join("bin/start"), "#!/bin/sh\n", 0o755);
    put(&dir.join("start.sh"), "#!/bin/sh\n", 0o755);
    let file = dir.join("agent.toml");
    put(&file, &text("[\"bin/start\", \"-x\"]"), 0o644);
    assert_eq!(command_of(&dir), [dir.join("bin/start").to_string_lossy().as_ref(), "-x"]);
    put(&file, &text("[\"start.sh\"]"), 0o644);
    assert_eq!(command_of(&dir), [dir.join("start.sh").to_string_lossy()]);
    put(&file, &text("[\"python3\", \"{agent_dir}/main.py\"]"), 0o644);
    let main = dir.join("main.py").to_string_lossy().into_owned();
    assert_eq!(command_of(&dir), ["python3".to_owned(), main]);
    put(&file, &text("[\"/bin/sh\", \"-e\"]"), 0o644);
    assert_eq!(command_of(&dir)[1], "-e");
    let agent = read("coder", &dir).unwrap().unwrap();
    assert_eq!((agent.name.as_str(), agent.launcher.as_deref()), ("coder", Some("tmux")));
    assert_eq!(agent.limits.memory_mb, Some(64));
}

#[test]
fn where_both_are_there_agent_toml_says_everything_and_run_is_the_program_if_it_names_none() {
    let (_top, dir) = scene();
    put(&dir.join("run"), "#!/bin/sh\n", 0o755);
    put(&dir.join("agent.toml"), "env = [\"TOKEN\"]\n", 0o644);
    assert_eq!(command_of(&dir), [dir.join("run").to_string_lossy()]);
    assert_eq!(read("coder", &dir).unwrap().unwrap().env[0].name, "TOKEN");
    put(&dir.join("agent.toml"), "command = [\"cat\"]\n", 0o644);
    assert_eq!(command_of(&dir), ["cat"]);
    put(&dir.join("agent.toml"), "preset = \"claude\"\n", 0o644);
    assert_eq!(command_of(&dir)[0], "claude");
}

#[test]
fn a_directory_is_no_preset_because_of_its_name() {
    let (_top, dir) = scene();
    put(&dir.join("agent.toml"), "env = []\n", 0o644);
    let defects = read("claude", &dir).unwrap_err();
    assert!(defects[0].message.contains("has no command"), "{defects:?}");
}

#[test]
fn everything_wrong_with_agent_toml_is_told_with_its_line() {
    let (_top, dir) = scene();
    put(&dir.join("agent.toml"), "comand = [\"x\"]\ncwd = \"/\"\nlauncher = \"ssh\"\n", 0o644);
    let defects = read("coder", &dir).unwrap_err();
    let told: Vec<String> = defects.iter().map(ToString::to_string).collect();
    for part in
        ["line 1: agent.toml: unknown field 'comand'", "line 2: agent.toml: 'cwd' has no place", "line 3: "]
    {
        assert!(told.iter().any(|line| line.contains(part)), "{part} in {told:?}");
    }
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let (_top, dir) = scene();
    assert!(refused(&dir.join("nowhere"), "agent_path_missing").contains("does not exist"));
    put(&dir.join("file"), "", 0o644);
    assert!(refused(&dir.join("file"), "agent_path_missing").contains("not a directory"));
}

#[test]
fn what_everybody_can_change_is_not_run() {
    let (_top, dir) = scene();
    put(&dir.join("run"), "#!/bin/sh\n", 0o757);
    refused(&dir, "agent_not_safe");
    chmod(&dir.join("run"), 0o755);
    put(&dir.join("agent.toml"), "env = []\n", 0o646);
    refused(&dir, "agent_not_safe");
    chmod(&dir.join("agent.toml"), 0o644);
    assert!(read("coder", &dir).is_ok());
    chmod(&dir, 0o777);
    refused(&dir, "agent_not_safe");
}

#[test]
fn what_cannot_be_executed_is_refused() {
    let (_top, dir) = scene();
    put(&dir.join("run"), "#!/bin/sh\n", 0o644);
    refused(&dir, "agent_not_executable");
    fs::remove_file(dir.join("run")).unwrap();
    fs::create_dir(dir.join("run")).unwrap();
    refused(&dir, "agent_not_executable");
}

#[test]
fn a_link_that_leads_out_is_refused_and_one_that_stays_inside_is_not() {
    let (top, dir) = scene();
    let outside = fs::canonicalize(top.path()).unwrap().join("outside.sh");
    put(&outside, "#!/bin/sh\n", 0o755);
    symlink(&outside, dir.join("run")).unwrap();
    refused(&dir, "agent_leads_out");
    fs::remove_file(dir.join("run")).unwrap();
    put(&dir.join("inner.sh"), "#!/bin/sh\n", 0o755);
    symlink("inner.sh", dir.join("run")).unwrap();
    assert_eq!(command_of(&dir), [dir.join("inner.sh").to_string_lossy()]);
    fs::remove_file(dir.join("run")).unwrap();
    put(&dir.join("agent.toml"), "command = [\"../outside.sh\"]\n", 0o644);
    refused(&dir, "agent_leads_out");
    fs::remove_file(dir.join("agent.toml")).unwrap();
    symlink(&outside, dir.join("agent.toml")).unwrap();
    refused(&dir, "agent_leads_out");
    fs::remove_file(dir.join("agent.toml")).unwrap();
    symlink("nowhere", dir.join("run")).unwrap();
    refused(&dir, "bad_agent_file");
}

#[test]
fn somebody_elses_agent_is_refused() {
    let (_top, dir) = scene();
    put(&dir.join("run"), "#!/bin/sh\n", 0o755);
    // Only the administrator can give a file away; everybody else cannot make this scene.
    if std::os::unix::fs::chown(dir.join("run"), Some(12_345), None).is_ok() {
        refused(&dir, "agent_not_ours");
    }
}

#[test]
fn a_pipe_in_the_place_of_agent_toml_blocks_nobody() {
    let (_top, dir) = scene();
    let pipe = dir.join("agent.toml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    refused(&dir, "bad_agent_file");
}
