//! The causal story of one task: what happened to it, why, what it waits for and what comes next.
//!
//! The journal is folded again from its beginning, so that each line can name what was true at that
//! moment: who held a file, what was still missing. Only what bears on this task is told.

use serde::Serialize;
use serde_json::Value;

use crate::model::clock::{Seconds, Tick, WallTime};
use crate::model::event::{Entry, Event};
use crate::model::id::TaskKey;
use crate::model::reason::Reason;
use crate::model::state::{BatchState, Outcome, Phase, TaskIx};
use crate::view::escape::{fit, one_line, width};
use crate::view::handoff::next_step;
use crate::view::waiting;
use crate::view::words::{Word, counted, duration};

use super::remedy::remedy;
use super::sentence;

/// One line of the story.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoryLine {
    /// The journal line that it comes from.
    pub seq: u64,
    pub at: WallTime,
    /// Since the batch was accepted.
    pub after_seconds: f64,
    pub text: String,
}

/// Everything that bears on one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Story {
    pub batch_id: Value,
    pub key: String,
    pub task_id: String,
    pub phase_name: String,
    pub status: &'static str,
    pub lines: Vec<StoryLine>,
    /// Where the task is, and what it waits for.
    pub now: String,
    /// What a person can do about it.
    pub next: Option<String>,
    /// The tasks that did not run because this one did not succeed.
    pub blocks: Vec<String>,
}

/// Tells the story of a task. `entries` are the batch's whole journal, `state` what they add up to.
pub fn story(state: &BatchState, entries: &[Entry], task: TaskIx, now: Tick) -> Story {
    let spec = &state.tasks[task].spec;
    let mut teller = Teller::new(state, task);
    entries.iter().for_each(|entry| teller.hear(entry));
    let blocks = waiting::blocked_by(state, task);
    Story {
        batch_id: state.batch.id.to_json(),
        key: spec.key.as_str().to_owned(),
        task_id: spec.task_id.clone(),
        phase_name: spec.phase_name.clone(),
        status: Word::of(&state.tasks[task].phase).shown(),
        lines: teller.lines,
        now: waiting::situation(state, task, now),
        next: next(state, task),
        blocks: blocks.iter().map(|ix| state.tasks[*ix].spec.task_id.clone()).collect(),
    }
}

/// Walks through the journal with the state as it was.
struct Teller<'a> {
    key: &'a TaskKey,
    /// The task whose failure began this one's end, if that is how it ended.
    cause: Option<&'a TaskKey>,
    dependencies: &'a [TaskKey],
    past: BatchState,
    /// Who held the task back at the last look, and which file.
    held: Option<(String, String)>,
    lines: Vec<StoryLine>,
}

