//! What `wk check` shows of a plan: its stages, critical path, file conflicts and warnings.
//!
//! Renders a valid batch and judges nothing; a plan that is not valid never becomes a batch.

mod diagram;
mod handoff;
mod reach;
mod text;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::graph::{self, CriticalPath};
use crate::model::{Batch, OnFileConflict, TaskKey};

pub use diagram::{dot, mermaid};
pub use handoff::{handoff_json, handoff_text};
pub use reach::{OutOfReach, out_of_reach};
pub use text::text;

/// A batch with what follows from its graph.
struct Outline<'b> {
    batch: &'b Batch,
    /// By task: the indexes of what it waits for.
    dependencies: Vec<Vec<usize>>,
    critical: CriticalPath,
}

impl<'b> Outline<'b> {
    fn of(batch: &'b Batch) -> Self {
        let tasks = &batch.tasks;
        let index_of: HashMap<&TaskKey, usize> =
            tasks.iter().enumerate().map(|(index, task)| (&task.key, index)).collect();
        let dependencies: Vec<Vec<usize>> = tasks
            .iter()
            .map(|task| task.dependencies.iter().filter_map(|key| index_of.get(key).copied()).collect())
            .collect();
        let hours: Vec<f64> = tasks.iter().map(|task| task.estimated_hours.unwrap_or(0.0)).collect();
        let critical = match graph::order(&dependencies) {
            Ok(order) => graph::critical_path(&dependencies, &order, &hours),
            // An accepted batch has no cycle; a damaged one has no critical path.
            Err(_) => CriticalPath::default(),
        };
        Outline { batch, dependencies, critical }
    }

    fn hours_in_all(&self) -> f64 {
        // A sum of nothing would be -0.
        self.batch.tasks.iter().filter_map(|task| task.estimated_hours).fold(0.0, |sum, hours| sum + hours)
    }

    fn stage_count(&self) -> u32 {
        self.batch.tasks.iter().map(|task| task.stage).max().unwrap_or(0)
    }
}

/// The facts for programs. `stages` is the seed's map from phase to stage.
pub fn json(batch: &Batch) -> Value {
    let outline = Outline::of(batch);
    let stages: Map<String, Value> =
        batch.tasks.iter().map(|task| (task.label().to_owned(), task.stage.into())).collect();
    let tasks: Vec<Value> = batch
        .tasks
        .iter()
        .map(|task| {
            json!({
                "key": task.key,
                "task_id": task.task_id,
                "phase_name": task.phase_name,
                "type": task.kind,
                "stage": task.stage,
                "complexity": task.complexity,
                "estimated_hours": task.estimated_hours,
                "dependencies": task.dependencies,
                "files_modified": task.files_modified,
                "timeout_seconds": task.limits.timeout,
                "max_retries": task.limits.max_retries,
                "agent": task.crew.as_ref().map(|crew| crew.agent.as_str()),
                "launcher": task.crew.as_ref().map(|crew| crew.launcher.as_str()),
            })
        })
        .collect();
    let critical: Vec<&TaskKey> =
        outline.critical.tasks.iter().map(|&index| &batch.tasks[index].key).collect();
    json!({
        "source": batch.source.name,
        "task_count": batch.tasks.len(),
        "stage_count": outline.stage_count(),
        "estimated_hours": outline.hours_in_all(),
        "stages": stages,
        "tasks": tasks,
        "critical_path": { "tasks": critical, "estimated_hours": outline.critical.total },
        "file_conflicts": batch.file_conflicts,
        "on_file_conflict": batch.on_file_conflict,
        "require": batch.require,
        "out_of_reach": out_of_reach(batch),
        "warnings": batch.warnings,
    })
}

/// What the policy means for tasks that share a file.
fn policy_words(policy: OnFileConflict) -> &'static str {
    match policy {
        OnFileConflict::Serialise => "these will run one after the other",
        OnFileConflict::Warn => "these may run at the same time",
        OnFileConflict::Refuse => "refused",
    }
}

/// `1.5 h`, `30 min`: without a needless fraction.
fn hours_words(hours: f64) -> String {
    if hours > 0.0 && hours < 1.0 {
        return format!("{} min", (hours * 60.0).round().max(1.0));
    }
    format!("{} h", (hours * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::{Context, Request, read_plan};
    use crate::model::Settings;

    /// The seed's graph, with two phases that share a file.
    pub(super) fn seed_batch() -> Batch {
        let phases = [
            ("1", "Foundation", "8", "a.md", "None"),
            ("2a", "Analyzer", "0.5", ".ce/config.yml", "1"),
            ("2b", "Tests \"fast\" <all>", "2", ".ce/config.yml", "1"),
            ("3a", "Review it", "1", "c.md", "2a"),
            ("4", "Integration", "1", "d.md", "3a, 2b"),
        ];
        batch_of(
            phases.map(|(label, title, hours, file, needs)| phase(label, title, hours, file, needs)).concat(),
        )
    }

    pub(super) fn phase(label: &str, title: &str, hours: &str, file: &str, needs: &str) -> String {
        format!(
            "### Phase {label}: {title}\n**Goal**: x\n**Complexity**: low\n**Estimated Hours**: {hours}\n\
             **Files Modified**: {file}\n**Dependencies**: {needs}\n\n"
        )
    }

    pub(super) fn batch_of(plan: String) -> Batch {
        let request = Request { name: "plan.md", bytes: plan.as_bytes() };
        read_plan(request, &Settings::default()).unwrap().into_batch(Context::for_check())
    }

    #[test]
    fn programs_get_the_seeds_stage_map_and_the_critical_path() {
        let facts = json(&seed_batch());
        assert_eq!(
            facts["stages"],
            json!({"Phase 1": 1, "Phase 2a": 2, "Phase 2b": 2, "Phase 3a": 3, "Phase 4": 4})
        );
        assert_eq!(facts["critical_path"], json!({"tasks": ["1", "2b", "4"], "estimated_hours": 11.0}));
        assert_eq!(facts["file_conflicts"], json!([{"file": ".ce/config.yml", "tasks": ["2a", "2b"]}]));
        assert_eq!(facts["tasks"][3]["type"], "reviewer");
    }

    #[test]
    fn hours_are_told_without_a_needless_fraction() {
        assert_eq!([8.0, 1.5, 0.5, 0.0, 0.001].map(hours_words), ["8 h", "1.5 h", "30 min", "0 h", "1 min"]);
    }
}
