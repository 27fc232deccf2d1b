//! Every plan in `testdata/plans`, good or bad, beside what intake must make of it.
//!
//! After a change that is meant, run with `WK_BLESS=1` and read the difference before committing it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use watchkeeper::intake::{Context, Request, read_plan};
use watchkeeper::model::{Batch, Defect, Settings};

#[test]
fn every_plan_is_read_as_written_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/plans");
    let bless = std::env::var_os("WK_BLESS").is_some();
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in plans_in(&folder) {
        let bytes = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let outcome = outcome_of(name, &bytes);
        let expected_path = path.with_file_name(format!("{name}.expected"));
        if bless {
            fs::write(&expected_path, &outcome).unwrap();
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if outcome != expected {
            wrong.push(format!("{name}\n--- expected\n{expected}--- found\n{outcome}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count} plans differ:\n\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 40, "only {count} plans in {}", folder.display());
}

fn plans_in(folder: &Path) -> Vec<PathBuf> {
    let mut plans: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md" || ending == "json"))
        .collect();
    plans.sort();
    plans
}

fn outcome_of(name: &str, bytes: &[u8]) -> String {
    match read_plan(Request { name, bytes }, &Settings::default()) {
        Ok(plan) => {
            let own_id = plan.own_id().cloned();
            let batch = plan.into_batch(Context::for_check());
            let id = own_id.map(|id| format!(" (batch {id})")).unwrap_or_default();
            format!("ok{id}\n{}", told(&batch))
        }
        Err(defects) => format!("refused\n{}", listed(&defects)),
    }
}

fn listed(defects: &[Defect]) -> String {
    defects.iter().fold(String::new(), |mut text, defect| {
        let _ =
            writeln!(text, "{}: {} [{}]\n    {}", defect.place, defect.message, defect.rule, defect.remedy);
        text
    })
}

/// What intake made of a plan, in lines that show every field that is not empty.
fn told(batch: &Batch) -> String {
    let mut text = String::new();
    for task in &batch.tasks {
        let needs: Vec<&str> = task.dependencies.iter().map(watchkeeper::model::TaskKey::as_str).collect();
        let needs = if needs.is_empty() { "-".to_owned() } else { needs.join(" ") };
        let hours = task.estimated_hours.unwrap_or(f64::NAN);
        let (key, id, stage, kind, name) =
            (&task.key, &task.task_id, task.stage, task.kind, &task.phase_name);
        let _ = writeln!(text, "task {key} {id} \"{name}\"");
        let _ = writeln!(
            text,
            "    stage {stage}, {kind}, {} complexity, {hours} h, needs {needs}",
            task.complexity
        );
        let _ = writeln!(text, "    goal: {:?}", task.goal);
        for (what, list) in [("file", &task.files_modified), ("step", &task.steps)] {
            for entry in list {
                let _ = writeln!(text, "    {what}: {entry:?}");
            }
        }
        for gate in &task.validation_gates {
            let _ = writeln!(text, "    gate: {:?} {:?}", gate.text, gate.command);
        }
        for (what, value) in [("conflict notes", &task.conflict_notes), ("agent", &task.agent)] {
            if let Some(value) = value {
                let _ = writeln!(text, "    {what}: {value:?}");
            }
        }
        if let Some(command) = &task.command {
            let _ = writeln!(text, "    command: {command:?}");
        }
        if task.limits != default_limits() {
            let _ = writeln!(text, "    {:?}", task.limits);
        }
        for (name, value) in &task.extra {
            let _ = writeln!(text, "    extra {name}: {value}");
        }
    }
    for conflict in &batch.file_conflicts {
        let _ = writeln!(text, "conflict: {} {:?}", conflict.file, conflict.tasks);
    }
    for warning in &batch.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text + &policy_of(batch)
}

/// What the plan sets for its batch.
fn policy_of(batch: &Batch) -> String {
    let mut text = String::new();
    let spans = [("stage timeout", batch.stage_timeout), ("batch timeout", batch.batch_timeout)];
    for (what, span) in spans {
        if let Some(span) = span {
            let _ = writeln!(text, "{what}: {span}");
        }
    }
    if let Some(limit) = batch.parallel_limit {
        let _ = writeln!(text, "parallel limit: {limit}");
    }
    let defaults = Settings::default();
    if batch.require != defaults.require || batch.on_file_conflict != defaults.on_file_conflict {
        let _ = writeln!(text, "require {}, on file conflict {:?}", batch.require, batch.on_file_conflict);
    }
    text
}

fn default_limits() -> watchkeeper::model::Limits {
    let plan = "### Phase 1: X\n**Goal**: x\n**Complexity**: low\n**Estimated Hours**: 0\n**Files Modified**: None\n**Dependencies**: None\n";
    let plan = read_plan(Request { name: "x", bytes: plan.as_bytes() }, &Settings::default()).unwrap();
    plan.tasks()[0].limits
}

fn phase(label: &str, title: &str, dependencies: &str) -> String {
    format!(
        "### Phase {label}: {title}\n\n**Goal**: reach {title}\n**Complexity**: low\n**Estimated Hours**: 0.5\n\
         **Files Modified**: src/{label}.rs\n**Dependencies**: {dependencies}\n\n"
    )
}

fn defects_of(plan: &str) -> Vec<Defect> {
    read_plan(Request { name: "generated", bytes: plan.as_bytes() }, &Settings::default()).unwrap_err()
}

#[test]
fn a_cycle_of_a_thousand_is_told_as_its_full_path() {
    let plan: String = (0..1_000)
        .map(|n| phase(&n.to_string(), &format!("Task {n}"), &format!("Phase {}", (n + 1) % 1_000)))
        .collect();
    let defects = defects_of(&plan);
    assert_eq!(defects.len(), 1);
    assert_eq!(defects[0].message.matches(" → ").count(), 1_000);
    assert!(defects[0].message.starts_with("Circular dependency: Phase 0 → Phase 1 → Phase 2 → "));
    assert!(defects[0].message.ends_with(" → Phase 999 → Phase 0"));
}

#[test]
fn a_plan_beyond_the_limits_is_refused_at_once() {
    let started = Instant::now();
    let phases = "### Phase 1: X\n".repeat(200_001);
    let defects = defects_of(&phases);
    assert!(defects.iter().any(|defect| defect.rule == "too_many_tasks"), "{:?}", defects.last());
    assert!(defects.len() <= 1_001, "the list of defects is bounded too");
    let list = format!("[{}1]", "1,".repeat(200_000));
    let list = format!("{{\"phases\": {list}}}");
    assert_eq!(defects_of(&list)[0].rule, "too_many_tasks");
    let large = "x".repeat(65 * 1024 * 1024);
    assert_eq!(defects_of(&large)[0].rule, "too_large");
    // Far above what it takes, and far below what a search of every pair would.
    assert!(started.elapsed().as_secs() < 300, "{:?}", started.elapsed());
}

#[test]
fn ten_thousand_tasks_with_a_thousand_dependencies_each_are_planned() {
    let label = |n: usize| {
        let digits = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let (high, middle, low) = (n / 1296, n / 36 % 36, n % 36);
        String::from_utf8(vec![digits[high], digits[middle], digits[low]]).unwrap()
    };
    let labels: Vec<String> = (0..10_000).map(label).collect();
    let mut plan = String::new();
    for (n, label) in labels.iter().enumerate() {
        let needs = labels[n.saturating_sub(1_000)..n].join(",");
        plan += &phase(label, &format!("Task {n}"), if needs.is_empty() { "None" } else { &needs });
    }
    let started = Instant::now();
    let plan = read_plan(Request { name: "dense", bytes: plan.as_bytes() }, &Settings::default()).unwrap();
    assert_eq!(plan.tasks()[9_999].dependencies.len(), 1_000);
    assert_eq!(plan.tasks()[9_999].stage, 10_000);
    // Far above what it takes, and far below what a search of every pair would.
    assert!(started.elapsed().as_secs() < 300, "{:?}", started.elapsed());
}

#[test]
fn one_dependency_too_many_is_named() {
    let mut plan: String = (0..1_001).map(|n| phase(&n.to_string(), &format!("Task {n}"), "None")).collect();
    let all: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    plan += &phase("last", "Last", &all.join(", "));
    let defects = defects_of(&plan);
    assert_eq!(defects[0].message, "Phase 'Last' has 1001 dependencies; at most 1000");
}
