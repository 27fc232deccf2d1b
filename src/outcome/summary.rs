//! The summary that people read when a batch has ended: what was done, on what evidence, what was not and
//! why, and what to do next.
//!
//! Everything that a request or an agent wrote is escaped here, because the text goes to a terminal.

use std::collections::HashMap;

use crate::model::claim::Claim;
use crate::model::clock::Seconds;
use crate::model::event::BatchStatus;
use crate::model::evidence::Grade;
use crate::model::state::{BatchState, TaskIx};
use crate::view::escape::one_line;
use crate::view::handoff::{self, Stage};
use crate::view::waiting;
use crate::view::words::{
    Word, attempt_of, attempts_max, batch_shown, counted, duration, duration_in_words, grouped, listed,
};

use super::aggregate::{BatchResult, batch_result};
use super::conflict::Conflict;
use super::next_steps::next_steps;
use super::task_result::TaskResult;

/// Columns of the rules above and below.
const RULE_WIDTH: usize = 43;
/// Tasks up to which each has its line; in larger batches those that succeeded are only counted.
const TASKS_LISTED_MAX: usize = 200;
/// Lines of one kind of note before the rest is counted.
const NOTES_LISTED_MAX: usize = 20;

/// The summary as text; each line ends with a line break.
pub fn summary(state: &BatchState, claims: &HashMap<TaskIx, Claim>) -> String {
    let result = batch_result(state, claims);
    let rule = "═".repeat(RULE_WIDTH);
    let mut lines = vec![headline(state), rule.clone()];
    lines.extend(figures(state, &result));
    lines.push(String::new());
    lines.push(format!("Tasks Completed: {}/{}", result.completed_tasks.len(), result.results.len()));
    lines.extend(task_lines(state, &result));
    lines.push(String::new());
    lines.extend(produce(&result));
    section(&mut lines, "Conflicts:", conflict_lines(state, &result.conflicts));
    section(&mut lines, "Conflicts between outputs:", open_conflicts(state));
    section(&mut lines, "Notes:", notes(state, &result));
    section(&mut lines, "Validation Gates open (claimed, not checked):", open_gates(state, &result));
    section(&mut lines, "Next Steps:", numbered(next_steps(state, &result)));
    lines.push(String::new());
    lines.push(rule);
    let mut text = lines.iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

fn headline(state: &BatchState) -> String {
    let id = &state.batch.id;
    match Stage::of(state) {
        Stage::Preparing | Stage::Running | Stage::Merging => return format!("Batch {id} In Progress"),
        Stage::AwaitingResolution => return format!("Batch {id} Awaits You"),
        Stage::Finished => {}
    }
    match state.status() {
        BatchStatus::Success => format!("Batch {id} Completed Successfully"),
        BatchStatus::PartialSuccess => format!("Batch {id} Completed Partially"),
        BatchStatus::Failure => format!("Batch {id} Failed"),
        BatchStatus::Timeout => format!("Batch {id} Timed Out"),
        BatchStatus::Cancelled => format!("Batch {id} Cancelled"),
    }
}

fn figures(state: &BatchState, result: &BatchResult) -> Vec<String> {
    let mut lines = vec![status_line(state, result)];
    if result.finished_at.is_some() {
        lines.push(format!("Duration: {}", duration_in_words(Seconds(result.total_elapsed_seconds.0))));
    }
    if let Some(cost) = result.cost_usd {
        lines.push(format!("Cost: ${cost:.2}"));
    }
    lines.push(format!("Stages: {}/{} completed", result.stages_completed, result.stages_total));
    if let Some(grade) = result.evidence {
        let standing = result.standing.clone().unwrap_or_else(|| meaning(grade).to_owned());
        lines.push(format!("Evidence: {grade} ({standing})"));
    }
    lines.extend(handoff::note(state));
    lines
}

/// A green that rests on nothing but words says so in the headline's own line.
fn status_line(state: &BatchState, result: &BatchResult) -> String {
    if Stage::of(state).is_under_way() {
        return "Status: IN PROGRESS".to_owned();
    }
    let word = batch_shown(state.status());
    match result.evidence {
        Some(Grade::Claimed) => format!("Status: {word} (claimed)"),
        _ => format!("Status: {word}"),
    }
}

/// For what versions before 0.2 journaled.
fn meaning(grade: Grade) -> &'static str {
    match grade {
        Grade::Claimed => "for the weakest task there is only its agent's word",
        Grade::Observed => "files, changes and exits were seen; no check was run for the weakest task",
        Grade::Verified => "checks that were run here passed for every completed task",
    }
}

