//! The content of `status.json`, which is also what `--json` prints: what was decided, the same at every
//! look, and beside it one `live` block with everything that moves by itself.

use serde::Serialize;
use serde_json::Value;

use crate::model::clock::{Seconds, WallTime};

use super::handoff::Stage;
use super::snapshot::{Counts, Snapshot, TaskView};
use super::words::Word;

#[derive(Serialize)]
struct StatusFile<'a> {
    version: u32,
    batch_id: Value,
    status: &'static str,
    cancel_asked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage_note: Option<&'a str>,
    accepted_at: WallTime,
    finished_at: Option<WallTime>,
    counts: CountsJson,
    tasks: Vec<TaskJson<'a>>,
    late: usize,
    warnings: &'a [String],
    live: LiveJson<'a>,
}

#[derive(Serialize)]
struct CountsJson {
    total: usize,
    queued: usize,
    in_progress: usize,
    awaiting: usize,
    completed: usize,
    failed: usize,
    blocked: usize,
    cancelled: usize,
}

#[derive(Serialize)]
struct TaskJson<'a> {
    key: &'a str,
    task_id: &'a str,
    phase_name: &'a str,
    stage: u32,
    /// The dashboard's word.
    status: &'static str,
    attempt: u32,
    attempts_max: u32,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct LiveJson<'a> {
    mode: &'static str,
    elapsed_seconds: f64,
    warnings: &'a [String],
    /// Only tasks about which something is known beyond the decided state.
    tasks: Vec<LiveTaskJson<'a>>,
}

#[derive(Serialize)]
struct LiveTaskJson<'a> {
    key: &'a str,
    progress: Option<&'a str>,
    tokens_used: Option<u64>,
    elapsed_seconds: Option<f64>,
    silent_for_seconds: Option<f64>,
    overdue: bool,
    stuck: bool,
    held_result: bool,
    unsettled: Option<&'a str>,
    waits_for_agent_at: Option<&'a str>,
    retry_in_seconds: Option<f64>,
}

impl Snapshot {
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self.status_file()).unwrap_or(Value::Null)
    }

    /// `status.json`: fields in a fixed order, `live` last.
    pub fn status_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(&self.status_file()).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    fn status_file(&self) -> StatusFile<'_> {
        StatusFile {
            version: 1,
            batch_id: self.batch.to_json(),
            status: self.status_word(),
            cancel_asked: self.is_cancel_asked,
            paused_by: self.paused_by.as_deref(),
            stage: self.stage.map(Stage::word),
            stage_note: self.stage_note.as_deref(),
            accepted_at: self.accepted_at,
            finished_at: self.finished_at,
            counts: counts(&self.counts, self.tasks.len()),
            tasks: self.tasks.iter().map(decided).collect(),
            late: self.late,
            warnings: &self.batch_warnings,
            live: LiveJson {
                mode: self.mode.word(),
                elapsed_seconds: self.elapsed.0,
                warnings: &self.live_warnings,
                tasks: self.tasks.iter().filter(|task| has_live_part(task)).map(live).collect(),
            },
        }
    }
}

fn counts(counts: &Counts, total: usize) -> CountsJson {
    CountsJson {
        total,
        queued: counts.queued,
        in_progress: counts.in_progress,
        awaiting: counts.awaiting,
        completed: counts.completed,
        failed: counts.failed,
        blocked: counts.blocked,
        cancelled: counts.cancelled,
    }
}

fn decided(task: &TaskView) -> TaskJson<'_> {
    TaskJson {
        key: &task.key,
        task_id: &task.task_id,
        phase_name: &task.phase_name,
        stage: task.stage,
        status: task.word.shown(),
        attempt: task.attempt,
        attempts_max: task.attempts_max,
        note: task.note.as_deref(),
    }
}

fn has_live_part(task: &TaskView) -> bool {
    let is_under_way = matches!(task.word, Word::InProgress | Word::Awaiting);
    is_under_way
        || task.has_held_result
        || task.unsettled.is_some()
        || task.waits_at.is_some()
        || task.retry_in.is_some()
}

fn live(task: &TaskView) -> LiveTaskJson<'_> {
    let seconds = |span: Option<Seconds>| span.map(|span| span.0);
    LiveTaskJson {
        key: &task.key,
        progress: task.progress.as_deref(),
        tokens_used: task.tokens_used,
        elapsed_seconds: seconds(task.elapsed),
        silent_for_seconds: seconds(task.silent_for),
        overdue: task.is_overdue,
        stuck: task.is_stuck,
        held_result: task.has_held_result,
        unsettled: task.unsettled.as_deref(),
        waits_for_agent_at: task.waits_at.as_deref(),
        retry_in_seconds: seconds(task.retry_in),
    }
}

#[cfg(test)]
mod tests {
    use crate::view::scene::{Scene, tick, wall};
    use crate::view::snapshot::{Live, LiveTask, Snapshot};

    #[test]
    fn only_the_live_block_moves_by_itself() {
        let scene =
            Scene::of("1; 2<-1; 3", "0 offer 1\n0 start 1\n0 offer 3\n0 start 3\n60 fail 3 silent retry");
        let mut live = Live::default();
        let early = Snapshot::of(&scene.state, &live, tick(61.0), wall(61.0)).to_json();
        let moved = LiveTask { progress: Some("Step 2".into()), beat_age_ms: Some(9), ..LiveTask::default() };
        live.tasks.insert(0, moved);
        let late = Snapshot::of(&scene.state, &live, tick(62.0), wall(62.0)).to_json();
        assert_ne!(early["live"], late["live"]);
        for field in early.as_object().unwrap().keys().filter(|key| *key != "live") {
            assert_eq!(early[field], late[field], "{field}");
        }
        assert_eq!(late["live"]["tasks"][0]["progress"], "Step 2");
        assert_eq!(late["batch_id"], 43);
        assert_eq!(late["tasks"][1]["note"], "Waiting for Phase 1");
    }
}
