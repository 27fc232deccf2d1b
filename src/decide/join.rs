//! Specs that are dropped into an open batch: they join it, or are refused with the rule and may be corrected.

use super::{SpecSeen, Turn};
use crate::model::state::{BatchState, TaskIx, TaskState};
use crate::model::{Defect, Event, Task};

pub(super) fn admit(turn: &mut Turn<'_>, seen: SpecSeen) {
    let SpecSeen { key, sha256, content } = seen;
    if let Some(known) = turn.state.find_key(&key) {
        let known = &turn.state.tasks[known];
        // Only one that was refused may be corrected; the very same bytes are no correction.
        if !known.is_refused() || known.refused_spec.as_deref() == Some(sha256.as_str()) {
            return;
        }
    }
    let refused = |defects| Event::SpecRefused { task: key.clone(), sha256: sha256.clone(), defects };
    let event = match content {
        Err(defects) => refused(defects),
        Ok(mut task) => match objection(turn.state, &task) {
            Some(defect) => refused(vec![defect]),
            None => {
                task.stage = stage_of(turn.state, &task);
                Event::Joined { task }
            }
        },
    };
    turn.record(event);
}

/// What the batch as it stands says against this spec.
fn objection(state: &BatchState, task: &Task) -> Option<Defect> {
    let folded = task.key.folded();
    let id_folded = task.task_id.to_ascii_lowercase();
    let is_corrected = |known: &TaskState| known.is_refused() && known.spec.key == task.key;
    let twin = state.tasks.iter().filter(|known| !is_corrected(known)).find(|known| {
        let names = [known.spec.key.folded(), known.spec.task_id.to_ascii_lowercase()];
        names.contains(&folded) || names.contains(&id_folded)
    });
    if let Some(twin) = twin {
        return Some(Defect::field(
            "duplicate_task",
            "task_id",
            format!("task '{}' is already in this batch as '{}'", task.task_id, twin.spec.key),
            "choose another id and file name",
        ));
    }
    let path = cycle_through(state, task)?;
    Some(Defect::field(
        "circular_dependency",
        "dependencies",
        format!("Circular dependency: {}", path.join(" → ")),
        "remove one of these dependencies",
    ))
}

/// The way from the new task back to itself, if there is one.
fn cycle_through(state: &BatchState, task: &Task) -> Option<Vec<String>> {
    let is_new = |name: &str| task.answers_to(name);
    if task.dependencies.iter().any(|name| is_new(name.as_str())) {
        return Some(vec![task.task_id.clone(), task.task_id.clone()]);
    }
    let mut came_from: Vec<Option<Option<TaskIx>>> = vec![None; state.tasks.len()];
    let mut to_visit: Vec<TaskIx> = Vec::new();
    for name in &task.dependencies {
        if let Some(first) = state.find(name.as_str())
            && came_from[first].is_none()
        {
            came_from[first] = Some(None);
            to_visit.push(first);
        }
    }
    while let Some(at) = to_visit.pop() {
        for name in &state.tasks[at].spec.dependencies {
            if is_new(name.as_str()) {
                return Some(path_back(state, task, &came_from, at));
            }
            if let Some(next) = state.find(name.as_str())
                && came_from[next].is_none()
            {
                came_from[next] = Some(Some(at));
                to_visit.push(next);
            }
        }
    }
    None
}

fn path_back(
    state: &BatchState,
    task: &Task,
    came_from: &[Option<Option<TaskIx>>],
    end: TaskIx,
) -> Vec<String> {
    let mut path = vec![task.task_id.clone(), state.tasks[end].spec.task_id.clone()];
    let mut at = end;
    while let Some(Some(previous)) = came_from[at] {
        path.push(state.tasks[previous].spec.task_id.clone());
        at = previous;
    }
    path.push(task.task_id.clone());
    path.reverse();
    path
}

/// One more than the highest stage among the dependencies that are known by now.
fn stage_of(state: &BatchState, task: &Task) -> u32 {
    let known = task.dependencies.iter().filter_map(|name| state.find(name.as_str()));
    1 + known.map(|ix| state.tasks[ix].spec.stage).max().unwrap_or(0)
}
