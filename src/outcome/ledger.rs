//! `LEDGER.md`: what is going on on a bus, for people and agents who read files.
//!
//! A projection of the states alone: it holds no ages, so that it comes out the same when it is made again.

use crate::model::event::BatchStatus;
use crate::model::state::{BatchState, TaskIx};
use crate::view::escape::one_line;
use crate::view::handoff::{self, Stage};
use crate::view::snapshot::{Counts, note};
use crate::view::words::{Word, attempts_max, grouped};

/// Rows of one batch; beyond it those that completed are only counted.
const ROWS_MAX: usize = 200;
/// Archived batches that are still told.
pub const ARCHIVED_MAX: usize = 10;

/// The whole file. Both lists are told in the order given; of the archived ones the first `ARCHIVED_MAX`.
pub fn ledger(active: &[&BatchState], archived: &[&BatchState]) -> String {
    let mut lines = vec![
        "# Ledger".to_owned(),
        String::new(),
        "Made by the watcher from the journals. What is written here by hand is moved aside.".to_owned(),
        String::new(),
        "## Active batches".to_owned(),
        String::new(),
    ];
    if active.is_empty() {
        lines.extend(["None.".to_owned(), String::new()]);
    }
    active.iter().for_each(|state| tell_active(&mut lines, state));
    lines.extend(["## Recently ended".to_owned(), String::new()]);
    if archived.is_empty() {
        lines.push("None.".to_owned());
    }
    archived.iter().take(ARCHIVED_MAX).for_each(|state| tell_archived(&mut lines, state));
    let mut text = lines.join("\n").trim_end().to_owned();
    text.push('\n');
    text
}

fn tell_active(lines: &mut Vec<String>, state: &BatchState) {
    let word = match (&state.finished, &state.cancel, Stage::of(state)) {
        (Some((status, _)), ..) => status.word(),
        (None, Some(_), _) => "cancelling",
        (None, None, Stage::Preparing) => "preparing",
        (None, None, Stage::Merging) => "merging",
        (None, None, Stage::AwaitingResolution) => "awaiting resolution",
        (None, None, Stage::Running | Stage::Finished) => "running",
    };
    lines.push(format!("### Batch {}: {word} ({})", state.batch.id, counts(state).told()));
    lines.push(String::new());
    if let Some(note) = handoff::note(state) {
        lines.extend([cell(&note), String::new()]);
    }
    lines
        .extend(["| Task | Name | Status | Attempt | Note |".to_owned(), "|---|---|---|---|---|".to_owned()]);
    let is_large = state.tasks.len() > ROWS_MAX;
    let is_shown = |ix: &TaskIx| !is_large || Word::of(&state.tasks[*ix].phase) != Word::Completed;
    let shown: Vec<TaskIx> = (0..state.tasks.len()).filter(is_shown).take(ROWS_MAX).collect();
    lines.extend(shown.iter().map(|ix| row(state, *ix)));
    if shown.len() < state.tasks.len() {
        lines.extend([
            String::new(),
            format!("… and {} more tasks.", grouped(state.tasks.len() - shown.len())),
        ]);
    }
    lines.push(String::new());
}

fn row(state: &BatchState, ix: TaskIx) -> String {
    let task = &state.tasks[ix];
    let attempt = match task.tries.last() {
        Some(last) => format!("{} of {}", last.attempt, attempts_max(task)),
        None => "-".to_owned(),
    };
    format!(
        "| {} | {} | {} | {attempt} | {} |",
        cell(task.spec.key.as_str()),
        cell(&task.spec.phase_name),
        Word::of(&task.phase).shown(),
        cell(&note(state, ix).unwrap_or_default())
    )
}

