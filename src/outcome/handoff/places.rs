//! Where the files of a handed-over batch lie, attempt by attempt.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::model::event::Sign;
use crate::model::handoff::{Dialect, TESTS_CMD};
use crate::model::id::Attempt;
use crate::model::state::{BatchState, TaskIx, TaskState, Try};
use crate::model::workspace::{LogPaths, WorkspacePaths, file_name};

/// The workspace of a batch, in the layout of its dialect.
#[derive(Debug, Clone)]
pub struct Places<'a> {
    state: &'a BatchState,
    dialect: Dialect,
    paths: WorkspacePaths,
}

impl<'a> Places<'a> {
    /// `None` where nobody handed the batch over: then it has no workspace.
    pub fn of(state: &'a BatchState) -> Option<Places<'a>> {
        let handoff = state.batch.handoff.as_ref()?;
        let paths = WorkspacePaths::new(&handoff.workspace);
        Some(Places { state, dialect: handoff.dialect, paths })
    }

    pub fn paths(&self) -> &WorkspacePaths {
        &self.paths
    }

    /// Whether its client looks for markers.
    pub fn has_markers(&self) -> bool {
        self.dialect == Dialect::Assignments
    }

    pub fn request(&self) -> PathBuf {
        self.paths.request(self.dialect)
    }

    /// Where an attempt's streams are kept for the client. The answer never changes, whatever else begins.
    pub fn logs(&self, task: TaskIx, attempt: Attempt) -> Option<LogPaths> {
        let tries = &self.state.tasks[task].tries;
        let at = tries.iter().position(|one| one.attempt == attempt)?;
        Some(match self.dialect {
            Dialect::ExecutionRequest => self.paths.agent_logs(agent_name(&self.state.tasks[task])),
            Dialect::Assignments => self.paths.attempt_logs(&self.stem(task, at)),
        })
    }

    /// Where what the command of a criterion prints is kept for the client. The test of the whole has the logs of the
    /// validation, in which nobody else speaks.
    pub fn check_logs(&self, task: TaskIx, attempt: Attempt, criterion: &str) -> Option<LogPaths> {
        let spec = &self.state.tasks[task].spec;
        if spec.is_validation() && criterion == TESTS_CMD {
            return self.logs(task, attempt);
        }
        let at = self.state.tasks[task].tries.iter().position(|one| one.attempt == attempt)?;
        let name = self.check_name(task, criterion);
        Some(match self.dialect {
            Dialect::ExecutionRequest => self.paths.check_logs(agent_name(&self.state.tasks[task]), &name),
            Dialect::Assignments => self.paths.attempt_logs(&format!("{}-{name}", self.stem(task, at))),
        })
    }

    /// By the names that files get, two criteria may become one: then the later one is numbered.
    fn check_name(&self, task: TaskIx, criterion: &str) -> String {
        let plain = |name: &str| file_name(name).to_ascii_lowercase();
        let assignment = self.state.tasks[task].spec.assignment.iter();
        let all = assignment.flat_map(|assignment| &assignment.criteria).map(|one| one.name.as_str());
        let wanted: Vec<String> = all.clone().map(plain).collect();
        let mut given: Vec<String> = Vec::new();
        for (at, name) in all.enumerate() {
            let is_free = !wanted[..at].contains(&wanted[at]);
            let mut numbered = (2..).map(|number| format!("{name}-{number}"));
            let is_new = |name: &String| !wanted.contains(&plain(name)) && !given.contains(&plain(name));
            let own = if is_free { name.to_owned() } else { numbered.find(is_new).unwrap_or_default() };
            if name == criterion {
                return own;
            }
            given.push(plain(&own));
        }
        criterion.to_owned()
    }

    /// `code-generator-20251030-143005-123`. Where the agent does several tasks of the batch two of its attempts
    /// may begin in the same millisecond, so the task follows; likewise the attempt where a clock stood still.
    fn stem(&self, task: TaskIx, at: usize) -> String {
        let tries = &self.state.tasks[task].tries;
        let stamp = tries[at].offered_at.stamp();
        let mut stem = format!("{}-{stamp}", agent_name(&self.state.tasks[task]));
        if self.has_namesake(task) {
            stem.push_str(&format!("-{}", self.state.key(task)));
        }
        if tries[..at].iter().any(|earlier| earlier.offered_at.stamp() == stamp) {
            stem.push_str(&format!("-{}", tries[at].attempt));
        }
        stem
    }

    /// By the names that files get: two agents' may become one there.
    fn has_namesake(&self, task: TaskIx) -> bool {
        let name_of = |task: &TaskState| file_name(agent_name(task)).to_ascii_lowercase();
        let name = name_of(&self.state.tasks[task]);
        self.state.tasks.iter().enumerate().any(|(other, one)| other != task && name_of(one) == name)
    }
}

/// As the client calls whoever does the task; the task's own name where there is no client.
pub fn agent_name(task: &TaskState) -> &str {
    match &task.spec.assignment {
        Some(assignment) => &assignment.agent_name,
        None => task.spec.key.as_str(),
    }
}

/// The last try that an agent of ours was started for: only those leave logs.
pub fn last_logged(task: &TaskState) -> Option<&Try> {
    let is_ours = |one: &&Try| matches!(one.started, Some((_, Sign::Launch { .. })));
    task.tries.iter().rev().find(is_ours)
}

/// Where the last logs of each task lie in the workspace; empty where the batch has none.
pub fn workspace_logs(state: &BatchState) -> HashMap<TaskIx, LogPaths> {
    let Some(places) = Places::of(state) else { return HashMap::new() };
    let logs = |(ix, task): (TaskIx, &TaskState)| Some((ix, places.logs(ix, last_logged(task)?.attempt)?));
    state.tasks.iter().enumerate().filter_map(logs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::Batch;
    use crate::model::handoff::{Criterion, Wanted};
    use crate::view::scene::{Scene, handed_over};

    fn assigned(batch: &mut Batch) {
        handed_over(batch);
        batch.handoff.as_mut().unwrap().dialect = Dialect::Assignments;
        for task in &mut batch.tasks {
            let name = if task.key.as_str() == "C" { "code reviewer" } else { "generator" };
            task.assignment.as_mut().unwrap().agent_name = name.to_owned();
        }
    }

    fn stdout(scene: &Scene, task: TaskIx, attempt: u64) -> String {
        let places = Places::of(&scene.state).unwrap();
        let logs = places.logs(task, Attempt::from_wire(attempt).unwrap()).unwrap();
        let workspace = places.paths().root().to_owned();
        logs.stdout.strip_prefix(workspace).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn an_execution_requests_logs_have_a_folder_for_each_agent() {
        let scene = Scene::with("gen; rev", handed_over, "0 launch gen process");
        assert_eq!(stdout(&scene, 0, 1), "logs/gen/stdout.log");
        assert_eq!(workspace_logs(&scene.state).len(), 1, "what nobody began has no log");
    }

    #[test]
    fn logs_of_assignments_are_told_apart_by_time_and_where_that_is_not_enough_by_task() {
        let mut scene = Scene::with("A; B; C", assigned, "0 launch A process\n0 launch C process");
        assert_eq!(stdout(&scene, 0, 1), "logs/generator-20251110-143000-000-A.out");
        assert_eq!(stdout(&scene, 2, 1), "logs/code-reviewer-20251110-143000-000.out");
        scene.play("0 launch B process\n0 fail C broken retry\n0 launch C process");
        assert_eq!(stdout(&scene, 0, 1), "logs/generator-20251110-143000-000-A.out", "it stays where it is");
        assert_eq!(stdout(&scene, 1, 1), "logs/generator-20251110-143000-000-B.out");
        assert_eq!(stdout(&scene, 2, 1), "logs/code-reviewer-20251110-143000-000.out");
        assert_eq!(stdout(&scene, 2, 2), "logs/code-reviewer-20251110-143000-000-2.out");
        let names: Vec<PathBuf> =
            workspace_logs(&scene.state).into_values().map(|logs| logs.stdout).collect();
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn criteria_whose_names_become_one_have_logs_of_their_own() {
        let named = |batch: &mut Batch| {
            handed_over(batch);
            let criterion =
                |name: &str| Criterion { name: name.to_owned(), wants: Wanted::Truth(true), check: None };
            let criteria = ["a/b", "a-b", "A b", "a-b-2"].map(criterion);
            batch.tasks[0].assignment.as_mut().unwrap().criteria = criteria.into();
        };
        let scene = Scene::with("gen", named, "0 launch gen process");
        let places = Places::of(&scene.state).unwrap();
        let log = |name: &str| places.check_logs(0, Attempt::FIRST, name).unwrap().stdout;
        let names: Vec<PathBuf> = ["a/b", "a-b", "A b", "a-b-2"].map(log).into();
        let ends: Vec<&str> = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(ends, ["a-b.out", "a-b-3.out", "A-b-4.out", "a-b-2.out"]);
    }

    #[test]
    fn a_batch_that_nobody_handed_over_has_no_workspace() {
        let scene = Scene::of("1", "0 launch 1 process");
        assert!(Places::of(&scene.state).is_none() && workspace_logs(&scene.state).is_empty());
    }
}
