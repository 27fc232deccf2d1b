//! What the README offers for pasting, taken out of it word by word and run.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::scene::process::while_nobody_starts;
use crate::scene::{Bus, Process, ending, task};

const README: &str = include_str!("../../README.md");

/// The first block of shell below a heading.
fn block_below(heading: &str) -> &'static str {
    let section = README.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("no shell below {heading}"))
}

/// A shell with such a text, ended with all that it has started.
struct Shell(Process);

impl Shell {
    fn start(flags: &[&str], text: &str, place: &Path) -> Shell {
        let script = place.join(".pasted");
        while_nobody_starts(|| std::fs::write(&script, text)).unwrap();
        let bin = Path::new(env!("CARGO_BIN_EXE_wk")).parent().unwrap();
        let path = std::env::join_paths(
            [place, bin]
                .into_iter()
                .map(Path::to_owned)
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut command = Command::new("sh");
        command.args(flags).arg(&script).current_dir(place).env("PATH", path.unwrap()).env_remove("RUST_LOG");
        command.stdin(std::process::Stdio::null()).process_group(0);
        Shell(Process::start(command))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_raw(self.0.id() as i32).unwrap(), Signal::KILL);
    }
}

#[test]
fn the_first_batch_of_the_readme_works_when_pasted_into_an_empty_directory() {
    let place = tempfile::tempdir().unwrap();
    // `-e`: a person who pastes it sees each command that fails, and so does the scene.
    let shell = Shell::start(&["-e"], block_below("## A first batch"), place.path());
    let bus = Bus::at(place.path().to_owned());
    bus.wait_for("the shell ends", || shell.0.has_ended().then_some(()));
    let (out, err) = (shell.0.stdout(), shell.0.stderr());
    assert!(out.contains("SUCCESS"), "{out}\n{err}");
    for phase in ["phase-1.txt", "phase-2.txt"] {
        assert!(
            std::fs::read(place.path().join(phase)).is_ok_and(|text| !text.is_empty()),
            "{phase}\n{out}\n{err}"
        );
    }
    let result = bus.json("batches/batch-1.result.json");
    assert_eq!((ending(&result, "1").as_str(), ending(&result, "2").as_str()), ("success", "success"));
}

#[test]
fn the_agent_of_the_readme_works_on_every_task_and_says_why_it_failed() {
    let bus = Bus::new();
    let write =
        |name: &str, text: &str| while_nobody_starts(|| std::fs::write(bus.file(name), text)).unwrap();
    // An assistant that does the second task only when it is asked again.
    write(
        "claude",
        "#!/bin/sh\nif [ $WK_TASK#$WK_ATTEMPT = 2#1 ]; then echo 'I would rather not'; exit 1; fi\n\
                     case $2 in *'\"goal\": \"do '$WK_TASK'\"'*) echo made > made-$WK_TASK ;; esac\n",
    );
    write("Makefile", "check:\n\t@test -s made-$(WK_TASK)\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bus.file("claude"), mode).unwrap();
    let plan = bus.plan("batch_id = 7\n 1\n 2 <- 1\n 3");
    let run = bus.run(&plan, &[]);
    let _shell = Shell::start(&[], block_below("### An agent in ten lines"), bus.root());
    run.ends().exits(0);
    let result = bus.ended("7");
    for key in ["1", "2", "3"] {
        assert_eq!(ending(&result, key), "success");
    }
    let first = &task(&result, "2")["attempts"][0];
    assert!(first.to_string().contains("I would rather not"), "{first:#}");
}
