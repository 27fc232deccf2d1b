//! Kills the watcher with SIGKILL before each of its file operations, starts another one, and asks for the
//! same batch result, byte for byte.
//!
//! The real binary runs a reference batch of twelve tasks (`reference.rs`) for agents from outside, which are
//! threads of this test and follow nothing but the contract (`agents.rs`). `WK_CRASH_AT=k` makes a watcher die
//! before its k-th file operation; the next one is started without it, or dies once more in the middle of the
//! recovery. After each run the checks of `checks.rs` hold: the result equals that of an undisturbed run in
//! everything that is not measured, every result that the journal names by hash is in the archive, the
//! journal is whole, its epochs and clocks never go back, the plan was accepted once and the batch ended
//! once, no task had more attempts than the policy allows, and nothing is left over.
//!
//! The ordinary run takes an evenly spread sample. All points, and a death in the recovery at each of its
//! first operations, take some minutes:
//!
//! ```text
//! WK_CRASH=all cargo test --release --test crash -- --nocapture
//! ```
//!
//! `WK_SECONDS=n` begins no further run after that time, and spreads those that it begins evenly over the points.
//! `WK_CRASH=inbox:210` or `WK_CRASH=run:97:12` plays one point again, `WK_CRASH_JOBS=n` sets how many runs go
//! on at once. How many operations there are depends a little on timing, so the complete run goes beyond the
//! number of the undisturbed one; a run that is over before its point comes is counted as not killed.

mod agents;
mod checks;
#[path = "../scene/limit.rs"]
mod limit;
mod reference;
mod run;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use run::{Scenario, Way};

/// Single deaths per way in the ordinary run.
const SAMPLE: u64 = 12;
/// Second deaths per way in the ordinary run, and in the complete one.
const SECOND_SAMPLE: u64 = 4;
const SECOND_ALL: u64 = 80;
const JOBS: usize = 2;
const FAILURES_TOLD: usize = 5;

/// An undisturbed run: what all others are compared with.
struct Baseline {
    way: Way,
    operations: u64,
    result: String,
}

#[test]
fn a_killed_watcher_changes_nothing_but_the_time_that_it_took() {
    let baselines: Vec<Baseline> = Way::BOTH.into_iter().map(baseline).collect();
    let scenarios = match std::env::var("WK_CRASH").ok().as_deref() {
        None | Some("") => baselines.iter().flat_map(sample).collect(),
        Some("all") => baselines.iter().flat_map(everything).collect(),
        Some(point) => vec![one(point).expect("WK_CRASH is all, inbox:K, run:K, or one of these with :K2")],
    };
    let scenarios = limit::spread(scenarios);
    let tally = play_all(&scenarios, &baselines);
    tally.print(&baselines);
    let failures = tally.failures.into_inner().unwrap();
    let runs = tally.runs.into_inner();
    assert!(failures.is_empty(), "{} of {runs} runs failed:\n{}", failures.len(), {
        failures.iter().take(FAILURES_TOLD).map(String::as_str).collect::<Vec<_>>().join("\n\n")
    });
}

fn baseline(way: Way) -> Baseline {
    let played = run::play(&Scenario { way, deaths: Vec::new() }).unwrap_or_else(|why| panic!("{why}"));
    let result = checks::masked_result(&played).unwrap();
    let faults = checks::faults(&played, &result);
    assert!(faults.is_empty(), "undisturbed {way:?}: {faults:?}\n{}", run::story(played.root.path()));
    assert!(result.contains("\"status\": \"success\""), "{result}");
    println!("undisturbed, {way:?}: {} operations, {:.1} s", played.operations, played.took.as_secs_f64());
    Baseline { way, operations: played.operations, result }
}

fn sample(baseline: &Baseline) -> Vec<Scenario> {
    let single = (0..SAMPLE).map(|i| vec![1 + i * (baseline.operations - 1) / (SAMPLE - 1)]);
    single.chain(second_deaths(baseline, SECOND_SAMPLE)).map(|deaths| at(baseline.way, deaths)).collect()
}

fn everything(baseline: &Baseline) -> Vec<Scenario> {
    let beyond = baseline.operations + baseline.operations / 10;
    let single = (1..=beyond).map(|k| vec![k]);
    single.chain(second_deaths(baseline, SECOND_ALL)).map(|deaths| at(baseline.way, deaths)).collect()
}

