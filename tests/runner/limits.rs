//! What an agent's tree may use, and what happens when it wants more.

use watchkeeper::model::exit::{Resource, Stopped};

use super::stage::{Stage, different_beats, eventually};

fn limit(what: Resource, limit: u64) -> Option<Stopped> {
    Some(Stopped::Limit { what, limit })
}

#[test]
fn too_much_memory_ends_an_agent() {
    // `tail` keeps a line that does not end.
    let mut stage = Stage::sh("head -c 300M /dev/zero | tail -c 290M | sleep 60");
    stage.order.limits.memory_mb = Some(100);
    let exit = stage.run();
    assert_eq!(exit.stopped, limit(Resource::MemoryMb, 100));
    assert!(exit.peak_memory_kb > 100 << 10, "{}", exit.peak_memory_kb);
    assert_eq!(stage.marked(), [0; 0]);
}

#[test]
fn memory_that_forked_processes_share_counts_once() {
    // The shell holds the text, and each of its children has all pages of it.
    let mut stage = Stage::sh(
        "text=$(head -c 30000000 /dev/zero | tr '\\0' a)
        for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
            (while [ ! -e go ]; do sleep 0.1; done) &
        done
        echo > ready; wait",
    );
    stage.order.limits.memory_mb = Some(300);
    let running = stage.spawn();
    eventually("all are there", || stage.dir.path().join("ready").exists());
    let pages = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0)
    };
    let sum = stage.marked().into_iter().map(pages).sum::<usize>() * rustix::param::page_size();
    assert!(sum > 300 << 20, "the scene needs more: {sum}");
    different_beats(&stage, 5);
    std::fs::write(stage.dir.path().join("go"), "").unwrap();
    let exit = running.exit();
    assert!(exit.is_clean(), "{exit:?}");
    assert!(exit.peak_memory_kb < 300 << 10, "{}", exit.peak_memory_kb);
}

#[test]
fn too_much_work_ends_an_agent_also_when_its_children_do_it() {
    let mut stage = Stage::sh("sh -c 'while :; do :; done' & wait");
    stage.order.limits.cpu_seconds = Some(1);
    let exit = stage.run();
    assert_eq!(exit.stopped, limit(Resource::CpuSeconds, 1));
    assert!(exit.cpu_seconds >= 0.9, "{}", exit.cpu_seconds);
}

#[test]
fn too_many_processes_end_an_agent() {
    let mut stage = Stage::sh("for n in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 60 & done; wait");
    stage.order.limits.processes = Some(8);
    assert_eq!(stage.run().stopped, limit(Resource::Processes, 8));
    assert_eq!(stage.marked(), [0; 0]);
}

#[test]
fn a_file_that_grows_too_large_ends_its_writer() {
    let mut stage = Stage::sh("exec dd if=/dev/zero of=big bs=1M count=8");
    stage.order.limits.file_size_mb = Some(2);
    let exit = stage.run();
    assert_eq!(exit.stopped, limit(Resource::FileSizeMb, 2));
    assert_eq!(std::fs::metadata(stage.dir.path().join("big")).unwrap().len(), 2 << 20);
}

#[test]
fn too_many_open_files_are_the_agents_own_error() {
    let mut stage = Stage::sh(
        "ulimit -Hn; ulimit -Sn; exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null; exec cat $(yes /dev/null | head -3) 10</dev/null",
    );
    stage.order.limits.open_files = Some(9);
    let exit = stage.run();
    assert_ne!(exit.exit_code, Some(0));
    assert_eq!(exit.stopped, None);
    assert!(stage.stdout().contains('9') || !stage.stderr().is_empty());
}

#[test]
fn limits_of_the_agent_are_not_the_runners() {
    let mut stage = Stage::sh("ulimit -Sf; ulimit -Hf; ulimit -n; seq 1 400000");
    stage.order.limits.file_size_mb = Some(1);
    stage.order.limits.open_files = Some(100);
    let exit = stage.run();
    assert!(exit.is_clean(), "{exit:?}");
    assert!(stage.stdout().len() > 1 << 20, "the log may be larger than what the agent may write");
    assert!(stage.stdout().lines().any(|line| line == "100"));
}

#[test]
fn a_limit_beyond_every_measure_is_none() {
    let mut stage = Stage::new(&["true"]);
    let limits = &mut stage.order.limits;
    limits.cpu_seconds = Some(u64::MAX);
    limits.file_size_mb = Some(u64::MAX);
    limits.log_mb = Some(u64::MAX);
    limits.memory_mb = Some(u64::MAX);
    let exit = stage.run();
    assert!(exit.is_clean(), "{exit:?}");
}

#[test]
fn a_crash_leaves_no_core_file_unless_the_agent_wants_one() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Core);
    setrlimit(Resource::Core, Rlimit { current: before.maximum, ..before }).unwrap();
    let stage = Stage::sh("ulimit -Sc; ulimit -Sc $(ulimit -Hc) && ulimit -Sc; ulimit -Hc");
    stage.run();
    let told = stage.stdout();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "0", "{told}");
    assert_eq!(lines[1], lines[2], "the harder limit is the user's own: {told}");
}