/// An ended batch in one line, and a line for each task that did not succeed.
fn tell_archived(lines: &mut Vec<String>, state: &BatchState) {
    let (status, ended) = match state.finished {
        Some((status, at)) => (status, format!(", ended {}", at.rfc3339())),
        None => (state.status(), String::new()),
    };
    lines.push(format!("- Batch {}: {}{ended} ({})", state.batch.id, status.word(), counts(state).told()));
    if status == BatchStatus::Success {
        return;
    }
    lines.extend(handoff::note(state).map(|note| format!("  - {}", cell(&note))));
    let unsuccessful: Vec<TaskIx> = (0..state.tasks.len())
        .filter(|ix| Word::of(&state.tasks[*ix].phase) != Word::Completed)
        .take(ARCHIVED_MAX)
        .collect();
    for ix in unsuccessful {
        let task = &state.tasks[ix];
        let word = Word::of(&task.phase).shown();
        let why = cell(&note(state, ix).unwrap_or_default());
        lines.push(format!("  - {} {word}: {why}", cell(task.spec.label())));
    }
}

fn counts(state: &BatchState) -> Counts {
    let mut counts = Counts::default();
    state.tasks.iter().for_each(|task| counts.add(Word::of(&task.phase)));
    counts
}

/// Text that somebody wrote, so that it can neither leave its cell nor pass for Markdown or HTML.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '|' | '`' | '\\' | '[' | '*' => safe.extend(['\\', character]),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Event;
    use crate::view::scene::{Scene, conflicted, handed_over};

    #[test]
    fn the_ledger_tells_active_batches_by_task_and_ended_ones_by_what_went_wrong() {
        let active = Scene::of("1; 2<-1", "0 offer 1\n0 fail 1 silent retry\n4 offer 1\n4 start 1");
        let ended = Scene::of("1; 2<-1", "0 offer 1\n0 fail 1 a|b<c\n0 block 2 1\n5 finish failure");
        let expected = "\
# Ledger

Made by the watcher from the journals. What is written here by hand is moved aside.

## Active batches

### Batch 43: running (1 queued, 1 in progress)

| Task | Name | Status | Attempt | Note |
|---|---|---|---|---|
| 1 | Phase 1: Work 1 | IN_PROGRESS | 2 of 3 |  |
| 2 | Phase 2: Work 2 | QUEUED | - | Waiting for Phase 1 |

## Recently ended

- Batch 43: failure, ended 2025-11-10T14:30:05.000Z (1 failed, 1 blocked)
  - Phase 1 FAILED: the agent reported failure: a\\|b&lt;c
  - Phase 2 BLOCKED: Phase 1 failed, blocking Phase 2
";
        assert_eq!(ledger(&[&active.state], &[&ended.state]), expected);
    }

    #[test]
    fn a_handed_over_batch_tells_its_conflicts_and_what_to_call() {
        let mut scene =
            Scene::with("1", handed_over, "0 preparing\n0 prepared\n0 done 1 claimed\n60 merging 1");
        scene.happen(61.0, Event::Merged { round: 1, outcome: Box::new(conflicted()) });
        let text = ledger(&[&scene.state], &[]);
        let expected = "\
### Batch 43: awaiting resolution (1 completed)

1 conflict waits for you: code/app.py; wk resolve 43

| Task |";
        assert!(text.contains(expected), "{text}");
        scene.play("70 cancel\n70 finish cancelled");
        let text = ledger(&[], &[&scene.state]);
        assert!(
            text.contains("\n  - Merge: waits for a person: 1 conflict is not resolved, 1 conflict open"),
            "{text}"
        );
    }

    #[test]
    fn an_empty_bus_and_a_huge_batch_both_have_a_short_ledger() {
        assert!(ledger(&[], &[]).contains("## Active batches\n\nNone."));
        let graph: Vec<String> = (0..5000).map(|n| format!("t{n}")).collect();
        let huge = Scene::of(&graph.join(";"), "0 done t0 claimed");
        let text = ledger(&[&huge.state], &[]);
        assert!(text.lines().count() < 220);
        assert!(text.contains("… and 4,800 more tasks."), "{text}");
    }
}