impl<'a> Teller<'a> {
    fn new(state: &'a BatchState, task: TaskIx) -> Teller<'a> {
        let cause = match state.tasks[task].outcome().and_then(Outcome::reason) {
            Some(Reason::DependencyFailed { cause, .. }) => Some(cause),
            _ => None,
        };
        Teller {
            key: state.key(task),
            cause,
            dependencies: &state.tasks[task].spec.dependencies,
            past: BatchState::new(state.batch.clone()),
            held: None,
            lines: Vec::new(),
        }
    }

    fn hear(&mut self, entry: &Entry) {
        let was_live = self.task().is_some_and(|ix| self.past.tasks[ix].live_attempt().is_some());
        // A line that does not fit was refused when the state was folded; the story goes on without it.
        let _ = self.past.apply(entry);
        if let Some(text) = self.tell(entry, was_live) {
            self.say(entry, text);
        }
        self.tell_of_holder(entry);
    }

    fn task(&self) -> Option<TaskIx> {
        self.past.find(self.key.as_str())
    }

    fn say(&mut self, entry: &Entry, text: String) {
        self.lines.push(StoryLine {
            seq: entry.seq,
            at: entry.at,
            after_seconds: entry.at.seconds_since(self.past.accepted_at),
            text,
        });
    }

    fn tell(&self, entry: &Entry, was_live: bool) -> Option<String> {
        match entry.event.task() {
            Some(key) if key == self.key => {
                Some(sentence::own(&self.past, self.task()?, &entry.event, entry.clock))
            }
            // What others do after the task has ended is not part of its story.
            Some(_) if self.task().is_some_and(|ix| self.past.tasks[ix].is_done()) => None,
            Some(key) if self.dependencies.contains(key) => self.tell_dependency(key, &entry.event),
            Some(key) if Some(key) == self.cause => self.tell_failure(key, &entry.event),
            Some(_) => None,
            None => self.tell_batch(entry, was_live),
        }
    }

    fn tell_batch(&self, entry: &Entry, was_live: bool) -> Option<String> {
        match &entry.event {
            Event::Accepted { tasks, .. } => {
                let count = counted(*tasks, "task");
                let wait = self.task().and_then(|ix| self.missing(ix));
                let wait = wait.map_or(String::new(), |wait| format!("; {wait}"));
                Some(format!("the batch was accepted with {count}{wait}"))
            }
            Event::Resumed { .. } if was_live => Some("a watcher took over; the attempt went on".to_owned()),
            Event::SelfSuspected { silent, running, until } if silent.contains(self.key) => Some(format!(
                "fell silent together with others ({} of {running}): the watcher doubted itself and waited {} more",
                silent.len(),
                duration(Seconds::from_millis(until.since(entry.clock)))
            )),
            Event::Finished { status } => Some(format!("the batch ended: {}", status.word())),
            other => sentence::of_batch(other),
        }
    }

    /// `it waits for Phase 2a and Phase 2b`, while it does.
    fn missing(&self, ix: TaskIx) -> Option<String> {
        let Phase::Waiting { .. } = self.past.tasks[ix].phase else { return None };
        let waits = waiting::waiting_short(&self.past, ix)?;
        Some(waits.replacen("Waiting for", "it waits for", 1))
    }

    fn tell_dependency(&self, key: &TaskKey, event: &Event) -> Option<String> {
        let label = waiting::label(&self.past, key);
        match event {
            Event::Succeeded { .. } => {
                let rest = match self.task().and_then(|ix| self.missing(ix)) {
                    Some(missing) => missing.replacen("it waits", "it still waits", 1),
                    None => "nothing else to wait for".to_owned(),
                };
                Some(format!("{label} succeeded; {rest}"))
            }
            Event::Started { attempt, .. } | Event::Launched { attempt, .. } => {
                Some(format!("{label} started (attempt {attempt})"))
            }
            Event::Joined { .. } => Some(format!("the spec of {label} came")),
            _ => self.tell_failure(key, event),
        }
    }

    fn tell_failure(&self, key: &TaskKey, event: &Event) -> Option<String> {
        let label = waiting::label(&self.past, key);
        match event {
            Event::AttemptFailed { attempt, because, retry_at: Some(_), .. } => {
                Some(format!("{label}: attempt {attempt} failed ({because}); it is tried again"))
            }
            Event::AttemptFailed { because, .. } => Some(format!("{label} failed: {because}")),
            Event::SpecRefused { .. } => Some(format!("the spec of {label} was refused")),
            Event::Abandoned { .. } => {
                let ix = self.past.find(key.as_str())?;
                let ending = waiting::ending(&self.past, ix, self.past.tasks[ix].outcome()?);
                Some(format!("{label} will not run: {ending}"))
            }
            _ => None,
        }
    }

    /// A ready task that another's file holds back has no event of its own for that.
    fn tell_of_holder(&mut self, entry: &Entry) {
        let Some(ix) = self.task() else { return };
        let holder = match self.past.tasks[ix].phase {
            Phase::Ready => waiting::holder(&self.past, ix),
            _ => None,
        };
        let held = holder.map(|(task, file)| (task.spec.label().to_owned(), file.to_owned()));
        if held == self.held {
            return;
        }
        match (&held, &self.held) {
            (Some((label, file)), _) => {
                self.say(entry, format!("ready, but {label} holds {file}: they run one after the other"));
            }
            (None, Some((label, file))) if self.past.tasks[ix].phase == Phase::Ready => {
                self.say(entry, format!("{label} no longer holds {file}"));
            }
            (None, _) => {}
        }
        self.held = held;
    }
}

fn next(state: &BatchState, ix: TaskIx) -> Option<String> {
    let task = &state.tasks[ix];
    match &task.phase {
        Phase::Offered { .. } => Some("start an agent on its spec, or name one in settings".to_owned()),
        Phase::Running { .. } => {
            let defects = task.refusal.as_ref()?;
            let remedies: Vec<&str> = defects.iter().map(|defect| defect.remedy.as_str()).collect();
            Some(format!("the agent must write its result again: {}", remedies.join("; ")))
        }
        Phase::Awaiting { .. } => Some(format!(
            "see that no process of it is left, then `wk retry {}/{}`; or `wk cancel` it",
            state.batch.id,
            state.key(ix)
        )),
        Phase::Done(Outcome::Succeeded) => {
            next_step(state).map(|command| format!("say what becomes of the conflicts: {command}"))
        }
        Phase::Done(_) if task.unconfirmed().is_some() => Some(format!(
            "see that no process of it is left; `wk retry {}/{}` starts it again",
            state.batch.id,
            state.key(ix)
        )),
        Phase::Done(outcome) => outcome.reason().and_then(|reason| remedy(state, Some(ix), reason)),
        Phase::Waiting { .. }
        | Phase::Ready
        | Phase::Claimed { .. }
        | Phase::Ending { .. }
        | Phase::BackingOff { .. } => None,
    }
}

impl Story {
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// For a terminal: times in one column, sentences in the other.
    pub fn to_text(&self) -> String {
        let times: Vec<String> =
            self.lines.iter().map(|line| format!("+{}", duration(Seconds(line.after_seconds)))).collect();
        let column = times.iter().map(|time| width(time)).max().unwrap_or(0);
        let id = match &self.batch_id {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut lines = vec![format!("{} ({id}/{}): {}", self.phase_name, self.key, self.status)];
        for (time, line) in times.iter().zip(&self.lines) {
            lines.push(format!("  {}  {}", fit(time, column), line.text));
        }
        lines.push(format!("Now: {}", self.now));
        if !self.blocks.is_empty() {
            lines.push(format!("Blocks: {}", self.blocks.join(", ")));
        }
        lines.extend(self.next.as_ref().map(|next| format!("Next: {next}")));
        let mut text = lines.iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::Batch;
    use crate::model::handoff::Prepared;
    use crate::view::scene::{Scene, conflicted, handed_over, merged_well, tick};

    fn check(scene: &Scene, key: &str, seconds: f64, expected: &str) {
        let ix = scene.state.find(key).unwrap();
        let text = story(&scene.state, &scene.entries, ix, tick(seconds)).to_text();
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn a_retried_task_tells_each_try_and_what_comes_next() {
        let scene = Scene::of(
            "1; 2a<-1",
            "0 done 1 observed
             61 offer 2a\n62 take 2a worker-7\n70 refuse 2a\n122 fail 2a silent retry",
        );
        check(
            &scene,
            "2a",
            123.0,
            "\
Phase 2a: Work 2a (43/2a): QUEUED
  +0s      the batch was accepted with 2 tasks; it waits for Phase 1
  +0s      Phase 1 started (attempt 1)
  +1m      Phase 1 succeeded; nothing else to wait for
  +1m 1s   offered: its spec is published (attempt 1 of 3)
  +1m 2s   worker-7 took it (attempt 1 of 3)
  +1m 10s  a result was refused: field status: is missing (say success or failed); the attempt goes on
  +2m 2s   attempt 1 of 3 failed: no heartbeat for 60s; the next follows in 3s
Now: backing off 2s more, then attempt 2 of 3 (the last one: no heartbeat for 60s)
",
        );
    }

    #[test]
    fn a_blocked_task_tells_the_failure_that_began_it() {
        let scene = Scene::of(
            "2a; 3<-2a; 4<-3",
            "0 offer 2a\n1 start 2a\n9 fail 2a missing\n9 block 3 2a\n9 block 4 2a 3\n9 finish failure",
        );
        check(
            &scene,
            "4",
            9.0,
            "\
Phase 4: Work 4 (43/4): BLOCKED
  +0s  the batch was accepted with 3 tasks; it waits for Phase 3
  +9s  Phase 2a failed: claimed, but not so: src/a.rs: does not exist
  +9s  Phase 3 will not run: Phase 2a failed, blocking Phase 3
  +9s  will not run: Phase 2a failed, blocking Phase 4
  +9s  the batch ended: failure
Now: Phase 2a failed, blocking Phase 4
Next: see what stopped Phase 2a: wk why 43/2a
",
        );
        let cause = story(&scene.state, &scene.entries, 0, tick(9.0));
        assert_eq!(cause.blocks, ["phase-3", "phase-4"]);
        assert!(cause.next.is_some());
    }

    #[test]
    fn a_task_that_has_not_begun_says_why_not() {
        let scene = Scene::of(
            "2a; 2b; 3<-2a,2b",
            "0 offer 2a\n0 start 2a\n60 fail 2a silent retry\n63 offer 2a\n63 start 2a\n0 offer 2b",
        );
        let told = story(&scene.state, &scene.entries, 2, tick(70.0));
        assert_eq!(
            told.now,
            "waiting for Phase 2a (running, attempt 2 of 3) and Phase 2b (no agent yet, attempt 1 of 3)"
        );
        assert_eq!(told.status, "QUEUED");
    }

    #[test]
    fn a_task_held_back_by_a_file_tells_who_held_it_and_until_when() {
        let share = |batch: &mut Batch| {
            batch.tasks.iter_mut().for_each(|task| task.files_modified = vec!["a.yml".into()]);
        };
        let mut scene = Scene::with("2a; 2b", share, "0 offer 2a\n0 start 2a");
        let told = story(&scene.state, &scene.entries, 1, tick(5.0));
        let held = "ready, but Phase 2a holds a.yml";
        assert_eq!(told.now, format!("{held} (running, attempt 1 of 3): they run one after the other"));
        scene.play("8 collect 2a claimed\n8 succeed 2a\n9 offer 2b\n9 start 2b\n12 collect 2b observed\n12 succeed 2b");
        let told = story(&scene.state, &scene.entries, 1, tick(13.0));
        let texts: Vec<&str> = told.lines.iter().map(|line| line.text.as_str()).collect();
        let expected = [
            "the batch was accepted with 2 tasks",
            "ready, but Phase 2a holds a.yml: they run one after the other",
            "Phase 2a no longer holds a.yml",
            "offered: its spec is published (attempt 1 of 3)",
            "started: its first heartbeat was seen (attempt 1 of 3)",
            "its result was collected; evidence: observed",
            "succeeded",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_handed_over_task_tells_its_preparation_and_what_became_of_its_outputs() {
        let mut scene = Scene::with("1; 2", handed_over, "0 preparing");
        assert_eq!(
            story(&scene.state, &scene.entries, 0, tick(0.0)).now,
            "ready, but the workspace is being prepared first"
        );
        let prepared = Prepared {
            files: Some(12),
            bytes: Some(9),
            left_out: vec!["a.iso: too large".into()],
            ..Prepared::default()
        };
        scene.happen(1.0, Event::Prepared { prepared });
        scene.play("1 done 1 observed\n1 done 2 observed\n61 merging 1");
        scene.happen(62.0, Event::Merged { round: 1, outcome: Box::new(conflicted()) });
        let told = story(&scene.state, &scene.entries, 0, tick(62.0)).to_text();
        for part in [
            "+0s     the workspace is being prepared",
            "+1s     the workspace stands; 12 files are in the checkpoint, not a.iso: too large",
            "+1m 1s  what the agents made is being merged",
            "the merge ended: waits for a person: 1 conflict is not resolved, 1 conflict open; code/app.py (1 and 2): both changed line 3",
            "Next: say what becomes of the conflicts: wk resolve 43",
        ] {
            assert!(told.contains(part), "no {part:?} in:\n{told}");
        }
        scene.happen(
            90.0,
            Event::ResolveAsked { by: "ada".into(), choices: std::collections::BTreeMap::new() },
        );
        scene.play("90 merging 2");
        scene.happen(91.0, Event::Merged { round: 2, outcome: Box::new(merged_well()) });
        let told = story(&scene.state, &scene.entries, 0, tick(91.0)).to_text();
        assert!(told.contains("ada said what becomes of the conflicts"), "{told}");
        assert!(told.contains("the merge ended: success: 2 outermost paths, 1 conflict resolved"), "{told}");
    }

    #[test]
    fn late_results_doubts_and_cancellations_are_part_of_the_story() {
        let scene = Scene::of(
            "1; 2; 3",
            "0 offer 1\n0 start 1\n60 suspect 1 2 3\n70 cancel\n70 fail 1 cancelled\n80 late 1 1",
        );
        let text = story(&scene.state, &scene.entries, 0, tick(80.0)).to_text();
        for part in [
            "fell silent together with others (3 of 3): the watcher doubted itself and waited 1m more",
            "ada asked for the end of the batch",
            "attempt 1 of 3 failed: cancelled by ada",
            "a result of attempt 1 was put aside: the task had already ended",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
    }
}
