//! A rehearsal as people read it. However large the plan, it stays a page or two: what is left out is counted.

use std::collections::HashSet;

use crate::model::TaskKey;
use crate::model::state::BatchState;
use crate::outcome::timeline::timeline_text;
use crate::view::escape::{fit, one_line, width};
use crate::view::waiting::label;
use crate::view::words::{counted, grouped};

use super::advice::span;
use super::{Facts, PathStep, Rehearsal};

/// How much of each list is shown.
const STAGES_MAX: usize = 40;
const LANES_MAX: usize = 40;
const LIST_MAX: usize = 20;
const PATH_MAX: usize = 24;
/// Title and axis stand above the lanes of a timeline.
const LINES_ABOVE_LANES: usize = 2;

/// The whole report, for a terminal so many columns wide.
pub fn text(rehearsal: &Rehearsal, facts: &Facts, columns: usize) -> String {
    let state = &rehearsal.state;
    let mut out = headline(facts);
    section(&mut out, "Stages", stages(facts));
    section(&mut out, "Timeline", timeline(rehearsal, facts, columns));
    let path = format!("Critical path, as it was taken ({})", span(facts.elapsed_seconds));
    section(&mut out, &path, critical_path(state, &facts.critical_path));
    section(&mut out, "Retries", retries(state, facts));
    section(&mut out, "Lost", lost(state, facts));
    section(&mut out, "Slots", vec![slots(facts)]);
    section(&mut out, "Watcher away", absences(facts));
    section(&mut out, "Advice", facts.advice.clone());
    out
}

fn section(out: &mut String, heading: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    out.push_str(&format!("\n{heading}\n"));
    for line in lines {
        out.push_str(&format!("  {}\n", one_line(line.trim_end())));
    }
}

fn headline(facts: &Facts) -> String {
    let plan = one_line(&facts.plan);
    let end = match facts.status {
        Some(status) => format!("would end as {status} after {}", span(facts.elapsed_seconds)),
        None => format!("would not end: after {} nothing more happens", span(facts.elapsed_seconds)),
    };
    let waiting = facts.task_count - facts.succeeded - facts.failed - facts.skipped;
    let parts = [(facts.failed, "failed"), (facts.skipped, "skipped"), (waiting, "waiting")];
    let mut counts =
        format!("{} of {} succeeded", grouped(facts.succeeded), counted(facts.task_count, "task"));
    for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
        counts.push_str(&format!(", {} {what}", grouped(*count)));
    }
    let vain = match facts.in_vain_seconds > 0.0 {
        true => format!(", {} of it in vain", span(facts.in_vain_seconds)),
        false => String::new(),
    };
    let work = span(facts.worked_seconds);
    format!("Rehearsal of {plan}: {end}\n{counts}; {work} of work{vain}\n")
}

fn stages(facts: &Facts) -> Vec<String> {
    let rows = facts.stages.iter().map(|stage| {
        let when = match (stage.start_seconds, stage.end_seconds) {
            (Some(start), Some(end)) => format!("{} → {}", span(start), span(end)),
            (Some(start), None) => format!("{} → …", span(start)),
            (None, _) => "never began".to_owned(),
        };
        let done = format!("{} of {} succeeded", grouped(stage.succeeded), counted(stage.task_count, "task"));
        vec![format!("Stage {}", stage.stage), when, done]
    });
    shortened(aligned(rows.collect()), STAGES_MAX, "stage")
}

/// The drawing of `wk report BATCH timeline`, cut down to the lanes that tell most.
fn timeline(rehearsal: &Rehearsal, facts: &Facts, columns: usize) -> Vec<String> {
    let state = &rehearsal.state;
    let last = rehearsal.entries.last().map_or(state.accepted_at, |last| last.at);
    let drawn = timeline_text(state, last, columns.saturating_sub(2));
    let mut lines: Vec<String> = drawn.lines().map(str::to_owned).collect();
    let count = state.tasks.len();
    if count > LANES_MAX {
        let critical = facts.critical_path.iter().map(|step| &step.task);
        let telling: Vec<&TaskKey> = critical.chain(facts.lost.iter().map(|loss| &loss.task)).collect();
        let told = telling.into_iter().chain(state.tasks.iter().map(|task| &task.spec.key));
        let mut kept: HashSet<usize> = HashSet::new();
        for task in told.filter_map(|key| state.find_key(key)) {
            if kept.len() == LANES_MAX {
                break;
            }
            kept.insert(task);
        }
        let is_kept = |line: usize| {
            let lane = line.checked_sub(LINES_ABOVE_LANES).filter(|lane| *lane < count);
            lane.is_none_or(|lane| kept.contains(&lane))
        };
        let numbered = lines.into_iter().enumerate().filter(|(line, _)| is_kept(*line));
        lines = numbered.map(|(_, line)| line).collect();
        lines.insert(lines.len() - 1, format!("… {} more tasks", grouped(count - LANES_MAX)));
    }
    // The section has its own heading.
    lines.remove(0);
    lines
}

