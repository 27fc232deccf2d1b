//! What changed since it was last told, as lines of JSON for whoever follows a batch by program.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::model::state::BatchState;
use crate::model::{Batch, BatchId, TaskKey};
use crate::view::handoff::Stage;
use crate::view::snapshot::Live;

use super::places::{Places, agent_name};
use super::standing::Standing;

/// What was told last.
#[derive(Debug, Default)]
pub struct Told {
    stage: Option<&'static str>,
    tasks: HashMap<TaskKey, (Standing, u32, Option<String>)>,
}

/// The first line: the request is a batch.
pub fn accepted(state: &BatchState) -> Value {
    let workspace = state.batch.handoff.as_ref().map(|handoff| &handoff.workspace);
    let id = state.batch.id.as_str();
    json!({"event": "accepted", "batch_id": id, "execution_id": id, "workspace_root": workspace})
}

/// The only line of a dry run: what would happen, for programs and for people.
pub fn only_checked(batch: &Batch, execution_id: Option<&BatchId>, facts: &Value, text: &str) -> Value {
    let workspace = batch.handoff.as_ref().map(|handoff| &handoff.workspace);
    let id = execution_id.map(BatchId::as_str);
    json!({"event": "dry_run", "execution_id": id, "workspace_root": workspace, "text": text, "check": facts})
}

/// The last line.
pub fn finished(state: &BatchState) -> Value {
    let report = Places::of(state).map(|places| places.paths().report());
    json!({"event": "finished", "status": super::whole::status_word(state), "report": report})
}

impl Told {
    /// What is new.
    pub fn news(&mut self, state: &BatchState, live: &Live) -> Vec<Value> {
        let mut news = Vec::new();
        let stage = stage_word(Stage::of(state));
        if self.stage != Some(stage) {
            self.stage = Some(stage);
            news.push(json!({"event": "stage", "name": stage}));
        }
        for (ix, task) in state.tasks.iter().enumerate().filter(|(_, task)| !task.spec.is_validation()) {
            let standing = Standing::of(task);
            let attempt = task.tries.last().map_or(0, |last| last.attempt.number());
            let progress = live.tasks.get(&ix).and_then(|live| live.progress.clone());
            let message = match standing {
                Standing::Running => progress,
                _ => crate::view::snapshot::note(state, ix),
            };
            let now = (standing, attempt, message);
            if self.tasks.get(&task.spec.key) == Some(&now) {
                continue;
            }
            news.push(json!({
                "event": "task", "task": task.spec.key.as_str(), "agent": agent_name(task),
                "status": standing.word(), "attempt": attempt, "progress": null, "message": now.2,
            }));
            self.tasks.insert(task.spec.key.clone(), now);
        }
        news
    }
}

fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Preparing => "checkpoint",
        Stage::Running => "agents",
        Stage::Merging | Stage::AwaitingResolution => "merge",
        Stage::Finished => "report",
    }
}
