//! Rehearsals: a batch on a virtual clock, with faults, through the library and through the real binary.

mod scene;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use scene::{Bus, FAILED, SUCCESS, plan};
use serde_json::Value;
use watchkeeper::intake;
use watchkeeper::model::agent::Crew;
use watchkeeper::model::event::{BatchStatus, Entry, Event};
use watchkeeper::model::state::BatchState;
use watchkeeper::model::{Batch, Seconds, Settings};
use watchkeeper::rehearse::{Away, Chaos, Conditions, Facts, Fault, Faults, Rehearsal, rehearse};

const DEMO: &str = "testdata/demo/plan.md";

fn batch(graph: &str, settings: &Settings) -> Batch {
    let text = plan::json(graph);
    let request = intake::Request { name: "plan.json", bytes: text.as_bytes() };
    let plan = intake::read_plan(request, settings).unwrap_or_else(|defects| panic!("{defects:?}"));
    plan.into_batch(intake::Context::for_check())
}

fn by_our_agent(mut batch: Batch) -> Batch {
    for task in &mut batch.tasks {
        task.crew = Some(Crew { agent: "smoke".to_owned(), launcher: "process".to_owned() });
    }
    batch
}

fn settings(assignments: &[&str]) -> Settings {
    let mut settings = Settings::default();
    assignments.iter().for_each(|text| settings.put_text(text).unwrap());
    settings
}

