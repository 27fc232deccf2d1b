//! The whole watcher in a world of its own: a virtual clock, a disk in memory, agents that fail in every way
//! there is, and an oracle that knows what must hold. A seed is a world; ten thousand are the ordinary run.
//!
//! `WK_SEEDS=100000` plays more. A failing seed is printed; `WK_SEED=n cargo test --test simulate` plays
//! that one again, with everything that happened.

mod agents;
mod disk;
mod end;
mod fault;
mod mishaps;
mod mutants;
mod oracle;
mod plan;
mod random;
mod script;
mod tree;
mod watching;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fault::{Fault, Fired, Menu};
use oracle::Violation;
use world::{Options, Outcome, World};

const SEEDS: u64 = 10_000;
/// A fault that hardly ever happens is not tested.
const FIRES_LEAST: u64 = 100;

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The menu of an ordinary seed: most are half of everything, some leave the watcher alone so that its
/// bounds can be checked.
fn ordinary(seed: u64) -> Options {
    let mut options = Options::swarm(seed);
    if seed.is_multiple_of(5) {
        let about_the_watcher = &Fault::ALL[..=Fault::CoarseClock as usize];
        options.menu = options.menu.without(about_the_watcher);
    }
    options
}

/// Plays seeds on all cores until one breaks a promise; with `WK_KEEP_GOING=1` to the end, telling each one.
fn play(seeds: u64, options: impl Fn(u64) -> Options + Sync) -> (Fired, u64, Option<(u64, Violation)>) {
    let keeps_going = number_from("WK_KEEP_GOING").is_some();
    let next = AtomicU64::new(0);
    let found: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    let total = Mutex::new((Fired::default(), 0));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut fired = Fired::default();
                let mut turns = 0;
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || (!keeps_going && found.lock().unwrap().is_some()) {
                        break;
                    }
                    let outcome = World::new(seed, options(seed)).run();
                    fired.add(&outcome.fired);
                    turns += outcome.turns;
                    if let Some(violation) = outcome.violation {
                        if keeps_going {
                            println!("{} WK_SEED={seed} {}", violation.invariant, violation.detail);
                        }
                        found.lock().unwrap().get_or_insert((seed, violation));
                    }
                }
                let mut total = total.lock().unwrap();
                total.0.add(&fired);
                total.1 += turns;
            });
        }
    });
    let (fired, turns) = total.into_inner().unwrap();
    (fired, turns, found.into_inner().unwrap())
}

/// Plays one seed with everything told.
fn replay(seed: u64) {
    let outcome = World::new(seed, Options { traces: true, ..ordinary(seed) }).run();
    for line in &outcome.trace {
        println!("{line}");
    }
    if let Some(Violation { invariant, detail }) = outcome.violation {
        panic!("WK_SEED={seed}: {invariant} is broken: {detail}");
    }
    println!("seed {seed}: every promise was kept");
}

#[test]
fn every_promise_is_kept_in_ten_thousand_worlds() {
    if let Some(seed) = number_from("WK_SEED") {
        return replay(seed);
    }
    let seeds = number_from("WK_SEEDS").unwrap_or(SEEDS);
    let started = Instant::now();
    let (fired, turns, found) = play(seeds, ordinary);
    let seconds = started.elapsed().as_secs_f64();
    println!("{seeds} seeds, {turns} turns, {seconds:.1} s ({:.0} seeds/s)", seeds as f64 / seconds);
    for fault in Fault::ALL {
        println!("{:>9}  {}", fired.of(*fault), fault.words());
    }
    if let Some((seed, Violation { invariant, detail })) = found {
        panic!(
            "{invariant} is broken: {detail}\n  WK_SEED={seed}\n  replay: WK_SEED={seed} cargo test --test simulate \
             every_promise -- --nocapture"
        );
    }
    if seeds >= SEEDS {
        for fault in Fault::ALL {
            assert!(fired.of(*fault) >= FIRES_LEAST, "it hardly ever happened that {}", fault.words());
        }
    }
}

#[test]
fn a_seed_is_one_world_however_often_it_is_played() {
    for seed in 0..60 {
        let told = || World::new(seed, Options { traces: true, ..ordinary(seed) }).run().trace;
        let (first, again) = (told(), told());
        let difference = first.iter().zip(&again).find(|(one, other)| one != other);
        assert_eq!((difference, first.len()), (None, again.len()), "WK_SEED={seed}");
    }
}

#[test]
fn the_median_batch_has_eight_tasks_or_more() {
    let stories = (0..SEEDS).map(|seed| plan::Story::of(seed, &ordinary(seed).menu, false));
    let mut sizes: Vec<usize> =
        stories.flat_map(|story| story.batches).map(|batch| batch.tasks.len()).collect();
    sizes.sort_unstable();
    assert!(sizes[sizes.len() / 2] >= 8, "the median is {}", sizes[sizes.len() / 2]);
}

/// The batch results with what is measured taken out.
fn masked(outcome: &Outcome) -> Vec<(String, serde_json::Value)> {
    fn mask(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.retain(|name, _| {
                    !watchkeeper::outcome::aggregate::VOLATILE_FIELDS.contains(&name.as_str())
                });
                fields.values_mut().for_each(mask);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(mask),
            _ => {}
        }
    }
    let mut results: Vec<_> = outcome
        .results
        .iter()
        .map(|(id, bytes)| {
            let mut value = serde_json::from_slice(bytes).unwrap();
            mask(&mut value);
            (id.clone(), value)
        })
        .collect();
    results.sort_by(|a, b| a.0.cmp(&b.0));
    results
}

#[test]
fn a_watcher_killed_anywhere_changes_no_outcome() {
    const CRASHES: &[Fault] = &[
        Fault::Crash,
        Fault::DoubleCrash,
        Fault::LostEvent,
        Fault::DuplicatedEvent,
        Fault::EventOverflow,
        Fault::WatcherStopped,
        Fault::Suspended,
        Fault::WallStep,
    ];
    for seed in 0..number_from("WK_CALM_SEEDS").unwrap_or(500) {
        let calm = |faults: &[Fault], traces| {
            let menu = Menu::only(&[script::CALM, faults].concat());
            World::new(seed, Options { menu, is_calm: true, traces, ..Options::swarm(seed) }).run()
        };
        let (undisturbed, disturbed) = (calm(&[], false), calm(CRASHES, false));
        assert_eq!(undisturbed.violation, None, "WK_SEED={seed}");
        assert_eq!(disturbed.violation, None, "WK_SEED={seed}");
        if masked(&undisturbed) != masked(&disturbed) {
            let told = calm(CRASHES, true).trace.join("\n");
            panic!(
                "WK_SEED={seed}: I13: the outcome differs\n{told}\n{:#?}\n{:#?}",
                masked(&undisturbed),
                masked(&disturbed)
            );
        }
    }
}