fn task_lines(state: &BatchState, result: &BatchResult) -> Vec<String> {
    let is_large = result.results.len() > TASKS_LISTED_MAX;
    let is_shown = |task: &TaskResult| !is_large || !task.is_success();
    let shown: Vec<usize> = (0..result.results.len())
        .filter(|ix| is_shown(&result.results[*ix]))
        .take(TASKS_LISTED_MAX)
        .collect();
    let mut lines: Vec<String> = shown.iter().map(|ix| task_line(state, *ix, &result.results[*ix])).collect();
    if shown.len() < result.results.len() {
        let hidden = result.results.len() - shown.len();
        let succeeded = if is_large { result.completed_tasks.len() } else { 0 };
        lines.push(format!("  … and {} more, {} of them completed", grouped(hidden), grouped(succeeded)));
    }
    lines
}

fn task_line(state: &BatchState, ix: TaskIx, result: &TaskResult) -> String {
    let task = &state.tasks[ix];
    let word = Word::of(&task.phase);
    let mut brackets: Vec<String> = Vec::new();
    brackets.extend(result.elapsed_seconds.map(|span| duration(Seconds(span.0))));
    if let Some(last) = result.attempts.last().filter(|last| last.attempt > 1) {
        brackets.push(attempt_of(last.attempt, attempts_max(task)));
    }
    let brackets = if brackets.is_empty() { String::new() } else { format!(" ({})", brackets.join(", ")) };
    let because = match task.outcome().filter(|_| !result.is_success()) {
        Some(outcome) => format!(": {}", waiting::ending(state, ix, outcome)),
        None if result.is_success() => String::new(),
        None => format!(": {}", word.told()),
    };
    format!("  {} {}{brackets}{because}", word.glyph(), name(result))
}

fn name(result: &TaskResult) -> &str {
    if result.phase_name.is_empty() { &result.key } else { &result.phase_name }
}

fn produce(result: &BatchResult) -> Vec<String> {
    let figures = [
        ("Files Created", result.total_files_created),
        ("Files Modified", result.total_files_modified),
        ("Files Deleted", result.files_deleted.len()),
        ("Further Files", result.more_files as usize),
        ("Commits", result.commits.len()),
    ];
    let seen = figures.iter().filter(|(_, count)| *count > 0);
    let mut lines: Vec<String> = seen.map(|(what, count)| format!("{what}: {}", grouped(*count))).collect();
    if lines.is_empty() && !result.completed_tasks.is_empty() {
        // A zero would say that nothing was made; nobody knows that of what no task declares.
        lines.push("Files: none of what was declared was seen to change".to_owned());
    }
    if !result.prps_generated.is_empty() {
        lines.push(format!("PRPs Generated: {}", result.prps_generated.len()));
    }
    lines
}

/// Only what nothing orders: tasks that follow each other may well change the same file.
fn conflict_lines(state: &BatchState, conflicts: &[Conflict]) -> Vec<String> {
    conflicts.iter().filter(|conflict| !conflict.ordered).map(|one| conflict_line(state, one)).collect()
}

/// What a person is to say something about.
fn open_conflicts(state: &BatchState) -> Vec<String> {
    let merged = state.handoff.as_ref().and_then(|handoff| handoff.merged.as_ref());
    merged.into_iter().flat_map(|merged| &merged.conflicts).map(handoff::conflict).collect()
}