/// Deaths in the middle of the recovery from deaths that are spread over the run.
fn second_deaths(baseline: &Baseline, count: u64) -> impl Iterator<Item = Vec<u64>> + '_ {
    (1..=count).map(move |i| vec![i * baseline.operations / (count + 1) + 1, i * SECOND_ALL / count])
}

fn at(way: Way, deaths: Vec<u64>) -> Scenario {
    Scenario { way, deaths }
}

/// `inbox:210` or `run:97:12`.
fn one(point: &str) -> Option<Scenario> {
    let (way, deaths) = point.split_once(':')?;
    let way = Way::BOTH.into_iter().find(|known| format!("{known:?}").eq_ignore_ascii_case(way))?;
    let deaths = deaths.split(':').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some(at(way, deaths))
}

/// What came of all runs together.
struct Tally {
    started: Instant,
    runs: AtomicUsize,
    killed_once: AtomicUsize,
    killed_twice: AtomicUsize,
    durations: Mutex<Vec<Duration>>,
    failures: Mutex<Vec<String>>,
}

fn play_all(scenarios: &[Scenario], baselines: &[Baseline]) -> Tally {
    let tally = Tally {
        started: Instant::now(),
        runs: AtomicUsize::new(0),
        killed_once: AtomicUsize::new(0),
        killed_twice: AtomicUsize::new(0),
        durations: Mutex::default(),
        failures: Mutex::default(),
    };
    let jobs = std::env::var("WK_CRASH_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(JOBS);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if limit::is_over(tally.started) {
                        break;
                    }
                    let baseline = baselines.iter().find(|known| known.way == scenario.way);
                    tally.play(scenario, baseline.expect("both ways have one"), scenarios.len());
                }
            });
        }
    });
    tally
}

impl Tally {
    fn play(&self, scenario: &Scenario, baseline: &Baseline, of: usize) {
        let name = format!("{:?} {:?}", scenario.way, scenario.deaths);
        match run::play(scenario) {
            Ok(played) => {
                let faults = checks::faults(&played, &baseline.result);
                if !faults.is_empty() {
                    self.fail(format!("{name}: {faults:#?}\n{}", run::story(played.root.path())));
                }
                match played.killed {
                    0 => {}
                    1 => drop(self.killed_once.fetch_add(1, Ordering::Relaxed)),
                    _ => drop(self.killed_twice.fetch_add(1, Ordering::Relaxed)),
                }
                self.durations.lock().unwrap().push(played.took);
            }
            Err(why) => self.fail(format!("{name}: {why}")),
        }
        let done = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(50) {
            let failed = self.failures.lock().unwrap().len();
            println!("{done} of {of} runs, {failed} failed, {:.0} s", self.started.elapsed().as_secs_f64());
        }
    }

    fn fail(&self, text: String) {
        println!("FAILED {}", text.lines().take(6).collect::<Vec<_>>().join("\n  "));
        self.failures.lock().unwrap().push(text);
    }

    fn print(&self, baselines: &[Baseline]) {
        let mut durations = self.durations.lock().unwrap().clone();
        durations.sort();
        let at = |share: f64| {
            let index = (durations.len() as f64 * share) as usize;
            durations.get(index.min(durations.len().saturating_sub(1))).map_or(0.0, Duration::as_secs_f64)
        };
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        for baseline in baselines {
            println!("{:<28} {:>8}", format!("operations, {:?}", baseline.way), baseline.operations);
        }
        let over = durations.len() - of(&self.killed_once) - of(&self.killed_twice);
        println!("{:<28} {:>8}", "runs", of(&self.runs));
        println!("{:<28} {:>8}", "killed once", of(&self.killed_once));
        println!("{:<28} {:>8}", "killed twice", of(&self.killed_twice));
        println!("{:<28} {:>8}", "over before the point", over);
        println!("{:<28} {:>8}", "failed", self.failures.lock().unwrap().len());
        println!("{:<28} {:>8.2}", "seconds a run, median", at(0.5));
        println!("{:<28} {:>8.2}", "seconds a run, longest", at(1.0));
        println!("{:<28} {:>8.0}", "seconds in all", self.started.elapsed().as_secs_f64());
    }
}
