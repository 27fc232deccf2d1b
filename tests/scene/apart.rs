//! A place for scenes that look at every process of the machine: a namespace in which there is nobody else.
//!
//! Whoever has lost its parent and tells nothing of itself may be what a dead runner left. Beside a scene anybody may
//! start such a process, another scene as well as a service, so what a watcher makes of it is no claim about it.

use std::process::{Command, Stdio};

/// Set for those who are there already.
const APART: &str = "WK_TEST_APART";

/// Plays a test once more in a namespace of its own, and fails as it fails. `false` where it is the caller's to play:
/// it is there already, or there can be none.
pub fn was_played_apart(test: impl Fn()) -> bool {
    if std::env::var_os(APART).is_some() {
        return false;
    }
    let Some(mut command) = namespace() else {
        println!("played among all others: no namespace of processes can be made here");
        return false;
    };
    let path = std::any::type_name_of_val(&test);
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    command.arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let output = command.env(APART, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{name}, apart: {told}");
    println!("{told}");
    true
}

/// What a program is to be added to; `None` where the system allows nobody, or only others, to be apart.
fn namespace() -> Option<Command> {
    let apart = |as_user: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(as_user).args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
        // The first process takes in orphans, so it is not the test: what that starts has a parent.
        command.args(["sh", "-c", "\"$@\"; exit $?", "sh"]).stdin(Stdio::null());
        command
    };
    let works =
        |as_user: &&&[&str]| apart(as_user).arg("true").output().is_ok_and(|ran| ran.status.success());
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-current-user"]];
    ways.iter().find(works).map(|as_user| apart(as_user))
}