/// `Phase 2a and Phase 2b both modify .ce/config.yml`.
fn conflict_line(state: &BatchState, conflict: &Conflict) -> String {
    let labels: Vec<&str> = conflict.tasks.iter().map(|id| label_of(state, id)).collect();
    let all = if labels.len() == 2 { "both" } else { "all" };
    format!("{} {all} modify {}", listed(&labels), conflict.file)
}

pub(super) fn label_of<'a>(state: &'a BatchState, task_id: &'a str) -> &'a str {
    state.find(task_id).map_or(task_id, |ix| state.tasks[ix].spec.label())
}

/// Everything that a reader of a green line should know besides.
fn notes(state: &BatchState, result: &BatchResult) -> Vec<String> {
    let mut notes: Vec<String> =
        result.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    notes.extend(handoff::warnings(state).into_iter().map(|warning| format!("warning: {warning}")));
    for task in &result.results {
        let label = label_of(state, &task.task_id);
        if task.flaky {
            notes.push(format!("flaky: {label} succeeded on {}", flaky_story(state, task)));
        }
        if task.unfenced {
            notes.push(format!("unfenced: {label}'s result does not say which attempt it speaks for"));
        }
        if !task.drift.touched_unclaimed.is_empty() {
            let files = listed(&task.drift.touched_unclaimed);
            notes.push(format!("drift: {label} changed {files} without saying so"));
        }
        if !task.drift.touched_undeclared.is_empty() {
            let files = listed(&task.drift.touched_undeclared);
            notes.push(format!("drift: {label} changed {files}, which it does not declare"));
        }
        if task.is_success() && !task.drift.declared_untouched.is_empty() {
            let files = listed(&task.drift.declared_untouched);
            notes.push(format!("not done: {label} was to change {files} and did not"));
        }
        if let Some(why) = task.no_change_needed.as_ref().filter(|_| task.is_success()) {
            notes.push(format!("claimed: {label} says that nothing had to be changed: {why}"));
        }
    }
    for late in &result.late {
        let attempt = late.attempt.map_or(String::new(), |attempt| format!(" of attempt {attempt}"));
        let label = label_of(state, &late.task_id);
        notes.push(format!("late: a result{attempt} for {label} was put aside: {}", late.reason));
    }
    notes
}

/// `attempt 2 of 3; attempt 1 failed: no heartbeat for 60s`.
fn flaky_story(state: &BatchState, task: &TaskResult) -> String {
    let max = state.find(&task.key).map_or(1, |ix| attempts_max(&state.tasks[ix]));
    let parts: Vec<String> = task
        .attempts
        .iter()
        .filter_map(|one| Some(format!("attempt {} failed: {}", one.attempt, one.reason.as_ref()?)))
        .collect();
    let number = task.attempts.last().map_or(1, |last| last.attempt);
    format!("{}; {}", attempt_of(number, max), parts.join("; "))
}

fn open_gates(state: &BatchState, result: &BatchResult) -> Vec<String> {
    let succeeded = result.results.iter().filter(|task| task.is_success());
    succeeded
        .flat_map(|task| {
            let label = label_of(state, &task.task_id);
            let open = task.validation_gates.iter().filter(|gate| gate.grade == Some(Grade::Claimed));
            open.map(move |gate| format!("{label}: {}", gate.gate))
        })
        .collect()
}

fn numbered(steps: Vec<String>) -> Vec<String> {
    steps.into_iter().enumerate().map(|(at, step)| format!("{}. {step}", at + 1)).collect()
}

