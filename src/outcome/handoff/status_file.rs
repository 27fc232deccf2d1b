//! The workspace's `status.json`: what a client may look at while its request is worked on.
//!
//! Published as a whole by a rename, and made from the state alone but for the agents' own progress: whatever
//! crashes, a reader finds each agent in one state.

use serde::Serialize;

use crate::model::clock::WallTime;
use crate::model::state::BatchState;
use crate::view::handoff::{Stage, next_step, note, open_conflicts};
use crate::view::snapshot::{self, Live, PROGRESS_CHARS_MAX};

use super::places::agent_name;
use super::standing::Standing;
use super::{Moment, pretty, whole};

#[derive(Debug, Serialize)]
struct WorkspaceStatus {
    execution_id: String,
    status: &'static str,
    updated_at: Moment,
    stage: &'static str,
    agents: Vec<AgentStatus>,
    merge: Option<MergeStatusNow>,
    note: Option<String>,
    version: u32,
}

#[derive(Debug, Serialize)]
struct AgentStatus {
    agent_name: String,
    task: String,
    status: &'static str,
    /// The attempt that is out, or the last one; 0 before the first.
    attempt: u32,
    /// The agent's own words, while it runs.
    progress: Option<String>,
    start_time: Option<Moment>,
    end_time: Option<Moment>,
    /// Why it waits, why it failed, what its success stands on.
    note: Option<String>,
    /// Where it can be watched; after its end, where it was.
    tmux_session: Option<String>,
}

#[derive(Debug, Serialize)]
struct MergeStatusNow {
    /// `merging`, or how the last round ended.
    status: &'static str,
    round: u32,
    conflicts_detected: u32,
    conflicts_resolved: u32,
    conflicts_open: usize,
    next_step: Option<String>,
}

/// The file's content. `live` is what the agents say beyond the state.
pub fn status_bytes(state: &BatchState, live: &Live, updated_at: WallTime) -> Vec<u8> {
    pretty(&WorkspaceStatus {
        execution_id: state.batch.id.as_str().to_owned(),
        status: whole::status_word(state),
        updated_at: Moment(updated_at),
        stage: Stage::of(state).word(),
        agents: (0..state.tasks.len())
            .filter(|ix| !state.tasks[*ix].spec.is_validation())
            .map(|ix| agent_status(state, live, ix))
            .collect(),
        merge: merge_status(state),
        note: note(state),
        version: 1,
    })
}

fn agent_status(state: &BatchState, live: &Live, ix: usize) -> AgentStatus {
    let task = &state.tasks[ix];
    let standing = Standing::of(task);
    let progress = live.tasks.get(&ix).and_then(|live| live.progress.as_ref());
    let session_now = live.tasks.get(&ix).and_then(|live| live.session.as_ref());
    let session_then = task.tries.last().and_then(|last| last.exit.as_ref()?.session.as_ref());
    let shortened = |text: &String| text.chars().take(PROGRESS_CHARS_MAX).collect();
    AgentStatus {
        agent_name: agent_name(task).to_owned(),
        task: task.spec.key.as_str().to_owned(),
        status: standing.word(),
        attempt: task.tries.last().map_or(0, |last| last.attempt.number()),
        progress: progress.filter(|_| standing == Standing::Running).map(shortened),
        start_time: task.started_at().map(Moment),
        end_time: task.started_at().and(task.ended_at).map(Moment),
        note: snapshot::note(state, ix),
        tmux_session: session_now.or(session_then).cloned(),
    }
}

fn merge_status(state: &BatchState) -> Option<MergeStatusNow> {
    let handoff = state.handoff.as_ref()?;
    let merged = handoff.merged.as_ref().filter(|_| handoff.merging.is_none());
    if merged.is_none() && handoff.merging.is_none() {
        return None;
    }
    Some(MergeStatusNow {
        status: merged.map_or("merging", |merged| merged.status.word()),
        round: handoff.rounds,
        conflicts_detected: merged.map_or(0, |merged| merged.conflicts_detected),
        conflicts_resolved: merged.map_or(0, |merged| merged.conflicts_resolved),
        conflicts_open: merged.map_or(0, open_conflicts),
        next_step: next_step(state),
    })
}
