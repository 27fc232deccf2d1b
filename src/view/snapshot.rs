//! One value for every face: what a batch looks like now.
//!
//! What was decided comes from the state; what only the live files know (progress, ages) is handed in
//! as `Live`. Nothing here is escaped for a terminal: that is the business of whoever prints it.

use std::collections::HashMap;

use crate::model::clock::{Seconds, Tick, WallTime};
use crate::model::event::BatchStatus;
use crate::model::id::BatchId;
use crate::model::state::{BatchState, Outcome, Phase, TaskIx, TaskState};

use super::handoff::{self, Stage};
use super::waiting;
use super::words::{Word, attempt_of, attempts_max, duration};

/// Longest progress text that is kept, in characters: the rest of a heartbeat is its agent's business.
pub const PROGRESS_CHARS_MAX: usize = 500;

/// How the watcher notices changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// File events wake it, and it looks at everything now and then.
    #[default]
    EventsAndScan,
    /// It only looks: this file system sends no events.
    Scan,
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::EventsAndScan => "events+scan",
            Mode::Scan => "scan",
        }
    }
}

/// What the files say about one task beyond what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveTask {
    /// The heartbeat's own words.
    pub progress: Option<String>,
    pub tokens_used: Option<u64>,
    /// Milliseconds since the last beat.
    pub beat_age_ms: Option<u64>,
    /// Milliseconds since progress or tokens last moved.
    pub progress_age_ms: Option<u64>,
    /// A result lies in the drop box of a task that does not run yet.
    pub has_held_result: bool,
    /// A file that cannot be read yet, and why.
    pub unsettled: Option<String>,
    /// Where its spec lies, if the task waits for an agent that nobody here starts.
    pub spec_path: Option<String>,
    /// The terminal session in which it can be watched.
    pub session: Option<String>,
}

/// What the files say about a batch beyond what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    pub mode: Mode,
    pub tasks: HashMap<TaskIx, LiveTask>,
    pub warnings: Vec<String>,
}

/// One task as every face shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    pub key: String,
    pub task_id: String,
    pub label: String,
    pub phase_name: String,
    pub stage: u32,
    pub word: Word,
    /// The attempt that is out, or the last one; 0 before the first.
    pub attempt: u32,
    pub attempts_max: u32,
    /// What the decided state says: why it waits, why it failed, what it stands on.
    pub note: Option<String>,
    /// The agent's own words about what it is doing.
    pub progress: Option<String>,
    pub tokens_used: Option<u64>,
    pub elapsed: Option<Seconds>,
    pub silent_for: Option<Seconds>,
    /// Silent for noticeably longer than it was told to be.
    pub is_overdue: bool,
    pub is_stuck: bool,
    pub has_held_result: bool,
    pub unsettled: Option<String>,
    /// The spec that waits for an outsider.
    pub waits_at: Option<String>,
    /// Until the next try, while backing off.
    pub retry_in: Option<Seconds>,
}

/// How many tasks there are of each word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub queued: usize,
    pub in_progress: usize,
    pub awaiting: usize,
    pub completed: usize,
    pub failed: usize,
    pub blocked: usize,
    pub cancelled: usize,
}

impl Counts {
    pub fn add(&mut self, word: Word) {
        *match word {
            Word::Queued => &mut self.queued,
            Word::InProgress => &mut self.in_progress,
            Word::Awaiting => &mut self.awaiting,
            Word::Completed => &mut self.completed,
            Word::Failed => &mut self.failed,
            Word::Blocked => &mut self.blocked,
            Word::Cancelled => &mut self.cancelled,
        } += 1;
    }

    pub fn of(&self, word: Word) -> usize {
        match word {
            Word::Queued => self.queued,
            Word::InProgress => self.in_progress,
            Word::Awaiting => self.awaiting,
            Word::Completed => self.completed,
            Word::Failed => self.failed,
            Word::Blocked => self.blocked,
            Word::Cancelled => self.cancelled,
        }
    }

