//! How attempts of outsiders move on, so that their outboxes are watched for as long as somebody writes there.

use crate::model::event::Event;
use crate::model::state::{BatchState, Phase, TaskIx};
use crate::model::{Attempt, TaskKey};

/// How far an attempt of an outsider has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Offered,
    Started,
    Over,
}

/// That an attempt of an outsider has moved on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    pub key: TaskKey,
    pub attempt: Attempt,
    pub stage: Stage,
}

impl Course {
    /// What events mean for the attempts of outsiders.
    pub(super) fn of_all(events: &[Event], state: &BatchState) -> Vec<Course> {
        let is_ours = |key: &TaskKey| state.find_key(key).is_some_and(|task| state.tasks[task].is_ours());
        events.iter().filter_map(Course::of).filter(|course| !is_ours(&course.key)).collect()
    }

    /// How far the attempts of outsiders have come that are out.
    pub(super) fn under_way(state: &BatchState) -> Vec<Course> {
        let of = |task: &TaskIx| {
            let (attempt, stage) = match state.tasks[*task].phase {
                Phase::Offered { attempt, .. } => (attempt, Stage::Offered),
                Phase::Running { attempt, .. } => (attempt, Stage::Started),
                _ => return None,
            };
            let is_ours = state.tasks[*task].is_ours();
            (!is_ours).then(|| Course { key: state.key(*task).clone(), attempt, stage })
        };
        state.live.iter().filter_map(of).collect()
    }

    fn of(event: &Event) -> Option<Course> {
        let (task, attempt, stage) = match event {
            Event::Offered { task, attempt } => (task, attempt, Stage::Offered),
            Event::Started { task, attempt, .. } => (task, attempt, Stage::Started),
            Event::Succeeded { task, attempt } | Event::AttemptFailed { task, attempt, .. } => {
                (task, attempt, Stage::Over)
            }
            _ => return None,
        };
        Some(Course { key: task.clone(), attempt: *attempt, stage })
    }
}
