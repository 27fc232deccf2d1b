//! One watcher for a long time: batch after batch comes and goes, and what the watcher holds does not grow with them.
//!
//! The ordinary run takes a few seconds; `WK_SECONDS=3600 cargo test --test soak -- --nocapture` takes an hour.

mod scene;

use std::time::{Duration, Instant};

use scene::{Bus, SUCCESS, ending};

const SECONDS: u64 = 3;
/// After so many batches everything has been used once, and is compared with what it is at the end.
const WARM_UP: u64 = 10;
const TASKS: usize = 6;
/// What may come and go without being a leak.
const SLACK: usize = 8;
const MEMORY_SLACK_KB: usize = 16 << 10;

/// What a process holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    watches: usize,
    threads: usize,
    memory_kb: usize,
}

impl Held {
    fn by(process: u32) -> Held {
        let dir = |name: &str| std::fs::read_dir(format!("/proc/{process}/{name}")).unwrap().count();
        let notes = std::fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten();
        let notes = notes.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
        Held {
            descriptors: dir("fd"),
            watches: notes.map(|text| text.lines().filter(|line| line.starts_with("inotify")).count()).sum(),
            threads: dir("task"),
            memory_kb: memory.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }

    fn assert_no_more_than(&self, before: &Held) {
        let told = format!("{before:?} after {WARM_UP} batches, {self:?} at the end");
        assert!(self.descriptors <= before.descriptors + SLACK, "{told}");
        assert!(self.watches <= before.watches + SLACK, "{told}");
        assert!(self.threads <= before.threads + SLACK, "{told}");
        assert!(self.memory_kb <= before.memory_kb + before.memory_kb / 5 + MEMORY_SLACK_KB, "{told}");
    }
}

/// A batch whose agents deliver by their outboxes, by the plain names, and once after a refused result.
fn round(bus: &Bus, number: u64) {
    let tasks: Vec<String> = (1..=TASKS).map(|task| task.to_string()).collect();
    bus.drop_plan(&format!("batch_id = {number}\n {}", tasks.join("\n ")));
    for task in 1..=TASKS {
        let name = format!("{number}/{task}");
        let agent = bus.agent(&name);
        agent.waits_for_spec();
        match task % 3 {
            0 => drop(bus.write(
                &format!("tasks/batch-{number}/outbox/{task}/1/result.json"),
                format!(r#"{{"task_id": "{task}", "status": "success", "output": {{}}}}"#),
            )),
            1 => drop(agent.beats().delivers(SUCCESS)),
            _ => {
                std::fs::write(agent.result(), "no result").unwrap();
                bus.wait_event(&number.to_string(), "result_refused", &task.to_string());
                agent.delivers(SUCCESS);
            }
        }
    }
    let result = bus.ended(&number.to_string());
    for task in 1..=TASKS {
        assert_eq!(ending(&result, &task.to_string()), "success", "batch {number}");
    }
}

#[test]
fn a_watcher_holds_no_more_after_many_batches_than_after_a_few() {
    let asked = std::env::var("WK_SECONDS").ok().and_then(|text| text.parse().ok());
    let longest = Duration::from_secs(asked.unwrap_or(SECONDS));
    let bus = Bus::new();
    let watcher = bus.watch(&[]);
    let started = Instant::now();
    let mut before = None;
    let mut number = 0;
    while started.elapsed() < longest || number <= WARM_UP {
        number += 1;
        round(&bus, number);
        if number == WARM_UP {
            before = Some(Held::by(watcher.id()));
        }
    }
    let (before, after) = (before.unwrap(), Held::by(watcher.id()));
    println!("{number} batches in {:.0} s; {before:?}, then {after:?}", started.elapsed().as_secs_f64());
    after.assert_no_more_than(&before);
    let left: Vec<_> =
        std::fs::read_dir(bus.path("tasks")).unwrap().flatten().map(|one| one.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    watcher.stop().exits(0);
}