    /// `1 in progress, 3 queued`: the words that occur, in their order.
    pub fn told(&self) -> String {
        let parts: Vec<String> = Word::ALL
            .into_iter()
            .filter(|word| self.of(*word) > 0)
            .map(|word| format!("{} {}", super::words::grouped(self.of(word)), word.told()))
            .collect();
        parts.join(", ")
    }
}

/// What a batch looks like at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub batch: BatchId,
    /// `None` while it runs.
    pub status: Option<BatchStatus>,
    pub is_cancel_asked: bool,
    /// Who paused it, while it is paused.
    pub paused_by: Option<String>,
    /// Of a handed-over batch: how far it is beside its tasks.
    pub stage: Option<Stage>,
    /// The same as a sentence, where there is something to say.
    pub stage_note: Option<String>,
    pub accepted_at: WallTime,
    pub finished_at: Option<WallTime>,
    pub elapsed: Seconds,
    pub counts: Counts,
    /// In the plan's order.
    pub tasks: Vec<TaskView>,
    /// Results that came after their verdict, so far.
    pub late: usize,
    /// Of the request: the same at every look.
    pub batch_warnings: Vec<String>,
    /// Of the moment.
    pub live_warnings: Vec<String>,
    pub mode: Mode,
}

impl Snapshot {
    /// `now` measures back-off; `wall` is what people count elapsed time by.
    pub fn of(state: &BatchState, live: &Live, now: Tick, wall: WallTime) -> Snapshot {
        let nothing = LiveTask::default();
        let mut counts = Counts::default();
        let tasks: Vec<TaskView> = (0..state.tasks.len())
            .map(|ix| task_view(state, ix, live.tasks.get(&ix).unwrap_or(&nothing), now, wall))
            .inspect(|task| counts.add(task.word))
            .collect();
        let finished_at = state.finished.map(|(_, at)| at);
        Snapshot {
            batch: state.batch.id.clone(),
            status: state.finished.map(|(status, _)| status),
            is_cancel_asked: state.cancel.is_some(),
            paused_by: state.paused.clone().filter(|_| state.finished.is_none()),
            stage: state.handoff.as_ref().map(|_| Stage::of(state)),
            stage_note: handoff::note(state),
            accepted_at: state.accepted_at,
            finished_at,
            elapsed: Seconds(finished_at.unwrap_or(wall).seconds_since(state.accepted_at)),
            counts,
            tasks,
            late: state.late.len(),
            batch_warnings: state.batch.warnings.iter().cloned().chain(handoff::warnings(state)).collect(),
            live_warnings: live.warnings.clone(),
            mode: live.mode,
        }
    }

    /// `running`, or how the batch ended.
    pub fn status_word(&self) -> &'static str {
        self.status.map_or("running", BatchStatus::word)
    }

    /// The tasks that an outsider could begin now, each with its spec's path.
    pub fn waiting_for_outsiders(&self) -> impl Iterator<Item = (&TaskView, &str)> {
        self.tasks.iter().filter_map(|task| Some((task, task.waits_at.as_deref()?)))
    }
}