fn critical_path(state: &BatchState, path: &[PathStep]) -> Vec<String> {
    let rows = path.iter().map(|step| {
        let attempt = if step.attempt > 1 { format!(" (attempt {})", step.attempt) } else { String::new() };
        let name = format!("{}{attempt}", label(state, &step.task));
        let when = format!("{} → {}", span(step.from_seconds), span(step.to_seconds));
        let waited = match step.waited_for {
            "slot" => "began when a slot was free",
            "file" => "began when its file was free",
            "retry_delay" => "began after the retry delay",
            _ => "",
        };
        let vain = step.failed_because.as_ref().map(|why| format!("in vain: {why}"));
        let notes: Vec<String> =
            vain.into_iter().chain((!waited.is_empty()).then(|| waited.to_owned())).collect();
        vec![name, when, notes.join("; ")]
    });
    shortened(aligned(rows.collect()), PATH_MAX, "step")
}

fn retries(state: &BatchState, facts: &Facts) -> Vec<String> {
    let rows = facts.retries.iter().map(|retry| {
        let name = format!("{} (attempt {})", label(state, &retry.task), retry.attempt);
        vec![name, format!("at {}", span(retry.at_seconds)), retry.reason.clone()]
    });
    shortened(aligned(rows.collect()), LIST_MAX, "retry")
}

fn lost(state: &BatchState, facts: &Facts) -> Vec<String> {
    let rows = facts.lost.iter().map(|loss| {
        let tries = match loss.attempts {
            0 => "never began".to_owned(),
            count => format!("after {}", counted(count, "attempt")),
        };
        vec![label(state, &loss.task).to_owned(), loss.status.to_owned(), tries, loss.reason.clone()]
    });
    shortened(aligned(rows.collect()), LIST_MAX, "task")
}

fn slots(facts: &Facts) -> String {
    let slots = &facts.slots;
    let peak = grouped(slots.peak);
    match (slots.limit, slots.busy) {
        (Some(limit), Some(busy)) => {
            let percent = (busy * 100.0).round();
            format!(
                "{} at once, {peak} at most were used, busy {percent}% of the time",
                counted(limit, "slot")
            )
        }
        (Some(limit), None) => format!("{} at once, {peak} at most were used", counted(limit, "slot")),
        (None, _) => format!("no limit; at most {} out at once", counted(slots.peak, "attempt")),
    }
}

fn absences(facts: &Facts) -> Vec<String> {
    let told = facts.watcher_away.iter().map(|away| {
        let (from, to) = (span(away.from_seconds), span(away.to_seconds));
        let running = counted(away.running, "attempt");
        let were = if away.found == 1 { "was" } else { "were" };
        let found = format!("{} ended meanwhile and {were} found afterwards", away.found);
        let lost = match away.lost {
            0 => "nothing was lost by it".to_owned(),
            lost => format!("{} lost by it", counted(lost, "attempt")),
        };
        format!("{from} → {to}: {running} went on, {found}; {lost}")
    });
    told.collect()
}

/// Columns that line up; the last one is as long as it is.
fn aligned(rows: Vec<Vec<String>>) -> Vec<String> {
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let cell = width(&one_line(cell));
            match widths.get_mut(column) {
                Some(widest) => *widest = cell.max(*widest),
                None => widths.push(cell),
            }
        }
    }
    let line = |row: Vec<String>| {
        let last = row.len() - 1;
        let cells = row.iter().enumerate().map(|(column, cell)| match column == last {
            true => one_line(cell),
            false => fit(&one_line(cell), widths[column]),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.into_iter().map(line).collect()
}

/// Beginning and end of a long list, with what is left out counted.
fn shortened(mut lines: Vec<String>, most: usize, what: &str) -> Vec<String> {
    if lines.len() > most {
        let (head, tail) = (most * 3 / 4, most / 4);
        let left_out = lines.len() - head - tail;
        let more = match what {
            "retry" => "more retries".to_owned(),
            other => format!("more {other}s"),
        };
        lines.splice(head..lines.len() - tail, [format!("… {} {more}", grouped(left_out))]);
    }
    lines
}
