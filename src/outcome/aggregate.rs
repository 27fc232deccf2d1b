//! The batch result: what all tasks came to, as `batches/batch-N.result.json` holds it.
//!
//! The same state and claims give the same bytes: fields stand in a fixed order, and everything that is
//! measured stands in a field that `VOLATILE_FIELDS` names.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::clock::WallTime;
use crate::model::event::LateBecause;
use crate::model::evidence::{Grade, Verdict};
use crate::model::state::{BatchState, LateResult, Outcome, TaskIx, TaskState};
use crate::view::words::{Word, counted};

use super::conflict::{Conflict, conflicts};
use super::standing::standing_of_all;
use super::task_result::{Span, TaskResult, is_zero, task_result};

/// Fields that differ between two runs of the same story. No other field holds a measured time.
pub const VOLATILE_FIELDS: &[&str] = &[
    "total_elapsed_seconds",
    "elapsed_seconds",
    "started_at",
    "finished_at",
    "offered_at",
    "ended_at",
    "wall_seconds",
    "cpu_seconds",
    "peak_memory_mb",
];

/// The aggregated result, the plan dialect's own fields first.
#[derive(Debug, Clone, Serialize)]
pub struct BatchResult {
    /// A number where it is one.
    pub batch_id: Value,
    pub status: &'static str,
    /// Stages completed, as the dialect calls it.
    pub stage: usize,
    pub completed_tasks: Vec<String>,
    /// Including those that ran out of time.
    pub failed_tasks: Vec<String>,
    pub total_files_created: usize,
    pub total_tokens_used: u64,
    pub total_elapsed_seconds: Span,
    pub results: Vec<TaskResult>,
    pub version: u32,
    /// The weakest grade among the tasks that succeeded.
    pub evidence: Option<Grade>,
    /// Files and criteria apart, in words.
    pub standing: Option<String>,
    pub stages_completed: usize,
    pub stages_total: usize,
    /// Blocked, because something that they depend on did not succeed.
    pub skipped_tasks: Vec<String>,
    pub cancelled_tasks: Vec<String>,
    pub total_files_modified: usize,
    /// By the price that is set; without one, what agents said that they cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    pub files_created: BTreeSet<String>,
    pub files_modified: BTreeSet<String>,
    pub files_deleted: BTreeSet<String>,
    /// Files that were made or changed beyond those that are listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_files: u64,
    pub commits: Vec<Value>,
    pub prps_generated: Vec<Value>,
    pub conflicts: Vec<Conflict>,
    pub late: Vec<Late>,
    pub warnings: Vec<String>,
    pub started_at: WallTime,
    pub finished_at: Option<WallTime>,
}

/// A result that was put aside.
#[derive(Debug, Clone, Serialize)]
pub struct Late {
    pub task_id: String,
    pub attempt: Option<u32>,
    pub reason: String,
}

/// Aggregates a batch. `claims` are the collected results that the state names, by task; what a task that
/// did not succeed claims is told with that task, and is not counted as produced.
pub fn batch_result(state: &BatchState, claims: &HashMap<TaskIx, Claim>) -> BatchResult {
    let results: Vec<TaskResult> =
        (0..state.tasks.len()).map(|ix| task_result(state, ix, claims.get(&ix))).collect();
    let produced = Produced::of(&results);
    // What was spent was spent, whatever came of it.
    // Of all attempts: one that failed cost as much as one that did not.
    let tokens: u64 = state.tasks.iter().map(|task| task.tokens_spent).fold(0, u64::saturating_add);
    let stages_completed = state.stages.iter().filter(|s| s.tasks > 0 && s.succeeded == s.tasks).count();
    let finished_at = finished_at(state);
    let elapsed = finished_at.map_or(0.0, |at| at.seconds_since(state.accepted_at));
    BatchResult {
        batch_id: state.batch.id.to_json(),
        status: state.status().word(),
        stage: stages_completed,
        completed_tasks: named(state, Word::Completed),
        failed_tasks: named(state, Word::Failed),
        total_files_created: produced.files_created.len(),
        total_tokens_used: tokens,
        total_elapsed_seconds: Span(elapsed),
        evidence: state.evidence(),
        standing: standing_of_all(succeeded_verdicts(state)),
        results,
        version: 1,
        stages_completed,
        stages_total: state.stages.iter().filter(|stage| stage.tasks > 0).count(),
        skipped_tasks: named(state, Word::Blocked),
        cancelled_tasks: named(state, Word::Cancelled),
        total_files_modified: produced.files_modified.len(),
        cost_usd: cost(state),
        files_created: produced.files_created,
        files_modified: produced.files_modified,
        files_deleted: produced.files_deleted,
        more_files: produced.more,
        commits: produced.commits,
        prps_generated: produced.prps_generated,
        conflicts: conflicts(state, claims),
        late: state.late.iter().map(|late| told_late(state, late)).collect(),
        warnings: warnings(state),
        started_at: state.accepted_at,
        finished_at,
    }
}