fn task_view(state: &BatchState, ix: TaskIx, live: &LiveTask, now: Tick, wall: WallTime) -> TaskView {
    let task = &state.tasks[ix];
    let word = Word::of(&task.phase);
    let is_running = matches!(task.phase, Phase::Running { .. });
    let is_offered = matches!(task.phase, Phase::Offered { .. });
    let stuck_after_ms = task.spec.limits.stuck_after.millis();
    // One beat and a half: a beat that is a little late is nothing to tell.
    let overdue_after_ms = task.spec.limits.heartbeat_interval.millis() * 3 / 2;
    let retry_in = match task.phase {
        Phase::BackingOff { until, .. } => Some(Seconds::from_millis(until.since(now))),
        _ => None,
    };
    TaskView {
        key: task.spec.key.as_str().to_owned(),
        task_id: task.spec.task_id.clone(),
        label: task.spec.label().to_owned(),
        phase_name: task.spec.phase_name.clone(),
        stage: task.spec.stage,
        word,
        attempt: task.tries.last().map_or(0, |last| last.attempt.number()),
        attempts_max: attempts_max(task),
        note: note(state, ix),
        progress: live.progress.as_deref().filter(|_| is_running).map(shortened),
        tokens_used: live.tokens_used,
        elapsed: time_spent(task, wall),
        silent_for: live.beat_age_ms.filter(|_| is_running).map(Seconds::from_millis),
        is_overdue: is_running && live.beat_age_ms.is_some_and(|age| age > overdue_after_ms),
        is_stuck: is_running && live.progress_age_ms.is_some_and(|age| age >= stuck_after_ms),
        has_held_result: live.has_held_result && !task.is_done(),
        unsettled: live.unsettled.clone(),
        waits_at: live.spec_path.clone().filter(|_| is_offered && state.paused.is_none()),
        retry_in,
    }
}

fn shortened(progress: &str) -> String {
    progress.chars().take(PROGRESS_CHARS_MAX).collect()
}

/// From the first sign of life to the end, or to now.
fn time_spent(task: &TaskState, wall: WallTime) -> Option<Seconds> {
    let began = task.started_at()?;
    Some(Seconds(task.ended_at.unwrap_or(wall).seconds_since(began)))
}

/// What the decided state alone says about a task. No times: projections must come out the same again.
pub fn note(state: &BatchState, ix: TaskIx) -> Option<String> {
    let task = &state.tasks[ix];
    match &task.phase {
        Phase::Waiting { .. } | Phase::Ready => waiting::waiting_short(state, ix),
        Phase::Offered { .. } if state.paused.is_some() => Some("Paused".to_owned()),
        Phase::Offered { .. } => Some("no agent yet".to_owned()),
        Phase::Running { .. } => {
            let refusal = task.refusal.as_ref()?.first()?;
            Some(format!("result refused: {refusal}; {}", refusal.remedy))
        }
        Phase::Claimed { .. } => Some("checking the result".to_owned()),
        Phase::Ending { because, .. } => Some(format!("being ended: {because}")),
        Phase::Awaiting { why, .. } => Some(format!("is it gone? {why}")),
        Phase::BackingOff { .. } => {
            let because = task.tries.last()?.failed_because.as_ref()?;
            Some(because.to_string())
        }
        Phase::Done(Outcome::Succeeded) => {
            let grade = task.collected.as_ref()?.verdict.grade();
            let number = task.tries.last()?.attempt.number();
            let flaky = if number > 1 {
                format!(", {}", attempt_of(number, attempts_max(task)))
            } else {
                String::new()
            };
            Some(format!("{grade}{flaky}"))
        }
        Phase::Done(outcome) => Some(waiting::ending(state, ix, outcome)),
    }
}

