//! Kills the watcher before its file operations while it launches agents, and with it its nursery, runners or
//! agents, starts another one, and asks that no task is lost and none ever has two live attempts.
//!
//! The agents are `testdata/agents/crash-part.sh`: each holds a lock for its task, which its children inherit, and
//! says so if somebody else has it. After every run the batch has succeeded, nobody overlapped, no process of it is
//! left, attempts count up one by one and within the policy, and nothing is left over on the bus.
//!
//! The ordinary run takes a sample. Every operation, each with every way to die, takes some minutes:
//!
//! ```text
//! WK_CRASH=all cargo test --release --test crash_launch -- --nocapture
//! ```
//!
//! `WK_SECONDS=n` begins no further run after that time, and spreads those that it begins evenly over the points.
//! `WK_CRASH=runners:210` plays one point again.

#[path = "../scene/apart.rs"]
mod apart;
#[path = "../scene/limit.rs"]
mod limit;
mod run;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use run::{Fall, Played, Scenario};

const SAMPLE: u64 = 5;
const JOBS: usize = 2;

#[test]
fn whoever_dies_while_agents_run_no_task_is_lost_and_none_has_two_live_attempts() {
    // Whoever looks for what dead runners left is to find nobody else.
    if apart::was_played_apart(whoever_dies_while_agents_run_no_task_is_lost_and_none_has_two_live_attempts) {
        return;
    }
    let undisturbed =
        run::play(&Scenario { fall: Fall::Nobody, at: 0 }).unwrap_or_else(|why| panic!("{why}"));
    let operations = undisturbed.operations;
    println!("undisturbed: {operations} operations");
    let points = |count: u64| (0..count).map(move |i| 1 + i * (operations - 1) / (count - 1));
    let with = |points: Vec<u64>| {
        let each = Fall::ALL.into_iter();
        each.flat_map(move |fall| points.clone().into_iter().map(move |at| Scenario { fall, at })).collect()
    };
    let scenarios: Vec<Scenario> = match std::env::var("WK_CRASH").ok().as_deref() {
        None | Some("") => with(points(SAMPLE).collect()),
        Some("all") => with((1..=operations + operations / 10).collect()),
        Some(point) => {
            vec![Scenario::named(point).expect("WK_CRASH is all, or a fall and an operation: runners:210")]
        }
    };
    let is_sample = std::env::var("WK_CRASH").unwrap_or_default().is_empty();
    let (scenarios, started) = (limit::spread(scenarios), Instant::now());
    let (next, runs, killed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let failures: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if limit::is_over(started) {
                        break;
                    }
                    runs.fetch_add(1, Ordering::Relaxed);
                    let played = if is_sample { play_until_death(scenario) } else { run::play(scenario) };
                    match played {
                        Ok(played) => {
                            killed.fetch_add(usize::from(played.was_killed), Ordering::Relaxed);
                        }
                        Err(why) => failures.lock().unwrap().push(format!("{scenario:?}: {why}")),
                    }
                }
            });
        }
    });
    let runs = runs.into_inner();
    println!("{runs} runs, {} of them with a death", killed.load(Ordering::Relaxed));
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {runs} runs failed:\n{}", failures.len(), {
        failures.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n\n")
    });
    if is_sample {
        assert_eq!(killed.load(Ordering::Relaxed), runs, "every point lies within a run");
    }
}

/// How many operations a run has depends on how long it takes: of one that is over before its point comes, an earlier
/// point is played.
fn play_until_death(scenario: &Scenario) -> Result<Played, String> {
    let mut scenario = scenario.clone();
    loop {
        let played = run::play(&scenario)?;
        if played.was_killed || scenario.at <= 1 {
            return Ok(played);
        }
        scenario.at /= 2;
    }
}