fn succeeded_verdicts(state: &BatchState) -> impl Iterator<Item = &Verdict> {
    let succeeded = state.tasks.iter().filter(|task| task.outcome() == Some(&Outcome::Succeeded));
    succeeded.filter_map(|task| task.collected.as_ref()).map(|collected| &collected.verdict)
}

/// The content of the result file.
pub fn canonical_bytes(state: &BatchState, claims: &HashMap<TaskIx, Claim>) -> Vec<u8> {
    let result = batch_result(state, claims);
    // Strings, numbers and lists only: there is nothing in it that JSON could not hold.
    let mut bytes = serde_json::to_vec_pretty(&result).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// When the batch ended; before its end is journaled, when its last task did.
fn finished_at(state: &BatchState) -> Option<WallTime> {
    match state.finished {
        Some((_, at)) => Some(at),
        None if state.is_settled() => state.tasks.iter().filter_map(|task| task.ended_at).max(),
        None => None,
    }
}

/// What the tasks that succeeded made, combined in the plan's order.
#[derive(Default)]
struct Produced {
    files_created: BTreeSet<String>,
    files_modified: BTreeSet<String>,
    files_deleted: BTreeSet<String>,
    /// Files that no list has room for.
    more: u64,
    commits: Vec<Value>,
    prps_generated: Vec<Value>,
}

impl Produced {
    fn of(results: &[TaskResult]) -> Produced {
        let mut produced = Produced::default();
        for task in results.iter().filter(|task| task.is_success()) {
            produced.files_created.extend(task.files_created.iter().cloned());
            produced.files_modified.extend(task.files_modified.iter().cloned());
            produced.files_deleted.extend(task.files_deleted.iter().cloned());
            produced.more += task.more_files;
            produced.commits.extend(task.commits.iter().cloned());
            produced.prps_generated.extend(task.prps_generated.iter().cloned());
        }
        produced
    }
}

fn named(state: &BatchState, word: Word) -> Vec<String> {
    let tasks = state.tasks.iter().filter(|task| Word::of(&task.phase) == word);
    tasks.map(|task| task.spec.task_id.clone()).collect()
}

/// What agents told that they cost; for tasks whose agents do not tell, tokens at the batch's price.
pub(super) fn cost(state: &BatchState) -> Option<f64> {
    let told = state.tasks.iter().filter_map(|task| exact_cost(state, task));
    told.reduce(|a, b| a + b).map(in_cents)
}

/// The same for one task.
pub(super) fn cost_of(state: &BatchState, task: &TaskState) -> Option<f64> {
    exact_cost(state, task).map(in_cents)
}

fn exact_cost(state: &BatchState, task: &TaskState) -> Option<f64> {
    let price = state.batch.price_per_million_tokens;
    let told = task.tries.iter().filter_map(|one| one.exit.as_ref()?.cost_usd).reduce(|a, b| a + b);
    told.or_else(|| price.map(|price| task.tokens_spent as f64 * price / 1_000_000.0))
}

/// To the hundredth of a cent: beyond that the digits are noise of the multiplication.
fn in_cents(dollars: f64) -> f64 {
    (dollars * 10_000.0).round() / 10_000.0
}

fn told_late(state: &BatchState, late: &LateResult) -> Late {
    Late {
        task_id: state.tasks[late.task].spec.task_id.clone(),
        attempt: late.attempt.map(super::super::model::id::Attempt::number),
        reason: late_reason(&late.because),
    }
}

/// Why a result was put aside, as a sentence.
pub fn late_reason(because: &LateBecause) -> String {
    match because {
        LateBecause::Settled => "the task had already ended".to_owned(),
        LateBecause::OtherAttempt { current } => format!("attempt {current} was current"),
        LateBecause::BetweenAttempts => {
            "its attempt had been given up, and the next had not begun".to_owned()
        }
        LateBecause::Ending => "its attempt was being ended".to_owned(),
        LateBecause::NotTheFirst => "its attempt had left a valid result before".to_owned(),
    }
}

fn warnings(state: &BatchState) -> Vec<String> {
    let mut warnings = state.batch.warnings.clone();
    for task in &state.tasks {
        let exit = task.tries.last().and_then(|last| last.exit.as_ref());
        let told = exit.into_iter().flat_map(|exit| &exit.warnings);
        warnings.extend(told.map(|warning| format!("{}: {warning}", task.spec.task_id)));
    }
    if state.suspicions > 0 {
        let times = counted(state.suspicions, "time");
        warnings.push(format!(
            "many tasks fell silent together {times}: the watcher doubted itself and gave them longer"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::task::Gate;
    use crate::view::scene::Scene;

    const GRAPH: &str = "1; 2a<-1; 2b<-1; 3<-2a,2b";
    const PARTIAL: &str = "
        0 done 1 observed
        61 offer 2a
        61 start 2a
        121 fail 2a silent retry
        124 offer 2a
        124 start 2a
        184 collect 2a claimed unfenced
        184 succeed 2a
        61 offer 2b
        61 start 2b
        3700 fail 2b timeout
        3700 block 3 2b
        3800 late 2b 1
        3800 finish partial_success";

    fn partial() -> Scene {
        let mut scene = Scene::with(
            GRAPH,
            |batch| {
                batch.price_per_million_tokens = Some(3.0);
                let gate = |text: &str| Gate { text: text.into(), command: None };
                batch.tasks[0].validation_gates = vec![gate("src/a.rs"), gate("all files are there")];
            },
            PARTIAL,
        );
        scene.claim("1", &["b.md", "a.md"], &[], 40_000);
        scene.claim("2a", &["c.md"], &["a.md"], 100_000);
        scene.claim("2b", &["d.md"], &[], 1_000);
        scene
    }

    fn json(scene: &Scene) -> Value {
        serde_json::from_slice(&canonical_bytes(&scene.state, &scene.claims)).unwrap()
    }

    #[test]
    fn the_same_story_folded_twice_gives_the_same_bytes() {
        let scene = partial();
        let bytes = canonical_bytes(&scene.state, &scene.claims);
        assert_eq!(canonical_bytes(&scene.state, &scene.claims), bytes);
        let mut again = BatchState::new(scene.state.batch.clone());
        scene.entries.iter().for_each(|entry| again.apply(entry).unwrap());
        assert_eq!(canonical_bytes(&again, &scene.claims), bytes);
        assert!(bytes.ends_with(b"}\n"));
    }

    #[test]
    fn the_dialects_own_fields_come_first_and_in_its_order() {
        let text = String::from_utf8(canonical_bytes(&partial().state, &HashMap::new())).unwrap();
        let order = [
            "\n  \"batch_id\": 43",
            "\n  \"status\": \"partial_success\"",
            "\n  \"stage\": 1",
            "\n  \"completed_tasks\"",
            "\n  \"failed_tasks\"",
            "\n  \"total_files_created\"",
            "\n  \"total_tokens_used\"",
            "\n  \"total_elapsed_seconds\": 3800",
            "\n  \"results\"",
            "\n  \"version\": 1",
        ];
        let places: Vec<usize> = order.iter().map(|field| text.find(field).expect(field)).collect();
        assert!(places.is_sorted(), "{text}");
        assert!(text.contains(
            "\n      \"task_id\": \"phase-1\",\n      \"status\": \"success\",\n      \"files_created\""
        ));
    }

    #[test]
    fn every_field_says_what_came_of_the_batch() {
        let result = json(&partial());
        assert_eq!(result["completed_tasks"], serde_json::json!(["phase-1", "phase-2a"]));
        assert_eq!(result["failed_tasks"], serde_json::json!(["phase-2b"]));
        assert_eq!(result["skipped_tasks"], serde_json::json!(["phase-3"]));
        assert_eq!(result["cancelled_tasks"], serde_json::json!([]));
        assert_eq!(result["evidence"], "claimed");
        assert_eq!((&result["stages_completed"], &result["stages_total"]), (&1.into(), &3.into()));
        assert_eq!(result["files_created"], serde_json::json!(["a.md", "b.md", "c.md"]));
        assert_eq!(result["total_files_created"], 3);
        assert_eq!(result["total_files_modified"], 1);
        assert_eq!(result["total_tokens_used"], 140_000);
        assert_eq!(result["cost_usd"], 0.42);
        assert_eq!(result["commits"], serde_json::json!(["commit of 1", "commit of 2a"]));
        assert_eq!(result["prps_generated"], serde_json::json!([]));
        assert_eq!(result["conflicts"][0]["file"], "a.md");
        assert_eq!(result["conflicts"][0]["tasks"], serde_json::json!(["phase-1", "phase-2a"]));
        let late = serde_json::json!([
            {"task_id": "phase-2b", "attempt": 1, "reason": "the task had already ended"}
        ]);
        assert_eq!(result["late"], late);
        assert_eq!(result["warnings"], serde_json::json!([]));
        assert_eq!(result["started_at"], "2025-11-10T14:30:00.000Z");
        assert_eq!(result["finished_at"], "2025-11-10T15:33:20.000Z");
    }

    #[test]
    fn every_task_tells_its_tries_its_reason_and_its_evidence() {
        let result = json(&partial());
        let [first, flaky, timeout, blocked] = [0, 1, 2, 3].map(|n| &result["results"][n]);
        assert_eq!((&first["evidence"], &first["flaky"]), (&"observed".into(), &false.into()));
        assert_eq!(first["elapsed_seconds"], 60);
        assert_eq!(first["type"], "executor");
        let gates = serde_json::json!([
            {"gate": "src/a.rs", "grade": "observed"},
            {"gate": "all files are there", "grade": "claimed"}
        ]);
        assert_eq!(first["validation_gates"], gates);
        assert_eq!(first["findings"][0]["saw"], "its content changed");
        assert_eq!(first["drift"], serde_json::json!({"touched_unclaimed": [], "declared_untouched": []}));
        assert_eq!((&flaky["flaky"], &flaky["unfenced"]), (&true.into(), &true.into()));
        assert_eq!(flaky["attempts"][0]["reason_code"], "no_heartbeat");
        assert_eq!(flaky["attempts"][0]["outcome"], "failed");
        assert_eq!(flaky["attempts"][1]["outcome"], "success");
        assert_eq!(
            (&timeout["status"], &timeout["reason_code"]),
            (&"failed".into(), &"attempt_timeout".into())
        );
        assert_eq!(timeout["evidence"], Value::Null);
        assert_eq!((&blocked["status"], &blocked["caused_by"]), (&"blocked".into(), &"phase-2b".into()));
        assert_eq!(blocked["reason_code"], "dependency_failed");
        assert_eq!(blocked["tokens_used"], Value::Null);
        assert_eq!(blocked["attempts"], serde_json::json!([]));
    }

    #[test]
    fn a_batch_without_a_price_has_no_cost() {
        let scene = Scene::of("1", "0 done 1 claimed");
        assert!(json(&scene).get("cost_usd").is_none());
        assert_eq!(json(&scene)["finished_at"], "2025-11-10T14:31:00.000Z");
    }

    #[test]
    fn a_try_that_was_out_when_its_task_was_cancelled_ends_with_it() {
        let scene = Scene::of("1", "0 offer 1\n5 cancel\n5 drop 1\n5 finish cancelled");
        let result = json(&scene);
        assert_eq!(result["status"], "cancelled");
        assert_eq!(result["cancelled_tasks"], serde_json::json!(["phase-1"]));
        assert_eq!(result["results"][0]["attempts"][0]["outcome"], "cancelled");
        assert_eq!(result["results"][0]["attempts"][0]["ended_at"], result["finished_at"]);
    }

    #[test]
    fn two_runs_of_one_story_differ_only_in_the_fields_that_are_named() {
        fn without_volatile(value: &mut Value) {
            match value {
                Value::Object(fields) => {
                    fields.retain(|name, _| !VOLATILE_FIELDS.contains(&name.as_str()));
                    fields.values_mut().for_each(without_volatile);
                }
                Value::Array(items) => items.iter_mut().for_each(without_volatile),
                _ => {}
            }
        }
        let mut quick =
            json(&Scene::of(GRAPH, "0 done 1 claimed\n60 offer 2a\n70 start 2a\n80 fail 2a silent"));
        let mut slow =
            json(&Scene::of(GRAPH, "5 done 1 claimed\n66 offer 2a\n75 start 2a\n99 fail 2a silent"));
        assert_ne!(quick, slow);
        without_volatile(&mut quick);
        without_volatile(&mut slow);
        assert_eq!(quick, slow);
    }
}
