//! Which tasks cannot reach the grade of evidence that is demanded of them, and why: said before anything runs.

use serde::Serialize;

use crate::model::{Batch, Grade, Task};

/// A task that can only fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutOfReach {
    pub task_id: String,
    #[serde(skip)]
    pub label: String,
    pub why: &'static str,
}

/// Every task that cannot reach the demanded grade, whatever its agent does.
pub fn out_of_reach(batch: &Batch) -> Vec<OutOfReach> {
    let told = |task: &Task| {
        let why = obstacle(batch, task)?;
        Some(OutOfReach { task_id: task.task_id.clone(), label: task.label().to_owned(), why })
    };
    batch.tasks.iter().filter_map(told).collect()
}

fn obstacle(batch: &Batch, task: &Task) -> Option<&'static str> {
    match batch.require {
        Grade::Claimed => None,
        Grade::Observed => no_files(batch, task),
        Grade::Verified => no_files(batch, task).or_else(|| no_criterion(batch, task)),
    }
}

fn no_files(batch: &Batch, task: &Task) -> Option<&'static str> {
    let Some(assignment) = &task.assignment else {
        let declares_nothing = task.declared_places().is_empty();
        return declares_nothing.then_some("it declares no files, so nothing of it can be observed");
    };
    let of_whole = batch.handoff.iter().flat_map(|handoff| &handoff.required_artifacts);
    let promises = assignment.outputs.len() + assignment.required_artifacts.len() + of_whole.count();
    let is_nothing = promises == 0 && !task.is_validation();
    is_nothing.then_some("it has neither outputs nor required_artifacts, so nothing of it can be observed")
}

fn no_criterion(batch: &Batch, task: &Task) -> Option<&'static str> {
    let Some(assignment) = &task.assignment else {
        return match task.gates_with_commands().next() {
            None => Some("none of its gates is a command in backticks, so nothing can verify it"),
            Some(_) if task.crew.is_none() => Some("an outside agent does it, whose gates nobody runs"),
            Some(_) if !batch.runs_gates => Some("its gates are not run; add --verify"),
            Some(_) => None,
        };
    };
    let has_check = |task: &Task| {
        let criteria = task.assignment.iter().flat_map(|assignment| &assignment.criteria);
        criteria.into_iter().any(|criterion| criterion.check.is_some())
    };
    let is_asked_for = batch.handoff.as_ref().is_none_or(|handoff| handoff.verify);
    let by_whole = assignment.criteria.is_empty()
        && batch.tasks.iter().any(|other| other.is_validation() && has_check(other));
    match is_asked_for && (has_check(task) || by_whole) {
        true => None,
        false => Some("no command decides a criterion of it, so nothing can verify it"),
    }
}