/// A heading with its lines, if there are any.
fn section(lines: &mut Vec<String>, heading: &str, content: Vec<String>) {
    if content.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(heading.to_owned());
    lines.extend(content.iter().take(NOTES_LISTED_MAX).map(|line| format!("  {line}")));
    if content.len() > NOTES_LISTED_MAX {
        lines.push(format!("  … and {} more", counted(content.len() - NOTES_LISTED_MAX, "line")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::Batch;
    use crate::model::event::Event;
    use crate::model::task::Gate;
    use crate::view::scene::{Scene, conflicted, handed_over, merged_well};

    const GRAPH: &str = "1; 2a<-1; 2b<-1; 3<-2a,2b";

    fn told(scene: &Scene) -> String {
        summary(&scene.state, &scene.claims)
    }

    fn check_says(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|found| found.trim() == *line), "no {line:?} in:\n{text}");
        }
    }

    #[test]
    fn a_full_success_reads_as_the_plan_dialect_draws_it() {
        let priced = |batch: &mut Batch| batch.price_per_million_tokens = Some(3.0);
        let mut scene = Scene::with(
            "1; 2<-1",
            priced,
            "0 offer 1\n0 start 1\n1800 collect 1 verified\n1800 succeed 1
             1800 offer 2\n1800 start 2\n3600 collect 2 observed\n3600 succeed 2\n3600 finish success",
        );
        scene.claim("1", &["a.md"], &[], 100_000);
        scene.claim("2", &[], &["b.md"], 40_000);
        let expected = "\
Batch 43 Completed Successfully
═══════════════════════════════════════════
Status: SUCCESS
Duration: 1 hour
Cost: $0.42
Stages: 2/2 completed
Evidence: observed (files observed · gates verified · 1 task without gates)

Tasks Completed: 2/2
  ✓ Phase 1: Work 1 (30m)
  ✓ Phase 2: Work 2 (30m)

Files Created: 1
Files Modified: 1
Commits: 2

Next Steps:
  1. Review generated files: a.md and b.md
  2. Commit changes that are not committed yet (2 commits were reported)

═══════════════════════════════════════════
";
        assert_eq!(told(&scene), expected);
    }

    #[test]
    fn a_success_on_the_agents_word_alone_says_claimed() {
        let gated = |batch: &mut Batch| {
            batch.tasks[0].validation_gates =
                vec![Gate { text: "All 5 files created".into(), command: None }];
        };
        let scene = Scene::with("1", gated, "0 done 1 claimed\n60 finish success");
        let text = told(&scene);
        check_says(
            &text,
            &[
                "Status: SUCCESS (claimed)",
                "Validation Gates open (claimed, not checked):",
                "Phase 1: All 5 files created",
            ],
        );
    }

    #[test]
    fn a_partial_batch_names_what_failed_and_what_that_blocked() {
        let scene = Scene::of(
            "1; 2a<-1; 3a<-2a; 4<-3a",
            "0 done 1 observed
             60 offer 2a\n60 start 2a\n120 fail 2a silent\n120 block 3a 2a\n120 block 4 2a 3a
             120 finish partial_success",
        );
        let text = told(&scene);
        check_says(
            &text,
            &[
                "Batch 43 Completed Partially",
                "Status: PARTIAL SUCCESS",
                "Stages: 1/4 completed",
                "Tasks Completed: 1/4",
                "✗ Phase 2a: Work 2a (1m): no heartbeat for 60s",
                "⊘ Phase 3a: Work 3a: Phase 2a failed, blocking Phase 3a",
                "⊘ Phase 4: Work 4: Phase 2a failed, blocking Phase 4",
                "1. See why Phase 2a failed: wk why 43/2a (it blocks Phase 3a and Phase 4)",
            ],
        );
    }

    #[test]
    fn a_flaky_task_is_marked_and_its_first_try_told() {
        let scene = Scene::of(
            "1",
            "0 offer 1\n0 start 1\n60 fail 1 silent retry\n63 offer 1\n63 start 1
             90 collect 1 observed unfenced\n90 succeed 1\n95 late 1 1\n95 finish success",
        );
        check_says(
            &told(&scene),
            &[
                "✓ Phase 1: Work 1 (1m 30s, attempt 2 of 3)",
                "flaky: Phase 1 succeeded on attempt 2 of 3; attempt 1 failed: no heartbeat for 60s",
                "unfenced: Phase 1's result does not say which attempt it speaks for",
                "late: a result of attempt 1 for Phase 1 was put aside: the task had already ended",
            ],
        );
    }

    #[test]
    fn a_conflict_names_both_tasks_and_an_ordered_pair_is_none() {
        let mut scene = Scene::of(GRAPH, "0 done 1 claimed\n60 done 2a claimed\n60 done 2b claimed");
        scene.claim("1", &[], &["README.md"], 1);
        scene.claim("2a", &[], &[".ce/config.yml", "README.md"], 1);
        scene.claim("2b", &[], &[".ce/config.yml"], 1);
        let text = told(&scene);
        check_says(&text, &["Phase 2a and Phase 2b both modify .ce/config.yml"]);
        assert!(!text.contains("modify README.md"), "{text}");
    }

    #[test]
    fn timeouts_and_cancellations_have_their_headlines() {
        let timed_out = Scene::of("1", "0 offer 1\n9 start 1\n3600 fail 1 batch\n3600 finish timeout");
        check_says(
            &told(&timed_out),
            &[
                "Batch 43 Timed Out",
                "Status: TIMEOUT",
                "✗ Phase 1: Work 1 (59m): batch exceeded 3600s timeout",
            ],
        );
        let cancelled = Scene::of("1", "0 cancel\n0 drop 1\n0 finish cancelled");
        check_says(&told(&cancelled), &["Status: CANCELLED", "⊘ Phase 1: Work 1: cancelled by ada"]);
    }

    #[test]
    fn a_merge_has_its_line_its_conflicts_and_its_next_step() {
        let mut scene =
            Scene::with("1; 2", handed_over, "0 preparing\n0 prepared\n0 done 1 observed\n0 done 2 observed");
        check_says(&told(&scene), &["Batch 43 In Progress"]);
        scene.play("60 merging 1");
        check_says(&told(&scene), &["Status: IN PROGRESS", "Merging what the agents made"]);
        scene.happen(61.0, Event::Merged { round: 1, outcome: Box::new(conflicted()) });
        check_says(
            &told(&scene),
            &[
                "Batch 43 Awaits You",
                "Status: FAILURE",
                "1 conflict waits for you: code/app.py; wk resolve 43",
                "Conflicts between outputs:",
                "code/app.py (1 and 2): both changed line 3",
                "1. Say what becomes of 1 conflict: wk resolve 43",
            ],
        );
        scene.play("90 merging 2");
        scene.happen(91.0, Event::Merged { round: 2, outcome: Box::new(merged_well()) });
        scene.play("91 finish success");
        let merge = "Merge: success: 2 outermost paths, 1 conflict resolved, receipt 0a1b2c3d4e5f";
        check_says(&told(&scene), &["Batch 43 Completed Successfully", merge]);
    }

    #[test]
    fn nothing_that_an_agent_wrote_reaches_the_terminal_raw() {
        let renamed = |batch: &mut Batch| batch.tasks[0].phase_name = "Phase 1: a\x1b[2J\u{202e}b\nc".into();
        let scene = Scene::with("1", renamed, "0 offer 1\n9 fail 1 \x1b]0;owned\x07");
        let text = told(&scene);
        assert!(!text.contains(['\x1b', '\u{202e}', '\x07']), "{text:?}");
        assert!(text.contains("Phase 1: a\\u{1b}[2J\\u{202e}b c"), "{text}");
    }

    #[test]
    fn a_large_batch_lists_what_failed_and_counts_the_rest() {
        let graph: Vec<String> = (0..1000).map(|n| format!("t{n}")).collect();
        let scene =
            Scene::of(&graph.join(";"), "0 done t1 claimed\n0 done t2 claimed\n0 offer t3\n9 fail t3 silent");
        let text = told(&scene);
        assert!(text.lines().count() < 250, "{text}");
        check_says(&text, &["✗ Phase t3: Work t3: no heartbeat for 60s"]);
    }
}
