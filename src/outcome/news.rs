//! What a turn decided, as lines for the log of a watcher: the same sentences that a task's story has.

use super::sentence;
use crate::model::clock::Tick;
use crate::model::event::Event;
use crate::model::state::BatchState;

/// A line for each event that people want to read of while it happens. `state` is the one after all of them.
pub fn lines(state: &BatchState, events: &[Event], now: Tick) -> Vec<String> {
    events.iter().filter_map(|event| line(state, event, now)).collect()
}

fn line(state: &BatchState, event: &Event, now: Tick) -> Option<String> {
    let id = &state.batch.id;
    match event {
        // What came in, and what was merely seen; the consequence follows at once.
        Event::Accepted { .. } | Event::Offered { .. } | Event::Collected { .. } | Event::Exited { .. } => {
            None
        }
        // The end has a line of its own, which knows the archive.
        Event::Finished { .. } => None,
        Event::SelfSuspected { silent, running, .. } => Some(format!(
            "batch {id}: {} of {running} agents fell silent together; the watcher doubts itself first",
            silent.len()
        )),
        _ => match event.task().and_then(|key| Some((key, state.find_key(key)?))) {
            Some((key, task)) => {
                let told = sentence::own(state, task, event, now);
                (!told.is_empty()).then(|| format!("{id}/{key}: {told}"))
            }
            None => sentence::of_batch(event).map(|told| format!("batch {id}: {told}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attempt, Reason, TaskKey};
    use crate::view::scene::Scene;

    #[test]
    fn each_line_names_batch_and_task_and_what_was_only_seen_has_none() {
        let scene = Scene::of("1; 2<-1", "0 offer 1");
        let key = TaskKey::parse("1").unwrap();
        let failed = Event::AttemptFailed {
            task: key.clone(),
            attempt: Attempt::FIRST,
            because: Reason::AgentReported { errors: vec!["no tests".to_owned()] },
            retry_at: Some(Tick(5_000)),
        };
        let events = [
            Event::Offered { task: key, attempt: Attempt::FIRST },
            failed,
            Event::PauseAsked { by: "sam".to_owned(), why: Some("lunch".to_owned()) },
        ];
        let told = lines(&scene.state, &events, Tick(1_000));
        let id = &scene.state.batch.id;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with(&format!("{id}/1: attempt 1 of")), "{told:?}");
        assert!(told[0].ends_with("no tests; the next follows in 4s"), "{told:?}");
        assert_eq!(told[1], format!("batch {id}: sam asked for a pause of the batch: lunch"));
    }
}
