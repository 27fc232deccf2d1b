//! How a task stands, in the words of both dialects: one word at a time, whatever happened before.

use crate::model::id::TaskKey;
use crate::model::state::{BatchState, Outcome, Phase, TaskState};
use crate::model::workspace::Marker;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Nobody has begun it.
    Waiting,
    /// Somebody has, and it has not ended: between two attempts too.
    Running,
    Success,
    Failure,
    Timeout,
    /// A dependency failed, somebody cancelled it, or the batch was out of time before it began.
    Skipped,
}

impl Standing {
    pub fn of(task: &TaskState) -> Standing {
        match &task.phase {
            Phase::Done(Outcome::Succeeded) => Standing::Success,
            Phase::Done(Outcome::Failed(_)) => Standing::Failure,
            // The time of others ran out: nobody ever came to it.
            Phase::Done(Outcome::TimedOut(_)) if task.tries.is_empty() => Standing::Skipped,
            Phase::Done(Outcome::TimedOut(_)) => Standing::Timeout,
            Phase::Done(Outcome::Skipped(_) | Outcome::Cancelled(_)) => Standing::Skipped,
            Phase::Running { .. }
            | Phase::Claimed { .. }
            | Phase::Ending { .. }
            | Phase::Awaiting { .. }
            | Phase::Waiting { .. }
            | Phase::Ready
            | Phase::Offered { .. }
            | Phase::BackingOff { .. } => match task.started_at() {
                Some(_) => Standing::Running,
                None => Standing::Waiting,
            },
        }
    }

    /// As an execution report says it; the first two only before the end.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Waiting => "waiting",
            Standing::Running => "running",
            Standing::Success => "success",
            Standing::Failure => "failure",
            Standing::Timeout => "timeout",
            Standing::Skipped => "skipped",
        }
    }

    /// As a report on assignments says it: by its marker.
    pub fn marker_word(self) -> &'static str {
        self.marker().map_or(self.word(), Marker::word)
    }

    pub fn marker(self) -> Option<Marker> {
        match self {
            Standing::Waiting => None,
            Standing::Running => Some(Marker::Running),
            Standing::Success => Some(Marker::Success),
            Standing::Failure | Standing::Timeout | Standing::Skipped => Some(Marker::Failed),
        }
    }
}

/// The one marker that each task is to have now; none before anybody began it. Whoever writes them publishes
/// the new one before the old one is removed, so that a reader never finds none.
pub fn markers(state: &BatchState) -> Vec<(TaskKey, Option<Marker>)> {
    let marker = |task: &TaskState| (task.spec.key.clone(), Standing::of(task).marker());
    state.tasks.iter().filter(|task| !task.spec.is_validation()).map(marker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scene::Scene;

    #[test]
    fn every_task_that_began_has_one_marker_until_its_end_gives_it_the_last() {
        let mut scene = Scene::of("1; 2<-1; 3; 4", "");
        let found = |scene: &Scene| -> Vec<String> {
            let word = |marker: Option<Marker>| marker.map_or("-", Marker::word);
            markers(&scene.state).iter().map(|(key, marker)| format!("{key}.{}", word(*marker))).collect()
        };
        assert_eq!(found(&scene), ["1.-", "2.-", "3.-", "4.-"]);
        scene.play("0 offer 1\n0 offer 3\n1 start 3\n60 fail 3 silent retry");
        assert_eq!(found(&scene), ["1.-", "2.-", "3.running", "4.-"], "between two attempts it goes on");
        scene.play(
            "63 offer 3\n63 start 3\n3700 fail 3 timeout\n3701 start 1\n3702 fail 1 broken\n3702 block 2 1",
        );
        assert_eq!(found(&scene), ["1.failed", "2.failed", "3.failed", "4.-"]);
        scene.play("3703 done 4 observed");
        assert_eq!(found(&scene)[3], "4.success");
    }
}