impl TaskView {
    /// The one line that a table has for a task.
    pub fn line(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.is_stuck {
            parts.push("STUCK".to_owned());
        }
        if let Some(silence) = self.silent_for.filter(|_| self.is_overdue) {
            parts.push(format!("silent for {}", duration(silence)));
        }
        let is_live = matches!(self.word, Word::InProgress | Word::Queued);
        if self.attempt > 1 && is_live && self.retry_in.is_none() {
            parts.push(attempt_of(self.attempt, self.attempts_max));
        }
        if let Some(left) = self.retry_in {
            let next = attempt_of(self.attempt + 1, self.attempts_max);
            parts.push(format!("{next} in {}", duration(left)));
        }
        if self.has_held_result {
            parts.push("result held".to_owned());
        }
        parts.extend(self.unsettled.clone());
        match (&self.waits_at, &self.note, &self.progress) {
            (Some(path), ..) => parts.push(format!("no agent yet: {path}")),
            (None, Some(note), _) => parts.push(note.clone()),
            (None, None, Some(progress)) => parts.push(progress.clone()),
            (None, None, None) => {}
        }
        parts.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scene::{Scene, tick, wall};

    fn of(scene: &Scene, live: &Live, seconds: f64) -> Snapshot {
        Snapshot::of(&scene.state, live, tick(seconds), wall(seconds))
    }

    fn line(snapshot: &Snapshot, key: &str) -> String {
        snapshot.tasks.iter().find(|task| task.key == key).unwrap().line()
    }

    #[test]
    fn a_snapshot_tells_waiting_running_retrying_and_stuck_tasks_apart() {
        let scene = Scene::of(
            "1; 2a<-1; 2b<-1; 3<-2a,2b; x",
            "0 done 1 observed
             61 offer 2a
             61 start 2a
             121 fail 2a silent retry
             61 offer 2b
             61 start 2b
             61 offer x",
        );
        let mut live = Live::default();
        live.tasks.insert(
            2,
            LiveTask {
                progress: Some("Step 3 of 5".into()),
                progress_age_ms: Some(300_000),
                beat_age_ms: Some(4_000),
                ..LiveTask::default()
            },
        );
        live.tasks.insert(4, LiveTask { spec_path: Some("tasks/task-x.json".into()), ..LiveTask::default() });
        let snapshot = of(&scene, &live, 122.0);
        assert_eq!(line(&snapshot, "1"), "observed");
        assert_eq!(line(&snapshot, "2a"), "attempt 2 of 3 in 2s · no heartbeat for 60s");
        assert_eq!(line(&snapshot, "2b"), "STUCK · Step 3 of 5");
        assert_eq!(line(&snapshot, "3"), "Waiting for Phase 2a and Phase 2b");
        assert_eq!(line(&snapshot, "x"), "no agent yet: tasks/task-x.json");
        assert_eq!(snapshot.counts.told(), "3 queued, 1 in progress, 1 completed");
        assert_eq!(snapshot.tasks[2].elapsed, Some(Seconds(61.0)));
    }

    #[test]
    fn a_task_held_back_by_a_file_says_who_holds_it() {
        let share = |batch: &mut crate::model::batch::Batch| {
            for task in &mut batch.tasks {
                task.files_modified = vec![".ce/config.yml".into()];
            }
        };
        let scene = Scene::with("2a; 2b", share, "0 offer 2a\n1 start 2a");
        let snapshot = of(&scene, &Live::default(), 2.0);
        assert_eq!(line(&snapshot, "2b"), "Waiting for Phase 2a, which holds .ce/config.yml");
    }

    #[test]
    fn silence_is_told_before_it_is_judged_and_not_at_every_beat() {
        let scene = Scene::of("1", "0 offer 1\n0 start 1");
        let mut live = Live::default();
        let silent = |ms| LiveTask { beat_age_ms: Some(ms), ..LiveTask::default() };
        live.tasks.insert(0, silent(31_000));
        assert_eq!(line(&of(&scene, &live, 50.0), "1"), "");
        live.tasks.insert(0, silent(50_000));
        assert_eq!(line(&of(&scene, &live, 50.0), "1"), "silent for 50s");
    }

    #[test]
    fn a_held_result_and_an_unsettled_file_are_shown() {
        let scene = Scene::of("1; 2<-1", "0 offer 1\n0 start 1");
        let mut live = Live::default();
        live.tasks.insert(1, LiveTask { has_held_result: true, ..LiveTask::default() });
        live.tasks
            .insert(0, LiveTask { unsettled: Some("result half written".into()), ..LiveTask::default() });
        let snapshot = of(&scene, &live, 2.0);
        assert_eq!(line(&snapshot, "2"), "result held · Waiting for Phase 1");
        assert_eq!(line(&snapshot, "1"), "result half written");
    }
}