type Given<'a> = &'a [(&'a str, Fault, Option<u32>)];

fn under(batch: &Batch, given: Given<'_>) -> Conditions {
    let mut faults = Faults::default();
    for (name, fault, tries) in given {
        faults.add(batch, name, *fault, *tries).unwrap();
    }
    Conditions { faults, ..Conditions::fair(&Settings::default()) }
}

/// By outsiders.
fn play(graph: &str, given: Given<'_>) -> Rehearsal {
    let batch = batch(graph, &Settings::default());
    let conditions = under(&batch, given);
    rehearse(batch, &conditions)
}

/// By an agent that is started.
fn play_ours(graph: &str, given: Given<'_>) -> Rehearsal {
    let batch = by_our_agent(batch(graph, &Settings::default()));
    let conditions = under(&batch, given);
    rehearse(batch, &conditions)
}

/// How often it was tried and how it ended: `2 failed:no_heartbeat`.
fn ending(rehearsal: &Rehearsal, name: &str) -> String {
    let task = &rehearsal.state.tasks[rehearsal.state.find(name).unwrap()];
    let tries = task.tries.len();
    match task.outcome() {
        None => format!("{tries} open"),
        Some(outcome) => match outcome.reason() {
            None => format!("{tries} success"),
            Some(reason) => format!("{tries} {}", reason.code()),
        },
    }
}

#[track_caller]
fn check_ends(rehearsal: &Rehearsal, status: BatchStatus, seconds: f64) {
    assert_eq!(rehearsal.state.finished.map(|(status, _)| status), Some(status));
    let apart = (rehearsal.elapsed.0 - seconds).abs();
    assert!(apart < 0.01, "ended after {} s, not {seconds} s", rehearsal.elapsed.0);
}

fn fold(batch: &Arc<Batch>, entries: &[Entry]) -> BatchState {
    let mut state = BatchState::new(batch.clone());
    entries.iter().for_each(|entry| state.apply(entry).unwrap());
    state
}

#[test]
fn without_faults_every_task_takes_its_estimate_and_one_without_takes_a_minute() {
    let graph = "1 estimated_hours=0.5\n 2 <- 1 estimated_hours=0\n 3 <- 1 estimated_hours=0.25";
    for rehearsal in [play(graph, &[]), play_ours(graph, &[])] {
        check_ends(&rehearsal, BatchStatus::Success, 1800.0 + 900.0);
        let facts = Facts::of(&rehearsal);
        assert_eq!(facts.stages[1].start_seconds, Some(1800.0));
        assert!((facts.worked_seconds - (1800.0 + 60.0 + 900.0)).abs() < 0.01);
        let path: Vec<&str> = facts.critical_path.iter().map(|step| step.task.as_str()).collect();
        assert_eq!(path, ["1", "3"]);
        assert!(facts.lost.is_empty() && facts.retries.is_empty());
    }
}

#[test]
fn a_silent_task_is_failed_after_its_limit_and_retried_and_a_slow_one_is_not() {
    let given: Given<'_> = &[("1", Fault::Silent, Some(1)), ("2", Fault::Slow(5.0), None)];
    let graph = "1 estimated_hours=0.2\n 2 estimated_hours=0.1";
    let rehearsal = play(graph, given);
    assert_eq!(ending(&rehearsal, "1"), "2 success");
    assert_eq!(ending(&rehearsal, "2"), "1 success");
    let facts = Facts::of(&rehearsal);
    assert_eq!(facts.retries[0].reason, "no heartbeat for 60s");
    // It fell silent midway, and a window later it was given up.
    assert!((facts.retries[0].at_seconds - (360.0 + 60.0)).abs() < 0.01, "{:?}", facts.retries);

    // The runner of ours does not answer either: it is forced after its grace before the next begins.
    let rehearsal = play_ours(graph, given);
    assert_eq!(ending(&rehearsal, "1"), "2 success");
    assert!((Facts::of(&rehearsal).retries[0].at_seconds - (360.0 + 60.0 + 15.0)).abs() < 0.01);
}

#[test]
fn a_runner_that_dies_is_seen_at_once_and_an_outsider_that_dies_falls_silent() {
    let crash: Given<'_> = &[("1", Fault::Crash, Some(1))];
    let facts = Facts::of(&play_ours("1 estimated_hours=0.1", crash));
    assert_eq!((facts.retries[0].reason_code, facts.retries[0].at_seconds), ("runner_died", 180.0));
    let facts = Facts::of(&play("1 estimated_hours=0.1", crash));
    assert_eq!(facts.retries[0].reason_code, "no_heartbeat");
}

#[test]
fn retries_exhausted_skip_exactly_the_dependents() {
    let graph = "1\n 2 <- 1\n 3 <- 2\n 4 <- 1\n 5 <- 4\n 6 <- 3 5";
    for rehearsal in [play(graph, &[("2", Fault::Fail, None)]), play_ours(graph, &[("2", Fault::Fail, None)])]
    {
        assert_eq!(rehearsal.state.finished.unwrap().0, BatchStatus::PartialSuccess);
        let code = if rehearsal.state.tasks[0].is_ours() { "agent_exited" } else { "agent_reported" };
        assert_eq!(ending(&rehearsal, "2"), format!("3 {code}"));
        for skipped in ["3", "6"] {
            assert_eq!(ending(&rehearsal, skipped), "0 dependency_failed");
        }
        for done in ["1", "4", "5"] {
            assert_eq!(ending(&rehearsal, done), "1 success");
        }
        let facts = Facts::of(&rehearsal);
        let lost: Vec<&str> = facts.lost.iter().map(|loss| loss.task.as_str()).collect();
        assert_eq!(lost, ["2", "3", "6"]);
        assert_eq!(facts.lost[2].reason, "dependency 3 was skipped because 2 failed");
        assert_eq!((facts.succeeded, facts.failed, facts.skipped), (3, 1, 2));
    }
}

#[test]
fn an_attempt_over_its_time_is_ended_whoever_does_it_and_the_advice_says_so() {
    let graph = "max_retries = 1\n 1 estimated_hours=2";
    for rehearsal in [play(graph, &[]), play_ours(graph, &[])] {
        assert_eq!(ending(&rehearsal, "1"), "2 attempt_timeout");
        assert!(rehearsal.elapsed.0 > 7200.0 && rehearsal.elapsed.0 < 7202.0, "{:?}", rehearsal.elapsed);
        let advice = Facts::of(&rehearsal).advice.join("\n");
        assert!(advice.contains("Phase 1: would be ended after 1h, and the estimate is 2h"), "{advice}");
    }
    let exactly = play_ours("1 estimated_hours=1", &[]);
    check_ends(&exactly, BatchStatus::Success, 3600.0);
}

#[test]
fn a_stage_or_a_batch_over_its_time_ends_all_that_is_under_way() {
    let graph = "1 estimated_hours=0.1\n 2 estimated_hours=0.5\n 3 <- 1 estimated_hours=0.1";
    for own in [false, true] {
        let with = |assignment: &str| {
            let batch = batch(graph, &settings(&[assignment]));
            let batch = if own { by_our_agent(batch) } else { batch };
            rehearse(batch, &Conditions::fair(&Settings::default()))
        };
        let rehearsal = with("stage_timeout_seconds=1000");
        check_ends(&rehearsal, BatchStatus::Timeout, 1000.0);
        assert_eq!(ending(&rehearsal, "2"), "1 stage_timeout");
        assert_eq!(ending(&rehearsal, "3"), "1 success");
        let rehearsal = with("batch_timeout_seconds=500");
        check_ends(&rehearsal, BatchStatus::Timeout, 500.0);
        assert_eq!(ending(&rehearsal, "1"), "1 success");
        assert_eq!(ending(&rehearsal, "2"), "1 batch_timeout");
    }
}

#[test]
fn while_the_watcher_is_away_nothing_is_lost() {
    let graph = "1 estimated_hours=0.5\n 2 estimated_hours=0.9\n 3 <- 1 estimated_hours=0.5";
    for own in [false, true] {
        let batch = || match own {
            true => by_our_agent(batch(graph, &Settings::default())),
            false => batch(graph, &Settings::default()),
        };
        let away = Away { from: Seconds(600.0), lasting: Seconds(2.0 * 3600.0) };
        let conditions = Conditions { away: vec![away], ..Conditions::fair(&Settings::default()) };
        let rehearsal = rehearse(batch(), &conditions);
        check_ends(&rehearsal, BatchStatus::Success, 600.0 + 7200.0 + 1800.0);
        assert!(rehearsal.state.tasks.iter().all(|task| task.tries.len() == 1), "nobody was given up");
        let facts = Facts::of(&rehearsal);
        let away = facts.watcher_away[0];
        assert_eq!((away.running, away.found, away.lost), (2, 2, 0), "{own}");
        let resumed = rehearsal.entries.iter().filter(|entry| matches!(entry.event, Event::Resumed { .. }));
        assert_eq!(resumed.count(), 1);
    }
}

#[test]
fn an_outsiders_time_stands_still_while_nobody_watches() {
    let batch = batch("1 estimated_hours=1.4", &settings(&["timeout_seconds=3600", "max_retries=0"]));
    let away = Away { from: Seconds(600.0), lasting: Seconds(1800.0) };
    let conditions = Conditions { away: vec![away], ..Conditions::fair(&Settings::default()) };
    // 84 minutes of work, of which the watcher saw 54: within the hour.
    check_ends(&rehearse(batch, &conditions), BatchStatus::Success, 1.4 * 3600.0);
}

#[test]
fn one_that_falls_silent_unwatched_has_a_full_window_after_the_return() {
    let batch = batch("1 estimated_hours=0.5", &Settings::default());
    let away = Away { from: Seconds(600.0), lasting: Seconds(3600.0) };
    let conditions = Conditions { away: vec![away], ..under(&batch, &[("1", Fault::Silent, Some(1))]) };
    let facts = Facts::of(&rehearse(batch, &conditions));
    assert_eq!(facts.retries[0].reason_code, "no_heartbeat");
    assert!((facts.retries[0].at_seconds - (600.0 + 3600.0 + 60.0)).abs() < 0.01, "{:?}", facts.retries);
}

#[test]
fn when_many_fall_silent_together_the_watcher_doubts_itself_first() {
    let given: Vec<(&str, Fault, Option<u32>)> =
        ["1", "2", "3", "4"].iter().map(|name| (*name, Fault::Silent, Some(1))).collect();
    let rehearsal = play("1\n 2\n 3\n 4", &given);
    assert_eq!(rehearsal.state.suspicions, 1);
    assert_eq!(rehearsal.state.finished.unwrap().0, BatchStatus::Success);
    // Half of six minutes, the window, and the window of doubt.
    let at = Facts::of(&rehearsal).retries[0].at_seconds;
    assert!((at - (180.0 + 120.0)).abs() < 0.01, "{at}");
}

#[test]
fn beats_that_are_too_rare_for_their_limit_fail_a_healthy_agent() {
    let batch = batch("1", &settings(&["heartbeat_interval_seconds=90", "max_retries=0"]));
    let rehearsal = rehearse(batch, &Conditions::fair(&Settings::default()));
    assert_eq!(ending(&rehearsal, "1"), "1 no_heartbeat");
    let advice = Facts::of(&rehearsal).advice.join("\n");
    assert!(advice.contains("is less than two beats of 1m 30s"), "{advice}");
}

#[test]
fn what_nobody_starts_waits_for_ever_unless_a_limit_is_set() {
    let never: Given<'_> = &[("2", Fault::NeverStart, None)];
    let rehearsal = play("1\n 2\n 3 <- 2", never);
    assert_eq!(rehearsal.state.finished, None);
    let facts = Facts::of(&rehearsal);
    assert_eq!(facts.status, None);
    assert!(facts.advice[0].contains("Phase 2: would wait for an agent for ever"), "{:?}", facts.advice);
    assert_eq!(ending(&play_ours("1\n 2\n 3 <- 2", never), "2"), "3 never_started");
    let batch = batch("1\n 2\n 3 <- 2", &settings(&["start_timeout_seconds=120", "max_retries=0"]));
    let conditions = under(&batch, never);
    assert_eq!(ending(&rehearse(batch, &conditions), "2"), "1 never_started");
}

#[test]
fn slots_limit_what_is_started_and_idle_ones_are_told() {
    let wide = (0..12).map(|n| format!("{n} estimated_hours=0.1")).collect::<Vec<_>>().join("\n");
    // Four is what a batch of ours has that does not say.
    let facts = Facts::of(&play_ours(&wide, &[]));
    assert_eq!((facts.slots.limit, facts.slots.peak), (Some(4), 4));
    assert_eq!(facts.slots.busy, Some(1.0));
    check_ends(&play_ours(&wide, &[]), BatchStatus::Success, 3.0 * 360.0);
    check_ends(&play(&wide, &[]), BatchStatus::Success, 360.0);
    let facts = Facts::of(&play(&format!("parallel_limit = 2\n{wide}"), &[]));
    assert_eq!((facts.slots.peak, facts.elapsed_seconds), (2, 6.0 * 360.0));
    assert!(facts.critical_path[1..].iter().all(|step| step.waited_for == "slot"));
    let batch = by_our_agent(batch(&wide, &settings(&["parallel_limit=8"])));
    let conditions = Conditions::fair(&settings(&["max_running=3"]));
    assert_eq!(rehearse(batch, &conditions).peak, 3);
    let facts = Facts::of(&play_ours("parallel_limit = 3\n 1\n 2 <- 1", &[]));
    assert_eq!(facts.advice, ["2 slots of 3 would never be used: a parallel_limit of 1 does as well"]);
}

#[test]
fn tasks_that_share_a_file_run_one_after_the_other_and_the_path_says_why() {
    let facts = Facts::of(&play(
        r#"1 files_modified=["a"]
        2 files_modified=["a"]"#,
        &[],
    ));
    assert!((facts.elapsed_seconds - 720.0).abs() < 0.01);
    assert_eq!(facts.critical_path[1].waited_for, "file");
}

/// Layers of tasks that depend on a few of the layer before.
fn layered(tasks: usize) -> String {
    let mut graph = String::new();
    for n in 0..tasks {
        let hours = 0.05 + (n * 7 % 13) as f64 / 10.0;
        let (layer, place) = (n / 6, n % 6);
        let needs = |other: usize| format!(" {}", (layer - 1) * 6 + other % 6);
        let needs =
            if layer == 0 { String::new() } else { format!(" <-{}{}", needs(place), needs(place + 1)) };
        graph.push_str(&format!("{n}{needs} estimated_hours={hours} files_modified=[\"f{}\"]\n", n % 17));
    }
    graph
}

#[test]
fn under_any_chaos_the_journal_folds_to_the_state_and_the_path_leads_from_start_to_end() {
    for seed in 0..200 {
        let batch = batch(&layered(36), &settings(&["stage_timeout_seconds=30000"]));
        let batch = if seed % 2 == 0 { by_our_agent(batch) } else { batch };
        let chaos = Chaos { seed, rate: 0.4 };
        let mut conditions = Conditions::fair(&Settings::default());
        conditions.faults.set_chaos(chaos);
        conditions.away.extend(chaos.absence());
        let rehearsal = rehearse(batch, &conditions);
        let state = &rehearsal.state;
        assert!(state.finished.is_some(), "seed {seed} ends");
        assert_eq!(fold(&state.batch, &rehearsal.entries), *state, "seed {seed}");
        let facts = Facts::of(&rehearsal);
        assert_eq!(facts.succeeded + facts.failed + facts.skipped, facts.task_count);
        assert!(facts.watcher_away.iter().all(|away| away.lost == 0), "seed {seed}");
        let path = &facts.critical_path;
        assert!(path[0].from_seconds < 0.01, "seed {seed}: {path:?}");
        assert!((path.last().unwrap().to_seconds - facts.elapsed_seconds).abs() < 0.01, "seed {seed}");
        for pair in path.windows(2) {
            let gap = pair[1].from_seconds - pair[0].to_seconds;
            // Between two links lies nothing but a retry's delay, or the watcher's absence.
            let is_unwatched = |from: f64| {
                facts.watcher_away.iter().any(|away| (away.from_seconds..=away.to_seconds).contains(&from))
            };
            let is_delay = pair[1].waited_for == "retry_delay" && (0.0..=4.1).contains(&gap);
            let is_near = gap.abs() < 0.01 || is_delay || is_unwatched(pair[0].to_seconds + 4.0);
            assert!(is_near, "seed {seed}: a gap of {gap} s: {pair:?}");
        }
    }
}

#[test]
fn time_jumps_from_happening_to_happening_however_long_the_plan_takes() {
    let chain: String = (0..2000)
        .map(|n| if n == 0 { "0\n".to_owned() } else { format!("{n} <- {} estimated_hours=0.9\n", n - 1) })
        .collect();
    let rehearsal = play_ours(&chain, &[]);
    assert!(rehearsal.elapsed.0 > 70.0 * 86_400.0);
    assert!(rehearsal.decisions < 2 * 2000 + 10, "{} decisions", rehearsal.decisions);
}

/// By task: its status and why each of its attempts failed.
fn endings(tasks: &Value) -> BTreeMap<String, (String, Vec<String>)> {
    let mut endings = BTreeMap::new();
    for task in tasks.as_array().unwrap() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let attempts = task["attempts"].as_array().unwrap();
        let codes = attempts.iter().map(|attempt| text(&attempt["reason_code"])).collect();
        endings.insert(text(&task["key"]), (text(&task["status"]), codes));
    }
    endings
}

#[test]
fn the_demo_goes_in_a_rehearsal_as_it_goes_in_truth() {
    let bus = Bus::new();
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join(DEMO);
    let name = plan.to_str().unwrap();
    let rehearsed = bus.wk(&["rehearse", name, "--fail", "3b:1", "--fail", "3c", "--json"]).exits(3).json();
    let run = bus.run(&plan, &[]);
    std::fs::create_dir_all(bus.root().join("out")).unwrap();
    let works = |key: &str, tries: &[&str]| {
        for (attempt, status) in (1..).zip(tries) {
            let agent = bus.agent(&format!("1/{key}"));
            agent.waits_for_attempt(attempt);
            std::fs::write(bus.root().join(format!("out/{key}.txt")), format!("attempt {attempt}\n"))
                .unwrap();
            agent.delivers_for(attempt, status);
        }
    };
    for key in ["1", "2a", "2b", "3a"] {
        works(key, &[SUCCESS]);
    }
    works("3b", &[FAILED, SUCCESS]);
    works("3c", &[FAILED, FAILED]);
    works("4a", &[SUCCESS]);
    works("5", &[SUCCESS]);
    run.ends().exits(3);
    let truth = bus.ended("1");
    assert_eq!(endings(&rehearsed["timeline"]["tasks"]), endings(&truth["results"]));
    assert_eq!(rehearsed["status"], truth["status"]);
}

#[test]
fn a_rehearsal_leaves_nothing_on_the_disk() {
    let place = tempfile::tempdir().unwrap();
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join(DEMO);
    std::fs::copy(&plan, place.path().join("plan.md")).unwrap();
    for more in [&[] as &[&str], &["--json"], &["--journal"], &["--set", "agent=claude", "--chaos", "3"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wk"));
        command.current_dir(place.path()).args(["rehearse", "plan.md", "--crash", "2a:1"]).args(more);
        let ran = scene::Ran::of(&mut command);
        assert!([Some(0), Some(3)].contains(&ran.code), "{ran:?}");
        let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["plan.md"]);
    }
}

#[test]
fn the_same_seed_prints_the_same_bytes_and_another_seed_others() {
    let bus = Bus::new();
    let plan = bus.plan(&layered(60));
    let name = plan.to_str().unwrap();
    let run = |seed: &str, form: &[&str]| {
        let args = [&["rehearse", name, "--chaos", seed, "--rate", "0.3"], form].concat();
        bus.wk(&args).out
    };
    for form in [&[] as &[&str], &["--json"], &["--journal"]] {
        assert_eq!(run("7", form), run("7", form));
        assert_ne!(run("7", form), run("8", form));
    }
    let batch = Arc::new(batch(&layered(60), &Settings::default()));
    let entries: Vec<Entry> =
        run("7", &["--journal"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let state = fold(&batch, &entries);
    let told: Value = serde_json::from_str(&run("7", &["--json"])).unwrap();
    assert_eq!(told["status"], state.finished.unwrap().0.word());
    assert_eq!(told["events"], entries.len());
}

#[test]
fn the_exit_code_is_that_of_the_run_and_an_expectation_is_met_or_not() {
    let bus = Bus::new();
    let plan = bus.plan("max_retries = 0\n 1\n 2 <- 1");
    let name = plan.to_str().unwrap();
    let rehearse = |more: &[&str]| bus.wk(&[&["rehearse", name], more].concat());
    rehearse(&[])
        .exits(0)
        .says("Rehearsal of plan.json: would end as success after 12m")
        .complains("decisions");
    rehearse(&["--fail", "1"]).exits(1).says("would end as failure").says("dependency 1 failed");
    rehearse(&["--fail", "2"]).exits(3).says("1 of 2 tasks succeeded, 1 failed");
    rehearse(&["--set", "batch_timeout_seconds=60"]).exits(4).says("would end as timeout after 1m");
    rehearse(&["--never-start", "2"]).exits(6).says("would not end").says("for ever");
    rehearse(&["--watcher-down", "3:60"]).exits(0).says("nothing was lost by it");
    rehearse(&["--fail", "2", "--expect", "partial_success"]).exits(0);
    rehearse(&["--expect", "failure"]).exits(1);
    rehearse(&["--fail", "phase-3"]).exits(2).complains("the plan has no task 'phase-3'");
    rehearse(&["--slow", "1"]).exits(2).complains("TASK:FACTOR");
    rehearse(&["--help"]).exits(0).says("Examples:").says("--chaos 7");
    std::fs::write(&plan, r#"{"phases": [{"id": "1"}]}"#).unwrap();
    let check = bus.wk(&["check", name]).exits(2);
    assert_eq!(rehearse(&[]).exits(2).err, check.err);
}
